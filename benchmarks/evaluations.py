"""How many evaluations a run takes, beside other packages in the same run: same x0, σ0, target and number of seeds.

    python benchmarks/evaluations.py              (about 15 minutes on 2 cores)
    python benchmarks/evaluations.py --quick      (half a minute)
    python benchmarks/evaluations.py --dims 5,10,20 40,80 --seeds 0:51 0:11 --packages cma,cmaes
    python benchmarks/evaluations.py --oracle     (beside the tutorial's algorithm in plain loops, too)
    python benchmarks/evaluations.py --lra        (success rates with and without adapted learning rates; about an hour)

1. Median evaluations until a point with f ≤ 1e-8 is evaluated, from x0 = (1, …, 1), on Rosenbrock's function (0, …,
   0), σ0 = 0.5, each with its default population. Those that are not invariant are rotated, too: f(Qx) with a random
   rotation Q for each seed. On Rosenbrock's function some runs end in its other minimum: medians are those of the runs
   that succeed, and their share is printed. For each group of dimensions, the geometric mean of the ratios of medians
   has an interval of 95 % by resampling the seeds. Wanted: ≤ 0.72 and none above 0.95 for d = 5, 10, 20, ≤ 0.88 for
   d = 40, 80.
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
from scipy.stats import ortho_group

import sublevel as sl
from sublevel.engine.constants import default_popsize

sys.path.insert(
    0, str(Path(__file__).parents[1] / "tests")
)  # the functions and the tutorial's algorithm stand among the tests
from bbob import configuration

from helpers import cma_oracle
from helpers.functions import UNIMODAL, rastrigin, sphere

SIGMA0 = 0.5
BUDGET = 20_000
"""Evaluations per dimension at which a run is given up."""
DRAWS = 2000
"""Resampled sets of seeds of an interval."""
ROTATED = "rotated "
FUNCTIONS = [*UNIMODAL, *(ROTATED + name for name in ("ellipsoid", "cigar", "discus", "different powers"))]


def start(name: str, d: int) -> np.ndarray:
    return np.zeros(d) if name == "Rosenbrock" else np.ones(d)


def objective(name: str, d: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function of points (..., d)."""
    fun = UNIMODAL[name.removeprefix(ROTATED)]
    if not name.startswith(ROTATED):
        return fun
    rotation = ortho_group.rvs(d, random_state=np.random.default_rng([2, seed]))
    return lambda x: fun(x @ rotation)


# Evaluations to a target


class Ours:
    """One of sublevel's methods by ask and tell."""

    def __init__(self, name: str, x0: np.ndarray, seed: int) -> None:
        self.optimizer = sl.Optimizer(x0, SIGMA0, method=configuration(name)[0], rng=seed)
        self.ask, self.tell, self.stop = self.optimizer.ask, self.optimizer.tell, self.optimizer.stop


class CmaPackage:
    """The package `cma`, whose tolerances on f and x are switched off: they would end some runs before the target."""

    def __init__(self, x0: np.ndarray, seed: int) -> None:
        import cma

        options = {"verbose": -9, "seed": seed + 1, "tolfun": 0, "tolfunhist": 0, "tolx": 0}
        self.strategy = cma.CMAEvolutionStrategy(x0, SIGMA0, options)
        self.ask, self.stop = self.strategy.ask, self.strategy.stop

    def tell(self, points: list[np.ndarray], values: np.ndarray) -> None:
        self.strategy.tell(points, list(values))


class CmaesPackage:
    """The package `cmaes`."""

    def __init__(self, x0: np.ndarray, seed: int) -> None:
        import cmaes

        self.strategy = cmaes.CMA(mean=x0.copy(), sigma=SIGMA0, seed=seed + 1)
        self.stop = self.strategy.should_stop

    def ask(self) -> list[np.ndarray]:
        return [self.strategy.ask() for _ in range(self.strategy.population_size)]

    def tell(self, points: list[np.ndarray], values: np.ndarray) -> None:
        self.strategy.tell(list(zip(points, map(float, values), strict=True)))


PACKAGES = {"cma package": CmaPackage, "cmaes package": CmaesPackage}


def evaluations(name: str, function: str, d: int, seed: int, target: float) -> float:
    """Evaluations until one is at the target, inf if a run ends before."""
    warnings.simplefilter("ignore")  # of the packages
    fun, x0 = objective(function, d, seed), start(function, d)
    if name == "oracle":
        return cma_oracle.evaluations(
            fun, x0, SIGMA0, target, BUDGET * d, np.random.default_rng([1, seed]), default_popsize(d)
        )
    search = PACKAGES[name](x0, seed) if name in PACKAGES else Ours(name, x0, seed)
    spent = 0
    while spent < BUDGET * d and not search.stop():
        points = search.ask()
        values = fun(np.asarray(points))
        reached = np.flatnonzero(values <= target)
        if reached.size:
            return spent + int(reached[0]) + 1
        search.tell(points, values)
        spent += values.size
    return np.inf


def counts_of(name: str, function: str, d: int, seeds: range, target: float) -> np.ndarray:
    """Evaluations of each seed."""
    return np.array([evaluations(name, function, d, seed, target) for seed in seeds])


def median(counts: np.ndarray) -> np.ndarray:
    """Median evaluations (...) of the runs (..., seeds) that succeed, inf if none does."""
    finite = np.where(np.isfinite(counts), counts, np.nan)
    lost = np.isnan(finite).all(axis=-1)
    return np.where(lost, np.inf, np.nanmedian(np.where(lost[..., None], np.inf, finite), axis=-1))


def mean_ratio(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Geometric mean (...) of the ratios of medians of counts (problems, ..., seeds)."""
    return np.exp(np.mean(np.log(median(ours) / median(theirs)), axis=0))


def interval(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """An interval of 95 % for `mean_ratio` of counts (problems, seeds): the seeds of each problem are resampled."""
    rng = np.random.default_rng(1)

    def resample(counts: np.ndarray) -> np.ndarray:
        problems, seeds = counts.shape
        return np.take_along_axis(counts[:, None], rng.integers(seeds, size=(problems, DRAWS, seeds)), axis=2)

    return np.quantile(mean_ratio(resample(ours), resample(theirs)), [0.025, 0.975])


def compare(names: list[str], groups: list[list[int]], seeds: list[range], target: float, jobs: int) -> Iterator[str]:
    """The table, line by line, as the cells come in, and the means of the groups of dimensions."""
    ours, *theirs = names
    yield f"median evaluations to {target:g} (share of the runs that reach it) and {ours} / theirs"
    yield (
        f"{'function':25}{'d':>4}"
        + "".join(f"{name:>26}" for name in names)
        + "".join(f"{'/ ' + name:>18}" for name in theirs)
    )
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        rows = [
            (function, d, group, [pool.submit(counts_of, name, function, d, seeds[group], target) for name in names])
            for group, dims in enumerate(groups)
            for d, function in product(dims, FUNCTIONS)
        ]
        counts: list[list[list[np.ndarray]]] = [[] for _ in groups]
        for function, d, group, futures in rows:
            cells = [future.result() for future in futures]
            counts[group].append(cells)
            medians = [float(median(cell)) for cell in cells]
            shown = "".join(
                f"{mid:19.0f} ({100 * np.mean(np.isfinite(cell)):3.0f}%)"
                for mid, cell in zip(medians, cells, strict=True)
            )
            yield f"{function:25}{d:4}{shown}" + "".join(f"{medians[0] / other:18.3f}" for other in medians[1:])
    for dims, cells in zip(groups, counts, strict=True):
        of_names = [np.array([row[index] for row in cells]) for index in range(len(names))]
        for name, other in zip(theirs, of_names[1:], strict=True):
            low, high = interval(of_names[0], other)
            ratios = median(of_names[0]) / median(other)
            worst = list(product(dims, FUNCTIONS))[int(np.argmax(ratios))]
            yield (
                f"d = {', '.join(map(str, dims))}: geometric mean of {ours} / {name}: "
                f"{mean_ratio(of_names[0], other):.3f} [{low:.3f}, {high:.3f}], "
                f"largest {np.max(ratios):.3f} ({worst[1]}, d = {worst[0]})"
            )


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
    parser.add_argument("--method", default="cma", help="a name of sublevel's, with a sampling after a space if wanted")
    parser.add_argument("--packages", default="cma", help="from cma, cmaes")
    parser.add_argument("--dims", nargs="+", default=["5,10,20", "40"], help="groups of dimensions")
    parser.add_argument("--seeds", nargs="+", default=["0:51"], help="first:end, or one such range for each group")
    parser.add_argument("--target", type=float, default=1e-8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--oracle", action="store_true", help="beside the tutorial's algorithm, too")
    parser.add_argument("--lra", action="store_true", help="success rates with adapted learning rates instead")
    parser.add_argument("--quick", action="store_true", help="few seeds and dimensions")
    given = parser.parse_args()
    begun = time.perf_counter()
    if given.lra:
        lines = successes(["lra-cma", "cma"], 3 if given.quick else 30, 3e5 if given.quick else 5e6, given.jobs)
    else:
        groups = [[5, 10]] if given.quick else [[int(d) for d in group.split(",")] for group in given.dims]
        seeds = [range(9)] if given.quick else [range(*map(int, part.split(":"))) for part in given.seeds]
        seeds = seeds * len(groups) if len(seeds) == 1 else seeds
        packages = [f"{name} package" for name in given.packages.split(",")] + ["oracle"] * given.oracle
        lines = compare([given.method, *packages], groups, seeds, given.target, given.jobs)
    for line in lines:
        print(line, flush=True)
    print(f"{time.perf_counter() - begun:.0f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
