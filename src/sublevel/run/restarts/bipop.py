"""Restarts with large samples and with small ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sublevel.run.restarts.ipop import check_growth
from sublevel.run.restarts.protocol import FinishedRuns, Restarts, Run


@dataclass(frozen=True, slots=True)
class BIPOP(Restarts):
    """Restart strategy with two regimes of equal budgets: larger and larger samples, and small ones with smaller steps
    (Hansen, BBOB workshop 2009).

    Parameters
    ----------
    restarts : int, optional
        Maximum number of restarts with a larger sample; those with a small one are not counted.
    factor : float, optional
        Growth of the large samples, at least 1.

    Notes
    -----
    As in the package `cma` 4, the first run counts as a small one, and small samples may be as large as the last large
    one. Large samples therefore come earlier, which helps on functions with many minima. The budget of a small run is
    half of the evaluations of the large ones, but a run that has found the best value so far continues until it
    converges.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.minimize(lambda x: x @ x, [1, 1], 0.5, restarts=sl.BIPOP(2), ftarget=1e-8, rng=1).restarts
    0
    """

    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        check_growth(self.restarts, self.factor)

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """The first run, then whichever regime has spent less."""
        if not len(runs):
            return Run(popsize)
        is_small, is_large = regimes(runs)
        spent_small, spent_large = float(np.sum(runs.nfev[is_small])), float(np.sum(runs.nfev[is_large]))
        large_runs = int(np.sum(is_large))
        if spent_small < spent_large:
            growth = self.factor ** (large_runs * rng.random() ** 2)
            budget = max(spent_large / 2, 2.0 * popsize)
            return Run(max(int(popsize * growth), 2), 10.0 ** (-2.0 * rng.random()), budget, spares_leaders=True)
        return Run(int(popsize * self.factor ** (large_runs + 1))) if large_runs < self.restarts else None


def regimes(runs: FinishedRuns) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which runs had a small sample and which a large one (runs,); those that began with changes are neither."""
    is_small = runs.spares_leaders > 0
    is_small[0] = True
    return is_small & ~runs.tries_changes, ~is_small
