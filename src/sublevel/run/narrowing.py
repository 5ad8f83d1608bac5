"""When a search begins again around a start that it does not improve on, because its standard deviations are too wide.

Recombination moves the mean to the better points of a sample even if all of them are worse than the start, so that a
good start is left within a few generations, and a wide search narrows slowly. Only the order of values counts.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf

from sublevel.engine.arrays import Array

WAITS = (6, 9, 12, 15)
"""Generations after which a search begins again at its start if no point so far was as good.

At first it waits longer: on functions with many minima, a wide search needs several generations to find better ones.
"""
FACTORS = (0.1, 0.01, 0.001, 1.0)
"""Standard deviations with which it begins again each time, as a part of the initial ones.

Where the last narrow search has found nothing either, the start is a local minimum, or its value a lucky one of a rough
objective. The search then begins once more with the initial standard deviations, and leaves it.
"""


def beginnings(generations: int) -> int:
    """How often a search has begun again after so many generations, none of whose points was as good as the start."""
    return bisect_right(WAITS, generations)


def sigma_factor(generations: int) -> float | None:
    """Part of the initial standard deviations with which a search begins again after so many generations, none of whose
    points was as good as the start; None if it goes on.
    """
    return FACTORS[WAITS.index(generations)] if generations in WAITS else None


def beginnings_of(best: Array, generation_best: Array) -> int:
    """How often the first run of a search has begun again, given the best value so far (t,) and the best value (t,) of
    each generation.
    """
    longest = WAITS[-1]
    for generation, (lowest, found) in enumerate(zip(best[:longest], generation_best[:longest], strict=True)):
        if not lowest < inf or found <= lowest:
            return beginnings(generation)
    return beginnings(best.size)
