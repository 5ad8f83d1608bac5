"""Evaluations of the diagonal and isotropic families, beside the package `cma` with `CMA_diagonal=True` in the same
run.

    python benchmarks/separable.py              (about 10 minutes on 2 cores)
    python benchmarks/separable.py --quick      (half a minute)
    python benchmarks/separable.py --methods sep-cma,sep-xnes,iso-cma --functions sphere --dims 20

Median evaluations until a point with f ≤ 1e-8 is evaluated, from x0 = (1, …, 1), σ0 = 0.5, with the same population.
All functions are separable. Required of `sep-cma`: at most 1.1 times the evaluations of the package on each of them;
the command fails otherwise.

Evaluations do not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the functions are defined among the tests
from helpers.functions import different_powers, ellipsoid, sphere

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sphere": sphere,
    "ellipsoid": ellipsoid,
    "different powers": different_powers,
}
PACKAGE = "cma package"
SIGMA0, TARGET, LIMIT = 0.5, 1e-8, 1.1
BUDGET = 3_000
"""Evaluations per dimension at which a run is given up."""


def searcher(
    method: str, d: int, popsize: int | None, seed: int
) -> tuple[Callable[[], np.ndarray], Callable[..., None]]:
    """`ask` and `tell` of a method or of the package, whose own termination criteria are never asked."""
    if method != PACKAGE:
        optimizer = sl.Optimizer(np.ones(d), SIGMA0, method=method, popsize=popsize, rng=seed)
        return optimizer.ask, optimizer.tell
    import cma

    options = {"verbose": -9, "seed": seed + 1, "CMA_diagonal": True} | (
        {} if popsize is None else {"popsize": popsize}
    )
    strategy = cma.CMAEvolutionStrategy(np.ones(d), SIGMA0, options)
    return lambda: np.asarray(strategy.ask()), lambda points, values: strategy.tell(list(points), list(values))


def evaluations(method: str, function: str, d: int, popsize: int | None, seed: int) -> float:
    """Evaluations until one is at the target, inf if the budget ends before."""
    warnings.simplefilter("ignore")  # of the package
    fun, (ask, tell), spent = FUNCTIONS[function], searcher(method, d, popsize, seed), 0
    while spent < BUDGET * d:
        points = ask()
        values = fun(points)
        reached = np.flatnonzero(values <= TARGET)
        if reached.size:
            return spent + int(reached[0]) + 1
        tell(points, values)
        spent += values.size
    return np.inf


def table(given: argparse.Namespace, ratios: dict[str, float]) -> Iterator[str]:
    """The table, line by line; `ratios` gets those of the first method."""
    methods, seeds = [*given.methods.split(","), PACKAGE], range(given.first_seed, given.first_seed + given.seeds)
    yield f"median evaluations to {TARGET:g} of {given.seeds} runs, and their ratio to those of the package"
    yield f"{'function':17}{'d':>5}" + "".join(f"{name:>22}" for name in methods)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        rows = [
            (
                name,
                d,
                [
                    [pool.submit(evaluations, method, name, d, given.popsize, seed) for seed in seeds]
                    for method in methods
                ],
            )
            for d, name in product([int(d) for d in given.dims.split(",")], given.functions.split(","))
        ]
        for name, d, futures in rows:
            medians = [float(np.median([future.result() for future in runs])) for runs in futures]
            ratios[f"{name}, d = {d}"] = medians[0] / medians[-1]
            yield f"{name:17}{d:5}" + "".join(f"{median:14.0f} ({median / medians[-1]:5.2f})" for median in medians)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="sep-cma", help="names of methods, separated by commas (default: sep-cma)")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--dims", default="20,100,500")
    parser.add_argument("--popsize", type=int, help="of all methods (default: each one's own, which is the same)")
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="d = 20 alone")
    given = parser.parse_args()
    if given.quick:
        given.dims = "20"
    ratios: dict[str, float] = {}
    for line in table(given, ratios):
        print(line, flush=True)
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"largest ratio of {given.methods.split(',')[0]}: {ratios[worst]:.2f} ({worst})")
    if given.methods.startswith("sep-cma") and ratios[worst] > LIMIT:
        sys.exit(f"more than {LIMIT}")


if __name__ == "__main__":
    main()
