"""Values of the objective as float64. Worker processes import this module, so it must stay light."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.summaries import short_repr


def plain_array(name: str, given: object) -> NDArray[Any]:
    """`given` as an array without a mask: masked elements become NaN."""
    try:
        array: NDArray[Any] = np.asanyarray(given)
    except ValueError as error:  # ragged nesting
        raise ValueError(f"`{name}` must be an array of numbers, got {short_repr(given)}: {error}") from None
    return np.ma.filled(array.astype(np.float64), np.nan) if np.ma.is_masked(array) else np.asarray(array)


def as_float64(array: NDArray[np.generic]) -> Array:
    """Real numbers as float64; a long double outside its range becomes ±inf."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False)


def as_values(values: object, size: int) -> Array:
    """f-values (size,) as float64. NaN and ±inf are accepted; anything but real numbers is an error."""
    array = values if type(values) is np.ndarray else plain_array("values", values)
    if array.shape != (size,):
        raise (TypeError if values is None else ValueError)(
            f"`values` must be one number per point, shape ({size},), got {short_repr(values)} of shape "
            f"{array.shape}.{_hint(values)}"
        )
    if array.dtype.char == "d":
        return array
    if array.dtype.kind in "fiub":
        return as_float64(array)
    if array.dtype.kind != "O":
        raise TypeError(f"`values` must be real numbers, got {short_repr(values)} (dtype {array.dtype}).")
    return np.array([as_value(value) for value in array.tolist()])


def as_value(value: object) -> float:
    """One f-value as a float, from any real number or an array with one element."""
    if isinstance(value, float):
        return float.__pos__(value)  # a plain float: `__float__` and `__reduce__` of a subclass can do anything
    array = plain_array("value", value)
    if array.size == 1 and array.dtype.kind in "fiub":
        return float(array.item())
    if array.size == 1 and array.dtype.kind == "O":
        return _as_float(array.item())
    raise (ValueError if array.dtype.kind in "fiub" else TypeError)(_wrong_value(value))


@dataclass(frozen=True, slots=True)
class Answer:
    """f and constraint values of a point, in one row (1 + k,), or of several points (n, 1 + k)."""

    rows: Array


def as_answer(answer: object) -> float | Answer:
    """What an objective returned: f with constraint values, or a value."""
    return answer if isinstance(answer, Answer) else as_value(answer)


def as_answers(answers: object, size: int) -> Array:
    """What an objective returned for `size` points: f with constraint values (size, 1 + k), or values (size,)."""
    return answers.rows if isinstance(answers, Answer) else as_values(answers, size)


def as_constraint_values(values: object, shape: tuple[int, ...]) -> Array:
    """Constraint values as float64 of the shape (k,) or (n, k); those of a single constraint may lack an axis."""
    array = plain_array("constraints", values)
    if array.dtype.kind == "O":
        array = np.array([as_value(value) for value in array.ravel().tolist()]).reshape(array.shape)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"constraint values must be real numbers, got {short_repr(values)} (dtype {array.dtype}).")
    if array.shape != shape and not (shape[-1] == 1 and array.shape == shape[:-1]):
        kind = TypeError if values is None else ValueError
        raise kind(f"constraint values must have the shape {shape}, got {short_repr(values)}.{_hint(values)}")
    return as_float64(array).reshape(shape)


def _as_float(number: Any) -> float:
    """A Decimal, a Fraction, a large int or a similar object as a float."""
    if not isinstance(number, str | bytes) and not np.iscomplexobj(number):
        with suppress(TypeError, ValueError, OverflowError):
            return float(number)
    raise TypeError(_wrong_value(number))


def _wrong_value(value: object) -> str:
    return (
        f"the objective must return one real number per point, got {short_repr(value)} of type "
        f"{type(value).__name__}.{_hint(value)}"
    )


def _hint(value: object) -> str:
    return " Did you forget `return`?" if value is None else ""
