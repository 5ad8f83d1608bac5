"""The augmented Lagrangian of a constrained problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import Family
from sublevel.engine.ordering.by_value import Ordering
from sublevel.engine.ordering.constrained import is_known, normal_quantile, per_constraint, rank_by, selected_mean
from sublevel.engine.ordering.penalties import Adaptation, Multipliers, interquartile_range, penalties
from sublevel.engine.ordering.ranks import Ranking, ranking

IQR_OF_NORMAL = 1.349
"""Interquartile range of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class LagrangianMemory(Multipliers):
    """Multipliers and penalty factors of f and g in their own units (..., m), and the dimension (...,)."""

    dimension: Array


@dataclass(frozen=True, slots=True)
class AugmentedLagrangian(Ordering):
    """Rank by f + Σⱼ (λⱼgⱼ + µⱼgⱼ²/2), each term constant where gⱼ < −λⱼ/µⱼ.

    Atamna, Auger & Hansen, "Linearly Convergent Evolution Strategies via Augmented Lagrangian Constraint Handling",
    FOGA 2017. The multipliers λ are in the memory and converge to those of the problem. Adding a constant to f and
    multiplying f or a constraint by a positive number does not change the search except for rounding; other transforms
    do.

    Parameters
    ----------
    initial_factor : float
        µ is `initial_factor`·IQR(f)/(d·IQR(g)²) of the first sample in which a point violates the constraint.
    adaptation : Adaptation
        How λ and µ change.
    feasible_share : float
        Where several constraints have a multiplier, the search aims at the inside of each by as many standard
        deviations of g that about this share of a sample satisfies all of them. Otherwise it would converge to the
        optimum without a feasible point: with k active constraints one in 2ᵏ is feasible.
    """

    two_sided_equalities: ClassVar[bool] = True

    initial_factor: float = 1.0
    adaptation: Adaptation = field(default_factory=Adaptation)
    feasible_share: float = 0.125

    def init(self, theta: Family, sample_size: int, constraints: int = 0) -> LagrangianMemory:
        """Multipliers of 0, penalty factors not yet known."""
        batch = theta.mean.shape[:-1]
        zeros = np.zeros((*batch, constraints))
        return LagrangianMemory(zeros, zeros, zeros, np.full(batch, float(theta.dimension))[()])

    def __call__(
        self, values: Array, constraints: Array | None, memory: LagrangianMemory, /
    ) -> tuple[Ranking, LagrangianMemory]:
        """The ranking, and the multipliers after the generation."""
        if constraints is None:
            return ranking(values), memory
        g, known = self._with_margins(per_constraint(constraints), memory), is_known(values, constraints)
        factors = self._factors(values, g, memory)
        key = values + np.sum(penalties(g, memory.multipliers, self._without_scale(factors, values, g)), axis=-2)
        ranks = rank_by(key, values, known)
        after = self.adaptation(memory, factors, selected_mean(g, ranks, known))
        return ranks, LagrangianMemory(after.multipliers, after.factors, after.streak, memory.dimension)

    def _with_margins(self, g: Array, memory: LagrangianMemory) -> Array:
        """Constraint values (..., m, n) that are larger by a margin where a constraint has a multiplier and the share
        of feasible points would be too small.
        """
        active = memory.multipliers > 0
        count = np.sum(active, axis=-1, keepdims=True)
        if not (0.5**count < self.feasible_share).any():
            return g
        margin = np.maximum(normal_quantile(self.feasible_share ** (1 / np.maximum(count, 1))), 0.0) / IQR_OF_NORMAL
        return g + np.where(active, margin * interquartile_range(g), 0.0)[..., None]

    def _without_scale(self, factors: Array, values: Array, g: Array) -> Array:
        """Penalty factors (..., m) that rank a sample: where most values are equal and say nothing about the scale of
        f, constraints that have no factor yet get one that depends on g alone.
        """
        spread = interquartile_range(g)
        lacks_scale = (factors == 0) & (interquartile_range(values) == 0)[..., None] & (spread > 0)
        if not lacks_scale.any():
            return factors
        with np.errstate(over="ignore", divide="ignore"):
            substitutes = 1.0 / np.where(lacks_scale, spread, 1.0) ** 2
        return np.where(lacks_scale & np.isfinite(substitutes), substitutes, factors)

    def _factors(self, values: Array, g: Array, memory: LagrangianMemory) -> Array:
        """Penalty factors (..., m): those of the memory, or the initial ones of constraints violated for the first
        time.
        """
        spread, of_values = interquartile_range(g), interquartile_range(values)[..., None]
        starts = (memory.factors == 0) & (g > 0).any(axis=-1) & (spread > 0)
        with np.errstate(over="ignore", divide="ignore"):
            initial = self.initial_factor * of_values / np.where(starts, spread, 1.0) ** 2 / memory.dimension[..., None]
        return np.where(starts & np.isfinite(initial), initial, memory.factors)
