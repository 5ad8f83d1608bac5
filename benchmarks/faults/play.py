"""From a case and a library to what was seen."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from faults.cases import Case
from faults.library import BUDGET, Given, Library, Stepper
from faults.objectives import Objective, bowl, finished_points, size
from faults.supervise import Phase, supervised
from faults.verdict import Answer, Seen


def applies(case: Case, library: Library) -> bool:
    """Whether the library has what the case is about."""
    return set(case.needs) <= library.features


def played(case: Case, library: Library, folder: Path) -> Seen:
    """What comes of a case, in a new folder."""
    if case.damage is not None:
        return damaged(case, library, folder)
    if case.resumes:
        return killed(case, library, folder)
    if case.drivers > 1:
        return supervised(Phase(lambda: second_driver(case, library, folder), case.limit), folder)
    if case.scene is not None:
        scene = case.scene
        return supervised(Phase(lambda: scene(library, objective(case, folder), case.given), case.limit), folder)
    if case.misuse is not None:
        return supervised(Phase(lambda: misused(case, library.stepper()), case.limit), folder)
    return supervised(Phase(lambda: minimized(case, library, folder), case.limit, fault=case.fault), folder)


def objective(case: Case, folder: Path) -> Objective:
    fun = Objective(folder, case.behaviour, case.at)
    fun.survives = (
        case.rules.counts
    )  # to libraries with an interface whose state outlives an exception: choose that one
    return fun


def minimized(case: Case, library: Library, folder: Path) -> Answer:
    fun = objective(case, folder)
    return library.minimize(fun if case.fun is None else case.fun(fun), case.given)


def misused(case: Case, stepper: Stepper) -> Answer:
    """The misuse, and then the run to its end."""
    assert case.misuse is not None
    case.misuse(stepper)
    for _ in range(BUDGET // stepper.popsize):
        if stepper.is_over():
            break
        asked = stepper.ask()
        stepper.tell(asked, [bowl(stepper.point(one)) for one in asked])
    return stepper.finished()


def killed(case: Case, library: Library, folder: Path) -> Seen:
    """A run that is killed, and resumed, and perhaps killed again; all evaluations count."""
    file, fun, fault = folder / "run.db", objective(case, folder), case.fault
    assert fault is not None
    begin = Phase(lambda: library.store(fun, file, case.given), case.limit, fault=fault)
    seen, sizes = supervised(begin, folder), [0]
    for time_ in range(case.resumes):
        if seen.died != "SIGKILL":
            return replace(seen, notes="it was over before it could be killed")
        sizes.append(seen.finished)
        more = Given({name: value for name, value in case.given.items() if name in ("maxfevals", "workers")})
        again = replace(fault, calls=size(folder / "begun") + 30) if time_ + 1 < case.resumes else None
        seen = supervised(Phase(lambda more=more: library.resume(fun, file, more), case.limit, fault=again), folder)
    return replace(seen, repeated=repeated(finished_points(folder), sizes))


def repeated(points: np.ndarray, sizes: list[int]) -> int:
    """How many of the points (n, 2) were evaluated before the death of the process, when there were as many as `sizes`
    say, and after.
    """
    rows = [point.tobytes() for point in points]
    return sum(
        row in set(rows[:begin])
        for begin, end in zip(sizes, [*sizes[1:], len(rows)], strict=True)
        for row in rows[begin:end]
    )


def damaged(case: Case, library: Library, folder: Path) -> Seen:
    """A run in a file, which is read as it is, then damaged, and opened again."""
    assert case.damage is not None
    whole, file, flag = folder / "whole", folder / "run.db", folder / "flag"
    whole.mkdir()
    fun = Objective(whole)
    stored = supervised(Phase(lambda: library.store(fun, file, case.given), case.limit), whole)
    before = supervised(Phase(lambda: Answer(None, None, None, message=digest(library, file)), case.limit), whole)
    if stored.answer is None or before.answer is None:
        return replace(before, notes="it could not be stored or read in the first place")
    case.damage.do(library, file, flag)
    more = Given(maxfevals=60)
    seen = supervised(Phase(lambda: reopened(library, objective(case, folder), file, more), case.limit), folder)
    differs = seen.answer is not None and seen.answer.message != before.answer.message
    return replace(seen, ran_code=flag.exists(), differs=differs)


def digest(library: Library, file: Path) -> str:
    return sha256(json.dumps([float(number).hex() for number in library.numbers(file)]).encode()).hexdigest()


def reopened(library: Library, fun: Objective, file: Path, more: Given) -> Answer:
    """The run goes on from the file; the message says what was in it before."""
    found = digest(library, file)
    return replace(library.resume(fun, file, more), message=found)


def second_driver(case: Case, library: Library, folder: Path) -> Answer:
    """Resume a run while another process drives it."""
    file, elsewhere = folder / "run.db", folder / "elsewhere"
    elsewhere.mkdir()
    if (pid := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            library.store(Objective(elsewhere, "slow"), file, Given(maxfevals=100_000))
        os._exit(0)
    try:
        while size(elsewhere / "begun") < 20:
            time.sleep(0.01)
        return library.resume(objective(case, folder), file, Given(maxfevals=200))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
