"""The shape of a valley from ranks alone: natural gradient descent at a fixed scale, averaged over its iterations.

On g(xᵀHx) the natural gradient of the volume cost is C·H·C for every increasing g (Akimoto 2012, prop:ng), so at a fixed determinant the
only shape that stays is H⁻¹ (thm:cond). That holds under noise too, if it does not depend on x: at C ∝ H⁻¹ no direction is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sublevel.engine.arrays import Array, MirroredFrames
from sublevel.engine.families.full import FullGaussian, power_of_two_near
from sublevel.engine.linalg import solve_lower
from sublevel.engine.method import Outcome, State
from sublevel.engine.recipes import shape_only
from sublevel.evaluation.evaluators import Compared, Evaluator, all_values, evaluator, with_args
from sublevel.evaluation.failures import OnError
from sublevel.hessian.frame import Frame, Place, found_names, found_place, free_frame
from sublevel.rank_shape.average import STRONGEST, Averaged, averaged
from sublevel.rank_shape.shape import RankShape
from sublevel.run.diagnosis import Finding, rank_correlation
from sublevel.run.optimizer import Optimizer
from sublevel.validation import (
    Workers,
    as_bounds,
    as_count,
    as_deviations,
    as_flag,
    as_generator,
    as_names,
    as_on_error,
    as_positive,
    as_timeout,
    as_workers,
    as_x0,
    validate_callable,
)

SPAN = 20.0
"""c = min(1, SPAN/t), which forgets a condition number of 1e6 in the first third of 100 iterations; the half that is averaged then holds
SPAN·3/4 = 15 relaxation times at least, whatever the number of iterations."""
FEWEST = 4
"""Mirrored frames of an iteration at least, so that there are points of several lengths in few dimensions, too."""
RISES, DOUBTFUL = 0.95, 0.8
"""Share of rays along which f is higher a bit further out: the scale is enlarged until it is so large, and left if that never helps."""
FURTHER = 1.1
"""How much further out: f then differs by a fifth of its rise, so that noise must be a tenth of the rise or less to pass."""
RAYS = 40
"""Rays of a look at the scale at least, and four per direction."""
STRIDE, STRIDES, MARGIN = 4.0, 30, 4.0
"""By how much the scale is enlarged at a time, how often at most, and by how much more if it had to be at all."""
LOOKS = (0, 6, 3)
"""The scale is looked at before the first iteration, and again after a sixth and a third of them, when the shape is another one."""
FAR, STRETCHED, WEAK, IMPRECISE = 3.0, 30.0, 0.3, 2.0
"""What is named: a mean that moves by so many standard deviations more than a sample spreads, a shape whose condition number grows by
such a factor over the second half, a weaker signal, a larger bound."""


def shape_from_ranks(
    fun: Callable[..., Any],
    result_or_optimizer: Any,
    *,
    comparison: bool = False,
    sigma0: Any = None,
    scale: float | None = None,
    iterations: int = 100,
    popsize: int | None = None,
    args: tuple[Any, ...] = (),
    bounds: Any = None,
    names: Any = None,
    vectorized: bool = False,
    workers: int | Callable[..., Any] = 1,
    timeout: float | None = None,
    on_error: OnError = "raise",
    rng: Any = None,
) -> RankShape:
    """The inverse Hessian up to a factor, from the order of values alone: the same for f, log f, and for a judge of which of two is better.

    fun
        ``fun(x, *args)`` as for `minimize`; or, with `comparison`, ``fun(x, y, *args)`` that is True where x is better than y.
    result_or_optimizer
        Where: what `minimize` returned, an `Optimizer`, any OptimizeResult; or a point, with its standard deviations in `sigma0`.
    scale
        By how much to enlarge the search distribution that was found there. By default until f rises away from its mean whatever the
        noise and the rounding, which costs a few looks at up to 8d points, and often is not needed at all.
    iterations, popsize
        Each evaluates `popsize` points, d² by default and at least 8d. The error falls like 1/iterations without noise, with it like
        1/√iterations.
    args, bounds, vectorized, workers, timeout, on_error, rng
        As for `minimize`; bounds of a result of ours are known already. A point that fails counts as the worst. Not for comparisons.
    names
        What to call the variables; by default as `minimize` was told.

    >>> import numpy as np, sublevel as sl
    >>> valley = lambda x: x[0] ** 2 + 100 * (x[1] - x[0]) ** 2
    >>> result = sl.minimize(valley, [1, 1], 0.5, rng=1)
    >>> judged = sl.shape_from_ranks(lambda x, y: bool(valley(x) < valley(y)), result, comparison=True, rng=1)
    >>> (judged.hess_inv / judged.hess_inv[0, 0]).round(2)  # of the inverse Hessian ½·[[1, 1], [1, 1.01]]
    array([[1.  , 1.  ],
           [1.  , 1.01]])
    """
    validate_callable("fun", fun)
    frame = _frame(result_or_optimizer, sigma0, bounds)
    enlarged = None if scale is None else as_positive("scale", scale)
    count, size, called = (
        as_count("iterations", iterations, 8),
        _checked_size(popsize, frame.size),
        as_names(found_names(result_or_optimizer) if names is None else names, frame.free.size),
    )
    if frame.size == 1:
        return _described(frame, called, np.zeros(1), np.eye(1))  # every shape of one dimension is the same
    comparisons = _Comparisons(with_args(fun, args))
    how = as_flag("vectorized", vectorized), as_workers(workers), as_timeout(timeout), as_on_error(on_error)
    evaluate = _evaluator(comparisons, as_flag("comparison", comparison), how)
    look = _Look(evaluate)
    try:
        walk = _walk(look, frame, enlarged, count, size, MirroredFrames(as_generator(rng)))
    finally:
        evaluate.close()
    return replace(_learned(walk, called), popsize=size, nfev=look.nfev, comparisons=comparisons.count)


def _evaluator(comparisons: _Comparisons, is_comparison: bool, how: tuple[bool, Workers, float | None, OnError]) -> Evaluator:
    if not is_comparison:
        return evaluator(comparisons.better, *how)
    if how != (False, 1, None, "raise"):
        raise ValueError(
            "comparisons are evaluated one pair of points at a time: leave out `vectorized`, `workers`, `timeout` and `on_error`, or pass "
            "comparison=False."
        )
    return Compared(comparisons)


def _frame(found: Any, sigma0: Any, bounds: Any) -> Frame:
    """The frame to begin with: of what was found, or of a point with standard deviations."""
    if isinstance(found, Optimizer) or hasattr(found, "x"):
        if sigma0 is not None:
            raise ValueError("`sigma0` belongs to a point; a result knows its standard deviations. Enlarge them by `scale`.")
        place = found_place(found, bounds)
    else:
        x0 = as_x0(found)
        box = as_bounds([(None, None)] * x0.size if bounds is None else bounds, x0.size)
        place = Place(x0, np.nan, x0, np.diag(as_deviations(sigma0, x0.size)), box, np.zeros(x0.size, dtype=np.bool_))
    frame = free_frame(place, place.mean)
    if frame.size == 0:
        raise ValueError("every variable is fixed or at a bound: there is no free direction to learn a shape of.")
    return frame


def _checked_size(popsize: Any, k: int) -> int:
    """A sample of whole mirrored frames: k² points if none is given, and at least FEWEST frames; as many as asked for, rounded up."""
    if popsize is None:
        popsize = max(k * k, 2 * k * FEWEST)
    elif (given := as_count("popsize", popsize)) < 4 * k:
        raise ValueError(f"`popsize` must be at least 4 points per free direction, {4 * k} here, got {given}.")
    return -(-popsize // (2 * k)) * 2 * k


class _Comparisons:
    """A user's comparison, counted."""

    def __init__(self, better: Callable[..., Any]) -> None:
        self.better, self.count = better, 0

    def __call__(self, x: Array, y: Array) -> Any:
        """Whether x is better than y."""
        self.count += 1
        return self.better(x, y)


class _Look:
    """Values, or ranks, of whitened points, counted."""

    def __init__(self, evaluate: Evaluator) -> None:
        self.evaluate, self.nfev = evaluate, 0

    def __call__(self, frame: Frame, z: Array) -> Array:
        """Numbers (n,) in the order of f at whitened points (n, k)."""
        self.nfev += len(z)
        return all_values(self.evaluate, frame.points(z))


@dataclass(frozen=True, slots=True)
class _Walk:
    """What the iterations went through, in the frame they began with."""

    frame: Frame
    scale: float  # by which it was enlarged
    shapes: Array  # (t, k, k), of determinant 1
    means: Array  # (t, k), in the frame that was enlarged
    signals: Array  # (t,), rank correlation of f and distance: 1 in a round valley without noise
    outcomes: list[Any]


def _walk(look: _Look, frame: Frame, scale: float | None, count: int, size: int, noise: MirroredFrames) -> _Walk:
    """Iterations at the scale that was asked for, or that ranks need."""
    method = shape_only(span=SPAN, constant_from=count // 3)
    state = method.init(FullGaussian.start(np.zeros(frame.size), np.ones(frame.size)), size)
    frame, enlarged = frame.turned((scale or 1.0) * np.eye(frame.size)), scale or 1.0
    looks = {part and count // part for part in LOOKS} if scale is None else set[int]()
    shapes, means, signals, outcomes = list[Array](), list[Array](), list[float](), list[Any]()
    for t in range(count):
        if t in looks:
            theta = cast(FullGaussian, state.theta)
            factor = _telling_scale(look, frame, theta, noise.generator)
            frame, enlarged = frame.turned(factor * np.eye(frame.size)), enlarged * factor
            state = State(FullGaussian(theta.mean / factor, theta.root, theta.scale), state.memory)
        sample = method.ask(state, noise, size)
        state, info = method.tell(state, sample, look(frame, sample.x))
        shapes.append(state.theta.cov)
        means.append(state.theta.mean)
        signals.append(rank_correlation(info.ranks.sort(sample.surprise)))
        outcomes.append(info.outcome)
    return _Walk(frame, enlarged, np.array(shapes), np.array(means), np.array(signals), outcomes)


def _telling_scale(look: _Look, frame: Frame, theta: FullGaussian, rng: np.random.Generator) -> float:
    """The factor by which to enlarge a search distribution such that f rises away from its mean, whatever the noise; 1 if it does anyway.

    In a valley, and however long it is, f is higher further out along every ray; noise, ties and a mean beside the minimum make it one half
    of them.
    """
    best, share_of_best, seen = 1.0, DOUBTFUL, set[float]()
    for factor in STRIDE ** np.arange(STRIDES):
        rays = factor * rng.standard_normal((max(RAYS, 4 * frame.size), frame.size))
        near, far = np.split(look(frame, theta.push(np.concatenate([rays, FURTHER * rays]))), 2)
        seen.update(near[near < np.inf].tolist())
        share = float(np.mean(far > near))
        if share >= RISES:
            return float(factor if factor == 1.0 else MARGIN * factor)
        if share > share_of_best:
            best, share_of_best = float(factor), share
    if len(seen) < 2:
        values = f"the same value, {seen.pop()!r}," if seen else "no value but NaN or +inf"
        raise ValueError(
            f"f has {values} at all points, at every scale up to {STRIDE**STRIDES:.0e} times that of the start: nothing to learn."
        )
    return best


def _learned(walk: _Walk, names: tuple[str, ...]) -> RankShape:
    """The shape that iterations have settled at: the average over their second half."""
    count = len(walk.shapes)
    settled = count // 2
    average, signal = averaged(walk.shapes[settled:]), float(np.mean(walk.signals[settled:]))
    learned = _described(walk.frame, names, np.mean(walk.means[settled:], axis=0), average.root)
    problems = tuple(_problems(walk, settled, average, signal, names))
    return replace(learned, average=average, scale=walk.scale, signal=signal, iterations=count, problems=problems)


def _described(frame: Frame, names: tuple[str, ...], mean: Array, root: Array) -> RankShape:
    """What a root (k, k) in a frame, and a mean (k,), are in the user's coordinates."""
    x = frame.points(mean)
    whole = frame.root @ root
    whole[frame.free] *= frame.slopes(x)[:, None]
    whole /= power_of_two_near(np.max(np.abs(whole)))  # such that units that are powers of two change nothing
    log_size = np.linalg.slogdet(whole[frame.free])[1] / frame.size
    return RankShape(x, np.exp(-log_size) * whole, frame.free, names)


def _problems(walk: _Walk, settled: int, average: Averaged, signal: float, names: tuple[str, ...]) -> Iterator[Finding]:
    """What stands against the shape, with numbers and advice."""
    moved = float(np.linalg.norm(solve_lower(average.root, walk.means[-1] - walk.means[settled])))
    stretched = float(np.linalg.cond(walk.shapes[-1]) / np.linalg.cond(walk.shapes[settled]))
    if average.correlation >= STRONGEST or moved > FAR + np.sqrt(len(average.root)) or stretched > STRETCHED:
        yield Finding(
            "unsettled",
            f"over the second half of the iterations the condition number of the shape changed by a factor of {stretched:.3g} and the mean "
            f"moved by {moved:.2g} standard deviations: f has no minimum here in some direction (a saddle, a slope, a flat direction), or "
            "the start was so far off that it takes more `iterations`",
            {"stretched": stretched, "moved": moved},
        )
    if signal < WEAK:
        yield Finding(
            "weak_signal",
            f"the rank correlation of f and the distance from the minimum is {signal:.2f}, and 1 in a round valley: noise hides the order "
            "of the points, or f is not one valley at this scale; try another `scale`, larger against noise, smaller against bends",
            {"signal": signal},
        )
    if (bound := average.spread(0.95)) > IMPRECISE:
        yield Finding(
            "imprecise",
            f"Cond(hess_inv·H) may be up to {bound:.3g} (95 % confidence); more `iterations` help, like 1/√iterations under noise",
            {"accuracy": bound},
        )
    if (stalls := sum(outcome != Outcome.MOVED for outcome in walk.outcomes)) > 0.1 * len(walk.outcomes):
        yield Finding(
            "stalled",
            f"{stalls} of {len(walk.outcomes)} iterations told nothing: all their values were equal or unusable",
            {"stalls": float(stalls)},
        )
    if held := [names[i] for i in np.flatnonzero(~walk.frame.free & (walk.frame.box[0] < walk.frame.box[1]))]:
        yield Finding(
            "at_bound", f"{', '.join(held)} at a bound: the shape is that of the other variables.", {"variables": float(len(held))}
        )
