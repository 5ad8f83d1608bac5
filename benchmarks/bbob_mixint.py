"""COCO's suite bbob-mixint, four fifths of whose variables are integers: ours and other libraries.

    python benchmarks/bbob_mixint.py --libraries "sublevel,cmaes CatCMAwM" --dims 5,10 --instances 9:16
    python benchmarks/bbob_mixint.py --quick

As in `bbob.py`: 51 targets, f_opt + 10^[2 … −8], and `runs.csv` with the evaluations to each of them. Every CMA-ES
restarts with twice the population from points uniform in the bounds, with a quarter of their width as standard
deviations. Printed: the share of targets reached within 100·d and within 1000·d evaluations.

The time per evaluation of Optuna's TPE grows with their number, to hours for this suite: it has 100·d evaluations, on
the first instance and in at most 10 dimensions.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from coco_targets import Counted, Finished, optimal_value, run_tasks, share
from mixed_search import LIBRARY_ERRORS, NO_CATEGORIES, OURS, SEARCHES, Variables

from sublevel.adapters.coco import coco_problem

SUITE, SLOW = "bbob-mixint", "optuna TPE"
SHORT, LONG = 100, 1000
"""Evaluations per dimension."""
SLOW_DIMENSION = 10


@dataclass(frozen=True)
class Ordered:
    """An objective of the ordered variables alone."""

    fun: Counted

    @property
    def budget(self) -> int:
        return self.fun.budget

    def __call__(self, x: np.ndarray, categories: np.ndarray = NO_CATEGORIES) -> float:
        return self.fun(x)


def variables_of(problem: Any, rng: np.random.Generator) -> Variables:
    """Variables of the suite, integers first; those that are one of k values have a width of k."""
    is_integer = np.arange(problem.dimension) < problem.number_of_integer_variables
    return Variables(
        lower=problem.lower_bounds,
        upper=problem.upper_bounds,
        is_integer=is_integer,
        mean=rng.uniform(problem.lower_bounds, problem.upper_bounds),
        std=(problem.upper_bounds - problem.lower_bounds + is_integer) / 4,
    )


def solve(library: str, function: int, d: int, instance: int) -> list[object]:
    """One row of the table: evaluations to each target."""
    warnings.simplefilter("ignore")
    problem, seed = coco_problem(SUITE, function, d, instance), 1000 * function + instance
    per_dimension = SHORT if library == SLOW else LONG
    fun = Counted(problem, optimal_value(SUITE, function, d, instance), per_dimension * d)
    variables, start = variables_of(problem, np.random.default_rng(seed)), time.perf_counter()
    with nullcontext() if library == OURS else suppress(*LIBRARY_ERRORS), suppress(Finished):
        SEARCHES[library](Ordered(fun), variables, seed, True)
    return [library, function, d, instance, fun.evaluations, round(time.perf_counter() - start, 3), *fun.hits]


def tasks(libraries: list[str], dims: list[int], instances: range) -> Iterator[tuple[str, int, int, int]]:
    for d in sorted(dims, reverse=True):  # the long ones first
        for function in range(1, 25):
            for instance in instances:
                for library in libraries:
                    if library != SLOW or (instance == instances[0] and d <= SLOW_DIMENSION):
                        yield library, function, d, instance


def table(rows: list[list[object]], libraries: list[str], dims: list[int]) -> Iterator[str]:
    """Share of targets by dimension and budget."""
    yield f"{'d':>3}{'evaluations':>14}" + "".join(f"{library:>18}" for library in libraries)
    for d in sorted(dims):
        for budget in (SHORT, LONG):
            yield f"{d:3}{budget * d:14}" + "".join(f"{cell(rows, library, d, budget):>18}" for library in libraries)


def cell(rows: list[list[object]], library: str, d: int, budget: int) -> str:
    is_made = any(row[0] == library and row[2] == d for row in rows) and (library != SLOW or budget == SHORT)
    return f"{100 * share(rows, library, d, budget * d):.1f}%" if is_made else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--libraries", default=f"{OURS},cmaes CMAwM,cmaes CatCMAwM,pycma,scipy DE", help=f"from {', '.join(SEARCHES)}"
    )
    parser.add_argument("--dims", default="5,10,20")
    parser.add_argument("--instances", default="1:6", help="first:end")
    parser.add_argument("--out", type=Path, default=Path("bbob-mixint"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="d = 5, one instance")
    given = parser.parse_args()
    libraries, dims = given.libraries.split(","), [int(d) for d in given.dims.split(",")]
    instances = range(*map(int, given.instances.split(":")))
    if given.quick:
        dims, instances = [5], range(1, 2)
    rows = run_tasks(solve, tasks(libraries, dims, instances), given.jobs, given.out)
    print("\n".join(table(rows, libraries, dims)))
    print(f"written: {given.out}/runs.csv")


if __name__ == "__main__":
    main()
