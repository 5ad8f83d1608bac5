"""Minima of the fitted quadratic, and the minimum that is reported: the lowest point evaluated, or under noise that of
the quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear

from sublevel.engine.arrays import Array
from sublevel.hessian.estimate import LowerPoint
from sublevel.hessian.findings import Spectrum, spectrum_of
from sublevel.hessian.frame import in_search_units
from sublevel.hessian.probing import CountedObjective, Probe
from sublevel.run.diagnosis import Finding


@dataclass(frozen=True, slots=True)
class Minimum:
    """A point in user coordinates, its value, and findings about it."""

    x: Array  # (d,)
    fun: float
    problems: tuple[Finding, ...] = ()
    lower_point: LowerPoint | None = None


def minimum_in_box(probe: Probe, spectrum: Spectrum) -> Array:
    """The minimum (d,) of the quadratic, all curvatures of which are positive, within the box.

    A stationary point outside, moved to the nearest point of the box, is no minimum if variables are correlated: the
    bounds that are active, and the minimum given these, follow from bounded least squares.
    """
    frame, free = probe.frame, probe.frame.free
    lower, centre, upper = (
        ends[free] for ends in in_search_units(frame.is_log, frame.box[0], frame.centre, frame.box[1])
    )
    room = lower - centre, upper - centre
    step = frame.root[free] @ probe.newton
    if np.all((room[0] <= step) & (step <= room[1])):
        return frame.points(probe.newton)
    sizes = np.max(np.abs(frame.root[free]), axis=1)  # as units of the variables
    factor = np.sqrt(spectrum.values)[:, None] * spectrum.vectors.T  # FᵀF is the whitened Hessian
    target = -(spectrum.vectors.T @ probe.fit.gradient) / (2.0 * probe.delta * np.sqrt(spectrum.values))
    inside = lsq_linear(factor @ (frame.inverse * sizes), target, (room[0] / sizes, room[1] / sizes), method="bvls")
    x = frame.points(frame.inverse @ (inside.x * sizes))
    for side, end in ((-1, frame.box[0]), (1, frame.box[1])):
        x[free] = np.where(inside.active_mask == side, end[free], x[free])
    return x


def choose_minimum(objective: CountedObjective, probe: Probe) -> Minimum:
    """The minimum of the quadratic if f is not higher there than at the centre (one evaluation), else the centre."""
    if not probe.frame.size:
        return _noting_lower_values(objective, probe, Minimum(probe.frame.centre, probe.baseline.value))
    is_trusted = spectrum_of(probe).is_minimum and np.linalg.norm(probe.newton) <= probe.tuning.trusted_radius
    z = probe.newton if is_trusted else np.zeros(probe.frame.size)
    x = probe.frame.points(z)
    if probe.baseline.is_noisy:
        return _minimum_under_noise(objective, probe, z)
    minimum = Minimum(probe.frame.centre, probe.baseline.value)
    if np.any(x != probe.frame.centre) and objective.left >= 1:
        value = float(objective.at(x[None].copy())[0])
        minimum = Minimum(x, value) if value <= minimum.fun + probe.baseline.resolution else minimum
    return _noting_lower_values(objective, probe, minimum)


def _minimum_under_noise(objective: CountedObjective, probe: Probe, z: Array) -> Minimum:
    """The minimum z (k,) of the quadratic; the centre if z is far away and f there contradicts the quadratic."""
    x, fit = probe.frame.points(z), probe.fit
    expected = float(fit.constant + fit.gradient @ z + 0.5 * z @ fit.matrix @ z)
    if np.linalg.norm(z) <= probe.tuning.far or objective.left < 1:
        return Minimum(x, expected)
    value = float(objective.at(x[None].copy())[0])
    if value - expected <= max(probe.tuning.clear_of_noise * probe.baseline.noise, probe.tuning.missed * probe.delta):
        return Minimum(x, expected)
    sentence = (
        f"f is {value:.4g} instead of {expected:.4g} at the minimum of the quadratic, so the centre is reported: f is "
        "not quadratic between the two. Decrease `delta_f`, or pass `noise` and increase `maxfevals`"
    )
    problem = Finding("off_minimum", sentence, {"excess": value - expected})
    return Minimum(probe.frame.centre, probe.baseline.value, (problem,))


def _noting_lower_values(objective: CountedObjective, probe: Probe, minimum: Minimum) -> Minimum:
    """The minimum with findings about values below that of the given point and below its own."""
    least = max(probe.tuning.clear * probe.baseline.resolution, probe.tuning.lower * probe.delta)
    findings = list[Finding]()
    if (drop := objective.first - minimum.fun) > least:
        sentence = (
            f"f is lower by {drop:.3g} at `x` than at the given point ({minimum.fun:.10g} instead of "
            f"{objective.first:.10g}): the search had not converged. All numbers refer to `x`"
        )
        findings.append(Finding("better_point", sentence, {"drop": drop}))
    if objective.best_x is None or not minimum.fun - objective.best > least:
        return replace(minimum, problems=tuple(findings))
    lower = LowerPoint(objective.best_x, objective.best)
    drop, where = minimum.fun - lower.fun, np.array2string(lower.x, threshold=20)
    sentence = f"f is lower by {drop:.3g} ({lower.fun:.10g}) at x = {where}; minimise again from there"
    findings.append(Finding("lower_point", sentence, {"drop": drop}))
    return replace(minimum, problems=tuple(findings), lower_point=lower)
