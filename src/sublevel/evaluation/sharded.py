"""Samples that are too large for one process: each shard is drawn, evaluated and summed by a worker and never sent.

The points of a shard are a pure function of (seed, run, iteration, shard). A worker returns the values and ‖z‖² of a
shard, then receives its weights and returns the sums Σ wz and Σ wzzᵀ: O(n + shards·d²) numbers are sent instead of n·d.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.linalg import combination
from sublevel.engine.method import Method
from sublevel.engine.sampling import INDEPENDENT, Sampling
from sublevel.engine.tangent import Dense, Diagonal, Tangent, Weighting, weighted_moment
from sublevel.engine.transforms import Generation
from sublevel.evaluation import dask_backend
from sublevel.evaluation.evaluators import RETURNED_NAN, VectorizedEvaluator, submit_all
from sublevel.evaluation.failures import Failures, annotate_exception
from sublevel.evaluation.objective import bind_args, call_objective
from sublevel.evaluation.this_process import SigtermAsInterrupt
from sublevel.evaluation.values import as_values
from sublevel.run.arguments import Box, Objective, RestartRule, Seed, StartingPoint, Workers
from sublevel.run.history import History
from sublevel.run.initial import as_space
from sublevel.run.minimize import Callback, Limits, Search
from sublevel.run.optimizer import Optimizer
from sublevel.run.progress import Progress
from sublevel.run.result import Result
from sublevel.run.search_space import SearchSpace
from sublevel.validation import (
    as_callback,
    as_count,
    as_flag,
    as_workers,
    explain_keywords,
    short_repr,
    validate_callable,
)

SHARD = 1 << 18
"""Most points of a shard if the number of shards is not given."""
CACHE_BYTES = 1 << 30
"""Most bytes of points that a process keeps between evaluation and summation; other points are drawn again."""

T = TypeVar("T")
Calls = Sequence[tuple[object, ...]]


class RunCalls(Protocol):
    """Calls a function with each tuple of arguments; the calls have task names and preferred workers."""

    def __call__(
        self, function: Callable[..., T], calls: Calls, names: Sequence[str], addresses: Sequence[str], /
    ) -> list[T]: ...


class Shard(NamedTuple):
    """A part of a sample, described by everything that determines its points."""

    seed: tuple[int, ...]
    run: int  # 0 is the first, then the restarts
    iteration: int
    part: int
    size: int
    dimension: int
    sampling: Sampling = INDEPENDENT

    @property
    def name(self) -> str:
        """A name that is unique within a search."""
        return f"{self.run}-{self.iteration}-{self.part}"

    def draw(self) -> Array:
        """The whitened points z (size, d)."""
        stream = np.random.SeedSequence(self.seed, spawn_key=(self.run, self.iteration, self.part))
        noise = self.sampling.of(np.random.Generator(np.random.SFC64(stream)))
        return noise.standard_normal((self.size, self.dimension))


class ShardReport(NamedTuple):
    """What a worker returns after the evaluation of a shard."""

    values: Array  # (size,)
    squares: Array | None  # (size,), ‖z‖² if requested
    best_x: Array  # (d,), the user's point with the best value
    ends: Array  # (2, k), the first and the last search point
    missing: Array  # (1, d), the last of the user's points whose value is NaN, or (0, d)
    address: str  # of the worker, "" if unknown


class ShardSums(NamedTuple):
    """Weighted sums of the points of a shard."""

    mean: Array  # (d,), Σ wᵢzᵢ
    cov: Array  # (d, d), Σ wᵢzᵢzᵢᵀ, or only its diagonal (d,)


class PointCache:
    """Points that were drawn in this process and will probably be summed here, up to a number of bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._points: dict[Shard, Array] = {}

    def keep(self, shard: Shard, z: Array) -> None:
        """Keep the points of a shard and drop those of earlier generations of the same search."""
        for other in [other for other in tuple(self._points) if other.seed == shard.seed and other[1:3] != shard[1:3]]:
            self._points.pop(other, None)
        if z.nbytes + sum(kept.nbytes for kept in tuple(self._points.values())) <= self.room:
            self._points[shard] = z

    def points(self, shard: Shard) -> Array:
        """Remove and return the points of a shard; they are drawn again, to the same bits, if they were not kept."""
        z = self._points.pop(shard, None)
        return shard.draw() if z is None else z


CACHE = PointCache(CACHE_BYTES)


def evaluate_shard(
    fun: Callable[..., object], space: SearchSpace | None, theta: Family, wants_squares: bool, shard: Shard
) -> ShardReport:
    """Draw and evaluate a shard."""
    z = shard.draw()
    u = theta.sample_at(z).x
    x = u if space is None else space.points(u)
    x.setflags(write=False)
    try:
        values = as_values(call_objective(fun, x), shard.size)
    except BaseException as error:
        annotate_exception(
            error, f"sublevel: raised in shard {shard.part} of iteration {shard.iteration}, points of shape {x.shape}"
        )
        raise
    CACHE.keep(shard, z)
    best = 0 if np.isnan(values).all() else int(np.nanargmin(values))
    squares, missing = np.vecdot(z, z) if wants_squares else None, x[np.isnan(values)][-1:].copy()
    return ShardReport(values, squares, x[best].copy(), u[[0, -1]], missing, dask_backend.worker_address())


def sum_shard(shard: Shard, mean_weights: Array, cov_weights: Array | None, wants_matrix: bool) -> ShardSums:
    """Sum a shard with weights (size,) for mean and covariance (None: the same). Points of weight 0 are skipped."""
    z, cov_weights = CACHE.points(shard), mean_weights if cov_weights is None else cov_weights
    matters = np.flatnonzero(cov_weights)
    if 2 * matters.size < shard.size:
        z, mean_weights, cov_weights = z[matters], mean_weights[matters], cov_weights[matters]
    cov = weighted_moment(z, cov_weights) if wants_matrix else combination(cov_weights, np.square(z))
    return ShardSums(combination(mean_weights, z), cov)


@dataclass(frozen=True, slots=True)
class RemoteSample:
    """A sample for weight rules whose points are on the workers: of z and x (n, d) only the shapes are known."""

    squares: Array  # (n,), ‖z‖²; unknown if the rule does not need it
    z: Array
    x: Array
    degrees_of_freedom: int
    pairs: int
    half: None = None
    images: None = None
    choices: None = None

    @classmethod
    def of(cls, squares: Array | None, size: int, theta: Family, pairs: int) -> RemoteSample:
        """Squares (size,), if they are known, of points drawn from θ with a number of mirrored pairs."""
        unknown = np.broadcast_to(np.nan, (size, theta.dimension))
        return cls(unknown[:, 0] if squares is None else squares, unknown, unknown, theta.degrees_of_freedom, pairs)

    def with_pairs(self) -> RemoteSample:
        """The sample: its pairs are known."""
        return self

    @property
    def surprise(self) -> Array:
        """−log p(xᵢ) = ‖zᵢ‖²/2 (n,), up to a constant."""
        return 0.5 * self.squares


@dataclass(frozen=True, slots=True)
class Sharding:
    """Makes generations from shards, with the runner of their calls."""

    fun: Callable[..., object]
    run_calls: RunCalls
    count: int
    seed: tuple[int, ...]
    name: str
    failures: Failures

    def __call__(self, optimizer: Optimizer) -> None:
        """Run one generation."""
        theta, method = optimizer.theta, optimizer.method
        shards = self.shards(optimizer)
        reports = self._reports(shards, optimizer)
        for report in reports:
            for point in report.missing:
                self.failures.add(RETURNED_NAN, point, int(np.count_nonzero(np.isnan(report.values))))
        values = np.concatenate([report.values for report in reports])
        known = [report.squares for report in reports if report.squares is not None]
        squares = np.concatenate(known) if known else None
        pairs = sum(shard.size // 2 for shard in shards) if method.sampling.mirrored else 0
        sample = RemoteSample.of(squares, values.size, theta, pairs)
        ranks, kept = method.rank(optimizer.state, values)
        weighting = method.weights(ranks, sample)
        tangent = self._tangent(shards, weighting, [report.address for report in reports], _wants_matrix(theta, method))
        state, info = method.apply_gradient(
            optimizer.state, Generation(theta, sample, values, ranks, weighting), tangent, kept
        )
        part = int(np.argmax(_stops(shards) > ranks.order[0]))
        ends = np.concatenate([report.ends for report in reports])
        optimizer.tell_elsewhere(state, info, values, ends, reports[part].best_x, squares)

    def shards(self, optimizer: Optimizer) -> list[Shard]:
        """The shards of the next generation."""
        d, sampling = optimizer.theta.dimension, optimizer.method.sampling
        sizes = shard_sizes(optimizer.popsize, self.count, 2 if sampling.mirrored else 1)
        run, iteration = optimizer.restarts, optimizer.nit
        return [Shard(self.seed, run, iteration, part, size, d, sampling) for part, size in enumerate(sizes)]

    def _reports(self, shards: Sequence[Shard], optimizer: Optimizer) -> list[ShardReport]:
        wants_squares = optimizer.method.weights.needs_squares
        calls = [(self.fun, optimizer.space, optimizer.theta, wants_squares, shard) for shard in shards]
        return self.run_calls(evaluate_shard, calls, self._names("evaluate", shards), [""] * len(shards))

    def _tangent(
        self, shards: Sequence[Shard], weighting: Weighting, addresses: Sequence[str], wants_matrix: bool
    ) -> Tangent:
        """The natural gradient from the sums of the shards, added in their order."""
        same, ends = weighting.cov is weighting.mean, _stops(shards)[:-1]
        mean = np.split(weighting.mean, ends)
        cov: Sequence[Array | None] = [None] * len(shards) if same else np.split(weighting.cov, ends)
        calls = [(*call, wants_matrix) for call in zip(shards, mean, cov, strict=True)]
        parts = self.run_calls(sum_shard, calls, self._names("sum", shards), addresses)
        total, kind = np.sum([part.cov for part in parts], axis=0), Dense if wants_matrix else Diagonal
        return Tangent(np.sum([part.mean for part in parts], axis=0), kind(total, weighting.decay, weighting.cov.size))

    def _names(self, what: str, shards: Sequence[Shard]) -> list[str]:
        return [f"sublevel-{self.name}-{what}-{shard.name}" for shard in shards]


def shard_sizes(n: int, count: int, unit: int) -> list[int]:
    """Sizes of at most `count` shards of n points: nearly equal, and multiples of `unit` but for the last one."""
    units = -(-n // unit)
    count = min(count, units)
    sizes = [unit * (units // count + (part < units % count)) for part in range(count)]
    sizes[-1] -= unit * units - n
    return sizes


def _wants_matrix(theta: Family, method: Method) -> bool:
    """Whether a step needs the full Σ wᵢzᵢzᵢᵀ: for a full covariance, or for rates that depend on the spectrum."""
    return not theta.coordinate_axes or any(transform.needs_spectrum for transform in method.transforms)


def _stops(shards: Sequence[Shard]) -> NDArray[np.intp]:
    """The index after the last point of each shard (shards,)."""
    return np.cumsum([shard.size for shard in shards], dtype=np.intp)


@explain_keywords
def minimize_sharded(
    fun: Objective,
    x0: StartingPoint,
    sigma0: ArrayLike | None = None,
    *,
    popsize: int,
    shards: int | None = None,
    workers: Workers = 1,
    args: object = (),
    method: str | Method = "cma",
    cov0: ArrayLike | None = None,
    bounds: Box | None = None,
    log_scaled: ArrayLike = False,
    restarts: RestartRule | None = None,
    rng: Seed | None = None,
    maxfevals: float | None = None,
    maxiter: float | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolfun: float | None = None,
    tolx: float | None = None,
    rtolfun: float | None = None,
    noise_floor: bool = True,
    names: Sequence[str] | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> Result:
    """Minimise a function with large samples, which are drawn, evaluated and summed in parts, by workers if given.

    Parameters
    ----------
    fun : callable
        ``fun(X, *args)`` returns the values (m,) of the points of a shard (m, d). It is called on the worker that draws
        the shard.
    popsize : int
        Number of points per generation.
    shards : int, optional
        Number of parts of a sample. The default limits a shard to 262144 points. The points depend on this number, but
        not on `workers`.
    workers : 1, Executor or dask.distributed.Client
        1 evaluates all shards in this process.
    x0, sigma0, args, method, cov0, bounds, log_scaled, restarts, rng, names, callback, progress
        As for `minimize`; `method` must not be binary, and all variables are real.
    maxfevals, maxiter, maxtime, ftarget, tolfun, tolx, rtolfun
        As for `minimize`; `maxtime` is checked between generations, and no generation is begun that would exceed
        `maxfevals`.
    noise_floor : bool
        As for `minimize`, for the methods "cma" and "ngd"; without effect for others.

    Returns
    -------
    Result
        As of `minimize`. A generation that is interrupted by an exception or Ctrl-C does not count.

    Examples
    --------
    >>> import numpy as np, sublevel as sl
    >>> result = sl.minimize_sharded(
    ...     lambda X: np.sum(X**2, axis=1), np.ones(5), 0.5, popsize=1000, shards=4, rng=1, maxiter=30
    ... )
    >>> result.nfev, bool(result.fun < 1e-2)
    (30000, True)
    """
    validate_callable("fun", fun)
    observer = as_callback(callback)
    if as_space(x0) is not None:
        raise ValueError(
            "`minimize_sharded` does not support a Space, integers or categories; use `minimize` with `workers`."
        )
    optimizer = Optimizer(
        x0,
        sigma0,
        method=method,
        popsize=popsize,
        cov0=cov0,
        bounds=bounds,
        log_scaled=log_scaled,
        restarts=restarts,
        rng=rng,
        tolfun=tolfun,
        tolx=tolx,
        rtolfun=rtolfun,
        noise_floor=noise_floor,
        names=names,
    )
    if not optimizer.theta.continuous:
        raise ValueError(f"`minimize_sharded` does not support binary methods, got {short_repr(method)}.")
    validate_shardable(optimizer.method)
    optimizer.forgo_changes()
    limits = replace(Limits.checked(optimizer, maxfevals, maxiter, ftarget, maxtime), is_whole=True)
    show = Progress(maxfevals) if as_flag("progress", progress) else None
    count = -(-optimizer.popsize // SHARD) if shards is None else as_count("shards", shards)
    seed = tuple(int(word) for word in optimizer.rng.integers(1 << 32, size=4))
    sharding = Sharding(
        bind_args(fun, args), make_runner(workers), count, seed, uuid.uuid4().hex, failures := Failures()
    )
    unused = VectorizedEvaluator(fun, "raise", failures)  # never called
    with SigtermAsInterrupt():
        return Search(
            optimizer, unused, limits, observer, show, History(optimizer), failures, sharding
        ).run_to_the_end()


def validate_shardable(method: Method) -> None:
    """Raise ValueError if a part of the method needs single points, which only the workers have."""
    for part in method.transforms:
        if part.adds_points or (part.reads_points and not method.weights.normalized):
            raise ValueError(
                f"`minimize_sharded` cannot use {type(part).__name__}, which needs the points of a sample, got method "
                f"{method.name}."
            )


def make_runner(workers: object) -> RunCalls:
    """The function that runs calls with `workers`."""
    workers = as_workers(workers)
    if dask_backend.is_client(workers):
        return partial(dask_backend.run_calls, workers)
    if isinstance(workers, Executor):
        return partial(_run_in_executor, workers)
    if workers == 1:
        return _run_serially
    raise ValueError(
        f"`workers` of a sharded run must be 1, an Executor or a dask.distributed.Client, got {short_repr(workers)}."
    )


def _run_serially(function: Callable[..., T], calls: Calls, *_: Sequence[str]) -> list[T]:
    return [function(*call) for call in calls]


def _run_in_executor(executor: Executor, function: Callable[..., T], calls: Calls, *_: Sequence[str]) -> list[T]:
    results = dict(submit_all(executor, function, calls))
    return [results[index] for index in range(len(calls))]
