"""Tangents: natural-gradient estimates as weighted clouds of whitened vectors.

At θ = N(m, AAᵀ) put z = A⁻¹(x − m). In these coordinates the natural gradient of log p(x) is z for the mean and
zzᵀ − I for the covariance, whatever θ is. So an estimate Σ wᵢ ∇̃ log p(xᵢ) is its weights and its vectors, no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array, PerTrial, expand_trailing, maximum, total, value_class
from sublevel.engine.linalg import add_square, append_row, combination, eigh, eigvalsh, gram, product, semidefinite_root

ZERO = np.float64(0.0)
ONE = np.float64(1.0)
THIN_FROM = 64
"""Dimensions up to which d×d matrices are always used: measured where the two ways cross."""
BLOCK = 1 << 17
"""Numbers of a weighted copy of the vectors kept at a time: about the size of a second-level cache."""


@value_class
class Weighting:
    """Weights of the points of a sample (..., n), in their order; positive attracts."""

    mean: Array  # (..., n), in the step of the mean
    cov: Array  # (..., n), in the step of the covariance
    decay: PerTrial  # (...,), the weight of −I there: Σ wᵢ for a natural gradient
    mu_eff: float | None = None  # of the weights for the mean, if their sum is 1; None: 1/Σ wᵢ², which depends on ties

    @classmethod
    def from_weights(cls, weights: Array) -> Weighting:
        """The same weights (..., n) for both steps, as a natural gradient has them."""
        return cls(weights, weights, total(weights))


def weighted_moment(vectors: Array, weights: Array) -> Array:
    """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d), block by block so that no weighted copy of all vectors is made."""
    if vectors.size <= BLOCK:
        return (vectors.T * weights).dot(vectors) if vectors.ndim == 2 else (vectors * weights[..., None]).mT @ vectors
    size = max(1, BLOCK * vectors.shape[-2] // vectors.size)
    moment = (vectors[..., :size, :] * weights[..., :size, None]).mT @ vectors[..., :size, :]
    for start in range(size, vectors.shape[-2], size):
        block = vectors[..., start : start + size, :]
        moment += (block * weights[..., start : start + size, None]).mT @ block
    return moment


def is_thin(k: int, d: int) -> bool:
    """Whether k vectors (..., k, d) are so few that k×k matrices are cheaper than d×d ones.

    Exactness asks for k < d alone; in few dimensions one d×d Cholesky beats the longer k×k formula anyway.
    """
    return d > THIN_FROM and k < d


class Cloud:
    """Σ wᵢ vᵢvᵢᵀ − decay·I as the vectors it is made of; what is computed from them is computed once."""

    __slots__ = ("_eigen", "_gram", "_gram_root", "_moment", "decay", "images", "is_thin", "vectors", "weights")

    def __init__(self, vectors: Array, weights: Array, decay: PerTrial, images: Array | None = None) -> None:
        """Whitened `vectors` (..., k, d) and `weights` (..., k), of which positive attracts; `decay` (...,) is Σ wᵢ for an estimate.

        `images` are the vectors seen through θ's root, where sampling has made them already.
        """
        self.vectors, self.weights, self.decay, self.images = vectors, weights, decay, images
        self.is_thin = is_thin(*vectors.shape[-2:])
        self._moment: Array | None = None
        self._gram: Array | None = None
        self._gram_root: Array | None = None
        self._eigen: tuple[Array, Array] | None = None

    @property
    def size(self) -> int:
        """k."""
        return self.weights.shape[-1]

    @property
    def moment(self) -> Array:
        """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d)."""
        if self._moment is None:
            self._moment = weighted_moment(self.vectors, self.weights)
        return self._moment

    @property
    def gram(self) -> Array:
        """VVᵀ (..., k, k)."""
        if self._gram is None:
            self._gram = gram(self.vectors)
        return self._gram

    @property
    def gram_root(self) -> Array:
        """R (..., k, k) with RRᵀ = VVᵀ."""
        if self._gram_root is None:
            self._gram_root = semidefinite_root(self.gram)
        return self._gram_root

    @property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (..., k) and eigenvectors (..., k, k) of Rᵀ diag(w) R: for k < d, all of Σ wᵢ vᵢvᵢᵀ that is not 0."""
        if self._eigen is None:
            root = self.gram_root
            self._eigen = eigh(product((root * self.weights[..., None]).mT, root))
        return self._eigen

    @property
    def spectrum(self) -> Array:
        """Ascending eigenvalues of Σ wᵢ vᵢvᵢᵀ: all d of them, or for k < d the k that need not be 0."""
        if self._eigen is not None or self.is_thin:
            return self.eigen[0]
        if self.vectors.shape[-2] >= self.vectors.shape[-1]:
            return eigvalsh(self.moment)
        root = self.gram_root
        return eigvalsh(product((root * self.weights[..., None]).mT, root))

    @property
    def extremes(self) -> tuple[PerTrial, PerTrial]:
        """Smallest and largest eigenvalue (...,) of Σ wᵢ vᵢvᵢᵀ − decay·I."""
        values = self.spectrum
        low, high = values[..., 0], values[..., -1]
        if self.vectors.shape[-2] < self.vectors.shape[-1]:  # directions that no vector reaches have the eigenvalue 0
            low, high = -maximum(-low, ZERO), maximum(high, ZERO)
        return low - self.decay, high - self.decay

    @property
    def squares(self) -> Array:
        """The diagonal (..., d) of Σ wᵢ vᵢvᵢᵀ."""
        return combination(self.weights, np.square(self.vectors))

    @property
    def diagonal(self) -> Array:
        """The diagonal (..., d) of Σ wᵢ vᵢvᵢᵀ − decay·I."""
        return self.squares - expand_trailing(self.decay, 1)

    def with_decay(self, decay: PerTrial) -> Cloud:
        """The same vectors with another weight of −I."""
        cloud = Cloud(self.vectors, self.weights, decay, self.images)
        cloud._moment, cloud._gram, cloud._gram_root, cloud._eigen = self._moment, self._gram, self._gram_root, self._eigen
        return cloud

    def add_vector(self, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial, image: Array | None) -> Cloud | Dense:
        """rate·Σ wᵢ vᵢvᵢᵀ + weight·vvᵀ − decay·I with one more vector v (..., d), whose image is given where the others' are kept."""
        if not self.is_thin:
            return CloudWithVector(self, rate, vector, weight, decay)
        weights = np.empty((*self.weights.shape[:-1], self.size + 1))
        weights[..., :-1], weights[..., -1] = expand_trailing(rate, 1) * self.weights, weight
        images = None if self.images is None or image is None else append_row(self.images, image)
        return Cloud(append_row(self.vectors, vector), weights, decay, images)


class Dense:
    """moment − decay·I for a symmetric matrix (..., d, d): a cloud of `size` vectors of which only the sum is left."""

    __slots__ = ("_moment", "decay", "size")
    is_thin = False

    def __init__(self, moment: Array, decay: PerTrial, size: int) -> None:
        self._moment, self.decay, self.size = moment, decay, size

    @property
    def moment(self) -> Array:
        """The matrix (..., d, d)."""
        return self._moment

    @property
    def squares(self) -> Array:
        """The diagonal of the matrix (..., d)."""
        return np.diagonal(self.moment, axis1=-2, axis2=-1)

    @property
    def diagonal(self) -> Array:
        """The diagonal of moment − decay·I (..., d)."""
        return self.squares - expand_trailing(self.decay, 1)

    @property
    def extremes(self) -> tuple[PerTrial, PerTrial]:
        """Smallest and largest eigenvalue (...,) of moment − decay·I."""
        values = eigvalsh(self.moment)
        return values[..., 0] - self.decay, values[..., -1] - self.decay

    def with_decay(self, decay: PerTrial) -> Dense:
        """The same matrix with another weight of −I."""
        return Dense(self.moment, decay, self.size)

    def add_vector(self, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial, image: Array | None) -> Dense:
        """rate·moment + weight·vvᵀ − decay·I with one more vector v (..., d)."""
        return CloudWithVector(self, rate, vector, weight, decay)


class Diagonal(Dense):
    """The diagonal of a cloud of `size` vectors of which only Σ wᵢ vᵢ² (..., d) is left: all that a diagonal or isotropic family needs."""

    __slots__ = ("_squares",)

    def __init__(self, squares: Array, decay: PerTrial, size: int) -> None:
        self._squares, self.decay, self.size = squares, decay, size

    @property
    def squares(self) -> Array:
        """The sums (..., d)."""
        return self._squares

    def with_decay(self, decay: PerTrial) -> Diagonal:
        """The same sums with another weight of −I."""
        return Diagonal(self._squares, decay, self.size)


class CloudWithVector(Dense):
    """rate·moment + weight·vvᵀ − decay·I of a cloud and one more vector v (..., d); who needs its diagonal alone makes no matrix."""

    __slots__ = ("_cloud", "_rate", "_sum", "_vector", "_weight")

    def __init__(self, cloud: Cloud | Dense, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial) -> None:
        self._cloud, self._rate, self._vector, self._weight = cloud, rate, vector, weight
        self.decay, self.size = decay, cloud.size
        self._sum: Array | None = None

    @property
    def moment(self) -> Array:
        """The matrix (..., d, d)."""
        if self._sum is None:
            self._sum = add_square(expand_trailing(self._rate, 2) * self._cloud.moment, self._weight, self._vector)
        return self._sum

    @property
    def squares(self) -> Array:
        """The diagonal of the matrix (..., d)."""
        return expand_trailing(self._rate, 1) * self._cloud.squares + expand_trailing(self._weight, 1) * np.square(self._vector)


class PathReading(NamedTuple):
    """What the step-size path says of the recent steps."""

    length: PerTrial  # (...,), as a multiple of the length that random steps would give
    advances: PerTrial  # (...,), h_σ: 1, or 0 while the path is too long for the rank-one update


@value_class
class Tangent:
    """A direction at θ in its whitened frame: a mean step, `rate` times a cloud for the covariance, and a change of the scale."""

    mean: Array  # (..., d)
    cloud: Cloud | Dense
    rate: PerTrial = ONE  # (...,)
    log_scale: PerTrial = ZERO  # (...,), of the standard deviations
    exponential: bool = False  # C moves to A·exp(covariance part)·Aᵀ instead of A(I + covariance part)Aᵀ
    mean_image: Array | None = None  # (..., d), the mean step seen through θ's root, where that comes for free
    path: PathReading | None = None  # of the step-size path, for the parts after the one that keeps it

    @property
    def spectral_norm(self) -> PerTrial:
        """σ₁(Z), shape (...,): the largest relative change of a variance, eq:learning. Not λ₁, which may be negative."""
        low, high = self.cloud.extremes
        return maximum(-low, high) * self.rate

    def scale(self, *, mean: PerTrial, cov: PerTrial) -> Tangent:
        """The tangent with its mean part and its covariance part each multiplied by a rate (...,)."""
        return self._with(mean, self.rate * cov, self.log_scale)

    def _with(self, factor: PerTrial, rate: PerTrial, log_scale: PerTrial) -> Tangent:
        """The tangent with its mean part multiplied by a factor (...,), and another rate and change of scale."""
        by = expand_trailing(factor, 1)
        image = None if self.mean_image is None else self.mean_image * by
        return Tangent(self.mean * by, self.cloud, rate, log_scale, self.exponential, image, self.path)

    def with_covariance(self, cloud: Cloud | Dense, rate: PerTrial) -> Tangent:
        """The tangent with another covariance part."""
        return Tangent(self.mean, cloud, rate, self.log_scale, self.exponential, self.mean_image, self.path)

    def with_log_scale(self, log_scale: PerTrial) -> Tangent:
        """The tangent with another change of scale."""
        return Tangent(self.mean, self.cloud, self.rate, log_scale, self.exponential, self.mean_image, self.path)

    def with_path(self, path: PathReading) -> Tangent:
        """The tangent with what the step-size path says."""
        return Tangent(self.mean, self.cloud, self.rate, self.log_scale, self.exponential, self.mean_image, path)

    def damp(self, *, mean: PerTrial, cov: PerTrial, log_scale: PerTrial) -> Tangent:
        """η times the whole change of θ, that of the scale included: Δm ↦ mean·Δm, ΔC ↦ cov·ΔC, and a change of scale beside it.

        With G the covariance part and e = exp(2·old log-scale), C moves to e·(I + G) in the whitened frame, and damped by η to
        I + η(e·(I + G) − I) = e′·(I + (ηe/e′)·G), e′ = 1 + η(e − 1). An exponential step e·exp(G) becomes e^η·exp(ηG).
        """
        if self.exponential:
            return self._with(mean, self.rate * cov, cov * self.log_scale + log_scale)
        growth = np.expm1(2.0 * self.log_scale)
        damped = 1.0 + cov * growth
        rate = self.rate * cov * ((1.0 + growth) / damped)
        return self._with(mean, rate, 0.5 * np.log(damped) + log_scale)


def natural_gradient(vectors: Array, weighting: Weighting, images: Array | None = None) -> Tangent:
    """Σ wᵢ ∇̃ log p(xᵢ) in the whitened frame, eq:ng-est: z for the mean, zzᵀ − I for the covariance."""
    cloud = Cloud(vectors, weighting.cov, weighting.decay, images)
    return Tangent(combination(weighting.mean, vectors), cloud, mean_image=None if images is None else combination(weighting.mean, images))
