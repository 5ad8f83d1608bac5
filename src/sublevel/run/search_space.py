"""From the space that is searched, all of ℝᵏ, to the user's: bounds, fixed and log-scaled variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import SCALE_RANGE

MARGIN = 0.01
"""The part of a box in which a bound bends the space: wider, it disturbs a search that learns a turned valley near the
bound; narrower, a corner takes longer."""
REACH = 6.0
"""Initial standard deviations that a box is taken to be wide at most, as it is if one end is open."""
WIDEST = 0.2
"""Standard deviation of a search, as a part of the box, that is not exceeded: a wider one sees its points folded at
random, and nothing would tell it to become narrower. That of points uniform in the box is 0.29."""


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

    def slopes(self, x: Array) -> Array:
        """dx/du (..., k) at x (..., k): 1 inside, 0 at a bound."""
        inward = np.minimum(x - self.lower, self.upper - x) / self.width
        return np.sqrt(np.clip(inward, 0.0, 1.0))


def _parabola(distance: Array, turn: Array) -> Array:
    """distance²/(2·turn), without squares that overflow or vanish."""
    return distance * (distance / (2.0 * turn))


@dataclass(frozen=True, slots=True)
class Space:
    """How a search point u (..., k) becomes the user's x (..., d): folded into the bounds, never outside them."""

    fold: Fold  # of the free variables, or their logarithms
    is_log: NDArray[np.bool_]  # (k,), x = exp(u)
    free: NDArray[np.bool_]  # (d,), the variables that are searched
    template: Array  # (d,), values of the fixed ones
    box: tuple[Array, Array]  # (d,) each, the user's bounds

    def points(self, u: Array) -> Array:
        """The user's points x (..., d) of search points u (..., k)."""
        return self._whole(self.fold(u))

    def _whole(self, v: Array) -> Array:
        """The user's points x (..., d) of free variables v (..., k), logarithms where they are log-scaled."""
        x = exp_where(self.is_log, v) if self.is_log.any() else v
        if self.free.all():
            full = x
        else:
            full = np.broadcast_to(self.template, (*x.shape[:-1], self.template.size)).copy()
            full[..., self.free] = x
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

    def squeeze(self, deviations: Array) -> Array | None:
        """Factors (k,) that make standard deviations (k,) of a search no wider than the box; None if they are not."""
        widest = WIDEST * (self.fold.upper - self.fold.lower)
        return np.minimum(widest / deviations, 1.0) if np.any(deviations > widest) else None

    @property
    def is_finite(self) -> bool:
        """Whether every free variable, or its logarithm, has two bounds."""
        return bool(np.all(np.isfinite(self.fold.lower) & np.isfinite(self.fold.upper)))

    def anywhere(self, rng: np.random.Generator) -> Array:
        """A point x (d,) uniform in a finite box, by the logarithm of variables that are log-scaled."""
        return self._whole(rng.uniform(self.fold.lower, self.fold.upper))

    def searched(self, x: Array) -> Array:
        """A search point u (..., k) whose user's point is x (..., d), taken at the bounds if x lies outside."""
        return self.fold.inverse(self._inside(x))

    def slopes(self, x: Array) -> Array:
        """dx/du (..., k) at the user's points x (..., d), of the free variables by the searched ones; 0 at a bound."""
        v = self._inside(x)
        return self.fold.slopes(v) * np.where(self.is_log, exp_where(self.is_log, v), 1.0)


def bounded_space(lower: Array, upper: Array, deviations: Array, is_log: NDArray[np.bool_], x0: Array) -> Space:
    """The space of a box (d,) each. Equal bounds fix a variable; `deviations` (d,) give the width of an open one."""
    free = lower < upper
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_log, np.log(np.maximum(lower, 0.0)), lower)[free]
        high = np.where(is_log, np.log(np.maximum(upper, 0.0)), upper)[free]
    width = MARGIN * np.minimum(high - low, REACH * deviations[free])
    return Space(Fold(low, high, width), is_log[free], free, np.where(free, x0, lower), (lower, upper))
