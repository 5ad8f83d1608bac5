"""The shape of a function around its minimum, from ranks alone: natural gradient descent at a fixed scale, averaged.

On g(xᵀHx) the natural gradient of the volume cost is C·H·C for every increasing g (Akimoto 2012, prop:ng), so at a
fixed determinant the only stationary shape is H⁻¹ (thm:cond). This also holds under noise that does not depend on x: at
C ∝ H⁻¹ no direction is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array, MirroredFrames
from sublevel.engine.families.full import FullGaussian, power_of_two_near
from sublevel.engine.linalg import solve_lower
from sublevel.engine.method import Outcome, State
from sublevel.engine.recipes import shape_only
from sublevel.evaluation.evaluators import ComparisonEvaluator, Evaluator, evaluate_all
from sublevel.evaluation.failures import OnError
from sublevel.evaluation.objective import bind_args, name_parameters
from sublevel.hessian.frame import Frame, Place, find_names, find_place, find_space, free_frame
from sublevel.rank_shape.average import STRONGEST, ShapeAverage, average_shapes
from sublevel.rank_shape.shape import RankShape
from sublevel.run.arguments import Box, Seed, Workers
from sublevel.run.constraints import Constraints, ConstraintsLike
from sublevel.run.diagnosis import Finding, rank_correlation
from sublevel.run.inside import InsideEvaluator, evaluator_inside, find_constraints
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.validation import (
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
    explain_keywords,
    validate_callable,
)

SPAN = 20.0
"""Rate c = min(1, SPAN/t): an initial condition number of 1e6 is forgotten within the first third of 100 iterations,
and the averaged half covers at least SPAN·3/4 = 15 relaxation times for any number of iterations."""
FEWEST = 4
"""Least number of mirrored frames per iteration, so that points have several lengths in few dimensions too."""
RISES, DOUBTFUL = 0.95, 0.8
"""Fractions of rays along which f is higher further out: from RISES a scale is large enough, below DOUBTFUL useless."""
FURTHER = 1.1
"""Ratio of the two distances: f then differs by a fifth of its rise, so noise must be at most a tenth of the rise."""
RAYS = 40
"""Least number of rays of a scale check; at least four per direction."""
STRIDE, STRIDES, MARGIN = 4.0, 30, 4.0
"""Factor of each enlargement, number of enlargements at most, and additional factor if the scale was enlarged."""
SCALE_CHECKS = (0, 6, 3)
"""The scale is checked before the first iteration and after a sixth and a third of them, when the shape has changed."""
FAR, STRETCHED, WEAK, IMPRECISE = 3.0, 30.0, 0.3, 2.0
"""Thresholds of the findings: movement of the mean in standard deviations (in addition to √k), growth of the condition
number over the second half, rank correlation, accuracy."""


@explain_keywords
def shape_from_ranks(
    fun: Callable[..., object],
    result_or_optimizer: object,
    *,
    comparison: bool = False,
    sigma0: ArrayLike | None = None,
    scale: float | None = None,
    iterations: int = 100,
    popsize: int | None = None,
    args: object = (),
    bounds: Box | None = None,
    constraints: ConstraintsLike | None = None,
    names: Sequence[str] | None = None,
    vectorized: bool = False,
    workers: Workers = 1,
    timeout: float | None = None,
    on_error: OnError = "raise",
    rng: Seed | None = None,
) -> RankShape:
    """Inverse Hessian up to a factor, from the order of values alone.

    The result is the same for f and log f, and for a function that only says which of two points is better.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` as for `minimize`; with `comparison`, ``fun(x, y, *args)``, which returns True if x is better
        than y.
    result_or_optimizer : Result, Optimizer, OptimizeResult or array, shape (d,)
        The minimum: the return value of `minimize`, an `Optimizer`, any OptimizeResult, or a point, whose scale is
        given by `sigma0`.
    comparison : bool
        Whether `fun` compares two points. Evaluation settings are then not available.
    sigma0 : float or array, shape (d,), optional
        Standard deviations of the first samples, required with a point.
    scale : float, optional
        Factor by which the search distribution is enlarged. By default it is enlarged until f rises away from its mean
        in spite of noise and rounding, which takes a few samples of up to 8d points and is often not necessary.
    iterations : int
        Number of iterations. The error decreases like 1/iterations without noise and like 1/√iterations with noise.
    popsize : int, optional
        Points per iteration; d² by default and at least 8d.
    names : sequence of str, optional
        Names of the variables; by default those passed to `minimize`.
    args, bounds, constraints, vectorized, workers, timeout, on_error, rng : optional
        As for `minimize`; bounds and constraints are taken from the result if it comes from this package. Constraints
        must be given again if it is from a file or was pickled. Failed evaluations count as the worst.

    Returns
    -------
    RankShape

    Raises
    ------
    ValueError
        If an argument is invalid, no variable is free, some are discrete, f has the same value everywhere, or a
        constraint is active at the minimum or violated near it.

    Examples
    --------
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
    count, size = as_count("iterations", iterations, 8), _sample_size(popsize, frame.size)
    variables = as_names(find_names(result_or_optimizer) if names is None else names, frame.free.size)
    if frame.size == 1:
        return _make_shape(frame, variables, np.zeros(1), np.eye(1))  # every shape of one dimension is the same
    space, x = find_space(result_or_optimizer), frame.centre
    named = _name_points(fun, space, as_flag("comparison", comparison))
    known = find_constraints(result_or_optimizer, constraints, x, space, vectorized, workers)
    comparisons = _Comparisons(bind_args(named, args))
    settings = as_flag("vectorized", vectorized), as_workers(workers), as_timeout(timeout), as_on_error(on_error)
    evaluate = _evaluator(comparisons, comparison, settings, None if known is None else known.complete)
    ranker = _Ranker(evaluate)
    try:
        record = _iterate(ranker, frame, enlarged, count, size, MirroredFrames(as_generator(rng)))
    finally:
        evaluate.close()
    return replace(_average_result(record, variables), popsize=size, nfev=ranker.nfev, comparisons=comparisons.count)


def _name_points(fun: Callable[..., object], space: Space | None, is_comparison: bool) -> Callable[..., object]:
    """The objective, or comparison, as a function of points; it is itself called with named parameters if there is a
    space.
    """
    if space is None or not is_comparison:
        return name_parameters(fun, space)
    return partial(_compare_by_name, fun, space)


def _compare_by_name(fun: Callable[..., object], space: Space, x: Array, y: Array, *args: object) -> object:
    return fun(space.build(x), space.build(y), *args)


def _evaluator(
    comparisons: _Comparisons,
    is_comparison: bool,
    settings: tuple[bool, Workers, float | None, OnError],
    constraints: Constraints | None,
) -> Evaluator:
    if not is_comparison:
        return evaluator_inside(constraints, comparisons.better, *settings)
    if settings != (False, 1, None, "raise"):
        raise ValueError(
            "comparisons are evaluated one pair of points at a time: leave out `vectorized`, `workers`, `timeout` and "
            "`on_error`, or pass comparison=False."
        )
    evaluate = ComparisonEvaluator(comparisons)
    if constraints is None:
        return evaluate
    if any(part.is_own for part in constraints.parts):
        raise ValueError("a comparison returns no constraint values: pass `constraints` as functions of the point.")
    return InsideEvaluator(evaluate, constraints, is_comparison=True)


def _frame(found: object, sigma0: object, bounds: object) -> Frame:
    """The initial frame: that of a result, or of a point with standard deviations."""
    if isinstance(found, Optimizer) or hasattr(found, "x"):
        if sigma0 is not None:
            raise ValueError(
                "`sigma0` is only valid with a point; a result has its own standard deviations. Enlarge them with "
                "`scale`."
            )
        place = find_place(found, bounds)
    else:
        x0 = as_x0(found)
        box = as_bounds([(None, None)] * x0.size if bounds is None else bounds, x0.size)
        place = Place(x0, np.nan, x0, np.diag(as_deviations(sigma0, x0.size)), box, np.zeros(x0.size, dtype=np.bool_))
    frame = free_frame(place, place.mean)
    if frame.size == 0:
        raise ValueError("every variable is fixed or at a bound: there is no free direction.")
    return frame


def _sample_size(popsize: int | None, k: int) -> int:
    """Points of whole mirrored frames: `popsize` rounded up, or by default k² and at least FEWEST frames."""
    size = max(k * k, 2 * k * FEWEST) if popsize is None else as_count("popsize", popsize)
    if size < 4 * k:
        raise ValueError(f"`popsize` must be at least 4 points per free direction, {4 * k} here, got {size}.")
    return -(-size // (2 * k)) * 2 * k


class _Comparisons:
    """A comparison by the user, with a counter."""

    def __init__(self, better: Callable[..., object]) -> None:
        self.better, self.count = better, 0

    def __call__(self, x: Array, y: Array) -> object:
        """Whether x is better than y."""
        self.count += 1
        return self.better(x, y)


class _Ranker:
    """Values, or ranks, of whitened points, with a counter."""

    def __init__(self, evaluate: Evaluator) -> None:
        self.evaluate, self.nfev = evaluate, 0

    def __call__(self, frame: Frame, z: Array) -> Array:
        """Numbers (n,) that are ordered like f at whitened points (n, k)."""
        self.nfev += len(z)
        return evaluate_all(self.evaluate, frame.points(z))


@dataclass(frozen=True, slots=True)
class _Iterations:
    """The states of all iterations, in the initial frame."""

    frame: Frame
    scale: float  # factor by which the frame was enlarged
    shapes: Array  # (t, k, k), of determinant 1
    means: Array  # (t, k), in the enlarged frame
    signals: Array  # (t,), rank correlation of f and distance: 1 in a round valley without noise
    stalls: int  # iterations without a step


def _iterate(
    ranker: _Ranker, frame: Frame, scale: float | None, count: int, size: int, noise: MirroredFrames
) -> _Iterations:
    """Iterate at the given scale, or at one that is large enough for ranks."""
    method = shape_only(span=SPAN, constant_from=count // 3)
    state = method.init(FullGaussian.start(np.zeros(frame.size), np.ones(frame.size)), size)
    frame, enlarged = frame.transform((scale or 1.0) * np.eye(frame.size)), scale or 1.0
    checks = {part and count // part for part in SCALE_CHECKS} if scale is None else set[int]()
    shapes, means, signals, stalls = list[Array](), list[Array](), list[float](), 0
    for t in range(count):
        if t in checks:
            theta = cast(FullGaussian, state.theta)
            factor = _informative_scale(ranker, frame, theta, noise.generator)
            frame, enlarged = frame.transform(factor * np.eye(frame.size)), enlarged * factor
            state = State(FullGaussian(theta.mean / factor, theta.root, theta.scale), state.memory)
        sample = method.ask(state, noise, size)
        state, info = method.tell(state, sample, ranker(frame, sample.x))
        shapes.append(state.theta.cov)
        means.append(state.theta.mean)
        signals.append(rank_correlation(info.ranks.sort(sample.surprise)))
        stalls += bool(info.outcome != Outcome.MOVED)
    return _Iterations(frame, enlarged, np.array(shapes), np.array(means), np.array(signals), stalls)


def _informative_scale(ranker: _Ranker, frame: Frame, theta: FullGaussian, rng: np.random.Generator) -> float:
    """Factor by which to enlarge a search distribution for f to rise away from its mean in spite of noise; 1 for none.

    In a valley of any length f is higher further out along every ray; noise, ties and a mean beside the minimum reduce
    this to half of them.
    """
    best, share_of_best, seen = 1.0, DOUBTFUL, set[float]()
    for factor in STRIDE ** np.arange(STRIDES):
        rays = factor * rng.standard_normal((max(RAYS, 4 * frame.size), frame.size))
        near, far = np.split(ranker(frame, theta.push(np.concatenate([rays, FURTHER * rays]))), 2)
        seen.update(near[near < np.inf].tolist())
        share = float(np.mean(far > near))
        if share >= RISES:
            return float(factor if factor == 1.0 else MARGIN * factor)
        if share > share_of_best:
            best, share_of_best = float(factor), share
    if len(seen) < 2:
        values = f"the same value, {seen.pop()!r}," if seen else "no value except NaN or +inf"
        raise ValueError(
            f"f has {values} at all points, at every scale up to {STRIDE**STRIDES:.0e} times the initial one."
        )
    return best


def _average_result(record: _Iterations, names: tuple[str, ...]) -> RankShape:
    """The stationary shape: the average over the second half of the iterations."""
    count = len(record.shapes)
    settled = count // 2
    average, signal = average_shapes(record.shapes[settled:]), float(np.mean(record.signals[settled:]))
    shape = _make_shape(record.frame, names, np.mean(record.means[settled:], axis=0), average.root)
    problems = tuple(_problems(record, settled, average, signal, names))
    return replace(shape, average=average, scale=record.scale, signal=signal, iterations=count, problems=problems)


def _make_shape(frame: Frame, names: tuple[str, ...], mean: Array, root: Array) -> RankShape:
    """The result for a root (k, k) and a mean (k,) in a frame, in user coordinates."""
    x = frame.points(mean)
    whole = frame.root @ root
    whole[frame.free] *= frame.slopes(x)[:, None]
    whole /= power_of_two_near(np.max(np.abs(whole)))  # so that rescaling by powers of two is exact
    log_size = np.linalg.slogdet(whole[frame.free])[1] / frame.size
    return RankShape(x, np.exp(-log_size) * whole, frame.free, names)


def _problems(
    record: _Iterations, settled: int, average: ShapeAverage, signal: float, names: tuple[str, ...]
) -> Iterator[Finding]:
    """Reasons not to trust the shape, with numbers and advice."""
    moved = float(np.linalg.norm(solve_lower(average.root, record.means[-1] - record.means[settled])))
    stretched = float(np.linalg.cond(record.shapes[-1]) / np.linalg.cond(record.shapes[settled]))
    if average.correlation >= STRONGEST or moved > FAR + np.sqrt(len(average.root)) or stretched > STRETCHED:
        yield Finding(
            "unsettled",
            "the shape has not converged: over the second half of the iterations its condition number changed by a "
            f"factor of {stretched:.3g} and the mean moved by {moved:.2g} standard deviations. Either f has no minimum "
            "along some direction (a saddle, a slope, a flat direction), or the initial shape was poor; increase "
            "`iterations`",
            {"stretched": stretched, "moved": moved},
        )
    if signal < WEAK:
        yield Finding(
            "weak_signal",
            f"the rank correlation of f and the distance from the minimum is only {signal:.2f} (1 for a quadratic "
            "without noise): noise hides the order of the points, or f is not quadratic at this scale; try a larger "
            "(for noise) or a smaller `scale`",
            {"signal": signal},
        )
    if (bound := average.spread(0.95)) > IMPRECISE:
        yield Finding(
            "imprecise",
            f"Cond(hess_inv·H) may be up to {bound:.3g} (95 % confidence); increase `iterations`",
            {"accuracy": bound},
        )
    if record.stalls > 0.1 * len(record.shapes):
        yield Finding(
            "stalled",
            f"{record.stalls} of {len(record.shapes)} iterations had no effect: all values were equal or not finite",
            {"stalls": float(record.stalls)},
        )
    if held := [names[i] for i in np.flatnonzero(~record.frame.free & (record.frame.box[0] < record.frame.box[1]))]:
        yield Finding(
            "at_bound",
            f"{', '.join(held)} at a bound: the shape is that of the other variables",
            {"variables": float(len(held))},
        )
