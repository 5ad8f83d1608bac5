"""The population success rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import Array, PerTrial, value_class
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import Memory
from sublevel.engine.ordering.ranks import ranking
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@value_class
class Success(Memory):
    """The values of the previous generation, and the average success."""

    values: Array  # (..., n)
    average: PerTrial  # (...,)
    age: PerTrial  # (...,), generations so far


@dataclass(frozen=True, slots=True)
class PSR(Transform):
    """Increase σ if the values of a generation rank sufficiently better than those of the previous one, else reduce it.

    Loshchilov, GECCO 2014, section 3.3: s averages (Σ ranks of the previous − Σ ranks of this generation)/n² − target
    at the rate 0.3, and σ is multiplied by exp(s/damping), damping 1. On random values the mean of s is −target, and σ
    shrinks.
    """

    needs_spectrum: ClassVar[bool] = False
    compares_generations: ClassVar[bool] = True
    target: float = 0.25
    rate: float = 0.3
    damping: float = 1.0

    def init(self, theta: Family, sample_size: int) -> Success:
        """No generation yet."""
        batch = theta.mean.shape[:-1]
        return Success(np.zeros((*batch, sample_size)), np.zeros(batch)[()], np.zeros(batch)[()])

    def __call__(self, tangent: Tangent, memory: Success, generation: Generation, /) -> tuple[Tangent, Success]:
        """The tangent with a change of scale."""
        values, size = generation.values, generation.values.shape[-1]
        both = np.concatenate([memory.values, values], axis=-1)
        ranks = ranking(both).assign_by_rank(np.arange(2 * size, dtype=np.float64), average_ties=True)
        rise = np.add.reduce(ranks[..., :size], axis=-1) - np.add.reduce(ranks[..., size:], axis=-1)
        success = np.where(memory.age > 0, rise / size**2 - self.target, 0.0)[()]
        average = memory.average + self.rate * (success - memory.average)
        return tangent.with_log_scale(average / self.damping), Success(values.copy(), average, memory.age + 1.0)
