"""The interface of a family of search distributions."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import ONE, Array, Mask, Noise, PerTrial, constant, value_class
from sublevel.engine.families.categorical import Categorical
from sublevel.engine.sampling import count_pairs
from sublevel.engine.tangent import Tangent
from sublevel.summaries import short_array

LOG_2PI = log(2 * pi)
SQRT_HALF = sqrt(0.5)
HALF = constant(0.5)
SCALE_RANGE = (2.0**-1000, 2.0**1000)
"""Range of standard deviations, about 1e-301 to 1e301; a step that leaves this range is refused."""


class Sample(Protocol):
    """Points drawn from a distribution, with whitened coordinates: A⁻¹(x − m) would lose log₁₀ Cond(A) digits."""

    @property
    def z(self) -> Array: ...  # (..., n, d)
    @property
    def x(self) -> Array: ...  # (..., n, d)
    @property
    def half(self) -> Array | None: ...  # (..., ⌈n/2⌉, d), the first points of pairs, if sums over pairs are formed
    @property
    def images(self) -> Array | None: ...  # of z, or of the half if there is one: products with the root, if reused
    @property
    def squares(self) -> Array: ...  # (..., n), ‖zᵢ‖²
    @property
    def surprise(self) -> Array: ...  # (..., n), −log p(xᵢ) up to a constant
    @property
    def degrees_of_freedom(self) -> int | None: ...  # of the covariance of the distribution, None for a full one
    @property
    def choices(self) -> NDArray[np.intp] | None: ...  # (..., n, m), categories, if there are any
    @property
    def pairs(self) -> int: ...  # mirrored pairs z, −z that are known
    def with_pairs(self) -> Self: ...  # the same sample, with its mirrored pairs counted


@value_class
class GaussianSample:
    """Points of a Gaussian."""

    z: Array
    x: Array
    images: Array | None = None
    degrees_of_freedom: int | None = None
    pairs: int = 0
    half: Array | None = None
    _squares: Array | None = None

    @property
    def choices(self) -> None:
        """None: there are no categories."""

    @property
    def squares(self) -> Array:
        """‖zᵢ‖² (..., n), computed once."""
        if self._squares is None:
            self._squares = np.vecdot(self.z, self.z)  # pyright: ignore[reportAttributeAccessIssue]
        return self._squares

    @property
    def surprise(self) -> Array:
        """−log p(xᵢ) = ‖zᵢ‖²/2 (..., n), up to a constant."""
        return HALF * self.squares

    def with_pairs(self) -> GaussianSample:
        """The sample with its mirrored pairs counted."""
        squares = self.squares
        return GaussianSample(self.z, self.x, self.images, self.degrees_of_freedom, count_pairs(squares), None, squares)


Transport = Callable[[Array], Array]
"""Maps vectors (..., d) of the old whitened frame to the new one: v ↦ M^{-1/2}v."""


@value_class
class Move:
    """The result of a step: the new θ, whether it is in the family (...), and the transport of vectors to its frame."""

    theta: Family
    usable: Mask
    transport: Transport
    stretch: PerTrial = ONE  # (...,), growth of the unit of images: that of a transported vector is divided by it


class Family(Protocol):
    """A distribution θ of a family, immutable. Leading axes (...) of every field are independent trials.

    These members are used by the search; `paper.theory.manifold.Manifold` lists those used by theory and tests only.
    """

    continuous: ClassVar[bool]  # whether points are real vectors; if not, bounds, sigma0 and curvature do not apply

    @property
    def coordinate_axes(self) -> bool: ...  # whether the principal axes are always the coordinate axes
    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> Self: ...
    @property
    def mean(self) -> Array: ...  # (..., d)
    @property
    def center(self) -> Array: ...  # (..., d) or (..., d + m), the mean and the most probable categories
    @property
    def choices(self) -> Categorical | None: ...  # the categorical part of a product
    @property
    def discrete(self) -> Discrete | None: ...  # integers and categories of a single run; None if there are none
    @property
    def follows_scale(self) -> NDArray[np.bool_] | None: ...  # (..., d), coordinates whose width does; None if all
    @property
    def dimension(self) -> int: ...
    @property
    def degrees_of_freedom(self) -> int: ...  # number of parameters of the covariance; learning rates depend on it
    @property
    def stored_numbers(self) -> int: ...  # approximate size of the state of a single run
    @property
    def deviations(self) -> Array: ...  # (..., d)
    def deviation(self, index: int) -> float: ...  # of a single run's coordinate
    def principal_axes(self, units: Array | None = None) -> Array: ...  # (..., d), deviations, the longest first
    def shortest_axis(self) -> Axis | None: ...  # of a single run; None if `coordinate_axes`
    @property
    def log_size(self) -> float: ...  # ln of the geometric mean of a single run's principal axes
    @property
    def cov(self) -> Array: ...  # (..., d, d), computed on access
    @property
    def dense_root(self) -> Array: ...  # (d, d) of a single run: dense_root @ dense_root.T is C
    def correlation(self, variables: NDArray[np.intp]) -> Array: ...  # (v, v), of a single run
    def sample(self, noise: Noise, size: int) -> Sample: ...
    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> Sample: ...
    def push(self, z: Array) -> Array: ...  # x (..., n, d) of whitened points
    def whiten(self, x: Array) -> Array: ...
    def pull(self, covectors: Array) -> Array: ...
    def log_density(self, x: Array) -> Array: ...  # (..., n)
    def images(self, z: Array) -> Array | None: ...
    @property
    def covariance_change_size(self) -> int: ...
    def covariance_change(self, tangent: Tangent) -> Array: ...  # (..., change_size), orthonormal in the Fisher metric
    def move(self, tangent: Tangent) -> Move: ...
    def rescale(self, factors: Array) -> Self: ...  # a single run, stretched by factors (d,) about the mean
    def widen(self, factors: Array) -> Family: ...  # the same, in a family that can have any factors
    def at_mean(self, mean: Array) -> Self: ...  # with another mean (..., d)


class Discrete(NamedTuple):
    """How far integers and categories have settled."""

    variables: int
    unsettled: int  # variables that often leave their most probable value
    margin: float  # least probability of leaving it


@value_class
class Axis:
    """The shortest principal axis of a distribution."""

    direction: Array  # (d,), of length 1
    length: float  # a standard deviation
    condition: float  # of the covariance: (longest/shortest)²


def in_range(scale: PerTrial) -> Mask:
    """Whether a standard deviation is within `SCALE_RANGE`."""
    low, high = SCALE_RANGE
    return low < scale < high if scale.ndim == 0 else (scale > low) & (scale < high)


class MeanAndDeviations(Protocol):
    """The properties that `IndependentCoordinates` uses."""

    @property
    def mean(self) -> Array: ...  # (..., d)
    @property
    def deviations(self) -> Array: ...  # (..., d)


class IndependentCoordinates:
    """Members shared by families with independent coordinates."""

    __slots__ = ()

    @property
    def coordinate_axes(self) -> bool:
        """True."""
        return True

    @property
    def choices(self) -> None:
        """None: there are no categories."""

    @property
    def discrete(self) -> None:
        """None: all coordinates are real, or all are bits."""

    @property
    def follows_scale(self) -> None:
        """None: all coordinates do."""

    @property
    def center(self: MeanAndDeviations) -> Array:
        """The mean (..., d)."""
        return self.mean

    @property
    def dimension(self: MeanAndDeviations) -> int:
        """d."""
        return self.mean.shape[-1]

    @property
    def stored_numbers(self: MeanAndDeviations) -> int:
        """The size of the mean and the deviations."""
        return 2 * self.mean.shape[-1]

    def deviation(self: MeanAndDeviations, index: int) -> float:
        """Standard deviation of a single run's coordinate."""
        return float(self.deviations[index])

    def principal_axes(self: MeanAndDeviations, units: Array | None = None) -> Array:
        """Standard deviations along the principal axes (..., d), the longest first, with coordinates in units (d,)."""
        return np.sort(self.deviations if units is None else self.deviations / units, axis=-1)[..., ::-1]

    def shortest_axis(self: MeanAndDeviations) -> None:
        """None: the principal axes are the coordinate axes."""

    @property
    def log_size(self: MeanAndDeviations) -> float:
        """ln of the geometric mean of a single run's principal axes."""
        return float(np.mean(np.log(self.deviations)))

    @property
    def dense_root(self: MeanAndDeviations) -> Array:
        """The diagonal root (d, d) of a single run's covariance."""
        return np.diag(self.deviations)

    @property
    def cov(self: MeanAndDeviations) -> Array:
        """C, a diagonal matrix (..., d, d)."""
        with np.errstate(over="ignore", under="ignore"):  # avoids 0·inf where a variance overflows
            return self.deviations[..., None] * (self.deviations[..., None] * np.eye(self.mean.shape[-1]))

    def correlation(self: MeanAndDeviations, variables: NDArray[np.intp]) -> Array:
        """Correlation matrix (v, v) of some coordinates."""
        return np.eye(variables.size)

    def images(self: MeanAndDeviations, z: Array) -> None:
        """None: these families do not use images."""


def format_distribution(theta: MeanAndDeviations) -> str:
    """Format a distribution in one line."""
    return f"{type(theta).__name__}(mean={short_array(theta.mean)}, std={short_array(theta.deviations)})"
