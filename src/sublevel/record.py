"""What happened in a run: a row of numbers for every generation, and the search distribution now and then."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array
from sublevel.families import Family, FullGaussian

if TYPE_CHECKING:
    from sublevel.optimizer import Optimizer

SNAPSHOTS = (16, 256)
"""How many snapshots are kept at least and at most."""
SNAPSHOT_FLOATS = 1_000_000
"""Numbers that all snapshots together may hold, unless that is fewer snapshots than the least: 8 MB."""


class Snapshot(NamedTuple):
    """The search distribution after some evaluations."""

    nfev: int
    run: int  # 0 is the first, then the restarts
    theta: Family


class RunSummary(NamedTuple):
    """One of the runs that restarts are made of."""

    rows: slice  # of the history
    popsize: int
    fun: float  # best value of this run, NaN if there is none
    reasons: Mapping[str, float]  # why it ended; empty if it goes on


class Trace(NamedTuple):
    """The snapshots as arrays: s snapshots, d variables, k of them free."""

    nfev: NDArray[np.int_]  # (s,)
    run: NDArray[np.int_]  # (s,)
    mean: Array  # (s, d), in the user's space
    deviations: Array  # (s, k), of ln x where a variable is log-scaled
    axes: Array  # (s, k), standard deviations along the principal axes, the longest first

    @property
    def sigma(self) -> Array:
        """Overall step size (s,): the geometric mean of the principal axes, det(C)^{1/2k}."""
        return np.exp(np.mean(np.log(self.axes), axis=1))

    @property
    def axis_ratio(self) -> Array:
        """Longest over shortest principal axis (s,)."""
        return self.axes[:, 0] / self.axes[:, -1]


class History:
    """One row per generation; `history["best"]` is a column, and `history.trace()` shows how the search distribution went.

    `minimize` keeps one. With `ask` and `tell`, call `see` after each `tell`:

    >>> import numpy as np, sublevel as sl
    >>> opt = sl.Optimizer(np.ones(4), 0.5, rng=1)
    >>> history = sl.History(opt)
    >>> for _ in range(10):
    ...     X = opt.ask()
    ...     opt.tell(X, np.sum(X**2, axis=1))
    ...     history.see(opt)
    >>> history["nfev"][:3]
    array([ 8., 16., 24.])
    >>> history.trace().mean.shape  # at the start and after each generation
    (11, 4)
    """

    COLUMNS = ("nfev", "best", "generation_best", "deviation")

    def __init__(self, optimizer: Optimizer) -> None:
        """The history of an optimizer from now on."""
        theta = optimizer.theta
        floats = theta.dimension * (theta.dimension if isinstance(theta, FullGaussian) else 2)
        self.space = optimizer.space
        self.snapshots = [Snapshot(optimizer.nfev, 0, theta)]
        self._most = int(np.clip(SNAPSHOT_FLOATS // floats, *SNAPSHOTS))
        self._next = self._stride = 0  # evaluations until the next snapshot, and between two
        self._numbers = array("d")
        self._begins = [(0, optimizer.popsize)]  # first row and sample size of each run
        self._endings: list[Mapping[str, float]] = []

    def see(self, done: Optimizer) -> None:
        """Take note of the generation that was just told: evaluations, best value so far and of it, largest standard deviation."""
        if done.restarts >= len(self._begins):
            self._begins.append((len(self), done.popsize))
            self._endings = list(done.endings)
        self._numbers.extend((done.nfev, done.best_fun, done.generation_best, float(np.maximum.reduce(done.deviations))))
        if done.nfev >= self._next:
            self.snapshots.append(Snapshot(done.nfev, len(self._begins) - 1, done.theta))
            if len(self.snapshots) > self._most:
                self.snapshots[1:] = self.snapshots[2::2]
                self._stride = 2 * done.nfev // self._most
            self._next = done.nfev + self._stride

    def end(self, done: Optimizer, reasons: Mapping[str, float]) -> None:
        """Take note of how it ended."""
        self._endings = [*done.endings, reasons]
        same_run = done.restarts < len(self._begins)
        if same_run and len(self) and self.snapshots[-1].nfev < self._numbers[-len(self.COLUMNS)]:
            self.snapshots.append(Snapshot(done.nfev, done.restarts, done.theta))

    def __repr__(self) -> str:
        """Short, because a result shows it."""
        return f"History({len(self)} generations of {', '.join(self.COLUMNS)})"

    def __len__(self) -> int:
        """Generations so far."""
        return len(self._numbers) // len(self.COLUMNS)

    def __getitem__(self, column: str) -> Array:
        """The column (nit,) of that name."""
        return self.arrays()[column]

    def arrays(self) -> dict[str, Array]:
        """Columns (nit,) by name."""
        table = np.array(self._numbers, dtype=np.float64).reshape(-1, len(self.COLUMNS))
        return dict(zip(self.COLUMNS, table.T, strict=True))

    @property
    def runs(self) -> list[RunSummary]:
        """The runs so far, each with its best value and why it ended."""
        values = self["generation_best"]
        ends = [row for row, _ in self._begins[1:]] + [len(self)]
        endings: list[Mapping[str, float]] = [*self._endings, {}]
        return [
            RunSummary(slice(row, end), popsize, float(np.fmin.reduce(values[row:end], initial=np.nan)), reasons)
            for (row, popsize), end, reasons in zip(self._begins, ends, endings, strict=False)
        ]

    def trace(self) -> Trace:
        """The snapshots as arrays."""
        thetas = [snapshot.theta for snapshot in self.snapshots]
        mean = np.array([theta.mean for theta in thetas])
        return Trace(
            nfev=np.array([snapshot.nfev for snapshot in self.snapshots]),
            run=np.array([snapshot.run for snapshot in self.snapshots]),
            mean=mean if self.space is None else self.space.points(mean),
            deviations=np.array([theta.deviations for theta in thetas]),
            axes=np.array([principal_axes(theta) for theta in thetas]),
        )


def principal_axes(theta: Family) -> Array:
    """Standard deviations along the principal axes (k,), the longest first."""
    if isinstance(theta, FullGaussian):
        return theta.scale * np.linalg.svd(theta.root, compute_uv=False)
    return np.sort(theta.deviations)[::-1]
