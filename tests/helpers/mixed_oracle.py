"""Categories and integers as the papers print them, in plain loops, one variable and one point after the other.

ASNG: Akimoto et al., ICML 2019, Algorithm 2. Margin of categories: Hamano et al., CatCMA, GECCO 2024. Margin of
integers: Hamano et al., CMA-ES with Margin, GECCO 2022, with the mutation rates and the integer centring of CatCMA with
Margin, arXiv:2504.07884. Probabilities come from scipy.stats, and Fisher matrices from their definition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import exp, log, sqrt

import numpy as np
from scipy.stats import norm

NEAR = 1e-8


def log_weights(n):
    """Weights of CMA-ES, from best to worst: the better half sums to 1, the others are 0."""
    raw = [max(log((n + 1) / 2) - log(i), 0.0) for i in range(1, n + 1)]
    return [w / sum(raw) for w in raw]


# Categories


def score(q, c):
    """∂ log q_c/∂q_a for a < K − 1; q_K is 1 minus the others."""
    last = len(q) - 1
    return [(c == a) / q[a] - (c == last) / q[last] for a in range(last)]


def fisher(q):
    """E[score scoreᵀ] of one variable, (K − 1, K − 1)."""
    last = len(q) - 1
    return np.array(
        [[sum(q[c] * score(q, c)[a] * score(q, c)[b] for c in range(len(q))) for b in range(last)] for a in range(last)]
    )


def joint_fisher(qs):
    """E[score scoreᵀ] of all variables together: the sum over all points of the product space."""
    size = sum(len(q) - 1 for q in qs)
    total = np.zeros((size, size))
    for point in product(*(range(len(q)) for q in qs)):
        probability = 1.0
        for q, c in zip(qs, point, strict=True):
            probability *= q[c]
        s = np.concatenate([score(q, c) for q, c in zip(qs, point, strict=True)])
        total += probability * np.outer(s, s)
    return total


def natural_gradient(q, drawn, weights):
    """F⁻¹ Σ wᵢ score(cᵢ) of one variable, with the entry of the last category."""
    gradient = sum(w * np.array(score(q, c)) for w, c in zip(weights, drawn, strict=True))
    step = np.linalg.solve(fisher(q), gradient)
    return [*step, -sum(step)]


def fisher_length(qs, steps):
    """√(Σ ΔqᵀFΔq) over the variables, by their Fisher matrices."""
    return sqrt(sum(np.array(step[:-1]) @ fisher(q) @ np.array(step[:-1]) for q, step in zip(qs, steps, strict=True)))


def with_margin(q, margin):
    """Probabilities of at least margin/(K − 1), those above it lowered in proportion to their excess."""
    least = margin / (len(q) - 1)
    raised = [max(p, least) for p in q]
    surplus = (sum(raised) - 1) / (sum(raised) - len(q) * least)
    return [p - surplus * (p - least) for p in raised]


@dataclass
class ASNG:
    """Adaptive stochastic natural gradient of independent categories."""

    qs: list
    margin: float
    alpha: float = 1.5
    is_fisher: bool = True
    lags: bool = False
    s: list = field(init=False)
    gamma: float = 0.0
    Delta: float = 1.0
    before: float = 1.0

    def __post_init__(self):
        self.s = [[0.0] * len(q) for q in self.qs]

    def step(self, drawn, weights):
        """One generation: `drawn` has a row of categories for each point, from best to worst."""
        steps = [natural_gradient(q, [row[j] for row in drawn], weights) for j, q in enumerate(self.qs)]
        length = fisher_length(self.qs, steps) if self.is_fisher else sqrt(sum(v * v for step in steps for v in step))
        delta = 1 / self.Delta
        beta = min(delta / sqrt(sum(len(q) - 1 for q in self.qs)), 1.0)  # a step may be longer than √(dimension)
        self.gamma = (1 - beta) ** 2 * self.gamma + beta * (2 - beta)
        square = 0.0
        for j, (q, step) in enumerate(zip(self.qs, steps, strict=True)):
            for a in range(len(q)):  # Δq/√q is a root of the Fisher metric
                self.s[j][a] = (1 - beta) * self.s[j][a] + sqrt(beta * (2 - beta)) * step[a] / sqrt(q[a]) / length
                square += self.s[j][a] ** 2
        rate = self.before if self.lags else delta
        for j, (q, step) in enumerate(zip(self.qs, steps, strict=True)):
            self.qs[j] = with_margin([p + rate * v / length for p, v in zip(q, step, strict=True)], self.margin)
        self.before = delta
        self.Delta *= exp(beta * (self.gamma - square / self.alpha))


# Integers


def nearest(v, low, high):
    """The integer of a coordinate."""
    return min(max(float(np.round(v)), low), high)


def correct_integer(m, sd, low, high, before, succeeded, margin, width=1.0):
    """Mean, standard deviation and probability of leaving of one integer coordinate after the margin correction.

    `before` is the probability of leaving so far, which does not grow without success. The mean of the last integer
    before a bound is at most a `width` from its neighbour's end; in the paper there is no such limit.
    """
    here = nearest(m, low, high)
    if low < here < high:
        return _correct_inner(m, sd, here - 0.5, here + 0.5, before, succeeded, margin)
    threshold = here + 0.5 if here == low else here - 0.5
    p = min(norm.cdf(threshold, m, sd), norm.sf(threshold, m, sd))
    p = max(p, margin) if succeeded else min(max(p, margin), before)
    p = min(max(p, NEAR), 0.5 - NEAR)
    sd = max(sd, abs(here - threshold) / norm.isf(margin))
    distance = min(norm.isf(p) * sd, width)
    return threshold + (1 if here == high else -1) * distance, distance / norm.isf(p), p


def _correct_inner(m, sd, below, above, before, succeeded, margin):
    low, up = norm.cdf(below, m, sd), norm.sf(above, m, sd)
    mid = 1 - low - up
    low, up = max(low, margin / 2), max(up, margin / 2)
    least_mid = margin / 2 if succeeded else 1 - before
    mid = mid if succeeded else max(mid, least_mid)
    excess = 1 - low - up - mid
    room = low + up + mid - margin - least_mid
    share = excess / room if excess else 0.0
    low, up = low + share * (low - margin / 2), up + share * (up - margin / 2)
    low, up = (min(max(p, NEAR), 0.5 - NEAR) for p in (low, up))
    to_low, to_up = norm.isf(low), norm.isf(up)
    return (below * to_up + above * to_low) / (to_low + to_up), (above - below) / (to_low + to_up), low + up


def center_integers(points, mean, low, high, is_balanced=True, reach=0.5):
    """Coordinates (µ, k) of the better half with those moved to their integer that differ from the mean's, and whether
    one of them does (k,).

    Points at the mean's integer move towards it too, just so far that the mean of all does not change, if they can.
    Points beyond a bound by more than `reach` are moved there first; in the paper there is no such limit.
    """
    points = [[min(max(row[j], low[j] - reach), high[j] + reach) for j in range(len(mean))] for row in points]
    moved, succeeded = [list(row) for row in points], []
    for j in range(len(mean)):
        here = nearest(mean[j], low[j], high[j])
        gaps = [nearest(row[j], low[j], high[j]) - row[j] for row in points]
        mutated = [nearest(row[j], low[j], high[j]) != here for row in points]
        succeeded.append(any(mutated))
        bias = sum(gap for gap, other in zip(gaps, mutated, strict=True) if other)
        against = sum(gap for gap, other in zip(gaps, mutated, strict=True) if not other and gap * bias < 0)
        share = min(1.0, -bias / against) if against and is_balanced else 0.0
        for i, (gap, other) in enumerate(zip(gaps, mutated, strict=True)):
            moved[i][j] += gap if other else share * gap if gap * bias < 0 else 0.0
    return moved, succeeded
