"""A space of named parameters from a JSON or TOML file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from sublevel.cli.common import CommandError

if TYPE_CHECKING:
    from sublevel.run.parameters import Space


def read_space(file: Path) -> Space:
    """The space that a file describes, as `Space.from_description` takes it."""
    from sublevel.run.parameters import Space
    from sublevel.store.spaces import is_described

    readers = {".json": _read_json, ".toml": tomllib.loads}
    read = readers.get(file.suffix.lower())
    if read is None:
        raise CommandError(f"--space: the file must end with {' or '.join(readers)}, got {file}.")
    try:
        description = read(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"--space: cannot read {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--space: {file} is not valid {file.suffix[1:].upper()}: {error}") from error
    if not isinstance(description, dict):
        raise CommandError(f"--space: {file} must contain an object whose keys are the names of the parameters.")
    try:
        space = Space.from_description(description)  # pyright: ignore[reportUnknownArgumentType]
    except (TypeError, ValueError, OverflowError) as error:
        raise CommandError(f"--space: {file}: {error}") from error
    if not is_described(space):
        raise CommandError(
            f"--space: {file}: values must be numbers, strings of at most 1000 characters, true or false."
        )
    return space


def _read_json(text: str) -> object:
    """The value of a JSON text; ValueError if a name occurs twice, of which Python would keep the last one."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def space_names(space: Space) -> tuple[str, ...]:
    """Names of all parameters and constants in their order."""
    return tuple(space.describe())
