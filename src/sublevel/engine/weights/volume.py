"""Weights from the volume of sublevel sets {y : f(y) ≤ f(x)}, estimated from the sample (Akimoto 2012)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import ZERO, Array, any_trial, constant, expand_trailing, total
from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting
from sublevel.engine.weights.protocol import Weights

LARGE = 16.0
"""Log-volume above which the largest term is factored out before summing."""


@dataclass(frozen=True, slots=True)
class VolumeRule(Weights):
    """Weights from a power of estimated volumes."""

    exponent: float | None = None  # 2/d if None, which makes V ∝ xᵀAx on a quadratic

    def __post_init__(self) -> None:
        if self.exponent is not None and not 0 < self.exponent < np.inf:
            raise ValueError(
                f"`exponent` must be positive and finite, got {self.exponent!r}. Leave it out for the paper's 2/d."
            )

    def power(self, d: int) -> float:
        """The exponent in d dimensions."""
        return 2.0 / d if self.exponent is None else self.exponent


@dataclass(frozen=True, slots=True)
class Volume(VolumeRule):
    """wᵢ = (b − V̂ᵢ)/n with V̂ᵢ ∝ (Σ_{fⱼ ≤ fᵢ} 1/p(xⱼ))^exponent and their mean b, eq:mc-nu and steps 6 to 8.

    V̂ is relative to the largest volume, because the learning rates divide by its scale; only log-volumes are computed.
    """

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights that sum to 0."""
        cost = self.cost(ranks, sample)
        size = cost.shape[-1]
        cost -= expand_trailing(total(cost) / size, 1)
        cost *= constant(-1.0 / size)
        return Weighting(cost, cost, ZERO)

    def cost(self, ranks: Ranking, sample: Sample) -> Array:
        """V̂ᵢ/V̂_max − 1 (..., n), in [−1, 0], accurate for small differences too."""
        return ranks.unsort(np.expm1(constant(self.power(sample.z.shape[-1])) * log_shares(ranks, sample.surprise)))


def log_shares(ranks: Ranking, surprise: Array) -> Array:
    """log(Vᵢ/V_max) (..., n) from best to worst, given −log p(xᵢ) up to a constant; V is the cumulative sum of 1/p."""
    surprise = ranks.sort(surprise)
    log_volume = np.logaddexp.accumulate(surprise, axis=-1)
    if ranks.tie_ends is None and log_volume.ndim == 1 and log_volume[0] + 0.7 < log_volume[-1] <= LARGE:
        return log_volume - log_volume[-1]  # the usual case of one run
    if any_trial(log_volume[..., -1] > LARGE):  # absolute accuracy would be lost
        surprise = surprise - surprise.max(axis=-1, keepdims=True)
        log_volume = np.logaddexp.accumulate(surprise, axis=-1)
    log_volume = ranks.equalize_ties(log_volume)
    gap = log_volume - log_volume[..., -1:]
    dominated = gap[..., 0] > -0.7
    return np.where(dominated[..., None], _small_gaps(surprise, ranks), gap) if any_trial(dominated) else gap


def _small_gaps(surprise: Array, ranks: Ranking) -> Array:
    """log(Vᵢ/V_n) (..., n) where the best point dominates, from log1p(−volume after i/total), which does not cancel."""
    volume = np.exp(surprise - surprise.max(axis=-1, keepdims=True))
    after = np.zeros_like(volume)
    after[..., :-1] = np.add.accumulate(volume[..., :0:-1], axis=-1)[..., ::-1]
    after = -ranks.equalize_ties(-after)
    return np.log1p(-np.minimum(after / np.add.reduce(volume, axis=-1, keepdims=True), 0.9))
