"""The answer of a search of a noisy objective: a central point of the search distribution, and the average of values
there that had no part in its choice.

The best value of a search is the luckiest one. A mean is determined by all values, and values that are evaluated at a
point after it was chosen are not biased by the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.families import Family
from sublevel.run.constraints import Constraints
from sublevel.run.initial import mean_of
from sublevel.run.search_space import SearchSpace, exp_where, log_where
from sublevel.run.state import Best, Lowest

SHARE, FEWEST, MOST = 0.05, 10, 100
"""Re-evaluations of the answer: this part of the evaluations of the search, within these limits.

With the largest number, the standard error is a tenth of the standard deviation of the noise.
"""
AVERAGED = 5
"""Points with the lowest values whose average is compared with the mean: a search that is far from the minimum has
evaluated better points than its mean."""
COMPARED = 3
"""Evaluations of each of the two. The average is the answer if all of its values are lower than those of the mean,
which happens in one of 20 runs if there is no difference.

Where noise prevails, the mean is far better; comparing averages of values would choose it less often there.
"""
EARLY = 100
"""Evaluations per variable of a run up to which the average is the answer unless all values of the mean are lower."""
COMPARISON = 2 * COMPARED + FEWEST
"""Evaluations after a generation from which answers are compared: enough for the usual estimate, too."""
LEAST = 2
"""Fewest re-evaluations from which an error can be estimated."""
RECENT = 20, 4, 4
"""Generations whose medians are averaged for the level of a run: so many at most, this part of the run if that is less
(a quarter), but so many at least.
"""
STEPS = (0.0, 0.5, 0.75, 0.875)
"""Where an answer is sought between the mean, 0, and a point that is known to be feasible, 1."""
RESERVED_TIME = 0.1
"""Part of `maxtime` that is left for the re-evaluations."""


def count_reevaluations(nfev: float, batch: int | None = None) -> int:
    """Re-evaluations after so many evaluations, a multiple of the `batch` if the objective needs one.

    >>> count_reevaluations(50), count_reevaluations(400), count_reevaluations(1e6)
    (10, 20, 100)
    """
    count = int(min(max(SHARE * nfev, FEWEST), MOST))
    return count if batch is None else -(-count // batch) * batch


def count_candidates(constraints: Constraints | None, batch: int | None = None, compares: bool = False) -> int:
    """Evaluations that look for a feasible answer, if constraint values are known from evaluations only, or that
    compare two answers.
    """
    if constraints is None or not constraints.parts:
        return 2 * COMPARED if compares else 0
    return len(STEPS) if batch is None else -(-len(STEPS) // batch) * batch


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer and its re-evaluations, of which those with the value NaN have failed."""

    x: Array  # (d,)
    values: Array  # (k,)
    constraint_values: Array  # (k, c)

    @property
    def valid(self) -> Array:
        """The values that are not NaN (m,)."""
        return self.values[~np.isnan(self.values)]

    @property
    def fun(self) -> float:
        """Average of the valid values; NaN if there are none. It does not depend on their order."""
        return average(self.valid.tolist())

    @property
    def error(self) -> float:
        """Standard error of the average; NaN if there are fewer than two valid values, or if one is infinite."""
        values, mean = self.valid.tolist(), self.fun
        if len(values) < LEAST or not isfinite(mean):
            return np.nan
        return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))

    @property
    def constraints(self) -> Array | None:
        """Averages (c,) of the constraint values; None if there are no valid ones."""
        rows = self.constraint_values[~np.isnan(self.values)]
        return read_only(np.array([average(column) for column in rows.T.tolist()])) if len(rows) else None


def average(values: Sequence[float]) -> float:
    """The mean of numbers, exactly if they are equal; NaN if there are none. It does not depend on their order."""
    if len(set(values)) < 2:
        return values[0] if values else np.nan
    return fsum(values) / len(values) if all(map(isfinite, values)) else float(np.mean(values))


def level_of(medians: Sequence[float]) -> float:
    """The level of a run with these medians of generations: their average over recent ones; NaN if none is finite.

    Unlike the best value it does not become lower by luck. It exceeds f at the mean, because the points of a generation
    lie around it.
    """
    most, part, least = RECENT
    recent = min(max(len(medians) // part, least), most)
    known = [median for median in medians[-recent:] if isfinite(median)]
    return fsum(known) / len(known) if known else np.nan


def better_of(one: Best, other: Best | None) -> Best:
    """The one with the smaller violation, then with the lower level; NaN is worst."""
    if other is None:
        return one
    keys = [(best.violation, np.inf if np.isnan(best.fun) else best.fun) for best in (one, other)]
    return other if keys[1] < keys[0] else one


def central_point(theta: Family, space: SearchSpace | None) -> Array:
    """The mean (d,) as a point of the user's space, with integers rounded and the most probable categories or bits."""
    return mean_of(theta, space) if theta.continuous else (theta.mean > 0.5).astype(np.float64)


def average_of_lowest(lowest: Lowest, space: SearchSpace | None) -> Array:
    """The average (d,) of points, by the logarithm of variables that are log-scaled."""
    if space is None:
        return np.mean(lowest.points, axis=0)
    logs = np.mean(log_where(space.log_scaled, lowest.points), axis=0)
    return np.clip(exp_where(space.log_scaled, logs), *space.box)


def is_lower(values: Array, others: Array) -> bool:
    """Whether all values (n,) are lower than all others (m,); not if one is NaN."""
    return bool(np.max(values) < np.min(others))


def prefers_average(lowest: Lowest, at_average: Array, at_mean: Array) -> bool:
    """Whether the average of the lowest points is the answer, given values (n,) there and at the mean.

    Early in a run it is, unless the mean is clearly better or a value is unknown; later, if it is clearly better.
    """
    if lowest.evaluations > EARLY * lowest.points.shape[-1]:
        return is_lower(at_average, at_mean)
    return not is_lower(at_mean, at_average) and not np.isnan([at_average, at_mean]).any()


def points_between(mean: Array, anchor: Array, space: SearchSpace | None) -> Array:
    """Points (s, d) from the mean (d,) towards a feasible point (d,)."""
    points = [mean if step == 0 else mean + step * (anchor - mean) for step in STEPS]
    return np.array(points if space is None else [space.nearest(point) for point in points])


class EvaluatedSample(NamedTuple):
    """A generation of n points."""

    points: Array  # (n, d), or the best one (1, d)
    values: Array  # (n,)
    squares: Array | None  # (n,), ‖z‖² of each
    constraints: Array | None  # (n, c), constraint values
    g: Array | None  # (n, m), inequalities

    @property
    def distances(self) -> Array:
        """Squared distances (n,) from the mean."""
        return np.zeros(len(self.points)) if self.squares is None else self.squares


def central_best(
    theta: Family,
    space: SearchSpace | None,
    constraints: Constraints | None,
    sampled: EvaluatedSample,
    level: float,
    before: Best,
    run: int,
) -> Best:
    """The answer of a run so far: its mean; with constraints, a central point that satisfies them. No value is used."""
    if sampled.constraints is not None and sampled.g is not None:
        return _central_feasible(sampled, sampled.constraints, sampled.g, level, before, run)
    mean = central_point(theta, space)
    if constraints is not None and constraints.kept:
        anchor = sampled.points[int(np.argmin(sampled.distances))]
        candidates = np.concatenate([points_between(mean, anchor, space), anchor[None]])
        mean = candidates[int(np.argmax(constraints.satisfied(candidates.copy())))]
    none = None if constraints is None else read_only(np.zeros(0))
    return Best(read_only(mean), level, run, constraints=none, lowest=_lowest_after(before, sampled, run))


def _lowest_after(before: Best, sampled: EvaluatedSample, run: int) -> Lowest | None:
    """The lowest points of a run after a generation; None if they are not needed. Another run begins without any."""
    lowest = before.lowest
    if lowest is None or len(sampled.points) != sampled.values.size:
        return lowest
    if before.run != run:
        lowest = Lowest.none(lowest.values.size, before.x)
    return lowest.after(sampled.points, sampled.values)


def _central_feasible(sampled: EvaluatedSample, values: Array, g: Array, level: float, before: Best, run: int) -> Best:
    """The feasible point of a generation that is nearest to the mean. If there is none, the one before, or the point
    with the smallest violation.
    """
    violations = np.max(g, axis=1, initial=0.0)
    violations = np.where(np.isnan(violations) | np.isnan(values).any(axis=1), np.inf, violations)
    i = int(np.lexsort((sampled.distances, violations))[0])
    is_worse = before.constraints is not None and before.run == run and before.violation < violations[i]
    if is_worse or violations[i] == np.inf:
        return Best(before.x, level, run, None, before.violation, before.constraints)
    x, found = sampled.points[i].copy(), values[i].copy()
    return Best(read_only(x), level, run, None, float(violations[i]), read_only(found))


@dataclass(slots=True)
class Ledger:
    """All re-evaluations of a search, also those of answers that a longer search replaced."""

    points: list[Array] = field(default_factory=list[Array])  # (d,) each, all different
    entries: list[Entry] = field(default_factory=list["Entry"])

    def count_before(self, nit: int) -> int:
        """Re-evaluations of answers that were found before the generation `nit`."""
        return sum(entry.nit < nit for entry in self.entries)

    def recall(self, nit: int, points: Array, first: int, rows: Array, known: NDArray[np.bool_]) -> None:
        """Fill in rows (n, 1 + c) of points (n, d), which have the places from `first` on, and mark them as known."""
        for entry in self.entries:
            i = entry.place - first
            if entry.nit == nit and 0 <= i < len(points) and np.array_equal(self.points[entry.point], points[i]):
                rows[i], known[i] = entry.row, True

    def add(self, nit: int, x: Array, place: int, row: Array, failure: tuple[str, str] | None) -> None:
        """Add a re-evaluation of the answer of generation `nit`."""
        point = next((i for i, other in enumerate(self.points) if np.array_equal(other, x)), len(self.points))
        if point == len(self.points):
            self.points.append(x.copy())
        self.entries.append(Entry(nit, point, place, row.copy(), failure))

    def estimate(self, nit: int) -> Estimate | None:
        """The estimate from the values at the answer of generation `nit`, in the order of their places."""
        found = sorted((e for e in self.entries if e.nit == nit and e.place >= 0), key=lambda entry: entry.place)
        if not found:
            return None
        rows = np.array([entry.row for entry in found])
        return Estimate(read_only(self.points[found[0].point].copy()), rows[:, 0], rows[:, 1:])


class Entry(NamedTuple):
    """One re-evaluation."""

    nit: int  # the generation whose answer it belongs to
    point: int  # index
    place: int  # among those of the answer; negative for candidates
    row: Array  # (1 + c,), value and constraint values, NaN if it failed
    failure: tuple[str, str] | None = None  # kind and detail
