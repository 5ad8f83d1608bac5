"""The volume of sublevel sets, estimated for each point from the other points of the sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting
from sublevel.engine.weights.volume import VolumeRule, log_shares


@dataclass(frozen=True, slots=True)
class LeaveOneOut(VolumeRule):
    """wᵢ = (b − V̂ᵢ)/n with V̂ᵢ ∝ (Σ_{fⱼ < fᵢ} 1/p(xⱼ))^exponent and their mean b.

    The estimate of the paper, `Volume`, also counts the point itself. Its 1/p(xᵢ) is large where ‖zᵢ‖ is, so that far
    points seem worse than they are and C shrinks even if f is only noise. Without it V̂ᵢ depends on zᵢ only through f.
    Points with equal values have the same V̂, and that of the best point is 0.
    """

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights that sum to 0."""
        cost = ranks.unsort(np.expm1(self.power(sample.z.shape[-1]) * log_shares_before(ranks, sample.surprise)))
        weights = (np.mean(cost, axis=-1, keepdims=True) - cost) / cost.shape[-1]
        return Weighting(weights, weights, np.zeros(weights.shape[:-1])[()])


def log_shares_before(ranks: Ranking, surprise: Array) -> Array:
    """log(Vᵢ/V_max) (..., n) from best to worst, for the volume V of the points that are better than i; −inf for 0."""
    count = surprise.shape[-1]
    shares = np.full(surprise.shape, -np.inf)
    if count > 1:
        order = np.broadcast_to(np.arange(count - 1, dtype=np.intp), (*surprise.shape[:-1], count - 1))
        others = Ranking(order, None, ranks.best)
        shares[..., 1:] = log_shares(others, ranks.sort(surprise)[..., :-1])
    if ranks.tie_ends is None:
        return shares
    begins = np.concatenate([np.ones_like(ranks.tie_ends[..., :1]), ranks.tie_ends[..., :-1]], axis=-1)
    # Tied points have the volume of the first of them.
    shares = np.maximum.accumulate(np.where(begins, shares, -np.inf), axis=-1)
    largest = shares[..., -1:]
    return np.where(np.isfinite(largest), shares - np.where(np.isfinite(largest), largest, 0.0), 0.0)
