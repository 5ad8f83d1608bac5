"""Feasible points before infeasible ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.ordering.by_value import Ordering
from sublevel.engine.ordering.constrained import fair_ranks, is_known, per_constraint, rank_by
from sublevel.engine.ordering.ranks import Ranking, ranking


@dataclass(frozen=True, slots=True)
class Lexicographic(Ordering):
    """Rank feasible points by value, and after them infeasible ones by the sum over constraints of the rank of the
    violation max(g, 0).

    Only comparisons are used: strictly increasing transforms of f and of the positive part of each g do not change the
    search. It has no memory, and is slow where several constraints are active at the optimum: a sample then has hardly
    any feasible points, and f hardly any influence.
    """

    def __call__(self, values: Array, constraints: Array | None, memory: Any, /) -> tuple[Ranking, Any]:
        """The ranking; by value if there are no constraints."""
        if constraints is None:
            return ranking(values), memory
        violations = np.maximum(per_constraint(constraints), 0.0)
        feasible = (constraints <= 0).all(axis=-1)
        behind = values.shape[-1] + np.sum(fair_ranks(violations), axis=-2)
        key = np.where(feasible, fair_ranks(values), behind)
        return rank_by(key, values, is_known(values, constraints)), memory
