"""The product of a Gaussian, whose integer coordinates may be widened, and of categorical variables."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, PerTrial, expand_trailing, rows, value_class
from sublevel.engine.families.categorical import Categorical
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.protocol import Axis, Discrete, Family, Move, Sample, format_distribution
from sublevel.engine.tangent import Tangent

SETTLED = 2.0
"""A discrete variable has settled when it leaves its value with at most this many times the margin's probability."""


@value_class
class MixedSample:
    """Points of a `Mixed` distribution: k real coordinates, then m categories as numbers."""

    gaussian: Sample
    x: Array  # (..., n, k + m)
    choices: NDArray[np.intp] | None  # (..., n, m)

    @property
    def z(self) -> Array:
        """Whitened points of the Gaussian (..., n, k)."""
        return self.gaussian.z

    @property
    def half(self) -> Array | None:
        """As of the Gaussian."""
        return self.gaussian.half

    @property
    def images(self) -> Array | None:
        """As of the Gaussian."""
        return self.gaussian.images

    @property
    def squares(self) -> Array:
        """‖zᵢ‖² (..., n)."""
        return self.gaussian.squares

    @property
    def surprise(self) -> Array:
        """−log p(xᵢ) (..., n) of the Gaussian, up to a constant."""
        return self.gaussian.surprise

    @property
    def degrees_of_freedom(self) -> int | None:
        """As of the Gaussian."""
        return self.gaussian.degrees_of_freedom

    @property
    def pairs(self) -> int:
        """As of the Gaussian."""
        return self.gaussian.pairs

    def with_pairs(self) -> MixedSample:
        """The sample with the mirrored pairs of its Gaussian counted."""
        return MixedSample(self.gaussian.with_pairs(), self.x, self.choices)


@value_class
class Mixed:
    """Gaussian × categorical. The natural gradient of a product is the product of the natural gradients.

    Coordinates of the Gaussian that stand for integers are drawn wider by the factors `widening`, so that they can
    leave their integer however narrow the Gaussian has become. The Gaussian itself learns as if it were not widened
    (CMA-ES with Margin: Hamano et al., GECCO 2022).
    """

    continuous: ClassVar[bool] = True

    gaussian: Family  # of dimension k
    widening: Array  # (..., k), 1 for coordinates that are real
    leaving: Array  # (..., k), probability of leaving the current integer; 0 for coordinates that are real
    choices: Categorical | None  # m variables
    margin: PerTrial  # (...,), least probability of leaving a discrete value

    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> Mixed:
        """A full Gaussian, without integer coordinates and categories."""
        gaussian = FullGaussian.start(mean, deviations, correlation_root)
        return cls(gaussian, np.ones_like(mean), np.zeros_like(mean), None, np.zeros(mean.shape[:-1])[()])

    def __repr__(self) -> str:
        """The mean and the standard deviations of the real coordinates."""
        return format_distribution(self)

    @property
    def coordinate_axes(self) -> bool:
        """Whether the principal axes are always the coordinate axes."""
        return self.gaussian.coordinate_axes

    @property
    def mean(self) -> Array:
        """Mean of the Gaussian (..., k)."""
        return self.gaussian.mean

    @property
    def center(self) -> Array:
        """The mean of the Gaussian and the most probable categories (..., k + m)."""
        if self.choices is None:
            return self.gaussian.mean
        return np.concatenate([self.gaussian.mean, self.choices.mode.astype(np.float64)], axis=-1)

    @property
    def discrete(self) -> Discrete:
        """The integers and categories of a single run."""
        leaving = self.leaving[self.leaving > 0.0]
        if self.choices is not None:
            leaving = np.concatenate([leaving, self.choices.leaving])
        return Discrete(leaving.size, int(np.count_nonzero(leaving > SETTLED * self.margin)), float(self.margin))

    @property
    def follows_scale(self) -> NDArray[np.bool_] | None:
        """Coordinates (..., k) whose width follows the scale: all but integers that have settled, which have the width
        of the margin. None if none is an integer.
        """
        is_integer = self.leaving > 0.0
        if not is_integer.any():
            return None
        return ~is_integer | (self.leaving > SETTLED * expand_trailing(self.margin, 1))

    @property
    def dimension(self) -> int:
        """k."""
        return self.gaussian.dimension

    @property
    def degrees_of_freedom(self) -> int:
        """Of the covariance of the Gaussian."""
        return self.gaussian.degrees_of_freedom

    @property
    def stored_numbers(self) -> int:
        """Approximate size of the state."""
        return self.gaussian.stored_numbers + (0 if self.choices is None else self.choices.probabilities.size)

    @property
    def _wide(self) -> Family:
        """The Gaussian as it is drawn from."""
        return self.gaussian.widen(self.widening)

    @property
    def deviations(self) -> Array:
        """Standard deviations of the coordinates as they are drawn (..., k)."""
        return self.widening * self.gaussian.deviations

    def deviation(self, index: int) -> float:
        """Standard deviation of a single run's coordinate."""
        return float(self.widening[index]) * self.gaussian.deviation(index)

    def principal_axes(self, units: Array | None = None) -> Array:
        """Standard deviations along the principal axes (..., k), the longest first, for coordinates in these units."""
        return self._wide.principal_axes(units)

    def shortest_axis(self) -> Axis | None:
        """The shortest principal axis of a single run's Gaussian."""
        return self.gaussian.shortest_axis()

    @property
    def log_size(self) -> float:
        """ln of the geometric mean of a single run's principal axes."""
        return self._wide.log_size

    @property
    def cov(self) -> Array:
        """Covariance of the coordinates as they are drawn (..., k, k)."""
        return self._wide.cov

    @property
    def dense_root(self) -> Array:
        """A root (k, k) of a single run's covariance."""
        return self._wide.dense_root

    def correlation(self, variables: NDArray[np.intp]) -> Array:
        """Correlation matrix (v, v) of some coordinates of a single run."""
        return self.gaussian.correlation(variables)

    def sample(self, noise: Noise, size: int) -> MixedSample:
        """Draw `size` points (..., size, k + m)."""
        gaussian = self.gaussian.sample(noise, size)
        return self._sample(gaussian, None if self.choices is None else self.choices.sample(noise, size))

    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> MixedSample:
        """The sample whose whitened points are z (..., n, k) and whose categories are these (..., n, m)."""
        return self._sample(self.gaussian.sample_at(z), choices)

    def _sample(self, gaussian: Sample, choices: NDArray[np.intp] | None) -> MixedSample:
        x = self._widen(gaussian.x)
        points = x if choices is None else np.concatenate([x, choices.astype(np.float64)], axis=-1)
        return MixedSample(gaussian, points, choices)

    def _widen(self, x: Array) -> Array:
        mean = rows(self.gaussian.mean)
        factors = rows(self.widening)
        return np.where(factors == 1.0, x, mean + factors * (x - mean))

    def push(self, z: Array) -> Array:
        """Points (..., n, k) of whitened points."""
        return self._widen(self.gaussian.push(z))

    def whiten(self, x: Array) -> Array:
        """Whitened points (..., n, k) of the coordinates of x (..., n, k)."""
        mean = rows(self.gaussian.mean)
        return self.gaussian.whiten(mean + (x - mean) / rows(self.widening))

    def pull(self, covectors: Array) -> Array:
        """Transform covectors (..., c, k) to the whitened frame."""
        return self.gaussian.pull(covectors * rows(self.widening))

    def log_density(self, x: Array) -> Array:
        """log p (..., n) of the coordinates of x (..., n, k)."""
        return self._wide.log_density(x)

    def images(self, z: Array) -> Array | None:
        """As of the Gaussian."""
        return self.gaussian.images(z)

    @property
    def covariance_change_size(self) -> int:
        """Length of `covariance_change`."""
        return self.gaussian.covariance_change_size

    def covariance_change(self, tangent: Tangent) -> Array:
        """ΔC of a step in coordinates that are orthonormal in the Fisher metric."""
        return self.gaussian.covariance_change(tangent)

    def rescale(self, factors: Array) -> Mixed:
        """Multiply the coordinates by factors (k,) about the mean.

        Integers do not follow the other coordinates if the Gaussian has a single variance.
        """
        gaussian = self.gaussian.rescale(factors)
        exact = factors * self.deviations / gaussian.deviations
        return replace(self, gaussian=gaussian, widening=np.where(self.leaving > 0.0, exact, self.widening))

    def widen(self, factors: Array) -> Mixed:
        """Multiply the coordinates by factors (k,) about the mean."""
        return replace(self, widening=self.widening * factors)

    def at_mean(self, mean: Array) -> Mixed:
        """The distribution with another mean of its Gaussian (..., k)."""
        return self.with_gaussian(self.gaussian.at_mean(mean))

    def with_gaussian(self, gaussian: Family) -> Mixed:
        """The distribution with another Gaussian."""
        return Mixed(gaussian, self.widening, self.leaving, self.choices, self.margin)

    def with_margins(self, mean: Array, widening: Array, leaving: Array) -> Mixed:
        """The distribution with another mean, and other factors and probabilities of its integer coordinates."""
        return Mixed(self.gaussian.at_mean(mean), widening, leaving, self.choices, self.margin)

    def move(self, tangent: Tangent) -> Move:
        """The step of both parts along a tangent."""
        move, choices = self.gaussian.move(tangent), self.choices
        if choices is not None and tangent.choices is not None:
            choices = choices.move(tangent.choices, self.margin)
        theta = Mixed(move.theta, self.widening, self.leaving, choices, self.margin)
        return Move(theta, move.usable, move.transport, move.stretch)
