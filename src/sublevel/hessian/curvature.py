"""Curvature from values of f: a quadratic regression in the whitened frame, at the most informative scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublevel.evaluation.failures import Failures, OnError, annotate_exception
from sublevel.hessian import probing
from sublevel.hessian.assemble import assemble_curvature, fixed_curvature, missing_value, undefined_curvature
from sublevel.hessian.calls import ObjectiveCalls, failure_findings, named_objective
from sublevel.hessian.extrapolation import extrapolate_smooth, repeat_until_precise, significant_change
from sublevel.hessian.findings import Spectrum, spectrum_of
from sublevel.hessian.frame import Frame, Place, find_labels, find_names, find_place, find_space, free_frame
from sublevel.hessian.minimum import Minimum, choose_minimum, minimum_in_box
from sublevel.hessian.probing import LARGEST_VALUE, Baseline, CountedObjective, Probe
from sublevel.hessian.result import Curvature
from sublevel.hessian.stored import store_curvature
from sublevel.hessian.tuning import Tuning
from sublevel.run.arguments import Box, Objective, Workers
from sublevel.run.constraints import ConstraintsLike
from sublevel.run.inside import ActiveConstraint, find_constraints
from sublevel.run.result import Result
from sublevel.validation import as_budget, as_count, as_names, as_positive, short_repr, user_level

KINDS = ("nll", "least_squares")


@dataclass(frozen=True, slots=True)
class Options:
    """The validated arguments of `curvature`."""

    delta: float | None
    noise: float | None
    kind: str | None
    n_residuals: int | None

    @classmethod
    def from_arguments(cls, delta_f: object, noise: object, kind: str | None, n_residuals: object) -> Options:
        """Validate the arguments."""
        if kind is not None and kind not in KINDS:
            raise ValueError(f"`kind` must be None, {' or '.join(map(repr, KINDS))}, got {short_repr(kind)}.")
        if kind == "least_squares" and n_residuals is None:
            raise ValueError('`n_residuals`, the number of squared residuals, is required with kind="least_squares".')
        if n_residuals is not None and kind != "least_squares":
            raise ValueError(f'`n_residuals` is only valid with kind="least_squares", got kind={kind!r}.')
        rise = None if delta_f is None else as_positive("delta_f", delta_f)
        deviation = None if noise is None else as_positive("noise", noise, or_zero=True)
        for name, number in (("delta_f", rise), ("noise", deviation)):
            if number is not None and number >= LARGEST_VALUE:
                raise ValueError(
                    f"`{name}` must be less than {LARGEST_VALUE:g}, the largest value of f, got {number!r}."
                )
        return cls(rise, deviation, kind, None if n_residuals is None else as_count("n_residuals", n_residuals))

    def rise(self, baseline: Baseline, size: int) -> float | None:
        """The rise of f over the region: `delta_f`, or that of one standard deviation; None if it is free."""
        if self.delta is not None or self.kind is None:
            return self.delta
        unit = 1.0 if self.n_residuals is None else 2.0 * baseline.value / (self.n_residuals - size)
        tuning = baseline.tuning
        rise = float(np.clip(tuning.noise_signal * baseline.noise, tuning.nll_rise * unit, tuning.max_nll_rise * unit))
        return rise if rise > 0 else None


def curvature(
    fun: Objective,
    result_or_optimizer: object,
    *,
    delta_f: float | None = None,
    noise: float | None = None,
    maxfevals: float | None = None,
    kind: str | None = None,
    n_residuals: int | None = None,
    names: Sequence[str] | None = None,
    args: object = (),
    bounds: Box | None = None,
    log_scaled: ArrayLike | None = None,
    constraints: ConstraintsLike | None = None,
    vectorized: bool = False,
    workers: Workers = 1,
    timeout: float | None = None,
    on_error: OnError = "raise",
) -> Curvature:
    """Hessian, inverse Hessian, error bars and principal directions of `fun` at a minimum.

    A quadratic is fitted to values of `fun` around the minimum, in the coordinates that the search has learned. A
    smooth function takes (d + 1)(d + 2) evaluations after a search with a full covariance, other cases take more.
    Integers and choices are held at the best point: d is then the number of real variables.

    Parameters
    ----------
    fun : callable
        The objective, as for `minimize`; after a search of a Space it is called with named parameters.
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
        of 1/2 is one standard deviation), "least_squares" for a sum of squared residuals, whose variance is estimated
        with n_residuals − k degrees of freedom for k free variables: as by `scipy.optimize.curve_fit` if variables
        that are fixed or at a bound are constants of its model.
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
    constraints : optional
        As for `minimize`; taken from the result, but must be given again if it is from a file or was pickled.
    vectorized, workers, timeout, on_error : optional
        As for `minimize`. Failed evaluations are left out and counted in `problems`.

    Returns
    -------
    Curvature

    Raises
    ------
    ValueError
        If an argument is invalid, `maxfevals` is too small, the search had no real variables, or a constraint is
        active at the minimum or violated near it: f is then not minimal in all directions.

    Examples
    --------
    >>> import sublevel as sl
    >>> valley = lambda x: (x[0] - 1) ** 2 + 100 * (x[1] - x[0]) ** 2
    >>> found = sl.curvature(valley, sl.minimize(valley, [0, 0], 0.5, rng=1))
    >>> found.hessian.round(3)
    array([[ 202., -200.],
           [-200.,  200.]])
    """
    space = find_space(result_or_optimizer)
    named = named_objective(fun, space)
    options, tuning = Options.from_arguments(delta_f, noise, kind, n_residuals), Tuning()
    place_under = partial(find_place, result_or_optimizer, bounds, log_scaled=log_scaled, tuning=tuning)
    place = place_under(0.0)
    known = find_constraints(result_or_optimizer, constraints, place.x, space, vectorized, workers)
    calls = ObjectiveCalls.from_arguments(named, args, vectorized, workers, timeout, on_error, known)
    variables = as_names(find_names(result_or_optimizer) if names is None else names, place.x.size)
    frame = free_frame(place, place.x)
    held = find_labels(result_or_optimizer, variables).held(place.x)
    facts = {"kind": kind, "n_residuals": options.n_residuals, "held": held, "space": space, "constraints": known}
    complete = partial(replace, names=variables, calls=calls, **facts)
    if not frame.size:
        return complete(fixed_curvature(frame, Minimum(place.x, place.fun)))
    if options.n_residuals is not None and options.n_residuals <= frame.size:
        wanted = f"`n_residuals` must exceed the number of free variables, {frame.size}"
        raise ValueError(f"{wanted}, got {options.n_residuals}.")
    budget = _evaluation_budget(maxfevals, frame.size, tuning)
    with calls.open(failures := Failures()) as evaluate:
        objective = CountedObjective(evaluate, budget, tuning)
        probe = _probe_minimum(objective, place, place_under, frame, options)
        if probe.is_defined:
            found = assemble_curvature(probe, choose_minimum(objective, probe), variables)
        else:
            found = undefined_curvature(probe, missing_value(probe))
    return complete(found, nfev=objective.nfev, problems=found.problems + failure_findings(failures))


def add_curvature(result: Result, fun: Callable[..., Any], file: Path | None = None, **settings: Any) -> None:
    """Add the curvature and its inverse Hessian to a result, with the settings of `curvature`, and to its file.

    Both stay None if the run found no finite value or Ctrl-C ended the run or the evaluations; with a warning, if a
    constraint is active at the minimum. Other exceptions get the result attached.
    """
    if "interrupted" in result.reasons or not np.isfinite(result.fun):
        return
    try:
        found = curvature(fun, result, **settings)
        result.update(curvature=found, hess_inv=found.hess_inv, nfev=result.nfev + found.nfev)
        if file is not None:
            store_curvature(file, result)
    except KeyboardInterrupt:
        return
    except ActiveConstraint as active:
        warnings.warn(f"no curvature was computed: {active}", stacklevel=user_level())
        return
    except BaseException as error:
        annotate_exception(error, sublevel_result=result)
        raise


def _evaluation_budget(maxfevals: object, size: int, tuning: Tuning) -> float:
    least = (size + 1) * (size + 2) + tuning.repeats + 4
    budget = np.inf if maxfevals is None else as_budget("maxfevals", maxfevals)
    if budget < least:
        raise ValueError(f"`maxfevals` must be at least {least} for {size} free variables, got {maxfevals!r}.")
    return budget


def _probe_minimum(
    objective: CountedObjective, place: Place, place_under: Callable[[float], Place], frame: Frame, options: Options
) -> Probe:
    """Probe f in rounder and rounder frames; one probe is enough if the search has learned its frame.

    Under noise the place is chosen anew, `place_under(noise)`, because the best point is then the luckiest one. A
    centre that moves to a bound is held there; the probe has no values if all variables are.
    """
    baseline = probing.measure_baseline(objective, frame, place.fun, options.noise)
    if baseline.is_noisy:
        place = place_under(baseline.noise)
        frame = free_frame(place, np.clip(place.mean, *place.box))
        baseline = probing.measure_baseline(objective, frame, np.nan, baseline.noise)
    size = frame.size
    if not size or not np.isfinite(baseline.value):
        return probing.fit_centre(objective, frame, baseline)
    if baseline.is_noisy and not np.isfinite(objective.maxfevals):
        objective.maxfevals = objective.tuning.noisy_budget + 10 * (size + 1) * (size + 2)
    asked = options.rise(baseline, size)
    seen = probing.estimate_curvature(objective, frame, baseline, asked, place.curvature)
    delta = asked or probing.informative_rise(frame, baseline, seen)
    growth = 2.0 * delta / seen if seen > 0 else np.inf  # also infinite if the quotient overflows
    frame = frame.scale(np.sqrt(growth)) if np.isfinite(growth) else frame
    is_fixed, turn = asked is not None or baseline.is_noisy, 0
    while True:
        checks = frame.size if is_fixed or turn else _n_inner_axes(objective, size)
        axes = probing.scale_axes(objective, frame, baseline, delta, checks)
        chosen = axes if is_fixed else probing.choose_scale(objective, axes, baseline)
        probe = probing.fit_star(objective, chosen, baseline)
        last = turn + 1 == objective.tuning.max_passes or objective.left < 2 * axes.star.evaluations
        better = None if last else _next_region(probe, place)
        if better is None:
            return _finish(objective, probe, options)
        (frame, factor), turn = better, turn + 1
        delta = factor * (delta if chosen is axes else chosen.delta)
        is_fixed |= factor > 1.0
        if frame.centre is not probe.frame.centre:
            value, baseline = baseline.value, probing.measure_baseline(objective, frame, np.nan, baseline.noise)
            if not baseline.value < value:
                return _finish(objective, probe, options)
        if not frame.size:
            return probing.fit_centre(objective, frame, baseline)


def _finish(objective: CountedObjective, probe: Probe, options: Options) -> Probe:
    """Repeat the probe under noise; without noise, and with a `kind`, extrapolate it to radius 0."""
    by_kind = options.kind is not None and options.delta is None
    if not probe.is_defined:
        return probe
    if probe.baseline.is_noisy:
        final = repeat_until_precise(objective, probe, options.delta is not None)
    else:
        final = _narrow(objective, extrapolate_smooth(objective, probe)) if by_kind else probe
    if not by_kind or final is probe or (probe.baseline.is_noisy and final.inner is None):
        return final
    return replace(final, plain_lack=significant_change(probe, probe.tuning.not_quadratic), plain_delta=probe.delta)


def _narrow(objective: CountedObjective, probe: Probe) -> Probe:
    """Narrow the region while curvatures change too much with the radius to show whether there is a minimum."""
    tuning = probe.tuning
    for _ in range(tuning.max_narrowings):
        frame, size = probe.frame, probe.frame.size
        is_good = not significant_change(probe, tuning.not_quadratic) and spectrum_of(probe).is_minimum
        is_useless = not np.max(probe.lack, initial=0.0) > tuning.min_change
        if is_good or is_useless or not objective.can_spare(10 * size, size):
            break
        delta = tuning.narrowing**2 * probe.delta
        axes = probing.scale_axes(objective, frame.scale(tuning.narrowing), probe.baseline, delta, size)
        nearer = extrapolate_smooth(objective, probing.fit_star(objective, axes, probe.baseline))
        if not nearer.is_defined:
            break
        probe = nearer
    return probe


def _n_inner_axes(objective: CountedObjective, size: int) -> int:
    """Number of axes with inner points, so that (d + 1)(d + 2) evaluations suffice including one at the minimum."""
    return int(np.clip(((size + 1) * (size + 2) - 1 - objective.nfev - 2 * size - size * (size - 1)) // 2, 1, size))


def _next_region(probe: Probe, place: Place) -> tuple[Frame, float] | None:
    """Frame of a region in which curvatures are equal and the minimum is central, and the factor of the rise; or None.

    If the minimum lies outside the region, the centre is moved to it, or the region is widened if it was moved before.
    """
    frame, moved = probe.frame, probe.frame.centre is not place.x
    if not probe.is_defined:
        return frame.scale(0.25), 1.0 / 16.0
    spectrum = spectrum_of(probe)
    sizes = np.abs(spectrum.values)
    distance = float(np.linalg.norm(probe.newton)) if spectrum.is_minimum else probe.slope
    if distance > probe.tuning.trusted_radius and not probe.baseline.is_noisy:
        if spectrum.is_minimum and not moved:
            rounder = replace(place, root=_rounder_frame(probe, spectrum).root)
            return free_frame(rounder, minimum_in_box(probe, spectrum)), 1.0
        wider = probe.tuning.recentre_factor * distance if moved else distance
        return (frame.scale(wider), wider * wider) if probe.delta * wider * wider < LARGEST_VALUE else None
    roundness = probe.tuning.roundness_for_noise if probe.baseline.is_noisy else probe.tuning.roundness
    if spectrum.is_negative.any() or np.min(sizes) >= roundness * np.max(sizes):
        return None
    return _rounder_frame(probe, spectrum), 1.0


def _rounder_frame(probe: Probe, spectrum: Spectrum) -> Frame:
    """The frame in which the measured curvatures are equal."""
    sizes = np.abs(spectrum.values)
    least = probe.tuning.roundness**2 * np.max(sizes)
    return probe.frame.transform(spectrum.vectors / np.sqrt(np.maximum(sizes, np.maximum(spectrum.errors, least))))
