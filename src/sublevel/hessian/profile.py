"""How far the quadratic holds: f along the principal directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import all_values
from sublevel.hessian.calls import Calls
from sublevel.summaries import counted
from sublevel.validation import as_numbers, as_positive, short_repr

STEPS = (0.5, 1.0, 2.0, 3.0)
"""Where f is looked at along a direction, in units of its standard deviation (of the step to a rise of 1/2, or of delta_f)."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """f along k principal directions, stiff to sloppy, at m steps to both sides.

    `ratios` is how much f rises against what the quadratic says: 1 where that holds, NaN outside of the bounds.
    """

    steps: Array  # (2m,), ascending, in units of the step that makes the quadratic rise by `unit`
    unit: float  # rise of the quadratic at one step
    values: Array  # (k, 2m), of f
    ratios: Array  # (k, 2m)
    holds: Array  # (k, 2), the farthest step to the left and to the right up to which every ratio is within the tolerance of 1
    tolerance: float
    nfev: int
    mainly: tuple[str, ...]  # what each direction is mainly made of

    def __str__(self) -> str:
        """A line for each direction."""
        lines = [f"rise of f / rise of the quadratic, at steps of which one makes it rise by {self.unit:.3g}"]
        lines.append(" ".join([" " * 9, *(f"{step:+8.3g}" for step in self.steps), "  holds within", f"{100 * self.tolerance:.3g} %"]))
        for i, (row, (left, right)) in enumerate(zip(self.ratios, self.holds, strict=True)):
            span = f"from {-left:+.3g} to {right:+.3g}" if left or right else "nowhere"
            lines.append(" ".join([f"{i + 1:>9}", *(f"{ratio:8.3f}" for ratio in row), f"  {span}  {self.mainly[i]}"]))
        return "\n".join(lines)

    def __repr__(self) -> str:
        """In one line."""
        return f"Profile({counted(len(self.mainly), 'direction')}, {counted(self.steps.size, 'step')}, {self.nfev} evaluations)"


def profiled(found: Any, calls: Calls, steps: Any, tolerance: float, mainly: tuple[str, ...]) -> Profile:
    """The profile of a curvature; directions along which f does not rise have NaN for ratios."""
    at, tolerance = _checked_steps(steps), as_positive("tolerance", tolerance)
    unit = found.unit_rise
    with np.errstate(invalid="ignore", divide="ignore"):
        lengths = np.sqrt(2.0 * unit / np.where(found.curvatures > 0, found.curvatures, np.nan))
    points = found.shifted(np.where(np.isnan(lengths), 0.0, lengths)[:, None, None] * at[:, None] * found.directions.T[:, None, :])
    inside = np.all((points >= found.box[0]) & (points <= found.box[1]), axis=-1) & ~np.isnan(lengths)[:, None]
    values = np.full(inside.shape, np.nan)
    asked = points[inside]
    with calls.open() as evaluate:
        values[inside] = all_values(evaluate, asked) if len(asked) else []
    ratios = (values - found.fun) / (unit * np.square(at))
    return Profile(at, unit, values, ratios, _holds(at, ratios, tolerance), tolerance, len(asked), mainly)


def _checked_steps(steps: Any) -> Array:
    """Steps to both sides (2m,), ascending."""
    positive = np.unique(as_numbers("steps", steps))
    if not np.all(positive > 0):
        raise ValueError(f"`steps` must be positive, got {short_repr(steps)}. They are taken to both sides.")
    return np.concatenate([-positive[::-1], positive])


def _holds(steps: Array, ratios: Array, tolerance: float) -> Array:
    """How far to the left and to the right (k, 2) all ratios (k, 2m) are within the tolerance of 1."""
    middle = steps.size // 2
    good = np.abs(ratios - 1.0) <= tolerance
    left = np.where(np.logical_and.accumulate(good[:, :middle][:, ::-1], axis=1), steps[middle:], 0.0)
    right = np.where(np.logical_and.accumulate(good[:, middle:], axis=1), steps[middle:], 0.0)
    return np.stack([left.max(axis=1, initial=0.0), right.max(axis=1, initial=0.0)], axis=1)
