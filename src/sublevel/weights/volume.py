"""The paper's cost: the volume of the sublevel set {y : f(y) ≤ f(x)}, to a power, estimated from the sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.arrays import Array, spread, total
from sublevel.families.protocol import Sample
from sublevel.tangent import ZERO, Weighting
from sublevel.weights.ranking import Ranking


@dataclass(frozen=True, slots=True)
class Volume:
    """wᵢ = (b − V̂ᵢ)/n with V̂ᵢ ∝ (Σ_{fⱼ ≤ fᵢ} 1/p(xⱼ))^exponent and their mean b, eq:mc-nu and steps 6 to 8.

    V̂ is in units of the largest, because the paper's rates divide by its scale: only log-volumes are ever formed.
    """

    exponent: float | None = None  # 2/d if None, which makes V ∝ xᵀAx on a quadratic

    def __post_init__(self) -> None:
        if self.exponent is not None and not 0 < self.exponent < np.inf:
            raise ValueError(f"`exponent` must be positive and finite, got {self.exponent!r}. Leave it out for the paper's 2/d.")

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights that sum to 0."""
        cost = self.cost(ranks, sample)
        size = cost.shape[-1]
        weights = (spread(total(cost) / size, 1) - cost) / size
        return Weighting(weights, weights, ZERO)

    def cost(self, ranks: Ranking, sample: Sample) -> Array:
        """V̂ᵢ/V̂_max − 1 (..., n), in [−1, 0] and exact however small the differences are."""
        exponent = 2.0 / sample.z.shape[-1] if self.exponent is None else self.exponent
        log_volume = np.logaddexp.accumulate(ranks.sorted(sample.surprise), axis=-1)
        log_volume = ranks.shared(log_volume)
        return ranks.unsorted(np.expm1(exponent * (log_volume - log_volume[..., -1:])))
