"""From the space that is searched, all of ℝᵏ, to the user's: bounds, fixed and log-scaled variables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, nearest_integers
from sublevel.engine.families.categorical import Categorical, margin_of
from sublevel.engine.families.mixed import Mixed
from sublevel.engine.families.protocol import SCALE_RANGE, Family
from sublevel.engine.method import State

if TYPE_CHECKING:
    from sublevel.run.integers import Grid

MARGIN = 0.01
"""The part of a box in which a bound bends the space: wider, it disturbs a search that learns a turned valley near the
bound; narrower, a corner takes longer."""
REACH = 6.0
"""Initial standard deviations that a box is taken to be wide at most, as it is if one end is open."""
WIDEST = 0.2
"""Standard deviation of a search, as a part of the box, that is not exceeded: a wider one sees its points folded at
random, and nothing would tell it to become narrower. That of points uniform in the box is 0.29."""


def no_choices() -> NDArray[np.intp]:
    """No variables."""
    return np.zeros(0, dtype=np.intp)


def log_where(is_log: NDArray[np.bool_], x: Array) -> Array:
    """x (..., k), by their logarithm where they are log-scaled."""
    with np.errstate(divide="ignore"):
        return np.where(is_log, np.log(np.where(is_log, x, 1.0)), x)


def exp_where(is_log: NDArray[np.bool_], v: Array) -> Array:
    """v (..., k), with exp applied where they are logarithms; the result is clipped to the range of scales."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(is_log, np.clip(np.exp(np.where(is_log, v, 0.0)), *SCALE_RANGE), v)


def shift_where(is_log: NDArray[np.bool_], x: Array, steps: Array) -> Array:
    """x + step (..., d), or x·exp(step) where x is log-scaled; exactly x for a step of 0."""
    if not is_log.any():
        return x + steps
    with np.errstate(over="ignore", under="ignore"):
        factors = np.exp(np.where(is_log, steps, 0.0))
        return np.where(is_log, np.clip(x * factors, *SCALE_RANGE), x + steps)


class Side(NamedTuple):
    """The vertex from which a variable is measured inwards, at its lower bound if it has one; arrays (k,)."""

    sign: Array  # 1 at a lower bound, −1 at an upper one
    near: Array  # that bound
    vertex: Array  # beyond it by a width
    far: Array  # the other bound, anything if there is none
    half: Array  # from vertex to vertex


@dataclass(frozen=True)
class Fold:
    """ℝᵏ folded into a box: the identity inside, a parabola within a width of a bound, and mirrored beyond the
    parabola's vertex.

    The vertex is the bound, so that a function that is steep there looks quadratic to the search. (The shape is that of
    the package `cma`'s BoundTransform; the widths here are parts of the box, so that scaling and shifting x changes
    nothing.)
    """

    lower: Array  # (k,), −inf where open
    upper: Array  # (k,), inf where open
    width: Array  # (k,), of the parabolas

    def __call__(self, u: Array) -> Array:
        """x (..., k) of u (..., k)."""
        bends = (u < self.lower + self.width) | (u > self.upper - self.width)
        return np.where(bends, self._folded(u), u) if bends.any() else u

    @cached_property
    def _side(self) -> Side:
        has_lower, has_upper = np.isfinite(self.lower), np.isfinite(self.upper)
        sign = np.where(has_lower, 1.0, -1.0)
        near = np.where(has_lower, self.lower, np.where(has_upper, self.upper, 0.0))
        far = np.where(has_lower & has_upper, self.upper, 0.0)
        half = np.where(has_lower, self.upper - near + 2.0 * self.width, np.inf)
        return Side(sign, near, near - sign * self.width, far, half)

    def _folded(self, u: Array) -> Array:
        """x (..., k) between the bounds or beyond, of variables that have one."""
        (sign, near, vertex, far, half), turn = self._side, 2.0 * self.width
        inwards = np.mod(np.abs(u - vertex), 2.0 * half)
        inwards = np.minimum(inwards, 2.0 * half - inwards)
        to_far = half - inwards
        x = np.where(to_far < turn, far - sign * _parabola(np.minimum(to_far, turn), turn), vertex + sign * inwards)
        return np.where(inwards < turn, near + sign * _parabola(np.minimum(inwards, turn), turn), x)

    def inverse(self, x: Array) -> Array:
        """A u (..., k) of x (..., k) between the bounds."""
        low, high = x - self.lower, self.upper - x
        with np.errstate(invalid="ignore"):
            twice = 2 * np.sqrt(self.width)
            u = np.where(low < self.width, self.lower - self.width + twice * np.sqrt(np.maximum(low, 0.0)), x)
            return np.where(high < self.width, self.upper + self.width - twice * np.sqrt(np.maximum(high, 0.0)), u)

    def cells(self, u: Array) -> Array:
        """In which cell each coordinate of u (..., k) lies, a whole number: cells are what is between two vertices, or
        beyond the only one.
        """
        vertex, half = self._side.vertex, self._side.half
        is_bounded, is_closed = np.isfinite(self.lower) | np.isfinite(self.upper), np.isfinite(half)
        index = np.floor((u - vertex) / np.where(is_closed, half, 1.0))
        return np.where(is_bounded, np.where(is_closed, index, np.clip(index, -1.0, 0.0)), 0.0)

    def turns(self, u: Array, near: Array) -> Array:
        """1 (..., k) where the cells of u (..., k) and of `near` (k,) have the same direction, −1 where one is the
        mirror image of the other.
        """
        return 1.0 - 2.0 * np.mod(self.cells(u) - self.cells(near), 2.0)

    def image(self, u: Array, near: Array) -> Array:
        """The point (..., k) with the same x as u (..., k) in the cell of `near` (k,); u itself if it lies there."""
        here, there = self.cells(u), self.cells(near)
        vertex, half = self._side.vertex, np.where(np.isfinite(self._side.half), self._side.half, 0.0)
        moved = u + (there - here) * half
        mirrored = 2.0 * vertex + (here + there + 1.0) * half - u
        return np.where(here == there, u, np.where(self.turns(u, near) > 0, moved, mirrored))

    def clip(self, u: Array, near: Array) -> Array:
        """The nearest point (..., k) to u (..., k) in the cell of `near` (k,), between its vertices."""
        vertex, half, cell = self._side.vertex, self._side.half, self.cells(near)
        is_bounded, is_closed = np.isfinite(self.lower) | np.isfinite(self.upper), np.isfinite(half)
        start = vertex + cell * np.where(is_closed, half, 0.0)
        low = np.where(is_bounded & (is_closed | (cell == 0.0)), start, -np.inf)
        high = np.where(is_closed, start + half, np.where(is_bounded & (cell < 0.0), vertex, np.inf))
        return np.clip(u, low, high)

    def slopes(self, x: Array) -> Array:
        """dx/du (..., k) at x (..., k): 1 inside, 0 at a bound."""
        inward = np.minimum(x - self.lower, self.upper - x) / self.width
        return np.sqrt(np.clip(inward, 0.0, 1.0))


def _parabola(distance: Array, turn: Array) -> Array:
    """distance²/(2·turn), without squares that overflow or vanish."""
    return distance * (distance / (2.0 * turn))


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """How a search point u (..., k + m) becomes the user's x (..., d): k coordinates are folded into the bounds, and
    those of integers rounded; m are numbers of categories. No x is outside of the bounds.

    If there are only categories, one more coordinate is searched that has no effect.
    """

    fold: Fold  # of the free variables, or their logarithms; integers are not folded
    is_log: NDArray[np.bool_]  # (k,), x = exp(u)
    free: NDArray[np.bool_]  # (d,), the variables that are searched by a coordinate
    template: Array  # (d,), values of the others
    box: tuple[Array, Array]  # (d,) each, the user's bounds
    grid: Grid | None = None  # of the integers
    choices: NDArray[np.intp] = field(default_factory=no_choices)  # (m,), the variables that are categories
    categories: NDArray[np.intp] = field(default_factory=no_choices)  # (m,), how many

    def points(self, u: Array) -> Array:
        """The user's points x (..., d) of search points u (..., k + m)."""
        if self.choices.size == 0:
            return self._whole(self.fold(u))
        k = self.is_log.size
        return self._whole(self.fold(u[..., :k]), u[..., k:])

    def _whole(self, v: Array, categories: Array | None = None) -> Array:
        """The user's points x (..., d) of values v (..., k) of the free variables, logarithms where they are
        log-scaled, and of categories (..., m); those of the start if None.
        """
        x = exp_where(self.is_log, v) if self.is_log.any() else v
        if self.grid is not None:
            x = np.where(self.grid.is_integer, nearest_integers(x), x)
        if self.free.all():
            full = x
        else:
            full = np.broadcast_to(self.template, (*x.shape[:-1], self.template.size)).copy()
            full[..., self.free] = x[..., : np.count_nonzero(self.free)]
            if categories is not None:
                full[..., self.choices] = categories
        return np.clip(full, *self.box)  # rounding may not leave the box either

    def _inside(self, x: Array) -> Array:
        """The free variables (..., k), or their logarithms, of the user's points x (..., d), clipped to the bounds."""
        return log_where(self.is_log, np.clip(x[..., self.free], self.box[0][self.free], self.box[1][self.free]))

    @property
    def log_scaled(self) -> NDArray[np.bool_]:
        """Which of the user's variables (d,) are searched by their logarithm."""
        full = np.zeros(self.free.shape, dtype=np.bool_)
        full[self.free] = self.is_log
        return full

    @property
    def discrete(self) -> NDArray[np.bool_]:
        """Which of the user's variables (d,) are integers or categories."""
        full = np.zeros(self.free.shape, dtype=np.bool_)
        full[self.choices] = True
        if self.grid is not None:
            full[self.free] = self.grid.is_integer
        return full

    def has_values(self, points: Array) -> bool:
        """Whether integers and categories have a value at all points (..., d)."""
        some, (lower, upper) = points[..., self.discrete], (end[self.discrete] for end in self.box)
        return bool(np.all((some >= lower) & (some <= upper)))

    @property
    def is_mixed(self) -> bool:
        """Whether some variables are integers or categories."""
        return self.grid is not None or self.choices.size > 0

    @property
    def judged(self) -> NDArray[np.bool_]:
        """The coordinates (k,) whose width tells whether a search has converged: those that are real."""
        if not self.free.any():
            return np.zeros(1, dtype=np.bool_)
        return np.ones(self.is_log.size, dtype=np.bool_) if self.grid is None else ~self.grid.is_integer

    def combine(self, gaussian: Family) -> Family:
        """The distribution of all variables, given that of the k coordinates: categories are equally probable."""
        if not self.is_mixed:
            return gaussian
        k = self.is_log.size
        leaving = np.zeros(k) if self.grid is None else np.where(self.grid.is_integer, 0.5, 0.0)
        categorical = Categorical.uniform(self.categories) if self.choices.size else None
        margin = margin_of(int(np.count_nonzero(self.discrete)))
        return Mixed(gaussian, np.ones(k), leaving, categorical, np.float64(margin))

    def settle(self, theta: Family, x: Array) -> Family:
        """The distribution whose discrete variables have settled at those of the user's point x (d,), its mean."""
        mixed = cast(Mixed, theta)
        if mixed.choices is not None:
            mixed = replace(mixed, choices=mixed.choices.settle(x[self.choices].astype(np.intp), mixed.margin))
        return mixed if self.grid is None else self.grid.correct(mixed, np.zeros(self.is_log.size, dtype=np.bool_))

    def nearest(self, x: Array) -> Array:
        """The user's point x (d,) with integers rounded."""
        if self.grid is None:
            return x
        whole = np.zeros(self.free.shape, dtype=np.bool_)
        whole[self.free] = self.grid.is_integer
        return np.where(whole, np.clip(nearest_integers(x), *self.box), x)

    def limit(self, search: State) -> State:
        """The state of a search that is not wider than the box, and whose coordinate without effect stays as it is."""
        if not self.free.any():
            same = search.rescale(1.0 / search.theta.deviations)
            return replace(same, theta=same.theta.at_mean(np.zeros(1)))
        factors = self.squeeze(search.theta.deviations)
        return search if factors is None else search.rescale(factors)

    def squeeze(self, deviations: Array) -> Array | None:
        """Factors (k,) that make standard deviations (k,) of a search no wider than the box; None if they are not."""
        widest = WIDEST * (self.fold.upper - self.fold.lower)
        return np.minimum(widest / deviations, 1.0) if np.any(deviations > widest) else None

    @property
    def _ends(self) -> tuple[Array, Array]:
        """Bounds of the coordinates (k,) each; those of an integer are half a unit beyond it."""
        if self.grid is None:
            return self.fold.lower, self.fold.upper
        low, high = self.grid.position(self.grid.low - 0.5), self.grid.position(self.grid.high + 0.5)
        whole = self.grid.is_integer
        return np.where(whole, low, self.fold.lower), np.where(whole, high, self.fold.upper)

    @property
    def is_finite(self) -> bool:
        """Whether every free variable, or its logarithm, has two bounds."""
        lower, upper = self._ends
        return bool(np.all(np.isfinite(lower) & np.isfinite(upper)))

    def anywhere(self, rng: np.random.Generator) -> Array:
        """A point x (d,) uniform in a finite box, by the logarithm of variables that are log-scaled."""
        return self._whole(rng.uniform(*self._ends))

    def searched(self, x: Array) -> Array:
        """A search point u (..., k) whose user's point is x (..., d), taken at the bounds if x lies outside."""
        return self.fold.inverse(self._inside(x)) if self.free.any() else np.zeros((*x.shape[:-1], 1))

    def distances(self, u: Array, x: Array) -> Array:
        """Distances (k,) of the coordinates of a search point u (k,) from those of the user's point x (d,), between the
        bounds: u may lie beyond them.
        """
        return np.abs(self.fold(u) - self._inside(x)) if self.free.any() else np.zeros(1)

    def shift(self, x: Array, steps: Array) -> Array:
        """The user's point (d,) whose coordinates are those of x (d,) plus steps (k,), with the start's categories."""
        return self._whole(self.fold(self.searched(x) + steps))

    def slopes(self, x: Array) -> Array:
        """dx/du (..., k) at the user's points x (..., d), of the free variables by the searched ones; 0 at a bound."""
        v = self._inside(x)
        return self.fold.slopes(v) * np.where(self.is_log, exp_where(self.is_log, v), 1.0)


@dataclass(frozen=True, slots=True)
class Variables:
    """The user's variables (d,): bounds, and which of them are log-scaled, integers and categories."""

    lower: Array
    upper: Array
    is_log: NDArray[np.bool_]
    is_integer: NDArray[np.bool_]
    categories: NDArray[np.intp]  # how many; 0 for other variables


def bounded_space(variables: Variables, deviations: Array, x0: Array) -> SearchSpace:
    """The space of some variables, of which those with equal bounds are fixed; `deviations` (d,) say how wide an open
    one is.
    """
    lower, upper, is_choice = variables.lower, variables.upper, variables.categories > 0
    free = (lower < upper) & ~is_choice
    template = np.where(free | is_choice, x0, lower)
    choices = np.flatnonzero(is_choice)
    discrete = (template, (lower, upper), choices, variables.categories[choices])
    if not free.any():
        return _space_without_coordinates(free, *discrete)
    is_log, is_integer = variables.is_log[free], variables.is_integer[free]
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_log, np.log(np.maximum(lower[free], 0.0)), lower[free])
        high = np.where(is_log, np.log(np.maximum(upper[free], 0.0)), upper[free])
    low, high = np.where(is_integer, -np.inf, low), np.where(is_integer, np.inf, high)
    fold = Fold(low, high, MARGIN * np.minimum(high - low, REACH * deviations[free]))
    grid = None
    if is_integer.any():
        from sublevel.run.integers import Grid

        margin = margin_of(int(np.count_nonzero(is_integer)) + choices.size)
        grid = Grid(is_integer, is_log, lower[free], upper[free], margin)
    return SearchSpace(fold, is_log, free, template, (lower, upper), grid, choices, variables.categories[choices])


def _space_without_coordinates(
    free: NDArray[np.bool_],
    template: Array,
    box: tuple[Array, Array],
    choices: NDArray[np.intp],
    categories: NDArray[np.intp],
) -> SearchSpace:
    """The space of categories alone, with one coordinate that has no effect."""
    open_end = np.full(1, np.inf)
    fold = Fold(-open_end, open_end, np.ones(1))
    return SearchSpace(fold, np.zeros(1, dtype=np.bool_), free, template, box, None, choices, categories)
