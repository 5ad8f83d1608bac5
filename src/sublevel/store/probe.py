"""Whether the objective that is given to a resumed run is the one that the run began with.

One stored point is evaluated again. A deterministic objective gives the stored value, up to rounding. If it does not, the point is
evaluated once more: the same value again is that of another objective. Values that differ are those of a noisy one; noise makes the values
of a generation differ from each other at least as much as repeated evaluations do, so the spread of a stored generation says how far off
they may be.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Arrivals, Evaluator, evaluate_all
from sublevel.evaluation.failures import Failures
from sublevel.store.errors import StoreError
from sublevel.store.file import File, Row
from sublevel.store.samples import SampleForm, StoredPoints

SAME = 1e-6
"""Relative difference of values that another machine, or another number of points at once, may make."""
CANCELLED = 1e-3
"""Difference, as a part of the spread of a generation, that changes nothing for the search: values near 0 may be sums that cancel."""
ROUNDED = 1e-12
"""Difference, as a part of the values of the first generation, that rounding may make."""
TOO_FAR = 100.0
"""Spreads by which a noisy objective cannot differ from a stored value."""
REMEDY = "Give the objective that the run began with, with the same `args`; or pass check=False to go on with this one (--no-check)."


class Probe(NamedTuple):
    """A stored evaluation, and how large values and their differences are."""

    point: Array  # (d,)
    value: float
    spread: float  # largest minus smallest finite value of its generation
    size: float  # largest finite value of the first generation

    @property
    def tolerance(self) -> float:
        """How far off the value may be for rounding."""
        return max(SAME * abs(self.value), CANCELLED * self.spread, ROUNDED * self.size)


def choose_probe(file: File, last: int, form: SampleForm) -> Probe | None:
    """An evaluation of the last generations that has a finite value; None if there is none."""
    for iteration in range(last, max(last - 10, 0), -1):
        rows, values = _stored_generation(file, iteration)
        finite = np.flatnonzero(np.isfinite(values))
        if finite.size:
            _, first = _stored_generation(file, 1)
            place, known = int(finite[-1]), first[np.isfinite(first)]
            spread = float(np.ptp(values[finite]))
            point = _stored_point(StoredPoints(file, form), rows, place)
            return Probe(point, float(values[place]), spread, float(np.max(np.abs(known), initial=0.0)))
    return None


def _stored_generation(file: File, iteration: int) -> tuple[list[Row], Array]:
    """The rows of a generation, and their values (m,)."""
    rows = list(file.rows("evaluations", "WHERE iteration = ? ORDER BY place", (iteration,)))
    return rows, np.frombuffer(b"".join(row[4] for row in rows))


def _stored_point(stored: StoredPoints, rows: list[Row], number: int) -> Array:
    """The point (d,) of one of the values of some rows."""
    for row in rows:
        count = len(row[4]) // 8
        if number < count:
            return stored.of_row(row)[number].copy()
        number -= count
    raise IndexError(number)


@dataclass(slots=True)
class ProbingEvaluator:
    """An evaluator that evaluates the stored point again before its first points, and raises if the objective is another one."""

    inner: Evaluator
    probe: Probe
    failures: Failures
    path: Path
    is_done: bool = field(default=False)

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in any order."""
        if not self.is_done:
            self.check()
            self.is_done = True
        yield from self.inner(points)

    def check(self) -> None:
        """Compare with what is stored."""
        probe, first = self.probe, self.evaluate()
        if abs(first - probe.value) <= probe.tolerance:
            return
        second = self.evaluate()
        apart = min(abs(first - probe.value), abs(second - probe.value))
        told = f"{self.path}: at a point where the run has the value {probe.value!r}, the objective now returns {first!r}"
        if np.isnan(first) or np.isnan(second):
            warnings.warn(f"{told} and {second!r}. Whether it is the one that the run began with is not known.", stacklevel=2)
        elif first == second:
            raise StoreError(f"{told}, twice: it is not the objective that the run began with. {REMEDY}")
        elif apart > TOO_FAR * max(probe.spread, abs(first - second)):
            raise StoreError(
                f"{told} and {second!r}. That is too far off for noise, because the values of a generation differ by {probe.spread:.3g}: "
                f"it is not the objective that the run began with. {REMEDY}"
            )
        elif apart > max(probe.spread, abs(first - second)):
            warnings.warn(
                f"{told} and {second!r}: it is noisy, and differs by more than the values of a generation, {probe.spread:.3g}. It may not "
                "be the objective that the run began with. Pass check=False if it is.",
                stacklevel=2,
            )

    def evaluate(self) -> float:
        """The value at the stored point; if that fails, it is NaN and not counted."""
        before = self.failures.copy()
        value = evaluate_all(self.inner, self.probe.point[None].copy())[0]
        self.failures.counts, self.failures.last = before.counts, before.last
        return float(value)

    def close(self) -> None:
        """End what works for it."""
        self.inner.close()
