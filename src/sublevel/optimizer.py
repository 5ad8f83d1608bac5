"""A thin object around method, state and generator for people who like `ask()` and `tell()`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array
from sublevel.door import checked_method, checked_popsize, checked_restarts, checked_rng, checked_values, plain_array, shown
from sublevel.families import Family, Sample
from sublevel.method import Info, Method, State
from sublevel.restarts import Run
from sublevel.space import Space
from sublevel.start import checked_beginning
from sublevel.stop import Watch
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
        method: str | Method = "cma",
        popsize: int | None = None,
        cov0: Any = None,
        bounds: Any = None,
        log_scaled: Any = False,
        restarts: Any = None,
        rng: Any = None,
    ) -> None:
        """N(x0, sigma0²·cov0) to begin with; `rng` is a seed, a Generator or None (SPEC 7). The rest is as for `minimize`."""
        self.method = checked_method(method)
        self.rng = checked_rng(rng)
        self._start = checked_beginning(self.method.family, x0, sigma0, cov0, bounds, log_scaled, self.rng)
        theta = self._start.theta(self._start.x0)
        size = checked_popsize(self.method.popsize if popsize is None else popsize, theta.dimension)
        self._runs = checked_restarts(restarts).runs(size, self.rng)
        self.nfev = self.nit = self.restarts = 0
        self.best_x = _locked(self._start.x0)
        self.best_fun = float("nan")
        self.endings: list[dict[str, float]] = []  # why earlier runs ended
        self._over: dict[str, float] = {}
        self._begin(next(self._runs), theta)

    def _begin(self, run: Run, theta: Family) -> None:
        self.run, self.popsize = run, run.popsize
        self.state = self.method.init(theta, run.popsize)
        self.watch = Watch.begun(theta, run.popsize)
        self.last: Info | None = None
        self._run_began = self.nfev
        self._pending: Sample | None = None
        self._shown: Array | None = None
        self._deviations: Array | None = None

    @property
    def theta(self) -> Family:
        """The search distribution, in the space that is searched."""
        return self.state.theta

    @property
    def space(self) -> Space | None:
        """How a point of the searched space becomes the user's; None if they are the same."""
        return self._start.space

    @property
    def mean(self) -> Array:
        """Mean of the search distribution (d,), as a point of the user's space."""
        return _locked(self._points(self.state.theta.mean[None])[0])

    @property
    def cov(self) -> Array:
        """Covariance of the search distribution (d, d), proportional to the inverse Hessian once learned; 0 for fixed variables."""
        cov, space = self.state.theta.cov, self._start.space
        if space is None or space.free.all():
            return cov
        full = np.zeros((space.free.size, space.free.size))
        full[np.ix_(space.free, space.free)] = cov
        return full

    @property
    def deviations(self) -> Array:
        """Standard deviation of each free variable (k,)."""
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
        self._shown = _locked(self._points(sample.x))
        return self._shown

    def _points(self, searched: Array) -> Array:
        return searched if self._start.space is None else self._start.space.points(searched)

    def tell(self, X: Any, values: Any) -> None:
        """Values (popsize,) of the points that were asked, in any order: `X` says whose they are. After an error they can be told again."""
        sample, shown_points = self._pending, self._shown
        if sample is None or shown_points is None:
            raise RuntimeError("`tell` needs a sample that was asked for and not yet told: call `ask()` first, and `tell` once for each.")
        values = checked_values(values, self.popsize)
        if X is not shown_points:
            values = values[_positions(X, shown_points)]
        state, info = self.method.tell(self.state, sample, values)
        self._see(state, info, values, sample.x)
        self._count(shown_points, info.ranks)

    def tell_elsewhere(self, state: State, info: Info, values: Array, points: Array, best_x: Array) -> None:
        """Step of a sample that was not asked here, with its values (popsize,), some of its search points (m, k) and the best x (d,)."""
        self._see(state, info, values, points)
        self._count(best_x[None], Ranking(np.zeros(1, dtype=np.intp), None, info.ranks.best))
        self.nfev += values.size - 1

    def _see(self, state: State, info: Info, values: Array, points: Array) -> None:
        self.state, self.last = state, info
        self._pending = self._deviations = None
        self._over = {}
        self.nit += 1
        self.watch.see(info, values, points)

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
        """Reasons to stop with the numbers they saw; empty means go on. With restarts, a run that ends makes way for the next one here."""
        if self._over or self._pending is not None or self.last is None:
            return self._over
        pace = min((float(kept.pace) for kept in self.state.memory if hasattr(kept, "pace")), default=1.0)
        reasons = self.watch.reasons(self.state.theta, self.deviations, pace)
        spent = self.nfev - self._run_began
        if not reasons and spent >= self.run.maxfevals:
            reasons = {"run_budget": float(spent)}
        if reasons:
            try:
                run = self._runs.send(spent)
            except StopIteration:
                self._over = reasons
            else:
                self.restarts += 1
                self.endings.append(reasons)
                self._begin(run, self._start.theta(self._start.point(self.rng), run.sigma_factor))
        return self._over


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
