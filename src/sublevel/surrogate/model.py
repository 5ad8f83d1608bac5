"""A quadratic fitted to the order of values.

In the whitened frame z of the search distribution the model is q(z) = g·z + zᵀHz, with the coefficients
c = (g, Hᵢᵢ, 2Hᵢⱼ). It is determined by increments between neighbours in rank rather than by values: points sorted by
value should have increasing values of q, with increments of about those of the sorted ‖z‖², which are q for H = I.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, read_only, value_class
from sublevel.surrogate.archive import dense_ranks

BARRIER_BELOW = 15
"""Variables from which increments are fitted by least squares: the barrier takes several solves."""
SOFT = 0.3
"""Scaled increment below which the logarithmic barrier is continued by a parabola, since orders may be violated."""
TRACE_WEIGHT = 0.1
"""Weight of the prior of the mean curvature, per variable."""
LINEAR_WEIGHT = 1e-6
"""Weight of g = 0, which only matters if there are fewer increments than variables."""
NEWTON_STEPS = 12
DECREMENT = 0.03
"""Newton's method stops when half the squared Newton decrement is smaller."""
JITTER = 1e-13
"""Added to the unit diagonal of a scaled matrix, so that it is not singular."""
NEIGHBOURS = (3, 4)
"""Ranks below and above over which the expected increment is averaged."""
LEAST_GAP = 1e-12
"""Least expected increment, as a fraction of the largest ‖z‖²."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model is fitted."""

    points: float  # number of points, per coefficient of the quadratic
    first_weight: float  # weight of the best increment; the last one has 1
    ridge: float  # weight of the prior that all curvatures are equal


@value_class
class Quadratic:
    """q(z) = g·z + zᵀHz in the whitened frame of some distribution."""

    g: Array  # (d,)
    H: Array  # (d, d)

    @property
    def is_finite(self) -> bool:
        """Whether all coefficients are finite."""
        return bool(np.isfinite(self.g).all() and np.isfinite(self.H).all())

    def __call__(self, z: Array) -> Array:
        """Values (n,) at points z (n, d)."""
        return z @ self.g + np.einsum("ni,ni->n", z @ self.H, z)

    def move(self, shift: Array, matrix: Array) -> Quadratic:
        """The quadratic in other coordinates y (d,), where z = shift + matrix·y."""
        gradient = self.g + 2.0 * (self.H @ shift)
        return Quadratic(matrix.T @ gradient, matrix.T @ self.H @ matrix)


def count_coefficients(d: int) -> int:
    """Number of coefficients of a quadratic, with the constant."""
    return (d + 1) * (d + 2) // 2


@lru_cache(maxsize=16)
def _pairs(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices (i, j) of the products zᵢzⱼ: squares first."""
    rows, columns = np.triu_indices(d, 1)
    squares = np.arange(d)
    return np.concatenate([squares, rows]), np.concatenate([squares, columns])


def features(z: Array) -> Array:
    """φ(z) = (z, zᵢ², zᵢzⱼ), shape (n, p − 1), of points (n, d)."""
    rows, columns = _pairs(z.shape[1])
    return np.concatenate([z, z[:, rows] * z[:, columns]], axis=1)


def as_quadratic(coefficients: Array, d: int) -> Quadratic:
    """The quadratic with coefficients (p − 1,)."""
    rows, columns = _pairs(d)
    H = np.zeros((d, d))
    H[rows, columns] = coefficients[d:]
    return Quadratic(coefficients[:d].copy(), 0.5 * (H + H.T))


def as_coefficients(model: Quadratic) -> Array:
    """The coefficients (p − 1,) of a quadratic."""
    d = model.g.size
    rows, columns = _pairs(d)
    factors = np.where(rows == columns, 1.0, 2.0)
    return np.concatenate([model.g, factors * model.H[rows, columns]])


@lru_cache(maxsize=64)
def prior(d: int, ridge: float) -> tuple[Array, Array]:
    """The matrix P (p − 1, p − 1) of the penalty ½cᵀPc − b·c, and b (p − 1,), up to a constant.

    The penalty is ½·ridge·‖H − (tr H/d)I‖² + ½·TRACE_WEIGHT·d·(tr H/d − 1)².
    """
    size = count_coefficients(d) - 1
    P = np.zeros((size, size))
    P[range(d), range(d)] = LINEAR_WEIGHT
    P[range(d, 2 * d), range(d, 2 * d)] = ridge
    P[d : 2 * d, d : 2 * d] += (TRACE_WEIGHT - ridge) / d
    P[range(2 * d, size), range(2 * d, size)] = 0.5 * ridge
    b = np.zeros(size)
    b[d : 2 * d] = TRACE_WEIGHT
    return read_only(P), read_only(b)


def expected_gaps(z: Array) -> Array:
    """Expected increments (n − 1,) between neighbours in rank: those of the sorted ‖z‖², averaged over neighbours."""
    r = np.sort(np.einsum("ni,ni->n", z, z))
    index = np.arange(len(r) - 1)
    below, above = np.maximum(index - NEIGHBOURS[0], 0), np.minimum(index + NEIGHBOURS[1], len(r) - 1)
    return np.maximum((r[above] - r[below]) / (above - below), LEAST_GAP * np.max(r, initial=1e-300))


def rank_weights(ranks: NDArray[np.intp], first: float) -> Array:
    """Weights (n − 1,) of increments between points with sorted ranks (n,): falling with the rank, 0 between ties."""
    falling = np.linspace(first, 1.0, len(ranks))
    weights = np.sqrt(falling[:-1] * falling[1:]) * (np.diff(ranks) > 0)
    total = float(np.sum(weights))
    return weights * ((len(ranks) - 1) / total) if total else weights


def increments(z: Array, values: Array, first_weight: float) -> tuple[Array, Array]:
    """Scaled increments U (m, p − 1) of the features and their weights (m,); u = Uc is 1 for the expected increment.

    NaN and +inf are the worst values; of equal values there is no increment.
    """
    ranks = dense_ranks(values)
    order = np.argsort(ranks, kind="stable")
    weights, gaps = rank_weights(ranks[order], first_weight), expected_gaps(z)
    used = weights > 0
    rows = np.diff(features(z[order]), axis=0)[used] / gaps[used, None]
    return rows, weights[used]


def barrier_terms(u: Array) -> tuple[Array, Array, Array]:
    """u + ψ(u) (m,) with its first and second derivatives: ψ = −log u, below `SOFT` its second-order expansion."""
    v = u / SOFT - 1.0
    is_soft = u < SOFT
    safe = np.where(is_soft, SOFT, u)
    value = u + np.where(is_soft, -log(SOFT) - v + 0.5 * v * v, -np.log(safe))
    slope = 1.0 + np.where(is_soft, (v - 1.0) / SOFT, -1.0 / safe)
    return value, slope, 1.0 / (safe * safe)


def barrier_loss(c: Array, U: Array, weights: Array, ridge: float, d: int) -> float:
    """The loss of coefficients (p − 1,)."""
    P, b = prior(d, ridge)
    return float(weights @ barrier_terms(U @ c)[0] + c @ (0.5 * (P @ c) - b))


def solve_positive(matrix: Array, right: Array) -> Array:
    """The solution (p,) or (p, m) with a positive semidefinite matrix (p, p), scaled to a unit diagonal; NaN if it
    overflows.
    """
    diagonal = np.diagonal(matrix)
    if not np.isfinite(diagonal).all() or not (diagonal > 0).all():
        return np.full(right.shape, np.nan)
    scale = 1.0 / np.sqrt(diagonal)
    scaled = matrix * scale[:, None] * scale
    scaled[range(len(scale)), range(len(scale))] += JITTER
    return (scale * np.linalg.solve(scaled, (scale * right.T).T).T).T


def fit_barrier(U: Array, weights: Array, ridge: float, d: int, start: Array) -> Array:
    """Minimise the barrier loss by Newton's method from coefficients (p − 1,)."""
    P, b = prior(d, ridge)
    c, u = start, U @ start
    loss = barrier_loss(c, U, weights, ridge, d)
    for _ in range(NEWTON_STEPS):
        _, slope, curvature = barrier_terms(u)
        gradient = U.T @ (weights * slope) + P @ c - b
        scaled = U * np.sqrt(weights * curvature)[:, None]
        step = -solve_positive(scaled.T @ scaled + P, gradient)
        decrement = -float(gradient @ step)
        if not decrement > 2 * DECREMENT:
            break
        c, u, loss = _search_line(c, step, U, u, weights, P, b, loss, decrement)
    return c


def _search_line(
    c: Array, step: Array, U: Array, u: Array, weights: Array, P: Array, b: Array, loss: float, decrement: float
) -> tuple[Array, Array, float]:
    """Coefficients, increments and loss after a Newton step, which is halved until the loss falls."""
    change, rate = U @ step, 1.0
    for _ in range(8):
        after, moved = c + rate * step, u + rate * change
        lower = float(weights @ barrier_terms(moved)[0] + after @ (0.5 * (P @ after) - b))
        if lower <= loss - 0.1 * rate * decrement:
            return after, moved, lower
        rate *= 0.5
    return c, u, loss


def fit_increments(U: Array, weights: Array, ridge: float, d: int) -> Array:
    """Coefficients (p − 1,) by least squares of the increments: u → 1."""
    P, b = prior(d, ridge)
    scaled = U * weights[:, None]
    return solve_positive(U.T @ scaled + P, np.sum(scaled, axis=0) + b)


def fit_quadratic(z: Array, values: Array, how: Fit, start: Quadratic) -> Quadratic:
    """The quadratic of points (n, d) that agrees with the order of their values (n,); the last points are used."""
    d = z.shape[1]
    most = int(how.points * count_coefficients(d))
    U, weights = increments(z[-most:], values[-most:], how.first_weight)
    if d >= BARRIER_BELOW:
        return as_quadratic(fit_increments(U, weights, how.ridge, d), d)
    return as_quadratic(fit_barrier(U, weights, how.ridge, d, as_coefficients(start)), d)


def uncertainty(points: Array, z: Array, values: Array, how: Fit) -> Array:
    """Covariance (m, m) of the values of a model at points (m, d), up to a factor, if it is fitted to points z (n, d)
    with values (n,) by least squares of the increments: φᵀ(UᵀWU + P)⁻¹φ.
    """
    d = z.shape[1]
    most = int(how.points * count_coefficients(d))
    U, weights = increments(z[-most:], values[-most:], how.first_weight)
    phi = features(points)
    return phi @ solve_positive((U * weights[:, None]).T @ U + prior(d, how.ridge)[0], phi.T)


def most_uncertain(covariance: Array, count: int, first: int = 0) -> NDArray[np.intp]:
    """Indices (count,) of points with covariances (m, m): the first ones, as many as `first`, and then those that have
    the largest variance if the ones before are known, as in a Cholesky decomposition with pivots.
    """
    chosen, rest = list[int](), covariance.copy()
    for number in range(count):
        variances = np.diagonal(rest).copy()
        variances[chosen] = -np.inf
        point = number if number < first else int(np.argmax(variances))
        chosen.append(point)
        if variances[point] > 0:
            rest -= np.outer(rest[:, point], rest[point]) / variances[point]
    return np.array(chosen, dtype=np.intp)


def minimum_in_ball(model: Quadratic, radius: float) -> Array:
    """The minimiser (d,) of a quadratic in ‖z‖ ≤ radius, by bisection of the secular equation."""
    eigenvalues, axes = np.linalg.eigh(model.H)
    slope = axes.T @ model.g
    curvature = 2.0 * eigenvalues
    floor = max(0.0, -float(curvature[0]))
    tiny = 1e-12 * float(np.max(np.abs(curvature), initial=0.0)) + 1e-300
    if float(curvature[0]) > tiny and _length(slope, curvature, 0.0) <= radius:
        return axes @ (-slope / curvature)
    low, high = floor + tiny, floor + tiny + float(np.linalg.norm(slope)) / radius
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _length(slope, curvature, middle) > radius else (low, middle)
    point = -slope / (curvature + high)
    return axes @ _on_sphere(point, curvature, radius)


def _length(slope: Array, curvature: Array, shift: float) -> float:
    return float(np.linalg.norm(slope / (curvature + shift)))


def _on_sphere(point: Array, curvature: Array, radius: float) -> Array:
    """The point, moved to the sphere along the first axis if the curvature there is negative and it has no slope."""
    rest = radius**2 - float(point @ point)
    if rest > 0 and curvature[0] <= 0:
        point[0] += np.copysign(np.sqrt(rest), point[0]) if point[0] else np.sqrt(rest)
        point *= min(1.0, radius / float(np.linalg.norm(point)))
    return point
