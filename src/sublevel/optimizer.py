"""A thin object around method, state and generator for people who like `ask()` and `tell()`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel import stop
from sublevel.arrays import Array
from sublevel.door import checked_method, checked_popsize, checked_rng, checked_start, checked_values, plain_array, shown
from sublevel.families import Family, Sample
from sublevel.method import Info, Method
from sublevel.weights import Ranking, ranking


class Optimizer:
    """Minimises by ask and tell. The arrays it shows are read-only.

    >>> import numpy as np, sublevel as sl
    >>> opt = sl.Optimizer(np.ones(4), 0.5, rng=1)
    >>> while not opt.stop():
    ...     X = opt.ask()  # (popsize, 4)
    ...     opt.tell(X, np.sum(X**2, axis=1))
    >>> bool(opt.best_fun < 1e-18)
    True
    """

    def __init__(
        self,
        x0: Any,
        sigma0: Any,
        *,
        method: str | Method = "ngd",
        popsize: int | None = None,
        cov0: Any = None,
        rng: Any = None,
    ) -> None:
        """N(x0, sigma0²·cov0) to begin with; `rng` is a seed, a Generator or None (SPEC 7)."""
        self.method = checked_method(method)
        theta = checked_start(self.method.family, x0, sigma0, cov0)
        self.popsize = checked_popsize(self.method.popsize if popsize is None else popsize, theta.dimension)
        self.rng = checked_rng(rng)
        self.state = self.method.init(theta, self.popsize)
        self.nfev = self.nit = 0
        self.best_x = _locked(theta.mean)
        self.best_fun = float("nan")
        self.last: Info | None = None
        self._initial_deviations = _locked(theta.deviations)
        self._deviations: Array | None = None
        self._pending: Sample | None = None
        self._standstill: str | None = None
        self._standing_for = 0

    @property
    def theta(self) -> Family:
        """The search distribution."""
        return self.state.theta

    @property
    def mean(self) -> Array:
        """Mean of the search distribution (d,)."""
        return _locked(self.state.theta.mean)

    @property
    def cov(self) -> Array:
        """Covariance of the search distribution (d, d), proportional to the inverse Hessian once learned."""
        return self.state.theta.cov

    @property
    def deviations(self) -> Array:
        """Standard deviation of each variable (d,)."""
        if self._deviations is None:
            self._deviations = _locked(self.state.theta.deviations)
        return self._deviations

    @property
    def generation_best(self) -> float:
        """Best value of the last sample told; NaN if there is none."""
        return float("nan") if self.last is None else float(self.last.ranks.best)

    def ask(self) -> Array:
        """Points to evaluate (popsize, d), read-only; an earlier sample that was not told is forgotten."""
        self._pending = sample = self.method.ask(self.state, self.rng, self.popsize)
        return _locked(sample.x)

    def tell(self, X: Any, values: Any) -> None:
        """Values (popsize,) of the points that were asked, in any order: `X` says whose they are. After an error they can be told again."""
        sample = self._pending
        if sample is None:
            raise RuntimeError("`tell` needs a sample that was asked for and not yet told: call `ask()` first, and `tell` once for each.")
        values = checked_values(values, self.popsize)
        if X is not sample.x:
            values = values[_positions(X, sample.x)]
        self.state, info = self.method.tell(self.state, sample, values)
        self._pending = self._deviations = None
        self.last = info
        self.nit += 1
        self._count(sample.x, info.ranks)
        standstill = stop.standstill(info.outcome, sample.x) if info.outcome else None
        self._standing_for = self._standing_for + 1 if standstill == self._standstill else 1
        self._standstill = standstill

    def note(self, points: Array, values: Array) -> None:
        """Count evaluations and keep the best point, without a step."""
        if values.size:
            self._count(points, ranking(values))

    def _count(self, points: Array, ranks: Ranking) -> None:
        self.nfev += ranks.order.size
        best = ranks.best
        if not self.best_fun <= best and best == best:  # the first value, or a better one; never NaN
            self.best_fun = float(best)
            self.best_x = _locked(points[ranks.order[0]].copy())

    def stop(self) -> dict[str, float]:
        """Reasons to stop with the numbers they saw; empty means go on."""
        if self.nit == 0:
            return {}
        reasons = stop.converged(self.state.theta.mean, self.deviations, self._initial_deviations)
        if not reasons and self._standstill is not None and self._standing_for >= stop.PATIENCE[self._standstill]:
            reasons = {self._standstill: float(self._standing_for)}
        return reasons


def _locked(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _positions(X: Any, asked: Array) -> NDArray[np.intp] | slice:
    """For each asked point the row of X it is told in; the rows of X must be the asked ones, in any order."""
    told = plain_array("X", X)
    if told.shape != asked.shape:
        raise ValueError(f"`X` must be the points that were asked, shape {asked.shape}, got shape {told.shape}.")
    if told.dtype.kind not in "fiub":
        raise TypeError(f"`X` must be the points that were asked, got {shown(X)} (dtype {told.dtype}).")
    if np.array_equal(told, asked):
        return slice(None)
    rows: dict[bytes, list[int]] = {}
    for row, point in enumerate(told.astype(np.float64) + 0.0):  # + 0.0 turns −0.0 into 0.0
        rows.setdefault(point.tobytes(), []).append(row)
    positions = [matching.pop(0) if (matching := rows.get(point.tobytes())) else -1 for point in asked + 0.0]
    if missing := positions.count(-1):
        raise ValueError(
            f"`X` must be the points that were asked: {missing} of {len(asked)} are missing, "
            f"such as {shown(asked[positions.index(-1)])}. Tell the value of a repaired point under the point that was asked."
        )
    return np.array(positions)
