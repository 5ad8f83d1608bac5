"""Cumulative step-size adaptation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sublevel.arrays import smaller
from sublevel.constants import cma_constants
from sublevel.tangent import Tangent
from sublevel.transforms.protocol import Generation, NoMemory, Transform


@dataclass(frozen=True, slots=True)
class CSA(Transform):
    """Longer steps while p_σ is longer than that of random steps, else shorter (Hansen, arXiv:1604.00772, eq. 44). After `Cumulation`."""

    needs_spectrum: ClassVar[bool] = False

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent with a change of scale."""
        if tangent.path is None:
            raise ValueError("`CSA` reads the step-size path: put `Cumulation()` before it in `transforms`.")
        c = cma_constants(tangent.mean.shape[-1], tangent.cloud.size, generation.theta.degrees_of_freedom)
        return tangent.with_log_scale(smaller(c.c_sigma / c.d_sigma * (tangent.path.length - 1.0), 1.0)), memory
