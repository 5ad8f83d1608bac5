"""Bad input is refused at the door: what is wrong, what was given, what to do, and before the first evaluation."""

from __future__ import annotations

import dataclasses
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sublevel as sl
from helpers.runs import GAUSSIAN, METHODS, cube, started, told


class Opaque:
    """Not a number, and always shown the same."""

    def __repr__(self):
        return "Opaque()"


NAN, INF = float("nan"), float("inf")
EYE = np.eye(2)

# One argument each, on top of x0 = [0, 0] and sigma0 = 0.5: the error, and words of what was given.
STARTS = [
    ("x0", [], ValueError, "[]"),
    ("x0", np.empty((0, 3)), ValueError, "(0, 3)"),
    ("x0", None, TypeError, "None"),
    ("x0", "origin", TypeError, "origin"),
    ("x0", ["1", "2"], TypeError, "['1', '2']"),
    ("x0", [1j, 0], TypeError, "1j"),
    ("x0", [True, False], TypeError, "True"),
    ("x0", [0.0, None], TypeError, "None"),
    ("x0", {0.0, 1.0}, TypeError, "{"),
    ("x0", {"a": 1}, TypeError, "'a'"),
    ("x0", [10**400, 0], TypeError, "dtype object"),
    ("x0", [[0.0]] * 500 + [[0.0, 1.0]], ValueError, "[[0.0], [0.0]"),
    ("x0", np.array(["2020-01-01"], dtype="datetime64[ns]"), TypeError, "2020"),
    ("x0", [NAN, 0.0], ValueError, "nan"),
    ("x0", [0.0, INF], ValueError, "inf"),
    ("x0", -INF, ValueError, "-inf"),
    ("x0", [1e305, 0.0], ValueError, "1e+305"),
    ("x0", np.ma.masked_array([1.0, 2.0], mask=[False, True]), ValueError, "--"),
    ("x0", [[1.0, 2.0]], ValueError, "(1, 2)"),
    ("x0", np.zeros((2, 2, 2)), ValueError, "(2, 2, 2)"),
    ("x0", [[1.0], [2.0, 3.0]], ValueError, "[[1.0], [2.0, 3.0]]"),
    ("sigma0", None, TypeError, "None"),
    ("sigma0", 0, ValueError, "0"),
    ("sigma0", -1.0, ValueError, "-1.0"),
    ("sigma0", NAN, ValueError, "nan"),
    ("sigma0", INF, ValueError, "inf"),
    ("sigma0", "wide", TypeError, "wide"),
    ("sigma0", 1j, TypeError, "1j"),
    ("sigma0", True, TypeError, "True"),
    ("sigma0", [], ValueError, "[]"),
    ("sigma0", [1.0, 0.0], ValueError, "[1.0, 0.0]"),
    ("sigma0", [1.0, -2.0], ValueError, "-2.0"),
    ("sigma0", [1.0, NAN], ValueError, "nan"),
    ("sigma0", [1.0, 1.0, 1.0], ValueError, "(3,)"),
    ("sigma0", EYE, ValueError, "(2, 2)"),
    ("sigma0", [[1.0], [1.0, 2.0]], ValueError, "[1.0, 2.0]"),
    ("sigma0", 5e-324, ValueError, "5e-324"),
    ("sigma0", 1e305, ValueError, "1e+305"),
    ("sigma0", [1e-200, 1e200], ValueError, "1e-200"),
    ("cov0", 1.0, ValueError, "()"),
    ("cov0", [1.0, 1.0], ValueError, "(2,)"),
    ("cov0", np.ones((2, 3)), ValueError, "(2, 3)"),
    ("cov0", np.eye(3), ValueError, "(3, 3)"),
    ("cov0", np.ones((2, 2, 2)), ValueError, "(2, 2, 2)"),
    ("cov0", np.empty((0, 0)), ValueError, "(0, 0)"),
    ("cov0", [[1.0, 0.5], [0.2, 1.0]], ValueError, "0.2"),
    ("cov0", [[1.0, 0.5], [-0.5, 1.0]], ValueError, "must be symmetric, got [[1.0, 0.5], [-0.5, 1.0]]"),
    ("cov0", [[1.0, 9.0], [0.0, 1.0]], ValueError, "must be symmetric"),
    ("cov0", [[1.0, 2.0], [2.0, 1.0]], ValueError, "must be positive definite, got [[1.0, 2.0], [2.0, 1.0]]"),
    ("cov0", [[1.0, 1.0], [1.0, 1.0]], ValueError, "must be positive definite, got [[1.0, 1.0], [1.0, 1.0]]"),
    ("cov0", [[1.0, 0.0], [0.0, 0.0]], ValueError, "0."),
    ("cov0", -EYE, ValueError, "-1."),
    ("cov0", np.zeros((2, 2)), ValueError, "0."),
    ("cov0", [[1e-300, 1e300], [1e300, 1e-300]], ValueError, "1e+300"),
    ("cov0", [[NAN, 0.0], [0.0, 1.0]], ValueError, "nan"),
    ("cov0", [[1.0, INF], [INF, 1.0]], ValueError, "inf"),
    ("cov0", "identity", TypeError, "identity"),
    ("cov0", EYE * 1j, TypeError, "1.j"),
    ("popsize", 1, ValueError, "1"),
    ("popsize", 0, ValueError, "0"),
    ("popsize", -8, ValueError, "-8"),
    ("popsize", True, ValueError, "True"),
    ("popsize", 8.0, TypeError, "8.0"),
    ("popsize", NAN, TypeError, "nan"),
    ("popsize", "8", TypeError, "'8'"),
    ("popsize", [8], TypeError, "[8]"),
    ("rng", -1, ValueError, "-1"),
    ("rng", "seed", TypeError, "seed"),
    ("rng", 1.5, TypeError, "1.5"),
    ("rng", np.random, TypeError, "numpy.random"),
    ("method", "bfgs", ValueError, "'bfgs'"),
    ("method", "", ValueError, "''"),
    ("method", 3, TypeError, "3"),
    ("method", sl.ngd, TypeError, "ngd"),
]
RUNS = [
    ("fun", None, TypeError, "None"),
    ("fun", 3.0, TypeError, "3.0"),
    ("maxfevals", 0, ValueError, "0"),
    ("maxfevals", -1, ValueError, "-1"),
    ("maxfevals", 5, ValueError, "5"),
    ("maxfevals", 100.5, TypeError, "100.5"),
    ("maxfevals", NAN, TypeError, "nan"),
    ("maxfevals", -INF, TypeError, "-inf"),
    ("maxfevals", "many", TypeError, "many"),
    ("maxfevals", True, ValueError, "True"),
    ("maxiter", 0, ValueError, "0"),
    ("maxiter", 1.5, TypeError, "1.5"),
    ("maxiter", [10], TypeError, "[10]"),
    ("ftarget", NAN, ValueError, "nan"),
    ("ftarget", "1e-8", TypeError, "1e-8"),
    ("ftarget", 1j, TypeError, "1j"),
    ("ftarget", [1.0, 2.0], ValueError, "[1.0, 2.0]"),
    ("ftarget", [], ValueError, "[]"),
    ("callback", 3, TypeError, "3"),
    ("callback", "print", TypeError, "print"),
    ("vectorized", "yes", TypeError, "yes"),
    ("vectorized", 1, TypeError, "1"),
    ("vectorized", None, TypeError, "None"),
]


def named(cases):
    return [pytest.param(*case, id=f"{case[0]}={case[3]}-{index}") for index, case in enumerate(cases)]


def assert_explains(error, name, words):
    assert f"`{name}`" in str(error)
    assert words in str(error)
    assert len(str(error)) < 1000


@pytest.mark.parametrize(("name", "given", "kind", "words"), named(STARTS))
def test_a_bad_start_is_refused_with_its_name_and_what_was_given(name, given, kind, words):
    arguments = {"x0": [0.0, 0.0], "sigma0": 0.5, name: given}
    with pytest.raises(kind) as caught:
        sl.Optimizer(**arguments)
    assert_explains(caught.value, name, words)


@pytest.mark.parametrize(("name", "given", "kind", "words"), named(STARTS + RUNS))
def test_nothing_is_evaluated_before_all_arguments_are_checked(name, given, kind, words):
    calls = []
    arguments = {"fun": calls.append, "x0": [0.0, 0.0], "sigma0": 0.5, "popsize": 6, name: given}
    with pytest.raises(kind) as caught:
        sl.minimize(**arguments)
    assert_explains(caught.value, name, words)
    assert calls == []


@pytest.mark.parametrize("family", ["full", sl.FullGaussian(np.zeros(2), EYE, np.float64(1.0)).mean, None])
def test_a_family_that_is_none_is_refused(family):
    with pytest.raises(TypeError, match="`family`"):
        sl.Optimizer([0.0, 0.0], 0.5, method=sl.ngd(family=family))


@pytest.mark.parametrize("c_cov", [0.0, -0.1, 1.0001, NAN, INF])
def test_a_covariance_rate_outside_its_interval_is_refused(c_cov):
    with pytest.raises(ValueError, match=r"`c_cov` must lie in \(0, 1\], got") as caught:
        sl.ngd(c_cov=c_cov)
    assert repr(c_cov) in str(caught.value)


@pytest.mark.parametrize("popsize", [1, 0, -3])
@pytest.mark.parametrize("recipe", [sl.ngd, sl.rank_mu, sl.pbil])
def test_a_popsize_in_the_method_is_checked_too(recipe, popsize):
    with pytest.raises(ValueError, match=f"`popsize`.*{popsize}"):
        started(recipe(popsize=popsize), d=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sigma0": 0.5}, "`sigma0`, got 0.5"),
        ({"cov0": EYE}, "`cov0`, got array"),
        ({"x0": [0.5, 1.5]}, "`x0` must hold probabilities"),
        ({"x0": [-0.1, 0.5]}, "`x0` must hold probabilities"),
    ],
)
def test_bits_have_probabilities_and_no_deviations(arguments, words):
    with pytest.raises(ValueError, match="binary method") as caught:
        sl.Optimizer(**{"x0": [0.5, 0.5], "sigma0": None, "method": "pbil", **arguments})
    assert words in str(caught.value)


def test_a_near_miss_of_a_name_is_suggested():
    with pytest.raises(ValueError, match="Did you mean 'rank-mu'"):
        sl.Optimizer([0.0], 1.0, method="Rank_mu")


def test_what_a_function_for_x0_raises_says_who_called_it():
    with pytest.raises(TypeError, match="has no len") as caught:
        sl.Optimizer(len, 1.0)
    (note,) = caught.value.__notes__
    assert "raised by `x0`" in note
    assert "Generator" in note
    with pytest.raises(ValueError, match="`x0` must be finite") as caught:
        sl.Optimizer(lambda rng: [NAN, 0.0], 1.0)
    assert not hasattr(caught.value, "__notes__")


def test_a_message_does_not_repeat_a_million_numbers():
    with pytest.raises(ValueError, match="`x0` must be finite") as caught:
        sl.Optimizer([NAN] * 100_000, 1.0)
    assert "got [nan, nan" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("x0", [0, 1.5, [2], (1, 2.5), np.float32(3), np.arange(3), range(4), np.array(1.0)])
@pytest.mark.parametrize("sigma0", [1, 0.5, [0.5], np.array(0.5), np.float32(2)])
def test_what_can_be_read_as_a_start_is_accepted(x0, sigma0):
    opt = sl.Optimizer(x0, sigma0)
    np.testing.assert_array_equal(opt.mean, np.atleast_1d(x0))
    np.testing.assert_array_equal(opt.deviations, np.broadcast_to(sigma0, opt.mean.shape))


def test_the_start_is_a_copy_of_what_was_given():
    x0, sigma0, cov0 = np.ones(2), np.ones(2), np.eye(2)
    opt = sl.Optimizer(x0, sigma0, cov0=cov0)
    for given in (x0, sigma0, cov0):
        given[...] = NAN
    np.testing.assert_array_equal(opt.mean, [1.0, 1.0])
    np.testing.assert_array_equal(opt.cov, EYE)


@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
def test_sigma_and_covariance_multiply(family):
    opt = sl.Optimizer([0.0, 0.0], [1.0, 3.0], cov0=[[4.0, 1.0], [1.0, 9.0]], method=sl.ngd(family=family))
    full = np.array([[4.0, 3.0], [3.0, 81.0]])
    expected = {sl.FullGaussian: full, sl.DiagonalGaussian: np.diag(np.diag(full)), sl.IsotropicGaussian: 42.5 * EYE}
    np.testing.assert_allclose(opt.cov, expected[family], rtol=1e-14)


# ---------------------------------------------------------------------------------------------------- what the
# objective returns

GOOD_VALUES = [
    1.0,
    1,
    True,
    np.True_,
    np.float32(1),
    np.int8(1),
    np.uint64(1),
    np.longdouble(1),
    np.array(1.0),
    np.array([1.0]),
    np.array([[[1]]]),
    [1.0],
    (True,),
    Decimal(1),
    Fraction(1),
    np.array([Fraction(1)], dtype=object),
    np.array(Decimal(1), dtype=object),
    np.ma.masked_array([1.0]),
]
BAD_VALUES = [
    (None, TypeError),
    ("1.0", TypeError),
    (b"1.0", TypeError),
    ("", TypeError),
    (1 + 0j, TypeError),
    (np.complex64(1), TypeError),
    (np.array([1j]), TypeError),
    (np.array([np.complex64(1)], dtype=object), TypeError),
    ({}, TypeError),
    ({"f": 1.0}, TypeError),
    (Opaque(), TypeError),
    (len, TypeError),
    (Ellipsis, TypeError),
    ([None], TypeError),
    (np.array(["1.0"], dtype=object), TypeError),
    (np.datetime64("2020-01-01", "ns"), TypeError),
    (np.timedelta64(1, "ns"), TypeError),
    (10**400, TypeError),
    (Decimal("sNaN"), TypeError),
    ([], ValueError),
    (np.empty(0), ValueError),
    ([1.0, 2.0], ValueError),
    (np.ones(2), ValueError),
    (np.ones((2, 2)), ValueError),
    ([[1.0], [1.0, 2.0]], ValueError),
]


@pytest.mark.parametrize("value", GOOD_VALUES, ids=repr)
def test_anything_that_is_one_real_number_is_a_value(value):
    result = sl.minimize(lambda x: value, [0.0, 0.0], 1.0, popsize=4, maxiter=1)
    assert result.fun == 1.0
    assert isinstance(result.fun, float)


@pytest.mark.parametrize("value", GOOD_VALUES, ids=repr)
def test_values_may_be_such_numbers_in_a_list_too(value):
    flat = value if np.ndim(value) == 0 else np.asarray(value).item()
    result = sl.minimize(lambda X: [flat] * len(X), [0.0, 0.0], 1.0, popsize=4, maxiter=1, vectorized=True)
    assert result.fun == 1.0


@pytest.mark.parametrize(("value", "kind"), BAD_VALUES, ids=repr)
def test_what_is_not_one_real_number_is_refused_with_the_point(value, kind):
    with pytest.raises(kind, match="got") as caught:
        sl.minimize(lambda x: value, [0.0, 0.0], 1.0, rng=1)
    np.testing.assert_array_equal(caught.value.sublevel_x, [0.0, 0.0])  # the start comes first
    assert caught.value.sublevel_result.nfev == 0


@pytest.mark.parametrize(("value", "kind"), BAD_VALUES, ids=repr)
def test_one_bad_value_among_good_ones_is_refused_in_a_batch(value, kind):
    values = np.ones(6, dtype=object)
    values[3] = value
    with pytest.raises((TypeError, ValueError), match="got"):
        sl.minimize(lambda X: values, [0.0, 0.0], 1.0, popsize=6, vectorized=True)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (None, TypeError),
        (1.0, ValueError),
        (np.ones(5), ValueError),
        (np.ones(7), ValueError),
        (np.ones((6, 1)), ValueError),
        (np.ones((1, 6)), ValueError),
        ([], ValueError),
        ("6 ones", ValueError),
        (np.ones(6) * 1j, TypeError),
        (np.array(["1"] * 6), TypeError),
        ([None] * 6, TypeError),
        (np.zeros(6, dtype="datetime64[ns]"), TypeError),
        ([[1.0]] * 5 + [[1.0, 2.0]], ValueError),
    ],
    ids=repr,
)
def test_a_batch_needs_one_real_number_per_point(values, kind):
    with pytest.raises(kind, match="got") as caught:
        sl.minimize(lambda X: values, [0.0, 0.0], 1.0, popsize=6, vectorized=True)
    assert caught.value.sublevel_x.shape == (6, 2)
    assert caught.value.sublevel_result.nfev == 0


@pytest.mark.parametrize("vectorized", [False, True])
def test_forgetting_to_return_is_named(vectorized):
    with pytest.raises(TypeError, match="Did you forget `return`"):
        sl.minimize(lambda x: None, [0.0, 0.0], 1.0, vectorized=vectorized)


def test_masked_values_count_as_nan():
    values = np.ma.masked_array([1.0, -5.0, 3.0, 4.0], mask=[False, True, False, False])
    result = sl.minimize(lambda X: values, [0.0, 0.0], 1.0, popsize=4, maxiter=1, vectorized=True)
    assert result.fun == 1.0
    assert np.isnan(sl.minimize(lambda x: np.ma.masked, [0.0, 0.0], 1.0, popsize=4, maxiter=1).fun)


def test_long_doubles_beyond_floats_are_infinite():
    huge = np.longdouble("1e4000")
    if not np.isfinite(huge):
        pytest.skip("long doubles are floats here")
    for vectorized in (False, True):
        result = sl.minimize(
            lambda X, v=vectorized: np.full(4, huge) if v else huge,
            [0.0, 0.0],
            1.0,
            popsize=4,
            maxiter=1,
            vectorized=vectorized,
        )
        assert result.fun == INF


# ---------------------------------------------------------------------------------------------------- what the
# objective raises


class Broken(Exception):
    """Somebody's own exception."""


class Sealed(Exception):
    """An exception that forbids attributes."""

    __slots__ = ()

    def __setattr__(self, name, value):
        raise AttributeError(name)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """A frozen dataclass."""

    code: int


class Hidden(Exception):
    """An exception that hides even its dictionary."""

    @property
    def __dict__(self):
        raise AttributeError("__dict__")

    def add_note(self, note):
        raise RuntimeError("no notes")


RAISED = [
    (ValueError, "bad"),
    (KeyError, "k"),
    (ZeroDivisionError,),
    (Broken, 1, 2),
    (StopIteration, 3),
    (OSError, 2, "no file"),
    (AssertionError,),
    (MemoryError,),
    (RecursionError,),
    (SystemExit, 3),
    (GeneratorExit,),
    (ExceptionGroup, "g", [ValueError(1)]),
    (Sealed, "x"),
    (Frozen, 3),
    (Hidden, "y"),
]


def failing_after(calls, error, seen):
    def fun(x):
        if len(seen) == calls:
            raise error
        seen.append((float(np.sum(x * x)), np.array(x)))
        return seen[-1][0]

    return fun


@pytest.mark.parametrize("calls", [0, 1, 5, 6, 20])
@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: raised[0].__name__)
def test_what_the_objective_raises_arrives_with_the_point_and_the_work_done(raised, calls):
    error, seen = raised[0](*raised[1:]), []
    with pytest.raises(type(error)) as caught:
        sl.minimize(failing_after(calls, error, seen), [1.0, 1.0], 0.5, popsize=6, rng=3)
    assert caught.value is error
    if isinstance(error, Hidden):
        return
    expected = sl.Optimizer([1.0, 1.0], 0.5, popsize=6, rng=3)
    generations, place = divmod(max(calls - 1, 0), 6)  # after the start
    for _ in range(generations):
        X = expected.ask()
        expected.tell(X, np.array([np.sum(x * x) for x in X]))
    np.testing.assert_array_equal(error.sublevel_x, expected.ask()[place] if calls else [1.0, 1.0])
    result = error.sublevel_result
    assert (result.nfev, result.nit, len(result.history)) == (calls, generations, generations)
    assert not result.success
    assert list(result.reasons) == ["interrupted"]
    if calls:
        best, point = min(seen, key=lambda pair: pair[0])
        assert result.fun == best
        np.testing.assert_array_equal(result.x, point)
    else:
        assert np.isnan(result.fun)
        np.testing.assert_array_equal(result.x, [1.0, 1.0])


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: raised[0].__name__)
def test_what_a_batch_objective_raises_arrives_with_the_sample(raised):
    error, seen = raised[0](*raised[1:]), []

    def fun(X):
        if len(seen) == 3:
            raise error
        seen.append(cube(X))
        return seen[-1]

    with pytest.raises(type(error)) as caught:
        sl.minimize(fun, [1.0, 1.0], 0.5, popsize=6, rng=3, vectorized=True)
    assert caught.value is error
    if isinstance(error, Hidden):
        return
    assert error.sublevel_x.shape == (6, 2)
    result = error.sublevel_result
    assert (result.nfev, result.nit, result.fun) == (18, 3, np.min(seen))


def test_the_note_tells_the_point():
    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(lambda x: 1 / 0, [1.0, 1.0], 0.5)
    (note,) = caught.value.__notes__
    assert note.startswith("sublevel: raised at x = [")
    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(lambda x: 1 / 0, [1.0, 1.0], 0.5, vectorized=True)
    (note,) = caught.value.__notes__
    assert "(7, 2)" in note  # the start and six others


def test_the_chain_of_causes_is_the_objectives_own():
    cause = KeyError("why")

    def fun(x):
        raise Broken from cause

    with pytest.raises(Broken) as caught:
        sl.minimize(fun, [1.0, 1.0], 0.5)
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None


def test_a_run_inside_an_objective_leaves_both_notes_and_the_outer_result():
    def inner(x):
        raise Broken

    with pytest.raises(Broken) as caught:
        sl.minimize(lambda x: sl.minimize(inner, [0.0], 1.0).fun, [1.0, 1.0], 0.5)
    assert len(caught.value.__notes__) == 2
    assert caught.value.sublevel_x.shape == (2,)
    assert caught.value.sublevel_result.x.shape == (2,)


# ---------------------------------------------------------------------------------------------------- what the
# objective may not do


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("vectorized", [False, True])
def test_the_objective_cannot_change_its_points(name, vectorized):
    method = METHODS[name]
    sigma0 = None if method.family is sl.Bernoulli else 0.5

    def writes(x):
        x[...] = 0.0
        return 0.0

    def unlocks(x):
        x.setflags(write=True)
        return 0.0

    for fun in (writes, unlocks):
        with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
            sl.minimize(fun, [0.5, 0.5], sigma0, method=method, vectorized=vectorized)


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("popsize", [2, 3, 12])
@pytest.mark.parametrize("vectorized", [False, True])
def test_points_that_are_kept_do_not_change_later(name, popsize, vectorized):
    kept = []
    copies = []

    def fun(x):
        kept.append(x)
        copies.append(x.copy())
        return cube(x)

    sl.minimize(fun, np.ones(4), 0.5, method=GAUSSIAN[name], popsize=popsize, maxiter=20, vectorized=vectorized)
    np.testing.assert_array_equal(kept, copies)


def test_what_an_objective_does_to_its_batch_of_values_later_changes_nothing():
    buffer = np.empty(6)

    def fun(X):
        buffer[:] = cube(X)
        return buffer

    reused = sl.minimize(fun, np.ones(3), 0.5, popsize=6, rng=1, maxiter=50, vectorized=True)
    fresh = sl.minimize(cube, np.ones(3), 0.5, popsize=6, rng=1, maxiter=50, vectorized=True)
    assert reused.fun == fresh.fun
    assert reused.cov.tobytes() == fresh.cov.tobytes()


def global_generators():
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return name, keys.tobytes(), rest, random.getstate()


@pytest.mark.parametrize("rng", [None, 1, np.random.SeedSequence(1)], ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_global_generators_are_never_touched(name, rng):
    before = global_generators()
    told(started(METHODS[name], d=3, rng=rng), cube, 3)
    assert global_generators() == before
