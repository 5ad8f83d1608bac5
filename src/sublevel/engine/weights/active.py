"""The weights of CMA-ES: log-linear, with negative weights of the worse half for the covariance."""

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
"""Added to ‖z‖², to bound the weight of a point near the mean."""


@dataclass(frozen=True, slots=True)
class Active(Weights):
    """Weights of active CMA-ES (Hansen, arXiv:1604.00772, eqs. 46, 49–53). Tied points get the average weight of their
    ranks.

    A negative weight is multiplied by d/‖z‖², so that the variance it removes does not depend on the distance from the
    mean.
    """

    normalized: ClassVar[bool] = True

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """The weights; the positive ones sum to 1."""
        n, d = sample.z.shape[-2:]
        constants = cma_constants(d, n, sample.degrees_of_freedom, sample.pairs)
        attracting = ranks.assign_by_rank(constants.attracting, average_ties=True)
        repelling = ranks.assign_by_rank(constants.repelling, average_ties=True)
        repelling /= sample.squares + NEAR
        repelling += attracting
        return Weighting(attracting, repelling, constants.weight_sum, constants.mu_eff)
