"""Restarts that also change single variables of the best point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublevel.run.restarts.bipop import BIPOP
from sublevel.run.restarts.protocol import SHARE, FinishedRuns, Run

CLOSE = 0.01
"""Standard deviations of a run that begins with such changes, as a part of the initial ones."""


@dataclass(frozen=True, slots=True)
class AutoRestarts(BIPOP):
    """Restart strategy for functions with many minima: BIPOP, and changes of single variables of the best point.

    Parameters
    ----------
    restarts : int, optional
        Maximum number of restarts with a larger sample; others are not counted.
    factor : float, optional
        Growth of the large samples, at least 1.
    same : int, optional
        Consecutive runs that end at the same minimum, the best one, after which there is no other run. A run that ends
        anywhere else is a reason to go on.

    Notes
    -----
    After each run, single variables of the best point are changed, near and far, and the search goes on around a better
    point. This finds the minimum of one variable after the other where the variables are nearly independent. It depends
    on the axes, while the runs of `BIPOP` do not. The changes take at most 0.3 of the evaluations of the run before,
    and each one is tried once for a best point. With `noise`, a `surrogate` or bits there are none, and it is not
    noticed whether runs end at the same minimum.

    Runs end at the same minimum if no real variable differs by more than 1e-4 initial standard deviations or, if the
    run has converged, three final ones. Values do not count, only that no point was better.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.minimize(lambda x: x @ x, [1, 1], 0.5, restarts=sl.AutoRestarts(2), ftarget=1e-8, rng=1).restarts
    0
    """

    same: int = 5

    tries_changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        BIPOP.__post_init__(self)
        if self.same != int(self.same) or self.same < 2:
            raise ValueError(f"`same` must be a whole number of at least 2, got {self.same!r}.")

    def is_answered(self, runs: FinishedRuns) -> bool:
        """Whether the last runs ended at the same minimum."""
        return runs.returns >= self.same

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """The first run; after each run changes of single variables if there are any, then the next run of BIPOP."""
        if len(runs) and runs.best_x is not None and runs.untried:
            last, nfev = runs[len(runs) - 1]
            if not last.tries_changes:
                budget = float(min(max(int(SHARE * nfev), popsize), runs.untried))
                return Run(popsize, CLOSE, budget, True, runs.best_x, tries_changes=True)
        return BIPOP.next_run(self, runs, popsize, rng)
