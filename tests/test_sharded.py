"""A sample in shards is a sample: the same steps, whoever works on the shards, and only sums of points ever leave
them.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import sublevel as sl
from helpers.cases import PARTS
from helpers.objectives import sphere
from sublevel import validation
from sublevel.engine.families import FAMILIES
from sublevel.evaluation import sharded
from sublevel.evaluation.failures import Failures

METHODS = ["ngd", "rank-mu", "xnes", "iso-ngd", "lra-cma", *(f"{prefix}cma" for prefix in FAMILIES)]
PARTS = [method for method in PARTS if not any(part.adds_points for part in method.transforms)]


def ellipsoid(X):
    return np.square(X) @ np.logspace(0, 2, X.shape[1])


def run(fun=ellipsoid, **settings):
    start = {"x0": np.ones(6), "sigma0": 0.5, "popsize": 200, "shards": 3, "rng": 1, "maxiter": 15}
    return sl.minimize_sharded(fun, **(start | settings))


def facts(result):
    return (
        result.x.tobytes(),
        result.mean.tobytes(),
        result.cov.tobytes(),
        result.fun,
        result.nfev,
        result.nit,
        dict(result.reasons),
    )


def sharding(optimizer, count, run_calls=sharded._run_serially, fun=ellipsoid):
    return sharded.Sharding(fun, run_calls, count, (1, 2, 3, 4), "test", Failures())


# ---------------------------------------------------------------------------------------------------- the same steps


def steps_apart(method, turn, d=6, n=100, steps=12):
    """Relative distances of mean and covariance between steps in shards and those with all points here, coordinates
    rotated by `turn`.
    """
    here, there = (sl.Optimizer(np.ones(d), 0.5, method=method, popsize=n, rng=1) for _ in range(2))
    make = sharding(there, 3)
    for _ in range(steps):
        z = np.concatenate([shard.draw() for shard in make.shards(there)])
        make(there)
        sample = here.theta.sample_at(np.roll(z, turn, axis=1))
        state, _ = here.method.tell(here.state, sample, ellipsoid(sample.x))
        here.run_state = replace(here.run_state, search=state)
    step = np.max(np.abs(here.mean - there.mean) / there.deviations)
    return step, np.max(np.abs(here.cov - there.cov)) / np.max(np.abs(there.cov))


@pytest.mark.parametrize("method", [*METHODS, *PARTS], ids=lambda method: getattr(method, "name", method))
def test_steps_in_shards_are_those_of_the_whole_sample(method):
    assert max(steps_apart(method, turn=0)) < 1e-12
    assert min(steps_apart(method, turn=1)) > 1e-3  # other points, other steps


@pytest.mark.parametrize("method", ["ngd", "cma"])
def test_fewer_points_than_variables_make_the_same_step(method):
    """One step, because another root of the same covariance comes out of it, and the next points differ."""
    assert max(steps_apart(method, turn=0, d=70, n=40, steps=1)) < 1e-12
    assert min(steps_apart(method, turn=1, d=70, n=40, steps=1)) > 1e-4


def test_counts_best_and_reasons_are_those_of_what_was_evaluated():
    seen = []

    def fun(X):
        assert not X.flags.writeable
        seen.append((X.copy(), ellipsoid(X)))
        return seen[-1][1]

    result = run(fun, popsize=200)
    values = np.concatenate([values for _, values in seen])
    assert [len(X) for X, _ in seen[:3]] == [68, 66, 66]  # no pair is divided
    assert (result.nfev, result.nit) == (values.size, 15) == (3000, 15)
    assert result.fun == values.min()
    assert result.x.tobytes() == np.concatenate([X for X, _ in seen])[np.argmin(values)].tobytes()
    np.testing.assert_array_equal(result.history["generation_best"], values.reshape(15, 200).min(axis=1))


def test_a_run_in_shards_finds_the_minimum_within_bounds_and_after_restarts():
    seen = []

    def fun(X):
        seen.append(X)
        return sphere(X - 0.3)

    result = run(fun, bounds=[(0.2, 1.5)] * 6, maxiter=None, restarts=1, popsize=60)
    points = np.concatenate(seen)
    assert ((points >= 0.2) & (points <= 1.5)).all()
    assert result.restarts == 1
    np.testing.assert_allclose(result.x, 0.3, atol=1e-6)
    assert len({X.tobytes() for X in seen}) == len(seen)  # no stream of random numbers is used twice


@pytest.mark.parametrize("values", [np.nan, np.inf, 1.0])
def test_values_that_tell_nothing_are_named(values):
    result = run(lambda X: np.full(len(X), values), maxiter=None)
    assert list(result.reasons) == ["flat" if values == 1.0 else "all_failed"]
    np.testing.assert_array_equal(result.mean, 1.0)


def test_arguments_and_a_target_are_those_of_minimize():
    result = run(lambda X, centre: sphere(X - centre), args=(2.0,), ftarget=1e-3, maxiter=None)
    assert result.success
    assert sphere(result.x - 2.0) <= 1e-3


def test_the_number_of_shards_follows_from_the_sample_and_from_nothing_else(monkeypatch):
    monkeypatch.setattr(sharded, "SHARD", 64)
    assert facts(run(shards=None)) == facts(run(shards=4))
    assert facts(run(shards=4)) != facts(run(shards=3))


# ---------------------------------------------------------------------------------------------------- whoever works


@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_threads_give_the_bits_of_the_run_alone(method):
    with ThreadPoolExecutor(3) as threads:
        assert facts(run(method=method, workers=threads)) == facts(run(method=method))


def test_points_that_were_not_kept_are_drawn_again_to_the_bit(monkeypatch):
    drawn, draw = [], sharded.Shard.draw
    monkeypatch.setattr(sharded.Shard, "draw", lambda shard: drawn.append(shard) or draw(shard))
    kept = facts(run())
    assert len(drawn) == len(set(drawn)) == 45
    monkeypatch.setattr(sharded, "CACHE", sharded.PointCache(0))
    assert facts(run()) == kept
    assert len(drawn) == 3 * 45


def test_memory_holds_no_more_than_it_has_room_for_and_forgets_earlier_generations():
    memory = sharded.PointCache(2000)
    old, new, other = (sharded.Shard((seed,), 0, iteration, 0, 10, 10) for seed, iteration in ((1, 0), (1, 1), (2, 0)))
    for shard in (old, other, new):
        memory.keep(shard, shard.draw())
    assert memory._points.keys() == {other, new}
    third = sharded.Shard((3,), 0, 0, 0, 10, 10)
    memory.keep(third, third.draw())
    assert third not in memory._points
    assert memory.points(third).tobytes() == third.draw().tobytes()
    memory.points(new)
    assert memory._points.keys() == {other}


def bytes_sent(n, d, shards, method):
    """All that goes to the shards and comes back in a generation, as it would go over a wire."""
    sizes = []

    def run_calls(function, calls, names, addresses):
        answers = [function(*call) for call in calls]
        sizes.extend(len(ForkingPickler.dumps(thing)) for thing in (*calls, *answers))
        return answers

    optimizer = sl.Optimizer(np.ones(d), 0.5, method=method, popsize=n, rng=1)
    sharding(optimizer, shards, run_calls, sphere)(optimizer)
    return sum(sizes)


@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_traffic_is_a_few_numbers_per_point_and_some_matrices_per_shard(method):
    n, d, shards = 6000, 40, 3
    sent = bytes_sent(n, d, shards, method)
    assert sent < 8 * (4 * n + 2 * shards * d * (d + 6)) + 2000 * shards
    assert sent < 0.2 * 8 * n * d
    assert abs(bytes_sent(n, d, 2 * shards, method) - sent) < 8 * 2 * shards * d * (d + 6) + 2000 * shards


# ---------------------------------------------------------------------------------------------------- errors


def test_an_exception_arrives_with_its_shard_and_what_was_found():
    calls = []

    def fun(X):
        calls.append(0)
        if len(calls) == 8:
            raise ArithmeticError("enough")
        return ellipsoid(X)

    with pytest.raises(ArithmeticError, match="enough") as caught:
        run(fun)
    assert "shard 1 of iteration 2, points of shape (66, 6)" in "".join(caught.value.__notes__)
    assert (caught.value.sublevel_result.nfev, caught.value.sublevel_result.nit) == (400, 2)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_returns_the_best_so_far(sign):
    def callback(result):
        if result.nit == 4:
            signal.raise_signal(sign)

    result = run(callback=callback)
    assert list(result.reasons) == ["interrupted"]
    assert facts(result)[:4] == facts(run(maxiter=4))[:4]


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"method": "pbil", "x0": np.full(6, 0.5), "sigma0": None}, ValueError, "binary methods"),
        ({"x0": sl.Space(n=sl.Integer(0, 9))}, ValueError, "does not support a Space, integers or categories"),
        ({"integrality": 1}, TypeError, "integers are searched by `minimize` and `Optimizer` only"),
        ({"workers": 2}, ValueError, "`workers` of a sharded run"),
        ({"workers": map}, ValueError, "`workers` of a sharded run"),
        ({"workers": "two"}, TypeError, "`workers`"),
        ({"shards": 0}, ValueError, "`shards`"),
        ({"shards": 1.5}, TypeError, "`shards`"),
        ({"fun": partial(np.sum, axis=0)}, ValueError, "one number per point"),
        ({"fun": 3}, TypeError, "`fun` must be a function"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)
def test_what_makes_no_sense_is_refused(settings, kind, words):
    with pytest.raises(kind, match=words):
        run(**settings)


def test_values_that_are_nan_are_failures():
    def fun(X):
        return np.where(X[:, 0] > 1.2, np.nan, np.sum(X**2, axis=1))

    seen = []
    result = sl.minimize_sharded(
        lambda X: seen.append(fun(X)) or seen[-1], np.ones(3), 1.0, popsize=50, shards=3, rng=1, maxiter=10
    )
    count = int(np.count_nonzero(np.isnan(np.concatenate(seen))))
    assert result.failures.counts == {"nan": count}
    assert count > 0
    assert all(failure.x[0] > 1.2 for failure in result.failures.last)
    assert result.diagnosis[0].name == "failed"


def test_without_nan_there_is_no_failure():
    assert not sl.minimize_sharded(
        lambda X: np.sum(X**2, axis=1), np.ones(3), 1.0, popsize=50, shards=3, rng=1, maxiter=10
    ).failures


@pytest.mark.parametrize("popsize", [10**12, 2**63, 10**30])
@pytest.mark.parametrize("makes", [sl.minimize, sl.minimize_sharded, sl.Optimizer])
def test_a_sample_that_no_memory_holds_is_refused_before_it_is_made(makes, popsize):
    settings = {"x0": np.ones(3), "sigma0": 0.5, "popsize": popsize}
    with pytest.raises(ValueError, match=rf"`popsize` is too large for this machine: .*{popsize} points"):
        makes(**settings) if makes is sl.Optimizer else makes(sphere, **settings)


@pytest.mark.parametrize("store", [None, "run.db"])
def test_points_that_no_memory_holds_are_refused_where_they_would_be_in_one_piece(store, monkeypatch, tmp_path):
    """With room for the values but not for the points."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(validation, "physical_memory", lambda: 1000)
    settings = {"x0": np.ones(30), "sigma0": 0.5, "popsize": 100}
    with pytest.raises(ValueError, match=r"`popsize` is too large.*30 numbers.*`minimize_sharded`"):
        sl.minimize(sphere, **settings, store=store)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"`popsize` is too large"):
        sl.Optimizer(**settings).ask()
    assert sl.minimize_sharded(sphere, **settings, shards=4, maxiter=1).nfev == 100


def test_generations_of_shards_are_whole():
    result = sl.minimize_sharded(sphere, np.ones(3), 0.5, popsize=20, shards=3, rng=1, maxfevals=75)
    assert (result.nfev, result.nit, list(result.reasons)) == (60, 3, ["maxfevals"])


def test_nan_are_failures_wherever_shards_are_evaluated_and_of_all_restarts():
    def fun(X):
        return np.where(X[:, 0] > 1.2, np.nan, np.ones(len(X)))  # flat: restarts soon

    settings = {"x0": np.ones(3), "sigma0": 1.0, "popsize": 20, "shards": 3, "restarts": 2, "rng": 1, "maxfevals": 2000}
    alone = sl.minimize_sharded(fun, **settings)
    with ThreadPoolExecutor(2) as threads:
        together = sl.minimize_sharded(fun, workers=threads, **settings)
    assert alone.restarts == 2
    assert alone.failures.counts == together.failures.counts
    assert alone.failures.counts["nan"] > 0
