"""Spaces of named parameters in files: their description as JSON, and their parameters as columns of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.run.initial import as_space
from sublevel.run.parameters import LARGEST_INTEGER, Choice, Parameter, Scalar, Space
from sublevel.store.errors import FormatError
from sublevel.summaries import short_repr

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LONGEST_TEXT = 1000
"""Most characters of a value that is stored as it is."""
INVALID = "its space of parameters is invalid"


def describe(thing: object) -> str:
    """The `repr` of an object without its address in memory."""
    return ADDRESS.sub("", repr(thing))[:2000]


def plain_value(given: object) -> Scalar:
    """A value of a choice as JSON has it: itself, the number of a NumPy scalar, or a text."""
    value = cast("np.generic[object]", given).item() if isinstance(given, np.generic) else given
    is_number = (type(value) is float and value == value) or (type(value) is int and abs(value) < 2**63)
    is_text = type(value) is str and len(value) <= LONGEST_TEXT
    if value is None or type(value) is bool or is_number or is_text:
        return cast(Scalar, value)
    return describe(value)[:LONGEST_TEXT]


def _plain_values(values: Sequence[object]) -> list[Scalar]:
    """Values as JSON has them; texts that occur before get a number."""
    seen, plain = set[tuple[type, Scalar]](), list[Scalar]()
    for value in values:
        text = one = plain_value(value)
        while (type(one), one) in seen:
            one = f"{text} #{len(seen) + 1}"
        seen.add((type(one), one))
        plain.append(one)
    return plain


def _plain_parameter(parameter: Parameter) -> Parameter:
    if not isinstance(parameter, Choice):
        return parameter
    values = _plain_values(parameter.values)
    return Choice(*values, ordered=parameter.ordered, start=values[parameter.first])


def plain_space(space: Space) -> Space:
    """The space with values that JSON has."""
    constants = {name: plain_value(value) for name, value in space.constants.items()}
    parameters = {name: _plain_parameter(parameter) for name, parameter in space.parameters.items()}
    return Space({**dict.fromkeys(space.describe()), **constants, **parameters})


def describe_space(space: Space) -> dict[str, dict[str, object]]:
    """The space as JSON has it."""
    return plain_space(space).describe()


def is_described(space: Space) -> bool:
    """Whether the description determines what the objective is called with."""
    pairs = [(value, plain_value(value)) for value in _values(space)]
    return space.dataclass_type is None and all(type(value) is type(plain) and value == plain for value, plain in pairs)


def _values(space: Space) -> Iterable[object]:
    """Values of all constants and choices."""
    yield from space.constants.values()
    for parameter in space.parameters.values():
        if isinstance(parameter, Choice):
            yield from parameter.values


def stored_space(description: object) -> Space:
    """The space of a description in a file, with texts in place of values that JSON does not have."""
    try:
        space = Space.from_description(cast("Mapping[str, Mapping[str, object]]", description))
        is_same = json.dumps(describe_space(space)) == json.dumps(description)
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise FormatError(INVALID) from None
    if not is_same:
        raise FormatError(INVALID)
    return space


def match_space(given: object, description: Mapping[str, object]) -> Space:
    """A space that is given again, which must have the stored description."""
    space = as_space(given)
    if space is None:
        raise TypeError(f"`space` must be a Space, or a dataclass that defines one, got {short_repr(given)}.")
    if json.dumps(describe_space(space)) != json.dumps(description):
        raise ValueError(
            f"`space` must be the one that the run was started with, {describe(stored_space(description))}, got "
            f"{describe(space)}."
        )
    return space


@dataclass(frozen=True, slots=True)
class VariableColumns:
    """How the variables of points (m, d) are written to tables: as numbers, whole numbers or values of a choice."""

    names: Sequence[str]  # d
    dtypes: Sequence[np.dtype[np.generic]]  # d
    labels: Mapping[int, NDArray[np.generic]]  # values of choices (K,), by the number of the variable

    @property
    def is_plain(self) -> bool:
        """Whether all variables are real."""
        return all(dtype == np.float64 for dtype in self.dtypes) and not self.labels

    def decode(self, points: Array) -> list[NDArray[np.generic]]:
        """A column (m,) for each variable of points (m, d)."""
        return [
            self.labels[i][column.astype(np.intp)] if i in self.labels else column.astype(self.dtypes[i])
            for i, column in enumerate(points.T)
        ]


def variable_columns(
    names: Sequence[str], space: Space | None, discrete: NDArray[np.bool_], parts: Iterable[Array]
) -> VariableColumns:
    """The columns of points, given in `parts` (m, d), of a space or of variables of which some (d,) are integers.

    Integers that floats do not represent exactly stay floats.
    """
    labels = dict[int, NDArray[np.generic]]()
    for i, parameter in enumerate(() if space is None else space.parameters.values()):
        if isinstance(parameter, Choice):
            labels[i] = _labels(parameter.values)
    largest = np.zeros(discrete.size)
    if discrete.any():
        for points in parts:
            largest = np.maximum(largest, np.max(np.abs(points), axis=0, initial=0.0))
    is_whole = discrete & (largest <= LARGEST_INTEGER)
    dtypes = [np.dtype(np.int64 if whole else np.float64) for whole in is_whole]
    return VariableColumns(names, [labels[i].dtype if i in labels else kind for i, kind in enumerate(dtypes)], labels)


def _labels(values: Sequence[object]) -> NDArray[np.generic]:
    """Values of a choice (K,): numbers or truth values if all are of one type, else texts."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        return np.array(values)
    return np.array([str(plain_value(value)) for value in values])
