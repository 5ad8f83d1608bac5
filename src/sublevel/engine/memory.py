"""What parts of a method remember between generations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sublevel.engine.arrays import Array, PerTrial
from sublevel.engine.families.protocol import Move
from sublevel.engine.tangent import ONE


class Memory:
    """Base class of what a part remembers between generations: a value of arrays with leading axes (...)."""

    __slots__ = ()

    def transport(self, move: Move) -> Self:
        """The memory after a step. Vectors of the whitened frame are taken to the new frame by `move.transport`."""
        return self

    def rescale(self, factors: Array) -> Self:
        """The memory after the coordinates of θ were multiplied by factors (d,); vectors of the whitened frame stay as they are."""
        return self

    @property
    def pace(self) -> PerTrial:
        """Speed of the search as a fraction of its usual speed (...,); below 1 where learning rates are reduced."""
        return ONE


@dataclass(frozen=True, slots=True)
class NoMemory(Memory):
    """The memory of a part that remembers nothing."""


NO_MEMORY = NoMemory()
