"""Check that the objective of a resumed run is the original one.

One stored point is evaluated again. A deterministic objective returns the stored value, up to rounding. Otherwise the
point is evaluated once more: if both new values agree, the objective is another one; if they differ, it is noisy. With
noise, the values of a generation differ at least as much as repeated evaluations of a point, so the spread of a stored
generation limits the difference.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Arrivals, Evaluator, evaluate_all
from sublevel.evaluation.failures import Failures
from sublevel.store.errors import StoreError
from sublevel.store.file import File
from sublevel.store.samples import SampleForm, StoredPoints, Stretch

SAME = 1e-6
"""Relative difference that another machine or batch size may cause."""
CANCELLED = 1e-3
"""Difference, relative to the spread of a generation, that cancellation may cause in values near 0."""
ROUNDED = 1e-12
"""Difference, relative to the values of the first generation, that rounding may cause."""
TOO_FAR = 100.0
"""Difference, relative to the spread, that noise cannot explain."""
REMEDY = "Pass the original objective with the same `args`, or use check=False (--no-check) to continue with this one."


class Probe(NamedTuple):
    """A stored evaluation, with the scale of values and of their differences."""

    point: Array  # (d,)
    value: float
    spread: float  # largest minus smallest finite value of its generation
    size: float  # largest finite value of the first generation

    @property
    def tolerance(self) -> float:
        """Largest difference that rounding explains."""
        return max(SAME * abs(self.value), CANCELLED * self.spread, ROUNDED * self.size)


def choose_probe(file: File, last: int, form: SampleForm) -> Probe | None:
    """An evaluation with a finite value from the last generations; None if there is none."""
    stored = StoredPoints(file, form)
    for iteration in range(last, max(last - 10, 0), -1):
        parts, values = _stored_generation(stored, iteration)
        finite = np.flatnonzero(np.isfinite(values))
        if finite.size:
            _, first = _stored_generation(stored, 1)
            index, known = int(finite[-1]), first[np.isfinite(first)]
            spread = float(np.ptp(values[finite]))
            point = np.concatenate([part.points for part in parts])[index]
            return Probe(point, float(values[index]), spread, float(np.max(np.abs(known), initial=0.0)))
    return None


def _stored_generation(stored: StoredPoints, iteration: int) -> tuple[list[Stretch], Array]:
    """The evaluations of a generation and their values (m,)."""
    parts = [part for part in stored.stretches(iteration, iteration) if part.iteration == iteration]
    return parts, np.concatenate([np.empty(0), *(part.values for part in parts)])


@dataclass(slots=True)
class ProbingEvaluator:
    """An evaluator that first compares the objective with a stored value; StoreError if it is another objective."""

    inner: Evaluator
    probe: Probe
    failures: Failures
    path: Path
    constraints: int = 0  # constraint values k of an evaluation
    noise: bool = False  # the run knows that the objective is noisy
    is_done: bool = False

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in any order."""
        if not self.is_done:
            self.check()
            self.is_done = True
        yield from self.inner(points)

    def check(self) -> None:
        """Compare the objective with the stored value."""
        probe, first = self.probe, self.evaluate()
        if abs(first - probe.value) <= probe.tolerance:
            return
        second = self.evaluate()
        apart = min(abs(first - probe.value), abs(second - probe.value))
        observed = f"{self.path}: the objective now returns {first!r} at a point whose stored value is {probe.value!r}"
        if np.isnan(first) or np.isnan(second):
            warnings.warn(
                f"{observed} and then {second!r}, so it could not be compared with the original one.", stacklevel=2
            )
        elif first == second and not self.noise:
            raise StoreError(f"{observed}, twice: it is not the original objective. {REMEDY}")
        elif apart > TOO_FAR * max(probe.spread, abs(first - second)):
            raise StoreError(
                f"{observed} and then {second!r}. The values of a generation differ by only {probe.spread:.3g}, so "
                f"this is not noise: it is not the original objective. {REMEDY}"
            )
        elif apart > max(probe.spread, abs(first - second)):
            warnings.warn(
                f"{observed} and then {second!r}: it is noisy, and the difference exceeds that of the values of a "
                f"generation, {probe.spread:.3g}. It may not be the original objective. Pass check=False if it is.",
                stacklevel=2,
            )

    def evaluate(self) -> float:
        """The value at the stored point; NaN if it fails. Failures are not counted."""
        before = self.failures.copy()
        value = evaluate_all(self.inner, self.probe.point[None].copy(), self.constraints).ravel()[0]
        self.failures.counts, self.failures.last = before.counts, before.last
        return float(value)

    def close(self) -> None:
        """Release the workers."""
        self.inner.close()
