"""Restart strategies: which run to make next, as a function of the runs so far."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sublevel.engine.arrays import Array


@dataclass(frozen=True, slots=True)
class Run:
    """A run to make: its sample size, initial step size in units of sigma0, and maximum number of evaluations."""

    popsize: int
    sigma_factor: float = 1.0
    maxfevals: float = np.inf
    spares_leaders: bool = False  # whether it may take more once it has found the best value of all runs
    x0: Array | None = None  # (d,), where it starts; chosen as for any restart if None


class FinishedRuns:
    """The runs that ended, as requested, and the evaluations they took; 40 bytes each, as there may be many.

    Attributes
    ----------
    best_x : ndarray of shape (d,) or None
        The best point of all runs; None if no run has ended or if the variables are bits. `Run.x0` takes such a point.
    """

    __slots__ = ("_numbers", "best_x")

    COLUMNS: ClassVar[int] = 5

    def __init__(self, runs: Iterable[tuple[Run, int]] = ()) -> None:
        """From runs with the evaluations they took."""
        self._numbers = array("d")
        self.best_x: Array | None = None
        for run, nfev in runs:
            self.append(run, nfev)

    def append(self, run: Run, nfev: int, best_x: Array | None = None) -> None:
        """Add a run that took so many evaluations, and the best point since the first run."""
        self.best_x = best_x
        self._numbers.extend((run.popsize, run.sigma_factor, run.maxfevals, run.spares_leaders, nfev))

    def __len__(self) -> int:
        """Number of runs that ended."""
        return len(self._numbers) // self.COLUMNS

    def __getitem__(self, number: int) -> tuple[Run, int]:
        """A run and the evaluations it took."""
        row = slice(self.COLUMNS * number, self.COLUMNS * (number + 1))
        popsize, sigma_factor, maxfevals, spares_leaders, nfev = self._numbers[row]
        return Run(int(popsize), sigma_factor, maxfevals, bool(spares_leaders)), int(nfev)

    def copy(self) -> FinishedRuns:
        """A copy that later runs do not change."""
        other = FinishedRuns()
        other._numbers, other.best_x = self._numbers[:], self.best_x
        return other

    def _column(self, index: int) -> Array:
        return np.array(self._numbers[index :: self.COLUMNS])

    @property
    def nfev(self) -> Array:
        """Evaluations of each run (runs,)."""
        return self._column(4)

    @property
    def spares_leaders(self) -> Array:
        """Whether each run had a budget that leaders may exceed (runs,), 0 or 1."""
        return self._column(3)


class Restarts:
    """Base class of restart strategies. The next run depends only on the runs so far and on random numbers."""

    __slots__ = ()

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """The next run, the first one if there are none so far; None if there is to be no other.

        Parameters
        ----------
        runs : FinishedRuns
            The runs so far.
        popsize : int
            The sample size that was asked for.
        rng : numpy.random.Generator
            The generator of the search.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Once(Restarts):
    """No restart."""

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """One run."""
        return None if len(runs) else Run(popsize)


@dataclass(frozen=True, slots=True)
class IPOP(Restarts):
    """Restart strategy that multiplies the sample size by `factor` at every restart (Auger & Hansen, CEC 2005).

    Parameters
    ----------
    restarts : int, optional
        Maximum number of restarts.
    factor : float, optional
        Growth of the sample size, at least 1.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.minimize(lambda x: x @ x, [1, 1], 0.5, restarts=sl.IPOP(2), ftarget=1e-8, rng=1).restarts
    0
    """

    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        check_growth(self.restarts, self.factor)

    def next_run(self, runs: FinishedRuns, popsize: int, rng: np.random.Generator) -> Run | None:
        """The first run and `restarts` more."""
        return Run(int(popsize * self.factor ** len(runs))) if len(runs) <= self.restarts else None


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
        is_small = runs.spares_leaders > 0
        is_small[0] = True
        spent_small, spent_large = float(np.sum(runs.nfev[is_small])), float(np.sum(runs.nfev[~is_small]))
        large_runs = int(np.sum(~is_small))
        if spent_small < spent_large:
            growth = self.factor ** (large_runs * rng.random() ** 2)
            budget = max(spent_large / 2, 2.0 * popsize)
            return Run(max(int(popsize * growth), 2), 10.0 ** (-2.0 * rng.random()), budget, spares_leaders=True)
        return Run(int(popsize * self.factor ** (large_runs + 1))) if large_runs < self.restarts else None


def check_growth(restarts: int, factor: float) -> None:
    """Raise an error unless the number of restarts is a whole number and samples do not shrink."""
    if restarts != int(restarts) or restarts < 0:
        raise ValueError(f"`restarts` must be a whole number of at least 0, got {restarts!r}.")
    if not 1 <= factor < np.inf:
        raise ValueError(
            f"`factor` must be at least 1 and finite, got {factor!r}. It multiplies the sample size from run to run."
        )


STRATEGIES: Mapping[str, type[Restarts]] = {"ipop": IPOP, "bipop": BIPOP}
"""Restart strategies by name."""
RestartName = Literal["ipop", "bipop"]
"""The names, for type checkers."""
