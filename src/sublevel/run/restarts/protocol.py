"""The interface of a restart strategy: which run to make next, as a function of the runs so far."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array

SHARE = 0.3
"""Evaluations for changes of single variables, as a part of those of the run before, at most, unless that is less than
a generation."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run to make: its sample size, initial step size in units of sigma0, and maximum number of evaluations."""

    popsize: int
    sigma_factor: float = 1.0
    maxfevals: float = np.inf
    spares_leaders: bool = False  # whether it may take more once it has found the best value of all runs
    x0: Array | None = None  # (d,), where it starts; chosen as for any restart if None
    tries_changes: bool = False  # whether it begins with at most `maxfevals` changes of single variables of the best x


class FinishedRuns:
    """The runs that ended, as requested, and the evaluations they took; 48 bytes each, as there may be many.

    Attributes
    ----------
    best_x : ndarray of shape (d,) or None
        The best point of all runs; None if no run has ended or if the variables are bits. `Run.x0` takes such a point.
    untried : int
        Changes of single variables of the best point that have not been tried; 0 if there are none that can be tried.
    returns : int
        The last consecutive runs that ended at the best point, not counting those that began with changes; 0 if no run
        begins with changes.
    """

    __slots__ = ("_numbers", "best_x", "returns", "untried")

    COLUMNS: ClassVar[int] = 6

    def __init__(self, runs: Iterable[tuple[Run, int]] = ()) -> None:
        """From runs with the evaluations they took."""
        self._numbers = array("d")
        self.best_x: Array | None = None
        self.untried = self.returns = 0
        for run, nfev in runs:
            self.append(run, nfev)

    def append(self, run: Run, nfev: int, best_x: Array | None = None, untried: int = 0, returns: int = 0) -> None:
        """Add a run that took so many evaluations, and what is known after it."""
        self.best_x, self.untried, self.returns = best_x, untried, returns
        facts = run.popsize, run.sigma_factor, run.maxfevals, run.spares_leaders, nfev, run.tries_changes
        self._numbers.extend(facts)

    def __len__(self) -> int:
        """Number of runs that ended."""
        return len(self._numbers) // self.COLUMNS

    def __getitem__(self, number: int) -> tuple[Run, int]:
        """A run and the evaluations it took."""
        row = slice(self.COLUMNS * number, self.COLUMNS * (number + 1))
        popsize, sigma_factor, maxfevals, spares_leaders, nfev, tries_changes = self._numbers[row]
        run = Run(int(popsize), sigma_factor, maxfevals, bool(spares_leaders), tries_changes=bool(tries_changes))
        return run, int(nfev)

    def copy(self) -> FinishedRuns:
        """A copy that later runs do not change."""
        other = FinishedRuns()
        other._numbers, other.best_x = self._numbers[:], self.best_x
        other.untried, other.returns = self.untried, self.returns
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

    @property
    def tries_changes(self) -> NDArray[np.bool_]:
        """Whether each run began with changes of single variables (runs,)."""
        return self._column(5) > 0


class Restarts:
    """Base class of restart strategies. The next run depends only on the runs so far and on random numbers."""

    __slots__ = ()

    tries_changes: ClassVar[bool] = False
    """Whether some of its runs begin with changes of single variables."""

    def is_answered(self, runs: FinishedRuns) -> bool:
        """Whether the runs so far have returned to the same minimum so often that no other run is to be made."""
        return False

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
