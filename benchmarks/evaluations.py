"""How many evaluations a run takes, beside the package `cma` in the same run: same x0, σ0, target and number of seeds.

    python benchmarks/evaluations.py              (about 15 minutes on 2 cores)
    python benchmarks/evaluations.py --quick      (half a minute)
    python benchmarks/evaluations.py --oracle     (beside the tutorial's algorithm in plain loops, too)
    python benchmarks/evaluations.py --lra        (success rates with and without adapted learning rates; about an hour)

1. Median evaluations until a point with f ≤ 1e-10 is evaluated, from x0 = (1, …, 1), on Rosenbrock's function (0, …,
   0), σ0 = 0.5, each with its default population. On Rosenbrock's function some runs end in its other minimum: medians
   are those of the runs that succeed, and their share is printed. Wanted: geometric mean of the ratios ≤ 1.03, none
   above 1.12.
2. With `--lra`: the share of 30 runs that succeed, from x0 = (3, …, 3), σ0 = 2, with the default population and at most
   5·10⁶ evaluations, as in the paper on LRA-CMA-ES (Nomura, Akimoto, Ono, GECCO 2023, arXiv:2304.03473) and its
   authors' code. Success is a noise-free f(mean) below the target: 1e-8 on Rastrigin's function, and 1e-3, the default
   of that code, on the sphere with additive Gaussian noise of variance 1.

Evaluations do not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
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
from sublevel.engine.constants import default_popsize

sys.path.insert(
    0, str(Path(__file__).parents[1] / "tests")
)  # the functions and the tutorial's algorithm stand among the tests
from helpers import cma_oracle
from helpers.functions import UNIMODAL, rastrigin, sphere

SIGMA0, TARGET = 0.5, 1e-10
BUDGET = 20_000
"""Evaluations per dimension at which a run is given up."""


def start(name: str, d: int) -> np.ndarray:
    return np.zeros(d) if name == "Rosenbrock" else np.ones(d)


# Evaluations to a target


class Ours:
    """One of sublevel's methods by ask and tell."""

    def __init__(self, method: str, x0: np.ndarray, seed: int) -> None:
        self.optimizer = sl.Optimizer(x0, SIGMA0, method=method, rng=seed)
        self.ask, self.tell, self.stop = self.optimizer.ask, self.optimizer.tell, self.optimizer.stop


class Package:
    """The package `cma`, whose tolerances on f and x are switched off: they would end some runs before the target."""

    def __init__(self, x0: np.ndarray, seed: int) -> None:
        import cma

        options = {"verbose": -9, "seed": seed + 1, "tolfun": 0, "tolfunhist": 0, "tolx": 0}
        self.strategy = cma.CMAEvolutionStrategy(x0, SIGMA0, options)
        self.ask, self.stop = self.strategy.ask, self.strategy.stop

    def tell(self, points: list[np.ndarray], values: np.ndarray) -> None:
        self.strategy.tell(points, list(values))


def evaluations(name: str, function: str, d: int, seed: int) -> float:
    """Evaluations until one is at the target, inf if a run ends before."""
    warnings.simplefilter("ignore")  # of the package
    fun, x0 = UNIMODAL[function], start(function, d)
    if name == "oracle":
        return cma_oracle.evaluations(
            fun, x0, SIGMA0, TARGET, BUDGET * d, np.random.default_rng([1, seed]), default_popsize(d)
        )
    search = Package(x0, seed) if name == "cma package" else Ours(name, x0, seed)
    spent = 0
    while spent < BUDGET * d and not search.stop():
        points = search.ask()
        values = fun(np.asarray(points))
        reached = np.flatnonzero(values <= TARGET)
        if reached.size:
            return spent + int(reached[0]) + 1
        search.tell(points, values)
        spent += values.size
    return np.inf


def cell(name: str, function: str, d: int, seeds: int) -> tuple[float, float]:
    """Median evaluations of the runs that succeed, and their share."""
    needed = np.array([evaluations(name, function, d, seed) for seed in range(seeds)])
    succeeded = np.isfinite(needed)
    return (float(np.median(needed[succeeded])) if succeeded.any() else np.inf), float(succeeded.mean())


def compare(names: list[str], dims: list[int], seeds: int, jobs: int) -> Iterator[str]:
    """The table, line by line, as the cells come in."""
    ours, *theirs = names
    yield f"median evaluations to {TARGET:g} (share of {seeds} runs that reach it) and {ours} / theirs"
    yield (
        f"{'function':17}{'d':>4}"
        + "".join(f"{name:>20}" for name in names)
        + "".join(f"{'/ ' + name:>15}" for name in theirs)
    )
    logs: dict[str, list[float]] = {name: [] for name in theirs}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        rows = [
            (function, d, [pool.submit(cell, name, function, d, seeds) for name in names])
            for d, function in product(dims, UNIMODAL)
        ]
        for function, d, futures in rows:
            cells = dict(zip(names, (future.result() for future in futures), strict=True))
            ratios = {name: cells[ours][0] / cells[name][0] for name in theirs}
            for name, ratio in ratios.items():
                logs[name].append(np.log(ratio))
            counts = "".join(f"{median:13.0f} ({100 * share:3.0f}%)" for median, share in cells.values())
            yield f"{function:17}{d:4}{counts}" + "".join(f"{ratio:15.3f}" for ratio in ratios.values())
    for name, values in logs.items():
        yield f"geometric mean of {ours} / {name}: {np.exp(np.mean(values)):.3f}, largest {np.exp(np.max(values)):.3f}"


# Success with adapted learning rates


HARD: dict[
    str, tuple[Callable[[np.ndarray], np.ndarray], int, float, float]
] = {  # function, d, target, variance of the noise
    "Rastrigin d = 10": (rastrigin, 10, 1e-8, 0.0),
    "Rastrigin d = 20": (rastrigin, 20, 1e-8, 0.0),
    "noisy sphere d = 10": (sphere, 10, 1e-3, 1.0),
}


def attempt(method: str, problem: str, seed: int, budget: float) -> tuple[float, float, str]:
    """Evaluations until the mean is at the target or inf, the noise-free value there, and why the run ended."""
    fun, d, target, variance = HARD[problem]
    optimizer = sl.Optimizer(np.full(d, 3.0), 2.0, method=method, rng=seed)
    noise = np.random.default_rng([seed, 1])
    while not (reasons := optimizer.stop()) and optimizer.nfev < budget:
        points = optimizer.ask()
        optimizer.tell(points, fun(points) + np.sqrt(variance) * noise.standard_normal(len(points)))
        value = float(fun(optimizer.mean))
        if value < target:
            return optimizer.nfev, value, "target"
    return np.inf, float(fun(optimizer.mean)), next(iter(reasons), "budget")


def successes(methods: list[str], runs: int, budget: float, jobs: int) -> Iterator[str]:
    """The table of success rates, line by line."""
    yield f"share of {runs} runs that succeed, and their median evaluations; else where the others end and why"
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        rows = [
            (problem, method, [pool.submit(attempt, method, problem, seed, budget) for seed in range(runs)])
            for problem, method in product(HARD, methods)
        ]
        for problem, method, futures in rows:
            ends = [future.result() for future in futures]
            needed = [evaluations for evaluations, _, _ in ends if evaluations < np.inf]
            failed = [(value, reason) for evaluations, value, reason in ends if evaluations == np.inf]
            median = f"{np.median(needed):12.0f}" if needed else f"{'-':>12}"
            reasons = ", ".join(sorted({reason for _, reason in failed}))
            rest = (
                f"   the others: median f(mean) = {np.median([value for value, _ in failed]):.3g} ({reasons})"
                if failed
                else ""
            )
            yield f"{problem:22}{method:12}{100 * len(needed) / runs:5.0f}%{median}{rest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="cma", help="a name of sublevel's")
    parser.add_argument("--dims", default="5,10,20,40")
    parser.add_argument("--seeds", type=int, default=51)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--oracle", action="store_true", help="beside the tutorial's algorithm, too")
    parser.add_argument("--lra", action="store_true", help="success rates with adapted learning rates instead")
    parser.add_argument("--quick", action="store_true", help="few seeds and dimensions")
    given = parser.parse_args()
    begun = time.perf_counter()
    if given.lra:
        lines = successes(["lra-cma", "cma"], 3 if given.quick else 30, 3e5 if given.quick else 5e6, given.jobs)
    else:
        dims, seeds = ([5, 10], 9) if given.quick else ([int(d) for d in given.dims.split(",")], given.seeds)
        lines = compare([given.method, "cma package"] + ["oracle"] * given.oracle, dims, seeds, given.jobs)
    for line in lines:
        print(line, flush=True)
    print(f"{time.perf_counter() - begun:.0f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
