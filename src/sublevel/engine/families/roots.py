"""Exact updates of a root A of C: A·M^{1/2} for the matrix M of a step, and the transport of vectors to the new frame.

Each function returns the new root, the growth of the scale, where the step stays in the family, and the transport v ↦
M^{-1/2}v. For few vectors only k×k matrices are decomposed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sublevel.engine.arrays import ONE, Array, Mask, PerTrial, all_trials, expand_trailing
from sublevel.engine.families.protocol import Transport
from sublevel.engine.linalg import (
    add_product,
    add_to_diagonal,
    all_finite,
    cholesky,
    combination,
    diagonal_of,
    eigh,
    image,
    norm,
    product,
    solve_lower,
)
from sublevel.engine.tangent import Cloud, Dense

LARGE_STEP = 1e6
"""Growth of a variance in one step above which the k×k formulas are less accurate than the d×d ones."""
SMALL_STEP = 0.0625
"""Norm of a step up to which twelve terms of the series of √ are exact to rounding: |C(−½, 13)|·SMALL_STEP¹³ < 2⁻⁵⁴."""
TERMS = np.arange(12.0)
SERIES = np.concatenate([np.cumprod((power - TERMS) / (TERMS + 1.0)).reshape(3, 4) for power in (0.5, -0.5)])
"""Coefficients of (√(1 + x) − 1)/x and of (1/√(1 + x) − 1)/x, each in three groups of four."""
LARGE_EXPONENT = 300.0
"""An exponential step that changes a standard deviation by a factor of more than e^±300 is refused."""

RootStep = tuple[Array, PerTrial, Mask, Transport]
"""A root (..., d, d), the growth of the scale (...,), where the step is usable (...), and the transport."""


def thick_root(root: Array, cloud: Cloud | Dense, rate: PerTrial) -> RootStep:
    """A·L with LLᵀ = M = I + rate·(moment − decay·I) (..., d, d), the growth of the scale, and where M is definite."""
    matrix = cloud.new_moment() if rate is ONE else expand_trailing(rate, 2) * cloud.moment
    add_to_diagonal(matrix, 1.0 - rate * cloud.decay)
    factor, definite = cholesky(matrix, True)
    return product(root, factor), ONE, definite, lambda vector: solve_lower(factor, vector)


def exponential_root(root: Array, cloud: Cloud | Dense, rate: PerTrial) -> RootStep:
    """A·exp(½·rate·moment), the growth exp(−½·rate·decay) of the scale; such a step always stays in the family."""
    if isinstance(cloud, Cloud) and cloud.is_thin and all_trials(_is_small(cloud.eigen[0], rate)):
        return _thin_exponential_root(root, cloud, rate)
    values, vectors = eigh(cloud.moment)
    half, usable = _clip_exponents(expand_trailing(0.5 * rate, 1) * values)
    moved = (root @ vectors) * np.exp(half)[..., None, :] @ vectors.mT
    growth = np.exp(-0.5 * rate * cloud.decay)

    def transport(vector: Array) -> Array:
        """M^{-1/2}v."""
        return image(vectors, np.exp(-half) * combination(vector, vectors)) / expand_trailing(growth, 1)

    return moved, growth, usable, transport


def _thin_exponential_root(root: Array, cloud: Cloud, rate: PerTrial) -> RootStep:
    """The same for few vectors: exp(½VᵀDV) = I + ½VᵀDV + VᵀDRU·ψ(Λ/2)/4·UᵀRᵀDV, ψ(t) = (exp(t) − 1 − t)/t²."""
    values, vectors = cloud.eigen
    half = expand_trailing(0.5 * rate, 1) * values
    v, d = cloud.vectors, expand_trailing(rate, 2) * cloud.weights[..., None]
    dru = d * (cloud.gram_root @ vectors)
    images = v @ root.mT if cloud.images is None else cloud.images
    moved = add_product(root, images, 0.5 * (d * v) + (dru * _remainder(half)[..., None, :]) @ (dru.mT @ v))
    growth = np.exp(-0.5 * rate * cloud.decay)

    def transport(vector: Array) -> Array:
        """M^{-1/2}v."""
        u = v @ vector[..., None]
        inner = (dru * _remainder(-half)[..., None, :]) @ (dru.mT @ u) - 0.5 * d * u
        return (vector + (v.mT @ inner)[..., 0]) / expand_trailing(growth, 1)

    return moved, growth, all_finite(half), transport


def _is_small(values: Array, rate: PerTrial) -> Mask:
    """Whether all exponents ½·rate·values (..., k) are small enough for the k×k formula not to cancel (...)."""
    return np.logical_and.reduce(np.abs(expand_trailing(rate, 1) * values) < 4.0, axis=-1)


def _clip_exponents(exponents: Array) -> tuple[Array, Mask]:
    """Clip exponents (..., k) to ±LARGE_EXPONENT, and return whether none was clipped (...)."""
    usable = np.logical_and.reduce(np.abs(exponents) <= LARGE_EXPONENT, axis=-1)  # false for NaN
    return np.clip(exponents, -LARGE_EXPONENT, LARGE_EXPONENT), usable


def _remainder(t: Array) -> Array:
    """(exp(t) − 1 − t)/(2t)², which is 1/8 at 0."""
    small = np.abs(t) < 1e-8
    return np.where(small, 0.125, (np.expm1(t) - t) / np.square(2.0 * np.where(small, 1.0, t)))


def thin_root(root: Array, cloud: Cloud, rate: PerTrial) -> RootStep:
    """A(I + VᵀSV) with (I + VᵀSV)² = I + VᵀDV, D = diag(w)·rate/α, the growth √α, and where the result is definite."""
    remainder = 1.0 - rate * cloud.decay
    if not all_trials(remainder > 0):
        return thick_root(root, cloud, rate)
    weights = expand_trailing(rate / remainder, 1) * cloud.weights
    step = cloud.gram * weights[..., None, :]
    if all_trials(norm(step) <= SMALL_STEP):
        middle, definite, inverse = _middle_of_small_step(weights, step)
    elif all_trials(rate * cloud.eigen[0][..., -1] < LARGE_STEP * remainder):
        values = expand_trailing(rate / remainder, 1) * cloud.eigen[0]
        middle, definite, inverse = _middle_of_step(cloud, weights, values)
    else:  # the sum in S would cancel
        return thick_root(root, cloud, rate)
    v = cloud.vectors
    images = v @ root.mT if cloud.images is None else cloud.images

    def transport(vector: Array) -> Array:
        """M^{-1/2}v = (I + VᵀTV)v/√α."""
        return (vector + combination(inverse(image(v, vector)), v)) / np.sqrt(expand_trailing(remainder, 1))

    return add_product(root, images, product(middle, v)), np.sqrt(remainder), definite, transport


Middle = tuple[Array, Mask, Callable[[Array], Array]]
"""S (..., k, k) of a step, where the step is definite, and u ↦ Tu (..., k) with I + VᵀTV = (I + VᵀSV)⁻¹."""


def _middle_of_small_step(weights: Array, step: Array) -> Middle:
    """By series in X = VVᵀD: S = D·g(X) with g(x) = (√(1 + x) − 1)/x, and T = D·h(X) with h(x) = (1/√(1 + x) − 1)/x."""
    square = product(step, step)
    powers = np.empty((4, *step.shape))
    powers[0], powers[1], powers[2], powers[3] = np.eye(step.shape[-1]), step, square, product(square, step)
    g0, g4, g8, h0, h4, h8 = SERIES.dot(powers.reshape(4, -1)).reshape(6, *step.shape)
    fourth, d = product(square, square), weights[..., None]
    middle = d * (g0 + product(fourth, g4 + product(fourth, g8)))
    inverse = d * (h0 + product(fourth, h4 + product(fourth, h8)))
    return middle, np.ones(weights.shape[:-1], dtype=np.bool_)[()], lambda u: image(inverse, u)


def _middle_of_step(cloud: Cloud, weights: Array, values: Array) -> Middle:
    """By the eigenvalues Λ of RᵀDR = UΛUᵀ with RRᵀ = VVᵀ: S = ½(D − DBBᵀD), B = R·U·(1 + s)⁻¹, s = √(1 + Λ).

    No inverse of R is needed, so V may be rank deficient. T = −½D + DRU·(s + 2)/(2s(1 + s)²)·UᵀRᵀD.
    """
    growth = 1.0 + values
    definite = growth[..., 0] > 0
    if not all_trials(definite):  # the step will be refused, and any root will do
        growth = np.abs(growth)
    s = np.sqrt(growth)[..., None, :]
    dru = weights[..., None] * (cloud.gram_root @ cloud.eigen[1])
    db = dru / (1.0 + s)
    middle = product(db, -0.5 * db.mT)
    diagonal = diagonal_of(middle)
    diagonal += 0.5 * weights

    def inverse(u: Array) -> Array:
        return image(dru * ((s + 2.0) / (2.0 * s * np.square(1.0 + s))), combination(u, dru)) - 0.5 * weights * u

    return middle, definite, inverse
