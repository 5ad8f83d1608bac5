"""Integer coordinates: rounding, centring and a margin, so that none is stuck at one value.

CMA-ES with Margin (Hamano et al., GECCO 2022) and CatCMA with Margin (Hamano et al., arXiv:2504.07884).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sublevel.engine.arrays import Array, nearest_integers
from sublevel.engine.families import Sample
from sublevel.engine.families.mixed import Mixed, MixedSample
from sublevel.engine.families.protocol import SCALE_RANGE
from sublevel.engine.method import Info, Method, State
from sublevel.engine.sampling import exact_pairs

TINY = 1e-8
"""Distance of probabilities from 0 and 1/2."""
RESOLUTION = 16.0
"""Floating-point numbers between the two ends of an integer, at least: beyond about 10¹⁵, or 10¹³ on a log scale, they
are too coarse for a margin, and a coordinate is searched as if it were real."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The integers that coordinates of a search (k,) are rounded to, by themselves or by their exponential."""

    is_integer: NDArray[np.bool_]  # (k,)
    is_log: NDArray[np.bool_]  # (k,)
    low: Array  # (k,), the smallest integer, −inf if there is none
    high: Array  # (k,)
    margin: float  # least probability of leaving an integer

    def nearest(self, u: Array) -> Array:
        """Integers (..., k) of search coordinates u (..., k)."""
        with np.errstate(over="ignore"):
            x = np.where(self.is_log, np.minimum(np.exp(np.where(self.is_log, u, 0.0)), SCALE_RANGE[1]), u)
        return np.clip(nearest_integers(x), self.low, self.high)

    def position(self, integers: Array) -> Array:
        """Search coordinates (..., k) of integers, or of numbers between them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.is_log, np.log(np.where(self.is_log, integers, 1.0)), integers)

    def clip(self, u: Array) -> Array:
        """Search coordinates u (..., k), with those of integers no further than half a unit beyond the last ones."""
        low, high = self.position(self.low - 0.5), self.position(self.high + 0.5)
        return np.where(self.is_integer, np.clip(u, low, high), u)

    def tell(
        self, method: Method, search: State, sample: Sample, values: Array, constraints: Array | None = None
    ) -> tuple[State, Info]:
        """The step of a sample whose integers are centred, with the margin of the new distribution corrected."""
        ranks, _ = method.rank(search, values, constraints)
        theta = cast(Mixed, search.theta)
        centred, succeeded = self.center(theta, cast(MixedSample, sample), ranks.order)
        after, info = method.tell(search, centred, values, constraints)
        moved = self.step_as_drawn(theta, cast(Mixed, after.theta))
        return State(self.correct(moved, succeeded), after.memory, after.ordering), info

    def step_as_drawn(self, before: Mixed, after: Mixed) -> Mixed:
        """The distribution after a step whose mean has moved by as much as integers are drawn wider.

        The Gaussian moves its mean in proportion to its own deviations. Where it is far narrower than an integer, a
        better integer would be drawn again and again without ever becoming that of the mean.
        """
        step = after.mean - before.mean
        return after.at_mean(np.where(self.is_integer, before.mean + before.widening * step, after.mean))

    def center(
        self, theta: Mixed, sample: MixedSample, order: NDArray[np.intp]
    ) -> tuple[MixedSample, NDArray[np.bool_]]:
        """The sample with the integers of its better half moved to their positions, and where one of them differs from
        that of the mean (k,).

        Moving the others in the opposite direction avoids a bias of the mean (integer centring). Points beyond the last
        integer are first moved to its end: all of them have the same value, and a distribution that learned from where
        they were drawn would leave the bounds and grow.
        """
        k = theta.dimension
        best = order[: len(order) // 2]
        drawn = sample.x[best, :k]
        x = self.clip(drawn)
        nearest = self.nearest(x)
        differs = self.is_integer & (nearest != self.nearest(theta.mean))
        if not differs.any() and np.array_equal(x, drawn):
            return sample, np.zeros(k, dtype=np.bool_)
        gap = np.where(self.is_integer, self.position(nearest) - x, 0.0)
        moved = np.where(differs, gap, 0.0)
        bias = np.sum(moved, axis=0)
        for side in (np.maximum(gap, 0.0), np.minimum(gap, 0.0)):
            same = np.where(differs, 0.0, side)
            total = np.sum(same, axis=0)
            share = np.where(bias * total < 0.0, np.minimum(1.0, -bias / np.where(total == 0.0, 1.0, total)), 0.0)
            moved = moved + share * same
        z, succeeded = sample.z.copy(), np.any(differs, axis=0)
        other = np.any((moved != 0.0) | (x != drawn), axis=1)  # the rest stay mirrored pairs to the last bit
        try:
            z[best[other]] = theta.whiten((x + moved)[other])
        except np.linalg.LinAlgError:  # the covariance is so ill-conditioned that its root rounds to a singular matrix
            return sample, succeeded
        return theta.sample_at(exact_pairs(z), sample.choices), succeeded  # rounding decides on no pair

    def correct(self, theta: Mixed, succeeded: NDArray[np.bool_]) -> Mixed:
        """The distribution with a mean and factors that leave each integer with at least the margin's probability.

        Without success the probability of leaving an integer does not grow. Where neither applies, nothing changes.
        """
        mean, narrow = theta.mean, theta.gaussian.deviations
        wide = theta.widening * narrow
        here = self.nearest(mean)
        below, above = self.position(here - 0.5), self.position(here + 0.5)
        is_resolved = self.is_integer & (above - below > RESOLUTION * np.spacing(np.abs(above)))
        has_lower, has_upper = is_resolved & (here > self.low), is_resolved & (here < self.high)
        p_lower = np.where(has_lower, ndtr((below - mean) / wide), 0.0)
        p_upper = np.where(has_upper, ndtr((mean - above) / wide), 0.0)
        most = np.where(succeeded, 1.0, theta.leaving)
        inner = self._between(p_lower, p_upper, below, above, most, mean, wide)
        edge = self._at_edge(p_lower + p_upper, has_lower, np.where(has_lower, below, above), here, wide, most)
        is_inner, is_edge = has_lower & has_upper, has_lower ^ has_upper
        new_mean, new_wide, leaving = (
            np.where(is_inner, a, np.where(is_edge, b, c))
            for a, b, c in zip(inner, edge, (mean, wide, theta.leaving), strict=True)
        )
        widening = np.where(is_inner | is_edge, new_wide / narrow, theta.widening)
        return theta.with_margins(new_mean, widening, leaving)

    def _between(
        self, p_lower: Array, p_upper: Array, below: Array, above: Array, most: Array, mean: Array, wide: Array
    ) -> tuple[Array, Array, Array]:
        """Mean, deviation and probability of leaving (k,) of integers with a neighbour on each side."""
        least = 0.5 * self.margin
        stay = np.maximum(1.0 - p_lower - p_upper, 1.0 - most)
        lower, upper = np.maximum(p_lower, least), np.maximum(p_upper, least)
        is_kept = (lower == p_lower) & (upper == p_upper) & (p_lower + p_upper <= most)
        room = lower + upper + stay - 2.0 * least - np.maximum(1.0 - most, least)
        share = np.where(room > 0.0, (1.0 - lower - upper - stay) / np.where(room > 0.0, room, 1.0), 0.0)
        lower = np.clip(lower + share * (lower - least), TINY, 0.5 - TINY)
        upper = np.clip(upper + share * (upper - least), TINY, 0.5 - TINY)
        to_lower, to_upper = -ndtri(lower), -ndtri(upper)
        with np.errstate(invalid="ignore"):
            deviation = (above - below) / (to_lower + to_upper)
            changed = below + to_lower * deviation, deviation, lower + upper
        kept = mean, wide, p_lower + p_upper
        return cast(
            tuple[Array, Array, Array],
            tuple(np.where(is_kept, old, new) for old, new in zip(kept, changed, strict=True)),
        )

    def _at_edge(
        self, leaving: Array, has_lower: NDArray[np.bool_], threshold: Array, here: Array, wide: Array, most: Array
    ) -> tuple[Array, Array, Array]:
        """Mean, deviation and probability of leaving (k,) of integers with a neighbour on one side only.

        The mean is between the threshold and the other end of the integer: a wide distribution becomes narrower.
        """
        p = np.clip(np.minimum(np.maximum(leaving, self.margin), np.maximum(most, self.margin)), TINY, 0.5 - TINY)
        outwards, to_threshold = np.where(has_lower, 1.0, -1.0), -ndtri(p)
        with np.errstate(invalid="ignore"):
            deviation = np.maximum(wide, np.abs(self.position(here) - threshold) / -ndtri(self.margin))
            width = np.abs(self.position(here + 0.5 * outwards) - threshold)
            distance = np.minimum(to_threshold * deviation, width)
            return threshold + outwards * distance, distance / to_threshold, p
