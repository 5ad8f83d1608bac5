"""The paper's objective g(xᵀAx): its Hessian as a root L with A = LᵀL, and the exact volumes of its sublevel sets."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
from scipy.special import gammaln

from sublevel.engine.arrays import Array
from sublevel.engine.linalg import cholesky


def root_of_hessian(hessian: Array) -> Array:
    """L (d, d) with A = LᵀL, of a symmetric positive definite A (d, d).

    Everything here takes L, not A: Cond(A) = 1e14 is Cond(L) = 1e7, and half the digits are left.
    """
    hessian = np.asarray(hessian, dtype=np.float64)
    if hessian.ndim != 2 or hessian.shape[0] != hessian.shape[1]:
        raise ValueError(f"`hessian` must be a square matrix (d, d), got shape {hessian.shape}.")
    if not np.allclose(hessian, hessian.T, rtol=1e-8, atol=0.0):
        raise ValueError("`hessian` must be symmetric; (A + A.T) / 2 is the nearest symmetric matrix.")
    lower, definite = cholesky(hessian)
    if not definite:
        raise ValueError("`hessian` must be positive definite. If rounding is the cause, pass a root L of A = LᵀL.")
    return lower.T


def random_hessian_root(rng: np.random.Generator, d: int, condition: float) -> Array:
    """L (d, d) of a randomly rotated ellipsoid: the logarithms of A's eigenvalues, 1 … `condition`, evenly spaced."""
    turn, signs = np.linalg.qr(rng.standard_normal((d, d)))
    return np.geomspace(1.0, sqrt(condition), d)[:, None] * (turn * np.sign(np.diagonal(signs))).T


def hessian_spectrum(hessian_root: Array) -> Array:
    """Eigenvalues (..., d) of A = LᵀL, falling."""
    return np.square(np.linalg.svd(hessian_root, compute_uv=False))


def diagonal_root(hessian_root: Array) -> Array:
    """The root of diag(A), (..., d, d): the target of a diagonal C is its inverse square."""
    d: int = hessian_root.shape[-1]
    return np.linalg.norm(hessian_root, axis=-2)[..., None] * np.eye(d)


def normalised_root(hessian_root: Array) -> Array:
    """The root (..., k, d) of Ã = D^{-1/2} A D^{-1/2}, D = diag(A): A in coordinates in which diag(A) is I.

    The footnote after thm:rate writes Ã = D⁻¹A, which has the same eigenvalues but is not symmetric.
    """
    return hessian_root / np.linalg.norm(hessian_root, axis=-2)[..., None, :]


def log_volume_of_unit_set(hessian_root: Array) -> Array:
    """log of the volume (...,) of {y : yᵀAy ≤ 1} = V_d·det(A)^{-1/2}, V_d the volume of the unit ball.

    The proof of prop:ng prints 2/det(A)·V_d; the change of variables gives this. The constant never matters to the
    algorithm.
    """
    d: int = hessian_root.shape[-1]
    log_ball = 0.5 * d * log(pi) - float(gammaln(0.5 * d + 1.0))
    return log_ball - np.sum(np.log(np.linalg.svd(hessian_root, compute_uv=False)), axis=-1)


def sublevel_cost(x: Array, hessian_root: Array, exponent: float | None = None) -> Array:
    """V_f(x) = µ_Leb{y : f(y) ≤ f(x)}^exponent (..., n) of points (..., n, d) on f = g(xᵀAx); 2/d in the paper."""
    d = hessian_root.shape[-1]
    exponent = 2.0 / d if exponent is None else exponent
    radius = np.linalg.norm(x @ hessian_root.mT, axis=-1)
    return np.exp(exponent * (log_volume_of_unit_set(hessian_root) + d * np.log(radius)))


def natural_gradient_constant(hessian_root: Array) -> float:
    """The c > 0 of eq:m-quad and eq:c-quad: δm = c·CAm and δC = c·CAC, exactly.

    V_f(x) = v·xᵀAx with v = (V_d·det(A)^{-1/2})^{2/d}, so J = v(mᵀAm + Tr(AC)), its gradient is v(2Am, A), and the
    inverse Fisher matrix (C, 2C⊗C) of eq:fisher makes it 2v(CAm, CAC).
    """
    return float(2.0 * np.exp(2.0 / hessian_root.shape[-1] * log_volume_of_unit_set(hessian_root)))
