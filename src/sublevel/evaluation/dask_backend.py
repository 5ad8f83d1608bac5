"""Dask, where the user brings a client of it. Never imported unless it is loaded already."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import LOST, Failure

ATTEMPTS = 2
"""How often a task is submitted that Dask gives up."""
PAUSES = (0.0005, 0.005)
"""Seconds between two looks for results, at first and at most."""
LOOK, PATIENCE = 5.0, 120.0
"""Seconds between two looks for workers while there are no results, and how long there may be none of them, or no answer."""
BLOCKING = (
    "`workers` must be a synchronous Dask client, got one of this thread's event loop, which the run would block. Use "
    "Client(..., asynchronous=False), or call from another thread: `await asyncio.to_thread(sublevel.minimize, ...)`."
)


class ClusterLost(RuntimeError):
    """The cluster takes no more work."""


def is_client(thing: Any) -> bool:
    """Whether this is a `dask.distributed.Client`; if that was never imported, nothing is one."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(thing, distributed.Client)


def validate_client(client: Any) -> None:
    """A client that can be waited for in this thread."""
    if client.asynchronous:
        raise ValueError(BLOCKING)


def answers(client: Any, fun: Callable[[Array], Any], points: Array) -> Generator[tuple[int, Any]]:
    """What `fun` returns or raises for each of the points (n, d) by its index, or how that failed, as it comes in.

    What a dead worker had to do is done by another: that is Dask's business. It gives up what was on more workers that died than the
    cluster's `distributed.scheduler.allowed-failures`, be it the cause or not; such points get a second chance before they count as failed.
    """

    def submitted(indices: Sequence[int], attempt: int) -> list[Any]:
        return client.map(fun, [points[index] for index in indices], pure=False)

    return _tried(client, submitted, len(points))


def _tried(client: Any, submitted: Callable[[Sequence[int], int], list[Any]], count: int) -> Generator[tuple[int, Any]]:
    """Answers to `count` tasks, by their index, as they come in; those that Dask gave up are submitted once more."""
    left: Sequence[int] = range(count)
    if client.status in ("closing", "closed"):
        raise ClusterLost("the Dask client of `workers` is closed. Close it after the run, or make a new one.")
    for attempt in range(ATTEMPTS):
        futures, again = submitted(left, attempt), list[int]()
        indices: dict[Any, int] = {future.key: index for future, index in zip(futures, left, strict=True)}
        try:
            for future, answer in _completed(client, futures):
                index, answer = indices[future.key], answered(future, answer)
                if isinstance(answer, Failure) and answer.kind == LOST and attempt + 1 < ATTEMPTS:
                    again.append(index)
                else:
                    yield index, answer
        finally:
            _cancel_the_rest(client, futures)
        left = again


def _completed(client: Any, futures: Sequence[Any]) -> Generator[tuple[Any, Any]]:
    """Futures as they are done, with their results. A cluster that has had no workers for long is an error."""
    import distributed

    completed: Any = distributed.as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    pause, look, until = PAUSES[0], time.monotonic() + LOOK, inf
    while completed.count():
        if completed.has_ready():
            pause = PAUSES[0]
            yield next(completed)
        elif time.monotonic() < look:
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        else:
            look = time.monotonic() + LOOK
            missing = _missing(client)
            until = min(until, time.monotonic() + PATIENCE) if missing else inf
            if look > until:
                raise ClusterLost(f"{missing} for {PATIENCE:.0f} s. Start the cluster again, and then the run.")


def _missing(client: Any) -> str:
    """What the cluster lacks that results could come from; "" if nothing."""
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=LOOK)
    except (OSError, TimeoutError):  # closed connections are OSErrors of Dask's
        return "the scheduler of the Dask cluster has not answered"
    return "" if threads else "the Dask cluster has had no workers"


def _cancel_the_rest(client: Any, futures: Sequence[Any]) -> None:
    """Nobody goes on with what nobody waits for."""
    with contextlib.suppress(Exception):  # of a cluster that is gone
        client.cancel([future for future in futures if not future.done()])


def answered(future: Any, answer: Any) -> Any:
    """The answer of a future that is done: a result, an exception, or the failure that a point is which ended its workers."""
    from distributed import KilledWorker

    if future.status == "finished":
        return answer
    if future.status != "error":
        raise ClusterLost(f"the Dask cluster cancelled an evaluation: {answer!r}. Is its scheduler still there?")
    error = answer[1]
    return Failure(LOST, f"the evaluation ended its Dask workers: {error}") if isinstance(error, KilledWorker) else error


def gathered(
    client: Any, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str], places: Sequence[str]
) -> list[Any]:
    """What a pure function returns for each of the calls, whose names say what they are; best computed at these places ("" for anywhere).

    If a worker dies, Dask computes again what it held.
    """

    def submitted(indices: Sequence[int], attempt: int) -> list[Any]:
        return [client.submit(function, *calls[k], key=f"{names[k]}-{attempt}", **_preferred(places[k])) for k in indices]

    results = {index: _result(answer) for index, answer in _tried(client, submitted, len(calls))}
    return [results[index] for index in range(len(calls))]


def _preferred(place: str) -> dict[str, Any]:
    """How Dask is told of a place that is the best one, if there is."""
    return {"workers": [place], "allow_other_workers": True} if place else {}


def _result(answer: Any) -> Any:
    """An answer that is neither an exception nor a failure."""
    if isinstance(answer, Failure):
        raise ClusterLost(answer.what)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def place() -> str:
    """In a task: the address of the worker that it runs on; "" if this is none."""
    if "distributed" not in sys.modules:
        return ""
    import distributed

    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""
