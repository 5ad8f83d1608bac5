"""Confidence intervals of 95 % for proportions, medians, ratios and slopes."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray
from scipy.stats import CensoredData, logrank

from sublevel.engine.arrays import Array
from sublevel.paper.theory.intervals import Interval

__all__ = ["Interval", "bootstrap", "log_rank", "mean", "median_time", "running_time", "standard_error", "wilson"]

NORMAL_QUANTILE = 1.959963984540054
RESAMPLES, SEED = 2000, 95
"""Number and seed of the resamples of the bootstrap: the same data give the same intervals."""


def wilson(successes: int, trials: int) -> Interval:
    """A success rate with Wilson's score interval (JASA 22, 1927)."""
    z, p = NORMAL_QUANTILE, successes / trials
    centre, half = p + z * z / (2 * trials), z * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    unit = 1 + z * z / trials
    return Interval(p, max(0.0, (centre - half) / unit), min(1.0, (centre + half) / unit))


def bootstrap(statistic: Callable[..., SupportsFloat], *samples: Array) -> Interval:
    """A statistic of samples (trials, ...), each resampled by itself, with its percentile interval; inf means "never".

    The statistic is called once for each resample.
    """
    rng = np.random.default_rng(SEED)

    def resample() -> list[Array]:
        return [sample[rng.integers(len(sample), size=len(sample))] for sample in samples]

    drawn = [float(statistic(*resample())) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    return Interval(float(statistic(*samples)), float(low), float(high))


def mean(sample: Array) -> float:
    """The mean of a sample (trials,)."""
    return float(np.mean(sample))


def standard_error(sample: Array) -> float:
    """Standard error of the mean of a sample (trials,)."""
    return float(np.std(sample)) / sqrt(sample.size)


def median_time(times: Array) -> float:
    """The median of times (trials,), some of which may be inf: an inf among the middle two does not count."""
    return float(np.quantile(times, 0.5, method="lower"))


def running_time(evaluations: Array, succeeded: NDArray[np.bool_]) -> float:
    """Evaluations of all trials (trials,) per success, as restarts need on average; inf without a success."""
    successes = np.count_nonzero(succeeded)
    return float(np.sum(evaluations)) / successes if successes else float("inf")


def log_rank(first: Array, second: Array) -> float:
    """The p-value of equal times to success (trials,); inf means "never" and is censored after all others."""
    together = np.concatenate([first, second])
    if np.all(together == together[0]):  # also if no trial succeeds
        return 1.0
    cap = 2 * np.max(together[np.isfinite(together)])
    x, y = (CensoredData.right_censored(np.minimum(times, cap), ~np.isfinite(times)) for times in (first, second))
    return float(logrank(x, y).pvalue)
