"""The interface of a transform: what it is given, what it returns and what it may remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sublevel.arrays import Array, PerTrial, value
from sublevel.families.protocol import Family, Move, Sample
from sublevel.tangent import ONE, Tangent, Weighting
from sublevel.weights.ranking import Ranking


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


@value
class Generation:
    """An evaluated sample, as transforms see it. In a sharded run, the points z and x of the sample are NaN."""

    theta: Family  # that the sample was drawn from
    sample: Sample
    values: Array  # (..., n)
    ranks: Ranking
    weighting: Weighting


class Transform:
    """Base class of the parts that scale a tangent or add what they remember. The parts of a method are applied in their order."""

    __slots__ = ()

    needs_spectrum: ClassVar[bool] = True
    """Whether the eigenvalues of the covariance part are read; a sharded run need not form that matrix otherwise."""
    reads_points: ClassVar[bool] = False
    """Whether the points of a sample are read if its weights are not `Weights.normalized`; a sharded run does not have them."""
    adds_points: ClassVar[bool] = False
    """Whether `add_points` changes a sample before it is evaluated."""
    reduces_rates: ClassVar[bool] = False
    """Whether learning rates are reduced under noise, so that slow progress is no reason to stop."""

    def init(self, theta: Family, sample_size: int) -> Any:
        """The memory at the start of a run: a `Memory`."""
        return NO_MEMORY

    def add_points(self, memory: Any, z: Array) -> Array:
        """The whitened points (..., n, d) of a sample, some of them replaced."""
        return z

    def __call__(self, tangent: Tangent, memory: Any, generation: Generation, /) -> tuple[Tangent, Any]:
        """The changed tangent and the memory for the next generation."""
        raise NotImplementedError
