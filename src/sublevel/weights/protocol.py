"""What a weight rule is to the rest."""

from __future__ import annotations

from typing import Protocol

from sublevel.families.protocol import Sample
from sublevel.tangent import Weighting
from sublevel.weights.ranking import Ranking


class Weights(Protocol):
    """Ranks to weights. Knows the order of the points and where they lie in the whitened frame, not f and not C.

    A rule for which only the number and the order of the points matter may say so by `needs_squares = False`: then a sharded run need not
    send their ‖z‖².
    """

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Weighting: ...
