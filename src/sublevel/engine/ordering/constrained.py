"""What the orderings of constrained points have in common.

A point is feasible if all its constraint values g are ≤ 0. A point with a NaN among its values is ranked last. Inside
the orderings the axis of the constraints is before that of the points: (..., m, n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.ordering.ranks import Ranking, ranking


def per_constraint(constraints: Array) -> Array:
    """Constraint values (..., n, m) as (..., m, n)."""
    return np.swapaxes(constraints, -1, -2)


def fair_ranks(numbers: Array) -> Array:
    """The rank of each number along the last axis (..., n), from 0; equal numbers get the average of their ranks."""
    return ranking(numbers).assign_by_rank(np.arange(numbers.shape[-1], dtype=np.float64), average_ties=True)


def normal_quantile(probabilities: Array) -> Array:
    """The quantile function of the standard normal distribution; SciPy's is imported when it is first used."""
    from scipy.special import ndtri

    return ndtri(probabilities)


def is_known(values: Array, constraints: Array) -> NDArray[np.bool_]:
    """Whether a point (..., n) has a value and all its constraint values, none of them NaN."""
    return ~(np.isnan(values) | np.isnan(constraints).any(axis=-1))


def rank_by(key: Array, values: Array, known: NDArray[np.bool_]) -> Ranking:
    """The ranking by a key (..., n), of known points first; `best` is the value of the first point, feasible or not."""
    ranks = ranking(np.where(known, key, np.nan))
    return Ranking(ranks.order, ranks.tie_ends, ranks.take_best(np.where(known, values, np.nan)))


def selected_mean(numbers: Array, ranks: Ranking, known: NDArray[np.bool_]) -> Array:
    """The mean (..., m) of numbers per constraint and point (..., m, n) over the better half of the points.

    The weights are ln(µ + 1/2) − ln(rank) as in recombination, so for affine constraints it is about the value at the
    new mean of CMA-ES. Points that are not known and numbers that are not finite are left out.
    """
    n = numbers.shape[-1]
    by_rank = np.maximum(np.log(n // 2 + 0.5) - np.log(np.arange(1.0, n + 1)), 0.0)
    weights = ranks.assign_by_rank(by_rank, average_ties=True)[..., None, :]
    usable = known[..., None, :] & np.isfinite(numbers)
    weights = np.where(usable, weights, 0.0)
    total = np.sum(weights, axis=-1)
    return np.sum(weights * np.where(usable, numbers, 0.0), axis=-1) / np.where(total > 0, total, 1.0)


def equality_constraints(residuals: Array, tolerance: float, *, two_sided: bool) -> Array:
    """Inequality constraints (..., n, m or 2m) for h(x) = 0, given residuals h (..., n, m): |h| − tolerance ≤ 0, or
    h − tolerance ≤ 0 and −h − tolerance ≤ 0.

    The second form is smooth at h = 0, which an augmented Lagrangian needs; the first one is enough for ranks.
    """
    if not two_sided:
        return np.abs(residuals) - tolerance
    return np.concatenate([residuals - tolerance, -residuals - tolerance], axis=-1)
