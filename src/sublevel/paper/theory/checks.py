"""The paper's propositions and theorems as checks: functions of what is claimed and of what happened, which can fail.

Those on the deterministic algorithm are here; sampled.py and special.py have those that sample or run the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from sublevel.engine.arrays import Array, expand_trailing
from sublevel.engine.families import DiagonalGaussian, Family, IsotropicGaussian
from sublevel.engine.linalg import eigvalsh
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms import Transform
from sublevel.paper.theory import curves
from sublevel.paper.theory.exact import PseudoRates, deterministic_ngd
from sublevel.paper.theory.measure import condition_number, log_covariance_norm, log_mean_distance
from sublevel.paper.theory.quadratic import diagonal_root, hessian_spectrum
from sublevel.paper.theory.report import Report, judge
from sublevel.paper.theory.restricted import diagonal_gamma, mode_rates, rate_interval, variance_rate

Restricted = IsotropicGaussian | DiagonalGaussian

ROUNDING = 1e-9
"""Relative rounding error of Cond(CA) that is allowed: √Cond·eps, 1e-11 at Cond = 1e10, and a few eps per step."""
SETTLED = 1e-6
"""Cond(CA) − 1 is compared down to here, where the rounding of a run, about eps/γ, is a small part of it."""


def covariance_part(tangent: Tangent) -> Array:
    """Σ wᵢvᵢvᵢᵀ − decay·I at its rate, dense (..., d, d): −ηZ of eq:learning."""
    cloud, identity = tangent.cloud, np.eye(tangent.mean.shape[-1])
    return expand_trailing(tangent.rate, 2) * (cloud.moment - expand_trailing(cloud.decay, 2) * identity)


def largest_eigenvalue(tangent: Tangent) -> float:
    """λ₁(Z) of the descent direction −Z that a tangent is."""
    return float(-eigvalsh(covariance_part(tangent))[0])


def _decisive_norm(tangent: Tangent) -> float:
    """λ₁(Z), or σ₁(Z) where no variance falls and every rate is allowed."""
    largest = largest_eigenvalue(tangent)
    return largest if largest > 0 else float(tangent.spectral_norm)


def positivity(theta: Family, gradient: Callable[[Family], Tangent], fractions: Sequence[float]) -> Report:
    """C stays positive definite through steps at η_C = fraction/λ₁(Z), one fraction a step: the first proposition.

    `gradient` gives the tangent at a θ, exact or estimated. The value is the largest part of a variance that a step
    removed.
    """
    share, taken = 0.0, True
    for fraction in fractions:
        tangent = gradient(theta)
        step = tangent.scale(mean=np.float64(0.0), cov=np.float64(fraction / _decisive_norm(tangent)))
        share = max(share, largest_eigenvalue(step))
        move = theta.move(step)
        taken = bool(move.usable) and share < 1
        if not taken:
            break
        theta = move.theta
    statement = "C stays symmetric positive definite for every η_C < 1/λ₁(Z)"
    sentence = (
        f"C {'stayed' if taken else 'is no longer'} positive definite in {len(fractions)} steps with η_C·λ₁ up to "
        f"{max(fractions):.6g}; one removed {share:.6g} of a variance."
    )
    return judge("positivity", statement, share, 1.0, sentence, also=taken)


def positivity_limit(theta: Family, tangent: Tangent, claimed: float | None = None) -> Report:
    """The largest η_C that leaves C positive definite is 1/λ₁(Z), found by bisection on the engine's own verdict.

    `claimed` is the λ₁ to test, that of the tangent if None.
    """
    claimed = largest_eigenvalue(tangent) if claimed is None else claimed
    low, high = 0.0, 4.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        usable = theta.move(tangent.scale(mean=np.float64(0.0), cov=np.float64(middle / claimed))).usable
        low, high = (middle, high) if usable else (low, middle)
    sentence = f"C is positive definite up to η_C = {low:.12g}/λ₁ and not beyond."
    bound = (1 - ROUNDING, 1 + ROUNDING)
    return judge("positivity limit", "C breaks as soon as η_C > 1/λ₁(Z)", low, bound, sentence)


def condition_bound(conditions: Array, gamma: float) -> Report:
    """Cond(CᵗA) ≤ 1 + (1 − γ)ᵗ(Cond(C⁰A) − 1) along the curve (steps + 1,) of a run with η_C·λ₁ ≥ γ, eq:upper-cond."""
    ratios = _excess_over(conditions, curves.upper_bound(float(conditions[0]), gamma, len(conditions) - 1))
    worst = int(np.argmax(ratios))
    sentence = (
        f"From Cond = {conditions[0]:.3g} with γ = {gamma:.3g}, Cond − 1 was at most {ratios[worst]:.9g} of its "
        f"bound, at t = {worst + 1}."
    )
    return judge("thm:cond bound", "Cond(CᵗA) ≤ 1 + (1 − γ)ᵗ (Cond(C⁰A) − 1)", ratios[worst], 1 + ROUNDING, sentence)


def uncorrected_bound(conditions: Array, gamma: float) -> Report:
    """The bound of the proceedings, 1 + ((1 − 2γ)/(1 − γ))ᵗ(Cond(C⁰A) − 1), held to the same test. It fails.

    At η_C·λ₁ = γ a step multiplies Cond − 1 = e by (1 − 2γ)/(1 − γ) + γ²e/((1 − γ)(e + 1 − γ)), by condition_step: more
    than the bound's factor for every e > 0 and every γ in (0, 1/2]. So it is violated at every t ≥ 1 of every such run
    that starts with Cond > 1. The step that went wrong takes (1 − γ(1 + 1/κ))/(1 − γ/κ) to rise with 1/κ; it falls.
    """
    ratios = _excess_over(conditions, curves.uncorrected_upper_bound(float(conditions[0]), gamma, len(conditions) - 1))
    worst, statement = int(np.argmax(ratios)), "Cond(CᵗA) ≤ 1 + ((1 − 2γ)/(1 − γ))ᵗ (Cond(C⁰A) − 1)"
    sentence = (
        f"From Cond = {conditions[0]:.3g} with γ = {gamma:.3g}, Cond − 1 is {ratios[worst]:.6g} times this bound's at "
        f"t = {worst + 1}; it is above in {int(np.sum(ratios > 1 + ROUNDING))} of {len(ratios)} steps."
    )
    return judge("thm:cond as first printed", statement, ratios[worst], 1 + ROUNDING, sentence)


def erratum(conditions: Array, gamma: float) -> Report:
    """The bound first printed lies below a run, hence the erratum. The value is the least (bound − 1)/(Cond − 1)."""
    printed = uncorrected_bound(conditions, gamma)
    statement = "the bound first printed, with ((1 − 2γ)/(1 − γ))ᵗ, is violated"
    value = 1 / max(printed.value, ROUNDING)
    return judge("thm:cond erratum", statement, value, 1 - ROUNDING, printed.sentence, also=not printed.passed)


def _excess_over(conditions: Array, bounds: Array) -> Array:
    """(Cond − 1)/(bound − 1) for t = 1, 2, … (steps,); bound − 1 is at least SETTLED, not to compare rounding."""
    return (conditions[1:] - 1.0) / np.maximum(bounds[1:] - 1.0, SETTLED)


def condition_limit(conditions: Array, gamma: float) -> Report:
    """(Cond(Cᵗ⁺¹A) − 1)/(Cond(CᵗA) − 1) falls to (1 − 2γ)/(1 − γ) or below, eq:rate-cond.

    Taken at the last e = Cond − 1 ≥ SETTLED, where by condition_step the ratio is within γ²e/(1 − γ)² ≤ e of its limit.
    """
    excess = conditions - 1.0
    late = int(np.max(np.flatnonzero(excess[:-1] >= SETTLED), initial=0))
    ratio = float(excess[late + 1] / excess[late]) if excess[late] >= SETTLED else 0.0
    limit = curves.condition_ratio_limit(gamma)
    bound = limit + float(excess[late]) + 1e-3 * SETTLED
    statement = "limsup (Cond(Cᵗ⁺¹A) − 1)/(Cond(CᵗA) − 1) ≤ (1 − 2γ)/(1 − γ)"
    sentence = f"At t = {late}, Cond − 1 = {excess[late]:.3g}, the ratio is {ratio:.9g}; its limit is {limit:.9g}."
    return judge("thm:cond limit rate", statement, ratio, bound, sentence, also=bool(excess[-1] < 1e-3))


def condition_equality(conditions: Array, alpha: float) -> Report:
    """At η_C = α/λ₁ the curve (steps + 1,) *is* eq:cond-sp; the value is the largest relative deviation from it."""
    predicted = curves.predicted_condition(float(conditions[0]), alpha, len(conditions) - 1)
    deviation = float(np.max(np.abs(conditions / predicted - 1.0)))
    statement = "Cond(Cᵗ⁺¹A) = Cond(CᵗA)·(1 − α)/(1 − α/Cond(CᵗA)) at η_C = α/λ₁"
    end = f"; Cond < 10 after {int(np.argmax(conditions < 10))}." if np.any(conditions < 10) else "."
    steps = f"{len(conditions) - 1} steps from Cond = {conditions[0]:.3g} at α = {alpha:.3g}"
    sentence = f"{steps} deviate by at most {deviation:.2g}{end}"
    return judge("thm:cond equality", statement, deviation, ROUNDING, sentence)


def mean_rate(before: Family, after: Family, hessian_root: Array, gamma: float) -> Report:
    """‖mᵗ⁺¹‖/‖mᵗ‖ → 1 − γ where η_m·λ₁ → γ, thm:rate, from two consecutive θ late in a run."""
    ratio = _ratio(log_mean_distance(before), log_mean_distance(after))
    return _rate_report("thm:rate m", "‖m", ratio, before, hessian_root, gamma)


def covariance_rate(before: Family, after: Family, hessian_root: Array, gamma: float) -> Report:
    """‖Cᵗ⁺¹‖/‖Cᵗ‖ → 1 − γ where η_C·λ₁ → γ, thm:rate, from two consecutive θ late in a run."""
    ratio = _ratio(log_covariance_norm(before), log_covariance_norm(after))
    return _rate_report("thm:rate C", "‖C", ratio, before, hessian_root, gamma)


def _rate_report(name: str, symbol: str, ratio: float, before: Family, hessian_root: Array, gamma: float) -> Report:
    """I − γCA/λ₁ = (1 − γ)I + γL⁻¹(I − LCLᵀ/λ₁)L, so the ratio is within γ·√Cond(A)·(1 − 1/Cond(CA)) of 1 − γ."""
    spectrum = hessian_spectrum(hessian_root)
    condition = float(condition_number(before, hessian_root))
    slack = gamma * float(np.sqrt(spectrum[0] / spectrum[-1])) * (1.0 - 1.0 / condition) + ROUNDING
    limit = curves.parameter_rate_limit(gamma)
    when = f"when Cond(CA) − 1 = {condition - 1:.2g}"
    sentence = f"With γ = {gamma:.3g} the ratio is {ratio:.9g} {when}; 1 − γ = {limit:.9g}."
    bound = (limit - slack, limit + slack)
    return judge(name, f"lim {symbol}ᵗ⁺¹‖/{symbol}ᵗ‖ = 1 − γ", ratio, bound, sentence, also=slack < 1e-3)


def _ratio(log_before: Array, log_after: Array) -> float:
    """after/before from logarithms; 0 at the optimum, where nothing is left to shrink."""
    return float(np.exp(log_after - log_before)) if np.isfinite(log_before) else 0.0


def isotropic_rate(hessian_root: Array, alpha: float, rates: Transform | None = None) -> Report:
    """Under C = vI every mode of m, and v, shrinks by a factor in [1 − α, 1 − α/Cond(A)]; see restricted.py."""
    ones = np.ones_like(hessian_root[0])
    theta, statement = IsotropicGaussian.start(ones, ones), "C = vI: all rates in [1 − α, 1 − α/Cond(A)]"
    return _restricted_report("isotropic rate", statement, theta, hessian_root, alpha, rates)


def diagonal_rate(hessian_root: Array, alpha: float, rates: Transform | None = None) -> Report:
    """Under a diagonal C = u·diag(A)⁻¹ all rates lie in [1 − α, 1 − α/Cond(Ã)]: the footnote, see restricted.py."""
    theta = DiagonalGaussian(np.ones_like(hessian_root[0]), 1.0 / np.linalg.norm(hessian_root, axis=-2))
    statement = "C diagonal, at its limit: all rates in [1 − α, 1 − α/Cond(Ã)]"
    return _restricted_report("diagonal rate", statement, theta, hessian_root, alpha, rates)


def _restricted_report(
    name: str, statement: str, theta: Restricted, hessian_root: Array, alpha: float, rates: Transform | None
) -> Report:
    """One step of the engine against `mode_rates` and `variance_rate`; the value is the mode farthest from 0."""
    rates, family = PseudoRates(alpha, alpha) if rates is None else rates, type(theta)
    modes = measured_mode_rates(theta, hessian_root, rates)
    shrunk = measured_variance_rates(theta, hessian_root, rates)
    low, high = rate_interval(family, hessian_root, alpha)
    deviation = max(
        float(np.max(np.abs(modes - mode_rates(family, hessian_root, alpha)))),
        float(np.max(np.abs(shrunk - variance_rate(family, hessian_root, alpha)))),
    )
    measured = f"Modes of m shrink by {modes[0]:.6g} … {modes[-1]:.6g} and C by {np.max(shrunk):.6g}"
    sentence = f"{measured}; the largest deviation from theory is {deviation:.2g}."
    value, bound = float(modes[np.argmax(np.abs(modes))]), (low - ROUNDING, high + ROUNDING)
    return judge(name, statement, value, bound, sentence, also=deviation <= ROUNDING)


def measured_mode_rates(theta: Restricted, hessian_root: Array, rates: Transform) -> Array:
    """Eigenvalues (d,), rising, of the map m ↦ m⁺ of one step, in the whitened frame, where it is symmetric."""
    centred = replace(theta, mean=np.zeros(theta.dimension))
    starts = centred.push(np.eye(theta.dimension))
    ends = [_after_one_step(replace(theta, mean=start), hessian_root, rates).mean for start in starts]
    columns = centred.whiten(np.array(ends))
    return eigvalsh(0.5 * (columns + columns.T))


def measured_variance_rates(theta: Family, hessian_root: Array, rates: Transform) -> Array:
    """What one step multiplies each variance by (d,)."""
    return np.square(_after_one_step(theta, hessian_root, rates).deviations / theta.deviations)


def _after_one_step(theta: Family, hessian_root: Array, rates: Transform) -> Family:
    return next(islice(deterministic_ngd(theta, hessian_root, rates), 1, None))


def diagonal_target(hessian_root: Array, alpha: float, deviations: Array, target_root: Array | None = None) -> Report:
    """Under a diagonal C, Cond(C·diag(A)) → 1 as in thm:cond, γ = α/λ₁(Ã); `target_root`: another target to test."""
    target = diagonal_root(hessian_root) if target_root is None else target_root
    theta = DiagonalGaussian(np.zeros_like(deviations), deviations)
    gamma = diagonal_gamma(hessian_root, alpha)
    steps = curves.steps_to_excess(float(condition_number(theta, target)), gamma, 1e-8)
    path = deterministic_ngd(theta, hessian_root, PseudoRates(alpha, alpha))
    conditions = np.array([float(condition_number(at, target)) for at in islice(path, steps + 1)])
    bounded = condition_bound(conditions, gamma)
    statement = "C diagonal: Cond(Cᵗ diag(A)) → 1, with thm:cond's bound for γ = α/λ₁(Ã)"
    sentence = (
        f"Cond(C·diag(A)) fell from {conditions[0]:.3g} to 1 + {conditions[-1] - 1:.2g} in {steps} steps, "
        f"and Cond − 1 was at most {bounded.value:.6g} of its bound."
    )
    value, bound = float(conditions[-1]), 1 + 1e-8 + ROUNDING
    return judge("diagonal target", statement, value, bound, sentence, also=bounded.passed)
