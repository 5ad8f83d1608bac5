"""How far the quadratic holds: values of f along the principal directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import evaluate_all
from sublevel.hessian.calls import ObjectiveCalls
from sublevel.hessian.estimate import Estimate
from sublevel.hessian.report import main_parts
from sublevel.summaries import counted
from sublevel.validation import as_numbers, as_positive, short_repr

STEPS = (0.5, 1.0, 2.0, 3.0)
"""Default steps along a direction, in units of the step at which the quadratic rises by `unit_rise`."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """f along k principal directions, stiff to sloppy, at m steps to both sides.

    `ratios` is the rise of f divided by that of the quadratic: 1 where the quadratic holds, NaN outside the bounds.
    """

    steps: Array  # (2m,), ascending, in units of the step that makes the quadratic rise by `unit`
    unit: float  # rise of the quadratic at one step
    values: Array  # (k, 2m), of f
    ratios: Array  # (k, 2m)
    holds: Array  # (k, 2), the farthest steps left and right up to which every ratio is within the tolerance of 1
    tolerance: float
    nfev: int
    mainly: tuple[str, ...]  # the largest components of each direction

    def __str__(self) -> str:
        """A line for each direction."""
        steps = " ".join(f"{step:+8.3g}" for step in self.steps)
        lines = [
            f"rise of f / rise of the quadratic, at steps of which one makes it rise by {self.unit:.3g}",
            f"{' ' * 9} {steps}   holds within {100 * self.tolerance:.3g} %",
        ]
        for i, (row, (left, right)) in enumerate(zip(self.ratios, self.holds, strict=True)):
            span = f"from {-left:+.3g} to {right:+.3g}" if left or right else "nowhere"
            lines.append(" ".join([f"{i + 1:>9}", *(f"{ratio:8.3f}" for ratio in row), f"  {span}  {self.mainly[i]}"]))
        return "\n".join(lines)

    def __repr__(self) -> str:
        """One line."""
        directions, steps = counted(len(self.mainly), "direction"), counted(self.steps.size, "step")
        return f"Profile({directions}, {steps}, {self.nfev} evaluations)"


def evaluate_profile(found: Estimate, calls: ObjectiveCalls, steps: ArrayLike, tolerance: float) -> Profile:
    """The profile of a curvature; ratios are NaN along directions in which f does not rise."""
    at, tolerance = _both_sides(steps), as_positive("tolerance", tolerance)
    unit = found.unit_rise
    with np.errstate(invalid="ignore", divide="ignore"):
        lengths = np.sqrt(2.0 * unit / np.where(found.curvatures > 0, found.curvatures, np.nan))
    offsets = np.nan_to_num(lengths, posinf=np.inf)[:, None, None] * at[:, None]
    points = found.shift(offsets * found.directions.T[:, None, :])
    inside = np.all((points >= found.box[0]) & (points <= found.box[1]), axis=-1) & ~np.isnan(lengths)[:, None]
    values = np.full(inside.shape, np.nan)
    requested = points[inside]
    with calls.open() as evaluate:
        values[inside] = evaluate_all(evaluate, requested) if len(requested) else []
    ratios = (values - found.fun) / (unit * np.square(at))
    mainly = tuple(main_parts(found, i) for i in range(len(lengths)))
    return Profile(at, unit, values, ratios, _holds(at, ratios, tolerance), tolerance, len(requested), mainly)


def _both_sides(steps: ArrayLike) -> Array:
    """Steps to both sides (2m,), ascending."""
    positive = np.unique(as_numbers("steps", steps))
    if not np.all(positive > 0):
        raise ValueError(f"`steps` must be positive, got {short_repr(steps)}. Steps are taken to both sides.")
    return np.concatenate([-positive[::-1], positive])


def _holds(steps: Array, ratios: Array, tolerance: float) -> Array:
    """How far to the left and to the right (k, 2) all ratios (k, 2m) are within the tolerance of 1."""
    middle = steps.size // 2
    good = np.abs(ratios - 1.0) <= tolerance
    left = np.where(np.logical_and.accumulate(good[:, :middle][:, ::-1], axis=1), steps[middle:], 0.0)
    right = np.where(np.logical_and.accumulate(good[:, middle:], axis=1), steps[middle:], 0.0)
    return np.stack([left.max(axis=1, initial=0.0), right.max(axis=1, initial=0.0)], axis=1)
