"""The nearest points that satisfy linear constraints, in the metric of the search distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.families.protocol import SCALE_RANGE
from sublevel.run.search_space import SearchSpace

MARGIN = 1e-9
"""How far inside of a constraint a projected point is, in standard deviations, besides rounding."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)
BOUND_ROUNDS = 10
"""How often bounds that a projected point violates are added to the constraints."""


@dataclass(frozen=True, slots=True)
class HalfSpaces:
    """Linear inequalities G x ≥ h of the user's points (d,)."""

    matrix: Array  # (q, d)
    limits: Array  # (q,)

    def g(self, points: Array) -> Array:
        """h − G x (n, q) at points (n, d): ≤ 0 where an inequality is satisfied."""
        return self.limits - points @ self.matrix.T

    def add_bounds(self, variables: NDArray[np.intp], sign: float, bounds: Array) -> HalfSpaces:
        """With the bounds (d,) of some variables, lower ones for the sign 1 and upper ones for −1."""
        rows = np.zeros((variables.size, self.matrix.shape[1]))
        rows[np.arange(variables.size), variables] = sign
        matrix = np.concatenate([self.matrix, rows])
        return HalfSpaces(matrix, np.concatenate([self.limits, sign * bounds[variables]]))


def project(points: Array, theta: Family, space: SearchSpace | None, inside: HalfSpaces) -> Array:
    """The nearest points (n, d) to the user's points (n, d) that satisfy linear constraints and bounds.

    Only real variables are moved; those that are log-scaled by a part of themselves, and they remain positive. A point
    that cannot be projected remains as it is.
    """
    if space is None:
        everywhere, unbounded = np.ones(theta.dimension, dtype=np.bool_), np.full(theta.dimension, np.inf)
        return np.array([_project(x, everywhere, theta.dense_root, (-unbounded, unbounded), inside) for x in points])
    moved, scale, (low, high) = space.free & ~space.discrete, space.log_scaled, space.box
    if not moved.any():
        return points
    root, box = theta.dense_root[moved[space.free]], (np.where(scale, np.maximum(low, SCALE_RANGE[0]), low), high)
    with np.errstate(over="ignore", invalid="ignore"):  # such points remain as they are
        return np.array([_project(x, moved, root * np.where(scale, x, 1.0)[moved, None], box, inside) for x in points])


def _project(x: Array, moved: NDArray[np.bool_], root: Array, box: tuple[Array, Array], inside: HalfSpaces) -> Array:
    """One point (d,) of a box, with a root (v, k) of the covariance of its v real variables."""
    for _ in range(BOUND_ROUNDS):
        step = _shortest_step(inside.matrix[:, moved] @ root, *_gaps(x, inside))
        if step is None:
            return x
        near = x.copy()
        near[moved] += root @ step
        low, high = np.flatnonzero(near < box[0]), np.flatnonzero(near > box[1])
        if not low.size and not high.size:
            return near
        inside = inside.add_bounds(low, 1.0, box[0]).add_bounds(high, -1.0, box[1])
    return x


def _gaps(x: Array, inside: HalfSpaces) -> tuple[Array, Array]:
    """What is missing at x (d,) in each inequality (q,), and its rounding errors."""
    size = np.abs(inside.matrix) @ np.abs(x) + np.abs(inside.limits)
    return inside.limits - inside.matrix @ x, ROUNDING * size


def _shortest_step(rows: Array, gaps: Array, rounding: Array) -> Array | None:
    """The shortest y (k,) with rows (q, k) · y ≥ gaps (q,); None if there is none, or if no y changes anything.

    Least distance programming: Lawson & Hanson, Solving Least Squares Problems, chapter 23.
    """
    length = np.sqrt(np.sum(rows**2, axis=1))
    usable = length > 0
    if not usable.any() or not np.isfinite(length).all():
        return None
    normal = rows[usable] / length[usable, None]
    needed = (gaps + rounding)[usable] / length[usable] + MARGIN
    system = np.concatenate([normal.T, needed[None]])
    target = np.zeros(len(system))
    target[-1] = 1.0
    dual = _nonnegative_solution(system, target)
    if dual is None:
        return None
    residual = system @ dual - target
    return -residual[:-1] / residual[-1] if residual[-1] < 0 else None


def _nonnegative_solution(system: Array, target: Array) -> Array | None:
    """The x ≥ 0 (q,) that minimises ‖system · x − target‖; None if it is not found."""
    from scipy.optimize import lsq_linear, nnls

    try:
        return cast("Callable[[Array, Array], tuple[Array, float]]", nnls)(system, target)[0]
    except RuntimeError:  # too many iterations
        return None
    except np.linalg.LinAlgError:  # SciPy 1.13 solves the normal equations, which may be singular
        solve = cast("Callable[..., Mapping[str, Array]]", lsq_linear)
        return solve(system, target, bounds=(0.0, np.inf), method="bvls")["x"]
