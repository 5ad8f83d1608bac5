"""The paper's theory on random positive definite A, random increasing g and random rates, each law with a control that
must fail.

Tolerances: Cond(CA) comes from singular values of LR, C = RRᵀ, good to eps·√Cond, 1e-11 at the 1e10 drawn here, and a
run adds a few eps per step. 1e-9 leaves two digits to spare.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from helpers import cases
from helpers.theory import ProjectedRates, exact_curves, projected_mode_rates
from sublevel.engine.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.engine.recipes import ngd, pbil, rank_mu
from sublevel.engine.transforms import FixedRates, SpectralRates, Transform
from sublevel.engine.weights import Truncation
from sublevel.paper.theory import checks, curves, exact, measure, quadratic, restricted, sampled, special

TOLERANCE = 1e-9


@st.composite
def hessian_roots(draw, largest_log_condition=10.0, dimensions=(1, 8)):
    """L of a random A = LᵀL: rotated at random, its spectrum anywhere between 1 and its condition number."""
    d = draw(st.integers(*dimensions))
    log_condition = draw(st.floats(0, largest_log_condition))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    exponents = log_condition * np.concatenate([[0.0, 1.0], rng.uniform(size=d)])[:d]
    return np.sqrt(10.0**exponents)[:, None] * quadratic.random_hessian_root(rng, d, 1.0)


@st.composite
def gaussians(draw, d):
    """A random N(m, C) with Cond(C) up to about 100."""
    rng = np.random.default_rng(
        [draw(st.integers(0, 2**32 - 1)), 1]
    )  # not the stream of a run: x = m + z = 0 is no accident there
    return FullGaussian.start(rng.standard_normal(d), np.ones(d), quadratic.random_hessian_root(rng, d, 100.0))


alphas = st.floats(0.01, 0.5)
seeds = st.integers(0, 2**32 - 1)
increasing_maps = st.one_of(
    st.tuples(st.floats(0.1, 1e3), st.floats(-10, 10)).map(lambda ab: lambda y: ab[0] * y + ab[1]),
    st.floats(0.2, 4.0).map(lambda p: lambda y: y**p),
    st.just(np.log),
    st.just(lambda y: -1 / y),
    st.floats(0.5, 2.0).map(lambda a: lambda y: np.sinh(a * np.log(y))),
)
few = settings(max_examples=40)


def standard(d):
    return FullGaussian.start(np.zeros(d), np.ones(d))


def condition_curve(theta, hessian_root, rates, steps, measured_root=None):
    root = hessian_root if measured_root is None else measured_root
    return np.array(
        [
            float(measure.condition_number(at, root))
            for at in islice(exact.deterministic_ngd(theta, hessian_root, rates), steps + 1)
        ]
    )


def hessian_of(root):
    return root.T @ root


# The exact gradient


@pytest.mark.parametrize("constant", [1.0, 0.3])
def test_the_exact_gradient_is_CAm_and_CAC(rng, constant):
    root = quadratic.random_hessian_root(rng, 5, 50.0)
    theta, a = cases.member(FullGaussian, 5, rng), hessian_of(root)
    velocity = theta.velocity(exact.exact_natural_gradient(theta, root, constant=constant))
    assert_allclose(velocity[:5], -constant * theta.cov @ a @ theta.mean, rtol=1e-12)
    assert_allclose(velocity[5:].reshape(5, 5), -constant * theta.cov @ a @ theta.cov, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("family", cases.GAUSSIANS)
def test_the_exact_gradient_is_the_inverse_fisher_matrix_times_the_gradient_of_the_expected_objective(family, rng):
    root = quadratic.random_hessian_root(rng, 3, 20.0)
    theta = cases.member(family, 3, rng)
    steps = 1e-6 * np.eye(theta.coordinates.size)
    slopes = [
        (
            measure.expected_objective(theta.at_coordinates(theta.coordinates + h), root)
            - measure.expected_objective(theta.at_coordinates(theta.coordinates - h), root)
        )
        / 2e-6
        for h in steps
    ]
    natural = np.linalg.solve(theta.fisher, slopes)
    # J = E f has the natural gradient 2(CAm, CAC); central differences of a function that is linear in C and quadratic
    # in m round to 1e-9.
    assert_allclose(
        theta.velocity(exact.exact_natural_gradient(theta, root, constant=2.0)), -natural, rtol=1e-7, atol=1e-7
    )


def test_fixed_rates_follow_the_printed_recursion_for_each_family(rng):
    root = quadratic.random_hessian_root(rng, 4, 10.0)
    a, eta = hessian_of(root), 0.01
    for family, keep in [
        (FullGaussian, lambda m: m),
        (DiagonalGaussian, lambda m: np.diag(np.diag(m))),
        (IsotropicGaussian, lambda m: np.trace(m) / 4 * np.eye(4)),
    ]:
        theta = cases.member(family, 4, rng)
        after = next(islice(exact.deterministic_ngd(theta, root, FixedRates(eta, eta), constant=1.0), 1, None))
        assert_allclose(after.mean, theta.mean - eta * theta.cov @ a @ theta.mean, rtol=1e-12)
        assert_allclose(after.cov, theta.cov - eta * keep(theta.cov @ a @ theta.cov), rtol=1e-11, atol=1e-13)


def test_the_run_does_not_depend_on_where_the_optimum_is(rng):
    root, shift = quadratic.random_hessian_root(rng, 4, 100.0), np.array([4.0, -2.0, 8.0, 1.0])
    theta = cases.member(FullGaussian, 4, rng)
    moved = replace(theta, mean=theta.mean + shift)
    here = exact_curves(theta, root, SpectralRates(0.5), 30)
    there = exact_curves(moved, root, SpectralRates(0.5), 30, optimum=shift)
    assert_allclose(there.condition, here.condition, rtol=TOLERANCE)
    assert_allclose(there.expected, here.expected, rtol=1e-6)  # ‖m − x*‖ loses the digits of ‖x*‖


def test_spectral_rates_are_pseudo_rates_with_half_the_covariance_rate(rng):
    root, theta = quadratic.random_hessian_root(rng, 4, 100.0), cases.member(FullGaussian, 4, rng)
    one = exact_curves(theta, root, SpectralRates(0.6, 0.8), 20)
    for same in (exact.PseudoRates(0.8, 0.3), ProjectedRates(0.8, 0.3)):  # a full covariance keeps all of Z
        assert_allclose(exact_curves(theta, root, same, 20).expected, one.expected, rtol=1e-13)


def test_a_batch_of_starts_runs_as_each_start_alone(rng):
    root = quadratic.random_hessian_root(rng, 4, 100.0)
    batch = cases.member(FullGaussian, 4, rng, batch=(3,))
    together = exact_curves(batch, root, SpectralRates(0.4), 10)
    for index in range(3):
        alone = exact_curves(cases.trial(batch, index), root, SpectralRates(0.4), 10)
        assert_allclose(together.condition[:, index], alone.condition, rtol=TOLERANCE)
        assert_allclose(together.expected[:, index], alone.expected, rtol=TOLERANCE)


# What is measured


def test_condition_numbers_are_right_up_to_1e14(rng):
    root = quadratic.random_hessian_root(rng, 6, 1e14)
    theta = cases.member(FullGaussian, 6, rng)
    with mpmath.workdps(60):
        product = mpmath.matrix(root.tolist()) * mpmath.matrix((theta.scale * theta.root).tolist())
        singular = sorted(mpmath.svd_r(product, compute_uv=False))
        truth = float((singular[-1] / singular[0]) ** 2)
    assert truth > 1e13
    assert_allclose(measure.condition_number(theta, root), truth, rtol=1e-7)  # eps·√1e14 = 2e-9, times a few


def test_condition_of_the_product_itself_would_be_lost_there(rng):
    root = quadratic.random_hessian_root(rng, 6, 1e14)
    naive = np.linalg.cond(standard(6).cov @ hessian_of(root))
    assert abs(naive / 1e14 - 1) > 1e-3
    assert_allclose(measure.condition_number(standard(6), root), 1e14, rtol=1e-7)


@pytest.mark.parametrize("family", cases.GAUSSIANS)
def test_the_expected_objective_is_mAm_plus_trace_CA(family, rng):
    root = quadratic.random_hessian_root(rng, 5, 30.0)
    batch, a = cases.member(family, 5, rng, batch=(2, 3)), hessian_of(root)
    truth = np.einsum("...i,ij,...j", batch.mean, a, batch.mean) + np.einsum("...ij,ji", batch.cov, a)
    assert_allclose(measure.expected_objective(batch, root), truth, rtol=1e-13)
    assert_allclose(measure.log_expected_objective(batch, root), np.log(truth), rtol=1e-13)


@pytest.mark.parametrize("exponent", [-990, -400, 400, 990])
@pytest.mark.parametrize("family", cases.GAUSSIANS)
def test_measures_and_gradients_know_no_scale(family, exponent, rng):
    root, factor = quadratic.random_hessian_root(rng, 3, 100.0), 2.0**exponent
    theta = family.start(np.ones(3), np.array([1.0, 2.0, 3.0]))
    scaled = family.start(factor * theta.mean, factor * theta.deviations)
    assert_allclose(measure.condition_number(scaled, root), measure.condition_number(theta, root), rtol=1e-13)
    shift = exponent * np.log(2)
    assert_allclose(
        measure.log_expected_objective(scaled, root),
        measure.log_expected_objective(theta, root) + 2 * shift,
        rtol=1e-13,
    )
    assert_allclose(measure.log_covariance_norm(scaled), measure.log_covariance_norm(theta) + 2 * shift, rtol=1e-13)
    assert_allclose(measure.log_mean_distance(scaled), measure.log_mean_distance(theta) + shift, rtol=1e-13)
    assert measure.expected_objective(scaled, root) == (
        0 if exponent < -600 else np.inf if exponent > 600 else measure.expected_objective(theta, root) * factor**2
    )
    after, after_scaled = (
        next(islice(exact.deterministic_ngd(at, root, SpectralRates(0.5)), 1, None)) for at in (theta, scaled)
    )
    assert_allclose(after_scaled.mean / factor, after.mean, rtol=1e-13)
    assert_allclose(after_scaled.deviations / factor, after.deviations, rtol=1e-13)


def test_the_root_of_a_hessian_is_one_or_says_why_not(rng):
    a = hessian_of(rng.standard_normal((4, 4)))
    assert_allclose(hessian_of(quadratic.root_of_hessian(a)), a, rtol=1e-12, atol=1e-14)
    for wrong, word in [
        (np.ones(3), "square"),
        (np.triu(np.ones((2, 2))), "symmetric"),
        (-np.eye(2), "positive definite"),
    ]:
        with pytest.raises(ValueError, match=word):
            quadratic.root_of_hessian(wrong)


def test_sublevel_volumes_are_lengths_areas_and_volumes():
    assert_allclose(
        quadratic.sublevel_cost(np.array([[3.0]]), np.array([[2.0]]), exponent=1.0), 6.0
    )  # {4y² ≤ 36} = [−3, 3]
    assert_allclose(
        quadratic.sublevel_cost(np.array([[2.0, 0.0]]), np.diag([1.0, 0.5]), exponent=1.0), np.pi * 2 * 4
    )  # semi-axes 2 and 4
    assert_allclose(quadratic.sublevel_cost(np.array([[0.0, 0.0, 2.0]]), np.eye(3)), (4 / 3 * np.pi * 8) ** (2 / 3))


# thm:cond


@given(st.floats(0, 12), alphas, st.integers(0, 50))
def test_the_closed_iteration_is_the_printed_one(log_condition, alpha, steps):
    condition = 10.0**log_condition
    predicted = curves.predicted_condition(condition, alpha, steps)
    for _ in range(steps):
        condition = condition * (1 - alpha) / (1 - alpha / condition)
    assert_allclose(predicted[-1], condition, rtol=1e-12)


@few
@given(st.data(), hessian_roots(), alphas)
def test_the_condition_number_follows_the_equality_case(data, root, alpha):
    theta = data.draw(gaussians(len(root)))
    report = checks.condition_equality(condition_curve(theta, root, exact.PseudoRates(1.0, alpha), 60), alpha)
    assert report.passed, report.sentence


@few
@given(st.data(), hessian_roots(), alphas, st.floats(0.01, 1.0))
def test_predicted_curves_are_those_of_the_deterministic_algorithm(data, root, alpha, alpha_mean):
    theta = data.draw(gaussians(len(root)))
    predicted = curves.predicted_curves(theta, root, alpha=alpha, alpha_mean=alpha_mean, steps=60)
    run = exact_curves(theta, root, exact.PseudoRates(alpha_mean, alpha), 60)
    assert_allclose(predicted.condition, run.condition, rtol=TOLERANCE)
    # At α_m = 1 the first mode of m is 0 but for rounding, eps of it at each step, which the others' E f of the same
    # size hides.
    assert_allclose(predicted.expected, run.expected, rtol=TOLERANCE)


def test_the_paper_s_ellipsoid_needs_227_iterations_to_a_condition_of_10():
    times = curves.predicted_times(1e6, 0.05, np.array([1e5, 1e4, 1e3, 1e2, 10.0]))
    assert times[-1] == 227
    root = np.diag(np.geomspace(1, 1e3, 20))
    conditions = condition_curve(standard(20), root, SpectralRates(0.1), 230)
    assert_allclose(curves.first_times(conditions, np.array([1e5, 1e4, 1e3, 1e2, 10.0])), times)
    assert curves.first_times(conditions, np.array([1.5]))[0] == np.inf


@given(st.floats(0, 12), alphas, st.floats(1e-9, 1e3))
def test_the_promised_number_of_steps_is_enough(log_condition, gamma, excess):
    steps = curves.steps_to_excess(10.0**log_condition, gamma, excess)
    assert curves.upper_bound(10.0**log_condition, gamma, steps)[-1] - 1 < excess * (1 + 1e-6)  # 1 + e rounds e


@few
@given(st.data(), hessian_roots(), alphas)
def test_the_condition_number_obeys_its_bound(data, root, alpha):
    theta = data.draw(gaussians(len(root)))
    report = checks.condition_bound(condition_curve(theta, root, exact.PseudoRates(1.0, alpha), 60), alpha)
    assert report.passed, report.sentence


def test_the_bound_holds_for_a_rule_with_changing_rates(rng):
    root = quadratic.random_hessian_root(rng, 4, 1e3)
    theta, steps = standard(4), 80
    path = list(islice(exact.deterministic_ngd(theta, root, FixedRates(1e-4, 5e-4), constant=1.0), steps + 1))
    largest = [float(np.linalg.eigvalsh(root @ at.cov @ root.T)[-1]) for at in path]
    gamma = 5e-4 * min(largest)
    assert gamma < 0.5 * 5e-4 * max(largest) <= 0.25
    conditions = np.array([float(measure.condition_number(at, root)) for at in path])
    assert checks.condition_bound(conditions, gamma).passed
    assert not checks.condition_bound(conditions, 5e-4 * max(largest)).passed


@few
@given(hessian_roots(largest_log_condition=4.0, dimensions=(2, 5)), st.floats(0.1, 0.5))
def test_the_condition_number_converges_at_the_limit_rate(root, alpha):
    steps = curves.steps_to_excess(float(measure.condition_number(standard(len(root)), root)), alpha, 1e-7)
    conditions = condition_curve(standard(len(root)), root, exact.PseudoRates(1.0, alpha), steps)
    report = checks.condition_limit(conditions, alpha)
    assert report.passed, report.sentence
    if alpha < 0.45 and conditions[0] > 1.001:
        assert not checks.condition_limit(conditions, alpha + 0.01).passed


@few
@given(hessian_roots(dimensions=(2, 8)), alphas)
@example(root=np.diag([1.0, 2.0]), alpha=0.5)
def test_the_bound_first_printed_is_violated_at_every_step_of_every_run(root, alpha):
    conditions = condition_curve(standard(len(root)), root, exact.PseudoRates(1.0, alpha), 40)
    assume(conditions[0] > 1.01)
    assert not checks.uncorrected_bound(conditions, alpha).passed
    assert checks.erratum(conditions, alpha).passed
    bounds = curves.uncorrected_upper_bound(conditions[0], alpha, 40)
    far = np.flatnonzero(conditions > 1 + 1e-4)[1:]
    assert np.all(conditions[far] > bounds[far])


def test_the_smallest_example_against_the_bound_first_printed():
    """A = diag(1, 4), C⁰ = I, α = 1/2: it promises Cond = 1 after one step; Cond is 1 + e²/(1 + 2e) = 16/7 with e =
    3.
    """
    conditions = condition_curve(standard(2), np.diag([1.0, 2.0]), exact.PseudoRates(1.0, 0.5), 1)
    assert_allclose(conditions, [4.0, 16 / 7], rtol=1e-14)
    assert curves.uncorrected_upper_bound(4.0, 0.5, 1)[1] == 1.0


def test_an_erratum_is_not_claimed_where_the_bound_holds():
    assert not checks.erratum(curves.uncorrected_upper_bound(100.0, 0.2, 50) - 1e-3, 0.2).passed


@pytest.mark.parametrize("check", [checks.condition_bound, checks.condition_limit, checks.condition_equality])
def test_a_wrong_hessian_fails_every_check_of_the_condition_number(check, rng):
    root, wrong = (quadratic.random_hessian_root(rng, 4, 1e3) for _ in range(2))
    assert check(condition_curve(standard(4), root, exact.PseudoRates(1.0, 0.3), 80), 0.3).passed
    assert not check(
        condition_curve(standard(4), root, exact.PseudoRates(1.0, 0.3), 80, measured_root=wrong), 0.3
    ).passed


def test_a_rate_beyond_one_half_breaks_the_bound():
    conditions = condition_curve(standard(2), np.diag([1.0, np.sqrt(0.9)]), exact.PseudoRates(1.0, 0.9), 5)
    assert not checks.condition_bound(conditions, 0.5).passed


def test_a_short_run_proves_no_limit():
    conditions = condition_curve(standard(3), np.diag([1.0, 10.0, 100.0]), exact.PseudoRates(1.0, 0.3), 5)
    assert not checks.condition_limit(conditions, 0.3).passed


def test_theory_refuses_what_it_does_not_cover():
    with pytest.raises(ValueError, match="alpha"):
        curves.predicted_condition(10.0, 0.6, 5)
    with pytest.raises(ValueError, match="cond0"):
        curves.predicted_condition(0.5, 0.1, 5)
    with pytest.raises(ValueError, match="targets"):
        curves.predicted_times(10.0, 0.1, np.array([1.0]))
    with pytest.raises(ValueError, match="family"):
        restricted.mode_rates(int, np.eye(2), 0.1)


# thm:rate


@few
@given(st.data(), hessian_roots(largest_log_condition=6.0), st.floats(0.1, 0.5), st.floats(0.05, 0.95))
def test_mean_and_covariance_converge_at_their_rates(data, root, alpha, alpha_mean):
    theta = data.draw(gaussians(len(root)))
    steps = curves.steps_to_excess(float(measure.condition_number(theta, root)), alpha, 1e-9)
    before, after = islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(alpha_mean, alpha)), steps, steps + 2)
    for report in (
        checks.mean_rate(before, after, root, alpha_mean),
        checks.covariance_rate(before, after, root, alpha),
    ):
        assert report.passed, report.sentence
    assert not checks.mean_rate(before, after, root, alpha_mean + 0.01).passed
    assert not checks.covariance_rate(before, after, root, alpha + 0.01).passed


def test_with_the_paper_s_mean_rate_the_mean_converges_faster_than_linearly(rng):
    root, theta = quadratic.random_hessian_root(rng, 4, 100.0), cases.member(FullGaussian, 4, rng)
    before, after = islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(1.0, 0.3)), 70, 72)
    assert checks.mean_rate(before, after, root, 1.0).passed
    at_optimum = replace(before, mean=np.zeros(4))
    assert checks.mean_rate(at_optimum, at_optimum, root, 1.0).value == 0.0


def test_a_run_that_has_not_settled_proves_no_rate(rng):
    root, theta = quadratic.random_hessian_root(rng, 4, 1e4), cases.member(FullGaussian, 4, rng)
    before, after = islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(0.3, 0.3)), 3, 5)
    assert not checks.mean_rate(before, after, root, 0.3).passed


@pytest.mark.parametrize("family", cases.ANALYSED)
def test_the_expected_objective_falls_at_its_limit_rate(family, rng):
    root = quadratic.random_hessian_root(rng, 4, 20.0)
    theta = cases.member(family, 4, rng)
    path = list(islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(0.4, 0.3)), 600, 602))
    rate = np.exp(measure.log_expected_objective(path[1], root) - measure.log_expected_objective(path[0], root))
    assert_allclose(rate, restricted.expected_objective_rate(family, root, alpha=0.3, alpha_mean=0.4), rtol=1e-6)


# Restricted covariances: the paragraph and the footnote after thm:rate


@few
@given(hessian_roots(), alphas)
def test_an_isotropic_covariance_has_the_rates_of_the_paragraph(root, alpha):
    report = checks.isotropic_rate(root, alpha)
    assert report.passed, report.sentence
    low, high = report.bound
    spectrum = quadratic.hessian_spectrum(root)
    assert_allclose([low, high], [1 - alpha, 1 - alpha * spectrum[-1] / spectrum[0]], atol=2 * checks.ROUNDING)


@few
@given(hessian_roots(largest_log_condition=8.0), alphas)
def test_a_diagonal_covariance_has_the_rates_of_the_footnote_read_right(root, alpha):
    report = checks.diagonal_rate(root, alpha)
    assert report.passed, report.sentence


@settings(max_examples=15)
@given(hessian_roots(largest_log_condition=6.0, dimensions=(1, 5)), st.floats(0.2, 0.5), seeds)
def test_a_diagonal_covariance_learns_the_diagonal_of_the_hessian(root, alpha, seed):
    deviations = np.random.default_rng(seed).uniform(0.1, 10.0, len(root))
    report = checks.diagonal_target(root, alpha, deviations)
    assert report.passed, report.sentence


def test_a_diagonal_covariance_does_not_learn_another_target(rng):
    root = quadratic.random_hessian_root(rng, 4, 100.0)
    assert not checks.diagonal_target(root, 0.4, np.ones(4), target_root=root).passed


def test_every_run_of_a_restricted_family_reaches_its_predicted_rate(rng):
    root = quadratic.random_hessian_root(rng, 4, 30.0)
    for family in cases.ANALYSED:
        path = list(
            islice(exact.deterministic_ngd(cases.member(family, 4, rng), root, exact.PseudoRates(0.4, 0.3)), 1000, 1002)
        )
        rate = np.exp(measure.log_mean_distance(path[1]) - measure.log_mean_distance(path[0]))
        assert_allclose(rate, restricted.rate_interval(family, root, 0.4)[1], rtol=1e-6)
        shrinking = np.square(path[1].deviations / path[0].deviations)
        assert_allclose(shrinking, restricted.variance_rate(family, root, 0.3), rtol=1e-6)


@few
@given(hessian_roots(largest_log_condition=4.0, dimensions=(2, 6)), alphas)
def test_projected_normalisation_fails_the_paragraph(root, alpha):
    spectrum = quadratic.hessian_spectrum(root)
    assume(spectrum[0] > 1.01 * spectrum[-1])
    assert not checks.isotropic_rate(root, alpha, ProjectedRates(alpha, alpha)).passed
    modes = checks.measured_mode_rates(
        IsotropicGaussian.start(np.zeros(len(root)), np.ones(len(root))), root, ProjectedRates(alpha, alpha)
    )
    assert_allclose(modes, projected_mode_rates(IsotropicGaussian, root, alpha), rtol=1e-9, atol=1e-11)
    assert modes[0] < 1 - alpha


def test_projected_normalisation_gives_the_footnote_without_its_condition_number(rng):
    root, alpha = quadratic.random_hessian_root(rng, 4, 100.0), 0.3
    rates = ProjectedRates(alpha, alpha)
    settled = DiagonalGaussian(np.zeros(4), 1 / np.linalg.norm(root, axis=0))
    a = hessian_of(root)
    footnote = np.sort(np.linalg.eigvals(np.eye(4) - alpha * np.diag(1 / np.diag(a)) @ a).real)
    assert_allclose(checks.measured_mode_rates(settled, root, rates), footnote, rtol=1e-9)
    assert_allclose(checks.measured_variance_rates(settled, root, rates), 1 - alpha, rtol=1e-12)
    assert not checks.diagonal_rate(root, alpha, rates).passed


def test_under_projected_normalisation_the_diagonal_learns_exactly_by_the_equality_case(rng):
    root = quadratic.random_hessian_root(rng, 4, 100.0)
    theta, target = DiagonalGaussian(np.zeros(4), np.array([1.0, 0.1, 3.0, 7.0])), quadratic.diagonal_root(root)
    projected = condition_curve(theta, root, ProjectedRates(1.0, 0.3), 80, measured_root=target)
    assert checks.condition_equality(projected, 0.3).passed
    unprojected = condition_curve(theta, root, exact.PseudoRates(1.0, 0.3), 80, measured_root=target)
    assert not checks.condition_equality(unprojected, 0.3).passed


def test_the_footnote_cannot_be_meant_literally():
    """|1 − α·Cond(Ã)| is no rate of anything here, and above 1; and I − αÃ alone makes m diverge once αλ₁(Ã) > 2."""
    d, alpha = 8, 0.5
    root = quadratic.root_of_hessian(0.1 * np.eye(d) + 0.9 * np.ones((d, d)))  # Ã = A, λ₁ = 7.3, Cond = 73
    assert abs(1 - alpha * 73) > 1
    assert_allclose(restricted.rate_interval(DiagonalGaussian, root, alpha), [0.5, 1 - 0.5 / 73], rtol=1e-12)
    theta = DiagonalGaussian(np.ones(d), np.ones(d))
    diverging = list(islice(exact.deterministic_ngd(theta, root, ProjectedRates(alpha, alpha)), 21))
    assert_allclose(
        measure.log_mean_distance(diverging[20]) - measure.log_mean_distance(diverging[0]),
        20 * np.log(alpha * 7.3 - 1),
        rtol=1e-9,
    )
    converging = list(islice(exact.deterministic_ngd(theta, root, exact.PseudoRates(alpha, alpha)), 21))
    assert measure.log_mean_distance(converging[20]) < measure.log_mean_distance(converging[0])


# Positivity


@few
@given(st.data(), hessian_roots(largest_log_condition=4.0), st.lists(st.floats(0.01, 0.999), min_size=1, max_size=10))
def test_covariances_stay_positive_definite_below_the_limit(data, root, fractions):
    theta = data.draw(gaussians(len(root)))
    report = checks.positivity(theta, lambda at: exact.exact_natural_gradient(at, root), fractions)
    assert report.passed, report.sentence
    assert not checks.positivity(
        theta, lambda at: exact.exact_natural_gradient(at, root), [*fractions, 1.000001]
    ).passed


@few
@given(st.data(), hessian_roots(largest_log_condition=4.0, dimensions=(1, 6)), seeds)
def test_one_over_lambda_1_is_exactly_the_limit_of_an_estimate(data, root, seed):
    theta = data.draw(gaussians(len(root)))
    z = np.random.default_rng(seed).standard_normal((20 * len(root), len(root)))
    tangent = sampled.estimated_natural_gradient(theta, root, z)
    assume(checks.largest_eigenvalue(tangent) > 0)
    report = checks.positivity_limit(theta, tangent)
    assert report.passed, report.sentence
    assert not checks.positivity_limit(theta, tangent, claimed=0.99 * checks.largest_eigenvalue(tangent)).passed


def test_a_direction_that_takes_no_variance_keeps_the_covariance_at_every_rate(rng):
    root = quadratic.random_hessian_root(rng, 3, 10.0)
    away = exact.exact_natural_gradient(standard(3), root).scale(mean=np.float64(1.0), cov=np.float64(-1.0))
    assert checks.positivity(standard(3), lambda at: away, [0.5, 0.9]).passed


# prop:ng and prop:consistency, false alarms ≤ 1e-6


@pytest.mark.parametrize("check", [sampled.natural_gradient_of_mean, sampled.natural_gradient_of_covariance])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_natural_gradient_is_that_of_the_proposition(check, d, rng):
    root, theta = quadratic.random_hessian_root(rng, d, 10.0), cases.member(FullGaussian, d, rng)
    report = check(theta, root, 50_000, seed=d)
    assert report.passed, report.sentence
    if d > 1:  # c·A does not feel the scale of A, so for d = 1 there is no wrong one
        assert not check(theta, root, 50_000, seed=d, claimed_root=np.roll(root, 1, axis=1)).passed


@pytest.mark.parametrize("check", [sampled.natural_gradient_of_mean, sampled.natural_gradient_of_covariance])
def test_with_the_exponent_1_the_natural_gradient_is_another(check, rng):
    root, theta = quadratic.random_hessian_root(rng, 4, 10.0), cases.member(FullGaussian, 4, rng)
    assert not check(theta, root, 50_000, seed=1, exponent=1.0).passed


def test_with_the_exponent_1_not_even_its_direction_is_right(rng):
    """At m = 0, C = I, d = 4 it is ∝ tr(A)·A + 2A² instead of A, from E q² = tr(A)² + 2 tr(A²): condition 19 instead of
    10.
    """
    root = quadratic.random_hessian_root(rng, 4, 10.0)
    z = rng.standard_normal((400_000, 4))

    def condition(exponent):
        cost = quadratic.sublevel_cost(z, root, exponent)
        direction = (z * (cost - cost.mean())[:, None]).T @ z
        return np.linalg.cond(direction - (cost - cost.mean()).sum() * np.eye(4))

    spectrum = quadratic.hessian_spectrum(root)
    skewed = spectrum * (spectrum.sum() + 2 * spectrum)
    assert_allclose(condition(None), 10.0, rtol=0.05)  # the standard error is 0.01 here, 0.02 below
    assert_allclose(condition(1.0), skewed[0] / skewed[-1], rtol=0.1)
    assert skewed[0] / skewed[-1] > 18


NEAR = {
    "sizes": [500, 2000, 8000, 32_000],
    "trials": 40,
    "seed": 5,
}  # the slope's standard error is 0.02, and 0.1 is allowed


@pytest.mark.parametrize("d", [1, 3, 6])
def test_estimates_converge_like_one_over_root_n(d, rng):
    root = quadratic.random_hessian_root(rng, d, 1.5)
    theta = FullGaussian.start(0.1 * rng.standard_normal(d), np.ones(d))
    report = sampled.consistency(theta, root, **NEAR)
    assert report.passed, report.sentence


def test_estimates_of_another_gradient_do_not_converge(rng):
    root, theta = quadratic.random_hessian_root(rng, 3, 1.5), standard(3)
    assert not sampled.consistency(theta, root, **NEAR, exponent=1.0).passed
    assert not sampled.consistency(theta, root, **NEAR, claimed_root=quadratic.random_hessian_root(rng, 3, 3.0)).passed


@pytest.mark.parametrize("condition", [1.0, 10.0, 100.0])
def test_the_law_of_one_over_root_n_needs_a_condition_below_2(condition, rng):
    """Beyond, the influence of a point has no variance, and the error falls like n^{-1/Cond(CA)}."""
    root = quadratic.random_hessian_root(rng, 2, condition)
    report = sampled.consistency(standard(2), root, [1000, 10_000, 100_000], trials=24, seed=7)
    assert report.passed == (condition < 2)
    assert_allclose(report.value, sampled.consistency_exponent(condition), atol=0.2)  # five standard errors


def test_a_slope_comes_with_its_band(rng):
    sizes = [10, 100, 1000]
    errors = np.array(sizes)[:, None] ** -0.5 * np.exp(0.1 * rng.standard_normal((3, 200)))
    slope = sampled.log_log_slope(sizes, errors)
    assert slope.low < -0.5 < slope.high
    assert slope.high - slope.low < 0.02


# Invariance and special cases


def value_of(root):
    return lambda x: np.sum(np.square(x @ root.T), axis=-1)


@few
@given(
    st.data(),
    hessian_roots(largest_log_condition=4.0, dimensions=(1, 6)),
    increasing_maps,
    seeds,
    st.sampled_from([ngd(c_cov=0.5), rank_mu()]),
)
def test_an_increasing_g_changes_no_bit_of_a_run(data, root, increasing, seed, method):
    theta = data.draw(gaussians(len(root)))
    report = special.monotone_invariance(method, value_of(root), increasing, theta, size=12, steps=8, seed=seed)
    assert report.passed, report.sentence


def test_a_g_that_is_not_increasing_does(rng):
    root, theta = quadratic.random_hessian_root(rng, 3, 10.0), cases.member(FullGaussian, 3, rng)
    assert not special.monotone_invariance(ngd(), value_of(root), np.sin, theta, size=12, steps=8, seed=1).passed


@few
@given(
    st.data(),
    hessian_roots(largest_log_condition=3.0, dimensions=(1, 6)),
    seeds,
    st.sampled_from([ngd(c_cov=0.5), rank_mu()]),
)
def test_an_affine_map_of_space_maps_the_run(data, root, seed, method):
    d = len(root)
    rng = np.random.default_rng(seed)
    theta, matrix = data.draw(gaussians(d)), quadratic.random_hessian_root(rng, d, 100.0)
    report = special.affine_invariance(
        method, value_of(root), theta, matrix, rng.standard_normal(d), size=12, steps=8, seed=seed
    )
    assert report.passed, report.sentence


@dataclass(frozen=True, slots=True)
class RatesOfTheFirstCoordinate(Transform):
    """A rule that looks at one coordinate, which no affine map respects."""

    def __call__(self, tangent, memory, generation, /):
        rate = generation.theta.deviations[..., 0] / (1 + generation.theta.deviations[..., 0])
        return tangent.scale(mean=rate, cov=0.1 * rate), memory


def test_a_rule_that_looks_at_coordinates_is_not_affine_invariant(rng):
    root, theta = quadratic.random_hessian_root(rng, 3, 10.0), cases.member(FullGaussian, 3, rng)
    method = replace(rank_mu(), transforms=(RatesOfTheFirstCoordinate(),))
    assert not special.affine_invariance(
        method, value_of(root), theta, 3 * np.eye(3), np.ones(3), size=12, steps=8, seed=1
    ).passed


@few
@given(
    st.data(),
    hessian_roots(largest_log_condition=4.0, dimensions=(1, 6)),
    seeds,
    st.floats(0.1, 1.0),
    st.floats(0.01, 0.5),
    st.integers(4, 40),
)
def test_the_quantile_cost_is_the_rank_mu_update(data, root, seed, eta_mean, eta_cov, size):
    theta = data.draw(gaussians(len(root)))
    rates = {"eta_mean": eta_mean, "eta_cov": eta_cov}
    report = special.rank_mu_case(value_of(root), theta, size=size, seed=seed, **rates)
    assert report.passed, report.sentence
    assert not special.rank_mu_case(value_of(root), theta, size=size, seed=seed, **rates, method=ngd()).passed


@few
@given(st.integers(1, 12), seeds, st.floats(0.01, 1.0), st.integers(4, 60))
def test_the_quantile_cost_on_bits_is_pbil(d, seed, rate, size):
    rng = np.random.default_rng(seed)
    costs, probabilities = rng.standard_normal(d), rng.uniform(0.1, 0.9, d)
    sample = Bernoulli.start(probabilities).sample(np.random.default_rng(seed), size).x
    assume(np.ptp(sample @ costs) > 0)  # no step is taken if all values are equal
    report = special.pbil_case(lambda bits: bits @ costs, probabilities, size=size, seed=seed, rate=rate)
    assert report.passed, report.sentence


def test_another_selection_is_not_that_pbil(rng):
    probabilities, costs = rng.uniform(0.2, 0.8, 8), rng.standard_normal(8)
    method = pbil(rate=0.1, scheme=Truncation(0.5))
    assert not special.pbil_case(
        lambda bits: bits @ costs, probabilities, size=40, seed=1, rate=0.1, method=method
    ).passed
