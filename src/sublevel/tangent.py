"""Tangents: natural-gradient estimates as weighted clouds of whitened vectors.

At θ = N(m, AAᵀ) put z = A⁻¹(x − m). In these coordinates the natural gradient of log p(x) is z for the mean and
zzᵀ − I for the covariance, whatever θ is. So an estimate Σ wᵢ ∇̃ log p(xᵢ) is its weights and its vectors, no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sublevel.arrays import Array, everywhere, spread
from sublevel.linalg import cholesky, eigh, eigvalsh

ONE: Any = np.float64(1.0)
BLOCK = 1 << 17
"""Numbers of a weighted copy of the vectors kept at a time: about the size of a second-level cache."""


def weighted_moment(vectors: Array, weights: Array) -> Array:
    """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d), block by block so that no weighted copy of all vectors is made."""
    if vectors.size <= BLOCK:
        return (vectors * weights[..., None]).mT @ vectors
    rows = max(1, BLOCK * vectors.shape[-2] // vectors.size)
    moment = (vectors[..., :rows, :] * weights[..., :rows, None]).mT @ vectors[..., :rows, :]
    for start in range(rows, vectors.shape[-2], rows):
        block = vectors[..., start : start + rows, :]
        moment += (block * weights[..., start : start + rows, None]).mT @ block
    return moment


@dataclass(frozen=True)
class Cloud:
    """Σ wᵢ vᵢvᵢᵀ − decay·I as the vectors it is made of; what is computed from them is computed once."""

    vectors: Array  # (..., k, d), whitened
    weights: Array  # (..., k), positive attracts
    decay: Array  # (...,), Σ wᵢ for an estimate
    images: Array | None = None  # (..., k, d), the vectors seen through θ's root, when sampling has already made them

    @property
    def is_thin(self) -> bool:
        """Fewer vectors than dimensions: then k×k matrices tell everything."""
        return self.vectors.shape[-2] < self.vectors.shape[-1]

    @cached_property
    def moment(self) -> Array:
        """Σ wᵢ vᵢvᵢᵀ, shape (..., d, d)."""
        return weighted_moment(self.vectors, self.weights)

    @cached_property
    def gram_root(self) -> Array:
        """R (..., k, k) with RRᵀ = VVᵀ, also where vectors are linearly dependent."""
        gram = self.vectors @ self.vectors.mT
        root, definite = cholesky(gram)
        if everywhere(definite):
            return root
        values, vectors = eigh(gram)
        return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (..., k) and eigenvectors (..., k, k) of Rᵀ diag(w) R: for a thin cloud, all of Σ wᵢ vᵢvᵢᵀ that is not 0."""
        root = self.gram_root
        return eigh((root * self.weights[..., None]).mT @ root)

    @cached_property
    def extremes(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue (...,) of Σ wᵢ vᵢvᵢᵀ − decay·I."""
        values = self.eigen[0] if self.is_thin else eigvalsh(self.moment)
        low, high = values[..., 0], values[..., -1]
        if self.is_thin:  # directions that no vector reaches have the eigenvalue 0
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        return low - self.decay, high - self.decay

    @property
    def diagonal(self) -> Array:
        """The diagonal (..., d) of Σ wᵢ vᵢvᵢᵀ − decay·I."""
        return np.vecmat(self.weights, np.square(self.vectors)) - spread(self.decay, 1)


@dataclass(frozen=True, slots=True)
class Tangent:
    """A direction at θ in its whitened frame: a mean step and `rate` times a cloud for the covariance."""

    mean: Array  # (..., d)
    cloud: Cloud
    rate: Array = ONE  # (...,)

    @property
    def spectral_norm(self) -> Array:
        """σ₁(Z), shape (...,): the largest relative change of a variance, eq:learning. Not λ₁, which may be negative."""
        low, high = self.cloud.extremes
        return np.maximum(-low, high) * self.rate

    def scaled(self, *, mean: Array, cov: Array) -> Tangent:
        """The tangent with its mean part and its covariance part each multiplied by a rate (...,)."""
        return Tangent(mean=self.mean * spread(mean, 1), cloud=self.cloud, rate=self.rate * cov)


def natural_gradient(vectors: Array, weights: Array, images: Array | None = None) -> Tangent:
    """Σ wᵢ ∇̃ log p(xᵢ) in the whitened frame, eq:ng-est: z for the mean, zzᵀ − I for the covariance."""
    decay = np.add.reduce(weights, axis=-1)
    return Tangent(mean=np.vecmat(weights, vectors), cloud=Cloud(vectors, weights, decay, images))
