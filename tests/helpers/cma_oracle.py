"""CMA-ES as Hansen's tutorial prints it (arXiv:1604.00772v2), in plain loops: √C by an eigendecomposition in every
iteration.

Slow and naive on purpose, and written without a look at the engine. Two things are the package `cma`'s: σ changes by a
factor of at most e in one iteration, and a bad point at the mean is kept from a division by zero. `project` makes the
separable and the isotropic variant: what is not in the family is dropped from the new C. Samples are independent as in
the tutorial, or made of mirrored pairs with orthogonal directions, which change three of its constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, floor, log, sqrt

import numpy as np

NEAR = 1e-10


def full(C):
    """Any C."""
    return C


def diagonal(C):
    """The variances alone."""
    return np.diag(np.diag(C))


def isotropic(C):
    """One variance for all."""
    return np.trace(C) / len(C) * np.eye(len(C))


@dataclass(frozen=True)
class Constants:
    """Table 1 for d variables and n points."""

    w: list  # from best to worst, the bad half negative
    mu: int
    mu_eff: float
    c_1: float
    c_mu: float
    c_c: float
    c_sigma: float
    d_sigma: float
    chi: float
    spread: float  # standard deviation of a coordinate of Σ wᵢzᵢ over the good half if ranks are random


def effective_number(weights):
    """µ_eff = (Σw)²/Σw²."""
    return sum(weights) ** 2 / sum(w * w for w in weights)


def spread(weights, n, pairs):
    """Standard deviation of a coordinate of Σ wᵢzᵢ: of two of n points in random order, one in n(n − 1)/2 for each pair
    z, −z are this pair, with the covariance −1.
    """
    variance = 0.0
    for i in range(len(weights)):
        for j in range(len(weights)):
            variance += weights[i] * weights[j] * (1 if i == j else -pairs / (n * (n - 1) / 2))
    return sqrt(variance)


def table_1(d, n, separable=False, pairs=0):
    """The constants, eqs. 49 to 58.

    With `separable` the rates of C are (d + 2)/3 times as large (Ros & Hansen, PPSN 2008); 4 stands for d in eq. 52,
    √(20/d) for 1 in d_σ. With mirrored pairs they are up to 3/2 times as large, and that 4 is as well; d_σ − c_σ is
    down to 0.7 times as large.
    """
    paired = 2 * pairs / n * min(1, (4 + floor(3 * log(d))) / n)
    more, less = 1 + 0.5 * paired, 1 - 0.3 * paired
    factor, share, damping = ((d + 2) / 3, min(d, 4 * more), max(0.3, min(1, sqrt(20 / d)))) if separable else (1, d, 1)
    factor *= more
    raw = [log((n + 1) / 2) - log(i) for i in range(1, n + 1)]
    mu = n // 2
    mu_eff, mu_eff_bad = effective_number(raw[:mu]), effective_number(raw[mu:])
    c_1 = factor * 2 / ((d + 1.3) ** 2 + mu_eff)
    c_mu = min(1 - c_1, factor * 2 * (1 / 4 + mu_eff + 1 / mu_eff - 2) / ((d + 2) ** 2 + 2 * mu_eff / 2))
    c_sigma = min(0.5, (mu_eff + 2) / (d + mu_eff + 3))  # these two as in the package cma 4.5
    few = max(1, 3 - 3 / 2 ** (d / 9))
    alpha = min(1 + c_1 / c_mu, 1 + 2 * mu_eff_bad / (mu_eff + 2), (1 - c_1 - c_mu) / (share * c_mu))
    positive, negative = sum(w for w in raw if w > 0), -sum(w for w in raw if w < 0)
    return Constants(
        w=[w / positive if w >= 0 else alpha * w / negative for w in raw],
        mu=mu,
        mu_eff=mu_eff,
        c_1=c_1,
        c_mu=c_mu,
        c_c=(4 + mu_eff / d) / (d + 4 + 2 * mu_eff / d),
        c_sigma=c_sigma,
        d_sigma=less * (damping + 2 * max(0, few * sqrt((mu_eff - 1) / (d + 1)) - 1)) + c_sigma,
        chi=sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)),
        spread=spread([w / positive for w in raw[:mu]], n, pairs),
    )


@dataclass(frozen=True)
class State:
    """What CMA-ES knows after g iterations."""

    m: np.ndarray
    sigma: float
    C: np.ndarray
    p_sigma: np.ndarray
    p_c: np.ndarray
    g: int = 0

    @property
    def root(self):
        """The symmetric √C."""
        D, B = np.linalg.eigh(self.C)
        return B @ np.diag(np.sqrt(D)) @ B.T


def start(m, sigma, C=None):
    """m, σ and C = I with empty paths."""
    d = len(m)
    return State(np.array(m, dtype=float), sigma, np.eye(d) if C is None else C, np.zeros(d), np.zeros(d))


def step(state, z, values, *, constants=None, project=full, c_mean=1.0, slip=None):
    """Eqs. 41 to 47, given standard normal z (n, d) and the values of x = m + σ√C z. `slip` names a mistake to make,
    for controls.
    """
    n, d = z.shape
    c = constants or table_1(d, n)
    root = state.root
    best_first = np.argsort(values)
    z = [z[i] for i in best_first]
    y = [root @ z_i for z_i in z]
    y_w, z_w = np.zeros(d), np.zeros(d)  # z_w = C^(-1/2) y_w
    for i in range(c.mu):
        y_w = y_w + c.w[i] * y[i]
        z_w = z_w + c.w[i] * z[i]
    m = state.m + c_mean * state.sigma * y_w
    p_sigma = (1 - c.c_sigma) * state.p_sigma + sqrt(c.c_sigma * (2 - c.c_sigma)) / c.spread * z_w
    length = sqrt(p_sigma @ p_sigma)
    age = 1 - (1 - c.c_sigma) ** (2 * (state.g + 1))
    h = 1 if length / sqrt(age) < (1.4 + 2 / (d + 1)) * c.chi or slip == "no h_σ" else 0
    p_c = (1 - c.c_c) * state.p_c + h * sqrt(c.c_c * (2 - c.c_c)) / c.spread * y_w
    delta = 0 if slip == "no δ(h_σ)" else (1 - h) * c.c_c * (2 - c.c_c)
    C = (1 + c.c_1 * delta - c.c_1 - c.c_mu * sum(c.w)) * state.C + c.c_1 * np.outer(p_c, p_c)
    for w_i, y_i, z_i in zip(c.w, y, z, strict=True):
        if w_i < 0 and slip != "plain negative weights":
            w_i *= d / (z_i @ z_i + NEAR)
        C = C + c.c_mu * w_i * np.outer(y_i, y_i)
    sigma = state.sigma * exp(min(1, c.c_sigma / c.d_sigma * (length / c.chi - 1)))
    return replace(state, m=m, sigma=sigma, C=project((C + C.T) / 2), p_sigma=p_sigma, p_c=p_c, g=state.g + 1)


def pairs_of(rng, n, d):
    """n points: each second one is the one before it mirrored, the others are orthogonal in blocks of d and have the
    lengths of normal vectors.
    """
    z, directions = [], []
    while len(z) < n:
        point = rng.standard_normal(d)
        rest = point
        for e in directions:
            rest = rest - (e @ point) * e
        e = rest / sqrt(rest @ rest)
        directions = [*directions, e] if len(directions) < d - 1 else []
        z += [sqrt(point @ point) * e, -sqrt(point @ point) * e]
    return np.array(z[:n])


def evaluations(fun, m, sigma, target, budget, rng, n, mirrored):
    """Evaluations until a point of a sample reaches the target; inf where the budget ends or it converges elsewhere
    first.
    """
    d = len(m)
    state, constants = start(m, sigma), table_1(d, n, pairs=n // 2 if mirrored else 0)
    for generation in range(budget // n):
        z = pairs_of(rng, n, d) if mirrored else rng.standard_normal((n, d))
        values = fun(state.m + state.sigma * z @ state.root)
        reached = np.flatnonzero(values <= target)
        if reached.size:
            return generation * n + int(reached[0]) + 1
        state = step(state, z, values, constants=constants)
        if state.sigma * sqrt(np.max(np.diag(state.C))) < 1e-12 or np.ptp(values) <= 1e-13 * np.max(np.abs(values)):
            break  # in another minimum, where soon only rounding tells points apart
    return np.inf
