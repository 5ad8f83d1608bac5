"""The interface of a weight rule."""

from __future__ import annotations

from typing import ClassVar

from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting


class Weights:
    """Base class of the rules that turn ranks into weights.

    A rule knows the order of the points and where they lie in the whitened frame, not f and not C. Two conditions hold for every rule. The
    best point has a positive weight, or no step is taken. And the points `z` and `x` of a sample are NaN in a sharded run: a rule may read
    their shape, `squares` and `surprise`.
    """

    __slots__ = ()

    needs_squares: ClassVar[bool] = True
    """Whether `squares` or `surprise` are read; if not, a sharded run does not send them."""

    normalized: ClassVar[bool] = False
    """Whether the weights for the mean are positive, sum to 1 and come with their `mu_eff`."""

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights of the points of the sample."""
        raise NotImplementedError
