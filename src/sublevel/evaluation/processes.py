"""Worker processes that evaluate the objective: one point at a time each, replaced when they die, ended when they take too long.

Every worker leads a process group of its own, so that what the objective starts ends with it; and it holds one end of a pipe whose
other end only this process has, so that the whole group ends when this process does, however that happens.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import inf
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, NamedTuple, cast

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import LOST, TIMEOUT, Failure

LOGGER = logging.getLogger(__name__)
LOOK = 0.5
"""Seconds between two looks at workers that say nothing: the longest time until a death is noticed."""
GRACE = 0.5
"""Seconds in which a worker without work may end by itself, to write out what it has printed."""
PAUSE = 0.002
"""Seconds between two looks at a process that is about to end."""
START = 300.0
"""Seconds in which a worker must be ready: importing may take long, but not for ever."""
STRIKES = 2
"""A point that ended as many workers is not tried again."""
LOST_STARTS = 20
"""Workers in a row that may be killed while they start; one that ends by itself is enough to know that none will ever start."""
HELD_BACK = {signal.SIGINT, signal.SIGTERM}
LONGEST_TEXT, LARGEST_ERROR, LARGEST_MESSAGE = 20_000, 1 << 23, 1 << 24
"""Characters of a traceback and bytes of a pickled exception that a worker sends at most, and bytes of a message that is read at most.

A longer message is not one of ours: something else wrote to the pipe.
"""
CLOSED_FILES = 113
"""Exit code of a worker whose objective closed the pipe, by `os.closerange` for example."""
OOM_SCORE = 500
"""Linux, when memory runs out, ends processes with a high score first: workers rather than the process of the run."""

NOT_STARTED = (
    "a worker process ended before it could begin (exit code {code}). The objective must be defined in a module, or in a script whose own "
    "work stands under `if __name__ == '__main__':`."
)
NO_CHILDREN = (
    "`workers` and `timeout` need worker processes, but this process is daemonic and may not start any. The workers of a "
    "multiprocessing.Pool are daemonic: use workers=1 and no `timeout` there, use a concurrent.futures.ProcessPoolExecutor in place of "
    "the Pool, or let threads work, with `workers=concurrent.futures.ThreadPoolExecutor(4)`."
)
NO_ROOM = (
    "no worker process could be started: {error}. Each worker needs about 5 file descriptors and the memory of a Python process: close "
    "files, raise the limits (`ulimit -n`, `ulimit -u`), or use workers=1."
)
ENDING = "the interpreter is ending, so no worker processes are started any more."
FEWER = (
    "only {started} of {count} worker processes could be started, the run continues with those: {error}. Raise the limits (`ulimit -n`)."
)


class WorkerLost(RuntimeError):
    """Worker processes cannot do their work."""


class Raised(NamedTuple):
    """What a worker says before it sends an exception: its traceback, in case that the exception cannot be sent."""

    text: str


def available_cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ------------------------------------------------------------------------------------------------ here, where the run is


@dataclass(slots=True, eq=False)
class Worker:
    """A process, how to talk to it, and what it is at."""

    process: BaseProcess
    pipe: Connection
    lifeline: Connection  # never written to: the group of the process ends when this is closed
    deadline: float  # when it must have answered
    is_ready: bool = False
    index: int | None = None  # of the point that it evaluates

    @classmethod
    def started(cls, fun: Callable[..., Any]) -> Worker:
        """A process, started afresh, that will say when it is ready."""
        context = multiprocessing.get_context("spawn")
        with contextlib.ExitStack() as here, contextlib.ExitStack() as theirs:
            pipe, its_pipe = context.Pipe()
            here.callback(pipe.close)
            theirs.callback(its_pipe.close)
            its_lifeline, lifeline = context.Pipe(duplex=False)
            here.callback(lifeline.close)
            theirs.callback(its_lifeline.close)
            process = context.Process(target=_work, args=(fun, its_pipe, its_lifeline), name="sublevel worker")
            process.start()
            here.pop_all()
        return cls(process, pipe, lifeline, time.monotonic() + START)

    @property
    def is_free(self) -> bool:
        """Whether it waits for a point."""
        return self.is_ready and self.index is None

    def begin(self, index: int, point: Array, timeout: float | None) -> None:
        """Send it a point (d,). If it is dead, that will be noticed like any other death."""
        self.index = index
        self.deadline = inf if timeout is None else time.monotonic() + timeout
        with contextlib.suppress(OSError):
            self.pipe.send(point)

    def news(self) -> Any:
        """What the objective returned or raised, a failure, True if it is ready now, or None."""
        is_alive = self.process.is_alive()  # before looking for an answer that it may have left
        try:
            answer = self._message() if self.pipe.poll() else None
        except Exception:  # the pipe is closed, or something else wrote to it
            answer, is_alive = None, False
            _wait_for_end(self.process, LOOK)  # it is about to end, and its exit code says why
        if isinstance(answer, Raised):
            return self._exception(answer)
        if answer is None and not is_alive:
            return Failure(LOST, _describe_death(self.process.exitcode))
        if answer is None and time.monotonic() >= self.deadline:
            return Failure(TIMEOUT, "the evaluation took longer than `timeout`")
        return answer

    def _message(self) -> Any:
        """The next thing that the process sent."""
        return cast(Any, ForkingPickler).loads(self.pipe.recv_bytes(LARGEST_MESSAGE))

    def _exception(self, raised: Raised) -> BaseException:
        """The exception that follows its text, or the text if it cannot be made again here."""
        try:
            error = self._message()
        except (Exception, SystemExit):  # whatever the exception's own code raises when it is unpickled
            error = None
        if not isinstance(error, BaseException):
            return RuntimeError("the objective raised:\n" + raised.text)
        with contextlib.suppress(Exception):  # some exceptions take no notes
            error.add_note("in a worker process:\n" + raised.text)
        return error

    def end(self, patience: float = 0.0) -> None:
        """End it and all that it started; with patience, let it end by itself first."""
        if patience > 0:
            _close(self.pipe)
            _wait_for_end(self.process, patience)
        kill_group(self.process)
        _wait_for_end(self.process, GRACE)
        _close(self.pipe)
        _close(self.lifeline)


class Processes:
    """Processes that know `fun`, as many as `count`; each starts when there is a point for it."""

    def __init__(self, fun: Callable[..., Any], count: int, timeout: float | None = None, attempts: int = 1) -> None:
        """A point that takes longer than `timeout` seconds is tried as often as `attempts` says."""
        if multiprocessing.current_process().daemon:
            raise WorkerLost(NO_CHILDREN)
        _check_portable(fun)
        self.fun, self.count, self.timeout = fun, count, timeout
        self._most = {LOST: STRIKES, TIMEOUT: attempts}
        self._workers: list[Worker] = []
        self._lost_starts = 0
        self._next_look = 0.0
        self._is_open = True
        Finalize(self, _kill_if_alive, (weakref.ref(self),), exitpriority=100)

    def answers(self, points: Array) -> Generator[tuple[int, Any]]:
        """What `fun` returns or raises for each of the points (n, d) by its index, or how that failed, as it comes in."""
        waiting, strikes, left = deque(range(len(points))), Counter[tuple[int, str]](), len(points)
        try:
            while left:
                self._assign(waiting, points, left)
                for worker in self._with_news():
                    index, answer = worker.index, worker.news()
                    if answer is None:
                        continue
                    is_over = isinstance(answer, Failure) and answer.kind in self._most  # dead or late, the objective did not answer
                    if is_over:
                        LOGGER.warning("worker process %d ends: %s", worker.process.pid, answer.what)
                        self._remove([worker])
                    if index is None:
                        self._note_start(worker, answer)
                    elif is_over and not self._is_final(index, answer, strikes):
                        waiting.appendleft(index)
                    else:
                        worker.index, worker.deadline = None, inf
                        left -= 1
                        yield index, answer
        finally:
            self._remove([worker for worker in self._workers if worker.index is not None])

    def _assign(self, waiting: deque[int], points: Array, left: int) -> None:
        """Points to those who are free, and new workers for those who are missing."""
        for worker in self._workers:
            if waiting and worker.is_free and worker.process.is_alive():
                index = waiting.popleft()
                worker.begin(index, points[index], self.timeout)
        while len(self._workers) < min(self.count, left):
            self._check_open()
            try:
                with signals_held_back():
                    self._workers.append(Worker.started(self.fun))
            except OSError as error:
                self._make_do(error)

    def _make_do(self, error: OSError) -> None:
        """No further worker can be started: go on with those that there are, if there are any."""
        if not self._workers:
            raise WorkerLost(NO_ROOM.format(error=error)) from error
        warnings.warn(FEWER.format(started=len(self._workers), count=self.count, error=error), stacklevel=2)
        self.count = len(self._workers)

    def _check_open(self) -> None:
        """At the end of the interpreter nothing is started any more; a thread that still needs workers then ends without a message."""
        if not self._is_open:
            raise WorkerLost(ENDING) if threading.current_thread() is threading.main_thread() else SystemExit(ENDING)

    def _with_news(self) -> list[Worker]:
        """Workers to listen to: those who said something, ended or are late; all of them if that was not done for a while."""
        until = min(self._next_look, *(worker.deadline for worker in self._workers))
        signs = [sign for worker in self._workers for sign in (worker.pipe, worker.process.sentinel)]
        heard = wait_for(signs, max(until - time.monotonic(), 0.0))
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK
            return list(self._workers)
        return [worker for worker in self._workers if {worker.pipe, worker.process.sentinel} & {*heard} or worker.deadline <= now]

    def _is_final(self, index: int, failure: Failure, strikes: Counter[tuple[int, str]]) -> bool:
        """Whether a point is not tried again."""
        strikes[index, failure.kind] += 1
        return strikes[index, failure.kind] >= self._most[failure.kind]

    def _note_start(self, worker: Worker, answer: Any) -> None:
        """A worker without a point is ready, or gone. Some may be killed while they start; one that ends by itself is one too many."""
        if not isinstance(answer, Failure):
            worker.is_ready, worker.deadline, self._lost_starts = True, inf, 0
        elif not worker.is_ready:
            code = worker.process.exitcode
            self._lost_starts += 1
            if answer.kind == TIMEOUT or (code or 0) > 0 or self._lost_starts > LOST_STARTS:
                raise WorkerLost(NOT_STARTED.format(code=code))

    def _remove(self, workers: Sequence[Worker], patience: float = 0.0) -> None:
        """End workers, those without work patiently."""
        with signals_held_back():
            until, free = time.monotonic() + patience, [worker for worker in workers if worker.is_free]
            for worker in workers:
                if not worker.is_free:
                    worker.end()
            for worker in free:
                worker.pipe.close()
            for worker in free:
                worker.end(until - time.monotonic())
            self._workers = [worker for worker in self._workers if worker not in workers]

    def close(self) -> None:
        """End all processes, those at work at once."""
        self._remove(self._workers, GRACE)

    def kill(self) -> None:
        """End all processes from another thread, and start no more."""
        self._is_open = False
        for worker in tuple(self._workers):
            kill_group(worker.process)


def _kill_if_alive(processes: weakref.ref[Processes]) -> None:
    """At the end of the interpreter, before multiprocessing waits for its processes: a daemon thread may still give them work."""
    if (still := processes()) is not None:
        still.kill()


def _close(pipe: Connection) -> None:
    """Close an end of a pipe, which the objective or a callback may have closed already (`os.closerange`)."""
    with contextlib.suppress(OSError):
        pipe.close()


def _describe_death(code: int | None) -> str:
    """What became of a process that does not answer any more."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = ", which the system also sends when memory runs out" if name == "SIGKILL" else ""
        return f"the evaluation ended its process ({name}{memory})"
    if code is None or code == CLOSED_FILES:
        return "the evaluation closed files of its process that it had not opened (`os.closerange`?), so that it could not answer"
    return f"the evaluation ended its process (exit code {code})"


def _wait_for_end(process: BaseProcess, seconds: float) -> None:
    """Until a process has ended, or for some time. `join` waits for ever if the process has closed or written to its sentinel."""
    until = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < until:
        time.sleep(PAUSE)


def kill_group(process: Any) -> None:
    """Kill a process that leads a group, and all of the group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _check_portable(fun: Callable[..., Any]) -> None:
    """A function that another process can find, or an error that says what to do."""
    try:
        ForkingPickler.dumps(fun)
    except Exception as error:
        raise TypeError(
            f"`fun` and `args` cannot be sent to other processes, got {fun!r}: {error}. Define the function at the top level of a module; "
            "or let threads work, with `workers=concurrent.futures.ThreadPoolExecutor(4)`."
        ) from None


@contextlib.contextmanager
def signals_held_back() -> Generator[None]:
    """Ctrl-C and SIGTERM wait until this is over; processes that start here do not get them until they say so."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would let signals through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


class TerminationsAsInterrupts:
    """SIGTERM is answered like Ctrl-C, if this is the main thread and nobody else has plans for it.

    A class, because what the objective raises goes through here, and `contextlib.contextmanager` wants to write to exceptions.
    """

    __slots__ = ("_is_ours",)

    def __enter__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self._is_ours = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._is_ours:
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._is_ours and signal.getsignal(signal.SIGTERM) is signal.default_int_handler:  # the objective has set no other
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


# ------------------------------------------------------------------------------------------------ there, in a worker


def _work(fun: Callable[..., Any], pipe: Connection, lifeline: Connection) -> None:
    """In a worker: evaluate points until there are no more to come."""
    _lead_a_group(lifeline)
    file = _identity(pipe)
    with contextlib.suppress(EOFError, OSError):  # the other end is closed
        pipe.send(True)
        while True:
            messages = _messages(fun, pipe.recv())
            if _identity(pipe) != file:  # what is sent now would end in another file, or nowhere
                os._exit(CLOSED_FILES)
            for message in messages:
                pipe.send_bytes(message)


def _identity(pipe: Connection) -> tuple[int, int] | None:
    """Which file a pipe is; None if it is closed."""
    try:
        status = os.fstat(pipe.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _messages(fun: Callable[..., Any], point: Array) -> list[Any]:
    """In a worker: what the objective returns; or its traceback, and then the exception itself if that can be sent."""
    try:
        return [ForkingPickler.dumps(fun(point))]
    except BaseException as error:
        return [ForkingPickler.dumps(Raised(_shortened("".join(traceback.format_exception(error))))), _packed(error)]


def _shortened(text: str) -> str:
    """A text without its middle, if it is too long to be sent."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def _packed(error: BaseException) -> Any:
    """An exception as it goes through a pipe, or None if it cannot or is too large.

    It is made again here first: if that takes for ever, the time limit of an evaluation ends it, and the driver does not wait.
    """
    with contextlib.suppress(BaseException):
        packed = ForkingPickler.dumps(error)
        if len(packed) <= LARGEST_ERROR:
            cast(Any, ForkingPickler).loads(packed)
            return packed
    return ForkingPickler.dumps(None)


def _lead_a_group(lifeline: Connection) -> None:
    """In a worker: lead a group of processes that Ctrl-C in a terminal does not reach, and that ends when the lifeline does.

    On Linux the kernel sees to that, even if the objective never lets another thread run; elsewhere a thread does.
    """
    if hasattr(os, "setsid"):
        os.setsid()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    if sys.platform != "linux":
        end_when_told(lifeline, _end_group)
        return
    _be_first_out_of_memory()
    import fcntl

    end = lifeline.fileno()
    fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpid())  # the group
    fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
    if lifeline.poll():  # the other end was closed before
        os._exit(0)


def _be_first_out_of_memory() -> None:
    """In a worker: if memory runs out, the kernel ends this process rather than the one that started it."""
    score = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        if int(score.read_text()) < OOM_SCORE:
            score.write_text(str(OOM_SCORE))


def _leave() -> None:
    os._exit(0)


def _end_group() -> None:
    """In a worker: end it and all that it started."""
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def end_when_told(told: Connection, end: Callable[[], Any] | None = None) -> None:
    """In a worker: end when the parent says so or is no more; how, can be told too."""
    parent = multiprocessing.parent_process()
    signs = [told] if parent is None else [told, parent.sentinel]

    def watch() -> None:
        wait_for(signs)
        (end or _leave)()

    threading.Thread(target=watch, daemon=True).start()
