"""Constraints of every form combined with every other option, and every two options with each other: each pair runs,
calls the objective where it may only, and finds a feasible point; or it is refused with a sentence before the first
evaluation.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, NonlinearConstraint

import sublevel as sl
from helpers.cases import OTHER_STEP_SIZES, WEIGHTED
from sublevel.cli.main import main
from sublevel.engine.families import FAMILIES
from sublevel.engine.ordering import ORDERINGS
from sublevel.engine.transforms import STEP_SIZES
from sublevel.run.restarts import STRATEGIES

# Minimise the squared distance from 0 of three numbers whose sum is at least 1. Choices cost 1 if they are wrong.

NUMBERS = ("a", "b", "c")
SPACES = {
    "integers in a space": sl.Space(a=sl.Real(-4, 6), b=sl.Integer(-3, 6), c=sl.Real(0.01, 10, log=True)),
    "choices in a space": sl.Space(a=sl.Real(-4, 6), b=sl.Real(-3, 6), c=sl.Real(scale=2), k=sl.Choice("u", "v")),
    "all in a space": sl.Space(
        a=sl.Real(-4, 6), b=sl.Integer(-3, 6), k=sl.Choice("u", "v"), c=sl.Real(0.01, 10, log=True)
    ),
}
START = {"a": 2.0, "b": 2, "c": 2.0}


def numbers_of(x):
    """The three numbers (..., 3) of a point, of points (n, 3), or of parameters by name."""
    if not isinstance(x, dict):
        return np.asarray(x, dtype=np.float64)
    return np.stack([np.asarray(x[name], dtype=np.float64) for name in NUMBERS], axis=-1)


def sum_of(x):
    return np.sum(numbers_of(x), axis=-1)


def value_of(x):
    wrong = (np.asarray(x["k"]) != "v") * 1.0 if isinstance(x, dict) and "k" in x else 0.0
    return np.sum(numbers_of(x) ** 2, axis=-1) + wrong


@dataclass(frozen=True)
class Objective:
    """The value, and with it the constraint if wanted; asserts that points are where they may be."""

    with_constraint: bool
    is_kept: bool

    def __call__(self, x):
        assert not self.is_kept or np.all(sum_of(x) >= 1)
        value = value_of(x)
        return (value, (1.0 - sum_of(x))[..., None]) if self.with_constraint else value


def linear(columns):
    """a + b + c ≥ 1 for parameters in this order."""
    return LinearConstraint([[float(name in NUMBERS) for name in columns]], 1, np.inf)


FORMS = {
    "function": lambda _: NonlinearConstraint(sum_of, 1, np.inf),
    "two functions": lambda _: [NonlinearConstraint(sum_of, 1, 50), NonlinearConstraint(value_of, -1, 500)],
    "numbers": lambda _: 1,
    "linear": linear,
    "kept": lambda _: NonlinearConstraint(sum_of, 1, np.inf, keep_feasible=True),
}


def observe(intermediate_result):
    """A callback."""
    assert intermediate_result.maxcv >= 0


# Options by axis; families, step-size rules, orderings and restart strategies are those of the registries
AXES = {
    "method": {name: {"method": name} for name in ("cma", "xnes", "ngd", "rank-mu")},
    "family": {prefix: {"family": prefix} for prefix in FAMILIES if prefix},
    "rates": {"lra": {"lra": True}},
    "step size": {rule: {"step_size": rule} for rule in OTHER_STEP_SIZES},
    "handling": {name: {"constraint_handling": name} for name in ORDERINGS if name != "augmented-lagrangian"},
    "variables": {
        "bounds": {"bounds": (-4, 6)},
        "log": {"log_scaled": [False, False, True]},
        "integers": {"integrality": [0, 1, 0]},
        "names": {"names": NUMBERS},
        **{name: {"space": name} for name in SPACES},
    },
    "restarts": {name: {"restarts": name} for name in STRATEGIES} | {"two": {"restarts": 2}},
    "evaluation": {"workers": {"workers": 2}, "vectorized": {"vectorized": True}, "map": {"workers": map}},
    "errors": {"nan": {"on_error": "nan"}, "retry": {"on_error": "retry"}},
    "start": {"with x0": {"evaluate_x0": True}, "without x0": {"evaluate_x0": False}, "warm": {"warm": True}},
    "tolerance": {"tolx": {"tolx": 1e-4}, "tolfun": {"tolfun": 1e-5}, "noise": {"noise_floor": False}},
    "observers": {"callback": {"callback": observe}, "progress": {"progress": True}},
    "limits": {"time": {"maxtime": 60.0}, "generations": {"maxiter": 80}, "target": {"ftarget": 0.9}},
    "sizes": {"popsize": {"popsize": 14}},
    "files": {"store": {"store": True}},
    "curvature": {"curvature": {"curvature": True}},
    "output": {"figures": {"figures": True}},
}
OPTIONS = {(axis, name): option for axis, options in AXES.items() for name, option in options.items()}
PAIRS = [pair for pair in combinations(OPTIONS, 2) if pair[0][0] != pair[1][0]]


def method_of(options):
    """The method of options that are taken out of the dict."""
    name, family = options.pop("method", "cma"), options.pop("family", "")
    step_size, lra = options.pop("step_size", None), options.pop("lra", False)
    if isinstance(name, sl.Method):
        return name
    if step_size is None:
        return f"{'lra-' if lra else ''}{family}{name}"
    recipes = {"cma": sl.cma, "xnes": sl.xnes, "ngd": sl.ngd, "rank-mu": sl.rank_mu}
    method = recipes[name](family=FAMILIES[family], step_size=step_size)
    return sl.with_adapted_rates(method) if lra else method


def why_refused(form, step_size):
    """Why a step-size rule does not go with a form of constraints; None if it does."""
    parts = STEP_SIZES.get(step_size, ())
    if form != "kept" and any(part.compares_generations for part in parts):
        return "a step-size rule that compares values of two generations"
    if form == "kept" and any(part.adds_points for part in parts):
        return "a step-size rule that adds points to a sample"
    return None


def warm_start(space, options):
    """Where a search begins after a few evaluations of another one."""
    rng = np.random.default_rng(1)
    if space is not None:
        points = [
            {"a": rng.uniform(-4, 6), "b": rng.integers(-3, 6), "c": rng.uniform(1, 9), "k": "uv"[rng.integers(2)]}
            for _ in range(80)
        ]
        points, known = [{name: point[name] for name in space.names} for point in points], {"space": space}
    else:
        points, known = rng.uniform(0.1, 6, (80, 3)), {"log_scaled": options.get("log_scaled", False)}
    values, g = ([function(point) for point in points] for function in (value_of, sum_of))
    return sl.warm_start(points, values, constraints=1 - np.array(g), **known)


def run(form, **options):
    """A run with a form of constraints and these options, whose points and result are checked."""
    step_size = options.get("step_size")
    method, space = method_of(options), SPACES.get(options.pop("space", ""))
    space = None if space is None else space.start_at(START)
    x0, sigma0 = ([2.0] * 3, 0.5) if space is None else (space, None)
    wants_figures = options.pop("figures", False)
    if options.pop("warm", False):
        x0, sigma0, options["cov0"] = warm_start(space, options)
    constraints = FORMS[form](NUMBERS if space is None else space.names)
    objective = Objective(form == "numbers", form in ("linear", "kept"))
    settings = {"method": method, "constraints": constraints, "rng": 1, "maxfevals": 600, **options}
    if (reason := why_refused(form, step_size)) is not None:
        with pytest.raises(ValueError, match=reason):
            sl.minimize(never_called, x0, sigma0, **settings)
        return
    result = run_and_resume(objective, x0, sigma0, settings)
    assert result.maxcv == 0
    assert result.fun <= 0.2 * 12
    found = result.x if space is None else result.params
    assert_allclose(result.fun, value_of(found), rtol=1e-12)
    assert sum_of(found) >= 1
    if wants_figures:
        check_figures(result)


def never_called(x):
    raise AssertionError("an option that is refused must be so before the first evaluation")


def run_and_resume(objective, x0, sigma0, settings):
    """The result, with a store of a run that was continued."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        if settings.get("curvature"):
            warnings.filterwarnings("ignore", message="no curvature was computed: a constraint is active")
        if not settings.pop("store", False):
            return sl.minimize(objective, x0, sigma0, **settings)
        file, constraints = Path(folder, "run.db"), settings["constraints"]
        again = {"constraints": None if isinstance(constraints, int) else constraints}
        again |= {"method": settings["method"]} if not isinstance(settings["method"], str) else {}
        again |= {"workers": settings["workers"]} if callable(settings.get("workers")) else {}
        whole = sl.minimize(objective, x0, sigma0, **settings)
        sl.minimize(objective, x0, sigma0, **settings | {"store": file, "maxfevals": 200, "curvature": False})
        result = sl.resume(file, objective, maxfevals=600, **again)
        assert np.array_equal(result.x, whole.x)
        assert np.array_equal(result.cov, whole.cov)
        stored = sl.load(file)
        assert stored.params == result.params
        assert stored.result.maxcv == result.maxcv
        stored.export(Path(folder, "run.csv"))
        return result


def check_figures(result):
    """Figures, text and JSON of a result."""
    with tempfile.TemporaryDirectory() as folder:
        labels = [axis.get_label() for axis in result.plot(Path(folder, "run.png")).axes]
    known = any(np.isfinite(part).any() for part in result.multipliers or ())
    assert ("multipliers" in labels) == known
    assert "maxcv" in repr(result)
    assert json.loads(result.to_json())["maxcv"] == 0


def merged(*keys):
    """The options of some keys."""
    return {name: value for key in keys for name, value in OPTIONS[key].items()}


def label(keys):
    return "+".join(name for _, name in keys)


WORKERS = ("evaluation", "workers")


@pytest.mark.parametrize("option", [key for key in OPTIONS if key != WORKERS], ids=lambda key: f"{key[0]}-{key[1]}")
@pytest.mark.parametrize("form", FORMS)
def test_constraints_combine_with_every_option(form, option):
    run(form, **merged(option))


@pytest.mark.parametrize("method", WEIGHTED, ids=lambda method: method.name)
@pytest.mark.parametrize("form", FORMS)
def test_constraints_combine_with_every_weight_rule(form, method):
    run(form, method=method)


def test_rules_that_cannot_be_combined_with_constraints_are_known_by_their_attributes():
    assert {form: [why_refused(form, rule) is not None for rule in ("csa", "psr", "tpa")] for form in FORMS} == {
        form: [False, form != "kept", form == "kept"] for form in FORMS
    }


@pytest.mark.parametrize(
    "form", [*(pytest.param(form, marks=pytest.mark.slow) for form in FORMS if form != "kept"), "kept"]
)
def test_constraints_combine_with_processes(form):
    run(form, **merged(WORKERS))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PAIRS)), ids=lambda number: label(PAIRS[number]))
def test_every_two_options_combine_with_constraints(number):
    run([*FORMS][number % len(FORMS)], **merged(*PAIRS[number]))


# The command line and SciPy

PROBLEM = """
def plain(x):
    return sum(x * x), [1 - sum(x)]

def named(p):
    return p["a"] ** 2 + p["n"] ** 2 + (p["k"] == "u"), [1.5 - p["a"] - p["n"]]

def free(x):
    return sum(x * x), [sum(x) - 9]
"""
SPACE_FILE = """
a = {type = "real", low = -4, high = 6}
n = {type = "integer", low = -3, high = 6}
k = {type = "choice", values = ["u", "v"]}
"""
AT = ["--x0", "2,2", "--sigma0", "0.5"]
COMMAND_LINES = {
    "plain": ["plain", *AT],
    "bounds and restarts": ["plain", *AT, "--bounds", "-3:5", "--restarts", "ipop"],
    "log scale": ["plain", *AT, "--log-scaled", "1"],
    "integers": ["plain", *AT, "--integrality", "0,1"],
    "method": ["plain", *AT, "--method", "lra-sep-cma"],
    "figure": ["plain", *AT, "--plot", "run.png"],
    "store": ["plain", *AT, "--store", "run.db"],
    "space": ["named", "--space", "space.toml"],
    "space and figure": ["named", "--space", "space.toml", "--plot", "run.svg"],
    "error bars": ["free", *AT, "--error-bars", "nll"],
}


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_the_command_line_combines_constraints(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("problem.py").write_text(PROBLEM)
    Path("space.toml").write_text(SPACE_FILE)
    function, *options = COMMAND_LINES[case]
    shared = ["--constraints", "1", "--seed", "1", "--maxfevals", "600", "--json"]
    assert main(["minimize", f"problem.py:{function}", *options, *shared]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["maxcv"] == 0
    assert found["fun"] < {"space": 3, "space and figure": 3, "integers": 1.1}.get(case, 0.6)
    assert (found["error_bars"] is not None) == (case == "error bars")
    if case == "store":
        assert main(["report", "run.db"]) == 0
        assert "<h2>Constraints</h2>" in next(tmp_path.glob("*.html")).read_text()


def test_scipy_combines_constraints_with_bounds_and_integers():
    for options in ({}, {"integrality": [0, 1, 0]}, {"restarts": 2}, {"popsize": 12}):
        for form in ("function", "two functions", "linear", "kept"):
            result = scipy.optimize.minimize(
                Objective(False, form in ("linear", "kept")),
                [2.0] * 3,
                method=sl.scipy_method,
                bounds=[(-4, 6)] * 3,
                constraints=FORMS[form](NUMBERS),
                options={"rng": 1, "maxfevals": 600, **options},
            )
            assert result.maxcv == 0
            assert result.fun < 2
