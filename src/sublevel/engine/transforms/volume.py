"""A constant volume of the search distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import PerTrial, expand_trailing
from sublevel.engine.linalg import add_to_diagonal, cholesky
from sublevel.engine.memory import NoMemory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@dataclass(frozen=True, slots=True)
class ConstantVolume(Transform):
    """Keep the determinant of a full covariance constant: only its shape is learned. Must be the last transform."""

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent with a change of scale that compensates its change of volume."""
        log_scale = -0.5 / generation.theta.dimension * log_growth(tangent)
        return Tangent(tangent.mean, tangent.cloud, tangent.rate, log_scale, tangent.exponential), memory


def log_growth(tangent: Tangent) -> PerTrial:
    """log det(I + covariance part) (...,), or of its exponential; arbitrary where that is not positive definite."""
    matrix = expand_trailing(tangent.rate, 2) * tangent.cloud.moment
    add_to_diagonal(matrix, -tangent.rate * tangent.cloud.decay)
    if tangent.exponential:
        return np.trace(matrix, axis1=-2, axis2=-1)
    add_to_diagonal(matrix, np.ones_like(tangent.rate))
    factor, definite = cholesky(matrix)
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    return 2.0 * np.add.reduce(np.log(np.where(expand_trailing(definite, 1), diagonal, 1.0)), axis=-1)
