"""The stationary law of a method on a quadratic: the shape of √A C √A, the mean relative to it, and its rate.

docs/studies/predictions.md has the derivation. In short: for small steps the shape of √A C √A is exactly that of a
Wishart matrix. Its degrees of freedom ν, and the second moments of the mean, follow from averages over one step, which
depend on them in turn. The fixed point is approached from the side of small noise; a setting is unstable if there is
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.paper.theory.one_step import Response, StepAverages, average_step, response
from sublevel.paper.theory.wishart import mean_condition, shapes

QUIET = 3.0
"""Factor by which the first ν exceeds that of the large-sample formula."""
PRECISION, STEPS = 1e-2, 60
"""Relative change of ν at which the iteration ends, a third of that of E‖m‖², and the largest number of iterations."""


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

    @property
    def is_stable(self) -> bool:
        """Whether there is a stationary law."""
        return self.growth < 1.0


def unstable_law(growth: float) -> StationaryLaw:
    """No law: Cond is infinite and the rate is not defined."""
    nan = float("nan")
    return StationaryLaw(nan, float("inf"), nan, nan, nan, growth, float("inf"), nan)


def large_sample_guess(d: int, n: int, c_cov: float) -> tuple[float, float]:
    """ν and E‖m‖² of NGD to first order in 1/n, for C = I.

    The entries of the estimate have the relative variance ρ = (2d + 24)/(4n), and those of the mean (2d + 8)/(4n). With
    a_m = 1/(1 + 2√(dρ)) and a = a_m c_C/2 that makes ν = (2 − 3a)/(aρ), and the variance a_m(2d + 8)/(8n) of a
    coordinate of m.
    """
    rho = (2 * d + 24) / (4 * n)
    pull = 1 / (1 + 2 * np.sqrt(d * rho))
    a = pull * c_cov / 2
    return (2 - 3 * a) / (a * rho), d * pull * (2 * d + 8) / (8 * n)


@lru_cache(maxsize=4096)
def stationary_law(method: Method, d: int, n: int, c_cov: float = 0.1) -> StationaryLaw:
    """The law of a method whose transforms have no memory but rates; `c_cov` is only used for a first guess of ν."""
    freedom, mean_square = large_sample_guess(d, n, c_cov)
    freedom, variances = QUIET * max(freedom, d), np.array([mean_square / d, 0.0])
    for _ in range(STEPS):
        eigenvalues: Array = shapes(d).eigenvalues(freedom)
        spread = np.maximum(variances[0] + variances[1] / eigenvalues, 1e-9)
        step = average_step(method, n, eigenvalues, spread)
        slope = response(method, d, n, freedom, step.mean_form)
        before, freedom = freedom, new_freedom(step, slope, d)
        if not freedom > d:
            return unstable_law(float("inf"))
        used = float(np.mean(spread, dtype=np.float64))
        variances, growth = mean_variances(step, slope, eigenvalues)
        if growth >= 1:
            return unstable_law(growth)
        change = float(variances[0] + variances[1] * np.mean(1.0 / eigenvalues, dtype=np.float64)) / used - 1
        if abs(freedom / before - 1) < PRECISION and abs(change) < 3 * PRECISION:
            exponent = step.log_volume - step.shrinkage
            numbers = (exponent, step.error, step.spread, growth, step.mean_square, slope.shape)
            return StationaryLaw(freedom, mean_condition(eigenvalues), *numbers)
    return unstable_law(float("inf"))


def new_freedom(step: StepAverages, slope: Response, d: int) -> float:
    """ν at which E log tr C and E log det(C)/d change equally.

    E tr CB/d − E tr B/d = χ(E tr B/d)·E tr X²/d, with E tr X² = (d − 1)(d + 2)/ν for the shape of a Wishart matrix, is
    what reduces the anisotropy; the terms of second order in B increase it.
    """
    return step.shrinkage * slope.shape * (d - 1) * (d + 2) / d / (step.log_trace - step.log_volume)


def mean_variances(step: StepAverages, slope: Response, eigenvalues: Array) -> tuple[Array, float]:
    """k with E[mmᵀ|C] = k₀I + k₁C⁻¹, and the growth of these moments without noise.

    With m⁺ = (I − a_mC)m + noise of the covariance ξ²C, and E[C⁺|C] = (1 − (1 − χ)a)C − χaC², the moments E‖m‖² and
    E mᵀCm after a step are linear in k. In units of the scale of C, which changes by exp(exponent), they must be the
    same.
    """
    pull, chi, a, scale = slope.mean, slope.shape, step.shrinkage, np.exp(step.log_volume - step.shrinkage)
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
    noise = (step.step_square - pull**2 * step.mean_form) / powers[0]  # ξ²
    added = noise * np.array([powers[1] / scale, (keep * powers[2] - loss * powers[3]) / scale**2])
    growth = float(np.max(np.abs(np.linalg.eigvals(after @ np.linalg.inv(here)))))
    return np.asarray(np.linalg.solve(here - after, added), dtype=np.float64), growth
