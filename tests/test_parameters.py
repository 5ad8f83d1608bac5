"""Named parameters: what they accept, what they refuse with which sentence, and how points become values and back."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pytest

import sublevel as sl

SPACE = sl.Space(
    rate=sl.Real(1e-6, 1, log=True),
    width=sl.Real(0, 10, start=2.5),
    shift=sl.Real(scale=2.0),
    depth=sl.Integer(1, 12),
    units=sl.Integer(8, 4096, log=True, start=64),
    count=sl.Integer(0, scale=5),
    kernel=sl.Choice("rbf", "poly", "linear"),
    size=sl.Choice("S", "M", "L", ordered=True, start="M"),
    shrink=sl.Choice(False, True),
    seed=7,
    label="x",
    nothing=None,
)
OPEN = "{} without two bounds needs `scale`, the initial standard deviation: about a third of the range to search."
CONDITIONAL = (
    "parameter 'b' is itself a space; conditional parameters are not supported. Add its parameters to this space and "
    "let the objective ignore those that do not apply, or minimise each branch separately."
)


@dataclass
class NoField:
    """A field without a parameter and without a default."""

    a: Annotated[float, sl.Real(0, 1)]
    b: float


@dataclass
class TwoMarks:
    """Two parameters in one annotation."""

    a: Annotated[float, sl.Real(0, 1), sl.Real(0, 2)]


@dataclass
class NotInit:
    """A parameter that is no argument."""

    a: Annotated[float, sl.Real(0, 1)] = field(init=False)


def describe(**facts):
    return lambda: sl.Space.from_description({"a": facts})


def run(x0, sigma0=None, **options):
    return lambda: sl.minimize(lambda x: 0.0, x0, sigma0, maxfevals=100, **options)


ABOUT_FIELD = "must be annotated with exactly one parameter, such as Annotated[float, Real(0, 1)], or have a default."
REAL = sl.Space(a=sl.Real(0, 1), c=3)
ERRORS = {
    # numbers
    "text for a bound": (lambda: sl.Real("0", 1), TypeError, "`low` of Real must be a number, got '0'."),
    "True for a bound": (lambda: sl.Integer(0, True), TypeError, "`high` of Integer must be a number, got True."),
    "NaN": (lambda: sl.Real(0, math.nan), ValueError, "`high` of Real must not be NaN."),
    "text for a scale": (lambda: sl.Real(0, 1, scale="1"), TypeError, "`scale` of Real must be a number, got '1'."),
    "NaN for a start": (lambda: sl.Integer(0, 1, start=math.nan), ValueError, "`start` of Integer must not be NaN."),
    "order": (lambda: sl.Real(1, 0), ValueError, "Real needs low ≤ high, got low=1 and high=0."),
    "both at inf": (
        lambda: sl.Real(math.inf, math.inf),
        ValueError,
        "Real needs low ≤ high, got low=inf and high=inf.",
    ),
    "both at −inf": (
        lambda: sl.Integer(-math.inf, -math.inf),
        ValueError,
        "Integer needs low ≤ high, got low=-inf and high=-inf.",
    ),
    "negative log": (
        lambda: sl.Real(-1, 1, log=True),
        ValueError,
        "Real with log=True needs low ≥ 0 and high > 0, got low=-1 and high=1.",
    ),
    "log of 0": (
        lambda: sl.Real(0, 0, log=True),
        ValueError,
        "Real with log=True needs low ≥ 0 and high > 0, got low=0 and high=0.",
    ),
    "start outside": (
        lambda: sl.Real(0, 1, start=2),
        ValueError,
        "`start` of Real must lie between 0 and 1, got 2.",
    ),
    "start at 0 on a log scale": (
        lambda: sl.Real(0, 1, log=True, scale=1, start=0),
        ValueError,
        "`start` of Real with log=True must be positive, got 0.",
    ),
    "infinite start": (
        lambda: sl.Real(scale=1, start=math.inf),
        ValueError,
        "`start` of Real must be finite, got inf.",
    ),
    "log is no flag": (lambda: sl.Real(1, 2, log=10), TypeError, "`log` of Real must be True or False, got 10."),
    "no scale": (lambda: sl.Real(), ValueError, OPEN.format("Real")),
    "no scale above": (lambda: sl.Real(0), ValueError, OPEN.format("Real")),
    "no scale below": (lambda: sl.Integer(None, 5), ValueError, OPEN.format("Integer")),
    "no scale with log": (lambda: sl.Real(0, 1, log=True), ValueError, OPEN.format("Real")),
    "bounds beyond floats": (lambda: sl.Real(-1e308, 1e308), ValueError, OPEN.format("Real")),
    "negative scale": (
        lambda: sl.Real(scale=-1),
        ValueError,
        "`scale` of Real must be positive and finite, got -1.0.",
    ),
    "infinite scale": (
        lambda: sl.Integer(scale=math.inf),
        ValueError,
        "`scale` of Integer must be positive and finite, got inf.",
    ),
    "half an integer": (
        lambda: sl.Integer(0.5, 3),
        ValueError,
        "`low` of Integer must be a whole number of at most 2⁵³, got 0.5.",
    ),
    "start between integers": (
        lambda: sl.Integer(0, 3, start=1.5),
        ValueError,
        "`start` of Integer must be a whole number of at most 2⁵³, got 1.5.",
    ),
    "large integer": (
        lambda: sl.Integer(0, 2.0**60),
        ValueError,
        "`high` of Integer must be a whole number of at most 2⁵³, got 1.152921504606847e+18.",
    ),
    "log of integer 0": (
        lambda: sl.Integer(0, 3, log=True),
        ValueError,
        "Integer with log=True must be at least 1, got low=0.",
    ),
    # choices
    "no value": (
        lambda: sl.Choice(),
        ValueError,
        "Choice needs at least one value, for example Choice('rbf', 'linear').",
    ),
    "a list": (
        lambda: sl.Choice(["a", "b"]),
        TypeError,
        "Choice takes its values as separate arguments, got ['a', 'b']: write Choice(*values).",
    ),
    "twice": (lambda: sl.Choice("a", "b", "a"), ValueError, "the values of Choice must be distinct, got 'a' twice."),
    "array twice": (
        lambda: sl.Choice(np.ones(2), np.ones(2)),
        ValueError,
        "the values of Choice must be distinct, got array([1., 1.]) twice.",
    ),
    "other start": (
        lambda: sl.Choice("a", "b", start="c"),
        ValueError,
        "`start` of Choice must be one of its values, got 'c'.",
    ),
    # spaces
    "name twice": (
        lambda: sl.Space({"a": sl.Real(0, 1)}, a=1),
        ValueError,
        "Space got parameters twice, in the mapping and as keywords: 'a'.",
    ),
    "no mapping": (
        lambda: sl.Space([sl.Real(0, 1)]),
        TypeError,
        "Space takes its parameters by name or as a mapping, got [Real(low=0.0, high=1.0)].",
    ),
    "number for a name": (
        lambda: sl.Space({1: sl.Real(0, 1)}),
        TypeError,
        "parameter names of a Space must be strings, got 1.",
    ),
    "blank name": (
        lambda: sl.Space({" ": sl.Real(0, 1)}),
        ValueError,
        "parameter names of a Space must be printable and not blank, got ' '.",
    ),
    "empty": (
        lambda: sl.Space(),
        ValueError,
        "Space needs at least one parameter that can vary: Real, Integer or Choice.",
    ),
    "constants only": (
        lambda: sl.Space(a=1, b=sl.Choice("x")),
        ValueError,
        "Space needs at least one parameter that can vary: Real, Integer or Choice.",
    ),
    "space in a space": (lambda: sl.Space(a=sl.Real(0, 1), b=REAL), TypeError, CONDITIONAL),
    "dict in a space": (lambda: sl.Space(a=sl.Real(0, 1), b={"c": sl.Real(0, 1)}), TypeError, CONDITIONAL),
    "class in a space": (lambda: sl.Space(a=sl.Real(0, 1), b=sl.Real), TypeError, CONDITIONAL),
    "pair in a space": (
        lambda: sl.Space(a=(0, 1)),
        TypeError,
        "parameter 'a' must be Real(low, high), Integer(low, high), Choice(*values) or a constant, got (0, 1).",
    ),
    "object in a space": (
        lambda: sl.Space(a=len),
        TypeError,
        "parameter 'a' must be Real, Integer, Choice or a constant, got <built-in function len>; write Choice(value) "
        "for a constant of another type.",
    ),
    "class without fields": (
        lambda: sl.Space.of(int),
        TypeError,
        "a class that defines a Space must be a dataclass, got <class 'int'>.",
    ),
    "field without parameter": (
        lambda: sl.Space.of(NoField),
        TypeError,
        f"field 'b' of NoField {ABOUT_FIELD}",
    ),
    "two parameters": (lambda: sl.Space.of(TwoMarks), TypeError, f"field 'a' of TwoMarks {ABOUT_FIELD}"),
    "field that is no argument": (lambda: sl.Space.of(NotInit), TypeError, f"field 'a' of NotInit {ABOUT_FIELD}"),
    # points
    "wrong length": (
        lambda: REAL.decode([1, 2]),
        ValueError,
        "`x` must be a point (1,) or points (n, 1), got an array of shape (2,).",
    ),
    "three axes": (
        lambda: REAL.decode(np.zeros((1, 1, 1))),
        ValueError,
        "`x` must be a point (1,) or points (n, 1), got an array of shape (1, 1, 1).",
    ),
    "no such category": (
        lambda: sl.Choice("a", "b").decode(2.0),
        ValueError,
        "2 is not an index of Choice('a', 'b'), which has the indices 0 to 1.",
    ),
    "negative category": (
        lambda: sl.Choice("a", "b").decode(-1.0),
        ValueError,
        "-1 is not an index of Choice('a', 'b'), which has the indices 0 to 1.",
    ),
    "missing": (lambda: REAL.encode({}), ValueError, "the parameters must be a; missing: 'a'."),
    "unknown": (
        lambda: REAL.encode({"a": 0.5, "b": 1}),
        ValueError,
        "the parameters must be a; unknown: 'b'.",
    ),
    "other constant": (
        lambda: REAL.encode({"a": 0.5, "c": 4}),
        ValueError,
        "parameter 'c' is the constant 3, got 4.",
    ),
    "outside": (
        lambda: REAL.encode({"a": 1.5}),
        ValueError,
        "parameter 'a': 1.5 is not a possible value of Real(low=0.0, high=1.0).",
    ),
    "no number": (
        lambda: REAL.encode({"a": "1"}),
        TypeError,
        "parameter 'a': `value` of Real must be a number, got '1'.",
    ),
    "between integers": (
        lambda: sl.Integer(0, 3).encode(1.5),
        ValueError,
        "1.5 is not a possible value of Integer(low=0, high=3).",
    ),
    "not positive": (
        lambda: sl.Real(log=True, scale=1).encode(0.0),
        ValueError,
        "0.0 is not a possible value of Real(low=0.0, log=True, scale=1.0).",
    ),
    "no such value": (
        lambda: sl.Choice("a", "b").encode("c"),
        ValueError,
        "'c' is not one of the values of Choice('a', 'b').",
    ),
    "start at another constant": (
        lambda: REAL.start_at({"c": 4}),
        ValueError,
        "parameter 'c' is the constant 3, got 4.",
    ),
    "start at an unknown name": (
        lambda: REAL.start_at({"b": 4}),
        ValueError,
        "the parameters must be a; unknown: 'b'.",
    ),
    # descriptions
    "no type": (
        describe(low=0),
        ValueError,
        "`type` of parameter 'a' must be real, integer, choice or constant, got None.",
    ),
    "unknown type": (
        describe(type="float"),
        ValueError,
        "`type` of parameter 'a' must be real, integer, choice or constant, got 'float'.",
    ),
    "unknown key": (
        describe(type="real", lo=0),
        ValueError,
        "parameter 'a' of type real takes low, high, log, scale, start; unknown: 'lo'.",
    ),
    "no values": (describe(type="choice"), ValueError, "parameter 'a' needs 'values'."),
    "no constant": (describe(type="constant"), ValueError, "parameter 'a' needs 'value'."),
    "values are no list": (
        describe(type="choice", values="abc"),
        TypeError,
        "parameter 'a': `values` of a choice must be a list, got 'abc'.",
    ),
    "described order": (
        describe(type="integer", low=3, high=1),
        ValueError,
        "parameter 'a': Integer needs low ≤ high, got low=3 and high=1.",
    ),
    "no description": (
        lambda: sl.Space.from_description([1]),
        TypeError,
        "a description of a Space must map names to parameters, got [1].",
    ),
    # searches
    "bounds too": (
        run(REAL, bounds=[(0, 1)]),
        TypeError,
        "`bounds` must not be given with a Space, whose parameters define it.",
    ),
    "log_scaled too": (
        run(REAL, log_scaled=[True]),
        TypeError,
        "`log_scaled` must not be given with a Space, whose parameters define it.",
    ),
    "integrality too": (
        run(REAL, integrality=[1]),
        TypeError,
        "`integrality` must not be given with a Space, whose parameters define it.",
    ),
    "names too": (
        run(REAL, names=["b"]),
        TypeError,
        "`names` must not be given with a Space, whose parameters define it.",
    ),
    "bits": (
        run(REAL, method="pbil"),
        ValueError,
        "binary methods do not search a Space; use another method, which also takes bits: Choice(False, True).",
    ),
    "all fixed": (
        run(sl.Space(a=sl.Real(1, 1), n=sl.Integer(2, 2))),
        ValueError,
        "the bounds of the space fix every parameter: nothing is left to search.",
    ),
    "sigma0 of another length": (
        run(REAL, [0.1, 0.1]),
        ValueError,
        "`sigma0` must be a number or have one entry per variable, shape (1,), got shape (2,).",
    ),
    "integrality of another length": (
        run([0.0, 0.0], 1.0, integrality=[1, 0, 1]),
        TypeError,
        "`integrality` must be 0 (real) or 1 (integer) for each of the 2 variables, got [1, 0, 1].",
    ),
    "integrality in words": (
        run([0.0, 0.0], 1.0, integrality=["int", "real"]),
        TypeError,
        "`integrality` must be 0 (real) or 1 (integer) for each of the 2 variables, got ['int', 'real'].",
    ),
    "semi-continuous": (
        run([0.0, 0.0], 1.0, integrality=[2, 0]),
        ValueError,
        "`integrality` must be 0 (real) or 1 (integer); semi-continuous variables (2, 3) are not supported, got "
        "[2, 0].",
    ),
    "no integer between bounds": (
        run([0.5], 1.0, integrality=1, bounds=[(0.2, 0.8)]),
        ValueError,
        "`bounds` must have an integer between them where `integrality` is 1, got [(0.2, 0.8)].",
    ),
    "integers of bits": (
        run([0.5], None, method="pbil", integrality=1),
        ValueError,
        "binary methods take neither `bounds`, `log_scaled` nor `integrality`, got bounds=None.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_wrong_is_said(case):
    make, kind, sentence = ERRORS[case]
    with pytest.raises(kind, match=f"^{re.escape(sentence)}$"):
        make()


# Shown


def test_parameters_are_shown_as_they_are_written():
    assert repr(sl.Real(1e-6, 1, log=True)) == "Real(low=1e-06, high=1.0, log=True)"
    assert repr(sl.Real(None, 3, scale=1)) == "Real(high=3.0, scale=1.0)"
    assert repr(sl.Integer(1, 12, start=3)) == "Integer(low=1, high=12, start=3)"
    assert repr(sl.Choice("S", "M", ordered=True, start="M")) == "Choice('S', 'M', ordered=True, start='M')"
    assert repr(REAL) == "Space(a=Real(low=0.0, high=1.0), c=3)"


def test_what_is_shown_can_be_written():
    names = {"Real": sl.Real, "Integer": sl.Integer, "Choice": sl.Choice, "Space": sl.Space}
    assert eval(repr(SPACE), names) == SPACE


def test_numbers_of_numpy_are_numbers():
    assert sl.Real(np.float32(0.5), np.int64(3)) == sl.Real(0.5, 3)
    assert sl.Integer(np.int32(1), np.uint8(3)) == sl.Integer(1, 3)


def test_space_has_names_and_a_length():
    assert len(SPACE) == 9
    assert list(SPACE) == list(SPACE.names) == list(SPACE.parameters)
    assert SPACE.constants == {"seed": 7, "label": "x", "nothing": None}


def test_spaces_are_equal_by_what_they_hold():
    again = sl.Space(dict(SPACE.parameters) | SPACE.constants)
    assert again == SPACE
    assert hash(again) == hash(SPACE)
    assert SPACE.start_at({"depth": 3}) != SPACE
    assert sl.Space(b=sl.Real(0, 1), a=sl.Real(0, 1)) != sl.Space(a=sl.Real(0, 1), b=sl.Real(0, 1))
    assert SPACE != 3


def test_a_name_may_be_any_word():
    space = sl.Space(parameters=sl.Real(0, 1), self=sl.Integer(0, 3), **{"learning rate": sl.Choice("a", "b")})
    assert space.names == ("parameters", "self", "learning rate")


# Coordinates


def test_space_begins_at_the_centre_with_a_quarter_of_the_range():
    found = SPACE.coordinates()
    wanted = {
        "rate": (1e-3, math.log(1e6) / 4),
        "width": (2.5, 2.5),
        "shift": (0.0, 2.0),
        "depth": (7.0, 3.0),  # of 0.5 to 12.5
        "units": (64.0, math.log(4096.5 / 7.5) / 4),
        "count": (5.0, 5.0),
        "kernel": (0.0, 0.75),
        "size": (1.0, 0.75),
        "shrink": (0.0, 0.5),
    }
    for i, name in enumerate(SPACE):
        assert (found.x0[i], found.deviations[i]) == pytest.approx(wanted[name]), name
    assert found.categories.tolist() == [0, 0, 0, 0, 0, 0, 3, 0, 2]
    assert found.is_integer.tolist() == [False, False, False, True, True, True, False, True, False]
    assert found.is_log.tolist() == [True, False, False, False, True, False, False, False, False]


@pytest.mark.parametrize(
    ("parameter", "x0"),
    [
        (sl.Real(2, scale=3), 5.0),
        (sl.Real(None, 2, scale=3), -1.0),
        (sl.Real(scale=3), 0.0),
        (sl.Real(log=True, scale=1), 1.0),
        (sl.Real(2, log=True, scale=1), 2 * math.e),
        (sl.Real(0, 2, log=True, scale=1), 2 / math.e),
        (sl.Integer(scale=3.4), 0.0),
        (sl.Integer(2, scale=3.4), 5.0),
        (sl.Integer(None, 2, scale=0.1), 2.0),
        (sl.Integer(log=True, scale=2), 7.0),
        (sl.Integer(1, 100, log=True), 10.0),
    ],
    ids=repr,
)
def test_open_parameters_begin_a_deviation_inside(parameter, x0):
    assert sl.Space(a=parameter).coordinates().x0[0] == pytest.approx(x0)


def test_decoding_and_encoding_are_inverse():
    point = np.array([0.001, 2.0, -3.5, 4, 100, 9, 2, 1, 1])
    values = SPACE.decode(point)
    assert values == {
        "rate": 0.001,
        "width": 2.0,
        "shift": -3.5,
        "depth": 4,
        "units": 100,
        "count": 9,
        "kernel": "linear",
        "size": "M",
        "shrink": True,
        "seed": 7,
        "label": "x",
        "nothing": None,
    }
    assert [type(values[name]) for name in ("rate", "depth", "shrink")] == [float, int, bool]
    assert np.array_equal(SPACE.encode(values), point)
    assert np.array_equal(SPACE.encode({name: values[name] for name in SPACE}), point)


def test_points_are_decoded_as_columns():
    columns = sl.Space(a=sl.Real(0, 1), k=sl.Choice("x", "y"), c=1).decode([[0.5, 1], [0.25, 0]])
    assert columns == {"a": [0.5, 0.25], "k": ["y", "x"], "c": [1, 1]}


def test_values_of_choices_are_told_apart_by_type():
    mixed = sl.Choice(1, True, 1.0, "1", None, (1, 2))
    assert [mixed.encode(value) for value in mixed.values] == [0, 1, 2, 3, 4, 5]
    assert [mixed.decode(i) for i in range(6)] == list(mixed.values)


def test_any_object_can_be_a_value():
    functions = sl.Choice(np.tanh, np.sin, np.zeros(2), np.ones(2), [1], {"a": 1}, math.nan)
    assert [functions.encode(value) for value in functions.values] == list(range(7))


def test_a_constant_can_be_any_object():
    space = sl.Space(a=sl.Real(0, 1), f=sl.Choice(np.tanh))
    assert space.decode([0.5])["f"] is np.tanh
    assert space.start_at({"a": 0.1, "f": np.tanh}).decode([0.5])["f"] is np.tanh


# Other starts, copies, files


def test_start_at_changes_the_start_alone():
    values = {"rate": 0.1, "units": 4096, "kernel": "linear", "size": "L", "seed": 7}
    moved = SPACE.start_at(values)
    before, after = SPACE.coordinates(), moved.coordinates()
    assert after.x0.tolist() == [0.1, 2.5, 0.0, 7.0, 4096.0, 5.0, 2.0, 2.0, 0.0]
    assert all(np.array_equal(a, b) for a, b in zip(before[1:], after[1:], strict=True))
    assert SPACE.coordinates().x0[0] == pytest.approx(1e-3)
    assert moved.constants == SPACE.constants
    assert list(moved.decode(after.x0)) == list(SPACE.decode(before.x0))


def test_result_is_a_start():
    result = sl.minimize(lambda p: p["width"] + p["depth"], SPACE, maxfevals=60, rng=1)
    assert np.array_equal(SPACE.start_at(result.params).coordinates().x0, result.x)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_spaces_are_copied_and_pickled(duplicate):
    again = duplicate(SPACE)
    assert again == SPACE
    assert repr(again) == repr(SPACE)
    assert all(np.array_equal(a, b) for a, b in zip(again.coordinates(), SPACE.coordinates(), strict=True))


def test_description_makes_the_same_space():
    assert sl.Space.from_description(SPACE.describe()) == SPACE
    assert sl.Space.from_description(json.loads(json.dumps(SPACE.describe()))) == SPACE


def test_description_may_hold_plain_constants():
    space = sl.Space.from_description({"a": {"type": "real", "low": 0, "high": 1}, "c": 3, "d": "text"})
    assert space == sl.Space(a=sl.Real(0, 1), c=3, d="text")


# Dataclasses


@dataclass(frozen=True)
class Model:
    """A model with parameters and other fields."""

    rate: Annotated[float, sl.Real(1e-4, 1, log=True)]
    depth: Annotated[int, "of the tree", sl.Integer(1, 8)]
    kernel: Annotated[str, sl.Choice("rbf", "poly")] = "poly"
    seed: int = 3
    tags: list[str] = field(default_factory=list)

    def loss(self):
        return abs(math.log(self.rate / 0.01)) + abs(self.depth - 3) + (self.kernel != "poly")


def test_dataclass_stands_for_a_space():
    seen = []

    def loss(model):
        seen.append(model)
        return model.loss()

    result = sl.minimize(loss, Model, maxfevals=600, rng=1)
    assert all(type(model) is Model and model.seed == 3 and model.tags == [] for model in seen)
    assert result.params["depth"] == 3
    assert result.params["kernel"] == "poly"
    assert isinstance(result.space.build(result.x), Model)
    assert result.space.build(result.x).loss() == result.fun < 1e-3


def test_space_of_a_dataclass_keeps_its_type():
    space = sl.Space.of(Model)
    assert space.names == ("rate", "depth", "kernel")
    for again in (space.start_at({"depth": 2}), pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert isinstance(again.build([0.1, 2, 0]), Model)


def test_columns_of_a_dataclass_are_lists():
    built = sl.Space.of(Model).build([[0.1, 2, 0], [0.2, 3, 1]])
    assert built == Model(rate=[0.1, 0.2], depth=[2, 3], kernel=["rbf", "poly"])


# Results


def test_result_has_named_values():
    space = sl.Space(x=sl.Real(-5, 5), n=sl.Integer(0, 9), k=sl.Choice("a", "b"), c="constant")
    seen = []

    def fun(p):
        seen.append(p)
        return p["x"] ** 2 + abs(p["n"] - 4) + (p["k"] == "a")

    result = sl.minimize(fun, space, maxfevals=900, rng=1)
    assert all(list(p) == ["x", "n", "k", "c"] for p in seen)
    assert result.params == space.decode(result.x)
    assert result.params["n"] == 4
    assert result.params["k"] == "b"
    assert result.space == space
    assert fun(result.params) == result.fun
    assert result.std[2] == 0
    assert result.cov.shape == (3, 3)
    assert "n" in result.params


def test_plain_vectors_with_integers_have_named_values_too():
    result = sl.minimize(
        lambda x: (x[0] - 1.5) ** 2 + (x[1] - 3.2) ** 2, [0.0, 0.0], 1.0, integrality=[0, 1], names=["a", "n"], rng=1
    )
    assert result.params == {"a": pytest.approx(1.5), "n": 3}
    assert type(result.params["n"]) is int
    assert result.space is None


def test_integrality_zero_changes_nothing():
    runs = [
        sl.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, rng=1, maxfevals=200, integrality=kinds)
        for kinds in (None, 0, [0, 0], [False, False])
    ]
    assert all(np.array_equal(run.x, runs[0].x) for run in runs)
    assert all(run.nfev == runs[0].nfev for run in runs)


def test_integrality_of_all_variables_in_one_number():
    result = sl.minimize(lambda x: np.abs(x - [2, 7]).sum(), [0.0, 0.0], 2.0, integrality=True, rng=1)
    assert result.x.tolist() == [2, 7]


def test_start_of_an_integer_is_rounded_into_the_bounds():
    seen = []
    sl.minimize(
        lambda x: seen.append(x.copy()) or 0.0,
        [0.4, 2.6],
        1.0,
        integrality=1,
        bounds=[(0.3, 5.5), (0, 2.7)],
        maxfevals=30,
        rng=1,
    )
    points = np.array(seen)
    assert points[0].tolist() == [1, 2]
    assert (points == np.round(points)).all()
    assert ((points >= [1, 0]) & (points <= [5, 2])).all()


@pytest.mark.parametrize(("low", "high"), [(1e-155, 1e155), (1e-300, 1e300), (1e-250, 1e-200), (1e200, 1e280)])
def test_log_scale_spans_as_many_decades_as_floats_do(low, high):
    def centre_and_share(low, high):
        c = sl.Space(a=sl.Real(low, high, log=True)).coordinates()
        return c.x0[0], c.deviations[0] / (math.log(high) - math.log(low))

    centre, share = centre_and_share(low, high)
    assert math.log(centre) == pytest.approx((math.log(low) + math.log(high)) / 2, rel=1e-13)
    assert share == pytest.approx(centre_and_share(0.1, 10)[1], rel=1e-13)
    target = low**0.25 * high**0.75
    space = sl.Space(a=sl.Real(low, high, log=True))
    result = sl.minimize(lambda p: abs(math.log(p["a"]) - math.log(target)), space, rng=1, ftarget=1e-3)
    assert result.success
