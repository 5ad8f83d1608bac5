"""Quantities in which theory and runs are compared: Cond(CA), E[f] and norms, for one θ or a batch, at any scale."""

from __future__ import annotations

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.linalg import image


def whitened_root(theta: Family, hessian_root: Array) -> tuple[Array, Array]:
    """LR (..., k, d), the Hessian's root L in the whitened frame of θ with C = RRᵀ, and the unit (...,) it is in.

    Only scales are taken out, so that nothing overflows or vanishes for any θ a family can hold.
    """
    height = np.max(np.abs(hessian_root), axis=(-2, -1))
    width = np.max(theta.deviations, axis=-1)
    root = theta.pull(hessian_root / height[..., None, None] / width[..., None, None])
    peak = np.max(np.abs(root), axis=(-2, -1))
    return root / peak[..., None, None], height * width * peak


def condition_number(theta: Family, hessian_root: Array) -> Array:
    """Cond(CA) (...,) as the squared condition of LR, so that 1e14 still has about nine digits."""
    singular = np.linalg.svd(whitened_root(theta, hessian_root)[0], compute_uv=False)
    with np.errstate(divide="ignore"):
        return np.square(singular[..., 0] / singular[..., -1])


def expected_objective(theta: Family, hessian_root: Array, optimum: Array | float = 0.0) -> Array:
    """E[(x − x*)ᵀA(x − x*)] = mᵀAm + Tr(CA) (...,); 0 or inf, without a warning, where floats end."""
    total, unit = _squared_length(theta, hessian_root, optimum)
    with np.errstate(over="ignore", under="ignore"):
        return unit * (unit * total)


def log_expected_objective(theta: Family, hessian_root: Array, optimum: Array | float = 0.0) -> Array:
    """The logarithm of mᵀAm + Tr(CA) (...,), which no scale can push out of range."""
    total, unit = _squared_length(theta, hessian_root, optimum)
    return np.log(total) + 2.0 * np.log(unit)


def _squared_length(theta: Family, hessian_root: Array, optimum: Array | float) -> tuple[Array, Array]:
    """‖L(m − x*)‖² + ‖LR‖² in the square of a unit, and that unit (...,)."""
    root, root_unit = whitened_root(theta, hessian_root)
    distance, distance_unit = _scale(image(hessian_root, theta.mean - optimum))
    unit = np.maximum(root_unit, distance_unit)
    total = np.square(root_unit / unit) * np.sum(np.square(root), axis=(-2, -1))
    return total + np.square(distance_unit / unit) * np.vecdot(distance, distance), unit


def log_mean_distance(theta: Family, optimum: Array | float = 0.0) -> Array:
    """log ‖m − x*‖ (...,), −inf at the optimum."""
    direction, unit = _scale(theta.mean - optimum)
    with np.errstate(divide="ignore"):
        return np.log(np.linalg.norm(direction, axis=-1)) + np.log(unit)


def log_covariance_norm(theta: Family) -> Array:
    """log ‖C‖ in the Frobenius norm of thm:rate (...,)."""
    root, unit = whitened_root(theta, np.eye(theta.dimension))
    return np.log(np.linalg.norm(root @ root.mT, axis=(-2, -1))) + 2.0 * np.log(unit)


def _scale(vectors: Array) -> tuple[Array, Array]:
    """Vectors (..., d) in units of their largest entry, and that unit (...,); 0 stays 0."""
    unit = np.max(np.abs(vectors), axis=-1)
    return vectors / np.where(unit > 0, unit, 1.0)[..., None], unit
