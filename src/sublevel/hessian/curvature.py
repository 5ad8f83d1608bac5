"""Curvature from values of f: a quadratic regression in the whitened frame, at the most informative scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sublevel.evaluation.failures import Failures, OnError, annotate_exception
from sublevel.hessian.assemble import assemble_curvature, fixed_curvature, is_defined, undefined_curvature
from sublevel.hessian.calls import ObjectiveCalls, failure_findings
from sublevel.hessian.extrapolation import extrapolate_smooth, repeat_until_precise, significant_change
from sublevel.hessian.findings import Spectrum, spectrum_of
from sublevel.hessian.frame import Frame, Place, find_names, find_place, free_frame
from sublevel.hessian.minimum import choose_minimum
from sublevel.hessian.probing import (
    Baseline,
    Objective,
    Probe,
    choose_scale,
    estimate_curvature,
    fit_star,
    informative_rise,
    measure_baseline,
    scale_axes,
)
from sublevel.hessian.result import Curvature
from sublevel.hessian.tuning import Tuning
from sublevel.run.result import Result
from sublevel.validation import as_budget, as_count, as_names, as_positive, short_repr

KINDS = ("nll", "least_squares")


@dataclass(frozen=True, slots=True)
class Options:
    """The validated arguments of `curvature`."""

    delta: float | None
    noise: float | None
    kind: str | None
    n_residuals: int | None

    @classmethod
    def from_arguments(cls, delta_f: Any, noise: Any, kind: Any, n_residuals: Any) -> Options:
        """Validate the arguments."""
        if kind is not None and kind not in KINDS:
            raise ValueError(f"`kind` must be None, {' or '.join(map(repr, KINDS))}, got {short_repr(kind)}.")
        if kind == "least_squares" and n_residuals is None:
            raise ValueError(
                '`n_residuals` is required with kind="least_squares": the number of squared residuals in the sum, '
                "e.g. len(t)."
            )
        if n_residuals is not None and kind != "least_squares":
            raise ValueError(f'`n_residuals` is only valid with kind="least_squares", got kind={kind!r}.')
        return cls(
            delta=None if delta_f is None else as_positive("delta_f", delta_f),
            noise=None if noise is None else as_positive("noise", noise, or_zero=True),
            kind=kind,
            n_residuals=None if n_residuals is None else as_count("n_residuals", n_residuals),
        )

    def rise(self, baseline: Baseline, size: int) -> float | None:
        """The rise of f over the region: `delta_f`, or that of one standard deviation; None if it is free."""
        if self.delta is not None or self.kind is None:
            return self.delta
        unit = 1.0 if self.n_residuals is None else 2.0 * baseline.value / (self.n_residuals - size)
        tuning = baseline.tuning
        rise = float(np.clip(tuning.noise_signal * baseline.noise, tuning.nll_rise * unit, tuning.max_nll_rise * unit))
        return rise if rise > 0 else None


def curvature(
    fun: Callable[..., Any],
    result_or_optimizer: Any,
    *,
    delta_f: float | None = None,
    noise: float | None = None,
    maxfevals: float | None = None,
    kind: str | None = None,
    n_residuals: int | None = None,
    names: Sequence[str] | None = None,
    args: tuple[Any, ...] = (),
    bounds: Any = None,
    log_scaled: Any = None,
    vectorized: bool = False,
    workers: int | Callable[..., Any] = 1,
    timeout: float | None = None,
    on_error: OnError = "raise",
) -> Curvature:
    """Hessian, inverse Hessian, error bars and principal directions of `fun` at a minimum.

    A quadratic is fitted to values of `fun` around the minimum, in the frame that the search has learned. This takes (d
    + 1)(d + 2) evaluations of a smooth function after a search with a full covariance, and more if the frame is less
    accurate or `fun` is noisy.

    Parameters
    ----------
    fun : callable
        The objective, as for `minimize`.
    result_or_optimizer : Result, Optimizer or OptimizeResult
        The minimum: the return value of `minimize`, an `Optimizer`, or any object with an attribute ``x``.
    delta_f : float, optional
        Rise of f over the region in which the quadratic is fitted. By default the smallest rise that rounding allows;
        100 times the noise if there is noise (extrapolated from several radii if f is not quadratic); one standard
        deviation if `kind` is given.
    noise : float, optional
        Standard deviation of a value; 0 for none. By default it is estimated if f returns different values at the same
        point.
    maxfevals : int, optional
        Maximum number of evaluations. The default under noise is 500 + 10·(d + 1)(d + 2).
    kind : {None, "nll", "least_squares"}
        What f is, which defines `stderr`, `covariance` and `intervals()`: "nll" for a negative log-likelihood (a rise
        of 1/2 is one standard deviation), "least_squares" for a sum of squared residuals, whose variance is estimated.
    n_residuals : int, optional
        Number of squared residuals, required with kind="least_squares".
    names : sequence of str, optional
        Names of the variables; by default those passed to `minimize`.
    args : tuple, optional
        Additional arguments of `fun`.
    bounds, log_scaled : optional
        As for `minimize`; taken from the result if it comes from this package. Points outside the bounds are never
        evaluated. Log-scaled variables are varied in ln x; Hessian, covariance and standard errors refer to x,
        intervals are transformed back.
    vectorized, workers, timeout, on_error : optional
        As for `minimize`. Failed evaluations are left out and counted in `problems`.

    Returns
    -------
    Curvature

    Raises
    ------
    ValueError
        If an argument is invalid, `maxfevals` is too small, or the search was over bits.

    Examples
    --------
    >>> import sublevel as sl
    >>> valley = lambda x: (x[0] - 1) ** 2 + 100 * (x[1] - x[0]) ** 2
    >>> found = sl.curvature(valley, sl.minimize(valley, [0, 0], 0.5, rng=1))
    >>> found.hessian.round(3)
    array([[ 202., -200.],
           [-200.,  200.]])
    """
    calls = ObjectiveCalls.from_arguments(fun, args, vectorized, workers, timeout, on_error)
    options = Options.from_arguments(delta_f, noise, kind, n_residuals)
    tuning = Tuning()
    place_under = partial(find_place, result_or_optimizer, bounds, log_scaled=log_scaled, tuning=tuning)
    return _curvature_at(
        calls, place_under, options, maxfevals, find_names(result_or_optimizer) if names is None else names, tuning
    )


def add_curvature(result: Result, fun: Callable[..., object], **settings: Any) -> None:
    """Add the curvature and its inverse Hessian to a result, with the settings of `curvature`.

    Both stay None if the run found no finite value or Ctrl-C ended the run or the evaluations. Other exceptions get the
    result attached.
    """
    if "interrupted" in result.reasons or not np.isfinite(result.fun):
        return
    try:
        found = curvature(fun, result, **settings)
    except KeyboardInterrupt:
        return
    except BaseException as error:
        annotate_exception(error, sublevel_result=result)
        raise
    result.update(curvature=found, hess_inv=found.hess_inv, nfev=result.nfev + found.nfev)


def _curvature_at(
    calls: ObjectiveCalls,
    place_under: Callable[[float], Place],
    options: Options,
    maxfevals: Any,
    names: Any,
    tuning: Tuning,
) -> Curvature:
    """The curvature at a place, which depends on the noise: `place_under(noise)`."""
    place = place_under(0.0)
    variables = as_names(names, place.x.size)
    frame = free_frame(place, place.x)
    complete = partial(replace, names=variables, kind=options.kind, n_residuals=options.n_residuals, calls=calls)
    if not frame.size:
        return complete(fixed_curvature(place, frame))
    _check_n_residuals(frame, options)
    budget = _evaluation_budget(maxfevals, frame.size, tuning)
    with calls.open(failures := Failures()) as evaluate:
        objective = Objective(evaluate, budget, tuning)
        probe = _probe_minimum(objective, place, place_under, frame, options)
        if is_defined(probe):
            found = assemble_curvature(probe, choose_minimum(objective, probe), variables)
        else:
            found = undefined_curvature(probe)
    return complete(found, nfev=objective.nfev, problems=found.problems + failure_findings(failures))


def _evaluation_budget(maxfevals: Any, size: int, tuning: Tuning) -> float:
    least = (size + 1) * (size + 2) + tuning.repeats + 4
    budget = np.inf if maxfevals is None else as_budget("maxfevals", maxfevals)
    if budget < least:
        raise ValueError(f"`maxfevals` must be at least {least} for {size} free variables, got {maxfevals!r}.")
    return budget


def _check_n_residuals(frame: Frame, options: Options) -> None:
    if options.n_residuals is not None and options.n_residuals <= frame.size:
        raise ValueError(
            f"`n_residuals` must exceed the number of free variables, {frame.size}, got {options.n_residuals}."
        )


def _probe_minimum(
    objective: Objective, place: Place, place_under: Callable[[float], Place], frame: Frame, options: Options
) -> Probe:
    """Probe f in rounder and rounder frames; one probe is enough if the search has learned its frame.

    Under noise the place is chosen anew, `place_under(noise)`, because the best point is then the luckiest one.
    """
    baseline = measure_baseline(objective, frame, place.fun, options.noise)
    if baseline.is_noisy:
        place = place_under(baseline.noise)
        frame = free_frame(place, np.clip(place.mean, *place.box))
        baseline = measure_baseline(objective, frame, np.nan, baseline.noise)
    size = frame.size
    if baseline.is_noisy and not np.isfinite(objective.maxfevals):
        objective.maxfevals = objective.tuning.noisy_budget + 10 * (size + 1) * (size + 2)
    asked = options.rise(baseline, size)
    seen = estimate_curvature(objective, frame, baseline, asked, place.curvature)
    delta = asked or informative_rise(frame, baseline, seen)
    frame = frame.transform(np.sqrt(2.0 * delta / seen) * np.eye(size)) if seen > 0 else frame
    is_fixed, turn = asked is not None or baseline.is_noisy, 0
    while True:
        axes = scale_axes(
            objective, frame, baseline, delta, size if is_fixed or turn else _n_inner_axes(objective, size)
        )
        probe = fit_star(objective, axes if is_fixed else choose_scale(objective, axes, baseline), baseline)
        last = turn + 1 == objective.tuning.max_passes or objective.left < 2 * axes.star.evaluations
        better = None if last else _next_region(probe, moved=probe.frame.centre is not place.x)
        if better is None:
            return _finish(objective, probe, options)
        is_fixed |= better.delta > probe.delta
        if better.frame.centre is not probe.frame.centre:
            value, baseline = baseline.value, measure_baseline(objective, better.frame, np.nan, baseline.noise)
            if not baseline.value < value:
                return _finish(objective, probe, options)
        frame, delta, turn = better.frame, better.delta, turn + 1


def _finish(objective: Objective, probe: Probe, options: Options) -> Probe:
    """Repeat the probe under noise; without noise, and with a `kind`, extrapolate it to radius 0."""
    by_kind = options.kind is not None and options.delta is None
    if probe.baseline.is_noisy:
        final = repeat_until_precise(objective, probe, options.delta is not None)
    else:
        final = _narrow(objective, extrapolate_smooth(objective, probe)) if by_kind else probe
    if not by_kind or final is probe or (probe.baseline.is_noisy and final.inner is None):
        return final
    return replace(final, plain_lack=significant_change(probe, probe.tuning.not_quadratic), plain_delta=probe.delta)


def _narrow(objective: Objective, probe: Probe) -> Probe:
    """Narrow the region while curvatures change too much with the radius to show whether there is a minimum."""
    tuning = probe.tuning
    for _ in range(tuning.max_narrowings):
        frame, size = probe.frame, probe.frame.size
        is_good = not significant_change(probe, tuning.not_quadratic) and spectrum_of(probe).is_minimum
        if (
            is_good
            or not np.max(probe.lack, initial=0.0) > tuning.min_change
            or not objective.can_spare(10 * size, size)
        ):
            break
        axes = scale_axes(
            objective,
            frame.transform(tuning.narrowing * np.eye(size)),
            probe.baseline,
            tuning.narrowing**2 * probe.delta,
            size,
        )
        nearer = extrapolate_smooth(objective, fit_star(objective, axes, probe.baseline))
        if not np.isfinite(nearer.fit.matrix).all():
            break
        probe = nearer
    return probe


def _n_inner_axes(objective: Objective, size: int) -> int:
    """Number of axes with inner points, so that (d + 1)(d + 2) evaluations suffice including one at the minimum."""
    return int(np.clip(((size + 1) * (size + 2) - 1 - objective.nfev - 2 * size - size * (size - 1)) // 2, 1, size))


class _Region(NamedTuple):
    """Frame and rise of the next probe."""

    frame: Frame
    delta: float


def _next_region(probe: Probe, moved: bool) -> _Region | None:
    """A region in which curvatures are equal and the minimum is central; None if the present one is, or if there is no
    minimum.

    If the minimum lies outside the region, the centre is moved to it; if that was done before, the region is widened
    instead.
    """
    frame, size = probe.frame, probe.frame.size
    if not np.isfinite(probe.fit.matrix).all():
        return _Region(frame.transform(0.25 * np.eye(size)), probe.delta / 16.0)
    spectrum = spectrum_of(probe)
    sizes = np.abs(spectrum.values)
    distance = float(np.linalg.norm(probe.newton)) if spectrum.is_minimum else probe.slope
    if distance > probe.tuning.trusted_radius and not probe.baseline.is_noisy:
        if spectrum.is_minimum and not moved:
            return _Region(replace(_rounder_frame(probe, spectrum), centre=frame.points(probe.newton)), probe.delta)
        wider = probe.tuning.recentre_factor * distance if moved else distance
        return _Region(frame.transform(wider * np.eye(size)), probe.delta * wider**2)
    roundness = probe.tuning.roundness_for_noise if probe.baseline.is_noisy else probe.tuning.roundness
    if spectrum.is_negative.any() or np.min(sizes) >= roundness * np.max(sizes):
        return None
    return _Region(_rounder_frame(probe, spectrum), probe.delta)


def _rounder_frame(probe: Probe, spectrum: Spectrum) -> Frame:
    """The frame in which the measured curvatures are equal."""
    sizes = np.abs(spectrum.values)
    least = probe.tuning.roundness**2 * np.max(sizes)
    return probe.frame.transform(spectrum.vectors / np.sqrt(np.maximum(sizes, np.maximum(spectrum.errors, least))))
