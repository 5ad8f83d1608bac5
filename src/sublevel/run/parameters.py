"""Named parameters: real, integer and categorical ones, and spaces of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, NamedTuple, TypeAlias, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families.protocol import SCALE_RANGE
from sublevel.summaries import short_repr

RANGE_SHARE = 0.25
"""Initial standard deviation of a parameter between two bounds, as a fraction of its range."""
LARGEST_INTEGER = 2**53
"""Integers beyond this one are not represented exactly by floats."""
LONGEST = math.log(SCALE_RANGE[1])
"""Largest logarithm of a parameter."""
Scalar: TypeAlias = float | int | str | bool | None
"""Values of constants, and of choices that can be stored in files."""


def _check_number(owner: str, name: str, given: object) -> float:
    """The number as a float; an error that names the parameter's class if it is none, or NaN."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise TypeError(f"`{name}` of {owner} must be a number, got {short_repr(cast(object, given))}.")
    number = float(cast(float, given))
    if math.isnan(number):
        raise ValueError(f"`{name}` of {owner} must not be NaN.")
    return number


def _check_range(owner: str, low: float, high: float, log: bool, start: float | None) -> None:
    if not low <= high or (math.isinf(low) and low > 0) or (math.isinf(high) and high < 0):
        raise ValueError(f"{owner} needs low ≤ high, got low={low:g} and high={high:g}.")
    if log and (low < 0 or high <= 0):
        raise ValueError(f"{owner} with log=True needs low ≥ 0 and high > 0, got low={low:g} and high={high:g}.")
    if start is not None and not low <= start <= high:
        raise ValueError(f"`start` of {owner} must lie between {low:g} and {high:g}, got {start:g}.")
    if start is not None and log and start <= 0:
        raise ValueError(f"`start` of {owner} with log=True must be positive, got {start:g}.")
    if start is not None and math.isinf(start):
        raise ValueError(f"`start` of {owner} must be finite, got {start:g}.")


@dataclass(frozen=True, slots=True)
class Real:
    """A real parameter.

    Parameters
    ----------
    low, high : float, optional
        Bounds; infinite by default. Equal bounds fix the parameter.
    log : bool, optional
        Whether the parameter is positive and searched on a log scale.
    scale : float, optional
        Initial standard deviation (of ln x if `log`); a quarter of the range by default. Required without two bounds.
    start : float, optional
        Initial value; the centre of the range by default.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.Real(1e-6, 1, log=True)
    Real(low=1e-06, high=1.0, log=True)
    """

    low: float = -math.inf
    high: float = math.inf
    log: bool = field(default=False, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)
    start: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _convert(self, ("low", "high"), ("scale", "start"))
        if self.log and self.low == -math.inf:
            object.__setattr__(self, "low", 0.0)
        _check_range("Real", self.low, self.high, self.log, self.start)
        _check_scale(self, self.low <= 0 if self.log else self.low == -math.inf)

    def __repr__(self) -> str:
        """The arguments that differ from their defaults."""
        return _short(self)

    def decode(self, x: float) -> float:
        """The value of a coordinate."""
        return float(x)

    def encode(self, value: object) -> float:
        """The coordinate of a value."""
        number = _check_number("Real", "value", value)
        if not self.low <= number <= self.high or (self.log and number <= 0):
            raise ValueError(f"{number!r} is not a possible value of {self!r}.")
        return number


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer parameter.

    Parameters
    ----------
    low, high : int, optional
        Bounds, which are included; infinite by default. Equal bounds fix the parameter.
    log : bool, optional
        Whether the parameter is positive and searched on a log scale.
    scale : float, optional
        Initial standard deviation (of ln x if `log`); a quarter of the range by default. Required without two bounds.
    start : int, optional
        Initial value; the centre of the range by default.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.Integer(1, 12)
    Integer(low=1, high=12)
    """

    low: float = -math.inf
    high: float = math.inf
    log: bool = field(default=False, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)
    start: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _convert(self, ("low", "high"), ("scale", "start"))
        if self.log and self.low == -math.inf:
            object.__setattr__(self, "low", 1.0)
        _check_range("Integer", self.low, self.high, self.log, self.start)
        if self.log and self.low < 1:
            raise ValueError(f"Integer with log=True must be at least 1, got low={self.low:g}.")
        for name in ("low", "high", "start"):
            number = cast("float | None", getattr(self, name))
            if number is None or math.isinf(number):
                continue
            if number != int(number) or abs(number) > LARGEST_INTEGER:
                raise ValueError(f"`{name}` of Integer must be a whole number of at most 2⁵³, got {number!r}.")
            object.__setattr__(self, name, int(number))
        _check_scale(self, self.low == -math.inf)

    def __repr__(self) -> str:
        """The arguments that differ from their defaults."""
        return _short(self)

    def decode(self, x: float) -> int:
        """The value of a coordinate."""
        return round(float(x))

    def encode(self, value: object) -> float:
        """The coordinate of a value."""
        number = _check_number("Integer", "value", value)
        if not self.low <= number <= self.high or number != round(number):
            raise ValueError(f"{number!r} is not a possible value of {self!r}.")
        return number


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One of several values.

    Parameters
    ----------
    *values : object
        The values, at least one; a single value is a constant.
    ordered : bool, optional
        Whether neighbouring values are similar, as "small", "medium" and "large" are. Ordered values are searched like
        integers, others as categories.
    start : object, optional
        The value that is evaluated first; the first one by default.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.Choice("rbf", "poly", "linear")
    Choice('rbf', 'poly', 'linear')
    """

    values: tuple[object, ...]
    ordered: bool
    first: int

    def __init__(self, *values: object, ordered: bool = False, start: object = MISSING) -> None:
        if not values:
            raise ValueError("Choice needs at least one value, for example Choice('rbf', 'linear').")
        if len(values) == 1 and isinstance(values[0], list | tuple | set | dict):
            raise TypeError(
                "Choice takes its values as separate arguments, got "
                f"{short_repr(cast(object, values[0]))}: write Choice(*values)."
            )
        _check_different(values)
        first = 0 if start is MISSING else _position(values, start)
        if first is None:
            raise ValueError(f"`start` of Choice must be one of its values, got {short_repr(start)}.")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "ordered", bool(ordered))
        object.__setattr__(self, "first", first)

    def __repr__(self) -> str:
        """The arguments that differ from their defaults."""
        more = [", ordered=True"] if self.ordered else []
        more += [f", start={self.values[self.first]!r}"] if self.first else []
        return f"Choice({', '.join(map(repr, self.values))}{''.join(more)})"

    def decode(self, x: float) -> object:
        """The value with this index."""
        if not -0.5 <= x <= len(self.values) - 0.5:
            raise ValueError(f"{x:g} is not an index of {self!r}, which has the indices 0 to {len(self.values) - 1}.")
        return self.values[min(round(float(x)), len(self.values) - 1)]

    def encode(self, value: object) -> float:
        """The index of a value."""
        place = _position(self.values, value)
        if place is None:
            raise ValueError(f"{short_repr(value)} is not one of the values of {self!r}.")
        return float(place)


Parameter: TypeAlias = Real | Integer | Choice


def _position(values: Sequence[object], wanted: object) -> int | None:
    """The index of a value of the same type: True is not 1."""
    for place, value in enumerate(values):
        if value is wanted or (type(value) is type(wanted) and _are_equal(value, wanted)):
            return place
    return None


def _check_different(values: Sequence[object]) -> None:
    """Raise ValueError if two values are equal and of the same type."""
    seen, others = set[tuple[type, object]](), list[object]()
    for value in values:
        try:
            is_known = (type(value), value) in seen
            seen.add((type(value), value))
        except TypeError:  # not hashable
            is_known = _position(others, value) is not None
            others.append(value)
        if is_known:
            raise ValueError(f"the values of Choice must be distinct, got {short_repr(value)} twice.")


def _are_equal(one: object, other: object) -> bool:
    """Whether two values are equal; arrays if all their entries are."""
    if isinstance(one, np.ndarray):
        return np.array_equal(cast("NDArray[Any]", one), cast("NDArray[Any]", other))
    return bool(one == other)


def _convert(parameter: Real | Integer, required: Sequence[str], optional: Sequence[str]) -> None:
    """Make the numbers of a parameter floats."""
    owner = type(parameter).__name__
    for name in (*required, *optional):
        number = cast(object, getattr(parameter, name))
        if number is None and name == "low":
            number = -math.inf
        if number is None and name == "high":
            number = math.inf
        if number is not None:
            number = _check_number(owner, name, number)
            is_far = name in required and abs(number) > SCALE_RANGE[1]  # the largest float may stand for an open end
            object.__setattr__(parameter, name, math.copysign(math.inf, number) if is_far else number)
    if not isinstance(cast(object, parameter.log), bool | np.bool_):
        raise TypeError(f"`log` of {owner} must be True or False, got {short_repr(parameter.log)}.")


def _check_scale(parameter: Real | Integer, is_open_below: bool) -> None:
    """Raise ValueError if the scale is invalid, or missing although a bound is infinite."""
    owner = type(parameter).__name__
    if parameter.scale is not None and not 0 < parameter.scale < math.inf:
        raise ValueError(f"`scale` of {owner} must be positive and finite, got {parameter.scale!r}.")
    if (is_open_below or parameter.high == math.inf) and parameter.scale is None:
        raise ValueError(
            f"{owner} without two bounds needs `scale`, the initial standard deviation: about a third of the range to "
            "search."
        )


def _short(parameter: Real | Integer) -> str:
    """The arguments of a parameter that differ from their defaults."""
    shown = ", ".join(
        f"{one.name}={value!r}" for one in fields(parameter) if (value := getattr(parameter, one.name)) != one.default
    )
    return f"{type(parameter).__name__}({shown})"


class Coordinates(NamedTuple):
    """A space as arrays (d,) each."""

    x0: Array
    deviations: Array  # of ln x where a coordinate is log-scaled
    lower: Array
    upper: Array
    is_log: NDArray[np.bool_]
    is_integer: NDArray[np.bool_]
    categories: NDArray[np.intp]  # number of unordered categories, 0 for other coordinates


def coordinates(parameter: Parameter) -> tuple[float, float, float, float, bool, bool, int]:
    """Start, deviation, bounds, scale, integrality and categories of a parameter."""
    if isinstance(parameter, Choice):
        count = len(parameter.values)
        ordered = parameter.ordered
        return float(parameter.first), RANGE_SHARE * count, 0.0, count - 1.0, False, ordered, 0 if ordered else count
    whole = isinstance(parameter, Integer)
    low, high, log = float(parameter.low), float(parameter.high), parameter.log
    span, scale = range_width(low, high, log, whole), parameter.scale
    deviation = RANGE_SHARE * span if scale is None else scale
    start = parameter.start
    if start is None:
        is_open = span == math.inf
        start = _center(low, high, log, deviation) if is_open else _mean(low, high) if log else _mid(low, high)
        start = min(max(float(math.floor(start + 0.5)) if whole else start, low), high)  # halves are rounded up
    return start, deviation or 1.0, low, high, log, whole, 0


def range_width(low: float, high: float, log: bool, whole: bool) -> float:
    """The width of the range of a variable, of ln x if `log`; infinite if an end is open.

    The range of an integer begins and ends half a unit beyond its bounds.
    """
    below, above = (low - 0.5, high + 0.5) if whole else (low, high)
    is_closed = (below > 0 if log else below > -math.inf) and above < math.inf
    return (log_ratio(above, below) if log else above - below) if is_closed else math.inf


def log_ratio(high: float, low: float) -> float:
    """ln(high/low) of positive numbers, also where their ratio is no float."""
    ratio = high / low
    return math.log(ratio) if ratio < math.inf else math.log(high) - math.log(low)


def _mid(low: float, high: float) -> float:
    return low + 0.5 * (high - low)


def _mean(low: float, high: float) -> float:
    """The geometric mean, also where the product is no float or not a precise one."""
    product = low * high
    return math.sqrt(product) if sys.float_info.min <= product < math.inf else math.sqrt(low) * math.sqrt(high)


def _center(low: float, high: float, log: bool, deviation: float) -> float:
    """Where a search begins between bounds of which one or both are open."""
    if log:
        factor = math.exp(min(deviation, LONGEST))
        return min(low * factor, SCALE_RANGE[1]) if low > 0 else high / factor if high < math.inf else 1.0
    return low + deviation if low > -math.inf else high - deviation if high < math.inf else 0.0


class Space:
    """A space of named parameters.

    Parameters
    ----------
    parameters : mapping, optional
        Parameters by name.
    **named : Real, Integer, Choice or a constant
        Parameters by name. Numbers, strings, True, False and None are constants, which are passed to the objective.

    Raises
    ------
    TypeError
        If an entry is neither a parameter nor a constant.
    ValueError
        If no parameter can vary, or if a name is given twice or cannot be printed.

    Notes
    -----
    ``minimize(fun, space)`` calls `fun` with a dict of all parameters. A point is also an array x (d,), in which a
    choice is the index of its value; `decode` and `encode` convert between the two forms.

    A dataclass with annotated fields, ``rate: Annotated[float, Real(0, 1)]``, may be passed in place of a space; `fun`
    is then called with an instance.

    Examples
    --------
    >>> import sublevel as sl
    >>> space = sl.Space(rate=sl.Real(1e-6, 1, log=True), depth=sl.Integer(1, 12), kernel=sl.Choice("rbf", "linear"))
    >>> space.decode([0.001, 3, 1])
    {'rate': 0.001, 'depth': 3, 'kernel': 'linear'}
    >>> space.encode({"rate": 0.001, "depth": 3, "kernel": "linear"})
    array([1.e-03, 3.e+00, 1.e+00])
    """

    def __init__(self, parameters: Mapping[str, object] | None = None, /, **named: object) -> None:
        if parameters is not None and not isinstance(cast(object, parameters), Mapping):
            raise TypeError(f"Space takes its parameters by name or as a mapping, got {short_repr(parameters)}.")
        given = {**(parameters or {}), **named}
        if parameters is not None and len(given) < len(parameters) + len(named):
            twice = ", ".join(repr(name) for name in named if name in parameters)
            raise ValueError(f"Space got parameters twice, in the mapping and as keywords: {twice}.")
        self.parameters: dict[str, Parameter] = {}
        self.constants: dict[str, object] = {}
        self._order = tuple(given)
        self._type: type[object] | None = None
        for name, parameter in given.items():
            if not isinstance(cast(object, name), str):
                raise TypeError(f"parameter names of a Space must be strings, got {short_repr(name)}.")
            if not name.strip() or not name.isprintable():
                raise ValueError(f"parameter names of a Space must be printable and not blank, got {name!r}.")
            self._add(name, parameter)
        if not self.parameters:
            raise ValueError("Space needs at least one parameter that can vary: Real, Integer or Choice.")

    def _add(self, name: str, parameter: object) -> None:
        if isinstance(parameter, Choice) and len(parameter.values) == 1:
            self.constants[name] = parameter.values[0]
        elif isinstance(parameter, Real | Integer | Choice):
            self.parameters[name] = parameter
        elif parameter is None or isinstance(parameter, str | bool | int | float | np.number):
            self.constants[name] = parameter
        elif isinstance(parameter, Space | Mapping | type):
            raise TypeError(
                f"parameter {name!r} is itself a space; conditional parameters are not supported. Add its parameters "
                "to this space and let the objective ignore those that do not apply, or minimise each branch "
                "separately."
            )
        elif isinstance(parameter, list | tuple | range | set):
            raise TypeError(
                f"parameter {name!r} must be Real(low, high), Integer(low, high), Choice(*values) or a constant, got "
                f"{short_repr(cast(object, parameter))}."
            )
        else:
            raise TypeError(
                f"parameter {name!r} must be Real, Integer, Choice or a constant, got {short_repr(parameter)}; write "
                "Choice(value) for a constant of another type."
            )

    @classmethod
    def of(cls, kind: type[object]) -> Space:
        """Create the space that a dataclass defines.

        Parameters
        ----------
        kind : type
            A dataclass whose fields are annotated with a parameter, or have a default.

        Returns
        -------
        Space
            `build` returns instances of the dataclass.

        Raises
        ------
        TypeError
            If `kind` is not a dataclass, or a field has neither a parameter nor a default.

        Examples
        --------
        >>> from dataclasses import dataclass
        >>> from typing import Annotated
        >>> from sublevel import Real, Space
        >>> @dataclass
        ... class Settings:
        ...     rate: Annotated[float, Real(0, 1)]
        ...     loss: str = "squared"
        >>> Space.of(Settings)
        Space(rate=Real(low=0.0, high=1.0))
        """
        if not is_dataclass(kind):
            raise TypeError(f"a class that defines a Space must be a dataclass, got {kind!r}.")
        try:
            hints = get_type_hints(kind, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"the annotations of {kind.__name__} cannot be evaluated ({error}): define the class in a module, not "
                "in a function, or without `from __future__ import annotations`."
            ) from error
        parameters: dict[str, object] = {}
        for one in fields(kind):
            hint = hints[one.name]
            marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
            found = [mark for mark in marks if isinstance(mark, Real | Integer | Choice)]
            if len(found) == 1 and one.init:
                parameters[one.name] = found[0]
            elif found or (one.init and one.default is MISSING and one.default_factory is MISSING):
                raise TypeError(
                    f"field {one.name!r} of {kind.__name__} must be annotated with exactly one parameter, such as "
                    "Annotated[float, Real(0, 1)], or have a default."
                )
        space = cls(parameters)
        space._type = kind
        return space

    @property
    def dataclass_type(self) -> type[object] | None:
        """The dataclass that defines the space; None if there is none."""
        return self._type

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d parameters that can vary."""
        return tuple(self.parameters)

    def __len__(self) -> int:
        """d, the number of parameters that can vary."""
        return len(self.parameters)

    def __iter__(self) -> Iterator[str]:
        """Names of the parameters that can vary."""
        return iter(self.parameters)

    def __eq__(self, other: object) -> bool:
        """Whether names, parameters and constants are the same."""
        return isinstance(other, Space) and self._content() == other._content()

    def __hash__(self) -> int:
        """Of the names."""
        return hash(self._order)

    def _content(self) -> tuple[object, ...]:
        return self._order, self.parameters, self.constants

    def __repr__(self) -> str:
        """The call that creates the space."""
        given = {**self.constants, **self.parameters}
        return f"Space({', '.join(f'{name}={given[name]!r}' for name in self._order)})"

    def coordinates(self) -> Coordinates:
        """The start, scales, bounds and types of the d parameters, as arrays."""
        columns = zip(*(coordinates(parameter) for parameter in self.parameters.values()), strict=True)
        x0, deviations, lower, upper, is_log, is_integer, categories = (np.array(column) for column in columns)
        return Coordinates(x0, deviations, lower, upper, is_log, is_integer, categories.astype(np.intp))

    def start_at(self, values: Mapping[str, object]) -> Space:
        """Return the space with other initial values.

        Parameters
        ----------
        values : mapping
            Initial values by name, of some or all parameters. Constants may be included and must be unchanged.

        Returns
        -------
        Space

        Raises
        ------
        ValueError
            If a name is unknown or a value is not in the range of its parameter.

        Examples
        --------
        >>> import sublevel as sl
        >>> sl.Space(rate=sl.Real(0, 1)).start_at({"rate": 0.2})
        Space(rate=Real(low=0.0, high=1.0, start=0.2))
        """
        self._check_names(values, complete=False)
        space = copy(self)
        space.parameters = dict(self.parameters)
        for name, parameter in self.parameters.items():
            if name not in values:
                continue
            value = values[name]
            x = self._encode_value(name, value)
            if isinstance(parameter, Choice):
                chosen = Choice(*parameter.values, ordered=parameter.ordered, start=parameter.values[int(x)])
                space.parameters[name] = chosen
            else:
                space.parameters[name] = replace(parameter, start=x)
        return space

    def decode(self, x: Any) -> dict[str, Any]:
        """Convert a point to parameters.

        Parameters
        ----------
        x : array_like, shape (d,) or (n, d)
            A point, or several.

        Returns
        -------
        dict
            The values of all parameters and constants by name; lists of n values for several points.

        Raises
        ------
        ValueError
            If x does not have d coordinates, or if there is no choice with an index.
        """
        points = np.asarray(x, dtype=np.float64)
        if points.ndim not in (1, 2) or points.shape[-1] != len(self):
            shapes = f"a point ({len(self)},) or points (n, {len(self)})"
            raise ValueError(f"`x` must be {shapes}, got an array of shape {points.shape}.")
        if points.ndim == 2:
            rows = [self.decode(row) for row in points]
            return {name: [row[name] for row in rows] for name in self._order}
        values = {name: p.decode(v) for (name, p), v in zip(self.parameters.items(), points.tolist(), strict=True)}
        values.update(self.constants)
        return {name: values[name] for name in self._order}

    def build(self, x: Any) -> Any:
        """Convert a point to the argument of the objective.

        Parameters
        ----------
        x : array_like, shape (d,)
            A point.

        Returns
        -------
        dict or object
            The parameters by name, or an instance of the dataclass that defines the space.
        """
        values = self.decode(x)
        return values if self._type is None else self._type(**values)

    def encode(self, values: Mapping[str, object]) -> Array:
        """Convert parameters to a point.

        Parameters
        ----------
        values : mapping
            Values of all parameters by name; constants may be left out.

        Returns
        -------
        ndarray, shape (d,)

        Raises
        ------
        ValueError
            If a parameter is missing or unknown, or a value is not in its range.
        """
        self._check_names(values, complete=True)
        return np.array([self._encode_value(name, values[name]) for name in self.parameters])

    def _encode_value(self, name: str, value: object) -> float:
        try:
            return self.parameters[name].encode(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"parameter {name!r}: {error}") from None

    def _check_names(self, values: Mapping[str, object], complete: bool) -> None:
        unknown = [name for name in values if name not in self._order]
        missing = [name for name in self.parameters if complete and name not in values]
        if unknown or missing:
            what = (
                f"unknown: {', '.join(map(repr, unknown))}" if unknown else f"missing: {', '.join(map(repr, missing))}"
            )
            raise ValueError(f"the parameters must be {', '.join(self.parameters)}; {what}.")
        for name, constant in self.constants.items():
            if name in values and _position([constant], values[name]) is None:
                raise ValueError(
                    f"parameter {name!r} is the constant {short_repr(constant)}, got {short_repr(values[name])}."
                )

    def describe(self) -> dict[str, dict[str, object]]:
        """Describe the space by strings and numbers.

        Returns
        -------
        dict
            A description that `Space.from_description` reads; it can be written to a JSON file if all values can.
        """
        return {
            name: {"type": "constant", "value": self.constants[name]}
            if name in self.constants
            else _description(self.parameters[name])
            for name in self._order
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Mapping[str, object]]) -> Space:
        """Create a space from a description, for example one read from a JSON or TOML file.

        Parameters
        ----------
        description : mapping
            A dict per name: "type" is "real", "integer", "choice" or "constant", and the other keys are the arguments
            of `Real` and `Integer`, the "values", "ordered" and "start" of a `Choice`, or the "value" of a constant.

        Returns
        -------
        Space

        Raises
        ------
        ValueError, TypeError
            If the description of a parameter is invalid.

        Examples
        --------
        >>> import sublevel as sl
        >>> sl.Space.from_description({"rate": {"type": "real", "low": 0, "high": 1}})
        Space(rate=Real(low=0.0, high=1.0))
        """
        if not isinstance(cast(object, description), Mapping):
            raise TypeError(f"a description of a Space must map names to parameters, got {short_repr(description)}.")
        return cls({name: _parse_parameter(name, facts) for name, facts in description.items()})


def _description(parameter: Parameter) -> dict[str, object]:
    if isinstance(parameter, Choice):
        facts: dict[str, object] = {"type": "choice", "values": list(parameter.values), "ordered": parameter.ordered}
        return facts | ({"start": parameter.values[parameter.first]} if parameter.first else {})
    numbers = {one.name: getattr(parameter, one.name) for one in fields(parameter)}
    kind = "integer" if isinstance(parameter, Integer) else "real"
    finite = {name: number for name, number in numbers.items() if number is not None and abs(number) != math.inf}
    return {"type": kind, **finite}


def _parse_parameter(name: str, facts: object) -> object:
    """A parameter or constant from its description."""
    if not isinstance(facts, Mapping):
        return facts
    given = dict(cast(Mapping[str, Any], facts))
    kind = given.pop("type", None)
    if kind not in KEYS:
        raise ValueError(
            f"`type` of parameter {name!r} must be real, integer, choice or constant, got {short_repr(kind)}."
        )
    if unknown := [key for key in given if key not in KEYS[kind]]:
        known = ", ".join(KEYS[kind])
        raise ValueError(f"parameter {name!r} of type {kind} takes {known}; unknown: {', '.join(map(repr, unknown))}.")
    if kind in ("choice", "constant") and KEYS[kind][0] not in given:
        raise ValueError(f"parameter {name!r} needs {KEYS[kind][0]!r}.")
    try:
        if kind == "choice":
            values = given.pop("values")
            if not isinstance(values, list | tuple):
                raise TypeError(f"`values` of a choice must be a list, got {short_repr(values)}.")
            return Choice(*cast(Sequence[object], values), **given)
        if kind == "constant":
            return given["value"]
        return (Real if kind == "real" else Integer)(**given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"parameter {name!r}: {error}") from None


KEYS: Mapping[object, tuple[str, ...]] = {
    "real": ("low", "high", "log", "scale", "start"),
    "integer": ("low", "high", "log", "scale", "start"),
    "choice": ("values", "ordered", "start"),
    "constant": ("value",),
}
"""Keys of the description of a parameter, besides its type."""
