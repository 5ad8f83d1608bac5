"""Trees of arrays as plain bytes: dataclasses, tuples and dicts whose leaves are numbers.

A file never says what to build. It holds a layout and bytes, and these are poured into a template of the same layout or refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

DTYPES = ("float64", "int64", "bool")


class Misfit(ValueError):
    """What was stored does not have the form that is expected."""


def packed(tree: Any) -> tuple[str, bytes]:
    """Layout (JSON: path, dtype, shape and order of each leaf) and bytes of a tree."""
    pairs = list(_leaves(tree))
    layout = [_form(path, leaf) for path, leaf in pairs]
    parts = [np.asarray(leaf).tobytes("A") for _, leaf in pairs]
    return json.dumps(layout), b"".join(parts)


def unpacked(template: Any, layout: str, data: bytes) -> Any:
    """The tree of that layout and those bytes, if it has the form of the template: the same paths, types and shapes."""
    try:
        given: Any = json.loads(layout)
    except (ValueError, RecursionError):
        raise Misfit("its layout cannot be read") from None
    expected = [_form(path, leaf) for path, leaf in _leaves(template)]
    if not isinstance(given, list) or len(cast(list[Any], given)) != len(expected):
        raise Misfit(f"it must hold {len(expected)} arrays")
    orders = [_order(form, wanted) for form, wanted in zip(cast(list[Any], given), expected, strict=True)]
    size = sum(int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize for _, dtype, shape, _ in expected)
    if len(data) != size:
        raise Misfit(f"its arrays must be {size} bytes, it holds {len(data)}")
    return _poured(template, _arrays(expected, orders, data))


def size_of(tree: Any) -> int:
    """Bytes that a tree takes."""
    return sum(np.asarray(leaf).nbytes for _, leaf in _leaves(tree))


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and leaves of a tree; None is no leaf."""
    if is_dataclass(tree):
        for field in fields(tree):
            yield from _leaves(getattr(tree, field.name), f"{path}.{field.name}")
    elif isinstance(tree, tuple | list):
        for place, part in enumerate(cast(tuple[Any, ...], tree)):
            yield from _leaves(part, f"{path}[{place}]")
    elif isinstance(tree, Mapping):
        for name, part in cast(Mapping[str, Any], tree).items():
            yield from _leaves(part, f"{path}.{name}")
    elif tree is not None:
        if np.asarray(tree).dtype.name not in DTYPES:
            raise Misfit(f"{path.lstrip('.')} is a {type(tree).__name__}, and only numbers can be stored")
        yield path.lstrip("."), tree


def _form(path: str, leaf: Any) -> list[Any]:
    array = np.asarray(leaf)
    fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    return [path, array.dtype.name, list(array.shape), "F" if fortran else "C"]


def _order(given: Any, expected: list[Any]) -> str:
    """The order in memory of a leaf, which may be either; all else must be as expected."""
    if not isinstance(given, list) or cast(list[Any], given)[:3] != expected[:3] or cast(list[Any], given)[3:] not in (["C"], ["F"]):
        raise Misfit(f"it must hold {expected[0]} of shape {tuple(expected[2])} and type {expected[1]}")
    return cast(str, given[3])


def _arrays(expected: list[list[Any]], orders: list[str], data: bytes) -> Iterator[Any]:
    """One array after the other, in memory of its own and in the order it had: BLAS may round another order otherwise."""
    begin = 0
    for (_, dtype, shape, _), order in zip(expected, orders, strict=True):
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(data, dtype, count, begin)
        begin += flat.nbytes
        yield flat.reshape(shape, order=cast(Any, order)).copy(order="K")


def _poured(template: Any, arrays: Iterator[Any]) -> Any:
    """A tree like the template with the next arrays as its leaves."""
    if is_dataclass(template) and not isinstance(template, type):
        return type(template)(*[_poured(getattr(template, field.name), arrays) for field in fields(template)])
    if isinstance(template, tuple | list):
        return tuple(_poured(part, arrays) for part in cast(tuple[Any, ...], template))
    if isinstance(template, Mapping):
        return {name: _poured(part, arrays) for name, part in cast(Mapping[str, Any], template).items()}
    if template is None:
        return None
    array = next(arrays)
    if isinstance(template, np.ndarray):
        return array
    return array[()] if isinstance(template, np.generic) else array.item()
