"""When it is enough, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.method import Outcome

TOLX = 1e-11
"""A run has converged when every standard deviation is this fraction of its initial one."""
EFFECT = 0.2
"""A step of this many standard deviations changes a coordinate unless floats are too coarse: pycma's `noeffectcoord`."""

STANDSTILLS = {
    Outcome.FLAT: "flat",
    Outcome.FAILED: "all_failed",
    Outcome.UNSELECTIVE: "unselective",
    Outcome.REFUSED: "refused",
}
"""Why a generation took no step."""

PATIENCE = {"flat": 2, "refused": 2, "all_failed": 10, "unselective": 10, "one_point": 10}
"""Generations in a row without a step, for the same reason, that end a run: more where a fresh sample may help."""

MESSAGES = {
    "ftarget": "the target was reached: fun = {value:.6g}",
    "tolx": "converged: every standard deviation fell to {value:.3g} of its initial value or below",
    "no_effect": "converged to the precision of floats: a step changes no coordinate of the mean any more",
    "one_point": "converged: all points of a sample were the same in {value:.0f} generations in a row",
    "unbounded": "the objective returned −inf, and no value is better",
    "maxfevals": "the budget of {value:.0f} evaluations is spent; give more with `maxfevals`",
    "maxiter": "the budget of {value:.0f} iterations is spent; give more with `maxiter`",
    "callback": "the callback asked to stop after {value:.0f} iterations",
    "flat": "all values were equal in {value:.0f} generations in a row; the start may lie on a plateau (try a larger `sigma0`)",
    "too_narrow": "a step changes no coordinate of the mean, and the standard deviations never shrank; give a larger `sigma0`",
    "all_failed": "no value was usable in {value:.0f} generations in a row; check the objective near `x0`, or try a smaller `sigma0`",
    "unselective": "nothing was selected in {value:.0f} generations in a row, for a small sample or many ties; give a larger `popsize`",
    "refused": "a step would leave the range of floats or make C indefinite, {value:.0f} generations in a row; f may be unbounded",
    "interrupted": "an exception ended the run in iteration {value:.0f}",
}
"""What each reason says, with the number it saw."""

STATUS = {name: code for code, name in enumerate(MESSAGES)}
SUCCESSES = frozenset({"ftarget", "tolx", "no_effect", "one_point"})


def standstill(outcome: Any, points: Array) -> str:
    """Why a sample (n, d) led to no step. Equal values say nothing of f where all points are equal too."""
    if outcome == Outcome.FLAT and (points == points[0]).all():
        return "one_point"
    return STANDSTILLS[outcome]


def converged(mean: Array, deviations: Array, initial_deviations: Array) -> dict[str, float]:
    """Reasons from the width of the distribution, relative to where it began and to the spacing of floats."""
    wide = deviations > TOLX * initial_deviations
    if np.count_nonzero(wide & (mean + EFFECT * deviations != mean)):
        return {}
    width = float(np.max(deviations / initial_deviations))
    return {("too_narrow" if width >= 1 else "no_effect") if wide.any() else "tolx": width}


def message(reasons: Mapping[str, float]) -> str:
    """What the reasons say, in sentences."""
    return "; ".join(MESSAGES[name].format(value=value) for name, value in reasons.items()) or "the run goes on"
