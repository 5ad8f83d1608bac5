"""Remarks of the text that no theorem covers, as checks by sampling: V̂ far away, the baseline, recombination, the
standard CMA-ES, IGO, E[V²] = ∞, exchange of integral and differentiation, and the final Cond(CA) of figure 3.

Windows allow for five standard errors of what is sampled, or more.
"""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np
from scipy.special import gammainc, gammaincinv

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.ordering import ranking
from sublevel.engine.recipes import cma, ngd, rank_mu
from sublevel.engine.weights import LogLinear, Volume
from sublevel.engine.weights.quantile import Scheme
from sublevel.paper.theory.intervals import FALSE_ALARM, half_width
from sublevel.paper.theory.quadratic import log_volume_of_unit_set
from sublevel.paper.theory.report import Report, judge
from sublevel.paper.theory.sampled import log_log_slope
from sublevel.paper.theory.special import Objective
from sublevel.paper.theory.stationary import ACCURACY, stationary_law

STANDARD_ERRORS = 5.0
"""Half width of windows, in standard errors: one false alarm in a million."""
SETTLED = 6.0
"""Times in which C shrinks by a factor e after which Cond(CA) is stationary."""
NAMES = {
    "ngd": ("ngd", "NGD with c_C = 0.14"),
    "ngd-mirrored-orthogonal": ("pairs", "NGD with c_C = 0.14 and mirrored orthogonal points"),
    "rank-mu": ("rank-mu", "rank-µ"),
}
"""Methods in the names and in the statements of rows on the final Cond(CA)."""


def mean_cost(f: Objective, deviation: float, d: int, size: int, seed: int) -> float:
    """J = E Leb{f ≤ f(X)}^(2/d) under N(0, deviation²·I), the volumes counted among points of the cube [−2, 2]^d."""
    rng = np.random.default_rng(seed)
    everywhere = np.sort(f(rng.uniform(-2.0, 2.0, (size, d))))
    inside = np.searchsorted(everywhere, f(deviation * rng.standard_normal((size, d))), side="right")
    return float(np.mean((4.0**d * inside / size) ** (2 / d)))


def infimum(seed: int, radius: float = 1.0, d: int = 2, size: int = 100_000) -> Report:
    """inf J = 0 at m = x*, C = 0, section 2.2, needs Leb{f ≤ f(x)} → 0 as x → x*.

    Every sublevel set of f = max(‖x‖², r²) has the ball of this radius, whatever θ is. The value is J close to x* over
    Leb(ball)^(2/d); it would be 0, as it is for ‖x‖².
    """

    def plateau(x: Array) -> Array:
        return np.maximum(np.vecdot(x, x), radius**2)

    def sphere(x: Array) -> Array:
        return np.vecdot(x, x)

    ball = float(np.exp(log_volume_of_unit_set(np.eye(d))))
    flat, round_ = (mean_cost(f, 1e-3, d, size, seed) / ball ** (2 / d) for f in (plateau, sphere))
    error = 2 / d * sqrt((4.0**d / ball - 1) / size)
    sentence = f"Under N(x*, 10⁻⁶I) J is {flat:.4f} of Leb(unit ball)^(2/d), and {round_:.2g} of it for ‖x‖²."
    statement = "f = max(‖x‖², 1): J ≥ Leb(unit ball)^(2/d) > 0 for every θ, while inf J = 0 for ‖x‖²"
    bound = 1 - STANDARD_ERRORS * error, 1 + STANDARD_ERRORS * error
    return judge("infimum of J", statement, flat, bound, sentence, also=round_ < 1e-3)


def log_growth(d: int, power: int) -> float:
    """The part from ‖z‖ = 40 to 80 of the integral E (1/p(X))^(2·power/d), over that from 20 to 40, its logarithm.

    It is negative where E is finite: up to a constant 1/p is exp(‖z‖²/2), and E exp(q‖z‖²/2) = (1 − q)^(−d/2) for
    q < 1 only.
    """
    parts: list[float] = []
    for low in (20.0, 40.0):
        r = np.linspace(low, 2 * low, 20_001)
        logs = (d - 1) * np.log(r) - 0.5 * (1 - 2 * power / d) * np.square(r)
        parts.append(float(np.logaddexp.reduce(logs)) + float(np.log(low)))
    return parts[1] - parts[0]


def own_volume(seed: int, claimed: tuple[int, int] = (2, 4)) -> Report:
    """The proof of prop:consistency applies the law of large numbers to sup |hⱼ(Xᵢ)|, j ≥ m, and to its square.

    For j ≥ i the volume V̂ⱼ(Xᵢ) has the point's own term 1/(j·p(Xᵢ)), so that |hⱼ(Xᵢ)| + V(Xᵢ) ≥ (j·p(Xᵢ))^(−2/d). This
    has the expectation j^(−2/d)∫p^(1 − 2/d), which is infinite for d ≤ 2, and its square that of ∫p^(1 − 4/d), for
    d ≤ 4. The proposition does not fail by it: the mean of all own terms, n^(−1 − 2/d) Σ p(Xᵢ)^(−2/d), falls like 1/n,
    up to a logarithm, for d ≤ 2, and like n^(−2/d) beyond. The value is this exponent, measured at d = 2, where the
    logarithm of n makes it at most 1/log n larger. `claimed` are the largest d with an infinite expectation.
    """
    sizes, trials, d = (1_000, 8_000, 64_000), 24, 2
    infinite = [[log_growth(dimension, power) > 0 for dimension in range(1, 9)] for power in (1, 2)]
    expected = [[dimension <= largest for dimension in range(1, 9)] for largest in claimed]
    noise = np.random.default_rng(seed)
    means: list[Array] = []
    for size in sizes:
        z = noise.standard_normal((trials, size, d))
        means.append(size ** (-2 / d) * np.mean(np.exp(np.vecdot(z, z) / d), axis=-1))
    slope = log_log_slope(sizes, np.array(means), FALSE_ALARM)
    tails = f"infinite mean up to d = {sum(infinite[0])}, an infinite mean square up to {sum(infinite[1])}"
    band = f"{slope.value:.3f} [{slope.low:.3f}, {slope.high:.3f}]"
    sentence = f"Own terms have an {tails}; their average falls like n^{band} at d = {d}."
    half = slope.high - slope.value
    statement = "in-sample E|hⱼ(Xᵢ)| = ∞ for d ≤ 2, E hⱼ(Xᵢ)² = ∞ for d ≤ 4; the mean own term still falls like 1/n"
    bound = -1 - half, -1 + 1 / log(sizes[0]) + half
    return judge("own volume", statement, slope.value, bound, sentence, also=infinite == expected)


def volume_errors(distance: float, size: int, trials: int, d: int, seed: int) -> Array:
    """log(V̂ᵢ/Vᵢ) (trials, n) of the points of samples at a Mahalanobis distance from the optimum of a sphere."""
    mean = np.zeros((trials, d))
    mean[:, 0] = distance
    theta = FullGaussian.start(mean, np.ones((trials, d)))
    sample = theta.sample(np.random.default_rng(seed), size)
    values = np.vecdot(sample.x, sample.x)
    shares = np.log1p(Volume().cost(ranking(values), sample))
    log_density_at_mean = theta.log_density(theta.mean[..., None, :])[..., 0]
    log_total = np.logaddexp.reduce(sample.surprise, axis=-1) - np.log(size) - log_density_at_mean
    exact = 2.0 / d * float(log_volume_of_unit_set(np.eye(d))) + np.log(values)
    return shares + 2.0 / d * log_total[:, None] - exact


def distant_volumes(d: int, sizes: tuple[int, int], distance: float, seed: int) -> Report:
    """V̂ is far from exact at a large Mahalanobis distance, the more so for a small sample: section 4.1.

    The value is the root mean square of log(V̂/V) far away over that at the optimum, for the larger sample.
    """
    small, large = sizes
    errors = {
        (at, size): sqrt(float(np.mean(np.square(volume_errors(at, size, 20, d, seed)))))
        for at in (0.0, distance)
        for size in sizes
    }
    worse = errors[distance, large] / errors[0.0, large]
    sentence = (
        f"Root mean square of log(V̂/V): {errors[0.0, large]:.3g} at the optimum and {errors[distance, large]:.3g} at "
        f"{distance:g} deviations for n = {large}; {errors[0.0, small]:.3g} and {errors[distance, small]:.3g} for "
        f"n = {small}."
    )
    statement = "V̂ is far from V at a large Mahalanobis distance, most for a small sample"
    smaller_is_worse = errors[distance, small] > errors[distance, large] > 1.0
    return judge("V̂ from afar", statement, 1 / worse, 0.1, sentence, also=smaller_is_worse)


def exact_estimates(d: int, size: int, trials: int, seed: int) -> tuple[Array, Array]:
    """Estimates (trials, d, d) of the covariance part from V = ‖z‖², with the sample's baseline and without one."""
    sample = FullGaussian.start(np.zeros((trials, d)), np.ones((trials, d))).sample(np.random.default_rng(seed), size)
    cost = np.vecdot(sample.x, sample.x)
    centred = cost - np.mean(cost, axis=-1, keepdims=True)

    def estimate(weights: Array) -> Array:
        total = np.sum(weights, axis=-1)[:, None, None]
        return ((sample.z * weights[..., None]).mT @ sample.z - total * np.eye(d)) / size

    return estimate(centred), estimate(cost)


def baseline_variance(d: int, size: int, trials: int, seed: int) -> Report:
    """The baseline b = mean V̂ lowers the variance of the estimate: section 2.2, after Greensmith et al.

    At C = A⁻¹, m = x* with V = ‖z‖², each term V(zzᵀ − I) has the mean square E[V²‖zzᵀ − I‖²] without it, and
    E[(V − d)²‖zzᵀ − I‖²] with it: 0.34 of that at d = 5, n = 50, the part of the mean taken out.
    """
    with_it, without = exact_estimates(d, size, trials, seed)
    ratio = float(np.sum(np.var(with_it, axis=0)) / np.sum(np.var(without, axis=0)))
    sentence = (
        f"At d = {d}, n = {size} the variance with the baseline is {ratio:.4g} of that without, in {trials} trials."
    )
    return judge("baseline", "the baseline b lowers the variance of the estimate", ratio, 0.5, sentence)


def baseline_bias(d: int, size: int, trials: int, seed: int, claimed: float | None = None) -> Report:
    """The baseline of the same sample makes the estimate 1 − 1/n of the gradient; the paper says it adds no bias.

    E[(Vᵢ − V̄)sᵢ] = (1 − 1/n)E[V s], because E sᵢ = 0. The rates divide by σ₁(Z), where the factor cancels.
    """
    estimates: Array = np.einsum("tii->t", exact_estimates(d, size, trials, seed)[0]) / (2 * d)
    value, error = float(np.mean(estimates)), float(np.std(estimates)) / sqrt(trials)
    claimed = 1 - 1 / size if claimed is None else claimed
    bound = claimed - STANDARD_ERRORS * error, claimed + STANDARD_ERRORS * error
    sentence = f"With n = {size} points and the exact V the estimate is {value:.4f} ± {error:.4f} of the gradient."
    return judge(
        "baseline bias", "the in-sample baseline multiplies the expected estimate by 1 − 1/n", value, bound, sentence
    )


def shrinkage_of_igo(d: int) -> float:
    """1 − F_{d+2}(q)/¼, q the quartile of χ²_d: what the deterministic IGO with the best quarter takes of C, over η_C.

    At C = A⁻¹, m = x* the best quarter is ‖z‖² ≤ q, where E[zzᵀ] = F_{d+2}(q)/F_d(q)·I.
    """
    quartile = 2.0 * float(gammaincinv(d / 2, 0.25))
    return 1.0 - float(gammainc(d / 2 + 1, quartile / 2)) / 0.25


def deterministic_igo(d: int, size: int, seed: int, rate: float = 0.5, claimed: float | None = None) -> Report:
    """The rank-µ step for n → ∞ is the deterministic IGO step, section 2.3: at C = A⁻¹ it shrinks C by η_C·s_d."""
    theta, method = FullGaussian.start(np.zeros(d), np.ones(d)), rank_mu(c_cov=rate)
    sample = theta.sample(np.random.default_rng(seed), size)
    state, _ = method.tell(method.init(theta, size), sample, np.vecdot(sample.x, sample.x))
    value = (1 - float(np.trace(state.theta.cov)) / d) / rate
    selected = np.sort(np.vecdot(sample.x, sample.x))[: size // 4] / d
    error = float(np.std(selected)) / sqrt(size // 4) + 0.5 * float(selected[-1] - np.mean(selected)) / sqrt(size // 4)
    claimed = shrinkage_of_igo(d) if claimed is None else claimed
    bound = claimed - STANDARD_ERRORS * error, claimed + STANDARD_ERRORS * error
    sentence = f"A step with n = {size} takes {value:.5f}·η_C of C at d = {d}; the limit takes {claimed:.5f}·η_C."
    statement = "rank-µ for n → ∞: C shrinks by η_C(1 − F_{d+2}(q)/¼) at C = A⁻¹, deterministic IGO"
    return judge("deterministic IGO", statement, value, bound, sentence)


def fixed_cost(d: int, size: int, seed: int) -> Report:
    """V(x) does not depend on θ, and the quantile does: the difference from IGO, section 2.3.

    The cost of the point x = (1, …, 1) is estimated under N(0, I) and under N(0, 4I). The value is |log| of the ratio
    of V; the quantiles differ by much more.
    """
    point = np.ones(d)
    volumes: list[float] = []
    quantiles: list[float] = []
    for deviation in (1.0, 2.0):
        theta = FullGaussian.start(np.zeros(d), np.full(d, deviation))
        sample = theta.sample(np.random.default_rng(seed), size)
        inside = np.vecdot(sample.x, sample.x) <= point @ point
        volumes.append(float(np.mean(np.where(inside, np.exp(-theta.log_density(sample.x)), 0.0))))
        quantiles.append(int(np.count_nonzero(inside)) / size)
    moved, quantile_moved = (abs(float(np.log(two / one))) * 2 / d for one, two in (volumes, quantiles))
    sentence = f"Between N(0, I) and N(0, 4I) log V changes by {moved:.3g}, log quantile^(2/d) by {quantile_moved:.3g}."
    statement = "the volume cost of a point is the same under every θ, its quantile is not"
    return judge("fixed cost", statement, moved, 0.1, sentence, also=quantile_moved > 0.5)


def iterations_to(method: Method, size: int, trials: int, target: float, seed: int, d: int) -> Array:
    """Iterations (trials,) until the best point of a sample on an ellipsoid of condition 100 is below a target."""
    scales = np.geomspace(1.0, 100.0, d)
    state = method.init(FullGaussian.start(np.ones((trials, d)), np.ones((trials, d))), size)
    noise, found = np.random.default_rng(seed), np.full(trials, np.inf)
    for iteration in range(1, 2000):
        sample = method.ask(state, noise, size)
        values = np.square(sample.x) @ scales
        state, _ = method.tell(state, sample, values)
        found = np.minimum(found, np.where(np.min(values, axis=-1) <= target, iteration, np.inf))
        if np.all(np.isfinite(found)):
            break
    return found


def recombination(seed: int, other: Scheme | None = None, size: int = 40, trials: int = 12, d: int = 10) -> Report:
    """Weighted recombination is only slightly better than intermediate one, section 4.2: iterations on an ellipsoid.

    Each has the rate of Hansen and Kern for its own µ_w. The value is the ratio of the mean iterations. `other` are
    weights to test instead of the log-linear ones.
    """
    schemes = LogLinear() if other is None else other, None
    times = [iterations_to(rank_mu(scheme=scheme), size, trials, 1e-4, seed, d) for scheme in schemes]
    weighted, intermediate = (float(np.mean(some)) for some in times)
    ratio = weighted / intermediate
    sentence = f"Iterations to 1e-4 at d = {d}, n = {size}: weighted {weighted:.1f}, intermediate {intermediate:.1f}."
    statement = "weighted recombination is only slightly better than eq:intermediate"
    return judge("recombination", statement, ratio, (0.75, 0.99), sentence)


def standard_cma(seed: int, other: Method | None = None, trials: int = 12, d: int = 10) -> Report:
    """The standard CMA-ES performs better than the pure rank-µ update, section 4.2: iterations on an ellipsoid.

    Both have samples of the same size, of independent points. The value is the largest ratio of the mean iterations.
    `other` is a method to test instead of the standard CMA-ES.
    """
    standard, sizes = cma(sampling="independent") if other is None else other, (20, 100)
    means = [
        [float(np.mean(iterations_to(method, size, trials, 1e-4, seed, d))) for method in (standard, rank_mu())]
        for size in sizes
    ]
    parts = [f"{mine:.1f} and {pure:.1f} for n = {size}" for size, (mine, pure) in zip(sizes, means, strict=True)]
    sentence = f"Iterations to 1e-4 at d = {d}, standard and pure: {', '.join(parts)}."
    statement = "the standard CMA-ES needs fewer iterations than the pure rank-µ CMA-ES"
    return judge("standard CMA-ES", statement, max(mine / pure for mine, pure in means), 0.9, sentence)


def log_fast_cost(t: Array) -> Array:
    """log V = 2 log(2t + g) of the sublevel sets [−t − g(t), t] on the line, g = (exp(t²/4) − 1)/(1 + t²), t > 0.

    f(x) = x for x ≥ 0 and f(−t − g(t)) = t have these sets, because g increases. V(−s) ≤ 4s² on the left.
    """
    log_g = np.square(t) / 4 + np.log1p(-np.exp(-np.square(t) / 4)) - np.log1p(np.square(t))
    return 2.0 * np.logaddexp(np.log(2.0 * t), log_g)


def exchange(deviation: float = 1.0, wider: float = 1.1) -> Report:
    """E‖V∇̃l‖ < ∞, eq:propasm1, at one θ does not allow to differentiate J under the integral, as the text remarks.

    Under N(0, 1) the integrand V·(1 + x²) of `log_fast_cost` falls like x⁻², so that E V and E‖V∇̃l‖ are finite. Under
    every wider normal distribution E V = ∞: J is finite on one side of θ only. If E V, eq:propasm2, is finite around θ,
    J is analytic there, as an integral over an exponential family. The value is the part of the integral from 40 to 80
    over that from 20 to 40: 1/2 for the tail 1/x, above 1 if there is no limit.
    """

    def growth(sigma: float) -> float:
        """The logarithm of that ratio for N(0, σ²)."""
        parts: list[float] = []
        for low in (20.0, 40.0):
            t = np.linspace(low, 2 * low, 20_001)
            logs = log_fast_cost(t) + np.log1p(np.square(t)) - 0.5 * np.square(t / sigma)
            parts.append(float(np.logaddexp.reduce(logs)) + float(np.log(low)))
        return parts[1] - parts[0]

    value, log_wider = float(np.exp(growth(deviation))), growth(wider)
    sentence = (
        f"From 40 to 80 the integral of V(1 + x²) has {value:.3f} of that from 20 to 40 under N(0, {deviation**2:g}), "
        f"and exp({log_wider:.0f}) of it under N(0, {wider**2:.2f})."
    )
    statement = "E‖V∇̃l‖ < ∞ at θ alone is not sufficient for eq:grad: E V = ∞ for every wider C"
    return judge("exchange", statement, value, (0.45, 0.55), sentence, also=log_wider > 0)


def heavy_cost(t: Array, tail: float) -> Array:
    """V = length² of the sublevel sets [1 − exp(t²/tail), t], t ≥ 0, on the line.

    f(x) = x for x ≥ 0 and f(1 − s) = √(tail·log s) for s ≥ 1 have these sets. E V is finite for tail > 4 under N(0, 1),
    E V² for tail > 8 only.
    """
    return np.square(t + np.expm1(np.square(t) / tail))


def infinite_variance(tail: float, seed: int) -> Report:
    """Without E[V²] < ∞, eq:propasm3, estimates still converge, but more slowly than n^(−1/2).

    V(t) ~ exp(2t²/tail) has the tail index tail/4 under N(0, 1). If it is below 2, the error of the mean of n values
    falls like n^(−(1 − 4/tail)) up to logarithms, which at these n make it somewhat faster; for tail ≤ 4 there is no J.
    """
    sizes, trials = (500, 2_000, 8_000), 400
    noise = np.random.default_rng(seed)
    exact = _expected_heavy_cost(tail)
    blocks = heavy_cost(np.abs(noise.standard_normal(sum(sizes) * trials)), tail)
    means = [np.mean(block.reshape(trials, -1), axis=1) for block in np.split(blocks, np.cumsum(sizes)[:-1] * trials)]
    slope = log_log_slope(sizes, np.abs(np.array(means) - exact))
    sentence = (
        f"E V = {exact:.4g}; the error of its estimate falls like n^{slope.value:.3f} for n = {sizes[0]} … {sizes[-1]}."
    )
    statement = "E[V²] = ∞: the estimate converges slower than n^(−1/2)"
    return judge("E[V²] = ∞", statement, slope.value, (-0.4, 0.15), sentence)


def _expected_heavy_cost(tail: float) -> float:
    """E V of `heavy_cost` for t = |N(0, 1)| by the trapezoidal rule, whose error is far below that of samples."""
    t = np.linspace(0.0, 40.0, 400_001)
    log_density = -0.5 * np.square(t)
    grown = np.exp(2 * np.square(t) / tail + log_density)
    rest = (2 * (t - 1) * np.exp(np.square(t) / tail + log_density)) + np.square(t - 1) * np.exp(log_density)
    return float(np.trapezoid((grown + rest) * sqrt(2 / np.pi), t))


def stationary_conditions(method: Method, d: int, size: int, trials: int, steps: int, seed: int) -> Array:
    """Cond(CA) (trials,) after some steps from C = A⁻¹; by invariance on the sphere.

    They start from m = (1, …, 1), because of mirrored points the mean would never leave m = x*.
    """
    state = method.init(FullGaussian.start(np.ones((trials, d)), np.ones((trials, d))), size)
    noise = np.random.default_rng(seed)
    for _ in range(steps):
        sample = method.ask(state, noise, size)
        state, _ = method.tell(state, sample, np.vecdot(sample.x, sample.x))
    axes = state.theta.principal_axes()
    return np.square(axes[..., 0] / axes[..., -1])


def final_condition(method: Method, seed: int, claimed: Method | None = None) -> Report:
    """Cond(CA) at the end of a run at d = n = 20, as in figure 3, is what the stationary law of the method predicts.

    The window allows for `ACCURACY` of the prediction and for chance, by Student's t because the deviation is that of
    the same trials. `claimed` is a method whose law is claimed instead.
    """
    law, trials = stationary_law(method if claimed is None else claimed, 20, 20), 24
    conditions = stationary_conditions(method, 20, 20, trials, ceil(SETTLED / -law.exponent), seed)
    value, half = float(np.mean(conditions)), ACCURACY * law.condition + half_width(conditions, FALSE_ALARM)
    deviation = float(np.std(conditions, ddof=1))
    row, name = NAMES[method.name]
    sentence = (
        f"{name}: {value:.3f}, standard deviation {deviation:.3f} of {trials} trials; theory {law.condition:.3f}."
    )
    statement = f"n = d = 20, as in figure 3: the final Cond(CA) of {name} is the predicted {law.condition:.3f}"
    return judge(f"final Cond {row}", statement, value, (law.condition - half, law.condition + half), sentence)


def noise_shrinks(d: int, size: int, samples: int, seed: int) -> Report:
    """On pure noise NGD shrinks C, because a point's own volume enters its own cost; rank-µ does not."""
    changes: dict[str, Array] = {}
    for method in (ngd(), rank_mu(c_cov=0.1)):
        noise = np.random.default_rng(seed)
        state = method.init(FullGaussian.start(np.zeros((samples, d)), np.ones((samples, d))), size)
        sample = method.ask(state, noise, size)
        state, _ = method.tell(state, sample, noise.standard_normal((samples, size)))
        changes[method.name] = np.mean(np.square(state.theta.deviations), axis=-1) - 1
    value = float(np.mean(changes["ngd"]))
    ours, theirs = (float(np.mean(change) / (np.std(change) / sqrt(samples))) for change in changes.values())
    sentence = (
        f"Variances change by {100 * value:.3f} % in a step of NGD, {ours:.1f} standard errors, and by {theirs:.1f} "
        "standard errors in a step of rank-µ."
    )
    statement = "values that are pure noise shrink C under NGD, not under rank-µ (standard errors)"
    return judge("noise shrinks C", statement, ours, -STANDARD_ERRORS, sentence, also=abs(theirs) < STANDARD_ERRORS)
