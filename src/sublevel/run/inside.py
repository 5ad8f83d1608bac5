"""Evaluations around a minimum that stay inside the constraints of its search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Arrivals, Evaluator, make_evaluator
from sublevel.run.arguments import Workers
from sublevel.run.constraints import TOLERANCE, Constraints, as_batched, is_batched, parse_constraints
from sublevel.run.optimizer import Optimizer

if TYPE_CHECKING:
    from sublevel.run.parameters import Space


class ActiveConstraint(ValueError):
    """A constraint is active at the minimum, or violated at a point near it."""

    def __init__(self, where: str = "") -> None:
        super().__init__(
            f"a constraint is active at or near the minimum{where}, but curvatures and intervals need values of f all "
            "around it. For error bars, eliminate a variable with the constraint and minimise over the others."
        )


@dataclass(frozen=True, slots=True, eq=False)
class KnownConstraints:
    """The constraints of a result. Pickled without functions, which often cannot be pickled."""

    constraints: Constraints

    def __reduce__(self) -> tuple[type[KnownConstraints], tuple[Constraints]]:
        """Pickle without functions."""
        return KnownConstraints, (self.constraints.without_functions(),)

    def __deepcopy__(self, memo: object) -> KnownConstraints:
        """The same object, which is immutable."""
        return self

    def __repr__(self) -> str:
        """Their names."""
        return f"KnownConstraints({', '.join(self.constraints.names)})"

    @property
    def complete(self) -> Constraints:
        """The constraints; ValueError if functions are missing."""
        if not self.constraints.is_complete:
            raise ValueError(
                "the functions of the constraints are not known, because the result is from a file or was pickled: "
                "pass `constraints` as to `minimize`, so that f is not evaluated where they are violated."
            )
        return self.constraints


@dataclass(frozen=True, slots=True)
class InsideEvaluator:
    """An evaluator of an objective with constraints, for values of f alone. ActiveConstraint where one is violated."""

    evaluate: Evaluator
    constraints: Constraints
    is_comparison: bool = False  # whether the evaluator has no constraint values, so that their functions are called

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d)."""
        inside = self.constraints.satisfied(points)
        if not inside.all():
            raise ActiveConstraint(_where(points[~inside][0]))
        if self.is_comparison:
            self._check(points, self.constraints.values(points))
        for index, arrived in self.evaluate(points):
            if self.is_comparison or not self.constraints.size or np.ndim(arrived) == 0:
                yield index, arrived
            else:
                rows = np.atleast_2d(arrived)
                self._check(points[index].reshape(len(rows), -1), rows[:, 1:])
                yield index, rows[:, 0] if np.ndim(arrived) > 1 else float(rows[0, 0])

    def _check(self, points: Array, values: Array) -> None:
        """Raise ActiveConstraint if values (n, k) at points (n, d) violate a constraint."""
        for point, found in zip(points, values, strict=True):
            if violated := self.constraints.violated_components(found):
                raise ActiveConstraint(_where(point, f"{violated[0][0]} is violated by {violated[0][1]:.3g}"))

    def close(self) -> None:
        """Release workers."""
        self.evaluate.close()


def evaluator_inside(
    constraints: Constraints | None,
    fun: Callable[..., object],
    vectorized: bool,
    workers: Workers,
    *how: Any,
) -> Evaluator:
    """The evaluator of an objective, as `make_evaluator` makes it, which stays inside constraints if there are any."""
    if constraints is None:
        return make_evaluator(fun, vectorized, workers, *how)
    called = constraints.objective(fun, is_batched(vectorized, workers))
    return InsideEvaluator(make_evaluator(called, vectorized, workers, *how), constraints)


def _where(point: Array, what: str = "it is violated") -> str:
    return f" ({what} at x = {np.array2string(point, threshold=20)})"


def find_constraints(
    found: object, given: Any, x: Array, space: Space | None, vectorized: object, workers: object
) -> KnownConstraints | None:
    """The constraints inside which f may be evaluated around a minimum x (d,): those `given`, or those of the search.

    ActiveConstraint if a multiplier of the search is not 0: then f is not minimal in all directions.
    """
    if isinstance(found, Optimizer):
        multipliers, known = (
            found.multipliers,
            None if found.constraints is None else KnownConstraints(found.constraints),
        )
    else:
        entries = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        multipliers, known = entries.get("multipliers"), entries.get("constraints")
    if any(np.any(np.nan_to_num(values) != 0) for values in multipliers or ()):
        raise ActiveConstraint
    return given_or_known(given, known if isinstance(known, KnownConstraints) else None, x, space, vectorized, workers)


def given_or_known(
    given: Any, known: KnownConstraints | None, x: Array, space: Space | None, vectorized: object, workers: object
) -> KnownConstraints | None:
    """The constraints `given` around a point x (d,), else those that are known."""
    parsed = parse_constraints(as_batched(given, vectorized, workers), TOLERANCE, x, space)
    return known if parsed is None else KnownConstraints(parsed)
