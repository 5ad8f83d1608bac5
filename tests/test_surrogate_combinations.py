"""A surrogate combined with every other option, and every two options with each other: each run has the same path for f
and an increasing transform of f, saves evaluations and improves f; or it is refused with a sentence before the first
evaluation.
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_array_equal

import sublevel as sl
from sublevel.cli.main import main
from sublevel.engine.families import FAMILIES
from sublevel.engine.transforms.step_size import STEP_SIZES
from sublevel.validation import STRATEGIES

NAMES = ("a", "b", "c")
SPACE = sl.Space(a=sl.Real(-4, 6, start=2.0), b=sl.Real(scale=1.0, start=2.0), c=sl.Real(0.01, 10, start=2.0, log=True))
START = np.array([2.0, 2.0, 2.0])


def value_of(x):
    """An ellipsoid of three numbers, of a point (3,), of points (n, 3), or of parameters by name."""
    if isinstance(x, dict):
        x = np.stack([np.asarray(x[name], dtype=np.float64) for name in NAMES], axis=-1)
    return np.sum(np.array([1.0, 30.0, 1000.0]) * (x - 0.5) ** 2, axis=-1) + 1.0


def transformed(x):
    """An increasing transform of it."""
    return np.log(value_of(x)) ** 3


def bent(x):
    """A transform that is not increasing, for the negative control."""
    return abs(value_of(x) - 40.0)


def observe(intermediate_result):
    """A callback."""
    assert intermediate_result.surrogate.saved >= 0


def draw_start(rng):
    return START + 0.1 * rng.standard_normal(3) * [1, 0, 1]  # the second one may be fixed


FIXED = [(-4, 6), (2, 2), (None, None)]
AXES = {
    "at a time": {"three": {"surrogate": 3}, "all": {"surrogate": 100}},
    "method": {name: {"method": name} for name in ("xnes", "ngd", "rank-mu")},
    "family": {family: {"family": family} for family in FAMILIES if family},
    "rates": {"lra": {"lra": True}},
    "step size": {name: {"step_size": name} for name in STEP_SIZES},
    "variables": {
        "bounds": {"bounds": (-4, 6)},
        "fixed": {"bounds": FIXED},
        "log": {"log_scaled": [False, False, True]},
        "names": {"names": NAMES},
        "space": {"space": True},
    },
    "restarts": {"two": {"restarts": 2}} | {name: {"restarts": name} for name in STRATEGIES},
    "evaluation": {
        "vectorized": {"vectorized": True},
        "map": {"workers": map},
        "threads": {"workers": ThreadPoolExecutor(2)},
        "processes": {"workers": 2},
    },
    "errors": {"nan": {"on_error": "nan"}, "retry": {"on_error": "retry"}},
    "start": {
        "with x0": {"evaluate_x0": True},
        "without x0": {"evaluate_x0": False},
        "drawn": {"x0": draw_start},
        "warm": {"warm": True},
        "known": {"known": True},
    },
    "tolerance": {"tolx": {"tolx": 1e-3}, "noise floor": {"noise_floor": False}},
    "observers": {"callback": {"callback": observe}, "progress": {"progress": True}},
    "limits": {"time": {"maxtime": 60.0}, "generations": {"maxiter": 40}},
    "sizes": {"popsize": {"popsize": 10}, "large": {"popsize": 40}},
    "files": {"store": {"store": True}},
    "curvature": {"curvature": {"curvature": True}},
    "output": {"figures": {"figures": True}},
}
OPTIONS = {(axis, name): option for axis, options in AXES.items() for name, option in options.items()}
PAIRS = [pair for pair in combinations(OPTIONS, 2) if pair[0][0] != pair[1][0]]
EVALUATIONS = 60
"""So few that values near the minimum are not equal by rounding, in which case a transform may change their order."""
SAVES_LITTLE = {"surrogate", "popsize", "restarts"}
"""Options with which all points of the last run may be evaluated."""


def method_of(options):
    """The method of options that are taken out of the dict."""
    name, family = options.pop("method", "cma"), options.pop("family", "")
    step_size, lra = options.pop("step_size", None), options.pop("lra", False)
    if step_size is None:
        return f"{'lra-' if lra else ''}{family}{name}"
    recipes = {"cma": sl.cma, "xnes": sl.xnes, "ngd": sl.ngd, "rank-mu": sl.rank_mu}
    method = recipes[name](family=FAMILIES[family] if family else sl.FullGaussian, step_size=step_size)
    return sl.with_adapted_rates(method) if lra else method


def arguments(fun, options):
    """The start and the keywords of `minimize`; evaluations before the run are of the same function."""
    start, sigma0 = options.pop("x0", START), 0.5
    has_space, is_warm, is_known = (options.pop(name, False) for name in ("space", "warm", "known"))
    if has_space:
        start, sigma0 = SPACE, None
    settings = {"rng": 1, "maxfevals": EVALUATIONS, "surrogate": True, "method": method_of(options), **options}
    points = START + 0.5 * np.random.default_rng(2).standard_normal((40, 3))
    if is_warm:
        known = {"space": SPACE} if has_space else {"log_scaled": settings.get("log_scaled", False)}
        start, sigma0, settings["cov0"] = sl.warm_start(points, fun(points), **known)
        if settings.get("bounds") is FIXED:
            start[1] = 2.0
    if is_known:
        points[:, 1] = 2.0  # where it may be fixed
        settings["known"] = points, fun(points)
    return start, sigma0, settings


class Recorded:
    """A function with the points it was called at; those of processes are not seen."""

    def __init__(self, fun):
        self.fun, self.points = fun, []

    def __call__(self, x):
        point = np.array([x[name] for name in NAMES]).T if isinstance(x, dict) else np.asarray(x)
        self.points.extend(np.atleast_2d(point).tolist())
        return self.fun(x)


def run(fun, options):
    """The result of a run with these options and its points; with a store, of one that was interrupted and resumed."""
    start, sigma0, settings = arguments(fun, dict(options))
    wants_figures, called = settings.pop("figures", False), Recorded(fun)
    evaluated = fun if settings.get("workers") == 2 else called
    with tempfile.TemporaryDirectory() as folder:
        if settings.pop("store", False):
            result = resumed(evaluated, start, sigma0, settings, Path(folder, "run.db"))
        else:
            result = sl.minimize(evaluated, start, sigma0, **settings)
    if wants_figures:
        check_figures(result)
    return result, called.points


def resumed(fun, start, sigma0, settings, file):
    """The result of a run that was stored, ended early and resumed."""
    sl.minimize(fun, start, sigma0, **settings | {"store": file, "maxfevals": 33, "curvature": False})
    again = {"x0": start} if callable(start) else {}
    again |= {"method": settings["method"]} if not isinstance(settings["method"], str) else {}
    again |= {"workers": settings["workers"]} if not isinstance(settings.get("workers", 1), int) else {}
    result = sl.resume(file, fun, maxfevals=EVALUATIONS, **again)
    stored = sl.load(file)
    assert_array_equal(stored.result.history["agreement"], result.history["agreement"])
    assert stored.result.surrogate.agreement == result.surrogate.agreement
    return result


def check_figures(result):
    """Figures, text and JSON of a result."""
    with tempfile.TemporaryDirectory() as folder:
        labels = [axis.get_label() for axis in result.plot(Path(folder, "run.png")).axes]
    assert "model" in labels
    assert "agreement" in repr(result.surrogate)
    assert json.loads(result.to_json())["nfev"] == result.nfev


def never_called(x):
    raise AssertionError("an option that is refused must be so before the first evaluation")


def check(keys):
    """A combination improves f on a path that does not depend on an increasing transform of f, or is refused."""
    options = {name: value for key in keys for name, value in OPTIONS[key].items()}
    if options.get("step_size") == "psr":
        with pytest.raises(ValueError, match="compares values of two generations"):
            sl.minimize(never_called, START, 0.5, surrogate=True, method=method_of(options))
        return
    result, points = run(value_of, options)
    assert result.fun < 0.2 * value_of(START)
    if not SAVES_LITTLE & options.keys():
        assert result.surrogate.saved > 0
    other, others = run(transformed, options)
    assert_array_equal(other.x, result.x)
    assert_array_equal(other.history["agreement"], result.history["agreement"])
    if "curvature" not in options:  # which chooses its points by values
        assert np.array(others).tobytes() == np.array(points).tobytes()


@pytest.mark.parametrize("key", OPTIONS, ids=lambda key: f"{key[0]}-{key[1]}")
def test_a_surrogate_combines_with_every_option(key):
    check([key])


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "+".join(name for _, name in pair))
def test_a_surrogate_combines_with_every_two_options(pair):
    check(pair)


@pytest.mark.parametrize("key", [("method", "xnes"), ("variables", "log"), ("restarts", "bipop"), ("start", "known")])
def test_the_path_depends_on_the_order_of_values(key):
    """The negative control of the law above."""
    points, others = (run(fun, OPTIONS[key])[1] for fun in (value_of, bent))
    assert np.array(others).tobytes() != np.array(points).tobytes()


REFUSED = {
    "integers": ({"integrality": [0, 1, 0]}, "integers or choices"),
    "integers in a space": ({"x0": sl.Space(a=sl.Integer(0, 9), b=sl.Real(0, 1))}, "integers or choices"),
    "choices in a space": ({"x0": sl.Space(a=sl.Choice("u", "v"), b=sl.Real(0, 1))}, "integers or choices"),
    "constraints": ({"constraints": 1}, "`constraints`"),
    "noise": ({"noise": True}, "noise=True"),
    "bits": ({"method": "pbil", "x0": [0.5, 0.5]}, "binary methods"),
    "psr": ({"method": sl.cma(step_size="psr")}, "compares values of two generations"),
    "no surrogate": ({"surrogate": False, "known": (np.ones((9, 3)), np.ones(9))}, "pass surrogate=True"),
    "shape of known": ({"known": (np.ones((9, 2)), np.ones(9))}, r"shape \(n, 3\)"),
    "values of known": ({"known": (np.ones((9, 3)), np.ones(8))}, "one number per point"),
    "kind of known": ({"known": 3}, "a pair"),
    "known elsewhere": ({"known": (np.full((9, 3), 9.0), np.ones(9)), "bounds": (-4, 6)}, "within the bounds"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_combined_is_refused(name):
    options, message = REFUSED[name]
    start = options.get("x0", START)
    sigma0 = None if isinstance(start, sl.Space) or "bits" in name else 0.5
    others = {key: value for key, value in options.items() if key != "x0"}
    with pytest.raises((ValueError, TypeError), match=message):
        sl.minimize(never_called, start, sigma0, **{"surrogate": True, "rng": 1, **others})


# Evaluations that are known


def known_points(d, n, seed=3):
    return 1.0 + 0.3 * np.random.default_rng(seed).standard_normal((n, d))


def ellipsoid(x):
    return float(np.sum(10.0 ** (4 * np.arange(x.size) / (x.size - 1)) * x**2))


def test_known_evaluations_give_the_first_model():
    X = known_points(4, 60)
    opt = sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=True, known=(X, [ellipsoid(x) for x in X]))
    assert opt.nfev == 0
    assert np.isnan(opt.best_fun)
    assert opt.run_state.surrogate.is_fitted
    assert opt.run_state.surrogate.archive.size == 30  # twice the coefficients of a quadratic
    assert len(opt.ask()) == 1
    few = sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=True, known=(X[:7], [ellipsoid(x) for x in X[:7]]))
    assert len(few.ask()) == 8


def test_the_nearest_of_the_known_evaluations_are_used():
    X = known_points(4, 60)
    far = X + 100.0
    opts = [
        sl.Optimizer(np.ones(4), 0.3, rng=1, surrogate=True, known=(points, [ellipsoid(x) for x in points]))
        for points in (X, np.concatenate([X, far]), np.concatenate([far, X]))
    ]
    assert len({opt.run_state.surrogate.archive.x.tobytes() for opt in opts}) == 1


def test_a_stored_run_saves_evaluations_of_the_next_one(tmp_path):
    sl.minimize(ellipsoid, np.ones(5), 0.5, rng=1, maxfevals=90, surrogate=True, store=tmp_path / "run.db")
    before = sl.load(tmp_path / "run.db")
    start = {"x0": before.result.mean, "sigma0": before.result.std, "surrogate": True, "ftarget": 1e-8}
    spent = {
        name: np.median([sl.minimize(ellipsoid, rng=seed, known=known, **start).nfev for seed in range(5)])
        for name, known in (("known", before), ("without", None))
    }
    assert spent["known"] < spent["without"]


def test_known_evaluations_of_a_space_are_points_or_dicts():
    rows = [SPACE.decode(SPACE.encode({"a": a, "b": 2.0, "c": 1.0 + a / 9})) for a in np.linspace(0, 4, 12)]
    encoded = np.array([SPACE.encode(row) for row in rows])
    opts = [sl.Optimizer(SPACE, rng=1, surrogate=True, known=(points, np.arange(12.0))) for points in (rows, encoded)]
    assert opts[0].run_state.surrogate.archive.x.tobytes() == opts[1].run_state.surrogate.archive.x.tobytes()
    assert opts[0].run_state.surrogate.archive.size == 12


# The command line and SciPy

PROBLEM = """
def plain(x):
    return sum((x - 0.5) ** 2 * [1, 100])

def named(p):
    return (p["a"] - 0.5) ** 2 + 100 * (p["b"] - 0.5) ** 2
"""
SPACE_FILE = """
a = {type = "real", low = -4, high = 6}
b = {type = "real", low = 0.01, high = 6, log = true}
"""
AT = ["--x0", "2,2", "--sigma0", "0.5"]
COMMAND_LINES = {
    "plain": ["plain", *AT],
    "bounds and restarts": ["plain", *AT, "--bounds", "-3:5", "--restarts", "ipop"],
    "log scale": ["plain", *AT, "--log-scaled", "1"],
    "method": ["plain", *AT, "--method", "lra-sep-cma"],
    "names": ["plain", *AT, "--names", "u,v"],
    "figure": ["plain", *AT, "--plot", "run.png"],
    "store": ["plain", *AT, "--store", "run.db"],
    "known": ["plain", *AT, "--known", "before.db"],
    "workers": ["plain", *AT, "--workers", "2"],
    "space": ["named", "--space", "space.toml"],
    "error bars": ["plain", *AT, "--error-bars", "nll"],
}


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_the_command_line_combines_a_surrogate(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("problem.py").write_text(PROBLEM)
    Path("space.toml").write_text(SPACE_FILE)
    shared = ["--surrogate", "--seed", "1", "--maxfevals", "90", "--json"]
    if case == "known":
        assert main(["minimize", "problem.py:plain", *AT, *shared, "--store", "before.db"]) == 0
        capsys.readouterr()
    function, *options = COMMAND_LINES[case]
    assert main(["minimize", f"problem.py:{function}", *options, *shared]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fun"] < 1.0
    if case == "store":
        assert main(["report", "run.db"]) == 0
        assert "agreement" in next(tmp_path.glob("*.html")).read_text()


@pytest.mark.parametrize("options", [{}, {"restarts": 2}, {"popsize": 12}, {"method": "xnes"}], ids=str)
def test_scipy_combines_a_surrogate(options):
    found = scipy.optimize.minimize(
        value_of,
        START,
        method=sl.scipy_method,
        bounds=[(-4, 6)] * 3,
        options={"rng": 1, "maxfevals": 100, "surrogate": True, **options},
    )
    assert found.fun < 0.2 * value_of(START)
    assert found.surrogate.agreement <= 1
