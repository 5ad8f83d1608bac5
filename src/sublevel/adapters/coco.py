"""Experiments on the test suites of COCO, whose data its postprocessing `cocopp` reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sublevel.adapters.extras import missing_extra
from sublevel.engine.arrays import Array
from sublevel.run.minimize import minimize
from sublevel.validation import as_method, as_restarts

START, SIGMA0 = 4.0, 2.0
"""Runs without bounds begin at points uniform in [−4, 4]ᵈ, with this standard deviation."""
RANGE_SHARE = 0.25
"""Initial standard deviation of variables with bounds, as a fraction of their range."""
ATTEMPTS = 1000
"""How often a restart strategy that has made all its runs begins anew."""
BOXED = ("bbob-boxed", "bbob-mixint")
SUITES = ("bbob", "bbob-largescale", "bbob-noisy", "bbob-constrained", *BOXED)
"""Suites of one objective; variables of those in `BOXED` have bounds."""
LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
"""Numbers and ranges; COCO ignores what it cannot read, and would run everything."""


class BudgetSpent(Exception):
    """The evaluations of a problem are spent, or its last target is reached."""


class ProblemOutcome(NamedTuple):
    """The outcome of a problem."""

    name: str
    evaluations: int
    hit: bool  # whether the last target was reached


@dataclass(frozen=True, slots=True)
class Experiment:
    """Which problems to solve, by which method and with how many evaluations.

    Parameters
    ----------
    suite : str
        One of `SUITES`.
    dimensions, functions, instances : str
        As COCO writes them: "2,3,5" or "1-24". All of the suite if empty.
    budget : float
        Evaluations per dimension.
    method, restarts
        As for `sublevel.minimize`.
    seed : int
        Seed of the experiment.
    """

    suite: str = "bbob"
    dimensions: str = ""
    functions: str = ""
    instances: str = ""
    budget: float = 1000.0
    method: str = "cma"
    restarts: str = "bipop"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            raise ValueError(f"`suite` must be one of {', '.join(SUITES)}, got {self.suite!r}.")
        if not self.budget > 0:
            raise ValueError(f"`budget`, the evaluations per dimension, must be positive, got {self.budget!r}.")
        for name in ("dimensions", "functions", "instances"):
            if (numbers := getattr(self, name)) and not LIST.fullmatch(numbers):
                raise ValueError(f"`{name}` must be numbers and ranges, such as 2,3,5 or 1-24, got {numbers!r}.")
        as_method(self.method)
        as_restarts(self.restarts)

    def problems(self) -> Any:
        """The suite of COCO."""
        chosen = {"dimensions": self.dimensions, "function_indices": self.functions}
        options = " ".join(f"{name}: {numbers}" for name, numbers in chosen.items() if numbers)
        try:
            return coco().Suite(self.suite, f"instances: {self.instances}" if self.instances else "", options)
        except coco().exceptions.NoSuchSuiteException:
            raise ValueError(f"the suite {self.suite} has no problems with {options or 'these instances'}.") from None

    def run(self, folder: Path) -> Iterator[ProblemOutcome]:
        """Solve one problem after the other, with the data in a folder for `cocopp`."""
        problems = self.problems()
        observer = coco().Observer(
            "bbob" if self.suite == "bbob-boxed" else self.suite,
            f'outer_folder: "{folder.parent}" result_folder: "{folder.name}" algorithm_name: sublevel-{self.method} '
            f'algorithm_info: "restarts {self.restarts}, {self.budget:g} evaluations per dimension"',
        )
        for number, problem in enumerate(problems):
            problem.observe_with(observer)
            solve(problem, self, number)
            yield ProblemOutcome(problem.id, problem.evaluations, bool(problem.final_target_hit))
            problem.free()


def coco() -> Any:
    """The package cocoex."""
    try:
        import cocoex
    except ModuleNotFoundError as error:
        raise missing_extra("an experiment with COCO", "coco", error) from error
    return cocoex


def coco_problem(suite: str, function: int, d: int, instance: int) -> Any:
    """A problem of a suite such as "bbob", of any instance: without the option `instances`, COCO has only 1 to 5 and
    101 to 110, and a search for others does not end.
    """
    problems = coco().Suite(suite, f"instances: {instance}", f"dimensions: {d} function_indices: {function}")
    return problems.get_problem_by_function_dimension_instance(function, d, instance)


def solve(problem: Any, experiment: Experiment, number: int) -> None:
    """Search until the last target is reached or the evaluations of a problem are spent."""
    limit = round(experiment.budget * problem.dimension)
    has_constraints = problem.number_of_constraints > 0

    def evaluate(x: Array) -> Any:
        if problem.evaluations >= limit or problem.final_target_hit:
            raise BudgetSpent
        return (problem(x), problem.constraint(x)) if has_constraints else problem(x)

    settings = {"method": experiment.method, "restarts": experiment.restarts, "maxfevals": limit}
    settings |= {"constraints": problem.number_of_constraints} if has_constraints else {}
    with suppress(BudgetSpent):
        search_repeatedly(evaluate, (experiment.seed, number), **start_of(problem, experiment.suite), **settings)


def start_of(problem: Any, suite: str) -> dict[str, Any]:
    """Where a problem is searched, as arguments of `minimize`."""
    d = int(problem.dimension)
    if problem.number_of_constraints > 0:
        return {"x0": problem.initial_solution, "sigma0": SIGMA0}
    if suite not in BOXED:
        return {"x0": UniformStart(np.full(d, -START), np.full(d, START)), "sigma0": SIGMA0}
    low, high = as_floats(problem.lower_bounds), as_floats(problem.upper_bounds)
    whole = np.arange(d) < int(problem.number_of_integer_variables)  # integers come first
    return {
        "x0": UniformStart(low, high),
        "sigma0": RANGE_SHARE * (high - low + whole),
        "bounds": list(zip(low, high, strict=True)),
        "integrality": whole,
    }


def as_floats(numbers: Any) -> Array:
    """An array of floats."""
    return np.array(numbers, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class UniformStart:
    """Starting points that are uniform in a box."""

    low: Array  # (d,)
    high: Array  # (d,)

    def __call__(self, rng: np.random.Generator) -> Array:
        """A point (d,)."""
        return rng.uniform(self.low, self.high)


def search_repeatedly(fun: Callable[[Array], Any], seed: Sequence[int], **settings: Any) -> None:
    """Minimise with arguments of `minimize`, and begin anew when a restart strategy has made all its runs, until `fun`
    raises.
    """
    for attempt in range(ATTEMPTS):
        minimize(fun, rng=np.random.default_rng([*seed, attempt]), **settings)
