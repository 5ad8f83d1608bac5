"""A search with discrete variables that settles away from its best point returns there, and stays within its bounds."""

from __future__ import annotations

import numpy as np
import pytest

import sublevel as sl
from helpers.mixed import RASTRIGIN as OPTIONS
from helpers.mixed import leaves, same_bits, turned_rastrigin
from sublevel.run import optimizer as optimizer_module
from sublevel.run import termination
from sublevel.run.termination import Standing, Window

SEEDS = range(24)
RUGGED = turned_rastrigin(0)


@pytest.fixture(autouse=True)
def without_sweeps(monkeypatch):
    """Runs do not begin again around points that single changes have found: see test_sweep.py."""
    monkeypatch.setattr(sl.Optimizer, "_sweep_is_due", property(lambda self: False))


def coarse(x):
    """Values on a grid: differences survive any g."""
    return np.floor(1024 * RUGGED(x)) / 1024


def follow(fun, generations=250, **options):
    """An optimizer after so many generations, with its distributions and the generations in which it returned."""
    optimizer = sl.Optimizer(**OPTIONS, **options)
    thetas, returns, last = [], [], np.nan
    for number in range(generations):
        X = optimizer.ask()
        optimizer.tell(X, [fun(x) for x in X])
        thetas.append(optimizer.theta)
        if not np.array_equal(now := optimizer.run_state.standing.returned_to, last, equal_nan=True):
            returns.append(number)
            last = now
    return optimizer, thetas, returns


# Returning


def test_a_search_returns_to_a_best_point_out_of_reach():
    count = 0
    for seed in SEEDS:
        optimizer = sl.Optimizer(**OPTIONS, rng=seed)
        initial, last = optimizer.deviations.copy(), np.nan
        while not optimizer.stop():
            X = optimizer.ask()
            optimizer.tell(X, [RUGGED(x) for x in X])
            standing = optimizer.run_state.standing
            if np.array_equal(standing.returned_to, last, equal_nan=True):
                continue
            count, last = count + 1, standing.returned_to
            assert standing.returned_to == optimizer.best_fun
            assert np.allclose(optimizer.mean, optimizer.best_x, rtol=1e-12)
            assert np.allclose(optimizer.deviations[4:], optimizer_module.NARROWER * initial[4:])
            assert standing.settled_for == 0
        assert not optimizer.best_fun > last
    assert count >= len(SEEDS) // 4


def final_values():
    return np.array([sl.minimize(RUGGED, **OPTIONS, rng=seed).fun for seed in SEEDS])


def test_runs_that_return_end_lower(monkeypatch):
    """No run is worse; without returns, a quarter of them end at points that are not even local minima."""
    returning = final_values()
    monkeypatch.setattr(Standing, "misses_best", lambda self, window: False)
    plain = final_values()
    assert np.all(returning <= plain)
    assert np.count_nonzero(returning < plain) >= len(SEEDS) // 4


def test_a_run_that_converges_at_its_best_point_does_not_return():
    for seed in SEEDS:
        optimizer, _, returns = follow(lambda x: float(np.sum((x - [3, 4, 5, 6, 0.5, 1.5]) ** 2)), rng=seed)
        assert not returns
        assert optimizer.best_fun < 1e-12


def standing(**facts):
    usual = {"generations": 50, "latest": 2.0, "lowest": 1.0, "settled_for": termination.AWAY}
    return Standing(np.ones(2), **(usual | facts))


@pytest.mark.parametrize(
    ("facts", "recent", "misses"),
    [
        ({}, [2.0] * 12, True),
        ({}, [1.0, *[2.0] * 10], True),
        ({}, [2.0, 1.0, *[2.0] * 9], False),
        ({"settled_for": termination.AWAY - 1}, [2.0] * 12, False),
        ({"to_beat": 1.0}, [2.0] * 12, False),
        ({"to_beat": 0.5}, [2.0] * 12, False),
        ({"to_beat": 1.5}, [2.0] * 12, True),
        ({"returned_to": 1.0}, [2.0] * 12, False),
        ({"returned_to": 1.2}, [2.0] * 12, True),
        ({"lowest": np.nan}, [np.nan] * 12, False),
        ({}, [np.inf] * 12, True),
    ],
)
def test_a_search_misses_its_best_point(facts, recent, misses):
    assert standing(**facts).misses_best(Window(100, recent, recent)) is misses


def test_a_noisy_search_does_not_return_to_a_lucky_point():
    rng = np.random.default_rng(1)
    for seed in range(4):
        _, _, returns = follow(lambda x: RUGGED(x) + rng.normal(), rng=seed, noise=True)
        assert not returns


# What the return does not notice, and what it goes together with


@pytest.mark.parametrize("g", [np.log1p, np.cbrt, lambda f: f**3], ids=["log1p", "cbrt", "cube"])
def test_a_search_that_returns_does_not_notice_an_increasing_g(g):
    returned = 0
    for seed in range(12):
        (_, plain, returns), (_, composed, others) = follow(coarse, rng=seed), follow(lambda x: g(coarse(x)), rng=seed)
        assert returns == others
        assert all(same_bits(a, b) for a, b in zip(plain, composed, strict=True))
        returned += len(returns)
    assert returned


def test_returns_by_differences_of_values_would_notice_g(monkeypatch):
    def by_differences(self, window):
        return self.settled_for > 0 and self.spread < 1e-2 * (self.latest - self.lowest)

    monkeypatch.setattr(Standing, "misses_best", by_differences)
    monkeypatch.setattr(optimizer_module, "WITHIN_REACH", 0.0)
    pairs = [(follow(coarse, rng=seed)[2], follow(lambda x: np.exp(coarse(x)), rng=seed)[2]) for seed in range(12)]
    assert any(plain != composed for plain, composed in pairs)


SPACE = sl.Space(
    x=sl.Real(-5, 5), r=sl.Real(1e-3, 10, log=True), n=sl.Integer(0, 12), m=sl.Integer(1, 500, log=True),
    k=sl.Choice(*"abcd"), s=sl.Choice(*"SML", ordered=True), f=2.0,
)  # fmt: skip


def uneven(p):
    """A function with many local minima of all kinds of parameters."""
    total = abs(p["x"] - 1) + np.sin(9 * p["x"]) ** 2 + abs(np.log(p["r"])) + abs(p["n"] - 7) * (1 + p["n"] % 2)
    return float(total + abs(np.log(p["m"] / 40)) + "cbda".index(p["k"]) + 0.7 * "LSM".index(p["s"]))


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "xnes", "ngd", "lra-cma"])
@pytest.mark.parametrize("extra", ["none", "constraint", "ipop", "bipop"])
def test_returning_often_does_no_harm(method, extra, monkeypatch):
    """Every point is valid and every state finite if a search returns after any generation without a new best."""
    monkeypatch.setattr("sublevel.engine.families.mixed.SETTLED", 1e9)
    monkeypatch.setattr(termination, "AWAY", 1)
    monkeypatch.setattr(optimizer_module, "WITHIN_REACH", 0.0)
    options = {"none": {}, "constraint": {"constraints": 1}}.get(extra, {"restarts": extra})
    optimizer, returns, last = sl.Optimizer(SPACE, method=method, rng=3, **options), 0, np.nan
    for _ in range(150):
        X = optimizer.ask()
        assert [SPACE.encode(SPACE.decode(x)).tolist() for x in X] == X.tolist()
        g = {"constraints": [[3.0 - x[2]] for x in X]} if extra == "constraint" else {}
        optimizer.tell(X, [uneven(SPACE.decode(x)) for x in X], **g)
        assert all(np.isfinite(leaf).all() for leaf in leaves(optimizer.theta))
        if (now := optimizer.run_state.standing.returned_to) == now and now != last:
            returns, last = returns + 1, now
            assert SPACE.decode(optimizer.mean)["k"] == SPACE.decode(optimizer.best_x)["k"]
    assert returns


def test_a_search_that_returned_and_left_again_ends():
    tolerances = termination.Tolerances()
    limits = termination.lengths(2, 10)
    window = Window(limits.kept, [2.0] * 100, [2.0] * 100)
    facts = {"generations": 100, "latest": 2.0, "lowest": 1.0, "spread": 1e-3}
    reason = termination._equal_values(Standing(np.ones(2), **facts, returned_to=1.0), window, tolerances, limits)
    assert reason == ("returned", 1.0)
    assert "best point" in reason.message
    assert termination._equal_values(Standing(np.ones(2), **facts), window, tolerances, limits) is None


@pytest.mark.parametrize(("settled_for", "is_hopeless"), [(0, False), (1, True)])
def test_a_run_of_settled_integers_is_abandoned_earlier(settled_for, is_hopeless):
    tolerances, limits = termination.Tolerances(), termination.lengths(2, 10)
    window = Window(limits.kept, [2.0] * 100, [2.0] * 100)
    facts = {"generations": 100, "latest": 2.0, "lowest": 2.0, "spread": 0.05, "settled_for": settled_for}
    reason = termination._equal_values(Standing(np.ones(2), 1.0, **facts), window, tolerances, limits)
    assert reason == (("abandoned", 1.0) if is_hopeless else None)


# Bounds


@pytest.mark.parametrize("method", ["cma", "sep-cma", "rank-mu"])
@pytest.mark.parametrize("high", [1, 3, 1000])
def test_integers_whose_minimum_is_at_a_bound_stay_within_it(method, high):
    """A part of an integer beyond: points further out would all have the same value, and the search would widen."""
    optimizer = sl.Optimizer(
        [high / 2] * 3 + [0.0],
        [high / 4] * 3 + [1.0],
        method=method,
        integrality=[1, 1, 1, 0],
        bounds=[(0, high)] * 3 + [(None, None)],
        rng=1,
    )
    for _ in range(150):
        X = optimizer.ask()
        optimizer.tell(X, X[:, 0] - X[:, 1] + X[:, 2] + X[:, 3] ** 2)
        mean, deviations = optimizer.theta.mean[:3], optimizer.theta.deviations[:3]
        assert (mean >= -0.5 - 1e-9).all()
        assert (mean <= high + 0.5 + 1e-9).all()
    assert optimizer.best_x[:3].tolist() == [0, high, 0]
    assert (deviations < 1.0).all()


def test_halves_are_rounded_up_wherever_zero_is():
    from sublevel.engine.arrays import nearest_integers

    x = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, 2.0**52 + 1, 2.0**53 + 2, -(2.0**52) - 1])
    assert nearest_integers(x).tolist() == [-1, 0, 1, 2, 3, 0, 2.0**52 + 1, 2.0**53 + 2, -(2.0**52) - 1]
