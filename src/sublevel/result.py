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
    """All there is to say of a run at this point, in arrays of the user's own; with restarts, of the run that found the best point."""
    reason, theta = next(iter(reasons), None), optimizer.theta_of_best
    ending = optimizer.ending_of_best(reasons)
    result = Result()
    result.update(
        x=optimizer.best_x.copy(),
        fun=optimizer.best_fun,
        nfev=optimizer.nfev,
        nit=optimizer.nit,
        success=bool(reasons) and not stop.SUCCESSES.isdisjoint(ending) and bool(np.isfinite(optimizer.best_fun)),
        status=-1 if reason is None else stop.STATUS[reason],
        message=stop.message(reasons) + ("" if ending is reasons else f"; `x` is from run {optimizer.best_run}: {stop.message(ending)}"),
        reasons=reasons,
        restarts=max(history.last_run, optimizer.best_run),
        mean=optimizer.start.mean(theta),
        cov=optimizer.start.cov(theta),
        history=history,
    )
    return result
