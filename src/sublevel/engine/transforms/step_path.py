"""The step-size path p_σ of CMA-ES and h_σ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, PerTrial, as_number, expand_trailing, value_class
from sublevel.engine.constants import CmaConstants, path_constants, selection_variance
from sublevel.engine.families.protocol import Family
from sublevel.engine.linalg import combination, inner
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import PathReading, Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@value_class
class StepPath(Memory):
    """Weighted sum of past steps of the mean, in the frame of the root."""

    path: Array  # (..., d)
    fading: PerTrial  # (...,), (1 − c_σ)^{2t}: the weight of the first step


@dataclass(frozen=True, slots=True)
class Cumulation(Transform):
    """Update p_σ and set `Tangent.path` to its length and h_σ (Hansen, arXiv:1604.00772, eq. 43 and section A).

    A step Σ wᵢzᵢ is multiplied by √µ_eff, which makes it a standard normal vector under random selection; for mirrored
    pairs, whose steps are shorter, by the factor that does the same (`selection_variance`). If some
    weights are negative, only the positive ones are used: otherwise points far from the mean with large negative
    weights would lengthen the path of a distribution that is too wide.

    Only coordinates that follow the scale count. The steps of integers that have settled are random, however wide the
    others are: among them the path of a few real variables would hardly differ from that of random selection, and the
    step size would hardly change. With n points, k of d variables are judged as in a search of these k alone.
    """

    needs_spectrum: ClassVar[bool] = False
    reads_points: ClassVar[bool] = True

    def init(self, theta: Family, sample_size: int) -> StepPath:
        """A path of length 0."""
        return StepPath(np.zeros_like(theta.mean), np.ones(theta.mean.shape[:-1])[()])

    def __call__(self, tangent: Tangent, memory: StepPath, generation: Generation, /) -> tuple[Tangent, StepPath]:
        """The tangent with the reading of the path."""
        reading, memory = self.update_path(tangent, memory, generation)
        return tangent.with_path(reading, tangent.log_scale), memory

    def update_path(self, tangent: Tangent, memory: StepPath, generation: Generation) -> tuple[PathReading, StepPath]:
        """The reading of the path after a step along the tangent, and the new path."""
        step, c = tangent.mean, generation.constants
        path = c.keep_sigma * memory.path
        path += c.gain_sigma * step if generation.weighting.mu_eff is not None else _attracting_step(c, generation)
        fading, counted = memory.fading * c.fade, generation.theta.follows_scale
        if counted is not None:
            return _read_part(path, fading, generation, counted), StepPath(path, fading)
        length = inner(path, path) ** 0.5 / c.chi
        advances = as_number(length < c.stall * (1.0 - fading) ** 0.5)
        return PathReading(length, advances, c.scale_gain), StepPath(path, fading)


def _read_part(path: Array, fading: PerTrial, generation: Generation, counted: NDArray[np.bool_]) -> PathReading:
    """The reading of a path (..., d), of which only some coordinates (..., d) are counted."""
    *_, n, d = generation.sample.z.shape
    table = path_constants(d, n, generation.theta.degrees_of_freedom, generation.sample.pairs)
    k = np.count_nonzero(counted, axis=-1)
    part = np.where(counted, path, 0.0)
    length = inner(part, part) ** 0.5 / table.chi[k]
    return PathReading(length, as_number(length < table.stall[k] * (1.0 - fading) ** 0.5), table.gain[k])


def _attracting_step(c: CmaConstants, generation: Generation) -> Array:
    """√(c_σ(2 − c_σ)·µ_eff)·Σ wᵢzᵢ (..., d) over the points with a positive weight."""
    weights = np.maximum(generation.weighting.mean, 0.0)
    squares, total = np.vecdot(weights, weights), np.add.reduce(weights, axis=-1)
    variance = selection_variance(squares, total, weights.shape[-1], generation.sample.pairs)
    gain = np.sqrt(c.c_sigma * (2.0 - c.c_sigma) / np.maximum(variance, np.finfo(np.float64).tiny))
    return expand_trailing(gain, 1) * combination(weights, generation.sample.z)
