"""Evaluate f around a centre: how far, how often, and in which frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Evaluator, evaluate_all
from sublevel.hessian.design import INNER, Quadratic, Star, Values, fit_quadratic
from sublevel.hessian.frame import EPS, Frame
from sublevel.hessian.tuning import Tuning

LARGEST_VALUE = 1e150
"""Values from here on are treated as NaN: sums of their squares overflow."""
BIAS = float(np.sqrt(2.0) * (1.0 + INNER**6) / np.sqrt(1.0 + INNER**4) / (1.0 - INNER**2))
"""Residual scatter, per unit change between two radii, whose standard error is the bias due to a quartic term."""


class CountedObjective:
    """f with a counter and a budget of evaluations."""

    def __init__(self, evaluate: Evaluator, maxfevals: float, tuning: Tuning) -> None:
        self.evaluate, self.maxfevals, self.tuning, self.nfev = evaluate, maxfevals, tuning, 0
        self.spends = bool(np.isfinite(maxfevals))  # a given budget is spent completely under noise
        self.first, self.best = np.nan, np.inf  # first and lowest value
        self.best_x: Array | None = None  # (d,), the point with the lowest value

    def at(self, points: Array) -> Array:
        """Values (n,) of points (n, d), NaN where f is not finite or too large, or where a point is not finite."""
        exists, values = np.isfinite(points).all(axis=1), np.full(len(points), np.nan)
        if not exists.any():
            return values
        self.nfev += int(np.count_nonzero(exists))
        values[exists] = evaluate_all(self.evaluate, points[exists])
        values = np.where(np.abs(values) < LARGEST_VALUE, values, np.nan)
        self.first = float(values[0]) if np.isnan(self.first) else self.first
        if np.min(values, initial=np.inf, where=~np.isnan(values)) < self.best:
            lowest = int(np.nanargmin(values))
            self.best, self.best_x = float(values[lowest]), points[lowest]
        return values

    def centre(self, frame: Frame, times: int = 1) -> Array:
        """Values (times,) at the centre."""
        return self.at(np.repeat(frame.centre[None], times, axis=0))

    def pairs(self, frame: Frame, rows: Array) -> tuple[Array, Array]:
        """f(z) and f(−z) for rows z (n, k)."""
        values = self.at(frame.points(np.concatenate([rows, -rows])))
        return values[: len(rows)], values[len(rows) :]

    def one_round(self, frame: Frame, star: Star) -> Values:
        """Values of a star."""
        centre = self.centre(frame)
        return Values.of_one_round(centre, self.pairs(frame, star.axis_rows), self.pairs(frame, star.couple_rows))

    def more_rounds(self, frame: Frame, star: Star, values: Values, wanted: int) -> Values:
        """Add rounds up to `wanted`, or as many as the budget allows."""
        new = int(max(0, min(wanted - values.rounds, self.left // star.evaluations)))
        return Values.join(values, *(self.one_round(frame, star) for _ in range(new)))

    @property
    def left(self) -> float:
        """Evaluations that may still be made."""
        return self.maxfevals - self.nfev

    def can_spare(self, evaluations: int, size: int) -> bool:
        """Whether the budget still allows a star of `size` dimensions after these evaluations."""
        return self.left - evaluations >= 4 * size + size * (size - 1)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Values of f at the centre, and their resolution."""

    values: Array  # (n,)
    noise: float  # standard deviation of a value, 0 if deterministic
    resolution: float  # smallest significant difference: rounding or noise
    tuning: Tuning

    @property
    def value(self) -> float:
        """Their mean."""
        return float(np.mean(self.values))

    @property
    def is_noisy(self) -> bool:
        """Whether values at the same point differ."""
        return self.noise > 0


@dataclass(frozen=True, slots=True)
class Axes:
    """A frame whose axes are scaled to a given rise, and f at their ends."""

    frame: Frame
    delta: float
    star: Star
    values: tuple[Array, Array]  # f(z), f(−z) of `star.axis_rows`

    def lack(self, baseline: Baseline) -> tuple[int, float]:
        """Number of axes without a significant rise, and the largest relative change of the other curvatures."""
        even = 0.5 * (self.values[0] + self.values[1]) - baseline.value
        outer, inner = even[: self.star.checks], even[self.star.size :] / INNER**2
        size = np.maximum(np.abs(outer), np.abs(inner))
        clear = np.isfinite(size) & (size > baseline.tuning.clear * baseline.resolution)
        return int(np.count_nonzero(~clear)), float(np.max(np.abs(outer - inner)[clear] / size[clear], initial=0.0))


@dataclass(frozen=True, slots=True)
class Probe:
    """Values of f around a centre, and the quadratic fitted to them."""

    frame: Frame
    delta: float
    baseline: Baseline
    star: Star
    values: Values
    fit: Quadratic
    nfev: int
    inner: Values | None = None  # of the star of half the radius, if the fit is extrapolated
    bias: float = 0.0  # squared error of the relative curvatures (k, k), summed, beyond noise
    widening: float = 1.0  # factor of the variances that includes the bias
    plain_lack: float = 0.0  # largest change of a curvature with the radius before extrapolation, if relevant
    plain_delta: float = np.nan  # the rise at that radius
    centre_change: float = np.inf  # relative change of a curvature between centre and minimum, if known

    @property
    def tuning(self) -> Tuning:
        """The tunables it was made with."""
        return self.baseline.tuning

    @property
    def relative(self) -> Array:
        """The whitened Hessian (k, k); 1 means that f rises by delta at one radius."""
        return self.fit.matrix / (2.0 * self.delta)

    @property
    def is_defined(self) -> bool:
        """Whether f was finite at all points, and its coefficients and the frame are."""
        numbers = self.fit.constant, self.fit.gradient, self.fit.matrix, self.relative, self.frame.root
        return all(bool(np.isfinite(array).all()) for array in numbers)

    @property
    def scatter(self) -> float:
        """Variance of a value about the quadratic: noise and rounding; without noise at least the lack of fit."""
        change = self.fit.lack_of_fit.change
        bent = 0.0 if self.baseline.is_noisy or not change.size else np.square(BIAS) * np.mean(np.square(change))
        return max(self._scatter(*self.fit.even), float(bent))

    @property
    def variance(self) -> float:
        """The variance from which standard errors of curvatures are computed."""
        return self.widening * self.scatter

    @property
    def odd_variance(self) -> float:
        """The same for the gradient, including cubic terms."""
        return self._scatter(*self.fit.odd)

    def _scatter(self, squares: float, dof: int) -> float:
        of_f = 0.0 if self.baseline.is_noisy else self.baseline.resolution
        rounding = max(of_f, 2.0 * self.delta * self.frame.rounding)
        return max(squares / max(dof, 1), np.square(rounding))

    @property
    def noise_variance(self) -> float:
        """Variance of a value at a fixed point, from repetitions if there are enough."""
        squares, dof = self.fit.pure
        return squares / dof if dof >= self.tuning.repeats - 1 else np.square(self.baseline.noise)

    @property
    def slope(self) -> float:
        """Distance of the minimum in radii, assuming unit relative curvature."""
        return float(np.linalg.norm(self.fit.gradient)) / (2.0 * self.delta)

    @property
    def lack(self) -> Array:
        """Relative change (n,) of each curvature with the radius, and under noise between axes and couples."""
        return np.abs(self.fit.lack_of_fit.change) / self._rises

    @property
    def lack_error(self) -> Array:
        """Its standard deviation under noise (n,)."""
        return np.sqrt(self.noise_variance * self.fit.lack_of_fit.units) / self._rises

    @property
    def _rises(self) -> Array:
        """Rise of f along the axes with inner points and the couples (n,), at least delta/band."""
        star = self.star
        rises = np.maximum(0.5 * np.abs(np.diagonal(self.fit.matrix)), self.delta / self.tuning.band)
        i, j = star.couples
        return np.concatenate([rises[: star.checks], *([0.5 * (rises[i] + rises[j])] if star.both else [])])

    @property
    def spread(self) -> float:
        """Relative error of the smallest curvature due to noise: 2s√k for entries of standard deviation s."""
        if not self.is_defined:
            return 0.0
        sizes = np.abs(np.linalg.eigvalsh(self.fit.matrix))
        smallest = max(float(np.min(sizes)), self.tuning.roundness_for_noise * float(np.max(sizes)))
        error = 2.0 * np.sqrt(self.frame.size * self.variance * self.fit.errors.couple)
        return error / smallest if smallest > 0 else np.inf

    @property
    def newton(self) -> Array:
        """Stationary point (k,) of the quadratic in the frame."""
        return -(np.linalg.pinv(self.relative) @ (self.fit.gradient / (2.0 * self.delta))).astype(np.float64)


def measure_baseline(objective: CountedObjective, frame: Frame, known: float, noise: float | None) -> Baseline:
    """Evaluate the centre and estimate the noise: 0 if the `known` value or the first new one is reproduced."""
    tuning, values = objective.tuning, objective.centre(frame)
    if noise is None and values[0] != known:
        values = np.append(values, objective.centre(frame))
    differ = values[0] != values[-1]
    if noise is None and differ and np.isfinite(values).all():
        values = np.append(values, objective.centre(frame, tuning.repeats - 2))
        noise = float(np.std(values, ddof=1))
    rounding = EPS * float(np.max(np.abs(values)))
    if noise:
        return Baseline(values, noise, max(noise, rounding), tuning)
    difference = abs(float(values[0]) - known) if np.isfinite(known) else 0.0
    return Baseline(values[:1], 0.0, max(rounding, difference), tuning)


def estimate_curvature(
    objective: CountedObjective, frame: Frame, baseline: Baseline, rise: float | None, guess: float
) -> float:
    """Estimate f″ in the whitened frame from a pair of points; `rise` and a guess at f″ give the first distance."""
    # A direction with components along all axes and no symmetry
    tuning, direction = baseline.tuning, np.cos(1.0 + np.arange(frame.size))
    row = direction[None] / np.linalg.norm(direction)
    clear, reach = tuning.clear * baseline.resolution, float(np.min(frame.reach(tuning.axis_rounding)))
    step = np.sqrt(2.0 * (rise or tuning.signal * baseline.resolution) / guess) if guess > 0 else 0.0
    step = step if rise and step else max(step, informative_radius(frame, tuning)) or 1.0
    size = 0.0
    for _ in range(tuning.max_probes):
        step = min(step, reach)
        plus, minus = objective.pairs(frame, step * row)
        size = abs(0.5 * float(plus[0] + minus[0]) - baseline.value)
        if (np.isfinite(size) and (size > clear or step == reach)) or not objective.can_spare(2, frame.size):
            break
        factor = np.sqrt(tuning.clear * clear / size) if size > baseline.resolution else tuning.max_factor
        step *= float(np.clip(factor, tuning.stride, tuning.max_factor)) if np.isfinite(size) else 1.0 / tuning.stride
    return 2.0 * max(size if np.isfinite(size) else 0.0, baseline.resolution) / step**2


def informative_rise(frame: Frame, baseline: Baseline, curvature: float) -> float:
    """The smallest rise of f at which rounding of f and x, or noise, is negligible."""
    tuning = baseline.tuning
    if baseline.is_noisy:
        return tuning.noise_signal * baseline.noise
    rise = max(tuning.signal * baseline.resolution, 0.5 * curvature * np.square(informative_radius(frame, tuning)))
    return rise if rise > 0 else 0.5 * curvature * frame.size if curvature > 0 else 1.0


def informative_radius(frame: Frame, tuning: Tuning) -> float:
    """The radius in the frame at which rounding of x is negligible."""
    return tuning.argument_signal * EPS * float(np.linalg.norm(frame.inverse * frame.magnitudes))


def scale_axes(objective: CountedObjective, frame: Frame, baseline: Baseline, delta: float, checks: int) -> Axes:
    """Scale every axis such that f rises by delta, as far as the box and `max_growth` allow."""
    tuning = baseline.tuning
    rows, grown, most = np.eye(frame.size), np.ones(frame.size), np.full(frame.size, np.inf)
    aim = max(delta, 4.0 * tuning.clear_of_noise * baseline.noise)  # shorter axes would be scaled by noise
    frame = frame.transform(np.diag(np.minimum(np.sqrt(aim / delta), frame.reach(tuning.axis_rounding))))
    values = objective.pairs(frame, rows)
    clear = max(tuning.clear * EPS * abs(baseline.value), tuning.clear_of_noise * baseline.noise)
    band = tuning.band_for_noise if baseline.is_noisy else tuning.band
    for turn in range(tuning.max_rescalings):
        rises = 0.5 * (values[0] + values[1]) - baseline.value
        factor = _stretch_factors(rises, aim, clear, tuning, band) ** (tuning.damping if turn else 1.0)
        most = np.where(np.isnan(values[0] + values[1]), 0.5 * grown, most)  # avoid points where f is not finite
        growth = np.minimum(np.maximum(tuning.max_growth / grown, 1.0), most / grown)
        factor = np.minimum.reduce([factor, growth, frame.reach(tuning.axis_rounding)])
        if np.all(np.abs(factor - 1.0) < 0.01) or not objective.can_spare(2 * frame.size, frame.size):
            break
        frame, grown = frame.transform(np.diag(factor)), grown * factor
        values = objective.pairs(frame, rows)
    if aim > delta and objective.can_spare(2 * frame.size, frame.size):
        frame, aim = frame.scale(np.sqrt(delta / aim)), delta
        values = objective.pairs(frame, rows)
    both = baseline.is_noisy and objective.can_spare(frame.size * (frame.size - 1), frame.size)
    star = Star(frame.size, checks, both)
    inner = objective.pairs(frame, star.axis_rows[frame.size :])
    rise = max(float(np.max(np.abs(0.5 * (values[0] + values[1]) - baseline.value))), clear)
    delta = rise if 0 < rise < aim / tuning.band else aim  # the box may not allow more
    return Axes(frame, delta, star, (np.append(values[0], inner[0]), np.append(values[1], inner[1])))


def _stretch_factors(rises: Array, delta: float, clear: float, tuning: Tuning, band: float) -> Array:
    """Factor for each axis (k,) that makes f rise or fall by delta; 1 if it nearly does."""
    size = np.abs(rises)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factor = np.clip(np.sqrt(delta / size), 1.0 / tuning.max_factor, tuning.max_factor)
    factor = np.where(size > clear, np.where(np.abs(np.log(factor)) < 0.5 * np.log(band), 1.0, factor), tuning.stride)
    return np.where(np.isfinite(size), factor, 1.0 / tuning.stride)


def choose_scale(objective: CountedObjective, axes: Axes, baseline: Baseline) -> Axes:
    """The axes at the scale where f is closest to quadratic; narrower ones are tried first, then wider ones."""
    best, size, tuning = axes, axes.frame.size, baseline.tuning
    for _ in range(tuning.max_narrower):
        is_narrowest = best.delta < tuning.clear * tuning.stride**2 * baseline.resolution
        if best.lack(baseline)[1] < tuning.max_lack or is_narrowest or not objective.can_spare(8 * size, size):
            break
        tried = _rescale_axes(objective, best, baseline, 1.0 / tuning.stride)
        if not _is_more_quadratic(tried, best, baseline):
            break
        best = tried
    wider = best
    for _ in range(tuning.max_wider):  # high-frequency noise vanishes eventually, possibly not in one step
        if best.lack(baseline)[1] < tuning.max_lack or not objective.can_spare(8 * size, size):
            break
        wider = _rescale_axes(objective, wider, baseline, tuning.stride)
        best = wider if _is_more_quadratic(wider, best, baseline) else best
    return best


def _rescale_axes(objective: CountedObjective, axes: Axes, baseline: Baseline, factor: float) -> Axes:
    return scale_axes(objective, axes.frame.scale(factor), baseline, axes.delta * factor**2, axes.star.checks)


def _is_more_quadratic(one: Axes, other: Axes, baseline: Baseline) -> bool:
    """Whether f is much closer to quadratic along one set of axes than along another."""
    (flat, lack), (others_flat, others_lack) = one.lack(baseline), other.lack(baseline)
    return flat < others_flat or (flat == others_flat and lack < 0.5 * others_lack)


def fit_star(objective: CountedObjective, axes: Axes, baseline: Baseline) -> Probe:
    """Evaluate the star once and fit the quadratic."""
    couples = objective.pairs(axes.frame, axes.star.couple_rows)
    values = Values.of_one_round(baseline.values, axes.values, couples)
    fit = fit_quadratic(axes.star, values, exact=not baseline.is_noisy)
    return Probe(axes.frame, axes.delta, baseline, axes.star, values, fit, objective.nfev)


def fit_centre(objective: CountedObjective, frame: Frame, baseline: Baseline) -> Probe:
    """The probe that is the value at the centre: of a frame without directions, or where that value is not finite."""
    star, nothing = Star(0, 0, both=False), (np.empty(0), np.empty(0))
    values = Values.of_one_round(baseline.values, nothing, nothing)
    fit = fit_quadratic(star, values, exact=not baseline.is_noisy)
    return Probe(frame, baseline.resolution, baseline, star, values, fit, objective.nfev)
