"""Convert a probe from the whitened frame to user coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.findings import Evidence, Spectrum, find_problems, spectrum_of
from sublevel.hessian.frame import Frame
from sublevel.hessian.minimum import Minimum
from sublevel.hessian.probing import LARGEST_VALUE, Probe
from sublevel.hessian.result import Curvature
from sublevel.run.diagnosis import Finding


@np.errstate(over="ignore", invalid="ignore")  # a Hessian that overflows is named below; errors may be infinite
def assemble_curvature(probe: Probe, minimum: Minimum, names: tuple[str, ...]) -> Curvature:
    """The result in user coordinates; a log-scaled variable x has the derivative x with respect to its frame."""
    if not probe.frame.size:
        return fixed_curvature(probe.frame, minimum)
    frame, fit, spectrum = probe.frame, probe.fit, spectrum_of(probe)
    slopes = frame.slopes(minimum.x)
    b = frame.inverse / slopes
    hessian = b.T @ fit.matrix @ b
    hess_inv, hess_inv_error = _inverse(probe, spectrum, slopes)
    if not np.isfinite(hessian).all() or np.isinf(hess_inv).any():
        sentence = (
            "the Hessian or its inverse exceeds the range of floating-point numbers in the units of the variables; "
            "divide variables, or f, by constants"
        )
        return undefined_curvature(probe, sentence)
    curvatures, directions = _principal(probe, spectrum, b, hessian)
    return Curvature(
        x=minimum.x,
        fun=minimum.fun,
        centre=frame.centre,
        gradient=_whole(frame, b.T @ fit.gradient, np.nan),
        gradient_error=_whole(frame, np.sqrt(probe.odd_variance * np.diagonal(b.T @ fit.errors.gradient @ b)), np.nan),
        hessian=_whole(frame, hessian, np.nan),
        hessian_error=_whole(frame, fit.errors.deviations_of_form(b, probe.variance), np.nan),
        hess_inv=_whole(frame, hess_inv, 0.0),
        hess_inv_error=_whole(frame, hess_inv_error, 0.0),
        curvatures=curvatures,
        curvatures_error=fit.errors.deviations_of_curvatures(b @ directions, probe.variance),
        directions=_rows(frame, directions),
        free=frame.free,
        delta_f=probe.delta,
        noise=float(np.sqrt(probe.scatter)),
        dof=fit.even[1],
        lack=float(np.max(probe.lack, initial=0.0)),
        nfev=probe.nfev,
        problems=find_problems(Evidence(probe, spectrum, names)) + minimum.problems,
        lower_point=minimum.lower_point,
        box=frame.box,
        is_log=frame.is_log,
        is_noisy=probe.baseline.is_noisy,
    )


def _inverse(probe: Probe, spectrum: Spectrum, slopes: Array) -> tuple[Array, Array]:
    """H⁻¹ (k, k) and its standard errors by the delta method; NaN where a direction without curvature contributes."""
    root, sure, unit = slopes[:, None] * probe.frame.root[probe.frame.free], spectrum.is_sure, 2.0 * probe.delta
    if spectrum.is_negative.any() or not sure.any():
        return np.full(root.shape, np.nan), np.full(root.shape, np.nan)
    vectors, values = spectrum.vectors[:, sure], unit * spectrum.values[sure]
    w = (vectors / values) @ (vectors.T @ root.T)
    inverse, errors = root @ w, probe.fit.errors.deviations_of_form(w, probe.variance)
    least = np.maximum(spectrum.errors[~sure], 1e-12 * np.max(np.abs(spectrum.values)))
    added = np.sum(np.square(root @ spectrum.vectors[:, ~sure]) / (unit * least), axis=1)
    is_unknown = added > probe.tuning.unknown_share * np.diagonal(inverse)
    unknown = is_unknown | is_unknown[:, None]
    return np.where(unknown, np.nan, 0.5 * (inverse + inverse.T)), np.where(unknown, np.nan, errors)


def _principal(probe: Probe, spectrum: Spectrum, b: Array, hessian: Array) -> tuple[Array, Array]:
    """Eigenvalues of the Hessian (k,), the largest first, and unit eigenvectors in columns (k, k)."""
    if np.min(spectrum.values) > 0:  # singular values of a root have twice as many digits of the small ones
        half = np.sqrt(2.0 * probe.delta * spectrum.values)[:, None] * (spectrum.vectors.T @ b)
        _, singular, rows = np.linalg.svd(half)
        return np.square(singular), _signed(rows.T)
    values, vectors = np.linalg.eigh(hessian)
    return values[::-1], _signed(vectors[:, ::-1])


def _signed(columns: Array) -> Array:
    """Columns (k, m) with signs such that their largest component is positive."""
    largest = np.take_along_axis(columns, np.argmax(np.abs(columns), axis=0)[None], axis=0)
    return columns * np.where(largest < 0, -1.0, 1.0)


def _whole(frame: Frame, block: Array, fill: float) -> Array:
    """A vector or matrix over the free variables (k, ...) as one over all (d, ...)."""
    whole = np.full((frame.free.size,) * block.ndim, fill)
    whole[np.ix_(*(frame.free,) * block.ndim)] = block
    return whole


def _rows(frame: Frame, block: Array) -> Array:
    """Columns over the free variables (k, m) as columns over all (d, m)."""
    whole = np.zeros((frame.free.size, block.shape[1]))
    whole[frame.free] = block
    return whole


def empty_curvature(
    frame: Frame, fun: float, fill: float, problem: Finding, delta: float = np.nan, nfev: int = 0
) -> Curvature:
    """A result without a curvature, with the reason; `fill` is the value in the inverse Hessian."""
    d, k = frame.free.size, frame.size
    vector, matrix, inverse = np.full(d, np.nan), np.full((d, d), np.nan), np.full((d, d), fill)
    curvatures, directions = np.full(k, np.nan), np.full((d, k), np.nan)
    arrays = vector, vector, matrix, matrix, inverse, inverse, curvatures, curvatures, directions  # each with its error
    return Curvature(
        *(frame.centre, fun, frame.centre, *arrays),
        free=frame.free,
        delta_f=delta,
        noise=np.nan,
        dof=0,
        lack=np.nan,
        nfev=nfev,
        problems=(problem,),
        box=frame.box,
        is_log=frame.is_log,
    )


def undefined_curvature(probe: Probe, sentence: str) -> Curvature:
    """A result without numbers, with the reason."""
    problem = Finding("undefined", sentence, {"delta_f": probe.delta})
    return empty_curvature(probe.frame, probe.baseline.value, np.nan, problem, probe.delta, probe.nfev)


def missing_value(probe: Probe) -> str:
    """The sentence about a probe in which f is not finite."""
    if not np.isfinite(probe.baseline.value):
        return (
            f"f is not finite, or {LARGEST_VALUE:g} or more, at the given point; divide f by a constant if it is finite"
        )
    return (
        f"f is not finite everywhere around the given point (region: rise of {probe.delta:.3g}); return a finite value "
        "there, or pass `bounds` that exclude points without one"
    )


def fixed_curvature(frame: Frame, minimum: Minimum) -> Curvature:
    """No variable is free."""
    sentence = "all variables are fixed or lie at a bound: there is no free direction"
    problems = Finding("at_bound", sentence, {"variables": frame.free.size}), *minimum.problems
    return replace(empty_curvature(frame, minimum.fun, 0.0, problems[0]), problems=problems)
