"""A pool of worker processes. Each evaluates one point at a time, is replaced if it dies and killed if it is late."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
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

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import LOST, TIMEOUT, Failure, WorkerLost
from sublevel.evaluation.worker import BLOCKED_SIGNALS, MAX_MESSAGE, PICKLER, PIPE_CLOSED, Raised, run_worker

LOGGER = logging.getLogger(__name__)
POLL_INTERVAL = 0.5
"""Seconds between two checks of silent workers: the longest time until a death is noticed."""
EXIT_TIMEOUT = 0.5
"""Seconds in which an idle worker may exit by itself, so that it can flush its output."""
SLEEP = 0.002
"""Seconds between two checks of a process that is about to end."""
START_TIMEOUT = 300.0
"""Seconds in which a worker must be ready; importing the objective may take long."""
MAX_DEATHS = 2
"""Number of workers that may die at a point before it counts as failed."""
MAX_KILLED_STARTS = 20
"""Number of workers in a row that may be killed by a signal while they start. One that exits by itself is an error."""

NOT_STARTED = (
    "a worker process ended before it was ready (exit code {code}). Define the objective in a module, or in a script "
    "whose main part is protected by `if __name__ == '__main__':`."
)
DAEMONIC = (
    "`workers` and `timeout` need worker processes, but this process is daemonic and may not start any, like the "
    "workers of a multiprocessing.Pool. Use workers=1 without `timeout`, a concurrent.futures.ProcessPoolExecutor "
    "instead of the Pool, or threads: `workers=concurrent.futures.ThreadPoolExecutor(4)`."
)
NO_RESOURCES = (
    "no worker process could be started: {error}. Each worker needs about 5 file descriptors and the memory of a "
    "Python process. Close files, raise the limits (`ulimit -n`, `ulimit -u`), or use workers=1."
)
INTERPRETER_EXIT = "the interpreter is exiting; no worker processes can be started."
FEWER_WORKERS = (
    "only {started} of {count} worker processes could be started; the run continues with these: {error}. "
    "Raise the limits (`ulimit -n`)."
)


@dataclass(slots=True, eq=False)
class Worker:
    """A worker process, the pipes to it, and the point that it evaluates."""

    process: BaseProcess
    pipe: Connection
    lifeline: Connection  # never written to; closing it kills the process group of the worker
    deadline: float  # time by which the worker must answer
    is_ready: bool = False
    index: int | None = None  # of the point that it evaluates

    @classmethod
    def start(cls, fun: Callable[..., object]) -> Worker:
        """Start a process; its first answer is True when it is ready."""
        context = multiprocessing.get_context("spawn")
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            pipe, worker_pipe = context.Pipe()
            on_failure.callback(pipe.close)
            always.callback(worker_pipe.close)
            worker_lifeline, lifeline = context.Pipe(duplex=False)
            on_failure.callback(lifeline.close)
            always.callback(worker_lifeline.close)
            ends = fun, worker_pipe, worker_lifeline
            process = context.Process(target=run_worker, args=ends, name="sublevel worker")
            process.start()
            on_failure.pop_all()
        return cls(process, pipe, lifeline, time.monotonic() + START_TIMEOUT)

    @property
    def is_free(self) -> bool:
        """Whether it waits for a point."""
        return self.is_ready and self.index is None

    def assign(self, index: int, point: Array, timeout: float | None) -> None:
        """Send a point (d,). If the worker is dead, `poll` reports it later."""
        self.index = index
        self.deadline = inf if timeout is None else time.monotonic() + timeout
        with contextlib.suppress(OSError):
            self.pipe.send(point)

    def poll(self) -> object:
        """The value or exception of the objective, a failure, True if the worker became ready; None without answer."""
        is_alive = self.process.is_alive()  # checked first: a worker may answer and then die
        try:
            answer = self._receive() if self.pipe.poll() else None
        except Exception:  # the pipe is closed, or something else wrote to it
            answer, is_alive = None, False
            _wait_for_exit(self.process, POLL_INTERVAL)  # for its exit code
        if isinstance(answer, Raised):
            return self._receive_exception(answer)
        if answer is None and not is_alive:
            return Failure(LOST, _describe_death(self.process.exitcode))
        if answer is None and time.monotonic() >= self.deadline:
            return Failure(TIMEOUT, "the evaluation took longer than `timeout`")
        return answer

    def _receive(self) -> object:
        return PICKLER.loads(self.pipe.recv_bytes(MAX_MESSAGE))

    def _receive_exception(self, raised: Raised) -> BaseException:
        """The exception that follows its traceback; a RuntimeError with the traceback if it cannot be unpickled."""
        try:
            error = self._receive()
        except (Exception, SystemExit):  # unpickling runs code of the exception
            error = None
        if not isinstance(error, BaseException):
            return RuntimeError("the objective raised:\n" + raised.text)
        with contextlib.suppress(Exception):  # some exceptions accept no notes
            error.add_note("in a worker process:\n" + raised.text)
        return error

    def end(self, patience: float = 0.0) -> None:
        """Kill the worker and its process group; with `patience`, wait that many seconds for it to exit by itself."""
        if patience > 0:
            _close(self.pipe)
            _wait_for_exit(self.process, patience)
        kill_group(self.process)
        _wait_for_exit(self.process, EXIT_TIMEOUT)
        _close(self.pipe)
        _close(self.lifeline)


class ProcessPool:
    """Up to `count` worker processes that evaluate `fun`. They are started when needed.

    A point that takes longer than `timeout` seconds is tried `attempts` times.
    """

    def __init__(self, fun: Callable[..., object], count: int, timeout: float | None = None, attempts: int = 1) -> None:
        if multiprocessing.current_process().daemon:
            raise WorkerLost(DAEMONIC)
        _check_picklable(fun)
        self.fun, self.count, self.timeout = fun, count, timeout
        self._max_failures = {LOST: MAX_DEATHS, TIMEOUT: attempts}
        self._workers: list[Worker] = []
        self._killed_starts = 0
        self._next_poll = 0.0
        self._is_open = True
        Finalize(self, _kill_workers, (weakref.ref(self),), exitpriority=100)

    def evaluate(self, points: Array) -> Generator[tuple[int, object]]:
        """Yield (index, value, exception or failure) for each of the points (n, d) as the answers arrive."""
        waiting, failed, left = deque(range(len(points))), Counter[tuple[int, str]](), len(points)
        try:
            while left:
                self._assign_points(waiting, points, left)
                for worker in self._workers_to_poll():
                    index, answer = worker.index, worker.poll()
                    if answer is None:
                        continue
                    end = answer if isinstance(answer, Failure) and answer.kind in self._max_failures else None
                    if end is not None:
                        LOGGER.warning("worker process %d ends: %s", worker.process.pid, end.detail)
                        self._remove([worker])
                    if index is None:
                        self._handle_start(worker, answer)
                    elif end is not None and not self._is_given_up(index, end, failed):
                        waiting.appendleft(index)
                    else:
                        worker.index, worker.deadline = None, inf
                        left -= 1
                        yield index, answer
        finally:
            self._remove([worker for worker in self._workers if worker.index is not None])

    def _assign_points(self, waiting: deque[int], points: Array, left: int) -> None:
        """Send points to free workers and start missing workers."""
        for worker in self._workers:
            if waiting and worker.is_free and worker.process.is_alive():
                index = waiting.popleft()
                worker.assign(index, points[index], self.timeout)
        while len(self._workers) < min(self.count, left):
            self._check_open()
            try:
                with block_signals():
                    self._workers.append(Worker.start(self.fun))
            except OSError as error:
                self._continue_with_fewer(error)

    def _continue_with_fewer(self, error: OSError) -> None:
        """Continue with the workers that could be started, if there are any."""
        if not self._workers:
            raise WorkerLost(NO_RESOURCES.format(error=error)) from error
        warnings.warn(FEWER_WORKERS.format(started=len(self._workers), count=self.count, error=error), stacklevel=2)
        self.count = len(self._workers)

    def _check_open(self) -> None:
        """Refuse to start workers while the interpreter exits; a daemon thread that needs one then ends silently."""
        if not self._is_open:
            is_main = threading.current_thread() is threading.main_thread()
            raise WorkerLost(INTERPRETER_EXIT) if is_main else SystemExit(INTERPRETER_EXIT)

    def _workers_to_poll(self) -> list[Worker]:
        """Wait for workers that answered, ended or are late; all workers once per `POLL_INTERVAL`."""
        until = min(self._next_poll, *(worker.deadline for worker in self._workers))
        signs = [sign for worker in self._workers for sign in (worker.pipe, worker.process.sentinel)]
        ready = {*wait_for(signs, max(until - time.monotonic(), 0.0))}
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + POLL_INTERVAL
            return list(self._workers)
        return [
            worker
            for worker in self._workers
            if {worker.pipe, worker.process.sentinel} & ready or worker.deadline <= now
        ]

    def _is_given_up(self, index: int, failure: Failure, failed: Counter[tuple[int, str]]) -> bool:
        """Count a failure of a point; whether the point is not tried again."""
        failed[index, failure.kind] += 1
        return failed[index, failure.kind] >= self._max_failures[failure.kind]

    def _handle_start(self, worker: Worker, answer: object) -> None:
        """Handle the answer of a worker without a point: it is ready, or it died."""
        if not isinstance(answer, Failure):
            worker.is_ready, worker.deadline, self._killed_starts = True, inf, 0
        elif not worker.is_ready:
            code = worker.process.exitcode
            self._killed_starts += 1
            if answer.kind == TIMEOUT or (code or 0) > 0 or self._killed_starts > MAX_KILLED_STARTS:
                raise WorkerLost(NOT_STARTED.format(code=code))

    def _remove(self, workers: Sequence[Worker], patience: float = 0.0) -> None:
        """Kill workers; free ones have `patience` seconds to exit by themselves."""
        with block_signals():
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
        """End all workers; busy ones are killed."""
        self._remove(self._workers, EXIT_TIMEOUT)

    def kill(self) -> None:
        """Kill all workers from another thread and start no more."""
        self._is_open = False
        for worker in tuple(self._workers):
            kill_group(worker.process)


def _kill_workers(pool: weakref.ref[ProcessPool]) -> None:
    """Kill workers that a daemon thread still uses at interpreter exit, before multiprocessing waits for them."""
    if (alive := pool()) is not None:
        alive.kill()


def _close(pipe: Connection) -> None:
    """Close a pipe, which the objective or a callback may have closed already."""
    with contextlib.suppress(OSError):
        pipe.close()


def _describe_death(code: int | None) -> str:
    """Why a process without an answer has ended, from its exit code."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = ", possibly because the system ran out of memory" if name == "SIGKILL" else ""
        return f"the worker process was killed during the evaluation ({name}{memory})"
    if code is None or code == PIPE_CLOSED:
        return (
            "the objective closed file descriptors that it had not opened (`os.closerange`?), including the pipe "
            "of its worker process"
        )
    return f"the worker process exited during the evaluation (exit code {code})"


def _wait_for_exit(process: BaseProcess, seconds: float) -> None:
    """Wait at most `seconds` for a process to end. `join` can hang if the process closed or wrote to its sentinel."""
    until = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < until:
        time.sleep(SLEEP)


def kill_group(process: BaseProcess) -> None:
    """Kill a process and the process group that it leads."""
    if hasattr(os, "killpg") and process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _check_picklable(fun: Callable[..., object]) -> None:
    """Raise TypeError if the objective cannot be sent to another process."""
    try:
        ForkingPickler.dumps(fun)
    except Exception as error:
        raise TypeError(
            f"`fun` and `args` cannot be sent to worker processes, got {fun!r}: {error}. Define the function at the "
            "top level of a module, or use threads: `workers=concurrent.futures.ThreadPoolExecutor(4)`."
        ) from None


@contextlib.contextmanager
def block_signals() -> Generator[None]:
    """Delay SIGINT and SIGTERM. Processes that are started meanwhile inherit the blocked signals."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
