"""Re-evaluating the answer of a noisy objective at the end of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, read_only
from sublevel.evaluation.evaluators import Evaluator, unwrap_stop_iteration
from sublevel.evaluation.failures import Failure, Failures
from sublevel.run.noisy_answer import (
    COMPARED,
    Ledger,
    average_of_lowest,
    central_point,
    count_reevaluations,
    points_between,
    prefers_average,
)
from sublevel.run.optimizer import Optimizer
from sublevel.run.state import Lowest

if TYPE_CHECKING:
    from sublevel.store.recorder import Recorder

Rows = tuple[Array, NDArray[np.bool_]]
"""Values with constraint values (n, 1 + c), and which of them are known (n,)."""


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """The objective, the limits and the re-evaluations so far of a search that has ended."""

    optimizer: Optimizer
    evaluate: Evaluator
    failures: Failures
    ledger: Ledger
    recorder: Recorder | None
    maxfevals: float
    batch: int | None  # points of each call of the objective, if their number is fixed
    tries: int  # evaluations that look for an answer
    is_over: Callable[[], bool]  # whether no evaluation may start any more

    def estimate_answer(self) -> None:
        """Find an answer, evaluate it several times, and give the estimate to the optimizer.

        If the time runs out, the values so far are used. If the first values are all equal, there is no noise at
        the answer, and no more are needed.
        """
        try:
            x, total = self._answer(), self._count()
            first = min(total, count_reevaluations(0, self.batch))
            rows, known = self._rows(np.repeat(x[None], first, axis=0), 0)
            if total > first and known.all() and np.ptp(rows[:, 0]) != 0:  # NaN is different, too
                self._rows(np.repeat(x[None], total - first, axis=0), first)
        finally:
            self.optimizer.estimate = self.ledger.estimate(self.optimizer.nit)

    def _count(self) -> int:
        """The number of re-evaluations of the answer."""
        state, unit = self.optimizer.run_state, self.batch or 1
        room = self.maxfevals - state.nfev - self.ledger.count_before(state.nit) - self.tries
        return int(max(min(count_reevaluations(state.nfev, self.batch), room // unit * unit), unit))

    def _answer(self) -> Array:
        """The answer (d,): a feasible one, or the better of two."""
        best = self.optimizer.run_state.best
        if not self.tries:
            return best.x
        return self._feasible_answer() if best.lowest is None else self._better_answer(best.x, best.lowest)

    def _better_answer(self, mean: Array, lowest: Lowest) -> Array:
        """The average (d,) of the lowest points, or the mean (d,)."""
        if not lowest.is_full:
            return mean
        average = read_only(average_of_lowest(lowest, self.optimizer.space))
        values = self._rows(np.repeat([mean, average], COMPARED, axis=0), -self.tries)[0][:, 0]
        return average if prefers_average(lowest, values[COMPARED:], values[:COMPARED]) else mean

    def _feasible_answer(self) -> Array:
        """The answer (d,): the mean, if it satisfies the constraints; else a point between it and a feasible point that
        is near to it, whose constraint values are known from evaluations. Values of f are not used.
        """
        optimizer, constraints, tries = self.optimizer, self.optimizer.constraints, self.tries
        best = optimizer.run_state.best
        if constraints is None or best.constraints is None:
            return best.x
        points = points_between(central_point(optimizer.theta_of_best, optimizer.space), best.x, optimizer.space)
        allowed = constraints.satisfied(points.copy())
        points[~allowed] = best.x
        more = np.repeat(best.x[None], tries - len(points), axis=0)
        rows = self._rows(np.concatenate([points, more]), -tries)[0][: len(points)]
        with np.errstate(invalid="ignore"):
            is_feasible = np.max(constraints.violations(rows[:, 1:]), axis=1) <= constraints.tolerance  # not if NaN
        if is_feasible.any():
            return points[np.argmax(is_feasible)]
        known_feasible = float(np.max(constraints.violations(best.constraints))) <= constraints.tolerance
        return best.x if known_feasible else points[0]

    def _rows(self, points: Array, first: int) -> Rows:
        """Rows of points (n, d), which have the places from `first` on.

        Those that were stored are not evaluated again. If the time runs out, some are unknown.
        """
        constraints = self.optimizer.constraints
        width = 1 if constraints is None else 1 + constraints.size
        rows, known = np.full((len(points), width), np.nan), np.zeros(len(points), dtype=np.bool_)
        self.ledger.recall(self.optimizer.nit, points, first, rows, known)
        missing = np.flatnonzero(~known)
        size = self.batch or max(missing.size, 1)
        for begin in range(0, missing.size, size):
            if not self.is_over():
                self._evaluate(missing[begin : begin + size], points, first, rows, known)
        return rows, known

    def _evaluate(
        self, missing: NDArray[np.intp], points: Array, first: int, rows: Array, known: NDArray[np.bool_]
    ) -> None:
        """Evaluate points with these indices and fill in their rows, until the time runs out."""
        last = self._last_failure
        try:
            for index, arrived in self.evaluate(read_only(points[missing])):
                places = np.atleast_1d(missing[index])
                rows[places], known[places] = np.reshape(arrived, (places.size, -1)), True
                failure, last = None if self._last_failure is last else self._last_failure, self._last_failure
                for place in places:
                    reason = None if failure is None or not np.isnan(rows[place, 0]) else failure[:2]
                    self.ledger.add(self.optimizer.nit, points[place], first + int(place), rows[place], reason)
                self.optimizer.reevaluated = len(self.ledger.entries)
                if self.recorder is not None:
                    self.recorder.write_reevaluations(self.ledger)
                if self.is_over():
                    return
        except BaseException as error:
            raise unwrap_stop_iteration(error)  # noqa: B904

    @property
    def _last_failure(self) -> Failure | None:
        """The last failure, another object for each one; None if there is none."""
        return self.failures.last[-1] if self.failures.last else None
