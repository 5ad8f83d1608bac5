"""The stationary law of a method on a quadratic: the shape of √A C √A, the mean relative to it, and its rate.

docs/studies/predictions.md has the derivation. In short: for small steps the shape of √A C √A is exactly that of a
Wishart matrix. Its degrees of freedom ν, and the second moments of the mean, are those that a step from this law leaves
unchanged on average. They are approached from the side of small noise. A setting is unstable if the second moments of
the mean grow on the way, or ν falls to d, and not determined if the iteration does not settle either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf, log1p, nan, sqrt

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.engine.sampling import INDEPENDENT, Sampling
from sublevel.paper.theory.estimate_variance import noise_at_optimum
from sublevel.paper.theory.one_step import FEWEST, Samples, StepAverages, sample_count
from sublevel.paper.theory.wishart import anisotropy, mean_condition, shapes

ACCURACY = 0.03
"""Largest relative error of E Cond(CA) in docs/studies/predictions.md, with d ≥ 3, or d = 2 and n ≥ 20."""
OVERESTIMATE = (0.08, 0.93)
"""Range of that error at d = 2, 4 ≤ n ≤ 10, up to c_C = 0.5. The tail of ‖m‖² is heavy there, since a mean that is far
away returns by steps of bounded length while C shrinks; a normal law with these second moments is too wide, by which
the response χ is too small."""
QUIET = 3.0
"""Factor by which the first ν exceeds that of the large-sample formula."""
PRECISION, STEPS = 5e-3, 60
"""Relative change of ν at which the iteration ends, half of that of E‖m‖², and the largest number of iterations."""
FEW = 8
"""Factor by which there are fewer samples in the first iterations, which only approach the law."""
CYCLE = 40
"""The last iterations, whose halves have to agree on average if the iteration does not end.

The averages jump where a change of ν or k changes ranks. Near a jump that lies across the balance the iterates cycle
around it, by 3 % of ν at d = 2, n = 10, c_C = 0.15, and their mean takes its place.
"""
DAMPING = 0.5
"""Of the changes of E[mmᵀ|C], whose equations are only nearly linear: whole steps oscillate at d = 5, c_C > 0.5."""


class Stability(StrEnum):
    """Whether there is a stationary law."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    NOT_DETERMINED = "not determined"


@dataclass(frozen=True, slots=True)
class StationaryLaw:
    """The stationary law of (m, C) on xᵀAx, up to a scale that shrinks by `exponent` in each iteration."""

    freedom: float  # ν of the Wishart shape of √A C √A
    condition: float  # E Cond(CA)
    exponent: float  # mean change of log det(C)/d in an iteration
    error: float  # its standard error, as an average over samples
    spread: float  # standard deviation of the change of log det(C)/d in an iteration
    growth: float  # of the second moments of m relative to C in an iteration, without noise; stable if below 1
    mean_square: float  # E mᵀAm over tr(CA)/d
    response: float  # χ, the part of the anisotropy of C that the estimate shows
    stability: Stability = Stability.STABLE

    @property
    def is_stable(self) -> bool:
        """Whether there is a stationary law; False also if that is not determined."""
        return self.stability is Stability.STABLE


def no_law(balance: Balance) -> StationaryLaw:
    """The rate is not defined. Cond is infinite if there is no law, and NaN if that is not determined."""
    condition = inf if balance.stability is Stability.UNSTABLE else nan
    return StationaryLaw(nan, condition, nan, nan, nan, balance.growth, condition, nan, balance.stability)


def large_sample_guess(d: int, n: int, c_cov: float, sampling: Sampling = INDEPENDENT) -> tuple[float, float]:
    """ν and E‖m‖² of NGD to first order in 1/n, for C = I.

    The entries of the estimate have a relative variance ρ, and those of the mean another, which are known for each
    sampling. With a_m = 1/(1 + 2√(dρ)) and a = a_m c_C/2 that makes ν = (2 − 3a)/(aρ), and a_m/2 times the other is the
    variance of a coordinate of m.
    """
    pull, noise = large_sample_pull(d, n, sampling), noise_at_optimum(sampling, n, d)
    a = pull * c_cov / 2
    return (2 - 3 * a) / (a * noise.covariance), d * pull / 2 * noise.mean


def large_sample_pull(d: int, n: int, sampling: Sampling = INDEPENDENT) -> float:
    """λ₁ of the exact gradient at C = I over σ₁ of the estimate: the edge of a semicircle, for large d."""
    return 1 / (1 + 2 * sqrt(d * noise_at_optimum(sampling, n, d).covariance))


def large_sample_law(d: int, n: int, c_cov: float, sampling: Sampling = INDEPENDENT) -> tuple[float, float]:
    """E Cond(CA) and the exponent of NGD to first order in 1/n: of ν degrees of freedom, and log(1 − a)."""
    freedom, _ = large_sample_guess(d, n, c_cov, sampling)
    condition = mean_condition(shapes(d).eigenvalues(freedom)) if freedom > d else inf
    return condition, log1p(-large_sample_pull(d, n, sampling) * c_cov / 2)


@dataclass(frozen=True, slots=True)
class Moments:
    """What the law is determined by."""

    freedom: float  # ν
    variances: Array  # (2,), k with E[mmᵀ|C] = k₀I + k₁C⁻¹

    def is_near(self, other: Moments, inverse: float) -> bool:
        """Whether ν and E‖m‖² agree, for E tr C⁻¹/d = `inverse`."""
        squares = [k[0] + k[1] * inverse for k in (self.variances, other.variances)]
        changes = self.freedom / other.freedom - 1, squares[0] / squares[1] - 1
        return abs(changes[0]) < PRECISION and abs(changes[1]) < 2 * PRECISION


@dataclass(frozen=True, slots=True)
class Balance:
    """The moments that a step leaves unchanged, if they were found, and the averages over that step."""

    moments: Moments
    step: StepAverages
    growth: float
    stability: Stability

    @property
    def found(self) -> bool:
        """Whether there are such moments."""
        return self.stability is Stability.STABLE


@lru_cache(maxsize=4096)
def stationary_law(method: Method, d: int, n: int, c_cov: float = 0.1) -> StationaryLaw:
    """The law of a method whose transforms have no memory but rates; `c_cov` is only used for a first guess of ν.

    The guess of E‖m‖² is that for independent points, because it must not be 0: mirrored points have no noise at m = 0
    but for the ranks.
    """
    freedom, _ = large_sample_guess(d, n, c_cov, method.sampling)
    _, mean_square = large_sample_guess(d, n, c_cov)
    guess = Moments(QUIET * max(freedom, d), np.array([mean_square / d, 0.0]))
    many = sample_count(d, n)
    few = max(FEWEST, many // FEW)
    first = balance(Samples.draw(method, d, n, few), guess)
    start = first.moments if first.found else guess
    last = first if few == many else balance(Samples.draw(method, d, n, many), start)
    if not last.found:
        return no_law(last)
    step, freedom = last.step, last.moments.freedom
    condition = mean_condition(shapes(d).eigenvalues(freedom))
    numbers = (step.exponent, step.error, step.spread, last.growth, step.mean_square, step.response)
    return StationaryLaw(freedom, condition, *numbers)


def balance(samples: Samples, moments: Moments) -> Balance:
    """Iterate until a step changes neither ν nor E[mmᵀ|C], or there is no law, or for `STEPS` iterations.

    Iterates that then cycle around a mean stand for it; otherwise the outcome is not determined.
    """
    path: list[Moments] = []
    for _ in range(STEPS):
        update = _update(samples, moments)
        if not np.isfinite([update.growth, update.moments.freedom]).all():
            return Balance(moments, update.step, update.growth, Stability.NOT_DETERMINED)
        if not (update.moments.freedom > samples.steps.shape[-1] and update.growth < 1):
            return Balance(moments, update.step, max(update.growth, 1.0), Stability.UNSTABLE)
        if update.moments.is_near(moments, update.inverse):
            return Balance(update.moments, update.step, update.growth, Stability.STABLE)
        moments = update.moments
        path.append(moments)
    return _cycle(samples, path)


@dataclass(frozen=True, slots=True)
class _Update:
    """An iteration: the next moments, and the averages over a step from the present ones."""

    moments: Moments
    step: StepAverages
    growth: float
    inverse: float  # E tr C⁻¹/d


def _update(samples: Samples, moments: Moments) -> _Update:
    eigenvalues: Array = samples.shapes.eigenvalues(moments.freedom)
    step = samples.average(eigenvalues, moments.variances)
    change, growth = mean_variances(step, eigenvalues)
    freedom = moments.freedom * anisotropy(eigenvalues) / settled_anisotropy(step)
    new = Moments(freedom, moments.variances + DAMPING * change)
    return _Update(new, step, growth, float(np.mean(1.0 / eigenvalues)))


def _cycle(samples: Samples, path: list[Moments]) -> Balance:
    """The mean of the last iterates, if it does not depend on which half of them is taken and a step settles there."""
    early, late, both = (
        mean_moments(part) for part in (path[-CYCLE : -CYCLE // 2], path[-CYCLE // 2 :], path[-CYCLE:])
    )
    here = _update(samples, both)
    settled = late.is_near(early, here.inverse) and here.growth < 1
    return Balance(both, here.step, here.growth, Stability.STABLE if settled else Stability.NOT_DETERMINED)


def mean_moments(path: Sequence[Moments]) -> Moments:
    """The mean of some iterates, geometric of ν."""
    freedom = float(np.exp(np.mean(np.log([moments.freedom for moments in path]))))
    return Moments(freedom, np.asarray(np.mean([moments.variances for moments in path], axis=0), dtype=np.float64))


def settled_anisotropy(step: StepAverages) -> float:
    """E tr X(X − Y)/d at which E log(tr C·tr C⁻¹) does not change, if the response does not.

    To first order in B it falls by E tr (X − Y)B/d = χ(E tr B/d)·E tr X(X − Y)/d; the higher orders increase it.
    """
    return step.widening / (step.shrinkage * step.response)


def mean_variances(step: StepAverages, eigenvalues: Array) -> tuple[Array, float]:
    """The change of k, E[mmᵀ|C] = k₀I + k₁C⁻¹, that balances the moments of m, and their growth without noise.

    With m⁺ = (I − a_mC)m + noise, and E[C⁺|C] = (1 − (1 − χ)a)C − χaC², the moments E‖m‖² and E mᵀCm after a step are
    linear in k, in units of the scale of C, which changes by exp(exponent). These equations are used for the slope
    only: what a step changes is an average over steps.
    """
    pull, chi, a, scale = step.pull, step.response, step.shrinkage, np.exp(step.exponent)
    powers = {p: float(np.mean(np.sum(eigenvalues**p, axis=-1), dtype=np.float64)) for p in range(-1, 5)}
    moved = {
        p: powers[p] - 2 * pull * powers[p + 1] + pull**2 * powers[p + 2] for p in range(-1, 3)
    }  # tr (I − a_mC)²Cᵖ
    keep, loss = 1 - (1 - chi) * a, chi * a
    here = np.array([[powers[0], powers[-1]], [powers[1], powers[0]]])
    after = np.array(
        [
            [moved[0] / scale, moved[-1] / scale],
            [(keep * moved[p] - loss * moved[p + 1]) / scale**2 for p in (1, 0)],
        ]
    )
    growth = float(np.max(np.abs(np.linalg.eigvals(after @ np.linalg.inv(here)))))
    return np.asarray(np.linalg.solve(here - after, step.moment_changes), dtype=np.float64), growth
