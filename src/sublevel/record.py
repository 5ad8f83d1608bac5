"""What happened in a run, generation by generation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sublevel.arrays import Array

Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """One row per generation; `history["best"]` is a column.

    >>> history = History()
    >>> history.add(nfev=8, best=1.5, generation_best=1.5, deviation=0.3)
    >>> history["best"]
    array([1.5])
    """

    rows: list[Row] = field(default_factory=list[Row])

    COLUMNS = ("nfev", "best", "generation_best", "deviation")

    def add(self, nfev: int, best: float, generation_best: float, deviation: float) -> None:
        """Append a generation: evaluations so far, best value so far and of this generation, largest standard deviation."""
        self.rows.append((nfev, best, generation_best, deviation))

    def __repr__(self) -> str:
        """Short, because a result shows it."""
        return f"History({len(self.rows)} generations of {', '.join(self.COLUMNS)})"

    def __len__(self) -> int:
        """Generations so far."""
        return len(self.rows)

    def __getitem__(self, column: str) -> Array:
        """The column (nit,) of that name."""
        return self.arrays()[column]

    def arrays(self) -> dict[str, Array]:
        """Columns (nit,) by name."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(self.COLUMNS))
        return dict(zip(self.COLUMNS, table.T, strict=True))
