"""What a family of distributions is to the rest: a point θ on a statistical manifold, in its whitened frame."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array, Mask, Noise, PerTrial, constant, value
from sublevel.summaries import short_array
from sublevel.tangent import ONE, Tangent

LOG_2PI = log(2 * pi)
SQRT_HALF = sqrt(0.5)
HALF = constant(0.5)
SCALE_RANGE = (2.0**-1000, 2.0**1000)
"""Standard deviations a state may have, about 1e-301 to 1e301: beyond, a step is refused and named."""


class Sample(Protocol):
    """Points drawn from a θ, with their whitened coordinates kept, because A⁻¹(x − m) would lose Cond(A) digits."""

    @property
    def z(self) -> Array: ...  # (..., n, d)
    @property
    def x(self) -> Array: ...  # (..., n, d)
    @property
    def images(self) -> Array | None: ...  # (..., n, d), the root applied to z, where that is worth keeping
    @property
    def squares(self) -> Array: ...  # (..., n), ‖zᵢ‖²
    @property
    def surprise(self) -> Array: ...  # (..., n), −log p(xᵢ) up to a constant that all points share
    @property
    def degrees_of_freedom(self) -> int | None: ...  # of the covariance it was drawn with, None for a full one


@value
class GaussianSample:
    """Points of a Gaussian."""

    z: Array
    x: Array
    images: Array | None = None
    degrees_of_freedom: int | None = None

    @property
    def squares(self) -> Array:
        """‖zᵢ‖² (..., n)."""
        return np.vecdot(self.z, self.z)

    @property
    def surprise(self) -> Array:
        """−log p(xᵢ) = ‖zᵢ‖²/2 (..., n), up to a constant."""
        return HALF * self.squares


Transport = Callable[[Array], Array]
"""Vectors (..., d) of the old whitened frame to the new one: v ↦ M^{-1/2}v."""


@value
class Move:
    """Where a step leads: the new θ, where it is a member of the family (...), and how vectors of the frame come along."""

    theta: Any
    usable: Mask
    transport: Transport
    stretch: PerTrial = ONE  # (...,), what the units of images grow by: those of transported vectors are the old ones over it


class Family(Protocol):
    """A distribution θ of a family, frozen. Leading axes (...) of every field are independent trials."""

    @property
    def mean(self) -> Array: ...  # (..., d)
    @property
    def dimension(self) -> int: ...
    @property
    def degrees_of_freedom(self) -> int: ...  # how many numbers determine the covariance: what learning rates depend on besides d
    @property
    def cov(self) -> Array: ...
    @property
    def deviations(self) -> Array: ...
    def principal_axes(self, units: Array | None = None) -> Array: ...
    @property
    def log_size(self) -> float: ...
    def marginal_cov(self, variables: NDArray[np.intp]) -> Array: ...
    def sample(self, noise: Noise, size: int) -> Sample: ...
    def sample_at(self, z: Array) -> Sample: ...
    def whiten(self, x: Array) -> Array: ...
    def push(self, z: Array) -> Array: ...
    def pull(self, covectors: Array) -> Array: ...
    def log_density(self, x: Array) -> Array: ...
    @property
    def coordinates(self) -> Array: ...
    def at_coordinates(self, coordinates: Array) -> Self: ...
    @property
    def fisher(self) -> Array: ...
    def velocity(self, tangent: Tangent) -> Array: ...
    def images(self, z: Array) -> Array | None: ...
    @property
    def change_size(self) -> int: ...
    def change(self, tangent: Tangent) -> Array: ...
    def moved(self, tangent: Tangent) -> Move: ...


def in_range(scale: PerTrial) -> Any:
    """Where a standard deviation is representable with room to spare."""
    return (scale > SCALE_RANGE[0]) & (scale < SCALE_RANGE[1])


def sorted_axes(deviations: Array, units: Array | None) -> Array:
    """Principal axes (..., d) of independent coordinates with these standard deviations (..., d), in units (d,), the longest first."""
    return np.sort(deviations if units is None else deviations / units, axis=-1)[..., ::-1]


def diagonal_marginal(deviations: Array, variables: NDArray[np.intp]) -> Array:
    """Covariance (v, v) of some of a single run's independent coordinates with these standard deviations (d,)."""
    with np.errstate(over="ignore", under="ignore"):
        return np.diag(np.square(deviations[variables]))


def distribution_text(theta: Any) -> str:
    """A distribution in one line."""
    return f"{type(theta).__name__}(mean={short_array(theta.mean)}, std={short_array(theta.deviations)})"
