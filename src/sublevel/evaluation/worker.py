"""The program of a worker process: it receives points through a pipe and sends back values, failures or exceptions.

Every worker leads a process group, so that everything the objective starts ends with it. It holds one end of a pipe
(the lifeline) whose other end only the process of the run has: when that process ends for any reason, the whole group
is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from sublevel.engine.arrays import Array


class Pickler(Protocol):
    """Reads what another process of the run has sent; its annotations lack `loads`."""

    def loads(self, data: bytes | memoryview, /) -> object: ...


PICKLER = cast(Pickler, ForkingPickler)
BLOCKED_SIGNALS = {signal.SIGINT, signal.SIGTERM}
"""Signals that are blocked while a worker starts."""
MAX_TRACEBACK, MAX_EXCEPTION, MAX_MESSAGE = 20_000, 1 << 23, 1 << 24
"""Most characters of a traceback and bytes of an exception that are sent, and most bytes of a message that is read.

A longer message was not sent by a worker: something else wrote to the pipe.
"""
PIPE_CLOSED = 113
"""Exit code of a worker whose objective closed the pipe, for example with `os.closerange`."""
OOM_SCORE = 500
"""When memory runs out, Linux kills processes with a high score first: workers before the process of the run."""


class Raised(NamedTuple):
    """Precedes an exception that a worker sends: its traceback, in case the exception cannot be unpickled."""

    text: str


def run_worker(fun: Callable[..., object], pipe: Connection, lifeline: Connection) -> None:
    """Evaluate points until the pipe is closed."""
    _start_process_group(lifeline)
    file = _file_id(pipe)
    with contextlib.suppress(EOFError, OSError):  # the other end is closed
        pipe.send(True)
        while True:
            messages = _evaluate(fun, pipe.recv())
            if _file_id(pipe) != file:  # the objective closed the pipe; the descriptor may now be another file
                os._exit(PIPE_CLOSED)
            for message in messages:
                pipe.send_bytes(message)


def _file_id(pipe: Connection) -> tuple[int, int] | None:
    """Device and inode of a pipe; None if it is closed."""
    try:
        status = os.fstat(pipe.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _evaluate(fun: Callable[..., object], point: Array) -> list[memoryview]:
    """Messages with the value at a point; or with the traceback and the exception."""
    try:
        return [ForkingPickler.dumps(fun(point))]
    except BaseException as error:
        raised = Raised(_shorten("".join(traceback.format_exception(error))))
        return [ForkingPickler.dumps(raised), pickle_exception(error)]


def _shorten(text: str) -> str:
    """A text without its middle, if it is too long to be sent."""
    half = MAX_TRACEBACK // 2
    short = f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"
    return text if len(text) <= MAX_TRACEBACK else short


def pickle_exception(error: BaseException) -> memoryview:
    """A pickled exception, or pickled None if it cannot be pickled or is too large.

    It is unpickled here first: if that hangs, the timeout of the evaluation applies, and the process of the run does
    not hang.
    """
    with contextlib.suppress(BaseException):
        data = ForkingPickler.dumps(error)
        if len(data) <= MAX_EXCEPTION:
            PICKLER.loads(data)
            return data
    return ForkingPickler.dumps(None)


def _start_process_group(lifeline: Connection) -> None:
    """Lead a process group that Ctrl-C in a terminal does not reach and that is killed when the lifeline closes.

    On Linux the kernel sends the signal, even while the objective blocks all other threads; elsewhere a thread does.
    """
    if hasattr(os, "setsid"):
        os.setsid()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    if sys.platform != "linux":
        exit_with_parent(lifeline, _kill_own_group)
        return
    _raise_oom_score()
    import fcntl

    end = lifeline.fileno()
    fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpid())  # negative: the group
    fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
    if lifeline.poll():  # the other end was closed before
        os._exit(0)


def _raise_oom_score() -> None:
    score = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        if int(score.read_text()) < OOM_SCORE:
            score.write_text(str(OOM_SCORE))


def _kill_own_group() -> None:
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def exit_with_parent(pipe: Connection, end: Callable[[], object] = lambda: os._exit(0)) -> None:
    """End this process when the pipe becomes readable or the parent process ends."""
    parent = multiprocessing.parent_process()
    signs = [pipe] if parent is None else [pipe, parent.sentinel]

    def watch() -> None:
        wait_for(signs)
        end()

    threading.Thread(target=watch, daemon=True).start()
