"""Step-size rules: CSA is tested with CMA-ES; here TPA and PSR, and every rule with every method and family."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import sublevel as sl
from helpers.cases import GAUSSIANS
from helpers.functions import sphere
from sublevel.engine.arrays import Streams
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.transforms import PSR, STEP_SIZES, TPA, Generation

RECIPES = {"cma": sl.cma, "xnes": sl.xnes, "ngd": sl.ngd, "rank_mu": sl.rank_mu}


def log_scales(rule, fun, *, d=10, n=12, steps=200, seed=1):
    """ln σ⁺/σ (steps,) by a rule alone: the mean moves and the covariance has the shape of the identity throughout."""
    rng, theta, memory = np.random.default_rng(seed), sl.IsotropicGaussian.start(np.zeros(d), np.ones(d)), None
    found = []
    for _ in range(steps):
        memory = rule.init(theta, n) if memory is None else memory
        sample = rule.add_points(memory, theta, theta.sample_at(rng.standard_normal((n, d))), rng)
        values = fun(sample.x, rng)
        ranks = ranking(values)
        weighting = sl.cma().weights(ranks, sample)
        tangent = natural_gradient(sample.z, weighting)
        tangent, memory = rule(tangent, memory, Generation(theta, sample, values, ranks, weighting))
        theta = sl.IsotropicGaussian(theta.mean + theta.scale * tangent.mean, theta.scale * np.exp(tangent.log_scale))
        found.append(tangent.log_scale)
    return np.array(found)


def linear(X, rng):
    return X[:, 0]


def random_values(X, rng):
    return rng.standard_normal(len(X))


# Behaviour that the papers state


def test_tpa_doubles_sigma_in_a_few_steps_on_a_slope():
    """Along the only direction that counts, ahead is better than most and behind is worse: ln σ⁺/σ tends to nearly
    1/√d.
    """
    d = 10
    grown = log_scales(TPA(), linear, d=d)[50:]
    assert 0.5 / np.sqrt(d) < np.mean(grown) <= 1.0 / np.sqrt(d)


def test_tpa_leaves_sigma_alone_on_random_values():
    """The two points are exchangeable there, so that ln σ is an unbiased random walk (Hansen, Atamna & Auger 2014)."""
    runs = np.array([np.sum(log_scales(TPA(), random_values, seed=seed, steps=100)) for seed in range(40)])
    assert abs(np.mean(runs)) < 3 * np.std(runs) / np.sqrt(len(runs))


@pytest.mark.parametrize("n", [2, 3, 8, 21])
def test_tpa_compares_the_ranks_of_two_points(n, rng):
    """s ← 0.7s + 0.3·(rank behind − rank ahead)/(n − 1) and ln σ⁺/σ = s/√d (Akimoto & Hansen, GECCO 2016), in plain
    loops; without a step before, the difference is 0.
    """
    d, rule, s = 6, TPA(), 0.0
    theta = sl.IsotropicGaussian.start(np.zeros(d), np.ones(d))
    memory = rule.init(theta, n)
    for t in range(60):
        values = rng.standard_normal(n) if t % 3 else np.round(rng.standard_normal(n))
        ahead, behind = (sum(v < one for v in values) + sum(v == one for v in values) / 2 for one in values[:2])
        s = 0.7 * s + 0.3 * ((behind - ahead) / (n - 1) if t else 0.0)
        sample, ranks = theta.sample_at(rng.standard_normal((n, d))), ranking(values)
        weighting = sl.cma().weights(ranks, sample)
        tangent = natural_gradient(sample.z, weighting)
        tangent, memory = rule(tangent, memory, Generation(theta, sample, values, ranks, weighting))
        assert tangent.log_scale == pytest.approx(s / np.sqrt(d), rel=1e-12, abs=1e-15)


def test_psr_shrinks_sigma_on_random_values_by_its_target():
    """Two random generations have the same ranks on average, so that s tends to −target."""
    found = log_scales(PSR(), random_values, steps=2000)[100:]
    assert np.mean(found) == pytest.approx(-0.25, abs=0.02)


def test_psr_grows_sigma_on_a_slope():
    """On a slope a generation beats the last one wherever the mean moves by more than the points scatter."""
    assert np.mean(log_scales(PSR(), linear, d=2, n=12)[20:]) > 0


def test_psr_with_another_target_finds_another_mean():
    assert np.mean(log_scales(PSR(target=0.1), random_values, steps=2000)[100:]) == pytest.approx(-0.1, abs=0.02)


def test_the_two_points_of_tpa_lie_along_the_last_step():
    method, rng, d, n = sl.cma(step_size="tpa"), np.random.default_rng(1), 5, 8
    state = method.init(sl.FullGaussian.start(np.ones(d), np.full(d, 0.5)), n)
    before = state.theta.mean
    for generation in range(6):
        sample = method.ask(state, rng, n)
        ahead, behind = sample.x[0] - state.theta.mean, sample.x[1] - state.theta.mean
        if generation:
            step = state.theta.mean - before
            np.testing.assert_allclose(ahead / np.linalg.norm(ahead), step / np.linalg.norm(step), atol=1e-12)
            np.testing.assert_allclose(behind, -ahead, rtol=1e-9, atol=1e-12)
        before = state.theta.mean
        state, _ = method.tell(state, sample, sphere(sample.x))


# With everything else


@pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("rule", STEP_SIZES)
def test_every_rule_finds_the_minimum_with_every_method_and_family(rule, recipe, family):
    method = RECIPES[recipe](step_size=rule, family=family)
    result = sl.minimize(
        sphere, np.full(4, 0.5), 0.3, method=method, vectorized=True, ftarget=1e-8, maxfevals=20_000, rng=1
    )
    assert result.fun <= 1e-8


def test_a_scale_that_never_changes_would_not_find_it():
    method = sl.Method("still", sl.cma().weights, (sl.cma().transforms[0], *sl.cma().transforms[2:]))
    result = sl.minimize(
        sphere, np.full(4, 0.5), 0.3, method=method, vectorized=True, ftarget=1e-8, maxfevals=1000, rng=1
    )
    assert result.fun > 1e-8


@pytest.mark.parametrize("rule", ["tpa", "psr"])
@pytest.mark.parametrize(
    "change",
    [lambda f: f**0.25, np.log, lambda f: -1.0 / f, lambda f: np.argsort(np.argsort(f)).astype(float)],
    ids=["root", "log", "−1/f", "ranks"],
)
def test_only_the_order_of_values_matters(rule, change):
    """Ranks within a generation are all that TPA sees; PSR also compares two generations, which ranks of one alone
    cannot give.
    """

    def mean_after(transform):
        optimizer = sl.Optimizer(np.ones(5), 0.5, method=sl.cma(step_size=rule), rng=3)
        for _ in range(40):
            X = optimizer.ask()
            optimizer.tell(X, transform(sphere(X)))
        return optimizer.mean

    is_rank = change(np.array([5.0, 7.0])).tolist() == [0.0, 1.0]
    assert np.array_equal(mean_after(change), mean_after(lambda f: f)) == (not is_rank or rule == "tpa")


@pytest.mark.parametrize("rule", STEP_SIZES)
def test_a_batch_of_trials_takes_the_steps_of_each(rule):
    method, d, n = sl.cma(step_size=rule), 3, 6
    streams = Streams.spawn(5, 2)
    batch = method.init(sl.FullGaussian.start(np.ones((2, d)), np.ones((2, d))), n)
    alone = [method.init(sl.FullGaussian.start(np.ones(d), np.ones(d)), n) for _ in range(2)]
    generators = copy.deepcopy(streams.generators)
    for _ in range(20):
        sample = method.ask(batch, streams, n)
        batch, _ = method.tell(batch, sample, np.sum(sample.x**2, axis=-1))
        for k, generator in enumerate(generators):
            one = method.ask(alone[k], generator, n)
            alone[k], _ = method.tell(alone[k], one, sphere(one.x))
    for k in range(2):
        np.testing.assert_allclose(batch.theta.mean[k], alone[k].theta.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", STEP_SIZES)
@pytest.mark.parametrize("lra", [False, True])
def test_runs_are_stored_and_resumed_to_the_same_bits(rule, lra, tmp_path):
    method = sl.cma(step_size=rule)
    method = sl.with_adapted_rates(method) if lra else method
    how = {"method": method, "bounds": [(-1, 2)] * 3, "rng": 1, "vectorized": True}
    whole = sl.minimize(sphere, np.ones(3), 0.3, **how, maxiter=30)
    sl.minimize(sphere, np.ones(3), 0.3, **how, maxiter=13, store=tmp_path / "run.db")
    again = sl.resume(tmp_path / "run.db", sphere, method=method, vectorized=True, maxiter=30)
    assert np.array_equal(again.mean, whole.mean)
    assert np.array_equal(again.cov, whole.cov)


@pytest.mark.parametrize("rule", STEP_SIZES)
def test_an_optimizer_goes_on_after_pickling(rule):
    optimizer = sl.Optimizer(np.ones(3), 0.3, method=sl.cma(step_size=rule), rng=1)
    for _ in range(5):
        X = optimizer.ask()
        optimizer.tell(X, sphere(X))
    other = pickle.loads(pickle.dumps(optimizer))
    assert np.array_equal(optimizer.ask(), other.ask())


def test_psr_runs_in_shards_and_tpa_is_refused():
    how = {"popsize": 100, "shards": 3, "rng": 1, "maxiter": 60}
    result = sl.minimize_sharded(sphere, np.ones(3), 0.3, method=sl.cma(step_size="psr"), **how)
    assert result.fun < 1e-6
    for method, part in ((sl.cma(step_size="tpa"), "TPA"), (sl.ngd(step_size="csa"), "CSA")):
        with pytest.raises(ValueError, match=f"cannot use {part}, which needs the points"):
            sl.minimize_sharded(sphere, np.ones(3), 0.3, method=method, **how)


def test_an_unknown_rule_is_refused():
    names = ", ".join(map(repr, STEP_SIZES))
    with pytest.raises(ValueError, match=f"`step_size` must be one of {names}, got 'no rule'"):
        sl.cma(step_size="no rule")


@pytest.mark.parametrize("rule", STEP_SIZES)
def test_points_of_large_samples_are_those_that_were_evaluated(rule, tmp_path):
    """Large samples are drawn again from what they were drawn with, unless a part adds points to them."""
    seen = []

    def fun(X):
        seen.append(X.copy())
        return sphere(X)

    how = {"method": sl.cma(step_size=rule), "vectorized": True, "popsize": 4000, "maxiter": 3, "rng": 1}
    sl.minimize(fun, np.ones(3), 0.3, **how, store=tmp_path / "run.db")
    assert np.array_equal(sl.load(tmp_path / "run.db").points, np.concatenate(seen))
