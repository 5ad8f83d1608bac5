"""The interface of a weight rule."""

from __future__ import annotations

from typing import ClassVar

from sublevel.engine.families.protocol import Sample
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Weighting


class Weights:
    """Base class of the rules that turn ranks into weights.

    A rule sees the ranks of the points and their whitened coordinates; it does not see f or C. Two conditions apply to
    every rule:

    - No step is taken unless the best point has a positive weight.
    - In a sharded run `z` and `x` of a sample are NaN. A rule may use their shape, `squares` and `surprise`.
    """

    __slots__ = ()

    needs_squares: ClassVar[bool] = True
    """Whether the rule uses `squares` or `surprise`; if not, a sharded run does not send them."""

    normalized: ClassVar[bool] = False
    """Whether the weights for the mean are nonnegative, sum to 1 and `mu_eff` is given."""

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting:
        """Weights of the points of the sample."""
        raise NotImplementedError
