"""The minimum that is reported: the lowest point that was evaluated, or under noise that of the fitted quadratic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.arrays import Array
from sublevel.curvature.findings import TRUSTED, spectrum_of
from sublevel.curvature.look import CLEAR, Look, Objective
from sublevel.diagnosis import Finding

LOWER = 0.01
"""Part of the rise `delta_f` by which a value must be lower to be reported: the minimum then lies a tenth of a radius away."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """A point of the user's, its value, and what is to be said about it."""

    x: Array  # (d,)
    fun: float
    problems: tuple[Finding, ...] = ()


def reported_minimum(objective: Objective, look: Look) -> Minimum:
    """The minimum of the quadratic where f is not higher than at the centre, which costs one evaluation; else the centre."""
    is_trusted = spectrum_of(look).is_minimum and np.linalg.norm(look.newton) <= TRUSTED
    z = look.newton if is_trusted else np.zeros(look.frame.size)
    x = look.frame.points(z)
    if look.ground.is_noisy:
        return Minimum(x, float(look.fit.constant + look.fit.gradient @ z + 0.5 * z @ look.fit.matrix @ z))
    minimum = Minimum(look.frame.centre, look.ground.value)
    if np.any(x != look.frame.centre) and objective.left >= 1:
        value = float(objective.at(x[None].copy())[0])
        minimum = Minimum(x, value) if value <= minimum.fun + look.ground.grain else minimum
    return Minimum(minimum.x, minimum.fun, tuple(_lower_values(objective, look, minimum)))


def _lower_values(objective: Objective, look: Look, minimum: Minimum) -> list[Finding]:
    """What was found below the point that was given, and below the one that is reported."""
    least = max(CLEAR * look.ground.grain, LOWER * look.delta)
    findings = list[Finding]()
    if (drop := objective.first - minimum.fun) > least:
        sentence = (
            f"f is lower by {drop:.3g} at `x` than at the point that was given ({minimum.fun:.10g} instead of {objective.first:.10g}): the "
            "search had not converged there, and all numbers belong to `x`"
        )
        findings.append(Finding("better_point", sentence, {"drop": drop}))
    if (drop := minimum.fun - objective.best) > least and objective.best_x is not None:
        where = np.array2string(objective.best_x, threshold=20)
        sentence = f"f is lower by {drop:.3g} at another evaluated point ({objective.best:.10g} at {where}): minimise again from there"
        findings.append(Finding("lower_point", sentence, {"drop": drop}))
    return findings
