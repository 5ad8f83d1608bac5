"""The memory of the parts of a method between generations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sublevel.engine.arrays import ONE, Array, PerTrial
from sublevel.engine.families.protocol import Move


class Memory:
    """Base class of the memory of a part: an immutable value of arrays with leading axes (...)."""

    __slots__ = ()

    def transport(self, move: Move) -> Self:
        """The memory after a step. `move.transport` maps vectors of the old whitened frame to the new one."""
        return self

    def rescale(self, factors: Array) -> Self:
        """The memory after coordinates of θ were multiplied by factors (d,). Whitened vectors do not change."""
        return self

    @property
    def pace(self) -> PerTrial:
        """Speed of the search as a fraction of its usual speed (...,); below 1 where learning rates are reduced."""
        return ONE


@dataclass(frozen=True, slots=True)
class NoMemory(Memory):
    """The memory of a part without memory."""


NO_MEMORY = NoMemory()
