"""The leave-one-out volume: a direct formula, ties, noise, extreme dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sublevel.engine.families import FullGaussian
from sublevel.engine.ordering import ranking
from sublevel.engine.recipes import ngd
from sublevel.engine.weights import LeaveOneOut, Volume
from sublevel.paper.studies.estimator import Steps


def weights_of(rule, z, values):
    theta = FullGaussian.start(np.zeros(z.shape[:-2] + z.shape[-1:]), np.ones(z.shape[:-2] + z.shape[-1:]))
    return rule(ranking(values), theta.sample_at(z)).cov


def direct_weights(z, values, exponent):
    """The definition, point by point."""
    inverse_density = np.exp(0.5 * np.sum(z**2, axis=-1))
    volumes = np.array([np.sum(inverse_density[values < value]) for value in values]) ** exponent
    volumes /= np.max(volumes)
    return (np.mean(volumes) - volumes) / len(values)


@pytest.mark.parametrize("ties", [False, True])
def test_weights_are_those_of_the_definition(rng, ties):
    z = rng.standard_normal((3, 12, 4))
    values = rng.integers(0, 5, (3, 12)).astype(float) if ties else rng.standard_normal((3, 12))
    found = weights_of(LeaveOneOut(), z, values)
    for trial in range(3):
        assert_allclose(found[trial], direct_weights(z[trial], values[trial], 0.5), rtol=1e-12, atol=1e-15)
        assert_allclose(weights_of(LeaveOneOut(), z[trial], values[trial]), found[trial], rtol=1e-12, atol=1e-15)
    assert_allclose(weights_of(LeaveOneOut(1.0), z[0], values[0]), direct_weights(z[0], values[0], 1.0), atol=1e-15)


def test_weight_of_a_point_depends_on_its_value_and_on_better_points_only(rng):
    """Up to the scale and the baseline, which all points share."""
    z, values = rng.standard_normal((8, 3)), np.arange(8.0)
    moved = z.copy()
    moved[5] *= 2.0
    before, after = (weights_of(LeaveOneOut(), points, values) for points in (z, moved))
    steps = [np.diff(weights[:6]) / (weights[0] - weights[5]) for weights in (before, after)]
    assert_allclose(*steps, rtol=1e-12)
    paper = [np.diff(weights_of(Volume(), points, values)[:6]) for points in (z, moved)]
    assert not np.allclose(paper[0] / paper[0].sum(), paper[1] / paper[1].sum(), rtol=1e-3)


def test_equal_values_make_no_weights_and_two_points_opposite_ones(rng):
    assert_allclose(weights_of(LeaveOneOut(), rng.standard_normal((6, 2)), np.ones(6)), 0.0)
    assert_allclose(weights_of(LeaveOneOut(), rng.standard_normal((1, 2)), np.ones(1)), 0.0)
    assert_allclose(weights_of(LeaveOneOut(), rng.standard_normal((2, 2)), np.array([2.0, 1.0])), [-0.25, 0.25])


def test_weights_are_finite_in_many_dimensions(rng):
    weights = weights_of(LeaveOneOut(), rng.standard_normal((20, 2000)), rng.standard_normal(20))
    assert np.all(np.isfinite(weights))
    assert_allclose(np.sum(weights), 0.0, atol=1e-15)


def test_noise_does_not_shrink_the_covariance():
    """Below 0.4 times the shrinkage of the paper's estimate, which is 2.4 % in a step at d = 10, n = 100."""
    paper, better = (
        np.mean(Steps(rule, "noise", 10, 100, 1500, 1).compute()["trace"]) for rule in ("paper", "leave-one-out")
    )
    assert paper < -0.018
    assert abs(better) < 0.4 * abs(paper)


def test_option_of_ngd():
    assert ngd(estimator="leave-one-out", exponent=0.5).weights == LeaveOneOut(0.5)
    assert ngd().weights == Volume()
    with pytest.raises(ValueError, match="`estimator` must be one of 'in-sample', 'leave-one-out'"):
        ngd(estimator="jackknife")
    with pytest.raises(ValueError, match="`exponent` must be positive"):
        LeaveOneOut(0.0)
