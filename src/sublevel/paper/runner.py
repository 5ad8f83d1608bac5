"""Run tasks in parallel processes. Each task saves its result to a file, and is not run again if the file exists.

The data do not depend on the number of processes: tasks are independent, and each process has one BLAS thread.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublevel.evaluation.processes import available_cores, ignore_interrupts
from sublevel.evaluation.worker import exit_with_parent
from sublevel.paper import cache
from sublevel.paper.progress_bar import ProgressBar

__all__ = ["DataFile", "Task", "WorkerLost", "available_cores", "compute_files", "run_tasks"]

THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
MEMORY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
ENVIRONMENT = {**dict.fromkeys(THREADS, "1"), **dict.fromkeys(MEMORY, str(1 << 27))}
"""Environment of a worker: one BLAS thread, and glibc keeps freed memory (releasing and requesting it again takes a
sixth of the time).
"""


class WorkerLost(Exception):
    """A worker process ended before its task did; finished tasks are kept."""


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work: `compute(argument)` returns arrays, which are saved to `path` with a stamp."""

    path: Path
    stamp: str
    cost: float  # seconds, roughly
    compute: Callable[[Any], Mapping[str, Any]]  # a function of a module, so that a process can import it
    argument: Any

    def run(self) -> None:
        """Compute and save."""
        cache.save(self.path, self.stamp, self.compute(self.argument))

    def load(self) -> dict[str, Any] | None:
        """The result, if it was computed."""
        return cache.load(self.path, self.stamp)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of arrays that are joined from the results of tasks."""

    path: Path
    stamp: str
    tasks: Sequence[Task]
    join: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def load(self) -> dict[str, Any] | None:
        """The arrays, if they were computed."""
        return cache.load(self.path, self.stamp)

    def finish(self) -> dict[str, Any]:
        """Join the results of the tasks, save them, and remove the files of the tasks."""
        parts = [part for task in self.tasks if (part := task.load()) is not None]
        if len(parts) < len(self.tasks):
            raise OSError(f"a part of {self.path} vanished while it was needed; is another run writing there?")
        arrays = self.join(parts)
        cache.save(self.path, self.stamp, arrays)
        for task in self.tasks:
            task.path.unlink(missing_ok=True)
        for directory in {task.path.parent for task in self.tasks}:
            with contextlib.suppress(OSError):  # another file still has parts there
                directory.rmdir()
        return arrays


def compute_files(
    files: Sequence[DataFile], processes: int, progress: ProgressBar
) -> tuple[list[dict[str, Any]], bool]:
    """The arrays of all files, computed if necessary, and whether some came from an earlier run."""
    cache.prepare(*{file.path.parent for file in files})
    found = {file.path: arrays for file in files if (arrays := file.load()) is not None}
    missing = [file for file in files if file.path not in found]
    if found:
        progress.print_line(f"{len(found)} of {len(files)} data files were computed by an earlier run")
    cache.prepare(*{task.path.parent for file in missing for task in file.tasks})
    reused = bool(missing) and run_tasks([task for file in missing for task in file.tasks], processes, progress)
    made = {file.path: file.finish() for file in missing}
    return [(found | made)[file.path] for file in files], reused or bool(found)


def run_tasks(tasks: Iterable[Task], processes: int, progress: ProgressBar) -> bool:
    """Compute the tasks without a result, the longest first; whether some had one. Ctrl-C ends the work at once."""
    ordered = sorted(tasks, key=lambda task: -task.cost)
    present = [task.load() is not None for task in ordered]
    missing = [task for task, is_present in zip(ordered, present, strict=True) if not is_present]
    progress.begin([task.cost for task in ordered], present)
    if missing:
        with _workers(min(processes, len(missing))) as pool:
            with _worker_environment():  # processes start as tasks are submitted
                waiting = {pool.submit(task.run): task for task in missing}
            for task in _completed(waiting, progress):
                progress.advance(task.cost)
    progress.end()
    return any(present)


def _completed(waiting: dict[Future[None], Task], progress: ProgressBar) -> Iterator[Task]:
    """Tasks in the order of their completion."""
    while waiting:
        for future in wait(waiting, timeout=1.0, return_when="FIRST_COMPLETED").done:
            task = waiting.pop(future)
            try:
                future.result()
            except BrokenProcessPool:
                raise WorkerLost("a worker process ended unexpectedly, possibly out of memory; reduce --jobs") from None
            yield task
        progress.refresh()


@contextlib.contextmanager
def _workers(count: int) -> Generator[ProcessPoolExecutor]:
    """Processes that end immediately when the work is stopped or this process is killed."""
    context = multiprocessing.get_context("spawn")
    listening, telling = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=exit_with_parent, initargs=(listening,))
    try:
        yield pool
        pool.shutdown()
    finally:
        telling.close()  # ends the processes that still work
        pool.shutdown(cancel_futures=True)
        listening.close()


@contextlib.contextmanager
def _worker_environment() -> Generator[None]:
    """Set the environment that new processes inherit, and let them ignore Ctrl-C."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        with ignore_interrupts():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
