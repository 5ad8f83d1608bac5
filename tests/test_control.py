"""What a user can set to end a run or to call its variables: tolerances, a time limit, names, one pair of bounds; and
slips of keywords.
"""

from __future__ import annotations

import csv
import inspect
import time

import numpy as np
import pytest
import scipy.optimize

import sublevel as sl
from helpers.functions import ellipsoid, rastrigin, sphere
from sublevel.run.termination import lengths
from sublevel.store.fingerprint import fingerprint


def bowl(x):
    """A minimum of 1 at 0."""
    return 1.0 + sphere(x)


def valley(x):
    """A condition number of 10⁶, with the minimum at (3, 5)."""
    return (x[0] - 3) ** 2 + 1e6 * (x[1] - 5) ** 2


# Tolerances


def test_tolx_ends_a_run_whose_standard_deviations_are_all_within_it():
    result = sl.minimize(sphere, np.ones(4), 0.5, rng=1, tolx=1e-3)
    assert list(result.reasons) == ["tolx"]
    assert result.success
    assert 1e-4 < np.sqrt(np.diag(result.cov)).max() <= 1e-3
    history = result.history["deviation"]
    assert np.all(history[:-1] > 1e-3)


def test_tolfun_ends_a_run_whose_recent_values_are_within_it():
    result, whole = (sl.minimize(bowl, np.ones(4), 0.5, rng=1, tolfun=tolerance) for tolerance in (1e-3, None))
    assert list(result.reasons) == ["tolfun"]
    assert result.success
    assert result.nfev < 0.6 * whole.nfev
    assert result.fun - 1.0 < 1e-3
    recent = result.history["generation_best"][-lengths(4, 8).few :]
    assert recent.max() - recent.min() <= 1e-3 == pytest.approx(result.reasons["tolfun"], abs=1e-3)


def test_tolerances_are_off_by_default_and_at_zero():
    plain, zero = (
        sl.minimize(bowl, np.ones(3), 0.5, rng=1),
        sl.minimize(bowl, np.ones(3), 0.5, rng=1, tolfun=0.0, tolx=0),
    )
    assert (plain.nfev, plain.reasons) == (zero.nfev, zero.reasons)


def test_tolerances_end_runs_and_restarts_go_on():
    result = sl.minimize(rastrigin, np.full(3, 2.2), 0.5, rng=1, restarts=2, tolx=1e-3, maxfevals=20_000)
    assert [list(run.reasons) for run in result.history.runs] == [["tolx"]] * 3


def test_tolerances_of_an_optimizer():
    opt = sl.Optimizer(np.ones(3), 0.5, rng=1, tolfun=1e-2, tolx=1e-9)
    while not opt.stop():
        X = opt.ask()
        opt.tell(X, bowl(X))
    assert list(opt.stop()) == ["tolfun"]


@pytest.mark.parametrize("name", ["tolfun", "tolx", "rtolfun"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), [1e-3, 1e-3]], ids=str)
def test_a_tolerance_is_one_number_of_at_least_zero(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        sl.minimize(sphere, np.ones(2), 0.5, **{name: value})


def test_tol_of_scipy_becomes_both_tolerances():
    given = {"method": sl.scipy_method, "options": {"sigma0": 0.5, "rng": 1}}
    result = scipy.optimize.minimize(bowl, np.ones(4), tol=1e-4, **given)
    ours = sl.minimize(bowl, np.ones(4), 0.5, rng=1, tolfun=1e-4, tolx=1e-4)
    assert (result.nfev, result.reasons) == (ours.nfev, ours.reasons)
    assert result.nfev < scipy.optimize.minimize(bowl, np.ones(4), **given).nfev


def test_integrality_is_an_option_of_scipy():
    options = {"integrality": [0, 1, 0, 1], "rng": 1, "maxfevals": 300}
    result = scipy.optimize.minimize(bowl, np.ones(4), method=sl.scipy_method, bounds=[(-4, 5)] * 4, options=options)
    sigma0 = [3.0, 10 / 3, 3.0, 10 / 3]  # the range of an integer ends half a unit beyond its bounds
    ours = sl.minimize(bowl, np.ones(4), sigma0, bounds=(-4, 5), **options)
    np.testing.assert_array_equal(result.x, ours.x)
    assert (result.x[[1, 3]] == np.rint(result.x[[1, 3]])).all()


def test_an_option_wins_over_tol_of_scipy():
    options = {"sigma0": 0.5, "rng": 1, "fatol": 1e-9, "xatol": 0}
    result = scipy.optimize.minimize(bowl, np.ones(4), method=sl.scipy_method, tol=1e-2, options=options)
    assert result.nfev == sl.minimize(bowl, np.ones(4), 0.5, rng=1, tolfun=1e-9).nfev


# Stored


def test_a_run_that_ended_at_a_tolerance_goes_on_with_a_smaller_one(tmp_path):
    sl.minimize(bowl, np.ones(4), 0.5, rng=1, tolfun=1e-3, store=tmp_path / "a.db")
    again = sl.resume(tmp_path / "a.db", bowl)
    assert list(again.reasons) == ["tolfun"]
    longer = sl.resume(tmp_path / "a.db", bowl, tolfun=1e-9)
    whole = sl.minimize(bowl, np.ones(4), 0.5, rng=1, tolfun=1e-9, store=tmp_path / "b.db")
    assert longer.nfev == whole.nfev > again.nfev
    np.testing.assert_array_equal(longer.x, whole.x)
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")


def test_tolerances_are_stored(tmp_path):
    given = {"rng": 1, "tolx": 1e-4, "tolfun": 1e-7, "restarts": 2, "names": ["a", "b"]}
    whole = sl.minimize(rastrigin, [2.2, 1.2], 0.5, store=tmp_path / "a.db", **given)
    sl.minimize(rastrigin, [2.2, 1.2], 0.5, store=tmp_path / "b.db", maxfevals=150, **given)
    resumed = sl.resume(tmp_path / "b.db", rastrigin, maxfevals=1e6)
    assert resumed.reasons == whole.reasons
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")


def test_tolerances_of_a_run_with_restarts_cannot_be_changed(tmp_path):
    sl.minimize(sphere, np.ones(2), 0.5, rng=1, tolx=1e-4, restarts=2, maxfevals=100, store=tmp_path / "a.db")
    with pytest.raises(
        ValueError, match="`tolfun`, `tolx`, `rtolfun` and `noise_floor` must be those that the run was started with"
    ):
        sl.resume(tmp_path / "a.db", sphere, tolx=1e-6)


# Time


class Slow:
    """A bowl that takes a while, and counts."""

    def __init__(self, seconds):
        self.seconds, self.calls = seconds, 0

    def __call__(self, x):
        """At a point."""
        self.calls += 1
        time.sleep(self.seconds)
        return bowl(x)


def test_no_evaluation_is_begun_after_maxtime():
    fun, began = Slow(0.02), time.monotonic()
    result = sl.minimize(fun, np.ones(4), 0.5, rng=1, maxtime=0.25)
    assert time.monotonic() - began >= 0.25
    assert result.reasons == {"maxtime": 0.25}
    assert not result.success
    assert "0.25 seconds" in result.message
    assert result.nfev == fun.calls <= 13
    assert np.isfinite(result.fun)


def test_a_generation_that_maxtime_cut_short_is_finished_by_resume(tmp_path):
    cut = sl.minimize(Slow(0.03), np.ones(4), 0.5, rng=1, maxtime=0.1, popsize=50, store=tmp_path / "a.db")
    assert list(cut.reasons) == ["maxtime"]
    assert 0 < cut.nfev < 50
    fun = Slow(0.0)
    resumed = sl.resume(tmp_path / "a.db", fun, maxtime=1000, maxfevals=500, check=False)
    assert fun.calls == resumed.nfev - cut.nfev
    whole = sl.minimize(bowl, np.ones(4), 0.5, rng=1, popsize=50, maxfevals=500, store=tmp_path / "b.db")
    assert resumed.fun == whole.fun
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")


def test_maxtime_of_the_first_call_holds_for_each_resume(tmp_path):
    sl.minimize(Slow(0.03), np.ones(4), 0.5, rng=1, maxtime=0.1, store=tmp_path / "a.db")
    assert list(sl.resume(tmp_path / "a.db", Slow(0.03)).reasons) == ["maxtime"]


@pytest.mark.parametrize("wrong", [0, -1.0, float("inf"), float("nan")])
def test_maxtime_is_positive(wrong):
    with pytest.raises(ValueError, match="`maxtime` must be positive and finite"):
        sl.minimize(sphere, np.ones(2), 0.5, maxtime=wrong)


def test_a_sharded_run_has_maxtime_and_tolerances():
    def slow(X):
        time.sleep(0.05)
        return sphere(X)

    given = {"popsize": 40, "shards": 2, "rng": 1}
    assert list(sl.minimize_sharded(slow, np.ones(3), 0.5, maxtime=0.2, **given).reasons) == ["maxtime"]
    assert list(sl.minimize_sharded(sphere, np.ones(3), 0.5, tolx=1e-3, names=["a", "b", "c"], **given).reasons) == [
        "tolx"
    ]


# Names


def test_names_are_in_the_diagnosis():
    result = sl.minimize(
        lambda x: valley(x) + 0 * x[0], [0.0, 0.0], 1e-2, rng=1, names=["rate", "depth"], bounds=[(-9, 9), (-9, 4)]
    )
    sentences = " ".join(map(str, result.diagnosis))
    assert "depth at its upper bound 4" in sentences
    assert "x[" not in sentences


def test_names_are_in_the_history_and_the_curvature():
    opt = sl.Optimizer([1.0, 1.0], 0.5, log_scaled=[True, False], names=("rate", "depth"), rng=1)
    assert opt.names == ("rate", "depth")
    assert sl.History(opt).names == ["ln rate", "depth"]
    result = sl.minimize(
        lambda x: (x[0] - 1) ** 2 + x[1] ** 2, [0.5, 0.5], 0.5, rng=1, names=["rate", "depth"], curvature=True
    )
    assert result.curvature.names == ("rate", "depth")
    assert sl.curvature(sphere, opt_after(), names=["p", "q"]).names == ("p", "q")


def opt_after():
    """An optimizer with names after some generations."""
    opt = sl.Optimizer([1.0, 1.0], 0.5, names=("rate", "depth"), rng=1)
    for _ in range(30):
        X = opt.ask()
        opt.tell(X, sphere(X))
    return opt


def test_names_are_in_shapes_from_ranks():
    assert sl.shape_from_ranks(sphere, opt_after(), rng=1).names == ("rate", "depth")


def test_names_are_in_the_file(tmp_path):
    names = ["rate", "tiefe μ", "value", "value_"]
    sl.minimize(sphere, np.ones(4), 0.5, rng=1, maxfevals=100, names=names, store=tmp_path / "a.db")
    run = sl.load(tmp_path / "a.db")
    assert run.result.history.names == names
    run.export(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8") as stream:
        assert next(csv.reader(stream)) == [
            "run",
            "iteration",
            "index",
            "value",
            "rate",
            "tiefe μ",
            "value_",
            "value__",
        ]
    resumed = sl.resume(tmp_path / "a.db", sphere, maxfevals=200)
    assert resumed.history.name(1) == "tiefe μ"


def test_a_start_outside_the_bounds_is_named():
    with pytest.raises(ValueError, match=r"x0\[1\] = 5 for the bounds 0 and 1 of depth"):
        sl.minimize(sphere, [0.5, 5.0], 0.5, bounds=(0, 1), names=["rate", "depth"])


@pytest.mark.parametrize(
    ("names", "error", "sentence"),
    [
        (["a"], ValueError, "each of the 2 variables, got 1"),
        (["a", "a"], ValueError, "must differ"),
        ("ab", TypeError, "each of the 2 variables, such as"),
        (7, TypeError, "each of the 2 variables"),
        (["a", "b\x1b[2J"], ValueError, "printable"),
        (["a", " "], ValueError, "printable"),
    ],
    ids=str,
)
def test_names_that_are_none_are_refused(names, error, sentence):
    with pytest.raises(error, match=sentence):
        sl.minimize(sphere, np.ones(2), 0.5, names=names)


# Bounds


@pytest.mark.parametrize("pair", [(0, 2), [0.0, 2.0], np.array([0, 2])], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_pair_of_bounds_is_for_all_variables(pair, d):
    given = {"rng": 1, "maxfevals": 200}
    one, each = (
        sl.minimize(lambda x: ellipsoid(np.append(x, 1.0) - 3), np.ones(d), 0.5, bounds=b, **given)
        for b in (pair, [(0, 2)] * d)
    )
    np.testing.assert_array_equal(one.x, each.x)
    assert one.x.max() <= 2


def test_one_pair_may_have_an_open_end():
    result = sl.minimize(lambda x: sphere(x + 1), np.ones(3), 0.5, bounds=(0, None), rng=1)
    np.testing.assert_allclose(result.x, 0, atol=1e-9)


# Keywords of others

SLIPS = {
    "sigma": "Did you mean `sigma0`",
    "seed": "Did you mean `rng`",
    "random_state": "Did you mean `rng`",
    "integer_variables": "`integrality`",
    "categories": "parameters of a `Space`",
    "cons": "Did you mean `constraints`",
    "n_jobs": "Did you mean `workers`",
    "popsize_factor": "Did you mean `popsize`",
    "population_size": "Did you mean `popsize`",
    "maxiters": "Did you mean `maxiter`",
    "options": "options are keyword arguments",
    "x_0": "Did you mean `x0`",
    "tol": "Did you mean `tolfun`",
    "xatol": "Did you mean `tolx`",
    "maxfev": "Did you mean `maxfevals`",
    "n_trials": "Did you mean `maxfevals`",
    "time_limit": "Did you mean `maxtime`",
    "verbose": "Did you mean `progress`",
    "jac": "derivatives are not used",
    "func": "Did you mean `fun`",
    "popsizee": "Did you mean `popsize`",
    "qwertz": "Keywords: fun, x0, sigma0",
}


@pytest.mark.parametrize("keyword", SLIPS)
def test_a_keyword_of_another_library_names_ours(keyword):
    with pytest.raises(
        TypeError, match=f"^minimize\\(\\) got an unexpected keyword argument '{keyword}'.*{SLIPS[keyword]}"
    ):
        sl.minimize(sphere, np.ones(2), 0.5, **{keyword: 1})


def test_every_call_with_keywords_explains_them(tmp_path):
    for function in (sl.minimize, sl.minimize_sharded, sl.resume, sl.Optimizer):
        with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected keyword argument 'max_iter'"):
            function(sphere, np.ones(2), max_iter=5)


def test_a_keyword_is_never_explained_by_one_that_does_not_exist():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'n_jobs'. Keywords: x0, sigma0"):
        sl.Optimizer(np.ones(2), 0.5, n_jobs=2)


def test_a_warning_points_at_the_line_of_the_user():
    with pytest.warns(UserWarning, match="`vectorized` is ignored because `workers` is given") as warned:
        sl.minimize(sphere, np.ones(2), 0.5, vectorized=True, workers=map, maxfevals=20)
    assert warned[0].filename == __file__


def test_signatures_are_as_written():
    parameters = inspect.signature(sl.minimize).parameters
    assert list(parameters)[:3] == ["fun", "x0", "sigma0"]
    assert all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())


# The start


class Recorded:
    """A function that remembers its points, in the order of its calls."""

    def __init__(self, fun):
        self.fun, self.points = fun, []

    def __call__(self, x):
        """At a point, or at many."""
        self.points.extend(np.atleast_2d(x).tolist())
        return self.fun(x)


def needle(x):
    """A bowl around 0, and a hole at (3, 3) that a search does not find."""
    return np.where(np.all(np.asarray(x) == 3.0, axis=-1), -1.0, sphere(x))


@pytest.mark.parametrize(
    "given", [{}, {"workers": map}, {"vectorized": True}, {"bounds": (-4, 4)}, {"log_scaled": True}], ids=str
)
def test_a_result_is_never_worse_than_its_start(given):
    fun = Recorded(needle)
    result = sl.minimize(fun, [3.0, 3.0], 0.5, rng=1, maxfevals=150, **given)
    assert fun.points[0] == [3.0, 3.0]
    assert result.fun == -1.0
    assert result.x.tolist() == [3.0, 3.0]
    assert result.nfev == len(fun.points) <= 150
    assert result.diagnosis[0].name == "start_is_best"


@pytest.mark.parametrize(
    "given", [{}, {"restarts": 3, "maxfevals": 3000}, {"method": "lra-cma"}, {"bounds": [(-5, 5)] * 3}], ids=str
)
def test_the_search_does_not_depend_on_whether_its_start_is_evaluated(given):
    runs = [Recorded(lambda x: rastrigin(x) + needle(x[..., :2] + 0.8)) for _ in range(2)]
    given = {"maxfevals": 300_000} | given
    on, off = (
        sl.minimize(fun, [2.2] * 3, 0.5, rng=1, evaluate_x0=x0, **given | {"maxfevals": given["maxfevals"] + x0})
        for fun, x0 in zip(runs, (True, False), strict=True)
    )
    assert runs[0].points == [[2.2] * 3, *runs[1].points]
    assert (on.nit, on.nfev, on.restarts) == (off.nit, off.nfev + 1, off.restarts)
    endings = [dict(run.reasons) for run in on.history.runs]
    if "maxfevals" in endings[-1]:
        endings[-1]["maxfevals"] -= 1  # that of the start
    assert endings == [run.reasons for run in off.history.runs]
    np.testing.assert_array_equal(on.mean, off.mean)


@pytest.mark.parametrize(
    ("given", "is_evaluated"),
    [
        ({}, True),
        ({"popsize": 6}, True),
        ({"vectorized": True}, True),
        ({"vectorized": True, "popsize": 6}, False),
        ({"vectorized": True, "popsize": 6, "evaluate_x0": True}, True),
        ({"x0": lambda rng: rng.uniform(0, 1, 2)}, False),
        ({"x0": lambda rng: rng.uniform(0, 1, 2), "evaluate_x0": True}, True),
        ({"x0": [0.5, 0.5], "method": "pbil", "sigma0": None}, False),
    ],
)
def test_the_start_is_evaluated_where_there_is_room_for_it(given, is_evaluated):
    fun = Recorded(sphere)
    given = {"x0": [1.0, 1.0], "sigma0": 0.5, "maxiter": 1, "rng": 1} | given
    result = sl.minimize(fun, given.pop("x0"), given.pop("sigma0"), **given)
    assert result.nfev == len(fun.points) == 6 + is_evaluated
    assert result.history["nfev"].tolist() == [6 + is_evaluated]


def test_a_start_that_is_good_enough_ends_the_search():
    result = sl.minimize(needle, [3.0, 3.0], 0.5, rng=1, ftarget=-0.5)
    assert (list(result.reasons), result.nit, result.success) == (["ftarget"], 1, True)


def test_a_start_that_fails_does_no_harm():
    result = sl.minimize(lambda x: np.nan if x[0] == 1 else sphere(x), np.ones(2), 0.5, rng=1)
    assert result.success
    assert len(result.failures) == 1


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"evaluate_x0": 1}, TypeError, "`evaluate_x0` must be True or False"),
        (
            {"evaluate_x0": True, "maxfevals": 6, "popsize": 6, "vectorized": True},
            ValueError,
            r"`popsize` \+ 1 = 7 evaluations",
        ),
        ({"evaluate_x0": True, "method": "pbil", "sigma0": None}, ValueError, "holds probabilities"),
    ],
    ids=str,
)
def test_a_start_that_cannot_be_evaluated_is_refused(given, error, sentence):
    with pytest.raises(error, match=sentence):
        sl.minimize(sphere, [0.5, 0.5], given.pop("sigma0", 0.5), **given)


@pytest.mark.parametrize("maxtime", [None, 0.12])
def test_a_start_is_stored_and_not_evaluated_again(tmp_path, maxtime):
    first = Slow(0.05 if maxtime else 0.0)
    begun = sl.minimize(first, np.ones(3), 0.5, rng=1, maxtime=maxtime, maxfevals=40, store=tmp_path / "a.db")
    assert (begun.nit == 0) == (maxtime is not None)
    second = Slow(0.0)
    resumed = sl.resume(tmp_path / "a.db", second, maxtime=1000, maxfevals=300, check=False)
    whole = sl.minimize(bowl, np.ones(3), 0.5, rng=1, maxfevals=300, store=tmp_path / "b.db")
    assert (resumed.fun, resumed.nfev) == (whole.fun, whole.nfev) == (whole.fun, first.calls + second.calls)
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")
    run = sl.load(tmp_path / "a.db")
    assert run.points[0].tolist() == [1.0, 1.0, 1.0]
    assert run.values.size == run.result.nfev == whole.nfev
    assert run.result.history.runs[0].popsize == 7


def test_a_stored_run_that_was_cut_short_is_worth_its_start(tmp_path):
    sl.minimize(needle, [3.0, 3.0], 0.5, rng=1, maxfevals=40, store=tmp_path / "a.db")
    assert sl.load(tmp_path / "a.db").result.fun == -1.0
    assert sl.resume(tmp_path / "a.db", needle, maxfevals=80).x.tolist() == [3.0, 3.0]


def test_processes_evaluate_the_start_too():
    serial = sl.minimize(sphere, np.ones(2), 0.5, rng=1, maxfevals=30)
    parallel = sl.minimize(sphere, np.ones(2), 0.5, rng=1, maxfevals=30, workers=2)
    assert (parallel.nfev, parallel.fun) == (serial.nfev, serial.fun) == (30, serial.fun)


def test_scipy_methods_are_never_worse_than_their_start():
    result = scipy.optimize.minimize(needle, [3.0, 3.0], method=sl.scipy_method, options={"sigma0": 0.5, "rng": 1})
    assert result.fun == -1.0


@pytest.mark.parametrize("given", [[0], [0, 0], [1, 0], "rate", [True, False, True]], ids=str)
def test_log_scaled_takes_a_flag_for_each_variable_and_no_indices(given):
    """An index 0 is false: without an error, nothing would be log-scaled."""
    with pytest.raises(TypeError, match="`log_scaled` must be True or False for each variable"):
        sl.minimize(lambda x: float(x @ x), [1.0, 1.0], 0.5, log_scaled=given)
