"""Tasks in parallel processes: each leaves a file, and a file that is there is not computed again.

The number of processes changes nothing but the time: a task knows neither the others nor where it runs, and each
process has one BLAS thread.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublevel.evaluation.processes import available_cores, ignore_interrupts
from sublevel.evaluation.worker import exit_with_parent
from sublevel.paper.figures import store
from sublevel.paper.figures.workbar import WorkBar

__all__ = ["Task", "WorkerLost", "available_cores", "run"]

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS")
MEMORY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
ENVIRONMENT = {**dict.fromkeys(THREADS, "1"), **dict.fromkeys(MEMORY, str(1 << 27))}
"""Of a worker: one BLAS thread, and glibc keeps freed memory, where giving it back and asking again costs a sixth of the time."""


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work: `compute(argument)` gives arrays, which go to `path` with a stamp that says what they are."""

    path: Path
    stamp: str
    cost: float  # seconds, roughly
    compute: Callable[[Any], Mapping[str, Any]]  # a function of a module, so that a process can find it
    argument: Any

    def run(self) -> None:
        """Compute and save."""
        store.save(self.path, self.stamp, self.compute(self.argument))

    def load(self) -> dict[str, Any] | None:
        """What was computed, if it was."""
        return store.load(self.path, self.stamp)


class WorkerLost(Exception):
    """A worker process ended before its task did; what was finished is kept."""


def run(tasks: Iterable[Task], jobs: int, progress: WorkBar) -> bool:
    """Compute the tasks whose files are not there, the longest first; whether some were there. Ctrl-C ends the work at once."""
    ordered = sorted(tasks, key=lambda task: -task.cost)
    present = [task.load() is not None for task in ordered]
    missing = [task for task, there in zip(ordered, present, strict=True) if not there]
    progress.begin([task.cost for task in ordered], present)
    if missing:
        with _workers(min(jobs, len(missing))) as pool:
            with _environment_of_workers():  # they start as tasks are submitted
                waiting = {pool.submit(task.run): task for task in missing}
            for done in _finished(waiting, progress):
                progress.advance(done.cost)
    progress.end()
    return any(present)


def _finished(waiting: dict[Future[None], Task], progress: WorkBar) -> Iterator[Task]:
    """Tasks as they are finished."""
    while waiting:
        for future in wait(waiting, timeout=1.0, return_when="FIRST_COMPLETED").done:
            task = waiting.pop(future)
            try:
                future.result()
            except BrokenProcessPool:
                raise WorkerLost("a worker process ended unexpectedly, perhaps for lack of memory; fewer --jobs need less") from None
            yield task
        progress.tick()


@contextlib.contextmanager
def _workers(count: int) -> Generator[ProcessPoolExecutor]:
    """Processes that end at once when the work is stopped, and by themselves when this process is killed."""
    context = multiprocessing.get_context("spawn")
    listening, telling = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=exit_with_parent, initargs=(listening,))
    try:
        yield pool
        pool.shutdown()
    finally:
        telling.close()  # ends what still works
        pool.shutdown(cancel_futures=True)
        listening.close()


@contextlib.contextmanager
def _environment_of_workers() -> Generator[None]:
    """New processes inherit these variables, which are only read at their start, and leave Ctrl-C to this one."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        with ignore_interrupts():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
