"""From a look through the frame to the user's coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.findings import Evidence, Spectrum, found_problems, spectrum_of
from sublevel.hessian.frame import Frame, Place
from sublevel.hessian.minimum import Minimum
from sublevel.hessian.probing import Look
from sublevel.hessian.result import Curvature
from sublevel.run.diagnosis import Finding


def described(look: Look, minimum: Minimum, names: tuple[str, ...], kind: str | None, n_residuals: int | None) -> Curvature:
    """All there is to say, in the user's coordinates: those of a log-scaled variable move by x with those of the frame."""
    frame, fit, spectrum = look.frame, look.fit, spectrum_of(look)
    slopes = frame.slopes(minimum.x)
    b = frame.inverse / slopes
    hessian = b.T @ fit.matrix @ b
    hess_inv, hess_inv_error = _inverse(look, spectrum, slopes)
    curvatures, directions = _principal(look, spectrum, b, hessian)
    return Curvature(
        x=minimum.x,
        fun=minimum.fun,
        centre=frame.centre,
        gradient=_whole(frame, b.T @ fit.gradient, np.nan),
        gradient_error=_whole(frame, np.sqrt(look.odd_variance * np.diagonal(b.T @ fit.errors.gradient @ b)), np.nan),
        hessian=_whole(frame, hessian, np.nan),
        hessian_error=_whole(frame, np.sqrt(look.variance * fit.errors.of_form(b)), np.nan),
        hess_inv=_whole(frame, hess_inv, 0.0),
        hess_inv_error=_whole(frame, hess_inv_error, 0.0),
        curvatures=curvatures,
        curvatures_error=np.sqrt(look.variance * fit.errors.of_curvatures(b @ directions)),
        directions=_rows(frame, directions),
        free=frame.free,
        delta_f=look.delta,
        noise=float(np.sqrt(look.scatter)),
        dof=fit.even[1],
        lack=float(np.max(look.lack, initial=0.0)),
        nfev=look.nfev,
        kind=kind,
        n_residuals=n_residuals,
        problems=found_problems(Evidence(look, spectrum, names)) + minimum.problems,
        names=names,
        box=frame.box,
        is_log=frame.is_log,
        is_noisy=look.ground.is_noisy,
    )


def is_defined(look: Look) -> bool:
    """Whether f was finite at all points of the look."""
    return bool(np.isfinite(look.fit.matrix).all() and np.isfinite(look.fit.gradient).all())


def _inverse(look: Look, spectrum: Spectrum, slopes: Array) -> tuple[Array, Array]:
    """H⁻¹ (k, k) and its standard errors by the delta method; NaN for variables that a direction without curvature touches."""
    root, sure, unit = slopes[:, None] * look.frame.root[look.frame.free], spectrum.is_sure, 2.0 * look.delta
    if spectrum.is_negative.any() or not sure.any():
        return np.full(root.shape, np.nan), np.full(root.shape, np.nan)
    vectors, values = spectrum.vectors[:, sure], unit * spectrum.values[sure]
    w = (vectors / values) @ (vectors.T @ root.T)
    inverse, errors = root @ w, np.sqrt(look.variance * look.fit.errors.of_form(w))
    least = np.maximum(spectrum.errors[~sure], 1e-12 * np.max(np.abs(spectrum.values)))
    added = np.sum(np.square(root @ spectrum.vectors[:, ~sure]) / (unit * least), axis=1)
    touched = added > look.tuning.unknown_share * np.diagonal(inverse)
    unknown = touched | touched[:, None]
    return np.where(unknown, np.nan, 0.5 * (inverse + inverse.T)), np.where(unknown, np.nan, errors)


def _principal(look: Look, spectrum: Spectrum, b: Array, hessian: Array) -> tuple[Array, Array]:
    """Eigenvalues of the Hessian (k,), the largest first, and unit eigenvectors in columns (k, k).

    Of a positive definite one by the singular values of a root, which keep twice as many digits of the small ones.
    """
    if np.min(spectrum.values) > 0:
        half = np.sqrt(2.0 * look.delta * spectrum.values)[:, None] * (spectrum.vectors.T @ b)
        _, singular, rows = np.linalg.svd(half)
        return np.square(singular), _signed(rows.T)
    values, vectors = np.linalg.eigh(hessian)
    return values[::-1], _signed(vectors[:, ::-1])


def _signed(columns: Array) -> Array:
    """Columns (k, m) whose largest part is positive."""
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


def blank(frame: Frame, fun: float, fill: float, problem: Finding, **told: Any) -> Curvature:
    """No curvature, and why; `fill` is what stands in the inverse Hessian."""
    d, k = frame.free.size, frame.size
    vector, matrix = np.full(d, np.nan), np.full((d, d), np.nan)
    return Curvature(
        x=frame.centre,
        fun=fun,
        centre=frame.centre,
        gradient=vector,
        gradient_error=vector,
        hessian=matrix,
        hessian_error=matrix,
        hess_inv=np.full((d, d), fill),
        hess_inv_error=np.full((d, d), fill),
        curvatures=np.full(k, np.nan),
        curvatures_error=np.full(k, np.nan),
        directions=np.full((d, k), np.nan),
        free=frame.free,
        noise=np.nan,
        dof=0,
        lack=np.nan,
        problems=(problem,),
        box=frame.box,
        is_log=frame.is_log,
        **told,
    )


def undefined(look: Look, names: tuple[str, ...], kind: str | None, n_residuals: int | None) -> Curvature:
    """f has no number somewhere around the centre."""
    sentence = (
        f"f is not finite everywhere within a rise of {look.delta:.3g} around the point that was given, however near it was looked at: "
        "return a finite value there, or give `bounds` that keep away from where there is none"
    )
    problem = Finding("undefined", sentence, {"delta_f": look.delta})
    return blank(
        look.frame, look.ground.value, np.nan, problem, delta_f=look.delta, nfev=look.nfev, names=names, kind=kind, n_residuals=n_residuals
    )


def nothing_free(place: Place, frame: Frame, names: tuple[str, ...], kind: str | None, n_residuals: int | None) -> Curvature:
    """No variable is free."""
    problem = Finding(
        "at_bound", "all variables are fixed or lie at a bound: there is no curvature to look at", {"variables": place.x.size}
    )
    return blank(frame, place.fun, 0.0, problem, delta_f=np.nan, nfev=0, names=names, kind=kind, n_residuals=n_residuals)
