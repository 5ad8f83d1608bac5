"""The variance of the estimated natural gradient of a quadratic in closed form, for each sampling of the points.

In the whitened frame the cost less its baseline is V(z) = e + ℓᵀz + zᵀAz − tr A, with e = E V. The estimate is the mean
of Vᵢzᵢ for the mean and of Vᵢ(zᵢzᵢᵀ − I) for the covariance, with the expectations ℓ and 2A. Its variance is

    (n·C₁ + N₋·C₋ + N⊥·C⊥)/n²,

where C₁ is that of one point, C₋ the covariance of a point and its mirror image, C⊥ that of two points with orthogonal
directions, and N₋, N⊥ are the numbers of such ordered pairs. C₋ is C₁ with the other sign of the even part of V for the
mean, and of its odd part for the covariance. For C⊥ the integrand is averaged over the lengths, which are independent,
and decomposed into spherical harmonics of the direction: E Y(u)Y′(v) = P_k(0)·E YY′ for orthogonal u, v and degree k,
with P₀(0) = 1, P₂(0) = −1/(d − 1), P₄(0) = 3/((d − 1)(d + 1)) and 0 for odd k (Gegenbauer polynomials with P_k(1) = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.sampling import Sampling


@dataclass(frozen=True, slots=True)
class WhitenedCost:
    """V(z) = e + ℓᵀz + zᵀAz − tr A, a cost less its baseline at whitened points."""

    matrix: Array  # A (d, d), symmetric
    slope: Array  # ℓ (d,)
    level: float = 0.0  # e; 0 if the baseline is the expected cost

    @classmethod
    def at(cls, theta: FullGaussian, hessian_root: Array, baseline: float | None = None) -> WhitenedCost:
        """xᵀHx with H = LᵀL at x = m + Rz; the baseline is the expected cost if None."""
        root: Array = theta.pull(hessian_root)  # LR
        image: Array = hessian_root @ theta.mean
        matrix = root.mT @ root
        expected = float(image @ image + np.trace(matrix))
        return cls(matrix, 2.0 * (root.mT @ image), 0.0 if baseline is None else expected - baseline)

    def values(self, z: Array) -> Array:
        """V (..., n) at points (..., n, d)."""
        form = np.vecdot(z @ self.matrix, z) - np.trace(self.matrix)
        return self.level + z @ self.slope + form


@dataclass(frozen=True, slots=True)
class DependentPairs:
    """Numbers of ordered pairs of different points of a sample that depend on each other."""

    mirrored: int  # z and −z
    orthogonal: int  # of orthogonal directions


def count_dependent_pairs(sampling: Sampling, n: int, d: int) -> DependentPairs:
    """The numbers for a sample of n points in d dimensions."""
    size = 2 if sampling.mirrored else 1
    points = [min(size, n - first) for first in range(0, n, size)]  # of each direction
    blocks = [points[first : first + d] for first in range(0, len(points), d)] if sampling.orthogonal else []
    orthogonal = sum(sum(block) ** 2 - sum(count**2 for count in block) for block in blocks)
    return DependentPairs(sum(count * (count - 1) for count in points), orthogonal)


def variance_of_mean(cost: WhitenedCost, sampling: Sampling, n: int) -> Array:
    """The covariance matrix (d, d) of Σ Vᵢzᵢ/n."""
    d, identity = cost.slope.size, np.eye(cost.slope.size)
    square, outer = float(cost.slope @ cost.slope), np.outer(cost.slope, cost.slope)
    matrix, level = cost.matrix, cost.level
    even = (level**2 + 2.0 * np.vdot(matrix, matrix)) * identity + 4.0 * level * matrix + 8.0 * matrix @ matrix
    odd = square * identity + outer
    orthogonal = -((d - 2) * outer + d * square * identity) / max((d - 1) * (d + 2), 1)
    return _combine(even + odd, odd - even, orthogonal, sampling, n, d)


def variance_of_covariance(cost: WhitenedCost, sampling: Sampling, n: int, directions: Array) -> Array:
    """The covariances (k, k) of tr MᵢZ, Z = Σ Vᵢ(zᵢzᵢᵀ − I)/n, for symmetric matrices M (k, d, d)."""
    d, matrix, level = cost.slope.size, cost.matrix, cost.level
    plain, along = _products(directions, directions), _traces(matrix, directions)
    even = (
        (2.0 * level**2 + 4.0 * np.vdot(matrix, matrix)) * plain
        + _products(directions @ (16.0 * level * matrix + 32.0 * matrix @ matrix), directions)
        + 16.0 * _products(matrix @ directions @ matrix, directions)
        + 4.0 * np.outer(along, along)
    )
    images = directions @ cost.slope
    odd = 2.0 * np.vdot(cost.slope, cost.slope) * plain + 8.0 * images @ images.T
    orthogonal = _orthogonal_covariance(cost, directions) if d > 1 else np.zeros_like(plain)
    return _combine(even + odd, even - odd, orthogonal, sampling, n, d)


def total_variances(cost: WhitenedCost, sampling: Sampling, n: int) -> tuple[float, float]:
    """The expected squared distances of the estimates of both parts from their expectations."""
    basis = symmetric_basis(cost.slope.size)
    of_mean, of_covariance = (
        variance_of_mean(cost, sampling, n),
        variance_of_covariance(cost, sampling, n, basis),
    )
    return float(np.trace(of_mean)), float(np.trace(of_covariance))


@dataclass(frozen=True, slots=True)
class RelativeNoise:
    """Variances of entries of the estimate at C = A⁻¹, m = x*, where the covariance part has the expectation 2I."""

    mean: float  # of a coordinate of the mean part over 2² = 4
    covariance: float  # ρ, of an entry off the diagonal of the covariance part over 4


def noise_at_optimum(sampling: Sampling, n: int, d: int) -> RelativeNoise:
    """The noise for d ≥ 2 with the expected cost as baseline: (2d + 8)/(4n) and (2d + 24)/(4n) for independent points.

    Of n mirrored points there are only n/2 different outer products, so that ρ is twice as large, while Σ Vᵢzᵢ is 0.
    """
    cost, shear = WhitenedCost(np.eye(d), np.zeros(d)), symmetric_basis(d)[1:2] * np.sqrt(0.5)
    of_covariance = variance_of_covariance(cost, sampling, n, shear)
    return RelativeNoise(float(variance_of_mean(cost, sampling, n)[0, 0]) / 4, float(of_covariance[0, 0]) / 4)


def symmetric_basis(d: int) -> Array:
    """An orthonormal basis (d(d + 1)/2, d, d) of the symmetric matrices."""
    rows, columns = np.triu_indices(d)
    basis = np.zeros((rows.size, d, d))
    place = np.arange(rows.size)
    basis[place, rows, columns] = basis[place, columns, rows] = np.where(rows == columns, 1.0, np.sqrt(0.5))
    return basis


def _combine(single: Array, mirrored: Array, orthogonal: Array, sampling: Sampling, n: int, d: int) -> Array:
    """The variance of a mean of n terms from that of a term and the covariances of terms that depend on each other."""
    pairs = count_dependent_pairs(sampling, n, d)
    return (n * single + pairs.mirrored * mirrored + pairs.orthogonal * orthogonal) / n**2


def _orthogonal_covariance(cost: WhitenedCost, directions: Array) -> Array:
    """C⊥ (k, k): −⟨F₂, F₂′⟩/(d − 1) + 3⟨F₄, F₄′⟩/((d − 1)(d + 1)) for d > 1.

    F(u) = d(d + 2)a(u)m(u) + cd·m(u) − d·tr M·a(u) − c·tr M is the average over lengths, a and m the forms of A and M,
    c = e − tr A. With the traceless parts A₀, M₀ of both the harmonics of a₀m₀ have the degrees 0, 2 and 4; that of
    degree 2 is the form of 4/(d + 4) times the traceless part of (A₀M₀ + M₀A₀)/2. All mean squares of forms on the
    sphere follow from Gaussian moments.
    """
    d = cost.slope.size
    matrix, level, scale = traceless(cost.matrix), cost.level, float(np.trace(cost.matrix)) / d
    mean_variances = np.trace(directions, axis1=-2, axis2=-1) / d
    forms = traceless(directions)
    products = forms @ matrix
    joint = traceless((products + products.mT) / 2.0)
    second = (
        d * (level + 2.0 * scale) * forms
        + 2.0 * d * mean_variances[:, None, None] * matrix
        + 4.0 * d * (d + 2) / (d + 4) * joint
    )
    along = _traces(matrix, forms)
    moments = (  # of (zᵀA₀z)²·zᵀM₀z·zᵀN₀z for normal z
        32.0 * _products(forms @ (matrix @ matrix), forms)
        + 16.0 * _products(matrix @ forms @ matrix, forms)
        + 4.0 * np.vdot(matrix, matrix) * _products(forms, forms)
        + 8.0 * np.outer(along, along)
    )
    degree_0 = 4.0 * np.outer(along, along) / (d * (d + 2)) ** 2
    degree_2 = (4.0 / (d + 4)) ** 2 * 2.0 * _products(joint, joint) / (d * (d + 2))
    degree_4 = moments / (d * (d + 2) * (d + 4) * (d + 6)) - degree_2 - degree_0
    second_part = 2.0 * _products(second, second) / (d * (d + 2))
    return -second_part / (d - 1) + 3.0 * (d * (d + 2)) ** 2 * degree_4 / ((d - 1) * (d + 1))


def traceless(matrices: Array) -> Array:
    """Matrices (..., d, d) less the multiples of I with their traces."""
    d = matrices.shape[-1]
    return matrices - np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)


def _products(first: Array, second: Array) -> Array:
    """tr MᵢNⱼ (k, l) of matrices (k, d, d) and symmetric matrices (l, d, d)."""
    return first.reshape(len(first), -1) @ second.reshape(len(second), -1).T


def _traces(matrix: Array, directions: Array) -> Array:
    """tr AMᵢ (k,)."""
    return directions.reshape(len(directions), -1) @ matrix.ravel()
