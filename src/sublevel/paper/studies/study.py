"""A study: independent pieces of work, the findings from their data, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Scale = Literal["full", "quick", "tiny"]
"""Amount of work: for the findings, for a preview, for the tests."""
Arrays = dict[str, Any]
Data = Mapping[str, Arrays]
"""Arrays by the key of their piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of work: `compute(argument)` returns arrays."""

    key: str
    compute: Callable[[Any], Arrays]  # a function of a module, so that a process can import it
    argument: Any  # a frozen dataclass that determines the data
    cost: float  # seconds, roughly

    @property
    def config(self) -> dict[str, Any]:
        """What determines its data, apart from the code."""
        return {"key": self.key, **asdict(self.argument)}


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the work to answer it, and the answer as text."""

    name: str
    question: str
    pieces: Callable[[Scale, int], list[Piece]]  # scale and seed ↦ work
    findings: Callable[[Data], list[str]]  # lines of text
