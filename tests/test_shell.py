"""The shell around a run: workers, progress, Ctrl-C, what results carry, warm starts, and the way in from SciPy."""

from __future__ import annotations

import copy
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, OptimizeWarning

import sublevel as sl
from sublevel.evaluation import evaluators, processes
from sublevel.run import termination
from sublevel.run.history import SNAPSHOTS
from sublevel.run.progress import Progress, duration

INF = float("inf")


def sphere(x, centre=0.0):
    """Sum of squares around a centre, of a point or of rows."""
    return np.sum(np.square(x - centre), axis=-1)


def ellipsoid(x):
    """Condition number 1e4."""
    return np.square(x) @ 10.0 ** (4 * np.arange(x.shape[-1]) / (x.shape[-1] - 1))


# Objectives for worker processes, which have to find them in this module.


def raises_beyond(limit, x):
    if x[0] < limit:
        raise ArithmeticError(f"too far: {x[0]}")
    return sphere(x)


def wants_two(limit, x):
    if x[0] < limit:
        raise NeedsTwo(1, 2)
    return sphere(x)


class NeedsTwo(Exception):
    """An exception that cannot be made again from its text."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def writes(x):
    x[0] = 0.0


# ---------------------------------------------------------------------------------------------------- workers


@pytest.mark.parametrize("workers", [2, ThreadPoolExecutor(3).map, map], ids=["processes", "threads", "map"])
def test_workers_change_nothing_but_the_time(workers):
    alone = sl.minimize(sphere, np.ones(3), 0.5, args=(0.3,), rng=1, maxiter=25)
    helped = sl.minimize(sphere, np.ones(3), 0.5, args=(0.3,), rng=1, maxiter=25, workers=workers)
    assert helped.x.tobytes() == alone.x.tobytes()
    assert helped.cov.tobytes() == alone.cov.tobytes()
    assert (helped.nfev, helped.reasons) == (alone.nfev, alone.reasons)


@pytest.mark.parametrize(
    ("workers", "fun", "kind"),
    [
        (ThreadPoolExecutor(2).map, raises_beyond, ArithmeticError),
        (2, raises_beyond, ArithmeticError),
        (2, wants_two, RuntimeError),
    ],
)
def test_an_exception_in_a_worker_arrives_with_the_point_and_the_work_done(workers, fun, kind):
    with pytest.raises(kind, match=r"too far|NeedsTwo: 1 and 2") as caught:
        sl.minimize(partial(fun, 0.3), [3.0, 3.0], 0.5, rng=1, workers=workers)
    expected = sl.Optimizer([3.0, 3.0], 0.5, rng=1)
    while not np.any((X := expected.ask())[:, 0] < 0.3):
        expected.tell(X, sphere(X))
    assert expected.nfev > 0
    assert any(
        np.array_equal(caught.value.sublevel_x, x) for x in X[X[:, 0] < 0.3]
    )  # several may raise at the same time
    assert any("raised at x = [" in note for note in caught.value.__notes__)
    result = caught.value.sublevel_result
    assert expected.nfev < result.nfev <= expected.nfev + len(X)  # the start is one more
    assert list(result.reasons) == ["interrupted"]


def test_a_worker_cannot_change_its_point_either():
    with pytest.raises(ValueError, match="read-only"):
        sl.minimize(writes, np.zeros(2), 0.5, workers=2)


def test_what_cannot_be_sent_to_a_process_is_refused_before_the_first_evaluation():
    with pytest.raises(TypeError, match=r"top level of a module.*ThreadPoolExecutor"):
        sl.minimize(lambda x: 0.0, np.zeros(2), 0.5, workers=2)


def test_minus_one_is_a_process_on_each_core(monkeypatch):
    asked = []
    monkeypatch.setattr(evaluators, "available_cores", lambda: 7)
    monkeypatch.setattr(processes, "ProcessPool", lambda fun, count, *_: asked.append(count) or Mock())
    evaluators.make_evaluator(sphere, False, -1)
    assert asked == [7]


@pytest.mark.parametrize(
    ("workers", "kind"), [(0, ValueError), (-2, ValueError), (True, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_workers_that_make_no_sense_are_refused(workers, kind):
    with pytest.raises(kind, match=r"`workers`.*per core.*like `map`"):
        sl.minimize(sphere, np.zeros(2), 0.5, workers=workers)


def test_vectorized_is_ignored_with_workers():
    seen = []
    with pytest.warns(UserWarning, match="`vectorized` is ignored"):
        sl.minimize(
            lambda x: seen.append(x.shape) or sphere(x), np.zeros(2), 0.5, vectorized=True, workers=map, maxiter=1
        )
    assert set(seen) == {(2,)}


def test_a_map_that_loses_values_is_refused_with_the_sample():
    with pytest.raises(ValueError, match="must return 7 values") as caught:
        sl.minimize(sphere, np.zeros(2), 0.5, workers=lambda fun, points: [fun(point) for point in points[1:]])
    assert caught.value.sublevel_x.shape == (7, 2)  # the start and six others


def test_a_map_that_fails_itself_is_blamed_with_the_sample():
    def broken(fun, points):
        raise OSError("no cluster")

    with pytest.raises(OSError, match="no cluster") as caught:
        sl.minimize(sphere, np.zeros(2), 0.5, workers=broken)
    assert caught.value.sublevel_x.shape == (7, 2)


# ---------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("vectorized", [False, True])
def test_an_interrupt_during_evaluation_returns_the_best_so_far(vectorized):
    values = []

    def fun(x):
        if len(values) == 20:
            signal.raise_signal(signal.SIGINT)
        values.append(sphere(x))
        return values[-1]

    result = sl.minimize(fun, np.ones(2), 0.5, popsize=6, rng=1, vectorized=vectorized)
    assert (list(result.reasons), result.success, result.status) == (
        ["interrupted"],
        False,
        termination.KINDS["interrupted"].status,
    )
    assert result.fun == np.min(values)
    assert result.fun == sphere(result.x)
    assert "interrupted in iteration" in result.message
    assert result.nfev == (120 if vectorized else 20)


def test_an_interrupt_in_the_callback_returns_too():
    def callback(intermediate_result):
        if intermediate_result.nit == 4:
            raise KeyboardInterrupt

    result = sl.minimize(sphere, np.ones(2), 0.5, callback=callback)
    assert (result.nit, result.reasons) == (4, {"interrupted": 5.0})


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
def test_ctrl_c_ends_workers_at_once_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\ndef fun(x):\n    time.sleep(60 if x[0] > 0 else 0)\n    return float(x @ x)\n"
    )
    script = """
        import slow, sublevel as sl
        if __name__ == "__main__":
            announce = lambda r: print("running", flush=True)
            result = sl.minimize(slow.fun, [-3.0, 1.0], 0.5, workers=2, rng=1, callback=announce)
            print(list(result.reasons), result.fun < 20, flush=True)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, complained = process.communicate(timeout=20)  # ends when the last process has let go of the pipes
    finally:
        process.kill()
    assert said.splitlines()[-1] == "['interrupted'] True"
    assert complained == ""


# ---------------------------------------------------------------------------------------------------- progress


class Stream(io.StringIO):
    """A terminal, or not."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def shown(monkeypatch, *, terminal, tqdm, **settings):
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    result = sl.minimize(ellipsoid, np.ones(4), 0.5, rng=1, progress=True, **settings)
    return result, stream.getvalue()


@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_is_one_line_that_changes_on_a_terminal(monkeypatch, tqdm):
    monkeypatch.setattr("sublevel.run.progress.EVERY", 0.0)
    monkeypatch.setattr("sublevel.run.progress.SHARE", INF)
    result, text = shown(monkeypatch, terminal=True, tqdm=tqdm, maxfevals=200)
    assert text.count("\n") <= 1
    assert text.count("\r") > 5
    last = text.split("\r")[-1]
    assert " s left" in text
    for words in ("evaluations", "best", "std", "axis ratio"):
        assert words in last
    assert f"{result.nfev} evaluations, best {result.fun:.8g}" in last


def test_progress_elsewhere_is_a_line_at_the_end(monkeypatch):
    result, text = shown(monkeypatch, terminal=False, tqdm=True, maxfevals=200)
    assert text.splitlines() == [line for line in text.splitlines() if line.startswith(f"{result.nfev} evaluations")]
    assert len(text.splitlines()) == 1


def test_nothing_is_shown_unasked(capfd):
    sl.minimize(sphere, np.ones(2), 0.5, maxiter=3)
    assert capfd.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then_with_the_time_left():
    now, stream = [0.0], Stream(False)
    progress = Progress(1000, stream, clock=lambda: now[0])
    opt = sl.Optimizer(np.ones(4), 0.5, popsize=10, rng=1)
    for _ in range(50):
        X = opt.ask()
        opt.tell(X, sphere(X))
        now[0] += 1.0
        progress.update(opt)
    progress.end(opt)
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["300", "500"]
    assert lines[0].endswith("70 s left")
    assert "left" not in lines[1]


def test_showing_takes_a_small_share_of_the_time():
    """However slow a terminal, or an axis ratio, is."""
    now, shows = [0.0], []

    class Slow(Stream):
        def write(self, text):
            now[0] += 0.5
            shows.append(now[0])
            return len(text)

    progress = Progress(None, Slow(False), clock=lambda: now[0])
    opt = sl.Optimizer(np.ones(4), 0.5, popsize=10, rng=1)
    X = opt.ask()
    opt.tell(X, sphere(X))
    while now[0] < 1000:
        now[0] += 1.0
        progress.update(opt)
    assert 0.5 * len(shows) < 0.02 * now[0]


def test_the_time_left_is_said_as_a_person_would():
    assert [duration(seconds) for seconds in (0.2, 99, 600, 7200, 1e9, INF)] == [
        "0 s",
        "99 s",
        "10 min",
        "2 h",
        "days",
        "days",
    ]


def test_progress_is_a_flag():
    with pytest.raises(TypeError, match="`progress`"):
        sl.minimize(sphere, np.ones(2), 0.5, progress="yes")


# ---------------------------------------------------------------------------------------------------- results and
# histories


def test_a_result_can_be_copied_and_pickled_and_shows_what_it_has():
    result = sl.minimize(ellipsoid, np.ones(4), 0.5, rng=1, bounds=[(-2, 2)] * 4, restarts=1, maxfevals=3000)
    for twin in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert isinstance(twin, sl.Result)
        np.testing.assert_array_equal(twin.history.trace().mean, result.history.trace().mean)
    assert {"x", "diagnosis", "plot"} <= set(dir(result))
    assert isinstance(result, OptimizeResult)


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "ngd"])
def test_snapshots_are_what_the_callback_saw(method):
    seen = {}
    result = sl.minimize(
        ellipsoid,
        np.ones(4),
        0.5,
        rng=1,
        method=method,
        maxiter=60,
        callback=lambda r: seen.update({r.nfev: (r.mean, r.cov)}),
    )
    trace = result.history.trace()
    assert (trace.nfev[0], trace.nfev[-1]) == (0, result.nfev)
    np.testing.assert_array_equal(trace.mean[0], np.ones(4))
    for nfev, mean, deviations, axes in list(zip(trace.nfev, trace.mean, trace.deviations, trace.axes, strict=True))[
        1:
    ]:
        np.testing.assert_array_equal(mean, seen[nfev][0])
        np.testing.assert_allclose(deviations**2, np.diag(seen[nfev][1]))
        np.testing.assert_allclose(axes**2, np.linalg.eigvalsh(seen[nfev][1])[::-1])
    np.testing.assert_allclose(trace.axis_ratio, trace.axes.max(axis=1) / trace.axes.min(axis=1))
    np.testing.assert_allclose(np.log(trace.sigma), np.log(trace.axes).mean(axis=1))


def test_snapshots_stay_few_and_evenly_spread():
    opt = sl.Optimizer(np.ones(2), 0.5, popsize=4, rng=1)
    history = sl.History(opt)
    for _ in range(3000):
        X = opt.ask()
        opt.tell(X, np.cos(3 * X[:, 0]) + np.sin(X[:, 1]))  # never mind where it goes
        history.record(opt)
    nfev = history.trace().nfev
    assert SNAPSHOTS[1] / 3 < len(nfev) <= SNAPSHOTS[1] + 1
    assert np.diff(nfev).max() <= 4 * 3000 * 4 / SNAPSHOTS[1]
    assert len(history) == 3000


def test_large_distributions_are_kept_less_often():
    opt = sl.Optimizer(np.ones(400), 0.5, rng=1)
    history = sl.History(opt)
    for _ in range(60):
        X = opt.ask()
        opt.tell(X, sphere(X))
        history.record(opt)
    assert len(history.snapshots) * 400**2 < 5e6


def test_a_history_knows_its_runs():
    result = sl.minimize(sphere, np.ones(3), 0.5, rng=1, restarts=2)
    runs = result.history.runs
    assert len(runs) == 3 == result.restarts + 1
    assert [run.popsize for run in runs] == [7, 14, 28]
    assert [list(run.reasons) for run in runs] == [["tolx"]] * 3
    assert min(run.fun for run in runs) == result.fun
    assert (runs[0].rows.start, runs[-1].rows.stop) == (0, result.nit)
    assert set(result.history.trace().run) == {0, 1, 2}


def test_a_history_of_bounded_and_fixed_variables_is_in_the_users_space():
    box = [(0.5, 2.0), (1.0, 1.0), (1e-3, 10.0)]
    result = sl.minimize(sphere, [1.0, 1.0, 1.0], 0.4, rng=1, bounds=box, log_scaled=[False, False, True], maxiter=40)
    trace = result.history.trace()
    assert (trace.mean.shape[1], trace.deviations.shape[1], trace.axes.shape[1]) == (3, 2, 2)
    assert np.all((trace.mean >= [0.5, 1.0, 1e-3]) & (trace.mean <= [2.0, 1.0, 10.0]))
    np.testing.assert_allclose(trace.mean[-1], result.mean)


def test_a_run_that_ends_before_its_first_generation_has_a_history_too():
    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(lambda x: 1 / 0, np.ones(2), 0.5)
    result = caught.value.sublevel_result
    assert (len(result.history), result.diagnosis, len(result.history.snapshots)) == (0, [], 1)
    assert np.isnan(result.history.runs[0].fun)


# ---------------------------------------------------------------------------------------------------- warm start


def test_warm_start_is_the_distribution_of_the_best():
    rng = np.random.default_rng(1)
    points = rng.uniform(size=(300, 3))
    points[:2] = [[0, 0, 0], [1, 1, 1]]
    values = ellipsoid(points - 0.4)
    best = points[np.argsort(values)[:30]]
    x0, sigma0, cov0 = sl.warm_start(points, values)
    cov = np.cov(best.T, bias=True) + 0.1**2 * np.eye(3)  # Nomura et al. 2021, eq. 7
    np.testing.assert_allclose(x0, best.mean(axis=0))
    np.testing.assert_allclose(sigma0[:, None] * cov0 * sigma0, cov)
    np.testing.assert_allclose(np.diag(cov0), 1.0)


def test_warm_start_is_that_of_cmaes_on_the_unit_box():
    cmaes = pytest.importorskip("cmaes")
    points = np.random.default_rng(1).uniform(size=(200, 4))
    points[:2] = [[0] * 4, [1] * 4]
    values = sphere(points, 0.4)
    mean, sigma, cov = cmaes.get_warm_start_mgd(list(zip(points, values, strict=True)))
    x0, sigma0, cov0 = sl.warm_start(points, values)
    np.testing.assert_allclose(x0, mean)
    np.testing.assert_allclose(sigma0[:, None] * cov0 * sigma0, sigma**2 * cov)


def test_warm_start_does_not_notice_units():
    points, values = np.random.default_rng(1).uniform(size=(50, 3)), np.random.default_rng(2).uniform(size=50)
    plain = sl.warm_start(points, values)
    scale, shift = np.array([1e-3, 1.0, 1e6]), np.array([5.0, -1.0, 0.0])
    scaled = sl.warm_start(points * scale + shift, np.exp(values))
    np.testing.assert_allclose(scaled.x0, plain.x0 * scale + shift)
    np.testing.assert_allclose(scaled.sigma0, plain.sigma0 * scale)
    np.testing.assert_allclose(scaled.cov0, plain.cov0, atol=1e-12)


def test_warm_start_knows_logarithms_and_failures():
    points = np.exp(np.random.default_rng(1).normal(size=(60, 2)))
    values = sphere(np.log(points), 0.5)
    values[np.argsort(values)[:3]] = [np.nan, INF, np.nan]
    x0, sigma0, _ = sl.warm_start(points, values, log_scaled=True)
    in_logs = sl.warm_start(np.log(points), values)
    np.testing.assert_allclose(np.log(x0), in_logs.x0)
    np.testing.assert_allclose(sigma0, in_logs.sigma0)


def test_a_warm_start_saves_evaluations():
    def fun(x):
        return ellipsoid(x - 3.0)

    def spent(*start, seed, **settings):
        return sl.minimize(fun, *start, rng=seed, ftarget=1e-6, vectorized=True, **settings).nfev

    tried = np.random.default_rng(1).uniform(-5, 5, (400, 5))
    x0, sigma0, cov0 = sl.warm_start(tried, ellipsoid(tried - 2.9))  # a similar problem
    warm = np.mean([spent(x0, sigma0, seed=seed, cov0=cov0) for seed in range(41)])
    cold = np.mean([spent(np.zeros(5), 10 / 3, seed=seed) for seed in range(41)])
    assert warm < 0.95 * cold  # about 0.90 ± 0.02


@pytest.mark.parametrize(
    ("points", "values", "settings", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], {}, r"shape \(n, d\)"),
        ([[1.0, 2.0]], [1.0], {}, "two or more rows"),
        ([[1.0], [2.0]], [1.0], {}, "one number per point"),
        ([[1.0], [2.0]], [np.nan, INF], {}, "none of the 2"),
        ([[1.0], [2.0]], [1.0, 2.0], {"gamma": 0.0}, "`gamma`"),
        ([[1.0], [2.0]], [1.0, 2.0], {"alpha": 2.0}, "`alpha`"),
        ([[1.0, 5.0], [2.0, 5.0]], [1.0, 2.0], {}, r"\[1\] are constant"),
        ([[-1.0], [2.0]], [1.0, 2.0], {"log_scaled": True}, "positive"),
    ],
)
def test_warm_start_says_what_is_wrong(points, values, settings, words):
    with pytest.raises(ValueError, match=words):
        sl.warm_start(points, values, **settings)


# ---------------------------------------------------------------------------------------------------- a method of SciPy


def by_scipy(fun, x0, **settings):
    return scipy.optimize.minimize(fun, x0, method=sl.scipy_method, **settings)


def test_scipy_runs_the_same_search():
    ours = sl.minimize(sphere, np.ones(3), 0.5, args=(0.2,), rng=1, maxfevals=300)
    theirs = by_scipy(sphere, np.ones(3), args=(0.2,), options={"sigma0": 0.5, "maxfevals": 300, "rng": 1})
    assert theirs.x.tobytes() == ours.x.tobytes()
    assert (theirs.nfev, theirs.message) == (ours.nfev, ours.message)


@pytest.mark.parametrize("bounds", [[(-2, 2), (0, 6), (1, 1)], Bounds([-2, 0, 1], [2, 6, 1])])
def test_sigma0_is_a_third_of_the_box_unless_given(bounds):
    ours = sl.minimize(sphere, np.ones(3), [4 / 3, 2.0, 1 / 3], bounds=bounds, rng=1, maxiter=20)
    theirs = by_scipy(sphere, np.ones(3), bounds=bounds, options={"maxiter": 20, "seed": 1})
    assert theirs.x.tobytes() == ours.x.tobytes()


SETTINGS = {
    "box": ({"bounds": [(-2, 2), (0, 6)]}, [4 / 3, 2.0]),
    "one pair": ({"bounds": (0, 6)}, [2.0, 2.0]),
    "fixed variable": ({"bounds": [(0, 6), (1, 1)]}, [2.0, 1.0]),
    "log scale": ({"bounds": [(1e-3, 1e3), (0, 6)], "log_scaled": [True, False]}, [np.log(1e6) / 3, 2.0]),
    "integer": ({"bounds": [(0, 6), (0, 5)], "integrality": [0, 1]}, [2.0, 2.0]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_sigma0_is_a_third_of_a_finite_box_by_default(name, tmp_path):
    settings, deviations = SETTINGS[name]
    given = {"rng": 1, "maxfevals": 200} | settings
    options = {name: value for name, value in given.items() if name != "bounds"}
    expected = sl.minimize(sphere, np.ones(2), deviations, **given)
    searches = {
        "minimize": sl.minimize(sphere, np.ones(2), **given),
        "stored": sl.minimize(sphere, np.ones(2), store=tmp_path / "run.db", **given | {"maxfevals": 100}),
        "scipy": by_scipy(sphere, np.ones(2), bounds=settings["bounds"], options=options),
    }
    searches["stored"] = sl.resume(tmp_path / "run.db", sphere, maxfevals=200)
    for how, found in searches.items():
        assert found.x.tobytes() == expected.x.tobytes(), how
        assert found.nfev == expected.nfev, how


def test_sharded_searches_have_the_same_default():
    given = {"bounds": (-2, 2), "popsize": 100, "rng": 1, "maxiter": 5}
    found, expected = (
        sl.minimize_sharded(lambda X: np.sum(X**2, axis=1), np.ones(3), *sigma0, **given) for sigma0 in ([], [4 / 3])
    )
    assert found.x.tobytes() == expected.x.tobytes()


@pytest.mark.parametrize(
    "settings", [{}, {"bounds": [(0, None), (0, 1)]}, {"bounds": (0, 2), "log_scaled": True}], ids=str
)
def test_without_a_finite_box_sigma0_is_missing(settings):
    with pytest.raises(TypeError, match=r"`sigma0` is missing.*about a third of the search range"):
        sl.minimize(sphere, np.ones(2), **settings)


@pytest.mark.parametrize("bounds", [None, [(0, None), (0, 1)]])
def test_without_a_box_sigma0_is_asked_for(bounds):
    with pytest.raises(ValueError, match=r'options={"sigma0"'):
        by_scipy(sphere, np.full(2, 0.5), bounds=bounds)


def test_what_other_methods_need_is_ignored():
    result = by_scipy(
        sphere, np.ones(3), jac=lambda x: 2 * x, hess="2-point", options={"sigma0": 0.5, "maxfev": 71, "seed": 1}
    )
    assert result.nfev == 71


def test_an_option_that_nobody_knows_is_named():
    with pytest.warns(OptimizeWarning, match="maxfevls"):
        by_scipy(sphere, np.ones(2), options={"sigma0": 0.5, "maxfevls": 100, "maxiter": 2})


def test_constraints_are_refused():
    with pytest.raises(ValueError, match="constraints"):
        by_scipy(sphere, np.ones(2), constraints=LinearConstraint([[1, 1]], 0, 1), options={"sigma0": 0.5})


def test_both_kinds_of_callback_work():
    seen = []

    def new(intermediate_result):
        seen.append(intermediate_result.fun)
        if len(seen) == 3:
            raise StopIteration

    assert by_scipy(sphere, np.ones(2), callback=new, options={"sigma0": 0.5}).nit == 3
    points = []
    by_scipy(sphere, np.ones(2), callback=lambda xk: points.append(xk), options={"sigma0": 0.5, "maxiter": 4})
    assert [point.shape for point in points] == [(2,)] * 4


def test_bits_need_no_sigma0():
    result = by_scipy(np.sum, np.full(5, 0.5), options={"method": "pbil", "popsize": 20, "ftarget": 0, "rng": 1})
    assert result.success


def test_the_package_is_usable_without_optional_packages():
    script = (
        "import sys; sys.modules.update(matplotlib=None, tqdm=None)\nimport sublevel as sl, sublevel.cli.main\n"
        "sl.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, progress=True, maxiter=3)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=Path(__file__).parent)


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("way", ["closed", "write", "isatty"])
def test_a_stream_that_raises_ends_the_progress_line_and_not_the_run(is_terminal, way, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            if way == "isatty":
                raise RuntimeError("not asked")
            return is_terminal

        def write(self, text):
            if way == "write":
                raise RuntimeError("not written")
            return super().write(text)

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    close = stream.close if way == "closed" else lambda: None
    result = sl.minimize(lambda x: close() or float(x @ x), [1.0, 1.0], 0.3, rng=1, maxiter=3, progress=True)
    assert result.nit == 3
