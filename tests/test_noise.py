"""Noisy objectives: the answer is a mean, its value an honest estimate, and no lucky value is reported."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint
from scipy.optimize import minimize as scipy_minimize

import sublevel as sl
from sublevel.cli.main import main
from sublevel.run.noisy_answer import (
    Estimate,
    Ledger,
    better_of,
    count_reevaluations,
    is_lower,
    level_of,
    prefers_average,
)
from sublevel.run.state import Best, Lowest
from sublevel.store.fingerprint import fingerprint

D = 4
FUNCTIONS = {
    "sphere": lambda X: np.sum(X**2, axis=-1),
    "ellipsoid": lambda X: X**2 @ 10.0 ** np.arange(D),
}


class Noisy:
    """A function with noise of standard deviation 1, and every point that was asked for."""

    def __init__(self, seed=0, fun=FUNCTIONS["sphere"], scale=1.0, fails=False):
        self.fun, self.rng, self.points = fun, np.random.default_rng([seed, 9]), []
        self.scale, self.fails = scale, fails

    def __call__(self, x):
        self.points += list(np.atleast_2d(x).copy())
        if self.fails and len(self.points) % 5 == 0:
            raise ArithmeticError("now and then")
        values = self.fun(x) + self.scale * self.rng.standard_normal(np.shape(x)[:-1])
        return values if np.ndim(x) > 1 else float(values)

    def count(self, x):
        """How often a point was evaluated."""
        return sum(np.array_equal(x, other) for other in self.points)


def run(fun, x0=None, sigma0=1.0, **options):
    start = np.full(D, 1.5) if x0 is None else x0
    return sl.minimize(fun, start, sigma0, **{"noise": True, "rng": 1, "maxfevals": 400, **options})


# The estimate


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_true_value_lies_within_two_errors_in_about_95_percent_of_the_runs(name):
    f, inside, scores = FUNCTIONS[name], 0, []
    for seed in range(100):
        result = run(Noisy(seed, f), vectorized=True, rng=seed, maxfevals=500)
        score = (result.fun - f(result.x)) / result.fun_error
        inside += abs(score) < 2
        scores.append(score)
    assert 88 <= inside <= 99
    assert abs(np.mean(scores)) < 0.3  # three standard errors of the mean of 100


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_best_value_of_a_plain_run_is_lower_than_the_truth_by_much_more(name):
    f, bias = FUNCTIONS[name], []
    for seed in range(20):
        result = run(Noisy(seed, f), noise=False, vectorized=True, rng=seed, maxfevals=500)
        bias.append(result.fun - f(result.x))
    assert np.mean(bias) < -1.5  # 2 errors of 45 re-evaluations are 0.3


def test_the_mean_has_a_lower_true_value_than_the_best_point():
    f, truth = FUNCTIONS["sphere"], {True: [], False: []}
    for noise, found in truth.items():
        for seed in range(20):
            result = run(Noisy(seed), noise=noise, method="lra-cma", vectorized=True, rng=seed, maxfevals=1000)
            found.append(f(result.x))
    assert np.median(truth[True]) < 0.3 * np.median(truth[False])


def test_the_value_is_the_average_of_fresh_values_at_the_answer():
    fun = Noisy()
    result = run(fun)
    assert result.fun_values.size == 18  # a twentieth of the evaluations of the search
    assert fun.count(result.x) == 3 + 18  # three that chose it
    assert result.fun == pytest.approx(np.mean(result.fun_values), abs=1e-12)
    assert result.fun_error == pytest.approx(np.std(result.fun_values, ddof=1) / 18**0.5, rel=1e-12)
    assert len(fun.points) == result.nfev <= 400


@pytest.mark.parametrize(("maxfevals", "count"), [(60, 10), (20, 10), (32, 10), (400, 18), (3000, 100)])
def test_a_part_of_the_budget_is_left_for_the_estimate(maxfevals, count):
    fun = Noisy()
    result = run(fun, maxfevals=maxfevals)
    assert result.fun_values.size == count
    assert (
        maxfevals - 8 - 2 < result.nfev == len(fun.points) <= maxfevals
    )  # a generation, and a twentieth of what is left
    assert set(result.reasons) == {"maxfevals"}


def test_the_number_of_reevaluations():
    assert [count_reevaluations(n) for n in (1, 100, 555, 1000, 1e9)] == [10, 10, 27, 50, 100]
    assert [count_reevaluations(n, 16) for n in (1, 555, 1e9)] == [16, 32, 112]


def test_a_function_without_noise_is_evaluated_ten_times():
    result = run(lambda x: float(x @ x), maxfevals=3000)
    assert result.fun == result.x @ result.x
    assert result.fun_error == 0
    assert result.fun_values.size == 10


def test_failures_among_the_reevaluations_do_not_count():
    fun = Noisy(fails=True)
    result = run(fun, on_error="nan")
    failed = np.isnan(result.fun_values)
    assert 0 < failed.sum() < failed.size
    assert result.fun == pytest.approx(np.mean(result.fun_values[~failed]))
    assert result.fun_error == pytest.approx(np.std(result.fun_values[~failed], ddof=1) / np.sqrt((~failed).sum()))
    assert len(result.failures) == len(fun.points) // 5
    assert f"{failed.sum()} more failed" in repr(result)


def test_an_exception_in_a_reevaluation_carries_the_values_so_far():
    fun, calls = Noisy(), []

    def breaks(x):
        calls.append(x)
        if len(calls) == 390:
            raise ArithmeticError("broken")
        return fun(x)

    with pytest.raises(ArithmeticError) as error:
        run(breaks)
    result = error.value.sublevel_result
    assert result.nfev == 389
    assert 10 < result.fun_values.size < 18


def test_an_estimate_does_not_depend_on_the_order_of_its_values():
    values = np.random.default_rng(1).standard_normal(50) * 10.0 ** np.arange(-10, 40)
    found = {
        (one.fun, one.error)
        for one in (Estimate(np.zeros(1), part, np.empty((50, 0))) for part in (values, values[::-1]))
    }
    assert len(found) == 1
    empty = Estimate(np.zeros(1), np.full(3, np.nan), np.empty((3, 0)))
    assert np.isnan([empty.fun, empty.error]).all()
    assert empty.constraints is None
    assert Estimate(np.zeros(1), np.array([np.inf, 1.0]), np.empty((2, 0))).fun == np.inf


def test_the_level_is_the_average_of_recent_medians():
    assert level_of([*[100.0] * 80, *[1.0, 2.0] * 10]) == level_of([100.0] * 3 + [1.0, 2.0] * 2) == 1.5
    assert level_of([np.inf, 1.0, np.nan]) == 1
    assert np.isnan(level_of([]))


def test_a_ledger_recalls_the_values_of_an_answer_and_of_no_other():
    ledger, x, y = Ledger(), np.zeros(2), np.ones(2)
    ledger.add(5, x, 0, np.array([1.0]), None)
    ledger.add(5, x, 2, np.array([3.0]), None)
    ledger.add(5, y, -1, np.array([9.0]), None)
    rows, known = np.full((3, 1), np.nan), np.zeros(3, dtype=bool)
    ledger.recall(5, np.zeros((3, 2)), 0, rows, known)
    assert known.tolist() == [True, False, True]
    assert rows[known, 0].tolist() == [1, 3]
    assert ledger.estimate(5).values.tolist() == [1, 3]
    assert ledger.estimate(6) is None
    assert [ledger.count_before(nit) for nit in (5, 6)] == [0, 3]


# The choice between the mean and the average of the five best points


class Recorded:
    """A function with noise by a factor, and every point with its value."""

    def __init__(self, fun, strength, seed=1):
        self.fun, self.strength, self.rng, self.points, self.values = fun, strength, np.random.default_rng(seed), [], []

    def __call__(self, x):
        self.points.append(x.copy())
        self.values.append(float(self.fun(x) * np.exp(self.strength * self.rng.standard_normal())))
        return self.values[-1]


def steep(x, slope):
    """A quadratic; in a narrow valley, a short search has better points than its mean."""
    return float(x**2 @ slope ** np.arange(3))


@pytest.mark.parametrize("scale", ["plain", "logarithms"])
@pytest.mark.parametrize("maxfevals", [100, 400])
def test_the_answer_is_the_mean_or_the_average_of_the_five_best_points_by_three_values_of_each(scale, maxfevals):
    """Up to 100 evaluations per variable the average, unless all values of the mean are lower; then vice versa."""
    is_log, chosen = scale == "logarithms", set()
    back, there = (np.log, np.exp) if is_log else (lambda x: x, lambda x: x)
    for seed in range(12):
        fun = Recorded(lambda x, slope=1e3 if seed % 2 else 1.0: steep(back(x), slope), 0.1, seed)
        box = [(np.exp(-9), np.exp(9))] * 3 if is_log else None
        result = sl.minimize(
            fun, there(np.ones(3)), 0.5, noise=True, rng=seed, maxfevals=maxfevals, log_scaled=is_log, bounds=box
        )
        search = result.nfev - 6 - result.fun_values.size
        points, values = back(np.array(fun.points)), np.array(fun.values)
        best = points[:search][np.argsort(values[:search])[:5]].mean(axis=0)
        assert np.allclose(points[search + 3 : search + 6], best, rtol=1e-12, atol=1e-12)
        assert np.array_equal(fun.points[search : search + 3], [result.mean] * 3)
        at_mean, at_best = values[search : search + 3], values[search + 3 : search + 6]
        is_early = search <= 100 * 3
        is_best = max(at_mean) >= min(at_best) if is_early else max(at_best) < min(at_mean)
        assert np.array_equal(result.x, fun.points[search + 5 if is_best else search])
        assert np.array_equal(result.fun_values, values[search + 6 :])  # others than those of the choice
        chosen.add(is_best)
    assert chosen == {False, True}


@pytest.mark.parametrize("evaluations", [200, 201])
def test_an_unknown_value_leaves_the_mean(evaluations):
    lowest = Lowest(np.zeros((5, 2)), np.zeros(5), evaluations)
    low, high, unknown = np.zeros(3), np.ones(3), np.array([0.0, 0.0, np.nan])
    assert not any(prefers_average(lowest, *values) for values in [(unknown, high), (low, unknown), (high, low)])
    assert prefers_average(lowest, low, high)
    assert prefers_average(lowest, low, low) == (evaluations <= 200)


def test_nan_is_never_chosen():
    low, high, unknown = np.zeros(3), np.ones(3), np.array([0.0, 0.0, np.nan])
    assert is_lower(low, high)
    assert not any([is_lower(high, low), is_lower(low, low), is_lower(unknown, high), is_lower(low, unknown)])


def test_the_lowest_points_are_kept_without_nan():
    lowest = Lowest.none(3, np.zeros(1))
    lowest = lowest.after(np.array([[1.0], [2.0]]), np.array([np.nan, 5.0]))
    assert not lowest.is_full
    lowest = lowest.after(np.array([[3.0], [4.0], [6.0]]), np.array([7.0, 5.0, np.nan]))
    assert lowest.is_full
    assert lowest.points.ravel().tolist() == [2, 4, 3]
    assert lowest.values.tolist() == [5, 5, 7]
    lowest = lowest.after(np.array([[8.0]]), np.array([6.0]))
    assert lowest.points.ravel().tolist() == [2, 4, 8]


@pytest.mark.parametrize(
    "given",
    [
        {"maxfevals": 20},  # too few evaluations
        {"popsize": 16, "vectorized": True},  # a fixed batch
        {"maxtime": 1000.0},  # a part of the time is left for the estimate alone
        {"bounds": [(-5, 5)] * D, "integrality": [True] + [False] * (D - 1)},
    ],
    ids=lambda given: next(iter(given)),
)
def test_where_nothing_is_chosen_no_value_is_spent_on_it(given):
    fun = Noisy()
    result = run(fun, **given)
    assert fun.count(result.x) == result.fun_values.size
    assert np.array_equal(result.x[1:], result.mean[1:])


# While it runs


def test_no_lucky_value_is_reported_during_the_run(capsys):
    f, seen = FUNCTIONS["sphere"], []
    result = run(Noisy(), callback=seen.append, progress=True)
    for one in seen[20:]:
        assert one.fun > 0.5 * f(one.x) - 0.7
        assert np.isnan(one.fun_error)
        assert "not re-evaluated" in repr(one)
        assert np.array_equal(one.x, one.mean)
    line = capsys.readouterr().err
    assert f"average {result.fun:.6g} ± {result.fun_error:.2g}" in line
    assert result.history["best"].min() > result.history["generation_best"].min() + 1


def test_a_target_is_not_reached_by_a_lucky_value():
    fun = Noisy()
    result = run(fun, maxfevals=5000, ftarget=-0.5)
    assert set(result.reasons) == {"maxfevals"}
    reached = run(Noisy(), maxfevals=5000, ftarget=1.0)
    assert set(reached.reasons) == {"ftarget"}
    assert reached.success
    assert reached.fun < 1.5


def test_an_interrupted_run_has_a_mean_without_an_error():
    fun, calls = Noisy(), []

    def interrupted(x):
        calls.append(x)
        if len(calls) == 100:
            raise KeyboardInterrupt
        return fun(x)

    result = run(interrupted)
    assert set(result.reasons) == {"interrupted"}
    assert np.array_equal(result.x, result.mean)
    assert np.isnan(result.fun_error)
    assert result.fun_values.size == 0


def slow(x):
    time.sleep(0.01)
    return float(x @ x) + np.random.default_rng().standard_normal()


@pytest.mark.parametrize("threads", [1, 2])
def test_time_is_left_for_the_reevaluations(threads):
    began = time.monotonic()
    with ThreadPoolExecutor(threads) as executor:
        workers = 1 if threads == 1 else executor
        result = sl.minimize(slow, np.ones(2), 1.0, noise=True, maxtime=1.0, rng=1, workers=workers)
    assert time.monotonic() - began < 2
    assert set(result.reasons) == {"maxtime"}
    assert result.fun_values.size >= 2
    assert np.isfinite(result.fun_error)


# Ask and tell


def test_the_best_point_of_an_optimizer_is_its_mean():
    fun, opt = Noisy(), sl.Optimizer(np.ones(D), 1.0, noise=True, rng=1)
    assert opt.method.name == "late-lra-cma"
    lowest = np.inf
    for _ in range(60):
        X = opt.ask()
        values = fun(X)
        lowest = min(lowest, values.min())
        opt.tell(X, values)
        assert np.array_equal(opt.best_x, opt.mean)
    assert opt.best_fun > lowest + 1
    assert "average of medians" in repr(opt)


@pytest.mark.parametrize(("noise", "method"), [(True, "late-lra-cma"), (False, "cma")])
def test_the_default_method(noise, method):
    assert sl.Optimizer(np.ones(2), 1.0, noise=noise).method.name == method
    assert sl.Optimizer(np.ones(2), 1.0, noise=noise, method="sep-cma").method.family is sl.DiagonalGaussian


@pytest.mark.parametrize(
    ("x0", "maxfevals", "expected"),
    [
        (np.full(3, 1.5), 1799, "late-lra-cma"),
        (np.full(3, 1.5), 1800, "lra-cma"),
        (np.full(3, 1.5), None, "lra-cma"),
        (sl.Space(a=sl.Real(0, 3), b=sl.Real(0, 3)), 1199, "late-lra-cma"),
        (sl.Space(a=sl.Real(0, 3), b=sl.Real(0, 3)), 1200, "lra-cma"),
        (lambda rng: rng.normal(size=3), 1800, "late-lra-cma"),
    ],
    ids=["small", "large", "default", "small space", "large space", "unknown"],
)
def test_a_large_budget_adapts_the_rates_at_once(x0, maxfevals, expected, tmp_path):
    """The store has the method, so that a run goes on with it whatever its new budget is."""

    def fun(x):
        raise KeyboardInterrupt

    sigma0 = None if isinstance(x0, sl.Space) else 1.0
    sl.minimize(fun, x0, sigma0, noise=True, maxfevals=maxfevals, rng=1, store=tmp_path / "run.db")
    connection = sqlite3.connect(tmp_path / "run.db")
    stored = "\n".join(connection.iterdump())
    connection.close()
    assert re.findall(r'"method": ?"([a-z-]*)"', stored) == [expected]


def test_a_small_budget_is_enough_on_an_ill_conditioned_ellipsoid():
    f, found = FUNCTIONS["ellipsoid"], {None: [], "lra-cma": []}
    for method, values in found.items():
        for seed in range(10):
            result = run(Noisy(seed, f, scale=0.01), method=method, vectorized=True, rng=seed)
            values.append(f(result.x))
    assert np.median(found[None]) < 0.5 * np.median(found["lra-cma"])


def test_a_stored_run_knows_that_its_rates_adapt(tmp_path):
    run(Noisy(), store=tmp_path / "run.db", maxfevals=100)
    assert sl.load(tmp_path / "run.db").result.history.adapts_rates


# Restarts


def test_of_several_runs_the_one_with_the_lowest_level_is_chosen():
    def two_minima(x):
        return np.minimum(np.sum((x - 2) ** 2, axis=-1), 3 + np.sum((x + 2) ** 2, axis=-1))

    for seed in range(5):
        result = run(
            Noisy(seed, two_minima, 0.3),
            np.full(D, -2.0),
            bounds=[(-5, 5)] * D,
            restarts=6,
            tolx=0.3,
            maxfevals=6000,
            method="cma",
            vectorized=True,
            rng=seed,
        )
        assert result.restarts
        assert abs(result.fun - two_minima(result.x)) < 5 * result.fun_error
        trace = result.history.trace()
        ends = [two_minima(trace.mean[trace.run == run][-1]) for run in range(result.restarts + 1)]
        assert two_minima(result.x) < min(ends) + 0.5


def test_the_better_of_two_runs():
    low, high, none = (Best(np.zeros(1), fun, 0) for fun in (1.0, 2.0, np.nan))
    outside = Best(np.zeros(1), 0.0, 0, violation=1.0)
    assert better_of(high, low) is better_of(low, high) is better_of(none, low) is better_of(outside, low) is low
    assert better_of(low, None) is low


# Variables and constraints


@dataclass
class Design:
    rate: Annotated[float, sl.Real(1e-4, 10, log=True)]
    depth: Annotated[int, sl.Integer(1, 12)]
    kernel: Annotated[str, sl.Choice("a", "b", "c")]


def test_named_parameters():
    rng, calls = np.random.default_rng(1), []

    def loss(p):
        calls.append(p)
        return np.log10(p.rate) ** 2 + 0.1 * (p.depth - 5) ** 2 + (p.kernel != "b") + 0.1 * rng.standard_normal()

    result = sl.minimize(loss, Design, noise=True, maxfevals=800, rng=1)
    assert result.params["depth"] in (4, 5, 6)
    assert result.params["kernel"] == "b"
    assert calls[-1] == Design(**result.params)
    assert abs(result.fun) < 0.3


def test_bits_are_rounded():
    rng = np.random.default_rng(1)
    result = sl.minimize(
        lambda x: -float(x.sum()) + rng.standard_normal(),
        np.full(8, 0.5),
        method="pbil",
        noise=True,
        maxfevals=1500,
        rng=1,
    )
    assert np.array_equal(result.x, np.ones(8))
    assert abs(result.fun + 8) < 5 * result.fun_error


@pytest.mark.parametrize("bounds", [[(-2, 3)] * D, [(1, 3), (None, 5), (1, 1), (0.5, None)]])
def test_bounds(bounds):
    result = run(Noisy(), bounds=bounds, x0=[1.5, 1.5, 1.0, 1.5], log_scaled=[False, False, False, bounds[3][0] > 0])
    low = np.array([-np.inf if lower is None else lower for lower, _ in bounds])
    assert (result.x >= low).all()
    assert abs(result.fun - result.x @ result.x) < 5 * result.fun_error


CONSTRAINTS = {
    "linear": LinearConstraint(np.eye(D)[:1], 1, np.inf),
    "kept": NonlinearConstraint(lambda x: x[0], 1, np.inf, keep_feasible=True),
    "function": NonlinearConstraint(lambda x: x[0], 1, np.inf),
    "several": [NonlinearConstraint(lambda x: x[0] - 1, 0, np.inf), LinearConstraint(np.eye(D)[1:2], -1, 1)],
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_answer_satisfies_constraints(name, seed):
    fun = Noisy(seed, scale=0.3)
    start = np.array([2.0, 0.5, 2, 2])
    result = run(fun, x0=start, constraints=CONSTRAINTS[name], maxfevals=1500, rng=seed)
    assert result.maxcv == 0
    assert result.x[0] >= 1
    assert len(fun.points) == result.nfev <= 1500
    assert result.x @ result.x < 2
    if name in ("linear", "kept"):
        assert np.array(fun.points)[:, 0].min() >= 1


def test_constraint_values_of_the_answer_are_averages():
    rng = np.random.default_rng(1)

    def simulate(x):
        return float(x @ x) + rng.standard_normal(), [1 - x[0] + 0.01 * rng.standard_normal()]

    result = run(simulate, x0=np.full(D, 2.0), constraints=1, maxfevals=1500)
    assert abs(result.constr[0][0] - (1 - result.x[0])) < 0.01
    assert result.maxcv == max(result.constr[0][0], 0)


def test_what_cannot_be_satisfied_is_said():
    never = NonlinearConstraint(lambda x: x @ x, -np.inf, -1)
    result = run(Noisy(), constraints=never)
    assert not result.success
    assert result.maxcv >= 1
    assert "no feasible point was found" in result.message


# Evaluation


def test_reevaluations_run_in_parallel():
    with ThreadPoolExecutor(4) as threads:
        result = run(Noisy(), workers=threads)
    assert result.fun_values.size == 18
    serial = run(Noisy(), workers=map)
    assert np.array_equal(serial.x, run(Noisy()).x)


def test_a_batch_of_points_keeps_its_size():
    sizes, fun = set(), Noisy()

    def batch(X):
        sizes.add(len(X))
        return fun(X)

    result = run(batch, popsize=16, vectorized=True)
    assert sizes == {16}
    assert result.fun_values.size == 32
    assert result.nfev <= 400


# Files


def test_a_stored_run_is_loaded_with_its_estimate(tmp_path):
    fun = Noisy()
    result = run(fun, store=tmp_path / "run.db", on_error="nan")
    loaded = sl.load(tmp_path / "run.db")
    assert loaded.result.nfev == result.nfev
    assert loaded.result.fun == result.fun
    assert loaded.result.fun_error == result.fun_error
    assert np.array_equal(loaded.result.x, result.x)
    assert np.array_equal(loaded.result.fun_values, result.fun_values)
    assert "±" in repr(loaded)
    again = sl.resume(tmp_path / "run.db", fun)
    assert again.fun == result.fun
    assert len(fun.points) == result.nfev == again.nfev


def test_failed_reevaluations_are_stored(tmp_path):
    result = run(Noisy(fails=True), store=tmp_path / "run.db", on_error="nan")
    loaded = sl.load(tmp_path / "run.db").result
    assert loaded.failures.counts == result.failures.counts
    assert np.array_equal(loaded.fun_values, result.fun_values, equal_nan=True)


def test_a_resumed_run_goes_on_with_a_larger_budget(tmp_path):
    fun = Noisy()
    first = run(fun, store=tmp_path / "run.db")
    second = sl.resume(tmp_path / "run.db", fun, maxfevals=1000, check=False)
    assert second.nfev == len(fun.points) <= 1000
    assert second.nfev > 985
    assert second.nit > first.nit
    assert fun.count(second.x) == 3 + second.fun_values.size
    loaded = sl.load(tmp_path / "run.db").result
    assert (loaded.fun, loaded.nfev) == (second.fun, second.nfev)


def test_a_run_is_never_loaded_with_a_lucky_value(tmp_path):
    fun = Noisy()

    def interrupted(x):
        if len(fun.points) == 300:
            raise KeyboardInterrupt
        return fun(x)

    run(interrupted, store=tmp_path / "run.db", maxfevals=600)
    loaded = sl.load(tmp_path / "run.db")
    assert not loaded.result.fun < loaded.values.min() + 1
    assert loaded.result.nfev == 300


DRIVER = """
import os, sys, zlib
from pathlib import Path
import numpy as np
import sublevel as sl

def drive(file, log, last):
    seen = [bytes.fromhex(line) for line in log.read_text().split()] if log.exists() else []

    def fun(x):
        "The sphere, with noise that depends on the point and on how often it was evaluated."
        key = x.tobytes()
        noise = np.random.default_rng([zlib.crc32(key), seen.count(key)]).standard_normal()
        if len(seen) == last:
            os.kill(os.getpid(), 9)
        seen.append(key)
        with log.open("a") as stream:
            stream.write(key.hex() + "\\n")
        return float(x @ x) + noise

    if file.exists():
        return sl.resume(file, fun, check=False)
    return sl.minimize(fun, np.ones(3), 1.0, noise=True, rng=1, maxfevals=300, restarts=2, store=file)

if __name__ == "__main__":
    drive(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.mark.parametrize("left", [8, 17])  # values of the estimate, or of the choice
def test_a_run_killed_among_its_reevaluations_ends_as_if_it_had_not_been(left, tmp_path):
    here = {"__name__": "driver"}
    exec(DRIVER, here)
    whole = here["drive"](tmp_path / "whole.db", tmp_path / "whole.log", -1)
    file, log = tmp_path / "killed.db", tmp_path / "killed.log"
    command = [sys.executable, "-c", DRIVER, str(file), str(log), str(whole.nfev - left)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    assert subprocess.run(command, timeout=60, check=False, env=environment).returncode == -signal.SIGKILL
    assert sl.load(file).result.nfev == whole.nfev - left
    result = here["drive"](file, log, -1)
    assert (result.fun, result.fun_error, result.nfev) == (whole.fun, whole.fun_error, whole.nfev)
    assert np.array_equal(result.fun_values, whole.fun_values)
    assert len(log.read_text().split()) == whole.nfev
    assert fingerprint(file) == fingerprint(tmp_path / "whole.db")


def test_a_noisy_objective_that_repeats_itself_is_not_another_one(tmp_path):
    fun = Noisy()
    half = run(fun, store=tmp_path / "run.db", maxfevals=200)
    value = fun.fun(fun.points[half.nfev - half.fun_values.size - 1]) + 1e-3  # at the last point of the search
    result = sl.resume(tmp_path / "run.db", lambda x: value, maxfevals=400)
    assert result.nfev > half.nfev


# Views


def test_views_show_the_estimate(tmp_path, capsys):
    result = run(Noisy(), store=tmp_path / "run.db")
    text = f"{result.fun:.6g} ± {result.fun_error:.2g}"
    assert text in repr(result)
    assert text in result._repr_html_()
    facts = json.loads(result.to_json())
    assert facts["fun_error"] == result.fun_error
    assert facts["fun_values"] == result.fun_values.tolist()
    assert "noisy" not in [finding.name for finding in result.diagnosis]
    result.plot(tmp_path / "run.png")
    for command in (["show"], ["watch"], ["report"]):
        assert main([*command, str(tmp_path / "run.db")]) == 0
    printed = capsys.readouterr().out
    assert text in printed
    assert f"best {result.fun:.8g}" in printed
    assert text in next(tmp_path.glob("*.html")).read_text(encoding="utf-8")


def test_the_command_line(tmp_path, capsys):
    (tmp_path / "noisy.py").write_text(
        "import random\ndef cost(x):\n    return sum(x * x) + random.gauss(0, 1)\n", encoding="utf-8"
    )
    command = [
        "minimize",
        f"{tmp_path / 'noisy.py'}:cost",
        "--x0",
        "1,1",
        "--sigma0",
        "0.5",
        "--maxfevals",
        "200",
        "--noise",
    ]
    assert main(command) == 0
    assert re.search(r"^fun .* ± .* \(average of 1\d re-evaluations", capsys.readouterr().out, re.MULTILINE)
    assert main([*command, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["fun_error"] > 0
    assert facts["nfev"] <= 200


def test_scipy():
    options = {"sigma0": 1.0, "noise": True, "rng": 1, "maxfevals": 300}
    result = scipy_minimize(Noisy(), np.ones(D), method=sl.scipy_method, options=options)
    assert result.fun_error > 0


def test_curvature_starts_from_a_noisy_result():
    fun = Noisy(scale=0.01)
    result = run(fun, maxfevals=3000)
    found = sl.curvature(fun, result)
    assert np.allclose(np.diag(found.hessian), 2, rtol=0.3)


# What cannot be combined is refused

REFUSED = {
    "evaluate_x0": (
        {"evaluate_x0": True},
        "`evaluate_x0` must be left out with noise=True: the answer is a mean, and one noisy value at `x0` cannot be "
        "compared with it.",
    ),
    "budget": (
        {"maxfevals": 9},
        "`maxfevals` must allow one generation of `popsize` = 8 evaluations and 2 re-evaluations with noise=True, got "
        "9.",
    ),
    "batch": (
        {"maxfevals": 20, "popsize": 16, "vectorized": True},
        "`maxfevals` must allow one generation of `popsize` = 16 evaluations and 16 re-evaluations with noise=True, "
        "got 20.",
    ),
    "flag": ({"noise": 3}, "`noise` must be True or False, got 3."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_combined_is_refused(case):
    options, sentence = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}$"):
        run(Noisy(), **options)
