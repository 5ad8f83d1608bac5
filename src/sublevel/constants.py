"""Numbers made of d, n and µ_eff, each with its source."""

from __future__ import annotations

from functools import lru_cache
from math import floor, log, sqrt
from typing import NamedTuple

import numpy as np

from sublevel.arrays import Array, constant, locked


def default_popsize(d: int) -> int:
    """λ = 4 + ⌊3 ln d⌋: Hansen, arXiv:1604.00772, eq. 48."""
    return 4 + floor(3 * log(d))


def hansen_kern_rate(d: int, mu_eff: float) -> float:
    """η_C = min(1, (2µ_w − 1)/((d + 2)² + µ_w)): Hansen & Kern, PPSN 2004, eq. 12, quoted without the min in Akimoto 2012, section 4.2.

    Beyond 1, which needs µ_w > (d + 2)² + 1, C would lose positivity. 0 if nothing is selected.
    """
    return min(1.0, (2 * mu_eff - 1) / ((d + 2) ** 2 + mu_eff)) if mu_eff > 0 else 0.0


def longest_run(d: int, n: int) -> float:
    """Generations that a run takes at most if others may follow, 100 + 50(d + 3)²/√n: Hansen, BBOB workshop at GECCO 2009, section 2.1."""
    return 100 + 50 * (d + 3) ** 2 / sqrt(n)


def xnes_rate(d: int) -> float:
    """η_σ = η_B = (9 + 3 ln d)/(5d√d): Glasmachers et al., GECCO 2010, Table 1."""
    return (9 + 3 * log(d)) / (5 * d * sqrt(d))


class CmaConstants(NamedTuple):
    """The constants of CMA-ES for d variables and n points. What multiplies vectors is an array (): a third faster than a number."""

    weights: Array  # (n,), from best to worst; the positive ones sum to 1
    attracting: Array  # (n,), the positive ones
    repelling: Array  # (n,), d times the negative ones
    weight_sum: np.float64
    mu_eff: float
    c_mean: float
    c_1: np.float64
    c_mu: np.float64
    c_1_stalled: float  # c_1·c_c(2 − c_c): the decay that is given back while the rank-one path waits
    c_c: float
    c_sigma: float
    d_sigma: float
    keep_sigma: Array  # 1 − c_σ
    keep_c: Array  # 1 − c_c
    fade: float  # (1 − c_σ)²
    chi: float  # E‖N(0, I)‖
    gain_sigma: Array  # √(c_σ(2 − c_σ)µ_eff)
    gain_c: Array  # √(c_c(2 − c_c)µ_eff)
    stall: float  # the rank-one path waits while the other is longer than this times E‖N(0, I)‖


@lru_cache(maxsize=64)
def cma_constants(d: int, n: int) -> CmaConstants:
    """Table 1 of Hansen, arXiv:1604.00772v2, with c_µ, c_σ and d_σ as in the package `cma` 4.5.

    There c_µ has the summand 1/4; c_σ is a little larger and at most 1/2 (`compute_cs` in its sigma_adaptation.py); d_σ grows earlier with
    the sample size if there are many variables (`compute_damps`), so that the larger samples of restarts do not converge early: on bbob's
    sharp ridge in 20 variables with n = 24, none of six runs came below 1e-8 with the d_σ of the table, twelve of sixteen with this one.
    """
    raw = log((n + 1) / 2) - np.log(np.arange(1, n + 1))
    good, bad = raw[: n // 2], raw[n // 2 :]
    mu_eff, mu_eff_bad = float(np.sum(good) ** 2 / np.sum(good**2)), float(np.sum(bad) ** 2 / max(np.sum(bad**2), 1e-300))
    c_1 = 2 / ((d + 1.3) ** 2 + mu_eff)
    c_mu = min(1 - c_1, 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / ((d + 2) ** 2 + mu_eff))
    c_sigma = min(0.5, (mu_eff + 2) / (d + mu_eff + 3))
    caution = max(1.0, 3 * (1 - 0.5 ** (d / 9)))
    repulsion = min(1 + c_1 / c_mu, 1 + 2 * mu_eff_bad / (mu_eff + 2), (1 - c_1 - c_mu) / (d * c_mu))
    weights = np.where(raw >= 0, raw / np.sum(raw[raw > 0]), raw * repulsion / max(-np.sum(raw[raw < 0]), 1e-300))
    c_c = (4 + mu_eff / d) / (d + 4 + 2 * mu_eff / d)
    return CmaConstants(
        weights=locked(weights),
        attracting=locked(np.maximum(weights, 0.0)),
        repelling=locked(d * np.minimum(weights, 0.0)),
        weight_sum=np.float64(np.sum(weights)),
        mu_eff=mu_eff,
        c_mean=1.0,
        c_1=np.float64(c_1),
        c_mu=np.float64(c_mu),
        c_1_stalled=c_1 * c_c * (2 - c_c),
        c_c=c_c,
        c_sigma=c_sigma,
        d_sigma=1 + 2 * max(0.0, caution * sqrt((mu_eff - 1) / (d + 1)) - 1) + c_sigma,
        keep_sigma=constant(1 - c_sigma),
        keep_c=constant(1 - c_c),
        fade=(1 - c_sigma) ** 2,
        chi=sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)),
        gain_sigma=constant(sqrt(c_sigma * (2 - c_sigma) * mu_eff)),
        gain_c=constant(sqrt(c_c * (2 - c_c) * mu_eff)),
        stall=1.4 + 2 / (d + 1),
    )
