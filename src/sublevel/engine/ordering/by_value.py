"""The interface of an ordering, and the ordering by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import NO_MEMORY
from sublevel.engine.ordering.ranks import Ranking, ranking


class Ordering:
    """Base class of the rules that rank the points of a sample."""

    __slots__ = ()

    def init(self, theta: Family, sample_size: int, constraints: int = 0) -> Any:
        """The memory at the start of a run with a number of constraints, a `Memory`.

        A memory per constraint has to know their number before the first step: the arrays of a state keep their shapes,
        also in a batch in which some trials do not move.
        """
        return NO_MEMORY

    def __call__(self, values: Array, constraints: Array | None, memory: Any, /) -> tuple[Ranking, Any]:
        """The ranking of points with values (..., n) and constraint values (..., n, m), and the new memory."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ByValue(Ordering):
    """Rank by value, the lowest first and NaN last. Constraint values are ignored."""

    def __call__(self, values: Array, constraints: Array | None, memory: Any, /) -> tuple[Ranking, Any]:
        """The ranking of the values."""
        return ranking(values), memory


BY_VALUE = ByValue()
