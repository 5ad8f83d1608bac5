"""The rows that `verify` adds to the theorems: each has a control that must fail, and the norms and exponents behind
them are what the paper says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose

from helpers import cases
from sublevel.engine.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.engine.method import natural_gradient
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.tangent import Weighting
from sublevel.engine.transforms import FixedRates
from sublevel.engine.weights import Quantile, Truncation, Volume
from sublevel.paper.theory import (
    attained,
    curves,
    exact,
    measure,
    quadratic,
    remarks,
    restricted,
    sampled,
    special,
    steps,
)
from sublevel.paper.theory.estimate_variance import WhitenedCost


@pytest.fixture
def root(rng):
    return quadratic.random_hessian_root(rng, 4, 50.0)


def quadratic_of(root):
    return lambda x: np.sum(np.square(x @ root.T), axis=-1)


def plateaus(x):
    return np.floor(3 * np.log(np.vecdot(x, x)))


# Steps as printed


@pytest.fixture
def slip(monkeypatch):
    """Put another method in place of the one that is checked."""

    def set_method(name, method):
        monkeypatch.setattr(steps, name, lambda: method)

    return set_method


@dataclass(frozen=True, slots=True)
class WithoutBaseline(Volume):
    """V̂ without the mean taken out."""

    def __call__(self, ranks, sample, /):
        whole = Volume.__call__(self, ranks, sample)
        return replace(whole, mean=whole.mean + 0.1, cov=whole.cov + 0.1, decay=0.1 * whole.cov.shape[-1])


@dataclass(frozen=True, slots=True)
class TiesByOrder(Volume):
    """Tied points by their order in the sample."""

    def __call__(self, ranks, sample, /):
        return Volume.__call__(self, replace(ranks, tie_ends=None), sample)


@pytest.mark.parametrize(
    "method",
    [
        ngd(c_cov=0.05),
        replace(ngd(c_cov=0.1), transforms=(FixedRates(1.0, 0.05),)),
        ngd(c_cov=0.1, exponent=1.0),
        replace(ngd(c_cov=0.1), weights=WithoutBaseline()),
        replace(ngd(c_cov=0.1), weights=TiesByOrder()),
        rank_mu(),
    ],
    ids=["rate", "no-norm", "exponent", "baseline", "ties", "rank-mu"],
)
def test_ngd_step_would_notice(method, slip, rng):
    thetas = [cases.member(FullGaussian, 4, rng) for _ in range(3)]
    assert steps.ngd_step(plateaus, thetas, size=20, seed=1).passed
    slip("ngd", method)
    assert not steps.ngd_step(plateaus, thetas, size=20, seed=1).passed


def test_equal_rates_would_notice_the_mean_rate_of_section_4(rng):
    thetas = [cases.member(FullGaussian, 4, rng) for _ in range(3)]
    assert steps.equal_rates_step(plateaus, thetas, 0.2, size=20, seed=1).passed
    assert not steps.equal_rates_step(plateaus, thetas, 0.2, size=20, seed=1, claimed=1.0).passed


@pytest.mark.parametrize(
    "method",
    [
        rank_mu(c_mean=0.9),
        rank_mu(scheme=Truncation(0.5)),
        rank_mu(c_cov=0.1),
        replace(rank_mu(), weights=Quantile(Truncation(), average_ties=True)),
    ],
    ids=["mean", "selection", "rate", "ties"],
)
def test_rank_mu_step_would_notice(method, slip, rng):
    thetas = [cases.member(FullGaussian, 4, rng) for _ in range(3)]
    assert steps.rank_mu_step(plateaus, thetas, size=40, seed=1).passed
    slip("rank_mu", method)
    assert not steps.rank_mu_step(plateaus, thetas, size=40, seed=1).passed


def test_hansen_kern_rate_would_notice_another_selection():
    settings = [(2, 8), (5, 20), (2, 4000)]
    assert steps.hansen_kern(settings, 1).passed
    assert not steps.hansen_kern(settings, 1, rank_mu(c_cov=0.2)).passed


def test_plateau_would_notice_a_step(rng):
    theta = cases.member(FullGaussian, 4, rng)
    assert steps.no_step_without_ranks(theta, 10, 1).passed
    noisy = replace(ngd(), ordering=replace_ordering())
    assert not steps.no_step_without_ranks(theta, 10, 1, noisy).passed


def replace_ordering():
    """An ordering that ranks equal values by their place in the sample."""
    from sublevel.engine.ordering import ranking
    from sublevel.engine.ordering.by_value import BY_VALUE

    class ByPlace(type(BY_VALUE)):
        def __call__(self, values, constraints, memory, /):
            return ranking(np.arange(values.shape[-1], dtype=float)), memory

    return ByPlace()


@pytest.mark.parametrize("family", [IsotropicGaussian, DiagonalGaussian])
def test_step_of_a_restricted_covariance_would_notice_another_rate(family, monkeypatch):
    theta = family.start(np.ones(4), np.array([1.0, 0.5, 2.0, 1.5]))
    assert steps.restricted_step(theta, 20, 1).passed
    monkeypatch.setattr(steps, "ngd", lambda c_cov: ngd(c_cov=0.5 * c_cov))
    assert not steps.restricted_step(theta, 20, 1).passed


@pytest.mark.parametrize(("d", "k"), [(4, 9), (4, 3), (70, 5)])
def test_spectral_norm_is_that_of_the_matrix_at_its_rate_with_its_decay(d, k, rng):
    weights = rng.standard_normal(k)
    tangent = natural_gradient(rng.standard_normal((k, d)), Weighting(weights, weights, np.float64(0.7)))
    scaled = tangent.scale(mean=np.float64(1.0), cov=np.float64(3.0)).scale(mean=np.float64(1.0), cov=np.float64(0.5))
    matrix = 1.5 * (tangent.cloud.moment - 0.7 * np.eye(d))
    assert_allclose(scaled.spectral_norm, np.linalg.norm(matrix, 2), rtol=1e-12)


# Scores


@pytest.mark.parametrize(
    "theta",
    [
        FullGaussian.start(np.ones(3), np.array([1.0, 2.0, 0.5])),
        DiagonalGaussian(np.ones(3), np.array([1.0, 2.0, 0.5])),
        IsotropicGaussian.start(np.ones(3), np.full(3, 2.0)),
        Bernoulli.start(np.array([0.2, 0.5, 0.7])),
    ],
    ids=lambda theta: type(theta).__name__,
)
def test_score_is_fisher_times_natural_score_and_nothing_else(theta):
    assert special.natural_score(theta, 1).passed
    assert not special.natural_score(theta, 1, claimed=1.01).passed


def test_length_of_the_natural_score_is_not_the_printed_trace(rng):
    theta = cases.member(FullGaussian, 5, rng)
    assert sampled.score_length(theta, 100_000, 1).passed
    assert not sampled.score_length(theta, 100_000, 1, printed=True).passed


def test_expected_cost_would_notice_another_hessian(rng, root):
    theta = cases.member(FullGaussian, 4, rng)
    assert sampled.expected_cost(theta, root, 50_000, 1).passed
    other = quadratic.random_hessian_root(rng, 4, 50.0)
    assert not sampled.expected_cost(theta, root, 50_000, 1, claimed_root=other).passed


def test_right_exponent_is_not_refuted(rng, root):
    theta = cases.member(FullGaussian, 4, rng)
    assert sampled.missing_exponent(theta, root, 50_000, 1).passed
    assert not sampled.missing_exponent(theta, root, 50_000, 1, exponent=2 / 4).passed


# Exponents of the error


@pytest.mark.parametrize("condition", [3.0, 4.0, 5.0])
def test_tail_of_the_influence_gives_one_over_the_condition(condition):
    assert sampled.influence(condition).passed
    assert_allclose(sampled.consistency_exponent(condition), -1 / condition)
    assert not sampled.influence(condition, claimed=-min(0.5, 2 / condition)).passed


def test_errors_at_condition_4_fall_like_the_fourth_root_of_n(rng):
    """The bands of −2/κ and −1/2 are four standard errors away."""
    root, sizes, theta = np.diag([1.0, 2.0]), [1000, 10_000, 100_000], FullGaussian.start(np.zeros(2), np.ones(2))
    errors = np.array(
        [np.concatenate([sampled.estimation_errors(theta, root, size, 12, rng) for _ in range(4)]) for size in sizes]
    )
    slope = sampled.log_log_slope(sizes, errors)
    assert abs(slope.value + 0.25) < 0.1
    assert slope.low > -0.42


# Bounds that are reached


def test_reached_bound_would_notice_another(rng):
    far = quadratic.random_hessian_root(rng, 4, attained.FAR)
    assert attained.condition_bound_attained(far, 0.3).passed
    assert not attained.condition_bound_attained(far, 0.3, claimed=0.29).passed
    assert not attained.condition_bound_attained(far, 0.3, claimed=0.31).passed


def test_reached_rate_would_notice_another(rng, root):
    theta = FullGaussian.start(np.zeros(4), np.ones(4))
    path = islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(1.0, 0.2)), 120)
    conditions = np.array([float(measure.condition_number(at, root)) for at in path])
    assert attained.condition_limit_attained(conditions, 0.2).passed
    for other in (0.19, 0.21):
        assert not attained.condition_limit_attained(conditions, other).passed


def test_diagonal_rate_is_reached_at_alpha_over_the_largest_eigenvalue_and_not_at_alpha_over_d(root):
    deviations = np.array([1.0, 0.2, 3.0, 5.0])
    assert attained.diagonal_limit_attained(root, 0.4, deviations).passed
    assert not attained.diagonal_limit_attained(root, 0.4, deviations, claimed=0.4 / 4).passed
    assert not attained.diagonal_limit_attained(root, 0.4, deviations, claimed=0.4).passed
    largest = np.linalg.eigvalsh(quadratic.normalised_root(root).T @ quadratic.normalised_root(root))[-1]
    assert_allclose(restricted.diagonal_gamma(root, 0.4), 0.4 / largest)


def test_norms_are_those_of_the_theorem(rng):
    theta = cases.member(FullGaussian, 5, rng)
    assert_allclose(np.exp(measure.log_covariance_norm(theta)), np.linalg.norm(theta.cov, "fro"), rtol=1e-13)
    assert_allclose(np.exp(measure.log_mean_distance(theta)), np.linalg.norm(theta.mean, 2), rtol=1e-13)
    for other in (np.linalg.norm(theta.cov, 2), np.linalg.norm(theta.mean, 1)):
        assert abs(other / np.exp(measure.log_covariance_norm(theta)) - 1) > 0.01


@pytest.mark.parametrize("name", ["log_covariance_norm", "log_mean_distance"])
def test_norm_bound_would_notice_another_norm(name, rng, root, monkeypatch):
    theta = cases.member(FullGaussian, 4, rng)
    assert attained.norm_bound(theta, root, 0.4, 0.3, 20).passed
    other = {
        "log_covariance_norm": lambda at: np.log(np.linalg.norm(at.cov, 2)),
        "log_mean_distance": lambda at: np.log(np.linalg.norm(at.mean, 1)),
    }
    monkeypatch.setattr(attained, name, other[name])
    assert not attained.norm_bound(theta, root, 0.4, 0.3, 20).passed


def test_norms_shrink_by_one_minus_alpha_only_where_c_fits(root, monkeypatch):
    assert attained.norm_bound_attained(root, 0.3).passed
    monkeypatch.setattr(attained, "solve", lambda matrix, right: right)
    assert not attained.norm_bound_attained(root, 0.3).passed


def test_rate_of_j_is_that_of_c_only_if_the_mean_is_fast_enough(rng, root, monkeypatch):
    theta = cases.member(FullGaussian, 4, rng)
    fast = attained.objective_rate(theta, root, 0.4, 0.3, "fast")
    slow = attained.objective_rate(theta, root, 0.1, 0.3, "slow")
    assert fast.passed
    assert slow.passed
    assert_allclose([fast.value, slow.value], [0.7, 0.81], atol=1e-6)
    monkeypatch.setattr(attained, "expected_objective_rate", lambda *_, alpha, alpha_mean: 1 - alpha)
    assert not attained.objective_rate(theta, root, 0.1, 0.3, "slow").passed


def test_worth_of_adaptation_would_notice_another_condition(root, monkeypatch):
    assert attained.adapted_rate(root, 0.3).passed
    monkeypatch.setattr(attained, "solve", lambda matrix, right: right)
    assert not attained.adapted_rate(root, 0.3).passed


def test_eigenvectors_stay_on_a_quadratic_and_not_with_another_hessian(rng, root, monkeypatch):
    theta = cases.member(FullGaussian, 4, rng)
    assert attained.common_eigenvectors(theta, root, 0.3, 20).passed
    other = quadratic.random_hessian_root(rng, 4, 50.0)
    run = exact.deterministic_ngd
    monkeypatch.setattr(attained, "deterministic_ngd", lambda at, _, rates: run(at, other, rates))
    assert not attained.common_eigenvectors(theta, root, 0.3, 20).passed


def test_predicted_curves_and_times_would_notice_another_rate(rng, root, monkeypatch):
    theta = cases.member(FullGaussian, 4, rng)
    assert attained.predicted_run(theta, root, 0.7, 0.2, 30).passed
    assert attained.predicted_iterations(root, 0.05, 3.0).passed
    run = exact.deterministic_ngd
    monkeypatch.setattr(
        attained, "deterministic_ngd", lambda at, hessian, rates: run(at, hessian, replace(rates, cov=0.9 * rates.cov))
    )
    assert not attained.predicted_run(theta, root, 0.7, 0.2, 30).passed
    assert not attained.predicted_iterations(root, 0.05, 3.0).passed


def test_first_time_below_a_target_is_not_that_of_reaching_it():
    assert curves.first_times(np.array([10.0, 5.0, 1.0]), np.array([5.0]))[0] == 2


# Remarks


def test_volumes_are_wrong_from_afar_and_not_from_nearby():
    assert remarks.distant_volumes(5, (20, 1000), 20.0, 1).passed
    assert not remarks.distant_volumes(5, (20, 1000), 1.0, 1).passed


def test_baseline_lowers_the_variance_and_takes_one_nth(monkeypatch):
    assert remarks.baseline_variance(5, 50, 2000, 1).passed
    assert remarks.baseline_bias(5, 2, 20_000, 1).passed
    assert not remarks.baseline_bias(5, 2, 20_000, 1, claimed=1.0).passed
    estimates = remarks.exact_estimates
    monkeypatch.setattr(remarks, "exact_estimates", lambda *given: estimates(*given)[::-1])
    assert not remarks.baseline_variance(5, 50, 2000, 1).passed


def test_deterministic_igo_shrinks_by_the_quartile_of_chi_square():
    assert remarks.deterministic_igo(5, 50_000, 1).passed
    assert not remarks.deterministic_igo(5, 50_000, 1, claimed=0.7).passed
    assert_allclose(remarks.shrinkage_of_igo(2), 1 - (0.25 - 0.75 * -np.log(0.75)) / 0.25, rtol=1e-12)


def test_cost_is_fixed_only_if_it_is_divided_by_the_density(monkeypatch):
    assert remarks.fixed_cost(3, 20_000, 1).passed
    monkeypatch.setattr(FullGaussian, "log_density", lambda self, x: np.zeros(x.shape[:-1]))
    assert not remarks.fixed_cost(3, 20_000, 1).passed


def test_weighted_recombination_is_slightly_better_and_another_is_not():
    assert remarks.recombination(1).passed
    assert not remarks.recombination(1, Truncation(0.25)).passed
    assert not remarks.recombination(1, Truncation(0.75)).passed


def test_standard_cma_is_better_and_rank_mu_is_not_better_than_itself():
    assert remarks.standard_cma(1).passed
    assert not remarks.standard_cma(1, rank_mu()).passed


def test_expectations_at_one_distribution_say_nothing_about_a_wider_one():
    assert remarks.exchange().passed
    assert not remarks.exchange(wider=0.9).passed  # finite there, too
    assert not remarks.exchange(deviation=1.1).passed  # infinite already


def test_fast_cost_is_the_squared_length_of_sublevel_sets():
    """The left ends −t − g(t) fall, so that f is a function, and V(−s) ≤ 4s² there."""
    t = np.linspace(1e-3, 12.0, 2000)
    lengths = np.exp(0.5 * remarks.log_fast_cost(t))
    left = lengths - t
    assert_allclose(lengths, 2 * t + np.expm1(t**2 / 4) / (1 + t**2), rtol=1e-12)
    assert np.all(np.diff(left) > 0)
    assert np.all(lengths <= 2 * left)


def test_infinite_variance_slows_the_estimate_down_and_a_finite_one_does_not():
    assert remarks.infinite_variance(4.5, 1).passed
    assert not remarks.infinite_variance(20.0, 1).passed


def test_noise_shrinks_the_covariance_of_ngd_alone(monkeypatch):
    assert remarks.noise_shrinks(5, 20, 2000, 1).passed
    monkeypatch.setattr(remarks, "ngd", lambda: replace(rank_mu(c_cov=0.1), name="ngd"))
    assert not remarks.noise_shrinks(5, 20, 2000, 1).passed


def test_variances_of_estimates_are_those_of_their_sampling_and_of_no_other():
    theta = FullGaussian.start(np.array([1.0, -1.0, 0.5, 2.0, -0.5]), np.ones(5))
    cost = WhitenedCost.at(theta, quadratic.random_hessian_root(np.random.default_rng(1), 5, 4.0), baseline=0.0)
    for name in SAMPLINGS:
        for claimed in SAMPLINGS:
            assert sampled.estimate_variance(cost, name, 20, 4000, 1, claimed).passed is (name == claimed)


def test_final_condition_is_centred_on_the_law_and_would_notice_another_rate():
    pairs = ngd(c_cov=0.14, sampling="mirrored-orthogonal")
    for method, predicted in ((ngd(c_cov=0.14), 2.610), (pairs, 3.230), (rank_mu(), 3.042)):
        report = remarks.final_condition(method, 1)
        assert report.passed
        assert_allclose(np.mean(report.bound), predicted, atol=6e-4)
    assert not remarks.final_condition(ngd(c_cov=0.25), 1, claimed=ngd(c_cov=0.14)).passed
    assert not remarks.final_condition(rank_mu(c_cov=0.04), 1, claimed=rank_mu()).passed
    assert not remarks.final_condition(pairs, 1, claimed=ngd(c_cov=0.14)).passed


def test_infimum_of_the_objective_is_positive_where_the_minimum_is_a_plateau():
    assert remarks.infimum(1).passed
    assert not remarks.infimum(1, radius=0.5).passed
    assert not remarks.infimum(1, radius=0.0).passed  # a minimum without volume


def test_own_volume_has_no_expectation_up_to_two_dimensions_and_no_mean_square_up_to_four():
    assert remarks.own_volume(1).passed
    for claimed in ((1, 4), (3, 4), (2, 3), (2, 5)):
        assert not remarks.own_volume(1, claimed).passed
    d, exponent = 5, 2 / 5
    z = np.random.default_rng(1).standard_normal((200_000, d))
    terms = np.exp(exponent * np.sum(np.square(z), axis=-1) / 2)
    assert abs(np.mean(terms) - (1 - exponent) ** (-d / 2)) < 5 * np.std(terms) / np.sqrt(len(terms))


def test_equal_rates_shrink_mean_and_covariance_alike_and_others_do_not():
    assert steps.equal_rates_run(0.3, 1).passed
    assert not steps.equal_rates_run(0.3, 1, ngd(c_mean=0.4, c_cov=0.6)).passed
    assert not steps.equal_rates_run(0.3, 1, ngd(c_mean=0.25, c_cov=0.5)).passed  # alike, but at another rate
