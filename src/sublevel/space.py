"""From the space that is searched, all of ℝᵏ, to the user's: bounds, fixed and log-scaled variables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array

MARGIN = 0.01
"""The part of a box in which a bound bends the space: wider, it disturbs a search that learns a turned valley near the bound; narrower, a
corner takes longer."""
REACH = 6.0
"""Initial standard deviations that a box is taken to be wide at most, as it is if one end is open."""


WIDEST = 0.2
"""Standard deviation of a search, as a part of the box, that is not exceeded: a wider one sees its points folded at random, and nothing
would tell it to become narrower. That of points uniform in the box is 0.29."""
POSITIVE = (2.0**-1000, 2.0**1000)
"""Where a log-scaled variable stays, however far its logarithm goes: from there on a bound counts as open."""


def log_where(is_log: NDArray[np.bool_], x: Array) -> Array:
    """x (..., k), by their logarithm where they are log-scaled."""
    with np.errstate(divide="ignore"):
        return np.where(is_log, np.log(np.where(is_log, x, 1.0)), x)


def exp_where(is_log: NDArray[np.bool_], v: Array) -> Array:
    """v (..., k), of which those that are logarithms become positive numbers again."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(is_log, np.clip(np.exp(np.where(is_log, v, 0.0)), *POSITIVE), v)


@dataclass(frozen=True, slots=True)
class Fold:
    """The line folded at the vertices of the parabolas, and bent through them: where bounds are, (k,) each.

    A variable is measured from the vertex beyond one of its bounds, the near one, inwards: there and at the other bound, if it has one,
    distances below two widths follow a parabola.
    """

    low: Array  # below it the map is not the identity
    high: Array  # nor above it
    vertex: Array  # beyond the near bound, by the width
    sign: Array  # 1 if that is the lower bound, else −1
    half: Array  # from vertex to vertex
    near: Array  # the bound
    far: Array  # the other one, anything if there is none
    width: Array

    @classmethod
    def at(cls, lower: Array, upper: Array, width: Array) -> Fold:
        """At bounds (k,) each, of which any may be open, with parabolas of this width."""
        has_lower = np.isfinite(lower)
        sign = np.where(has_lower, 1.0, -1.0)
        near = np.where(has_lower, lower, np.where(np.isfinite(upper), upper, 0.0))
        far = np.where(has_lower & np.isfinite(upper), upper, 0.0)
        half = np.where(has_lower, upper - near + 2 * width, np.inf)
        return cls(lower + width, upper - width, near - sign * width, sign, half, near, far, width)

    def __call__(self, u: Array) -> Array:
        """x (..., k) of u (..., k) between the bounds or beyond."""
        period, turn = 2.0 * self.half, 2.0 * self.width
        inwards = np.mod(np.abs(u - self.vertex), period)
        inwards = np.minimum(inwards, period - inwards)
        to_far = self.half - inwards
        x = self.vertex + self.sign * inwards
        x = np.where(to_far < turn, self.far - self.sign * _parabola(np.minimum(to_far, turn), turn), x)
        return np.where(inwards < turn, self.near + self.sign * _parabola(np.minimum(inwards, turn), turn), x)


def _parabola(distance: Array, turn: Array) -> Array:
    """distance²/(2·turn), without squares that overflow or vanish."""
    return distance * (distance / (2.0 * turn))


@dataclass(frozen=True, slots=True)
class Space:
    """How a search point u (..., k) becomes the user's x (..., d): identity inside the bounds, and never outside of them.

    Within `below` of the lower bound the map is a parabola whose vertex is the bound, so that a function that is steep at the
    bound looks quadratic to the search; beyond the vertex it is mirrored. Likewise at the upper bound. (The shape is that of the
    package `cma`'s BoundTransform; the margins here are parts of the box, so that scaling and shifting x changes nothing.)
    """

    lower: Array  # (k,), −inf where open; logarithms where log-scaled
    upper: Array  # (k,)
    below: Array  # (k,), width of the parabola at the lower bound
    above: Array  # (k,), and at the upper
    fold: Fold
    is_log: NDArray[np.bool_]  # (k,), x = exp(u)
    free: NDArray[np.bool_]  # (d,), the variables that are searched
    template: Array  # (d,), values of the fixed ones
    box: tuple[Array, Array]  # (d,) each, the user's bounds

    def points(self, u: Array) -> Array:
        """The user's points x (..., d) of search points u (..., k)."""
        bends = (u < self.fold.low) | (u > self.fold.high)
        return self._whole(np.where(bends, self.fold(u), u) if bends.any() else u)

    def _whole(self, v: Array) -> Array:
        """The user's points x (..., d) of values v (..., k) of the free variables, logarithms where they are log-scaled."""
        x = exp_where(self.is_log, v) if self.is_log.any() else v
        if self.free.all():
            full = x
        else:
            full = np.broadcast_to(self.template, (*x.shape[:-1], self.template.size)).copy()
            full[..., self.free] = x
        return np.clip(full, *self.box)  # rounding may not leave the box either

    def _inside(self, x: Array) -> Array:
        """The free variables (..., k), or their logarithms, of the user's points x (..., d), taken at the bounds if they lie outside."""
        return log_where(self.is_log, np.clip(x[..., self.free], self.box[0][self.free], self.box[1][self.free]))

    @property
    def log_scaled(self) -> NDArray[np.bool_]:
        """Which of the user's variables (d,) are searched by their logarithm."""
        full = np.zeros(self.free.shape, dtype=np.bool_)
        full[self.free] = self.is_log
        return full

    def squeeze(self, deviations: Array) -> Array | None:
        """Factors (k,) that make standard deviations (k,) of a search no wider than the box; None if they are not."""
        widest = WIDEST * (self.upper - self.lower)
        return np.minimum(widest / deviations, 1.0) if np.any(deviations > widest) else None

    @property
    def is_finite(self) -> bool:
        """Whether every free variable, or its logarithm, has two bounds."""
        return bool(np.all(np.isfinite(self.lower) & np.isfinite(self.upper)))

    def anywhere(self, rng: np.random.Generator) -> Array:
        """A point x (d,) uniform in a finite box, by the logarithm of variables that are log-scaled."""
        return self._whole(rng.uniform(self.lower, self.upper))

    def searched(self, x: Array) -> Array:
        """A search point u (..., k) whose user's point is x (..., d), taken at the bounds if x lies outside."""
        u = self._inside(x)
        low, high = u - self.lower, self.upper - u
        with np.errstate(invalid="ignore"):
            u = np.where(low < self.below, self.lower - self.below + 2 * np.sqrt(self.below) * np.sqrt(np.maximum(low, 0.0)), u)
            return np.where(high < self.above, self.upper + self.above - 2 * np.sqrt(self.above) * np.sqrt(np.maximum(high, 0.0)), u)

    def slopes(self, x: Array) -> Array:
        """dx/du (..., k) at the user's points x (..., d): how far the free variables move with the searched ones; 0 at a bound."""
        v = self._inside(x)
        inward = np.minimum((v - self.lower) / self.below, (self.upper - v) / self.above)
        return np.sqrt(np.clip(inward, 0.0, 1.0)) * np.where(self.is_log, exp_where(self.is_log, v), 1.0)


def bounded_space(lower: Array, upper: Array, deviations: Array, is_log: NDArray[np.bool_], x0: Array) -> Space:
    """The space of a box (d,) each, in which variables with equal bounds are fixed; `deviations` (d,) say how wide an open one is."""
    free = lower < upper
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_log, np.log(np.maximum(lower, 0.0)), lower)[free]
        high = np.where(is_log, np.log(np.maximum(upper, 0.0)), upper)[free]
    width = MARGIN * np.minimum(high - low, REACH * deviations[free])
    return Space(
        lower=low,
        upper=high,
        below=np.where(np.isfinite(low), width, 1.0),
        above=np.where(np.isfinite(high), width, 1.0),
        fold=Fold.at(low, high, np.where(np.isfinite(low) | np.isfinite(high), width, 1.0)),
        is_log=is_log[free],
        free=free,
        template=np.where(free, x0, lower),
        box=(lower, upper),
    )
