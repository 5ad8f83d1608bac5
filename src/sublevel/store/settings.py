"""The arguments of a run as numbers and text. Functions cannot be stored and must be given again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass, replace
from math import prod
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

import sublevel
from sublevel.engine.arrays import Array
from sublevel.engine.families import FAMILIES, Bernoulli, Family, FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.sampling import SAMPLINGS, sampling_name
from sublevel.run.constraints import ConstraintsLike, as_batched, is_batched
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.run.restarts import STRATEGIES, Once, Restarts
from sublevel.run.termination import Tolerances
from sublevel.store.constraint_facts import describe_constraints, has_functions, is_same, stored_constraints
from sublevel.store.errors import FormatError, StoreError
from sublevel.store.file import SIDE_FILES
from sublevel.store.rng_state import generator_like
from sublevel.store.serialize import Form, as_list, parse_json, unpack
from sublevel.store.spaces import describe, describe_space, is_described, match_space, stored_space
from sublevel.validation import RECIPES, as_flag, as_method, as_names, as_restarts, as_tolerance, short_repr

FAMILY_TYPES: Mapping[str, type[Family]] = {family.__name__: family for family in (*FAMILIES.values(), Bernoulli)}
STRATEGIES_BY_CLASS = {strategy.__name__: strategy for strategy in STRATEGIES.values()}
FLAGS = ("log_scaled", "integrality")
"""Arrays of a problem that have a byte for each variable."""
LARGEST_GENERATION = 2**33
"""Most bytes of the points of a generation."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file to store a run in, and the arguments of the command line, which are stored for information."""

    path: Path
    command: Mapping[str, object] | None = None

    @classmethod
    def of(cls, store: object) -> Target:
        """From a path or a target."""
        return store if isinstance(store, Target) else cls(as_path(store))


def as_path(store: object) -> Path:
    """The path of a stored run."""
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"`store` must be the name of a file, got {short_repr(store)}.")
    text = os.fsdecode(cast("str | os.PathLike[str]", store))
    if "\0" in text or Path(text).name in ("", ".."):
        raise ValueError(f"`store` must be the name of a file, got {text!r}.")
    for end in SIDE_FILES:
        if text.endswith(end):
            raise ValueError(f"`store` must not end with {end}, which names a file of SQLite, got {text!r}.")
    return Path(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """The start of the search as arrays; None for arguments that were not given, or that follow from a Space."""

    x0: Array  # (d,)
    sigma0: Array | None  # () or (d,)
    cov0: Array | None  # (d, d)
    bounds: Array | None  # (2, d)
    log_scaled: NDArray[np.bool_] | None  # (d,)
    integrality: NDArray[np.bool_] | None  # (d,), variables that are integers


@dataclass(frozen=True, slots=True)
class Settings:
    """The other arguments of `minimize`: numbers and names."""

    method: str | None  # None if it was a Method
    parts: str  # `repr` of the method
    family: str
    sampling: str
    popsize: int
    restarts: str | list[str | int | float] | None  # [class, fields...] if it is registered, else its `repr`
    limits: list[float | None]  # maxfevals, always a number, and maxiter, ftarget, maxtime
    tolerances: list[float | bool]  # tolfun, tolx, rtolfun, noise_floor
    noise: bool  # the answer is a mean
    names: list[str] | None  # of the variables
    space: dict[str, object] | None  # description of a Space
    constraints: dict[str, object] | None  # names, bounds and handling of constraints
    is_described: bool  # False if that does not determine what the objective is called with
    evaluate_x0: bool  # with the first generation
    batch: int | None  # points of each call of the objective, if their number is fixed
    vectorized: bool
    workers: int | None  # None if it was a function, an executor or a client
    timeout: float | None
    on_error: str
    surrogate: int  # evaluations at a time; 0 without a surrogate
    draws_x0: bool  # x0 was a function
    takes_args: bool
    objective: str  # its name, for information
    command: dict[str, object]  # arguments of the command line, for information; empty if it was not used
    version: str
    began: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Arguments of `minimize` that an optimizer does not have."""

    method: str | Method
    fun: Callable[..., object]
    args: tuple[object, ...]
    limits: tuple[float, float | None, float | None, float | None]  # maxfevals, maxiter, ftarget, maxtime
    vectorized: bool
    workers: object
    timeout: float | None
    on_error: str
    log_scaled: object
    evaluate_x0: bool
    constraint_handling: str | None = None
    batch: int | None = None

    def settings(self, optimizer: Optimizer, command: Mapping[str, object] | None) -> Settings:
        """All arguments that can be stored, except arrays."""
        family, space = optimizer.method.family.__name__, optimizer.start.parameters
        if FAMILY_TYPES.get(family) is not optimizer.method.family:
            found = describe(optimizer.method.family)
            raise StoreError(f"runs with a user-defined family cannot be stored, got {found}.")
        return Settings(
            method=self.method if isinstance(self.method, str) else None,
            parts=describe(as_method(self.method)),
            family=family,
            sampling=sampling_name(optimizer.method.sampling),
            popsize=optimizer.popsize,
            restarts=strategy_facts(optimizer.strategy),
            limits=[None if limit is None else float(limit) for limit in self.limits],
            tolerances=list(optimizer.tolerances),
            noise=optimizer.noise,
            names=None if optimizer.start.names is None else list(optimizer.start.names),
            space=None if space is None else {**describe_space(space)},
            constraints=self._constraints(optimizer),
            is_described=space is None or is_described(space),
            evaluate_x0=self.evaluate_x0,
            batch=None if self.batch is None else int(self.batch),
            vectorized=bool(self.vectorized),
            workers=int(self.workers) if isinstance(self.workers, int) else None,
            timeout=None if self.timeout is None else float(self.timeout),
            on_error=self.on_error,
            surrogate=0 if optimizer.partial is None else optimizer.partial.at_a_time,
            draws_x0=optimizer.start.another is not None,
            takes_args=bool(self.args),
            objective=describe(getattr(self.fun, "__qualname__", type(self.fun).__qualname__)),
            command={} if command is None else dict(command),
            version=sublevel.__version__,
            began=time.time(),
        )

    def _constraints(self, optimizer: Optimizer) -> dict[str, object] | None:
        if optimizer.constraints is None:
            return None
        return describe_constraints(optimizer.constraints, self.constraint_handling)

    def problem(self, optimizer: Optimizer) -> Problem:
        """The arrays."""
        start = optimizer.start
        box = start.space if start.parameters is None else None
        log_scaled = np.broadcast_to(np.asarray(self.log_scaled, dtype=np.bool_), start.x0.shape)
        return Problem(
            x0=start.x0,
            sigma0=None if start.sigma0 is None else np.asarray(start.sigma0, dtype=np.float64),
            cov0=None if start.cov0 is None else np.asarray(start.cov0, dtype=np.float64),
            bounds=None if box is None else np.array(box.box),
            log_scaled=None if box is None else log_scaled.copy(),
            integrality=None if box is None or not box.discrete.any() else box.discrete,
        )


def strategy_facts(strategy: Restarts) -> str | list[str | int | float] | None:
    """The class name and the fields of a registered strategy; the `repr` of another one."""
    if isinstance(strategy, Once):
        return None
    name = type(strategy).__name__
    if not is_dataclass(strategy) or STRATEGIES_BY_CLASS.get(name) is not type(strategy):
        return describe(strategy)
    pairs = zip(fields(strategy), astuple(strategy), strict=True)
    return [name, *(int(number) if isinstance(field.default, int) else float(number) for field, number in pairs)]


def unpack_problem(layout: str, data: bytes) -> Problem:
    """The stored problem. The shapes must fit each other and the size of the data, before memory is allocated."""
    try:
        forms = cast("list[Form]", parse_json(layout, "its problem cannot be read"))
        sizes = {path: tuple(map(int, shape)) for path, _, shape, _ in forms}
        (d,) = sizes["x0"]
    except (TypeError, ValueError, KeyError):
        raise FormatError("its problem cannot be read") from None
    allowed = {"x0": [(d,)], "sigma0": [(), (1,), (d,)], "cov0": [(d, d)], "bounds": [(2, d)]}
    allowed |= {name: [(d,)] for name in FLAGS}
    if d < 1 or any(shape not in allowed.get(name, []) for name, shape in sizes.items()):
        raise FormatError("the arrays of its problem do not fit each other")
    if sum((1 if name in FLAGS else 8) * prod(shape) for name, shape in sizes.items()) != len(data):
        raise FormatError(f"its problem declares other sizes than the {len(data)} bytes it holds")
    sigma0, cov0, bounds = (np.empty(sizes[name]) if name in sizes else None for name in ("sigma0", "cov0", "bounds"))
    flags = [np.empty(d, np.bool_) if name in sizes else None for name in FLAGS]
    return unpack(Problem(np.empty(d), sigma0, cov0, bounds, *flags), layout, data)


def _classes(annotation: type | UnionType) -> tuple[type, ...]:
    """The classes of an annotation, without the types of their elements."""
    kinds: tuple[type, ...] = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return tuple(get_origin(kind) or kind for kind in kinds)


SETTINGS = {name: _classes(annotation) for name, annotation in get_type_hints(Settings).items()}
"""The classes that each setting may have."""


def as_settings(facts: Mapping[str, object]) -> Settings:
    """Settings from a file, each of the type it must have."""
    if facts.keys() != SETTINGS.keys() or not all(isinstance(facts[name], kinds) for name, kinds in SETTINGS.items()):
        raise FormatError("its settings are not those of a run")
    maxfevals, *others = as_list(facts["limits"], 4, "its limits are not four numbers")
    if not isinstance(maxfevals, int | float) or not all(isinstance(limit, int | float | None) for limit in others):
        raise FormatError("its limits are not four numbers")
    refusal = "its tolerances are not three numbers of at least 0 and a flag"
    *numbers, flag = as_list(facts["tolerances"], 4, refusal)
    if not all(isinstance(number, float) and 0 <= number < np.inf for number in numbers) or not isinstance(flag, bool):
        raise FormatError(refusal)
    if not all(isinstance(name, str) for name in as_list(facts["names"] or [], None, "its names are not a list")):
        raise FormatError("the names of its variables are not text")
    settings = Settings(**cast(Any, facts))
    if settings.batch is not None and settings.batch < 1:
        raise FormatError("its batch is not a number of points")
    if not isinstance(settings.restarts, str):
        stored_strategy(settings.restarts)
    if settings.space is not None and list(stored_space(settings.space).names) != settings.names:
        raise FormatError("its space of parameters has other names than its variables")
    if settings.constraints is not None:
        stored_constraints(settings.constraints)
    if settings.surrogate < 0:
        raise FormatError("it has an impossible surrogate")
    if settings.family not in FAMILY_TYPES or not (settings.method is None or settings.method in RECIPES):
        raise FormatError(f"there is no method {short_repr(settings.method)} or family {short_repr(settings.family)}")
    if settings.sampling not in SAMPLINGS:
        raise FormatError(f"there is no sampling {short_repr(settings.sampling)}")
    return settings


def check_size(settings: Settings, problem: Problem, state_bytes: int) -> None:
    """Raise FormatError if the run would take much more memory than the file has data."""
    d = problem.x0.size
    free = np.ones(d, dtype=np.bool_) if problem.bounds is None else problem.bounds[0] < problem.bounds[1]
    probabilities = 0
    if settings.space is not None:
        space = stored_space(settings.space).coordinates()
        if space.x0.size != d or problem.bounds is not None or problem.log_scaled is not None:
            raise FormatError("its space of parameters does not fit the arrays of its problem")
        free = (space.lower < space.upper) & (space.categories == 0)
        probabilities = int(np.count_nonzero(space.categories) * np.max(space.categories))
    k = int(np.count_nonzero(free))
    matrix = k * k if settings.family == FullGaussian.__name__ else k
    if 8 * (matrix + probabilities) > state_bytes:
        raise FormatError(f"it has {k} free variables and a state of {state_bytes} bytes")
    if not settings.popsize >= 2 or 8 * settings.popsize * d > LARGEST_GENERATION:
        size = f"{settings.popsize} points with {d} variables"
        raise FormatError(f"a generation of {size} exceeds the limit of {LARGEST_GENERATION} bytes")


def stored_strategy(facts: list[str | int | float] | None) -> Restarts:
    """A registered strategy from its class name and fields."""
    if facts is None:
        return Once()
    name, *numbers = facts or [""]
    strategy = STRATEGIES_BY_CLASS.get(name) if isinstance(name, str) else None
    if is_dataclass(strategy) and list(map(type, numbers)) == [type(field.default) for field in fields(strategy)]:
        counts = [number for number in numbers if isinstance(number, int)]
        factors = [number for number in numbers if isinstance(number, float)]
        if min(counts, default=0) >= 0 and all(1e-3 < factor < 1e3 for factor in factors):
            return cast("Callable[..., Restarts]", strategy)(*numbers)
    raise FormatError(f"there is no restart strategy {short_repr(facts)}")


@dataclass(frozen=True, slots=True)
class Overrides:
    """Arguments that cannot be stored and are given again."""

    method: object = None
    restarts: object = None
    x0: Callable[[np.random.Generator], ArrayLike] | None = None
    checked: bool = True  # whether the method must be the original one
    tolerances: tuple[float | None, float | None, float | None, bool | None] = (None, None, None, None)
    space: object = None
    constraints: object = None
    vectorized: object = None
    workers: object = None

    def as_constraints(self, settings: Settings) -> ConstraintsLike | None:
        """The constraints of the run, which are given again if they have functions."""
        facts = settings.constraints
        if facts is None:
            if self.constraints is not None:
                raise TypeError("`constraints` must be left out, because the run was started without any.")
            return None
        vectorized = settings.vectorized if self.vectorized is None else self.vectorized
        workers = (settings.workers or 1) if self.workers is None else self.workers
        if self.constraints is not None:
            return as_batched(cast(ConstraintsLike, self.constraints), vectorized, workers)
        if self.checked and has_functions(facts):
            raise TypeError("`constraints` must be given again, because their functions cannot be stored.")
        found = replace(stored_constraints(facts), batched=is_batched(vectorized, workers))
        return cast(ConstraintsLike, found)

    def as_method(self, settings: Settings) -> Method:
        """The method of the run, from its name or from a Method with the same `repr`."""
        if settings.method is not None and self.method is None:
            return as_method(settings.method)
        if self.method is None:
            reason = "the run was started with a Method and not with a name"
            raise TypeError(f"`method` must be given again, because {reason}: {settings.parts}")
        method = as_method(self.method)
        if self.checked and describe(method) != settings.parts:
            expected = f"the one that the run was started with, {settings.parts}"
            raise ValueError(f"`method` must be {expected}, got {describe(method)}.")
        return method

    def as_space(self, settings: Settings) -> Space | None:
        """The space of the run, from its description or from one that has the same description; None without one."""
        if settings.space is None:
            if self.space is not None:
                raise TypeError(
                    "`space` must be left out, because the run was started with a point and not with a Space."
                )
            return None
        if self.space is not None:
            return match_space(self.space, settings.space)
        if self.checked and not settings.is_described:
            reason = "the run was started with a dataclass, or with values of choices that cannot be stored"
            raise TypeError(f"`space` must be given again, because {reason}: {stored_space(settings.space)!r}")
        return stored_space(settings.space)

    def as_restarts(self, settings: Settings) -> Restarts:
        """The restart strategy of the run, likewise."""
        if self.restarts is None:
            if not isinstance(settings.restarts, str):
                return stored_strategy(settings.restarts)
            reason = "the run was started with a user-defined strategy"
            raise TypeError(f"`restarts` must be given again, because {reason}: {settings.restarts}")
        strategy = as_restarts(self.restarts)
        if strategy_facts(strategy) != settings.restarts:
            expected = f"the strategy that the run was started with, {short_repr(settings.restarts)}"
            raise ValueError(f"`restarts` must be {expected}, got {describe(strategy)}.")
        return strategy

    def as_tolerances(self, settings: Settings) -> Tolerances:
        """The tolerances of the run, or new ones if it has no restarts: tolerances decide when the next run begins."""
        pairs = zip(self.tolerances, settings.tolerances, strict=True)
        tolfun, tolx, rtolfun, noise_floor = (stored if new is None else new for new, stored in pairs)
        chosen = Tolerances(
            as_tolerance("tolfun", tolfun),
            as_tolerance("tolx", tolx),
            as_tolerance("rtolfun", rtolfun),
            as_flag("noise_floor", noise_floor),
        )
        if settings.restarts is not None and list(chosen) != settings.tolerances:
            raise ValueError(
                "`tolfun`, `tolx`, `rtolfun` and `noise_floor` must be those that the run was started with, "
                f"{settings.tolerances}, because it has restarts, got {list(chosen)}."
            )
        return chosen


def _stored_names(names: list[str] | None, d: int) -> tuple[str, ...] | None:
    """The names of d variables; None if there are none."""
    try:
        return None if names is None else as_names(names, d)
    except (TypeError, ValueError):
        raise FormatError(f"it has no names for its {d} variables") from None


def _constraint_settings(settings: Settings) -> dict[str, Any]:
    """Further arguments of an optimizer with constraints."""
    facts = settings.constraints
    return {} if facts is None else {"constraint_tol": facts["tolerance"], "constraint_handling": facts["handling"]}


def _check_constraints(optimizer: Optimizer, settings: Settings) -> None:
    """Constraints that are given again must have the names and bounds of the original ones."""
    if optimizer.constraints is not None and not is_same(optimizer.constraints, settings.constraints or {}):
        raise ValueError("`constraints` must be those that the run was started with; these have other bounds.")


def rebuild_optimizer(settings: Settings, problem: Problem, rng_state: object, again: Overrides) -> Optimizer:
    """The optimizer at the start of the run, except for the state of its generator."""
    if settings.draws_x0 and again.x0 is None:
        raise TypeError(
            "`x0` must be given again, because the run was started with a function that draws starting points."
        )
    method, tolerances = again.as_method(settings), again.as_tolerances(settings)
    if method.family is not FAMILY_TYPES[settings.family]:
        raise FormatError(f"its method does not search with a {settings.family}")
    bounds = None
    if problem.bounds is not None:
        from scipy.optimize import Bounds

        bounds = Bounds(*problem.bounds)
    space = again.as_space(settings)
    optimizer = Optimizer(
        problem.x0 if space is None else space,
        problem.sigma0,
        method=method,
        popsize=settings.popsize,
        cov0=problem.cov0,
        bounds=bounds,
        log_scaled=False if problem.log_scaled is None else problem.log_scaled,
        integrality=problem.integrality,
        restarts=again.as_restarts(settings),
        rng=generator_like(rng_state),
        tolfun=tolerances.fun,
        tolx=tolerances.x,
        rtolfun=tolerances.relative,
        noise=settings.noise,
        noise_floor=tolerances.noise_floor,
        names=_stored_names(settings.names, problem.x0.size) if space is None else None,
        constraints=again.as_constraints(settings),
        surrogate=settings.surrogate or False,
        **_constraint_settings(settings),
    )
    if again.checked:
        _check_constraints(optimizer, settings)
    if again.x0 is not None:
        optimizer.start = replace(optimizer.start, another=again.x0)
    return optimizer
