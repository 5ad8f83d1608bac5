"""Constraints in `minimize` and `Optimizer`: every form, what is evaluated where, results, and combinations."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse import csr_array

import sublevel as sl
from sublevel.cli.report_page import report_page
from sublevel.engine.ordering import ORDERINGS, AugmentedLagrangian, RankLagrangian
from sublevel.hessian.result import Curvature
from sublevel.run.constraints import Linear
from sublevel.run.restarts import STRATEGIES

X0 = np.full(3, 2.0)


def sphere(x):
    return float(np.sum(np.square(x)))


def total(x):
    return np.sum(x)


def sphere_and_total(x):
    """f and g ≤ 0 for Σx ≥ 1."""
    return sphere(x), [1.0 - np.sum(x)]


def both_in_rows(points):
    return np.sum(points**2, axis=1), 1.0 - np.sum(points, axis=1)


FORMS = {
    "nonlinear": NonlinearConstraint(total, 1, np.inf),
    "two sides": NonlinearConstraint(total, 1, 5),
    "vector": NonlinearConstraint(lambda x: [np.sum(x), x[0]], [1, -9], [np.inf, 9]),
    "linear": LinearConstraint(np.ones((1, 3)), 1, np.inf),
    "sparse": LinearConstraint(csr_array(np.ones((1, 3))), 1, np.inf),
    "kept": NonlinearConstraint(total, 1, np.inf, keep_feasible=True),
    "dict": {"type": "ineq", "fun": lambda x: np.sum(x) - 1},
    "dict with args": {"type": "ineq", "fun": lambda x, a: np.sum(x) - a, "args": (1,)},
    "list": [NonlinearConstraint(total, 1, np.inf), {"type": "ineq", "fun": lambda x: x[0] + 9}],
    "equality": NonlinearConstraint(total, 1, 1),
    "dict of an equality": {"type": "eq", "fun": lambda x: np.sum(x) - 1},
    "linear equality": LinearConstraint(np.ones((1, 3)), 1, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_leads_to_the_minimum(form):
    result = sl.minimize(sphere, X0, 0.5, constraints=FORMS[form], rng=1, maxfevals=20_000)
    assert_allclose(result.x, 1 / 3, atol=3e-5)
    assert_allclose(result.fun, 1 / 3, atol=2e-6)
    assert result.success
    assert result.maxcv <= 1e-6
    assert_allclose(result.constr[0].flat[0], 0 if form.startswith("dict") else 1, atol=1e-4)


@pytest.mark.parametrize("handling", ORDERINGS)
@pytest.mark.parametrize("settings", [{}, {"vectorized": True}], ids=["points", "vectorized"])
def test_an_objective_may_return_its_constraints(handling, settings):
    fun = both_in_rows if settings else sphere_and_total
    result = sl.minimize(fun, X0, 0.5, constraints=1, constraint_handling=handling, rng=1, **settings)
    assert result.success
    assert_allclose(result.fun, 1 / 3, atol=1e-6)
    assert result.maxcv == 0


def test_multipliers_are_those_of_the_problem():
    result = sl.minimize(sphere, X0, 0.5, constraints=FORMS["nonlinear"], rng=1)
    assert_allclose(result.multipliers[0], [-2 / 3], rtol=1e-3)  # ∇f + λ∇c = 0 at x = 1/3
    linear = sl.minimize(sphere, X0, 0.5, constraints=FORMS["linear"], rng=1)
    assert np.isnan(linear.multipliers[0]).all()  # f is not known outside
    ranks = sl.minimize(sphere, X0, 0.5, constraints=FORMS["nonlinear"], constraint_handling="lexicographic", rng=1)
    assert ranks.multipliers is None


KEPT = {
    "linear": lambda f: (f, LinearConstraint([[1, 1, 0], [0, 1, -1]], [1, -np.inf], [np.inf, 0.25])),
    "function": lambda f: (
        f,
        NonlinearConstraint(lambda x: [x[0] + x[1], x[1] - x[2]], [1, -9], [9, 0.25], keep_feasible=True),
    ),
    "some of both": lambda f: (
        f,
        [
            LinearConstraint([[1, 1, 0]], 1, np.inf),
            NonlinearConstraint(lambda x: [x[1] - x[2], x[0]], [-np.inf, 0.1], [0.25, np.inf], keep_feasible=[1, 0]),
        ],
    ),
}


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize(
    "settings",
    [{}, {"bounds": (-1, 6)}, {"log_scaled": True}, {"integrality": [0, 0, 1]}, {"restarts": 2, "popsize": 6}],
    ids=["plain", "bounds", "log", "integers", "restarts"],
)
def test_the_objective_is_never_called_outside_of_constraints_that_are_kept(kind, settings):
    def f(x):
        assert x[0] + x[1] >= 1
        assert x[1] - x[2] <= 0.25
        calls.append(x)
        return sphere(x)

    calls = []
    fun, constraints = KEPT[kind](f)
    result = sl.minimize(fun, X0, 0.5, constraints=constraints, rng=1, maxfevals=1500, **settings)
    assert len(calls) == result.nfev > 200
    assert result.maxcv == 0
    assert result.fun < 1.6


def test_ask_returns_points_that_meet_kept_constraints_however_unlikely_they_are():
    """The feasible region is a thin slab about the start, far below the step size."""
    slab = NonlinearConstraint(lambda x: x[0] - x[1], -1e-5, 1e-5, keep_feasible=True)
    opt = sl.Optimizer(X0, 1.0, constraints=slab, rng=1)
    for _ in range(20):
        points = opt.ask()
        assert np.all(np.abs(points[:, 0] - points[:, 1]) <= 1e-5)
        opt.tell(points, np.sum(points**2, axis=1))


def test_linear_constraints_that_are_active_do_not_stop_a_search_early():
    rng = np.random.default_rng(1)
    a = np.linalg.qr(rng.standard_normal((8, 8)))[0][:4]
    x = a.sum(axis=0) / np.sqrt(4)
    result = sl.minimize(sphere, x + 2 * a.sum(axis=0), 0.5, constraints=LinearConstraint(a, a @ x, np.inf), rng=1)
    assert_allclose(result.fun, sphere(x), rtol=1e-9)


ERRORS = {
    "function": (lambda x: x[0], TypeError, "NonlinearConstraint"),
    "float": (1.0, TypeError, "must be"),
    "zero": (0, ValueError, "at least 1"),
    "two numbers": ([1, 2], ValueError, "at most one integer"),
    "dict": ({"type": "less", "fun": total}, ValueError, "'ineq'"),
    "unknown entry": ({"type": "eq", "fun": total, "tol": 1}, ValueError, "tol"),
    "crossed": (NonlinearConstraint(total, 2, 1), ValueError, "`lb` must be"),
    "wrong size": (NonlinearConstraint(total, [1, 2, 3], 4), ValueError, "one for each"),
    "nothing": (NonlinearConstraint(total, -np.inf, np.inf), ValueError, "have no effect"),
    "columns": (LinearConstraint(np.ones((1, 2)), 1, 2), ValueError, "a column for each of the 3"),
    "kept equality": (NonlinearConstraint(total, 6, 6, keep_feasible=True), ValueError, "keep_feasible"),
    "start": (LinearConstraint(np.ones((1, 3)), 7, 8), ValueError, "`x0` must satisfy"),
    "start of a function": (NonlinearConstraint(total, 7, 8, keep_feasible=True), ValueError, "constraints = 6"),
    "text": (NonlinearConstraint(lambda x: "a", 0, 1), ValueError, "real numbers"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_a_constraint_is_an_error(case):
    constraints, kind, message = ERRORS[case]
    with pytest.raises(kind, match=message):
        sl.minimize(sphere, X0, 0.5, constraints=constraints)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraint_handling": "penalty"}, "constraint_handling"),
        ({"constraint_tol": -1}, "constraint_tol"),
        ({"method": sl.cma(step_size="psr")}, r"two generations \(PSR\)"),
        ({"method": sl.cma(step_size="tpa"), "constraints": FORMS["kept"]}, r"adds points to a sample \(TPA\)"),
    ],
)
def test_settings_that_do_not_fit_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        sl.minimize(sphere, X0, 0.5, **{"constraints": FORMS["nonlinear"]} | settings)


def test_handling_without_constraints_and_bits_are_errors():
    with pytest.raises(ValueError, match="needs `constraints`"):
        sl.minimize(sphere, X0, 0.5, constraint_handling="lexicographic")
    with pytest.raises(ValueError, match="binary methods"):
        sl.minimize(sphere, np.full(3, 0.5), method="pbil", constraints=FORMS["nonlinear"])
    with pytest.raises(TypeError, match="minimize"):
        sl.minimize_sharded(sphere, X0, 0.5, constraints=FORMS["nonlinear"])


@pytest.mark.parametrize("answer", [1.0, (1.0,), (1.0, [1, 2]), None])
def test_an_objective_that_does_not_return_f_and_g_is_an_error(answer):
    with pytest.raises((TypeError, ValueError)):
        sl.minimize(lambda x: answer, X0, 0.5, constraints=1)


def test_search_does_not_notice_increasing_transforms_of_f_and_g():
    """Strictly increasing transforms of f, and of g that keep its sign, do not change a search by ranks."""

    def plain(x):
        return sphere(x), [1 - np.sum(x), x[0] - 0.2]

    def bent(x):
        f, g = plain(x)
        return np.exp(3 * f), [np.expm1(g[0]), g[1] ** 3]

    settings = {"constraints": 2, "rng": 3, "maxfevals": 900}
    for name in ("rank-lagrangian", "lexicographic"):
        one, other = (sl.minimize(f, X0, 0.5, constraint_handling=name, **settings) for f in (plain, bent))
        assert np.array_equal(one.mean, other.mean)
        assert np.array_equal(one.cov, other.cov)
    one, other = (sl.minimize(f, X0, 0.5, **settings) for f in (plain, bent))
    assert not np.array_equal(one.mean, other.mean)  # the augmented Lagrangian does notice


def sphere_of_three(x):
    return sphere(x)


def constraint_of_three(x):
    return [np.sum(x), x[0]]


PICKLED = NonlinearConstraint(constraint_of_three, [1, -9], np.inf)


@pytest.mark.parametrize("workers", [2, "threads", map], ids=["processes", "threads", "map"])
def test_workers_do_not_change_a_result(workers):
    settings = {"constraints": PICKLED, "rng": 1, "maxfevals": 300}
    alone = sl.minimize(sphere_of_three, X0, 0.5, **settings)
    with ThreadPoolExecutor(2) as pool:
        result = sl.minimize(sphere_of_three, X0, 0.5, workers=pool if workers == "threads" else workers, **settings)
    assert np.array_equal(result.x, alone.x)
    assert np.array_equal(result.cov, alone.cov)
    assert np.array_equal(result.constr[0], alone.constr[0])


def test_vectorized_functions_get_all_points_at_once():
    def constraint(points):
        shapes.append(points.shape)
        return np.stack([points.sum(axis=1), points[:, 0]], axis=1)

    shapes = []
    c = NonlinearConstraint(constraint, [1, -9], np.inf)
    alone = sl.minimize(sphere, X0, 0.5, constraints=NonlinearConstraint(constraint_of_three, [1, -9], np.inf), rng=1)
    result = sl.minimize(lambda p: np.sum(p**2, axis=1), X0, 0.5, constraints=c, rng=1, vectorized=True)
    assert shapes[0] == (1, 3)
    assert shapes[-1] == (7, 3)
    assert_allclose(result.fun, alone.fun, atol=1e-6)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_constraint_that_is_nan_is_a_failure(vectorized):
    def g(x):
        return np.where(x[..., 0] > 1.5, np.nan, 1 - np.sum(x, axis=-1))

    def fun(x):
        return np.sum(x**2, axis=-1), g(x)

    result = sl.minimize(fun, X0, 0.5, constraints=1, rng=1, vectorized=vectorized)
    assert result.success
    assert len(result.failures) == result.failures.counts["nan"] > 10
    assert "constraint value is NaN" in result.failures.last[-1].detail


def test_exceptions_of_constraints_are_treated_like_those_of_the_objective():
    def broken(x):
        if x[0] > 2.5:
            raise OSError("no licence")
        return np.sum(x)

    c = NonlinearConstraint(broken, 1, np.inf)
    with pytest.raises(OSError, match="no licence") as caught:
        sl.minimize(sphere, X0, 0.5, constraints=c, rng=1)
    assert caught.value.sublevel_x[0] > 2.5
    result = sl.minimize(sphere, X0, 0.5, constraints=c, rng=1, on_error="nan")
    assert result.success
    assert result.failures.counts["error"] > 0


def test_a_run_that_finds_nothing_feasible_says_what_is_in_the_way():
    c = [NonlinearConstraint(lambda x: x[0], 0, 1), NonlinearConstraint(lambda x: [x[1], np.sum(x**2)], -9, [9, -1])]
    result = sl.minimize(sphere, X0, 0.5, constraints=c, rng=1, maxfevals=2000)
    assert not result.success
    assert "no feasible point" in result.message
    assert "constraints[1][1]" in result.message
    assert [finding.name for finding in result.diagnosis if finding.name == "infeasible"]
    assert result.maxcv >= 1
    assert np.isnan(result.history["best"]).all()
    assert result.history["maxcv"][-1] == result.maxcv


def test_a_plateau_of_f_is_no_convergence_while_nothing_is_feasible():
    """f is constant until the search has come a long way."""

    def fun(x):
        return max(sphere(x), 0.0) if x[0] < 0 else 7.0, [x[0] + 20.0]

    result = sl.minimize(fun, X0, 0.1, constraints=1, rng=1)
    assert result.success
    assert_allclose(result.fun, 400, rtol=1e-6)


def test_a_target_counts_for_feasible_points_only():
    result = sl.minimize(sphere, np.zeros(3), 0.5, constraints=FORMS["nonlinear"], rng=1, ftarget=0.34)
    assert result.reasons.keys() == {"ftarget"}
    assert 1 / 3 <= result.fun <= 0.34


@pytest.mark.parametrize("handling", ORDERINGS)
def test_restarts_compare_feasible_values(handling):
    def fun(x):
        return float(np.sum(x**2 - 3 * np.cos(4 * x))), [1.0 - np.sum(x)]

    result = sl.minimize(
        fun, X0, 1.0, bounds=(-4, 4), constraints=1, restarts=3, rng=1, maxfevals=8000, constraint_handling=handling
    )
    assert result.maxcv == 0
    found = [run.fun for run in result.history.runs]
    assert result.fun == np.nanmin(found)


def test_optimizer_takes_constraint_values():
    opt = sl.Optimizer(X0, 0.5, constraints=2, rng=1)
    while not opt.stop():
        points = opt.ask()
        g = np.stack([1 - points.sum(axis=1), points[:, 0] - 1], axis=1)
        order = np.random.default_rng(0).permutation(len(points))
        opt.tell(points[order], np.sum(points**2, axis=1)[order], constraints=g[order])
    assert opt.maxcv == 0
    assert_allclose(opt.best_fun, 1 / 3, rtol=1e-6)


def test_optimizer_calls_functions_itself_and_refuses_what_was_not_announced():
    opt = sl.Optimizer(X0, 0.5, constraints=FORMS["nonlinear"], rng=1)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, np.sum(points**2, axis=1))
    assert_allclose(opt.best_fun, 1 / 3, rtol=1e-6)
    plain = sl.Optimizer(X0, 0.5, rng=1)
    with pytest.raises(ValueError, match="but the optimizer has none"):
        plain.tell(points := plain.ask(), np.sum(points**2, axis=1), constraints=np.zeros((len(points), 1)))
    numbers = sl.Optimizer(X0, 0.5, constraints=1, rng=1)
    points = numbers.ask()
    with pytest.raises(TypeError, match="`tell` needs the values of the constraints"):
        numbers.tell(points, np.sum(points**2, axis=1))
    with pytest.raises(ValueError, match="shape"):
        numbers.tell(points, np.sum(points**2, axis=1), constraints=np.zeros((len(points), 2)))


def test_integers_and_choices_with_constraints():
    """The best of a few bolts: n whole, d real, a grade."""
    strength = {"a": 1.0, "b": 1.6}

    def cost(p):
        return p["n"] * p["d"] ** 2 * (1 if p["grade"] == "a" else 1.2) + 0.1 * p["n"]

    def capacity(p):
        assert isinstance(p, dict)
        return p["n"] * p["d"] ** 2 * strength[p["grade"]]

    space = sl.Space(n=sl.Integer(1, 12), d=sl.Real(0.2, 4), grade=sl.Choice("a", "b"))
    constraints = NonlinearConstraint(capacity, 8, np.inf)
    result = sl.minimize(cost, space, constraints=constraints, rng=1, maxfevals=4000)
    assert result.maxcv == 0
    assert result.params["grade"] == "b"
    assert result.params["n"] == 1
    assert_allclose(result.fun, 8 / 1.6 * 1.2 + 0.1, rtol=1e-3)


def test_linear_constraints_on_the_numbers_of_a_space():
    def fun(p):
        assert p["n"] + p["x"] <= 12 + 1e-12
        assert p["x"] - p["y"] >= 1
        return (p["n"] - 9) ** 2 + (p["x"] - 8) ** 2 + (p["k"] == "a") + (p["y"] - 1) ** 2

    space = sl.Space(
        n=sl.Integer(0, 20), x=sl.Real(0, 10), k=sl.Choice("a", "b"), y=sl.Real(0.01, 100, log=True)
    ).start_at({"n": 3, "x": 5, "y": 0.5})
    rows = np.array([[1, 1, 0, 0], [0, 1, 0, -1]])
    for matrix in (rows, csr_array(rows)):
        limits = LinearConstraint(matrix, [-np.inf, 1], [12, np.inf])
        result = sl.minimize(fun, space, constraints=limits, rng=1, maxfevals=3000)
        assert result.maxcv == 0
        assert_allclose(result.fun, 13, atol=1e-6)
        assert result.params["k"] == "b"
    with pytest.raises(ValueError, match=r"must satisfy the linear constraints .* Space.start_at"):
        sl.minimize(fun, space.start_at({"n": 20}), constraints=LinearConstraint(rows[:1], -np.inf, 12))
    with pytest.raises(ValueError, match=r"must be 0 in the column of 'k', because.*NonlinearConstraint"):
        sl.minimize(fun, space, constraints=LinearConstraint(np.ones((1, 4)), -99, 99))
    with pytest.raises(ValueError, match=r"4 variables \(n, x, k, y\)"):
        sl.minimize(fun, space, constraints=LinearConstraint(np.ones((1, 3)), -99, 99))


@pytest.mark.parametrize("method", ["lra-cma", "sep-cma", "iso-cma", "xnes", "ngd", "rank-mu", sl.cma(step_size="tpa")])
def test_every_method_takes_constraints(method):
    for form in ("nonlinear", "linear"):
        result = sl.minimize(sphere, X0, 0.5, constraints=FORMS[form], method=method, rng=1, maxfevals=3000)
        assert result.maxcv == 0
        assert result.fun < 0.4


def test_a_method_may_bring_its_ordering():
    method = replace(sl.cma(), ordering=RankLagrangian())
    own = sl.minimize(sphere, X0, 0.5, constraints=FORMS["nonlinear"], method=method, rng=1)
    named = sl.minimize(sphere, X0, 0.5, constraints=FORMS["nonlinear"], constraint_handling="rank-lagrangian", rng=1)
    assert np.array_equal(own.x, named.x)


def test_callbacks_get_the_violation():
    seen = []
    sl.minimize(sphere, -X0, 0.5, constraints=FORMS["nonlinear"], rng=1, callback=lambda r: seen.append(r.maxcv))
    assert seen[0] > 0
    assert seen[-1] == 0
    assert seen == sorted(seen, reverse=True)


def test_curvature_at_a_free_minimum_and_at_an_active_constraint():
    loose = NonlinearConstraint(total, -9, np.inf)
    result = sl.minimize(sphere, X0, 0.5, constraints=loose, rng=1, curvature=True)
    assert_allclose(result.hess_inv, np.eye(3) / 2, atol=1e-4)
    with pytest.warns(UserWarning, match="constraint is active"):
        result = sl.minimize(sphere, X0, 0.5, constraints=FORMS["nonlinear"], rng=1, curvature=True)
    assert result.curvature is None
    with pytest.warns(UserWarning, match="constraint is active"):
        result = sl.minimize(sphere, X0, 0.5, constraints=FORMS["kept"], rng=1, curvature=True)
    assert result.curvature is None


def active_and_inactive(form, limit):
    """The arguments of a search for Σx ≥ `limit`, in one of the forms."""
    own = lambda x: (sphere(x), [limit - np.sum(x)])  # noqa: E731
    given = {
        "own": 1,
        "function": NonlinearConstraint(total, limit, np.inf),
        "ranks": NonlinearConstraint(total, limit, np.inf),
        "kept": NonlinearConstraint(total, limit, np.inf, keep_feasible=True),
        "linear": LinearConstraint(np.ones((1, 3)), limit, np.inf),
    }[form]
    handling = {"constraint_handling": "lexicographic"} if form == "ranks" else {}
    return own if form == "own" else sphere, {"constraints": given, "rng": 1} | handling


AROUND = {
    "curvature": lambda fun, found, **more: sl.curvature(fun, found, **more),
    "shape": lambda fun, found, **more: sl.shape_from_ranks(fun, found, rng=1, iterations=20, **more),
}


def of_optimizer(fun, x0, sigma0, constraints, rng, **more):
    """A finished optimizer, which is told constraint values that `fun` returns."""
    opt = sl.Optimizer(x0, sigma0, constraints=constraints, rng=rng, **more)
    while not opt.stop():
        X = opt.ask()
        answers = [fun(x) for x in X]
        own = {"constraints": np.array([g for _, g in answers])} if constraints == 1 else {}
        opt.tell(X, [answer[0] if own else answer for answer in answers], **own)
    return opt


@pytest.mark.parametrize("search", [sl.minimize, of_optimizer], ids=["result", "optimizer"])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("form", ["own", "function", "ranks", "kept", "linear"])
def test_around_a_minimum_f_is_not_evaluated_outside_without_an_error(form, around, search):
    fun, settings = active_and_inactive(form, 1.0)
    found, points = search(fun, X0, 0.5, **settings), []
    with pytest.raises(ValueError, match="a constraint is active at or near the minimum"):
        AROUND[around](lambda x: (points.append(x.copy()), fun(x))[1], found)
    if form in ("kept", "linear"):
        assert all(np.sum(x) >= 1 for x in points)
    fun, settings = active_and_inactive(form, -1.0)
    found, points = search(fun, X0, 0.5, **settings), []
    near = AROUND[around](lambda x: (points.append(x.copy()), fun(x))[1], found)
    assert near.nfev == len(points) > 10
    assert min(map(np.sum, points)) >= -1


def c_near(x):
    """A constraint that is violated within a standard deviation of the minimum."""
    return 0.5 + np.sum(x)


def test_errors_at_a_constraint_are_not_taken_for_failed_evaluations():
    fun, settings = active_and_inactive("ranks", 1.0)
    result = sl.minimize(fun, X0, 0.5, **settings)
    with pytest.raises(ValueError, match="constraints is violated by"):
        sl.curvature(fun, result, on_error="nan")


def test_profiles_stay_inside_the_constraints():
    fun, settings = active_and_inactive("linear", -2.0)
    curved = sl.curvature(fun, sl.minimize(fun, X0, 0.5, **settings), kind="nll")
    assert_allclose(curved.stderr, np.sqrt(0.5), rtol=1e-3)
    for again in (curved, pickle.loads(pickle.dumps(curved))):
        with pytest.raises(ValueError, match="a constraint is active at or near the minimum"):
            again.profile_intervals(0.999, fun)


@pytest.mark.parametrize("profile", [Curvature.profile_intervals, Curvature.profile])
def test_profiles_of_a_stored_curvature_take_its_constraints_again(profile, tmp_path):
    fun, settings = active_and_inactive("function", -20.0)
    curved = sl.curvature(fun, sl.minimize(fun, X0, 0.5, **settings), kind="nll")
    stored, known = tmp_path / "run.db", {"constraints": settings["constraints"]}
    sl.minimize(fun, X0, 0.5, store=stored, curvature=True, kind="nll", **settings)
    for again in (sl.load(stored).result.curvature, pickle.loads(pickle.dumps(curved))):
        with pytest.raises(ValueError, match="pass `constraints`"):
            profile(again, fun=fun)
        assert str(profile(again, fun=fun, **known)) == str(profile(curved))
        with pytest.raises(ValueError, match=r"constraint is active at or near the minimum .* is violated by") as error:
            profile(again, fun=fun, constraints={"type": "ineq", "fun": c_near})
        assert "no curvature" not in str(error.value)


@pytest.mark.parametrize("around", AROUND)
def test_constraints_whose_functions_are_lost_must_be_given_again(around, tmp_path):
    fun, settings = active_and_inactive("kept", -1.0)
    result = sl.minimize(fun, X0, 0.5, store=tmp_path / "run.db", **settings)
    for found in (sl.load(tmp_path / "run.db").result, pickle.loads(pickle.dumps(result))):
        with pytest.raises(ValueError, match="pass `constraints`"):
            AROUND[around](fun, found)
        assert AROUND[around](fun, found, constraints=settings["constraints"]).nfev
    assert AROUND[around](fun, copy.deepcopy(result)).nfev


def test_constraints_of_a_curvature_may_be_evaluated_otherwise_than_in_the_search():
    fun, settings = active_and_inactive("function", -1.0)
    result = sl.minimize(fun, X0, 0.5, **settings)
    plain = sl.curvature(fun, result)
    several = sl.curvature(lambda points: np.array(list(map(fun, points))), result, vectorized=True)
    assert_allclose(several.hessian, plain.hessian, rtol=1e-9)


def test_a_comparison_has_no_constraint_values():
    fun, settings = active_and_inactive("own", -1.0)
    result = sl.minimize(fun, X0, 0.5, **settings)
    is_better = lambda x, y: sphere(x) < sphere(y)  # noqa: E731
    with pytest.raises(ValueError, match="a comparison returns no constraint values"):
        sl.shape_from_ranks(is_better, result, comparison=True)
    other = active_and_inactive("function", 1.0)[1]["constraints"]
    with pytest.raises(ValueError, match="a constraint is active"):
        sl.shape_from_ranks(is_better, X0 / 6, sigma0=0.1, comparison=True, constraints=other)


def test_scipy_passes_its_constraints():
    result = scipy.optimize.minimize(
        sphere,
        X0,
        method=sl.scipy_method,
        bounds=Bounds(-5, 5),
        constraints=({"type": "ineq", "fun": lambda x: np.sum(x) - 1},),
        options={"rng": 1},
    )
    assert result.success
    assert_allclose(result.fun, 1 / 3, rtol=1e-5)


def test_results_describe_and_draw_constraints(tmp_path):
    result = sl.minimize(sphere, -X0, 0.5, constraints=FORMS["nonlinear"], rng=1, maxfevals=500)
    assert "maxcv" in repr(result)
    assert '"maxcv"' in result.to_json()
    assert "maxcv" in result.history.to_frame().columns
    labels = [axis.get_label() for axis in result.plot(tmp_path / "run.png").axes]
    assert "violation" in labels


def test_a_run_without_constraints_has_no_entries_for_them():
    result = sl.minimize(sphere, X0, 0.5, constraints=(), rng=1, maxfevals=100)
    assert "maxcv" not in result
    assert np.array_equal(result.x, sl.minimize(sphere, X0, 0.5, rng=1, maxfevals=100).x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "maxcv" not in result.history.arrays()


STORED = {
    "numbers": (lambda x: (sphere(x), [1 - np.sum(x), x[0] - 1]), 2, {}),
    "functions": (sphere, FORMS["list"], {}),
    "linear": (sphere, FORMS["linear"], {}),
    "kept": (sphere, [FORMS["kept"], FORMS["nonlinear"]], {}),
    "equality": (sphere, FORMS["equality"], {"constraint_handling": "rank-lagrangian"}),
    "restarts": (sphere, FORMS["nonlinear"], {"restarts": 3, "bounds": (-4, 4)}),
    "integers": (sphere, FORMS["linear"], {"integrality": [0, 1, 0]}),
    "vectorized": (both_in_rows, 1, {"vectorized": True}),
    "failures": (lambda x: (sphere(x), [np.nan if x[0] > 2.3 else 1 - np.sum(x)]), 1, {}),
}


@pytest.mark.parametrize("case", STORED)
def test_a_stored_run_resumes_bit_for_bit(case, tmp_path):
    fun, constraints, settings = STORED[case]
    settings = {"constraints": constraints, "rng": 1, **settings}
    whole = sl.minimize(fun, X0, 0.5, maxfevals=900, **settings)
    half = sl.minimize(fun, X0, 0.5, maxfevals=400, store=tmp_path / "run.db", **settings)
    again = None if isinstance(constraints, int) else constraints
    resumed = sl.resume(tmp_path / "run.db", fun, constraints=again, maxfevals=900)
    assert half.nfev < resumed.nfev == whole.nfev
    assert np.array_equal(resumed.x, whole.x)
    assert np.array_equal(resumed.cov, whole.cov)
    assert resumed.maxcv == whole.maxcv
    assert np.array_equal(resumed.history["maxcv"], whole.history["maxcv"])
    assert len(resumed.failures) == len(whole.failures)
    run = sl.load(tmp_path / "run.db")
    assert len(run.constraints) == run.values.size
    assert run.constraints.shape[1] == {"numbers": 2, "functions": 2, "linear": 0, "integers": 0}.get(case, 1)
    assert run.result.fun == whole.fun
    assert run.result.maxcv == whole.maxcv


def sphere_of_rows(points):
    return points[:, 0] ** 2 + points[:, 1] ** 2 + points[:, 2] ** 2


def sphere_of_one(x):
    return float(sphere_of_rows(x[None])[0])


CALLS = {
    False: (sphere_of_one, NonlinearConstraint(lambda x: x[0] + x[1] + x[2], 1, np.inf)),
    True: (sphere_of_rows, NonlinearConstraint(lambda p: p[:, 0] + p[:, 1] + p[:, 2], 1, np.inf)),
}


@pytest.mark.parametrize("restarts", STRATEGIES)
@pytest.mark.parametrize("handling", ORDERINGS)
def test_a_run_of_another_sample_size_resumes_bit_for_bit(handling, restarts, tmp_path):
    def fun(x):
        return np.floor(sphere(x - 1)), [x[0] ** 2 - 4]

    settings = {"constraints": 1, "constraint_handling": handling, "restarts": restarts, "rng": 1}
    whole = sl.minimize(fun, np.zeros(2), 0.5, maxfevals=600, **settings)
    for maxfevals in (200, 420):
        store = tmp_path / f"{maxfevals}.db"
        half = sl.minimize(fun, np.zeros(2), 0.5, maxfevals=maxfevals, store=store, **settings)
        assert len(set(np.diff(half.history["nfev"]))) > 1
        resumed = sl.resume(store, fun, maxfevals=600)
        assert resumed.restarts == whole.restarts
        assert np.array_equal(resumed.history["deviation"], whole.history["deviation"])


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_run_resumes_with_functions_that_are_called_in_another_way(vectorized, tmp_path):
    fun, constraints = CALLS[vectorized]
    settings = {"rng": 1, "vectorized": vectorized, "constraints": constraints}
    whole = sl.minimize(fun, X0, 0.5, maxfevals=600, **settings)
    sl.minimize(fun, X0, 0.5, maxfevals=300, store=tmp_path / "run.db", **settings)
    fun, constraints = CALLS[not vectorized]
    again = {"vectorized": not vectorized, "constraints": constraints, "maxfevals": 600}
    assert np.array_equal(sl.resume(tmp_path / "run.db", fun, **again).x, whole.x)


def test_a_stored_run_has_multipliers_and_a_report(tmp_path):
    constraints = [FORMS["two sides"], FORMS["linear"], FORMS["dict of an equality"]]
    store = tmp_path / "run.db"
    result = sl.minimize(sphere, X0, 0.5, constraints=constraints, rng=1, maxfevals=700, store=store)
    run = sl.load(store)
    for one, other in zip(run.result.multipliers, result.multipliers, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    page = report_page(run)
    table = page[page.index("<h2>Constraints</h2>") :]
    for text in ("constraints[0]", "constraints[1]", "constraints[2]", "satisfied", f"{result.multipliers[0][0]:.8g}"):
        assert text in table
    assert "largest violation" in page
    labels = [axis.get_label() for axis in result.plot(tmp_path / "run.png").axes]
    assert labels.count("multipliers") == 1


def test_a_warm_start_prefers_feasible_points(tmp_path):
    rng = np.random.default_rng(1)
    points = rng.uniform(-5, 5, (300, 3))
    values, g = np.sum(points**2, axis=1), 1 - points.sum(axis=1)
    start = sl.warm_start(points, values, constraints=g[:, None])
    assert start.x0.sum() > 1 > sl.warm_start(points, values).x0.sum()
    chosen = np.flatnonzero(g <= 0)
    chosen = chosen[np.argsort(values[chosen])][:30]
    assert_allclose(start.x0, points[chosen].mean(axis=0))
    result = sl.minimize(sphere, start.x0, start.sigma0, cov0=start.cov0, constraints=FORMS["linear"], rng=1)
    assert_allclose(result.fun, 1 / 3, atol=1e-6)
    for wrong in (g[:3], np.zeros((300, 0)), 1.0):
        with pytest.raises(ValueError, match="`constraints` must have a row for each of the 300 points"):
            sl.warm_start(points, values, constraints=wrong)
    store = tmp_path / "run.db"
    sl.minimize(sphere, -X0, 1.0, constraints=FORMS["nonlinear"], rng=1, maxfevals=100, store=store)
    run = sl.load(store)
    expected = sl.warm_start(run.points, run.values, constraints=1 - run.constraints)
    assert np.array_equal(run.warm_start().x0, expected.x0)


def test_constraints_must_be_given_again(tmp_path):
    store = tmp_path / "run.db"
    sl.minimize(sphere, X0, 0.5, constraints=FORMS["two sides"], rng=1, maxfevals=100, store=store)
    with pytest.raises(TypeError, match="`constraints` must be given again"):
        sl.resume(store, sphere)
    with pytest.raises(ValueError, match="other bounds"):
        sl.resume(store, sphere, constraints=FORMS["nonlinear"])
    sl.minimize(sphere, X0, 0.5, rng=1, maxfevals=100, store=tmp_path / "free.db")
    with pytest.raises(TypeError, match="left out"):
        sl.resume(tmp_path / "free.db", sphere, constraints=FORMS["nonlinear"])


def test_a_run_that_is_interrupted_within_a_generation_keeps_its_constraint_values(tmp_path):
    class Stop(Exception):
        pass

    def interrupted(x):
        calls.append(x)
        if len(calls) == 39:
            raise Stop
        return sphere_and_total(x)

    calls = []
    store = tmp_path / "run.db"
    with pytest.raises(Stop):
        sl.minimize(interrupted, X0, 0.5, constraints=1, rng=1, maxfevals=300, store=store)
    assert len(sl.load(store).values) == 38
    calls.clear()
    counted = []

    def fun(x):
        counted.append(x)
        return sphere_and_total(x)

    resumed = sl.resume(store, fun, check=False)
    whole = sl.minimize(sphere_and_total, X0, 0.5, constraints=1, rng=1, maxfevals=300)
    assert len(counted) == whole.nfev - 38
    assert np.array_equal(resumed.x, whole.x)
    assert resumed.multipliers[0] == whole.multipliers[0]


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_values_of_linear_constraints_are_the_same_for_one_point_and_for_many(kind, rng):
    linear, points = Linear(kind(rng.standard_normal((3, 7)))), rng.standard_normal((50, 7))
    assert np.array_equal(linear(points), [linear(point) for point in points])
    assert linear(points[:0]).shape == (0, 3)


def test_the_start_is_kept_if_it_is_best_among_linear_constraints():
    result = sl.minimize(
        sphere, np.zeros(3), 1.0, constraints=LinearConstraint(np.ones((1, 3)), -1, 1), rng=1, maxfevals=8
    )
    assert result.fun == 0


def test_evaluations_are_exported_with_their_constraints(tmp_path):
    store = tmp_path / "run.db"
    sl.minimize(
        lambda x: (sphere(x), [1 - np.sum(x), x[0] - 1]), X0, 0.5, constraints=2, rng=1, maxfevals=60, store=store
    )
    run = sl.load(store)
    assert list(run.to_frame().columns) == ["run", "iteration", "index", "value", "g0", "g1", "x0", "x1", "x2"]
    for suffix in (".csv", ".npz"):
        run.export(tmp_path / f"run{suffix}")
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    assert np.array_equal(table["g0"], 1 - run.points.sum(axis=1))
    assert np.array_equal(np.load(tmp_path / "run.npz")["constraints"], run.constraints)


def test_the_command_line_takes_constraints(tmp_path, capsys):
    from sublevel.cli.main import main

    script = tmp_path / "simulate.py"
    script.write_text("import json, sys\nx = json.load(sys.stdin)\nprint(sum(v * v for v in x), 1 - sum(x), -9)\n")
    (tmp_path / "problem.py").write_text("def fun(x):\n    return sum(x * x), [1 - sum(x), -9.0]\n")
    shared = ["--x0", "2,2", "--sigma0", "0.5", "--constraints", "2", "--seed", "1", "--maxfevals", "150", "--json"]
    outputs = []
    store = str(tmp_path / "run.db")
    for given in (
        ["minimize", f"{tmp_path}/problem.py:fun", *shared],
        ["minimize", *shared, "--maxfevals", "60", "--store", store, "--command", sys.executable, str(script)],
        ["resume", store, "--maxfevals", "150", "--json", "--command", sys.executable, str(script)],
    ):
        assert main(given) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0]["maxcv"] == 0
    assert outputs[0]["constr"][0][1] == -9
    assert outputs[0]["multipliers"][0][1] == 0
    assert_allclose(outputs[2]["x"], outputs[0]["x"], rtol=1e-12)


def test_error_bars_of_the_command_line_need_a_minimum_without_active_constraints(tmp_path, capsys):
    from sublevel.cli.main import main

    (tmp_path / "problem.py").write_text("def fun(x):\n    return sum(x * x), [1 - sum(x)]\n")
    options = ["--x0", "2,2", "--sigma0", "0.5", "--constraints", "1", "--seed", "1", "--error-bars", "nll", "--json"]
    with pytest.warns(UserWarning, match="constraint is active"):
        assert main(["minimize", f"{tmp_path}/problem.py:fun", *options]) == 0
    assert json.loads(capsys.readouterr().out)["error_bars"] is None


def test_feasible_points_are_evaluated_where_many_constraints_are_active():
    """x ≥ 1 in each of ten variables: near the minimum, one point in 2¹⁰ of a sample about it is feasible."""

    def share(**settings):
        inside = []

        def fun(x):
            inside.append(bool(np.all(x >= 1)))
            return sphere(x), 1 - x

        method = replace(sl.cma(), ordering=AugmentedLagrangian(**settings))
        result = sl.minimize(fun, np.full(10, 3.0), 0.5, constraints=10, method=method, rng=1, maxfevals=4000)
        assert result.maxcv == 0
        assert_allclose(result.fun, 10, rtol=1e-3)
        return np.mean(inside[1000:])

    assert share() > 0.03
    assert share(feasible_share=1e-9) < 0.003  # without a margin
