"""Learning rates depend on the degrees of freedom of the covariance, for every method."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import log, sqrt

import numpy as np
import pytest

import sublevel as sl
from helpers.functions import different_powers, discus, ellipsoid, sphere
from sublevel import DiagonalGaussian, FullGaussian, IsotropicGaussian, Outcome
from sublevel.engine.arrays import ONE, ZERO, Streams
from sublevel.engine.constants import (
    cma_constants,
    default_popsize,
    hansen_kern_rate,
    rate_factor,
    spectral_rate,
    xnes_rate,
)
from sublevel.engine.families import Bernoulli
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering.ranks import ranking
from sublevel.engine.transforms import NO_MEMORY, STEP_SIZES, SpectralRates, Transform
from sublevel.paper.theory.exact import no_sample
from sublevel.validation import as_method

TARGET = 1e-8


def evaluations(method, fun, d, *, n=None, runs=7, budget=None, seed=1):
    """Evaluations (runs,) until a value of 1e-8 from (1, …, 1) with σ0 = 0.5, inf beyond the budget, and the number of
    refused steps.
    """
    n = n or default_popsize(d)
    state = method.init(method.family.start(np.ones((runs, d)), np.full((runs, d), 0.5)), n)
    noise, needed, refused = Streams.spawn([seed, d], runs), np.full(runs, np.inf), 0
    for generation in range((budget or 3000 * d) // n):
        sample = method.ask(state, noise, n)
        values = fun(sample.x)
        reached = (values <= TARGET).any(axis=-1) & np.isinf(needed)
        needed[reached] = generation * n + np.argmax(values[reached] <= TARGET, axis=-1) + 1
        if np.isfinite(needed).all():
            break
        state, info = method.tell(state, sample, values)
        refused += np.count_nonzero((np.asarray(info.outcome) == Outcome.REFUSED) & np.isinf(needed))
    return needed, refused


def median(name, fun, d, **settings):
    method = as_method(name) if isinstance(name, str) else name
    return np.median(evaluations(method, fun, d, **settings)[0])


# Constants


@pytest.mark.parametrize("d", [1, 2, 7, 100])
def test_families_state_their_degrees_of_freedom(d):
    freedoms = {FullGaussian: d * (d + 1) // 2, DiagonalGaussian: d, IsotropicGaussian: 1}
    for family, freedom in freedoms.items():
        theta = family.start(np.zeros(d), np.ones(d))
        assert theta.degrees_of_freedom == freedom
        assert theta.sample_at(np.ones((3, d))).degrees_of_freedom in (
            (None, freedom) if family is FullGaussian else (freedom,)
        )
    assert Bernoulli.start(np.full(d, 0.5)).degrees_of_freedom == 0


@pytest.mark.parametrize("d", [1, 2, 3, 4, 20, 500])
def test_a_full_covariance_has_the_rates_of_the_papers(d):
    freedom = d * (d + 1) // 2
    assert rate_factor(d, freedom) == rate_factor(d, None) == 1.0
    assert hansen_kern_rate(d, 5.0, freedom) == min(1.0, 9 / ((d + 2) ** 2 + 5))
    assert xnes_rate(d, freedom) == (9 + 3 * log(d)) / (5 * d * sqrt(d))
    assert spectral_rate(d, freedom) == 0.1
    for ours, plain in zip(astuple(cma_constants(d, 10, freedom)), astuple(cma_constants(d, 10)), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_restricted_covariances_have_the_rates_of_ros_and_hansen_and_of_snes():
    d, n = 20, 12
    full, separable = cma_constants(d, n), cma_constants(d, n, d)
    assert separable.c_1 / full.c_1 == pytest.approx(22 / 3, rel=1e-14)
    assert separable.c_mu / full.c_mu == pytest.approx(22 / 3, rel=1e-14)
    for name in ("mu_eff", "c_c", "c_sigma", "d_sigma"):
        assert getattr(separable, name) == getattr(full, name)
    assert cma_constants(2000, n, 2000).d_sigma - cma_constants(2000, n).d_sigma == pytest.approx(-0.7, rel=1e-12)
    assert hansen_kern_rate(d, 3.0, d) == pytest.approx(22 / 3 * 5 / 487, rel=1e-14)
    assert hansen_kern_rate(d, 1e3, d) == hansen_kern_rate(d, 1e3)  # beyond the limit of SNES already
    assert xnes_rate(d, d) == pytest.approx((3 + log(d)) / (5 * sqrt(d)), rel=1e-14)
    assert spectral_rate(5, 5) == pytest.approx(0.7 / 3, rel=1e-14)
    assert spectral_rate(500, 500) == 0.5


@pytest.mark.parametrize("d", [2, 3, 10, 1000])
@pytest.mark.parametrize("n", [2, 3, 10, 100, 10_000])
def test_rates_never_fall_and_keep_a_weight_for_the_past(d, n):
    full = cma_constants(d, n)
    for freedom in (1, d):
        ours = cma_constants(d, n, freedom)
        assert full.c_1 <= ours.c_1 < 1
        assert 0 < ours.c_mu <= 1 - ours.c_1
        assert full.c_1 + full.c_mu <= ours.c_1 + ours.c_mu + 1e-15
        assert hansen_kern_rate(d, ours.mu_eff, freedom) >= hansen_kern_rate(d, ours.mu_eff)
        assert xnes_rate(d, freedom) >= xnes_rate(d)


def test_a_given_rate_is_the_same_for_all_families(rng):
    for family in (FullGaussian, DiagonalGaussian, IsotropicGaussian):
        method, theta = sl.ngd(c_cov=0.1, family=family), family.start(np.zeros(6), np.ones(6))
        sample = theta.sample_at(rng.standard_normal((9, 6)))
        tangent = natural_gradient(sample.z, method.weights(ranking(sphere(sample.x)), sample))
        scaled, _ = SpectralRates(0.1)(tangent, NO_MEMORY, no_sample(theta))
        assert scaled.rate == pytest.approx(0.05 / tangent.spectral_norm)


@pytest.mark.parametrize("step_size", [None, *STEP_SIZES])
@pytest.mark.parametrize("recipe", [sl.cma, sl.xnes, sl.ngd, sl.rank_mu])
def test_c_mean_multiplies_the_step_of_the_mean_and_no_other(recipe, step_size, rng):
    rule = {} if recipe is sl.cma and step_size is None else {"step_size": step_size}
    theta, z = FullGaussian.start(np.ones(4), np.ones(4)), rng.standard_normal((9, 4))

    def step(c_mean):
        method = recipe(c_mean=c_mean, **rule)
        state, sample = method.init(theta, 9), theta.sample_at(z)
        return method.tell(state, sample, sphere(sample.x))[0].theta

    whole, part = step(1.0), step(0.3)
    np.testing.assert_allclose(part.mean - 1.0, 0.3 * (whole.mean - 1.0), rtol=1e-12)
    np.testing.assert_array_equal(part.cov, whole.cov)
    with pytest.raises(ValueError, match="`c_mean` must be positive and finite, got -1"):
        recipe(c_mean=-1.0, **rule)


# Evaluations


def evaluations_of_the_package(fun, d, seed):
    package = pytest.importorskip("cma")
    strategy, spent = (
        package.CMAEvolutionStrategy(np.ones(d), 0.5, {"verbose": -9, "seed": seed, "CMA_diagonal": True}),
        0,
    )
    while True:
        points = strategy.ask()
        values = fun(np.asarray(points))
        if values.min() <= TARGET:
            return spent + int(np.argmax(values <= TARGET)) + 1
        strategy.tell(points, list(values))
        spent += len(points)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fun", [sphere, ellipsoid, different_powers])
def test_sep_cma_needs_no_more_evaluations_than_the_package_cma(fun):
    theirs = np.median([evaluations_of_the_package(fun, 20, seed) for seed in range(1, 6)])
    assert median("sep-cma", fun, 20, runs=15) <= 1.1 * theirs


@pytest.mark.parametrize(
    ("name", "most"), [("sep-cma", 4_900), ("sep-xnes", 8_000), ("sep-rank-mu", 25_000), ("sep-ngd", 35_000)]
)
def test_every_method_learns_variances_faster_than_a_matrix(name, most):
    """On the ellipsoid in 20 variables; with the rates of a matrix these need 10 000, 33 000, more than 60 000 and 119
    000.
    """
    assert median(name, ellipsoid, 20, runs=3) <= most


@pytest.mark.parametrize(("d", "n"), [(2, 6), (3, 7), (5, 32), (20, 12), (20, 48), (20, 120), (70, 16)])
@pytest.mark.parametrize("fun", [sphere, discus])
def test_larger_rates_keep_every_variance_positive(fun, d, n):
    needed, refused = evaluations(as_method("sep-cma"), fun, d, n=n, runs=5)
    assert np.isfinite(needed).all()
    assert refused == 0


def test_a_trial_that_would_lose_a_variance_stays_where_it_is():
    """The others of the batch move. All bad points lie on one axis."""
    d, n = 20, 12
    method = as_method("sep-cma")
    state = method.init(method.family.start(np.ones((2, d)), np.ones((2, d))), n)
    z = np.random.default_rng(1).standard_normal((2, n, d))
    z[1, n // 2 :] = np.eye(d)[0]
    after, info = method.tell(state, state.theta.sample_at(z), np.tile(np.arange(float(n)), (2, 1)))
    assert info.outcome.tolist() == [Outcome.MOVED, Outcome.REFUSED]
    assert np.all(after.theta.deviations[1] == 1.0)
    assert np.any(after.theta.deviations[0] != 1.0)


@dataclass(frozen=True)
class FixedShape(Transform):
    """Leaves the covariance to the step-size adaptation alone."""

    def __call__(self, tangent, memory, generation, /):
        return tangent.scale(mean=ONE, cov=ZERO), memory


@pytest.mark.parametrize(("d", "n"), [(2, 6), (5, 8), (20, 12), (20, 120)])
def test_iso_cma_needs_no_more_evaluations_than_a_plain_csa_es(d, n):
    method = as_method("iso-cma")
    plain = replace(method, transforms=(*method.transforms, FixedShape()))
    assert median(method, sphere, d, n=n) < median(plain, sphere, d, n=n)


def test_adapted_rates_start_from_those_of_the_family():
    """With the rates of a full covariance the median is 13 400."""
    assert median("lra-sep-cma", ellipsoid, 10, runs=3, budget=20_000) < 10_000
