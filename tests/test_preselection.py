"""Preselection of points by the ranks of their neighbours, in small spaces with choices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sublevel as sl
from sublevel.engine.families.categorical import Categorical
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.mixed import Mixed
from sublevel.engine.transforms import Preselection
from sublevel.engine.transforms.preselection import DECAY, Evaluations

SPACE = sl.Space(x=sl.Real(-5, 5), n=sl.Integer(0, 20), k=sl.Choice(*"abcde"), b=sl.Choice(False, True))


def distance(p):
    """0 at x = 3, n = 2, k = "d", b = True; values on a grid, some of them equal."""
    return round(abs(p["x"] - 3) + 0.3 * abs(p["n"] - 2), 1) + (p["k"] != "d") + (not p["b"])


def product(d=2, counts=(3,)):
    """A product of a Gaussian and categories."""
    gaussian = FullGaussian.start(np.zeros(d), np.array([1.0, 10.0])[:d])
    return Mixed(gaussian, np.ones(d), np.zeros(d), Categorical.uniform(np.array(counts)), np.float64(0.1))


def some_evaluations(rng, theta, n=20, size=32):
    """Evaluations of n points, with ties and a failure."""
    points, values = theta.sample(rng, n).x, np.floor(4 * rng.random(n))
    values[3] = np.nan
    empty = Evaluations(np.zeros((size, points.shape[1])), np.full(size, np.nan))
    return empty.after(points, values), points, values


def preselects(optimizer):
    return any(isinstance(part, Preselection) for part in optimizer.method.transforms)


def test_prediction_is_the_weighted_average_of_ranks(rng):
    theta = product()
    memory, points, values = some_evaluations(rng, theta)
    values = np.where(np.isnan(values), np.inf, values)
    ranks = [np.sum(values < v) + 0.5 * np.sum(values == v) for v in values]
    here = theta.sample(rng, 5).x
    found = memory.predict(here, theta.deviations)
    for i, x in enumerate(here):
        gaps = [((x[:2] - p[:2]) / [1.0, 10.0]).tolist() for p in points]
        weights = [np.exp(-DECAY * (a**2 + b**2 + (x[2] != p[2])) / 3) for (a, b), p in zip(gaps, points, strict=True)]
        assert_allclose(found[i] * memory.values.size, np.average(ranks, weights=weights), rtol=1e-12)


def test_increasing_transforms_of_values_do_not_change_the_choice(rng):
    theta = product()
    memory, _, _ = some_evaluations(rng, theta)
    other = Evaluations(memory.points, np.exp(memory.values))
    first, second = (
        Preselection().add_points(one, theta, theta.sample(np.random.default_rng(1), 9), np.random.default_rng(2))
        for one in (memory, other)
    )
    assert_array_equal(first.x, second.x)


def test_each_point_is_the_best_of_its_candidates(rng):
    theta, rule = product(), Preselection()
    memory, _, _ = some_evaluations(rng, theta)
    sample, more = theta.sample(np.random.default_rng(1), 9), theta.sample(np.random.default_rng(2), 18)
    chosen = rule.add_points(memory, theta, sample, np.random.default_rng(2))
    for i in range(9):
        candidates = np.array([sample.x[i], more.x[i], more.x[9 + i]])
        best = np.argmin(memory.predict(candidates, theta.deviations))
        assert_allclose(chosen.x[i], candidates[best], rtol=1e-12)


@pytest.mark.parametrize("n", [0, 32])
def test_samples_are_left_alone_without_evaluations_and_after_the_last_of_them(rng, n):
    theta, generator = product(), np.random.default_rng(2)
    memory, _, _ = some_evaluations(rng, theta, n) if n else (Preselection().init(theta, 8), None, None)
    before, sample = generator.bit_generator.state, theta.sample(rng, 8)
    assert Preselection().add_points(memory, theta, sample, generator) is sample
    assert generator.bit_generator.state == before


def test_memory_keeps_the_first_evaluations_of_a_run():
    optimizer = sl.Optimizer(SPACE, rng=1)
    for _ in range(30):
        X = optimizer.ask()
        optimizer.tell(X, [distance(SPACE.decode(x)) for x in X])
    memory = optimizer.state.memory[-1]
    assert memory.is_full
    again = optimizer.state.theta.sample(np.random.default_rng(0), 8)
    assert Preselection().add_points(memory, optimizer.theta, again, np.random.default_rng(1)) is again


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, True),
        ({"method": "lra-xnes"}, True),
        ({"popsize": 64}, True),
        ({"popsize": 65}, False),
        ({"constraints": [{"type": "ineq", "fun": lambda p: p["x"]}]}, False),
    ],
    ids=["default", "another method", "64 points", "65 points", "constraints"],
)
def test_small_samples_without_constraints_are_preselected(options, wanted):
    assert preselects(sl.Optimizer(SPACE, rng=1, **options)) is wanted


def test_other_spaces_are_not_preselected():
    """Without choices, without real variables, or with many variables."""
    reals = {f"x{i}": sl.Real(0, 1) for i in range(10)}
    assert preselects(sl.Optimizer(sl.Space(**dict(list(reals.items())[:9]), k=sl.Choice(1, 2)), rng=1))
    assert not preselects(sl.Optimizer(sl.Space(**reals, k=sl.Choice(1, 2)), rng=1))
    assert not preselects(sl.Optimizer(sl.Space(**reals), rng=1))
    assert not preselects(sl.Optimizer(sl.Space(n=sl.Integer(0, 9), o=sl.Choice(1, 2, ordered=True)), rng=1))
    assert not preselects(sl.Optimizer(sl.Space(n=sl.Integer(0, 9), k=sl.Choice(1, 2)), rng=1))
    assert not preselects(sl.Optimizer(np.zeros(3), 1.0, rng=1))


def test_few_evaluations_find_better_values(monkeypatch):
    """The mean over seeds of the best of 60 evaluations is lower, by more than two standard errors."""

    def best_values():
        return np.array([sl.minimize(distance, SPACE, maxfevals=60, rng=seed).fun for seed in range(150)])

    preselected = best_values()
    monkeypatch.setattr(sl.Optimizer, "_preselects", False)
    gain = best_values() - preselected
    assert np.mean(gain) > 2 * np.std(gain) / np.sqrt(gain.size)


def distinct(points):
    """The points without repetitions: the first one is evaluated again when a run is resumed."""
    return [p for i, p in enumerate(points) if p not in points[:i]]


def test_stored_run_resumes_with_the_same_points(tmp_path):
    def noted(p):
        seen.append(p)
        return distance(p)

    seen = []
    sl.minimize(noted, SPACE, maxfevals=120, rng=1)
    whole, seen = seen, []
    sl.minimize(noted, SPACE, maxfevals=50, rng=1, store=tmp_path / "run.db")
    sl.resume(tmp_path / "run.db", noted, maxfevals=120)
    assert len(whole) > 100
    assert distinct(seen) == distinct(whole)
