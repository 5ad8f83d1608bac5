"""The Gaussian with a diagonal covariance matrix: the covariance part of a tangent keeps its diagonal."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import Array, Noise, all_finite, expand_trailing, rows, value_class
from sublevel.engine.families.protocol import (
    LOG_2PI,
    SQRT_HALF,
    GaussianSample,
    IndependentCoordinates,
    Move,
    format_distribution,
    in_range,
)
from sublevel.engine.tangent import Tangent


@value_class
class DiagonalGaussian(IndependentCoordinates):
    """N(mean, diag(deviations²))."""

    continuous: ClassVar[bool] = True

    mean: Array  # (..., d)
    deviations: Array  # (..., d)

    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> DiagonalGaussian:
        """From a mean (..., d) and standard deviations (..., d); of a covariance only the diagonal can be kept."""
        if correlation_root is None:
            return cls(mean, deviations)
        return cls(mean, deviations * np.sqrt(np.vecdot(correlation_root, correlation_root)))

    def __repr__(self) -> str:
        """Mean and standard deviations, of many variables the first and the last."""
        return format_distribution(self)

    @property
    def degrees_of_freedom(self) -> int:
        """d numbers determine the covariance."""
        return self.dimension

    def sample(self, noise: Noise, size: int) -> GaussianSample:
        """`size` points (..., size, d)."""
        return self.sample_at(noise.standard_normal((*self.mean.shape[:-1], size, self.mean.shape[-1])))

    def sample_at(self, z: Array) -> GaussianSample:
        """The sample whose whitened points are z (..., n, d)."""
        return GaussianSample(z, self.push(z), None, self.degrees_of_freedom)

    def push(self, z: Array) -> Array:
        """Points x = m + deviations·z (..., n, d) from whitened ones."""
        x = rows(self.deviations) * z
        x += rows(self.mean)
        return x

    def whiten(self, x: Array) -> Array:
        """Whitened points (..., n, d)."""
        return (x - rows(self.mean)) / rows(self.deviations)

    def pull(self, covectors: Array) -> Array:
        """Covectors (..., k, d), such as gradients of f, as the whitened frame sees them."""
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
        """The distribution whose coordinates are multiplied by these factors (d,) about the mean."""
        return DiagonalGaussian(self.mean, factors * self.deviations)

    @property
    def covariance_change_size(self) -> int:
        """How many numbers `change` returns."""
        return self.dimension

    def covariance_change(self, tangent: Tangent) -> Array:
        """ΔC of a step (..., d) in coordinates that are orthonormal in the Fisher metric."""
        growth = 1.0 + expand_trailing(tangent.rate, 1) * tangent.cloud.diagonal
        return SQRT_HALF * (expand_trailing(np.exp(2.0 * tangent.log_scale), 1) * growth - 1.0)

    def move(self, tangent: Tangent) -> Move:
        """The step, usable where every variance is positive and in range."""
        with np.errstate(over="ignore", invalid="ignore"):
            relative = expand_trailing(tangent.rate, 1) * tangent.cloud.diagonal
            growth = np.exp(relative) if tangent.exponential else 1.0 + relative
            mean = self.mean + self.deviations * tangent.mean
            root = np.sqrt(np.maximum(growth, 0.0))
            deviations = self.deviations * root * expand_trailing(np.exp(tangent.log_scale), 1)
            usable = np.logical_and.reduce(in_range(deviations), axis=-1) & all_finite(mean)
            return Move(DiagonalGaussian(mean, deviations), usable, lambda vector: vector / root)
