"""Discrete variables combined with every other option, and every two options with each other among discrete variables:
each pair runs, asks valid points only and improves f.
"""

from __future__ import annotations

import re
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from helpers.cases import ORDERED, OTHER_STEP_SIZES, WEIGHTED
from sublevel.engine.families import FAMILIES
from sublevel.run.restarts import STRATEGIES

DISCRETE = {
    "integers": {"n": sl.Integer(0, 20), "m": sl.Integer(1, 1000, log=True), "o": sl.Integer(scale=4)},
    "choices": {"k": sl.Choice(*"abc"), "b": sl.Choice(False, True), "s": sl.Choice(*"SML", ordered=True)},
    "both": {
        "n": sl.Integer(0, 20),
        "o": sl.Integer(scale=4),
        "k": sl.Choice(*"abc"),
        "s": sl.Choice(*"SML", ordered=True),
    },
    "only choices": {
        "k": sl.Choice(*"abc"),
        "b": sl.Choice(False, True),
        "l": sl.Choice(*"abcd"),
        "j": sl.Choice(*"abcde"),
    },
}
REALS = {
    "bounded": {"x": sl.Real(-2, 3)},
    "log": {"x": sl.Real(0.01, 100, log=True)},
    "half open": {"x": sl.Real(0, scale=2)},
    "open": {"x": sl.Real(scale=2)},
    "several": {"x": sl.Real(-2, 3), "y": sl.Real(1e-3, 1e3, log=True), "z": sl.Real(scale=2)},
    "fixed": {"x": sl.Real(1, 1)},
    "none": {},
}
WANTED = {"n": 15, "m": 60, "o": -3, "k": "b", "b": True, "s": "L", "l": "d", "j": "c", "x": 1.0, "y": 1.0, "z": 1.0}

START = {"n": 2, "k": "c"}


def loss(parameters):
    """Distance from the wanted values (), or (n,) of lists of values."""
    total = 0.0
    for name, value in parameters.items():
        if isinstance(WANTED[name], str | bool):
            total = total + (np.asarray(value) != WANTED[name])
        else:
            total = total + np.abs(np.asarray(value, dtype=float) - WANTED[name]) / (1 + abs(WANTED[name]))
    return total


class Objective:
    """The loss, with every point that was asked for; raises an exception in some calls if wanted."""

    def __init__(self, fails=False):
        self.asked, self.fails, self.calls = [], fails, 0

    def __call__(self, parameters):
        self.calls += 1
        if self.fails and self.calls % 7 == 0:
            raise ArithmeticError("now and then")
        self.asked.append(parameters)
        return loss(parameters)


def observe(intermediate_result):
    """A callback."""
    assert intermediate_result.fun >= 0


# Options by axis; families, step-size rules and restart strategies are those of the registries.
AXES = {
    "method": {name: {"method": name} for name in ("cma", "xnes", "ngd", "rank-mu")},
    "family": {prefix.rstrip("-") or "full": {"family": prefix} for prefix in FAMILIES},
    "rates": {"lra": {"lra": True}},
    "step size": {rule: {"step_size": rule} for rule in OTHER_STEP_SIZES},
    "real": {name: {"real": name} for name in REALS},
    "restarts": {name: {"restarts": name} for name in STRATEGIES} | {"two": {"restarts": 2}},
    "evaluation": {"workers": {"workers": 2}, "vectorized": {"vectorized": True}, "map": {"workers": map}},
    "errors": {"nan": {"on_error": "nan"}, "retry": {"on_error": "retry"}},
    "start": {"with x0": {"evaluate_x0": True}, "without x0": {"evaluate_x0": False}, "elsewhere": {"start_at": True}},
    "tolerance": {"tolx": {"tolx": 1e-3}, "tolfun": {"tolfun": 1e-3}, "noise": {"noise_floor": False}},
    "observers": {"callback": {"callback": observe}, "progress": {"progress": True}},
    "limits": {"time": {"maxtime": 60.0}, "generations": {"maxiter": 60}, "target": {"ftarget": 0.2}},
    "sizes": {"popsize": {"popsize": 14}, "sigma0": {"sigma0": 2.0}},
    "files": {"store": {"store": True}},
    "curvature": {"curvature": {"curvature": True}},
    "noise": {"noise": {"noise": True}},
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


def rows(asked):
    """Parameters of each point, of calls with points or with lists of them."""
    for parameters in asked:
        if isinstance(next(iter(parameters.values())), list):
            yield from (dict(zip(parameters, row, strict=True)) for row in zip(*parameters.values(), strict=True))
        else:
            yield parameters


def run(kind, **options):
    """A run on discrete variables of a kind with these options, whose points and result are checked."""
    method, real = method_of(options), REALS[options.pop("real", "none" if kind == "only choices" else "bounded")]
    space = sl.Space({**real, **DISCRETE[kind]})
    if options.pop("start_at", False):
        space = space.start_at({name: value for name, value in START.items() if name in space.names})
    is_here = options.get("workers") != 2
    objective = Objective(fails="on_error" in options and is_here and "vectorized" not in options)
    sigma0, adds = options.pop("sigma0", None), options.get("curvature", False)
    c, is_noisy = space.coordinates(), options.get("noise", False)
    if is_noisy and options.get("evaluate_x0"):
        with pytest.raises(ValueError, match="`evaluate_x0` must be left out with noise=True"):
            sl.minimize(objective, space, sigma0, method=method, rng=1, maxfevals=700, **options)
        return None
    if adds and not np.any((c.lower < c.upper) & ~c.is_integer & (c.categories == 0)):
        with pytest.raises(ValueError, match="curvature"):
            sl.minimize(objective, space, sigma0, method=method, rng=1, maxfevals=700, **options)
        return None
    with tempfile.TemporaryDirectory() as folder:
        if options.pop("store", False):
            options["store"] = Path(folder, "run.db")
        result = sl.minimize(objective, space, sigma0, method=method, rng=1, maxfevals=700, **options)
        if "store" in options:
            assert sl.load(options["store"]).params == result.params
    if adds:
        assert result.curvature.held == result.history.labels.held(result.x)
    assert result.params == space.decode(result.x)
    assert result.fun == loss(result.params)
    start = loss(space.decode(space.coordinates().x0))
    assert result.fun <= (0.9 if is_noisy else 0.6) * start  # a mean may have another category than the best point
    if is_here and not adds:
        points = list(rows(objective.asked))
        assert is_noisy or result.fun == min(loss(point) for point in points)
        for point in points:
            space.encode(point)  # raises for values that are not in the space
        assert len(points) + len(result.failures) == result.nfev
    return result


def merged(*keys):
    """The options of some keys."""
    return {name: value for key in keys for name, value in OPTIONS[key].items()}


def label(keys):
    return "+".join(name for _, name in keys)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda key: f"{key[0]}-{key[1]}")
@pytest.mark.parametrize("kind", DISCRETE)
def test_discrete_variables_combine_with_every_option(kind, option):
    run(kind, **merged(option))


@pytest.mark.parametrize("method", [*WEIGHTED, *ORDERED], ids=lambda method: method.name)
@pytest.mark.parametrize("kind", DISCRETE)
def test_discrete_variables_combine_with_every_weight_rule_and_ordering(kind, method):
    run(kind, method=method)


QUICK_PAIRS = [pair for pair in PAIRS if ("evaluation", "workers") not in pair]


@pytest.mark.parametrize("pair", QUICK_PAIRS, ids=label)
def test_every_two_options_combine_among_discrete_variables(pair):
    run("both", **merged(*pair))


@pytest.mark.slow  # each starts two processes
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in QUICK_PAIRS], ids=label)
def test_every_option_combines_with_workers_among_discrete_variables(pair):
    run("both", **merged(*pair))


# The same on plain vectors


BOUNDS = {"free": None, "box": [(-2, 30)] * 3, "fixed": [(None, None), (4, 4), (0, None)]}


@pytest.mark.parametrize("names", [None, ["a", "n", "m"]], ids=["unnamed", "named"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "lra-cma", "xnes", sl.cma(step_size="tpa")], ids=str)
def test_integers_of_plain_vectors_combine(method, bounds, names):
    asked = []

    def fun(x):
        asked.append(x.copy())
        return np.abs(x - [1.5, 4, 12]).sum()

    options = {"bounds": BOUNDS[bounds], "names": names, "log_scaled": [False, False, True], "restarts": "ipop"}
    if bounds == "box":
        options["bounds"] = [(-2, 30), (-2, 30), (1, 30)]
    x0 = [0.0, 4.0, 3.0]
    result = sl.minimize(fun, x0, [1, 3, 1], integrality=[0, 1, 1], method=method, rng=1, maxfevals=900, **options)
    points = np.array(asked)
    assert np.array_equal(points[:, 1:], np.rint(points[:, 1:]))
    assert (points[:, 2] >= 1).all()
    assert result.fun < 0.3
    assert list(result.params) == (names or ["x[0]", "x[1]", "x[2]"])
    if bounds == "fixed":
        assert (points[:, 1] == 4).all()


# What cannot be combined is refused

MIXED = sl.Space({**REALS["bounded"], **DISCRETE["both"]})
REFUSED = {
    "pbil": (
        {"method": "pbil"},
        "binary methods do not search a Space; use another method, which also takes bits: Choice(False, True).",
    ),
    **{
        name: ({name: value}, f"`{name}` must not be given with a Space, whose parameters define it.")
        for name, value in {
            "bounds": [(0, 1)] * 5,
            "log_scaled": True,
            "integrality": [0, 1, 1, 0, 0],
            "names": list("vwxyz"),
        }.items()
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_combined_is_refused(case):
    options, sentence = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}$"):
        sl.minimize(loss, MIXED, maxfevals=100, **options)
