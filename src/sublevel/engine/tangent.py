"""Tangents: natural-gradient estimates, stored as weighted sets of whitened vectors.

At θ = N(m, AAᵀ) let z = A⁻¹(x − m). In these coordinates the natural gradient of log p(x) is z for the mean and zzᵀ − I
for the covariance, for every θ. An estimate Σ wᵢ ∇̃ log p(xᵢ) is therefore determined by its weights and its vectors.
"""

from __future__ import annotations

import numpy as np

from sublevel.engine.arrays import ONE, ZERO, Array, PerTrial, expand_trailing, maximum, total, value_class
from sublevel.engine.linalg import (
    add_square,
    append_row,
    combination,
    eigh,
    eigvalsh,
    gram,
    multiply,
    product,
    semidefinite_root,
)

THIN_FROM = 64
"""Dimension up to which d×d matrices are always used; measured crossover of the two algorithms."""
BLOCK = 1 << 17
"""Size of a block of weighted vectors, about that of a second-level cache."""


@value_class
class Weighting:
    """Weights of the points of a sample (..., n). The search moves towards points with a positive weight."""

    mean: Array  # (..., n), for the mean
    cov: Array  # (..., n), for the covariance
    decay: PerTrial  # (...,), the weight of −I: Σ wᵢ for a natural gradient
    mu_eff: float | None = None  # of the weights for the mean if they sum to 1; None if it is not known in advance

    @classmethod
    def from_weights(cls, weights: Array) -> Weighting:
        """Use the same weights (..., n) for the mean and the covariance."""
        return cls(weights, weights, total(weights))

    def of_pairs(self) -> Weighting:
        """The weights of the first points (..., ⌈n/2⌉) of mirrored pairs: w₁z − w₂z and (w₁ + w₂)zzᵀ sum over both."""
        mean, cov = self.mean[..., 0::2].copy(), self.cov[..., 0::2].copy()
        pairs = self.mean.shape[-1] // 2
        mean[..., :pairs] -= self.mean[..., 1::2]
        cov[..., :pairs] += self.cov[..., 1::2]
        return Weighting(mean, cov, self.decay, self.mu_eff)


def weighted_moment(vectors: Array, weights: Array) -> Array:
    """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d), computed in blocks to avoid a weighted copy of all vectors."""
    if vectors.size <= BLOCK:
        return (vectors.T * weights).dot(vectors) if vectors.ndim == 2 else (vectors * weights[..., None]).mT @ vectors
    size = max(1, BLOCK * vectors.shape[-2] // vectors.size)
    moment = (vectors[..., :size, :] * weights[..., :size, None]).mT @ vectors[..., :size, :]
    for start in range(size, vectors.shape[-2], size):
        block = vectors[..., start : start + size, :]
        moment += (block * weights[..., start : start + size, None]).mT @ block
    return moment


def is_thin(k: int, d: int) -> bool:
    """Whether k×k matrices are cheaper than d×d ones for k vectors (..., k, d).

    The k×k formulas hold for k < d, but in few dimensions a d×d Cholesky decomposition is faster.
    """
    return d > THIN_FROM and k < d


def are_halved(n: int, d: int) -> bool:
    """Whether sums over n points in mirrored pairs are formed from their first points (..., ⌈n/2⌉, d).

    In few dimensions that takes longer, and so do k×k formulas for the halves of n ≥ d points.
    """
    return d > THIN_FROM and not d <= n < 2 * d


class Cloud:
    """Σ wᵢ vᵢvᵢᵀ − decay·I, stored as vectors and weights. Matrices and eigenvalues are computed when first used."""

    __slots__ = ("_eigen", "_gram", "_gram_root", "_moment", "decay", "images", "is_thin", "size", "vectors", "weights")

    def __init__(self, vectors: Array, weights: Array, decay: PerTrial, images: Array | None = None) -> None:
        """Create a cloud of whitened `vectors` (..., k, d) with `weights` (..., k); `decay` (...,) is Σ wᵢ for an
        estimate.

        `images` are the products of θ's root with the vectors if sampling has computed them.
        """
        self.vectors, self.weights, self.decay, self.images = vectors, weights, decay, images
        self.size, d = vectors.shape[-2:]  # k
        self.is_thin = d > THIN_FROM and self.size < d  # `is_thin`
        self._moment: Array | None = None
        self._gram: Array | None = None
        self._gram_root: Array | None = None
        self._eigen: tuple[Array, Array] | None = None

    @property
    def moment(self) -> Array:
        """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d)."""
        if self._moment is None:
            self._moment = weighted_moment(self.vectors, self.weights)
        return self._moment

    def new_moment(self) -> Array:
        """The moment in a matrix that the caller may change."""
        return weighted_moment(self.vectors, self.weights) if self._moment is None else self._moment.copy()

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
        """Eigenvalues (..., k) and eigenvectors (..., k, k) of Rᵀ diag(w) R: the nonzero ones of Σ wᵢ vᵢvᵢᵀ."""
        if self._eigen is None:
            root = self.gram_root
            self._eigen = eigh(product((root * self.weights[..., None]).mT, root))
        return self._eigen

    @property
    def spectrum(self) -> Array:
        """Ascending eigenvalues of Σ wᵢ vᵢvᵢᵀ: all d, or for k < d the k that may be nonzero."""
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
        if self.vectors.shape[-2] < self.vectors.shape[-1]:  # the eigenvalue outside the span of the vectors is 0
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
        cloud._moment, cloud._gram = self._moment, self._gram
        cloud._gram_root, cloud._eigen = self._gram_root, self._eigen
        return cloud

    def add_vector(
        self, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial, image: Array | None
    ) -> Cloud | Dense:
        """rate·Σ wᵢ vᵢvᵢᵀ + weight·vvᵀ − decay·I for a further vector v (..., d) with this image."""
        if not self.is_thin:
            return CloudWithVector(self, rate, vector, weight, decay)
        weights = np.empty((*self.weights.shape[:-1], self.size + 1))
        weights[..., :-1], weights[..., -1] = expand_trailing(rate, 1) * self.weights, weight
        images = None if self.images is None or image is None else append_row(self.images, image)
        return Cloud(append_row(self.vectors, vector), weights, decay, images)


class Dense:
    """moment − decay·I for a symmetric matrix (..., d, d), the sum over `size` vectors that are not kept."""

    __slots__ = ("_moment", "decay", "size")
    is_thin = False

    def __init__(self, moment: Array, decay: PerTrial, size: int) -> None:
        self._moment, self.decay, self.size = moment, decay, size

    @property
    def moment(self) -> Array:
        """The matrix (..., d, d)."""
        return self._moment

    def new_moment(self) -> Array:
        """The moment in a matrix that the caller may change."""
        return self.moment.copy()

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

    def add_vector(
        self, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial, image: Array | None
    ) -> Dense:
        """rate·moment + weight·vvᵀ − decay·I for a further vector v (..., d)."""
        return CloudWithVector(self, rate, vector, weight, decay)


class Diagonal(Dense):
    """The diagonal Σ wᵢ vᵢ² (..., d) of a cloud of `size` vectors, all that restricted families need of it."""

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
    """rate·moment + weight·vvᵀ − decay·I of a cloud and a vector v (..., d). The matrix is formed on demand."""

    __slots__ = ("_cloud", "_rate", "_sum", "_vector", "_weight")

    def __init__(self, cloud: Cloud | Dense, rate: PerTrial, vector: Array, weight: PerTrial, decay: PerTrial) -> None:
        self._cloud, self._rate, self._vector, self._weight = cloud, rate, vector, weight
        self.decay, self.size = decay, cloud.size
        self._sum: Array | None = None

    @property
    def moment(self) -> Array:
        """The matrix (..., d, d)."""
        if self._sum is None:
            self._sum = self.new_moment()
        return self._sum

    def new_moment(self) -> Array:
        """The moment in a matrix that the caller may change."""
        if self._sum is not None:
            return self._sum.copy()
        moment = self._cloud.new_moment()
        multiply(moment, self._rate)
        return add_square(moment, self._weight, self._vector)

    @property
    def squares(self) -> Array:
        """The diagonal of the matrix (..., d)."""
        square = expand_trailing(self._weight, 1) * np.square(self._vector)
        return expand_trailing(self._rate, 1) * self._cloud.squares + square


@value_class
class PathReading:
    """Length of the step-size path, h_σ, and how much the length changes the scale."""

    length: PerTrial  # (...,), relative to its expected length under random selection
    advances: PerTrial  # (...,), h_σ: 0 while the path is too long for the rank-one update, else 1
    gain: PerTrial | float  # (...,), c_σ/d_σ


@value_class
class Tangent:
    """A direction at θ in its whitened frame: a step of the mean, `rate` times a cloud, and a change of scale."""

    mean: Array  # (..., d)
    cloud: Cloud | Dense
    rate: PerTrial = ONE  # (...,)
    log_scale: PerTrial = ZERO  # (...,), of the standard deviations
    exponential: bool = False  # the new C is A·exp(covariance part)·Aᵀ instead of A(I + covariance part)Aᵀ
    mean_image: Array | None = None  # (..., d), θ's root times the mean step, if sampling has computed it
    path: PathReading | None = None  # of the step-size path, set by `Cumulation` for the parts after it
    choices: Array | None = None  # (..., m, K), change of the probabilities of categories, set by `ChoiceRates`

    @property
    def spectral_norm(self) -> PerTrial:
        """σ₁(Z), shape (...,): the largest relative change of a variance, eq:learning. λ₁ may be negative."""
        low, high = self.cloud.extremes
        return maximum(-low, high) * self.rate

    def scale(self, *, mean: PerTrial, cov: PerTrial) -> Tangent:
        """Multiply the mean part and the covariance part by rates (...,)."""
        return self._with(mean, self.rate * cov, self.log_scale)

    def _with(self, factor: PerTrial, rate: PerTrial, log_scale: PerTrial) -> Tangent:
        """Multiply the mean part by a factor (...,) and replace the rate and the change of scale."""
        by = expand_trailing(factor, 1)
        image = None if self.mean_image is None else self.mean_image * by
        return Tangent(self.mean * by, self.cloud, rate, log_scale, self.exponential, image, self.path, self.choices)

    def with_covariance(self, cloud: Cloud | Dense, rate: PerTrial) -> Tangent:
        """Replace the covariance part."""
        image, path = self.mean_image, self.path
        return Tangent(self.mean, cloud, rate, self.log_scale, self.exponential, image, path, self.choices)

    def with_log_scale(self, log_scale: PerTrial) -> Tangent:
        """Replace the change of scale."""
        return self.with_path(self.path, log_scale)

    def with_path(self, path: PathReading | None, log_scale: PerTrial) -> Tangent:
        """Set the reading of the step-size path and the change of scale."""
        image = self.mean_image
        return Tangent(self.mean, self.cloud, self.rate, log_scale, self.exponential, image, path, self.choices)

    def with_choices(self, choices: Array) -> Tangent:
        """Set the change of the probabilities of categories."""
        image, path = self.mean_image, self.path
        return Tangent(self.mean, self.cloud, self.rate, self.log_scale, self.exponential, image, path, choices)

    def damp(self, *, mean: PerTrial, cov: PerTrial, log_scale: PerTrial) -> Tangent:
        """Multiply the change of θ, including that of the scale, by rates: Δm ↦ mean·Δm, ΔC ↦ cov·ΔC; then add a change
        of scale.

        With G the covariance part and e = exp(2·old log-scale), the new C is e·(I + G) in the whitened frame, and I +
        η(e·(I + G) − I) = e′·(I + (ηe/e′)·G), e′ = 1 + η(e − 1), if damped by η. An exponential step e·exp(G) becomes
        e^η·exp(ηG).
        """
        if self.exponential:
            return self._with(mean, self.rate * cov, cov * self.log_scale + log_scale)
        growth = np.expm1(2.0 * self.log_scale)
        damped = 1.0 + cov * growth
        rate = self.rate * cov * ((1.0 + growth) / damped)
        return self._with(mean, rate, 0.5 * np.log(damped) + log_scale)
