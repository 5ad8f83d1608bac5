"""Linear algebra of one step, for one matrix or a batch. Failures are returned as a mask or as NaN; nothing is raised.

A single small matrix is passed directly to LAPACK, because the checks of the general wrappers take longer than the
computation. Options are passed by position, which takes half the time of keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from scipy.linalg import blas, lapack

from sublevel.engine.arrays import Array, Mask, PerTrial, all_trials, expand_trailing, ones, zeros

FEW_BLOCKS = 4
"""Blocks up to which one after another takes less time than a stack."""
LEAST_SINE = 0.25
"""Sine of the angle between a vector and the span of others up to which a Cholesky factor loses too many digits."""

Factors = TypeVar("Factors", bound=tuple[Array | Mask, ...])


def product(a: Array, b: Array) -> Array:
    """a @ b for matrices (..., k, m) and (..., m, l); a single run uses `dot`, which has half the overhead of `@`."""
    return a.dot(b) if a.ndim == b.ndim == 2 else a @ b


def combination(weights: Array, vectors: Array) -> Array:
    """Σ wᵢ vᵢ (..., d) of weights (..., k) and vectors (..., k, d)."""
    return weights.dot(vectors) if vectors.ndim == 2 else (weights[..., None, :] @ vectors)[..., 0, :]


def inner(a: Array, b: Array) -> PerTrial:
    """aᵀb (...,) of vectors (..., d)."""
    return a.dot(b) if a.ndim == b.ndim == 1 else np.vecdot(a, b)


def all_finite(numbers: Array) -> Mask:
    """Whether all numbers along the last axis (..., n) are finite, shape (...)."""
    if numbers.ndim > 1:
        return np.isfinite(np.add.reduce(numbers, axis=-1))
    return np.True_ if blas.ddot(numbers, zeros(numbers.size)) == 0.0 else np.False_  # inf·0 and NaN·0 are NaN


def add_to_diagonal(matrix: Array, number: PerTrial) -> None:
    """Add a number (...,) to the diagonal of a matrix (..., d, d), in place."""
    if matrix.ndim == 2:
        d = len(matrix)
        blas.daxpy(ones(d), matrix.ravel(), d, number, 0, 1, 0, d + 1)
    else:
        diagonal = diagonal_of(matrix)
        diagonal += expand_trailing(number, 1)


def multiply(array: Array, number: PerTrial) -> None:
    """Multiply a contiguous array by a number per trial (...,), in place."""
    if number.ndim == 0:
        blas.dscal(number, array.ravel())  # a third of the overhead of NumPy, with the same bits
    else:
        array *= expand_trailing(number, array.ndim - number.ndim)


def add_to_rows(matrix: Array, row: Array) -> None:
    """Add a vector (..., d) to each row of a contiguous matrix (..., k, d), in place."""
    if matrix.ndim == 2:  # a product with ones is exact and takes a third of the time of broadcasting
        blas.dger(1.0, row, ones(len(matrix)), 1, 1, matrix.T, 1, 1, 1)  # strides and overwrite flags
    else:
        matrix += row[..., None, :]


def diagonal_of(matrix: Array) -> Array:
    """The diagonal (..., d) of a matrix (..., d, d), as a writable view."""
    flat = matrix.reshape(-1) if matrix.ndim == 2 else matrix.reshape(*matrix.shape[:-2], -1)
    return flat[..., :: matrix.shape[-1] + 1]


def image(matrix: Array, vector: Array) -> Array:
    """Matrix (..., k, d) times vector (..., d)."""
    return matrix.dot(vector) if matrix.ndim == 2 and vector.ndim == 1 else (matrix @ vector[..., None])[..., 0]


def gram(vectors: Array) -> Array:
    """VVᵀ (..., k, k) of vectors (..., k, d). For few vectors the general product is faster than the symmetric one."""
    return blas.dgemm(1.0, vectors.T, vectors.T, 0.0, None, 1) if vectors.ndim == 2 else vectors @ vectors.mT


def norm(matrix: Array) -> PerTrial:
    """Frobenius norm (...) of a matrix (..., k, k), without overflow of squares."""
    if matrix.ndim == 2:
        return np.float64(blas.dnrm2(matrix.reshape(-1)))
    return np.hypot.reduce(matrix.reshape(*matrix.shape[:-2], -1), axis=-1)


def add_product(matrix: Array, left: Array, right: Array) -> Array:
    """matrix + leftᵀ·right (..., d, d) for left and right (..., k, d); a single run needs no temporary matrix."""
    if matrix.ndim == 2:
        return blas.dgemm(1.0, right.T, left.T, beta=1.0, c=matrix.T, trans_b=1).T
    moved = left.mT @ right
    moved += matrix
    return moved


def append_row(matrix: Array, row: Array) -> Array:
    """Append a row (..., d) to rows (..., k, d)."""
    longer = np.empty((*matrix.shape[:-2], matrix.shape[-2] + 1, matrix.shape[-1]))
    longer[..., :-1, :], longer[..., -1, :] = matrix, row
    return longer


def add_square(matrix: Array, weight: PerTrial, vector: Array) -> Array:
    """matrix + weight·vvᵀ (..., d, d) of a vector v (..., d); the matrix, which must be symmetric, is overwritten."""
    if matrix.ndim == 2:
        return blas.dger(weight, vector, vector, 1, 1, matrix.T, 1, 1, 1).T  # strides and overwrite flags
    matrix += expand_trailing(weight, 2) * vector[..., :, None] * vector[..., None, :]
    return matrix


def solve(matrix: Array, right: Array) -> Array:
    """matrix⁻¹·right (..., d, n)."""
    return np.linalg.solve(matrix, right).astype(np.float64, copy=False)


def solve_lower(lower: Array, vector: Array) -> Array:
    """L⁻¹v (..., d) for a lower triangular L (..., d, d)."""
    if lower.ndim == 2:
        return lapack.dtrtrs(lower, vector, 1)[0]
    return solve(lower, vector[..., None])[..., 0]


def cholesky(matrix: Array, overwrite: bool = False) -> tuple[Array, Mask]:
    """Lower Cholesky factor (..., d, d), and whether the matrix was positive definite (...)."""
    if matrix.ndim == 2:
        factor, info = lapack.dpotrf(matrix.T, 1, 1, overwrite)  # lower, clean; Mᵀ = M is in LAPACK's order
        return factor, np.False_ if info else np.True_
    try:
        return np.linalg.cholesky(matrix).astype(np.float64, copy=False), np.ones(matrix.shape[:-2], dtype=np.bool_)
    except np.linalg.LinAlgError:
        return apply_to_each(cholesky, matrix)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues (..., d) and eigenvectors in columns (..., d, d); NaN where LAPACK did not converge."""
    if matrix.ndim == 2:
        values, vectors, info = lapack.dsyevd(matrix, 1, 1)
        return (values, vectors) if info == 0 else (np.full_like(values, np.nan), np.full_like(vectors, np.nan))
    try:
        return np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        return apply_to_each(eigh, matrix)


def eigvalsh(matrix: Array) -> Array:
    """Ascending eigenvalues (..., d) of a symmetric matrix; NaN where LAPACK did not converge."""
    if matrix.ndim == 2:
        values, _, info = lapack.dsyev(matrix, 0, 1)
        return values if info == 0 else np.full_like(values, np.nan)
    try:
        return np.linalg.eigvalsh(matrix).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return apply_to_each(lambda single: (eigvalsh(single),), matrix)[0]


def semidefinite_root(matrix: Array) -> Array:
    """R (..., k, k) with RRᵀ = matrix, for a positive semidefinite matrix that may have no Cholesky factor."""
    root, definite = cholesky(matrix)
    if all_trials(definite):
        return root
    values, vectors = eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def apply_to_each(factor: Callable[[Array], Factors], matrix: Array) -> Factors:
    """Apply `factor` to each matrix of a batch and stack the results; used if one of the factorizations fails."""
    batch = matrix.shape[:-2]
    results = [factor(single) for single in matrix.reshape(-1, *matrix.shape[-2:])]
    return cast(Factors, tuple(np.reshape(part, batch + np.shape(part[0])) for part in zip(*results, strict=True)))


def orthogonal_rows(vectors: Array) -> Array:
    """The Gram–Schmidt process for blocks of d normal vectors (..., k, d), each of which keeps its length and its side.

    A direction depends on the directions of the vectors only, not on their lengths. The vectors may be overwritten. If
    LAPACK fails, which only a fault can cause, they stay as they are.

    With VVᵀ = LLᵀ and the lengths D, fewer than d vectors of a single run become DL⁻¹V = (LD⁻¹)⁻¹V, in half the time
    of reflections. The diagonal of LD⁻¹ has the sines of the angles between a vector and the span of those before it;
    an error of rounding is divided by their squares. Only the last may well be small: the others have three degrees of
    freedom at least, and are below 0.001 once in 10⁹ vectors.
    """
    k, d = vectors.shape[-2:]
    if vectors.ndim > 2 or k >= d:
        return _orthogonal_blocks(vectors)
    products = blas.dgemm(1.0, vectors.T, vectors.T, 0.0, None, 1)
    lower, failed = lapack.dpotrf(products, 1, 0)
    lower /= np.sqrt(products.diagonal())
    if failed or lower[-1, -1] < LEAST_SINE:
        return _reflected(vectors)
    return blas.dtrsm(1.0, lower, vectors.T, 1, 1, 1, 0, 1).T  # right, lower, transposed, overwrite


def _orthogonal_blocks(vectors: Array) -> Array:
    """The process for blocks of d vectors (..., k, d)."""
    *batch, k, d = vectors.shape
    if d == 1:
        return vectors
    if not batch and k <= FEW_BLOCKS * d:
        starts = range(0, k - k % d, d)
        rows = [_reflected(vectors[start : start + d]) for start in starts]  # one of d sines is mostly small
        return np.concatenate([*rows, orthogonal_rows(vectors[k - k % d :])]) if k % d else np.concatenate(rows)
    whole = k - k % d
    blocks = vectors[..., :whole, :].reshape(*batch, whole // d, d, d)
    parts = [_orthogonal_stack(blocks).reshape(*batch, whole, d)]
    if whole < k:
        parts.append(_orthogonal_stack(vectors[..., whole:, :]))
    return np.concatenate(parts, axis=-2)


def _reflected(vectors: Array) -> Array:
    """The process for at most d vectors (k, d) by Householder's reflections, which needs no large angles."""
    reflectors, scalars, _, failed = lapack.dgeqrf(vectors.T)
    lengths = np.copysign(np.sqrt(np.vecdot(vectors, vectors)), reflectors.diagonal())
    directions, _, fails = lapack.dorgqr(reflectors, scalars)
    return vectors if failed or fails else directions.T * lengths[:, None]


def _orthogonal_stack(vectors: Array) -> Array:
    """The process for stacks of at most d vectors (..., k, d)."""
    q, r = np.linalg.qr(vectors.mT)
    lengths = np.copysign(np.sqrt(np.vecdot(vectors, vectors)), np.diagonal(r, axis1=-2, axis2=-1))
    return q.mT * lengths[..., None]
