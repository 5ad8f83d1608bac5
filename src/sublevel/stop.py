"""When it is enough, and why."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sublevel.arrays import Array
from sublevel.families import Family
from sublevel.method import Outcome

PATIENCE = 2
"""Generations without a step, one after the other, that end a run."""

STUCK = {
    Outcome.FLAT: "flat",
    Outcome.FAILED: "all_failed",
    Outcome.UNSELECTIVE: "unselective",
    Outcome.REFUSED: "refused",
}

MESSAGES = {
    "ftarget": "the target was reached: fun = {value:.6g}",
    "tolx": "converged: every standard deviation fell below {value:.3g} of its initial value",
    "no_effect": "converged to the precision of floats: a step changes no coordinate of the mean any more",
    "maxfevals": "the budget of {value:.0f} evaluations is spent; give more with `maxfevals`",
    "maxiter": "the budget of {value:.0f} iterations is spent; give more with `maxiter`",
    "callback": "the callback asked to stop",
    "flat": "all values were equal in {value:.0f} generations in a row; the start may lie on a plateau (try a larger `sigma0`)",
    "all_failed": "no value was a usable number in {value:.0f} generations in a row; check the objective near `x0` or make `sigma0` smaller",
    "unselective": "the sample is too small to select from in {value:.0f} generations in a row; give a larger `popsize`",
    "refused": "the step would leave the range of floats or make C indefinite in {value:.0f} generations in a row; the objective may be unbounded",
}
"""What each reason says, with the number it saw."""

STATUS = {name: code for code, name in enumerate(MESSAGES)}
SUCCESSES = frozenset({"ftarget", "tolx", "no_effect"})


def stuck(outcomes: Mapping[Outcome, int]) -> dict[str, float]:
    """Reasons from the outcomes that came PATIENCE times in a row."""
    return {STUCK[outcome]: float(count) for outcome, count in outcomes.items() if outcome in STUCK and count >= PATIENCE}


def converged(theta: Family, initial_deviations: Array, tolx: float) -> dict[str, float]:
    """Reasons from the width of the distribution, all relative to where it began or to the spacing of floats."""
    deviations = theta.deviations
    shrunk = float(np.max(deviations / initial_deviations))
    if shrunk < tolx:
        return {"tolx": shrunk}
    if np.all(theta.mean + 0.2 * deviations == theta.mean):
        return {"no_effect": shrunk}
    return {}


def message(reasons: Mapping[str, float]) -> str:
    """What the reasons say, in sentences."""
    return "; ".join(MESSAGES[name].format(value=value) for name, value in reasons.items())
