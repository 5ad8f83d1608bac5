"""Any space and any values: no invalid point is asked, no discrete value is stuck, the state stays finite, and points
and parameters convert into each other.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import sublevel as sl
from helpers.cases import OTHER_STEP_SIZES
from sublevel.run.integers import RESOLUTION
from sublevel.run.parameters import LARGEST_INTEGER
from sublevel.validation import RECIPES

METHODS = [name for name in RECIPES if name != "pbil"]
RULES = [sl.cma(step_size=rule) for rule in OTHER_STEP_SIZES]
QUICK, TELLS = 400, 12
"""Spaces in an ordinary run of the tests, and tells of each."""
SLOW, SLOW_TELLS = 5000, 20
"""Spaces in the slow run: with their tells 10⁵."""

bounded = settings(deadline=None, suppress_health_check=list(HealthCheck))


# Spaces


@st.composite
def reals(draw):
    """Real parameters: bounded, open, fixed, log-scaled, with a scale and a start."""
    log = draw(st.booleans())
    thousandths = sorted(draw(st.tuples(*[st.integers(-8000, 8000) if log else st.integers(-(10**9), 10**9)] * 2)))
    low, high = (10 ** (number / 1000) if log else number / 1000 for number in thousandths)
    scales = st.sampled_from([1e-3, 0.1, 1.0, 7.0, 1e3])
    kind = draw(st.sampled_from(["closed", "closed", "closed", "above", "below", "open", "fixed"]))
    if kind in ("closed", "fixed"):
        start = draw(st.none() | st.sampled_from([low, high, low + 0.3 * (high - low)]))
        return (
            sl.Real(low, high, log=log, scale=draw(st.none() | scales), start=start)
            if kind == "closed"
            else sl.Real(low, low)
        )
    low, high = low if kind == "above" else None, high if kind == "below" else None
    return sl.Real(low, high, log=log, scale=draw(scales))


@st.composite
def integers(draw):
    """Integer parameters: of two values, of many, open, fixed, log-scaled."""
    log = draw(st.booleans())
    low = draw(st.integers(1, 1000) if log else st.integers(-1000, 1000))
    high = low + draw(st.sampled_from([0, 1, 2, 5, 100, 10**6, 10**12]))
    kind = draw(st.sampled_from(["closed", "closed", "closed", "above", "below", "open"]))
    if kind == "closed":
        start = draw(st.none() | st.integers(low, high))
        return sl.Integer(low, high, log=log, start=start, scale=draw(st.none() | st.floats(1e-3, 1e3)))
    low, high = low if kind == "above" else None, high if kind == "below" else None
    return sl.Integer(low, high, log=log, scale=draw(st.floats(1e-3, 1e3)))


@st.composite
def choices(draw):
    """Choices of one to nine values of several types, ordered or not."""
    values = draw(
        st.lists(
            st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none(), st.floats(allow_nan=False)),
            min_size=1,
            max_size=9,
            unique_by=lambda value: (type(value), value),
        )
    )
    return sl.Choice(*values, ordered=draw(st.booleans()), start=draw(st.sampled_from(values)))


def can_be_searched(space):
    """Whether a parameter is not fixed."""
    found = space.coordinates()
    return bool(np.any((found.lower < found.upper) | (found.categories > 0)))


@st.composite
def spaces(draw):
    """Spaces of up to six parameters and a constant."""
    kinds = draw(st.lists(st.one_of(reals(), integers(), choices()), min_size=1, max_size=6))
    parameters = {f"p{i}": parameter for i, parameter in enumerate(kinds)} | {"constant": draw(st.none() | st.text())}
    if all(isinstance(p, sl.Choice) and len(p.values) == 1 for p in kinds) or not can_be_searched(sl.Space(parameters)):
        parameters["free"] = sl.Integer(0, 3)
    return sl.Space(parameters)


# Values


def slope(rng, X, _):
    return X @ rng.standard_normal(X.shape[1])


def ties(rng, X, t):
    return rng.integers(0, 3, len(X)) * 1.0


def constant(rng, X, t):
    return np.zeros(len(X))


def failing(rng, X, t):
    return np.where(rng.random(len(X)) < 0.5, np.nan, rng.standard_normal(len(X)))


def all_failing(rng, X, t):
    return np.full(len(X), np.nan)


def infinite(rng, X, t):
    return rng.choice([np.inf, 0.0, 1.0], len(X))


def unbounded(rng, X, t):
    return np.where(rng.random(len(X)) < 0.2, -np.inf, 0.0)


def toward_the_start(rng, X, t):
    """The same order in every generation, so that everything settles."""
    return np.abs(X).sum(axis=1)


def away(rng, X, t):
    with np.errstate(over="ignore"):
        return -np.abs(X).sum(axis=1)


def one_best(rng, X, t):
    return np.where(np.arange(len(X)) == t % len(X), 0.0, 1.0)


KINDS = [slope, ties, constant, failing, all_failing, infinite, unbounded, toward_the_start, away, one_best]


# What must hold


def check_points(space, X):
    """Points (n, d) are within the bounds, whole where they must be, and survive decoding."""
    c = space.coordinates()
    assert np.isfinite(X).all()
    assert (c.lower <= X).all()
    assert (c.upper >= X).all()
    whole = c.is_integer | (c.categories > 0)
    assert np.array_equal(X[:, whole], np.rint(X[:, whole]))
    assert (X[:, c.categories > 0] < c.categories[c.categories > 0]).all()
    for x in X:
        values = space.decode(x)
        assert np.array_equal(space.encode(values), x)
        assert space.decode(space.encode(values)) == values


def leaves(value):
    """All arrays and numbers of a state, but the told values that a step-size rule keeps."""
    if value is None or isinstance(value, str | type):
        return []
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    if hasattr(value, "__dataclass_fields__"):
        return [
            leaf for name in value.__dataclass_fields__ if name != "values" for leaf in leaves(getattr(value, name))
        ]
    return [np.asarray(value)]


def check_state(optimizer):
    """Everything that the search remembers is finite."""
    numbers = [leaf for leaf in leaves(optimizer.state) if leaf.dtype.kind == "f"]
    assert numbers
    assert all(np.isfinite(leaf).all() for leaf in numbers)
    assert np.isfinite(optimizer.mean).all()


def check_categories(optimizer):
    """No category is less probable than its margin."""
    choices = optimizer.theta.choices
    if choices is None:
        return
    margin = optimizer.theta.margin
    assert np.array_equal(choices.counts, optimizer.space.categories)
    least = margin / (choices.counts - 1)
    own = np.where(choices.probabilities > 0, choices.probabilities, np.inf)
    assert (own.min(axis=-1) >= least * (1 - 1e-9)).all()
    assert np.allclose(choices.probabilities.sum(axis=-1), 1.0, rtol=1e-12)


def check_integers(optimizer):
    """No integer is left with less than the margin's probability, neither by the record nor by the distribution."""
    theta, grid = optimizer.theta, None if optimizer.space is None else optimizer.space.grid
    if grid is None:
        return
    here = grid.nearest(theta.mean)
    below, above = grid.position(here - 0.5), grid.position(here + 0.5)
    resolved = grid.is_integer & (above - below > 1e3 * RESOLUTION * np.spacing(np.abs(above)))
    lower = np.where(here > grid.low, ndtr((below - theta.mean) / theta.deviations), 0.0)
    upper = np.where(here < grid.high, ndtr((theta.mean - above) / theta.deviations), 0.0)
    assert ((lower + upper)[resolved] >= grid.margin * (1 - 1e-3)).all()
    assert (theta.leaving[resolved] >= grid.margin * (1 - 1e-6)).all()


def check(space, method, kinds, seed, tells):
    """A run of some generations with values of these kinds in turn."""
    optimizer, rng = sl.Optimizer(space, method=method, rng=seed), np.random.default_rng(seed)
    check_points(space, optimizer.best_x[None])
    for t in range(tells):
        X = optimizer.ask()
        check_points(space, X)
        optimizer.tell(X, kinds[t * len(kinds) // tells](rng, X, t))
        check_state(optimizer)
        check_categories(optimizer)
        check_integers(optimizer)
        optimizer.stop()


RUN = {
    "space": spaces(),
    "method": st.sampled_from([*METHODS, *RULES]),
    "kinds": st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    "seed": st.integers(0, 2**32),
}


@settings(bounded, max_examples=QUICK)
@given(**RUN)
def test_any_space_with_any_values(space, method, kinds, seed):
    check(space, method, kinds, seed, TELLS)


def test_a_covariance_may_round_to_a_singular_one():
    """A far too wide start, from where values decrease outwards: points cannot be centred any more."""
    space = sl.Space(p0=sl.Integer(1, 109, log=True, scale=293.0), p1=sl.Integer(scale=146.0))
    check(space, "xnes", [away, ties], 708, SLOW_TELLS)


@pytest.mark.slow  # 10⁵ tells
@settings(bounded, max_examples=SLOW)
@given(**RUN)
def test_many_spaces_with_any_values(space, method, kinds, seed):
    check(space, method, kinds, seed, SLOW_TELLS)


@settings(bounded, max_examples=100)
@given(space=spaces())
def test_description_of_any_space_makes_the_same_space(space):
    again = sl.Space.from_description(space.describe())
    assert again == space
    assert all(np.array_equal(a, b) for a, b in zip(again.coordinates(), space.coordinates(), strict=True))


def near(low, high, log):
    """Bounds within which a start is drawn if there are none."""
    low = max(low, 1e-9 if log else -1e9)
    return low, max(low, min(high, 1e9))


@settings(bounded, max_examples=100)
@given(space=spaces(), data=st.data())
def test_any_point_is_a_start(space, data):
    c = space.coordinates()
    x = np.array([data.draw(st.floats(*near(low, high, log))) for low, high, log in zip(*c[2:5], strict=True)])
    whole = c.is_integer | (c.categories > 0)
    x = np.where(whole, np.clip(np.rint(x), c.lower, c.upper), x)
    moved = space.start_at(space.decode(x))
    assert np.array_equal(moved.coordinates().x0, x)
    assert np.array_equal(sl.Optimizer(moved, rng=1).best_x, x)


LONG = {
    "all discrete": sl.Space(a=sl.Integer(0, 100), b=sl.Integer(1, 10**6, log=True), k=sl.Choice("x", "y", "z")),
    "bits": sl.Space({f"b{i}": sl.Choice(False, True) for i in range(8)}),
    "mixed": sl.Space(a=sl.Real(-1, 1), n=sl.Integer(0, 5), m=sl.Integer(scale=2), k=sl.Choice("x", "y")),
}


@pytest.mark.parametrize("method", ["cma", "sep-cma", "lra-cma", "xnes", "ngd", "rank-mu"])
@pytest.mark.parametrize("space", LONG.values(), ids=LONG)
def test_nothing_is_stuck_when_a_search_goes_on_after_its_end(space, method):
    """A thousand generations on one simple function: the Gaussian becomes as narrow as it can."""
    optimizer, rng = sl.Optimizer(space, method=method, rng=1), np.random.default_rng(1)
    for t in range(1000):
        X = optimizer.ask()
        optimizer.tell(X, toward_the_start(rng, X, t))
        check_state(optimizer)
        check_categories(optimizer)
        check_integers(optimizer)
    check_points(space, X)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("kind", [away, slope, ties])
def test_integers_that_floats_do_not_resolve(log, kind):
    space = sl.Space(a=sl.Integer(1, LARGEST_INTEGER, log=log), b=sl.Integer(log=log, scale=50.0))
    optimizer, rng = sl.Optimizer(space, rng=1), np.random.default_rng(1)
    for t in range(400):
        X = optimizer.ask()
        check_points(space, X)
        optimizer.tell(X, kind(rng, X, t))
        check_state(optimizer)
    assert math.isfinite(optimizer.best_fun)
