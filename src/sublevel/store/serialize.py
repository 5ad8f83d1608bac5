"""Trees of arrays as bytes: dataclasses, tuples and dicts whose leaves are numbers.

A file never determines what is built. It has a layout and bytes, which are read into a template of the same layout, or
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.store.errors import FormatError

DTYPES = {np.dtype(name): name for name in ("float64", "int64", "bool")}
"""The types that leaves may have, and their names, which NumPy would compute each time."""

LONGEST_JSON = 2**24
"""Most characters of a JSON text: values take up to thirty times as many bytes in memory."""

SMALL_TREE = 2**16
"""Bytes of a tree below which calls take more time than copies."""

T = TypeVar("T")
Leaf = NDArray[np.generic]
Order = Literal["C", "F"]
Form = tuple[str, str, tuple[int, ...], Order]
"""Path, type, shape and memory order of a leaf."""


def parse_json(text: str, refusal: str) -> object:
    """The value of a JSON text; FormatError with the message `refusal` if there is none, or if it is too long."""
    if len(text) > LONGEST_JSON:
        raise FormatError(refusal)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError(refusal) from None


def as_list(value: object, length: int | None, refusal: str) -> list[object]:
    """A list of some length, or of any if it is None; otherwise FormatError."""
    if not isinstance(value, list) or length not in (None, len(cast("list[object]", value))):
        raise FormatError(refusal)
    return cast("list[object]", value)


def as_dict(value: object, refusal: str) -> dict[str, object]:
    """A dict; otherwise FormatError."""
    if not isinstance(value, dict):
        raise FormatError(refusal)
    return cast("dict[str, object]", value)


def pack(tree: object) -> tuple[str, bytes]:
    """Layout (JSON: path, dtype, shape and order of each leaf) and bytes of a tree."""
    pairs = list(_leaves(tree))
    return _layout_text(tuple(_form(*pair) for pair in pairs)), b"".join(leaf.tobytes("A") for _, leaf in pairs)


def pack_all(trees: Sequence[object]) -> tuple[str, bytes] | None:
    """The common layout of several trees, and their bytes one after the other; None if their layouts differ."""
    pairs, columns = list(_leaves(trees[0])), list(_columns(trees))
    forms = [_form(*pair) for pair in pairs]
    if len(columns) != len(forms):
        return None
    tables = [_table(form, column) for form, column in zip(forms, columns, strict=True)]
    if any(table is None for table in tables):
        return None
    rows = np.concatenate([table for table in tables if table is not None], axis=1)
    return _layout_text(tuple(forms)), rows.tobytes()


def pack_each(trees: Sequence[object]) -> list[tuple[str, bytes]]:
    """`pack` of each tree; faster for many small trees of the same layout."""
    packed = pack_all(trees) if trees and size_of(trees[0]) < SMALL_TREE else None
    if packed is None:
        return [pack(tree) for tree in trees]
    layout, data = packed
    width = len(data) // len(trees)
    return [(layout, data[begin : begin + width]) for begin in range(0, len(data), width)]


def _columns(trees: Sequence[object]) -> Iterator[Sequence[object]]:
    """For each leaf of the first tree, that leaf of all trees."""
    first = trees[0]
    if (names := _field_names(type(first))) is not None:
        for name in names:
            yield from _columns([getattr(tree, name) for tree in trees])
    elif type(first) is np.ndarray:
        yield trees
    elif isinstance(first, tuple | list):
        for parts in zip(*cast("Sequence[Sequence[object]]", trees), strict=True):
            yield from _columns(parts)
    elif isinstance(first, Mapping):
        for name in cast("Mapping[str, object]", first):
            yield from _columns([tree[name] for tree in cast("Sequence[Mapping[str, object]]", trees)])
    elif any(tree is not None for tree in trees):
        yield trees


def _table(form: Form, leaves: Sequence[object]) -> NDArray[np.uint8] | None:
    """The bytes of leaves (n, k) that all have this form; None if some do not."""
    _, dtype, shape, order = form
    if shape:
        if len(set(map(type, leaves))) > 1:
            return None
        arrays = cast("Sequence[Leaf]", leaves)
        if len({leaf.strides for leaf in arrays}) > 1 or len({leaf.shape for leaf in arrays}) > 1:
            return None
        leaves = [leaf.T for leaf in arrays] if order == "F" else arrays
    table = np.array(leaves)
    if DTYPES.get(table.dtype) != dtype or table.ndim != 1 + len(shape):
        return None
    return np.ascontiguousarray(table).reshape(len(leaves), -1).view(np.uint8)


@lru_cache(maxsize=16)
def _layout_text(layout: tuple[Form, ...]) -> str:
    """A layout as JSON. A run uses only a few."""
    return json.dumps(layout)


def unpack(template: T, layout: str, data: bytes | memoryview) -> T:
    """The tree of a layout and bytes, which must have the paths, types and shapes of the template."""
    expected = [_form(path, leaf) for path, leaf in _leaves(template)]
    given = parse_json(layout, "its layout cannot be read")
    forms = as_list(given, len(expected), f"it must hold {len(expected)} arrays")
    orders: list[Order] = [_order(form, wanted) for form, wanted in zip(forms, expected, strict=True)]
    size = size_of(template)
    if len(data) != size:
        raise FormatError(f"its arrays must be {size} bytes, it holds {len(data)}")
    return cast(T, _fill(template, _arrays(expected, orders, data)))


def size_of(tree: object) -> int:
    """Bytes of a tree."""
    return sum(leaf.nbytes for _, leaf in _leaves(tree))


@lru_cache(maxsize=64)
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass; None for another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def _leaves(tree: object, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Paths and leaves of a tree; None is no leaf."""
    if (names := _field_names(type(tree))) is not None:
        for name in names:
            yield from _leaves(getattr(tree, name), f"{path}.{name}")
    elif isinstance(tree, tuple | list):
        for place, part in enumerate(cast("tuple[object, ...]", tree)):
            yield from _leaves(part, f"{path}[{place}]")
    elif isinstance(tree, Mapping):
        for name, part in cast("Mapping[str, object]", tree).items():
            yield from _leaves(part, f"{path}.{name}")
    elif tree is not None:
        leaf = np.asarray(tree)
        if leaf.dtype not in DTYPES:
            raise FormatError(f"{path.lstrip('.')} is a {type(tree).__name__}, and only numbers can be stored")
        yield path.lstrip("."), leaf


def _form(path: str, leaf: Leaf) -> Form:
    fortran = leaf.ndim > 1 and leaf.flags.f_contiguous and not leaf.flags.c_contiguous
    return path, DTYPES[leaf.dtype], leaf.shape, "F" if fortran else "C"


def _order(given: object, expected: Form) -> Order:
    """The memory order of a leaf, which may be either; all else must be as expected."""
    path, dtype, shape, _ = expected
    if given == [path, dtype, list(shape), "C"]:
        return "C"
    if given == [path, dtype, list(shape), "F"]:
        return "F"
    raise FormatError(f"it must hold {path} of shape {shape} and type {dtype}")


def _arrays(expected: list[Form], orders: Iterable[Order], data: bytes | memoryview) -> Iterator[Leaf]:
    """New arrays in their original memory order, because BLAS may round differently in another one."""
    begin = 0
    for (_, dtype, shape, _), order in zip(expected, orders, strict=True):
        flat = np.frombuffer(data, dtype, int(np.prod(shape, dtype=np.int64)), begin)
        begin += flat.nbytes
        yield flat.reshape(shape, order=order).copy(order="K")


def _fill(template: object, arrays: Iterator[Leaf]) -> object:
    """A tree like the template with the next arrays as its leaves."""
    if (names := _field_names(type(template))) is not None:
        return type(template)(*[_fill(getattr(template, name), arrays) for name in names])
    if isinstance(template, tuple | list):
        return tuple(_fill(part, arrays) for part in cast("tuple[object, ...]", template))
    if isinstance(template, Mapping):
        return {name: _fill(part, arrays) for name, part in cast("Mapping[str, object]", template).items()}
    if template is None:
        return None
    array = next(arrays)
    if isinstance(template, np.ndarray):
        return array
    return array[()] if isinstance(template, np.generic) else array.item()
