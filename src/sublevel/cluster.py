"""Dask, where the user brings a client of it. Never imported unless it is loaded already."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

from sublevel.arrays import Array
from sublevel.failures import LOST, Failure


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
    import distributed

    futures: list[Any] = client.map(fun, list(points), pure=False)
    indices: dict[Any, int] = {future.key: index for index, future in enumerate(futures)}
    completed: Any = distributed.as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    try:
        for future, answer in completed:
            yield indices[future.key], answered(future, answer)
    finally:
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
        return client.gather(futures)
    finally:
        with contextlib.suppress(Exception):  # of a cluster that is gone
            client.cancel([future for future in futures if not future.done()])


def place() -> str:
    """In a task: the address of the worker that it runs on; "" if this is none."""
    if "distributed" not in sys.modules:
        return ""
    import distributed

    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""
