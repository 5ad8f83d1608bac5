"""Searches over real, integer and categorical variables by several libraries, for the benchmarks with such variables.

A point is a vector of the ordered variables, real ones and integers as whole floats, and a vector of the numbers of the
categories. Each search calls the objective until that raises `Finished`; without restarts the termination criteria of a
library are not asked, with them each run starts anew with twice the population (IPOP).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

OURS = "sublevel"
NO_CATEGORIES = np.empty(0, dtype=int)
LIBRARY_ERRORS = (AssertionError, ValueError, FloatingPointError, np.linalg.LinAlgError)
"""What a peer may raise when its distribution degenerates."""


class Unsupported(Exception):
    """The library has no such variables."""


class Objective(Protocol):
    budget: int

    def __call__(self, x: np.ndarray, categories: np.ndarray = NO_CATEGORIES) -> float: ...


@dataclass(frozen=True)
class Variables:
    """The ordered variables with the initial distribution, and the numbers of categories of the others."""

    lower: np.ndarray
    upper: np.ndarray
    is_integer: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    categories: tuple[int, ...] = ()
    is_open: bool = False
    """Whether real variables have no bounds, where a library can do without: `lower` and `upper` are for the others."""

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds with infinite ones for open variables."""
        free = ~self.is_integer & self.is_open
        return np.where(free, -np.inf, self.lower), np.where(free, np.inf, self.upper)

    def drawn(self, rng: np.random.Generator) -> Variables:
        """The same with a mean uniform in the box: where a restart begins."""
        return replace(self, mean=rng.uniform(self.lower, self.upper))


def with_bits_as_integers(variables: Variables) -> Variables:
    """Binary categories become integers 0 and 1 after the ordered variables, with the mean between them."""
    bits = len(variables.categories)
    if any(size > 2 for size in variables.categories):
        raise Unsupported
    return replace(
        variables,
        lower=np.append(variables.lower, np.zeros(bits)),
        upper=np.append(variables.upper, np.ones(bits)),
        is_integer=np.append(variables.is_integer, np.ones(bits, dtype=bool)),
        mean=np.append(variables.mean, np.full(bits, 0.5)),
        std=np.append(variables.std, np.ones(bits)),
        categories=(),
    )


def with_categories_as_integers(variables: Variables) -> Variables:
    """Categories become the integers 0 … K − 1 after the ordered variables, for libraries without categories."""
    top = np.array(variables.categories, dtype=float) - 1
    return replace(
        variables,
        lower=np.append(variables.lower, np.zeros(top.size)),
        upper=np.append(variables.upper, top),
        is_integer=np.append(variables.is_integer, np.ones(top.size, dtype=bool)),
        mean=np.append(variables.mean, top / 2),
        std=np.append(variables.std, np.ones(top.size)),
        categories=(),
    )


def split(x: np.ndarray, variables: Variables) -> tuple[np.ndarray, np.ndarray]:
    """The point of a vector in which the categories are the last integers."""
    ordered = variables.mean.size
    return x[:ordered], np.rint(x[ordered:]).astype(int)


Search = Callable[[Objective, Variables, int, bool], None]
"""Of an objective, its variables, a seed, and whether to restart."""


def search_sublevel(fun: Objective, variables: Variables, seed: int, restarts: bool) -> None:
    """Vectors with `integrality` where all variables are ordered, else a space with names."""
    import sublevel as sl

    options: dict[str, Any] = {"rng": seed, "maxfevals": fun.budget, "restarts": "ipop" if restarts else None}
    if not variables.categories:
        sl.minimize(
            fun,
            (lambda rng: rng.uniform(variables.lower, variables.upper)) if restarts else variables.mean,
            variables.std,
            integrality=variables.is_integer.astype(int),
            bounds=list(zip(*variables.bounds(), strict=True)),
            **options,
        )
        return
    ordered = [f"x{i}" for i in range(variables.mean.size)]
    others = [f"c{i}" for i in range(len(variables.categories))]
    kinds = [sl.Integer if integer else sl.Real for integer in variables.is_integer]
    given = zip(ordered, kinds, *variables.bounds(), variables.std, variables.mean, strict=True)
    space = sl.Space(
        **{name: kind(low, high, scale=std, start=mean) for name, kind, low, high, std, mean in given},
        **{name: sl.Choice(*range(size)) for name, size in zip(others, variables.categories, strict=True)},
    )
    sl.minimize(
        lambda params: fun(np.array([params[i] for i in ordered], float), np.array([params[i] for i in others], int)),
        space,
        **options,
    )


class Strategy(Protocol):
    """One run of a library with ask and tell."""

    def ask(self) -> list[Any]: ...

    def point(self, solution: Any) -> tuple[np.ndarray, np.ndarray]: ...

    def tell(self, solutions: list[Any], values: list[float]) -> None: ...

    def stops(self) -> bool: ...


class Pycma:
    """The package `cma` with `integer_variables`: bits as integers 0 and 1, bounds half a unit outside of integers."""

    def __init__(self, variables: Variables, popsize: int | None, seed: int) -> None:
        import cma

        self.given, some = variables, with_bits_as_integers(variables)
        lower, upper = some.bounds()
        options = {
            "verbose": -9,
            "seed": seed + 1,  # 0 is a seed from the clock
            "CMA_stds": some.std,
            "integer_variables": list(np.flatnonzero(some.is_integer)),
            "bounds": [list(lower - 0.5 * some.is_integer), list(upper + 0.5 * some.is_integer)],
        } | ({} if popsize is None else {"popsize": popsize})
        self.strategy = cma.CMAEvolutionStrategy(some.mean, 1.0, options)

    def ask(self) -> list[Any]:
        return self.strategy.ask()

    def point(self, solution: Any) -> tuple[np.ndarray, np.ndarray]:
        return split(np.asarray(solution), self.given)

    def tell(self, solutions: list[Any], values: list[float]) -> None:
        self.strategy.tell(solutions, values)

    def stops(self) -> bool:
        return bool(self.strategy.stop())


class CmaesMargin:
    """`cmaes.CMAwM`, bits as integers 0 and 1."""

    def __init__(self, variables: Variables, popsize: int | None, seed: int) -> None:
        import cmaes

        self.given, some = variables, with_bits_as_integers(variables)
        self.strategy = cmaes.CMAwM(
            mean=some.mean,
            sigma=1.0,
            cov=np.diag(some.std**2),
            bounds=np.stack(some.bounds(), axis=1),
            steps=some.is_integer.astype(float),
            population_size=popsize,
            seed=seed,
        )

    def ask(self) -> list[Any]:
        return [self.strategy.ask() for _ in range(self.strategy.population_size)]

    def point(self, solution: Any) -> tuple[np.ndarray, np.ndarray]:
        return split(solution[0], self.given)

    def tell(self, solutions: list[Any], values: list[float]) -> None:
        self.strategy.tell([(told, value) for (_, told), value in zip(solutions, values, strict=True)])

    def stops(self) -> bool:
        return self.strategy.should_stop()


class CmaesCategories:
    """`cmaes.CatCMAwM`, bits as categories."""

    def __init__(self, variables: Variables, popsize: int | None, seed: int) -> None:
        import cmaes

        lower, upper = variables.bounds()
        integers = np.flatnonzero(variables.is_integer)
        self.order = np.append(np.flatnonzero(~variables.is_integer), integers)
        reals = self.order[: self.order.size - integers.size]
        self.strategy = cmaes.CatCMAwM(
            x_space=[[lower[i], upper[i]] for i in reals] or None,
            z_space=[np.arange(lower[i], upper[i] + 1) for i in integers] or None,
            c_space=list(variables.categories) or None,
            mean=variables.mean[self.order],
            sigma=1.0,
            cov=np.diag(variables.std[self.order] ** 2),
            population_size=popsize,
            seed=seed,
        )

    def ask(self) -> list[Any]:
        return [self.strategy.ask() for _ in range(self.strategy.population_size)]

    def point(self, solution: Any) -> tuple[np.ndarray, np.ndarray]:
        x = np.empty(self.order.size)
        x[self.order] = np.concatenate([part for part in (solution.x, solution.z) if part is not None])
        return x, NO_CATEGORIES if solution.c is None else np.argmax(solution.c, axis=1)

    def tell(self, solutions: list[Any], values: list[float]) -> None:
        self.strategy.tell(list(zip(solutions, values, strict=True)))

    def stops(self) -> bool:
        return self.strategy.should_stop()


def search_by(strategy: Callable[[Variables, int | None, int], Strategy]) -> Search:
    """The search of a strategy with ask and tell."""

    def search(fun: Objective, variables: Variables, seed: int, restarts: bool) -> None:
        rng, popsize = np.random.default_rng(seed), None
        while True:
            run = strategy(variables, popsize, int(rng.integers(2**31)))
            while not (restarts and run.stops()):
                solutions = run.ask()
                run.tell(solutions, [fun(*run.point(solution)) for solution in solutions])
            popsize, variables = 2 * len(solutions), variables.drawn(rng)

    return search


def search_scipy(fun: Objective, variables: Variables, seed: int, restarts: bool) -> None:
    """Differential evolution with its default population, categories as integers, anew after it has converged."""
    from scipy.optimize import differential_evolution

    some, rng = with_categories_as_integers(variables), np.random.default_rng(seed)
    while True:
        differential_evolution(
            lambda x: fun(*split(x, variables)),
            list(zip(some.lower, some.upper, strict=True)),
            integrality=some.is_integer,
            maxiter=fun.budget,
            tol=0.01 if restarts else 0,
            polish=False,
            rng=rng,
        )


def search_nevergrad(fun: Objective, variables: Variables, seed: int, restarts: bool) -> None:
    """NGOpt, which chooses its method by the variables and the budget. Arrays, because scalars take far more time."""
    import nevergrad as ng

    def array(chosen: np.ndarray) -> Any:
        low, high = variables.lower[chosen], variables.upper[chosen]
        return ng.p.Array(init=np.clip(variables.mean[chosen], low, high), lower=low, upper=high)

    is_integer = variables.is_integer
    parts = {"reals": array(~is_integer)} if not np.all(is_integer) else {}
    if np.any(is_integer):
        parts["integers"] = array(is_integer).set_integer_casting()
    choices = ng.p.Tuple(*(ng.p.Choice(range(size)) for size in variables.categories))
    parametrization = ng.p.Dict(**parts, choices=choices)
    parametrization.random_state.seed(seed)
    optimizer, x = ng.optimizers.NGOpt(parametrization, budget=fun.budget), np.empty(is_integer.size)
    while True:
        candidate = optimizer.ask()
        x[~is_integer], x[is_integer] = candidate.value.get("reals", ()), candidate.value.get("integers", ())
        optimizer.tell(candidate, fun(x.copy(), np.array(candidate.value["choices"], dtype=int)))


def search_optuna(fun: Objective, variables: Variables, seed: int, restarts: bool) -> None:
    """Optuna's TPE, whose time per evaluation grows with their number: for at most a few thousand of them."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def ordered(trial: Any) -> Iterator[float]:
        for i, (low, high) in enumerate(zip(variables.lower, variables.upper, strict=True)):
            suggest = trial.suggest_int if variables.is_integer[i] else trial.suggest_float
            yield suggest(f"x{i}", *((int(low), int(high)) if variables.is_integer[i] else (low, high)))

    def objective(trial: Any) -> float:
        x = np.array(list(ordered(trial)), dtype=float)
        sizes = enumerate(variables.categories)
        return fun(x, np.array([trial.suggest_categorical(f"c{i}", range(size)) for i, size in sizes], dtype=int))

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=fun.budget + 1)


SEARCHES: dict[str, Search] = {
    OURS: search_sublevel,
    "cmaes CMAwM": search_by(CmaesMargin),
    "cmaes CatCMAwM": search_by(CmaesCategories),
    "pycma": search_by(Pycma),
    "scipy DE": search_scipy,
    "nevergrad": search_nevergrad,
    "optuna TPE": search_optuna,
}
