"""A study: independent units of work, the findings from their data, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sublevel.paper.cache import Arrays
from sublevel.paper.runner import Work

Scale = Literal["full", "quick", "tiny"]
"""Amount of work: for the findings, for a preview, for the tests."""
Data = Mapping[Work, Arrays]
"""Arrays by unit of work."""


@dataclass(frozen=True, slots=True)
class Study:
    """The work of a study, and its result as text."""

    name: str
    works: Callable[[Scale, int], Sequence[Work]]  # of a scale and a seed
    findings: Callable[[Data], list[str]]  # lines of text
