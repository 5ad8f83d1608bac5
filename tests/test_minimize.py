"""`minimize`: budgets to the last evaluation, reasons that are true, results that belong to the user."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

import sublevel as sl
from helpers.runs import METHODS, cube, started, told
from sublevel.run import termination

NAN, INF = float("nan"), float("inf")
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


class Counted:
    """A function that remembers what it was asked and what it said."""

    def __init__(self, fun):
        self.fun, self.points, self.values = fun, [], []

    def __call__(self, x):
        self.points.append(x)
        self.values.append(self.fun(x))
        return self.values[-1]


def sigma_for(method):
    return None if method.family is sl.Bernoulli else 0.7


# ---------------------------------------------------------------------------------------------------- budgets


@pytest.mark.parametrize("maxfevals", range(7, 40, 3))
def test_all_of_maxfevals_is_used_and_no_more(maxfevals):
    fun = Counted(cube)
    result = sl.minimize(fun, np.ones(3), 0.5, popsize=7, maxfevals=maxfevals, rng=1)
    assert len(fun.values) == result.nfev == maxfevals
    assert result.nit == (maxfevals - 1) // 7  # the start is one of the evaluations
    assert result.fun == min(fun.values) == cube(result.x)
    assert (list(result.reasons), result.success) == (["maxfevals"], False)
    assert str(maxfevals) in result.message


WAYS = {
    "serial": {},
    "restarts": {"restarts": "ipop", "x0": np.full(3, 0.1)},
    "vectorized": {"vectorized": True},
    "map": {"workers": map},
    "tpa": {"method": sl.cma(step_size="tpa")},
    "integers": {"integrality": [1, 0, 1]},
    "constraints": {"constraints": {"type": "ineq", "fun": lambda x: np.moveaxis(np.asarray(x), -1, 0)[0] - 0.2}},
    "time": {"maxtime": 1000.0},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_first_points_of_an_incomplete_generation_are_those_of_a_longer_run(way):
    given = {"x0": np.ones(3), "sigma0": 0.5, "popsize": None, "rng": 1} | way
    seen = {maxfevals: [] for maxfevals in (155, 158, 400)}
    for maxfevals, points in seen.items():

        def fun(x, points=points):
            points.extend(np.atleast_2d(x))
            return np.sum(np.square(x - 0.3), axis=-1)

        result = sl.minimize(fun, **given, maxfevals=maxfevals)
        assert len(points) == result.nfev == maxfevals
        assert list(result.reasons) == ["maxfevals"]
    np.testing.assert_array_equal(seen[155], seen[400][:155])
    np.testing.assert_array_equal(seen[158], seen[400][:158])


@pytest.mark.parametrize("count", [1, 4, 6])
def test_an_incomplete_generation_is_evaluated_without_a_step(count):
    seen = []
    whole = sl.minimize(cube, np.ones(3), 0.5, popsize=7, maxfevals=22, rng=1, callback=seen.append)
    result = sl.minimize(cube, np.ones(3), 0.5, popsize=7, maxfevals=22 + count, rng=1, callback=seen.append)
    assert result.nit == whole.nit == len(result.history) == 3
    assert result.nfev == whole.nfev + count
    assert len(seen) == 6
    np.testing.assert_array_equal(result.mean, whole.mean)
    np.testing.assert_array_equal(result.cov, whole.cov)


def test_a_target_that_is_reached_in_an_incomplete_generation_is_the_reason():
    values = iter([*range(100, 70, -1)])
    result = sl.minimize(lambda x: next(values), np.ones(3), 0.5, popsize=7, maxfevals=26, ftarget=76.0, rng=1)
    assert (list(result.reasons), result.success, result.fun, result.nfev) == (["ftarget"], True, 75.0, 26)


def test_no_generation_begins_after_maxiter():
    fun = Counted(cube)
    result = sl.minimize(fun, np.ones(3), 0.5, popsize=7, maxiter=3, maxfevals=25, rng=1)
    assert (list(result.reasons), result.nfev, len(fun.values)) == (["maxiter"], 22, 22)


def test_an_error_in_an_incomplete_generation_leaves_the_values_before_it():
    def fun(x):
        calls.append(x)
        if len(calls) == 25:
            raise ZeroDivisionError
        return -float(len(calls))

    calls = []
    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(fun, np.ones(3), 0.5, popsize=7, maxfevals=26, rng=1)
    assert (caught.value.sublevel_result.nfev, caught.value.sublevel_result.fun) == (24, -24.0)


@pytest.mark.parametrize("given", [{"vectorized": True, "popsize": 7}, {"noise": True, "popsize": 7}], ids=str)
def test_generations_are_whole_if_a_part_of_one_cannot_be_used(given):
    sizes = []

    def fun(x):
        sizes.append(len(x) if np.ndim(x) == 2 else 1)
        return np.sum(np.square(x), axis=-1)

    result = sl.minimize(fun, np.ones(3), 0.5, maxfevals=68, rng=1, **given)
    assert result.nfev == sum(sizes) == (63 if "vectorized" in given else 65)
    assert list(result.reasons) == ["maxfevals"]
    if "vectorized" in given:
        assert set(sizes) == {7}


@pytest.mark.parametrize("maxfevals", [1, 6])
def test_a_budget_below_one_generation_is_refused_before_the_first_evaluation(maxfevals):
    fun = Counted(cube)
    with pytest.raises(ValueError, match=rf"`maxfevals`.*`popsize` = 7.*got {maxfevals}\..*smaller `popsize`"):
        sl.minimize(fun, np.ones(3), 0.5, popsize=7, maxfevals=maxfevals)
    assert fun.values == []


@pytest.mark.parametrize("maxiter", [1, 2, 13])
def test_maxiter_generations_are_made(maxiter):
    fun = Counted(cube)
    result = sl.minimize(fun, np.ones(3), 0.5, popsize=5, maxiter=maxiter)
    assert (len(fun.values), result.nfev, result.nit) == (1 + 5 * maxiter, 1 + 5 * maxiter, maxiter)
    assert (list(result.reasons), result.success) == (["maxiter"], False)


@pytest.mark.parametrize(
    "limits",
    [{"maxfevals": 40}, {"maxfevals": 40.0}, {"maxfevals": 4e1, "maxiter": INF}, {"maxfevals": np.float64(40)}],
)
def test_budgets_may_be_written_as_floats(limits):
    assert sl.minimize(cube, np.ones(3), 0.5, popsize=5, evaluate_x0=False, **limits).nfev == 40


def test_without_limits_a_run_ends_by_itself():
    result = sl.minimize(cube, np.ones(3), 0.5, maxfevals=INF, rng=1)
    assert result.success
    assert result.fun < 1e-8


def test_the_default_budget_has_room_for_a_large_sample():
    result = sl.minimize(cube, [1.0], 0.5, popsize=200_000, maxiter=1, vectorized=True)
    assert result.nfev == 200_000


# ---------------------------------------------------------------------------------------------------- targets and
# success


@pytest.mark.parametrize("target", [0.5, 1e-3, np.float32(1e-3), np.array([0.1]), 1, INF])
def test_the_first_generation_that_reaches_the_target_is_the_last(target):
    fun = Counted(cube)
    result = sl.minimize(fun, np.full(3, 5.0), 0.5, popsize=6, ftarget=target, rng=1)
    goal = float(np.asarray(target).item())
    assert result.success
    assert result.reasons == {"ftarget": result.fun}
    assert result.status == termination.KINDS["ftarget"].status
    assert min(fun.values) == result.fun <= goal
    assert min(fun.values[:-6], default=INF) > goal or goal == INF
    assert "target" in result.message


def test_a_target_that_is_not_reached_is_no_success():
    result = sl.minimize(cube, np.ones(3), 0.5, ftarget=-1.0, maxiter=20)
    assert (result.success, list(result.reasons)) == (False, ["maxiter"])


def test_success_means_finite_and_converged():
    assert sl.minimize(cube, np.ones(2), 0.5, rng=1).success
    assert not sl.minimize(lambda x: INF, np.ones(2), 0.5, ftarget=INF).success


@pytest.mark.parametrize(
    ("value", "reason"),
    [(0.0, "flat"), (NAN, "all_failed"), (INF, "all_failed"), (-INF, "unbounded")],
)
def test_a_constant_function_ends_by_name_and_without_success(value, reason):
    result = sl.minimize(lambda x: value, np.ones(3), 0.5, rng=1)
    assert list(result.reasons) == [reason]
    assert not result.success
    assert result.status == termination.KINDS[reason].status
    np.testing.assert_equal(result.fun, value)
    np.testing.assert_array_equal(result.mean, np.ones(3))
    assert result.nit <= 10


def test_minus_infinity_ends_a_run_whatever_the_target():
    for target in (None, 1.0, -INF):
        result = sl.minimize(
            lambda x: -INF if x[0] > 1.2 else x[0], np.ones(3), 0.5, ftarget=target if target != 1.0 else -1e9, rng=1
        )
        assert (list(result.reasons), result.fun, result.success) == (["unbounded"], -INF, False)
        assert result.x[0] > 1.2


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("bad", [NAN, INF])
def test_some_failures_do_not_hinder_and_are_never_best(share, bad):
    def fun(x):
        return bad if crc32(x.tobytes()) < 2**32 * share else cube(x)

    result = sl.minimize(fun, np.ones(2), 0.5, popsize=20, rng=1, ftarget=1e-6)
    assert result.fun == cube(result.x)
    assert result.fun < 0.3


# ---------------------------------------------------------------------------------------------------- callback


def test_the_callback_sees_every_generation_the_last_one_too():
    seen = []
    result = sl.minimize(cube, np.ones(3), 0.5, popsize=6, maxiter=5, callback=seen.append)
    assert [r.nit for r in seen] == [1, 2, 3, 4, 5]
    assert [r.nfev for r in seen] == [7, 13, 19, 25, 31]  # with the start
    assert all(isinstance(r, OptimizeResult) for r in seen)
    assert [r.fun for r in seen] == list(result.history["best"])
    assert [r.message for r in seen] == ["the run is in progress"] * 4 + [result.message]
    assert seen[-1].status == result.status


@pytest.mark.parametrize("answer", [True, np.True_, 1])
def test_a_callback_that_returns_true_stops(answer):
    result = sl.minimize(cube, np.ones(3), 0.5, callback=lambda r: answer if r.nit == 3 else None)
    assert (result.nit, result.reasons, result.success) == (3, {"callback": 3.0}, False)
    assert "callback" in result.message


def test_a_callback_that_raises_stop_iteration_stops():
    def callback(intermediate_result):
        if intermediate_result.nit == 4:
            raise StopIteration

    result = sl.minimize(cube, np.ones(3), 0.5, callback=callback)
    assert (result.nit, result.reasons) == (4, {"callback": 4.0})


@pytest.mark.parametrize("answer", [None, False, np.False_, 0])
def test_other_answers_go_on(answer):
    assert sl.minimize(cube, np.ones(3), 0.5, maxiter=6, callback=lambda r: answer).nit == 6


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_what_else_a_callback_raises_arrives_with_the_result(kind):
    def callback(intermediate_result):
        if intermediate_result.nit == 4:
            raise kind("enough")

    with pytest.raises(kind, match="enough") as caught:
        sl.minimize(cube, np.ones(3), 0.5, popsize=6, callback=callback)
    result = caught.value.sublevel_result
    assert (result.nit, result.nfev, list(result.reasons)) == (4, 25, ["interrupted"])
    assert not hasattr(caught.value, "sublevel_x")


def test_a_reached_target_is_the_reason_even_if_the_callback_stops_too():
    result = sl.minimize(cube, np.ones(3), 0.5, ftarget=INF, callback=lambda r: True)
    assert list(result.reasons) == ["ftarget"]


def test_a_callback_cannot_change_the_run():
    def spoil(result):
        for name in ("x", "mean", "cov"):
            result[name][...] = NAN

    spoiled = sl.minimize(cube, np.ones(3), 0.5, rng=1, maxiter=30, callback=spoil)
    untouched = sl.minimize(cube, np.ones(3), 0.5, rng=1, maxiter=30)
    for name in ("x", "mean", "cov"):
        np.testing.assert_array_equal(spoiled[name], untouched[name])


# ---------------------------------------------------------------------------------------------------- results


@each_method
def test_one_by_one_and_all_at_once_are_the_same_run(method):
    runs = [
        sl.minimize(cube, np.full(4, 0.3), sigma_for(method), method=method, rng=1, maxiter=40, vectorized=vectorized)
        for vectorized in (False, True)
    ]
    for name in ("x", "mean", "cov"):
        assert runs[0][name].tobytes() == runs[1][name].tobytes()
    np.testing.assert_equal(runs[0].history.arrays(), runs[1].history.arrays())
    assert runs[0].reasons == runs[1].reasons


@each_method
def test_minimize_is_ask_and_tell(method):
    given = {"method": method, "rng": 1, "maxiter": 25, "vectorized": True, "evaluate_x0": False}
    result = sl.minimize(cube, np.full(4, 0.3), sigma_for(method), **given)
    opt = started(method, 4)
    told(opt, cube, result.nit)
    assert result.mean.tobytes() == opt.mean.tobytes()
    assert result.cov.tobytes() == opt.cov.tobytes()
    assert (result.fun, result.nfev) == (opt.best_fun, opt.nfev)


@each_method
def test_the_result_holds_what_it_promises(method):
    fun = Counted(cube)
    result = sl.minimize(fun, np.full(4, 0.3), sigma_for(method), method=method, popsize=8, rng=1, maxiter=9)
    assert isinstance(result, OptimizeResult)
    standard = {"x", "fun", "nfev", "nit", "success", "status", "message"}
    assert set(result) == standard | {
        *(
            "reasons",
            "restarts",
            "mean",
            "std",
            "cov",
            "distribution",
            "history",
            "failures",
            "diagnosis",
            "space",
            "params",
            "curvature",
            "hess_inv",
        )
    }
    assert (result.nfev, result.nit) == (len(fun.values), len(fun.values) // 8)
    assert result.fun == min(fun.values)
    np.testing.assert_array_equal(result.x, fun.points[int(np.argmin(fun.values))])
    assert [type(result[name]) for name in ("fun", "nfev", "nit", "success", "status", "message")] == [
        float,
        int,
        int,
        bool,
        int,
        str,
    ]
    assert result.mean.shape == (4,)
    assert result.cov.shape == (4, 4)
    np.testing.assert_array_equal(result.cov, result.cov.T)
    for name in ("x", "mean", "cov"):
        result[name][...] = 0.0  # the user's own
    assert len(repr(result)) < 2000


def test_history_has_a_row_per_generation():
    fun = Counted(cube)
    result = sl.minimize(fun, np.ones(3), 0.5, popsize=6, rng=1, maxiter=30)
    generations = np.reshape(fun.values[1:], (30, 6))  # after the start
    assert len(result.history) == 30
    np.testing.assert_array_equal(result.history["nfev"], 1 + 6 * np.arange(1, 31))
    np.testing.assert_array_equal(result.history["generation_best"], generations.min(axis=1))
    np.testing.assert_array_equal(
        result.history["best"], np.minimum(fun.values[0], np.minimum.accumulate(generations.min(axis=1)))
    )
    assert result.history["deviation"][-1] == pytest.approx(np.sqrt(np.diag(result.cov).max()))
    assert set(result.history.arrays()) == {"nfev", "best", "generation_best", "deviation"}


def test_history_ignores_nan_among_the_values():
    result = sl.minimize(lambda x: NAN if x[0] < 1 else cube(x), np.ones(3), 0.5, popsize=20, rng=1, maxiter=10)
    assert np.isfinite(result.history["generation_best"]).all()


@pytest.mark.parametrize("reason", termination.KINDS)
def test_every_reason_has_a_sentence_and_a_code(reason):
    sentence = termination.message({reason: 3.0})
    assert "{" not in sentence
    assert len(sentence) > 20
    assert termination.NAMES[termination.KINDS[reason].status] == reason


def test_every_standstill_has_a_name_and_a_patience():
    assert set(termination.STANDSTILLS) == set(sl.Outcome) - {sl.Outcome.MOVED}
    assert (
        set(termination.PATIENCE) == {*termination.STANDSTILLS.values(), "collapsed_sample"} <= set(termination.KINDS)
    )
    assert set(termination.KINDS) >= termination.SUCCESSES


def test_bits_are_minimised_by_name():
    result = sl.minimize(
        lambda x: np.sum(x != [1, 0, 1, 1, 0]), [0.5] * 5, None, method="pbil", popsize=20, ftarget=0, rng=1
    )
    assert result.success
    np.testing.assert_array_equal(result.x, [1, 0, 1, 1, 0])


@pytest.mark.parametrize("method", ["ngd", "rank-mu", sl.ngd(c_cov=0.5), sl.rank_mu(c_cov=0.2)], ids=str)
def test_an_ellipsoid_is_solved_and_its_shape_learned(method):
    axes = np.array([1.0, 100.0])
    result = sl.minimize(
        lambda X: X**2 @ axes, [3.0, 3.0], 1.0, method=method, popsize=30, vectorized=True, ftarget=1e-12, rng=1
    )
    assert result.success
    assert np.sqrt(result.cov[0, 0] / result.cov[1, 1]) == pytest.approx(10, rel=0.7)


# As SciPy has it


@pytest.mark.parametrize("args", [3.0, (3.0,), np.array([3.0, 3.0])], ids=str)
def test_a_single_further_argument_needs_no_tuple(args):
    result = sl.minimize(lambda x, a: float(np.sum(a * x**2)), np.ones(2), 0.3, args=args, rng=1, maxiter=5)
    expected = sl.minimize(lambda x: float(np.sum(3.0 * x**2)), np.ones(2), 0.3, rng=1, maxiter=5)
    assert result.fun == expected.fun


def test_a_callback_that_wants_the_result_by_its_name_gets_it():
    def after_four(*, intermediate_result):
        return intermediate_result.nit >= 4

    assert sl.minimize(lambda x: float(np.sum(x**2)), np.ones(2), 0.3, callback=after_four, rng=1).reasons == {
        "callback": 4.0
    }
