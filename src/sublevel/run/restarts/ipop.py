"""Restarts with larger and larger samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.run.restarts.protocol import FinishedRuns, Restarts, Run


@dataclass(frozen=True, slots=True)
class IPOP(Restarts):
    """Every restart multiplies the sample size by `factor` (Auger & Hansen, CEC 2005)."""

    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        check_growth(self.restarts, self.factor)

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """The first run and `restarts` more."""
        return Run(int(popsize * self.factor ** len(runs))) if len(runs) <= self.restarts else None


def check_growth(restarts: int, factor: float) -> None:
    """Raise an error unless the number of restarts is a whole number and samples do not shrink."""
    if restarts != int(restarts) or restarts < 0:
        raise ValueError(f"`restarts` must be a whole number of at least 0, got {restarts!r}.")
    if not 1 <= factor < np.inf:
        raise ValueError(
            f"`factor` must be at least 1 and finite, got {factor!r}. It multiplies the sample size from run to run."
        )
