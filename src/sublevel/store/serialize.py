"""Trees of arrays as plain bytes: dataclasses, tuples and dicts whose leaves are numbers.

A file never says what to build. It holds a layout and bytes, and these are poured into a template of the same layout or
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

DTYPES = {np.dtype(name): name for name in ("float64", "int64", "bool")}
"""The types that leaves may have, and their names, which NumPy would make up each time."""

Form = tuple[str, str, tuple[int, ...], str]
"""Path, type, shape and order in memory (C or F) of a leaf."""


class FormatError(ValueError):
    """What was stored does not have the form that is expected."""


def packed(tree: Any) -> tuple[str, bytes]:
    """Layout (JSON: path, dtype, shape and order of each leaf) and bytes of a tree."""
    pairs = list(_leaves(tree))
    parts = [np.asarray(leaf).tobytes("A") for _, leaf in pairs]
    return _layout_text(tuple(_form(path, leaf) for path, leaf in pairs)), b"".join(parts)


@lru_cache(maxsize=16)
def _layout_text(layout: tuple[Form, ...]) -> str:
    """A layout as JSON; the same few are asked for again and again."""
    return json.dumps(layout)


def unpacked(template: Any, layout: str, data: bytes) -> Any:
    """The tree of that layout and those bytes, if it has the form of the template: the same paths, types and shapes."""
    try:
        given: Any = json.loads(layout)
    except (ValueError, RecursionError):
        raise FormatError("its layout cannot be read") from None
    expected = [_form(path, leaf) for path, leaf in _leaves(template)]
    if not isinstance(given, list) or len(cast(list[Any], given)) != len(expected):
        raise FormatError(f"it must hold {len(expected)} arrays")
    orders = [_order(form, wanted) for form, wanted in zip(cast(list[Any], given), expected, strict=True)]
    size = sum(int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize for _, dtype, shape, _ in expected)
    if len(data) != size:
        raise FormatError(f"its arrays must be {size} bytes, it holds {len(data)}")
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
        if np.asarray(tree).dtype not in DTYPES:
            raise FormatError(f"{path.lstrip('.')} is a {type(tree).__name__}, and only numbers can be stored")
        yield path.lstrip("."), tree


def _form(path: str, leaf: Any) -> Form:
    array = np.asarray(leaf)
    fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    return path, DTYPES[array.dtype], array.shape, "F" if fortran else "C"


def _order(given: Any, expected: Form) -> str:
    """The order in memory of a leaf, which may be either; all else must be as expected."""
    path, dtype, shape, _ = expected
    if not isinstance(given, list) or given not in ([path, dtype, list(shape), "C"], [path, dtype, list(shape), "F"]):
        raise FormatError(f"it must hold {path} of shape {shape} and type {dtype}")
    return cast(str, given[3])


def _arrays(expected: list[Form], orders: list[str], data: bytes) -> Iterator[Any]:
    """One array after the other, in memory of its own and in the order it had: BLAS may round another order
    otherwise.
    """
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
