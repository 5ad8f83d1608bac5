"""One case in processes of its own, with a limit, from start to verdict. Needs Linux: processes that a case leaves
behind come to us.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from faults.objectives import finished_points, size
from faults.verdict import Answer, Raised, Seen

PR_SET_CHILD_SUBREAPER = 36
MEMORY = 6 << 30
"""Bytes of address space that a case may have."""
LOOK = 0.02
"""Seconds between two looks at a case."""
PATIENCE = 3
"""How many limits a case may take that goes on evaluating, within three times its budget."""
LONGEST = 40
"""How many limits a case may take by the clock on the wall, on however busy a machine."""
GRACE = 5.0
"""Seconds in which what a case has started must be gone after it."""


class OwnTime:
    """A clock that stands still while processes of a case wait for a processor: a busy machine is no fault of theirs.

    What a process has waited is told by Linux, in nanoseconds. Of processes that wait at the same time, the longest
    wait counts.
    """

    def __init__(self) -> None:
        self._began, self._waited, self._waits = time.monotonic(), 0.0, waits_now()

    def now(self) -> float:
        """Seconds since it was made, without the waits of the children of this process and theirs."""
        waits = waits_now()
        self._waited += max((waited - self._waits.get(pid, 0) for pid, waited in waits.items()), default=0) / 1e9
        self._waits = waits
        return max(time.monotonic() - self._began - self._waited, 0.0)


def waits_now() -> dict[int, int]:
    """What each descendant of this process has waited until now."""
    return {pid: waited for pid in descendants(os.getpid()) if (waited := run_delay(pid)) is not None}


def run_delay(pid: int) -> int | None:
    """Nanoseconds that a process has been ready to run and did not; None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return None


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *descendants(child))]


@dataclass(frozen=True)
class Fault:
    """A signal from outside, once the objective was called as often as this; a second one follows if it is to be
    `again` after so long.
    """

    signal: int
    calls: int
    again: float | None = None


@dataclass(frozen=True)
class Phase:
    """One process of a case: what it does, how long that may take, and what happens to it."""

    does: Callable[[], Answer]
    limit: float
    budget: int = 1500
    fault: Fault | None = None


def supervised(phase: Phase, folder: Path) -> Seen:
    """Do it in a child of this process, which must have no other children, and tell what was seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    report, began = folder / "report.json", time.monotonic()
    report.unlink(missing_ok=True)
    if (pid := os.fork()) == 0:
        _become_the_case(phase, folder, report)
    is_late, status = _watched(pid, phase, folder, began)
    seconds = time.monotonic() - began
    orphans = _cleared_up()
    died = "" if os.WIFEXITED(status) and report.exists() else _ending(status)
    seen = Seen(is_late=is_late, died="" if is_late else died, orphans=orphans, seconds=seconds)
    if report.exists():
        told = json.loads(report.read_text())
        answer, raised = told["answer"] and Answer(**told["answer"]), told["raised"] and Raised(**told["raised"])
        seen = replace(seen, answer=answer, raised=raised)
    return replace(seen, finished=len(finished_points(folder)))


def _ending(status: int) -> str:
    return (
        signal.Signals(os.WTERMSIG(status)).name
        if os.WIFSIGNALED(status)
        else f"exit code {os.waitstatus_to_exitcode(status)}"
    )


def _watched(pid: int, phase: Phase, folder: Path, began: float) -> tuple[bool, int]:
    """Wait for the case, do to it what is to be done, end it when it is late; whether it was, and its exit status."""
    begun, fault, sent, last_calls, last_progress = folder / "begun", phase.fault, 0.0, 0, 0.0
    clock = OwnTime()
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return False, status
        now, own, calls = time.monotonic(), clock.now(), size(begun)
        if calls > last_calls:
            last_calls, last_progress = calls, own
        if fault is not None and not sent and calls >= fault.calls:
            sent = now
            os.kill(pid, fault.signal)
        elif fault is not None and fault.again is not None and sent and now - sent >= fault.again:
            fault = None
            os.kill(pid, phase.fault.signal)  # pyright: ignore[reportOptionalMemberAccess]
        if now - began > LONGEST * phase.limit or _is_late(own, own - last_progress, calls, phase):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            return True, os.waitpid(pid, 0)[1]
        time.sleep(LOOK)


def _is_late(seconds: float, quiet: float, calls: int, phase: Phase) -> bool:
    """Beyond the limit; but who still evaluates, and not without end, may take a few of them."""
    if seconds < phase.limit:
        return False
    is_busy = quiet < phase.limit / 2 and calls <= 3 * phase.budget
    return not is_busy or seconds > PATIENCE * phase.limit


def _cleared_up() -> int:
    """End what the case left behind, which are our children now; how many there were after some grace."""
    until, counted, killed = time.monotonic() + GRACE, 0, set[int]()
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = set(descendants(os.getpid())) - killed
        if not left and not descendants(os.getpid()):
            return counted
        if time.monotonic() > until:
            counted += len(left)
            killed |= left
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK)


# ------------------------------------------------------------------------------------------------ in the process of the
# case


def _become_the_case(phase: Phase, folder: Path, report: Path) -> None:
    """In the child: do it, and write down what came of it. Never returns."""
    try:
        os.setsid()
        os.chdir(folder)
        os.closerange(3, 1024)  # what the benchmark has open is not for an objective that writes into everything
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        told = _told(phase, folder)
        with open(report.with_suffix(".part"), "w") as file:
            json.dump(told, file)
        os.rename(report.with_suffix(".part"), report)
        _end_workers()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def _told(phase: Phase, folder: Path) -> dict[str, Any]:
    """The answer or the exception, in JSON."""
    try:
        answer = phase.does()
    except BaseException as error:
        calls = size(folder / "begun")
        traceback.print_exc()
        kept = getattr(error, "kept", None)
        message = " ".join(" ".join([str(error), *getattr(error, "__notes__", [])]).split())[:1000]
        return {"answer": None, "raised": asdict(Raised(type(error).__name__, message, calls, kept))}
    x = None if answer.x is None else [_number(value) for value in np.ravel(np.asarray(answer.x, dtype=object))]
    plain = replace(
        answer, x=x, fun=None if answer.fun is None else _number(answer.fun), nfev=answer.nfev and int(answer.nfev)
    )
    return {
        "answer": asdict(replace(plain, success=None if plain.success is None else bool(plain.success))),
        "raised": None,
    }


def _number(value: Any) -> float:
    """A float; NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _end_workers() -> None:
    """What happens at the end of a program, which `os._exit` leaves out: processes of `multiprocessing` are ended."""
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util._exit_function()


# ------------------------------------------------------------------------------------------------ many cases, two at a
# time


def run_all(jobs: list[Callable[[Path], Seen]], lanes: int, done: Callable[[int, Seen], None]) -> None:
    """Run every job in a process and a folder of its own, `lanes` of them at a time; `done` hears of each."""
    waiting, running = list(enumerate(jobs)), dict[int, tuple[int, Path]]()
    while waiting or running:
        while waiting and len(running) < lanes:
            index, job = waiting.pop(0)
            folder = Path(tempfile.mkdtemp(prefix="reliability-"))
            if (pid := os.fork()) == 0:
                _run(job, folder)
            running[pid] = index, folder
        pid, _ = os.wait()
        index, folder = running.pop(pid)
        result = folder / "seen.json"
        done(index, _read(result) if result.exists() else Seen(died="the supervisor ended"))
        shutil.rmtree(folder, ignore_errors=True)


def _run(job: Callable[[Path], Seen], folder: Path) -> None:
    """In a supervisor: the job, and what was seen into a file. Never returns."""
    try:
        (folder / "case").mkdir()
        seen = job(folder / "case")
        (folder / "seen.json").write_text(json.dumps(asdict(seen)))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _read(file: Path) -> Seen:
    told = json.loads(file.read_text())
    answer, raised = told.pop("answer"), told.pop("raised")
    return Seen(**told, answer=answer and Answer(**answer), raised=raised and Raised(**raised))
