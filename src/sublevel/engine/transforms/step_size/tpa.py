"""Two-point step-size adaptation."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import Array, Noise, PerTrial, expand_trailing, value_class
from sublevel.engine.families.protocol import Family, Move, Sample
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@value_class
class TwoPoints(Memory):
    """The previous step of the mean, and the average rank difference of the two points."""

    step: Array  # (..., d), in the whitened frame; 0 before the first step
    average: PerTrial  # (...,)

    def transport(self, move: Move) -> TwoPoints:
        """The step in the new frame."""
        return TwoPoints(move.transport(self.step), self.average)


@dataclass(frozen=True, slots=True)
class TPA(Transform):
    """Evaluate a point on each side of the mean along its previous step; increase σ if the one ahead is better, else
    reduce it.

    The two points replace the first two of a sample, at the distance from the mean of the first one. Hansen, Atamna &
    Auger, PPSN 2014; constants of Akimoto & Hansen, GECCO 2016, Table 1: c_σ = 0.3, d_σ = √d.
    """

    needs_spectrum: ClassVar[bool] = False
    adds_points: ClassVar[bool] = True
    rate: float = 0.3

    def init(self, theta: Family, sample_size: int) -> TwoPoints:
        """No step yet."""
        return TwoPoints(np.zeros_like(theta.mean), np.zeros(theta.mean.shape[:-1])[()])

    def add_points(self, memory: TwoPoints, theta: Family, sample: Sample, noise: Noise) -> Sample:
        """The sample, with its first two points along the previous step."""
        z, step = sample.z, memory.step
        first = z[..., 0, :]
        square = np.vecdot(step, step)
        has_step = square > 0.0
        factor = np.sqrt(np.vecdot(first, first) / np.where(has_step, square, 1.0))
        ahead = np.where(expand_trailing(has_step, 1), expand_trailing(factor, 1) * step, first)
        behind = np.where(expand_trailing(has_step, 1), -ahead, z[..., 1, :])
        pair = np.stack([ahead, behind], axis=-2)
        return theta.sample_at(np.concatenate([pair, z[..., 2:, :]], axis=-2), sample.choices)

    def __call__(self, tangent: Tangent, memory: TwoPoints, generation: Generation, /) -> tuple[Tangent, TwoPoints]:
        """The tangent with a change of scale."""
        size, d = generation.values.shape[-1], tangent.mean.shape[-1]
        ranks = generation.ranks.assign_by_rank(np.arange(size, dtype=np.float64), average_ties=True)
        lead = (ranks[..., 1] - ranks[..., 0]) / (size - 1.0)
        average = memory.average + self.rate * (np.where(np.any(memory.step, axis=-1), lead, 0.0)[()] - memory.average)
        return tangent.with_log_scale(average / sqrt(d)), TwoPoints(tangent.mean, average)
