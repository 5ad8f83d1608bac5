"""Dask, where the user brings a client of it. Never imported unless it is loaded already."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any

from sublevel.arrays import Array
from sublevel.failures import LOST, Failure

PAUSES = (0.0005, 0.005)
"""Seconds between two looks for results, at first and at most."""
LOOK, PATIENCE = 5.0, 120.0
"""Seconds between two looks for workers while there are no results, and how long there may be none of them."""


class ClusterLost(RuntimeError):
    """The cluster takes no more work."""


def is_client(thing: Any) -> bool:
    """Whether this is a `dask.distributed.Client`; if that was never imported, nothing is one."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(thing, distributed.Client)


def answers(client: Any, fun: Callable[[Array], Any], points: Array) -> Generator[tuple[int, Any]]:
    """What `fun` returns or raises for each of the points (n, d) by its index, or how that failed, as it comes in.

    What a dead worker had to do is done by another: that is Dask's business. A point that ends more workers than the cluster's
    `distributed.scheduler.allowed-failures` is given up by Dask, and counts as failed here.
    """
    futures: list[Any] = client.map(fun, list(points), pure=False)
    indices: dict[Any, int] = {future.key: index for index, future in enumerate(futures)}
    try:
        for future, answer in _completed(client, futures):
            yield indices[future.key], answered(future, answer)
    finally:
        _cancel_the_rest(client, futures)


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
            until = inf if client.nthreads() else min(until, time.monotonic() + PATIENCE)
            if look > until:
                raise ClusterLost(f"the Dask cluster has had no workers for {PATIENCE:.0f} s. Start some, and begin again.")


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
    futures: list[Any] = []
    try:
        for call, name, place in zip(calls, names, places, strict=True):
            somewhere = {"workers": [place], "allow_other_workers": True} if place else {}
            futures.append(client.submit(function, *call, key=name, **somewhere))
        results = {future.key: _result(answered(future, answer)) for future, answer in _completed(client, futures)}
        return [results[name] for name in names]
    finally:
        _cancel_the_rest(client, futures)


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
