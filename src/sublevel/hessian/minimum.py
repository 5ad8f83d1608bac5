"""The minimum that is reported: the lowest point that was evaluated, or under noise that of the fitted quadratic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.findings import spectrum_of
from sublevel.hessian.probing import Look, Objective
from sublevel.run.diagnosis import Finding


@dataclass(frozen=True, slots=True)
class Minimum:
    """A point of the user's, its value, and what is to be said about it."""

    x: Array  # (d,)
    fun: float
    problems: tuple[Finding, ...] = ()


def reported_minimum(objective: Objective, look: Look) -> Minimum:
    """The minimum of the quadratic where f is not higher than at the centre, which may cost one evaluation; else the centre."""
    is_trusted = spectrum_of(look).is_minimum and np.linalg.norm(look.newton) <= look.tuning.trusted_radius
    z = look.newton if is_trusted else np.zeros(look.frame.size)
    x = look.frame.points(z)
    if look.ground.is_noisy:
        return _minimum_under_noise(objective, look, z)
    minimum = Minimum(look.frame.centre, look.ground.value)
    if np.any(x != look.frame.centre) and objective.left >= 1:
        value = float(objective.at(x[None].copy())[0])
        minimum = Minimum(x, value) if value <= minimum.fun + look.ground.grain else minimum
    return Minimum(minimum.x, minimum.fun, tuple(_lower_values(objective, look, minimum)))


def _minimum_under_noise(objective: Objective, look: Look, z: Array) -> Minimum:
    """The minimum z (k,) of the quadratic; the centre if it is far from there and a value shows that the quadratic does not hold."""
    x, expected = look.frame.points(z), float(look.fit.constant + look.fit.gradient @ z + 0.5 * z @ look.fit.matrix @ z)
    if np.linalg.norm(z) <= look.tuning.far or objective.left < 1:
        return Minimum(x, expected)
    value = float(objective.at(x[None].copy())[0])
    if value - expected <= max(look.tuning.clear_of_noise * look.ground.noise, look.tuning.missed * look.delta):
        return Minimum(x, expected)
    sentence = (
        f"the quadratic has its minimum where f is {value:.4g} instead of {expected:.4g}: f bends too much between there and the centre, "
        "which is reported instead. Use a smaller `delta_f`, or `noise=` and more evaluations by `maxfevals`"
    )
    return Minimum(look.frame.centre, look.ground.value, (Finding("off_minimum", sentence, {"excess": value - expected}),))


def _lower_values(objective: Objective, look: Look, minimum: Minimum) -> list[Finding]:
    """What was found below the point that was given, and below the one that is reported."""
    least = max(look.tuning.clear * look.ground.grain, look.tuning.lower * look.delta)
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
