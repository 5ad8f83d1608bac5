"""`sublevel verify`: every proposition, theorem, rate and remark of the paper, checked in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Bernoulli, DiagonalGaussian, Family, FullGaussian, IsotropicGaussian
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.tangent import Tangent
from sublevel.paper.theory import attained, checks, remarks, sampled, special, steps
from sublevel.paper.theory.estimate_variance import WhitenedCost
from sublevel.paper.theory.exact import PseudoRates, deterministic_ngd
from sublevel.paper.theory.measure import condition_number
from sublevel.paper.theory.quadratic import random_hessian_root
from sublevel.paper.theory.report import Report, all_passed, render, to_json

__all__ = ["DEFAULT_SEED", "Report", "all_passed", "iterate_checks", "render", "run_checks", "to_json"]

DEFAULT_SEED = 2012
DIMENSION = 5
ALPHA = 0.05
"""c_C/2 for the paper's c_C = 0.1."""
MANY = 70
"""A dimension in which n < d points are handled by n×n matrices."""
SELECTIONS = ((2, 8), (5, 20), (10, 40), (20, 400), (3, 200), (2, 4000))
"""d and n at which the rate of Hansen and Kern is read off; at the last it is 1."""


def run_checks(seed: int = DEFAULT_SEED) -> list[Report]:
    """All checks on problems drawn from a seed, in the order of the paper; the same seed gives the same reports."""
    return list(iterate_checks(seed))


def iterate_checks(seed: int = DEFAULT_SEED) -> Iterator[Report]:
    """The reports of all checks, one after the other."""
    groups = (
        *(_fisher, _algorithm, _invariance, _positivity, _consistency, _natural_gradient),
        *(_condition, _rates, _restricted, _special_cases, _remarks, _samplings),
    )
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(len(groups))]
    for group, child in zip(groups, seeds, strict=True):
        yield from group(child)


def _problem(seed: int, condition: float) -> tuple[Array, FullGaussian, np.random.Generator]:
    """The Hessian root of a rotated ellipsoid, a Gaussian with an independent covariance, and the generator."""
    rng = np.random.default_rng(seed)
    hessian_root = random_hessian_root(rng, DIMENSION, condition)
    return hessian_root, _gaussian(rng, DIMENSION), rng


def _gaussian(rng: np.random.Generator, d: int) -> FullGaussian:
    return FullGaussian.start(rng.standard_normal(d), np.ones(d), random_hessian_root(rng, d, 100.0))


def _fisher(seed: int) -> list[Report]:
    _, theta, rng = _problem(seed, 100.0)
    mean, deviations = rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION)
    families = (
        _gaussian(rng, 3),
        DiagonalGaussian(mean, deviations),
        IsotropicGaussian.start(mean, deviations),
        Bernoulli.start(rng.uniform(0.2, 0.8, DIMENSION)),
    )
    return [
        remarks.infimum(seed),
        *(special.natural_score(family, seed) for family in families),
        sampled.score_length(theta, 100_000, seed),
    ]


def _algorithm(seed: int) -> list[Report]:
    hessian_root, _, rng = _problem(seed, 100.0)
    several = [_gaussian(rng, DIMENSION) for _ in range(5)]
    many = [_gaussian(rng, MANY) for _ in range(20)]
    mean, deviations = rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION)

    def quadratic(x: Array) -> Array:
        return np.sum(np.square(x @ hessian_root.T), axis=-1)

    def plateaus(x: Array) -> Array:
        return np.floor(4.0 * np.log(quadratic(x)))

    return [
        steps.ngd_step(quadratic, several, size=30, seed=seed),
        steps.ngd_step(plateaus, several, size=30, seed=seed, name="NGD step, ties"),
        steps.ngd_step(lambda x: np.vecdot(x, x), many, size=12, seed=seed, name="NGD step, n < d"),
        steps.equal_rates_step(quadratic, several, 0.3, size=30, seed=seed),
        steps.equal_rates_run(0.3, seed),
        steps.no_step_without_ranks(several[0], 20, seed),
        steps.restricted_step(IsotropicGaussian.start(mean, deviations), 30, seed),
        steps.restricted_step(DiagonalGaussian(mean, deviations), 30, seed),
        steps.rank_mu_step(plateaus, several, size=40, seed=seed),
        steps.rank_mu_step(lambda x: np.vecdot(x, x), many[:5], size=12, seed=seed, name="rank-mu step, n < d"),
        steps.hansen_kern(SELECTIONS, seed),
    ]


def _invariance(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 100.0)
    matrix, shift = random_hessian_root(rng, DIMENSION, 100.0), rng.standard_normal(DIMENSION)

    def quadratic(x: Array) -> Array:
        return np.sum(np.square(x @ hessian_root.T), axis=-1)

    return [
        special.monotone_invariance(ngd(c_cov=0.5), quadratic, np.sqrt, theta, size=25, steps=60, seed=seed),
        special.affine_invariance(ngd(c_cov=0.5), quadratic, theta, matrix, shift, size=25, steps=60, seed=seed),
    ]


def _positivity(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 1e3)

    def estimate(at: Family) -> Tangent:
        return sampled.estimated_natural_gradient(at, hessian_root, rng.standard_normal((100, DIMENSION)))

    fractions = [*rng.uniform(0, 1, size=30), 0.999]
    return [checks.positivity(theta, estimate, fractions), checks.positivity_limit(theta, estimate(theta))]


def _consistency(seed: int) -> list[Report]:
    rng = np.random.default_rng(seed)
    mild = random_hessian_root(rng, DIMENSION, 1.5)  # the n^{-1/2} law needs Cond(CA) < 2, see `consistency`
    near = FullGaussian.start(0.2 * rng.standard_normal(DIMENSION), np.ones(DIMENSION))
    return [
        sampled.consistency(near, mild, [1000, 2000, 4000, 8000, 16000, 32000], 40, seed),
        sampled.influence(float(rng.uniform(3.0, 5.0))),
        remarks.infinite_variance(4.5, seed),
        remarks.exchange(),
        remarks.own_volume(seed),
        remarks.baseline_variance(DIMENSION, 50, 4000, seed),
        remarks.baseline_bias(DIMENSION, 2, 40_000, seed),
    ]


def _natural_gradient(seed: int) -> list[Report]:
    hessian_root, theta, _ = _problem(seed, 100.0)
    return [
        sampled.expected_cost(theta, hessian_root, 100_000, seed),
        sampled.natural_gradient_of_mean(theta, hessian_root, 100_000, seed),
        sampled.natural_gradient_of_covariance(theta, hessian_root, 100_000, seed),
        sampled.missing_exponent(theta, hessian_root, 100_000, seed),
    ]


def _condition(seed: int) -> list[Report]:
    rng = np.random.default_rng(seed)
    hessian_root = random_hessian_root(rng, DIMENSION, 1e6)
    theta = FullGaussian.start(np.zeros(DIMENSION), np.ones(DIMENSION))
    path = islice(deterministic_ngd(theta, hessian_root, PseudoRates(1.0, ALPHA)), 700)
    conditions = np.array([float(condition_number(at, hessian_root)) for at in path])
    far, mild = random_hessian_root(rng, DIMENSION, attained.FAR), random_hessian_root(rng, DIMENSION, 1e3)
    return [
        attained.common_eigenvectors(_gaussian(rng, DIMENSION), mild, 0.3, 40),
        checks.condition_bound(conditions, ALPHA),
        attained.condition_bound_attained(far, 0.3),
        checks.condition_limit(conditions, ALPHA),
        attained.condition_limit_attained(conditions, ALPHA),
        checks.condition_equality(conditions, ALPHA),
        checks.erratum(conditions, ALPHA),
        attained.predicted_run(_gaussian(rng, DIMENSION), mild, 0.7, 0.2, 60),
        attained.predicted_iterations(hessian_root, ALPHA, 10.0),
    ]


def _rates(seed: int) -> list[Report]:
    hessian_root, theta, _ = _problem(seed, 1e3)
    before, after = islice(deterministic_ngd(theta, hessian_root, PseudoRates(0.3, 0.2)), 90, 92)
    return [
        checks.mean_rate(before, after, hessian_root, 0.3),
        checks.covariance_rate(before, after, hessian_root, 0.2),
        attained.norm_bound(theta, hessian_root, 0.4, 0.3, 40),
        attained.norm_bound_attained(hessian_root, 0.3),
        attained.objective_rate(theta, hessian_root, 0.4, 0.3, "rate of J"),
        attained.objective_rate(theta, hessian_root, 0.1, 0.3, "rate of J, slow m"),
        attained.adapted_rate(hessian_root, 0.3),
    ]


def _restricted(seed: int) -> list[Report]:
    hessian_root, theta, _ = _problem(seed, 1e3)
    return [
        checks.isotropic_rate(hessian_root, 0.5),
        checks.diagonal_target(hessian_root, 0.5, theta.deviations),
        attained.diagonal_limit_attained(hessian_root, 0.5, theta.deviations),
        checks.diagonal_rate(hessian_root, 0.5),
    ]


def _special_cases(seed: int) -> list[Report]:
    hessian_root, theta, rng = _problem(seed, 100.0)
    costs, probabilities = rng.standard_normal(DIMENSION), rng.uniform(0.2, 0.8, DIMENSION)

    def quadratic(x: Array) -> Array:
        return np.sum(np.square(x @ hessian_root.T), axis=-1)

    return [
        special.rank_mu_case(quadratic, theta, size=40, seed=seed, eta_mean=0.9, eta_cov=0.2),
        special.pbil_case(lambda bits: bits @ costs, probabilities, size=40, seed=seed, rate=0.1),
        remarks.deterministic_igo(DIMENSION, 100_000, seed),
        remarks.fixed_cost(3, 50_000, seed),
    ]


def _remarks(seed: int) -> list[Report]:
    return [
        remarks.distant_volumes(DIMENSION, (20, 1000), 20.0, seed),
        remarks.recombination(seed),
        remarks.standard_cma(seed),
        remarks.noise_shrinks(DIMENSION, 20, 4000, seed),
        remarks.final_condition(ngd(c_cov=0.14), seed),
        remarks.final_condition(rank_mu(), seed),
    ]


def _samplings(seed: int) -> list[Report]:
    """Dependent points, which the paper does not have. Without a baseline all terms of the variance count."""
    rng = np.random.default_rng(seed)
    theta = FullGaussian.start(rng.standard_normal(DIMENSION), np.ones(DIMENSION))
    cost = WhitenedCost.at(theta, random_hessian_root(rng, DIMENSION, 4.0), baseline=0.0)
    return [
        *(sampled.estimate_variance(cost, name, 4 * DIMENSION, 4000, seed) for name in SAMPLINGS),
        remarks.final_condition(ngd(c_cov=0.14, sampling="mirrored-orthogonal"), seed),
    ]
