"""Bounds of the theorems that are reached, and the rate of J: checks in both directions on the exact algorithm."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import DiagonalGaussian, Family, FullGaussian
from sublevel.engine.linalg import solve
from sublevel.paper.theory import curves
from sublevel.paper.theory.checks import ROUNDING, SETTLED
from sublevel.paper.theory.exact import PseudoRates, deterministic_ngd
from sublevel.paper.theory.measure import (
    condition_number,
    log_covariance_norm,
    log_expected_objective,
    log_mean_distance,
    whitened_root,
)
from sublevel.paper.theory.quadratic import diagonal_root
from sublevel.paper.theory.report import Report, judge
from sublevel.paper.theory.restricted import diagonal_gamma, expected_objective_rate

FAR = 1e10
"""Cond(C⁰A) from which the bound of thm:cond is reached to 1e-9 in a step."""


def condition_bound_attained(hessian_root: Array, alpha: float, claimed: float | None = None) -> Report:
    """The first step from a large Cond(C⁰A) = κ leaves 1 − α − O(1/κ) of Cond − 1: eq:upper-cond cannot be improved.

    By condition_step the factor is 1 − α/(1 − α/κ), within 2α²/κ of 1 − α. `claimed` is the γ of another bound.
    """
    theta = FullGaussian.start(np.zeros(len(hessian_root)), np.ones(len(hessian_root)))
    path = islice(deterministic_ngd(theta, hessian_root, PseudoRates(1.0, alpha)), 2)
    before, after = (float(condition_number(at, hessian_root)) for at in path)
    bound = curves.upper_bound(before, alpha if claimed is None else claimed, 1)[1]
    share = (after - 1) / (bound - 1)
    sentence = f"From Cond = {before:.3g} one step at α = {alpha:.3g} reaches {share:.12g} of the bound."
    statement = "Cond(CᵗA) ≤ 1 + (1 − γ)ᵗ(Cond(C⁰A) − 1) is reached as Cond(C⁰A) → ∞"
    return judge("thm:cond bound reached", statement, share, (1 - 1e-8, 1 + ROUNDING), sentence)


def condition_limit_attained(conditions: Array, gamma: float) -> Report:
    """The ratio of eq:rate-cond tends to (1 − 2γ)/(1 − γ), and to nothing less, at η_C = γ/λ₁."""
    ratio, excess = _late_ratio(conditions)
    limit = curves.condition_ratio_limit(gamma)
    slack = excess + 1e-3 * SETTLED
    sentence = f"Where Cond − 1 = {excess:.3g} the ratio is {ratio:.9g}; (1 − 2γ)/(1 − γ) = {limit:.9g}."
    statement = "the ratio (Cond(Cᵗ⁺¹A) − 1)/(Cond(CᵗA) − 1) tends to (1 − 2γ)/(1 − γ)"
    return judge("thm:cond rate reached", statement, ratio, (limit - slack, limit + slack), sentence)


def _late_ratio(conditions: Array) -> tuple[float, float]:
    """The ratio of consecutive Cond − 1 (steps + 1,) at the last one above SETTLED, and that one."""
    excess = conditions - 1.0
    late = int(np.max(np.flatnonzero(excess[:-1] >= SETTLED), initial=0))
    return float(excess[late + 1] / excess[late]), float(excess[late])


def diagonal_limit_attained(
    hessian_root: Array, alpha: float, deviations: Array, claimed: float | None = None
) -> Report:
    """Under a diagonal C the ratio for Cond(C·diag(A)) tends to (1 − 2γ)/(1 − γ), γ = α/λ₁(Ã); see restricted.py.

    At the limit C = u·diag(A)⁻¹ the rate is η_C·u = α/λ₁(Ã), so that no larger γ would do, and no smaller one is
    needed. `claimed` is another γ to test. Where Cond − 1 = e the ratio is within 2e of its limit.
    """
    gamma, target = diagonal_gamma(hessian_root, alpha), diagonal_root(hessian_root)
    claimed = gamma if claimed is None else claimed
    theta = DiagonalGaussian(np.zeros_like(deviations), deviations)
    most = 20 + 2 * curves.steps_to_excess(float(condition_number(theta, target)), alpha / len(deviations), SETTLED)
    conditions: list[float] = []
    for at in islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha, alpha)), most):
        conditions.append(float(condition_number(at, target)))
        if conditions[-1] < 1 + SETTLED:
            break
    ratio, excess = _late_ratio(np.array(conditions))
    limit = curves.condition_ratio_limit(claimed)
    slack = 2 * excess + 1e-3 * SETTLED
    sentence = f"Where Cond − 1 = {excess:.3g} the ratio is {ratio:.9g}; (1 − 2γ)/(1 − γ) = {limit:.9g}."
    statement = "C diagonal: the ratio for Cond(C·diag(A)) tends to (1 − 2γ)/(1 − γ), γ = α/λ₁(Ã)"
    return judge("diagonal target rate", statement, ratio, (limit - slack, limit + slack), sentence)


def norm_bound(theta: Family, hessian_root: Array, alpha_mean: float, alpha: float, steps: int) -> Report:
    """‖κᵗ⁺¹‖ ≤ σ₁(I − cη_κ CᵗA)‖κᵗ‖ for m in the Euclidean and C in the Frobenius norm: the proof of thm:rate.

    The value is the largest of all ratios of the two sides; the norms themselves are compared with Tr^{1/2}(CᵀC) and
    (mᵀm)^{1/2}, in which the theorem is stated.
    """
    hessian, identity = hessian_root.T @ hessian_root, np.eye(theta.dimension)
    worst, astray = 0.0, 0.0
    path = list(islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha_mean, alpha)), steps + 1))
    for before, after in pairwise(path):
        product = before.cov @ hessian
        largest = float(np.max(np.linalg.eigvals(product).real))
        for rate, log_norm in ((alpha_mean, log_mean_distance), (alpha, log_covariance_norm)):
            shrinking = float(np.linalg.svd(identity - rate / largest * product, compute_uv=False)[0])
            worst = max(worst, float(np.exp(log_norm(after) - log_norm(before))) / shrinking)
        frobenius, euclidean = np.sqrt(np.trace(before.cov.T @ before.cov)), np.sqrt(before.mean @ before.mean)
        astray = max(astray, abs(float(np.exp(log_covariance_norm(before)) / frobenius) - 1))
        astray = max(astray, abs(float(np.exp(log_mean_distance(before)) / euclidean) - 1))
    statement = "‖κᵗ⁺¹‖ ≤ σ₁(I − cη_κCᵗA)‖κᵗ‖ in each step, ‖C‖ = Tr^½(CᵀC), ‖m‖ = (mᵀm)^½"
    sentence = f"In {steps} steps the left side was at most {worst:.6g} of the right; the norms are {astray:.2g} off."
    return judge("thm:rate bound", statement, worst, 1 + ROUNDING, sentence, also=astray < ROUNDING)


def norm_bound_attained(hessian_root: Array, alpha: float) -> Report:
    """At C ∝ A⁻¹ the bound of a step is an equality, and both norms shrink by exactly 1 − α: the limit is reached."""
    d = len(hessian_root)
    theta = FullGaussian.start(np.ones(d), np.ones(d), solve(hessian_root, np.eye(d)))
    before, after = islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha, alpha)), 2)
    ratios = [float(np.exp(norm(after) - norm(before))) for norm in (log_mean_distance, log_covariance_norm)]
    worst = max(ratios, key=lambda ratio: abs(ratio - curves.parameter_rate_limit(alpha)))
    bound = curves.parameter_rate_limit(alpha) - ROUNDING, curves.parameter_rate_limit(alpha) + ROUNDING
    sentence = f"From C = A⁻¹ at α = {alpha:.3g}: ‖m‖ shrinks by {ratios[0]:.12g}, ‖C‖ by {ratios[1]:.12g}."
    return judge("thm:rate reached", "at C ∝ A⁻¹ ‖m‖ and ‖C‖ shrink by exactly 1 − α", worst, bound, sentence)


def objective_rate(theta: FullGaussian, hessian_root: Array, alpha_mean: float, alpha: float, name: str) -> Report:
    """J ∝ mᵀAm + Tr(CA) falls at max((1 − α_m)², 1 − α): "the rate of ‖C‖" of section 3 if (1 − α_m)² ≤ 1 − α only.

    At the limit C = uA⁻¹ the two parts shrink by (1 − α_m)² and by 1 − α in a step.
    """
    start = float(condition_number(theta, hessian_root))
    steps = curves.steps_to_excess(start, alpha, 1e-9) + int(np.ceil(30 / abs(_log_gap(alpha_mean, alpha))))
    before, after = islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha_mean, alpha)), steps, steps + 2)
    ratio = float(np.exp(log_expected_objective(after, hessian_root) - log_expected_objective(before, hessian_root)))
    claimed = expected_objective_rate(FullGaussian, hessian_root, alpha=alpha, alpha_mean=alpha_mean)
    of_c = curves.parameter_rate_limit(alpha)
    same = "equal to" if abs(claimed - of_c) < ROUNDING else "slower than"
    statement = f"J falls at max((1 − α_m)², 1 − α), here {same} the rate of ‖C‖"
    sentence = (
        f"With α_m = {alpha_mean:.3g}, α = {alpha:.3g} J falls by {ratio:.9g} in step {steps}; ‖C‖ by {of_c:.9g}."
    )
    return judge(name, statement, ratio, (claimed - 1e-6, claimed + 1e-6), sentence)


def _log_gap(alpha_mean: float, alpha: float) -> float:
    """The logarithm of the ratio of the rates of the two parts of J."""
    return 2 * float(np.log1p(-alpha_mean)) - float(np.log1p(-alpha))


def adapted_rate(hessian_root: Array, alpha: float) -> Report:
    """With C adapted m converges at 1 − α, with C = vI its flattest direction at 1 − α/Cond(A): after thm:rate.

    The value is the ratio of the two logarithms, about Cond(A): what adaptation is worth.
    """
    singular = np.linalg.svd(hessian_root, compute_uv=False)
    condition = float(np.square(singular[0] / singular[-1]))
    rates: list[float] = []
    for root in (solve(hessian_root, np.eye(len(hessian_root))), None):
        flat = np.linalg.svd(hessian_root)[2][-1]
        theta = FullGaussian.start(flat, np.ones(len(flat)), root)
        before, after = islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha, alpha)), 2)
        rates.append(float(np.exp(log_mean_distance(after) - log_mean_distance(before))))
    worth = float(np.log(rates[0]) / np.log(rates[1]))
    claimed = float(np.log1p(-alpha) / np.log1p(-alpha / condition))
    sentence = (
        f"At Cond(A) = {condition:.3g} ‖m‖ shrinks by {rates[0]:.6g} with C = A⁻¹ and by {rates[1]:.6g} with C = I."
    )
    statement = "m along the flattest axis: 1 − α with C ∝ A⁻¹, 1 − α/Cond(A) with C = I"
    return judge("worth of adaptation", statement, worth / claimed, (1 - 1e-6, 1 + 1e-6), sentence)


def common_eigenvectors(theta: FullGaussian, hessian_root: Array, alpha: float, steps: int) -> Report:
    """The eigenvectors of √A Cᵗ √A never change, eq:diag-up, and the order of its eigenvalues is kept."""

    def matrix(at: Family) -> Array:
        root, unit = whitened_root(at, hessian_root)
        return np.square(unit) * (root @ root.T)

    path = deterministic_ngd(theta, hessian_root, PseudoRates(1.0, alpha))
    spectrum, axes = np.linalg.eigh(matrix(theta))
    off, unsorted = 0.0, False
    for at in islice(path, steps + 1):
        turned = axes.T @ matrix(at) @ axes
        values = np.diagonal(turned)
        off = max(off, float(np.max(np.abs(turned - np.diag(values))) / np.max(values)))
        off = max(off, float(np.max(np.abs(values - spectrum)) / np.max(spectrum)))
        unsorted = unsorted or bool(np.any(np.diff(values) < -ROUNDING * np.max(values)))
        spectrum = spectrum * (1 - alpha * spectrum / np.max(spectrum))
    statement = "√A Cᵗ √A keeps its eigenvectors and λᵢ ← λᵢ − η_Cλᵢ² keeps their order"
    sentence = (
        f"In {steps} steps an entry is off by at most {off:.2g} of λ₁{'; the order changed' if unsorted else ''}."
    )
    return judge("eq:diag-up", statement, off, ROUNDING, sentence, also=not unsorted)


def predicted_run(theta: FullGaussian, hessian_root: Array, alpha_mean: float, alpha: float, steps: int) -> Report:
    """The curves drawn over figures 1 to 3 are those of eq:m-quad and eq:c-quad: Cond(CᵗA) and mᵀAm + Tr(CA)."""
    drawn = curves.predicted_curves(theta, hessian_root, alpha=alpha, alpha_mean=alpha_mean, steps=steps)
    path = list(islice(deterministic_ngd(theta, hessian_root, PseudoRates(alpha_mean, alpha)), steps + 1))
    conditions = np.array([float(condition_number(at, hessian_root)) for at in path])
    logs = np.array([float(log_expected_objective(at, hessian_root)) for at in path])
    hessian = hessian_root.T @ hessian_root
    direct = [float(at.mean @ hessian @ at.mean + np.trace(at.cov @ hessian)) for at in path[:5]]
    worst = max(
        float(np.max(np.abs(drawn.condition / conditions - 1))),
        float(np.max(np.abs(np.log(drawn.expected) - logs))),
        float(np.max(np.abs(np.log(direct) - logs[:5]))),
    )
    sentence = f"In {steps} steps from Cond = {conditions[0]:.3g} curves and run differ by at most {worst:.2g}."
    statement = "theoretical curves of Cond(CᵗA) and mᵀAm + Tr(CA) = the exact algorithm"
    return judge("predicted curves", statement, worst, 1e-8, sentence)


def predicted_iterations(hessian_root: Array, alpha: float, target: float) -> Report:
    """The first iteration with Cond(CᵗA) below a target is the one that eq:cond-sp predicts."""
    theta = FullGaussian.start(np.zeros(len(hessian_root)), np.ones(len(hessian_root)))
    start = float(condition_number(theta, hessian_root))
    predicted = float(curves.predicted_times(start, alpha, np.array([target]))[0])
    path = islice(deterministic_ngd(theta, hessian_root, PseudoRates(1.0, alpha)), int(predicted) + 10)
    measured = next((t for t, at in enumerate(path) if float(condition_number(at, hessian_root)) < target), -1)
    sentence = (
        f"From Cond = {start:.3g} at α = {alpha:.3g}: below {target:g} at t = {measured}, predicted {predicted:.0f}."
    )
    statement = "iterations until Cond(CᵗA) is below a target = those of eq:cond-sp"
    return judge("predicted times", statement, abs(measured - predicted), 0.0, sentence)
