"""Predictions of the theorems, as numbers and as curves to draw over a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.linalg import combination, image
from sublevel.paper.theory.measure import whitened_root


def condition_step(excess: Array | float, alpha: float) -> Array | float:
    """Cond(Cᵗ⁺¹A) − 1 from Cond(CᵗA) − 1 at η_C = α/λ₁: eq:cond-sp, as in eq:cond-eq3, which keeps all digits near 1.

    With κ = 1 + e the factor 1 − α/(1 − α/κ) is ((1 − α)e + 1 − 2α)/(e + 1 − α): 1 − α far away, (1 − 2α)/(1 − α) at
    the end.
    """
    return excess * ((1.0 - alpha) * excess + 1.0 - 2.0 * alpha) / (excess + 1.0 - alpha)


def predicted_excess(cond0: float, alpha: float, steps: int) -> Array:
    """Cond(CᵗA) − 1 for t = 0 … steps (steps + 1,), eq:cond-sp."""
    _check(cond0, alpha)
    excess = np.empty(steps + 1)
    excess[0] = cond0 - 1.0
    for t in range(steps):
        excess[t + 1] = condition_step(excess[t], alpha)
    return excess


def predicted_condition(cond0: float, alpha: float, steps: int) -> Array:
    """Cond(CᵗA) for t = 0 … steps (steps + 1,), eq:cond-sp; α = c_C/2 for the paper's rates.

    >>> predicted_condition(1e6, 0.05, 227)[-1].round(2)
    np.float64(9.73)
    """
    return 1.0 + predicted_excess(cond0, alpha, steps)


def predicted_times(cond0: float, alpha: float, targets: Array) -> Array:
    """Iterations until Cond(CᵗA) is first below each target > 1 (same shape as `targets`), eq:cond-sp.

    >>> predicted_times(1e6, 0.05, np.array([1e5, 10.0]))
    array([ 45., 227.])
    """
    targets = np.asarray(targets, dtype=np.float64)
    if not np.all(targets > 1):
        raise ValueError(f"`targets` must be above 1, which Cond(CA) approaches and never reaches, got {targets!r}.")
    steps = steps_to_excess(cond0, alpha, float(np.min(targets)) - 1.0)
    return first_times(predicted_condition(cond0, alpha, steps), targets)


def first_times(curve: Array, targets: Array) -> Array:
    """The first index at which a curve (steps + 1,) is below each target (same shape as `targets`), inf if never."""
    lowest = np.minimum.accumulate(curve)
    index = np.searchsorted(-lowest, -np.asarray(targets, dtype=np.float64), side="right")
    return np.where(index < len(curve), index, np.inf)


def steps_to_excess(cond0: float, gamma: float, excess: float) -> int:
    """Steps after which eq:upper-cond promises Cond(CA) − 1 < `excess`."""
    _check(cond0, gamma)
    return 1 + max(0, int(np.ceil(np.log(excess / max(cond0 - 1.0, excess)) / np.log1p(-gamma))))


def upper_bound(cond0: float, gamma: float, steps: int) -> Array:
    """1 + (1 − γ)ᵗ(Cond(C⁰A) − 1) for t = 0 … steps (steps + 1,): eq:upper-cond, as corrected."""
    return 1.0 + (cond0 - 1.0) * (1.0 - gamma) ** np.arange(steps + 1, dtype=np.float64)


def uncorrected_upper_bound(cond0: float, gamma: float, steps: int) -> Array:
    """1 + ((1 − 2γ)/(1 − γ))ᵗ(Cond(C⁰A) − 1), as first printed; it is not a bound, see `checks.uncorrected_bound`."""
    return 1.0 + (cond0 - 1.0) * condition_ratio_limit(gamma) ** np.arange(steps + 1, dtype=np.float64)


def condition_ratio_limit(gamma: float) -> float:
    """(1 − 2γ)/(1 − γ): the limit of (Cond(Cᵗ⁺¹A) − 1)/(Cond(CᵗA) − 1), eq:rate-cond."""
    return (1.0 - 2.0 * gamma) / (1.0 - gamma)


def parameter_rate_limit(gamma: float) -> float:
    """1 − γ: the limit of ‖mᵗ⁺¹‖/‖mᵗ‖ and ‖Cᵗ⁺¹‖/‖Cᵗ‖, eq:rate-k."""
    return 1.0 - gamma


@dataclass(frozen=True, slots=True)
class Curves:
    """Theory to draw over a run: one entry per iteration, from 0."""

    condition: Array  # (steps + 1, ...), Cond(CᵗA)
    expected: Array  # (steps + 1, ...), mᵀAm + Tr(CA)


def predicted_curves(
    theta: FullGaussian, hessian_root: Array, *, alpha: float, alpha_mean: float, steps: int
) -> Curves:
    """The deterministic algorithm from θ in O(steps·d), mode by mode: α = c_C/2 and α_m = 1 for the paper's rates.

    LR = USVᵀ, C = RRᵀ, makes the modes: λᵢ = sᵢ² with λᵢ ← λᵢ(1 − αλᵢ/λ₁), eq:diag-up, and y = UᵀLm with yᵢ ← yᵢ(1 −
    α_mλᵢ/λ₁), eq:m-quad; E f = Σ yᵢ² + λᵢ. Relative sizes rᵢ = λᵢ/λ₁ and log λ₁ are what is iterated, so no scale is
    lost.
    """
    root, unit = whitened_root(theta, hessian_root)
    axes, singular, _ = np.linalg.svd(root, full_matrices=False)
    y = combination(image(hessian_root, theta.mean), axes)
    relative, log_largest = np.square(singular / singular[0]), 2.0 * np.log(singular[0] * unit)
    condition, expected = np.empty(steps + 1), np.empty(steps + 1)
    for t in range(steps + 1):
        condition[t] = 1.0 / relative[-1]
        expected[t] = np.vecdot(y, y) + np.exp(log_largest) * np.sum(relative)
        y = y * (1.0 - alpha_mean * relative)
        relative = relative * (1.0 - alpha * relative) / (1.0 - alpha)
        log_largest += np.log1p(-alpha)
    return Curves(condition, expected)


def _check(cond0: float, alpha: float) -> None:
    if not cond0 >= 1:
        raise ValueError(f"`cond0` must be a condition number ≥ 1, got {cond0!r}.")
    if not 0 < alpha <= 0.5:
        raise ValueError(
            f"`alpha` must lie in (0, 1/2], where thm:cond holds, got {alpha!r}. It is c_C/2 for the paper's rates."
        )
