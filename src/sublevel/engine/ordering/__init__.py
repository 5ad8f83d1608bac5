"""Rules that rank the points of a sample."""

from collections.abc import Mapping
from typing import Literal

from sublevel.engine.ordering.augmented_lagrangian import AugmentedLagrangian, LagrangianMemory
from sublevel.engine.ordering.by_value import BY_VALUE, ByValue, Ordering
from sublevel.engine.ordering.constrained import equality_constraints
from sublevel.engine.ordering.lexicographic import Lexicographic
from sublevel.engine.ordering.penalties import Adaptation
from sublevel.engine.ordering.rank_lagrangian import RankLagrangian
from sublevel.engine.ordering.ranks import Ranking, ranking

ORDERINGS: Mapping[str, type[Ordering]] = {
    "augmented-lagrangian": AugmentedLagrangian,
    "rank-lagrangian": RankLagrangian,
    "lexicographic": Lexicographic,
}
"""Registry: orderings of constrained points by name."""
ConstraintHandling = Literal["augmented-lagrangian", "rank-lagrangian", "lexicographic"]
"""The names, for type checkers."""

__all__ = [
    "BY_VALUE",
    "ORDERINGS",
    "Adaptation",
    "AugmentedLagrangian",
    "ByValue",
    "ConstraintHandling",
    "LagrangianMemory",
    "Lexicographic",
    "Ordering",
    "RankLagrangian",
    "Ranking",
    "equality_constraints",
    "ranking",
]
