"""Predictions for the stochastic algorithm on a quadratic: final Cond(CA), stability, linear rate, matched rates.

All functions take arrays, which are broadcast against each other, and need one to three seconds for each element.
Results are kept, so that a second function of the same setting is free. docs/studies/predictions.md compares them with
runs; `CAVEAT` says where they are not to be relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.paper.theory.stationary import OVERESTIMATE, Stability, StationaryLaw, stationary_law

SLOWEST = 1e-3
"""The smallest c_C that is considered."""
TOLERANCE = 0.01
"""Relative precision of the rates c_C that are searched for."""
CAVEAT = (
    f"For d = 2 and n ≤ 10 the tail of ‖m‖² is heavy: final Cond(CA) is predicted {100 * OVERESTIMATE[0]:.0f} to "
    f"{100 * OVERESTIMATE[1]:.0f} % too high and the rate 5 to 23 % too small. The largest stable c_C is an "
    "approximation and no bound: too low for few variables, up to 8 % too high for d = 20 to 40."
)
"""What predictions do not tell, as `sublevel study predictions` prints it."""
UNSTABLE = 3.0
"""Stands for the logarithm of a ratio to what is wanted, where there is no law."""


def final_condition(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike, sampling: str = "independent") -> Array:
    """The mean of Cond(CA) that the stochastic NGD algorithm settles at.

    Parameters
    ----------
    d, n : array_like of int
        Dimension, at least 2, and sample size, at least 2.
    c_cov : array_like of float
        Learning rate c_C of the covariance, in (0, 1].
    sampling : {"independent", "orthogonal", "mirrored", "mirrored-orthogonal"}, optional
        Dependence of the points of a sample, as for `sl.ngd`.

    Returns
    -------
    ndarray
        E[Cond(CA)], inf where the algorithm is unstable, and NaN where that is not determined.

    Notes
    -----
    Within 3 % of runs for 3 ≤ d ≤ 40, and for d = 2, n ≥ 20. For d = 2, n ≤ 10 it is 8 to 93 % too high: the tail of
    ‖m‖² is heavy, and its second moment, which the law is determined by, says little about the usual m. For n = 6,
    c_C = 0.2 it is 2.12, and runs have 1.68.

    Examples
    --------
    >>> final_condition(5, 25, [0.1, 1.0]).round(1)
    array([1.5, 5.4])
    """
    return _each_law(lambda law: law.condition, d, n, c_cov, sampling)


def is_stable(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike, sampling: str = "independent") -> NDArray[np.bool_]:
    """Whether C shrinks no faster than m converges, so that there is a stationary law.

    Parameters
    ----------
    d, n, c_cov, sampling
        As for `final_condition`.

    Returns
    -------
    ndarray of bool
        False where the mean is left behind: its distance in units of C grows without bound.

    Raises
    ------
    RuntimeError
        If that is not determined for some of the settings; `stability` says for which.

    Examples
    --------
    >>> is_stable(5, [5, 25], 1.0)
    array([False,  True])
    """
    found = stability(d, n, c_cov, sampling)
    unknown = int(np.count_nonzero(found == Stability.NOT_DETERMINED))
    if unknown:
        raise RuntimeError(
            f"whether NGD is stable is not determined for {unknown} of {np.size(found)} settings: the iteration for "
            "the law does not converge. `stability` has the outcome of each."
        )
    return np.asarray(found == Stability.STABLE)[()]


def stability(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike, sampling: str = "independent") -> NDArray[np.str_]:
    """Whether there is a stationary law, with a third outcome.

    Parameters
    ----------
    d, n, c_cov, sampling
        As for `final_condition`.

    Returns
    -------
    ndarray of str
        "stable", "unstable", or "not determined" if the iteration for the law does not converge.

    Examples
    --------
    >>> stability(5, 25, 1.0)
    np.str_('stable')
    """
    return np.asarray(_each_law(lambda law: str(law.stability), d, n, c_cov, sampling), dtype=np.str_)[()]


@dataclass(frozen=True, slots=True)
class Rate:
    """The linear rate of convergence of C, and of f on average."""

    exponent: Array  # mean change of log det(C)/d in an iteration, the Lyapunov exponent of C; NaN without a law
    error: Array  # standard error of the exponent as it is computed here
    spread: Array  # standard deviation of that change: after t iterations log det(C)/d is t·exponent ± √t·spread


def convergence_rate(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike, sampling: str = "independent") -> Rate:
    """The linear rate at which the stochastic NGD algorithm converges.

    Parameters
    ----------
    d, n, c_cov, sampling
        As for `final_condition`.

    Returns
    -------
    Rate
        `exponent`, with its `error`, is the mean change of log det(C)/d in an iteration, and after the initial phase
        also that of log E[f]; `spread` is the standard deviation of the change in an iteration.

    Notes
    -----
    Within 2 % of runs where `final_condition` is precise; 5 to 23 % too small for d = 2, n ≤ 10.

    Examples
    --------
    >>> convergence_rate(5, 25, 1.0).exponent.round(1)
    np.float64(-0.2)
    """
    names = ("exponent", "error", "spread")
    return Rate(*(_each_law(lambda law, name=name: getattr(law, name), d, n, c_cov, sampling) for name in names))


def stability_limit(d: ArrayLike, n: ArrayLike, sampling: str = "independent") -> Array:
    """The largest c_C for which a stationary law is found.

    Parameters
    ----------
    d, n, sampling
        As for `final_condition`.

    Returns
    -------
    ndarray
        A rate in (0, 1], inf where every c_C ≤ 1 is stable, and 0 where no rate above 0.001 is.

    Notes
    -----
    An approximation, not a bound. It is where the second moments of the mean no longer settle, with E[mmᵀ|C] of two
    terms; runs keep the mean for some larger c_C, because second moments are infinite before the mean is lost, while
    the two terms are too favourable for many variables. Against the c_C at which half of the runs lose the mean it is
    7 to 11 % too low for d = 5, between 4 % too low and 3 % too high for d = 10, and 2 to 8 % too high for d = 20
    and 40; for d = 8, n = 12 it is 0.80 (runs: 0.84 to 0.86), and for d = 2, n = 6 it is 0.6 (runs: above 0.97).

    Examples
    --------
    >>> stability_limit(5, 25)
    np.float64(inf)
    """

    def limit(size: int, count: int) -> float:
        return _limit(size, count, sampling)

    return _each(limit, d, n)


def matched_rate(d: ArrayLike, n: ArrayLike, method: Method | None = None) -> Array:
    """The c_C at which NGD converges as fast as another method with the same sample size.

    Parameters
    ----------
    d, n : array_like of int
        As for `final_condition`.
    method : Method, optional
        Any weights with learning rates; the rank-µ CMA-ES of section 4.2 of the paper if None.

    Returns
    -------
    ndarray
        NaN where the other method is unstable, or faster than NGD can be at a stable c_C ≤ 1.

    Examples
    --------
    >>> matched_rate(5, 25).round(1)
    np.float64(0.7)
    """
    other = rank_mu() if method is None else method

    def matched(size: int, count: int) -> float:
        return _matched(size, count, other)

    return _each(matched, d, n)


@dataclass(frozen=True, slots=True)
class Setting:
    """A sample size and a rate, with what is predicted for them."""

    n: int
    c_cov: float
    condition: float  # E[Cond(CA)]
    evaluations: float  # for each factor e of f


def best_setting(
    d: int, condition: float, sizes: Sequence[int] | None = None, sampling: str = "independent"
) -> Setting:
    """The setting of NGD that needs the fewest evaluations, among those that settle at a final Cond(CA) ≤ `condition`.

    Parameters
    ----------
    d : int
        Dimension.
    condition : float
        The largest final Cond(CA) that is acceptable, above 1. Large values are close to the limit of stability.
    sizes : sequence of int, optional
        Sample sizes to choose from; powers of √2 from 4 to d² if None.
    sampling : {"independent", "orthogonal", "mirrored", "mirrored-orthogonal"}, optional
        Dependence of the points of a sample.

    Returns
    -------
    Setting
        Sample size, rate, and predictions for them.
    """
    if not condition > 1:
        raise ValueError(f"`condition` must be greater than 1, because Cond(CA) never reaches 1, got {condition!r}.")
    tried = [_setting(d, n, condition, sampling) for n in (default_sizes(d) if sizes is None else sizes)]
    found = [setting for setting in tried if setting is not None]
    if not found:
        raise ValueError(
            f"no sample size reaches a final Cond(CA) of {condition!r} at c_C ≥ {SLOWEST}. Pass larger `sizes`."
        )
    return min(found, key=lambda setting: setting.evaluations)


def default_sizes(d: int) -> list[int]:
    """Powers of √2 from 4 to d², or to 16."""
    steps = int(np.floor(2 * np.log2(max(d * d, 16)))) + 1
    return sorted({round(2 ** (k / 2)) for k in range(4, steps)})


def _law(d: int, n: int, c_cov: float, sampling: str = "independent") -> StationaryLaw:
    return stationary_law(ngd(c_cov=c_cov, sampling=sampling), d, n, c_cov)


@lru_cache(maxsize=1024)
def _limit(d: int, n: int, sampling: str) -> float:
    if _law(d, n, 1.0, sampling).is_stable:
        return float("inf")
    low, high = 0.7, 1.0
    while not _law(d, n, low, sampling).is_stable:
        low, high = 0.7 * low, low
        if low < SLOWEST:
            return 0.0
    while high / low > 1 + TOLERANCE:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if _law(d, n, middle, sampling).is_stable else (low, middle)
    return float(np.sqrt(low * high))


def _matched(d: int, n: int, method: Method) -> float:
    wanted = stationary_law(method, d, n)
    return _rate_where(lambda law: law.exponent / wanted.exponent, d, n) if wanted.is_stable else float("nan")


def _setting(d: int, n: int, condition: float, sampling: str) -> Setting | None:
    """The setting with this final Cond(CA), or with c_C = 1; None if Cond(CA) is larger at every rate."""
    if _law(d, n, 1.0, sampling).condition <= condition:
        rate = 1.0
    else:
        rate = _rate_where(lambda law: (law.condition - 1) / (condition - 1), d, n, sampling)
    if np.isnan(rate):
        return None
    law = _law(d, n, rate, sampling)
    return Setting(n, rate, law.condition, n / -law.exponent)


def _rate_where(increasing: Callable[[StationaryLaw], float], d: int, n: int, sampling: str = "independent") -> float:
    """The stable c_C at which a function of the law, increasing with c_C, is 1; NaN if there is none."""

    def height(log_rate: float) -> float:
        law = _law(d, n, float(np.exp(log_rate)), sampling)
        return float(np.log(increasing(law))) if law.is_stable else UNSTABLE

    low, high = float(np.log(SLOWEST)), 0.0
    if height(low) > 0 or height(high) < 0:
        return float("nan")
    root = float(brentq(height, low, high, xtol=TOLERANCE))
    return float(np.exp(root)) if height(root) < UNSTABLE else float("nan")


def _each_law(
    read: Callable[[StationaryLaw], float | str], d: ArrayLike, n: ArrayLike, c_cov: ArrayLike, sampling: str
) -> Array:
    def number(size: int, count: int, rate: float) -> float | str:
        return read(_law(size, count, rate, sampling))

    return _each(number, d, n, c_cov)


def _each(function: Callable[..., float | str], d: ArrayLike, n: ArrayLike, *rates: ArrayLike) -> Array:
    """The function of whole numbers d and n, and rates, for each element of the arrays broadcast against each other."""
    _check("d", d)
    _check("n", n)
    for rate in rates:
        if not np.all((np.asarray(rate) > 0) & (np.asarray(rate) <= 1)):
            raise ValueError(f"`c_cov` must lie in (0, 1], got {rate!r}.")
    arrays = np.broadcast_arrays(np.asarray(d, dtype=np.int64), np.asarray(n, dtype=np.int64), *rates)
    flat = zip(*(array.ravel().tolist() for array in arrays), strict=True)
    return np.array([function(*element) for element in flat]).reshape(arrays[0].shape)[()]


def _check(name: str, given: ArrayLike) -> None:
    """Raise an error unless all numbers are whole and at least 2."""
    numbers = np.asarray(given, dtype=np.float64)
    if not np.all((numbers >= 2) & (numbers == np.floor(numbers))):
        raise ValueError(f"`{name}` must contain whole numbers of at least 2, got {given!r}.")
