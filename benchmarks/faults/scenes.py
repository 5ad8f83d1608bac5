"""What surrounds a run and goes wrong: the process it runs in, its limits, its streams, its threads, the file it is
kept in.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from faults.library import Given, Library
from faults.objectives import OPTIMUM, Objective, size
from faults.verdict import Answer

Scene = Callable[[Library, Objective, Given], Answer]
"""A run in some surroundings, in the process and in the folder of its case."""

TWO = Given(workers=2)
FALSE = Answer(None, None, True)
"""What is told if a file holds something else than what was evaluated."""
LARGEST = 64 << 10
"""Bytes of a file, where there is a limit: enough to begin, and not for all evaluations."""


# ------------------------------------------------------------------------------------------------ the process


def in_a_daemonic_process(library: Library, fun: Objective, given: Given) -> Answer:
    """As in a worker of a `multiprocessing.Pool`."""
    vars(multiprocessing.current_process())["_config"]["daemon"] = True
    return library.minimize(fun, given)


def with_few_descriptors(library: Library, fun: Objective, given: Given) -> Answer:
    """Three more files can be opened."""
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    return library.minimize(fun, given)


def in_a_daemon_thread(library: Library, fun: Objective, given: Given) -> Answer:
    """The main thread comes to its end while a daemon thread still minimises. Only the end of the process is judged."""
    threading.Thread(target=_quietly, args=(library, fun, given), daemon=True).start()
    until = time.monotonic() + 20
    while size(fun.folder / "begun") < 20 and time.monotonic() < until:
        time.sleep(0.01)
    return Answer(OPTIMUM, 0.0, True)


def _quietly(library: Library, fun: Objective, given: Given) -> None:
    with contextlib.suppress(BaseException):
        library.minimize(fun, given)


def _with_streams(change: Callable[[], None]) -> Scene:
    def scene(library: Library, fun: Objective, given: Given) -> Answer:
        kept = [(stream, os.dup(stream)) for stream in (1, 2)]
        change()
        try:
            return library.minimize(fun, given)
        finally:
            for stream, copy in kept:
                os.dup2(copy, stream)

    return scene


def _close_streams() -> None:
    os.close(1)
    os.close(2)


def _break_streams() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    os.dup2(writer, 2)


with_closed_streams, with_broken_pipes = _with_streams(_close_streams), _with_streams(_break_streams)


def with_closed_files(library: Library, fun: Objective, given: Given) -> Answer:
    """Python's own files are closed, as by `sys.stderr.close()`: writing raises a ValueError."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (os.fdopen(os.dup(stream), "w") for stream in (1, 2))
    sys.stdout.close()
    sys.stderr.close()
    try:
        return library.minimize(fun, given)
    finally:
        sys.stdout, sys.stderr = kept


def with_kept_results(library: Library, fun: Objective, given: Given) -> Answer:
    """A callback keeps what it gets; nothing of it may change later."""
    kept: list[tuple[Any, Any]] = []

    def keep(intermediate_result: Any) -> None:
        kept.append((intermediate_result.x, np.array(intermediate_result.x)))

    answer = library.minimize(fun, Given({**given, "callback": keep}))
    return answer if kept and all(np.array_equal(now, then) for now, then in kept) else FALSE


# ------------------------------------------------------------------------------------------------ the file


def _kill_while_storing(library: Library, fun: Objective, file: Path, calls: int = 40) -> None:
    """A run into the file that is killed after some evaluations, which do not count."""
    elsewhere = fun.folder / "elsewhere"
    elsewhere.mkdir()
    if (pid := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            library.store(Objective(elsewhere, "slow"), file, Given(maxfevals=100_000))
        os._exit(0)
    until = time.monotonic() + 20
    while size(elsewhere / "begun") < calls and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def with_leftovers_of_another(library: Library, fun: Objective, given: Given) -> Answer:
    """A run is killed, its file deleted but not what may lie beside it, and another run stored under the same name.

    The new file must say what that of the same run in a new folder says.
    """
    file, fresh = fun.folder / "run.db", fun.folder / "fresh"
    _kill_while_storing(library, fun, file, 120)
    file.unlink()
    answer = library.store(fun, file, given)
    fresh.mkdir()
    library.store(Objective(fresh), fresh / "run.db", given)
    return answer if library.numbers(file) == library.numbers(fresh / "run.db") else FALSE


def by_a_hard_link(library: Library, fun: Objective, given: Given) -> Answer:
    """A run is killed, and resumed by another name of its file: it has to stay readable by the first."""
    file, link = fun.folder / "run.db", fun.folder / "link.db"
    _kill_while_storing(library, fun, file)
    os.link(file, link)
    answer = library.resume(fun, link, given)
    try:
        library.numbers(file)
    except Exception:
        return FALSE
    return answer


def with_its_file_deleted(library: Library, fun: Objective, given: Given) -> Answer:
    """The file is deleted during the run. It is there again in the end, or the library says something."""
    file = fun.folder / "run.db"

    def deleting(x: Any) -> Any:
        if size(fun.folder / "begun") == fun.at:
            for beside in fun.folder.glob("run.db*"):
                beside.unlink()
        return fun(x)

    with _warnings() as told:
        answer = library.store(deleting, file, given)
    return _in_file(library, file, answer, told)


def with_files_limited(library: Library, fun: Objective, given: Given) -> Answer:
    """No file may grow beyond a limit, as with `ulimit -f` or a full disk. Then there is room again, and the run is
    resumed.
    """
    file, most = fun.folder / "run.db", resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, most))
    with contextlib.suppress(Exception):
        return library.store(fun, file, given)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return library.resume(fun, file, given)


def with_a_relative_name(library: Library, fun: Objective, given: Given) -> Answer:
    """The name of the file is relative, and the objective changes the working directory."""
    (fun.folder / "other").mkdir()
    with _warnings() as told:
        answer = library.store(fun, Path("run.db"), given)
    return _in_file(library, fun.folder / "run.db", answer, told)


def named(name: str) -> Scene:
    """A run into a file of this name."""
    return lambda library, fun, given: library.store(fun, Path(name), given)


@contextlib.contextmanager
def _warnings() -> Generator[list[Any]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield told


def _in_file(library: Library, file: Path, answer: Answer, told: list[Any]) -> Answer:
    """The answer with the number of evaluations that are in the file; if they are not and it was said so, that is an
    error.
    """
    found = int(library.numbers(file)[0]) if file.exists() else 0
    said = [str(warning.message) for warning in told if file.name in str(warning.message)]
    if found < (answer.nfev or 0) and said:
        error = RuntimeError(said[0])
        vars(error)["kept"] = answer.nfev
        raise error
    return replace(answer, nfev=found)
