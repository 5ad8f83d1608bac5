"""Calling the user's objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.door import checked_value, checked_values


class EvaluationFailed(Exception):
    """Carries an exception out of the objective together with the values obtained before it."""

    def __init__(self, cause: BaseException, values: Array) -> None:
        super().__init__(cause)
        self.cause, self.values = cause, values


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The objective as a map from points (n, d) to values (n,)."""

    fun: Callable[..., Any]
    vectorized: bool = False

    def __call__(self, points: Array) -> Array:
        """Values of points, which the objective cannot change. Whatever it raises comes out as EvaluationFailed."""
        points.setflags(write=False)
        return self._all_at_once(points) if self.vectorized else self._one_by_one(points)

    def _all_at_once(self, points: Array) -> Array:
        try:
            return checked_values(self.fun(points), len(points))
        except (Exception, KeyboardInterrupt) as error:
            error.add_note(f"sublevel: raised for a batch of {len(points)} points of shape {points.shape}")
            error.sublevel_x = points  # type: ignore[attr-defined]
            raise EvaluationFailed(error, np.empty(0)) from error

    def _one_by_one(self, points: Array) -> Array:
        values = np.empty(len(points))
        for index, point in enumerate(points):
            try:
                values[index] = checked_value(self.fun(point))
            except (Exception, KeyboardInterrupt) as error:
                error.add_note(f"sublevel: raised at x = {np.array2string(point, threshold=20)}")
                error.sublevel_x = point  # type: ignore[attr-defined]
                raise EvaluationFailed(error, values[:index]) from error
        return values
