"""IPOP and BIPOP: which runs they make, by ask and tell as in `minimize`, and what they are for."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublevel as sl
from helpers.functions import rastrigin, sphere
from sublevel.run.restarts import STRATEGIES, FinishedRuns, Once, RestartName, Restarts, Run


def made(strategy, popsize, spent, *, seed=1, limit=200):
    """The runs of a strategy, given what each of them spends: a function of the run, as far as it may."""
    rng, runs = np.random.default_rng(seed), FinishedRuns()
    while len(runs) < limit and (run := strategy.next_run(runs, popsize, rng)) is not None:
        runs.append(run, int(min(spent(run), run.maxfevals)))
    return [runs[number] for number in range(len(runs))]


popsizes = st.integers(2, 100)
costs = st.sampled_from(
    [lambda run: 100 * run.popsize, lambda run: 1000, lambda run: 7 * run.popsize**2, lambda run: run.popsize]
)


# Which runs


@given(popsizes, st.integers(0, 8), st.sampled_from([1.5, 2.0, 3.0]), costs)
def test_ipop_multiplies_the_population(popsize, restarts, factor, spent):
    done = made(sl.IPOP(restarts, factor), popsize, spent)
    assert [run for run, _ in done] == [Run(int(popsize * factor**k)) for k in range(restarts + 1)]


@given(popsizes, costs, st.integers(0, 1000))
def test_bipop_gives_both_regimes_the_same_budget(popsize, spent, seed):
    done = made(sl.BIPOP(restarts=5), popsize, spent, seed=seed)
    first, *rest = done
    large, small = 0, first[1]  # evaluations so far, of each regime
    for run, evaluations in rest:
        if run.maxfevals < np.inf:
            assert small < large  # it was the small ones' turn
            small += evaluations
        else:
            assert small >= large
            large += evaluations
    assert small >= large  # the small ones had their turn after the last large one too


@given(popsizes, costs, st.integers(0, 1000))
def test_bipops_large_runs_double_the_population(popsize, spent, seed):
    large = [run for run, _ in made(sl.BIPOP(restarts=5), popsize, spent, seed=seed) if run.maxfevals == np.inf]
    assert large == [Run(popsize * 2**k) for k in range(6)]


@given(popsizes, costs, st.integers(0, 1000))
def test_bipops_small_runs_have_few_points_smaller_steps_and_half_of_what_the_large_ones_spent(popsize, spent, seed):
    spent_by_large, widest = 0, popsize
    for run, evaluations in made(sl.BIPOP(restarts=5), popsize, spent, seed=seed)[1:]:
        if run.maxfevals == np.inf:
            spent_by_large, widest = spent_by_large + evaluations, run.popsize
            assert run.sigma_factor == 1
        else:
            assert popsize <= run.popsize <= widest
            assert 0.01 <= run.sigma_factor <= 1
            assert run.maxfevals == max(spent_by_large / 2, 2 * popsize)


def bipop(popsize, spent, rng, restarts, factor):
    """The runs of BIPOP as Hansen (BBOB workshop 2009) describes them, with the exceptions of the package `cma`, in
    plain loops: sample size, factor of sigma0, and budget.
    """
    runs, small, large, count = [(popsize, 1.0, np.inf)], spent(Run(popsize)), 0, 0
    while True:
        if small < large:
            u_size, u_step = rng.random(), rng.random()
            budget = max(large / 2, 2 * popsize)
            runs.append((max(int(popsize * factor ** (count * u_size**2)), 2), 0.01**u_step, budget))
            small += int(min(spent(Run(runs[-1][0])), budget))
        elif count == restarts:
            return runs
        else:
            count += 1
            runs.append((int(popsize * factor**count), 1.0, np.inf))
            large += int(spent(Run(runs[-1][0])))


@given(popsizes, costs, st.integers(0, 1000), st.sampled_from([1.5, 2.0, 3.0]))
def test_bipop_draws_what_its_paper_says(popsize, spent, seed, factor):
    expected = bipop(popsize, spent, np.random.default_rng(seed), 5, factor)
    found = [run for run, _ in made(sl.BIPOP(5, factor), popsize, spent, seed=seed, limit=len(expected) + 1)]
    assert [(run.popsize, run.maxfevals) for run in found] == [(size, budget) for size, _, budget in expected]
    assert [run.sigma_factor for run in found] == pytest.approx([sigma for _, sigma, _ in expected], rel=1e-12)


def test_bipops_small_runs_differ():
    small = [run for run, _ in made(sl.BIPOP(restarts=8), 10, lambda run: 50 * run.popsize) if run.maxfevals < np.inf]
    assert len({run.popsize for run in small}) > 5
    assert len({run.sigma_factor for run in small}) == len(small)


def test_a_strategy_is_a_function_of_its_seed():
    one, same, other = ([run for run, _ in made(sl.BIPOP(), 10, lambda run: 1000, seed=seed)] for seed in (1, 1, 2))
    assert one == same != other


def test_no_restart_is_one_run():
    assert [run for run, _ in made(Once(), 7, lambda run: 100)] == [Run(7)]


# In use


class Watched:
    """A function that remembers the size of every sample."""

    def __init__(self, fun):
        self.fun, self.sizes = fun, []

    def __call__(self, X):
        self.sizes.append(len(X))
        return self.fun(X)


@pytest.mark.parametrize(("restarts", "count"), [(None, 0), (0, 0), (3, 3), (sl.IPOP(2, 3.0), 2), ("ipop", 9)], ids=str)
def test_runs_follow_one_another_until_the_strategy_ends(restarts, count):
    fun = Watched(lambda X: 1 + sphere(X))
    result = sl.minimize(fun, np.ones(2), 0.5, restarts=restarts, popsize=4, vectorized=True, rng=1, maxfevals=1e6)
    factor = 3 if isinstance(restarts, sl.IPOP) else 2
    assert result.restarts == count
    assert list(dict.fromkeys(fun.sizes)) == [4 * factor**k for k in range(count + 1)]
    assert result.nfev == sum(fun.sizes)
    assert result.success
    assert len(result.history) == result.nit == len(fun.sizes)


def test_the_budget_ends_restarts():
    fun = Watched(rastrigin)
    result = sl.minimize(
        fun, np.full(4, 3.0), 2.0, restarts="bipop", vectorized=True, rng=1, maxfevals=3000, ftarget=-1.0
    )
    assert result.nfev == sum(fun.sizes) <= 3000
    assert list(result.reasons) == ["maxfevals"]
    assert result.restarts > 0


def test_the_best_point_of_all_runs_is_kept():
    seen = []

    def fun(X):
        seen.append(rastrigin(X).min())
        return rastrigin(X)

    result = sl.minimize(fun, np.full(4, 3.0), 2.0, restarts=2, vectorized=True, rng=1)
    assert result.fun == min(seen) == rastrigin(result.x)
    assert (np.diff(result.history["best"]) <= 0).all()


@pytest.mark.parametrize("restarts", STRATEGIES)
def test_ask_and_tell_restart_as_minimize_does(restarts):
    result = sl.minimize(
        rastrigin, np.full(3, 3.0), 2.0, restarts=restarts, vectorized=True, rng=1, maxfevals=20_000, ftarget=1e-9
    )
    optimizer = sl.Optimizer(np.full(3, 3.0), 2.0, restarts=restarts, rng=1)
    while not (optimizer.best_fun <= 1e-9 or optimizer.stop()):
        X = optimizer.ask()
        optimizer.tell(X, rastrigin(X))
    assert optimizer.restarts == result.restarts > 0
    assert (1 + optimizer.nfev, optimizer.nit, optimizer.best_fun) == (
        result.nfev,
        result.nit,
        result.fun,
    )  # the start is evaluated too
    np.testing.assert_array_equal(optimizer.best_x, result.x)


@pytest.mark.parametrize("restarts", ["ipop", "bipop"])
def test_stop_changes_nothing_and_the_next_sample_may_have_another_size(restarts):
    optimizer, sizes = sl.Optimizer(np.full(3, 3.0), 2.0, restarts=restarts, rng=1), set()
    while optimizer.restarts < 2:
        X = optimizer.ask()
        optimizer.tell(X, rastrigin(X))
        sizes.add(len(X))
        before = pickle.dumps((optimizer.run_state, optimizer.rng))
        assert optimizer.stop() == optimizer.stop() == {}
        assert pickle.dumps((optimizer.run_state, optimizer.rng)) == before
    assert len(sizes) > 1


def test_restart_begins_a_run_once_and_only_after_the_end_of_one():
    optimizer = sl.Optimizer(np.ones(2), 0.5, restarts=1, rng=1)
    assert not optimizer.restart()
    for _ in range(2):  # equal values twice in a row end a run
        X = optimizer.ask()
        optimizer.tell(X, np.ones(len(X)))
    assert optimizer.restart()
    assert not optimizer.restart()
    assert (optimizer.restarts, len(optimizer.finished), list(optimizer.endings)) == (1, 1, [{"flat": 2.0}])


def test_a_run_may_say_where_it_starts():
    class FromTheBest(Restarts):
        def next_run(self, runs, popsize, rng):
            return [Run(popsize), Run(popsize, 0.5, x0=np.full(2, 7.0)), None][len(runs)]

    optimizer = sl.Optimizer(np.ones(2), 0.5, restarts=FromTheBest(), rng=1)
    while optimizer.restarts == 0:
        X = optimizer.ask()
        optimizer.tell(X, np.ones(len(X)))
        optimizer.restart()
    np.testing.assert_array_equal(optimizer.mean, 7.0)
    np.testing.assert_allclose(optimizer.deviations, 0.25)


def test_a_seed_decides_everything():
    runs = [
        sl.minimize(
            rastrigin, np.full(4, 3.0), 2.0, restarts="bipop", vectorized=True, rng=seed, maxfevals=10_000, ftarget=-1.0
        )
        for seed in (3, 3, 4)
    ]
    assert runs[0].x.tobytes() == runs[1].x.tobytes()
    bests = [run.history["generation_best"].tobytes() for run in runs]
    assert bests[0] == bests[1] != bests[2]


def starts(x0, sigma0, **options):
    """Where the runs of IPOP begin, on a function that is solved at once: the means of the first samples."""
    optimizer, begun = sl.Optimizer(x0, sigma0, restarts=6, rng=1, **options), []
    while not optimizer.stop() and len(begun) < 7:
        if optimizer.restarts == len(begun):
            begun.append(optimizer.mean.copy())
        X = optimizer.ask()
        optimizer.tell(X, np.ones(len(X)))
    return np.array(begun)


def test_runs_begin_anywhere_in_a_finite_box():
    begun = starts(np.full(3, 0.5), 0.1, bounds=[(0, 1), (-10, 10), (0, 1)])
    np.testing.assert_array_equal(begun[0], 0.5)
    assert np.ptp(begun[:, 1]) > 5
    assert ((begun >= [0, -10, 0]) & (begun <= [1, 10, 1])).all()


def test_fixed_variables_stay_fixed_in_every_run():
    begun = starts([0.5, 7.0], 0.1, bounds=[(0, 1), (7, 7)])
    assert (begun[:, 1] == 7).all()
    assert len(set(begun[:, 0])) == len(begun)


def test_runs_begin_where_the_initial_distribution_puts_them():
    begun = starts(np.full(3, 100.0), [1e-3, 1.0, 1e-3])
    assert np.max(np.abs(begun - 100)) < 5
    assert np.std(begun[1:, 1]) > 30 * np.std(begun[1:, 0])


def test_runs_begin_where_the_user_says():
    begun = starts(lambda rng: rng.integers(100, size=3).astype(float), 0.1)
    assert (begun == np.round(begun)).all()
    assert len(set(begun[:, 0])) > 3


@dataclass(frozen=True)
class AroundBest(Restarts):
    """Restart at the best point with a smaller step size."""

    def next_run(self, runs, popsize, rng):
        return Run(popsize, 0.5 ** len(runs), x0=runs.best_x) if len(runs) < 4 else None


@pytest.mark.parametrize("bounds", [None, [(-5, 5), (0.5, 9), (None, 4)]], ids=["free", "bounded"])
def test_runs_may_begin_at_the_best_point_so_far(bounds, tmp_path):
    settings = {"bounds": bounds, "restarts": AroundBest(), "vectorized": True, "rng": 1}
    optimizer = sl.Optimizer(np.full(3, 3.0), 1.0, bounds=bounds, restarts=AroundBest(), rng=1)
    while not optimizer.stop():
        best = optimizer.best_x
        if optimizer.restart():
            np.testing.assert_allclose(optimizer.mean, best, rtol=1e-12)
        X = optimizer.ask()
        optimizer.tell(X, rastrigin(X))
    assert optimizer.restarts == 3
    whole = sl.minimize(rastrigin, np.full(3, 3.0), 1.0, **settings)
    nfev = whole.nfev // 2
    sl.minimize(rastrigin, np.full(3, 3.0), 1.0, maxfevals=nfev, store=tmp_path / "run.db", **settings)
    resumed = sl.resume(tmp_path / "run.db", rastrigin, restarts=AroundBest(), maxfevals=10**5)
    assert (resumed.nfev, resumed.restarts, resumed.fun) == (whole.nfev, 3, whole.fun)


def test_names_for_type_checkers_are_those_of_the_strategies():
    assert get_args(RestartName) == tuple(STRATEGIES)


@pytest.mark.parametrize("restarts", STRATEGIES)
def test_runs_on_bits_begin_with_the_same_probabilities(restarts):
    optimizer, begun = sl.Optimizer([0.5, 0.3, 0.6], None, method="pbil", restarts=restarts, popsize=8, rng=1), {}
    while len(begun) < 4:
        begun.setdefault(optimizer.restarts, optimizer.mean.copy())
        X = optimizer.ask()
        optimizer.tell(X, -X.sum(axis=1))
        assert not optimizer.stop()
        optimizer.restart()
    np.testing.assert_array_equal(list(begun.values()), [[0.5, 0.3, 0.6]] * 4)


def test_points_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"`x0` .* length"):
        starts(lambda rng: np.ones(1 + rng.integers(4)), 0.1)


def test_step_sizes_of_small_runs_are_smaller():
    optimizer, widths = sl.Optimizer(np.zeros(2), 2.0, restarts="bipop", rng=1), {}
    for _ in range(400):
        widths.setdefault(optimizer.restarts, (optimizer.run_state.run, optimizer.deviations.max()))
        X = optimizer.ask()
        optimizer.tell(X, np.ones(len(X)))
        if optimizer.stop():
            break
        optimizer.restart()
    assert len(widths) > 5
    for run, width in widths.values():
        assert width == pytest.approx(2.0 * run.sigma_factor)


def test_a_strategy_of_ones_own():
    class Thrice(Restarts):
        def next_run(self, runs, popsize, rng):
            assert np.all(runs.nfev >= 50)
            return Run(5 * (len(runs) + 1), 1.0, 50.0) if len(runs) < 3 else None

    fun = Watched(rastrigin)
    result = sl.minimize(fun, np.ones(3), 0.5, restarts=Thrice(), vectorized=True, rng=1, evaluate_x0=False)
    assert list(dict.fromkeys(fun.sizes)) == [5, 10, 15]
    assert list(result.reasons) == ["run_budget"]


@pytest.mark.parametrize("wrong", ["none", -1, 1.5, {"restarts": 3}], ids=str)
def test_what_is_no_strategy_is_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="restarts"):
        sl.minimize(sphere, np.ones(2), 0.5, restarts=wrong, vectorized=True)


# What they are for


@pytest.mark.parametrize("seed", range(3))
def test_bipop_solves_rastrigins_function(seed):
    options = {"vectorized": True, "ftarget": 1e-8, "rng": seed, "maxfevals": 5e5}
    assert sl.minimize(rastrigin, np.full(5, 3.0), 2.0, restarts="bipop", **options).success


def test_one_run_mostly_ends_in_another_minimum_of_rastrigins_function():
    """The control of the test above."""
    options = {"vectorized": True, "ftarget": 1e-8, "maxfevals": 5e5}
    ends = [sl.minimize(rastrigin, np.full(5, 3.0), 2.0, rng=seed, **options).fun for seed in range(9)]
    assert np.mean(np.array(ends) > 0.9) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("restarts", ["ipop", "bipop"])
@pytest.mark.parametrize("seed", range(10))
def test_restarts_solve_rastrigins_function_in_ten_dimensions(restarts, seed):
    options = {"vectorized": True, "ftarget": 1e-8, "rng": seed, "maxfevals": 2e6}
    assert sl.minimize(rastrigin, np.full(10, 3.0), 2.0, restarts=restarts, **options).success


# The result is that of the run which found the best point


def two_valleys(X):
    """The minimum at 0, and a worse one at 30."""
    return np.minimum(sphere(X), 5.0 + sphere(X - 30))


def test_mean_and_covariance_are_those_of_the_run_that_found_the_best_point():
    starts = iter([1.0, 29.0, 31.0])
    result = sl.minimize(two_valleys, lambda rng: np.full(2, next(starts)), 0.5, restarts=2, vectorized=True, rng=1)
    assert [round(run.fun) for run in result.history.runs] == [0, 5, 5]
    np.testing.assert_allclose(result.mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(
        result.history.snapshots[-1].theta.mean, 30.0, atol=1.0
    )  # the control: the last run is elsewhere
    assert np.max(np.diag(result.cov)) < 1e-12
    assert result.success
    assert "`x` is from run 0" in result.message


@pytest.mark.parametrize(("limit", "count"), [("maxfevals", "nfev"), ("maxiter", "nit")])
def test_a_run_that_never_began_is_none(limit, count):
    """The budget ends with the first run, and of the second there is its strategy's word only."""
    free = sl.minimize(lambda X: sphere(X - 7), np.zeros(2), 1.0, rng=1, vectorized=True)
    budget = {limit: free[count]}
    result = sl.minimize(lambda X: sphere(X - 7), np.zeros(2), 1.0, rng=1, restarts="ipop", vectorized=True, **budget)
    assert (result.restarts, len(result.history.runs)) == (0, 1)
    np.testing.assert_allclose(result.mean, 7.0, atol=1e-6)
    assert result.success


def test_a_budget_that_ends_a_later_run_does_not_undo_what_was_found():
    result = sl.minimize(rastrigin, np.full(3, 3.0), 2.0, restarts="bipop", vectorized=True, rng=0, maxfevals=20_000)
    assert list(result.reasons) == ["maxfevals"]
    assert result.fun < 1e-9
    assert result.success


def test_a_budget_that_ends_the_run_itself_does():
    result = sl.minimize(rastrigin, np.full(3, 3.0), 2.0, restarts="bipop", vectorized=True, rng=0, maxfevals=200)
    assert list(result.reasons) == ["maxfevals"]
    assert not result.success


def test_a_best_value_from_a_run_that_diverged_is_no_success():
    def fun(x):
        return float(-x[0]) if x[0] > 0 else 1e30 + float(np.sum(np.square(x)))

    result = sl.minimize(fun, [0.2, 0.0], 0.3, restarts=1, rng=0)
    assert [next(iter(run.reasons)) for run in result.history.runs] == ["diverged", "abandoned"]
    assert not result.success


@pytest.mark.parametrize(
    ("restarts", "factor"), [(-1, 2.0), (2.5, 2.0), (3, 0.1), (3, -2.0), (3, float("inf")), (3, float("nan"))]
)
@pytest.mark.parametrize("strategy", [sl.IPOP, sl.BIPOP])
def test_a_strategy_that_cannot_be_is_refused(strategy, restarts, factor):
    with pytest.raises(ValueError, match=r"`restarts`|`factor`"):
        strategy(restarts, factor)


def test_a_class_is_no_strategy():
    with pytest.raises(TypeError, match=r"write IPOP\(\)"):
        sl.minimize(sphere, np.ones(2), 1.0, restarts=sl.IPOP, vectorized=True)


@pytest.mark.parametrize(("value", "run"), [(np.nan, 2), (np.inf, 0)])
def test_a_function_without_a_finite_value_has_no_success_and_one_message(value, run):
    result = sl.minimize(lambda x: value, [1.0, 2.0], 1.0, restarts=2, rng=1, maxfevals=3000)
    assert not result.success
    assert result.history.best_run == run
    assert ("`x` is from run" in result.message) == (run == 0)
