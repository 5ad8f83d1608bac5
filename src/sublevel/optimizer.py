"""A thin object around method, state and generator for people who like `ask()` and `tell()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sublevel import stop
from sublevel.arrays import Array
from sublevel.door import checked_method, checked_popsize, checked_start, checked_values
from sublevel.families import Family, Sample
from sublevel.method import Info, Method, Outcome

TOLX = 1e-11
"""A run has converged when every standard deviation is this fraction of its initial one."""


class Optimizer:
    """Minimises by ask and tell.

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
        self.rng = np.random.default_rng(rng)
        self.state = self.method.init(theta, self.popsize)
        self.nfev = self.nit = 0
        self.best_x: Array = theta.mean
        self.best_fun = float("nan")
        self.last: Info | None = None
        self._initial_deviations = theta.deviations
        self._pending: Sample | None = None
        self._stuck_for = 0

    @property
    def theta(self) -> Family:
        """The search distribution."""
        return self.state.theta

    @property
    def mean(self) -> Array:
        """Mean of the search distribution (d,)."""
        return self.state.theta.mean

    @property
    def cov(self) -> Array:
        """Covariance of the search distribution (d, d), proportional to the inverse Hessian once learned."""
        return self.state.theta.cov

    @property
    def deviations(self) -> Array:
        """Standard deviation of each variable (d,)."""
        return self.state.theta.deviations

    def ask(self) -> Array:
        """Points to evaluate (popsize, d), read-only; an earlier sample that was not told is forgotten."""
        self._pending = sample = self.method.ask(self.state, self.rng, self.popsize)
        sample.x.setflags(write=False)
        return sample.x

    def tell(self, X: Any, values: Any) -> None:
        """Values (popsize,) of the points that were asked, in any order: `X` says whose they are."""
        if self._pending is None:
            raise RuntimeError("`tell` needs a sample that was asked for and not yet told: call `ask()` first, and `tell` once for each.")
        sample = self._pending
        values = checked_values(values, self.popsize)
        if X is not sample.x:
            values = values[_positions(np.asarray(X), sample.x)]
        self._pending = None
        self.state, self.last = self.method.tell(self.state, sample, values)
        self._remember(sample, values, self.last)

    def _remember(self, sample: Sample, values: Array, info: Info) -> None:
        stayed = info.outcome != Outcome.MOVED
        self._stuck_for = self._stuck_for + 1 if stayed else 0
        self.nit += 1
        self.note(sample.x, values)

    def note(self, points: Array, values: Array) -> None:
        """Count evaluations and keep the best point, without a step."""
        self.nfev += len(values)
        index = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
        if not self.best_fun <= values[index] and not np.isnan(values[index]):
            self.best_fun, self.best_x = float(values[index]), points[index].copy()

    def stop(self) -> dict[str, float]:
        """Reasons to stop with the numbers they saw; empty means go on."""
        if self.last is None:
            return {}
        reasons = stop.stuck({Outcome(self.last.outcome): self._stuck_for})
        return reasons or stop.converged(self.theta, self._initial_deviations, TOLX)


def _positions(told: Array, asked: Array) -> Any:
    """For each asked point the row it is told in; the told rows must be the asked ones, in any order."""
    if told.shape != asked.shape:
        raise ValueError(f"`tell` needs the points that were asked, shape {asked.shape}, got shape {told.shape}.")
    if np.array_equal(told, asked):
        return slice(None)
    rows: dict[bytes, list[int]] = {}
    for row, point in enumerate(np.ascontiguousarray(told, dtype=np.float64)):
        rows.setdefault(point.tobytes(), []).append(row)
    found = [rows.get(point.tobytes(), []) for point in np.ascontiguousarray(asked)]
    if not all(found):
        missing = sum(not row for row in found)
        raise ValueError(
            f"`tell` got points that were not asked: {missing} of the {len(asked)} asked points are missing. Tell a repaired point under the point that was asked."
        )
    return [row.pop(0) for row in found]
