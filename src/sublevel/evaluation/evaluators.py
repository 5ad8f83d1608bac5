"""Calling the user's objective."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, Protocol, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation import dask_backend
from sublevel.evaluation.failures import ATTEMPTS, NAN, Failure, Failures, OnError, annotate_exception
from sublevel.evaluation.processes import Processes, WorkerLost, available_cores
from sublevel.validation import Workers, as_args, as_flag, as_value, as_values, short_repr, user_level

BROKEN = (
    "the executor of `workers` lost a process and takes no more work. The objective may have ended it, perhaps for lack of memory; "
    "`workers` as a number starts processes that are replaced when they die"
)

SHUT_DOWN = (
    "the executor of `workers` was shut down during the run, with {left} evaluations cancelled. Shut it down after the run; the "
    "evaluations that were finished are in `sublevel_result` of this error"
)

RETURNED_NAN = Failure(NAN, "the objective returned NaN")

Arrivals = Iterator[tuple[int | slice, float | Array]]
"""Values as they arrive: of one point by its index, or of all by a slice."""


class Evaluator(Protocol):
    """The objective as a map from points to values. What it raises goes through, with the point attached as `sublevel_x`."""

    def __call__(self, points: Array, /) -> Arrivals:
        """The value of each of the points (n, d), in any order. The points are read-only: the objective cannot change them."""
        ...

    def close(self) -> None:
        """End what works for it."""
        ...


def evaluator(
    fun: Callable[..., Any],
    vectorized: bool,
    workers: Workers,
    timeout: float | None = None,
    on_error: OnError = "raise",
    failures: Failures | None = None,
) -> Evaluator:
    """One point after the other, all at once, or by `workers`; failed evaluations are noted in `failures`, and their values are NaN."""
    failures = Failures() if failures is None else failures
    if vectorized and workers != 1:
        warnings.warn("`workers` wins over `vectorized`: the objective gets one point at a time, as in SciPy.", stacklevel=user_level())
    if timeout is not None and (not isinstance(workers, int) or (vectorized and workers == 1)):
        raise ValueError(
            f"`timeout` ends the process that evaluates a point, so `workers` must be a number, and `vectorized` must be left out, "
            f"got timeout={timeout!r}, vectorized={vectorized!r} and workers={short_repr(workers)}."
        )
    if vectorized and workers == 1:
        return AtOnce(fun, on_error, failures)
    guarded = Guarded(fun, on_error)
    if isinstance(workers, Executor):
        return Submitted(guarded, workers, failures)
    if dask_backend.is_client(workers):
        return Clustered(guarded, workers, failures)
    if not isinstance(workers, int):
        return Mapped(guarded, workers, failures)
    if workers == 1 and timeout is None:
        return OneByOne(guarded, failures)
    processes = Processes(guarded, available_cores() if workers == -1 else workers, timeout, ATTEMPTS[on_error])
    return InProcesses(processes, failures)


@dataclass(frozen=True, slots=True)
class Guarded:
    """The objective at a point, wherever that is evaluated: its value, or how it failed. What it raises knows its point."""

    fun: Callable[..., Any]
    on_error: OnError

    def __call__(self, point: Array) -> float | Failure:
        """The value at a point (d,), which the objective cannot change."""
        point.setflags(write=False)
        failure = None
        for _ in range(ATTEMPTS[self.on_error]):
            try:
                return as_value(call(self.fun, point))
            except BaseException as error:
                if self.on_error == "raise" or not isinstance(error, Exception):
                    _name_point(error, point)
                    raise
                failure = Failure.of(error)
        return cast(Failure, failure)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """All points in one call. If that fails, all values are NaN."""

    fun: Callable[..., Any]
    on_error: OnError
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """Values (n,) of points (n, d), all at once."""
        for attempt in range(1, ATTEMPTS[self.on_error] + 1):
            try:
                values = as_values(call(self.fun, points[...]), len(points))
            except BaseException as error:
                if self.on_error == "raise" or not isinstance(error, Exception):
                    _name_sample(error, points)
                    raise
                if attempt == ATTEMPTS[self.on_error]:
                    yield slice(None), self.failures.add(Failure.of(error), points, len(points))
            else:
                self.failures.add_missing(points, values, RETURNED_NAN.what)
                yield slice(None), values
                return

    def close(self) -> None:
        """Nobody works for it."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """A call for each point."""

    guarded: Guarded
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), the first one first."""
        for index, point in enumerate(points):
            yield index, _value(self.guarded(point), point, self.failures)

    def close(self) -> None:
        """Nobody works for it."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The user's own `map`, be it of threads, processes or a cluster."""

    guarded: Guarded
    map: Callable[..., Iterable[Any]]
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in the order of the map, each as soon as the map has it."""
        count = 0
        try:
            answers = iter(self.map(self.guarded, list(points)))
            for point, answer in zip(points, answers, strict=False):
                value = _value(answer, point, self.failures)
                yield count, value
                count += 1
            if count < len(points) or next(answers, self) is not self:
                raise ValueError(
                    f"the map must give one number per point, {len(points)} of them, got {count if count < len(points) else 'more'}."
                )
        except GeneratorExit:
            raise
        except BaseException as error:
            if not hasattr(error, "sublevel_x"):
                _name_sample(error, points)
            raise

    def close(self) -> None:
        """The user's workers are the user's to end."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """An executor of the user's: threads, processes, MPI."""

    guarded: Guarded
    executor: Executor
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), as they are completed."""
        with contextlib.closing(submit_all(self.executor, self.guarded, [(point,) for point in points])) as answers:
            for index, answer in answers:
                yield index, _value(answer, points[index], self.failures)

    def close(self) -> None:
        """The user's workers are the user's to end."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """A Dask cluster of the user's, which has its own ways to recover from the death of a worker."""

    guarded: Guarded
    client: Any
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), as they are completed."""
        with contextlib.closing(dask_backend.answers(self.client, self.guarded, points)) as answers:
            for index, answer in answers:
                yield index, _value(answer, points[index], self.failures)

    def close(self) -> None:
        """The user's cluster is the user's to end."""


@dataclass(frozen=True, slots=True)
class InProcesses:
    """Worker processes, each point to the next that is free."""

    processes: Processes
    failures: Failures

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), as the processes answer."""
        with contextlib.closing(self.processes.answers(points)) as answers:
            for index, answer in answers:
                yield index, _value(answer, points[index], self.failures)

    def close(self) -> None:
        """End the processes."""
        self.processes.close()


@dataclass(frozen=True, slots=True)
class Compared:
    """A function better(x, y) that only says whether one point is better than another: a point's value is its rank among the others.

    About n·log₂n questions. Points of which none is better share a rank.
    """

    better: Callable[..., Any]

    def __call__(self, points: Array) -> Arrivals:
        """Ranks (n,) of points (n, d), all at once."""

        def wins(i: int, j: int) -> bool:
            try:
                return as_flag("the answer of a comparison", call(self.better, points[i], points[j]))
            except BaseException as error:
                _name_sample(error, points[[i, j]])
                raise

        order = sorted(range(len(points)), key=cmp_to_key(lambda i, j: -wins(i, j)))
        ranks = np.zeros(len(points))
        ranks[order[1:]] = np.cumsum([wins(i, j) or wins(j, i) for i, j in pairwise(order)])
        yield slice(None), ranks

    def close(self) -> None:
        """Nobody works for it."""


def call(fun: Callable[..., Any], *points: Array) -> Any:
    """What the objective returns or raises. If it forked this process and the copy comes back as well, the copy ends here."""
    here = os.getpid()
    try:
        return fun(*points)
    finally:
        if os.getpid() != here:
            _end_copy()


def _end_copy() -> None:
    """End a copy of the process that the objective left behind: the run continues in the original alone."""
    error = sys.exc_info()
    if error[0] is not None:
        sys.excepthook(*cast(Any, error))
    os._exit(0 if error[0] is None else 1)


def submit_all(executor: Executor, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Generator[tuple[int, Any]]:
    """What a function returns for each of the calls, by its index, as they are completed by an executor of the user's.

    If somebody shuts the executor down, that is an error once all calls that were not cancelled have returned.
    """
    futures: dict[Future[Any], int] = {}
    done, cancelled = SimpleQueue[Future[Any]](), 0
    try:
        for index, arguments in enumerate(calls):
            futures[_submit(executor, function, arguments)] = index
        for future in futures:
            future.add_done_callback(done.put)  # also called at once when the future is cancelled, unlike `as_completed`
        for _ in futures:
            future = done.get()
            if future.cancelled():
                cancelled += 1
            else:
                yield futures[future], future.result()
        if cancelled:
            raise WorkerLost(SHUT_DOWN.format(left=cancelled))
    except BrokenExecutor as error:
        raise WorkerLost(f"{BROKEN} ({type(error).__name__}: {error})") from error
    finally:
        for future in futures:
            future.cancel()


def _submit(executor: Executor, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
    try:
        return executor.submit(function, *arguments)
    except BrokenExecutor:
        raise
    except RuntimeError as error:
        raise WorkerLost(f"the executor of `workers` takes no more work: {error}. Shut it down after the run, not before.") from error


def _value(answer: Any, point: Array, failures: Failures) -> float:
    """The value that an answer is, NaN for a failure; an exception is raised here."""
    if isinstance(answer, float):
        return answer if answer == answer else failures.add(RETURNED_NAN, point)
    if isinstance(answer, Failure):
        return failures.add(answer, point)
    if isinstance(answer, BaseException):
        if not hasattr(answer, "sublevel_x"):
            _name_point(answer, point)
        raise answer
    value = as_value(answer)
    return value if value == value else failures.add(RETURNED_NAN, point)


def all_values(evaluate: Evaluator, points: Array) -> Array:
    """The values (n,) of points (n, d), once all have arrived; the points become read-only."""
    points.setflags(write=False)
    values = np.empty(len(points))
    for index, arrived in evaluate(points):
        values[index] = arrived
    return values


def with_args(fun: Callable[..., Any], args: Any) -> Callable[..., Any]:
    """The objective of points alone."""
    further = as_args(args)
    return partial(_called_with, fun, further) if further else fun


def _called_with(fun: Callable[..., Any], args: tuple[Any, ...], *points: Array) -> Any:
    return fun(*points, *args)


def _name_point(error: BaseException, point: Array) -> None:
    annotate_exception(error, f"sublevel: raised at x = {np.array2string(point, threshold=20)}", sublevel_x=point)


def _name_sample(error: BaseException, points: Array) -> None:
    annotate_exception(error, f"sublevel: raised for the sample in `sublevel_x`, shape {points.shape}", sublevel_x=points)


def as_raised(error: BaseException) -> BaseException:
    """The exception as the objective raised it: a StopIteration comes out of a generator as the cause of a RuntimeError."""
    return error.__cause__ if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration) else error
