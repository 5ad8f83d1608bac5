"""Checks on the engine itself: its invariances, and the algorithms it contains as special cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Bernoulli, Family, FullGaussian
from sublevel.engine.method import Method, natural_gradient
from sublevel.engine.recipes import pbil, rank_mu
from sublevel.engine.tangent import Weighting
from sublevel.paper.theory.manifold import Manifold
from sublevel.paper.theory.report import Report, judge

Objective = Callable[[Array], Array]
"""Points (n, d) to values (n,)."""


def final_theta(method: Method, objective: Objective, theta: Family, size: int, steps: int, seed: int) -> Manifold:
    """θ after some iterations of the engine."""
    noise, state = np.random.default_rng(seed), method.init(theta, size)
    for _ in range(steps):
        sample = method.ask(state, noise, size)
        state, _ = method.tell(state, sample, objective(sample.x))
    return cast(Manifold, state.theta)


def monotone_invariance(
    method: Method, objective: Objective, increasing: Objective, theta: Family, *, size: int, steps: int, seed: int
) -> Report:
    """The run on g∘f is the run on f, bit for bit, for a strictly increasing g."""
    plain = final_theta(method, objective, theta, size, steps, seed)
    composed = final_theta(method, lambda x: increasing(objective(x)), theta, size, steps, seed)
    difference = float(np.max(np.abs(composed.coordinates - plain.coordinates)))
    sentence = f"After {steps} steps of {method.name} the parameters differ by {difference:.3g}."
    return judge("invariance g", "the path on g∘f is the path on f, g strictly increasing", difference, 0.0, sentence)


def affine_invariance(
    method: Method, f: Objective, theta: FullGaussian, matrix: Array, shift: Array, *, size: int, steps: int, seed: int
) -> Report:
    """The run on y ↦ f(By + b) from the image of θ is the image of the run on f, x = By + b."""
    inverse = np.linalg.inv(matrix)
    image = FullGaussian(inverse @ (theta.mean - shift), inverse @ theta.root, theta.scale)
    there = final_theta(method, f, theta, size, steps, seed)
    here = final_theta(method, lambda y: f(y @ matrix.T + shift), image, size, steps, seed)
    difference = whitened_difference(there, matrix @ here.mean + shift, matrix @ here.cov @ matrix.T)
    statement = "the path on f(By + b) is the image of the path on f"
    unit = "of a standard deviation or of a variance"
    sentence = f"After {steps} steps of {method.name} the two differ by {difference:.3g} {unit}."
    return judge("invariance affine", statement, difference, 1e-7, sentence)


def whitened_difference(theta: Family, mean: Array, cov: Array) -> float:
    """The largest entry of a mean and a covariance minus θ's, in θ's whitened frame."""
    deviations = theta.deviations
    root = np.linalg.cholesky(theta.cov / deviations / deviations[:, None])
    step = np.linalg.solve(root, (mean - theta.mean) / deviations)
    change = np.linalg.solve(root, np.linalg.solve(root, (cov - theta.cov) / deviations / deviations[:, None]).T)
    return float(max(np.max(np.abs(step)), np.max(np.abs(change))))


def natural_score(theta: Manifold, seed: int, claimed: float = 1.0) -> Report:
    """F·∇̃l = ∇l in the coordinates of a family, eq:fisher and eq:l-grad, along directions that stay in it.

    The right side is a central difference of log p(x) at some points; `claimed` multiplies the left one, to test it.
    """
    rng, worst = np.random.default_rng(seed), 0.0
    for x in theta.sample(rng, 5).x:
        tangent = natural_gradient(theta.whiten(x[None]), Weighting.from_weights(np.ones(1)))
        along = claimed * theta.fisher @ theta.velocity(tangent)
        move = theta.move(natural_gradient(rng.standard_normal((4, theta.dimension)), _small_weights(rng)))
        step = cast(Manifold, move.theta).coordinates - theta.coordinates
        there, back = (theta.at_coordinates(theta.coordinates + sign * 1e-4 * step) for sign in (1.0, -1.0))
        slope = float(there.log_density(x[None])[0] - back.log_density(x[None])[0]) / 2e-4
        worst = max(worst, abs(slope - float(along @ step)) / (1.0 + abs(slope)))
    name = type(theta).__name__.removesuffix("Gaussian").lower()
    sentence = f"Along random directions of the {name} family the two sides differ by at most {worst:.2g}."
    return judge(f"score {name}", f"{name} family: F·∇̃l(θ; x) = ∇l(θ; x)", worst, 1e-5, sentence)


def _small_weights(rng: np.random.Generator) -> Weighting:
    """Random weights of four points, small enough to stay in any family."""
    return Weighting.from_weights(0.02 * rng.standard_normal(4))


def rank_mu_case(
    f: Objective, theta: Family, *, size: int, seed: int, eta_mean: float, eta_cov: float, method: Method | None = None
) -> Report:
    """One step of the engine with the quantile cost is the pure rank-µ CMA-ES, written out with eq:intermediate."""
    method = rank_mu(c_mean=eta_mean, c_cov=eta_cov) if method is None else method
    x = theta.sample(np.random.default_rng(seed), size).x
    best = x[np.argsort(f(x))[: size // 4]] - theta.mean
    mean = theta.mean + eta_mean * np.mean(best, axis=0)
    cov = theta.cov + eta_cov * (best.T @ best / len(best) - theta.cov)
    difference = whitened_difference(final_theta(method, f, theta, size, 1, seed), mean, cov)
    formula = "m + η Σ wᵢ(xᵢ − m), C + η Σ wᵢ((xᵢ − m)(xᵢ − m)ᵀ − C)"
    sentence = f"One step of {method.name} and {formula} differ by {difference:.3g}."
    return judge("IGO rank-mu", "quantile cost on the Gaussian family = pure rank-µ CMA-ES", difference, 1e-9, sentence)


def pbil_case(
    objective: Objective, probabilities: Array, *, size: int, seed: int, rate: float, method: Method | None = None
) -> Report:
    """One step of the engine on bits is PBIL: p ← (1 − rate)·p + rate·(mean of the best quarter)."""
    method = pbil(rate=rate) if method is None else method
    theta = Bernoulli.start(probabilities)
    x = theta.sample(np.random.default_rng(seed), size).x
    best = x[np.argsort(objective(x))[: size // 4]]
    learned = (1 - rate) * theta.mean + rate * np.mean(best, axis=0)
    difference = float(np.max(np.abs(final_theta(method, objective, theta, size, 1, seed).mean - learned)))
    sentence = f"One step of {method.name} and (1 − η)p + η·(mean of the best) differ by {difference:.3g}."
    return judge("IGO PBIL", "quantile cost on the Bernoulli family = PBIL", difference, 1e-12, sentence)
