"""What a weight rule is to the rest."""

from __future__ import annotations

from typing import Protocol

from sublevel.arrays import Array
from sublevel.families.protocol import Sample
from sublevel.weights.ranking import Ranking


class Weights(Protocol):
    """One weight per point (..., n), in the order of the points; positive attracts. Knows the ranks, not f and not C."""

    def __call__(self, ranks: Ranking, sample: Sample, /) -> Array: ...
