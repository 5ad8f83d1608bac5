"""The true evaluations that a model is fitted to. Their values are only compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, value_class


@value_class
class Archive:
    """The last true evaluations of a run, in the order of their arrival."""

    x: Array  # (n, d), search points
    values: Array  # (n,)

    @classmethod
    def empty(cls, d: int) -> Archive:
        """An archive without evaluations."""
        return cls(np.empty((0, d)), np.empty(0))

    @property
    def size(self) -> int:
        """The number of evaluations."""
        return len(self.values)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which evaluations (n,) did not fail: those with a value below +inf."""
        return self.values < np.inf

    def take(self, which: NDArray[np.bool_]) -> Archive:
        """The evaluations that are marked (n,)."""
        return self if which.all() else Archive(self.x[which], self.values[which])

    def add(self, x: Array, values: Array, capacity: int) -> Archive:
        """The archive with further search points (k, d) and their values (k,); the oldest are dropped."""
        points, numbers = np.concatenate([self.x, x]), np.concatenate([self.values, values])
        return Archive(points[-capacity:].copy(), numbers[-capacity:].copy())


def dense_ranks(values: Array) -> NDArray[np.intp]:
    """Ranks (n,) of values, the lowest is 0; equal values have equal ranks, and NaN is one value above +inf."""
    return np.unique(values, return_inverse=True)[1]


def concordance(ranks: NDArray[np.intp], predicted: Array, first_new: int = 0) -> float:
    """Kendall's τ of ranks (n,) and predicted values (n,), over the pairs with different ranks of which at least one
    point has an index of `first_new` or more; 0 if there is no such pair.
    """
    truth = np.sign(ranks[first_new:, None] - ranks[None, :])
    model = np.sign(predicted[first_new:, None] - predicted[None, :])
    counts = np.ones(truth.shape)
    counts[:, first_new:] = 0.5  # a pair of new points occurs twice
    untied = float(np.sum(counts * np.abs(truth)))
    return float(np.sum(counts * truth * model)) / untied if untied else 0.0
