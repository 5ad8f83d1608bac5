"""Confidence intervals of means of a few trials, with Student's t."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
from scipy.special import stdtrit

from sublevel.engine.arrays import Array

FALSE_ALARM = 1e-6
"""Probability that a check by sampling fails although its statement is true."""
TOST = 0.90
"""Level of the interval that has to lie within the margin for two one-sided tests at 5 % each."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with its confidence interval, of 95 % if nothing else is said."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def is_within(self, low: float, high: float) -> bool:
        """Whether the whole interval lies between two numbers; never if it has NaN."""
        return low <= self.low <= self.high <= high


def student_quantile(freedom: float, false_alarm: float) -> float:
    """What |t| exceeds with this probability; infinite without degrees of freedom."""
    return float(stdtrit(freedom, 1 - false_alarm / 2)) if freedom > 0 else inf


def half_width(sample: Array, false_alarm: float) -> float:
    """What the mean of a sample (trials,) differs by from its expectation, at most, but for this probability."""
    error = float(np.std(sample, ddof=1)) / sqrt(sample.size) if sample.size > 1 else 1.0
    return student_quantile(sample.size - 1, false_alarm) * error


def ratio_of_means(first: Array, second: Array, level: float = TOST) -> Interval:
    """The ratio of the means of two samples of positive numbers (trials,), and an interval of this level for it.

    The logarithms of the means are compared, with the standard errors of the delta method and the degrees of freedom of
    Welch and Satterthwaite. The interval is infinite if a sample has a single number, and NaN if one has a NaN or
    nothing.
    """
    if min(first.size, second.size) < 1:
        return Interval(nan, nan, nan)
    value = float(np.mean(first) / np.mean(second))
    if min(first.size, second.size) < 2:
        return Interval(value, 0.0, inf)
    parts = [float(np.var(sample, ddof=1)) / sample.size / float(np.mean(sample)) ** 2 for sample in (first, second)]
    total = sum(parts)
    if total == 0:
        return Interval(value, value, value)
    freedom = total**2 / sum(part**2 / (sample.size - 1) for part, sample in zip(parts, (first, second), strict=True))
    half = float(np.exp(student_quantile(freedom, 1 - level) * sqrt(total)))
    return Interval(value, value / half, value * half)
