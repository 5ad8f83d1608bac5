"""Looking at f around a centre: how wide, how often, and through which frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Evaluator, all_values
from sublevel.hessian.design import INNER, Quadratic, Star, Values, fitted
from sublevel.hessian.frame import EPS, Frame
from sublevel.hessian.tuning import Tuning

LARGEST_VALUE = float(np.sqrt(np.finfo(np.float64).max))
"""Values from here on are none: there is no arithmetic with them."""
BIAS = float(np.sqrt(2.0) * (1.0 + INNER**6) / np.sqrt(1.0 + INNER**4) / (1.0 - INNER**2))
"""A quartic term, seen as the change between the two radii, biases a curvature by one standard error of values that scatter by so much."""


class Objective:
    """f with its evaluations counted."""

    def __init__(self, evaluate: Evaluator, maxfevals: float, tuning: Tuning) -> None:
        self.evaluate, self.maxfevals, self.tuning, self.nfev = evaluate, maxfevals, tuning, 0
        self.spends = bool(np.isfinite(maxfevals))  # a budget that somebody gave is there to be spent on noise
        self.first, self.best = np.nan, np.inf  # value of the first point, and the lowest
        self.best_x: Array | None = None  # (d,), where that was

    def at(self, points: Array) -> Array:
        """Values (n,) of points (n, d), NaN where f is not finite, or so large that its square is not."""
        if not len(points):
            return np.empty(0)
        self.nfev += len(points)
        values = all_values(self.evaluate, points)
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

    @property
    def left(self) -> float:
        """Evaluations that may still be made."""
        return self.maxfevals - self.nfev

    def can_spare(self, evaluations: int, size: int) -> bool:
        """Whether a star in so many dimensions can still be paid for after these evaluations."""
        return self.left - evaluations >= 4 * size + size * (size - 1)


@dataclass(frozen=True, slots=True)
class Ground:
    """What is known of f at the centre before looking around."""

    values: Array  # all that were seen
    noise: float  # standard deviation of a value, 0 if it is always the same
    grain: float  # what rounding, or noise, makes of a value at least
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
    """A frame whose axes are scaled to the rise that is asked for, and f at their ends."""

    frame: Frame
    delta: float
    star: Star
    values: tuple[Array, Array]  # f(z), f(−z) of `star.axis_rows`

    def lack(self, ground: Ground) -> tuple[int, float]:
        """How many axes (of those with inner points) have no rise to be seen, and the largest relative change of the other curvatures."""
        even = 0.5 * (self.values[0] + self.values[1]) - ground.value
        outer, inner = even[: self.star.checks], even[self.star.size :] / INNER**2
        size = np.maximum(np.abs(outer), np.abs(inner))
        clear = np.isfinite(size) & (size > ground.tuning.clear * ground.grain)
        return int(np.count_nonzero(~clear)), float(np.max(np.abs(outer - inner)[clear] / size[clear], initial=0.0))


@dataclass(frozen=True, slots=True)
class Rounds:
    """Values of a star, once or more often."""

    star: Star
    centre: Array  # (n,)
    axes: tuple[Array, Array]  # (m·rows,) each
    couples: tuple[Array, Array]

    @property
    def count(self) -> int:
        """m."""
        return self.axes[0].size // len(self.star.axis_rows)

    def more(self, objective: Objective, frame: Frame, wanted: int) -> Rounds:
        """So many rounds as are wanted, or as can be paid."""
        star, new = self.star, int(max(0, min(wanted - self.count, objective.left // self.star.evaluations)))
        if not new:
            return self
        seen = [
            (objective.centre(frame), objective.pairs(frame, star.axis_rows), objective.pairs(frame, star.couple_rows)) for _ in range(new)
        ]
        return Rounds(
            star,
            np.concatenate([self.centre, *(centre for centre, _, _ in seen)]),
            _joined(self.axes, [axes for _, axes, _ in seen]),
            _joined(self.couples, [couples for _, _, couples in seen]),
        )

    @property
    def values(self) -> Values:
        """By rounds."""
        axes, couples = ((plus.reshape(self.count, -1), minus.reshape(self.count, -1)) for plus, minus in (self.axes, self.couples))
        return Values(self.centre, axes, couples)


def _joined(first: tuple[Array, Array], others: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([first[0], *(plus for plus, _ in others)]), np.concatenate([first[1], *(minus for _, minus in others)])


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen around a centre."""

    frame: Frame
    delta: float
    ground: Ground
    rounds: Rounds
    fit: Quadratic
    nfev: int
    inner: Rounds | None = None  # of the star of half the radius, if the fit extrapolates from there
    bias: float = 0.0  # square of what is probably wrong with the relative curvatures (k, k) besides noise, all together
    widening: float = 1.0  # what that makes of variances
    plain_lack: float = 0.0  # largest change of a curvature with the radius before extrapolation, if that matters
    plain_delta: float = np.nan  # the rise at that radius
    drift: float = np.inf  # part by which a curvature may differ between the centre and the minimum, if that is known

    @property
    def tuning(self) -> Tuning:
        """The tunables it was made with."""
        return self.ground.tuning

    @property
    def relative(self) -> Array:
        """The whitened Hessian (k, k) in units in which 1 means that f rises by delta at one radius: those are the same at all radii."""
        return self.fit.matrix / (2.0 * self.delta)

    @property
    def scatter(self) -> float:
        """Variance of a value about the quadratic: noise and rounding, or what is not quadratic if that matters more and f has no noise."""
        change = self.fit.bend.change
        bent = 0.0 if self.ground.is_noisy or not change.size else np.square(BIAS) * np.mean(np.square(change))
        return max(self._scatter(*self.fit.even), float(bent))

    @property
    def variance(self) -> float:
        """The same as standard errors of curvatures are made of it."""
        return self.widening * self.scatter

    @property
    def odd_variance(self) -> float:
        """The same as the gradient sees it, with cubic terms."""
        return self._scatter(*self.fit.odd)

    def _scatter(self, squares: float, dof: int) -> float:
        rounding = max(0.0 if self.ground.is_noisy else self.ground.grain, 2.0 * self.delta * self.frame.rounding)
        return max(squares / max(dof, 1), np.square(rounding))

    @property
    def noise_variance(self) -> float:
        """Of a value at one and the same point, as far as there were enough of them to tell."""
        squares, dof = self.fit.pure
        return squares / dof if dof >= self.tuning.repeats - 1 else np.square(self.ground.noise)

    @property
    def slope(self) -> float:
        """How many radii away the minimum is if the curvature is what was asked for."""
        return float(np.linalg.norm(self.fit.gradient)) / (2.0 * self.delta)

    @property
    def lack(self) -> Array:
        """Relative change (n,) of each curvature with the radius, and under noise between axes and couples."""
        return np.abs(self.fit.bend.change) / self._rises

    @property
    def lack_error(self) -> Array:
        """Its standard deviation under noise (n,)."""
        return np.sqrt(self.noise_variance * self.fit.bend.units) / self._rises

    @property
    def _rises(self) -> Array:
        """What f rises by along the axes that have inner points, and the couples (n,), not taken for less than the band allows."""
        star = self.rounds.star
        rises = np.maximum(0.5 * np.abs(np.diagonal(self.fit.matrix)), self.delta / self.tuning.band)
        i, j = star.couples
        return np.concatenate([rises[: star.checks], *([0.5 * (rises[i] + rises[j])] if star.both else [])])

    @property
    def spread(self) -> float:
        """By what part of itself noise may move the smallest curvature: 2s√k for entries with a standard deviation s."""
        if not np.isfinite(self.fit.matrix).all():
            return 0.0
        sizes = np.abs(np.linalg.eigvalsh(self.fit.matrix))
        smallest = max(float(np.min(sizes)), self.tuning.roundness_for_noise * float(np.max(sizes)))  # what no frame makes round stays so
        return 2.0 * np.sqrt(self.frame.size * self.variance * self.fit.errors.couple) / smallest

    @property
    def newton(self) -> Array:
        """Where the quadratic has its stationary point (k,), in the frame."""
        return -(np.linalg.pinv(self.fit.matrix) @ self.fit.gradient).astype(np.float64)


def ground_at(objective: Objective, frame: Frame, known: float, noise: float | None) -> Ground:
    """The value at the centre, and its noise: none if the value that was known comes again, or the new one does."""
    tuning, values = objective.tuning, objective.centre(frame)
    if noise is None and values[0] != known:
        values = np.append(values, objective.centre(frame))
    differ = values[0] != values[-1]
    if noise is None and differ and np.isfinite(values).all():
        values = np.append(values, objective.centre(frame, tuning.repeats - 2))
        noise = float(np.std(values, ddof=1))
    rounding = EPS * float(np.max(np.abs(values)))
    if noise:
        return Ground(values, noise, max(noise, rounding), tuning)
    return Ground(values[:1], 0.0, max(rounding, abs(float(values[0]) - known) if np.isfinite(known) else 0.0), tuning)


def probed_curvature(objective: Objective, frame: Frame, ground: Ground, rise: float | None, guess: float) -> float:
    """About what f″ is in the whitened frame, from a pair of points far enough apart to tell; `rise` and a guess at f″ say how far."""
    tuning, direction = ground.tuning, np.cos(1.0 + np.arange(frame.size))  # any will do that has all axes in it and no symmetry
    row = direction[None] / np.linalg.norm(direction)
    clear, reach = tuning.clear * ground.grain, float(np.min(frame.reach(tuning.axis_rounding)))
    step = np.sqrt(2.0 * (rise or tuning.signal * ground.grain) / guess) if guess > 0 else 0.0
    step = step if rise and step else max(step, telling_radius(frame, tuning)) or 1.0
    size = 0.0
    for _ in range(tuning.max_probes):
        step = min(step, reach)
        plus, minus = objective.pairs(frame, step * row)
        size = abs(0.5 * float(plus[0] + minus[0]) - ground.value)
        if (np.isfinite(size) and (size > clear or step == reach)) or not objective.can_spare(2, frame.size):
            break
        factor = np.sqrt(tuning.clear * clear / size) if size > ground.grain else tuning.max_factor
        step *= float(np.clip(factor, tuning.stride, tuning.max_factor)) if np.isfinite(size) else 1.0 / tuning.stride
    return 2.0 * max(size if np.isfinite(size) else 0.0, ground.grain) / step**2


def telling_rise(frame: Frame, ground: Ground, curvature: float) -> float:
    """The rise of f at which rounding of f and x, or noise, makes little difference and f has had no room to bend."""
    tuning = ground.tuning
    if ground.is_noisy:
        return tuning.noise_signal * ground.noise
    rise = max(tuning.signal * ground.grain, 0.5 * curvature * np.square(telling_radius(frame, tuning)))
    return rise if rise > 0 else 0.5 * curvature * frame.size if curvature > 0 else 1.0


def telling_radius(frame: Frame, tuning: Tuning) -> float:
    """The radius, in the frame, at which rounding of x makes little difference."""
    return tuning.argument_signal * EPS * float(np.linalg.norm(frame.inverse * frame.magnitudes))


def scaled_axes(objective: Objective, frame: Frame, ground: Ground, delta: float, checks: int) -> Axes:
    """Every axis made as long as it takes f to rise by delta, or as the box or the lack of any rise allows."""
    tuning = ground.tuning
    rows, grown, most = np.eye(frame.size), np.ones(frame.size), np.full(frame.size, np.inf)
    aim = max(delta, 4.0 * tuning.clear_of_noise * ground.noise)  # shorter ones would be scaled by noise
    frame = frame.turned(np.diag(np.minimum(np.sqrt(aim / delta), frame.reach(tuning.axis_rounding))))
    values = objective.pairs(frame, rows)
    clear = max(tuning.clear * EPS * abs(ground.value), tuning.clear_of_noise * ground.noise)
    band = tuning.band_for_noise if ground.is_noisy else tuning.band
    for turn in range(tuning.max_rescalings):
        factor = _stretch(0.5 * (values[0] + values[1]) - ground.value, aim, clear, tuning, band) ** (tuning.damping if turn else 1.0)
        most = np.where(np.isnan(values[0] + values[1]), 0.5 * grown, most)  # not again to where f is not finite
        factor = np.minimum.reduce([factor, np.maximum(tuning.max_growth / grown, 1.0), frame.reach(tuning.axis_rounding), most / grown])
        if np.all(np.abs(factor - 1.0) < 0.01) or not objective.can_spare(2 * frame.size, frame.size):
            break
        frame, grown = frame.turned(np.diag(factor)), grown * factor
        values = objective.pairs(frame, rows)
    if aim > delta and objective.can_spare(2 * frame.size, frame.size):
        frame, aim = frame.turned(np.sqrt(delta / aim) * np.eye(frame.size)), delta
        values = objective.pairs(frame, rows)
    star = Star(frame.size, checks, both=ground.is_noisy and objective.can_spare(frame.size * (frame.size - 1), frame.size))
    inner = objective.pairs(frame, star.axis_rows[frame.size :])
    return Axes(frame, aim, star, (np.append(values[0], inner[0]), np.append(values[1], inner[1])))


def _stretch(rises: Array, delta: float, clear: float, tuning: Tuning, band: float) -> Array:
    """By how much to stretch each axis (k,) such that f rises, or falls, by delta: not at all if that is nearly so."""
    size = np.abs(rises)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.clip(np.sqrt(delta / size), 1.0 / tuning.max_factor, tuning.max_factor)
    factor = np.where(size > clear, np.where(np.abs(np.log(factor)) < 0.5 * np.log(band), 1.0, factor), tuning.stride)
    return np.where(np.isfinite(size), factor, 1.0 / tuning.stride)


def quadratic_axes(objective: Objective, axes: Axes, ground: Ground) -> Axes:
    """The axes at the scale where f is most nearly quadratic: narrower ones are tried while that helps, then wider ones."""
    best, size, tuning = axes, axes.frame.size, ground.tuning
    for _ in range(tuning.max_narrower):
        if (
            best.lack(ground)[1] < tuning.max_lack
            or best.delta < tuning.clear * tuning.stride**2 * ground.grain
            or not objective.can_spare(8 * size, size)
        ):
            break
        tried = _rescaled(objective, best, ground, 1.0 / tuning.stride)
        if not _is_rather(tried, best, ground):
            break
        best = tried
    wider = best
    for _ in range(tuning.max_wider):  # noise drowns in the end, but a step may not be enough
        if best.lack(ground)[1] < tuning.max_lack or not objective.can_spare(8 * size, size):
            break
        wider = _rescaled(objective, wider, ground, tuning.stride)
        best = wider if _is_rather(wider, best, ground) else best
    return best


def _rescaled(objective: Objective, axes: Axes, ground: Ground, factor: float) -> Axes:
    frame = axes.frame.turned(factor * np.eye(axes.frame.size))
    return scaled_axes(objective, frame, ground, axes.delta * factor**2, axes.star.checks)


def _is_rather(one: Axes, other: Axes, ground: Ground) -> bool:
    """Whether f is much more nearly quadratic along one set of axes than along another."""
    (unseen, lack), (others_unseen, others_lack) = one.lack(ground), other.lack(ground)
    return unseen < others_unseen or (unseen == others_unseen and lack < 0.5 * others_lack)


def looked(objective: Objective, axes: Axes, ground: Ground) -> Look:
    """The quadratic through all points of the star, once."""
    rounds = Rounds(axes.star, ground.values, axes.values, objective.pairs(axes.frame, axes.star.couple_rows))
    return Look(axes.frame, axes.delta, ground, rounds, fitted(axes.star, rounds.values, exact=not ground.is_noisy), objective.nfev)
