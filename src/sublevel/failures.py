"""Evaluations that failed without ending the run."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sublevel.arrays import Array

OnError = Literal["raise", "fail", "retry"]
"""What an exception in the objective does: it ends the run, counts as a failed evaluation, or does so if it comes twice."""
ATTEMPTS: dict[OnError, int] = {"raise": 1, "fail": 1, "retry": 2}
"""How often a point is tried that raises or takes too long."""
ERROR, TIMEOUT, LOST = "error", "timeout", "worker lost"
"""Kinds of failures: the objective raised, took too long, or ended its process (twice)."""
KEPT = 100
"""Failures that are kept with their points; all are counted."""


class Failure(NamedTuple):
    """How an evaluation failed, and where."""

    kind: str
    what: str
    x: Array | None = None  # (d,), or (n, d) if all points were evaluated at once

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an exception is, in one line."""
        return cls(ERROR, " ".join(f"{type(error).__name__}: {error}".split())[:200])


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

    def __len__(self) -> int:
        """All of them."""
        return self.counts.total()

    def __repr__(self) -> str:
        """How many of each kind."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common()) or "none"


def tell_about(error: BaseException, note: str | None = None, **facts: Any) -> None:
    """Attach what we know to an exception, also to one that forbids attributes; it stays the one that is raised."""
    with contextlib.suppress(Exception):
        vars(error).update(facts)
    with contextlib.suppress(Exception):
        if note is not None:
            error.add_note(note)
