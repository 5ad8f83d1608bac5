"""Worker processes that evaluate the objective."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.door import checked_value

LOST = (
    "a worker process ended before it returned a value. Either it could not start, and then the objective must be defined in a module or "
    "in a script whose own work stands under `if __name__ == '__main__':`; or the objective ended its process, perhaps for lack of memory."
)


class WorkerLost(RuntimeError):
    """A worker process ended before its evaluation did."""


def available_cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Processes, started afresh, that know `fun`. They end at once when closed, and by themselves if this process is killed."""

    def __init__(self, fun: Callable[..., Any], count: int) -> None:
        _check_portable(fun)
        context = multiprocessing.get_context("spawn")
        self._listening, self._telling = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(fun, self._listening))
        self._futures: list[Future[float]] = []
        with interrupts_ignored():  # processes start as tasks are submitted, and inherit this
            for _ in range(count):
                self._pool.submit(int)

    def begin(self, points: Array) -> list[Callable[[], float]]:
        """Send points (n, d) to whoever is free; what waits for the value of each."""
        try:
            self._futures = [self._pool.submit(_value, point) for point in points]
        except BrokenProcessPool:
            raise WorkerLost(LOST) from None
        return [partial(_answer, future) for future in self._futures]

    def known(self) -> tuple[list[int], Array]:
        """Which of the points have a value by now, and these."""
        values = {i: future.result() for i, future in enumerate(self._futures) if _succeeded(future)}
        return list(values), np.array(list(values.values()))

    def close(self) -> None:
        """End the processes, at once if they are still at work."""
        if all(future.done() for future in self._futures):
            self._pool.shutdown()
        self._telling.close()
        self._pool.shutdown(cancel_futures=True)
        self._listening.close()


def _answer(future: Future[float]) -> float:
    """The value that a process sent, or what the objective raised there."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise WorkerLost(LOST) from None


def _succeeded(future: Future[float]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _check_portable(fun: Callable[..., Any]) -> None:
    """A function that another process can find, or an error that says what to do."""
    try:
        pickle.dumps(fun)
    except Exception as error:
        raise TypeError(
            f"`fun` and `args` cannot be sent to other processes, got {fun!r}: {error}. Define the function at the top level of a module; "
            "or let threads work, with `workers=concurrent.futures.ThreadPoolExecutor(4).map`."
        ) from None


@contextlib.contextmanager
def interrupts_ignored() -> Generator[None]:
    """Ctrl-C is for this process to answer, not for those that start here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


_known: list[Callable[..., Any]] = []
"""In a worker: the objective, so that only points need to be sent."""


def _begin(fun: Callable[..., Any], told: Connection) -> None:
    """In a worker: remember the objective."""
    _known[:] = [fun]
    end_when_told(told)


def end_when_told(told: Connection) -> None:
    """In a worker: end when the parent says so or is no more."""
    parent = multiprocessing.parent_process()
    signs = [told] if parent is None else [told, parent.sentinel]

    def end() -> None:
        wait_for(signs)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def _value(point: Array) -> float:
    """In a worker: the objective's value at a point (d,), which it cannot change. What it raises must survive the way back."""
    point.setflags(write=False)
    try:
        return checked_value(_known[0](point))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError("the objective raised:\n" + "".join(traceback.format_exception(error))) from None
        raise
