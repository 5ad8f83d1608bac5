"""What stands against taking a curvature at its word: a sentence with its numbers for each, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.hessian.extrapolation import seen_change
from sublevel.hessian.probing import Look
from sublevel.run.diagnosis import Finding


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Curvatures of the whitened Hessian in units in which 1 means that f rises by delta at one radius, and how sure they are."""

    values: Array  # (k,), ascending
    errors: Array  # (k,), standard errors
    vectors: Array  # (k, k), in columns
    is_sure: NDArray[np.bool_]  # (k,), where the curvature differs from 0

    @property
    def is_negative(self) -> NDArray[np.bool_]:
        """Where it surely does, and is negative (k,)."""
        return self.is_sure & (self.values < 0)

    @property
    def is_minimum(self) -> bool:
        """Whether f surely rises in every direction."""
        return bool(np.all(self.is_sure & (self.values > 0)))


def spectrum_of(look: Look) -> Spectrum:
    """Of a look whose numbers are finite."""
    values, vectors = np.linalg.eigh(look.relative)
    errors = np.sqrt(look.scatter * look.fit.errors.of_curvatures(vectors)) / (2.0 * look.delta)
    least = max(look.tuning.sure, 2.0 * np.sqrt(values.size)) * errors
    is_sure = np.abs(values) > np.maximum(least, look.tuning.negligible * np.max(np.abs(values)))
    return Spectrum(values, errors, vectors, is_sure)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the findings are made of."""

    look: Look
    spectrum: Spectrum
    names: tuple[str, ...]  # of the d variables

    def direction(self, index: int) -> str:
        """A whitened eigenvector as a combination of variables, the largest part of which is 1."""
        frame = self.look.frame
        step = np.where(frame.is_log, frame.centre, 1.0) * (frame.root @ self.spectrum.vectors[:, index])
        parts = step / step[np.argmax(np.abs(step))]
        order = [i for i in np.argsort(-np.abs(parts), kind="stable")[:3] if abs(parts[i]) > 0.01]
        return " ".join(f"{parts[i]:+.2g}·{self.names[i]}" for i in order) + (" + …" if np.count_nonzero(np.abs(parts) > 0.01) > 3 else "")


def found_problems(evidence: Evidence) -> tuple[Finding, ...]:
    """All of them, the worst first."""
    return tuple(finding for check in CHECKS if (finding := check(evidence)) is not None)


def saddle(evidence: Evidence) -> Finding | None:
    """f falls along some direction."""
    spectrum = evidence.spectrum
    if not spectrum.is_negative.any():
        return None
    worst = int(np.argmin(spectrum.values))
    count, value, error = int(np.count_nonzero(spectrum.is_negative)), float(spectrum.values[worst]), float(spectrum.errors[worst])
    sentence = (
        f"this is not a minimum: f falls in {count} of {spectrum.values.size} directions, the most along {evidence.direction(worst)}, "
        f"where the curvature is {value:.3g} ± {error:.2g} of the rise asked for; minimise on from `x` plus or minus a step along it"
    )
    return Finding("saddle", sentence, {"directions": count, "curvature": value, "error": error})


def noise(evidence: Evidence) -> Finding | None:
    """Noise hides the curvature."""
    look, spectrum = evidence.look, evidence.spectrum
    error, deviation = float(np.median(spectrum.errors)), float(np.sqrt(look.scatter))
    if error < look.tuning.too_noisy or not look.ground.is_noisy:
        return None
    factor = np.square(error / (0.25 * look.tuning.too_noisy))
    sentence = (
        f"values scatter by {deviation:.3g} where f rises by {look.delta:.3g}, and after {look.nfev} evaluations the curvatures still have "
        f"a relative error of {error:.2g}; give a `delta_f` of {20 * deviation:.2g} or more, or {factor:.2g} times as many evaluations by "
        "`maxfevals`"
    )
    return Finding("noise", sentence, {"noise": deviation, "delta_f": look.delta, "relative_error": error})


def flat(evidence: Evidence) -> Finding | None:
    """Some direction has no curvature that could be told from 0."""
    spectrum, look = evidence.spectrum, evidence.look
    unsure = np.flatnonzero(~spectrum.is_sure)
    if not unsure.size or noise(evidence) or not_quadratic(evidence):
        return None
    least = int(unsure[np.argmin(np.abs(spectrum.values[unsure]))])
    value, error = float(spectrum.values[least]), float(spectrum.errors[least])
    sentence = (
        f"{unsure.size} of {spectrum.values.size} directions cannot be identified: along {evidence.direction(least)} f changes by "
        f"{value * look.delta:.2g} ± {error * look.delta:.2g} where it was looked at, elsewhere by {look.delta:.2g}; fix one of these "
        "variables, or add what tells them apart"
    )
    return Finding("flat", sentence, {"directions": unsure.size, "curvature": value, "error": error})


def not_quadratic(evidence: Evidence) -> Finding | None:
    """Curvatures change with the radius, beyond what noise does."""
    look = evidence.look
    inside = seen_change(look, look.tuning.not_quadratic)
    change, delta = (inside, look.delta) if inside else (look.plain_lack, look.plain_delta)
    if not change:
        return None
    meaning = (
        "the Hessian is an average over the region: a smaller `delta_f` is nearer to the limit"
        if inside
        else 'the Hessian is that at the minimum, and intervals(method="profile") need no quadratic'
    )
    sentence = (
        f"f is not quadratic at this scale: where it rises by {delta:.3g}, a curvature differs by {100 * change:.3g} % from that at "
        f"half the radius; {meaning}, and `profile()` shows how far the quadratic holds"
    )
    return Finding("not_quadratic", sentence, {"change": change, "delta_f": delta})


def hidden_by_noise(evidence: Evidence) -> Finding | None:
    """Noise hides whether f is quadratic."""
    look = evidence.look
    least = float(np.max(look.tuning.significance * look.lack_error, initial=0.0))
    if not look.ground.is_noisy or look.inner is not None or least < look.tuning.hidden_change or noise(evidence):
        return None
    sentence = (
        f"noise hides whether f is quadratic where it rises by {look.delta:.3g}: a curvature that changes by {100 * least:.3g} % between "
        "half the radius and the radius would not be seen, and errors do not tell of it; give more evaluations by `maxfevals`"
    )
    return Finding("hidden_by_noise", sentence, {"change": least, "delta_f": look.delta})


def off_minimum(evidence: Evidence) -> Finding | None:
    """The curvature is another one at the minimum than where it was looked at."""
    look = evidence.look
    if not look.tuning.not_quadratic < look.drift < np.inf:
        return None
    sentence = (
        f"f bends so much that a curvature changes by about {100 * look.drift:.2g} % between `centre`, where it was looked at, and the "
        "minimum `x`, which noise hid from the search: ask again at `x`, or give more evaluations by `maxfevals`"
    )
    return Finding("off_minimum", sentence, {"change": look.drift})


def not_converged(evidence: Evidence) -> Finding | None:
    """The minimum of the quadratic lies outside of the region that was looked at."""
    look = evidence.look
    distance = float(np.linalg.norm(look.newton))
    if not evidence.spectrum.is_minimum or distance <= look.tuning.trusted_radius:
        return None
    sentence = (
        f"the minimum of the fitted quadratic lies {distance:.3g} radii from the point that was given, where f is lower by about "
        f"{look.delta * distance**2:.3g}: the search had not converged; minimise on, or give a `delta_f` of that size"
    )
    return Finding("not_converged", sentence, {"distance": distance})


def at_bound(evidence: Evidence) -> Finding | None:
    """Variables at a bound have no two sides to look at."""
    frame, names = evidence.look.frame, evidence.names
    (lower, upper), x = frame.box, frame.centre
    held = np.flatnonzero(~frame.free & (lower < upper))
    if not held.size:
        return None
    near = [f"{names[i]} at {lower[i] if x[i] - lower[i] < upper[i] - x[i] else upper[i]:.6g}" for i in held[:3]]
    sentence = (
        f"{', '.join(near)}{f' and {held.size - 3} more' if held.size > 3 else ''}: held at the bound, and curvature and errors are those "
        "of the other variables, given these"
    )
    return Finding("at_bound", sentence, {"variables": held.size})


CHECKS: tuple[Callable[[Evidence], Finding | None], ...] = (
    saddle,
    noise,
    flat,
    not_converged,
    not_quadratic,
    hidden_by_noise,
    off_minimum,
    at_bound,
)
