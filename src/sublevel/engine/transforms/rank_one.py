"""The rank-one update of CMA-ES along the covariance path p_c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import ONE, Array, expand_trailing, value_class
from sublevel.engine.families.protocol import Family, Move
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import PathReading, Tangent, is_thin
from sublevel.engine.transforms.protocol import Generation, Transform

ALWAYS = PathReading(ONE, ONE, 0.0)
"""The reading if there is no step-size path: h_σ = 1."""


@value_class
class CovariancePath(Memory):
    """Weighted sum of past steps of the mean, a vector of the whitened frame."""

    path: Array  # (..., d)
    image: Array | None  # (..., d), the root times the path, if images are kept

    def transport(self, move: Move) -> CovariancePath:
        """The path in the new frame. Its image changes by the unit only."""
        image = None if self.image is None else self.image / expand_trailing(move.stretch, 1)
        return CovariancePath(move.transport(self.path), image)

    def rescale(self, factors: Array) -> CovariancePath:
        """Multiply the image by the factors (d,)."""
        return self if self.image is None else CovariancePath(self.path, factors * self.image)


@dataclass(frozen=True, slots=True)
class RankOne(Transform):
    """Add c_1·p_c p_cᵀ to the covariance part (Hansen, arXiv:1604.00772, eqs. 45 and 47). Must come after `RankMu`.

    While the step-size path is too long (h_σ = 0) no step is added to p_c, and the decay is reduced to compensate for
    the missing variance.
    """

    needs_spectrum: ClassVar[bool] = False

    def init(self, theta: Family, sample_size: int) -> CovariancePath:
        """A path of length 0."""
        zero = np.zeros_like(theta.mean)
        return CovariancePath(zero, theta.images(zero) if is_thin(sample_size, theta.dimension) else None)

    def __call__(
        self, tangent: Tangent, memory: CovariancePath, generation: Generation, /
    ) -> tuple[Tangent, CovariancePath]:
        """The tangent with the path added to its covariance part."""
        cloud, step = tangent.cloud, tangent.mean
        c = generation.constants
        advances = (tangent.path or ALWAYS).advances
        stalls = advances is not ONE
        gain = expand_trailing(c.gain_c * advances, 1) if stalls else c.gain_c
        path = c.keep_c * memory.path
        path += gain * step
        image = None
        if memory.image is not None and tangent.mean_image is not None:
            image = c.keep_c * memory.image + gain * tangent.mean_image
        decay = tangent.rate * cloud.decay + c.c_1
        if stalls:
            decay = decay - c.c_1_stalled * (1.0 - advances)
        with_path = cloud.add_vector(tangent.rate, path, c.c_1, decay, image)
        return tangent.with_covariance(with_path, ONE), CovariancePath(path, image)
