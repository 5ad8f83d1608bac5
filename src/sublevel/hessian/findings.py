"""Reasons not to trust a curvature: for each, a sentence with its numbers and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.hessian.extrapolation import hidden_changes, significant_change
from sublevel.hessian.probing import Probe
from sublevel.run.diagnosis import Finding


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Curvatures of the whitened Hessian; 1 means that f rises by delta at one radius."""

    values: Array  # (k,), ascending
    errors: Array  # (k,), standard errors
    vectors: Array  # (k, k), in columns
    is_sure: NDArray[np.bool_]  # (k,), where the curvature differs from 0

    @property
    def is_negative(self) -> NDArray[np.bool_]:
        """Where the curvature is significantly negative (k,)."""
        return self.is_sure & (self.values < 0)

    @property
    def is_minimum(self) -> bool:
        """Whether f rises significantly in every direction."""
        return bool(np.all(self.is_sure & (self.values > 0)))


def spectrum_of(probe: Probe) -> Spectrum:
    """Eigenvalues of the whitened Hessian of a probe whose values are finite."""
    values, vectors = np.linalg.eigh(probe.relative)
    errors = probe.fit.errors.deviations_of_curvatures(vectors, probe.scatter) / (2.0 * probe.delta)
    least = max(probe.tuning.sure, 2.0 * np.sqrt(values.size)) * errors
    is_sure = np.abs(values) > np.maximum(least, probe.tuning.negligible * np.max(np.abs(values)))
    return Spectrum(values, errors, vectors, is_sure)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the checks."""

    probe: Probe
    spectrum: Spectrum
    names: tuple[str, ...]  # of the d variables

    def direction(self, index: int) -> str:
        """A whitened eigenvector as a combination of variables, the largest part of which is 1."""
        frame = self.probe.frame
        step = np.where(frame.is_log, frame.centre, 1.0) * (frame.root @ self.spectrum.vectors[:, index])
        parts = step / step[np.argmax(np.abs(step))]
        order = [i for i in np.argsort(-np.abs(parts), kind="stable")[:3] if abs(parts[i]) > 0.01]
        rest = " + …" if np.count_nonzero(np.abs(parts) > 0.01) > 3 else ""
        return " ".join(f"{parts[i]:+.2g}·{self.names[i]}" for i in order) + rest


def find_problems(evidence: Evidence) -> tuple[Finding, ...]:
    """Run all checks; the most serious finding first."""
    checks = saddle, noise, flat, not_converged, not_quadratic, hidden_by_noise, off_minimum, at_bound
    return tuple(finding for check in checks if (finding := check(evidence)) is not None)


def saddle(evidence: Evidence) -> Finding | None:
    """f falls along some direction."""
    spectrum = evidence.spectrum
    if not spectrum.is_negative.any():
        return None
    worst = int(np.argmin(spectrum.values))
    count = int(np.count_nonzero(spectrum.is_negative))
    value, error = float(spectrum.values[worst]), float(spectrum.errors[worst])
    sentence = (
        f"not a minimum: f decreases along {count} of {spectrum.values.size} directions, most along "
        f"{evidence.direction(worst)} (relative curvature {value:.3g} ± {error:.2g}); minimise again from there"
    )
    return Finding("saddle", sentence, {"directions": count, "curvature": value, "error": error})


def noise(evidence: Evidence) -> Finding | None:
    """Noise hides the curvature."""
    probe, spectrum = evidence.probe, evidence.spectrum
    error, deviation = float(np.median(spectrum.errors)), float(np.sqrt(probe.scatter))
    if error < probe.tuning.too_noisy or not probe.baseline.is_noisy:
        return None
    factor = np.square(error / (0.25 * probe.tuning.too_noisy))
    sentence = (
        f"noise of {deviation:.3g} is large compared with the rise of f, {probe.delta:.3g}: after {probe.nfev} "
        f"evaluations the curvatures have a relative error of {error:.2g}; increase `delta_f` to {20 * deviation:.2g} "
        f"or more, or `maxfevals` by a factor of {factor:.2g}"
    )
    return Finding("noise", sentence, {"noise": deviation, "delta_f": probe.delta, "relative_error": error})


def flat(evidence: Evidence) -> Finding | None:
    """Some curvature does not differ significantly from 0."""
    spectrum, probe = evidence.spectrum, evidence.probe
    unsure = np.flatnonzero(~spectrum.is_sure)
    if not unsure.size or noise(evidence) or not_quadratic(evidence):
        return None
    least = int(unsure[np.argmin(np.abs(spectrum.values[unsure]))])
    value, error = float(spectrum.values[least]), float(spectrum.errors[least])
    sentence = (
        f"{unsure.size} of {spectrum.values.size} directions are not identifiable: along {evidence.direction(least)} f "
        f"changes by {value * probe.delta:.2g} ± {error * probe.delta:.2g}, along the others by {probe.delta:.2g}; fix "
        "one of these variables, or add data that distinguish them"
    )
    return Finding("flat", sentence, {"directions": unsure.size, "curvature": value, "error": error})


def not_quadratic(evidence: Evidence) -> Finding | None:
    """A curvature changes significantly with the radius."""
    probe = evidence.probe
    inside = significant_change(probe, probe.tuning.not_quadratic)
    change, delta = (inside, probe.delta) if inside else (probe.plain_lack, probe.plain_delta)
    if not change:
        return None
    meaning = "the Hessian is an average over the region; decrease `delta_f` to approach the Hessian at the minimum"
    if not inside:
        meaning = 'the Hessian is extrapolated to the minimum; intervals(method="profile") does not assume a quadratic'
    sentence = (
        f"f is not quadratic at this scale: where f rises by {delta:.3g}, a curvature differs by {100 * change:.3g} % "
        f"from its value at half the radius; {meaning}. `profile()` shows how far the quadratic holds"
    )
    return Finding("not_quadratic", sentence, {"change": change, "delta_f": delta})


def hidden_by_noise(evidence: Evidence) -> Finding | None:
    """Noise is too large to see whether f is quadratic."""
    probe = evidence.probe
    hidden = hidden_changes(probe)
    if probe.inner is not None:  # the errors include the change that is expected to remain; not one that may be larger
        hidden = hidden[probe.lack + probe.lack_error > probe.tuning.hidden_change]
    least = float(np.max(hidden, initial=0.0))
    if not probe.baseline.is_noisy or least < probe.tuning.hidden_change or noise(evidence) or not_quadratic(evidence):
        return None
    sentence = (
        f"noise hides whether f is quadratic where it rises by {probe.delta:.3g}: a change of a curvature by "
        f"{100 * least:.3g} % between half the radius and the radius would go unnoticed and is not included in the "
        "errors; increase `maxfevals`"
    )
    return Finding("hidden_by_noise", sentence, {"change": least, "delta_f": probe.delta})


def off_minimum(evidence: Evidence) -> Finding | None:
    """The curvature at the minimum differs from that at the centre."""
    probe = evidence.probe
    if not probe.tuning.not_quadratic < probe.centre_change < np.inf:
        return None
    sentence = (
        f"a curvature changes by about {100 * probe.centre_change:.2g} % between `centre`, where it was measured, and "
        "the minimum `x`; compute the curvature again at `x`, or increase `maxfevals`"
    )
    return Finding("off_minimum", sentence, {"change": probe.centre_change})


def not_converged(evidence: Evidence) -> Finding | None:
    """The minimum of the quadratic lies outside the region."""
    probe = evidence.probe
    distance = float(np.linalg.norm(probe.newton))
    if not evidence.spectrum.is_minimum or distance <= probe.tuning.trusted_radius:
        return None
    sentence = (
        f"the search has not converged: the minimum of the fitted quadratic lies {distance:.3g} radii away, where f is "
        f"lower by about {probe.delta * distance**2:.3g}; continue the minimisation, or pass a `delta_f` of that size"
    )
    return Finding("not_converged", sentence, {"distance": distance})


def at_bound(evidence: Evidence) -> Finding | None:
    """Variables that lie at a bound are held fixed."""
    frame, names = evidence.probe.frame, evidence.names
    (lower, upper), x = frame.box, frame.centre
    held = np.flatnonzero(~frame.free & (lower < upper))
    if not held.size:
        return None
    near = [f"{names[i]} at {lower[i] if x[i] - lower[i] < upper[i] - x[i] else upper[i]:.6g}" for i in held[:3]]
    which = ", ".join(near) + (f" and {held.size - 3} more" if held.size > 3 else "")
    sentence = f"{which}: held at the bound; curvature and errors are those of the other variables, given these"
    return Finding("at_bound", sentence, {"variables": held.size})
