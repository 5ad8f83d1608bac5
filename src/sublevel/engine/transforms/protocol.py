"""The interface of a transform."""

from __future__ import annotations

from typing import Any, ClassVar

from sublevel.engine.arrays import Array, Noise, value_class
from sublevel.engine.constants import CmaConstants, cma_constants
from sublevel.engine.families.protocol import Family, Sample
from sublevel.engine.memory import NO_MEMORY, Memory
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Tangent, Weighting


@value_class
class Generation:
    """An evaluated sample. In a sharded run, the points z and x of the sample are NaN."""

    theta: Family  # the distribution that the sample was drawn from
    sample: Sample
    values: Array  # (..., n)
    ranks: Ranking
    weighting: Weighting
    _constants: CmaConstants | None = None

    @property
    def constants(self) -> CmaConstants:
        """The constants of CMA-ES for this sample, looked up once."""
        if self._constants is None:
            n, d = self.sample.z.shape[-2:]
            sample = self.sample
            self._constants = cma_constants(d, n, sample.degrees_of_freedom, sample.pairs)  # pyright: ignore[reportAttributeAccessIssue]
        return self._constants


class Transform:
    """Base class of the parts that change a tangent. A method applies its transforms in order."""

    __slots__ = ()

    needs_spectrum: ClassVar[bool] = True
    """Whether the transform uses eigenvalues of the covariance part; if not, a sharded run may not form that matrix."""
    reads_points: ClassVar[bool] = False
    """Whether the transform uses the points if the weights are not `Weights.normalized`; a sharded run has none."""
    adds_points: ClassVar[bool] = False
    """Whether the transform replaces points of a sample by `add_points` before it is evaluated."""
    compares_generations: ClassVar[bool] = False
    """Whether the transform compares values of different generations, not only within one."""
    reduces_rates: ClassVar[bool] = False
    """Whether the transform reduces learning rates, so that slow progress does not end a run."""

    def init(self, theta: Family, sample_size: int) -> Memory:
        """The memory at the start of a run."""
        return NO_MEMORY

    def add_points(self, memory: Any, theta: Family, sample: Sample, noise: Noise) -> Sample:
        """The sample from θ with some of its points replaced."""
        return sample

    def __call__(self, tangent: Tangent, memory: Any, generation: Generation, /) -> tuple[Tangent, Memory]:
        """The new tangent and the new memory."""
        raise NotImplementedError
