"""Predictions for the stochastic algorithm on a quadratic: final Cond(CA), stability, linear rate, matched rates.

All functions take arrays, which are broadcast against each other, and need one to three seconds for each element.
Results are kept, so that a second function of the same setting is free. docs/studies/predictions.md compares them with
runs.
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
from sublevel.paper.theory.stationary import StationaryLaw, stationary_law

SLOWEST = 1e-3
"""The smallest c_C that is considered."""
TOLERANCE = 0.01
"""Relative precision of the rates c_C that are searched for."""
UNSTABLE = 3.0
"""Stands for the logarithm of a ratio to what is wanted, where there is no law."""


def final_condition(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike) -> Array:
    """The mean of Cond(CA) that the stochastic NGD algorithm settles at.

    Parameters
    ----------
    d, n : array_like of int
        Dimension, at least 2, and sample size, at least 2.
    c_cov : array_like of float
        Learning rate c_C of the covariance, in (0, 1].

    Returns
    -------
    ndarray
        E[Cond(CA)], and inf where the algorithm is unstable.

    Examples
    --------
    >>> final_condition(5, 25, [0.1, 1.0]).round(1)
    array([1.5, 5.4])
    """
    return _each_law(lambda law: law.condition, d, n, c_cov)


def is_stable(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike) -> NDArray[np.bool_]:
    """Whether C shrinks no faster than m converges, so that there is a stationary law.

    Parameters
    ----------
    d, n, c_cov : array_like
        As for `final_condition`.

    Returns
    -------
    ndarray of bool
        False where the mean is left behind: its distance in units of C grows without bound.

    Examples
    --------
    >>> is_stable(5, [5, 25], 1.0)
    array([False,  True])
    """
    return _each_law(lambda law: law.is_stable, d, n, c_cov).astype(np.bool_)


@dataclass(frozen=True, slots=True)
class Rate:
    """The linear rate of convergence of C, and of f on average."""

    exponent: Array  # mean change of log det(C)/d in an iteration, the Lyapunov exponent of C; NaN if unstable
    error: Array  # standard error of the exponent as it is computed here
    spread: Array  # standard deviation of that change: after t iterations log det(C)/d is t·exponent ± √t·spread


def convergence_rate(d: ArrayLike, n: ArrayLike, c_cov: ArrayLike) -> Rate:
    """The linear rate at which the stochastic NGD algorithm converges.

    Parameters
    ----------
    d, n, c_cov : array_like
        As for `final_condition`.

    Returns
    -------
    Rate
        `exponent`, with its `error`, is the mean change of log det(C)/d in an iteration, and after the initial phase
        also that of log E[f]; `spread` is the standard deviation of the change in an iteration.

    Examples
    --------
    >>> convergence_rate(5, 25, 1.0).exponent.round(1)
    np.float64(-0.2)
    """
    names = ("exponent", "error", "spread")
    return Rate(*(_each_law(lambda law, name=name: getattr(law, name), d, n, c_cov) for name in names))


def stability_limit(d: ArrayLike, n: ArrayLike) -> Array:
    """The largest stable c_C.

    Parameters
    ----------
    d, n : array_like of int
        As for `final_condition`.

    Returns
    -------
    ndarray
        A rate in (0, 1], inf where every c_C ≤ 1 is stable, and 0 where no rate above 0.001 is.

    Examples
    --------
    >>> stability_limit(5, 25)
    np.float64(inf)
    """
    return _each(_limit, d, n)


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


def best_setting(d: int, condition: float, sizes: Sequence[int] | None = None) -> Setting:
    """The setting of NGD that needs the fewest evaluations, among those that settle at a final Cond(CA) ≤ `condition`.

    Parameters
    ----------
    d : int
        Dimension.
    condition : float
        The largest final Cond(CA) that is acceptable, above 1. Large values are close to the limit of stability.
    sizes : sequence of int, optional
        Sample sizes to choose from; powers of √2 from 4 to d² if None.

    Returns
    -------
    Setting
        Sample size, rate, and predictions for them.
    """
    if not condition > 1:
        raise ValueError(f"`condition` must be greater than 1, because Cond(CA) never reaches 1, got {condition!r}.")
    tried = [_setting(d, n, condition) for n in (default_sizes(d) if sizes is None else sizes)]
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


def _law(d: int, n: int, c_cov: float) -> StationaryLaw:
    return stationary_law(ngd(c_cov=c_cov), d, n, c_cov)


@lru_cache(maxsize=1024)
def _limit(d: int, n: int) -> float:
    if _law(d, n, 1.0).is_stable:
        return float("inf")
    low, high = 0.7, 1.0
    while not _law(d, n, low).is_stable:
        low, high = 0.7 * low, low
        if low < SLOWEST:
            return 0.0
    while high / low > 1 + TOLERANCE:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if _law(d, n, middle).is_stable else (low, middle)
    return float(np.sqrt(low * high))


def _matched(d: int, n: int, method: Method) -> float:
    wanted = stationary_law(method, d, n)
    return _rate_where(lambda law: law.exponent / wanted.exponent, d, n) if wanted.is_stable else float("nan")


def _setting(d: int, n: int, condition: float) -> Setting | None:
    """The setting with this final Cond(CA), or with c_C = 1; None if Cond(CA) is larger at every rate."""
    if _law(d, n, 1.0).condition <= condition:
        rate = 1.0
    else:
        rate = _rate_where(lambda law: (law.condition - 1) / (condition - 1), d, n)
    if np.isnan(rate):
        return None
    law = _law(d, n, rate)
    return Setting(n, rate, law.condition, n / -law.exponent)


def _rate_where(increasing: Callable[[StationaryLaw], float], d: int, n: int) -> float:
    """The stable c_C at which a function of the law, increasing with c_C, is 1; NaN if there is none."""

    def height(log_rate: float) -> float:
        law = _law(d, n, float(np.exp(log_rate)))
        return float(np.log(increasing(law))) if law.is_stable else UNSTABLE

    low, high = float(np.log(SLOWEST)), 0.0
    if height(low) > 0 or height(high) < 0:
        return float("nan")
    root = float(brentq(height, low, high, xtol=TOLERANCE))
    return float(np.exp(root)) if height(root) < UNSTABLE else float("nan")


def _each_law(read: Callable[[StationaryLaw], float], d: ArrayLike, n: ArrayLike, c_cov: ArrayLike) -> Array:
    def number(size: int, count: int, rate: float) -> float:
        return read(_law(size, count, rate))

    return _each(number, d, n, c_cov)


def _each(function: Callable[..., float], d: ArrayLike, n: ArrayLike, *rates: ArrayLike) -> Array:
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
