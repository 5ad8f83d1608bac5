"""Where to begin, given points and values from before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.evaluation.values import as_values
from sublevel.run.search_space import exp_where, log_where
from sublevel.validation import as_numbers, short_repr

LARGEST_MATRIX = 10_000
"""Variables of which correlations are computed at most: 800 MB."""


class Beginning(NamedTuple):
    """A search distribution to begin with, as `minimize` and `Optimizer` take it."""

    x0: Array  # (d,)
    sigma0: Array  # (d,), standard deviations
    cov0: Array | None  # (d, d), correlations; None if they were not wanted


def warm_start(
    points: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float = 0.1,
    alpha: float = 0.1,
    log_scaled: ArrayLike = False,
    correlations: bool = True,
) -> Beginning:
    """The distribution of the best `gamma` of points (n, d) by their values (n,), widened by `alpha` of the range of
    each variable.

    WS-CMA-ES (Nomura et al., AAAI 2021, arXiv:2012.06932) measures `alpha` in units of a box [0, 1]ᵈ; here that is the
    box around the points, so that units do not matter. Variables that are `log_scaled` are looked at by their
    logarithm. Failed values (NaN, +inf) do not count. Values from another, similar problem will do. Without
    `correlations`, `cov0` is None, as suits many variables and the methods "sep-…" and "iso-…".

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
            f"correlations of {deviations.size} variables are a matrix too large to begin with; pass "
            "correlations=False, and search with a method such as 'sep-cma'."
        )
    cov = spread.T @ spread / len(spread) + alpha**2 * np.eye(deviations.size)
    correlations = cov / deviations / deviations[:, None]
    np.fill_diagonal(correlations, 1.0)
    return correlations
