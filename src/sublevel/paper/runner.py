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
from dataclasses import Field, asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from sublevel.evaluation.this_process import available_cores, ignore_interrupts
from sublevel.evaluation.worker import exit_with_parent
from sublevel.paper import cache
from sublevel.paper.cache import Arrays, Code
from sublevel.paper.progress_bar import ProgressBar

__all__ = ["DataFile", "Task", "Work", "WorkerLost", "available_cores", "compute_files", "run_tasks"]

THREADS = tuple(f"{library}_NUM_THREADS" for library in ("OPENBLAS", "OMP", "MKL", "NUMEXPR"))
MEMORY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
ENVIRONMENT = {**dict.fromkeys((*THREADS, "VECLIB_MAXIMUM_THREADS"), "1"), **dict.fromkeys(MEMORY, str(1 << 27))}
"""Environment of a worker: one BLAS thread, and glibc keeps freed memory, which saves a sixth of the time."""


class WorkerLost(Exception):
    """A worker process ended before its task did; finished tasks are kept."""


class Work(Protocol):
    """A unit of work: a frozen dataclass of a module, which a process can import; its fields determine the arrays."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def key(self) -> str: ...  # the name of the unit
    @property
    def cost(self) -> float: ...  # seconds, roughly
    def compute(self) -> Arrays: ...


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work whose arrays are saved to `path` with a stamp."""

    path: Path
    stamp: str
    work: Work

    def run(self) -> None:
        """Compute and save."""
        cache.save(self.path, self.stamp, self.work.compute())

    def load(self) -> Arrays | None:
        """The result, if it was computed."""
        return cache.load(self.path, self.stamp)


Join = Callable[[list[Arrays]], Arrays]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of arrays that are joined from the results of tasks."""

    path: Path
    stamp: str
    tasks: Sequence[Task]
    join: Join

    @classmethod
    def plan(
        cls, path: Path, config: Mapping[str, object], code: Code, works: Sequence[Work], parts: Path, join: Join
    ) -> DataFile:
        """The file with a task for each unit of work, whose result is saved in the directory `parts` until then."""
        tasks: list[Task] = []
        for work in works:
            name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in work.key)
            stamp = cache.stamp({"key": work.key, **asdict(work)}, code)
            tasks.append(Task(parts / f"{name}.npz", stamp, work))
        return cls(path, cache.stamp(config, code), tasks, join)

    def load(self) -> Arrays | None:
        """The arrays, if they were computed."""
        return cache.load(self.path, self.stamp)

    def finish(self) -> Arrays:
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


def compute_files(files: Sequence[DataFile], processes: int, progress: ProgressBar) -> tuple[list[Arrays], bool]:
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
    ordered = sorted(tasks, key=lambda task: -task.work.cost)
    present = [task.load() is not None for task in ordered]
    missing = [task for task, is_present in zip(ordered, present, strict=True) if not is_present]
    progress.begin([task.work.cost for task in ordered], present)
    if missing:
        with _workers(min(processes, len(missing))) as pool:
            with _worker_environment():  # processes start as tasks are submitted
                waiting = {pool.submit(task.run): task for task in missing}
            for task in _completed(waiting, progress):
                progress.advance(task.work.cost)
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
