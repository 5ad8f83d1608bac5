"""The ranking of the values of a sample. A search uses f only through rankings.

Equal values are ties. NaN equals NaN and is worse than +inf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Mask, PerTrial, value_class

FEW = 64
"""Number of values up to which a Python set finds ties faster than NumPy."""


@value_class
class Ranking:
    """The order of points from best to worst, and their ties."""

    order: NDArray[np.intp]  # (..., n), indices from best to worst
    tie_ends: NDArray[np.bool_] | None  # (..., n), in that order: the last of each group of ties; None without ties
    best: PerTrial  # (...,), the best value, NaN if there is none

    @property
    def is_flat(self) -> Mask:
        """Whether all values are equal (...)."""
        if self.tie_ends is None:
            return np.zeros(self.best.shape, dtype=np.bool_)[()]
        return ~self.tie_ends[..., :-1].any(axis=-1)

    @property
    def has_direction(self) -> Mask:
        """Whether the values determine a direction (...): at least one is finite or −inf, and not all are equal."""
        usable = self.best < np.inf
        return usable if self.tie_ends is None else usable & ~self.is_flat

    def sort(self, per_point: Array) -> Array:
        """Sort one number per point (..., n) from best to worst."""
        return per_point[self.order] if self.order.ndim == 1 else np.take_along_axis(per_point, self.order, axis=-1)

    def unsort(self, per_rank: Array) -> Array:
        """Undo `sort`: numbers from best to worst (..., n), in the order of the points."""
        per_point = np.empty(self.order.shape)
        if self.order.ndim == 1:
            per_point[self.order] = per_rank
        else:
            np.put_along_axis(per_point, self.order, per_rank, axis=-1)
        return per_point

    def take_best(self, per_point: Array) -> PerTrial:
        """The number (...,) of the best point, from one number per point (..., n)."""
        if self.order.ndim == 1:
            return per_point[self.order[0]]
        return np.take_along_axis(per_point, self.order[..., :1], axis=-1)[..., 0]

    def equalize_ties(self, ascending: Array) -> Array:
        """Replace ascending numbers from best to worst (..., n) by that of the last of each group of ties.

        A number that belongs to the set {j : fⱼ ≤ fᵢ} is then the same for tied points i.
        """
        if self.tie_ends is None:
            return ascending
        last = np.where(self.tie_ends, ascending, np.inf)
        return np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]

    def assign_by_rank(self, by_rank: Array, average_ties: bool) -> Array:
        """Assign one number per rank (n,) to the points (..., n).

        Tied points get the number of the last of their ranks, or the average over their ranks.
        """
        order = self.order
        if self.tie_ends is None and order.ndim == 1:  # the most common case
            per_point = np.empty(order.size)
            per_point[order] = by_rank
            return per_point
        if self.tie_ends is None:
            return self.unsort(np.broadcast_to(by_rank, order.shape))
        ranks = np.broadcast_to(np.arange(by_rank.size, dtype=np.float64), self.order.shape)
        last = self.equalize_ties(ranks).astype(np.intp)
        return self.unsort(_averages(by_rank, last) if average_ties else by_rank[last])


def _averages(by_rank: Array, last: NDArray[np.intp]) -> Array:
    """The mean of `by_rank` (n,) over each tie group, given the last rank of the group of each point (..., n)."""
    sums = np.concatenate([[0.0], np.cumsum(by_rank)])
    opens = np.diff(last, axis=-1, prepend=-1) > 0  # the first of each group of ties
    first = np.maximum.accumulate(np.where(opens, np.arange(by_rank.size), 0), axis=-1)
    return (sums[last + 1] - sums[first]) / (last + 1 - first)


def ranking(values: Array) -> Ranking:
    """The ranking of f-values (..., n)."""
    order = values.argsort()  # along the last axis, NaN last
    if order.ndim == 1 and order.size <= FEW:
        numbers = values.tolist()
        worst = numbers[order.item(-1)]
        if len(set(numbers)) == order.size and worst == worst:  # no ties and no NaN
            return Ranking(order, None, values[order.item(0)])
    ascending = values[order] if values.ndim == 1 else np.take_along_axis(values, order, axis=-1)
    best = ascending[..., 0]
    rises = ascending[..., 1:] > ascending[..., :-1]
    if rises.all():
        return Ranking(order, None, best)
    order = values.argsort(axis=-1, kind="stable")  # ties in the order of the points
    is_nan = np.isnan(ascending)
    rises |= is_nan[..., 1:] & ~is_nan[..., :-1]  # NaN equals NaN and is worse than +inf
    if rises.all():
        return Ranking(order, None, best)
    tie_ends = np.concatenate([rises, np.ones_like(rises, shape=(*rises.shape[:-1], 1))], axis=-1)
    return Ranking(order, tie_ends, best)
