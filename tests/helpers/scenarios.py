"""Scenarios of whole runs, drawn from a seed: what is minimised, how it is searched, and how it is evaluated.

A scenario is a frozen value whose `repr` makes it again. `draw(seed)` draws one, `Problem(scenario)` is its objective.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, nan

import numpy as np
from scipy.optimize import LinearConstraint, NonlinearConstraint

import sublevel as sl
from sublevel.engine.families import FAMILIES
from sublevel.engine.ordering import ORDERINGS
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.transforms.step_size import STEP_SIZES
from sublevel.run.restarts import STRATEGIES

LABELS = ("red", "green", "blue", "grey")
"""Values of choices."""


class Short:
    """A dataclass whose `repr` has the fields that differ from their defaults."""

    def __repr__(self):
        given = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))
        shown = [f"{field.name}={value!r}" for field, value in given if not _same(value, field.default)]
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(one, other):
    return type(one) is type(other) and one == other


@dataclass(frozen=True, repr=False)
class Variable(Short):
    """A variable, with the place where the objective is lowest."""

    kind: str = "real"  # "real", "integer", "choice", "ordered" or "bit"
    low: float = -inf
    high: float = inf  # the number of values less one if it is a choice
    is_log: bool = False
    start: float = 0.0
    deviation: float = 1.0
    target: float = 0.0  # may be outside of the bounds

    @property
    def is_choice(self):
        return self.kind in ("choice", "ordered")

    def distance(self, x, origin):
        """From `origin` to x in initial standard deviations."""
        if self.kind in ("choice", "bit"):
            return float(x != origin)
        if self.is_log:
            return float(np.log(x / origin)) / self.deviation
        return (x - origin) / self.deviation

    def allows(self, x):
        """Whether a value is possible."""
        is_whole = self.kind == "real" or x == round(x)
        return self.low <= x <= self.high and is_whole and (x > 0 or not self.is_log)

    def parameter(self):
        """The parameter of a space."""
        if self.is_choice:
            values = LABELS[: int(self.high) + 1]
            return sl.Choice(*values, ordered=self.kind == "ordered", start=values[int(self.start)])
        kind = sl.Integer if self.kind == "integer" else sl.Real
        return kind(self.low, self.high, log=self.is_log, scale=self.deviation, start=self.start)


@dataclass(frozen=True, repr=False)
class Restriction(Short):
    """lower ≤ w·v + curvature·‖v‖² ≤ upper for the distances v from the start; "linear" ones are linear in x."""

    form: str  # "linear", "kept", "function", "dict" or "own"
    weights: tuple[float, ...]
    lower: float = -inf
    upper: float = inf
    curvature: float = 0.0

    @property
    def is_equality(self):
        return self.lower == self.upper

    @property
    def is_kept(self):
        """Whether every evaluated point satisfies it."""
        return self.form == "kept" or (self.form == "linear" and not self.is_equality)


@dataclass(frozen=True, repr=False)
class Scenario(Short):
    """A whole run."""

    seed: int = 0
    variables: tuple[Variable, ...] = (Variable(), Variable())
    style: str = "array"  # "array", "space" or "drawn": a function that draws the start
    shape: str = "sphere"
    failure: str | None = None  # "nan", "inf" or "raise"
    where: str = "scattered"  # points that fail, or at a "wall"
    noise: bool = False
    restrictions: tuple[Restriction, ...] = ()
    handling: str | None = None
    method: str | None = None
    step_size: str | None = None
    sampling: str | None = None
    correlated: bool = False
    popsize: int | None = None
    restarts: str | int | sl.AutoRestarts | None = None
    surrogate: bool | int = False
    maxfevals: int | None = 100
    maxiter: int | None = None
    ftarget: float | None = None
    tolx: float | None = None
    tolfun: float | None = None
    rtolfun: float | None = None
    noise_floor: bool = True
    evaluate_x0: bool | None = None
    on_error: str = "raise"
    vectorized: bool = False
    workers: str = "threads"  # of the run that is compared: "threads", "map", "pool" or "processes"
    curvature: bool = False
    moment: float = 0.5  # part of the evaluations before the run is killed
    period: int = 1  # generations from one stored state to the next; 0 for none between the first and the last
    writes: bool = True  # whether each value is written when it arrives

    @property
    def is_bits(self):
        return self.variables[0].kind == "bit"

    @property
    def is_retried(self):
        """Whether points that fail are evaluated twice."""
        return self.failure == "raise" and self.on_error == "retry"

    @property
    def has_own_method(self):
        """Whether the method is an object, not a name."""
        return self.step_size is not None or self.sampling is not None

    @property
    def start(self):
        return np.array([variable.start for variable in self.variables])

    @property
    def own(self):
        """Restrictions whose values the objective returns."""
        return [one for one in self.restrictions if one.form == "own"]


# The problem


class Stumble(Exception):
    """The objective could not be evaluated."""


@dataclass(frozen=True)
class Problem:
    """What a scenario minimises: a function of arrays, or of named parameters."""

    scenario: Scenario

    def __call__(self, given):
        """The value at a point, or the values at several points; with own restrictions also their values."""
        points, is_single = self.points(given)
        values = [self.value(x) for x in points]
        own = self.scenario.own
        if not own:
            return values[0] if is_single else np.array(values)
        rows = [[self.excess(one, x) for one in own] for x in points]
        return (values[0], rows[0]) if is_single else (np.array(values), np.array(rows))

    def points(self, given):
        """Points (n, d), and whether there is a single one that was given as such."""
        if isinstance(given, dict):
            columns = [self._column(name, values) for name, values in given.items() if name != "constant"]
            return np.atleast_2d(np.array(columns, dtype=np.float64).T), np.ndim(columns[0]) == 0
        return np.atleast_2d(given), np.ndim(given) == 1

    def _column(self, name, values):
        if not self.scenario.variables[int(name[1:])].is_choice:
            return values
        return LABELS.index(values) if isinstance(values, str) else [LABELS.index(value) for value in values]

    def value(self, x):
        """The value at a point (d,), which depends on the point only, to the last bit."""
        scenario = self.scenario
        v = np.array([one.distance(xi, one.target) for one, xi in zip(scenario.variables, x.tolist(), strict=True)])
        if scenario.failure is not None and self.fails(x):
            if scenario.failure == "raise":
                raise Stumble("no value here")
            return nan if scenario.failure == "nan" else inf
        value = float(SHAPES[scenario.shape](v))
        return value + 0.1 * float(np.sin(1e7 * v.sum() + 1.0)) if scenario.noise else value

    def fails(self, x):
        """Whether there is no value at a point (d,); at the start there is one."""
        u = self.from_start(x)
        if self.scenario.where == "wall":
            return u[0] > 0.4
        return np.sin(1e6 * u.sum()) > 0.6

    def from_start(self, x):
        """Distances (d,) from the start."""
        pairs = zip(self.scenario.variables, x.tolist(), strict=True)
        return np.array([one.distance(xi, one.start) for one, xi in pairs])

    def restricted(self, one, x):
        """The value of a restriction at a point (d,)."""
        if one.form == "linear":
            return float((self.matrix(one) @ x)[0])
        u = self.from_start(x)
        return float(np.dot(one.weights, u) + one.curvature * np.dot(u, u))

    def excess(self, one, x):
        """By how much a restriction exceeds its upper bound."""
        return self.restricted(one, x) - one.upper

    def restricted_values(self, one, given):
        """Values of a restriction at a point, or (n, 1) at several points."""
        points, is_single = self.points(given)
        values = [self.restricted(one, x) for x in points]
        return values[0] if is_single else np.array(values)[:, None]

    def matrix(self, one):
        """A (1, d) of a linear restriction."""
        units = [1.0 if v.is_choice else v.start if v.is_log else v.deviation for v in self.scenario.variables]
        return np.array([one.weights]) / units

    def constraint(self, one):
        """A restriction as `minimize` takes it."""
        if one.form == "linear":
            matrix = self.matrix(one)
            begin = (matrix @ self.scenario.start)[0]
            return LinearConstraint(matrix, begin + one.lower, begin + one.upper)
        fun = partial(self.restricted_values, one)
        if one.form == "dict":
            if one.is_equality:
                return {"type": "eq", "fun": partial(self.below, one)}
            return {"type": "ineq", "fun": partial(self.below, one)}
        return NonlinearConstraint(fun, one.lower, one.upper, keep_feasible=one.form == "kept")

    def below(self, one, given):
        """Upper bound less value."""
        return one.upper - self.restricted_values(one, given)

    @cached_property
    def constraints(self):
        """The constraints as `minimize` takes them, in the order of the restrictions, own ones first."""
        own = [len(self.scenario.own)] if self.scenario.own else []
        return own + [self.constraint(one) for one in self.scenario.restrictions if one.form != "own"]

    def keeps(self, x):
        """Whether a point (d,) is where the objective may be called."""
        if not all(one.allows(xi) for one, xi in zip(self.scenario.variables, x.tolist(), strict=True)):
            return False
        return all(self.violation(one, x) == 0 for one in self.scenario.restrictions if one.is_kept)

    def violation(self, one, x):
        """By how much a restriction is violated at a point (d,)."""
        begin = float((self.matrix(one) @ self.scenario.start)[0]) if one.form == "linear" else 0.0
        value = self.restricted(one, x)
        return max(begin + one.lower - value, value - (begin + one.upper), 0.0)


def _scaled(v, condition):
    return v * np.sqrt(condition) ** (np.arange(v.size) / max(v.size - 1, 1))


SHAPES = {
    "sphere": lambda v: v @ v,
    "ellipsoid": lambda v: np.sum(_scaled(v, 1e4) ** 2) + 3.0,
    "turned": lambda v: 30.0 * np.sum(v) ** 2 + v @ v,
    "terraces": lambda v: np.floor(6.0 * (v @ v)),
    "rastrigin": lambda v: v @ v + np.sum(1.0 - np.cos(5.0 * v)),
    "kink": lambda v: np.sum(np.abs(_scaled(v, 100.0))),
    "slope": lambda v: np.sum(v),
    "flat": lambda v: 1.0,
    "likelihood": lambda v: np.sum(np.log1p(v * v)),
}
"""Functions of the distances from the target."""


def start_of(scenario):
    """`x0` as `minimize` takes it."""
    if scenario.style == "space":
        pairs = {f"v{i}": one.parameter() for i, one in enumerate(scenario.variables)}
        return sl.Space(pairs, constant=1.5)
    return partial(drawn_start, scenario) if scenario.style == "drawn" else scenario.start


def drawn_start(scenario, rng):
    """A point near the start."""
    shift = 0.3 * rng.standard_normal(scenario.start.size)
    pairs = zip(scenario.variables, shift, strict=True)
    x = [one.start * np.exp(one.deviation * s) if one.is_log else one.start + one.deviation * s for one, s in pairs]
    return np.clip(x, [one.low for one in scenario.variables], [one.high for one in scenario.variables])


RECIPES = {"cma": sl.cma, "xnes": sl.xnes, "ngd": sl.ngd, "rank-mu": sl.rank_mu}


def method_of(scenario):
    """`method` as `minimize` takes it."""
    if not scenario.has_own_method:
        return scenario.method
    name = scenario.method or "cma"
    prefix = next(prefix for prefix in reversed(FAMILIES) if name.startswith(prefix))
    recipe, family = RECIPES[name.removeprefix(prefix)], FAMILIES[prefix]
    given = {"step_size": scenario.step_size, "sampling": scenario.sampling}
    return recipe(family=family, **{key: value for key, value in given.items() if value is not None})


def search_options(scenario):
    """What `Optimizer` and `minimize` are given, besides the start."""
    variables, problem = scenario.variables, Problem(scenario)
    given = {"rng": scenario.seed, "method": method_of(scenario)}
    names = ("popsize", "restarts", "tolx", "tolfun", "rtolfun", "noise", "noise_floor", "surrogate")
    given |= {name: getattr(scenario, name) for name in names}
    if scenario.correlated:
        given["cov0"] = 0.5 * np.eye(len(variables)) + 0.5
    if scenario.restrictions:
        given |= {"constraints": problem.constraints, "constraint_handling": scenario.handling}
    if scenario.style == "space" or scenario.is_bits:
        return given
    bounds = [(one.low, one.high) for one in variables]
    if not np.isinf(bounds).all():
        given["bounds"] = bounds
    if any(one.is_log for one in variables):
        given["log_scaled"] = [one.is_log for one in variables]
    if any(one.kind == "integer" for one in variables):
        given["integrality"] = [one.kind == "integer" for one in variables]
    return given | {"sigma0": [one.deviation for one in variables]}


def run_options(scenario):
    """What `minimize` is given, besides objective and start."""
    names = ("maxfevals", "maxiter", "ftarget", "evaluate_x0", "on_error", "vectorized")
    return search_options(scenario) | {name: getattr(scenario, name) for name in names}


# Drawing


class Draw:
    """Random decisions of one seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([20261119, seed])

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def pick(self, *values):
        return values[self.rng.integers(len(values))]

    def weighted(self, weights):
        """A key, by its weight."""
        total = np.array(list(weights.values()), dtype=float)
        return list(weights)[self.rng.choice(len(weights), p=total / total.sum())]

    def number(self, low, high):
        """A number with few digits."""
        return float(np.round(self.rng.uniform(low, high), 3))


def draw(seed):
    """The scenario of a seed."""
    one = Draw(seed)
    if one.chance(0.04):
        return _with_run(one, Scenario(seed, tuple(_bit(one) for _ in range(one.pick(1, 4, 9))), method="pbil"))
    style = one.weighted({"array": 6, "space": 3, "drawn": 1})
    variables = _variables(one, style)
    scenario = Scenario(seed, variables, style, one.weighted(_shape_weights(variables)))
    is_real = all(variable.kind == "real" for variable in variables)
    if one.chance(0.4):
        scenario = _with_restrictions(one, scenario)
    elif one.chance(0.15):
        scenario = dataclasses.replace(scenario, noise=True)
    elif one.chance(0.25 if is_real else 0.02):
        scenario = dataclasses.replace(scenario, surrogate=one.pick(True, 1, 2, 5))
    scenario = _with_run(one, _with_method(one, scenario))
    scenario = _with_oddity(one, scenario) if one.chance(0.1) else scenario
    return _with_convergence(one, _with_good_start(one, _with_sampling(one, scenario)))


def _with_sampling(one, scenario):
    """Perhaps with dependent or independent points, for a recipe instead of its name."""
    method = (scenario.method or "cma").removeprefix("lra-")
    if method == "pbil" or scenario.is_bits or not one.chance(0.3):
        return scenario
    return dataclasses.replace(scenario, method=method, sampling=one.pick(*SAMPLINGS))


def _with_good_start(one, scenario):
    """Perhaps with a start at the minimum or close to it, and wide standard deviations."""
    if scenario.is_bits or not one.chance(0.2):
        return scenario
    distance, width = one.pick(0.0, 1e-6, 1e-2), one.pick(1.0, 3.0, 30.0)
    variables = tuple(_better(variable, distance, width) for variable in scenario.variables)
    shape = scenario.shape if scenario.shape != "slope" else "turned"  # whose minimum is not at the target
    return dataclasses.replace(scenario, variables=variables, shape=shape)


def _better(variable, distance, width):
    """A variable whose target is so many standard deviations from its start."""
    if variable.is_choice or variable.kind == "integer":
        return dataclasses.replace(variable, target=variable.start)
    if variable.is_log:
        return dataclasses.replace(variable, target=float(variable.start * np.exp(distance * variable.deviation)))
    deviation = width * variable.deviation
    return dataclasses.replace(variable, deviation=deviation, target=variable.start + distance * deviation)


def _with_convergence(one, scenario):
    """Perhaps with a relative tolerance, or a coarse one and many evaluations, in which several runs end."""
    if one.chance(0.15):
        scenario = dataclasses.replace(scenario, rtolfun=one.pick(1e-6, 1e-3, 0.3))
    if scenario.is_bits or scenario.maxfevals is None or not one.chance(0.15):
        return scenario
    tolerance = one.pick({"tolx": 0.3 * scenario.variables[0].deviation}, {"tolfun": 0.3}, {"rtolfun": 0.5})
    budget = max(int(one.rng.integers(300, 900)), scenario.maxfevals)
    restarts = one.pick("auto", "auto", sl.AutoRestarts(0), sl.AutoRestarts(1, same=2))
    return dataclasses.replace(scenario, restarts=restarts, maxfevals=budget, **tolerance)


def _with_oddity(one, scenario):
    """With an option that may not go together with others."""
    odd = (
        {"surrogate": 3},
        {"noise": True, "evaluate_x0": True},
        {"handling": "lexicographic"},
        {"step_size": "psr", "method": None},
        {"step_size": "tpa", "method": None},
        {"popsize": 1},
        {"maxfevals": 2},
        {"method": "pbil", "step_size": None},
        {"restarts": -1},
        {"noise": True, "vectorized": True, "popsize": 12, "failure": None},
    )
    return dataclasses.replace(scenario, **one.pick(*odd))


def _bit(one):
    return Variable("bit", 0.0, 1.0, start=0.5, target=float(one.pick(0, 1)))


def _shape_weights(variables):
    """How often each shape is minimised."""
    is_boxed = all(np.isfinite([one.low, one.high]).all() for one in variables)
    return dict.fromkeys(SHAPES, 2) | {"terraces": 4, "flat": 0.5, "slope": 3 if is_boxed else 0.5}


def _variables(one, style):
    """Variables of a search."""
    d = one.weighted({1: 2, 2: 4, 3: 4, 5: 2, 8: 0.5})
    box = one.weighted({"none": 3, "full": 4, "some": 3})
    is_mixed, is_log, scale = one.chance(0.35), one.chance(0.35), one.weighted({1.0: 8, 1e-3: 1, 1e3: 1})
    kinds = ("integer", "choice", "ordered", "real") if style == "space" else ("integer", "real")
    found = [
        _choice(one, kind)
        if kind in ("choice", "ordered")
        else _number(one, kind, box, is_log and one.chance(0.5), scale)
        for kind in (one.pick(*kinds) if is_mixed else "real" for _ in range(d))
    ]
    if d > 1 and one.chance(0.08):  # a fixed one
        found[0] = dataclasses.replace(found[0], low=found[0].start, high=found[0].start)
        if found[0].is_choice:
            found[0] = Variable("real", 0.5, 0.5, start=0.5)
    return tuple(found)


def _choice(one, kind):
    count = one.pick(2, 3, 4)
    return Variable(kind, 0.0, count - 1.0, start=float(one.rng.integers(count)), target=float(one.rng.integers(count)))


def _number(one, kind, box, is_log, scale):
    """A real or integer variable."""
    if is_log:
        start, deviation = 10 ** one.number(-3, 3), one.number(0.3, 2)
        ends = [start * np.exp(side * deviation * one.pick(0.1, 1, 3, 6)) for side in (-1, 1)]
        target = start * np.exp(deviation * one.number(-2, 2))
    else:
        start, deviation = scale * one.number(-2, 2), scale * one.number(0.2, 1.5)
        ends = [start + side * deviation * one.pick(0, 0.1, 1, 3, 6) for side in (-1, 1)]
        target = start + deviation * one.number(-2, 2)
    if kind == "integer":
        start, target, deviation = max(round(start), 1.0), float(round(target)), max(deviation, 0.4)
        ends = [max(np.floor(min(ends[0], start)), float(is_log)), np.ceil(max(ends[1], start))]
    if ends[0] >= ends[1]:
        ends[1] = start + deviation if not is_log else start * np.exp(deviation)
        ends[1] = np.ceil(ends[1]) if kind == "integer" else ends[1]
    has = {"none": (False, False), "full": (True, True), "some": (one.chance(0.5), one.chance(0.5))}[box]
    low, high = (float(end) if given else side * inf for end, given, side in zip(ends, has, (-1, 1), strict=True))
    if is_log and low == -inf and kind == "integer":
        low = 1.0
    place = one.weighted({"inside": 5, "corner": 2, "beyond": 1})
    if place != "inside" and np.isfinite(high):
        target = high if place == "corner" else high + (1.0 if kind == "integer" else deviation)
    return Variable(
        kind, low, high, is_log, float(start), float(deviation), float(max(target, 1e-6) if is_log else target)
    )


def _with_restrictions(one, scenario):
    """With one to three restrictions, which the start satisfies where it must."""
    count = one.weighted({1: 4, 2: 2, 3: 1})
    forms = {"linear": 5, "kept": 3, "function": 4, "dict": 1, "own": 2}
    found = [_restriction(one, scenario, one.weighted(forms)) for _ in range(count)]
    style = "array" if scenario.style == "drawn" and any(r.is_kept for r in found) else scenario.style
    handling = one.pick(None, *ORDERINGS)
    return dataclasses.replace(scenario, restrictions=tuple(found), handling=handling, style=style)


def _restriction(one, scenario, form):
    weights = np.round(one.rng.standard_normal(len(scenario.variables)), 2)
    is_choice = np.array([variable.is_choice for variable in scenario.variables])
    is_real = np.array([variable.kind == "real" for variable in scenario.variables])
    if form == "linear":
        weights[is_choice] = 0.0
        if one.chance(0.2) and not is_real.all():
            weights[is_real] = 0.0  # of integers only
        if not weights.any() and not is_choice.all():
            weights[~is_choice] = 1.0
    curvature = one.pick(0.0, 0.0, 0.5, 1.0) if form != "linear" else 0.0
    upper = one.number(-0.5, 2)  # which the start may violate
    if form in ("linear", "kept"):
        upper = max(upper, 0.0)
    lower = upper - one.number(2.5, 5) if one.chance(0.2) and form != "own" else -inf
    if one.chance(0.15) and form in ("function", "dict", "linear"):
        lower = upper
    if form == "dict":
        lower = upper if lower == upper else -inf
    return Restriction(form, tuple(weights.tolist()), lower, upper, curvature)


def _with_method(one, scenario):
    """With a method, a step-size rule and a surrounding covariance."""
    prefix, rates = one.weighted(dict.fromkeys(FAMILIES, 1) | {"": 4}), one.weighted({"": 6, "lra-": 1})
    name = one.weighted({"cma": 6, "xnes": 1, "ngd": 1, "rank-mu": 1})
    step_size = one.weighted({None: 12} | {name: 1 for name in reversed(STEP_SIZES) if name != "csa"})
    if scenario.surrogate or scenario.restrictions:
        step_size = one.weighted({None: 30, "tpa": 1})
    method = None if one.chance(0.4) or step_size else rates + prefix + name
    return dataclasses.replace(scenario, method=method, step_size=step_size, correlated=one.chance(0.05))


def _with_run(one, scenario):
    """With restarts, budgets, failures, evaluation and interruption."""
    popsize = one.weighted({None: 6, 4: 1, 7: 1, 12: 1, 20: 1})
    d = len(scenario.variables)
    size = (popsize or 4 + int(3 * np.log(d))) * (2 if scenario.surrogate and popsize is None else 1)
    budget = one.weighted({"tiny": 2, "small": 3, "medium": 10, "large": 2})
    extra, is_open = int(one.rng.integers(0, 3)), one.chance(0.03)
    more = {
        "tiny": size + extra,
        "small": int(one.rng.integers(size, 5 * size)),
        "medium": int(one.rng.integers(30, 160)),
        "large": int(one.rng.integers(200, 450)),
    }
    failure = one.weighted({None: 8, "nan": 1, "inf": 0.5, "raise": 1})
    vectorized = one.chance(0.2) and failure != "raise"
    return dataclasses.replace(
        scenario,
        popsize=popsize,
        restarts=one.weighted({None: 4, **dict.fromkeys(STRATEGIES, 2), 1: 1}),
        maxfevals=None if is_open else max(more[budget], size) + (20 if scenario.noise else 0),
        maxiter=12 if is_open else one.weighted({None: 15, 3: 1, 30: 1}),
        ftarget=one.weighted({None: 9, 0.5: 1}),
        tolx=one.weighted({None: 5, 1e-2: 1, 0.2: 1}),
        tolfun=one.weighted({None: 6, 1e-3: 1}),
        noise_floor=one.chance(0.9),
        evaluate_x0=None if scenario.is_bits or scenario.noise else one.weighted({None: 6, True: 1, False: 1}),
        failure=failure,
        where=one.pick("scattered", "wall"),
        on_error=one.weighted({"raise": 2, "nan": 4, "retry": 2}),
        vectorized=vectorized,
        workers=one.weighted({"threads": 10, "map": 4, "pool": 3, "processes": 0.1}),
        curvature=one.chance(0.4),
        moment=one.number(0.0, 1.0),
        period=one.weighted({1: 5, 3: 2, 0: 2}),
        writes=one.chance(0.8),
    )
