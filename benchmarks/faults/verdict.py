"""How a case ended, by rules: from what was seen to one of a few outcomes. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from faults.objectives import OPTIMUM, bowl

NEAR = 1e-2
"""An answer is right if the bowl is no higher there; it is 6.25 at the start."""


class Outcome(StrEnum):
    """How a case can end, as the tables name it."""

    CLEAR = "clear error"
    UNCLEAR = "unclear error"
    LATE = "error later"
    STOPPED = "stopped, all kept"
    WORKS = "works"
    NO_SUCCESS = "no success"
    UNSAID = "wrong, unsaid"
    GARBAGE = "garbage"
    LOST = "evaluation lost"
    HANG = "hang"
    CRASH = "crash"
    EXECUTED = "code executed"
    NONE = "—"


MEANING = {
    Outcome.CLEAR: "an error before the first evaluation that names the argument, or states that a file is invalid",
    Outcome.UNCLEAR: "an error before the first evaluation that does not name the argument",
    Outcome.LATE: "an error after the first evaluation",
    Outcome.STOPPED: "the run ended, as required, and all finished evaluations are available to the caller",
    Outcome.WORKS: "a correct answer (f ≤ 0.01, inside the bounds, and the reported value is that of the reported "
    "point)",
    Outcome.NO_SUCCESS: "a wrong answer that is reported as such: no success, an exhausted budget, a reason other "
    "than convergence; where an interface has no such report, a value that is not a number",
    Outcome.UNSAID: "a wrong answer from an interface that cannot report failure",
    Outcome.GARBAGE: "a wrong answer reported as success or convergence; or numbers of a damaged file accepted as "
    "valid",
    Outcome.LOST: "finished evaluations are missing in the result, or were repeated",
    Outcome.HANG: "no end within the time limit, although evaluations had stopped or three times the budget was used",
    Outcome.CRASH: "the process that called the library was killed by a signal or disappeared",
    Outcome.EXECUTED: "opening a data file executed code contained in it",
    Outcome.NONE: "the library has no such feature",
}
BAD = (Outcome.UNSAID, Outcome.GARBAGE, Outcome.LOST, Outcome.HANG, Outcome.CRASH, Outcome.EXECUTED)
"""Outcomes that a user notices too late, or never."""


@dataclass(frozen=True)
class Answer:
    """What a library returned, in its own terms."""

    x: Sequence[float] | None
    fun: float | None
    success: bool | None  # None: the interface has no such thing
    nfev: int | None = None
    message: str = ""


@dataclass(frozen=True)
class Raised:
    """What a library raised."""

    kind: str
    message: str
    calls: int  # of the objective, when it was raised
    kept: int | None = None  # evaluations that are in the caller's hands; None: nobody knows of any


@dataclass(frozen=True)
class Seen:
    """All that the supervisor of a case knows."""

    answer: Answer | None = None
    raised: Raised | None = None
    finished: int = 0  # evaluations
    repeated: int = 0  # of them, at a point where one was finished before the process was killed
    is_late: bool = False
    died: str = ""  # how the process ended, if not by itself
    ran_code: bool = False
    differs: bool = False  # what was read from a file is not what was written
    orphans: int = 0
    seconds: float = 0.0
    notes: str = ""


@dataclass(frozen=True)
class Rules:
    """What counts in a case."""

    words: tuple[str, ...] = ()  # an error is clear if it has one of them
    anywhere: bool = False  # every point is as good as any other
    counts: bool = False  # finished evaluations must all be in the result
    in_flight: int = 0  # but for so many that were under way when something happened
    ends: bool = False  # the run must end at the fault, and hand over what it has
    timeless: bool = False  # errors are judged alike, whenever they come: the caller evaluates
    bounds: Sequence[tuple[float, float]] | None = field(default=None)
    precision: float = 1e-9  # of the value told


def outcome(seen: Seen, rules: Rules) -> Outcome:
    """The first rule that applies, the worst first."""
    if seen.ran_code:
        return Outcome.EXECUTED
    if seen.is_late:
        return Outcome.HANG
    if seen.died:
        return Outcome.LOST if rules.ends else Outcome.CRASH
    if seen.raised is not None:
        return of_error(seen.raised, seen, rules)
    if seen.answer is None:
        return Outcome.CRASH
    if is_lost(seen, rules):
        return Outcome.LOST
    if seen.differs:
        return Outcome.GARBAGE
    return Outcome.STOPPED if rules.ends else of_answer(seen.answer, rules)


def of_error(raised: Raised, seen: Seen, rules: Rules) -> Outcome:
    """An error is judged by when it came, and by what it says or keeps."""
    if raised.calls == 0 or rules.timeless:
        is_clear = any(word in f"{raised.kind} {raised.message}".lower() for word in rules.words)
        return Outcome.CLEAR if is_clear else Outcome.UNCLEAR
    if not rules.counts:
        return Outcome.LATE
    return Outcome.STOPPED if (raised.kept or 0) + rules.in_flight >= seen.finished else Outcome.LOST


def is_lost(seen: Seen, rules: Rules) -> bool:
    """Whether the result has fewer evaluations than were finished, or had some of them made again."""
    nfev = seen.answer.nfev if seen.answer else None
    return rules.counts and (
        seen.repeated > rules.in_flight or (nfev is not None and nfev + rules.in_flight < seen.finished)
    )


def of_answer(answer: Answer, rules: Rules) -> Outcome:
    """An answer is right, or admittedly not, or neither."""
    if is_right(answer, rules):
        return Outcome.WORKS
    if answer.success is None and answer.fun is not None and np.isfinite(answer.fun):
        return Outcome.UNSAID
    return Outcome.GARBAGE if answer.success else Outcome.NO_SUCCESS


def is_right(answer: Answer, rules: Rules) -> bool:
    """Whether the point is the optimum, lies inside of the bounds, and has the value that was told."""
    x = np.asarray([] if answer.x is None else answer.x, dtype=np.float64)
    if x.shape != OPTIMUM.shape or not np.all(np.isfinite(x)) or answer.fun is None or not np.isfinite(answer.fun):
        return False
    if rules.bounds is not None and not all(
        low <= value <= high for value, (low, high) in zip(x, rules.bounds, strict=True)
    ):
        return False
    if rules.anywhere:
        return True
    return bowl(x) <= NEAR and abs(answer.fun - bowl(x)) <= rules.precision * (1 + abs(answer.fun))
