"""The interface of an ordering, and the ordering by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import NO_MEMORY, Memory
from sublevel.engine.ordering.ranks import Ranking, ranking


class Ordering:
    """Base class of the rules that rank the points of a sample."""

    __slots__ = ()

    two_sided_equalities: ClassVar[bool] = False  # whether h(x) = 0 has to be two inequalities, which are smooth

    def init(self, theta: Family, sample_size: int, constraints: int = 0) -> Memory:
        """The memory at the start of a run with a number of constraints.

        Its arrays have their final shapes: a state before the first step must have the same form as one after it,
        also in a batch in which some trials do not move.
        """
        return NO_MEMORY

    def __call__(self, values: Array, constraints: Array | None, memory: Any, /) -> tuple[Ranking, Memory]:
        """The ranking of points with values (..., n) and constraint values (..., n, m), and the new memory.

        Any numbers may be passed to `ranking`: `Method.rank` sets the best value to that of the best point.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ByValue(Ordering):
    """Rank by value, the lowest first and NaN last. Constraint values are ignored."""

    def __call__(self, values: Array, constraints: Array | None, memory: Memory, /) -> tuple[Ranking, Memory]:
        """The ranking of the values."""
        return ranking(values), memory


BY_VALUE = ByValue()
