"""Cumulative step-size adaptation."""

from __future__ import annotations

from dataclasses import dataclass

from sublevel.engine.arrays import minimum
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation
from sublevel.engine.transforms.step_path import Cumulation, StepPath


@dataclass(frozen=True, slots=True)
class CSA(Cumulation):
    """Increase σ if p_σ is longer than under random selection, else reduce it (Hansen, arXiv:1604.00772, eq. 44)."""

    def __call__(self, tangent: Tangent, memory: StepPath, generation: Generation, /) -> tuple[Tangent, StepPath]:
        """The tangent with the reading of the path and a change of scale."""
        reading, memory = self.update_path(tangent, memory, generation)
        return tangent.with_path(reading, minimum(reading.gain * (reading.length - 1.0), 1.0)), memory
