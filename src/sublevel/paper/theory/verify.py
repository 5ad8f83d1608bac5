"""`sublevel verify`: every proposition, theorem and numbered rate of the paper, checked in seconds."""

from __future__ import annotations

from itertools import islice

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family, FullGaussian
from sublevel.engine.recipes import ngd
from sublevel.engine.tangent import Tangent
from sublevel.paper.theory import checks, sampled, special
from sublevel.paper.theory.exact import PseudoRates, deterministic_ngd
from sublevel.paper.theory.measure import condition_number
from sublevel.paper.theory.quadratic import random_hessian_root
from sublevel.paper.theory.report import Report, all_passed, render, to_json

__all__ = ["DEFAULT_SEED", "Report", "all_passed", "render", "run_checks", "to_json"]

DEFAULT_SEED = 2012
DIMENSION = 5
ALPHA = 0.05
"""c_C/2 for the paper's c_C = 0.1."""


def run_checks(seed: int = DEFAULT_SEED) -> list[Report]:
    """All checks on problems drawn from a seed, in the order of the paper; the same seed gives the same reports."""
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(6)]
    groups = (_positivity, _sampled, _condition, _rates, _restricted, _engine)
    return [report for group, child in zip(groups, seeds, strict=True) for report in group(child)]


def _problem(seed: int, condition: float) -> tuple[Array, FullGaussian, np.random.Generator]:
    """The Hessian root of a rotated ellipsoid, a Gaussian with an independent covariance, and the generator."""
    rng = np.random.default_rng(seed)
    hessian_root = random_hessian_root(rng, DIMENSION, condition)
    root = random_hessian_root(rng, DIMENSION, 100.0)
    return hessian_root, FullGaussian.start(rng.standard_normal(DIMENSION), np.ones(DIMENSION), root), rng


def _positivity(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 1e3)

    def estimate(at: Family) -> Tangent:
        return sampled.estimated_natural_gradient(at, hessian_root, rng.standard_normal((100, DIMENSION)))

    fractions = [*rng.uniform(0, 1, size=30), 0.999]
    return [checks.positivity(theta, estimate, fractions), checks.positivity_limit(theta, estimate(theta))]


def _sampled(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 100.0)
    mild = random_hessian_root(rng, DIMENSION, 1.5)  # the n^{-1/2} law needs Cond(CA) < 2, see `consistency`
    near = FullGaussian.start(0.2 * rng.standard_normal(DIMENSION), np.ones(DIMENSION))
    return [
        sampled.consistency(near, mild, [1000, 2000, 4000, 8000, 16000, 32000], 40, seed),
        sampled.natural_gradient_of_mean(theta, hessian_root, 100_000, seed),
        sampled.natural_gradient_of_covariance(theta, hessian_root, 100_000, seed),
    ]


def _condition(seed: int) -> list[Report]:
    hessian_root = random_hessian_root(np.random.default_rng(seed), DIMENSION, 1e6)
    theta = FullGaussian.start(np.zeros(DIMENSION), np.ones(DIMENSION))
    path = islice(deterministic_ngd(theta, hessian_root, PseudoRates(1.0, ALPHA)), 700)
    conditions = np.array([float(condition_number(at, hessian_root)) for at in path])
    statements = (checks.condition_bound, checks.condition_limit, checks.condition_equality, checks.erratum)
    return [check(conditions, ALPHA) for check in statements]


def _rates(seed: int) -> list[Report]:
    hessian_root, theta, _ = _problem(seed, 1e3)
    before, after = islice(deterministic_ngd(theta, hessian_root, PseudoRates(0.3, 0.2)), 90, 92)
    return [
        checks.mean_rate(before, after, hessian_root, 0.3),
        checks.covariance_rate(before, after, hessian_root, 0.2),
    ]


def _restricted(seed: int) -> list[Report]:
    hessian_root, theta, _ = _problem(seed, 1e3)
    return [
        checks.isotropic_rate(hessian_root, 0.5),
        checks.diagonal_target(hessian_root, 0.5, theta.deviations),
        checks.diagonal_rate(hessian_root, 0.5),
    ]


def _engine(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 100.0)
    matrix, shift = random_hessian_root(rng, DIMENSION, 100.0), rng.standard_normal(DIMENSION)
    costs, probabilities = rng.standard_normal(DIMENSION), rng.uniform(0.2, 0.8, DIMENSION)

    def quadratic(x: Array) -> Array:
        return np.sum(np.square(x @ hessian_root.T), axis=-1)

    return [
        special.monotone_invariance(ngd(c_cov=0.5), quadratic, np.sqrt, theta, size=25, steps=60, seed=seed),
        special.affine_invariance(ngd(c_cov=0.5), quadratic, theta, matrix, shift, size=25, steps=60, seed=seed),
        special.rank_mu_case(quadratic, theta, size=40, seed=seed, eta_mean=0.9, eta_cov=0.2),
        special.pbil_case(lambda bits: bits @ costs, probabilities, size=40, seed=seed, rate=0.1),
    ]
