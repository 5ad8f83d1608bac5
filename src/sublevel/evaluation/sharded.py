"""Populations too large for one process: each shard of the sample is drawn, evaluated and summed up where it is, and never sent.

A shard's points are a pure function of (seed, run, iteration, shard). What comes back from a shard are its values and ‖z‖²; what goes
out are its weights; and what comes back then are its sums Σ wz and Σ wzzᵀ: O(n + shards·d²) numbers, never n·d.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.linalg import combination
from sublevel.engine.method import Method
from sublevel.engine.tangent import Dense, Diagonal, Tangent, Weighting, weighted_moment
from sublevel.engine.transforms import Generation
from sublevel.evaluation import dask_backend
from sublevel.evaluation.evaluators import RETURNED_NAN, AtOnce, call, submit_all, with_args
from sublevel.evaluation.failures import Failures, annotate_exception
from sublevel.evaluation.processes import TerminationsAsInterrupts
from sublevel.run.history import History
from sublevel.run.minimize import Limits, Search
from sublevel.run.optimizer import Optimizer
from sublevel.run.progress import Progress
from sublevel.run.result import Result
from sublevel.run.search_space import Space
from sublevel.validation import (
    as_callback,
    as_count,
    as_flag,
    as_values,
    as_workers,
    explain_keywords,
    short_repr,
    validate_callable,
)

SHARD = 1 << 18
"""Points of a shard, at most, unless the number of shards is given."""
REMEMBERED = 1 << 30
"""Bytes of points that a process keeps between their evaluation and their summation; what is beyond is drawn a second time."""

Everyone = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]], Sequence[str], Sequence[str]], list[Any]]
"""Calls a function with each of some arguments; the calls have names and places where they are best done."""


class Shard(NamedTuple):
    """A part of a sample, by all that decides its points."""

    seed: tuple[int, ...]
    run: int  # 0 is the first, then the restarts
    iteration: int
    part: int
    size: int
    dimension: int

    @property
    def name(self) -> str:
        """Of the iteration and the part of it."""
        return f"{self.run}-{self.iteration}-{self.part}"

    def drawn(self) -> Array:
        """The whitened points z (size, d)."""
        stream = np.random.SeedSequence(self.seed, spawn_key=(self.run, self.iteration, self.part))
        return np.random.Generator(np.random.SFC64(stream)).standard_normal((self.size, self.dimension))


class Seen(NamedTuple):
    """What is known of a shard's points after their evaluation."""

    values: Array  # (size,)
    squares: Array | None  # (size,), ‖z‖² if that is wanted
    best_x: Array  # (d,), the user's point with the best value
    ends: Array  # (2, k), the first and the last search point
    missing: Array  # (1, d), the last of the user's points whose value is NaN, or (0, d)
    place: str  # where that was


class Sums(NamedTuple):
    """What the weights make of a shard's points."""

    mean: Array  # (d,), Σ wᵢzᵢ
    cov: Array  # (d, d), Σ wᵢzᵢzᵢᵀ, or its diagonal (d,) if that is enough


class Memory:
    """Points that were drawn in this process and will be summed up here soon, if there is room for them."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: dict[Shard, Array] = {}

    def keep(self, shard: Shard, z: Array) -> None:
        """Keep a shard's points; those of earlier generations of its run will not be wanted any more."""
        for other in [other for other in tuple(self._kept) if other.seed == shard.seed and other[1:3] != shard[1:3]]:
            self._kept.pop(other, None)
        if z.nbytes + sum(kept.nbytes for kept in tuple(self._kept.values())) <= self.room:
            self._kept[shard] = z

    def points(self, shard: Shard) -> Array:
        """The shard's points, for the last time: as they were kept, or drawn again to the same bits."""
        z = self._kept.pop(shard, None)
        return shard.drawn() if z is None else z


MEMORY = Memory(REMEMBERED)


def seen(fun: Callable[..., Any], space: Space | None, theta: Family, wants_squares: bool, shard: Shard) -> Seen:
    """Draw and evaluate a shard."""
    z = shard.drawn()
    u = theta.sample_at(z).x
    x = u if space is None else space.points(u)
    x.setflags(write=False)
    try:
        values = as_values(call(fun, x), shard.size)
    except BaseException as error:
        annotate_exception(error, f"sublevel: raised in shard {shard.part} of iteration {shard.iteration}, points of shape {x.shape}")
        raise
    MEMORY.keep(shard, z)
    best = 0 if np.isnan(values).all() else int(np.nanargmin(values))
    missing = x[np.isnan(values)][-1:].copy()
    return Seen(values, np.vecdot(z, z) if wants_squares else None, x[best].copy(), u[[0, -1]], missing, dask_backend.place())


def sums(shard: Shard, mean_weights: Array, cov_weights: Array | None, wants_matrix: bool) -> Sums:
    """Sum up a shard with its weights (size,) for the mean and for the covariance (None: the same). Points of weight 0 are left out."""
    z, cov_weights = MEMORY.points(shard), mean_weights if cov_weights is None else cov_weights
    matters = np.flatnonzero(cov_weights)
    if 2 * matters.size < shard.size:
        z, mean_weights, cov_weights = z[matters], mean_weights[matters], cov_weights[matters]
    cov = weighted_moment(z, cov_weights) if wants_matrix else combination(cov_weights, np.square(z))
    return Sums(combination(mean_weights, z), cov)


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What weight rules ask of a sample whose points are elsewhere: of z and x (n, d) only the shape is here."""

    squares: Array  # (n,), ‖z‖²; nowhere if the rule does not need it
    z: Array
    x: Array
    degrees_of_freedom: int
    images: None = None

    @classmethod
    def of(cls, squares: Array | None, size: int, theta: Family) -> Whereabouts:
        """Squares (size,), if they are known, of points drawn from θ."""
        nowhere = np.broadcast_to(np.nan, (size, theta.dimension))
        return cls(nowhere[:, 0] if squares is None else squares, nowhere, nowhere, theta.degrees_of_freedom)

    @property
    def surprise(self) -> Array:
        """−log p(xᵢ) = ‖zᵢ‖²/2 (n,), up to a constant."""
        return 0.5 * self.squares


@dataclass(frozen=True, slots=True)
class Sharding:
    """How generations are made of shards, and by whom."""

    fun: Callable[..., Any]
    everyone: Everyone
    count: int
    seed: tuple[int, ...]
    name: str
    failures: Failures

    def __call__(self, optimizer: Optimizer) -> None:
        """One generation."""
        theta, method = optimizer.theta, optimizer.method
        shards = self.shards(optimizer)
        reports = self._reports(shards, optimizer)
        for report in reports:
            for point in report.missing:
                self.failures.add(RETURNED_NAN, point, int(np.count_nonzero(np.isnan(report.values))))
        values = np.concatenate([report.values for report in reports])
        known = [report.squares for report in reports if report.squares is not None]
        squares = np.concatenate(known) if known else None
        sample = Whereabouts.of(squares, values.size, theta)
        ranks, kept = method.ordering(values, None, optimizer.state.ordering)
        weighting = method.weights(ranks, sample)
        tangent = self._tangent(shards, weighting, [report.place for report in reports], _wants_matrix(theta, method))
        state, info = method.apply_gradient(optimizer.state, Generation(theta, sample, values, ranks, weighting), tangent, kept)
        part = int(np.argmax(_ends(shards) > ranks.order[0]))
        ends = np.concatenate([report.ends for report in reports])
        optimizer.tell_elsewhere(state, info, values, ends, reports[part].best_x, squares)

    def shards(self, optimizer: Optimizer) -> list[Shard]:
        """The shards of the next generation, as equal in size as can be."""
        n, d, count = optimizer.popsize, optimizer.theta.dimension, min(self.count, optimizer.popsize)
        sizes = [n // count + (part < n % count) for part in range(count)]
        return [Shard(self.seed, optimizer.restarts, optimizer.nit, part, size, d) for part, size in enumerate(sizes)]

    def _reports(self, shards: Sequence[Shard], optimizer: Optimizer) -> list[Seen]:
        wants_squares = optimizer.method.weights.needs_squares
        calls = [(self.fun, optimizer.space, optimizer.theta, wants_squares, shard) for shard in shards]
        return self.everyone(seen, calls, self._names("seen", shards), [""] * len(shards))

    def _tangent(self, shards: Sequence[Shard], weighting: Weighting, places: Sequence[str], wants_matrix: bool) -> Tangent:
        """The natural gradient from the sums of the shards, in their order."""
        same, ends = weighting.cov is weighting.mean, _ends(shards)[:-1]
        mean = np.split(weighting.mean, ends)
        cov: Sequence[Array | None] = [None] * len(shards) if same else np.split(weighting.cov, ends)
        calls = [(*call, wants_matrix) for call in zip(shards, mean, cov, strict=True)]
        parts: list[Sums] = self.everyone(sums, calls, self._names("sums", shards), places)
        total, kind = np.sum([part.cov for part in parts], axis=0), Dense if wants_matrix else Diagonal
        return Tangent(np.sum([part.mean for part in parts], axis=0), kind(total, weighting.decay, weighting.cov.size))

    def _names(self, what: str, shards: Sequence[Shard]) -> list[str]:
        return [f"sublevel-{self.name}-{what}-{shard.name}" for shard in shards]


def _wants_matrix(theta: Family, method: Method) -> bool:
    """Whether a step needs Σ wᵢzᵢzᵢᵀ and not its diagonal alone: for a full covariance, or for rates that depend on the spectrum."""
    return not theta.coordinate_axes or any(transform.needs_spectrum for transform in method.transforms)


def _ends(shards: Sequence[Shard]) -> NDArray[np.intp]:
    """The index after the last point of each shard (shards,)."""
    return np.cumsum([shard.size for shard in shards], dtype=np.intp)


@explain_keywords
def minimize_sharded(
    fun: Callable[..., Any],
    x0: Any,
    sigma0: Any,
    *,
    popsize: int,
    shards: int | None = None,
    workers: Any = 1,
    args: tuple[Any, ...] = (),
    method: str | Method = "cma",
    cov0: Any = None,
    bounds: Any = None,
    log_scaled: Any = False,
    restarts: Any = None,
    rng: Any = None,
    maxfevals: float | None = None,
    maxiter: float | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolfun: float | None = None,
    tolx: float | None = None,
    noise_floor: bool = True,
    names: Sequence[str] | None = None,
    callback: Callable[[OptimizeResult], Any] | None = None,
    progress: bool = False,
) -> Result:
    """Minimise with a sample so large that it is drawn, evaluated and summed up in shards, by others if there are any.

    fun: ``fun(X, *args)`` of the points of a shard (m, d) to their values (m,), called where the shard is.
    popsize, shards: points of a generation, and into how many parts they are split (default: as many as have 262144 points at most). The
        shards decide which points are drawn; who works on them changes nothing.
    workers: 1 for this process, a `dask.distributed.Client`, or an Executor such as a ThreadPoolExecutor.

    All else is as for `minimize`, with any method on Gaussians. A generation that an exception or Ctrl-C ends does not count, and
    `maxtime` is looked at between generations. `noise_floor` is judged for "cma" and "ngd", whose shards return what it needs.

    >>> import numpy as np, sublevel as sl
    >>> result = sl.minimize_sharded(lambda X: np.sum(X**2, axis=1), np.ones(5), 0.5, popsize=1000, shards=4, rng=1, maxiter=30)
    >>> result.nfev, bool(result.fun < 1e-2)
    (30000, True)
    """
    validate_callable("fun", fun)
    hears = as_callback(callback)
    shape: dict[str, Any] = {"cov0": cov0, "bounds": bounds, "log_scaled": log_scaled, "names": names}
    shape |= {"tolfun": tolfun, "tolx": tolx, "noise_floor": noise_floor}
    optimizer = Optimizer(x0, sigma0, method=method, popsize=popsize, restarts=restarts, rng=rng, **shape)
    if not optimizer.theta.continuous:
        raise ValueError(f"`minimize_sharded` needs a method on Gaussians, got {short_repr(method)}.")
    check_shardable(optimizer.method)
    limits = Limits.checked(optimizer, maxfevals, maxiter, ftarget, maxtime)
    show = Progress(maxfevals) if as_flag("progress", progress) else None
    count = -(-optimizer.popsize // SHARD) if shards is None else as_count("shards", shards)
    seed = tuple(int(word) for word in optimizer.rng.integers(1 << 32, size=4))
    sharding = Sharding(with_args(fun, args), everyone(workers), count, seed, uuid.uuid4().hex, failures := Failures())
    nobody = AtOnce(fun, "raise", failures)  # is never asked
    with TerminationsAsInterrupts():
        return Search(optimizer, nobody, limits, hears, show, History(optimizer), failures, sharding).to_the_end()


def check_shardable(method: Method) -> None:
    """A method whose parts need no single points, which exist on the workers only."""
    for part in method.transforms:
        if part.adds_points or (part.reads_points and not method.weights.normalized):
            raise ValueError(
                f"`minimize_sharded` cannot use {type(part).__name__}, which needs the points of a sample, with {method.name}."
            )


def everyone(workers: Any) -> Everyone:
    """Those who work on shards."""
    workers = as_workers(workers)
    if dask_backend.is_client(workers):
        return partial(dask_backend.gathered, workers)
    if isinstance(workers, Executor):
        return partial(_submitted, workers)
    if workers == 1:
        return _one_by_one
    raise ValueError(f"`workers` of a sharded run must be 1, an Executor or a dask.distributed.Client, got {short_repr(workers)}.")


def _one_by_one(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str], places: Sequence[str]) -> list[Any]:
    return [function(*call) for call in calls]


def _submitted(
    executor: Executor, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str], places: Sequence[str]
) -> list[Any]:
    results = dict(submit_all(executor, function, calls))
    return [results[index] for index in range(len(calls))]
