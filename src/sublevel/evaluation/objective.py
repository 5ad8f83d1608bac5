"""Calls of the user's objective. Worker processes import this module, so it must stay light."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from os import getpid
from typing import Protocol, TypeVar, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import ATTEMPTS, Failure, OnError, annotate_exception
from sublevel.evaluation.values import Answer, as_answer, as_constraint_values, as_value, as_values
from sublevel.summaries import short_repr

T = TypeVar("T")

FORKS: list[None] = []
"""Grows by an element in each forked copy of this process: its length is read faster than the number of the process."""
if sys.platform != "win32":
    os.register_at_fork(after_in_child=partial(FORKS.append, None))


@dataclass(frozen=True, slots=True)
class GuardedObjective:
    """The objective at one point: its value or, if `on_error` permits, a failure. Exceptions get the point attached."""

    fun: Callable[..., object]
    on_error: OnError

    def __call__(self, point: Array) -> float | Answer | Failure:
        """The value at a point (d,), which becomes read-only."""
        point.setflags(write=False)
        try:
            return as_answer(call_objective(self.fun, point))
        except BaseException as error:
            return self._retry(error, point)

    def append_values(
        self, points: Array, values: list[float], record: Callable[[object, Array, T], float], failures: T, pid: int
    ) -> None:
        """Append the values at read-only points (n, d), in order; `record` is called for all but plain floats.

        The same as one call after another, with less time between two of them. Ends all processes but `pid`.
        """
        fun, append, forks = self.fun, values.append, len(FORKS)
        for point in points:
            try:
                answer = fun(point)
            except BaseException as error:
                if getpid() != pid:
                    _exit_forked_copy()
                answer = self._retry(error, point)
            if len(FORKS) != forks:
                _exit_forked_copy()
            if type(answer) is float and answer == answer:
                append(answer)
            else:
                append(record(self._converted(answer, point), point, failures))
        if getpid() != pid:  # a fork without Python's knowledge
            _exit_forked_copy()

    def _converted(self, answer: object, point: Array) -> float | Answer | Failure:
        """An answer of the objective as a number, with what cannot be one treated as an error."""
        if isinstance(answer, Failure):
            return answer
        try:
            return as_answer(answer)
        except (TypeError, ValueError) as error:
            return self._retry(error, point)

    def _retry(self, error: BaseException, point: Array) -> float | Answer | Failure:
        """The value at a further attempt after an error, or a failure; raises the error if it is not to be caught."""
        for attempt in range(ATTEMPTS[self.on_error]):
            try:
                if attempt > 0:
                    return as_answer(call_objective(self.fun, point))
            except BaseException as again:
                error = again
            if self.on_error == "raise" or not isinstance(error, Exception):
                annotate_point(error, point)
                raise error
        return Failure.from_exception(cast(Exception, error))


def call_objective(fun: Callable[..., object], *points: Array) -> object:
    """Call the objective. If it forks this process and the copy returns too, the copy ends here."""
    pid = getpid()
    try:
        return fun(*points)
    finally:
        if getpid() != pid:
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


class TakesPoints:
    """Base class of objectives that take points also where a space of named parameters is searched."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AtPoints(TakesPoints):
    """An objective that was given its names and further arguments already."""

    fun: Callable[..., object]

    def __call__(self, points: Array) -> object:
        """The value at a point (d,), or values (n,) at points (n, d)."""
        return self.fun(points)


def name_parameters(fun: Callable[..., object], space: Builds | None) -> Callable[..., object]:
    """The objective as a function of points; it is itself called with named parameters if there is a space."""
    takes_points = space is None or isinstance(cast(object, fun), TakesPoints)
    return fun if takes_points else partial(_call_with_names, fun, cast(Builds, space))


def _call_with_names(fun: Callable[..., object], space: Builds, points: Array, *args: object) -> object:
    return fun(space.build(points), *args)


@dataclass(frozen=True, slots=True)
class ConstrainedObjective:
    """f and constraint values in one call, at a point or, if `batched`, at several."""

    fun: Callable[..., object]
    functions: tuple[Callable[..., object] | None, ...]  # None stands for values that `fun` returns with f
    sizes: tuple[int, ...]  # how many values each of them has
    batched: bool

    def __call__(self, points: Array) -> Answer:
        """The row (1 + k,) of a point (d,), or the rows (n, 1 + k) of points (n, d)."""
        value = self.fun(points)
        own: object = None
        if None in self.functions:
            value, own = _value_and_constraints(value)
        shape = (len(points),) if self.batched else ()
        f = as_values(value, len(points)) if self.batched else np.array(as_value(value))
        columns = [f[..., None]]
        for function, size in zip(self.functions, self.sizes, strict=True):
            found = own if function is None else function(points)
            columns.append(as_constraint_values(found, (*shape, size)))
        return Answer(np.concatenate(columns, axis=-1))


def _value_and_constraints(answer: object) -> tuple[object, object]:
    """The parts of (f, g)."""
    parts = list(cast("Iterable[object]", answer)) if isinstance(answer, tuple | list) else []
    if len(parts) != 2:
        raise TypeError(
            f"the objective must return (f, g), a value and its constraint values, got "
            f"{short_repr(cast(object, answer))}: `constraints` is the number of values in g."
        )
    return parts[0], parts[1]


def annotate_point(error: BaseException, point: Array) -> None:
    """Attach the point (d,) to an exception."""
    annotate_exception(error, f"sublevel: raised at x = {np.array2string(point, threshold=20)}", sublevel_x=point)


def annotate_sample(error: BaseException, points: Array) -> None:
    """Attach the points (n, d) to an exception."""
    annotate_exception(
        error, f"sublevel: raised for the sample in `sublevel_x`, shape {points.shape}", sublevel_x=points
    )
