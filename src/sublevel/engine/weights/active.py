"""The weights of CMA-ES: log-linear for the mean, and negative ones for the bad half in the covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sublevel.engine.arrays import constant
from sublevel.engine.constants import cma_constants
from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting
from sublevel.engine.weights.protocol import Weights

NEAR = constant(1e-10)
"""Keeps a bad point at the mean from taking more variance than there is."""


@dataclass(frozen=True, slots=True)
class Active(Weights):
    """Hansen, arXiv:1604.00772, eqs. 46, 49–53. Tied points share the weights of their ranks equally.

    A bad point has the weight w·d/‖z‖², so that it takes the same amount of variance away wherever it lies.
    """

    normalized: ClassVar[bool] = True

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights whose positive part sums to 1."""
        n, d = sample.z.shape[-2:]
        constants = cma_constants(d, n, sample.degrees_of_freedom)
        attracting = ranks.assign_by_rank(constants.attracting, average_ties=True)
        repelling = ranks.assign_by_rank(constants.repelling, average_ties=True)
        repelling /= sample.squares + NEAR
        repelling += attracting
        return Weighting(attracting, repelling, constants.weight_sum, constants.mu_eff)
