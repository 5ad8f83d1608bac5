"""Augmented Lagrangians as their papers print them, in plain loops over constraints and points.

Multipliers: Atamna, Auger & Hansen, FOGA 2017, Algorithm 1, with the exceptions named at `adapted`. Slow and naive on
purpose, and written without a look at the arrays of the engine. Values and constraint values are lists, NaN where an
evaluation failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isnan, log, nan
from statistics import NormalDist, quantiles

quantile_of_normal = NormalDist().inv_cdf
IQR_OF_NORMAL = 1.349  # to four digits, as it is usually printed


@dataclass(frozen=True)
class Multiplier:
    """What is known of one constraint: λ, µ, and for how many generations the sign of its mean has been the same."""

    value: float = 0.0
    factor: float = 0.0
    sign: int = 0
    since: int = 0


def interquartile_range(numbers):
    """By linear interpolation, without what is not a number."""
    known = [number for number in numbers if not isnan(number)]
    lower, _, upper = quantiles(known, n=4, method="inclusive")
    return upper - lower


def penalty(g, one):
    """λg + µg²/2, but for g < −λ/µ its minimum −λ²/2µ; nothing as long as µ is not known."""
    if one.factor == 0:
        return 0.0
    if g <= -one.value / one.factor:
        return -(one.value**2) / (2 * one.factor)
    return one.value * g + one.factor * g**2 / 2


def ranks(keys):
    """From 1; equal keys get the average of their ranks, and NaN is one key after all others."""
    keys = [inf if isnan(key) else key for key in keys]
    return [sum(other < key for other in keys) + (1 + sum(other == key for other in keys)) / 2 for key in keys]


def weights_of(keys):
    """ln(µ + ½) − ln i of the µ = ⌊n/2⌋ best of n; equal keys share theirs."""
    n = len(keys)
    mu = n // 2
    by_rank = [log(mu + 0.5) - log(i) if i <= mu else 0.0 for i in range(1, n + 1)]
    weights = []
    for key in keys:
        first = sum(other < key for other in keys)
        ties = sum(other == key for other in keys)
        weights.append(sum(by_rank[first : first + ties]) / ties if ties else 0.0)
    return weights


def mean_of_the_better(numbers, keys):
    """The weighted mean of the numbers of the better half; keys are NaN where a point does not count."""
    weights = [0.0 if isnan(key) else w for key, w in zip(keys, weights_of(keys), strict=True)]
    total = sum(weights)
    return sum(w * number for w, number in zip(weights, numbers, strict=True) if w) / total if total else 0.0


def adapted(one, mean):
    """λ ← max(0, λ + µḡ/5). µ is multiplied by 1.15^¼ if ḡ keeps its sign and divided by 1.15 if not, except in the
    first generation and where µḡ ≤ −λ.

    From the sixth generation of a sign, the exponent of the growth rises by 0.2 per generation, up to 5.
    """
    sign = (mean > 0) - (mean < 0)
    keeps = sign != 0 and sign == one.sign
    since = one.since + 1 if keeps else abs(sign)
    factor = one.factor
    if one.sign != 0 and one.factor * mean > -one.value:
        faster = min(max(1 + 0.2 * (since - 5), 1), 5)
        factor *= 1.15 ** (faster / 4) if keeps else 1 / 1.15
    return Multiplier(max(0.0, one.value + one.factor * mean / 5), factor, sign, since)


def keys_of(values, terms):
    """f plus the terms of all constraints, (m, n); NaN where one of them is not known."""
    return [value + sum(column) for value, *column in zip(values, *terms, strict=True)]


def augmented_lagrangian(values, constraints, multipliers, d, share=0.125):
    """Keys of n points with constraint values (m, n) in d variables, and the multipliers after the generation."""
    active = [one.value > 0 for one in multipliers]
    shifted = [list(g) for g in constraints]
    if 0.5 ** sum(active) < share:  # aim at the inside of each, so that this share meets all of them
        aim = quantile_of_normal(share ** (1 / sum(active))) / IQR_OF_NORMAL
        shifted = [
            [number + (aim * interquartile_range(g) if is_active else 0.0) for number in g]
            for g, is_active in zip(constraints, active, strict=True)
        ]
    begun = []
    for g, one in zip(shifted, multipliers, strict=True):
        if one.factor == 0 and max(number for number in g if not isnan(number)) > 0:
            one = replace(one, factor=interquartile_range(values) / interquartile_range(g) ** 2 / d)
        begun.append(one)
    keys = keys_of(values, [[penalty(x, one) for x in g] for g, one in zip(shifted, begun, strict=True)])
    return keys, [adapted(one, mean_of_the_better(g, keys)) for g, one in zip(shifted, begun, strict=True)]


def scores(numbers, last):
    """Φ⁻¹((rank − ½)/k) of the last numbers among the k that are known."""
    count = sum(not isnan(number) for number in numbers)
    return [
        nan if isnan(number) else quantile_of_normal((rank - 0.5) / count)
        for number, rank in list(zip(numbers, ranks(numbers), strict=True))[-last:]
    ]


def score_of_zero(numbers):
    """Between the scores of the numbers ≤ 0 and of those above; a quarter of a rank outside if all are on one side."""
    known = [number for number in numbers if not isnan(number)]
    below = sum(number <= 0 for number in known)
    return quantile_of_normal(min(max(below, 0.25), len(known) - 0.25) / len(known))


def rank_lagrangian(values, constraints, multipliers, n, least=0.3):
    """As `augmented_lagrangian`, of the scores of the last n of all values of 15 generations, and of their constraints
    (m, …). A constraint that none of the n violates does not count, and µ does not fall below its least value.
    """
    relative = []
    for g in constraints:
        zero = score_of_zero(g)
        relative.append([score - zero for score in scores(g, n)])
    terms = [
        [penalty(x, one) for x in g] if any(number > 0 for number in given[-n:]) else [0.0 * x for x in g]
        for g, given, one in zip(relative, constraints, multipliers, strict=True)
    ]
    keys = keys_of(scores(values, n), terms)
    after = [adapted(one, mean_of_the_better(g, keys)) for g, one in zip(relative, multipliers, strict=True)]
    return keys, [replace(one, factor=max(one.factor, least)) for one in after]
