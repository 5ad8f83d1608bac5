"""The state of a random generator as plain numbers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sublevel.store.serialize import FormatError

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox, np.random.MT19937)
}
"""NumPy's own bit generators; a file can name no other."""


def plain_state(state: Any) -> Any:
    """A bit generator's state in numbers, text, lists and dicts."""
    if isinstance(state, dict):
        return {str(key): plain_state(part) for key, part in cast(dict[Any, Any], state).items()}
    if isinstance(state, np.ndarray):
        return cast(list[int], state.tolist())
    return state if isinstance(state, str) or state is None else int(state)


def generator_like(state: Any) -> np.random.Generator:
    """A generator of the kind that a plain state is of."""
    name = cast(dict[str, Any], state).get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in KINDS:
        raise FormatError(f"its random generator must be one of NumPy's, {', '.join(KINDS)}")
    return np.random.Generator(KINDS[name](0))


def state_like(template: Any, plain: Any) -> Any:
    """A state of the form of the template, made of plain numbers in their ranges."""
    if isinstance(template, dict):
        known = cast(dict[str, Any], template)
        if not isinstance(plain, dict) or cast(dict[str, Any], plain).keys() != known.keys():
            raise FormatError("the state of its random generator has other parts")
        return {key: state_like(part, plain[key]) for key, part in known.items()}
    if isinstance(template, str):
        if plain != template:
            raise FormatError("its random generator is of another kind")
        return template
    if isinstance(template, np.ndarray):
        array = cast(Any, template)
        if not isinstance(plain, list) or len(cast(list[Any], plain)) != array.size:
            raise FormatError("the state of its random generator has another length")
        return np.array([_within(number, 8 * array.itemsize) for number in cast(list[Any], plain)], dtype=array.dtype)
    return _within(plain, 128)


def _within(number: Any, bits: int) -> int:
    if type(number) is not int or not 0 <= number < 2**bits:
        raise FormatError("the state of its random generator is out of range")
    return number
