"""Evaluations that were made before a run, as the first archive of its surrogate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.evaluation.values import as_values
from sublevel.run.initial import Start
from sublevel.surrogate.archive import Archive
from sublevel.validation import as_numbers, short_repr


class Evaluated(Protocol):
    """Points with their values, such as a stored run."""

    @property
    def points(self) -> Array:
        """The points (n, d)."""
        ...

    @property
    def values(self) -> Array:
        """Their values (n,)."""
        ...


Known = Evaluated | tuple[ArrayLike | Sequence[Mapping[str, object]], ArrayLike]
"""Points (n, d), or dicts of parameters, and their values (n,)."""


def known_archive(known: object, start: Start) -> Archive:
    """The archive of evaluations that a user knows, in the space that is searched from `start`."""
    given, numbers = _parts(known)
    points = _as_points(given, start)
    values = as_values(cast(ArrayLike, numbers), len(points))
    space = start.space
    if space is None:
        return Archive(points, values)
    lower, upper = space.box
    if not np.all((points >= lower) & (points <= upper)) or np.any(points[:, space.log_scaled] <= 0):
        raise ValueError("the points of `known` must lie within the bounds of the search.")
    return Archive(space.searched(points), values)


def _parts(known: object) -> tuple[object, object]:
    """Points and values."""
    if isinstance(known, tuple | list):
        pair = tuple(cast("Sequence[object]", known))
        if len(pair) == 2:
            return pair
    elif hasattr(known, "points") and hasattr(known, "values"):
        found = cast(Evaluated, known)
        return found.points, found.values
    raise TypeError(f"`known` must be a pair (points, values) or a stored run, got {short_repr(cast(object, known))}.")


def _as_points(given: object, start: Start) -> Array:
    """Points (n, d), two or more."""
    rows = cast("Sequence[object]", given) if isinstance(given, Sequence) else ()
    if start.parameters is not None and rows and all(isinstance(row, Mapping) for row in rows):
        given = [start.parameters.encode(cast("Mapping[str, object]", row)) for row in rows]
    points, d = as_numbers("known", cast(object, given)), start.x0.size
    if points.ndim != 2 or points.shape[1] != d:
        raise ValueError(f"the points of `known` must have shape (n, {d}), got shape {points.shape}.")
    return points
