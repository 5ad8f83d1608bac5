"""The terms of an augmented Lagrangian, and how its multipliers and penalty factors are adapted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.memory import Memory


@dataclass(frozen=True, slots=True)
class Multipliers(Memory):
    """Lagrange multipliers and penalty factors, one per constraint (..., m)."""

    multipliers: Array  # λ ≥ 0
    factors: Array  # µ > 0 of the squared terms; 0 before they are known
    streak: Array  # generations since the mean of g changed its sign, times its sign


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How multipliers and penalty factors follow the mean ḡ of a constraint over the selected points.

    λ ← max(0, λ + µḡ/damping): Atamna, Auger & Hansen, FOGA 2017, Algorithm 1. µ is multiplied by `up` if ḡ has the
    sign it had before, and divided by `down` if it changed. After `patience` generations without a change of sign, the
    exponent of `up` grows by `acceleration` per generation to at most `fastest`. As in pycma, µ stays where the
    constraint has no effect (µḡ < −λ).
    """

    damping: float = 5.0
    up: float = 1.15**0.25
    down: float = 1.15
    patience: float = 5.0
    acceleration: float = 0.2
    fastest: float = 5.0

    def __call__(self, memory: Multipliers, factors: Array, mean: Array) -> Multipliers:
        """The memory after a generation with penalty factors and means of the constraints (..., m)."""
        sign = np.sign(mean)
        same = sign * memory.streak > 0
        streak = np.where(same, memory.streak + sign, sign)
        speed = np.clip(1 + self.acceleration * (np.abs(streak) - self.patience), 1.0, self.fastest)
        change = np.where(same, self.up**speed, 1 / self.down)
        adapts = (factors * mean > -memory.multipliers) & (memory.streak != 0)
        return Multipliers(
            multipliers=np.maximum(memory.multipliers + factors * mean / self.damping, 0.0),
            factors=np.where(adapts, factors * change, factors),
            streak=streak,
        )


def penalties(g: Array, multipliers: Array, factors: Array) -> Array:
    """λg + µg²/2 where g > −λ/µ and −λ²/2µ elsewhere, for constraint values (..., m, n); 0 where µ is 0.

    The multipliers λ and factors µ have the shape (..., m).
    """
    slopes, curvatures = multipliers[..., None], factors[..., None]
    effective = np.maximum(g, -slopes / np.where(curvatures > 0, curvatures, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        terms = effective * (slopes + 0.5 * curvatures * effective)
    return np.where(curvatures > 0, terms, 0.0)


def interquartile_range(numbers: Array) -> Array:
    """The interquartile range (...) of the finite numbers along the last axis (..., n); 0 if there are none."""
    finite = np.isfinite(numbers)
    empty = ~finite.any(axis=-1, keepdims=True)
    upper, lower = np.nanquantile(np.where(finite, numbers, np.where(empty, 0.0, np.nan)), [0.75, 0.25], axis=-1)
    return upper - lower
