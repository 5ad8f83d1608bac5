"""Calls of the user's objective. Worker processes import this module, so it must stay light."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import ATTEMPTS, Failure, OnError, annotate_exception
from sublevel.evaluation.values import as_value


@dataclass(frozen=True, slots=True)
class GuardedObjective:
    """The objective at one point: its value or, if `on_error` permits, a failure. Exceptions get the point attached."""

    fun: Callable[..., object]
    on_error: OnError

    def __call__(self, point: Array) -> float | Failure:
        """The value at a point (d,), which becomes read-only."""
        point.setflags(write=False)
        failure = None
        for _ in range(ATTEMPTS[self.on_error]):
            try:
                return as_value(call_objective(self.fun, point))
            except BaseException as error:
                if self.on_error == "raise" or not isinstance(error, Exception):
                    annotate_point(error, point)
                    raise
                failure = Failure.from_exception(error)
        return cast(Failure, failure)


def call_objective(fun: Callable[..., object], *points: Array) -> object:
    """Call the objective. If it forks this process and the copy returns too, the copy ends here."""
    pid = os.getpid()
    try:
        return fun(*points)
    finally:
        if os.getpid() != pid:
            _exit_forked_copy()


def _exit_forked_copy() -> None:
    """End a copy of the process that the objective left behind; the run continues in the original."""
    error = sys.exception()
    if error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
    os._exit(0 if error is None else 1)


def bind_args(fun: Callable[..., object], args: object) -> Callable[..., object]:
    """The objective as a function of the point alone; `args` is a tuple or, as in SciPy, a single argument."""
    further = cast(tuple[object, ...], args) if isinstance(args, tuple) else (args,)
    return partial(_call_with_args, fun, further) if further else fun


def _call_with_args(fun: Callable[..., object], args: tuple[object, ...], *points: Array) -> object:
    return fun(*points, *args)


class Builds(Protocol):
    """A space, which makes named parameters of a point."""

    def build(self, x: Array, /) -> object: ...


def name_parameters(fun: Callable[..., object], space: Builds | None) -> Callable[..., object]:
    """The objective as a function of points; it is itself called with named parameters if there is a space."""
    return fun if space is None else partial(_call_with_names, fun, space)


def _call_with_names(fun: Callable[..., object], space: Builds, points: Array, *args: object) -> object:
    return fun(space.build(points), *args)


def annotate_point(error: BaseException, point: Array) -> None:
    """Attach the point (d,) to an exception."""
    annotate_exception(error, f"sublevel: raised at x = {np.array2string(point, threshold=20)}", sublevel_x=point)


def annotate_sample(error: BaseException, points: Array) -> None:
    """Attach the points (n, d) to an exception."""
    annotate_exception(
        error, f"sublevel: raised for the sample in `sublevel_x`, shape {points.shape}", sublevel_x=points
    )
