"""Restarts with larger and larger samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.run.restarts.protocol import FinishedRuns, Restarts, Run


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


def check_growth(restarts: int, factor: float) -> None:
    """Raise an error unless the number of restarts is a whole number and samples do not shrink."""
    if restarts != int(restarts) or restarts < 0:
        raise ValueError(f"`restarts` must be a whole number of at least 0, got {restarts!r}.")
    if not 1 <= factor < np.inf:
        raise ValueError(
            f"`factor` must be at least 1 and finite, got {factor!r}. It multiplies the sample size from run to run."
        )
