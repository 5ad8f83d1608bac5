"""Whether a run has reached the noise of its objective, judged by the order of the values alone."""

from __future__ import annotations

from math import sqrt

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.ordering import Ranking

UNINFORMATIVE, INFORMATIVE = 0.3, 0.7
"""Means of `rank_signal` below which the values do not depend on the distance from the mean, and above which they do.

Pure noise has 0, and a quadratic 1 to 2 at the default sample size. With hundreds of variables a search may never be
above; then no noise floor is found.
"""
NARROW = 1e-3
"""Part of its initial value that every standard deviation must have fallen to while the values were informative.

Where a wider search loses its way, f is rugged or the noise is strong, and the search was not near the end.
"""
NARROW_EVERY = 4
"""Generations between two tests of the width: few, as `rank_signal` is averaged over twenty or more."""
FALLING = 1.0
"""Mann-Whitney score, in standard errors, above which values count as falling."""
WINDOW = (20, 10.0, 0.2, 20_000)
"""Generations a judgement takes: so many, plus so many for each d^1.5/n, or this part of the run if that is more, up to
a largest number.

A covariance is learned in about d^1.5/n generations, but rates differ by method. `benchmarks/noise_floor.py` checks the
constants.
"""


def window_length(dimension: int, sample_size: int, generations: int) -> int:
    """Generations from which the noise floor is judged, in a run of so many generations until now."""
    least, factor, _, _ = WINDOW
    return longer_window(least + int(factor * dimension**1.5 / sample_size), generations)


def longer_window(least: int, generations: int) -> int:
    """Generations from which the noise floor is judged, at least `least`, in a run of so many generations until now."""
    part = int(WINDOW[2] * generations)
    return least if part <= least else max(least, min(part, WINDOW[3]))


def rank_scores(dimension: int, sample_size: int) -> Array:
    """Centred ranks (n,), scaled so that their sum with ‖z‖² has variance 1 if they are independent of z ~ N(0, I)."""
    centred = np.arange(sample_size, dtype=np.float64) - 0.5 * (sample_size - 1)
    return centred / sqrt(2.0 * dimension * float(np.sum(centred**2)))


def rank_signal(scores: Array, ranks: Ranking, squares: Array) -> float:
    """Correlation of the ranks with ‖z‖² (n,), of mean 0 and variance 1 if they are independent. Ties add nothing."""
    if ranks.tie_ends is None:
        return float(scores.dot(squares[ranks.order]))
    return float(ranks.assign_by_rank(scores, average_ties=True) @ squares)


def fall_score(values: Array) -> float:
    """Mann-Whitney score of a time series (w,): how clearly its second half is lower. NaN counts as highest."""
    half = values.size // 2
    before, after = values[:half], np.sort(values[half:])
    wins = 0.5 * float(np.sum(np.searchsorted(after, before, "left") + np.searchsorted(after, before, "right")))
    pairs = half * after.size
    return (wins - 0.5 * pairs) / sqrt(pairs * (values.size + 1) / 12)


def is_falling(best: Array, medians: Array, lowest: float) -> bool:
    """Whether generations still improve, given their best and median values (w,) and the lowest value of the run.

    They do if a new lowest value was found in the second half, or if the best or the median values fall from the first
    half to the second.
    """
    half = best.size // 2
    latest = float(np.fmin.reduce(best[half:]))
    if latest <= lowest and not float(np.fmin.reduce(best[:half])) <= latest:
        return True
    return max(fall_score(best), fall_score(medians)) > FALLING
