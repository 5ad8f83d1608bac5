"""The state of a run as one frozen value, which with the state of the generator determines the rest of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sublevel.engine.arrays import Array, read_only, value_class
from sublevel.engine.families import Family
from sublevel.engine.method import Method, State
from sublevel.engine.ordering import Ranking
from sublevel.run.restarts import Run
from sublevel.run.sweep import Sweep
from sublevel.run.termination import Standing

if TYPE_CHECKING:
    from sublevel.surrogate.control import Surrogate


@value_class
class Lowest:
    """The points of a run with the lowest values, the lowest first."""

    points: Array  # (m, d)
    values: Array  # (m,), infinite where there is no point yet
    evaluations: int = 0  # of the run

    @classmethod
    def none(cls, count: int, x0: Array) -> Lowest:
        """Room for a number of points, without any."""
        return cls(np.repeat(x0[None], count, axis=0), np.full(count, np.inf))

    def after(self, points: Array, values: Array) -> Lowest:
        """The lowest ones after points (n, d) with values (n,). NaN is never among them."""
        every = np.concatenate([self.values, values])
        order = np.argsort(every, kind="stable")[: self.values.size]
        count = self.evaluations + values.size
        return Lowest(np.concatenate([self.points, points])[order], every[order], count)

    @property
    def is_full(self) -> bool:
        """Whether all points are known."""
        return bool(self.values[-1] < np.inf)


@value_class
class Best:
    """The best point so far."""

    x: Array  # (d,); the start if there is no value yet
    fun: float  # NaN if there is none yet
    run: int  # that found it, 0 for the first one
    theta: Family | None = None  # where that run ended; None if it is the current one
    violation: float = 0.0  # the largest inequality that the search handles, 0 if all are satisfied
    constraints: Array | None = None  # (k,), its constraint values
    lowest: Lowest | None = None  # of a noisy objective: those of its run, if their average may be the answer
    tried: int = 0  # changes of its single variables that were tried in vain
    returns: int = 0  # consecutive runs that ended there, but for those that began with changes

    def after(self, points: Array, ranks: Ranking, run: int) -> Best:
        """The best point after points (n, d) of a run, or the best of them (1, d). NaN is never the best."""
        best = float(ranks.best)
        if self.fun <= best or best != best:
            return self
        return Best(read_only(points[ranks.order.item(0) if len(points) > 1 else 0].copy()), best, run)

    def after_constrained(self, points: Array, values: Array, constraints: Array, g: Array, run: int) -> Best:
        """The best point after points (n, d) of a run with constraint values (n, k) and inequalities (n, m).

        A feasible point is better than an infeasible one; of two infeasible ones, the one with the smaller violation.
        """
        violations = np.max(g, axis=1, initial=0.0)
        known = np.flatnonzero(~(np.isnan(values) | np.isnan(violations)))
        if not known.size:
            return self
        i = known[np.lexsort((values[known], violations[known]))[0]]
        violation, fun = float(violations[i]), float(values[i])
        if self.constraints is not None and (self.violation, self.fun) <= (violation, fun):
            return self
        return Best(
            read_only(points[i].copy()), fun, run, violation=violation, constraints=read_only(constraints[i].copy())
        )


@value_class
class RunState:
    """A run between two generations, and what is known from earlier ones."""

    search: State  # distribution and memories
    run: Run  # as it was asked for
    began: int  # evaluations before it
    nfev: int
    nit: int
    restarts: int
    best: Best
    standing: Standing
    leader: Best | None = None  # of a noisy objective: the answer of the best of the ended runs
    surrogate: Surrogate | None = None  # archive and model, if evaluations are saved by a model
    sweep: Sweep | None = None  # of single variables before the end of a run, if it has such


def first_state(
    method: Method,
    run: Run,
    theta: Family,
    x0: Array,
    deviations: Array,
    constraints: int = 0,
    sweeps: bool = False,
    lowest: Lowest | None = None,
) -> RunState:
    """The state at the start of the first run, whose convergence is judged by these initial deviations (k,)."""
    search, best = method.init(theta, run.popsize, constraints), Best(x0, float("nan"), 0, lowest=lowest)
    sweep = Sweep() if sweeps else None
    return RunState(search, replace(run, x0=None), 0, 0, 0, 0, best, Standing(deviations), sweep=sweep)


def next_state(
    before: RunState,
    method: Method,
    run: Run,
    theta: Family,
    deviations: Array,
    constraints: int = 0,
    noise: bool = False,
) -> RunState:
    """The state at the start of the next run. The value of a start evaluated alone is not one to beat.

    Of a noisy objective, the answer so far is the leader.
    """
    best, standing = before.best, before.standing
    if best.theta is None:
        best = replace(best, theta=before.search.theta)
    to_beat = float(np.fmin(standing.to_beat, standing.lowest))
    return RunState(
        method.init(theta, run.popsize, constraints),
        replace(run, x0=None),
        before.nfev,
        before.nfev,
        before.nit,
        before.restarts + 1,
        best,
        Standing(deviations, to_beat),
        best if noise else None,
        sweep=None if before.sweep is None else Sweep(),
    )
