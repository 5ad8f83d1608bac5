"""Calling the user's objective."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.door import checked_value, checked_values


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The objective as a map from points (n, d) to values (n,). What it raises goes through, with the point attached as `sublevel_x`."""

    fun: Callable[..., Any]
    vectorized: bool
    keep: Callable[[Array, Array], None]  # gets the points and values that came before an exception

    def __call__(self, points: Array) -> Array:
        """Values (n,) of points (n, d), which must be read-only: the objective cannot change them."""
        return self._all_at_once(points) if self.vectorized else self._one_by_one(points)

    def _all_at_once(self, points: Array) -> Array:
        try:
            return checked_values(self.fun(points[...]), len(points))
        except BaseException as error:
            tell_about(error, f"sublevel: raised for the sample in `sublevel_x`, shape {points.shape}", sublevel_x=points)
            raise

    def _one_by_one(self, points: Array) -> Array:
        values, index = np.empty(len(points)), 0
        try:
            for index, point in enumerate(points):
                values[index] = checked_value(self.fun(point))
        except BaseException as error:
            self.keep(points[:index], values[:index])
            point = points[index]
            tell_about(error, f"sublevel: raised at x = {np.array2string(point, threshold=20)}", sublevel_x=point)
            raise
        return values


def tell_about(error: BaseException, note: str | None = None, **facts: Any) -> None:
    """Attach what we know to an exception, also to one that forbids attributes; it stays the one that is raised."""
    with suppress(Exception):
        vars(error).update(facts)
    with suppress(Exception):
        if note is not None:
            error.add_note(note)
