"""The variance of the estimated natural gradient in closed form, against whole samples enumerated by exact quadrature.

The estimate is a polynomial in the lengths and directions of its points. Gauss rules of five points for ‖z‖² and for
each coordinate of a direction average its square without an error but rounding, so that no tolerance is for chance.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import roots_genlaguerre, roots_jacobi

from sublevel.engine.families import FullGaussian
from sublevel.engine.sampling import SAMPLINGS, Sampling
from sublevel.paper.theory import estimate_variance as closed
from sublevel.paper.theory.estimate_variance import WhitenedCost, count_dependent_pairs, symmetric_basis
from sublevel.paper.theory.quadratic import random_hessian_root

NODES = 5
"""Of a Gauss rule: exact up to the degree 9, and squares of the estimate have the degree 8 in each direction."""


def sphere_rule(d):
    """Unit vectors (k, d) and weights (k,) that average polynomials of degree 9 over the sphere exactly."""
    if d == 1:
        return np.array([[1.0], [-1.0]]), np.array([0.5, 0.5])
    t, weights = roots_jacobi(NODES, (d - 3) / 2, (d - 3) / 2)
    rest, rest_weights = sphere_rule(d - 1)
    points = [np.concatenate([[a], np.sqrt(1 - a * a) * y]) for a in t for y in rest]
    return np.array(points), np.outer(weights / weights.sum(), rest_weights).ravel()


def frame_rule(d, count):
    """Orthonormal vectors (k, count, d) and weights: the first on the sphere, the others in its complement."""
    first, weights = sphere_rule(d)
    if count == 1:
        return first[:, None, :], weights
    rest, rest_weights = frame_rule(d - 1, count - 1)
    frames = []
    for u in first:
        complement = np.linalg.svd(u[None, :])[2][1:]  # any basis
        frames.append(np.concatenate([np.broadcast_to(u, (len(rest), 1, d)), rest @ complement], axis=1))
    return np.concatenate(frames), np.outer(weights, rest_weights).ravel()


def length_rule(d):
    """Lengths (k,) and weights that average polynomials of degree 9 in ‖z‖² exactly."""
    x, weights = roots_genlaguerre(NODES, d / 2 - 1)
    return np.sqrt(2 * x), weights / weights.sum()


def block_rule(d, count):
    """Points (k, count, d) of orthogonal directions with independent lengths, and weights."""
    frames, weights = frame_rule(d, count)
    lengths, length_weights = length_rule(d)
    grid = np.array(list(itertools.product(lengths, repeat=count)))
    grid_weights = np.prod(list(itertools.product(length_weights, repeat=count)), axis=1)
    points = (grid[:, None, :, None] * frames[None]).reshape(-1, count, d)
    return points, np.outer(grid_weights, weights).ravel()


def sample_rule(sampling, n, d):
    """All samples (k, n, d) of a rule, and their weights."""
    count = (n + 1) // 2 if sampling.mirrored else n
    size = d if sampling.orthogonal else 1
    points, weights = np.zeros((1, 0, d)), np.ones(1)
    for start in range(0, count, size):
        block, block_weights = block_rule(d, min(size, count - start))
        left, right = np.repeat(points, len(block), axis=0), np.tile(block, (len(points), 1, 1))
        points = np.concatenate([left, right], axis=1)
        weights = np.outer(weights, block_weights).ravel()
    if sampling.mirrored:
        points = np.stack([points, -points], axis=2).reshape(len(points), -1, d)[:, :n]
    return points, weights


def enumerated(cost, sampling, n):
    """Expectations and covariances of both parts of the estimate, the second in the symmetric basis."""
    d = cost.slope.size
    z, weights = sample_rule(sampling, n, d)
    values = cost.level + z @ cost.slope + np.einsum("kni,ij,knj->kn", z, cost.matrix, z) - np.trace(cost.matrix)
    mean = np.einsum("kn,kni->ki", values, z) / n
    moment = np.einsum("kn,kni,knj->kij", values, z, z) / n - np.mean(values, axis=1)[:, None, None] * np.eye(d)
    parts = mean, np.einsum("kij,bij->kb", moment, symmetric_basis(d))
    centres = [weights @ part for part in parts]
    return centres, [(part - at).T @ (weights[:, None] * (part - at)) for part, at in zip(parts, centres, strict=True)]


def random_cost(d, seed=1, level=0.7):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((d, d))
    return WhitenedCost(matrix + matrix.T, rng.standard_normal(d), level)


def predicted(cost, sampling, n):
    basis = symmetric_basis(cost.slope.size)
    return closed.variance_of_mean(cost, sampling, n), closed.variance_of_covariance(cost, sampling, n, basis)


ENUMERATED = [
    *[("independent", n, d) for n, d in [(1, 1), (1, 2), (2, 2), (1, 3), (1, 4), (1, 5)]],
    *[("orthogonal", n, d) for n, d in [(2, 1), (2, 2), (3, 2), (2, 3), (3, 3), (2, 4)]],
    *[("mirrored", n, d) for n, d in [(2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (2, 3), (2, 4)]],
    *[("mirrored-orthogonal", n, d) for n, d in [(3, 1), (3, 2), (4, 2), (5, 2), (4, 3), (5, 3), (6, 3), (4, 4)]],
]


@pytest.mark.parametrize(("name", "n", "d"), ENUMERATED)
def test_variances_are_those_of_all_samples(name, n, d):
    cost, sampling = random_cost(d), SAMPLINGS[name]
    centres, variances = enumerated(cost, sampling, n)
    basis = symmetric_basis(d)
    assert_allclose(centres[0], cost.slope, atol=1e-11)
    assert_allclose(centres[1], np.einsum("bij,ij->b", basis, 2 * cost.matrix), atol=1e-10)
    for found, exact in zip(predicted(cost, sampling, n), variances, strict=True):
        assert_allclose(found, exact, rtol=0, atol=1e-11 * np.max(np.abs(exact)))


@pytest.mark.parametrize(
    ("name", "claimed", "n", "d"),
    [
        ("mirrored", "independent", 2, 2),
        ("mirrored", "independent", 3, 1),
        ("orthogonal", "independent", 2, 3),  # the term of pairs of orthogonal directions is dropped
        ("mirrored-orthogonal", "mirrored", 4, 3),
        ("mirrored-orthogonal", "orthogonal", 4, 3),
        ("independent", "orthogonal", 2, 2),
    ],
)
def test_variances_of_another_sampling_are_not(name, claimed, n, d):
    cost = random_cost(d)
    _, variances = enumerated(cost, SAMPLINGS[name], n)
    for found, exact in zip(predicted(cost, SAMPLINGS[claimed], n), variances, strict=True):
        assert np.max(np.abs(found - exact)) > 1e-3 * np.max(np.abs(exact))


def test_four_nodes_would_not_average_exactly(monkeypatch):
    monkeypatch.setitem(globals(), "NODES", 4)
    cost = random_cost(2)
    _, variances = enumerated(cost, SAMPLINGS["orthogonal"], 2)
    assert np.max(np.abs(predicted(cost, SAMPLINGS["orthogonal"], 2)[1] / variances[1] - 1)) > 1e-6


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(("n", "d"), [(7, 3), (8, 3), (13, 3), (21, 10), (4, 10), (5, 1)])
def test_pairs_are_counted_as_they_are_drawn(name, n, d):
    z = SAMPLINGS[name].draw(np.random.default_rng(1), (n, d))
    cosines = (z @ z.T) / np.outer(np.linalg.norm(z, axis=1), np.linalg.norm(z, axis=1))
    pairs = count_dependent_pairs(SAMPLINGS[name], n, d)
    apart = ~np.eye(n, dtype=bool)
    opposite = np.all(z[:, None] == -z, axis=-1)
    assert pairs.mirrored == np.count_nonzero(opposite & apart)
    assert pairs.orthogonal == np.count_nonzero(np.abs(cosines) < 1e-9)


def test_points_at_the_optimum_of_a_sphere():
    """With A = I and the expected cost as baseline: 2d + 8 and 2d + 24 for an independent point, and so on."""
    d, n = 5, 20
    cost, shear = WhitenedCost(np.eye(d), np.zeros(d)), np.zeros((1, d, d))
    shear[0, 0, 1] = shear[0, 1, 0] = 0.5
    block = 4 * d / ((d - 1) * (d + 2))
    expected = {
        "independent": (2 * d + 8, 2 * d + 24),
        "orthogonal": (2 * d + 8, 2 * d + 24 - (d - 1) * block),
        "mirrored": (0, 2 * (2 * d + 24)),
        "mirrored-orthogonal": (0, 2 * (2 * d + 24) - 2 * (d - 1) * block),
    }
    for name, (of_mean, of_covariance) in expected.items():
        assert_allclose(n * closed.variance_of_mean(cost, SAMPLINGS[name], n), of_mean * np.eye(d), atol=1e-12)
        found = n * closed.variance_of_covariance(cost, SAMPLINGS[name], n, shear)
        assert_allclose(found, of_covariance, rtol=1e-12)


@pytest.mark.parametrize("d", [2, 5, 10])
@pytest.mark.parametrize("distance", [0.0, 1.5])
def test_totals_on_a_sphere_are_those_of_the_page(d, distance):
    """n times the total variances at the distance δ, for whole blocks, as in docs/studies/samplings.md."""
    cost = WhitenedCost(np.eye(d), 2 * distance * np.eye(d)[0])
    length, even = 4 * distance**2, d * ((2 * d + 24) * (d + 1) + 4)
    odd, gain = length * (d + 1) * (d + 4), 4 * d * (d - 1)
    expected = {
        "independent": (2 * d * (d + 4) + length * (d + 1), even + odd),
        "orthogonal": (2 * d * (d + 4) + 2 * length, even + odd - gain),
        "mirrored": (2 * length * (d + 1), 2 * even),
        "mirrored-orthogonal": (4 * length, 2 * (even - gain)),
    }
    for name, totals in expected.items():
        found = closed.total_variances(cost, SAMPLINGS[name], 2 * d)
        assert_allclose(2 * d * np.array(found), totals, rtol=1e-11)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_whole_blocks_leave_the_noise_of_the_lengths_only(d):
    """On a linear cost 2d mirrored and orthogonal points estimate Σ‖zₖ‖²uₖuₖᵀℓ/d: 2(‖ℓ‖²I + 2ℓℓᵀ)/(d(d + 2))."""
    slope = np.arange(1.0, d + 1)
    cost = WhitenedCost(np.zeros((d, d)), slope)
    found = closed.variance_of_mean(cost, SAMPLINGS["mirrored-orthogonal"], 2 * d)
    expected = 2 * (slope @ slope * np.eye(d) + 2 * np.outer(slope, slope)) / (d * (d + 2))
    assert_allclose(found, expected, rtol=1e-12)


@given(
    st.sampled_from(sorted(SAMPLINGS)),
    st.integers(1, 6),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
    st.floats(-3, 3),
)
@settings(max_examples=60)
def test_a_variance_is_not_negative(name, d, n, seed, level):
    for matrix in predicted(random_cost(d, seed, level), SAMPLINGS[name], n):
        eigenvalues = np.linalg.eigvalsh(matrix)
        assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


def test_a_cost_at_a_search_distribution_is_that_of_its_points():
    rng = np.random.default_rng(3)
    root = random_hessian_root(rng, 4, 30.0)
    theta = FullGaussian.start(rng.standard_normal(4), np.full(4, 0.7), random_hessian_root(rng, 4, 10.0))
    sample = theta.sample(rng, 50)
    values = np.sum(np.square(sample.x @ root.T), axis=-1)
    assert_allclose(WhitenedCost.at(theta, root, baseline=2.5).values(sample.z), values - 2.5, rtol=1e-10)
    centred = WhitenedCost.at(theta, root)
    assert centred.level == 0.0
    gaps = centred.values(sample.z) - values
    assert_allclose(gaps, gaps[0], rtol=1e-10)


def test_without_a_sampling_points_are_independent():
    cost = random_cost(3)
    for found, single in zip(predicted(cost, Sampling(), 7), predicted(cost, Sampling(), 1), strict=True):
        assert_allclose(7 * found, single, rtol=1e-12)
