"""Types of the arguments of `minimize`, `Optimizer` and `resume`. `validation.py` checks the values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublevel.run.restarts import RestartName, Restarts

if TYPE_CHECKING:
    from scipy.optimize import Bounds

    from sublevel.run.parameters import Space

Value = float | np.floating | np.integer | NDArray[np.generic]
"""What an objective returns: a number, or an array with one number for each point."""
Objective = Callable[[Any], Value] | Callable[Concatenate[Any, ...], Value]
"""f(x) of a point (d,), with further arguments if there are `args`; of (n, d) to (n,) if `vectorized`; of a dict or an
instance of a dataclass if a `Space` is searched.
"""
DrawPoint = Callable[[np.random.Generator], ArrayLike]
"""A function that draws a starting point (d,)."""
StartingPoint: TypeAlias = "ArrayLike | DrawPoint | Space | type[object]"
"""A point (d,), a function that draws one, or a space of named parameters, or a dataclass that defines one."""
Box: TypeAlias = "Bounds | Sequence[float | None] | Sequence[Sequence[float | None]] | NDArray[np.generic]"
"""A (low, high) pair for all variables or for each of them, None where there is no bound."""
RestartRule = int | RestartName | Restarts
"""A number of restarts, the name of a strategy, or a strategy."""
Seed = int | np.integer | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator
"""What `numpy.random.default_rng` takes."""
FileName = str | os.PathLike[str]


class Submits(Protocol):
    """An Executor of concurrent.futures, or a Client of dask.distributed."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> object: ...


MapFunction = Callable[[Callable[..., Any], Iterable[Any]], Iterable[object]]
Workers = int | Submits | MapFunction
"""What evaluates points: a number of processes, an executor, a Dask client, or a function like `map`."""
