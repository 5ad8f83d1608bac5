"""The augmented Lagrangian of ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import Family
from sublevel.engine.ordering.by_value import Ordering
from sublevel.engine.ordering.constrained import (
    fair_ranks,
    is_known,
    normal_quantile,
    per_constraint,
    rank_by,
    selected_mean,
)
from sublevel.engine.ordering.penalties import Adaptation, Multipliers, penalties
from sublevel.engine.ordering.ranks import Ranking, ranking


@dataclass(frozen=True, slots=True)
class RankMemory(Multipliers):
    """Multipliers and penalty factors of normal scores (..., m), and recent values (..., k) and constraint values
    (..., m, k), NaN before there are any.
    """

    values: Array
    constraints: Array


@dataclass(frozen=True, slots=True)
class RankLagrangian(Ordering):
    """Rank by an augmented Lagrangian in which f and each g are replaced by normal scores of their ranks.

    The ranks are those among the points of recent generations, and the score of g is relative to that of g = 0. Only
    comparisons and the signs of g are used: strictly increasing transforms of f, and those of each g that keep its
    sign, do not change the search.

    In ranks of one small sample, f and an active constraint are the same up to the sign, and nothing is learned about
    other directions until C is narrow across the constraint. Ranks among several generations are finer: the sum of both
    scores still has a direction.

    Parameters
    ----------
    generations : int
        Number of generations, including the current one, that values are ranked among.
    smallest_factor : float
        Lower limit and initial value of the penalty factors µ. Ranks do not resolve what a smaller one would reveal.
    adaptation : Adaptation
        How multipliers and penalty factors change.
    """

    generations: int = 15
    smallest_factor: float = 0.3
    adaptation: Adaptation = field(default_factory=Adaptation)

    def init(self, theta: Family, sample_size: int, constraints: int = 0) -> RankMemory:
        """Multipliers of 0, and no values."""
        batch, kept = theta.mean.shape[:-1], self.generations * sample_size
        zeros = np.zeros((*batch, constraints))
        return RankMemory(
            multipliers=zeros,
            factors=np.full_like(zeros, self.smallest_factor),
            streak=zeros,
            values=np.broadcast_to(np.nan, (*batch, kept)),  # without memory of its own, however large
            constraints=np.broadcast_to(np.nan, (*batch, constraints, kept)),
        )

    def __call__(self, values: Array, constraints: Array | None, memory: RankMemory, /) -> tuple[Ranking, RankMemory]:
        """The ranking, and the multipliers after the generation."""
        if constraints is None:
            return ranking(values), memory
        n, sample, known = values.shape[-1], per_constraint(constraints), is_known(values, constraints)
        recent = np.concatenate([memory.values[..., n:], values], axis=-1)
        recent_constraints = np.concatenate([memory.constraints[..., n:], sample], axis=-1)
        g = normal_scores(recent_constraints, n) - score_of_zero(recent_constraints)
        violated = (sample > 0).any(axis=-1, keepdims=True)
        terms = np.where(violated, penalties(g, memory.multipliers, memory.factors), 0.0)
        ranks = rank_by(normal_scores(recent, n) + np.sum(terms, axis=-2), values, known)
        after = self.adaptation(memory, memory.factors, selected_mean(g, ranks, known))
        factors = np.maximum(after.factors, self.smallest_factor)
        return ranks, RankMemory(after.multipliers, factors, after.streak, recent, recent_constraints)


def normal_scores(numbers: Array, last: int) -> Array:
    """Φ⁻¹((rank + ½)/k) of the last (..., last) of numbers (..., k), ranked among those that are not NaN."""
    count = np.maximum(np.sum(~np.isnan(numbers), axis=-1, keepdims=True), 1)
    return normal_quantile(np.minimum((fair_ranks(numbers)[..., -last:] + 0.5) / count, 1 - 0.25 / count))


def score_of_zero(numbers: Array) -> Array:
    """The score (..., 1) between those of numbers ≤ 0 and those above."""
    count = np.maximum(np.sum(~np.isnan(numbers), axis=-1, keepdims=True), 1)
    return normal_quantile(np.clip(np.sum(numbers <= 0, axis=-1, keepdims=True), 0.25, count - 0.25) / count)
