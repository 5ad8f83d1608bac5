"""What the search does not notice: exact laws for every method on every family they hold for, each with a control that
breaks it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ortho_group, rankdata

from helpers.cases import (
    BITS,
    METHODS,
    SEARCHES,
    Case,
    distance,
    ellipsoid,
    of_family,
    parts,
    path,
    same_bits,
    terraces,
    trial,
)
from sublevel import FullGaussian, IsotropicGaussian, Optimizer, Outcome, cma, ngd
from sublevel.engine.arrays import Streams
from sublevel.engine.families import DiagonalGaussian
from sublevel.engine.tangent import Weighting
from sublevel.engine.transforms import Transform

NGD = Case(ngd(), 5, 12)
"""The case whose parts are broken in the controls."""
ROUNDING = 1e-10
"""Allowed difference of a rotated path; a hundred roundings at Cond(C) < 100 give about 1e-13."""


def seeded(seed=1):
    return np.random.default_rng(seed)


def bits_value(x):
    """Whole numbers ≥ 0, many of them tied."""
    return x @ np.arange(1.0, x.shape[-1] + 1) // 4


def objective(case):
    return bits_value if case in BITS else terraces


# g∘f: only the order of values counts


INCREASING = {"exp": np.exp, "cube": lambda f: f**3, "log1p": np.log1p, "rank": lambda f: rankdata(f, method="dense")}


@pytest.mark.parametrize("g", INCREASING)
@pytest.mark.parametrize("case", METHODS, ids=str)
def test_search_does_not_notice_an_increasing_g(case, g):
    fun = objective(case)
    if g == "rank" and any(part.compares_generations for part in case.method.transforms):
        pytest.skip("ranks within a generation are not one increasing function")
    plain = path(case, case.start(), fun, seeded())
    composed = path(case, case.start(), lambda x: INCREASING[g](fun(x)), seeded())
    assert same_bits(plain[-1], composed[-1])
    assert not same_bits(plain[-1], plain[0])


@dataclass(frozen=True)
class ValueWeights:
    """Broken: weights that are made of the values themselves."""

    fun: object

    def __call__(self, ranks, sample, /):
        values = self.fun(sample.x)
        return Weighting.from_weights(values.mean() - values)


@pytest.mark.parametrize("g", INCREASING.values(), ids=INCREASING)
def test_weights_made_of_values_would_notice_g(g):
    plain = path(NGD.with_parts(weights=ValueWeights(terraces)), NGD.start(), terraces, seeded())
    composed = path(NGD.with_parts(weights=ValueWeights(lambda x: g(terraces(x)))), NGD.start(), terraces, seeded())
    assert distance(composed[-1], plain[-1].mean, plain[-1].cov) > 1e-3


# Permutations of the sample


def told(case, order, mismatched=False, generations=15):
    """An optimizer that was told each generation in the order that `order` gives, perhaps with values that belong to
    other points.
    """
    sigma0 = None if case in BITS else 0.7
    optimizer = Optimizer(np.full(case.d, 0.4), sigma0, method=case.method, popsize=case.n, rng=3)
    for _ in range(generations):
        X = optimizer.ask()
        shuffled = order(case.n)
        optimizer.tell(X[shuffled], objective(case)(X if mismatched else X[shuffled]))
    return optimizer


@pytest.mark.parametrize("case", METHODS, ids=str)
def test_optimizer_does_not_notice_the_order_of_told_points(case):
    in_order = told(case, np.arange)
    shuffled = told(case, seeded(2).permutation)
    assert same_bits(in_order.theta, shuffled.theta)
    assert shuffled.best_fun == in_order.best_fun


def test_optimizer_would_notice_values_of_other_points():
    assert not same_bits(told(NGD, np.arange).theta, told(NGD, seeded(2).permutation, mismatched=True).theta)


def after_shuffled_sample(case, order):
    """θ after one step from a sample whose points come in the order that `order` gives."""
    state = case.method.init(case.start(), case.n)
    sample = case.method.ask(state, seeded(), case.n)
    values = np.round(objective(case)(sample.x))  # coarse: ties at the edge of selection
    shuffled = order(case.n)
    state, _ = case.method.tell(state, state.theta.sample_at(sample.z[shuffled]), values[shuffled])
    return state.theta


@pytest.mark.parametrize("case", METHODS, ids=str)
def test_step_does_not_notice_the_order_of_the_sample(case):
    in_order, shuffled = after_shuffled_sample(case, np.arange), after_shuffled_sample(case, seeded(2).permutation)
    assert distance(shuffled, in_order.mean, in_order.cov) <= 1e-13  # the same sums in another order


def test_order_of_ties_does_not_decide_whether_a_step_is_taken():
    """A point near the mean that is tied with points of the worse half has a negative weight for the covariance."""
    method, values = cma(family=DiagonalGaussian), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0])
    state = method.init(DiagonalGaussian.start(np.zeros(4), np.ones(4)), values.size)
    z = seeded().standard_normal((values.size, 4))
    z[0] *= 0.5
    (one, first), (other, second) = (
        method.tell(state, state.theta.sample_at(z[order]), values[order])
        for order in (np.arange(8), np.array([1, 0, 2, 3, 4, 5, 6, 7]))
    )
    assert first.outcome == second.outcome == Outcome.MOVED
    assert distance(other.theta, one.theta.mean, one.theta.cov) <= 1e-13


class FirstComeWeights:
    """Broken: of tied points the first is the better one."""

    def __call__(self, ranks, sample, /):
        return Weighting.from_weights(ranks.unsort(np.linspace(1.0, -1.0, ranks.order.shape[-1])))


def test_ties_by_order_would_notice_the_order_of_the_sample():
    broken = NGD.with_parts(weights=FirstComeWeights())
    in_order, shuffled = after_shuffled_sample(broken, np.arange), after_shuffled_sample(broken, seeded(2).permutation)
    assert distance(shuffled, in_order.mean, in_order.cov) > 1e-3


# Translation


def after_translation(case, shift):
    """The last θ of a path, and of the path whose every point lies `shift` further."""
    moved = path(case, case.start(shift=shift), lambda x: terraces(x - shift), seeded())
    return path(case, case.start(), terraces, seeded())[-1], moved[-1]


@pytest.mark.parametrize("case", SEARCHES, ids=str)
def test_search_does_not_notice_a_translation(case):
    shift = 8 * seeded(4).standard_normal(case.d)
    plain, moved = after_translation(case, shift)
    assert all(
        np.array_equal(a, b) for a, b in zip(parts(plain)[1:], parts(moved)[1:], strict=True)
    )  # the covariance, to the last bit
    assert_allclose(
        moved.mean - shift, plain.mean, rtol=0, atol=30 * np.spacing(40.0)
    )  # 30 roundings of numbers below 40


class OriginWeights:
    """Broken: points near the origin count more."""

    def __call__(self, ranks, sample, /):
        weights = np.exp(-np.mean(np.square(sample.x), axis=-1))
        return Weighting.from_weights(weights - weights.mean())


def test_weights_that_know_the_origin_would_notice_a_translation():
    plain, moved = after_translation(NGD.with_parts(weights=OriginWeights()), shift=1.0)
    assert distance(moved, plain.mean + 1.0, plain.cov) > 1e-3


# Scale


def after_scaling(case, power):
    """The last θ of a path, and of the path in units that are 2^power times smaller."""
    scaled = path(case, case.start(factor=2.0**power), lambda x: terraces(np.ldexp(x, -power)), seeded())
    return path(case, case.start(), terraces, seeded())[-1], scaled[-1]


@pytest.mark.parametrize("power", [-900, -60, -1, 1, 60, 900])
@pytest.mark.parametrize("case", SEARCHES, ids=str)
def test_search_does_not_notice_a_power_of_two_in_the_units(case, power):
    plain, scaled = after_scaling(case, power)
    assert np.array_equal(np.ldexp(scaled.mean, -power), plain.mean)
    assert np.array_equal(np.ldexp(scaled.deviations, -power), plain.deviations)
    if isinstance(plain, FullGaussian):
        shift = np.log2(scaled.scale / plain.scale)
        assert shift == round(shift)
        assert np.array_equal(np.ldexp(scaled.root, int(shift) - power), plain.root)


@dataclass(frozen=True)
class SizeRates(Transform):
    """Broken: the wider the distribution, the longer the steps."""

    def __call__(self, tangent, memory, generation, /):
        rate = 0.1 * np.tanh(np.mean(generation.theta.deviations, axis=-1)) / tangent.spectral_norm
        return tangent.scale(mean=rate, cov=rate), memory


@pytest.mark.parametrize("power", [-900, -1, 1])
def test_rates_that_know_the_size_would_notice_the_units(power):
    plain, scaled = after_scaling(NGD.with_parts(transforms=(SizeRates(),)), power)
    assert np.max(np.abs(np.ldexp(scaled.mean, -power) - plain.mean)) > 1e-3


# Gauge: how C is split between scale and root


def in_gauge(theta, power):
    """The same distribution with 2^power moved from the root to the scale."""
    return FullGaussian(theta.mean, np.ldexp(theta.root, -power), theta.scale * 2.0**power)


@pytest.mark.parametrize("power", [-30, -1, 1, 30])
@pytest.mark.parametrize("case", of_family(FullGaussian), ids=str)
def test_search_does_not_notice_the_gauge(case, power):
    plain = path(case, case.start(), terraces, seeded())
    other = path(case, in_gauge(case.start(), power), terraces, seeded())
    assert np.array_equal(other[-1].mean, plain[-1].mean)
    assert np.array_equal(other[-1].cov, plain[-1].cov)


@dataclass(frozen=True)
class RootRates(Transform):
    """Broken: looks at the root without its scale."""

    def __call__(self, tangent, memory, generation, /):
        rate = 0.1 * np.tanh(np.abs(generation.theta.root[..., 0, 0])) / tangent.spectral_norm
        return tangent.scale(mean=rate, cov=rate), memory


def test_rates_that_know_the_root_would_notice_the_gauge():
    broken = NGD.with_parts(transforms=(RootRates(),))
    plain, other = (
        path(broken, NGD.start(), terraces, seeded()),
        path(broken, in_gauge(NGD.start(), 1), terraces, seeded()),
    )
    assert distance(other[-1], plain[-1].mean, plain[-1].cov) > 1e-3


# Rotations and affine maps


@dataclass(frozen=True)
class TurnedNoise:
    """The noise of a turned space: every whitened point turned with it."""

    inner: np.random.Generator
    turn: np.ndarray

    def standard_normal(self, size, /):
        return self.inner.standard_normal(size) @ self.turn.T


def turned(theta, noise, turn):
    """θ and noise of a turned space. A full root takes the turn; the other families leave it to the noise."""
    if isinstance(theta, FullGaussian):
        return FullGaussian(turn @ theta.mean, turn @ theta.root, theta.scale), noise
    return type(theta)(turn @ theta.mean, *parts(theta)[1:]), TurnedNoise(noise, turn)


def rotation_error(case):
    """How far the path in a turned space is from the turned path."""
    turn = ortho_group.rvs(case.d, random_state=5)
    straight = path(case, case.start(), terraces, seeded())[-1]
    start, noise = turned(case.start(), seeded(), turn)
    in_turned_space = path(case, start, lambda x: terraces(x @ turn), noise)[-1]
    return distance(in_turned_space, turn @ straight.mean, turn @ straight.cov @ turn.T)


@pytest.mark.parametrize("case", of_family(FullGaussian, IsotropicGaussian), ids=str)
def test_search_does_not_notice_a_rotation(case):
    assert rotation_error(case) <= ROUNDING


@pytest.mark.parametrize("case", of_family(DiagonalGaussian), ids=str)
def test_diagonal_covariance_notices_a_rotation(case):
    assert rotation_error(case) > 1e-3


def affine_error(case):
    """How far the path in an affine image of the space is from the image of the path; the noise is the same."""
    rng = seeded(6)
    linear = (
        ortho_group.rvs(case.d, random_state=rng)
        * rng.uniform(0.5, 2.0, case.d)
        @ ortho_group.rvs(case.d, random_state=rng)
    )
    shift = rng.standard_normal(case.d)
    start = case.start()
    plain = path(case, start, terraces, seeded())[-1]
    image = FullGaussian(linear @ start.mean + shift, linear @ start.root, start.scale)
    in_image = path(case, image, lambda x: terraces(np.linalg.solve(linear, (x - shift).T).T), seeded())[-1]
    return distance(in_image, linear @ plain.mean + shift, linear @ plain.cov @ linear.T)


@pytest.mark.parametrize("case", of_family(FullGaussian), ids=str)
def test_search_does_not_notice_an_affine_map(case):
    assert affine_error(case) <= ROUNDING


def test_rates_that_know_the_size_would_notice_an_affine_map():
    assert affine_error(NGD.with_parts(transforms=(SizeRates(),))) > 1e-3


# Batches


TRIALS = 3


def batch_error(case, noise, alone):
    """The largest relative difference after 30 iterations between trials in a batch and each alone with the noise
    `alone(k)`.

    Means begin near 1 and are rounded there, about 1e-16, and the difference is relative to a mean that goes to 0:
    about 1e-4 after 30 iterations of the fastest methods, with pairs, and 1e-8 after 60.
    """
    start, fun = case.start(batch=(TRIALS,)), bits_value if case in BITS else ellipsoid
    batch = path(case, start, fun, noise, iterations=30)[-1]
    singles = [path(case, trial(start, k), fun, alone(k), iterations=30)[-1] for k in range(TRIALS)]
    return max(distance(trial(batch, k), single.mean, single.cov) for k, single in enumerate(singles))


def streams():
    return Streams.spawn(7, TRIALS)


@pytest.mark.parametrize("case", METHODS, ids=str)
def test_trial_in_a_batch_is_the_trial_alone(case):
    assert batch_error(case, streams(), lambda k: streams().generators[k]) <= 1e-9


@dataclass(frozen=True)
class CrowdRates(Transform):
    """Broken: one rate for all trials."""

    def __call__(self, tangent, memory, generation, /):
        rate = np.full(generation.theta.mean.shape[:-1], 0.1 / np.max(tangent.spectral_norm))[()]
        return tangent.scale(mean=rate, cov=rate), memory


def test_rates_that_mix_trials_would_be_noticed():
    assert batch_error(NGD.with_parts(transforms=(CrowdRates(),)), streams(), lambda k: streams().generators[k]) > 1e-3


def test_one_stream_for_all_trials_would_be_noticed():
    assert batch_error(NGD, seeded(), lambda k: seeded()) > 1e-3
