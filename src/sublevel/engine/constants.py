"""Strategy parameters as functions of d, n and µ_eff, each with its source."""

from __future__ import annotations

from functools import lru_cache
from math import floor, log, sqrt
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array, PerTrial, constant, read_only, value_class

PAIR_RATES, PAIR_DAMPING = 1.5, 0.7
"""Factors of c_1 and c_µ and of the damping of σ for mirrored pairs in samples of the default size.

Evaluations to 1e-8 with mirrored orthogonal points over those of independent points with factors of 1, geometric mean
over sphere, ellipsoid, cigar, discus, different powers and Rosenbrock's function in 5, 10 and 20 variables, 51 seeds:

| rates, damping | 1, 1 | 1.5, 1 | 1, 0.7 | 1.5, 0.7 | 1.5, 0.5 | 2, 0.7 |
|---|---|---|---|---|---|---|
| evaluations | 0.81 | 0.73 | 0.77 | 0.70 | 0.68 | 0.68 |
| the largest | 1.03 | 0.87 | 1.01 | 0.86 | 0.85 | 0.80 |

Still faster constants do not help on rugged functions: on bbob with BIPOP in 5 variables (16 instances) 1.5 and 0.7
reach 64.9 and 73.0 % of the targets in 500·d and 1000·d evaluations, 1.5 and 0.5 reach 64.9 and 70.9 %, independent
points 60.3 and 67.0 %.
"""


def default_popsize(d: int) -> int:
    """λ = 4 + ⌊3 ln d⌋: Hansen, arXiv:1604.00772, eq. 48."""
    return 4 + floor(3 * log(d))


def full_freedom(d: int) -> int:
    """Degrees of freedom of a full covariance matrix, d(d + 1)/2."""
    return d * (d + 1) // 2


def is_restricted(d: int, freedom: int | None) -> bool:
    """Whether `freedom` is at least 1 and below that of a full covariance matrix; None means a full one."""
    return freedom is not None and 0 < freedom < full_freedom(d)


def rate_factor(d: int, freedom: int | None) -> float:
    """Ratio of the learning rates of a restricted C to those of a full one: (d + 2)/3 for a diagonal C, exactly 1 for a
    full C.

    Ros & Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity", PPSN 2008: d numbers
    need fewer samples than d(d + 1)/2. A single variance has the factor of a diagonal C. It could be learned faster,
    but except on the sphere it would then shrink faster than the mean approaches the optimum. Evaluations of `iso-cma`
    in 20 variables, relative to the rates of a full C: 0.57 on the sphere and 1.5 on an ellipsoid of condition 100 with
    c_µ = 1, 0.87 and 1.02 with this factor.
    """
    return (d + 2) / 3 if is_restricted(d, freedom) else 1.0


def hansen_kern_rate(d: int, mu_eff: float, freedom: int | None = None) -> float:
    """η_C = min(1, (2µ_w − 1)/((d + 2)² + µ_w)): Hansen & Kern, PPSN 2004, eq. 12, quoted without the min in Akimoto
    2012, section 4.2.

    Without the min, C would not stay positive definite for µ_w > (d + 2)² + 1. The rate is 0 if no point is selected.
    For a restricted C it is multiplied by `rate_factor`, up to `snes_rate`.
    """
    rate = min(1.0, (2 * mu_eff - 1) / ((d + 2) ** 2 + mu_eff)) if mu_eff > 0 else 0.0
    return max(rate, min(rate * rate_factor(d, freedom), snes_rate(d)))


def spectral_rate(d: int, freedom: int | None = None) -> float:
    """c_C = 0.1, the smallest of Akimoto 2012, section 4; for a restricted C times `rate_factor`, at most 1/2.

    The paper gives no value for a restricted C. There the relative changes of variances are the diagonal of Z, which is
    far below σ₁(Z) unless the sample is large. The limit keeps the rate of C, c_C/2, at a quarter of that of the mean.
    """
    return max(0.1, min(0.1 * rate_factor(d, freedom), 0.5))


def longest_run(d: int, n: int) -> float:
    """Maximum generations of a run before a restart, 100 + 50(d + 3)²/√n: Hansen, BBOB workshop 2009, section 2.1."""
    return 100 + 50 * (d + 3) ** 2 / sqrt(n)


def snes_rate(d: int) -> float:
    """η_σ = (3 + ln d)/(5√d) of separable NES: Wierstra et al., JMLR 15, 2014, Table 1.

    It is also the upper limit for other rules without step-size control. If C cannot take the shape of f, σ shrinks
    η·mean(a)/(2·min(a)) times as fast as the distance to the optimum along the flattest axis of a quadratic with
    eigenvalues a; above 1 the search converges too early.
    """
    return (3 + log(d)) / (5 * sqrt(d))


def xnes_rate(d: int, freedom: int | None = None) -> float:
    """η_σ = η_B = (9 + 3 ln d)/(5d√d): Glasmachers et al., GECCO 2010, Table 1; ≥ `snes_rate` for a restricted C."""
    rate = (9 + 3 * log(d)) / (5 * d * sqrt(d))
    return max(rate, snes_rate(d)) if is_restricted(d, freedom) else rate


@value_class
class CmaConstants:
    """The constants of CMA-ES for d variables and n points. Factors of vectors are arrays (), which are faster."""

    weights: Array  # (n,), from best to worst; the positive ones sum to 1
    attracting: Array  # (n,), the positive ones
    repelling: Array  # (n,), d times the negative ones
    weight_sum: np.float64
    mu_eff: float
    c_1: np.float64
    c_mu: np.float64
    c_1_stalled: float  # c_1·c_c(2 − c_c): the reduction of the decay while h_σ = 0
    c_c: float
    c_sigma: float
    d_sigma: float
    scale_gain: float  # c_σ/d_σ
    keep_sigma: Array  # 1 − c_σ
    keep_c: Array  # 1 − c_c
    fade: float  # (1 − c_σ)²
    chi: float  # E‖N(0, I)‖
    gain_sigma: Array  # √(c_σ(2 − c_σ)/v), v = `selection_variance`, 1/µ_eff without pairs
    gain_c: Array  # √(c_c(2 − c_c)/v)
    stall: float  # h_σ = 0 while the step-size path is longer than this times E‖N(0, I)‖


class PathConstants(NamedTuple):
    """The constants of CMA-ES that interpret the step-size path, for 0 … d variables."""

    gain: Array  # (d + 1,), c_σ/d_σ
    chi: Array  # (d + 1,), E‖N(0, I)‖
    stall: Array  # (d + 1,), of h_σ


class CovarianceRates(NamedTuple):
    """Learning rates of the covariance of CMA-ES."""

    c_1: float
    c_mu: float
    repulsion: float  # the sum of the absolute values of the negative weights


def selection_variance(squares: PerTrial, total: PerTrial, n: int, pairs: int) -> PerTrial:
    """Variance (...,) of a coordinate of Σ wᵢzᵢ if ranks are random, for Σ wᵢ² and Σ wᵢ (...,) and mirrored pairs.

    A point and its partner have the covariance −1 and other points 0. Of all n(n − 1) assignments of two weights to two
    points, 2·pairs give them to partners, which removes 2·pairs·((Σ wᵢ)² − Σ wᵢ²)/(n(n − 1)) from Σ wᵢ².
    """
    return squares - 2 * pairs * (total * total - squares) / (n * (n - 1)) if pairs else squares


def pair_share(d: int, n: int, pairs: int) -> float:
    """How far the constants are those of mirrored pairs, 0 … 1: the share of the points that have a partner, times
    n₀/n if the sample is larger than the default n₀.

    Steps of pairs are less noisy, so that C can be learned faster and σ needs less damping (`PAIR_RATES`,
    `PAIR_DAMPING`). Large samples are used on rugged functions, where haste costs more than it saves: of 60 runs on
    Rastrigin's function in 5, 10 and 20 variables with n = 20d, 87, 83 and 93 % succeed with this share, 88, 93 and
    90 % with 0, 78, 67 and 87 % with 1.
    """
    return 2 * pairs / n * min(1.0, default_popsize(d) / n)


def covariance_rates(
    d: int, freedom: int | None, mu_eff: float, mu_eff_bad: float, share_of_pairs: float = 0.0
) -> CovarianceRates:
    """c_1 and c_µ of Table 1 times `rate_factor` and up to `PAIR_RATES`, and eqs. 50 to 53 for the negative weights.

    Eq. 52 keeps C positive definite even if all points with a negative weight lie on one line, where they have d times
    their usual share of the variance. It is very unlikely that they lie on one axis of a diagonal C, and at the larger
    rates this limit would weaken the negative weights. For a restricted C the limit allows for 4 times the usual share:
    on an ellipsoid of 20 variables with n = 12 and independent points, `sep-cma` takes 0.85 of the evaluations of the
    package `cma` instead of 0.93. A pair adds to the same variances twice: with pairs the limit allows for more, in
    proportion to their rates. A step that is not positive definite is refused. Negative weights have no effect on a
    single variance.
    """
    faster = 1 + (PAIR_RATES - 1) * share_of_pairs
    factor = rate_factor(d, freedom) * faster
    c_1 = 2 / ((d + 1.3) ** 2 + mu_eff) * factor
    c_mu = min(1 - c_1, 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / ((d + 2) ** 2 + mu_eff) * factor)
    share = min(d, 4 * faster) if is_restricted(d, freedom) else d
    repulsion = min(1 + c_1 / c_mu, 1 + 2 * mu_eff_bad / (mu_eff + 2), (1 - c_1 - c_mu) / (share * c_mu))
    return CovarianceRates(c_1, c_mu, repulsion)


def least_damping(d: int, freedom: int | None) -> float:
    """The term of d_σ that is 1 in Table 1; √(20/d) for a restricted C if d ≥ 20, and at least 0.3.

    Damping limits the random changes of σ. The relative standard deviation of the length of a path of random steps is
    1/√(2d), so less damping is needed in more variables. The package `cma` 4.5 states that a `CSA_dampfac` of 0.3 is
    close to optimal on the sphere, and switches to two-point adaptation at d = 300. On the sphere in 500 variables
    `sep-cma` takes 1.53 times its evaluations with 1, 1.06 times with 0.3, with independent points.
    """
    return max(0.3, min(1.0, sqrt(20 / d))) if is_restricted(d, freedom) else 1.0


def path_rate(d: int, mu_eff: float) -> float:
    """c_σ, as in the package `cma` 4.5: slightly larger than in Table 1 and at most 1/2 (`compute_cs` in its
    sigma_adaptation.py).
    """
    return min(0.5, (mu_eff + 2) / (d + mu_eff + 3))


def damping(d: int, mu_eff: float, freedom: int | None, share_of_pairs: float = 0.0) -> float:
    """d_σ of Table 1, which in many variables grows earlier with the sample size (`compute_damps` of the package `cma`
    4.5), so that restarts with larger samples do not converge early: on bbob's sharp ridge in 20 variables with n = 24,
    none of six runs came below 1e-8 with the d_σ of the table, twelve of sixteen with this one. With mirrored pairs
    it is smaller, down to `PAIR_DAMPING` of all but c_σ.
    """
    caution = max(1.0, 3 * (1 - 0.5 ** (d / 9)))
    excess = 2 * max(0.0, caution * sqrt((mu_eff - 1) / (d + 1)) - 1)
    relief = 1 - (1 - PAIR_DAMPING) * share_of_pairs
    return relief * (least_damping(d, freedom) + excess) + path_rate(d, mu_eff)


def expected_length(d: int) -> float:
    """E‖N(0, I)‖ in d variables (Hansen, arXiv:1604.00772, section on CSA)."""
    return sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))


def stall_length(d: int) -> float:
    """h_σ = 0 while the step-size path is longer than this times E‖N(0, I)‖: Hansen, arXiv:1604.00772, section A."""
    return 1.4 + 2 / (d + 1)


@lru_cache(maxsize=64)
def path_constants(d: int, n: int, freedom: int | None = None, pairs: int = 0) -> PathConstants:
    """How to read the part of a step-size path in 0 … d of d variables, for n points: as if there were no others.

    Without a variable there is no change of scale.
    """
    mu_eff, share = cma_constants(d, n, freedom).mu_eff, pair_share(d, n, pairs)
    counts = range(1, d + 1)
    gain = [path_rate(k, mu_eff) / damping(k, mu_eff, k if is_restricted(d, freedom) else None, share) for k in counts]
    return PathConstants(
        gain=read_only(np.array([0.0, *gain])),
        chi=read_only(np.array([1.0, *map(expected_length, counts)])),
        stall=read_only(np.array([np.inf, *map(stall_length, counts)])),
    )


@lru_cache(maxsize=256)
def cma_constants(d: int, n: int, freedom: int | None = None, pairs: int = 0) -> CmaConstants:
    """Table 1 of Hansen, arXiv:1604.00772v2, with c_µ, c_σ and d_σ as in the package `cma` 4.5.

    `freedom` is the number of degrees of freedom of the covariance, None for a full one. The rates of the covariance
    and the damping of the step size depend on it. `pairs` is the number of mirrored pairs of a sample.

    In that package, c_µ has the additional term 1/4; for c_σ and d_σ see `path_rate` and `damping`.
    """
    raw = log((n + 1) / 2) - np.log(np.arange(1, n + 1))
    good, bad = raw[: n // 2], raw[n // 2 :]
    mu_eff = float(np.sum(good) ** 2 / np.sum(good**2))
    mu_eff_bad = float(np.sum(bad) ** 2 / max(np.sum(bad**2), 1e-300))
    share = pair_share(d, n, pairs)
    c_1, c_mu, repulsion = covariance_rates(d, freedom, mu_eff, mu_eff_bad, share)
    path_gain = 1 / selection_variance(1 / mu_eff, 1.0, n, pairs) if pairs else mu_eff
    c_sigma, d_sigma = path_rate(d, mu_eff), damping(d, mu_eff, freedom, share)
    weights = np.where(raw >= 0, raw / np.sum(raw[raw > 0]), raw * repulsion / max(-np.sum(raw[raw < 0]), 1e-300))
    c_c = (4 + mu_eff / d) / (d + 4 + 2 * mu_eff / d)
    return CmaConstants(
        weights=read_only(weights),
        attracting=read_only(np.maximum(weights, 0.0)),
        repelling=read_only(d * np.minimum(weights, 0.0)),
        weight_sum=np.float64(np.sum(weights)),
        mu_eff=mu_eff,
        c_1=np.float64(c_1),
        c_mu=np.float64(c_mu),
        c_1_stalled=c_1 * c_c * (2 - c_c),
        c_c=c_c,
        c_sigma=c_sigma,
        d_sigma=d_sigma,
        scale_gain=c_sigma / d_sigma,
        keep_sigma=constant(1 - c_sigma),
        keep_c=constant(1 - c_c),
        fade=(1 - c_sigma) ** 2,
        chi=expected_length(d),
        gain_sigma=constant(sqrt(c_sigma * (2 - c_sigma) * path_gain)),
        gain_c=constant(sqrt(c_c * (2 - c_c) * path_gain)),
        stall=stall_length(d),
    )
