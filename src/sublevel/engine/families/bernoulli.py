"""Independent bits. In the whitened frame z = (x − p)/√(p(1 − p)) a step along the mean part of a tangent is PBIL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise
from sublevel.engine.families.protocol import IndependentCoordinates, Move, format_distribution
from sublevel.engine.tangent import Tangent

MARGIN = 2.0**-40
"""Minimum distance of probabilities from 0 and 1, where whitening is not defined."""


@dataclass(frozen=True, slots=True)
class BernoulliSample:
    """Vectors of bits, as floats 0 and 1."""

    z: Array  # (..., n, d)
    x: Array  # (..., n, d)
    surprise: Array  # (..., n), −log P(xᵢ)
    half: None = None
    images: None = None
    degrees_of_freedom: int = 0
    choices: None = None
    pairs: int = 0

    def with_pairs(self) -> BernoulliSample:
        """The sample: bits have no mirror images."""
        return self

    @property
    def squares(self) -> Array:
        """‖zᵢ‖² (..., n)."""
        return np.vecdot(self.z, self.z)


@dataclass(frozen=True, slots=True)
class Bernoulli(IndependentCoordinates):
    """Independent bits: bit j is 1 with probability mean[j].

    Attributes
    ----------
    mean : ndarray, shape (..., d)
        Probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli.start(np.array([0.5, 0.5])).deviations
    array([0.5, 0.5])
    """

    continuous: ClassVar[bool] = False

    mean: Array  # (..., d)

    @classmethod
    def start(cls, mean: Array, deviations: Array | None = None, correlation_root: Array | None = None) -> Bernoulli:
        """Create a distribution from probabilities (..., d); the other arguments are ignored."""
        return cls(np.clip(mean, MARGIN, 1.0 - MARGIN))

    def __repr__(self) -> str:
        """The mean and the standard deviations; of many variables only the first and the last."""
        return format_distribution(self)

    @property
    def degrees_of_freedom(self) -> int:
        """0: the mean determines the covariance."""
        return 0

    @property
    def deviations(self) -> Array:
        """√(p(1 − p)), shape (..., d)."""
        return np.sqrt(self.mean * (1.0 - self.mean))

    def sample(self, noise: Noise, size: int) -> BernoulliSample:
        """Draw `size` vectors of bits (..., size, d)."""
        uniform = noise.random((*self.mean.shape[:-1], size, self.mean.shape[-1]))
        return self._sample_of((uniform < self.mean[..., None, :]).astype(np.float64))

    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> BernoulliSample:
        """The sample whose whitened points are z (..., n, d); there are no categories."""
        return self._sample_of(np.rint(self.push(z)))

    def _sample_of(self, x: Array) -> BernoulliSample:
        return BernoulliSample(self.whiten(x), x, -self.log_density(x))

    def push(self, z: Array) -> Array:
        """Bits from whitened ones (..., n, d)."""
        return self.mean[..., None, :] + self.deviations[..., None, :] * z

    def whiten(self, x: Array) -> Array:
        """z = (x − p)/√(p(1 − p)) (..., n, d)."""
        return (x - self.mean[..., None, :]) / self.deviations[..., None, :]

    def pull(self, covectors: Array) -> Array:
        """Transform covectors (..., k, d) to the whitened frame."""
        return covectors * self.deviations[..., None, :]

    def log_density(self, x: Array) -> Array:
        """log P(x), shape (..., n)."""
        p = self.mean[..., None, :]
        return np.sum(np.log(np.where(x > 0.5, p, 1.0 - p)), axis=-1)

    @property
    def coordinates(self) -> Array:
        """θ = p, shape (..., d)."""
        return self.mean

    def at_coordinates(self, coordinates: Array) -> Bernoulli:
        """The member of the family at p."""
        return Bernoulli(coordinates)

    @property
    def fisher(self) -> Array:
        """Fisher information (..., d, d) in the coordinate p: 1/(p(1 − p))."""
        return (1.0 / (self.mean * (1.0 - self.mean)))[..., None] * np.eye(self.dimension)

    def velocity(self, tangent: Tangent) -> Array:
        """The tangent in the coordinate p: Σ wᵢ (xᵢ − p)."""
        return self.deviations * tangent.mean

    @property
    def covariance_change_size(self) -> int:
        """Length of `covariance_change`."""
        return 0

    def covariance_change(self, tangent: Tangent) -> Array:
        """An empty array (..., 0): there are no parameters besides the mean."""
        return np.zeros((*self.mean.shape[:-1], 0))

    def rescale(self, factors: Array) -> Bernoulli:
        """The same distribution: bits have no scale."""
        return self

    def widen(self, factors: Array) -> Bernoulli:
        """The same distribution: bits have no scale."""
        return self

    def at_mean(self, mean: Array) -> Bernoulli:
        """The distribution with other probabilities (..., d)."""
        return Bernoulli(mean)

    def move(self, tangent: Tangent) -> Move:
        """The step to p + Σ wᵢ (xᵢ − p), usable where every probability is in [0, 1]."""
        mean = self.mean + self.velocity(tangent)
        usable = np.logical_and.reduce((mean >= -MARGIN) & (mean <= 1.0 + MARGIN), axis=-1)
        return Move(Bernoulli(np.clip(mean, MARGIN, 1.0 - MARGIN)), usable, lambda vector: vector)
