"""A family as a statistical manifold with coordinates and a metric, for theory and tests."""

from __future__ import annotations

from typing import Protocol, Self

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.tangent import Tangent


class Manifold(Family, Protocol):
    """A family in coordinates θ."""

    @property
    def coordinates(self) -> Array: ...  # (..., p)
    def at_coordinates(self, coordinates: Array) -> Self: ...
    @property
    def fisher(self) -> Array: ...  # (..., p, p)
    def velocity(self, tangent: Tangent) -> Array: ...  # (..., p)
