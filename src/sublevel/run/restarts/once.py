"""A single run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.run.restarts.protocol import FinishedRuns, Restarts, Run


@dataclass(frozen=True, slots=True)
class Once(Restarts):
    """No restart."""

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """One run."""
        return None if len(runs) else Run(popsize)
