"""One end of a profile-likelihood interval: vary a variable, minimise over the others, until f has risen by a target.

In units in which the quadratic rises by 1 at one standard deviation, F = (f − f_min)/unit, the quadratic is F = t² +
|w|²: t is the variable in its standard deviations, w are the others in the whitened frame of their conditional
covariance (Venzon & Moolgavkar, Applied Statistics 37, 1988, solve the same equations with derivatives). Each step
measures the gradient in w by differences, takes a quasi-Newton step in w within the bounds, and moves t along the
secant of √F, which is a straight line for a quadratic.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from sublevel.engine.arrays import Array
from sublevel.hessian.tuning import ProfileTuning
from sublevel.run.search_space import shift_where


@dataclass(frozen=True, slots=True)
class Chart:
    """Offsets o (..., m) of the m variables that are not fixed: x + o, or x·exp(o) for log-scaled ones."""

    x: Array  # (d,), the minimum
    is_log: NDArray[np.bool_]  # (d,)
    box: tuple[Array, Array]  # (d,) each
    moving: NDArray[np.intp]  # (m,), indices of the variables that are not fixed
    low: Array  # (m,), offsets of the bounds
    high: Array  # (m,)
    tuning: ProfileTuning

    def points(self, offsets: Array) -> Array:
        """Points (..., d) in user coordinates, within the box and on its bounds in spite of rounding."""
        steps = np.zeros((*offsets.shape[:-1], self.x.size))
        steps[..., self.moving] = offsets
        points = np.clip(shift_where(self.is_log, self.x, steps), *self.box)
        lower, upper = (bound[self.moving] for bound in self.box)
        inside = np.where(offsets == self.high, upper, points[..., self.moving])
        points[..., self.moving] = np.where(offsets == self.low, lower, inside)
        return points


@dataclass(frozen=True, slots=True)
class Line:
    """The path of one variable to one side: o = t·direction, plus A·w for the others."""

    chart: Chart
    index: int  # of the variable among those that are not fixed
    side: int  # 0 or 1
    direction: Array  # (m,), where the quadratic has its minimum for t = 1
    others: NDArray[np.intp]  # (m − 1,)
    root: Array  # (m − 1, m − 1), A: of the covariance of the others given the variable
    limit: float  # t at the bound of the variable
    is_guess: bool = False  # whether the curvature is unknown for one of the others, which lies at its bound

    @property
    def variable(self) -> int:
        """The index of the variable among all."""
        return int(self.chart.moving[self.index])

    @property
    def scale(self) -> float:
        """Offset of the variable at t = 1."""
        return float(self.direction[self.index])

    def values_at(self, t: Array) -> Array:
        """Values (n,) of the variable at t (n,)."""
        offsets = np.zeros((t.size, self.chart.moving.size))
        offsets[:, self.index] = t * self.scale
        return self.chart.points(offsets)[:, self.variable]

    def offsets(self, t: float, w: Array) -> Array:
        """Offsets (m,), within the bounds and, at the limit, at the bound of the variable in spite of rounding."""
        o = t * self.direction
        if t == self.limit:
            o[self.index] = (self.chart.low, self.chart.high)[self.side][self.index]
        o[self.others] += self.root @ w
        return np.clip(o, self.chart.low, self.chart.high)

    def at_bounds(self, offsets: Array) -> NDArray[np.bool_]:
        """Which of the others (m − 1,) lie at a bound."""
        room = np.minimum(self.chart.high - offsets, offsets - self.chart.low)[self.others]
        return room <= self.chart.tuning.touching * np.linalg.norm(self.root, axis=1)

    def is_unknown(self, before: Spot | None, spot: Spot) -> bool:
        """Whether the curvature at a spot is unknown because another variable has reached or left its bound."""
        if not self.is_guess or before is None:
            return self.is_guess
        then, now = (self.at_bounds(self.offsets(at.t, at.w)) for at in (before, spot))
        return bool(np.any(then != now))

    def whiten(self, t: float, offsets: Array) -> Array:
        """w (m − 1,) of offsets (m,)."""
        return solve(self.root, (offsets - t * self.direction)[self.others])


@dataclass(frozen=True, slots=True)
class Target:
    """The rise to find, and its tolerance."""

    rise: float  # of F: the square of a quantile
    step: float  # of differences, in standard deviations
    noise: float  # standard deviation of F
    tolerance: float  # by which F may miss the target for the secant to be used
    repeats: int = 1  # evaluations of each point, which are averaged


@dataclass(frozen=True, slots=True)
class End:
    """Where a profile crosses the target, or why it does not."""

    t: float  # in standard deviations; infinite if it never does, NaN if unknown
    status: str  # "crossed", "uncertain", "bound", "open", "jump" or "failed"
    offsets: Array  # (m,), of the last point
    rise: float  # F there
    reason: str = ""
    doubt: float = 0.0  # how far t may be off, of an uncertain end
    trail: tuple[tuple[float, float], ...] = ()  # t and F of the points of the profile
    upper_limits: tuple[tuple[float, float], ...] = ()  # t and F where the others were not minimised over


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a climb."""

    t: float
    w: Array  # (m − 1,)
    value: float  # F


@dataclass(frozen=True, slots=True)
class ProfilePoint:
    """A point of a profile: F at a spot, and by how much it is lower at the minimum over the others."""

    spot: Spot
    gain: float

    @property
    def rise(self) -> float:
        """F at the minimum over the others."""
        return self.spot.value - self.gain


class OutOfEvaluationsError(Exception):
    """Raised at a request that the budget does not allow; the message says so."""


@dataclass(frozen=True, slots=True)
class InnerModel:
    """A model of F as a function of w: a Hessian, initially that of the quadratic, and the gradient at a spot.

    Gradients are one-sided differences, which update the Hessian. Where f does not decrease as predicted, a `careful`
    model uses central differences and measures the Hessian too.
    """

    model: Array  # (m − 1, m − 1)
    length: float  # of differences
    tuning: ProfileTuning
    gradient: Array = field(default_factory=lambda: np.zeros(0))  # (m − 1,)
    spot: Spot | None = None  # where the gradient was measured
    is_other_t: bool = False  # whether t has changed since, so that the Hessian cannot be updated
    is_careful: bool = False
    is_fresh: bool = False  # whether the Hessian must be measured
    is_measured: bool = False  # whether it was measured at the last spot
    drop: float = 0.0  # by how much F was lower at one of the differences than at the spot

    def min_gain(self, at_limit: bool) -> float:
        """Fraction of the target that an inner step must gain to be taken before t moves on, or ends at the limit."""
        return self.tuning.careful if self.is_careful else self.tuning.accuracy if at_limit else self.tuning.large

    def careful(self) -> InnerModel:
        """The same model, to be measured again."""
        return replace(self, is_careful=True, is_fresh=True, spot=None, drop=0.0)

    def coarse(self) -> InnerModel:
        """The same model, to be measured again by differences that are longer than the roughness of f."""
        return replace(self.careful(), length=max(self.length, self.tuning.step_for_noise), drop=self.drop)


Climb = Generator[Array, Array, End]
"""Yields offsets (n, m), is sent their F (n,)."""
OthersAt = tuple[float, Array, bool]
"""t, w, and whether w is a minimum."""


@dataclass(slots=True)
class Trail:
    """Known values of √F along t: 0 at t = 0; t is sought where it is `root`."""

    root: float
    tuning: ProfileTuning
    points: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])  # t and √F, 0 where F < 0
    profile: list[ProfilePoint] = field(default_factory=list["ProfilePoint"])
    others: list[OthersAt] = field(default_factory=list["OthersAt"])
    low: float = 0.0  # the largest t below the crossing
    high: float = np.inf  # the smallest t above
    wall: float = np.inf  # the smallest t at which F is not finite
    is_undefined: bool = False  # whether it is NaN there
    is_reset: bool = False  # whether a point above the crossing was dropped
    doubts: dict[float, float] = field(default_factory=dict[float, float])  # by how much F may be lower, by t

    def add(self, spot: Spot, gain: float, is_sure: bool) -> None:
        """Record the profile at t: the minimum over the others, and by how much F is lower there."""
        t, point = spot.t, ProfilePoint(spot, gain)
        self.profile.append(point)
        self.points.append((t, float(np.sqrt(max(point.rise, 0.0)))))
        self.others = [*[(at, w, sure) for at, w, sure in self.others if at != t and sure], (t, spot.w, is_sure)]
        if is_sure and self.points[-1][1] < self.root:
            self.low = max(self.low, t)
        elif is_sure:
            self.high = min(self.high, t)

    @property
    def crossing(self) -> float:
        """t at which the secant through the last point and its neighbour reaches the target."""
        t, s = self.points[-1]
        near, its = min(self.points[:-1], key=lambda point: abs(point[0] - t) + (1e9 if point[0] == t else 0.0))
        overall = max(s, 1e-3 * self.root) / t
        slope = (s - its) / (t - near) if t != near else overall
        return t + (self.root - s) / (slope if 0.2 * overall < slope < 5.0 * overall else overall)

    def doubt(self, t: float) -> float:
        """How far the crossing t may be off, by the doubts about F at the points on both sides."""
        nearest = [max((at for at, _ in self.points if at <= t), default=t)]
        nearest += [min((at for at, _ in self.points if at >= t), default=t)]
        return 0.5 * t * max(self.doubts.get(at, 0.0) for at in nearest) / self.root**2

    def guess(self, limit: float) -> tuple[float, float]:
        """The crossing, and how far it may be off, from what is known of both sides of it."""
        upper = min(self.high, self.wall, limit, self.tuning.growth * self.low)
        (_, s), above = max(point for point in self.points if point[0] == self.low), dict(self.points).get(upper, 0.0)
        if above > self.root:
            t = self.low + (upper - self.low) * (self.root - s) / (above - s)
        else:
            t = float(np.clip(self.crossing, self.low, upper))
        return t, max(t - self.low, upper - t)

    def reset(self, limit: float) -> float:
        """Drop the point above the crossing, and return the next t."""
        self.high, self.is_reset = np.inf, True
        return min(self.tuning.growth * self.low, limit)

    def record_wall(self, spot: Spot) -> None:
        """Record a spot if F is not finite there."""
        if spot.t < self.wall and not np.isfinite(spot.value):
            self.wall, self.is_undefined = spot.t, bool(np.isnan(spot.value))

    def predict_others(self, t: float) -> Array:
        """Predict the others (m − 1,) at t: first proportional to t², then from a point as far back as t is ahead.

        The minimum, t = 0, is the last choice: it is not on the line of a valley that becomes straight.
        """
        (at, w, _), before = self.others[-1], self.others[:-1]
        if not before:
            return w * (t / at) ** 2
        near = [point for point in before if abs(t - at) <= self.tuning.growth * abs(at - point[0])]
        known = near or [(0.0, np.zeros_like(w), True), *before]
        back, there, _ = min(known, key=lambda point: abs(np.log(abs(t - at) / abs(at - point[0]))))
        return w + (w - there) * (t - at) / (at - back)

    def next_t(self, limit: float) -> float | None:
        """The next t; None if the target lies between two values of t that are too close."""
        t = self.points[-1][0]
        upper = min(self.high, self.wall)
        if upper - self.low < self.tuning.jump * upper:
            return None
        aim = float(np.clip(self.crossing, t / self.tuning.shrinkage, t * self.tuning.growth))
        if aim >= upper:
            aim = 0.5 * (self.low + upper)
        return min(aim if aim > self.low else 0.5 * (self.low + min(max(t, self.low), upper)), limit)


def climb(line: Line, target: Target) -> Climb:
    """Vary a variable to one side until F has risen by the target.

    What was found is returned if a request is answered by `OutOfEvaluationsError`.
    """
    trail = Trail(np.sqrt(target.rise), line.chart.tuning)
    try:
        end = yield from _seek_end(line, target, trail)
    except OutOfEvaluationsError as error:
        last = trail.profile[-1].spot if trail.profile else Spot(0.0, np.zeros(line.others.size), 0.0)
        return _with_profile(_unfinished_end(line, trail, last, str(error)), target, trail)
    with suppress(OutOfEvaluationsError):
        yield from _repair(line, target, trail)
    return _with_profile(end, target, trail)


def _with_profile(end: End, target: Target, trail: Trail) -> End:
    """The end with the points of its profile; where a gain is only predicted, F is an upper limit."""
    small = trail.tuning.accuracy * target.rise
    path = [(point.spot.t, point.rise) for point in trail.profile if point.gain <= small]
    limits = [(point.spot.t, point.spot.value) for point in trail.profile if point.gain > small]
    return replace(end, trail=((0.0, 0.0), *path), upper_limits=tuple(limits))


def _repair(line: Line, target: Target, trail: Trail) -> Generator[Array, Array, None]:
    """Minimise over the others again where F is lower at the next point outwards, and where it is negative.

    Either F has another minimum, or the minimum over the others was missed. Points are repaired from the outermost one
    inwards, each from the point before, so that a missed valley is followed.
    """
    trail.profile.sort(key=lambda point: point.spot.t)
    far, small = trail.tuning.large * target.rise, trail.tuning.accuracy * target.rise
    outer: ProfilePoint | None = None
    for i, here in reversed(list(enumerate(trail.profile))):
        if here.gain > far:
            continue
        is_missed = outer is not None and here.spot.t < outer.spot.t and outer.rise < here.rise - small
        if is_missed or (here.rise < 0 and here.gain > small):
            w = outer.spot.w if outer is not None and is_missed else here.spot.w
            spot = yield from _evaluate(line, here.spot.t, w)
            again = yield from _minimise_others(line, target, spot)
            trail.profile[i] = min(here, again, key=lambda point: point.spot.value)
        outer = trail.profile[i]


def _minimise_others(line: Line, target: Target, spot: Spot) -> Generator[Array, Array, ProfilePoint]:
    """The minimum over the others from a spot on."""
    tuning, gain = line.chart.tuning, np.inf
    inner = InnerModel(2.0 * np.eye(line.others.size), target.step, tuning).careful()
    for _ in range(tuning.max_repairs):
        inner = yield from _measure_gradient(line, spot, inner)
        step, gain = _inner_step(line, spot, inner)
        if not gain > tuning.accuracy * target.rise:
            break
        lower = yield from _inner_move(line, spot, step, gain)
        if lower is None:
            break
        spot = lower
    return ProfilePoint(spot, gain)


def _seek_end(line: Line, target: Target, trail: Trail) -> Climb:
    """Where the profile crosses the target; its points are added to the trail."""
    tuning, size = line.chart.tuning, line.others.size
    inner, last = InnerModel(2.0 * np.eye(size), target.step, tuning), Spot(0.0, np.zeros(size), 0.0)
    spot, is_believed = (yield from _evaluate(line, min(trail.root, line.limit), np.zeros(size))), False
    for turn in range(tuning.max_steps):
        if not spot.value < tuning.hopeless * target.rise and spot.t - last.t > tuning.jump * trail.root:
            trail.record_wall(spot)
            spot, is_believed = (yield from _evaluate(line, 0.5 * (last.t + spot.t), last.w)), False
            continue
        if not np.isfinite(spot.value):
            trail.record_wall(spot)
            return _end_at_jump(line, trail, last)
        if is_believed and abs(spot.value - target.rise) <= target.tolerance:
            trail.add(spot, 0.0, True)
            return _end_at_crossing(line, trail, spot)
        is_new = turn == tuning.hasty_steps or line.is_unknown(inner.spot, spot)
        inner = yield from _measure_gradient(line, spot, inner.careful() if is_new else inner)
        if not np.isfinite(inner.gradient).all():
            return _end_as_failed(line, spot, "f is not finite around it")
        (step, gain), last = _inner_step(line, spot, inner), spot
        if spot.value - gain < tuning.far * target.rise and gain > inner.min_gain(spot.t == line.limit) * target.rise:
            lower = yield from _inner_move(line, spot, step, gain)
            if lower is not None or not inner.is_measured:
                inner = inner if lower is not None and lower.value < spot.value - 0.5 * gain else inner.careful()
                spot, is_believed = lower or spot, False
                continue
            if inner.length < tuning.step_for_noise and gain > tuning.accuracy * target.rise:
                inner = inner.coarse()
                continue
            trail.doubts[spot.t] = max(gain, inner.drop)
            step, gain = np.zeros(size), 0.0
        trail.add(Spot(spot.t, spot.w + step, spot.value), gain, gain <= tuning.accuracy * target.rise)
        end = _check_end(line, trail, target, spot, gain)
        if end is not None:
            return end
        t = trail.next_t(line.limit)
        if t is None and (trail.is_reset or trail.wall < np.inf):
            return _end_at_jump(line, trail, last)
        spot, inner, is_believed = yield from _move_on(line, trail, target, inner, spot, t, gain)
    return _unfinished_end(line, trail, spot, f"the minimum over the others was not found in {tuning.max_steps} steps")


def _move_on(
    line: Line, trail: Trail, target: Target, inner: InnerModel, spot: Spot, t: float | None, gain: float
) -> Generator[Array, Array, tuple[Spot, InnerModel, bool]]:
    """The spot at the next t, the inner model there, and whether its minimum is used without a gradient.

    t is None if a wrong minimum over the others has misled the search; the model is then measured again.
    """
    tuning = trail.tuning
    if t is None:
        inner, t = inner.careful(), trail.reset(line.limit)
    is_inside = not line.at_bounds(line.offsets(spot.t, spot.w)).any()
    is_steady = abs(t / spot.t - 1.0) < tuning.near and not inner.is_careful and is_inside
    there = yield from _evaluate(line, t, trail.predict_others(t))
    at, root = trail.points[-1]
    expected = (root * t / at) ** 2  # √F proportional to t
    is_surprise = there.value > expected + max(gain, tuning.large * target.rise)
    inner = inner.careful() if is_surprise else inner if is_steady else replace(inner, is_other_t=True)
    return there, inner, is_steady and gain <= tuning.accuracy * target.rise


def _evaluate(line: Line, t: float, w: Array) -> Generator[Array, Array, Spot]:
    """F at t and w, or as near as the bounds allow."""
    offsets = line.offsets(t, w)
    values = yield offsets[None]
    return Spot(t, line.whiten(t, offsets), float(values[0]))


def _check_end(line: Line, trail: Trail, target: Target, spot: Spot, gain: float) -> End | None:
    """The end, if the search is finished."""
    tuning, rise = trail.tuning, spot.value - gain
    is_accurate = gain <= tuning.accuracy * target.rise and abs(rise - target.rise) <= target.tolerance
    if is_accurate and trail.crossing <= line.limit:
        return _end_at_crossing(line, trail, spot)
    if spot.t == line.limit and rise < target.rise:
        return _make_end(line, spot, spot.t, "bound")
    if spot.t >= tuning.max_t * trail.root and rise < target.rise:
        return _make_end(line, spot, np.inf, "open")
    return None


def _make_end(line: Line, spot: Spot, t: float, status: str, reason: str = "") -> End:
    return End(t, status, line.offsets(spot.t, spot.w), spot.value, reason)


def _end_at_crossing(line: Line, trail: Trail, spot: Spot) -> End:
    """An end at the target, by the secant."""
    t = min(trail.crossing, line.limit)
    there, doubt = Spot(t, spot.w * (t / spot.t) ** 2, trail.root**2), trail.doubt(t)
    if doubt > 0.5 * trail.tuning.accuracy * t:
        reason = "f does not decrease along its gradient in the others"
        return replace(_make_end(line, there, t, "uncertain", reason), doubt=doubt)
    return _make_end(line, there, t, "crossed")


def _unfinished_end(line: Line, trail: Trail, spot: Spot, reason: str) -> End:
    """An end at the best guess for the crossing; it is unknown if no point below the crossing is known."""
    if not trail.low > 0:
        return _end_as_failed(line, spot, reason)
    t, doubt = trail.guess(line.limit)
    return replace(_make_end(line, spot, t, "uncertain", reason), doubt=doubt)


def _end_at_jump(line: Line, trail: Trail, last: Spot) -> End:
    """An end where F jumps above the target, or is undefined, between two close values of t."""
    if trail.is_undefined and trail.wall < trail.high:
        return _end_as_failed(line, last, "f is NaN or fails beyond it")
    return _make_end(line, last, max(trail.low, last.t if trail.wall < np.inf else 0.0), "jump")


def _end_as_failed(line: Line, spot: Spot, reason: str) -> End:
    return _make_end(line, spot, np.nan, "failed", reason)


def _inner_move(line: Line, spot: Spot, step: Array, gain: float) -> Generator[Array, Array, Spot | None]:
    """A lower point at the same t along an inner step; None if none is found."""
    tuning = line.chart.tuning
    for _ in range(tuning.max_backtracks):
        tried = yield from _evaluate(line, spot.t, spot.w + step)
        if tried.value <= spot.value - 0.1 * gain:
            return tried
        step, gain = tuning.shortening * step, tuning.shortening * gain
    return None


def _measure_gradient(line: Line, spot: Spot, inner: InnerModel) -> Generator[Array, Array, InnerModel]:
    """Measure dF/dw (m − 1,) by differences along directions that are orthonormal in w, and update the model."""
    if not spot.w.size:
        return inner
    chart, others, feasible = line.chart, line.others, inner.tuning.feasible * inner.length
    o = line.offsets(spot.t, spot.w)
    room_up, room_down = (chart.high - o)[others], (o - chart.low)[others]
    columns = _columns(line.root, line.at_bounds(o))
    plus, minus = (inner.length * room for room in _rooms(inner.length * columns, room_up, room_down))
    both = np.where(inner.is_careful, np.minimum(plus, minus), 0.0)
    first = np.where((plus >= inner.length) | (plus >= minus), plus, -minus)
    second = np.where(both > feasible, -np.sign(first) * both, 0.0)
    first = np.where(second != 0, -second, first)
    lengths, indices = np.append(first, second), np.tile(np.arange(first.size), 2)
    usable = np.abs(lengths) > feasible
    points = np.repeat(o[None], np.count_nonzero(usable), axis=0)
    points[:, others] += (lengths * columns[:, indices]).T[usable]
    rises = np.zeros(lengths.size)
    rises[usable] = (yield np.clip(points, chart.low, chart.high)) - spot.value
    known, couples = (rises.reshape(2, -1), lengths.reshape(2, -1)), np.zeros((first.size, first.size))
    if inner.is_fresh:
        couples = yield from _couples(line, spot, columns, *known)
    updated = _update_inner(inner, spot, solve(line.root, columns), *known, couples)
    return replace(updated, drop=max(-float(np.min(rises)), inner.drop if inner.is_fresh else 0.0))


def _couples(line: Line, spot: Spot, columns: Array, rises: Array, lengths: Array) -> Generator[Array, Array, Array]:
    """Mixed second differences (k, k) of F along columns (k, k), 0 on the diagonal and outside the bounds."""
    steps, o = lengths[0] * columns, line.offsets(spot.t, spot.w)
    i, j = np.triu_indices(lengths.shape[1], 1)
    points = np.repeat(o[None], i.size, axis=0)
    points[:, line.others] += (steps[:, i] + steps[:, j]).T
    inside = np.all((points >= line.chart.low) & (points <= line.chart.high), axis=1)
    inside &= lengths[0, i] * lengths[0, j] != 0
    i, j = i[inside], j[inside]
    values = yield points[inside]
    mixed = np.zeros(columns.shape)
    mixed[i, j] = (values - spot.value - rises[0, i] - rises[0, j]) / (lengths[0, i] * lengths[0, j])
    return mixed + mixed.T


def _update_inner(
    inner: InnerModel, spot: Spot, directions: Array, rises: Array, lengths: Array, couples: Array
) -> InnerModel:
    """The model and the gradient from rises (2, k) at signed lengths (2, k), 0 for none, along directions (k, k).

    `couples` (k, k) are mixed second differences along them, for a fresh model.
    """
    known = 2.0 * np.eye(len(directions)) if inner.is_fresh else inner.model
    curvatures: Array = np.einsum("ij,ik,kj->j", directions, known, directions)
    is_central = lengths[1] != 0
    safe = np.where(lengths[0] == 0, 1.0, lengths[0])
    if inner.is_careful:
        measured: Array = (rises[0] + rises[1]) / np.square(safe)
        curvatures = np.where(is_central, measured, curvatures)
    one_sided: Array = rises[0] / safe - 0.5 * lengths[0] * curvatures
    slopes = np.where(is_central, 0.5 * (rises[0] - rises[1]) / safe, one_sided)
    gradient = directions @ np.where(lengths[0] == 0, 0.0, slopes)
    if inner.is_fresh:
        model = _fresh_model(directions, couples + np.diag(curvatures), inner.tuning.flattest)
    else:
        model = _update_model(inner, spot, gradient)
    updated = replace(inner, model=model, gradient=gradient, spot=spot)
    return replace(updated, is_fresh=False, is_measured=inner.is_fresh, is_other_t=False)


def _fresh_model(directions: Array, hessian: Array, flattest: float) -> Array:
    """A Hessian (k, k) along directions as one in w, its curvatures positive, and `flattest` at least."""
    if not np.isfinite(hessian).all():
        return 2.0 * np.eye(len(hessian))
    values, vectors = np.linalg.eigh(hessian)
    axes = directions @ vectors
    return (axes * np.maximum(np.abs(values), flattest)) @ axes.T


def _columns(root: Array, at_bounds: NDArray[np.bool_]) -> Array:
    """Columns (k, k) of a root of root·rootᵀ of which only the first ones move variables that are `at_bounds` (k,)."""
    if not at_bounds.any():
        return root
    order = np.argsort(~at_bounds, kind="stable")
    triangular = np.empty_like(root)
    triangular[order] = np.linalg.qr(root[order].T)[1].T
    return triangular


def _rooms(steps: Array, room_up: Array, room_down: Array) -> tuple[Array, Array]:
    """The fractions (k,), at most 1, of each step (a column of k, k) and of its opposite that are within the bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = room_up[:, None] / np.abs(steps), room_down[:, None] / np.abs(steps)
    plus = np.min(np.where(steps > 0, up, np.where(steps < 0, down, np.inf)), axis=0)
    minus = np.min(np.where(steps > 0, down, np.where(steps < 0, up, np.inf)), axis=0)
    return np.minimum(plus, 1.0), np.minimum(minus, 1.0)


def _update_model(inner: InnerModel, spot: Spot, gradient: Array) -> Array:
    """The damped BFGS update of the Hessian in w; along t, cubic terms let w and the gradient grow like t²."""
    old, model, damping = inner.spot, inner.model, inner.tuning.damping
    if old is None or inner.is_other_t:
        return model
    growth = (spot.t / old.t) ** 2
    s, y = spot.w - growth * old.w, gradient - growth * inner.gradient
    if not np.linalg.norm(s) > 0.2 * inner.length:
        return model
    ms = model @ s
    bend = float(s @ ms)
    if s @ y < damping * bend:
        share = (1.0 - damping) * bend / (bend - float(s @ y))
        y = share * y + (1.0 - share) * ms
    return model - np.outer(ms, ms) / bend + np.outer(y, y) / float(s @ y)


def _inner_step(line: Line, spot: Spot, inner: InnerModel) -> tuple[Array, float]:
    """The quasi-Newton step in w (m − 1,) within the bounds and `max_inner_step`, and the decrease of the model."""
    gradient, model = inner.gradient, inner.model
    if not gradient.size:
        return gradient, 0.0
    chart, others = line.chart, line.others
    o = line.offsets(spot.t, spot.w)[others]
    low, high = chart.low[others] - o, chart.high[others] - o
    step = -solve(model, gradient)
    moved = line.root @ step
    if np.any((moved < low) | (moved > high)):
        half: Array = np.linalg.cholesky(model).T.astype(np.float64)
        scale: Array = np.linalg.norm(line.root, axis=1).astype(np.float64)
        design = half @ solve(line.root, np.diag(scale))
        aim = -solve(half.T, gradient)
        found = lsq_linear(design, aim, (np.minimum(low, 0.0) / scale, np.maximum(high, 0.0) / scale))
        step = solve(line.root, scale * np.asarray(found.x, dtype=np.float64))
    step = step * min(1.0, inner.tuning.max_inner_step / max(float(np.linalg.norm(step)), 1e-300))
    return step, max(-float(gradient @ step + 0.5 * step @ model @ step), 0.0)


def solve(matrix: Array, right: Array) -> Array:
    """matrix⁻¹·right."""
    return np.linalg.solve(matrix, right).astype(np.float64)
