"""Evaluations that failed without ending the run."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from sublevel.engine.arrays import Array

OnError = Literal["raise", "nan", "retry"]
"""Effect of an exception in the objective: end the run, give the point the value NaN, or try again before that."""
ATTEMPTS: dict[OnError, int] = {"raise": 1, "nan": 1, "retry": 2}
"""Number of evaluations of a point that raises or takes too long."""
ERROR, TIMEOUT, LOST, NAN = "error", "timeout", "worker lost", "nan"
"""Kinds of failures: the objective raised, took too long, ended its process (twice), or returned NaN."""
KEPT = 100
"""Number of failures that are kept with their points; all are counted."""
LONGEST = 200
"""Most characters of a kind or detail."""


def printable(text: str, longest: int = LONGEST) -> str:
    """The beginning of a text without control characters, which could change the state of a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:longest])


class EvaluationFailed(Exception):
    """An exception with which an objective reports the kind of its failure."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail

    def __str__(self) -> str:
        """The kind and the detail."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class WorkerLost(RuntimeError):
    """The workers cannot evaluate any more points."""


class Failure(NamedTuple):
    """The kind of a failed evaluation, a description and the point."""

    kind: str
    detail: str
    x: Array | None = None  # (d,), or (n, d) if all points were evaluated at once

    @classmethod
    def from_exception(cls, error: BaseException) -> Failure:
        """The failure for an exception; the text is made one line."""
        text = _text(error)
        kind, text = (
            (error.kind, text) if isinstance(error, EvaluationFailed) else (ERROR, f"{type(error).__name__}: {text}")
        )
        return cls(printable(" ".join(kind.split())), printable(" ".join(text.split())))


def _text(error: BaseException) -> str:
    """The beginning of the message of an exception, whose `__str__` may raise."""
    try:
        return str(error)[:2000]
    except Exception as own:
        return f"(its __str__ raised {type(own).__name__})"


@dataclass(slots=True)
class Failures:
    """Number of failed evaluations by kind, and the last failures."""

    counts: Counter[str] = field(default_factory=Counter[str])
    last: deque[Failure] = field(default_factory=lambda: deque[Failure](maxlen=KEPT))

    def add(self, failure: Failure, x: Array, evaluations: int = 1) -> float:
        """Record a failure at x and return its value, NaN."""
        self.counts[failure.kind] += evaluations
        self.last.append(failure._replace(x=x))
        return float("nan")

    def add_nan_values(self, points: Array, values: Array, detail: str) -> None:
        """Record the points (n, d) whose values (n,) are NaN."""
        missing = np.isnan(values)
        if missing.any():
            self.counts[NAN] += int(np.count_nonzero(missing))
            self.last.extend(Failure(NAN, detail, point) for point in points[missing][-KEPT:])

    def copy(self) -> Failures:
        """An independent copy."""
        return Failures(self.counts.copy(), self.last.copy())

    def __len__(self) -> int:
        """Number of failures."""
        return self.counts.total()

    def __repr__(self) -> str:
        """The number of failures of each kind."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common()) or "none"


def annotate_exception(error: BaseException, note: str | None = None, **facts: object) -> None:
    """Attach attributes and a note to an exception; ignored if the exception does not allow it."""
    with contextlib.suppress(Exception):
        vars(error).update(facts)
    with contextlib.suppress(Exception):
        if note is not None:
            error.add_note(note)
