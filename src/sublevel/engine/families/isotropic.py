"""The Gaussian with one variance for all directions. Of the covariance part of a tangent it uses the trace over d."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, PerTrial, expand_trailing, rows, value_class
from sublevel.engine.families.diagonal import DiagonalGaussian
from sublevel.engine.families.protocol import (
    LOG_2PI,
    GaussianSample,
    IndependentCoordinates,
    Move,
    format_distribution,
    in_range,
)
from sublevel.engine.linalg import all_finite
from sublevel.engine.sampling import known_pairs
from sublevel.engine.tangent import Tangent


@value_class
class IsotropicGaussian(IndependentCoordinates):
    """Gaussian distribution N(mean, scale²·I).

    Attributes
    ----------
    mean : ndarray, shape (..., d)
    scale : ndarray, shape (...,)
        Standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> float(IsotropicGaussian.start(np.zeros(2), np.array([2.0, 2.0])).scale)
    2.0
    """

    continuous: ClassVar[bool] = True

    mean: Array  # (..., d)
    scale: PerTrial  # (...,)

    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> IsotropicGaussian:
        """Create a distribution from a mean (..., d) and deviations (..., d), whose root mean square is taken."""
        peak = np.max(deviations, axis=-1)
        axes = deviations / peak[..., None]
        if correlation_root is None:
            variances = np.square(axes)
        else:
            root = axes[..., None] * correlation_root
            variances = np.vecdot(root, root)
        return cls(mean, peak * np.sqrt(np.mean(variances, axis=-1)))

    def __repr__(self) -> str:
        """The mean and the standard deviations; of many variables only the first and the last."""
        return format_distribution(self)

    @property
    def degrees_of_freedom(self) -> int:
        """1."""
        return 1

    @property
    def deviations(self) -> Array:
        """Standard deviation of each coordinate, shape (..., d)."""
        return np.broadcast_to(self.scale[..., None], self.mean.shape)

    def sample(self, noise: Noise, size: int) -> GaussianSample:
        """Draw `size` points (..., size, d)."""
        z = noise.standard_normal((*self.mean.shape[:-1], size, self.mean.shape[-1]))
        return GaussianSample(z, self.push(z), None, self.degrees_of_freedom, known_pairs(noise, size))

    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> GaussianSample:
        """The sample whose whitened points are z (..., n, d); there are no categories."""
        return GaussianSample(z, self.push(z), None, self.degrees_of_freedom)

    def push(self, z: Array) -> Array:
        """Points x = m + scale·z (..., n, d) for whitened points z."""
        x = expand_trailing(self.scale, 2) * z
        x += rows(self.mean)
        return x

    def whiten(self, x: Array) -> Array:
        """Whitened points (..., n, d)."""
        return (x - rows(self.mean)) / expand_trailing(self.scale, 2)

    def pull(self, covectors: Array) -> Array:
        """Transform covectors (..., k, d), such as gradients of f, to the whitened frame."""
        return covectors * expand_trailing(self.scale, 2)

    def log_density(self, x: Array) -> Array:
        """log p(x), shape (..., n)."""
        z = self.whiten(x)
        volume = self.dimension * np.log(self.scale)
        return -0.5 * (np.vecdot(z, z) + self.dimension * LOG_2PI) - volume[..., None]

    @property
    def coordinates(self) -> Array:
        """θ = (m, variance), shape (..., d + 1)."""
        return np.concatenate([self.mean, np.square(self.scale)[..., None]], axis=-1)

    def at_coordinates(self, coordinates: Array) -> IsotropicGaussian:
        """The member of the family at (m, variance)."""
        return IsotropicGaussian(coordinates[..., :-1], np.sqrt(coordinates[..., -1]))

    @property
    def fisher(self) -> Array:
        """Fisher information (..., d + 1, d + 1) in the coordinates (m, variance): 1/v for the mean, d/(2v²) for v."""
        d = self.dimension
        precision = np.square(1.0 / self.scale)[..., None]
        diagonal = np.concatenate([np.repeat(precision, d, axis=-1), 0.5 * d * np.square(precision)], axis=-1)
        return diagonal[..., None] * np.eye(d + 1)

    def velocity(self, tangent: Tangent) -> Array:
        """The tangent in the coordinates (m, variance)."""
        change = np.square(self.scale) * tangent.rate * np.mean(tangent.cloud.diagonal, axis=-1)
        return np.concatenate([expand_trailing(self.scale, 1) * tangent.mean, change[..., None]], axis=-1)

    def rescale(self, factors: Array) -> IsotropicGaussian:
        """Multiply the coordinates by the smallest of the factors (d,) about the mean."""
        return IsotropicGaussian(self.mean, self.scale * np.min(factors))

    def widen(self, factors: Array) -> DiagonalGaussian:
        """Multiply the coordinates by factors (d,) about the mean."""
        return DiagonalGaussian(self.mean, factors * self.deviations)

    def at_mean(self, mean: Array) -> IsotropicGaussian:
        """The distribution with another mean (..., d)."""
        return IsotropicGaussian(mean, self.scale)

    @property
    def covariance_change_size(self) -> int:
        """Length of `covariance_change`."""
        return 1

    def covariance_change(self, tangent: Tangent) -> Array:
        """ΔC of a step (..., 1) in a coordinate of unit length in the Fisher metric."""
        growth = 1.0 + tangent.rate * np.mean(tangent.cloud.diagonal, axis=-1)
        return np.sqrt(0.5 * self.dimension) * (np.exp(2.0 * tangent.log_scale) * growth - 1.0)[..., None]

    def move(self, tangent: Tangent) -> Move:
        """The step along a tangent, usable where the variance is positive and in range."""
        with np.errstate(over="ignore", invalid="ignore"):
            relative = tangent.rate * np.mean(tangent.cloud.diagonal, axis=-1)
            growth = np.exp(relative) if tangent.exponential else 1.0 + relative
            mean = self.mean + expand_trailing(self.scale, 1) * tangent.mean
            root = np.sqrt(np.maximum(growth, 0.0))
            scale = self.scale * root * np.exp(tangent.log_scale)
            usable = in_range(scale) & all_finite(mean)
            return Move(IsotropicGaussian(mean, scale), usable, lambda vector: vector / expand_trailing(root, 1))
