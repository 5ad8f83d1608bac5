"""Calling the user's objective."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from sublevel.arrays import Array
from sublevel.door import checked_flag, checked_value, checked_values
from sublevel.workers import Processes, available_cores

Arrivals = Iterator[tuple[int | slice, float | Array]]
"""Values as they arrive: of one point by its index, or of all by a slice."""


class Evaluator(Protocol):
    """The objective as a map from points to values. What it raises goes through, with the point attached as `sublevel_x`."""

    def __call__(self, points: Array, /) -> Arrivals:
        """The value of each of the points (n, d), in any order. The points are read-only: the objective cannot change them."""
        ...

    def close(self) -> None:
        """End what works for it."""
        ...


def evaluator(fun: Callable[..., Any], vectorized: bool, workers: int | Callable[..., Any]) -> Evaluator:
    """One point after the other, all at once, or by `workers`: a number of processes, −1 for one on each core, or a function like `map`."""
    if vectorized and workers != 1:
        warnings.warn("`workers` wins over `vectorized`: the objective gets one point at a time, as in SciPy.", stacklevel=3)
    if callable(workers):
        return Mapped(fun, workers)
    if workers == 1:
        return AtOnce(fun) if vectorized else OneByOne(fun)
    return InProcesses(Processes(fun, available_cores() if workers == -1 else workers))


@dataclass(frozen=True, slots=True)
class AtOnce:
    """All points in one call."""

    fun: Callable[..., Any]

    def __call__(self, points: Array) -> Arrivals:
        """Values (n,) of points (n, d), all at once."""
        try:
            values = checked_values(self.fun(points[...]), len(points))
        except BaseException as error:
            _name_sample(error, points)
            raise
        yield slice(None), values

    def close(self) -> None:
        """Nobody works for it."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """A call for each point."""

    fun: Callable[..., Any]

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), the first one first."""
        for index, point in enumerate(points):
            try:
                value = checked_value(self.fun(point))
            except BaseException as error:
                _name_point(error, point)
                raise
            yield index, value

    def close(self) -> None:
        """Nobody works for it."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The user's own `map`, be it of threads, processes or a cluster."""

    fun: Callable[..., Any]
    map: Callable[..., Iterable[Any]]

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), in the order of the map."""
        try:
            answers = list(self.map(Pointed(self.fun), list(points)))
            values = checked_values([checked_value(answer) for answer in answers], len(points))
        except BaseException as error:
            if not hasattr(error, "sublevel_x"):
                _name_sample(error, points)
            raise
        yield slice(None), values

    def close(self) -> None:
        """The user's workers are the user's to end."""


@dataclass(frozen=True, slots=True)
class Pointed:
    """The objective, whose exceptions know their point wherever they are raised."""

    fun: Callable[..., Any]

    def __call__(self, point: Array) -> float:
        """The value at a point (d,)."""
        try:
            return checked_value(self.fun(point))
        except BaseException as error:
            _name_point(error, point)
            raise


@dataclass(frozen=True, slots=True)
class InProcesses:
    """Worker processes, each point to the next that is free."""

    processes: Processes

    def __call__(self, points: Array) -> Arrivals:
        """The values of points (n, d), as the processes answer."""
        index = 0
        try:
            for index, answer in enumerate(self.processes.begin(points)):
                yield index, answer()
        except GeneratorExit:
            raise
        except BaseException as error:
            _name_point(error, points[index])
            raise

    def close(self) -> None:
        """End the processes."""
        self.processes.close()


@dataclass(frozen=True, slots=True)
class Compared:
    """A function better(x, y) that only says whether one point is better than another: a point's value is its rank among the others.

    About n·log₂n questions. Points of which none is better share a rank.
    """

    better: Callable[..., Any]

    def __call__(self, points: Array) -> Arrivals:
        """Ranks (n,) of points (n, d), all at once."""

        def wins(i: int, j: int) -> bool:
            try:
                return checked_flag("the answer of a comparison", self.better(points[i], points[j]))
            except BaseException as error:
                _name_sample(error, points[[i, j]])
                raise

        order = sorted(range(len(points)), key=cmp_to_key(lambda i, j: -wins(i, j)))
        ranks = np.zeros(len(points))
        ranks[order[1:]] = np.cumsum([wins(i, j) or wins(j, i) for i, j in pairwise(order)])
        yield slice(None), ranks

    def close(self) -> None:
        """Nobody works for it."""


def all_values(evaluate: Evaluator, points: Array) -> Array:
    """The values (n,) of points (n, d), once all have arrived; the points become read-only."""
    points.setflags(write=False)
    values = np.empty(len(points))
    for index, arrived in evaluate(points):
        values[index] = arrived
    return values


def with_args(fun: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The objective of points alone."""
    return partial(_called_with, fun, args) if args else fun


def _called_with(fun: Callable[..., Any], args: tuple[Any, ...], *points: Array) -> Any:
    return fun(*points, *args)


def _name_point(error: BaseException, point: Array) -> None:
    tell_about(error, f"sublevel: raised at x = {np.array2string(point, threshold=20)}", sublevel_x=point)


def _name_sample(error: BaseException, points: Array) -> None:
    tell_about(error, f"sublevel: raised for the sample in `sublevel_x`, shape {points.shape}", sublevel_x=points)


def tell_about(error: BaseException, note: str | None = None, **facts: Any) -> None:
    """Attach what we know to an exception, also to one that forbids attributes; it stays the one that is raised."""
    with contextlib.suppress(Exception):
        vars(error).update(facts)
    with contextlib.suppress(Exception):
        if note is not None:
            error.add_note(note)
