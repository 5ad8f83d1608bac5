"""Sweeps over the variables of a mixed space: points that differ from the best one in a single variable.

A search with discrete variables converges in all variables at once, and each of them keeps the value that was right
when it settled. Before such a run ends, other values of single variables are tried, near and far. The distribution does
not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, value_class
from sublevel.run.search_space import SearchSpace
from sublevel.run.termination import NAMES, Reason

SHARE = 0.2
"""Evaluations of a sweep, as a part of those of the run so far, at most."""
ROUNDS = 160
"""Other values of a variable that are tried, at most."""
STEPS = (0.01, 4.0)
"""Shortest and longest change of a real variable, in initial standard deviations."""
GOLDEN = 0.5 * (5**0.5 - 1)
"""Multiples of it, modulo 1, are evenly spread from the first ones on."""


@value_class
class Sweep:
    """How far a sweep has come, or how the last one of a run ended."""

    size: int = 0  # changes to try; 0 if none is in progress
    position: int = 0  # changes that were tried
    level: float = nan  # best value when it began or ended, whichever was last
    status: int = -1  # of the reason to end the run, unless a better point is found; −1 if there is none
    number: float = nan  # that decided it

    @classmethod
    def begin(cls, changes: Changes, spent: int, popsize: int, level: float, reason: Reason) -> Sweep:
        """A sweep around a point with value `level`, in generations of `popsize` points, after `spent` evaluations of a
        run that would end for this reason.
        """
        size = popsize * max(1, int(SHARE * spent / popsize))
        return cls(min(size, changes.total), 0, level, reason.status, reason.value)

    @property
    def is_active(self) -> bool:
        """Whether one is in progress."""
        return self.size > 0

    @property
    def reason(self) -> Reason | None:
        """The reason to end the run, if there is one; a sweep in progress may still find a better point."""
        return None if self.is_active or self.status < 0 else Reason(NAMES[self.status], self.number)

    def after(self, position: int, level: float, tolerance: float) -> Sweep:
        """The sweep after a generation, given the best value so far, which is better if it is lower by more than
        `tolerance`. After a better point there is no reason to end the run.
        """
        if position < self.size:
            return replace(self, position=position)
        return Sweep(level=level) if self.level - level > tolerance else replace(self, size=0, position=0, level=level)


@value_class
class Changes:
    """The changes of single variables, in rounds: round r tries the r-th other value of each variable that has one."""

    space: SearchSpace
    deviations: Array  # (k,), initial ones of the coordinates
    variables: NDArray[np.intp]  # (v,), by number
    counts: NDArray[np.intp]  # (v,), other values of each to try
    begins: NDArray[np.intp]  # (ROUNDS + 1,), number of the first change of each round, and of all

    @classmethod
    def of(cls, space: SearchSpace, deviations: Array) -> Changes:
        """All changes in a space whose search begins with these deviations (k,)."""
        lower, upper = space.box
        variables = np.flatnonzero(space.free | space.discrete)
        with np.errstate(invalid="ignore"):
            others = np.where(space.discrete, upper - lower, inf)[variables]
        counts = np.minimum(others, ROUNDS).astype(np.intp)
        left = counts.size - np.cumsum(np.bincount(counts, minlength=ROUNDS)[:ROUNDS])
        return cls(space, deviations, variables, counts, np.concatenate([[0], np.cumsum(left)]))

    @property
    def total(self) -> int:
        """Number of changes."""
        return int(self.begins[-1])

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
            steps = self._steps(x, r)
            ahead = space.shift(x, steps)
            other[space.free] = np.where(ahead == x, space.shift(x, -steps), ahead)[space.free]
        is_short = space.discrete & (upper - lower <= ROUNDS)
        other[is_short] = _other_integer(x[is_short], lower[is_short], upper[is_short], r)
        other[space.choices] = (x[space.choices] + r + 1) % space.categories
        return other

    def _steps(self, x: Array, r: int) -> Array:
        """Changes (k,) of the coordinates in round r: backwards and forwards in turn, of all lengths."""
        part, units = GOLDEN * (r // 2 + 0.5) % 1.0, self.space.units(x)
        shortest = np.maximum(STEPS[0] * self.deviations, units)
        longest = np.maximum(STEPS[1] * self.deviations, shortest)
        return (1.0 if r % 2 else -1.0) * shortest * (longest / shortest) ** part


def _other_integer(x: Array, lower: Array, upper: Array, r: int) -> Array:
    """The integers (m,) between bounds (m,) each that are, but for r others, nearest to x (m,) and not x."""
    shorter = np.minimum(x - lower, upper - x)  # values on the side that ends first
    is_beyond = r >= 2 * shorter
    distance = np.where(is_beyond, r + 1 - shorter, r // 2 + 1)
    upwards = np.where(is_beyond, upper - x >= x - lower, r % 2 == 1)
    return x + np.where(upwards, distance, -distance)
