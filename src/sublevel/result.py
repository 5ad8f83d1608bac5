"""What `minimize` returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from sublevel import plots, stop
from sublevel.optimizer import Optimizer
from sublevel.record import History


class Result(OptimizeResult):
    """SciPy's OptimizeResult with pictures."""

    def plot(self, file: str | Path | None = None) -> Any:
        """The four panels of `sublevel.plots.convergence`, written to `file` if there is one; returns their axes (2, 2)."""
        return plots.convergence(self, file)

    def __dir__(self) -> list[str]:
        """What there is, for those who press the tab key."""
        return [*super().__dir__(), "plot"]


def result_of(optimizer: Optimizer, history: History, reasons: Mapping[str, float]) -> Result:
    """All there is to say of a run at this point, in arrays of the user's own."""
    reason = next(iter(reasons), None)
    result = Result()
    result.update(
        x=optimizer.best_x.copy(),
        fun=optimizer.best_fun,
        nfev=optimizer.nfev,
        nit=optimizer.nit,
        success=reason in stop.SUCCESSES and bool(np.isfinite(optimizer.best_fun)),
        status=-1 if reason is None else stop.STATUS[reason],
        message=stop.message(reasons),
        reasons=reasons,
        restarts=optimizer.restarts,
        mean=optimizer.mean.copy(),
        cov=optimizer.cov,
        history=history,
    )
    return result
