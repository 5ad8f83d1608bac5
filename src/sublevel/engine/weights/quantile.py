"""Weights that depend on ranks only, as in information-geometric optimization (IGO)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting
from sublevel.engine.weights.protocol import Weights

Scheme = Callable[[int], Array]
"""Maps a sample size n to nonincreasing weights (n,) from best to worst."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """1/µ for the best µ = ⌊fraction·n⌋ points, 0 for the rest; eq:intermediate of the paper has the fraction 1/4.

    If n < 1/fraction, all weights are 0 and no step is taken.
    """

    fraction: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(
                f"`fraction` must lie in (0, 1], got {self.fraction!r}. It is the fraction of points that are selected."
            )

    def __call__(self, size: int) -> Array:
        """Weights (size,) from best to worst."""
        mu = int(self.fraction * size)
        return np.where(np.arange(size) < mu, 1.0 / max(mu, 1), 0.0)


@dataclass(frozen=True, slots=True)
class LogLinear:
    """wₖ ∝ log((n + 1)/2) − log k where positive, sum 1: weights of CMA-ES (Hansen, arXiv:1604.00772, eq. 49)."""

    def __call__(self, size: int) -> Array:
        """Weights (size,) from best to worst."""
        raw = np.maximum(np.log((size + 1) / 2) - np.log(np.arange(1, size + 1)), 0.0)
        return raw / raw.sum()


@dataclass(frozen=True, slots=True)
class Utilities:
    """max(0, log(n/2 + 1) − log k), sum 1, less 1/n: utilities of NES (Glasmachers et al., GECCO 2010, sec. 3.1)."""

    def __call__(self, size: int) -> Array:
        """Weights (size,) from best to worst; they sum to 0."""
        raw = np.maximum(np.log(size / 2 + 1) - np.log(np.arange(1, size + 1)), 0.0)
        return raw / raw.sum() - 1.0 / size


@dataclass(frozen=True, slots=True)
class Quantile(Weights):
    """wᵢ = scheme's weight of the rank Rᵢ = |{j : fⱼ ≤ fᵢ}|: tied points get the weight of the last of their ranks.

    With `average_ties` they get the average weight of their ranks, as in IGO (Ollivier et al., JMLR 18, 2017, eq. 14).
    Use it where ties are frequent, as with bits.
    """

    needs_squares: ClassVar[bool] = False

    scheme: Scheme = Truncation()
    average_ties: bool = False

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """The weights of the scheme, assigned to the points."""
        by_rank = scheme_weights(self.scheme, ranks.order.shape[-1])
        return Weighting.from_weights(ranks.assign_by_rank(by_rank, self.average_ties))


@lru_cache(maxsize=32)
def scheme_weights(scheme: Scheme, size: int) -> Array:
    """The weights (size,) of the scheme, cached and read-only."""
    return read_only(np.asarray(scheme(size), dtype=np.float64))


def effective_size(weights: Array) -> float:
    """Effective sample size µ_eff = (Σw)²/Σw²; 0 if all weights are 0."""
    total = float(np.sum(np.square(weights)))
    return float(np.sum(weights)) ** 2 / total if total > 0 else 0.0
