"""What happened in a run, generation by generation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sublevel.arrays import Array


@dataclass(frozen=True, slots=True)
class History:
    """One row per generation; `arrays()` gives the columns."""

    rows: list[tuple[float, float, float, float]] = field(default_factory=list[tuple[float, float, float, float]])

    COLUMNS = ("nfev", "best", "generation_best", "deviation")

    def add(self, nfev: int, best: float, generation_best: float, deviation: float) -> None:
        """Append a generation: evaluations so far, best value so far and of this generation, largest standard deviation."""
        self.rows.append((nfev, best, generation_best, deviation))

    def arrays(self) -> dict[str, Array]:
        """Columns (nit,) by name."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(self.COLUMNS))
        return dict(zip(self.COLUMNS, table.T, strict=True))
