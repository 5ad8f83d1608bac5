"""How a root moves: the ways agree with the square root of the step itself, and each where it is used."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sublevel.engine.arrays import ONE
from sublevel.engine.families import roots
from sublevel.engine.families.roots import SMALL_STEP, thick_root, thin_root
from sublevel.engine.tangent import Cloud

D, K = 90, 7
EPS = np.finfo(float).eps


def cloud_of_norm(norm, rng, *, repeated=False):
    """Vectors of which a step VVᵀD has this Frobenius norm; the last may be one of the others again, as a path is after
    its first step.
    """
    vectors, weights = rng.standard_normal((K, D)), rng.standard_normal(K)
    if repeated:
        vectors[-1] = vectors[0]
    size = np.linalg.norm((vectors @ vectors.T) * weights)
    return Cloud(vectors, weights * (norm / size), np.float64(0.0))


def symmetric_root(cloud):
    """(I + Σ wᵢ vᵢvᵢᵀ)^{1/2} (d, d) by its eigenvalues."""
    values, vectors = np.linalg.eigh(np.eye(D) + cloud.moment)
    return vectors * np.sqrt(values) @ vectors.T


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("norm", [1e-12, 1e-3, 0.999 * SMALL_STEP, 1.001 * SMALL_STEP, 0.6])
def test_root_of_a_thin_step_is_the_square_root_of_the_step(norm, repeated, rng):
    cloud = cloud_of_norm(norm, rng, repeated=repeated)
    root, growth, definite, transport = thin_root(np.eye(D), cloud, ONE)
    vector = rng.standard_normal(D)
    assert definite
    assert growth == 1.0
    assert_allclose(root, symmetric_root(cloud), rtol=0, atol=D * EPS)
    assert_allclose(root @ transport(vector), vector, rtol=0, atol=D * EPS)


def test_a_series_for_small_steps_would_be_told_from_the_root_of_a_large_one(rng, monkeypatch):
    monkeypatch.setattr(roots, "SMALL_STEP", 1.0)
    cloud = cloud_of_norm(0.9, rng)
    root, _, _, transport = thin_root(np.eye(D), cloud, ONE)
    vector = rng.standard_normal(D)
    assert np.max(np.abs(root - symmetric_root(cloud))) > 1e6 * D * EPS
    assert np.max(np.abs(root @ transport(vector) - vector)) > 1e6 * D * EPS


@pytest.mark.parametrize("norm", [1e-3, 0.6])
def test_trials_of_a_batch_move_as_they_would_alone(norm, rng):
    alone = [cloud_of_norm(norm, rng) for _ in range(3)]
    together = Cloud(np.stack([c.vectors for c in alone]), np.stack([c.weights for c in alone]), np.zeros(3))
    start = rng.standard_normal((3, D, D))
    root, _, definite, transport = thin_root(start, together, ONE)
    vectors = rng.standard_normal((3, D))
    assert definite.all()
    for trial, cloud in enumerate(alone):
        single, _, _, carried = thin_root(start[trial], cloud, ONE)
        assert_allclose(root[trial], single, rtol=0, atol=100 * EPS)
        assert_allclose(transport(vectors)[trial], carried(vectors[trial]), rtol=0, atol=100 * EPS)


def test_thin_and_thick_ways_lead_to_the_same_covariance(rng):
    cloud, start = cloud_of_norm(1e-2, rng).with_decay(np.float64(0.01)), rng.standard_normal((D, D))
    thin, growth, _, _ = thin_root(start, cloud, ONE)
    thick, one, _, _ = thick_root(start, cloud, ONE)
    assert one == 1.0
    assert_allclose(growth**2 * (thin @ thin.T), thick @ thick.T, rtol=0, atol=1e4 * EPS)
