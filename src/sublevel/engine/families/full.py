"""The Gaussian with a full covariance matrix."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import (
    ONE,
    ZERO,
    Array,
    Mask,
    Noise,
    PerTrial,
    all_trials,
    expand_trailing,
    rows,
    value_class,
)
from sublevel.engine.constants import full_freedom
from sublevel.engine.families.protocol import (
    LOG_2PI,
    SQRT_HALF,
    Axis,
    GaussianSample,
    Move,
    format_distribution,
    in_range,
)
from sublevel.engine.families.roots import exponential_root, thick_root, thin_root
from sublevel.engine.linalg import (
    add_to_diagonal,
    add_to_rows,
    all_finite,
    cholesky,
    image,
    multiply,
    product,
    solve,
)
from sublevel.engine.sampling import known_pairs, mirror
from sublevel.engine.tangent import Cloud, Tangent, are_halved, is_thin

CHECK_EVERY = 16
"""Steps of a single run between two range checks of all rows of its root; fewer cannot leave the range of floats."""


@value_class
class FullGaussian:
    """Gaussian distribution N(mean, scale²·root·rootᵀ).

    The root need not be symmetric or triangular. The scale is stored separately, so that it can be as small as 1e-300
    or as large as 1e300.

    Attributes
    ----------
    mean : ndarray, shape (..., d)
    root : ndarray, shape (..., d, d)
        Of norm about 1.
    scale : ndarray, shape (...,)
    unchecked : int
        Steps since the last range check of all rows of the root.

    Examples
    --------
    >>> import numpy as np
    >>> FullGaussian.start(np.zeros(2), np.array([1.0, 2.0])).cov
    array([[1., 0.],
           [0., 4.]])
    """

    continuous: ClassVar[bool] = True

    mean: Array  # (..., d)
    root: Array  # (..., d, d)
    scale: PerTrial  # (...,)
    unchecked: int = 0

    @classmethod
    def start(cls, mean: Array, deviations: Array, correlation_root: Array | None = None) -> FullGaussian:
        """Create a distribution from a mean (..., d), deviations (..., d) and a root of correlations (I if None)."""
        scale = power_of_two_near(np.max(deviations, axis=-1))
        axes = deviations / scale[..., None]
        root = axes[..., :, None] * (np.eye(mean.shape[-1]) if correlation_root is None else correlation_root)
        return cls(mean, *balance(root, scale))

    def __repr__(self) -> str:
        """The mean and the standard deviations; of many variables only the first and the last."""
        return format_distribution(self)

    @property
    def coordinate_axes(self) -> bool:
        """False."""
        return False

    @property
    def choices(self) -> None:
        """None: there are no categories."""

    @property
    def discrete(self) -> None:
        """None: all coordinates are real."""

    @property
    def follows_scale(self) -> None:
        """None: all coordinates do."""

    @property
    def center(self) -> Array:
        """The mean (..., d)."""
        return self.mean

    @property
    def dimension(self) -> int:
        """d."""
        return self.mean.shape[-1]

    @property
    def degrees_of_freedom(self) -> int:
        """d(d + 1)/2."""
        return full_freedom(self.dimension)

    @property
    def stored_numbers(self) -> int:
        """The size of the root."""
        return self.dimension**2

    @property
    def cov(self) -> Array:
        """C = scale²·root·rootᵀ, shape (..., d, d)."""
        return scale_covariance(self.root @ self.root.mT, self.scale)

    @property
    def deviations(self) -> Array:
        """Standard deviation of each coordinate, shape (..., d)."""
        return expand_trailing(self.scale, 1) * np.sqrt(np.vecdot(self.root, self.root))

    def deviation(self, index: int) -> float:
        """Standard deviation of a single run's coordinate."""
        row = self.root[index]
        return float(self.scale) * float(row.dot(row)) ** 0.5

    def principal_axes(self, units: Array | None = None) -> Array:
        """Standard deviations along the principal axes (..., d), the longest first, with coordinates in units (d,)."""
        root = self.root if units is None else self.root / units[:, None]
        return expand_trailing(self.scale, 1) * np.linalg.svd(root, compute_uv=False)

    @property
    def log_size(self) -> float:
        """ln of the geometric mean of a single run's principal axes, computed from the determinant."""
        return float(np.log(self.scale) + np.linalg.slogdet(self.root)[1] / self.dimension)

    @property
    def dense_root(self) -> Array:
        """A root (d, d) of a single run's covariance."""
        return self.scale * self.root

    def shortest_axis(self) -> Axis:
        """The shortest principal axis of a single run, by a singular value decomposition."""
        axes, lengths, _ = np.linalg.svd(self.root)
        with np.errstate(divide="ignore", over="ignore"):
            return Axis(axes[:, -1], self.scale * lengths[-1], float((lengths[0] / lengths[-1]) ** 2))

    def correlation(self, variables: NDArray[np.intp]) -> Array:
        """Correlation matrix (v, v) of some coordinates of a single run."""
        rows = self.root[variables]
        rows = rows / np.sqrt(np.vecdot(rows, rows))[:, None]
        return rows @ rows.T

    def sample(self, noise: Noise, size: int) -> GaussianSample:
        """Draw `size` points (..., size, d) (steps 3 and 4 of Akimoto 2012)."""
        d = self.mean.shape[-1]
        shape = (size, d) if self.mean.ndim == 1 else (*self.mean.shape[:-1], size, d)
        return self._sample(noise.standard_normal(shape), known_pairs(noise, size))

    def sample_at(self, z: Array, choices: NDArray[np.intp] | None = None) -> GaussianSample:
        """The sample whose whitened points are z (..., n, d); there are no categories."""
        return self._sample(z, 0)

    def _sample(self, z: Array, pairs: int) -> GaussianSample:
        """The sample of z (..., n, d), whose neighbours are so many mirrored pairs."""
        n, d = z.shape[-2:]
        half = z[..., 0::2, :].copy() if pairs and are_halved(n, d) else None
        images = product(z if half is None else half, self.root.mT)
        kept = images.copy() if is_thin(n, d) else None
        x = self._place(images if half is None else mirror(images, n))
        return GaussianSample(z, x, kept, None, pairs, half)

    def _place(self, images: Array) -> Array:
        """Turn images Az/scale (..., n, d) into the points, in place."""
        multiply(images, self.scale)
        add_to_rows(images, self.mean)
        return images

    def push(self, z: Array) -> Array:
        """Points x = m + Az (..., n, d) for whitened points z."""
        return self._place(z @ self.root.mT)

    def whiten(self, x: Array) -> Array:
        """Whitened points z = A⁻¹(x − m) (..., n, d); less accurate than the z of a sample if C is ill-conditioned."""
        centred = (x - rows(self.mean)) / expand_trailing(self.scale, 2)
        return solve(self.root, centred.mT).mT

    def pull(self, covectors: Array) -> Array:
        """Transform covectors (..., k, d), such as gradients of f, to the whitened frame: Aᵀg."""
        return expand_trailing(self.scale, 2) * (covectors @ self.root)

    def log_density(self, x: Array) -> Array:
        """log p(x), shape (..., n)."""
        z = self.whiten(x)
        volume = np.linalg.slogdet(self.root)[1] + self.dimension * np.log(self.scale)
        return -0.5 * (np.vecdot(z, z) + self.dimension * LOG_2PI) - volume[..., None]

    @property
    def coordinates(self) -> Array:
        """θ = (m, vec C), shape (..., d + d²)."""
        return np.concatenate([self.mean, self.cov.reshape(*self.mean.shape[:-1], -1)], axis=-1)

    def at_coordinates(self, coordinates: Array) -> FullGaussian:
        """The member of the family at (m, vec C)."""
        d = self.dimension
        cov = coordinates[..., d:].reshape(*coordinates.shape[:-1], d, d)
        root, _ = cholesky(0.5 * (cov + cov.mT))
        return FullGaussian(coordinates[..., :d], *balance(root, np.ones(coordinates.shape[:-1])))

    @property
    def fisher(self) -> Array:
        """Fisher information (..., d + d², d + d²) in the coordinates (m, vec C), eq:fisher."""
        d = self.dimension
        precision = np.linalg.inv(self.cov)
        fisher = np.zeros((*self.mean.shape[:-1], d + d * d, d + d * d))
        fisher[..., :d, :d] = precision
        kron = np.einsum("...ik,...jl->...ijkl", precision, precision)
        fisher[..., d:, d:] = 0.5 * kron.reshape(*self.mean.shape[:-1], d * d, d * d)
        return fisher

    def velocity(self, tangent: Tangent) -> Array:
        """The tangent in the coordinates (m, vec C): A·mean and A·(covariance part)·Aᵀ, eq:ng-est."""
        cloud = tangent.cloud
        part = cloud.moment - expand_trailing(cloud.decay, 2) * np.eye(self.dimension)
        root = expand_trailing(self.scale, 2) * self.root
        change = expand_trailing(tangent.rate, 2) * (root @ part @ root.mT)
        step = image(root, tangent.mean)
        return np.concatenate([step, change.reshape(*self.mean.shape[:-1], -1)], axis=-1)

    def images(self, z: Array) -> Array:
        """The root times whitened vectors (..., d)."""
        return image(self.root, z)

    def rescale(self, factors: Array) -> FullGaussian:
        """Multiply the coordinates by factors (d,) about the mean."""
        return FullGaussian(self.mean, factors[:, None] * self.root, self.scale, self.unchecked)

    def widen(self, factors: Array) -> FullGaussian:
        """Multiply the coordinates by factors (d,) about the mean."""
        return self.rescale(factors)

    def at_mean(self, mean: Array) -> FullGaussian:
        """The distribution with another mean (..., d)."""
        return FullGaussian(mean, self.root, self.scale, self.unchecked)

    @property
    def covariance_change_size(self) -> int:
        """Length of `covariance_change`."""
        return self.dimension**2

    def covariance_change(self, tangent: Tangent) -> Array:
        """ΔC of a step (..., d²) in coordinates that are orthonormal in the Fisher metric: A⁻¹ΔC·A⁻ᵀ/√2."""
        e = np.exp(2.0 * tangent.log_scale)
        matrix = expand_trailing(e * tangent.rate, 2) * tangent.cloud.moment
        add_to_diagonal(matrix, e * (1.0 - tangent.rate * tangent.cloud.decay) - 1.0)
        return SQRT_HALF * matrix.reshape(*matrix.shape[:-2], -1)

    def move(self, tangent: Tangent) -> Move:
        """The step along a tangent. Overflow near the ends of the range of floats makes it unusable, silently."""
        if all_trials(self.scale < 1e280):
            return self._move(tangent)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._move(tangent)

    def _move(self, tangent: Tangent) -> Move:
        """The step to m + A·mean and C = A(I + covariance part)Aᵀ, usable where C is positive definite and all numbers
        are in range.

        The root becomes A·M^{1/2} exactly: through k×k matrices for few vectors, else by Cholesky.
        """
        cloud, rate = tangent.cloud, tangent.rate
        if tangent.exponential:
            root, growth, definite, transport = exponential_root(self.root, cloud, rate)
        elif cloud.is_thin and isinstance(cloud, Cloud):
            root, growth, definite, transport = thin_root(self.root, cloud, rate)
        else:
            root, growth, definite, transport = thick_root(self.root, cloud, rate)
        mean = image(self.root, tangent.mean) if tangent.mean_image is None else tangent.mean_image.copy()
        multiply(mean, self.scale)
        mean += self.mean
        scale = self.scale if growth is ONE else self.scale * growth
        if tangent.log_scale is not ZERO:
            scale = scale * np.exp(tangent.log_scale)
        before = scale
        usable, unchecked = definite & all_finite(mean), self.unchecked + 1
        if scale is not self.scale:
            usable = usable & in_range(scale)
        if root.ndim > 2 or unchecked == CHECK_EVERY or not 0.25 < root[0, 0] < 4.0:
            root, scale = balance(root, scale)
            usable, unchecked = usable & rows_in_range(root, scale), 0
        stretch = growth if scale is before else growth * (scale / before)
        return Move(FullGaussian(mean, root, scale, unchecked), usable, transport, stretch)


def balance(root: Array, scale: PerTrial) -> tuple[Array, PerTrial]:
    """Move a power of two from the root to the scale so that the first row has a norm near 1. This is exact."""
    size = np.vecdot(root[..., 0, :], root[..., 0, :])
    if all_trials((size > 0.0625) & (size < 16.0)):
        return root, scale
    shift = power_of_two_near(np.sqrt(size))
    return root / shift[..., None, None], scale * shift


def rows_in_range(root: Array, scale: PerTrial) -> Mask:
    """Whether all standard deviations and all squared rows of the root are well within the range of floats (...)."""
    squares = np.vecdot(root, root)
    low, high = np.minimum.reduce(squares, axis=-1), np.maximum.reduce(squares, axis=-1)
    return (low > 1e-200) & (high < 1e200) & in_range(scale * np.sqrt(low)) & in_range(scale * np.sqrt(high))


def power_of_two_near(size: PerTrial) -> PerTrial:
    """The largest power of two ≤ size (...). Scaling by it is exact."""
    return np.ldexp(1.0, np.frexp(size)[1] - 1)


def scale_covariance(cov: Array, scale: PerTrial) -> Array:
    """scale²·cov, which may overflow or underflow without a warning."""
    with np.errstate(over="ignore", under="ignore"):
        return scale[..., None, None] * (scale[..., None, None] * cov)
