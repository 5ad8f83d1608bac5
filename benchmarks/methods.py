"""Which method when: the evidence behind the table in docs/methods.md.

    python benchmarks/methods.py [--runs 11] [--jobs 2]      (about 10 minutes on 2 cores)

1. Evaluations until a value at or below 1e-8 is found: the median of the runs that found one, and the share of runs
   that did if it was not all of them. Everyone has the same start, σ0, seeds and budget.
2. With additive noise of standard deviation 1 on the sphere in 10 dimensions, from (3, …, 3) with σ0 = 2: the
   noise-free value at the final mean after 30 000 evaluations, median over the runs. Runs that ended earlier count as
   they ended.

3. Processor time of a generation on the sphere, with the default population, in microseconds.

Evaluations do not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the functions stand among the tests
from helpers.functions import ellipsoid, rastrigin, rosenbrock, sphere

NOISY = "noisy sphere: f(mean)"
TARGET, NOISY_BUDGET, DIMENSIONS = 1e-8, 30_000, (5, 20, 100, 500)


@dataclass(frozen=True)
class Problem:
    """A function, where to begin, and when to give up."""

    fun: Callable[[np.ndarray], np.ndarray]
    d: int
    x0: float
    sigma0: float
    budget: int


def turned_ellipsoid(x: np.ndarray) -> np.ndarray:
    """The ellipsoid in a coordinate system that nobody told the search of."""
    return ellipsoid(x @ np.linalg.qr(np.random.default_rng(1).standard_normal((10, 10)))[0])


PROBLEMS = {
    "turned ellipsoid, d = 10": Problem(turned_ellipsoid, 10, 1.0, 0.5, 300_000),
    "Rosenbrock, d = 10": Problem(rosenbrock, 10, 0.0, 0.5, 100_000),
    "ellipsoid along the axes, d = 60": Problem(ellipsoid, 60, 1.0, 0.5, 150_000),
    "Rastrigin, d = 10": Problem(rastrigin, 10, 3.0, 2.0, 1_000_000),
}
METHODS: dict[str, dict[str, Any]] = {
    "cma": {},
    "cma, restarts='bipop'": {"restarts": "bipop"},
    "cma, popsize=100": {"popsize": 100},
    "lra-cma": {"method": "lra-cma"},
    "sep-cma": {"method": "sep-cma"},
    "iso-cma": {"method": "iso-cma"},
    "xnes": {"method": "xnes"},
    "ngd": {"method": "ngd"},
    "rank-mu": {"method": "rank-mu"},
}


def evaluations(job: tuple[str, str, int]) -> float:
    """Evaluations of one run until the target, inf if it was not reached."""
    problem, settings = PROBLEMS[job[0]], METHODS[job[1]]
    x0 = np.full(problem.d, problem.x0)
    result = sl.minimize(
        problem.fun,
        x0,
        problem.sigma0,
        maxfevals=problem.budget,
        ftarget=TARGET,
        rng=job[2],
        vectorized=True,
        **settings,
    )
    return result.nfev if result.fun <= TARGET else np.inf


def noise_left(job: tuple[str, int]) -> float:
    """The noise-free value at the mean in the end."""
    noise = np.random.default_rng([job[1], 1])
    result = sl.minimize(
        lambda x: sphere(x) + noise.standard_normal(len(x)),
        np.full(10, 3.0),
        2.0,
        maxfevals=NOISY_BUDGET,
        rng=job[1],
        vectorized=True,
        **METHODS[job[0]],
    )
    return float(sphere(result.mean))


def cell(counts: list[float]) -> str:
    """Median evaluations of the runs that succeeded, and their share."""
    solved = [count for count in counts if count < np.inf]
    if not solved:
        return "—"
    share = "" if len(solved) == len(counts) else f" ({100 * len(solved) / len(counts):.0f} %)"
    return f"{np.median(solved):.0f}{share}"


def generation_time(method: str, d: int, generations: int = 200) -> float:
    """Microseconds of processor time for `ask` and `tell`, the least of five tries."""
    optimizer = sl.Optimizer(np.ones(d), 0.5, method=method, rng=1)
    tries = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(generations // 5):
            points = optimizer.ask()
            optimizer.tell(points, sphere(points))
        tries.append((time.process_time() - began) / (generations // 5))
    return 1e6 * min(tries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    seeds = range(given.runs)
    cells: dict[tuple[str, str], str] = {}
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        mapped = pool.map if given.jobs > 1 else map
        for method in METHODS:
            for problem in PROBLEMS:
                cells[problem, method] = cell(list(mapped(evaluations, [(problem, method, seed) for seed in seeds])))
            cells[NOISY, method] = f"{np.median(list(mapped(noise_left, [(method, seed) for seed in seeds]))):.2g}"
            print(
                method,
                *(cells[problem, method] for problem in (*PROBLEMS, NOISY)),
                sep="; ",
                file=sys.stderr,
                flush=True,
            )
    print("| method | " + " | ".join((*PROBLEMS, NOISY)) + " |\n" + "|---" * (len(PROBLEMS) + 2) + "|")
    for method in METHODS:
        print(f"| `{method}` | " + " | ".join(cells[problem, method] for problem in (*PROBLEMS, NOISY)) + " |")
    print("\n| method | " + " | ".join(f"d = {d}" for d in DIMENSIONS) + " |\n" + "|---" * (len(DIMENSIONS) + 1) + "|")
    for method in ("cma", "lra-cma", "xnes", "ngd", "sep-cma", "iso-cma"):
        print(
            f"| `{method}` | " + " | ".join(f"{generation_time(method, d):.0f}" for d in DIMENSIONS) + " |", flush=True
        )


if __name__ == "__main__":
    main()
