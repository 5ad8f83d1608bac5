"""The interface of a transform: what it is given, what it returns and what it may remember."""

from __future__ import annotations

from typing import Any, ClassVar

from sublevel.engine.arrays import Array, value_class
from sublevel.engine.families.protocol import Family, Sample
from sublevel.engine.memory import NO_MEMORY
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Tangent, Weighting


@value_class
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
