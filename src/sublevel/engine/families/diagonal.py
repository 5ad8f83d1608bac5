"""The Gaussian with a diagonal covariance matrix. It uses the diagonal of the covariance part of a tangent."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, expand_trailing, rows, value_class
from sublevel.engine.families.protocol import (
    LOG_2PI,
    SQRT_HALF,
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
class DiagonalGaussian(IndependentCoordinates):
    """Gaussian distribution N(mean, diag(deviations²)).

    Attributes
    ----------
    mean : ndarray, shape (..., d)
    deviations : ndarray, shape (..., d)
        Standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> DiagonalGaussian.start(np.zeros(2), np.array([1.0, 2.0])).cov
    array([[1., 0.],
           [0., 4.]])
    """

    continuous: ClassVar[bool] = True

    mean: Array  # (..., d)
    deviations: Array  # (..., d)

    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> DiagonalGaussian:
        """Create a distribution from a mean (..., d) and deviations (..., d); correlations are dropped."""
        if correlation_root is None:
            return cls(mean, deviations)
        return cls(mean, deviations * np.sqrt(np.vecdot(correlation_root, correlation_root)))

    def __repr__(self) -> str:
        """The mean and the standard deviations; of many variables only the first and the last."""
        return format_distribution(self)

    @property
    def degrees_of_freedom(self) -> int:
        """d."""
        return self.dimension

    def sample(self, noise: Noise, size: int) -> GaussianSample:
        """Draw `size` points (..., size, d)."""
        z = noise.standard_normal((*self.mean.shape[:-1], size, self.mean.shape[-1]))
        return GaussianSample(z, self.push(z), None, self.degrees_of_freedom, known_pairs(noise, size))

    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> GaussianSample:
        """The sample whose whitened points are z (..., n, d); there are no categories."""
        return GaussianSample(z, self.push(z), None, self.degrees_of_freedom)

    def push(self, z: Array) -> Array:
        """Points x = m + deviations·z (..., n, d) for whitened points z."""
        x = rows(self.deviations) * z
        x += rows(self.mean)
        return x

    def whiten(self, x: Array) -> Array:
        """Whitened points (..., n, d)."""
        return (x - rows(self.mean)) / rows(self.deviations)

    def pull(self, covectors: Array) -> Array:
        """Transform covectors (..., k, d), such as gradients of f, to the whitened frame."""
        return covectors * rows(self.deviations)

    def log_density(self, x: Array) -> Array:
        """log p(x), shape (..., n)."""
        z = self.whiten(x)
        volume = np.sum(np.log(self.deviations), axis=-1)
        return -0.5 * (np.vecdot(z, z) + self.dimension * LOG_2PI) - volume[..., None]

    @property
    def coordinates(self) -> Array:
        """θ = (m, variances), shape (..., 2d)."""
        return np.concatenate([self.mean, np.square(self.deviations)], axis=-1)

    def at_coordinates(self, coordinates: Array) -> DiagonalGaussian:
        """The member of the family at (m, variances)."""
        return DiagonalGaussian(coordinates[..., : self.dimension], np.sqrt(coordinates[..., self.dimension :]))

    @property
    def fisher(self) -> Array:
        """Fisher information (..., 2d, 2d) in the coordinates (m, variances)."""
        precision = np.square(1.0 / self.deviations)
        return np.concatenate([precision, 0.5 * np.square(precision)], axis=-1)[..., None] * np.eye(2 * self.dimension)

    def velocity(self, tangent: Tangent) -> Array:
        """The tangent in the coordinates (m, variances)."""
        change = expand_trailing(tangent.rate, 1) * tangent.cloud.diagonal
        return np.concatenate([self.deviations * tangent.mean, np.square(self.deviations) * change], axis=-1)

    def rescale(self, factors: Array) -> DiagonalGaussian:
        """Multiply the coordinates by factors (d,) about the mean."""
        return DiagonalGaussian(self.mean, factors * self.deviations)

    def widen(self, factors: Array) -> DiagonalGaussian:
        """Multiply the coordinates by factors (d,) about the mean."""
        return self.rescale(factors)

    def at_mean(self, mean: Array) -> DiagonalGaussian:
        """The distribution with another mean (..., d)."""
        return DiagonalGaussian(mean, self.deviations)

    @property
    def covariance_change_size(self) -> int:
        """Length of `covariance_change`."""
        return self.dimension

    def covariance_change(self, tangent: Tangent) -> Array:
        """ΔC of a step (..., d) in coordinates orthonormal in the Fisher metric."""
        growth = 1.0 + expand_trailing(tangent.rate, 1) * tangent.cloud.diagonal
        return SQRT_HALF * (expand_trailing(np.exp(2.0 * tangent.log_scale), 1) * growth - 1.0)

    def move(self, tangent: Tangent) -> Move:
        """The step along a tangent, usable where every variance is positive and in range."""
        with np.errstate(over="ignore", invalid="ignore"):
            relative = expand_trailing(tangent.rate, 1) * tangent.cloud.diagonal
            growth = np.exp(relative) if tangent.exponential else 1.0 + relative
            mean = self.mean + self.deviations * tangent.mean
            root = np.sqrt(np.maximum(growth, 0.0))
            deviations = self.deviations * root * expand_trailing(np.exp(tangent.log_scale), 1)
            usable = np.logical_and.reduce(in_range(deviations), axis=-1) & all_finite(mean)
            return Move(DiagonalGaussian(mean, deviations), usable, lambda vector: vector / root)
