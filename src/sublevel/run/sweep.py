"""Sweeps over the variables: points that differ from the best one in a single variable.

A search with discrete variables converges in all variables at once, and each of them keeps the value that was right
when it settled. Before such a run ends, other values of single variables are tried, near and far. A restart strategy
may begin runs with such changes also where all variables are real. Neither the distribution nor what termination
depends on changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, value_class
from sublevel.run.search_space import SearchSpace

ROUNDS = 160
"""Other values of an integer or a choice that are tried, at most."""
LENGTHS = 480
"""Other values of a real variable that are tried. With 160, searches in 10 variables miss one value that is better."""
STEPS = (0.01, 4.0)
"""Shortest and longest change of a real variable, in initial standard deviations; the longest one of an integer."""
GOLDEN = 0.5 * (5**0.5 - 1)
"""Multiples of it, modulo 1, are evenly spread from the first ones on."""


@value_class
class Sweep:
    """How far a sweep has come, or where the last one of a run ended without a better point."""

    size: int = 0  # changes that will have been tried in the end; 0 if none is in progress
    position: int = 0  # changes that were tried
    level: float = nan  # best value when it began, and when it ended without a better one; NaN if one is due
    is_last: bool = False  # whether the points of the last generation were changes

    @classmethod
    def begin(cls, changes: Changes, allowed: float, popsize: int, level: float, tried: int = 0) -> Sweep:
        """A sweep around a point with value `level`, in generations of `popsize` points, of as many changes as are
        `allowed`, but one generation at least; after those that were `tried` already.
        """
        size = popsize * max(1, int(allowed / popsize))
        return cls(min(tried + size, changes.total), tried, level)

    @property
    def is_active(self) -> bool:
        """Whether one is in progress."""
        return self.size > 0

    @property
    def has_succeeded(self) -> bool:
        """Whether the last generation ended it with a better point."""
        return self.is_last and not self.is_active and isnan(self.level)

    def after(self, position: int, level: float, tolerance: float) -> Sweep:
        """The sweep after a generation, given the best value so far, which is better if it is lower by more than
        `tolerance`. Another one is due after a better point.
        """
        if position < self.size:
            return Sweep(self.size, position, self.level, True)
        return Sweep(level=nan if self.level - level > tolerance else level, is_last=True)

    def after_search(self) -> Sweep:
        """The same after a generation of the search."""
        return replace(self, is_last=False) if self.is_last else self


NEAR = 1e-4
"""Points are the same if no real variable differs by more than this, in initial standard deviations."""
RESOLVED = 3.0
"""The minima of two runs are the same if no real variable differs by more standard deviations of one that converged."""


@value_class
class Changes:
    """The changes of single variables, in rounds: round r tries the r-th other value of each variable that has one."""

    space: SearchSpace
    deviations: Array  # (k,), initial ones of the coordinates
    variables: NDArray[np.intp]  # (v,), by number
    counts: NDArray[np.intp]  # (v,), other values of each to try
    begins: NDArray[np.intp]  # (rounds + 1,), number of the first change of each round, and of all

    @classmethod
    def of(cls, space: SearchSpace, deviations: Array) -> Changes:
        """All changes in a space whose search begins with these deviations (k,)."""
        lower, upper = space.box
        variables = np.flatnonzero(space.free | space.discrete)
        with np.errstate(invalid="ignore"):
            others = np.where(space.discrete, np.minimum(upper - lower, ROUNDS), LENGTHS)[variables]
        counts = others.astype(np.intp)
        left = counts.size - np.cumsum(np.bincount(counts)[:-1])
        return cls(space, deviations, variables, counts, np.concatenate([[0], np.cumsum(left)]))

    @property
    def total(self) -> int:
        """Number of changes."""
        return int(self.begins[-1])

    def is_near(self, x: Array, other: Array, resolution: Array | None = None) -> bool:
        """Whether two points (d,) are the same but for the precision of a search, whose standard deviations (k,) are
        the `resolution` if it has converged.
        """
        gaps = self.space.distances(self.space.searched(x), other)
        discrete, judged = self.space.discrete, self.space.judged
        is_same = np.array_equal(x[discrete], other[discrete])
        limits = NEAR * self.deviations
        limits = limits if resolution is None else np.maximum(limits, RESOLVED * resolution)
        return is_same and bool(np.all(gaps[judged] <= limits[judged]))

    def next_points(
        self, x: Array, sweep: Sweep, n: int, is_allowed: Callable[[Array], NDArray[np.bool_]] | None
    ) -> tuple[Array, int]:
        """The next points (n, d) of a sweep around x (d,) that are allowed, and the number of changes that have been
        tried then. At the end, x takes the place of points that are missing.
        """
        position, found = sweep.position, np.empty((0, x.size))
        while len(found) < n and position < sweep.size:
            count = min(n - len(found), sweep.size - position)
            points = self.points(x, position, count)
            position += count
            found = np.concatenate([found, points if is_allowed is None else points[is_allowed(points.copy())]])
        return np.concatenate([found, np.tile(x, (n - len(found), 1))]), position

    def points(self, x: Array, first: int, count: int) -> Array:
        """The points (count, d) that differ from x (d,) by the changes from number `first` on."""
        numbers = np.arange(first, first + count)
        rounds = np.searchsorted(self.begins, numbers, side="right") - 1
        points = np.tile(x, (count, 1))
        for r in range(rounds[0], rounds[-1] + 1):
            rows = np.flatnonzero(rounds == r)
            chosen = np.flatnonzero(self.counts > r)[numbers[rows] - self.begins[r]]
            points[rows, self.variables[chosen]] = self._other_values(x, r)[self.variables[chosen]]
        return points

    def _other_values(self, x: Array, r: int) -> Array:
        """The r-th other value (d,) of each variable of x (d,)."""
        space, (lower, upper) = self.space, self.space.box
        other = x.copy()
        if space.free.any():
            part = GOLDEN * (r + 0.5) % 1.0
            length = STEPS[0] * (STEPS[1] / STEPS[0]) ** part * self.deviations
            other[space.free] = space.shift(x, length if r % 2 else -length)[space.free]
        integers = space.discrete
        integers[space.choices] = False
        near, far = integers & (upper - lower <= 2 * ROUNDS), integers & (upper - lower > 2 * ROUNDS)
        other[near] = _nearest_integers(x[near], lower[near], upper[near], r)
        if far.any():
            other[far] = _far_integers(x[far], lower[far], upper[far], r, self._reach(x)[far])
        other[space.choices] = (x[space.choices] + r + 1) % space.categories
        return other

    def _reach(self, x: Array) -> Array:
        """The longest change (d,) of integers of x (d,) within the bounds."""
        longest = STEPS[1] * self.deviations
        return np.maximum(np.abs(self.space.shift(x, longest) - x), np.abs(self.space.shift(x, -longest) - x))


def _nearest_integers(x: Array, lower: Array, upper: Array, r: int) -> Array:
    """The integers (m,) between bounds (m,) each that are, but for r others, nearest to x (m,) and not x."""
    shorter = np.minimum(x - lower, upper - x)  # values on the side that ends first
    is_beyond = r >= 2 * shorter
    distance = np.where(is_beyond, r + 1 - shorter, r // 2 + 1)
    upwards = np.where(is_beyond, upper - x >= x - lower, r % 2 == 1)
    return x + np.where(upwards, distance, -distance)


def _far_integers(x: Array, lower: Array, upper: Array, r: int, reach: Array) -> Array:
    """Integers (m,) between distant bounds (m,) each, below and above x (m,) in turn: the distances of all rounds
    differ, and their logarithms are evenly spread up to `reach` (m,) where they are longer than r.
    """
    longest = np.maximum(reach, ROUNDS)
    distance = np.maximum(r + 1, np.floor(longest ** (r / (ROUNDS - 1))))
    ahead, behind = (x + distance, x - distance) if r % 2 else (x - distance, x + distance)
    return np.where((ahead >= lower) & (ahead <= upper), ahead, behind)
