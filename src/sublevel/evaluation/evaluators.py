"""Evaluators: the objective as a map from points to values, in this process, in others or on a cluster."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, field
from functools import cmp_to_key, partial
from itertools import pairwise
from os import getpid
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation import dask_backend
from sublevel.evaluation.failures import ATTEMPTS, NAN, Failure, Failures, OnError, WorkerLost
from sublevel.evaluation.objective import GuardedObjective, annotate_point, annotate_sample, call_objective
from sublevel.evaluation.this_process import available_cores
from sublevel.evaluation.values import Answer, as_answers, as_value
from sublevel.run.arguments import Workers
from sublevel.validation import as_flag, short_repr, user_level

if TYPE_CHECKING:
    from sublevel.evaluation.processes import ProcessPool

T = TypeVar("T")
Map = Callable[[Callable[[Array], object], Iterable[Array]], Iterable[object]]

EXECUTOR_BROKEN = (
    "the executor passed as `workers` lost a process and accepts no more work. The objective may have ended it, or "
    "memory ran out. With a number as `workers`, processes that die are replaced"
)

EXECUTOR_SHUT_DOWN = (
    "the executor passed as `workers` was shut down during the run; {left} evaluations were cancelled. Shut it down "
    "after the run. The finished evaluations are in `sublevel_result` of this error"
)

NO_PROCESSES = (
    "`workers` and `timeout` need worker processes, which this Python cannot start: {missing}. Use workers=1 without "
    "`timeout`."
)

RETURNED_NAN = Failure(NAN, "the objective returned NaN")
CONSTRAINT_IS_NAN = Failure(NAN, "a constraint value is NaN")

Arrivals = Iterator[tuple[int | slice, float | Array]]
"""Values as they arrive: (index, value) of one point, or (slice, values) of all; with constraints, (index, row) and
(slice, rows), f first.
"""


class Evaluator(Protocol):
    """A map from points to values. Exceptions of the objective propagate, with the point attached as `sublevel_x`."""

    def __call__(self, points: Array, /) -> Arrivals:
        """The values of the points (n, d), in any order. The objective gets read-only points."""
        ...

    def close(self) -> None:
        """Release workers that the evaluator started."""
        ...


def make_evaluator(
    fun: Callable[..., object],
    vectorized: bool,
    workers: Workers,
    timeout: float | None = None,
    on_error: OnError = "raise",
    failures: Failures | None = None,
) -> Evaluator:
    """The evaluator for these settings. Failed evaluations have the value NaN and are recorded in `failures`."""
    failures = Failures() if failures is None else failures
    if vectorized and workers != 1:
        warnings.warn(
            "`vectorized` is ignored because `workers` is given: the objective gets one point at a time, as in SciPy.",
            stacklevel=user_level(),
        )
    if timeout is not None and (not isinstance(workers, int) or (vectorized and workers == 1)):
        raise ValueError(
            "`timeout` needs worker processes: `workers` must be a number and `vectorized` must be False, got "
            f"timeout={timeout!r}, vectorized={vectorized!r} and workers={short_repr(workers)}."
        )
    if vectorized and workers == 1:
        return VectorizedEvaluator(fun, on_error, failures)
    objective = GuardedObjective(fun, on_error)
    if isinstance(workers, Executor):
        return ConcurrentEvaluator(lambda points: submit_all(workers, objective, zip(points)), failures)
    if dask_backend.is_client(workers):
        return ConcurrentEvaluator(partial(dask_backend.evaluate_points, workers, objective), failures)
    if not isinstance(workers, int):
        return MapEvaluator(objective, cast(Map, workers), failures)
    if workers == 1 and timeout is None:
        return SerialEvaluator(objective, failures)
    pool = _process_pool()(objective, available_cores() if workers == -1 else workers, timeout, ATTEMPTS[on_error])
    return ConcurrentEvaluator(pool.evaluate, failures, pool.close)


def _process_pool() -> type[ProcessPool]:
    """The class of pools, imported when it is needed: Python in a browser has no `_multiprocessing`."""
    try:
        from sublevel.evaluation.processes import ProcessPool
    except ModuleNotFoundError as missing:
        raise WorkerLost(NO_PROCESSES.format(missing=missing)) from None
    return ProcessPool


@dataclass(frozen=True, slots=True)
class VectorizedEvaluator:
    """All points in one call. If it fails, all values are NaN."""

    fun: Callable[..., object]
    on_error: OnError
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values (n,) of points (n, d)."""
        yield slice(None), self.values(points)

    def values(self, points: Array) -> float | Array:
        """The values (n,) of points (n, d), or rows (n, 1 + k) with constraint values; NaN if the call failed."""
        for attempt in range(1, ATTEMPTS[self.on_error] + 1):
            try:
                values = as_answers(call_objective(self.fun, points[...]), len(points))
            except BaseException as error:
                if self.on_error == "raise" or not isinstance(error, Exception):
                    annotate_sample(error, points)
                    raise
                if attempt == ATTEMPTS[self.on_error]:
                    return self.failures.add(Failure.from_exception(error), points, len(points))
            else:
                if values.ndim > 1:
                    return self._known_rows(points, values)
                self.failures.add_nan_values(points, values, RETURNED_NAN.detail)
                return values
        raise AssertionError("the last attempt returns or raises")

    def _known_rows(self, points: Array, rows: Array) -> Array:
        """The rows (n, 1 + k), all NaN where one of their numbers is."""
        found = np.where(np.isnan(rows).any(axis=1, keepdims=True), np.nan, rows)
        lacks_value = np.isnan(rows[:, 0])
        self.failures.add_nan_values(points[lacks_value], found[lacks_value, 0], RETURNED_NAN.detail)
        self.failures.add_nan_values(points[~lacks_value], found[~lacks_value, 0], CONSTRAINT_IS_NAN.detail)
        return found

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class SerialEvaluator:
    """One point after another, in this process."""

    objective: GuardedObjective
    failures: Failures
    pid: int = field(default_factory=getpid)  # of this process, so that copies of it can be told apart

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in order."""
        for index, point in enumerate(points):
            yield index, record_answer(self.objective(point), point, self.failures)

    def append_values(self, points: Array, values: list[float]) -> None:
        """Append the values of points (n, d), in order: faster than one at a time if the objective is."""
        self.objective.append_values(points, values, RECORD, self.failures, self.pid)

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class MapEvaluator:
    """A function like `map`, passed by the user."""

    objective: GuardedObjective
    map: Map
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in order, as the map returns them."""
        count = 0
        try:
            answers = iter(self.map(self.objective, list(points)))
            for point, answer in zip(points, answers, strict=False):
                value = record_answer(answer, point, self.failures)
                yield count, value
                count += 1
            if count < len(points) or next(answers, self) is not self:
                raise ValueError(
                    f"the map passed as `workers` must return {len(points)} values, got "
                    f"{count if count < len(points) else 'more'}."
                )
        except GeneratorExit:
            raise
        except BaseException as error:
            if not hasattr(error, "sublevel_x"):
                annotate_sample(error, points)
            raise

    def close(self) -> None:
        """Nothing to release: the workers belong to the user."""


@dataclass(frozen=True, slots=True)
class ConcurrentEvaluator:
    """Workers that complete the points in any order: processes, an executor or a Dask cluster."""

    answers: Callable[[Array], Generator[tuple[int, object]]]  # (index, value, exception or failure) of each point
    failures: Failures
    release: Callable[[], None] | None = None  # None if the workers belong to the user

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), as they are completed."""
        with contextlib.closing(self.answers(points)) as answers:
            for index, answer in answers:
                yield index, record_answer(answer, points[index], self.failures)

    def close(self) -> None:
        """End the worker processes, if they are not the user's."""
        if self.release is not None:
            self.release()


@dataclass(frozen=True, slots=True)
class ComparisonEvaluator:
    """A function better(x, y) that tells whether x is better than y; the value of a point is its rank.

    Needs about n·log₂n comparisons. Points of which none is better share a rank.
    """

    better: Callable[..., object]

    def __call__(self, points: Array) -> Arrivals:
        """The ranks (n,) of points (n, d)."""

        def is_better(i: int, j: int) -> bool:
            try:
                return as_flag("the result of a comparison", call_objective(self.better, points[i], points[j]))
            except BaseException as error:
                annotate_sample(error, points[[i, j]])
                raise

        order = sorted(range(len(points)), key=cmp_to_key(lambda i, j: -is_better(i, j)))
        ranks = np.zeros(len(points))
        ranks[order[1:]] = np.cumsum([is_better(i, j) or is_better(j, i) for i, j in pairwise(order)])
        yield slice(None), ranks

    def close(self) -> None:
        """Nothing to release."""


def submit_all(
    executor: Executor, function: Callable[..., T], calls: Iterable[tuple[object, ...]]
) -> Generator[tuple[int, T]]:
    """Yield (index, result) of a function for each tuple of arguments as an executor completes them.

    If the executor is shut down, WorkerLost is raised after the calls that were not cancelled have returned.
    """
    futures: dict[Future[T], int] = {}
    done, cancelled = SimpleQueue[Future[T]](), 0
    try:
        for index, arguments in enumerate(calls):
            futures[_submit(executor, function, arguments)] = index
        for future in futures:
            future.add_done_callback(done.put)  # unlike `as_completed`, this is also called for a cancelled future
        for _ in futures:
            future = done.get()
            if future.cancelled():
                cancelled += 1
            else:
                yield futures[future], future.result()
        if cancelled:
            raise WorkerLost(EXECUTOR_SHUT_DOWN.format(left=cancelled))
    except BrokenExecutor as error:
        raise WorkerLost(f"{EXECUTOR_BROKEN} ({type(error).__name__}: {error})") from error
    finally:
        for future in futures:
            future.cancel()


def _submit(executor: Executor, function: Callable[..., T], arguments: tuple[object, ...]) -> Future[T]:
    try:
        return executor.submit(function, *arguments)
    except BrokenExecutor:
        raise
    except RuntimeError as error:
        raise WorkerLost(
            f"the executor passed as `workers` accepts no more work: {error}. Shut it down after the run."
        ) from error


def record_answer(answer: object, point: Array, failures: Failures) -> float | Array:
    """The value of an answer, or its row (1 + k,). Failures are recorded and are NaN; exceptions are raised."""
    if isinstance(answer, float):
        return answer if answer == answer else failures.add(RETURNED_NAN, point)
    if isinstance(answer, Failure):
        return failures.add(answer, point)
    if isinstance(answer, BaseException):
        if not hasattr(answer, "sublevel_x"):
            annotate_point(answer, point)
        raise answer
    if isinstance(answer, Answer):
        if not np.isnan(answer.rows).any():
            return answer.rows
        return failures.add(RETURNED_NAN if np.isnan(answer.rows[0]) else CONSTRAINT_IS_NAN, point)
    value = as_value(answer)
    return value if value == value else failures.add(RETURNED_NAN, point)


RECORD = cast(Callable[[object, Array, Failures], float], record_answer)
"""`record_answer` of an objective without constraints."""


def evaluate_all(evaluate: Evaluator, points: Array, constraints: int = 0) -> Array:
    """The values (n,) of points (n, d), which become read-only; with k constraint values, the rows (n, 1 + k)."""
    points.setflags(write=False)
    values = np.empty((len(points), 1 + constraints) if constraints else len(points))
    for index, arrived in evaluate(points):
        values[index] = arrived
    return values


def unwrap_stop_iteration(error: BaseException) -> BaseException:
    """The exception that the objective raised: a generator turns StopIteration into the cause of a RuntimeError."""
    return error.__cause__ if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration) else error
