"""Cumulative step-size adaptation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sublevel.engine.arrays import minimum
from sublevel.engine.memory import NoMemory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@dataclass(frozen=True, slots=True)
class CSA(Transform):
    """Increase σ if p_σ is longer than expected under random selection, else reduce it (Hansen, arXiv:1604.00772, eq.
    44).
    """

    needs_spectrum: ClassVar[bool] = False

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent with a change of scale."""
        if tangent.path is None:
            raise ValueError("`CSA` reads the step-size path: put `Cumulation()` before it in `transforms`.")
        c = generation.constants
        return tangent.with_log_scale(minimum(c.c_sigma / c.d_sigma * (tangent.path.length - 1.0), 1.0)), memory
