"""What `minimize` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy.optimize import OptimizeResult

from sublevel import plots


class Result(OptimizeResult):
    """SciPy's OptimizeResult with pictures."""

    def plot(self, file: str | Path | None = None) -> Any:
        """The four panels of `sublevel.plots.convergence`, written to `file` if there is one; returns their axes (2, 2)."""
        return plots.convergence(self, file)

    def __dir__(self) -> list[str]:
        """What there is, for those who press the tab key."""
        return [*super().__dir__(), "plot"]
