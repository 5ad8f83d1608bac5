"""Runs with a surrogate: the same path for f and any increasing transform of f, fewer evaluations, and no surprises."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import sublevel as sl
from helpers.cases import PARTS
from sublevel.engine.families import FAMILIES
from sublevel.engine.method import Method
from sublevel.store.fingerprint import fingerprint
from sublevel.surrogate.control import begin_generation, tuning_for
from sublevel.surrogate.model import uncertainty
from sublevel.surrogate.partial import MOST_VARIABLES


def ellipsoid(x):
    return float(np.sum(10.0 ** (6 * np.arange(x.size) / max(x.size - 1, 1)) * x**2)) + 1e-3


def rosenbrock(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)) + 1e-3


def wavy(x):
    return float(np.sum(x**2 + np.sin(9 * x)))


def log_ellipsoid(x):
    return ellipsoid(np.log(x))


class Ranks:
    """The rank of a value among all values of a table: the coarsest transform that keeps their order."""

    def __init__(self, values):
        self.values = np.unique(values)

    def __call__(self, value):
        return float(np.searchsorted(self.values, value))


def compares_generations(method):
    return any(transform.compares_generations for transform in method.transforms)


TRANSFORMS = {
    "root": lambda f: f**0.25,
    "log": np.log,
    "exp": lambda f: np.exp(f * 2.0**-22),
    "inverse": lambda f: -1 / f,
}
CONFIGURATIONS = {
    "plain": {"fun": rosenbrock},
    "bounds": {"fun": ellipsoid, "bounds": (0.5, 2.0)},
    "log scale": {"fun": log_ellipsoid, "log_scaled": True, "bounds": (0.1, 10.0)},
    **{f"{prefix}cma": {"fun": ellipsoid, "method": f"{prefix}cma"} for prefix in FAMILIES if prefix},
    **{method.name: {"fun": ellipsoid, "method": method} for method in PARTS if not compares_generations(method)},
    "xnes": {"fun": ellipsoid, "method": "xnes"},
    "four at a time": {"fun": rosenbrock, "surrogate": 4},
    "four at a time, with steps of the model": {"fun": ellipsoid, "surrogate": 4, "maxfevals": 160},
    "four at a time within bounds": {"fun": ellipsoid, "surrogate": 4, "maxfevals": 160, "bounds": (0.5, 2.0)},
    "restarts": {"fun": lambda x: ellipsoid(x) + 1e7, "restarts": 2, "tolx": 0.1},
}


def run(fun, transform=lambda f: f, **options):
    """All points that were evaluated, and the result."""
    points = []

    def called(x):
        points.append(x.copy())
        return transform(fun(x))

    chosen = {"rng": 5, "maxfevals": 100, "surrogate": True, **options}
    return points, sl.minimize(called, np.full(4, 1.5), 0.3, **chosen)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_path_does_not_depend_on_an_increasing_transform(name):
    options = CONFIGURATIONS[name]
    points, result = run(**options)
    assert result.history["agreement"].max() > 0.8
    values = [options["fun"](x) for x in points]
    for transform in [*TRANSFORMS.values(), Ranks(values)]:
        assert len(np.unique([transform(f) for f in values])) == len(np.unique(values))
        others, _ = run(transform=transform, **options)
        assert np.array(others).tobytes() == np.array(points).tobytes()


def test_a_transform_that_does_not_keep_the_order_changes_the_path():
    """The negative control of the law above."""
    points, _ = run(rosenbrock)
    others, _ = run(rosenbrock, transform=lambda f: abs(f - 0.7))
    assert np.array(others).tobytes() != np.array(points).tobytes()


@pytest.mark.parametrize("method", [method for method in PARTS if compares_generations(method)], ids=lambda m: m.name)
def test_rules_that_compare_generations_are_refused(method):
    with pytest.raises(ValueError, match="compares values of two generations"):
        run(ellipsoid, method=method)


@pytest.mark.parametrize("prefix", [prefix for prefix in FAMILIES if prefix])
def test_a_family_that_cannot_follow_the_model_does_not_diverge(prefix, monkeypatch):
    """The minimiser of the model is not a point of the sample then: it would lengthen every step."""
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0]

    def widest():
        _, result = run(lambda x: ellipsoid(turn @ x), method=f"{prefix}cma", maxfevals=800)
        assert "diverged" not in result.reasons
        return np.max(result.history["deviation"])

    assert widest() < 10.0
    monkeypatch.setattr("sublevel.surrogate.control.is_restricted", lambda *of: False)
    assert widest() > 1e4  # the control


@pytest.mark.parametrize(("fun", "factor"), [(ellipsoid, 4.0), (rosenbrock, 2.5)])
def test_it_takes_fewer_evaluations(fun, factor):
    options = {"ftarget": 1e-3 + 1e-8, "maxfevals": 10_000, "rng": 3}
    x0 = np.zeros(5) if fun is rosenbrock else np.ones(5)
    plain, modelled = (sl.minimize(fun, x0, 0.3, surrogate=s, **options) for s in (False, True))
    assert plain.success
    assert modelled.success
    assert plain.nfev > factor * modelled.nfev


def test_only_true_evaluations_count():
    points, result = run(ellipsoid)
    values = [ellipsoid(x) for x in points]
    assert result.nfev == len(points) == 100
    assert result.fun == min(values)
    assert_array_equal(result.x, points[int(np.argmin(values))])
    per_generation = np.diff(result.history["nfev"])
    popsize = result.history.runs[0].popsize
    assert per_generation.min() == 1
    assert per_generation.max() <= popsize
    spent = result.history["nfev"][-1] - 1  # without the start
    assert result.surrogate.saved == result.nit * popsize - spent


def test_the_model_of_a_quadratic_is_its_shape():
    result = sl.minimize(
        ellipsoid, np.ones(4), 0.3, rng=2, surrogate=True, tolx=1e-6
    )  # before rounding decides the order
    assert result.success
    assert result.surrogate.agreement > 0.8
    truth = 10.0 ** (6 * np.arange(4) / 3)
    assert np.all(np.abs(np.log(np.diag(result.surrogate.hessian) / truth * truth.sum() / 4)) < np.log(5))
    assert "agreement" in repr(result.surrogate)


def test_results_without_a_surrogate_have_no_entry_of_it():
    result = sl.minimize(ellipsoid, np.ones(3), 0.3, rng=2, maxfevals=50)
    assert "surrogate" not in result
    assert "agreement" not in result.history.columns


def test_the_package_is_imported_on_first_use():
    code = (
        "import sys, sublevel as sl; sl.minimize(lambda x: x @ x, [1.0, 1.0], 0.5, maxfevals=20, rng=1);"
        "print([name for name in sys.modules if name.startswith('sublevel.surrogate')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_parts_of_a_generation_are_asked_and_told():
    opt = sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=True)
    counts = []
    while opt.nfev < 120:
        X = opt.ask()
        assert X is opt.ask()
        assert not X.flags.writeable
        counts.append(len(X))
        nfev = opt.nfev
        opt.tell(X, [ellipsoid(x) for x in X])
        assert opt.nfev == nfev + len(X)
    assert opt.popsize == 16
    assert counts[0] == 8
    assert min(counts) == 1
    with pytest.raises(RuntimeError, match="call `ask"):
        opt.tell(X, np.zeros(len(X)))


def test_points_are_told_in_any_order_and_again_after_an_error():
    straight, shuffled = (sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=True) for _ in range(2))
    for _ in range(30):
        X = straight.ask()
        values = np.array([ellipsoid(x) for x in X])
        straight.tell(X, values)
        Y = shuffled.ask()
        with pytest.raises(ValueError, match="one number per point"):
            shuffled.tell(Y, np.zeros(len(Y) + 1))
        shuffled.tell(Y[::-1], values[::-1])
    assert straight.ask().tobytes() == shuffled.ask().tobytes()


@pytest.mark.parametrize("at_a_time", [1, 2])
@pytest.mark.parametrize("twin", [copy.copy, lambda opt: pickle.loads(pickle.dumps(opt))])
def test_a_copy_goes_on_alike_also_within_a_generation(twin, at_a_time):
    opt, pending = sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=at_a_time), set()
    for step in range(25):
        X = opt.ask()
        opt.tell(X, [wavy(x) for x in X])
        other = twin(opt)
        pending.add(opt.partial.is_over)
        ahead = []
        for one in (twin(opt), other):
            for _ in range(3):
                Y = one.ask()
                one.tell(Y, [rosenbrock(x) for x in Y])
            ahead.append(one.ask())
        assert ahead[0].tobytes() == ahead[1].tobytes(), step
    assert pending == {True, False}


@pytest.mark.parametrize("at_a_time", [1, 4])
@pytest.mark.parametrize("nfev", [25, 61, 90])
def test_a_stored_run_goes_on_alike(nfev, at_a_time, tmp_path):
    options = {"restarts": 1, "tolx": 0.02, "surrogate": at_a_time}
    whole, other = tmp_path / "whole.db", tmp_path / "other.db"
    _, expected = run(ellipsoid, store=whole, maxfevals=1000, maxiter=120, **options)
    points, first = run(ellipsoid, store=other, maxfevals=nfev, maxiter=120, **options)
    assert first.nfev == nfev == len(points)
    result = sl.resume(other, ellipsoid, maxfevals=1000)
    assert fingerprint(whole) == fingerprint(other)
    assert_array_equal(result.x, expected.x)
    assert_array_equal(sl.load(other).result.history["agreement"], expected.history["agreement"])


class Deadly:
    """An objective whose process is killed at some call."""

    def __init__(self, fun, call):
        self.fun, self.left = fun, call

    def __call__(self, x):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(2e-4)
        return self.fun(x)


def run_and_kill(path, call):
    """Run or resume in a forked process that dies at this call of the objective; return whether it did."""
    child = os.fork()
    if child == 0:
        try:
            fun = Deadly(rosenbrock, call)
            if path.exists():
                sl.resume(path, fun, check=False)
            else:
                sl.minimize(fun, np.full(4, 1.5), 0.3, rng=5, maxiter=60, surrogate=True, store=path)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check_kills(tmp_path, kills, rng):
    run(rosenbrock, store=tmp_path / "whole.db", maxfevals=None, maxiter=60)
    path, done = tmp_path / "killed.db", 0
    while done < kills:
        died = run_and_kill(path, int(rng.integers(1, 60)))
        done += died
        if not died:
            assert fingerprint(path) == fingerprint(tmp_path / "whole.db")
            path.unlink()
    if path.exists():
        sl.resume(path, rosenbrock)
        assert fingerprint(path) == fingerprint(tmp_path / "whole.db")


def test_a_killed_run_goes_on_alike(tmp_path, rng):
    check_kills(tmp_path, 5, rng)


@pytest.mark.slow
def test_a_run_that_is_killed_fifty_times_goes_on_alike(tmp_path, rng):
    check_kills(tmp_path, 50, rng)


def test_workers_evaluate_as_many_points_at_a_time(tmp_path):
    serial = run(rosenbrock, surrogate=3, maxfevals=60)[1]
    parallel = sl.minimize(rosenbrock, np.full(4, 1.5), 0.3, rng=5, maxfevals=60, surrogate=True, workers=3)
    assert_array_equal(serial.x, parallel.x)
    assert_array_equal(serial.history["nfev"], parallel.history["nfev"])


def count_steps(fun, at_a_time, monkeypatch):
    """Steps of the method in each of 40 generations, and whether the model was trusted after it."""
    opt, steps, counts, trusted = sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=at_a_time), [], [], []
    tell = Method.tell

    def counted(*arguments):
        steps.append(1)
        return tell(*arguments)

    monkeypatch.setattr(Method, "tell", counted)
    while opt.nit < 40:
        X = opt.ask()
        opt.tell(X, [fun(x) for x in X])
        if steps:
            counts.append(len(steps))
            trusted.append(opt.partial.is_trusted(opt.run_state.surrogate))
            steps.clear()
    monkeypatch.undo()
    return np.array(counts), np.array(trusted)


def test_a_trusted_model_makes_a_further_step(monkeypatch):
    """Only if several points are evaluated at a time, and its predictions agreed with their values."""
    counts, trusted = count_steps(ellipsoid, 4, monkeypatch)
    assert_array_equal(counts, 1 + trusted)
    assert 10 < np.sum(trusted) < 40
    assert np.all(count_steps(ellipsoid, 1, monkeypatch)[0] == 1)
    noise = np.random.default_rng(1)
    assert np.all(count_steps(lambda x: noise.random(), 4, monkeypatch)[0] == 1)


@pytest.mark.parametrize("d", [2, 3, 7, 8])
def test_the_first_point_may_be_the_best_in_few_variables(d, rng):
    """The lowest q − 2.5 s in 3 to 7 variables, otherwise the largest s among the better three quarters by q."""
    opt = sl.Optimizer(np.ones(d), 0.3, rng=1, surrogate=True)
    for _ in range(40):
        X = opt.ask()
        opt.tell(X, [ellipsoid(x) for x in X])
    theta = opt.theta
    for _ in range(10):
        sample = theta.sample_at(rng.standard_normal((16, d)), None)
        _, candidates = begin_generation(opt.run_state.surrogate, theta, sample, None, 1, tuning_for(d))
        surrogate, z = candidates.surrogate, candidates.z
        archive, how = surrogate.archive, tuning_for(d).fits[surrogate.used]
        q, s = surrogate.model(z), np.sqrt(np.diag(uncertainty(z, theta.whiten(archive.x), archive.values, how)))
        better = np.argsort(q)[:12]
        expected = np.argmin(q - 2.5 * s) if 3 <= d < 8 else better[np.argmax(s[better])]
        assert_array_equal(candidates.asked, [expected])


def test_a_model_without_finite_coefficients_makes_no_step():
    opt = sl.Optimizer(np.ones(3), 0.3, rng=1, surrogate=4)
    while not opt.partial.is_trusted(opt.run_state.surrogate):
        X = opt.ask()
        opt.tell(X, [ellipsoid(x) for x in X])
    surrogate, theta = opt.run_state.surrogate, opt.theta
    broken = tuple(replace(model, g=np.full(3, np.nan)) for model in surrogate.models)
    sample = theta.sample_at(np.eye(3), None)
    assert opt.partial.by_model(surrogate, theta, sample) is not None
    assert opt.partial.by_model(replace(surrogate, models=broken), theta, sample) is None


def test_a_vectorized_objective_gets_the_points_of_a_part():
    sizes = []

    def several(X):
        sizes.append(len(X))
        return np.array([rosenbrock(x) for x in X])

    result = sl.minimize(several, np.full(4, 1.5), 0.3, rng=5, maxfevals=60, surrogate=True, vectorized=True)
    assert sum(sizes) == result.nfev == 60
    assert min(sizes) <= 2


def test_the_run_ends_at_the_target_within_a_generation():
    result = run(ellipsoid, ftarget=1.0, maxfevals=1000)[1]
    assert result.success
    assert "ftarget" in result.reasons
    assert result.history["nfev"][-1] <= result.nfev


def test_the_run_converges():
    result = sl.minimize(ellipsoid, np.ones(3), 0.3, rng=1, surrogate=True)
    assert result.success
    assert set(result.reasons) <= {"tolx", "tolfun", "no_effect", "noise_floor"}


def test_a_restart_begins_with_an_empty_archive():
    opt = sl.Optimizer(np.ones(3), 0.3, rng=1, surrogate=True, restarts=2, tolx=0.03)
    sizes = {}
    while not opt.stop():
        X = opt.ask()
        sizes.setdefault(opt.restarts, len(X))
        opt.tell(X, [ellipsoid(x) for x in X])
    assert sizes == {0: 7, 1: 14, 2: 28}


def test_noise_is_left_to_the_method():
    """Values without an order: nearly all points are evaluated, because the model does not predict them."""

    def share(seed):
        noise = np.random.default_rng(seed)
        result = sl.minimize(lambda x: noise.standard_normal(), np.ones(5), 0.3, rng=1, surrogate=True, maxfevals=400)
        return result.nfev / result.nit / result.history.runs[0].popsize

    assert np.mean([share(seed) for seed in range(5)]) > 0.8


def test_failures_are_worst(tmp_path):
    def partly(x):
        if x[0] < 0.45:
            raise ValueError("no value here")
        return rosenbrock(x)

    result = sl.minimize(partly, np.full(4, 0.5), 0.3, rng=5, surrogate=True, on_error="nan", maxfevals=200)
    assert result.failures
    assert result.fun < 10


def test_callbacks_and_progress_see_the_surrogate(capsys):
    seen = []
    run(ellipsoid, callback=lambda result: seen.append(result.surrogate.agreement), progress=True, maxfevals=60)
    assert max(seen) > 0.8
    assert "saved by the model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"integrality": True}, "integers or choices"),
        ({"constraints": 1}, "`constraints`"),
        ({"noise": True}, "noise=True"),
        ({"surrogate": "yes"}, "number of evaluations at a time"),
        ({"surrogate": 0}, "number of evaluations at a time"),
    ],
)
def test_what_cannot_be_combined_is_refused_before_the_run(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sl.minimize(ellipsoid, np.ones(4), 1.0, **{"surrogate": True, **options})


def test_binary_methods_and_many_variables_are_refused():
    with pytest.raises(ValueError, match="binary methods"):
        sl.minimize(ellipsoid, np.full(4, 0.5), method="pbil", surrogate=True)
    with pytest.raises(ValueError, match="limited to"):
        sl.minimize(ellipsoid, np.ones(MOST_VARIABLES + 1), 0.3, surrogate=True)


def all_finite(tree):
    """Whether all arrays of nested dataclasses and tuples are finite, except values of the objective."""
    if isinstance(tree, np.ndarray | float):
        return bool(np.isfinite(tree).all())
    if isinstance(tree, tuple):
        return all(map(all_finite, tree))
    if is_dataclass(tree):
        return all(all_finite(getattr(tree, f.name)) for f in fields(tree) if f.name != "values")
    return True


VALUES = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308]),
    st.integers(-2, 2).map(float),
)


def check_values(values, d, at_a_time):
    """A run with these values, again and again, has a finite state after each of them."""
    opt = sl.Optimizer(np.ones(d), 0.3, rng=1, surrogate=at_a_time)
    told = 0
    while told < 60 and not opt.stop():
        X = opt.ask()
        opt.tell(X, [values[(told + k) % len(values)] for k in range(len(X))])
        told += len(X)
        assert all_finite(opt.run_state.surrogate)
        assert all_finite(opt.state)
        assert np.isfinite(X).all()


@settings(max_examples=30)
@given(st.lists(VALUES, min_size=1, max_size=60), st.sampled_from([1, 2, 5]), st.sampled_from([1, 4]))
def test_any_values_leave_a_finite_state(values, d, at_a_time):
    check_values(values, d, at_a_time)


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.lists(VALUES, min_size=1, max_size=60), st.sampled_from([1, 2, 5, 15]), st.sampled_from([1, 4]))
def test_any_values_at_all_leave_a_finite_state(values, d, at_a_time):
    check_values(values, d, at_a_time)


def test_a_figure_shows_the_agreement_of_the_model(tmp_path):
    result = run(ellipsoid, maxfevals=60)[1]
    figure = result.plot(tmp_path / "run.png")
    assert "model" in {axis.get_label() for axis in figure.axes}


def test_scipy_passes_the_surrogate_on():
    import scipy.optimize

    options = {"sigma0": 0.3, "surrogate": True, "rng": 5, "maxfevals": 80}
    result = scipy.optimize.minimize(rosenbrock, np.full(4, 1.5), method=sl.scipy_method, options=options)
    assert result.nfev == 80
    assert result.surrogate.saved > 0
