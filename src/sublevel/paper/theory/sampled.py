"""Checks by sampling: the natural gradient against prop:ng, and its estimate against prop:consistency."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TypedDict, Unpack

import numpy as np
from scipy.special import ndtri

from sublevel.engine.arrays import Array, Noise
from sublevel.engine.families import Family
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.tangent import Tangent
from sublevel.engine.weights import Volume
from sublevel.paper.theory.checks import covariance_part
from sublevel.paper.theory.estimate_variance import WhitenedCost, total_variances
from sublevel.paper.theory.exact import exact_natural_gradient
from sublevel.paper.theory.intervals import FALSE_ALARM, Interval, half_width, student_quantile
from sublevel.paper.theory.measure import expected_objective
from sublevel.paper.theory.quadratic import natural_gradient_constant, sublevel_cost
from sublevel.paper.theory.report import Report, judge


class Claim(TypedDict, total=False):
    """What is claimed instead of the truth, to test a check."""

    exponent: float  # of V
    claimed_root: Array  # of A


def natural_gradient_of_mean(theta: Family, root: Array, size: int, seed: int, **claim: Unpack[Claim]) -> Report:
    """E[V(X)(X − m)] = c·CAm by Monte Carlo for a root of the Hessian, prop:ng."""
    deviations = _sampled_deviations(theta, root, size, seed, **claim)[: theta.dimension]
    return _proportionality("prop:ng m", "natural gradient of the mean = c·CAm", deviations, size)


def natural_gradient_of_covariance(theta: Family, root: Array, size: int, seed: int, **claim: Unpack[Claim]) -> Report:
    """E[V(X)((X − m)(X − m)ᵀ − C)] = c·CAC by Monte Carlo for a root of the Hessian, prop:ng."""
    deviations = _sampled_deviations(theta, root, size, seed, **claim)[theta.dimension :]
    return _proportionality("prop:ng C", "natural gradient of the covariance = c·CAC", deviations, size)


def missing_exponent(theta: Family, root: Array, size: int, seed: int, exponent: float = 1.0) -> Report:
    """Step 6 as printed, without the exponent 2/d of eq:mc-nu, estimates another direction than CAC.

    The value is what chance allows over the largest deviation from c·CAC, so that a value below 1 refutes step 6.
    """
    deviations = _sampled_deviations(theta, root, size, seed, exponent=exponent)[theta.dimension :]
    worst, bound = float(np.max(np.abs(deviations))), float(-ndtri(FALSE_ALARM / (2 * deviations.size)))
    sentence = f"Without the exponent δC is {worst:.3g} standard errors from c·CAC; chance allows {bound:.3g}."
    statement = "step 6 as printed, without the exponent 2/d, does not give c·CAC"
    return judge("step 6 erratum", statement, bound / worst, 0.5, sentence)


def _proportionality(name: str, statement: str, deviations: Array, size: int) -> Report:
    worst = float(np.max(np.abs(deviations)))
    bound = float(-ndtri(FALSE_ALARM / (2 * deviations.size)))
    sentence = (
        f"With {size} points the largest of {deviations.size} deviations is {worst:.3g} standard errors; "
        f"chance allows {bound:.3g}."
    )
    return judge(name, statement, worst, bound, sentence)


def _sampled_deviations(theta: Family, root: Array, size: int, seed: int, **claim: Unpack[Claim]) -> Array:
    """Monte Carlo mean minus claim of each entry of the natural gradient (d + d(d+1)/2,), in standard errors."""
    sample, claimed_root = theta.sample(np.random.default_rng(seed), size), claim.get("claimed_root", root)
    cost = sublevel_cost(sample.x, root, claim.get("exponent"))
    rows, columns = np.triu_indices(theta.dimension)
    score = np.concatenate([sample.z, sample.z[:, rows] * sample.z[:, columns] - (rows == columns)], axis=-1)
    terms = (cost - np.mean(cost))[:, None] * score
    exact = exact_natural_gradient(theta, claimed_root, constant=natural_gradient_constant(claimed_root))
    claimed = -np.concatenate([exact.mean, covariance_part(exact)[rows, columns]])
    return (np.mean(terms, axis=0) - claimed) / (np.std(terms, axis=0) / np.sqrt(size))


def expected_cost(theta: Family, root: Array, size: int, seed: int, claimed_root: Array | None = None) -> Report:
    """J = E[V(X)] = (c/2)(mᵀAm + Tr(CA)) by Monte Carlo, the proof of prop:ng."""
    claimed_root = root if claimed_root is None else claimed_root
    cost = sublevel_cost(theta.sample(np.random.default_rng(seed), size).x, root)
    claimed = 0.5 * natural_gradient_constant(claimed_root) * float(expected_objective(theta, claimed_root))
    error = float(np.std(cost)) / sqrt(size)
    value, bound = float(np.mean(cost) - claimed) / error, float(-ndtri(FALSE_ALARM / 2))
    sentence = f"E V is {np.mean(cost):.6g} ± {error:.2g} in {size} points; (c/2)(mᵀAm + Tr(CA)) = {claimed:.6g}."
    return judge("J", "J = E[V] = (c/2)(mᵀAm + Tr(CA))", abs(value), bound, sentence)


def score_length(theta: Family, size: int, seed: int, *, printed: bool = False) -> Report:
    """E‖∇̃l‖² = Tr(C) + Tr(C)² + Tr(C²), the trace of F⁻¹ for symmetric C; eq:fisher gives Tr(C) + 2Tr(C)².

    vec C has each entry off the diagonal twice. On such vectors the covariance of the score is ½(C⁻¹⊗C⁻¹)(I + K)/2, K
    the commutation matrix, which the printed matrix lacks; for symmetric directions the two are the same.
    """
    sample, cov = theta.sample(np.random.default_rng(seed), size), theta.cov
    steps = sample.x - theta.mean
    lengths = np.vecdot(steps, steps)
    squares: Array = (
        lengths + np.square(lengths) - 2 * np.einsum("ni,ij,nj->n", steps, cov, steps) + np.sum(np.square(cov))
    )
    trace, trace_of_square = float(np.trace(cov)), float(np.sum(np.square(cov)))
    right, wrong = trace + trace**2 + trace_of_square, trace + 2 * trace**2
    claimed, error = wrong if printed else right, float(np.std(squares)) / sqrt(size)
    value, bound = abs(float(np.mean(squares)) - claimed) / error, float(-ndtri(FALSE_ALARM / 2))
    sentence = (
        f"E‖∇̃l‖² = {np.mean(squares):.4g} ± {error:.1g}; Tr(C) + Tr(C)² + Tr(C²) = {right:.4g}, printed {wrong:.4g}."
    )
    return judge("Tr F⁻¹", "E‖∇̃l‖² = Tr(C) + Tr(C)² + Tr(C²), not the printed Tr(F⁻¹)", value, bound, sentence)


def estimated_natural_gradient(theta: Family, hessian_root: Array, z: Array, exponent: float | None = None) -> Tangent:
    """The engine's estimate from whitened points z (..., n, d) on xᵀAx, eq:ng-est, in absolute units.

    Volume's weights are in units of the largest V̂ = (Σ 1/p(xⱼ)/n)^exponent, eq:mc-nu, which is put back here.
    """
    sample = theta.sample_at(z)
    ranks = ranking(np.sum(np.square(sample.x @ hessian_root.mT), axis=-1))
    tangent = natural_gradient(z, Volume(exponent)(ranks, sample))
    log_density_at_mean = theta.log_density(theta.mean[..., None, :])[..., 0]
    log_volume = np.logaddexp.reduce(sample.surprise, axis=-1) - np.log(z.shape[-2]) - log_density_at_mean
    largest = np.exp((2.0 / theta.dimension if exponent is None else exponent) * log_volume)
    return tangent.scale(mean=largest, cov=largest)


def squared_errors(cost: WhitenedCost, sampling: str, size: int, trials: int, seed: int) -> Array:
    """‖estimate − expectation‖² (2, trials) of the mean and the covariance part, with exact values of a quadratic."""
    z = SAMPLINGS[sampling].draw(np.random.default_rng(seed), (trials, size, cost.slope.size))
    weights = cost.values(z) / size
    mean = np.vecdot(weights[..., None, :], z.mT)
    moment = (weights[..., None] * z).mT @ z - np.sum(weights, axis=-1)[:, None, None] * np.eye(cost.slope.size)
    mean_error, error = mean - cost.slope, moment - 2.0 * cost.matrix
    return np.stack([np.vecdot(mean_error, mean_error), np.sum(np.square(error), axis=(-2, -1))])


def estimate_variance(
    cost: WhitenedCost, sampling: str, size: int, trials: int, seed: int, claimed: str | None = None
) -> Report:
    """The variance of the estimated natural gradient, for points that depend on each other as a sampling says.

    The value is the larger deviation of the mean squared errors of both parts from estimate_variance.py, in standard
    errors. `claimed` is a sampling whose variance is claimed instead.
    """
    errors = squared_errors(cost, sampling, size, trials, seed)
    variances = total_variances(cost, SAMPLINGS[sampling if claimed is None else claimed], size)
    measured, chance = np.mean(errors, axis=-1), np.std(errors, axis=-1, ddof=1) / sqrt(trials)
    worst = float(np.max(np.abs(measured - variances) / chance))
    sentence = (
        f"{size} points, {trials} trials: {measured[0]:.5g} ± {chance[0]:.2g} for the mean, theory {variances[0]:.5g}; "
        f"{measured[1]:.5g} ± {chance[1]:.2g} for the covariance, theory {variances[1]:.5g}."
    )
    statement = f"variance of the estimate for {sampling} points in closed form (standard errors)"
    return judge(f"variance {sampling}", statement, worst, student_quantile(trials - 1, FALSE_ALARM / 2), sentence)


def estimation_errors(
    theta: Family, hessian_root: Array, size: int, trials: int, noise: Noise, **claim: Unpack[Claim]
) -> Array:
    """‖estimate − exact‖/‖exact‖ of the whitened natural gradient, one per trial (trials,), prop:consistency."""
    claimed_root, z = claim.get("claimed_root", hessian_root), noise.standard_normal((trials, size, theta.dimension))
    exact = exact_natural_gradient(theta, claimed_root, constant=natural_gradient_constant(claimed_root))
    estimate = estimated_natural_gradient(theta, hessian_root, z, claim.get("exponent"))
    error = _squared_norm(estimate.mean - exact.mean, covariance_part(estimate) - covariance_part(exact))
    return np.sqrt(error / _squared_norm(exact.mean, covariance_part(exact)))


def _squared_norm(mean: Array, cov: Array) -> Array:
    return np.vecdot(mean, mean) + np.sum(np.square(cov), axis=(-2, -1))


def log_log_slope(sizes: Sequence[int], errors: Array, false_alarm: float = 0.05) -> Interval:
    """The least-squares slope of log error (len(sizes), trials) against log n, mean over trials with Student's band."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    slopes: Array = (x - x.mean()) @ np.log(errors) / np.sum(np.square(x - x.mean()))
    centre, half = float(np.mean(slopes)), half_width(slopes, false_alarm)
    return Interval(centre, centre - half, centre + half)


def consistency_exponent(condition: float) -> float:
    """−min(1/2, 1/κ): the power of n like which the error of the estimated natural gradient falls at κ = Cond(CA).

    The error is the mean of a function of xⱼ that grows like P(f > f(xⱼ))/p(xⱼ). Along the flattest axis of the
    whitened f this is exp(βr²/2), r = ‖zⱼ‖, β = 1 − 1/κ, because f reaches the same value along the steepest axis at
    r/√κ. Its variance is finite only for β < 1/2; beyond, its tail has the index 1/β, and such means converge like
    n^{-(1 − β)}. At κ = 100 an estimate hardly improves with n.
    """
    return -min(0.5, 1.0 / condition)


def consistency(
    theta: Family, hessian_root: Array, sizes: Sequence[int], trials: int, seed: int, **claim: Unpack[Claim]
) -> Report:
    """The error of the estimated natural gradient falls like n^{-1/2}, prop:consistency and the central limit theorem.

    The proposition promises convergence, not its speed, and this speed is that of Cond(CA) < 2: see
    `consistency_exponent`. A mean far from the optimum, in units of C, delays it. Choose θ accordingly.
    """
    noise = np.random.default_rng(seed)
    errors = np.array([estimation_errors(theta, hessian_root, size, trials, noise, **claim) for size in sizes])
    slope, statement = log_log_slope(sizes, errors), "error of the estimated natural gradient ∝ n^(−1/2): log-log slope"
    sentence = (
        f"Slope {slope.value:.3f} with 95 % band [{slope.low:.3f}, {slope.high:.3f}] over n = {sizes[0]} … "
        f"{sizes[-1]}, {trials} trials; the relative error at the end is {np.mean(errors[-1]):.3g}."
    )
    return judge("consistency", statement, slope.value, (-0.6, -0.4), sentence)


def influence_tail(condition: float, radii: tuple[float, float] = (60.0, 120.0)) -> float:
    """1 − β of the growth p^−β of P(f > f(x))/p(x) along the flattest axis, for f = z₁² + κz₂², by quadrature.

    P(f > r²) = (1/2π)∫ exp(−r²/(2(cos²φ + κ sin²φ))) dφ exactly. β is the slope of log(P/p) against r²/2 between two
    radii; its error is of the order log r/r².
    """
    angles = np.linspace(0.0, 0.5 * np.pi, 20_001)
    value = np.square(np.cos(angles)) + condition * np.square(np.sin(angles))
    logs: list[float] = []
    for radius in radii:
        exponents = -0.5 * radius**2 / value
        peak = float(np.max(exponents))
        logs.append(peak + float(np.log(np.mean(np.exp(exponents - peak)))) + 0.5 * radius**2)
    return 1.0 - 2.0 * (logs[1] - logs[0]) / (radii[1] ** 2 - radii[0] ** 2)


def influence(condition: float, claimed: float | None = None) -> Report:
    """The influence of a point on the estimate has the tail that makes its error fall like n^(−1/Cond(CA)).

    Means of terms with the tail index 1/β in (1, 2) converge like n^(−(1 − β)); see `consistency_exponent`.
    """
    claimed = consistency_exponent(condition) if claimed is None else claimed
    value = -influence_tail(condition)
    sentence = (
        f"At Cond(CA) = {condition:.3g} the influence grows like p^−{1 + value:.4f}: errors fall like n^{value:.4f}."
    )
    statement = "error ∝ n^(−1/Cond(CA)) for Cond(CA) > 2: exponent from the tail of the influence"
    return judge("consistency exponent", statement, value, (claimed - 0.005, claimed + 0.005), sentence)
