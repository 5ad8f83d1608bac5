"""The curvature of a minimum from values: the regression, its scale, what it says about itself, and what it is good
for.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import OptimizeResult, curve_fit, lsq_linear, minimize, rosen, rosen_hess
from scipy.special import expit, ndtri, stdtrit

import sublevel as sl
from sublevel.hessian.design import INNER, Star, Values, fit_extrapolated, fit_quadratic
from sublevel.hessian.frame import Frame, find_place


def turned(d, condition, rng):
    """A Hessian with eigenvalues 1 … condition in random directions."""
    axes, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (axes * condition ** (np.arange(d) / max(d - 1, 1))) @ axes.T


def bowl(hessian, at, height=0.0):
    """A quadratic of points (n, d) with its minimum at a point."""
    return lambda X: height + 0.5 * np.einsum("ni,ij,nj->n", X - at, hessian, X - at)


def relative(found, truth):
    """Eigenvalues of H_true⁻¹·H over the free variables."""
    block = np.ix_(found.free, found.free)
    return np.linalg.eigvals(np.linalg.solve(truth[block], found.hessian[block])).real


def at(x, fun=np.nan):
    """A minimum that somebody else found."""
    return OptimizeResult(x=np.asarray(x, dtype=float), fun=fun)


def names(found):
    return [problem.name for problem in found.problems]


# --- the regression
# ---------------------------------------------------------------------------------------------------------------


def dense_fit(rows, values):
    """All coefficients (1, z, zᵢzⱼ) by dense least squares: f₀, g, Q as a list of entries, and their covariance for
    unit noise.
    """
    i, j = np.triu_indices(rows.shape[1])
    columns = np.where(i == j, 0.5, 1.0) * rows[:, i] * rows[:, j]
    design = np.column_stack([np.ones(len(rows)), rows, columns])
    return np.linalg.lstsq(design, values)[0], np.linalg.inv(design.T @ design)


def seen_values(star, rounds, centres, rng):
    """Noise at the points of a star, and the same as rows and values."""
    axes, couples = star.axis_rows, star.couple_rows
    parts = [rng.standard_normal((rounds, len(rows))) for rows in (axes, axes, couples, couples)]
    centre = rng.standard_normal(centres)
    rows = [np.zeros((centres, star.size))] + [np.tile(r, (rounds, 1)) for r in (axes, -axes, couples, -couples)]
    values = Values(centre, (parts[0], parts[1]), (parts[2], parts[3]))
    return values, np.concatenate(rows), np.concatenate([centre, *(part.ravel() for part in parts)])


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    ("size", "checks", "rounds", "centres"), [(1, 1, 2, 2), (2, 1, 1, 1), (4, 3, 2, 5), (5, 5, 3, 3)]
)
def test_regression_in_parts_is_least_squares_over_all_coefficients(size, checks, rounds, centres, both, rng):
    star = Star(size, checks, both)
    values, rows, seen = seen_values(star, rounds, centres, rng)
    fit, (coefficients, covariance) = fit_quadratic(star, values, exact=False), dense_fit(rows, seen)
    i, j = np.triu_indices(size)
    assert_allclose(fit.constant, coefficients[0], atol=1e-10)
    assert_allclose(fit.gradient, coefficients[1 : size + 1], atol=1e-10)
    assert_allclose(fit.matrix[i, j], coefficients[size + 1 :], atol=1e-9)
    assert_allclose(fit.errors.gradient, covariance[1 : size + 1, 1 : size + 1], atol=1e-10)
    w = rng.standard_normal((size, 3))
    forms = (
        w[i][:, :, None] * w[j][:, None, :]
        + np.where(i == j, 0.0, 1.0)[:, None, None] * w[j][:, :, None] * w[i][:, None, :]
    )
    flat = forms.reshape(i.size, 9)
    assert_allclose(
        fit.errors.of_form(w).ravel(),
        np.einsum("ka,kl,la->a", flat, covariance[size + 1 :, size + 1 :], flat),
        rtol=1e-8,
    )


def test_residuals_hold_the_noise(rng):
    star = Star(4, 4, both=True)
    fits = [fit_quadratic(star, seen_values(star, 2, 3, rng)[0], exact=False) for _ in range(400)]
    for part in ("even", "odd"):
        squares = sum(getattr(fit, part)[0] for fit in fits) / sum(getattr(fit, part)[1] for fit in fits)
        # χ² with more than 10000 degrees of freedom: 5 standard deviations are 7 %
        assert squares == pytest.approx(1.0, abs=0.07)


def test_an_exact_fit_takes_cubic_terms_out_of_the_gradient():
    star, slope = Star(3, 3, both=False), np.array([1.0, -2.0, 0.5])
    f = lambda z: 5.0 + z @ slope + np.vecdot(z, z) + z[:, 0] ** 3 - 2 * z[:, 2] ** 3  # noqa: E731
    values = Values(np.array([5.0]), *((f(rows)[None], f(-rows)[None]) for rows in (star.axis_rows, star.couple_rows)))
    assert_allclose(fit_quadratic(star, values, exact=True).gradient, slope, atol=1e-14)
    assert (
        np.abs(fit_quadratic(star, values, exact=False).gradient - slope).max() > 0.1
    )  # what least squares makes of them


def values_of(f, star, radius):
    """f at the points of a star of this radius, once."""
    rows = [radius * star.axis_rows, radius * star.couple_rows]
    return Values(f(np.zeros((1, star.size))), *((f(part)[None], f(-part)[None]) for part in rows))


def test_extrapolation_takes_cubic_and_quartic_terms_out(rng):
    star, hessian, slope = Star(3, 3, both=True), turned(3, 5.0, rng), rng.standard_normal(3)
    cubic, quartic = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    bent = lambda z: np.einsum("ni,ij,nj->n", z**2, cubic, z) + np.einsum("ni,ij,nj->n", z**2, quartic, z**2)  # noqa: E731
    f = lambda z: 7.0 + z @ slope + bowl(hessian, 0.0)(z) + bent(z)  # noqa: E731
    outer, inner = values_of(f, star, 1.0), values_of(f, star, INNER)
    fit, plain = fit_extrapolated(star, outer, inner), fit_quadratic(star, inner, exact=False)
    assert_allclose(fit.constant, 7.0, atol=1e-12)
    assert_allclose(fit.matrix, hessian, atol=1e-11)
    assert_allclose(fit.gradient, slope, atol=1e-12)
    assert_allclose(fit.lack_of_fit.change, 0.0, atol=1e-11)
    assert np.abs(plain.matrix / INNER**2 - hessian).max() > 0.1  # what is left at the inner radius alone
    assert np.abs(plain.lack_of_fit.change).max() > 0.01


def test_errors_of_an_extrapolation_are_what_noise_in_each_value_makes_of_it(rng):
    star, counts = Star(3, 3, both=True), (1, 2)  # rounds of the outer star, and of the inner one
    w, i = rng.standard_normal((3, 2)), 0
    variance, gradient, change = 0.0, 0.0, 0.0
    sizes = [
        (n, (n, len(star.axis_rows)), (n, len(star.axis_rows)), (n, len(star.couple_rows)), (n, len(star.couple_rows)))
        for n in counts
    ]
    total = sum(int(np.prod(shape)) for level in sizes for shape in level)
    for i in range(total):  # coefficients are linear in values: the variance is the sum of squares over them
        numbers = iter(np.eye(total)[i])
        levels = [
            [np.reshape([next(numbers) for _ in range(int(np.prod(shape)))], shape) for shape in level]
            for level in sizes
        ]
        fit = fit_extrapolated(star, *(Values(part[0], (part[1], part[2]), (part[3], part[4])) for part in levels))
        variance = variance + np.square(w.T @ fit.matrix @ w)
        gradient, change = gradient + np.outer(fit.gradient, fit.gradient), change + np.square(fit.lack_of_fit.change)
    assert_allclose(fit.errors.of_form(w), variance, rtol=1e-10)
    assert_allclose(fit.errors.gradient, gradient, atol=1e-10)
    assert_allclose(fit.lack_of_fit.units, change, rtol=1e-10)


# --- accuracy without noise
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("d", [5, 10, 20])
def test_hessian_of_a_turned_ellipsoid(d, condition, rng):
    hessian, x = turned(d, condition, rng), rng.standard_normal(d)
    for height in (0.0, 100.0):
        f = bowl(hessian, x, height)
        result = sl.minimize(f, np.zeros(d), 1.0, vectorized=True, rng=1)
        found = sl.curvature(f, result, vectorized=True)
        assert_allclose(relative(found, hessian), 1.0, atol=0.01)
        assert_allclose(np.linalg.eigvals(found.hess_inv @ hessian).real, 1.0, atol=0.01)
        assert found.nfev <= (d + 1) * (d + 2)
        assert found.success
        # what the search has learned by itself is not as good: the spread of its eigenvalues is not a hundredth
        learned = np.linalg.eigvals(result.cov @ hessian).real
        assert learned.max() / learned.min() > 1.1


def test_hessian_of_rosenbrock():
    result = sl.minimize(rosen, np.zeros(10), 0.5, rng=2)
    found = sl.curvature(rosen, result)
    assert_allclose(relative(found, rosen_hess(np.ones(10))), 1.0, atol=0.03)
    assert found.nfev <= 11 * 12


@pytest.mark.parametrize("method", ["sep-cma", "iso-cma", "ngd", "xnes", "rank-mu", "lra-cma"])
def test_it_works_after_any_method(method, rng):
    hessian = turned(4, 1e4, rng)
    f = bowl(hessian, np.ones(4), 1.0)
    found = sl.curvature(
        f, sl.minimize(f, np.zeros(4), 0.5, method=method, maxfevals=4000, vectorized=True, rng=1), vectorized=True
    )
    assert_allclose(relative(found, hessian), 1.0, atol=1e-3)
    assert_allclose(found.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("known", [True, False])
def test_it_works_at_a_point_that_another_library_found(known, rng):
    hessian = turned(6, 1e6, rng)
    f = lambda x: bowl(hessian, np.ones(6), 3.0)(x[None])[0]  # noqa: E731
    found = sl.curvature(
        f, minimize(f, np.zeros(6), method="BFGS", options={"gtol": 1e-3}) if known else at(np.ones(6))
    )
    assert_allclose(relative(found, hessian), 1.0, atol=1e-3)


def test_it_takes_an_optimizer(rng):
    hessian = turned(3, 100.0, rng)
    f, opt = bowl(hessian, np.ones(3)), sl.Optimizer(np.zeros(3), 0.5, rng=1)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, f(points))
    assert_allclose(sl.curvature(f, opt, vectorized=True).hessian, hessian, rtol=1e-4, atol=1e-4)


def test_a_run_that_ended_within_its_first_generation_has_learned_nothing_but_knows_its_best_point():
    result = sl.minimize(valley, [0.3, -0.2], 0.5, rng=1, maxfevals=6)
    assert len(result.history) == 0
    assert_allclose(sl.curvature(valley, result).hessian, [[202, -200], [-200, 200]], rtol=1e-6)


def test_a_search_whose_values_are_all_infinite_has_no_curvature_and_no_warning():
    result = sl.minimize(lambda x: np.inf, [0.3, -0.2], 0.5, rng=1, maxfevals=40)
    found = sl.curvature(lambda x: np.inf, result)
    assert not found.success
    assert names(found) == ["undefined"]


def valley(x):
    """Two correlated variables."""
    return (x[0] - 1) ** 2 + 100 * (x[1] - x[0]) ** 2


def test_one_variable():
    found = sl.minimize(lambda x: 3 * (x[0] - 2) ** 2 + 1, [0.0], 0.5, rng=1, curvature=True).curvature
    assert_allclose(found.hessian, [[6.0]], rtol=1e-6)
    assert_allclose(found.directions, [[1.0]])


@pytest.mark.slow
def test_two_hundred_variables(rng):
    d = 200
    hessian = turned(d, 1e6, rng)
    scatter = np.exp(0.3 * rng.standard_normal(d))
    values, axes = np.linalg.eigh(hessian)
    place = OptimizeResult(x=np.ones(d), fun=3.0, hess_inv=(axes * scatter / values) @ axes.T)
    f = lambda X: 3.0 + 0.5 * np.sum(np.square((X - 1.0) @ axes) * values, axis=1)  # noqa: E731
    found = sl.curvature(f, place, vectorized=True)
    assert_allclose(relative(found, hessian), 1.0, atol=0.01)
    assert found.nfev <= (d + 1) * (d + 2)


def test_a_run_that_was_not_over_is_finished_by_newton(rng):
    hessian = turned(5, 1e3, rng)
    f = bowl(hessian, np.ones(5), 2.0)
    result = sl.minimize(f, np.zeros(5), 0.5, vectorized=True, maxfevals=350, rng=1)
    found = sl.curvature(f, result, vectorized=True)
    assert f(result.x[None])[0] - 2.0 > 1e-6
    assert f(found.x[None])[0] - 2.0 < 1e-12


def test_the_run_that_found_the_best_is_the_one_that_is_looked_at():
    f = lambda X: np.sum(np.where(X[:, :1] < 0, 100 * (X + 3) ** 2, (X - 3) ** 2 + 1), axis=1)  # noqa: E731
    result = sl.minimize(f, np.full(2, 3.0), 1.0, vectorized=True, restarts=3, rng=3)
    assert len(result.history.runs) > 1
    assert_allclose(
        sl.curvature(f, result, vectorized=True).hessian, (200 if result.fun < 0.5 else 2) * np.eye(2), atol=1e-3
    )


def rastrigin(rng):
    """A valley at every point of whole numbers, deeper towards 0, with noise."""
    return lambda X: np.sum(X**2 + 10 * (1 - np.cos(2 * np.pi * X)), axis=1) + 1e-3 * rng.standard_normal(len(X))


def test_under_noise_the_mean_is_that_of_the_run_that_found_the_best():
    f = rastrigin(np.random.default_rng(1))
    result = sl.minimize(
        f, np.full(2, 1.6), 0.5, vectorized=True, restarts=2, rng=5, maxfevals=20_000, evaluate_x0=False
    )
    assert np.linalg.norm(result.history.snapshots[-1].theta.mean - result.x) > 0.5  # the last run ended elsewhere
    found = sl.curvature(f, result, vectorized=True)
    assert_allclose(found.centre, result.x, atol=0.05)
    assert found.success


def test_values_with_few_digits_are_looked_at_from_afar(rng):
    hessian = turned(4, 1e3, rng)
    f = lambda X: np.round(bowl(hessian, np.ones(4), 1.0)(X), 7)  # noqa: E731
    found = sl.curvature(f, sl.minimize(f, np.zeros(4), 0.5, vectorized=True, rng=1), vectorized=True)
    assert_allclose(relative(found, hessian), 1.0, atol=0.01)
    assert found.delta_f > 1e-5  # rounding alone would have allowed 2e-8


# --- laws
# ----------------------------------------------------------------------------------------------------------------------


def skewed(X):
    """Not quadratic, not symmetric."""
    return np.sum(np.exp(0.3 * X) - 0.3 * X, axis=1) + (X[:, 0] + 2 * X[:, 1]) ** 2


@pytest.mark.parametrize("power", [-30, 4])
def test_scaling_f_by_a_power_of_two_scales_the_hessian_bit_for_bit(power):
    factor = 2.0**power
    plain, scaled = (
        sl.curvature(f, sl.minimize(f, np.ones(3), 0.5, vectorized=True, rng=1), vectorized=True)
        for f in (skewed, lambda X: factor * skewed(X))
    )
    assert_array_equal(scaled.hessian, factor * plain.hessian)
    assert_array_equal(scaled.hessian_error, factor * plain.hessian_error)
    assert scaled.nfev == plain.nfev


@pytest.mark.parametrize("power", [-20, 3])
def test_scaling_x_by_a_power_of_two_scales_the_hessian_bit_for_bit(power):
    factor = 2.0**power
    plain = sl.curvature(skewed, sl.minimize(skewed, np.ones(3), 0.5, vectorized=True, rng=1), vectorized=True)
    f = lambda X: skewed(X / factor)  # noqa: E731
    scaled = sl.curvature(f, sl.minimize(f, np.full(3, factor), 0.5 * factor, vectorized=True, rng=1), vectorized=True)
    assert_array_equal(scaled.hess_inv, factor**2 * plain.hess_inv)
    assert_array_equal(scaled.x, factor * plain.x)


def test_a_scale_that_is_no_power_of_two_rounds():
    plain, scaled = (
        sl.curvature(f, sl.minimize(f, np.ones(3), 0.5, vectorized=True, rng=1), vectorized=True)
        for f in (skewed, lambda X: 3.1 * skewed(X))
    )
    assert np.any(scaled.hessian != 3.1 * plain.hessian)
    assert_allclose(scaled.hessian, 3.1 * plain.hessian, rtol=1e-5, atol=1e-6)


def test_workers_and_vectorized_change_nothing():
    one = lambda x: skewed(x[None])[0]  # noqa: E731
    result = sl.minimize(one, np.ones(3), 0.5, rng=1)
    plain = sl.curvature(one, result)
    assert_array_equal(sl.curvature(one, result, workers=map).hessian, plain.hessian)
    assert_array_equal(sl.curvature(lambda x, a: a * one(x), result, args=(1.0,)).hessian, plain.hessian)
    assert_allclose(sl.curvature(skewed, result, vectorized=True).hessian, plain.hessian, rtol=1e-6, atol=1e-6)


# --- noise
# ----------------------------------------------------------------------------------------------------------------------


def noisy_trial(seed, d=10, condition=1e6, deviation=0.01):
    """A search under noise, the curvature there, and the truth."""
    rng = np.random.default_rng(seed)
    hessian, x = turned(d, condition, rng), rng.standard_normal(d)
    f = lambda X: bowl(hessian, x)(X) + deviation * rng.standard_normal(len(X))  # noqa: E731
    result = sl.minimize(f, np.zeros(d), 1.0, vectorized=True, maxfevals=20_000, rng=1000 + seed)
    return sl.curvature(f, result, vectorized=True), hessian


def within_two(found, hessian):
    """Where an entry of H and of H⁻¹ lies within two of its standard errors: (d(d + 1)/2,) each."""
    upper = np.triu_indices(len(hessian))
    pairs = (
        (found.hessian - hessian, found.hessian_error),
        (found.hess_inv - np.linalg.inv(hessian), found.hess_inv_error),
    )
    return [(np.abs(gap) < 2 * error)[upper] for gap, error in pairs]


def test_hessian_under_noise():
    widths = []
    for seed in range(4):
        found, hessian = noisy_trial(seed)
        widths.append(found.delta_f)
        assert_allclose(relative(found, hessian), 1.0, atol=0.1)
        assert found.noise == pytest.approx(0.01, rel=0.5)
        assert found.nfev <= 500 + 20 * 66
    assert np.median(widths) == pytest.approx(100 * 0.01, rel=0.9)


@pytest.mark.slow
def test_under_noise_the_hessian_is_right_and_its_errors_are_calibrated():
    trials = [noisy_trial(seed) for seed in range(200)]
    near = [bool(np.all(np.abs(relative(found, hessian) - 1.0) < 0.1)) for found, hessian in trials[:50]]
    assert np.mean(near) >= 0.95
    # entries of one matrix hang together: 200 searches, because the share of 50 still has a standard deviation of 2 %
    shares = np.mean([within_two(found, hessian) for found, hessian in trials], axis=(0, 2))
    assert_allclose(shares, 0.95, atol=0.03)


@pytest.mark.slow
def test_errors_are_calibrated_for_four_hundred_small_problems():
    trials = [noisy_trial(seed, d=3, condition=100.0) for seed in range(400)]
    shares = np.mean([within_two(found, hessian) for found, hessian in trials], axis=(0, 2))
    assert_allclose(shares, 0.95, atol=0.03)


def noisy_rosenbrock(seed, deviation):
    """The curvature of Rosenbrock's function in 5 dimensions from values with noise, and how far its curvatures are off
    at most.
    """
    rng = np.random.default_rng(seed)

    def f(X):
        rosenbrock = np.sum(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2, axis=1)
        return rosenbrock + deviation * rng.standard_normal(len(X))

    settings = {"method": sl.cma(sampling="independent"), "maxfevals": 10_000, "rng": seed}
    return f, sl.minimize(f, np.full(5, 0.8), 0.1, vectorized=True, **settings)


def factor_off(found, truth):
    values = relative(found, truth)
    return max(values.max(), 1 / values.min()) if values.min() > 0 else np.inf


def test_evaluations_that_are_given_under_noise_make_the_hessian_of_a_bent_valley_precise():
    truth = rosen_hess(np.ones(5))
    for seed in range(3):
        f, result = noisy_rosenbrock(seed, 1e-6)
        found = sl.curvature(f, result, maxfevals=751, vectorized=True)
        fixed = sl.curvature(f, result, delta_f=found.delta_f, maxfevals=751, vectorized=True)
        assert found.success
        assert found.nfev <= 751
        assert factor_off(found, truth) < 1.01
        assert factor_off(fixed, truth) > 1.01  # one radius as wide as that is too wide


def test_where_noise_hides_the_minimum_of_a_bent_valley_that_is_named_or_the_hessian_is_right():
    truth, named = rosen_hess(np.ones(5)), []
    for seed in range(10):
        found = sl.curvature(*noisy_rosenbrock(seed, 1e-2), vectorized=True)
        named.append(names(found))
        assert not found.success or factor_off(found, truth) < 1.4
    assert ["off_minimum"] in named
    assert [] in named


def test_a_minimum_that_noise_puts_far_outside_of_a_bent_valley_is_not_reported():
    f, result = noisy_rosenbrock(11, 1e-2)
    found = sl.curvature(f, result, vectorized=True)
    assert rosen(found.x) < 1.0  # it was 227, where the quadratic has its minimum
    assert names(found) == ["off_minimum"]


def test_a_bent_valley_is_extrapolated_by_default(rng):
    f = lambda X: np.sum(X**2 + X**4, axis=1) + 0.01 * rng.standard_normal(len(X))  # noqa: E731
    place = OptimizeResult(x=np.zeros(3), hess_inv=0.5 * np.eye(3))
    assert_allclose(sl.curvature(f, place, vectorized=True).hessian, 2 * np.eye(3), atol=0.3)
    plain = sl.curvature(f, place, delta_f=1.0, vectorized=True)
    assert "not_quadratic" in names(plain)
    assert plain.hessian[0, 0] > 2.5


def test_a_frame_that_noise_has_spoiled_is_not_used():
    conditions = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        hessian = turned(2, 1e6, rng)
        f = lambda X: bowl(hessian, np.ones(2))(X) + 0.01 * rng.standard_normal(len(X))  # noqa: B023, E731
        result = sl.minimize(f, np.zeros(2), 0.5, vectorized=True, maxfevals=10_000, rng=seed)
        roots = [find_place(result, None, deviation).root for deviation in (0.01, 0.0)]
        conditions.append([np.linalg.cond(root.T @ hessian @ root) for root in roots])
        assert_allclose(relative(sl.curvature(f, result, vectorized=True), hessian), 1.0, atol=0.1)
    kept, last = np.median(conditions, axis=0)
    assert kept < 30
    assert last > 1e3


def shares_with_a_budget(case, delta_f=None):
    """Shares of entries of H and of H⁻¹ within two standard errors when 750 evaluations are given, over 200
    searches.
    """
    shares = []
    for seed in range(200):
        f, hessian = case(seed)
        rng = np.random.default_rng(seed)
        noisy = lambda X, f=f, rng=rng: f(X) + 0.01 * rng.standard_normal(len(X))  # noqa: E731
        result = sl.minimize(noisy, np.zeros(len(hessian)), 0.5, vectorized=True, maxfevals=10_000, rng=seed)
        found = sl.curvature(noisy, result, maxfevals=750, delta_f=delta_f, vectorized=True)
        shares.append(np.mean(within_two(found, hessian), axis=1))
    return np.mean(shares, axis=0)


def turned_bowl(seed):
    hessian = turned(5, 1e6, np.random.default_rng(seed))
    return bowl(hessian, np.ones(5)), hessian


@pytest.mark.slow
def test_errors_are_calibrated_where_a_budget_was_given():
    assert_allclose(shares_with_a_budget(turned_bowl), 0.95, atol=0.03)


@pytest.mark.slow
def test_errors_hold_the_bias_of_what_is_not_quadratic():
    # a bias has a sign and is no noise: an error of its size holds it, but 95 % is not to be had
    assert shares_with_a_budget(logistic_with_minimum).min() > 0.85
    assert shares_with_a_budget(logistic_with_minimum, delta_f=4.0).max() < 0.5  # the same width without extrapolation


def test_a_value_that_comes_again_is_no_noise_and_one_that_does_not_is(rng):
    calls = []
    f = lambda x: calls.append(0) or float(x @ x)  # noqa: E731
    assert sl.curvature(f, at([0.5, 0.5], 0.5)).noise < 1e-8
    found = sl.curvature(lambda x: float(x @ x) + 0.1 * rng.standard_normal(), at([0.0, 0.0]))
    assert found.noise == pytest.approx(0.1, rel=0.5)
    assert_allclose(found.hessian, 2 * np.eye(2), atol=0.3)


def test_noise_that_is_told_is_not_measured(rng):
    f = lambda X: np.sum(X**2, axis=1) + 0.1 * rng.standard_normal(len(X))  # noqa: E731
    assert sl.curvature(f, at(np.zeros(2)), noise=0.1, vectorized=True).delta_f == 10.0


# --- what it says about itself
# ------------------------------------------------------------------------------------------------------


def test_a_plain_minimum_has_no_warnings(rng):
    f = bowl(turned(3, 10.0, rng), np.ones(3), 1.0)
    found = sl.curvature(f, sl.minimize(f, np.zeros(3), 0.5, vectorized=True, rng=1), vectorized=True)
    assert found.problems == ()
    assert found.lower_point is None
    assert found.success
    assert "no warnings" in found.summary()


def test_a_saddle_is_named():
    found = sl.curvature(lambda x: x[0] ** 2 - 0.5 * x[1] ** 2 + x[2] ** 2, at(np.zeros(3), 0.0))
    assert names(found) == ["saddle", "lower_point"]
    x, fun = found.lower_point.x, found.lower_point.fun
    assert x[0] ** 2 - 0.5 * x[1] ** 2 + x[2] ** 2 == fun < found.fun
    assert "x[1]" in str(found.problems[0])
    assert np.isnan(found.hess_inv).all()
    assert_allclose(found.hessian, np.diag([2.0, -1.0, 2.0]), atol=1e-5)
    assert_allclose(found.curvatures, [2.0, 2.0, -1.0], atol=1e-5)


def test_a_saddle_under_noise_is_named_where_it_is_beyond_its_error(rng):
    f = lambda X: X[:, 0] ** 2 - X[:, 1] ** 2 + 0.01 * rng.standard_normal(len(X))  # noqa: E731
    assert "saddle" in names(sl.curvature(f, at(np.zeros(2)), delta_f=1.0, vectorized=True))


def test_a_variable_at_its_bound_is_held_there():
    f = lambda x: (x[0] + 1) ** 2 + (x[1] - 2 + x[0]) ** 2 + 100 * (x[2] - x[1]) ** 2  # noqa: E731
    result = sl.minimize(f, np.ones(3), 0.5, bounds=[(0, 5), (0, 5), (-1, 9)], rng=1)
    found = sl.curvature(f, result)
    assert names(found) == ["at_bound"]
    assert "x[0] at 0" in str(found.problems[0])
    assert found.success
    assert_array_equal(found.free, [False, True, True])
    assert_allclose(found.hessian[1:, 1:], [[202.0, -200.0], [-200.0, 200.0]], rtol=1e-3)
    assert np.isnan(found.hessian[0]).all()
    assert_array_equal(found.hess_inv[0], 0.0)
    assert_allclose(found.x, [0, 2, 2], atol=1e-6)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: (x[0] + x[1]) ** 2 + x[2] ** 2,
        lambda x: x[0] ** 2 - 0.5 * x[1] ** 2 + x[2] ** 2,
        lambda x: np.nan if x[0] else 0.0,
    ],
    ids=["flat", "saddle", "undefined"],
)
def test_what_is_unknown_is_not_written_as_nan(fun, tmp_path):
    found = sl.curvature(fun, at(np.zeros(3), 0.0), kind="nll")
    figure = found.plot(tmp_path / "bars.png")
    texts = [text.get_text() for axis in figure.axes for text in [*axis.texts, *axis.get_yticklabels(), axis.title]]
    assert any(np.isnan(found.stderr))
    assert not re.search(r"\bnan\b", "\n".join([*texts, str(found), repr(found)]))


@pytest.fixture
def near_bounds():
    """Standard deviations 1, 1 and √3; bounds cut off the 95 % intervals at −1, 0.5 and 2.5, and not at −4."""
    f = lambda x: 0.5 * (x[0] ** 2 + x[1] ** 2 + 0.5 * (x[2] - x[1]) ** 2)  # noqa: E731
    place = OptimizeResult(x=np.zeros(3), fun=0.0)
    return sl.curvature(f, place, kind="nll", bounds=[(-1, 0.5), (None, None), (-4, 2.5)], names=["a", "b", "c"])


def test_intervals_end_at_the_bounds_and_say_so(near_bounds):
    q = ndtri(0.975)
    assert_allclose(near_bounds.intervals(), [[-1, 0.5], [-q, q], [-np.sqrt(3) * q, 2.5]], rtol=1e-6)
    assert_array_equal(near_bounds.ends_at_bound(), [[True, True], [False, False], [False, True]])
    assert_array_equal(near_bounds.ends_at_bound(0.3), np.zeros((3, 2)))
    assert "[-1 (bound), 0.5 (bound)]" in str(near_bounds)
    assert ", 2.5 (bound)]" in repr(near_bounds)
    assert_allclose(near_bounds.stderr, np.sqrt([1, 1, 3]), rtol=1e-6)


def test_regions_of_a_picture_end_at_the_bounds(near_bounds, tmp_path):
    figure = near_bounds.plot(tmp_path / "bars.png")
    ellipses = [axis for axis in figure.axes if axis.get_label() == "ellipse"]
    bounds = {"a": (-1, 0.5), "b": (-np.inf, np.inf), "c": (-4, 2.5)}
    assert ellipses
    for axis in ellipses:
        corners = np.concatenate([patch.get_xy() for patch in axis.patches])
        lower, upper = np.transpose([bounds[axis.get_xlabel()], bounds[axis.get_ylabel()]])
        assert (corners >= lower - 1e-9).all()
        assert (corners <= upper + 1e-9).all()
        assert any(line.get_label() == "bound" for line in axis.lines)
    assert "cut off at bounds" in next(text.get_text() for part in figure.subfigs[1].subfigs for text in part.texts)


def test_an_upper_bound_and_a_fixed_variable_count_too():
    f = lambda x: (x[0] - 9) ** 2 + (x[1] - 2) ** 2 + x[2] ** 2  # noqa: E731
    found = sl.minimize(f, [1.0, 1.0, 3.0], 0.5, bounds=[(0, 5), (0, 5), (3, 3)], rng=1, curvature=True).curvature
    assert_array_equal(found.free, [False, True, False])
    assert "x[0] at 5" in str(found.problems[0])
    assert_allclose(found.hessian[1, 1], 2.0, rtol=1e-4)


def test_nothing_is_free_in_a_corner():
    result = sl.minimize(lambda x: x[0] + x[1], [1.0, 1.0], 0.5, bounds=[(0, 2)] * 2, rng=1, curvature=True)
    assert names(result.curvature) == ["at_bound"]
    assert_array_equal(result.hess_inv, np.zeros((2, 2)))


@pytest.mark.parametrize("seed", range(25))
def test_a_centre_that_moves_to_a_bound_is_held_there_and_is_the_minimum_in_the_box(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    root, centre = np.linalg.cholesky(np.eye(d) + np.cov(rng.standard_normal((d, 9)))), rng.choice([-1.0, 0, 2, 6], d)
    f = lambda x: np.sum(((x - centre) @ root) ** 2)  # noqa: E731
    x0, evaluations = rng.uniform(1, 4, d), int(rng.choice([20, 40, 80, 200]))
    found = sl.minimize(f, x0, 0.5, bounds=(0, 5), rng=seed, maxfevals=evaluations, curvature=True).curvature
    known = lsq_linear(root.T, root.T @ centre, (0, 5), method="bvls").x
    assert_allclose(found.x, known, atol=1e-4)
    assert_array_equal(found.free, (known > 1e-9) & (known < 5 - 1e-9))
    hessian = 2 * (root @ root.T)[np.ix_(found.free, found.free)]
    assert_allclose(found.hessian[np.ix_(found.free, found.free)], hessian, atol=0.01)
    assert ("at_bound" in names(found)) == (not found.free.all())
    assert found.success


def test_a_point_inside_whose_minimum_is_a_corner_has_no_free_direction():
    corner = np.array([1.0, 2.0])
    f = lambda x: np.sum((np.asarray(x) - corner) ** 2)  # noqa: E731
    found = sl.curvature(f, at(corner + 2, f(corner + 2)), bounds=[(1, 6), (2, 7)], kind="nll")
    assert names(found) == ["at_bound", "better_point"]
    assert_array_equal(found.x, corner)
    assert found.fun == 0
    assert_array_equal(found.stderr, 0.0)
    assert_array_equal(found.intervals(), np.transpose([corner, corner]))
    assert "lower by 8" in found.summary()


def test_under_noise_a_mean_in_a_corner_has_no_free_direction(rng, monkeypatch):
    def place_with_mean_in_corner(*given, **settings):
        return replace(find_place(*given, **settings), mean=np.zeros(2))

    monkeypatch.setattr("sublevel.hessian.curvature.find_place", place_with_mean_in_corner)
    f = lambda X: np.sum(X, axis=1) + rng.standard_normal(len(X))  # noqa: E731
    found = sl.curvature(f, at([0.1, 0.1]), bounds=[(0, 2)] * 2, vectorized=True)
    assert names(found) == ["at_bound"]
    assert_array_equal(found.x, [0.0, 0.0])
    assert_array_equal(found.hess_inv, np.zeros((2, 2)))


def test_a_direction_without_curvature_is_named_and_spoils_only_what_it_touches():
    f = lambda x: (x[0] + x[1] - 1) ** 2 + x[2] ** 2  # noqa: E731
    found = sl.curvature(f, sl.minimize(f, np.zeros(3), 0.5, rng=1))
    assert names(found) == ["flat"]
    assert "x[0]" in str(found.problems[0])
    assert "x[1]" in str(found.problems[0])
    assert_array_equal(np.isnan(found.hess_inv), [[True, True, True], [True, True, True], [True, True, False]])
    assert_allclose(found.hess_inv[2, 2], 0.5, rtol=1e-3)
    assert_allclose(found.hessian, [[2, 2, 0], [2, 2, 0], [0, 0, 2]], atol=1e-3)


def test_a_constant_has_no_direction():
    assert names(sl.curvature(lambda x: 1.0, at(np.zeros(2), 1.0))) == ["flat"]


@pytest.mark.parametrize("height", [0.0, 1.0])
def test_a_quartic_is_named(height):
    f = lambda x: height + np.sum(x**4)  # noqa: E731
    found = sl.curvature(f, sl.minimize(f, np.ones(3), 0.5, rng=1))
    assert "not_quadratic" in names(found)
    assert not found.success


def test_a_kink_is_named():
    f = lambda x: np.sum(np.abs(x))  # noqa: E731
    assert "not_quadratic" in names(sl.curvature(f, sl.minimize(f, np.ones(3), 0.5, rng=1)))


def test_what_is_not_quadratic_depends_on_the_scale():
    f = lambda x: np.sum(x**2 + x**4)  # noqa: E731
    assert names(sl.curvature(f, at(np.zeros(2), 0.0), delta_f=1.0)) == ["not_quadratic"]
    assert names(sl.curvature(f, at(np.zeros(2), 0.0), delta_f=1e-3)) == []


def test_noise_above_the_signal_is_named_with_what_it_would_take(rng):
    f = lambda X: np.sum(X**2, axis=1) + rng.standard_normal(len(X))  # noqa: E731
    found = sl.curvature(f, at(np.zeros(3)), delta_f=0.1, maxfevals=200, vectorized=True)
    assert "noise" in names(found)
    assert "maxfevals" in str(found.problems[names(found).index("noise")])
    assert found.nfev <= 200
    assert not found.success
    better = sl.curvature(f, at(np.zeros(3)), delta_f=100.0, vectorized=True)  # what it advises
    assert better.success
    assert_allclose(better.hessian, 2 * np.eye(3), atol=0.3)


def test_a_search_that_noise_stopped_far_away_is_named(rng):
    f = lambda X: np.sum((X - 50) ** 2, axis=1) + 0.01 * rng.standard_normal(len(X))  # noqa: E731
    found = sl.curvature(f, at(np.zeros(2)), delta_f=1.0, vectorized=True)
    assert "not_converged" in names(found)
    assert_array_equal(found.x, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_is_no_saddle(seed):
    rng = np.random.default_rng(seed)
    found = sl.curvature(lambda X: rng.standard_normal(len(X)), at(np.zeros(12)), vectorized=True)
    assert "saddle" not in names(
        found
    )  # the smallest eigenvalue of such a matrix is about seven standard errors below 0
    assert not found.success


def test_noise_that_hides_whether_f_is_quadratic_is_named(rng):
    f = lambda X: np.sum(X**2, axis=1) + 0.1 * rng.standard_normal(len(X))  # noqa: E731
    found = sl.curvature(f, at(np.zeros(3)), delta_f=0.5, maxfevals=600, vectorized=True)
    assert names(found) == ["hidden_by_noise"]
    assert "maxfevals" in str(found.problems[0])
    assert names(sl.curvature(f, at(np.zeros(3)), delta_f=0.5, maxfevals=60_000, vectorized=True)) == []


def noisy_in_box(bend, noise, box, seed):
    """The curvature of bend(½‖x − c‖²), 1 at c, after a search in a box around c; f rises less than wanted there."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal(3)
    f = lambda X: bend(0.5 * np.sum((X - centre) ** 2, axis=1)) + noise * rng.standard_normal(len(X))  # noqa: E731
    bounds = np.stack([centre - box, centre + box], axis=1)
    options = {"noise": True, "maxfevals": 2000, "vectorized": True}
    result = sl.minimize(f, centre + 0.7, 0.5, bounds=bounds, rng=seed, **options)
    return sl.curvature(f, result, vectorized=True)


def errors_of(found):
    """The largest relative error of a curvature, and the same in standard errors."""
    wrong = np.abs(found.curvatures - 1)
    return np.max(wrong), np.max(wrong / found.curvatures_error)


@pytest.mark.parametrize("noise", [0.1, 0.5])
@pytest.mark.parametrize("box", [3.0, 5.0, 10.0])
def test_a_bent_function_under_noise_in_a_box_is_right_or_named(noise, box):
    for seed in range(6):
        found = noisy_in_box(np.log1p, noise, box, seed)
        wrong, deviations = errors_of(found)
        named = {"not_quadratic", "hidden_by_noise", "noise"} & set(names(found))
        assert named or wrong < 0.5 or deviations < 5, (seed, found)


def test_evaluations_are_repeated_until_a_change_with_the_radius_would_be_seen():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        f = lambda X: np.sum(0.2 * X**2 + 0.1 * X**4, axis=1) + 0.01 * rng.standard_normal(len(X))  # noqa: E731, B023
        found = sl.curvature(f, at(np.zeros(2)), bounds=[(-1, None)] * 2, vectorized=True)
        assert "hidden_by_noise" not in names(found) or found.nfev > 580  # of the default budget, 620


def test_a_quadratic_under_noise_in_a_box_is_not_called_bent():
    for seed in range(6):
        found = noisy_in_box(lambda rise: 0.2 * rise, 0.1, 5.0, seed)
        assert not {"not_quadratic", "saddle", "flat"} & set(names(found))
        assert_allclose(found.curvatures, 0.2, atol=5 * np.max(found.curvatures_error))


@pytest.mark.parametrize("noise", [None, 0.01])
def test_the_rise_that_is_reported_is_that_which_the_box_allows(noise):
    f = lambda x: np.sum((x - 1) ** 2)  # noqa: E731
    found = sl.curvature(f, at(np.ones(2)), bounds=[(0, 2)] * 2, delta_f=20.0, noise=noise)
    assert found.delta_f == pytest.approx(0.25)  # at half of the room, so that two axes remain within the bounds
    assert_allclose(found.hessian, 2 * np.eye(2), atol=1e-9)


@pytest.mark.parametrize("deviation", [0.0, 0.01])
@pytest.mark.parametrize("gap", [np.nan, np.inf, 1e308])
def test_values_that_are_missing_here_and_there_are_named_without_a_warning(gap, deviation, rng):
    for share in (0.02, 0.3, 1.0):

        def f(X, share=share):
            values = np.where(rng.random(len(X)) < share, gap, np.sum((X - 0.3) ** 2, axis=1))
            return values + deviation * rng.standard_normal(len(X))

        found = sl.curvature(f, at(np.full(5, 0.3)), vectorized=True)
        assert "undefined" in names(found) or np.isfinite(found.hessian).all()


def test_what_has_no_value_nearby_is_named():
    found = sl.curvature(lambda x: x @ x if (x >= 0).all() else np.nan, at(np.zeros(2), 0.0))
    assert names(found) == ["undefined"]
    assert np.isnan(found.hess_inv).all()
    assert "undefined" in found.summary()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e120, 1e149, 1e152, 1e155, 1e300])
@pytest.mark.parametrize("settings", [{}, {"kind": "nll"}, {"kind": "least_squares", "n_residuals": 9}])
def test_points_are_finite_and_nothing_is_raised_however_large_f_is(scale, settings):
    seen = []
    f = lambda x: seen.append(x) or scale * (1 + np.sum((x - 1) ** 2))  # noqa: E731
    found = sl.curvature(f, at([1.0, 1.001], scale), **settings)
    assert np.isfinite(seen).all()
    assert found.nfev == len(seen)
    assert ("undefined" in names(found)) == (scale > 1e150)
    assert found.success or found.problems
    if "undefined" in names(found):
        assert "divide f by a constant" in str(found.problems[0])
        assert found.nfev <= 2
    elif not settings:
        assert found.success
        assert_allclose(found.hessian / scale, 2 * np.eye(2), atol=1e-3)
    found.summary()


@pytest.mark.parametrize("seed", [10, 14])
def test_a_hessian_that_exceeds_the_range_of_numbers_is_named(seed):
    f = lambda x: np.sum(x)  # noqa: E731
    result = sl.minimize(f, [1.0, 2.0], 0.5, rng=seed, maxfevals=100, log_scaled=True)  # falls to 1e-60 … 1e-301
    found = sl.curvature(f, result)
    assert set(names(found)) & {"undefined", "lower_point"}
    assert not found.success


def test_errors_of_a_form_do_not_overflow_before_the_form_does(rng):
    star = Star(3, 3, both=False)
    values, *_ = seen_values(star, 1, 1, rng)
    errors, w = fit_quadratic(star, values, exact=False).errors, rng.standard_normal((3, 3))
    assert_allclose(errors.deviations_of_form(w, 4.0), 2.0 * np.sqrt(errors.of_form(w)), rtol=1e-14)
    assert_array_equal(errors.deviations_of_form(2.0**400 * w, 4.0), 2.0**800 * errors.deviations_of_form(w, 4.0))


@pytest.mark.parametrize("number", ["delta_f", "noise"])
def test_a_rise_that_no_value_can_have_is_refused(number):
    with pytest.raises(ValueError, match=f"`{number}` must be less than 1e.150"):
        sl.curvature(lambda x: x @ x, at(np.ones(2)), **{number: 1e200})


@pytest.mark.parametrize("settings", [{}, {"delta_f": 0.5}, {"kind": "nll"}, {"kind": "nll", "maxfevals": 90}])
def test_what_has_values_on_the_axes_only_is_named_with_every_kind(settings):
    f = lambda x: x @ x if np.count_nonzero(x) < 2 else np.nan  # noqa: E731
    found = sl.curvature(f, at(np.zeros(5), 0.0), **settings)
    assert names(found) == ["undefined"]
    assert "not finite everywhere around" in str(found.problems[0])


def test_a_hole_further_away_only_makes_the_region_smaller():
    f = lambda x: np.sum((x - 1) ** 2) if x[0] < 1.01 else np.inf  # noqa: E731
    found = sl.curvature(f, at(np.ones(2), 0.0), delta_f=1.0)
    assert_allclose(found.hessian, 2 * np.eye(2), atol=1e-3)


# --- bounds and scales
# --------------------------------------------------------------------------------------------------------------


def test_nothing_outside_the_bounds_is_evaluated(rng):
    hessian, seen = turned(4, 100.0, rng), []
    f = lambda X: seen.append(X) or bowl(hessian, np.ones(4))(X)  # noqa: E731
    low, high = np.array([0.999, -5, 0.0, -5]), np.array([5.0, 1.001, 5.0, 5.0])
    result = sl.minimize(
        f, [1.0005, 0.9995, 0.9995, 0.9995], 0.2, bounds=list(zip(low, high, strict=True)), vectorized=True, rng=1
    )
    found = sl.curvature(f, result, delta_f=1.0, vectorized=True)
    points = np.concatenate(seen)
    assert (points >= low).all()
    assert (points <= high).all()
    assert found.free.all()
    assert_allclose(relative(found, hessian), 1.0, atol=0.01)


def test_other_radii_stay_within_the_bounds_too(rng):
    seen = []
    f = lambda X: seen.append(X) or np.sum((X - 1) ** 2 + (X - 1) ** 4, axis=1) + 0.01 * rng.standard_normal(len(X))  # noqa: E731
    low, high = [-1.0, -5.0, -5.0], [5.0, 3.0, 5.0]
    found = sl.curvature(f, at(np.ones(3)), bounds=list(zip(low, high, strict=True)), maxfevals=2000, vectorized=True)
    points = np.concatenate(seen)
    assert (points >= low).all()
    assert (points <= high).all()
    assert_allclose(found.hessian, 2 * np.eye(3), atol=0.1)


def test_log_scaled_variables_have_the_hessian_of_the_users_coordinates():
    f = lambda x: (np.log(x[0]) - 1) ** 2 + (x[1] - 2 + np.log(x[0])) ** 2  # noqa: E731
    found = sl.minimize(f, np.ones(2), 0.5, log_scaled=[True, False], rng=1, curvature=True).curvature
    assert_allclose(found.hessian, [[4 / np.e**2, 2 / np.e], [2 / np.e, 2]], rtol=1e-5)


def test_slopes_of_a_space_are_its_derivative():
    opt = sl.Optimizer([0.02, 3.0, 1.0], 0.5, bounds=[(0, 5), (1, 9), (0.5, None)], log_scaled=[False, True, False])
    for x in ([0.02, 3.0, 1.0], [0.2, 1.01, 0.51], [4.9, 8.9, 7.0]):
        u, h = opt.space.searched(np.array(x)), 1e-6
        numeric = [
            (opt.space.points(u + h * e) - opt.space.points(u - h * e))[i] / (2 * h) for i, e in enumerate(np.eye(3))
        ]
        assert_allclose(opt.space.slopes(np.array(x)), numeric, rtol=1e-5)


def test_a_frame_over_the_free_variables_has_their_covariance_given_the_others(rng):
    cov = turned(4, 100.0, rng)
    place = OptimizeResult(x=np.array([0.0, 1, 1, 1]), hess_inv=cov)
    from sublevel.hessian.frame import find_place, free_frame

    frame = free_frame(find_place(place, [(0, 5)] + [(None, None)] * 3), place.x)
    assert isinstance(frame, Frame)
    given = cov[1:, 1:] - np.outer(cov[1:, 0], cov[0, 1:]) / cov[0, 0]
    assert_allclose((frame.root @ frame.root.T)[1:, 1:], given, rtol=1e-10)
    assert_array_equal(frame.root[0], 0.0)


# --- fits
# ----------------------------------------------------------------------------------------------------------------------


def logistic(seed, n=200):
    """A data set of a logistic regression, its negative log-likelihood of points (m, 4), and its Fisher information at
    a point.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    sign = np.where(rng.random(n) < expit(X @ TRUTH), -1.0, 1.0)

    def information(b):
        p = expit(X @ b)
        return (X.T * (p * (1 - p))) @ X

    return lambda B: np.sum(np.logaddexp(0.0, (B @ X.T) * sign), axis=1), information


TRUTH = np.array([0.5, 1.0, -1.0, 0.3])


def logistic_with_minimum(seed):
    """The negative log-likelihood, and its Hessian at the minimum."""
    nll, information = logistic(seed)
    best = minimize(lambda b: nll(b[None])[0], TRUTH, method="BFGS", options={"gtol": 1e-7}).x
    return nll, information(best)


def test_errors_of_a_likelihood_are_those_of_its_information():
    nll, information = logistic(0)
    found = sl.curvature(nll, sl.minimize(nll, np.zeros(4), 1.0, vectorized=True, rng=1), kind="nll", vectorized=True)
    assert found.delta_f == 0.5
    assert_allclose(found.stderr, np.sqrt(np.diagonal(np.linalg.inv(information(found.x)))), rtol=0.03)
    exact = sl.curvature(
        nll, sl.minimize(nll, np.zeros(4), 1.0, vectorized=True, rng=1), kind="nll", delta_f=1e-5, vectorized=True
    )
    assert_allclose(exact.covariance, np.linalg.inv(information(exact.x)), rtol=1e-3, atol=1e-5)
    assert_allclose(found.intervals(0.95)[:, 1] - found.x, 1.959964 * found.stderr, rtol=1e-6)


@pytest.mark.slow
def test_intervals_cover_what_they_promise():
    covered = []
    for seed in range(500):
        nll, _ = logistic(seed)
        found = sl.curvature(
            nll, sl.minimize(nll, np.zeros(4), 1.0, vectorized=True, rng=seed), kind="nll", vectorized=True
        )
        bounds = [found.intervals(level) for level in (0.68, 0.95)]
        covered.append([(low < TRUTH) & (high > TRUTH) for low, high in (interval.T for interval in bounds)])
    narrow, wide = np.mean(covered, axis=(0, 2))
    assert narrow == pytest.approx(0.68, abs=0.05)
    assert wide == pytest.approx(0.95, abs=0.025)


def test_errors_of_least_squares_are_those_of_curve_fit(rng):
    t = np.linspace(0, 4, 40)
    model = lambda t, a, k, c: a * np.exp(-k * t) + c  # noqa: E731
    y = model(t, 2.0, 1.3, 0.5) + 0.05 * rng.standard_normal(t.size)
    squares = lambda p: np.sum((y - model(t, *p)) ** 2)  # noqa: E731
    found = sl.curvature(
        squares,
        sl.minimize(squares, [1.0, 1.0, 0.0], 0.3, rng=1),
        kind="least_squares",
        n_residuals=t.size,
        delta_f=1e-7,
    )
    values, covariance = curve_fit(model, t, y, [1.0, 1.0, 0.0])
    assert_allclose(found.x, values, rtol=1e-5)
    # curve_fit leaves the second derivatives of the model out: a few per cent
    assert_allclose(found.stderr, np.sqrt(np.diagonal(covariance)), rtol=0.05)
    assert found.intervals(0.95)[0, 1] - found.x[0] > 2.02 * found.stderr[0]  # Student's t with 37 degrees of freedom
    assert "sum of squares" in found.summary()


def test_a_linear_fit_is_exact(rng):
    t = np.linspace(-1, 1, 20)
    X = np.column_stack([np.ones(20), t, t**2])
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(20)
    squares = lambda p: np.sum((y - X @ p) ** 2)  # noqa: E731
    found = sl.curvature(squares, sl.minimize(squares, np.zeros(3), 1.0, rng=1), kind="least_squares", n_residuals=20)
    best, residual, *_ = np.linalg.lstsq(X, y)
    assert_allclose(found.x, best, atol=1e-6)
    assert_allclose(found.covariance, residual[0] / 17 * np.linalg.inv(X.T @ X), rtol=1e-4, atol=1e-8)
    assert found.delta_f == pytest.approx(residual[0] / 17)


@pytest.mark.parametrize("bounds", [(0.5, 0.5), (0.5, 9.0)], ids=["fixed", "at its bound"])
def test_a_variable_that_is_held_costs_no_degree_of_freedom(bounds, rng):
    t = np.linspace(-1, 1, 8)
    line = lambda t, a, b: a + b * t + 0.5 * t**2  # noqa: E731
    y = line(t, 1.0, 2.0) - 0.3 * t**2 + 0.1 * rng.standard_normal(8)  # the third coefficient would fall below 1/2
    squares = lambda p: np.sum((y - p[0] - p[1] * t - p[2] * t**2) ** 2)  # noqa: E731
    result = sl.minimize(squares, [0.0, 0.0, 0.5], 1.0, bounds=[(-9, 9), (-9, 9), bounds], rng=1)
    found = sl.curvature(squares, result, kind="least_squares", n_residuals=8)
    values, covariance = curve_fit(line, t, y)  # the third coefficient held
    errors = np.sqrt(np.diagonal(covariance))
    assert_array_equal(found.free, [True, True, False])
    assert_allclose(found.x, [*values, 0.5], atol=1e-5)
    assert_allclose(found.stderr, [*errors, 0.0], rtol=1e-4)
    half = stdtrit(6, 0.975) * errors
    assert_allclose(found.intervals(0.95)[:2], np.transpose([values - half, values + half]), rtol=1e-4)


def test_without_a_kind_there_is_no_standard_error_to_give():
    found = sl.curvature(lambda x: x @ x, at(np.ones(2) * 1e-9))
    for ask in (lambda: found.stderr, lambda: found.covariance, found.intervals):
        with pytest.raises(ValueError, match='kind="nll"'):
            ask()


def test_correlations(rng):
    hessian = turned(3, 100.0, rng)
    found = sl.curvature(lambda x: 0.5 * x @ hessian @ x, at(np.zeros(3), 0.0))
    inverse = np.linalg.inv(hessian)
    deviations = np.sqrt(np.diagonal(inverse))
    assert_allclose(found.correlation, inverse / np.outer(deviations, deviations), atol=1e-5)


def test_principal_directions_go_from_stiff_to_sloppy(rng):
    hessian = turned(5, 1e8, rng)
    f = bowl(hessian, np.ones(5))
    found = sl.curvature(f, sl.minimize(f, np.zeros(5), 1.0, vectorized=True, rng=1), vectorized=True)
    values, vectors = np.linalg.eigh(hessian)
    assert_allclose(found.curvatures, values[::-1], rtol=1e-4)
    assert_allclose(np.abs(np.sum(found.directions * vectors[:, ::-1], axis=0)), 1.0, atol=1e-6)
    assert (found.curvatures_error < 1e-3 * found.curvatures).all()


# --- minimize
# ----------------------------------------------------------------------------------------------------------------------


def test_minimize_fills_hess_inv():
    f = lambda x: (x[0] - 1) ** 2 + 100 * (x[1] - x[0]) ** 2  # noqa: E731
    plain, curved = (sl.minimize(f, [0, 0], 0.5, rng=1, curvature=flag) for flag in (False, True))
    assert_allclose(curved.hess_inv, [[0.5, 0.5], [0.5, 0.505]], rtol=1e-5)
    assert curved.hess_inv is curved.curvature.hess_inv
    assert curved.nfev == plain.nfev + curved.curvature.nfev
    assert plain.hess_inv is None
    assert "hess_inv" in repr(curved)
    through_scipy = minimize(f, [0, 0], method=sl.scipy_method, options={"sigma0": 0.5, "rng": 1, "curvature": True})
    assert_array_equal(through_scipy.hess_inv, curved.hess_inv)


def test_what_the_search_found_is_not_lost_when_the_look_fails():
    f = lambda x: (x - 1) @ (x - 1)  # noqa: E731
    calls = sl.minimize(f, [0, 0], 0.5, rng=1).nfev

    def ends(error):
        left = iter(range(calls + 3))
        return lambda x: f(x) if next(left, None) is not None else _raised(error)

    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(ends(ZeroDivisionError()), [0, 0], 0.5, rng=1, curvature=True)
    assert caught.value.sublevel_result.fun < 1e-15
    stopped = sl.minimize(ends(KeyboardInterrupt()), [0, 0], 0.5, rng=1, curvature=True)
    assert stopped.curvature is None
    assert stopped.success


def _raised(error):
    raise error


def test_there_is_no_curvature_where_there_is_no_minimum():
    result = sl.minimize(lambda x: np.nan, [0, 0], 0.5, rng=1, curvature=True)
    assert result.curvature is None
    with pytest.raises(ValueError, match="binary methods"):
        sl.minimize(lambda x: x.sum(), np.full(3, 0.5), None, method="pbil", curvature=True)
    with pytest.raises(ValueError, match="binary methods"):
        sl.curvature(lambda x: x.sum(), sl.Optimizer(np.full(3, 0.5), None, method="pbil"))


# --- profile, summary, pictures
# -----------------------------------------------------------------------------------------------------


def test_profile_says_how_far_the_quadratic_holds():
    f = lambda x: 50 * x[0] ** 2 + 0.5 * x[1] ** 2 + 0.02 * x[1] ** 4 + np.where(x[1] > 0, x[1] ** 3, 0.0)  # noqa: E731
    found = sl.curvature(f, at(np.zeros(2), 0.0), kind="nll", delta_f=1e-4)
    profile = found.profile(f)
    assert_allclose(profile.ratios[0], 1.0, atol=1e-3)
    assert_array_equal(profile.holds[0], [3.0, 3.0])
    side = np.sign(found.directions[1, 1])
    assert sorted(profile.holds[1]) == [0.0, 1.0]
    assert profile.holds[1][int(side > 0)] == 0.0
    assert profile.nfev == 2 * 4 * 2
    assert "from -3 to +3" in str(profile)


def test_profile_stays_within_the_bounds_and_leaves_out_what_does_not_rise():
    seen = []
    f = lambda x: seen.append(x) or (x[0] - 1) ** 2 - x[1] ** 2  # noqa: E731
    found = sl.curvature(f, at([1.0, 0.0], 0.0), bounds=[(0.9, 3), (-1, 1)], kind="nll")
    seen.clear()
    profile = found.profile(f)
    assert np.array(seen)[:, 0].min() >= 0.9
    assert np.isnan(profile.ratios).any()
    assert np.isnan(profile.ratios[1]).all()
    assert "nowhere" in str(profile)
    with pytest.raises(ValueError, match="steps"):
        found.profile(f, steps=[-1.0, 1.0])


def test_summary_is_one_page(rng):
    nll, _ = logistic(0)
    result = sl.minimize(nll, np.zeros(4), 1.0, vectorized=True, rng=1)
    found = sl.curvature(nll, result, kind="nll", vectorized=True, names=["const", "age", "dose", "time"])
    text = found.summary()
    assert str(found) == text
    assert len(text.splitlines()) < 40
    assert max(map(len, text.splitlines())) <= 140
    for word in ("dose", "±", "(stiff)", "(sloppy)", "correlation", "95 % interval", f"{found.fun:.10g}"):
        assert word in text
    large = sl.curvature(lambda X: np.sum((X - 1) ** 2, axis=1), at(np.ones(40), 0.0), vectorized=True)
    assert len(large.summary().splitlines()) < 70
    assert "strongest correlations" in large.summary()


@pytest.mark.parametrize("kind", [None, "nll"])
def test_pictures(kind, tmp_path, rng):
    hessian = turned(4, 1e3, rng)
    found = sl.curvature(bowl(hessian, np.ones(4)), at(np.ones(4), 0.0), kind=kind, vectorized=True)
    labels = [axis.get_label() for axis in found.plot(tmp_path / "overview.png").axes]
    assert (tmp_path / "overview.png").stat().st_size > 10_000
    assert [label for label in labels if label != "<colorbar>"] == [
        "parameters",
        "spectrum",
        "correlations",
        *["ellipse"] * 4,
    ]


def test_pictures_of_what_went_wrong(tmp_path):
    for f in (lambda x: x[0] ** 2 - (x[1] + x[2]) ** 2, lambda x: np.nan):
        figure = sl.curvature(f, at([0.3, -0.3, 0.3])).plot(tmp_path / "wrong.png")
        assert "ellipse" not in [axis.get_label() for axis in figure.axes]
    sl.curvature(lambda x: (x[0] - 1) ** 2, at([1.0], 0.0)).plot(tmp_path / "one.png")


# --- the door
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"kind": "chi2"}, ValueError, "kind"),
        ({"kind": "least_squares"}, ValueError, "n_residuals"),
        ({"kind": "nll", "n_residuals": 10}, ValueError, "n_residuals"),
        ({"kind": "least_squares", "n_residuals": 2}, ValueError, "exceed"),
        ({"delta_f": -1.0}, ValueError, "delta_f"),
        ({"delta_f": "small"}, TypeError, "delta_f"),
        ({"noise": -1.0}, ValueError, "noise"),
        ({"maxfevals": 3}, ValueError, "maxfevals"),
        ({"names": ["a"]}, ValueError, "names"),
        ({"bounds": [(0, 1)]}, ValueError, "bounds"),
        ({"workers": 0}, ValueError, "workers"),
    ],
    ids=lambda case: "-".join(case) if isinstance(case, dict) else None,
)
def test_what_is_wrong_is_said(wrong, error, message):
    with pytest.raises(error, match=message):
        sl.curvature(lambda x: x @ x, at(np.full(2, 0.5)), **wrong)


def test_it_needs_a_function_and_a_place():
    with pytest.raises(TypeError, match="fun"):
        sl.curvature(3.0, at(np.zeros(2)))
    with pytest.raises(TypeError, match="minimize"):
        sl.curvature(lambda x: x @ x, [0.0, 0.0])
    with pytest.raises(ValueError, match="level"):
        sl.curvature(lambda x: x @ x, at(np.full(2, 1e-9)), kind="nll").intervals(95)


@pytest.mark.parametrize("maxfevals", [44, 60, 100])
def test_the_budget_holds(maxfevals, rng):
    noisy = lambda X: np.sum(X**2, axis=1) + 0.1 * rng.standard_normal(len(X))  # noqa: E731
    flat = lambda X: (X[:, 0] + X[:, 1]) ** 2 + X[:, 2] ** 4  # noqa: E731
    for f in (noisy, flat, bowl(turned(4, 1e6, rng), np.full(4, 1e-3))):
        assert sl.curvature(f, at(np.zeros(4)), maxfevals=maxfevals, vectorized=True).nfev <= maxfevals


# --- asked for with the search
# -----------------------------------------------------------------------------------------------------------------


def line_squares(p):
    t = np.linspace(0.0, 1.0, 8)
    return float(np.sum((p[0] + p[1] * t - np.cos(3 * t)) ** 2))


def test_a_search_passes_on_what_f_is():
    search = {"rng": 1, "curvature": True}
    fit = sl.minimize(line_squares, [0, 0], 0.5, **search, kind="least_squares", n_residuals=8)
    afterwards = sl.curvature(line_squares, sl.minimize(line_squares, [0, 0], 0.5, rng=1), **LEAST_SQUARES)
    assert_array_equal(fit.curvature.stderr, afterwards.stderr)
    assert_array_equal(fit.curvature.intervals(), afterwards.intervals())
    nll = sl.minimize(line_squares, [0, 0], 0.5, **search, kind="nll")
    assert_array_equal(nll.curvature.covariance, nll.hess_inv)
    assert sl.minimize(line_squares, [0, 0], 0.5, **search).curvature.kind is None


LEAST_SQUARES = {"kind": "least_squares", "n_residuals": 8}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (LEAST_SQUARES, "Pass curvature=True"),
        ({"kind": "nll"}, "Pass curvature=True"),
        ({"n_residuals": 8}, "Pass curvature=True"),
        ({"curvature": True, "kind": "likelihood"}, "`kind` must be"),
        ({"curvature": True, "kind": "least_squares"}, "`n_residuals`, the number of squared residuals, is required"),
        ({"curvature": True, "n_residuals": 8}, "only valid with kind="),
        ({"curvature": True, "kind": "least_squares", "n_residuals": 2}, "the number of real variables, 2, got 2"),
    ],
)
def test_what_f_is_makes_no_sense_without_a_curvature(settings, message):
    calls = []
    with pytest.raises(ValueError, match=message):
        sl.minimize(calls.append, [0, 0], 0.5, rng=1, **settings)
    assert not calls
