"""Evaluations that failed without ending the run."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from sublevel.engine.arrays import Array

OnError = Literal["raise", "nan", "retry"]
"""Effect of an exception in the objective: end the run, give the point the value NaN, or do so after a second attempt."""
ATTEMPTS: dict[OnError, int] = {"raise": 1, "nan": 1, "retry": 2}
"""How often a point is tried that raises or takes too long."""
ERROR, TIMEOUT, LOST, NAN = "error", "timeout", "worker lost", "nan"
"""Kinds of failures: the objective raised, took too long, ended its process (twice), or had no number to return."""
KEPT = 100
"""Failures that are kept with their points; all are counted."""


LONGEST = 200
"""Characters of a kind or of a text that are kept."""


def printable(text: str, longest: int = LONGEST) -> str:
    """The beginning of a text without control characters, which could do something to a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:longest])


class EvaluationFailed(Exception):
    """An exception of an objective that can say of which kind its failure is."""

    def __init__(self, kind: str, what: str = "") -> None:
        super().__init__(kind, what)
        self.kind, self.what = kind, what

    def __str__(self) -> str:
        """The kind, and what else there is to say."""
        return f"{self.kind}: {self.what}" if self.what else self.kind


class Failure(NamedTuple):
    """How an evaluation failed, and where."""

    kind: str
    what: str
    x: Array | None = None  # (d,), or (n, d) if all points were evaluated at once

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an exception is, in one line."""
        text = _text(error)
        kind, text = (error.kind, text) if isinstance(error, EvaluationFailed) else (ERROR, f"{type(error).__name__}: {text}")
        return cls(printable(" ".join(kind.split())), printable(" ".join(text.split())))


def _text(error: BaseException) -> str:
    """The beginning of what an exception says, also of one whose own `__str__` raises."""
    try:
        return str(error)[:2000]
    except Exception as own:
        return f"(its text cannot be made: {type(own).__name__})"


@dataclass(slots=True)
class Failures:
    """How many evaluations failed, by kind, and the last of them."""

    counts: Counter[str] = field(default_factory=Counter[str])
    last: deque[Failure] = field(default_factory=lambda: deque[Failure](maxlen=KEPT))

    def add(self, failure: Failure, x: Array, evaluations: int = 1) -> float:
        """Take note of a failure at x; its value is NaN."""
        self.counts[failure.kind] += evaluations
        self.last.append(failure._replace(x=x))
        return float("nan")

    def add_missing(self, points: Array, values: Array, what: str) -> None:
        """Take note of the values (n,) of points (n, d) that are NaN."""
        missing = np.isnan(values)
        if missing.any():
            self.counts[NAN] += int(np.count_nonzero(missing))
            self.last.extend(Failure(NAN, what, point) for point in points[missing][-KEPT:])

    def copy(self) -> Failures:
        """The failures so far, to which later ones are not added."""
        return Failures(self.counts.copy(), self.last.copy())

    def __len__(self) -> int:
        """All of them."""
        return self.counts.total()

    def __repr__(self) -> str:
        """How many of each kind."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common()) or "none"


def annotate_exception(error: BaseException, note: str | None = None, **facts: Any) -> None:
    """Attach what we know to an exception, also to one that forbids attributes; it stays the one that is raised."""
    with contextlib.suppress(Exception):
        vars(error).update(facts)
    with contextlib.suppress(Exception):
        if note is not None:
            error.add_note(note)
