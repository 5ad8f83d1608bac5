"""The point at which the curvature is computed, and the frame in which f is round: x = centre + root·z.

For a log-scaled variable x = centre·exp(root·z); its row of a root and its distances to bounds are in units of ln x.
Integers and choices are held at the best point: their rows are 0, and both of their bounds are their value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.families.full import power_of_two_near
from sublevel.hessian.tuning import Tuning
from sublevel.run.diagnosis import TOUCHING
from sublevel.run.history import History, Snapshot, log_size
from sublevel.run.labels import Labels
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.run.search_space import MARGIN, SearchSpace, log_where, shift_where
from sublevel.validation import as_bounds, as_log_scaled, as_x0, short_repr

EPS = float(np.finfo(np.float64).eps)
MOST_VARIABLES = 10_000
"""Largest number of variables: the Hessian then takes 800 MB."""


@dataclass(frozen=True, slots=True)
class Place:
    """A minimum in user coordinates, with the frame that the search has learned."""

    x: Array  # (d,), the best point
    fun: float  # its value, NaN if unknown
    mean: Array  # (d,), the mean of the search: under noise a better estimate than the best point
    root: Array  # (d, k), of the learned covariance, C = root·rootᵀ
    box: tuple[Array, Array]  # (d,) each
    is_log: NDArray[np.bool_]  # (d,), log-scaled variables
    span: Array | float = 0.0  # (d,), the width that the search assumed for a half-open box
    curvature: float = np.nan  # estimate of f″ along a whitened direction, from the history


@dataclass(frozen=True, slots=True)
class Frame:
    """Whitened coordinates z (..., k) of the free directions around a centre."""

    centre: Array  # (d,)
    root: Array  # (d, k); rows of variables that are not free are 0
    free: NDArray[np.bool_]  # (d,)
    box: tuple[Array, Array]  # (d,) each
    is_log: NDArray[np.bool_]  # (d,), log-scaled variables

    @property
    def size(self) -> int:
        """k, the number of free directions."""
        return self.root.shape[1]

    @property
    def inverse(self) -> Array:
        """B (k, k) with z = B·(x − centre) over the free variables, B·ln(x/centre) where they are log-scaled."""
        return np.linalg.inv(self.root[self.free]).astype(np.float64)

    def points(self, z: Array) -> Array:
        """Points (..., d) in user coordinates, within the box in spite of rounding."""
        return np.clip(shift_where(self.is_log, self.centre, z @ self.root.T), *self.box)

    def slopes(self, x: Array) -> Array:
        """Derivatives (k,) of the free variables at x (d,) with respect to the root: 1, or x if log-scaled."""
        return np.where(self.is_log, x, 1.0)[self.free]

    @property
    def magnitudes(self) -> Array:
        """Magnitudes (k,) of the free variables, to which rounding is proportional, in the units of the root."""
        return np.where(self.is_log, 1.0, np.abs(self.centre))[self.free]

    @property
    def rounding(self) -> float:
        """Rounding error of z at the points that are reached by two axes."""
        largest = self.magnitudes + np.max(np.abs(self.root[self.free]), axis=1)
        return EPS * float(np.linalg.norm(self.inverse * largest))

    def transform(self, matrix: Array) -> Frame:
        """The frame with root·matrix as its root, matrix (k, k)."""
        return replace(self, root=self.root @ matrix)

    def scale(self, factor: float) -> Frame:
        """The frame with a radius that is larger by a factor."""
        return self.transform(factor * np.eye(self.size))

    def reach(self, rounding: float) -> Array:
        """Largest step along each axis (k,): two stay within the box, and rounding of x below `rounding` radii."""
        lower, centre, upper = in_search_units(self.is_log, self.box[0], self.centre, self.box[1])
        room = np.minimum(centre - lower, upper - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            fine = rounding / (EPS * np.linalg.norm(self.inverse, axis=0))
            room[self.free] = np.minimum(
                room[self.free], np.maximum(fine, np.max(np.abs(self.root[self.free]), axis=1))
            )
            return np.min(np.where(self.root == 0, np.inf, room[:, None] / (2.0 * np.abs(self.root))), axis=0)


def in_search_units(is_log: NDArray[np.bool_], *points: Array) -> tuple[Array, ...]:
    """Points (d,) or ends of a box, as logarithms where variables are log-scaled; −inf there if not positive."""
    return tuple(log_where(is_log, np.where(is_log, np.maximum(point, 0.0), point)) for point in points)


def find_place(
    found: object, bounds: object, noise: float = 0.0, log_scaled: object = None, tuning: Tuning | None = None
) -> Place:
    """The place of an Optimizer, a result of `minimize`, or any other OptimizeResult, for values with this noise."""
    history: History | None = getattr(found, "history", None) if hasattr(found, "mean") else None
    if log_scaled is not None and (isinstance(found, Optimizer) or history is not None):
        raise ValueError(f"`log_scaled` is known from the search and must be left out, got {short_repr(log_scaled)}.")
    if isinstance(found, Optimizer):
        return _place_of_search(found.best_x, found.best_fun, found.theta_of_best, found.space, bounds)
    x = getattr(found, "x", None)
    if x is None:
        raise TypeError(f"expected a result of `minimize` or an Optimizer, got {short_repr(found)}.")
    fun = float(getattr(found, "fun", np.nan))
    if history is not None:
        best = history.best_run
        run = [snapshot for snapshot in history.snapshots if snapshot.run == best] or history.snapshots[-1:]
        least = _least_rise(history, noise, tuning or Tuning())
        is_clear = np.flatnonzero(_rises(history, run, least)[1])
        informative = run[: is_clear[-1] + 1] if is_clear.size else run
        last, learned = (_place_of_search(x, fun, s[-1].theta, history.space, bounds) for s in (run, informative))
        return replace(last, root=learned.root, curvature=_curvature_of_history(history, informative, least))
    x = as_x0(x)
    box = _box(bounds, x.size)
    is_log = as_log_scaled(False if log_scaled is None else log_scaled, box[0], x)
    return Place(x, fun, x, _root_of_other_result(found, x, is_log), box, is_log)


def find_space(found: object) -> Space | None:
    """The space of named parameters of an Optimizer or of a result of `minimize`; None if there is none."""
    if isinstance(found, Optimizer):
        return found.start.parameters
    return getattr(getattr(found, "history", None), "parameters", None)


def find_labels(found: object, names: tuple[str, ...]) -> Labels:
    """How the values of variables with these names are written."""
    space = getattr(found if isinstance(found, Optimizer) else getattr(found, "history", None), "space", None)
    return Labels(names, space, find_space(found))


def find_names(found: object) -> tuple[str, ...] | None:
    """The variable names of an Optimizer or of a result of `minimize`; None if there are none."""
    if isinstance(found, Optimizer):
        return found.start.names
    return getattr(getattr(found, "history", None), "given_names", None)


def _rises(history: History, snapshots: list[Snapshot], least: float) -> tuple[Array, NDArray[np.bool_]]:
    """The best value of each snapshot's generation less the best of all (s,), and where it exceeds `least`."""
    columns = history.arrays()
    if not len(history):  # the run ended within its first generation
        return np.full(len(snapshots), np.nan), np.zeros(len(snapshots), dtype=np.bool_)
    rows = np.minimum(np.searchsorted(columns["nfev"], [snapshot.nfev for snapshot in snapshots]), len(history) - 1)
    with np.errstate(invalid="ignore"):  # no value at all, and infinite ones
        rises = columns["generation_best"][rows] - _best_value(history)
    return rises, np.isfinite(rises) & (rises > least)


def _best_value(history: History) -> float:
    return float(np.nanmin(history.arrays()["best"], initial=np.inf))


def _least_rise(history: History, noise: float, tuning: Tuning) -> float:
    """Rise above the best value that is more than rounding and noise."""
    return max(tuning.history_clear * np.spacing(abs(_best_value(history))), tuning.history_clear_of_noise * noise)


def _curvature_of_history(history: History, snapshots: list[Snapshot], least: float) -> float:
    """Estimate f″ in the last whitened frame from values of generations, which lie about d/4 curvatures above the best.

    A factor of ten is accurate enough; the result is a power of two, which scales with f and x exactly.
    """
    last, later = snapshots[-1].theta, snapshots[len(snapshots) // 2 :]
    rises, usable = _rises(history, later, least)
    size, dimension = log_size(last, history.space), int(np.count_nonzero(history.is_real))
    sizes = np.exp([2.0 * (size - log_size(snapshot.theta, history.space)) for snapshot in later])
    if not usable.any():
        return np.nan
    return float(power_of_two_near(np.median((4.0 / dimension) * (rises * sizes)[usable])))


def _place_of_search(x: Array, fun: float, theta: Family, space: SearchSpace | None, bounds: object) -> Place:
    if not theta.continuous:
        raise ValueError("binary methods have no curvature.")
    check_real_variables(space)
    check_number_of_variables(theta.dimension)
    root = theta.dense_root
    if space is None:
        return Place(x, fun, theta.mean, root, _box(bounds, x.size), np.zeros(x.size, dtype=np.bool_))
    full, is_log, span = np.zeros((x.size, theta.dimension)), space.log_scaled, np.zeros(x.size)
    span[space.free] = space.fold.width / MARGIN
    full[space.free] = (space.slopes(x) / np.where(is_log, x, 1.0)[space.free])[:, None] * root
    full[space.discrete] = 0.0
    lower, upper = space.box if bounds is None else _box(bounds, x.size)
    box = np.where(space.discrete, x, lower), np.where(space.discrete, x, upper)
    return Place(x, fun, np.clip(space.points(theta.center), *box), full, box, is_log & ~space.discrete, span)


def check_real_variables(space: SearchSpace | None) -> None:
    """Raise an error if all variables of a search are discrete."""
    if space is not None and not space.judged.any():
        raise ValueError(
            "the curvature is that of the real variables, and all variables of this search are integers, choices or "
            "fixed."
        )


def check_number_of_variables(d: int) -> None:
    """Raise an error if d is too large for a Hessian."""
    if d > MOST_VARIABLES:
        raise ValueError(
            f"the curvature of at most {MOST_VARIABLES} variables can be computed, got {d}: it has d² entries and "
            "takes (d + 1)(d + 2) evaluations. `result.std` has the scales learned by a diagonal search."
        )


def _box(bounds: object, d: int) -> tuple[Array, Array]:
    return as_bounds([(None, None)] * d if bounds is None else bounds, d)


def _root_of_other_result(found: object, x: Array, is_log: NDArray[np.bool_]) -> Array:
    """A root of the `hess_inv` of another method if it has one, else steps of a thousandth of x."""
    inverse: Any = getattr(found, "hess_inv", None)
    inverse = inverse.todense() if hasattr(inverse, "todense") else inverse
    if np.shape(inverse) == (x.size, x.size) and np.isfinite(inverse).all():
        matrix: Array = np.asarray(inverse, dtype=np.float64)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        if values[0] > 0:
            return vectors * np.sqrt(values) / np.where(is_log, x, 1.0)[:, None]
    sizes = np.abs(np.where(is_log, 0.0, x))
    steps = np.maximum(sizes, 1e-3 * np.max(sizes) + (not np.any(sizes)))
    return np.diag(1e-3 * np.where(is_log, 1.0, steps))


def free_frame(place: Place, centre: Array) -> Frame:
    """The frame of the variables that are not at a bound: the learned covariance given the others.

    Distances are relative to the width of the box or, with one bound, to the standard deviation or x.
    """
    sizes = np.max(np.abs(place.root), axis=1, initial=np.finfo(np.float64).tiny)
    rows = place.root / sizes[:, None]
    deviations = sizes * np.sqrt(np.vecdot(rows, rows))
    lower, x, upper = in_search_units(place.is_log, place.box[0], centre, place.box[1])
    scale = np.maximum.reduce([deviations, np.broadcast_to(place.span, x.shape), np.abs(x)])
    width = np.where(np.isfinite(upper - lower), upper - lower, scale)
    free = ~(np.minimum(x - lower, upper - x) <= TOUCHING * width) & (deviations > 0)
    root = np.zeros((centre.size, np.count_nonzero(free)))
    held = place.root[~free & (deviations > 0)]
    root[free] = _square(place.root[free] @ _complement(held, place.root.shape[1]))
    return Frame(centre, root, free, place.box, place.is_log)


def _complement(rows: Array, k: int) -> Array:
    """Orthonormal columns (k, k − m) that are orthogonal to m rows (m, k)."""
    return np.linalg.qr(rows.T, mode="complete")[0][:, len(rows) :] if len(rows) else np.eye(k)


def _square(root: Array) -> Array:
    """A root (k, k) of the covariance that has the root (k, m), m ≥ k."""
    return root if root.shape[0] == root.shape[1] else np.linalg.qr(root.T)[1].T
