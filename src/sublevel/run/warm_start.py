"""An initial distribution from points and values that are already known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.evaluation.values import as_values
from sublevel.run.search_space import exp_where, log_where
from sublevel.validation import as_numbers, short_repr

LARGEST_MATRIX = 10_000
"""Maximum number of variables for correlations: 800 MB."""


class Beginning(NamedTuple):
    """A search distribution to begin with, as `minimize` and `Optimizer` take it."""

    x0: Array  # (d,)
    sigma0: Array  # (d,), standard deviations
    cov0: Array | None  # (d, d), correlations; None without `correlations`


def warm_start(
    points: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float = 0.1,
    alpha: float = 0.1,
    log_scaled: ArrayLike = False,
    correlations: bool = True,
) -> Beginning:
    """Initial distribution from the best of some evaluated points, also of a similar problem (WS-CMA-ES).

    Parameters
    ----------
    points : array_like, shape (n, d)
        Points, each variable with at least two different values.
    values : array_like, shape (n,)
        Their values. NaN and +inf are ignored.
    gamma : float, optional
        Fraction of the points that is used, the best ones.
    alpha : float, optional
        Standard deviation that is added to theirs, as a fraction of the range of each variable.
    log_scaled : bool or array_like of bool, optional
        Variables that are positive and used by their logarithm.
    correlations : bool, optional
        Whether to compute `cov0`. Pass False for many variables and the methods "sep-…" and "iso-…".

    Returns
    -------
    Beginning
        A named tuple ``(x0, sigma0, cov0)`` for `minimize` and `Optimizer`.

    References
    ----------
    M. Nomura et al., Warm Starting CMA-ES for Hyperparameter Optimization, AAAI 2021, arXiv:2012.06932, where `alpha`
    is in units of a box [0, 1]ᵈ; here it is in units of the box around the points.

    Examples
    --------
    >>> import numpy as np, sublevel as sl
    >>> tried = np.random.default_rng(1).uniform(-5, 5, (200, 3))
    >>> x0, sigma0, cov0 = sl.warm_start(tried, np.sum((tried - 2) ** 2, axis=1))
    >>> result = sl.minimize(lambda x: np.sum((x - 2.1) ** 2), x0, sigma0, cov0=cov0, ftarget=1e-8, rng=1)
    >>> result.success
    True
    """
    points = as_numbers("points", points)
    if points.ndim != 2 or len(points) < 2:
        raise ValueError(f"`points` must be two or more rows of variables, shape (n, d), got shape {points.shape}.")
    values = as_values(values, len(points))
    for name, share in (("gamma", gamma), ("alpha", alpha)):
        if not 0 < share <= 1:
            raise ValueError(f"`{name}` must lie in (0, 1], got {share!r}.")
    usable = np.flatnonzero(values < np.inf)  # leaves NaN out
    if not usable.size:
        raise ValueError(f"none of the {len(points)} `values` is usable, got {short_repr(values)}.")
    is_log = np.broadcast_to(np.asarray(log_scaled, dtype=bool), points.shape[1:])
    if np.any(points[:, is_log] <= 0):
        raise ValueError("a variable that is `log_scaled` must be positive in all `points`.")
    u = log_where(is_log, points)
    width = np.ptp(u, axis=0)
    if not np.all(width > 0):
        raise ValueError(
            f"every variable must vary over the `points`, but {np.flatnonzero(width <= 0).tolist()} are constant."
        )
    best = u[usable[np.argsort(values[usable], kind="stable")][: max(int(gamma * usable.size), 1)]]
    mean = best.mean(axis=0)
    spread = (best - mean) / width
    deviations = np.sqrt(np.sum(np.square(spread), axis=0) / len(best) + alpha**2)
    cov0 = _correlations(spread, alpha, deviations) if correlations else None
    return Beginning(exp_where(is_log, mean), width * deviations, cov0)


def _correlations(spread: Array, alpha: float, deviations: Array) -> Array:
    """Correlations (d, d) of the rows of `spread` (n, d), widened by alpha, with standard deviations (d,)."""
    if deviations.size > LARGEST_MATRIX:
        raise ValueError(
            f"correlations of {deviations.size} variables are a matrix that is too large; pass "
            "correlations=False, and search with a method such as 'sep-cma'."
        )
    cov = spread.T @ spread / len(spread) + alpha**2 * np.eye(deviations.size)
    correlations = cov / deviations / deviations[:, None]
    np.fill_diagonal(correlations, 1.0)
    return correlations
