"""The state of a random generator as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsInt, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.store.errors import FormatError
from sublevel.store.serialize import as_dict, as_list

KINDS: Mapping[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox, np.random.MT19937)
}
"""NumPy's own bit generators; a file can name no other."""


def plain_state(state: object) -> object:
    """The state of a bit generator as numbers, text, lists and dicts."""
    if isinstance(state, dict):
        return {str(key): plain_state(part) for key, part in cast("dict[str, object]", state).items()}
    if isinstance(state, np.ndarray):
        return cast("NDArray[np.uint64]", state).tolist()
    return state if isinstance(state, str) or state is None else int(cast(SupportsInt, state))


def is_same_state(state: object, other: object) -> bool:
    """Whether two states of a bit generator are equal."""
    try:
        return state == other
    except ValueError:  # they have arrays
        return plain_state(state) == plain_state(other)


def generator_like(state: object) -> np.random.Generator:
    """A generator of the kind that a plain state names."""
    refusal = f"its random generator must be one of NumPy's, {', '.join(KINDS)}"
    name = as_dict(state, refusal).get("bit_generator")
    if not isinstance(name, str) or name not in KINDS:
        raise FormatError(refusal)
    return np.random.Generator(KINDS[name](0))


def state_like(template: Mapping[str, object], plain: object) -> dict[str, object]:
    """A state with the entries of the template, from plain numbers in their ranges."""
    parts = as_dict(plain, "the state of its random generator is missing")
    if parts.keys() != template.keys():
        raise FormatError("the state of its random generator has other parts")
    return {name: _part_like(part, parts[name]) for name, part in template.items()}


def _part_like(template: object, plain: object) -> object:
    if isinstance(template, dict):
        return state_like(cast("dict[str, object]", template), plain)
    if isinstance(template, str):
        if plain != template:
            raise FormatError("its random generator is of another kind")
        return template
    if isinstance(template, np.ndarray):
        array = cast("NDArray[np.uint64]", template)
        numbers = as_list(plain, array.size, "the state of its random generator has another length")
        return np.array([_as_integer(number, 8 * array.itemsize) for number in numbers], dtype=array.dtype)
    return _as_integer(plain, 128)


def _as_integer(number: object, bits: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**bits:
        raise FormatError("the state of its random generator is out of range")
    return number
