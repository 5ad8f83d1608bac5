"""Restart strategies: generators of runs that are told how many evaluations each run took."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Run:
    """A run to make: its sample size, its initial step size in units of sigma0, and how many evaluations it may take at most."""

    popsize: int
    sigma_factor: float = 1.0
    maxfevals: float = np.inf
    spares_leaders: bool = False  # whether it may take more than that once it has found a better value than all runs before


Runs = Generator[Run, int, None]
"""Yields runs; is sent the evaluations that each has taken."""


class Restarts(Protocol):
    """A strategy: which runs to make, one after the other."""

    def runs(self, popsize: int, rng: np.random.Generator) -> Runs: ...


def check_growth(restarts: int, factor: float) -> None:
    """A strategy needs a whole number of restarts, and samples that do not shrink."""
    if restarts != int(restarts) or restarts < 0:
        raise ValueError(f"`restarts` must be a whole number of at least 0, got {restarts!r}.")
    if not 1 <= factor < np.inf:
        raise ValueError(f"`factor` must be at least 1 and finite, got {factor!r}. It multiplies the sample size from run to run.")


@dataclass(frozen=True, slots=True)
class IPOP:
    """Every restart multiplies the sample size by `factor` (Auger & Hansen, CEC 2005)."""

    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        check_growth(self.restarts, self.factor)

    def runs(self, popsize: int, rng: np.random.Generator) -> Runs:
        """The first run and `restarts` more."""
        for restart in range(self.restarts + 1):
            yield Run(int(popsize * self.factor**restart))


@dataclass(frozen=True, slots=True)
class BIPOP:
    """Two regimes with equal budgets: larger and larger samples, and small ones with smaller steps (Hansen, BBOB workshop 2009).

    `restarts` counts the large runs; small runs come in between. As in the package `cma` 4, the first run belongs to the small ones, and
    small samples may be as large as the last large one: large samples come earlier, which helps where there are many minima. A small run is
    given half of what the large ones have spent, but one that leads is left to converge.
    """

    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        check_growth(self.restarts, self.factor)

    def runs(self, popsize: int, rng: np.random.Generator) -> Runs:
        """The first run, then whichever regime has spent less."""
        spent_small = yield Run(popsize)
        spent_large, doublings = 0, 0
        while doublings < self.restarts or spent_small < spent_large:
            if spent_small < spent_large:
                growth = self.factor ** (doublings * rng.random() ** 2)
                small = Run(max(int(popsize * growth), 2), 10.0 ** (-2.0 * rng.random()), max(spent_large / 2, 2.0 * popsize), True)
                spent_small += yield small
            else:
                doublings += 1
                spent_large += yield Run(int(popsize * self.factor**doublings))


@dataclass(frozen=True, slots=True)
class Once:
    """No restart."""

    def runs(self, popsize: int, rng: np.random.Generator) -> Runs:
        """One run."""
        yield Run(popsize)
