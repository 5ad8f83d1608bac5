"""The model of the order: a fast form that equals the formulas in plain loops, and the laws it obeys."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sublevel.surrogate import model
from sublevel.surrogate.archive import Archive, concordance, dense_ranks
from sublevel.surrogate.model import Fit, Quadratic

RIDGE = 3.0


def slow_increments(z, values, first_weight):
    """Scaled increments of the features and their weights, in plain loops."""
    n = len(z)
    order = sorted(range(n), key=lambda i: (np.isnan(values[i]), values[i], i))
    squares = sorted(float(sum(c * c for c in point)) for point in z)
    rows, weights = [], []
    for i in range(n - 1):
        low, high = values[order[i]], values[order[i + 1]]
        is_tied = low == high or (np.isnan(low) and np.isnan(high))
        v = [first_weight + (1 - first_weight) * k / (n - 1) for k in (i, i + 1)]
        weights.append(0.0 if is_tied else (v[0] * v[1]) ** 0.5)
        above, below = min(i + 4, n - 1), max(i - 3, 0)
        gap = max((squares[above] - squares[below]) / (above - below), 1e-12 * squares[-1])
        rows.append([(b - a) / gap for a, b in zip(*(slow_features(z[order[k]]) for k in (i, i + 1)), strict=True)])
    total = sum(weights)
    return np.array(rows), np.array([w * (n - 1) / total for w in weights])


def slow_features(point):
    d = len(point)
    products = [point[i] * point[j] for i in range(d) for j in range(i + 1, d)]
    return [*point, *(c * c for c in point), *products]


def slow_loss(c, rows, weights, d, ridge):
    """The barrier loss with its prior, in plain loops."""
    loss = 0.0
    for row, weight in zip(rows, weights, strict=True):
        u = sum(a * b for a, b in zip(row, c, strict=True))
        v = u / 0.3 - 1
        loss += weight * (u - log(u) if u >= 0.3 else u - log(0.3) - v + v * v / 2)
    H = np.diag(c[d : 2 * d])
    products = iter(c[2 * d :])
    for i in range(d):
        for j in range(i + 1, d):
            H[i, j] = H[j, i] = next(products) / 2
    mean = np.trace(H) / d
    loss += 0.5 * ridge * np.sum((H - mean * np.eye(d)) ** 2) + 0.5 * 0.1 * d * (mean - 1) ** 2
    return loss + 0.5 * model.LINEAR_WEIGHT * np.sum(c[:d] ** 2)


def some_values(rng, n):
    """Values with ties, NaN and infinities."""
    values = np.round(rng.standard_normal(n), 1)
    values[0], values[1], values[2], values[3] = np.nan, np.nan, np.inf, -np.inf
    return values


@pytest.mark.parametrize("d", [1, 2, 4])
def test_increments_are_those_of_the_formula(d, rng):
    z, values = rng.standard_normal((30, d)), some_values(rng, 30)
    rows, weights = slow_increments(z, values, 20.0)
    fast_rows, fast_weights = model.increments(z, values, 20.0)
    assert_allclose(fast_rows, rows[weights > 0], rtol=1e-9, atol=1e-12)
    assert_allclose(fast_weights, weights[weights > 0], rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_loss_is_that_of_the_formula(d, rng):
    z, values = rng.standard_normal((30, d)), some_values(rng, 30)
    U, weights = model.increments(z, values, 5.0)
    c, e = (rng.standard_normal(U.shape[1]) for _ in range(2))
    slow = slow_loss(c, U, weights, d, RIDGE) - slow_loss(e, U, weights, d, RIDGE)
    fast = model.barrier_loss(c, U, weights, RIDGE, d) - model.barrier_loss(e, U, weights, RIDGE, d)
    assert_allclose(fast, slow, rtol=1e-9)


def test_the_derivatives_of_the_barrier_are_those_of_its_values():
    u, h = np.array([-2.0, 0.1, 0.299, 0.301, 1.0, 7.0]), 1e-4
    below, here, above = (model.barrier_terms(u + k * h) for k in (-1, 0, 1))
    assert_allclose(here[1], (above[0] - below[0]) / (2 * h), atol=1e-5)
    assert_allclose(here[2], (above[1] - below[1]) / (2 * h), atol=2e-2)
    joined = model.barrier_terms(np.array([0.3 - 1e-12, 0.3]))
    for terms in joined:
        assert_allclose(terms[0], terms[1], rtol=1e-9)


@pytest.mark.parametrize("d", [2, 5])
def test_newton_finds_the_minimum_of_the_loss(d, rng):
    z = rng.standard_normal((40, d))
    U, weights = model.increments(z, np.sum(z**4, axis=1), 20.0)
    start = model.as_coefficients(Quadratic(np.zeros(d), np.eye(d)))
    found = model.fit_barrier(U, weights, RIDGE, d, start)
    loss = model.barrier_loss(found, U, weights, RIDGE, d)
    assert loss <= model.barrier_loss(start, U, weights, RIDGE, d)
    for _ in range(50):
        nearby = found + 0.1 * np.linalg.norm(found) * rng.standard_normal(found.size) / np.sqrt(found.size)
        assert model.barrier_loss(nearby, U, weights, RIDGE, d) > loss - 2 * model.DECREMENT


def test_coefficients_and_quadratics_are_the_same(rng):
    H = rng.standard_normal((4, 4))
    quadratic = Quadratic(rng.standard_normal(4), H + H.T)
    again = model.as_quadratic(model.as_coefficients(quadratic), 4)
    z = rng.standard_normal((7, 4))
    assert_allclose(again(z), quadratic(z), rtol=1e-12)
    assert_allclose(model.features(z) @ model.as_coefficients(quadratic), quadratic(z), rtol=1e-10)


def test_a_moved_model_has_the_same_differences(rng):
    quadratic = Quadratic(rng.standard_normal(3), np.diag([1.0, 2.0, 3.0]))
    shift, matrix = rng.standard_normal(3), rng.standard_normal((3, 3))
    y = rng.standard_normal((5, 3))
    old, new = quadratic(shift + y @ matrix.T), quadratic.move(shift, matrix)(y)
    assert_allclose(np.diff(new), np.diff(old), rtol=1e-10)


@pytest.mark.parametrize("d", [3, 16])
def test_a_quadratic_is_learned_from_its_order(d, rng):
    """Half the points determine the order of the other half, for both losses."""
    truth = Quadratic(rng.standard_normal(d), np.diag(np.linspace(0.5, 2.0, d)))
    z = rng.standard_normal((4 * model.count_coefficients(d), d))
    known, new = z[::2], z[1::2]
    start = Quadratic(np.zeros(d), np.eye(d))
    fitted = model.fit_quadratic(known, np.exp(truth(known)), Fit(2.0, 20.0, 1.0), start)
    assert concordance(dense_ranks(truth(new)), fitted(new)) > 0.9


@pytest.mark.parametrize("curvatures", [[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("slope", [0.0, 0.1, 30.0])
def test_no_point_of_the_ball_is_lower_than_its_minimum(curvatures, slope, rng):
    quadratic = Quadratic(slope * np.array([0.0, 1.0, -1.0]), np.diag(curvatures))
    found = model.minimum_in_ball(quadratic, 2.0)
    z = rng.standard_normal((2000, 3))
    z *= 2.0 * rng.uniform(0, 1, (2000, 1)) ** (1 / 3) / np.linalg.norm(z, axis=1, keepdims=True)
    assert np.linalg.norm(found) <= 2.0 * (1 + 1e-9)
    assert quadratic(found[None])[0] <= np.min(quadratic(z)) + 1e-6


def test_concordance_is_kendalls_tau(rng):
    from scipy.stats import kendalltau

    values, predicted = rng.standard_normal(20), rng.standard_normal(20)
    assert_allclose(concordance(dense_ranks(values), predicted), kendalltau(values, predicted).statistic, rtol=1e-12)
    pairs = [(i, j) for j in range(15, 20) for i in range(j)]
    agree = [np.sign(values[i] - values[j]) * np.sign(predicted[i] - predicted[j]) for i, j in pairs]
    assert_allclose(concordance(dense_ranks(values), predicted, 15), np.mean(agree), rtol=1e-12)


def test_there_is_no_concordance_without_different_values():
    assert concordance(dense_ranks(np.full(4, np.nan)), np.arange(4.0)) == 0.0


def test_nan_is_one_value_above_infinity():
    assert_array_equal(dense_ranks(np.array([np.nan, np.inf, 1.0, np.nan, -np.inf])), [3, 2, 1, 3, 0])


def test_an_archive_drops_the_oldest_evaluations():
    archive = Archive.empty(1).add(np.arange(3.0)[:, None], np.arange(3.0), 4)
    archive = archive.add(np.arange(3.0, 6.0)[:, None], np.arange(3.0, 6.0), 4)
    assert_array_equal(archive.values, [2.0, 3.0, 4.0, 5.0])
    assert_array_equal(archive.x[:, 0], archive.values)


@settings(max_examples=100)
@given(st.lists(st.floats(), min_size=8, max_size=40), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4, 15]))
def test_every_order_has_a_finite_model(values, seed, d):
    z = np.random.default_rng(seed).standard_normal((len(values), d))
    fitted = model.fit_quadratic(z, np.array(values), Fit(2.0, 20.0, 1.0), Quadratic(np.zeros(d), np.eye(d)))
    assert fitted.is_finite


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_model_only_sees_the_order(seed):
    rng = np.random.default_rng(seed)
    z, values = rng.standard_normal((20, 3)), rng.standard_normal(20)
    start = Quadratic(np.zeros(3), np.eye(3))
    one, other = (model.fit_quadratic(z, numbers, Fit(2.0, 20.0, 1.0), start) for numbers in (values, np.exp(values)))
    assert one.g.tobytes() == other.g.tobytes()
    assert one.H.tobytes() == other.H.tobytes()


@pytest.mark.parametrize("d", [2, 5])
def test_the_uncertainty_is_the_inverse_of_the_normal_equations(d, rng):
    how, z, points = Fit(2.0, 20.0, 1.0), rng.standard_normal((40, d)), rng.standard_normal((6, d))
    values = some_values(rng, 40)
    most = int(2.0 * model.count_coefficients(d))
    U, weights = model.increments(z[-most:], values[-most:], 20.0)
    inverse = np.linalg.inv(U.T @ np.diag(weights) @ U + model.prior(d, 1.0)[0])
    expected = model.features(points) @ inverse @ model.features(points).T
    assert_allclose(
        model.uncertainty(points, z, values, how), expected, rtol=1e-6, atol=1e-9 * np.max(np.abs(expected))
    )


def test_without_points_the_uncertainty_is_that_of_the_prior(rng):
    points, how = rng.standard_normal((4, 3)), Fit(1.0, 2.0, 3.0)
    phi, P = model.features(points), model.prior(3, how.ridge)[0]
    found = model.uncertainty(points, np.empty((0, 3)), np.empty(0), how)
    assert_allclose(found, phi @ np.linalg.solve(P, phi.T), rtol=1e-6)


def test_the_uncertainty_only_sees_the_order(rng):
    how, z, points = Fit(2.0, 20.0, 1.0), rng.standard_normal((40, 3)), rng.standard_normal((6, 3))
    values = rng.standard_normal(40)
    same, other = (model.uncertainty(points, z, v, how) for v in (np.exp(values), values**2))
    expected = model.uncertainty(points, z, values, how).tobytes()
    assert same.tobytes() == expected
    assert other.tobytes() != expected


@pytest.mark.parametrize("first", [0, 2])
def test_the_most_uncertain_points_are_uncertain_given_those_before(first, rng):
    root = rng.standard_normal((7, 9))
    covariance = root @ root.T
    chosen = model.most_uncertain(covariance, 7, first)
    assert sorted(chosen) == list(range(7))
    assert list(chosen[:first]) == list(range(first))
    for k in range(first, 7):
        known = chosen[:k]
        gain = covariance[:, known] @ np.linalg.pinv(covariance[np.ix_(known, known)])
        variances = np.diag(covariance - gain @ covariance[known])
        assert variances[chosen[k]] >= np.max(np.delete(variances, known)) - 1e-9


@pytest.mark.parametrize("covariance", [np.zeros((4, 4)), np.ones((4, 4)), np.full((4, 4), np.nan)], ids=str)
def test_no_point_is_chosen_twice(covariance):
    assert sorted(model.most_uncertain(covariance, 4)) == [0, 1, 2, 3]
