"""Runs with discrete variables end by themselves, not before they have found the minimum, and restart."""

from __future__ import annotations

import numpy as np
import pytest

import sublevel as sl
from sublevel.run.restarts import STRATEGIES

SEEDS = range(40)
NEARLY_ALL = 38
"""95 % of the seeds."""


def one_max(values):
    """The number of values that are not the wanted one."""
    return len(values) - sum(values)


def leading_ones(values):
    """Values after the first one that is not the wanted one."""
    return len(values) - next((i for i, value in enumerate(values) if not value), len(values))


def categories(m, count):
    """m variables with `count` categories."""
    return sl.Space({f"k{i}": sl.Choice(*range(count)) for i in range(m)})


def wanted(fun):
    """The function of whether each category is number 1."""
    return lambda parameters: fun([value == 1 for value in parameters.values()])


@pytest.mark.parametrize(("m", "count"), [(5, 2), (12, 2), (4, 5), (8, 3)])
@pytest.mark.parametrize("fun", [one_max, leading_ones])
def test_categories_settle_at_the_minimum(fun, m, count):
    runs = [sl.minimize(wanted(fun), categories(m, count), rng=seed) for seed in SEEDS]
    assert all(set(run.reasons) == {"settled"} and run.success for run in runs)
    assert sum(run.fun == 0 for run in runs) >= NEARLY_ALL
    assert "all variables are discrete" in runs[0].message


def test_settling_too_early_would_be_noticed(monkeypatch):
    monkeypatch.setattr("sublevel.run.termination.generations_to_try_neighbours", lambda discrete, n: 0.0)
    monkeypatch.setattr("sublevel.engine.families.mixed.SETTLED", 1e9)
    runs = [sl.minimize(wanted(one_max), categories(12, 2), rng=seed) for seed in SEEDS]
    assert sum(run.fun == 0 for run in runs) < NEARLY_ALL


@pytest.mark.parametrize("high", [10, 1000, 10**6, 10**12])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_integers_settle_at_the_minimum(d, high):
    """Also where the range is so wide that the margin does not matter at first."""
    space, target = sl.Space({f"n{i}": sl.Integer(0, high) for i in range(d)}), int(0.7 * high)

    def sphere(parameters):
        return sum((value - target) ** 2 for value in parameters.values())

    runs = [sl.minimize(sphere, space, rng=seed) for seed in SEEDS]
    assert all(set(run.reasons) == {"settled"} for run in runs)
    assert sum(run.fun == 0 for run in runs) >= NEARLY_ALL


@pytest.mark.parametrize("seed", [100, 103])
def test_integers_of_little_effect_follow_once_the_others_have_converged(seed):
    """The deviations of the real variables are 10⁻⁶ by then, and so are those of the Gaussian in integers."""
    scales = 1000.0 ** np.linspace(1, 0, 40)
    start = np.random.default_rng(seed).uniform(1, 3, 40)
    result = sl.minimize(
        lambda x: float(np.sum(np.square(scales * x))),
        start,
        1.0,
        integrality=[0] * 20 + [1] * 20,
        bounds=[(None, None)] * 20 + [(-10, 10)] * 20,
        ftarget=1e-10,
        rng=seed,
    )
    assert result.fun <= 1e-10


@pytest.mark.parametrize("log", [False, True])
def test_integers_settle_at_a_bound(log):
    space = sl.Space(a=sl.Integer(1, 5000, log=log), b=sl.Integer(1, 50, log=log))
    runs = [sl.minimize(lambda p: p["a"] - p["b"], space, rng=seed) for seed in SEEDS]
    assert all(set(run.reasons) == {"settled"} for run in runs)
    assert sum(run.params == {"a": 1, "b": 50} for run in runs) >= NEARLY_ALL


MIXED = sl.Space(x=sl.Real(-5, 5), y=sl.Real(1e-4, 1, log=True), n=sl.Integer(-10, 10), k=sl.Choice(*"abc"))


def bowl(p):
    """0 at x = 1, y = 0.01, n = 3, k = "b"."""
    return (p["x"] - 1) ** 2 + np.log(p["y"] / 0.01) ** 2 + (p["n"] - 3) ** 2 + (p["k"] != "b")


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "lra-cma", "xnes", sl.cma(step_size="tpa")], ids=str)
def test_mixed_runs_converge_by_their_real_variables(method):
    runs = [sl.minimize(bowl, MIXED, method=method, rng=seed) for seed in range(10)]
    assert all(set(run.reasons) <= {"tolx", "tolfun", "no_effect"} and run.success for run in runs)
    assert all(run.params["n"] == 3 and run.params["k"] == "b" and run.fun < 1e-12 for run in runs)


def test_tolerances_hold_for_real_variables_alone():
    run = sl.minimize(bowl, MIXED, rng=1, tolx=1e-3)
    assert set(run.reasons) == {"tolx"}
    assert run.std[:2].max() <= 1e-3 < run.std[2]
    assert sl.minimize(bowl, MIXED, rng=1).nfev > run.nfev
    assert set(sl.minimize(bowl, MIXED, rng=1, tolfun=0.5).reasons) == {"tolfun"}


def test_points_that_left_an_integer_do_not_delay_the_end():
    """Nearly every sample of 40 points contains one, so that its values are never all equal."""
    runs = [sl.minimize(lambda p: 100.0 + bowl(p), MIXED, popsize=40, rng=seed) for seed in range(5)]
    assert all(set(run.reasons) == {"tolfun"} and run.fun - 100 < 1e-12 for run in runs)


@pytest.mark.parametrize("restarts", [2, *STRATEGIES])
@pytest.mark.parametrize("space", [categories(4, 3), MIXED], ids=["categories", "mixed"])
def test_runs_with_discrete_variables_restart(space, restarts):
    seen = []

    def fun(parameters):
        seen.append(space.encode(parameters))
        return bowl(parameters) if space is MIXED else wanted(one_max)(parameters)

    result = sl.minimize(fun, space, restarts=restarts, rng=1, maxfevals=12_000, maxiter=1500)
    assert result.restarts >= 1
    assert result.fun < 1e-12
    points, found = np.array(seen), space.coordinates()
    assert ((points >= found.lower) & (points <= found.upper)).all()


def test_restart_begins_with_all_categories_again():
    optimizer = sl.Optimizer(categories(3, 4), restarts=3, rng=1)
    while optimizer.restarts == 0:
        X = optimizer.ask()
        optimizer.tell(X, X.sum(axis=1))
    # The sample that began the second run was told; one step moved the probabilities from 1/4.
    assert optimizer.run_state.standing.generations <= 1
    assert (optimizer.theta.choices.probabilities > 0.01).all()


@pytest.mark.parametrize(
    "space",
    [categories(4, 3), MIXED, sl.Space(a=sl.Integer(0, 9), b=sl.Integer(0, 9))],
    ids=["categories", "mixed", "integers"],
)
def test_constant_function_ends(space):
    result = sl.minimize(lambda p: 1.0, space, rng=1)
    assert set(result.reasons) <= {"flat", "collapsed_sample"}
    assert not result.success


def test_function_that_always_fails_ends():
    result = sl.minimize(lambda p: np.nan, MIXED, rng=1)
    assert set(result.reasons) == {"all_failed"}
