"""Evaluation with a client of `dask.distributed`, which is only imported if the user has imported it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Protocol, TypeGuard, TypeVar, cast

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import LOST, Failure

ATTEMPTS = 2
"""Number of times that a task is submitted if Dask gives it up."""
SLEEPS = (0.0005, 0.005)
"""Seconds between two checks for results, initially and at most."""
POLL_INTERVAL, OUTAGE_TIMEOUT = 5.0, 120.0
"""Seconds between two checks of the cluster without results, and the longest time without workers or scheduler."""
ASYNCHRONOUS = (
    "`workers` must be a synchronous Dask client, got an asynchronous one, whose event loop the run would block. Use "
    "Client(..., asynchronous=False), or call it in another thread: `await asyncio.to_thread(sublevel.minimize, ...)`."
)


T = TypeVar("T")


class DaskFuture(Protocol):
    """The part of `dask.distributed.Future` that is used here."""

    key: str
    status: str

    def done(self) -> bool: ...


class DaskScheduler(Protocol):
    """The part of a connection to the scheduler that is used here."""

    ncores: object


class DaskClient(Protocol):
    """The part of `dask.distributed.Client` that is used here."""

    asynchronous: bool
    status: str
    loop: object
    scheduler: DaskScheduler

    def map(self, func: Callable[..., object], points: Sequence[Array], /, *, pure: bool) -> list[DaskFuture]: ...
    def submit(self, func: Callable[..., object], /, *args: object, **options: object) -> DaskFuture: ...
    def sync(self, func: object, /, *, callback_timeout: float) -> object: ...
    def cancel(self, futures: Sequence[DaskFuture], /) -> object: ...


class ClusterLost(RuntimeError):
    """The cluster accepts no more work."""


def is_client(given: object) -> TypeGuard[DaskClient]:
    """Whether this is a `dask.distributed.Client`."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(given, distributed.Client)


def validate_client(client: DaskClient) -> None:
    """Raise ValueError if the client cannot be used synchronously in this thread."""
    if client.asynchronous:
        raise ValueError(ASYNCHRONOUS)


def evaluate_points(client: DaskClient, fun: Callable[[Array], object], points: Array) -> Generator[tuple[int, object]]:
    """Yield (index, value, exception or failure) for each of the points (n, d) as the answers arrive.

    Dask repeats the tasks of a dead worker on another one. It gives up tasks, even innocent ones, that were on more
    dead workers than `distributed.scheduler.allowed-failures`; these points are submitted once more before they count
    as failed.
    """

    def submit(indices: Sequence[int], attempt: int) -> list[DaskFuture]:
        return client.map(fun, [points[index] for index in indices], pure=False)

    return _submit_with_retry(client, submit, len(points))


def _submit_with_retry(
    client: DaskClient, submit: Callable[[Sequence[int], int], list[DaskFuture]], count: int
) -> Generator[tuple[int, object]]:
    """Yield (index, answer) of `count` tasks as they arrive. Tasks that Dask gave up are submitted once more."""
    left: Sequence[int] = range(count)
    if client.status in ("closing", "closed"):
        raise ClusterLost("the Dask client passed as `workers` is closed. Close it after the run, or create a new one.")
    for attempt in range(ATTEMPTS):
        futures, again = submit(left, attempt), list[int]()
        indices = {future.key: index for future, index in zip(futures, left, strict=True)}
        try:
            for future, answer in _as_completed(client, futures):
                index, answer = indices[future.key], get_answer(future, answer)
                if isinstance(answer, Failure) and answer.kind == LOST and attempt + 1 < ATTEMPTS:
                    again.append(index)
                else:
                    yield index, answer
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone
                client.cancel([future for future in futures if not future.done()])
        left = again


def _as_completed(client: DaskClient, futures: Sequence[DaskFuture]) -> Generator[tuple[DaskFuture, object]]:
    """Yield futures with their results as they are done. Raises ClusterLost after a long time without workers."""
    import distributed

    completed: object = distributed.as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    pause, next_check, until = SLEEPS[0], time.monotonic() + POLL_INTERVAL, inf
    while completed.count():
        if completed.has_ready():
            pause = SLEEPS[0]
            yield next(completed)
        elif time.monotonic() < next_check:
            time.sleep(pause)
            pause = min(2 * pause, SLEEPS[1])
        else:
            next_check = time.monotonic() + POLL_INTERVAL
            outage = _find_outage(client)
            until = min(until, time.monotonic() + OUTAGE_TIMEOUT) if outage else inf
            if next_check > until:
                raise ClusterLost(f"{outage} for {OUTAGE_TIMEOUT:.0f} s. Restart the cluster, then the run.")


def _find_outage(client: DaskClient) -> str:
    """What is wrong with the cluster; "" if nothing."""
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=POLL_INTERVAL)
    except (OSError, TimeoutError):  # Dask reports closed connections as OSError
        return "the scheduler of the Dask cluster has not answered"
    return "" if threads else "the Dask cluster has had no workers"


def get_answer(future: DaskFuture, answer: object) -> object:
    """The result or exception of a future that is done, or a failure if the point ended its workers."""
    from distributed import KilledWorker

    if future.status == "finished":
        return answer
    if future.status != "error":
        raise ClusterLost(f"the Dask cluster cancelled an evaluation: {answer!r}. Is its scheduler still running?")
    _, error, _ = cast(tuple[object, ...], answer)  # type, exception and traceback
    is_lost = isinstance(error, KilledWorker)
    return Failure(LOST, f"the Dask workers died during the evaluation: {error}") if is_lost else error


def run_calls(
    client: DaskClient,
    function: Callable[..., T],
    calls: Sequence[tuple[object, ...]],
    names: Sequence[str],
    addresses: Sequence[str],
) -> list[T]:
    """Results of a pure function for each tuple of arguments; if a worker dies, Dask repeats its tasks.

    Each call has a task name and the address of a preferred worker, "" for any.
    """

    def submit(indices: Sequence[int], attempt: int) -> list[DaskFuture]:
        preferred = [{"workers": [address], "allow_other_workers": True} if address else {} for address in addresses]
        return [client.submit(function, *calls[k], key=f"{names[k]}-{attempt}", **preferred[k]) for k in indices]

    results = {index: _raise_or_return(answer) for index, answer in _submit_with_retry(client, submit, len(calls))}
    return [cast(T, results[index]) for index in range(len(calls))]


def _raise_or_return(answer: object) -> object:
    """Return a result; raise an exception or failure."""
    if isinstance(answer, Failure):
        raise ClusterLost(answer.detail)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def worker_address() -> str:
    """The address of the Dask worker that runs the current task; "" outside of a task."""
    if "distributed" not in sys.modules:
        return ""
    import distributed

    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""
