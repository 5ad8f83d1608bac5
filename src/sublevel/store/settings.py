"""What a run was asked to do, as numbers and text: all but functions, which have to be given again."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FAMILIES, Bernoulli, FullGaussian
from sublevel.engine.method import Method
from sublevel.run.optimizer import Optimizer
from sublevel.run.restarts import STRATEGIES, Once, Restarts
from sublevel.store.errors import StoreError
from sublevel.store.file import SIDE_FILES
from sublevel.store.rng_state import generator_like
from sublevel.store.serialize import FormatError, unpacked
from sublevel.validation import RECIPES, as_flag, as_method, as_names, as_restarts, as_tolerance, short_repr

FAMILY_TYPES: dict[str, Any] = {family.__name__: family for family in (*FAMILIES.values(), Bernoulli)}
STRATEGIES_BY_CLASS: dict[str, Any] = {strategy.__name__: strategy for strategy in STRATEGIES.values()}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LARGEST_GENERATION = 2**33
"""Bytes that the points of one generation may take."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file to store a run in, with what the command line was told, for people to read."""

    path: Path
    command: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, store: Any) -> Target:
        """From a path, or a target itself."""
        return store if isinstance(store, Target) else cls(checked_path(store))


def checked_path(store: Any) -> Path:
    """The path of a file that can be a stored run."""
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"`store` must be the name of a file, got {short_repr(store)}.")
    text = os.fsdecode(cast(str, store))
    if "\0" in text or Path(text).name in ("", ".."):
        raise ValueError(f"`store` must be the name of a file, got {text!r}.")
    for end in SIDE_FILES:
        if text.endswith(end):
            raise ValueError(
                f"`store` must not end with {end}, which SQLite adds to the names of its own files, got {text!r}."
            )
    return Path(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """Where the search begins, in arrays; None is what was not given."""

    x0: Array  # (d,)
    sigma0: Any  # () or (d,)
    cov0: Any  # (d, d)
    bounds: Any  # (2, d)
    log_scaled: Any  # (d,)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `minimize` was given besides: numbers and names."""

    method: str | None  # None if it was a Method
    parts: str  # the method, as it shows itself
    family: str
    popsize: int
    restarts: Any  # None, [name, restarts, factor], or text if it was another strategy
    limits: list[float | None]  # maxfevals, maxiter, ftarget, maxtime
    tolerances: list[float | bool]  # tolfun, tolx, noise_floor
    names: list[str] | None  # of the variables
    evaluate_x0: bool  # with the first generation
    vectorized: bool
    workers: int | None  # None if it was a function, an executor or a client
    timeout: float | None
    on_error: str
    draws_x0: bool  # x0 was a function
    takes_args: bool
    objective: str  # what the objective was called, for people
    command: dict[str, Any]  # what the command line was given, for people; empty if it was not used
    version: str
    began: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `minimize` was given and an optimizer does not know."""

    method: Any
    fun: Any
    args: tuple[Any, ...]
    limits: tuple[Any, Any, Any, Any]  # maxfevals, maxiter, ftarget, maxtime
    vectorized: bool
    workers: Any
    timeout: float | None
    on_error: str
    log_scaled: Any
    evaluate_x0: bool

    def settings(self, optimizer: Optimizer, command: Mapping[str, Any] | None) -> Settings:
        """All that can be stored of what was given but arrays."""
        family = optimizer.method.family.__name__
        if FAMILY_TYPES.get(family) is not optimizer.method.family:
            raise StoreError(
                f"a run on a family of your own cannot be stored, got {described(optimizer.method.family)}."
            )
        return Settings(
            method=self.method if isinstance(self.method, str) else None,
            parts=described(optimizer.method),
            family=family,
            popsize=optimizer.popsize,
            restarts=strategy_facts(optimizer.strategy),
            limits=[None if limit is None else float(limit) for limit in self.limits],
            tolerances=list(optimizer.tolerances),
            names=None if optimizer.start.names is None else list(optimizer.start.names),
            evaluate_x0=self.evaluate_x0,
            vectorized=bool(self.vectorized),
            workers=int(self.workers) if isinstance(self.workers, int) else None,
            timeout=None if self.timeout is None else float(self.timeout),
            on_error=self.on_error,
            draws_x0=optimizer.start.another is not None,
            takes_args=bool(self.args),
            objective=described(getattr(self.fun, "__qualname__", type(self.fun).__qualname__)),
            command={} if command is None else dict(command),
            version=sublevel_version(),
            began=time.time(),
        )

    def problem(self, optimizer: Optimizer) -> Problem:
        """The arrays."""
        start = optimizer.start
        space, d = start.space, start.x0.size
        return Problem(
            x0=start.x0,
            sigma0=None if start.sigma0 is None else np.asarray(start.sigma0, dtype=np.float64),
            cov0=None if start.cov0 is None else np.asarray(start.cov0, dtype=np.float64),
            bounds=None if space is None else np.array(space.box),
            log_scaled=None
            if space is None
            else np.broadcast_to(np.asarray(self.log_scaled, dtype=np.bool_), (d,)).copy(),
        )


def sublevel_version() -> str:
    """Of this package, as its metadata has it when it is running."""
    import sublevel

    return sublevel.__version__


def strategy_facts(strategy: Restarts) -> Any:
    """The class name and the fields of a registered strategy; the text of another one."""
    if isinstance(strategy, Once):
        return None
    name = type(strategy).__name__
    if STRATEGIES_BY_CLASS.get(name) is not type(strategy):
        return described(strategy)
    registered = cast(Any, strategy)
    return [
        name,
        *(type(field.default)(number) for field, number in zip(fields(registered), astuple(registered), strict=True)),
    ]


def described(thing: object) -> str:
    """What a value of the user's shows of itself, without its place in memory."""
    return ADDRESS.sub("", repr(thing))[:2000]


def problem_like(layout: Any, size: int) -> Problem:
    """Empty arrays like those of a stored problem, if they fit each other and together have the size (bytes) that the
    file holds.
    """
    try:
        sizes: dict[str, tuple[int, ...]] = {path: tuple(map(int, shape)) for path, _, shape, _ in layout}
        (d,) = sizes["x0"]
    except (TypeError, ValueError, KeyError):
        raise FormatError("its problem cannot be read") from None
    allowed: dict[str, list[tuple[int, ...]]] = {
        "x0": [(d,)],
        "sigma0": [(), (1,), (d,)],
        "cov0": [(d, d)],
        "bounds": [(2, d)],
        "log_scaled": [(d,)],
    }
    if d < 1 or any(shape not in allowed.get(name, []) for name, shape in sizes.items()):
        raise FormatError("its problem has parts that do not belong together")
    if sum((1 if name == "log_scaled" else 8) * prod(shape) for name, shape in sizes.items()) != size:
        raise FormatError(f"its problem declares other sizes than the {size} bytes it holds")
    arrays = {name: np.empty(shape, np.bool_ if name == "log_scaled" else np.float64) for name, shape in sizes.items()}
    return Problem(*(cast(Any, arrays.get(name)) for name in allowed))


NOTHING = type(None)
SETTINGS: dict[str, Any] = {
    "method": (str, NOTHING),
    "parts": str,
    "family": str,
    "popsize": int,
    "restarts": (str, list, NOTHING),
    "limits": list,
    "tolerances": list,
    "names": (list, NOTHING),
    "evaluate_x0": bool,
    "vectorized": bool,
    "workers": (int, NOTHING),
    "timeout": (float, NOTHING),
    "on_error": str,
    "draws_x0": bool,
    "takes_args": bool,
    "objective": str,
    "command": dict,
    "version": str,
    "began": float,
}
"""The types of the settings."""


def checked_settings(facts: dict[str, Any]) -> Settings:
    """Settings from a file, each of the type it must have."""
    if facts.keys() != SETTINGS.keys() or not all(isinstance(facts[name], kinds) for name, kinds in SETTINGS.items()):
        raise FormatError("its settings are not those of a run")
    limits: list[Any] = facts["limits"]
    if len(limits) != 4 or not all(limit is None or isinstance(limit, int | float) for limit in limits):
        raise FormatError("its limits are not four numbers")
    tolerances: list[Any] = facts["tolerances"]
    if len(tolerances) != 3 or not all(
        isinstance(tolerance, float) and 0 <= tolerance < np.inf for tolerance in tolerances[:2]
    ):
        raise FormatError("its tolerances are not two numbers of at least 0 and a flag")
    if not isinstance(tolerances[2], bool):
        raise FormatError("its flag for the noise floor is neither true nor false")
    names: list[Any] = facts["names"] or []
    if not all(isinstance(name, str) for name in names):
        raise FormatError("its variables have names that are no text")
    if not isinstance(facts["restarts"], str):
        stored_strategy(facts["restarts"])
    if facts["family"] not in FAMILY_TYPES or not (facts["method"] is None or facts["method"] in RECIPES):
        raise FormatError(f"there is no method {short_repr(facts['method'])} or family {short_repr(facts['family'])}")
    return Settings(**facts)


def unpacked_problem(layout: str, data: bytes) -> Problem:
    """The stored problem."""
    try:
        rows = json.loads(layout)
    except (ValueError, RecursionError):
        raise FormatError("its problem cannot be read") from None
    return unpacked(problem_like(rows, len(data)), layout, data)


def check_size(settings: Settings, problem: Problem, state_bytes: int) -> None:
    """What building this run would take is what the file holds of it: a small file cannot ask for much memory."""
    d = problem.x0.size
    if settings.family == FullGaussian.__name__:
        free = d if problem.bounds is None else int(np.count_nonzero(problem.bounds[0] < problem.bounds[1]))
        if 8 * free * free > state_bytes:
            raise FormatError(f"it has {free} free variables and a state of {state_bytes} bytes")
    if not settings.popsize >= 2 or 8 * settings.popsize * d > LARGEST_GENERATION:
        raise FormatError(
            f"a generation of {settings.popsize} points with {d} variables is beyond the {LARGEST_GENERATION} bytes "
            "it may have"
        )


def stored_strategy(facts: Any) -> Restarts:
    """A registered strategy from its class name and fields."""
    if facts is None:
        return Once()
    if isinstance(facts, list) and facts:
        name, *numbers = cast(list[Any], facts)
        strategy = STRATEGIES_BY_CLASS.get(name) if isinstance(name, str) else None
        if strategy is not None and [type(number) for number in numbers] == [
            type(field.default) for field in fields(strategy)
        ]:
            is_valid = all(number >= 0 if type(number) is int else 1e-3 < number < 1e3 for number in numbers)
            if is_valid:
                return strategy(*numbers)
    raise FormatError(f"there are no restarts {short_repr(cast(Any, facts))}")


@dataclass(frozen=True, slots=True)
class Overrides:
    """What cannot be stored and is given again."""

    method: Any = None
    restarts: Any = None
    x0: Callable[[np.random.Generator], Any] | None = None
    checked: bool = True  # compared with what it was
    tolerances: tuple[Any, Any, Any] = (None, None, None)  # tolfun, tolx, noise_floor, if there are to be others

    def as_method(self, settings: Settings) -> Method:
        """The run's method: by its name, or the one that is given again if it shows itself as it did."""
        if settings.method is not None and self.method is None:
            return as_method(settings.method)
        if self.method is None:
            raise TypeError(
                "`method` must be given again, because the run began with a Method and not with a name: "
                f"{settings.parts}"
            )
        method = as_method(self.method)
        if self.checked and described(method) != settings.parts:
            raise ValueError(
                f"`method` must be the one that the run began with, {settings.parts}, got {described(method)}."
            )
        return method

    def as_restarts(self, settings: Settings) -> Restarts:
        """The run's strategy, likewise."""
        if not isinstance(settings.restarts, str) and self.restarts is None:
            return stored_strategy(settings.restarts)
        if self.restarts is None:
            raise TypeError(
                "`restarts` must be given again, because the run began with a strategy of your own: "
                f"{settings.restarts}"
            )
        strategy = as_restarts(self.restarts)
        if strategy_facts(strategy) != settings.restarts:
            raise ValueError(
                f"`restarts` must be those that the run began with, {short_repr(settings.restarts)}, got "
                f"{described(strategy)}."
            )
        return strategy

    def checked_tolerances(self, settings: Settings) -> dict[str, float | bool]:
        """The run's own tolerances, or others if no run follows this one, since they decide where a run ends and the
        next begins.
        """
        checks: dict[str, Callable[[str, Any], float | bool]]
        checks = {"tolfun": as_tolerance, "tolx": as_tolerance, "noise_floor": as_flag}
        given = zip(checks.items(), self.tolerances, settings.tolerances, strict=True)
        chosen = {name: stored if new is None else check(name, new) for (name, check), new, stored in given}
        if settings.restarts is not None and [*chosen.values()] != settings.tolerances:
            raise ValueError(
                f"`tolfun`, `tolx` and `noise_floor` must be those that the run began with, {settings.tolerances}, "
                f"because it has restarts, got {[*chosen.values()]}."
            )
        return chosen


def _checked_names(names: list[str] | None, d: int) -> tuple[str, ...] | None:
    """The stored names of d variables; None if there are none."""
    try:
        return None if names is None else as_names(names, d)
    except (TypeError, ValueError):
        raise FormatError(f"it has no names for its {d} variables") from None


def rebuilt(settings: Settings, problem: Problem, rng_state: Any, again: Overrides) -> Optimizer:
    """An optimizer as the run began with, apart from its generator's state."""
    if settings.draws_x0 and again.x0 is None:
        raise TypeError("`x0` must be given again, because the run began with a function that draws starting points.")
    method = again.as_method(settings)
    tolerances: dict[str, Any] = again.checked_tolerances(settings)
    if method.family is not FAMILY_TYPES[settings.family]:
        raise FormatError(f"its method does not search with a {settings.family}")
    bounds = None
    if problem.bounds is not None:
        from scipy.optimize import Bounds

        bounds = Bounds(*problem.bounds)
    optimizer = Optimizer(
        problem.x0,
        problem.sigma0,
        method=method,
        popsize=settings.popsize,
        cov0=problem.cov0,
        bounds=bounds,
        log_scaled=False if problem.log_scaled is None else problem.log_scaled,
        restarts=again.as_restarts(settings),
        rng=generator_like(rng_state),
        names=_checked_names(settings.names, problem.x0.size),
        **tolerances,
    )
    if again.x0 is not None:
        optimizer.start = replace(optimizer.start, another=again.x0)
    return optimizer
