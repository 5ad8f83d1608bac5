"""The rank-µ update of CMA-ES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sublevel.engine.memory import NoMemory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@dataclass(frozen=True, slots=True)
class RankMu(Transform):
    """The covariance part of the natural gradient at the rate c_µ (Hansen, arXiv:1604.00772, eq. 47); c_m = 1."""

    needs_spectrum: ClassVar[bool] = False

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent at these rates."""
        return tangent.with_covariance(tangent.cloud, generation.constants.c_mu), memory
