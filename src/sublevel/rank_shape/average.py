"""The average of the shapes of successive iterations, and its error.

Around C ∝ H⁻¹ the distribution of C is isotropic in the frame in which f is round: G = log(H^½·C·H^½), for C of
determinant 1, has mean 0 by symmetry. For small steps it is an autoregressive process of order one with a single
coefficient φ for all k(k + 1)/2 − 1 components, because symmetric matrices of trace 0 are an irreducible representation
of the rotations. So φ and the variance are pooled over all components and are accurate even for few iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.optimize import brentq

from sublevel.engine.arrays import Array
from sublevel.engine.linalg import cholesky, eigh

STRONGEST = 0.999
"""Correlation of successive shapes above which the sequence has not converged."""
DRAWS, SEED = 4000, 1204
"""Number and seed of the random matrices from which quantiles are taken."""


@dataclass(frozen=True, slots=True)
class ShapeAverage:
    """An average shape C = R(I + E)Rᵀ in k dimensions: the error E has variance s² off the diagonal, and trace 0."""

    root: Array  # (k, k), R
    error: float  # s
    correlation: float  # φ, of successive shapes
    dof: float  # effective degrees of freedom of s
    drift: float  # squared difference of the two halves, relative to its expectation under φ and s

    def spread(self, level: float) -> float:
        """A bound on Cond(C·H) of the average that holds with probability `level`; infinite without convergence."""
        if self.correlation >= STRONGEST:
            return np.inf
        widths = eigenvalue_widths(len(self.root)) * np.sqrt(
            self.dof / np.random.default_rng(SEED).chisquare(self.dof, DRAWS)
        )
        return float(np.exp(self.error * np.quantile(widths, level)))


def average_shapes(shapes: Array) -> ShapeAverage:
    """The average of shapes (t, k, k) of determinant 1, one after the other; k ≥ 2 and t ≥ 4."""
    count, k = shapes.shape[:2]
    root, _ = cholesky(np.mean(shapes, axis=0))
    root *= np.exp(-np.mean(np.log(np.diagonal(root))))
    g = _centred_logarithms(shapes, root)
    components = 0.5 * (k - 1) * (k + 2)
    power = float(np.vdot(g, g)) / count
    phi = _coefficient(float(np.vdot(g[1:], g[:-1])) / (count * power) if power > 0 else 0.0, count)
    share = mean_variance(phi, count)
    variance = power / (2.0 * components) / (1.0 - share)  # of an entry, corrected for the subtracted mean
    half = count // 2
    gap: Array = np.mean(g[-half:], axis=0) - np.mean(g[:half], axis=0)
    expected = 4.0 * variance * (mean_variance(phi, half) - mean_variance(phi, 2 * half))
    return ShapeAverage(
        root=root,
        error=sqrt(variance * share),
        correlation=phi,
        dof=max(components * count * (1.0 - phi) / (1.0 + phi), 1.0),
        drift=float(np.vdot(gap, gap)) / (2.0 * components * expected) if expected > 0 else 0.0,
    )


def _centred_logarithms(shapes: Array, root: Array) -> Array:
    """log(R⁻¹CR⁻ᵀ) (t, k, k) with trace 0, less their mean."""
    relative = np.linalg.solve(root, np.linalg.solve(root, shapes).mT)
    values, vectors = eigh(0.5 * (relative + relative.mT))
    logarithms = np.log(np.maximum(values, np.finfo(np.float64).tiny))  # eigenvalues beyond 1e16 may be negative
    logarithms -= np.mean(logarithms, axis=-1, keepdims=True)
    g = (vectors * logarithms[..., None, :]) @ vectors.mT
    return g - np.mean(g, axis=0)


def mean_variance(phi: float, count: int) -> float:
    """Variance of the mean of `count` values of an autoregressive process of variance 1: Σᵢⱼ φ^|i−j|/count²."""
    tail = (1.0 - phi**count) / (count * (1.0 - phi))
    return (1.0 + 2.0 * phi / (1.0 - phi) * (1.0 - tail)) / count


def _expected_ratio(phi: float, count: int) -> float:
    """Ratio of the expectations of Σ gₜgₜ₊₁ and Σ gₜ² of such values, less their mean."""
    share = mean_variance(phi, count)
    with_first = (1.0 - phi**count) / (count * (1.0 - phi))  # covariance of the mean and an end
    return ((count - 1) * phi - (count + 1) * share + 2.0 * with_first) / (count * (1.0 - share))


def _coefficient(ratio: float, count: int) -> float:
    """φ ≥ 0 whose expected ratio is `ratio`."""
    if ratio <= _expected_ratio(0.0, count):
        return 0.0
    if ratio >= _expected_ratio(STRONGEST, count):
        return STRONGEST
    return float(brentq(lambda phi: _expected_ratio(phi, count) - ratio, 0.0, STRONGEST))


@lru_cache(maxsize=16)
def eigenvalue_widths(k: int) -> Array:
    """λ_max − λ_min (DRAWS,) of random symmetric matrices (k, k) with entries of variance 1, 2 on the diagonal.

    By their tridiagonal form, which has entries N(0, 2) and χ_{k−1} … χ₁ (Dumitriu & Edelman, J. Math. Phys. 43, 2002).
    """
    rng = np.random.default_rng([SEED, k])
    diagonals = sqrt(2.0) * rng.standard_normal((DRAWS, k))
    beside = np.sqrt(rng.chisquare(np.arange(k - 1, 0, -1), (DRAWS, k - 1)))
    ends = [
        eigvalsh_tridiagonal(a, b, select="i", select_range=(i, i))[0]
        for a, b in zip(diagonals, beside, strict=True)
        for i in (0, k - 1)
    ]
    return np.diff(np.reshape(ends, (DRAWS, 2)), axis=1)[:, 0]
