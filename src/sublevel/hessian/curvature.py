"""Curvature from values of f: a quadratic regression in the whitened frame, at a scale where f tells most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sublevel.evaluation.failures import Failures, OnError
from sublevel.hessian.assemble import described, is_defined, nothing_free, undefined
from sublevel.hessian.calls import Calls, failed_calls
from sublevel.hessian.extrapolation import extrapolated_smooth, seen_change, settled
from sublevel.hessian.findings import Spectrum, spectrum_of
from sublevel.hessian.frame import Frame, Place, found_names, found_place, free_frame
from sublevel.hessian.minimum import reported_minimum
from sublevel.hessian.probing import (
    Ground,
    Look,
    Objective,
    ground_at,
    looked,
    probed_curvature,
    quadratic_axes,
    scaled_axes,
    telling_rise,
)
from sublevel.hessian.result import Curvature
from sublevel.hessian.tuning import Tuning
from sublevel.validation import as_budget, as_count, as_names, as_positive, short_repr

KINDS = ("nll", "least_squares")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, checked."""

    delta: float | None
    noise: float | None
    kind: str | None
    n_residuals: int | None

    @classmethod
    def checked(cls, delta_f: Any, noise: Any, kind: Any, n_residuals: Any) -> Question:
        """From what the user gave."""
        if kind is not None and kind not in KINDS:
            raise ValueError(f"`kind` must be None, {' or '.join(map(repr, KINDS))}, got {short_repr(kind)}.")
        if kind == "least_squares" and n_residuals is None:
            raise ValueError(
                '`n_residuals` is required with kind="least_squares": the number of squared residuals in the sum, e.g. len(t).'
            )
        if n_residuals is not None and kind != "least_squares":
            raise ValueError(f'`n_residuals` is only valid with kind="least_squares", got kind={kind!r}.')
        return cls(
            delta=None if delta_f is None else as_positive("delta_f", delta_f),
            noise=None if noise is None else as_positive("noise", noise, or_zero=True),
            kind=kind,
            n_residuals=None if n_residuals is None else as_count("n_residuals", n_residuals),
        )

    def rise(self, ground: Ground, size: int) -> float | None:
        """The rise of f to look at, None if any will do: the user's, or the one that means one standard deviation."""
        if self.delta is not None or self.kind is None:
            return self.delta
        unit = 1.0 if self.n_residuals is None else 2.0 * ground.value / (self.n_residuals - size)
        tuning = ground.tuning
        rise = float(np.clip(tuning.noise_signal * ground.noise, tuning.nll_rise * unit, tuning.max_nll_rise * unit))
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
    """Hessian, inverse Hessian, error bars and principal directions of `fun` at a minimum that was found.

    fun, args, vectorized, workers, timeout, on_error
        As for `minimize`. Evaluations that fail are left out, and `problems` counts them.
    result_or_optimizer
        What `minimize` returned, an `Optimizer`, or any OptimizeResult with an `x`. The better the frame that the search has learned, the
        fewer evaluations it takes: (d + 1)(d + 2) of them for a smooth function after a search with a full covariance.
    delta_f
        How much f rises over the region to look at. By default as little as rounding lets one see; a hundred times the noise if there is
        noise, and from other radii where f bends; one standard deviation for a `kind`.
    noise
        Standard deviation of a value, 0 for none. By default it is measured if f does not return the same value at the same point.
    kind, n_residuals
        For `stderr`, `covariance` and `intervals()`: "nll" if f is a negative log-likelihood (a rise of 1/2 is one standard deviation),
        "least_squares" if it is the sum of `n_residuals` squared residuals, whose variance is then estimated.
    maxfevals, names
        Evaluations that it may cost; under noise 500 + 10·(d + 1)(d + 2) by default. And what to call the variables in what is printed;
        by default as `minimize` was told.
    bounds, log_scaled
        As for `minimize`; known already if the result is one of ours. Nothing outside is ever evaluated. Log-scaled variables are varied in
        ln x; Hessian, covariance and standard errors are those of x, intervals are transformed back.

    >>> import sublevel as sl
    >>> valley = lambda x: (x[0] - 1) ** 2 + 100 * (x[1] - x[0]) ** 2
    >>> found = sl.curvature(valley, sl.minimize(valley, [0, 0], 0.5, rng=1))
    >>> found.hessian.round(3)
    array([[ 202., -200.],
           [-200.,  200.]])
    """
    calls = Calls.checked(fun, args, vectorized, workers, timeout, on_error)
    question = Question.checked(delta_f, noise, kind, n_residuals)
    tuning = Tuning()
    place_under = partial(found_place, result_or_optimizer, bounds, log_scaled=log_scaled, tuning=tuning)
    return _curvature_at(calls, place_under, question, maxfevals, found_names(result_or_optimizer) if names is None else names, tuning)


def _curvature_at(
    calls: Calls, place_under: Callable[[float], Place], question: Question, maxfevals: Any, names: Any, tuning: Tuning
) -> Curvature:
    """The same of a place, which is another one `place_under` noise."""
    place = place_under(0.0)
    called = as_names(names, place.x.size)
    frame = free_frame(place, place.x)
    if not frame.size:
        return replace(nothing_free(place, frame, called, question.kind, question.n_residuals), calls=calls)
    _check_n_residuals(frame, question)
    budget = _checked_evaluations(maxfevals, frame.size, tuning)
    with calls.open(failures := Failures()) as evaluate:
        objective = Objective(evaluate, budget, tuning)
        look = _looked_at(objective, place, place_under, frame, question)
        told = called, question.kind, question.n_residuals
        found = described(look, reported_minimum(objective, look), *told) if is_defined(look) else undefined(look, *told)
    return replace(found, nfev=objective.nfev, calls=calls, problems=found.problems + failed_calls(failures))


def _checked_evaluations(maxfevals: Any, size: int, tuning: Tuning) -> float:
    least = (size + 1) * (size + 2) + tuning.repeats + 4
    budget = np.inf if maxfevals is None else as_budget("maxfevals", maxfevals)
    if budget < least:
        raise ValueError(f"`maxfevals` must allow {least} evaluations for {size} free variables, got {maxfevals!r}.")
    return budget


def _check_n_residuals(frame: Frame, question: Question) -> None:
    if question.n_residuals is not None and question.n_residuals <= frame.size:
        raise ValueError(f"`n_residuals` must exceed the number of free variables, {frame.size}, got {question.n_residuals}.")


def _looked_at(objective: Objective, place: Place, place_under: Callable[[float], Place], frame: Frame, question: Question) -> Look:
    """The last of several looks, each in a frame that the one before made rounder; one is enough if the search has learned its frame.

    The place is another one `place_under` noise, of which the search cannot have learned.
    """
    ground = ground_at(objective, frame, place.fun, question.noise)
    if ground.is_noisy:  # the best point is the luckiest one
        place = place_under(ground.noise)
        frame = free_frame(place, np.clip(place.mean, *place.box))
        ground = ground_at(objective, frame, np.nan, ground.noise)
    size = frame.size
    if ground.is_noisy and not np.isfinite(objective.maxfevals):
        objective.maxfevals = objective.tuning.noisy_budget + 10 * (size + 1) * (size + 2)
    asked = question.rise(ground, size)
    seen = probed_curvature(objective, frame, ground, asked, place.curvature)
    delta = asked or telling_rise(frame, ground, seen)
    frame = frame.turned(np.sqrt(2.0 * delta / seen) * np.eye(size)) if seen > 0 else frame
    is_fixed, turn = asked is not None or ground.is_noisy, 0
    while True:
        axes = scaled_axes(objective, frame, ground, delta, size if is_fixed or turn else _checks(objective, size))
        look = looked(objective, axes if is_fixed else quadratic_axes(objective, axes, ground), ground)
        last = turn + 1 == objective.tuning.max_passes or objective.left < 2 * axes.star.evaluations
        better = None if last else _better(look, moved=look.frame.centre is not place.x)
        if better is None:
            return _finished(objective, look, question)
        is_fixed |= better.delta > look.delta
        if better.frame.centre is not look.frame.centre:
            value, ground = ground.value, ground_at(objective, better.frame, np.nan, ground.noise)
            if not ground.value < value:
                return _finished(objective, look, question)
        frame, delta, turn = better.frame, better.delta, turn + 1


def _finished(objective: Objective, look: Look, question: Question) -> Look:
    """The look repeated under noise; without, and with a `kind`, the limit of small radii, seen from one standard deviation."""
    by_kind = question.kind is not None and question.delta is None
    if look.ground.is_noisy:
        finished = settled(objective, look, question.delta is not None)
    else:
        finished = _narrowed(objective, extrapolated_smooth(objective, look)) if by_kind else look
    if not by_kind or finished is look or (look.ground.is_noisy and finished.inner is None):
        return finished
    return replace(finished, plain_lack=seen_change(look, look.tuning.not_quadratic), plain_delta=look.delta)


def _narrowed(objective: Objective, look: Look) -> Look:
    """A look nearer to the minimum while curvatures that change with the radius hide whether there is one."""
    tuning = look.tuning
    for _ in range(tuning.max_narrowings):
        frame, size = look.frame, look.frame.size
        is_good = not seen_change(look, tuning.not_quadratic) and spectrum_of(look).is_minimum
        if is_good or not np.max(look.lack, initial=0.0) > tuning.min_change or not objective.can_spare(10 * size, size):
            break
        axes = scaled_axes(objective, frame.turned(tuning.narrowing * np.eye(size)), look.ground, tuning.narrowing**2 * look.delta, size)
        nearer = extrapolated_smooth(objective, looked(objective, axes, look.ground))
        if not np.isfinite(nearer.fit.matrix).all():
            break
        look = nearer
    return look


def _checks(objective: Objective, size: int) -> int:
    """How many axes get inner points: all, but a few less where (d + 1)(d + 2) evaluations, with one for the minimum, would not do."""
    return int(np.clip(((size + 1) * (size + 2) - 1 - objective.nfev - 2 * size - size * (size - 1)) // 2, 1, size))


class _Aim(NamedTuple):
    """Where to look next."""

    frame: Frame
    delta: float


def _better(look: Look, moved: bool) -> _Aim | None:
    """Where to look next, such that curvatures are equal and the minimum lies in the middle; None if it is so already, or hopeless.

    Where the minimum lies outside, the centre is moved to it; if that was done before, f is not the quadratic it seemed: look wider.
    """
    frame, size = look.frame, look.frame.size
    if not np.isfinite(look.fit.matrix).all():
        return _Aim(frame.turned(0.25 * np.eye(size)), look.delta / 16.0)
    spectrum = spectrum_of(look)
    sizes = np.abs(spectrum.values)
    distance = float(np.linalg.norm(look.newton)) if spectrum.is_minimum else look.slope
    if distance > look.tuning.trusted_radius and not look.ground.is_noisy:
        if spectrum.is_minimum and not moved:
            return _Aim(replace(_rounder(look, spectrum), centre=frame.points(look.newton)), look.delta)
        wider = look.tuning.recentre_factor * distance if moved else distance
        return _Aim(frame.turned(wider * np.eye(size)), look.delta * wider**2)
    roundness = look.tuning.roundness_for_noise if look.ground.is_noisy else look.tuning.roundness
    if spectrum.is_negative.any() or np.min(sizes) >= roundness * np.max(sizes):
        return None
    return _Aim(_rounder(look, spectrum), look.delta)


def _rounder(look: Look, spectrum: Spectrum) -> Frame:
    """The frame in which the curvatures that were seen are equal."""
    sizes = np.abs(spectrum.values)
    least = look.tuning.roundness**2 * np.max(sizes)
    return look.frame.turned(spectrum.vectors / np.sqrt(np.maximum(sizes, np.maximum(spectrum.errors, least))))
