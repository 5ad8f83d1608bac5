"""Single steps of the engine against the paper's algorithms, written out as printed, and the rates they imply."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p, pi

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import DiagonalGaussian, FullGaussian, IsotropicGaussian, method_prefix
from sublevel.engine.linalg import solve
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.paper.theory.intervals import FALSE_ALARM, half_width
from sublevel.paper.theory.measure import log_covariance_norm, log_mean_distance
from sublevel.paper.theory.quadratic import random_hessian_root
from sublevel.paper.theory.report import Report, judge
from sublevel.paper.theory.special import Objective, final_theta, whitened_difference
from sublevel.paper.theory.stationary import large_sample_pull

STEP_ROUNDING = 1e-9
"""Largest difference between two ways to compute a step, in standard deviations or in variances."""


def printed_ngd_step(
    theta: FullGaussian, z: Array, values: Array, c_cov: float, c_mean: float = 1.0
) -> tuple[Array, Array]:
    """Mean and covariance after steps 4 to 11 of the stochastic NGD, as printed; section 4 has c_mean = 1.

    Step 6 has the exponent 2/d of eq:mc-nu. Whitened points z (n, d) and values (n,) are given; the root of C is θ's.
    """
    n, d = z.shape
    root = theta.scale * theta.root
    constant = (2 * pi) ** (d / 2) * abs(float(np.linalg.det(root))) / n
    cost = [
        (constant * sum(exp(z[j] @ z[j] / 2) for j in range(n) if values[j] <= values[i])) ** (2 / d) for i in range(n)
    ]
    baseline = sum(cost) / n
    weights = np.array([(one - baseline) / n for one in cost])
    matrix = sum(weights[i] * (np.outer(z[i], z[i]) - np.eye(d)) for i in range(n))
    largest = float(np.linalg.svd(matrix, compute_uv=False)[0])
    mean = theta.mean - c_mean * sum(weights[i] * (root @ z[i]) for i in range(n)) / largest
    return mean, theta.cov - c_cov / (2 * largest) * (root @ matrix @ root.T)


def printed_rank_mu_step(theta: FullGaussian, z: Array, values: Array) -> tuple[Array, Array]:
    """Mean and covariance after a step of the pure rank-µ CMA-ES with eq:intermediate and the rates of section 4.2."""
    n, d = z.shape
    root, mu = theta.scale * theta.root, n // 4
    ranks = [sum(values[j] <= values[i] for j in range(n)) for i in range(n)]
    steps = [root @ z[i] for i in range(n) if ranks[i] <= mu]
    rate = (2 * mu - 1) / ((d + 2) ** 2 + mu)
    mean = theta.mean + sum(steps, np.zeros(d)) / mu
    return mean, theta.cov + rate * sum((np.outer(step, step) - theta.cov for step in steps), np.zeros((d, d))) / mu


def ngd_step(
    f: Objective, thetas: Sequence[FullGaussian], *, size: int, seed: int, name: str = "NGD step", rate: float = 0.1
) -> Report:
    """One step of `ngd()` from each θ is steps 1 to 11 of the paper with c_C = `rate`, its default being 0.1."""
    d, worst = thetas[0].dimension, _largest_difference(ngd(), f, thetas, size, seed, rate, 1.0)
    statement = "one step of ngd() = steps 1 to 11 with η_m = 1/σ₁(Z), η_C = c_C/(2σ₁(Z)), c_C = 0.1"
    sentence = f"{len(thetas)} steps at d = {d}, n = {size} differ by at most {worst:.3g} from the printed algorithm."
    return judge(name, statement, worst, STEP_ROUNDING, sentence)


def equal_rates_step(
    f: Objective, thetas: Sequence[FullGaussian], alpha: float, *, size: int, seed: int, claimed: float | None = None
) -> Report:
    """η_m = η_C = α/σ₁(Z), the example after eq:asmc: one step of the engine and of the paper; `claimed` is c_mean."""
    method = ngd(c_mean=alpha, c_cov=2 * alpha)
    worst = _largest_difference(method, f, thetas, size, seed, 2 * alpha, alpha if claimed is None else claimed)
    statement = "one step of ngd(c_mean=α, c_cov=2α) = steps 1 to 11 with η_m = η_C = α/σ₁(Z)"
    sentence = f"{len(thetas)} steps at α = {alpha:g}, n = {size} differ by at most {worst:.3g}."
    return judge("NGD step, η_m = η_C", statement, worst, STEP_ROUNDING, sentence)


def equal_rates_run(alpha: float, seed: int, method: Method | None = None) -> Report:
    """With η_m = η_C = α/σ₁(Z) ‖m‖ and ‖C‖ shrink alike, by 1 − α from C = A⁻¹: thm:rate for the stochastic algorithm.

    The value is the ratio of the two exponents over a few steps of large samples, before m reaches the noise, and its
    window is Student's. The exponents themselves are below log(1 − α), as σ₁(Z) is above λ₁ by less than the edge of
    the semicircle says.
    """
    d, size, steps, trials = 3, 20_000, 5, 12
    method = ngd(c_mean=alpha, c_cov=2 * alpha) if method is None else method
    root, noise = random_hessian_root(np.random.default_rng(seed), d, 30.0), np.random.default_rng(seed)
    inverse = np.tile(solve(root, np.eye(d)), (trials, 1, 1))
    start = FullGaussian.start(inverse @ np.full(d, d**-0.5), np.ones((trials, d)), inverse)
    state = method.init(start, size)
    for _ in range(steps):
        sample = method.ask(state, noise, size)
        state, _ = method.tell(state, sample, np.sum(np.square(sample.x @ root.T), axis=-1))
    shrunk = [norm(state.theta) - norm(start) for norm in (log_mean_distance, log_covariance_norm)]
    ratio, half = shrunk[0] / shrunk[1], half_width(shrunk[0] / shrunk[1], FALSE_ALARM)
    share = float(np.mean(shrunk[1])) / (steps * log1p(-alpha))
    least = log1p(-alpha * large_sample_pull(d, size)) / log1p(-alpha)
    sentence = (
        f"In {steps} steps of {size} points ‖m‖ shrinks {np.mean(ratio):.4f} times as fast as ‖C‖, and that at "
        f"{share:.3f} of log(1 − α); at least {least:.3f} is expected."
    )
    statement = "η_m = η_C = α/σ₁(Z), from C = A⁻¹: ‖m‖ and ‖C‖ shrink alike, by nearly 1 − α"
    return judge(
        *("rates, η_m = η_C", statement, float(np.mean(ratio)), (1 - half, 1 + half), sentence), also=least < share < 1
    )


def _largest_difference(
    method: Method, f: Objective, thetas: Sequence[FullGaussian], size: int, seed: int, c_cov: float, c_mean: float
) -> float:
    """Between a step of the engine and the printed one, from each θ."""
    differences: list[float] = []
    for index, theta in enumerate(thetas):
        sample = theta.sample(np.random.default_rng(seed + index), size)
        printed = printed_ngd_step(theta, sample.z, f(sample.x), c_cov, c_mean)
        differences.append(whitened_difference(final_theta(method, f, theta, size, 1, seed + index), *printed))
    return max(differences)


def rank_mu_step(
    f: Objective, thetas: Sequence[FullGaussian], *, size: int, seed: int, name: str = "rank-mu step"
) -> Report:
    """One step of `rank_mu()` from each θ is the paper's rank-µ CMA-ES with its rates."""
    differences: list[float] = []
    for index, theta in enumerate(thetas):
        sample = theta.sample(np.random.default_rng(seed + index), size)
        printed = printed_rank_mu_step(theta, sample.z, f(sample.x))
        differences.append(whitened_difference(final_theta(rank_mu(), f, theta, size, 1, seed + index), *printed))
    statement = "one step of rank_mu() = eq:intermediate with η_m = 1 and the rate of Hansen and Kern"
    worst = max(differences)
    sentence = f"{len(thetas)} steps at d = {thetas[0].dimension}, n = {size} differ by at most {worst:.3g}."
    return judge(name, statement, worst, STEP_ROUNDING, sentence)


def hansen_kern(settings: Sequence[tuple[int, int]], seed: int, method: Method | None = None) -> Report:
    """η_C of rank-µ, as read off its steps at some (d, n), is min(1, (2µ − 1)/((d + 2)² + µ)) with µ = ⌊n/4⌋."""
    method, deviations = rank_mu() if method is None else method, list[float]()
    for d, n in settings:
        theta, mu = FullGaussian.start(np.zeros(d), np.ones(d)), n // 4
        sample = theta.sample(np.random.default_rng(seed), n)
        values = sample.x[:, 0] + np.vecdot(sample.x, sample.x)
        best = sample.x[np.argsort(values)[:mu]]
        state, _ = method.tell(method.init(theta, n), sample, values)
        away = best.T @ best / mu - np.eye(d)
        measured = float(np.sum((state.theta.cov - np.eye(d)) * away) / np.sum(away * away))
        deviations.append(abs(measured / min(1.0, (2 * mu - 1) / ((d + 2) ** 2 + mu)) - 1))
    statement = "η_C of rank_mu() = min(1, (2µ_w − 1)/((d + 2)² + µ_w)), µ_w = ⌊n/4⌋"
    sentence = f"For (d, n) = {', '.join(map(str, settings))} the rates differ by at most {max(deviations):.2g}."
    return judge("Hansen-Kern rate", statement, max(deviations), STEP_ROUNDING, sentence)


def no_step_without_ranks(theta: FullGaussian, size: int, seed: int, method: Method | None = None) -> Report:
    """If all values are equal, V̂ − b is 0 for every point, and θ stays; 1/σ₁(Z) would be infinite."""
    after = final_theta(ngd() if method is None else method, lambda x: np.zeros(len(x)), theta, size, 3, seed)
    change = max(float(np.max(np.abs(after.mean - theta.mean))), float(np.max(np.abs(after.cov - theta.cov))))
    sentence = f"After 3 samples of {size} equal values θ has changed by {change:.3g}."
    return judge("NGD plateau", "equal values: Σ w = 0, Z = 0, no step", change, 0.0, sentence)


def restricted_step(theta: IsotropicGaussian | DiagonalGaussian, size: int, seed: int) -> Report:
    """A step of NGD with C = vI or C diagonal divides by σ₁ of the whole Z and keeps tr(Z)/d or the diagonal of Z."""
    rng, d = np.random.default_rng(seed), theta.dimension
    root = random_hessian_root(rng, d, 30.0)
    sample = theta.sample(np.random.default_rng(seed), size)
    values = np.sum(np.square(sample.x @ root.T), axis=-1)
    full = FullGaussian.start(theta.mean, theta.deviations)
    mean, cov = printed_ngd_step(full, sample.z, values, 0.2)
    method = ngd(c_cov=0.2)
    state, _ = method.tell(method.init(theta, size), sample, values)
    isotropic = method_prefix(theta) == "iso-"
    variances = np.full(d, np.mean(np.diagonal(cov))) if isotropic else np.diagonal(cov)
    differences = (state.theta.mean - mean, np.square(state.theta.deviations) - variances)
    worst = max(float(np.max(np.abs(difference))) for difference in differences)
    name = "isotropic step" if isotropic else "diagonal step"
    part = "C = vI: a step takes tr(Z)/d" if isotropic else "C diagonal: a step takes the diagonal"
    sentence = f"At d = {d}, n = {size} the steps differ by {worst:.3g}."
    return judge(name, f"{part} of the printed one, over σ₁ of the whole Z", worst, STEP_ROUNDING, sentence)
