"""The 24 functions of COCO's bbob suite, ours and the packages `cma` and `cmaes` on the same problems in the same run.

    python benchmarks/bbob.py --methods "cma,cma package" --trials 3 --out bbob        (about 40 minutes on 2 cores)
    python benchmarks/bbob.py --quick                                                  (a minute)

Every algorithm restarts by BIPOP from points uniform in [−4, 4]ᵈ with σ0 = 2, until the last of 51 targets, f_opt +
10^[2 … −8], or `budget`·d evaluations. Written: `runs.csv` (evaluations to each target), `ecdf.png`. Printed, by
dimension: the share of targets reached, and the ratio of evaluations, ours over theirs: the geometric mean over
functions of the ratio of median evaluations to the last target, for functions that both solved in more than half of the
runs.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

TARGETS = 10.0 ** np.linspace(2, -8, 51)
SIGMA0 = 2.0


class Finished(Exception):
    """The last target is reached or the budget is spent."""


class Counted:
    """An objective that notes when each target is reached."""

    def __init__(self, problem: Callable[[np.ndarray], float], optimum: float, budget: int) -> None:
        self.problem, self.optimum, self.budget = problem, optimum, budget
        self.evaluations = self.reached = 0
        self.hits = np.full(TARGETS.size, np.inf)

    def __call__(self, x: np.ndarray) -> float:
        if self.evaluations >= self.budget or self.reached == TARGETS.size:
            raise Finished
        value = self.problem(x)
        self.evaluations += 1
        while self.reached < TARGETS.size and value - self.optimum <= TARGETS[self.reached]:
            self.hits[self.reached] = self.evaluations
            self.reached += 1
        return value


def run_sublevel(method: str) -> Callable[[Counted, int, int], None]:
    def run(fun: Counted, d: int, seed: int) -> None:
        import sublevel as sl

        for attempt in range(1000):  # a strategy whose runs are all made begins anew
            rng = np.random.default_rng([seed, attempt])
            sl.minimize(
                fun,
                lambda g: g.uniform(-4, 4, d),
                SIGMA0,
                method=method,
                restarts="bipop",
                rng=rng,
                maxfevals=fun.budget,
            )

    return run


def run_cma(fun: Counted, d: int, seed: int) -> None:
    import cma

    rng = np.random.default_rng(seed)
    for attempt in range(1000):
        options = {"verbose": -9, "seed": 1000 * seed + attempt + 1, "maxfevals": fun.budget}
        cma.fmin2(fun, lambda: rng.uniform(-4, 4, d), SIGMA0, options, restarts=9, bipop=True)


def run_cmaes(fun: Counted, d: int, seed: int) -> None:
    """BIPOP as in the example of the package's README."""
    import cmaes

    rng = np.random.default_rng(seed)
    default = 4 + int(3 * np.log(d))
    small, large, doublings, popsize, sigma = 0, 0, 0, default, SIGMA0
    is_small = False
    while True:
        strategy = cmaes.CMA(
            mean=rng.uniform(-4, 4, d), sigma=sigma, seed=int(rng.integers(2**31)), population_size=popsize
        )
        spent = 0
        while not strategy.should_stop():
            points = [strategy.ask() for _ in range(popsize)]
            strategy.tell([(x, fun(x)) for x in points])
            spent += popsize
        small, large = (small + spent, large) if is_small else (small, large + spent)
        is_small = small < large
        if is_small:
            popsize = max(int(default * (0.5 * 2**doublings) ** (rng.random() ** 2)), 2)
            sigma = SIGMA0 * 10 ** (-2 * rng.random())
        else:
            doublings += 1
            popsize, sigma = default * 2**doublings, SIGMA0


ALGORITHMS: dict[str, Callable[[Counted, int, int], None]] = {"cma package": run_cma, "cmaes package": run_cmaes}


def algorithm(name: str) -> Callable[[Counted, int, int], None]:
    return ALGORITHMS[name] if name in ALGORITHMS else run_sublevel(name)


def bbob_problem(function: int, d: int, instance: int) -> Any:
    """A problem of the suite, any instance: without its option COCO has 1 to 5 and 101 to 110 only, and looks for
    others for ever.
    """
    import cocoex

    suite = cocoex.Suite("bbob", f"instances: {instance}", f"dimensions: {d} function_indices: {function}")
    return suite.get_problem_by_function_dimension_instance(function, d, instance)


def optimal_value(function: int, d: int, instance: int) -> float:
    """f_opt, which COCO tells through a file only."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            problem = bbob_problem(function, d, instance)
            problem._best_parameter("print")
            return float(problem(np.loadtxt("._bbob_problem_best_parameter.txt")))
        finally:
            os.chdir(here)


def solved(name: str, function: int, d: int, instance: int, trial: int, budget: int) -> list[object]:
    """One row of the table: evaluations to each target. Trials differ in their seeds."""
    warnings.simplefilter("ignore")
    problem = bbob_problem(function, d, instance)
    fun = Counted(problem, optimal_value(function, d, instance), budget * d)
    start = time.perf_counter()
    with suppress(Finished):
        algorithm(name)(fun, d, 1000 * function + instance + 100_000 * trial)
    return [name, function, d, instance, fun.evaluations, round(time.perf_counter() - start, 3), *fun.hits]


def tasks(names: list[str], dims: list[int], instances: int, trials: int) -> Iterator[tuple[str, int, int, int, int]]:
    for d in sorted(dims, reverse=True):  # the long ones first
        for function in range(1, 25):
            for instance in range(1, instances + 1):
                for trial in range(trials):
                    for name in names:
                        yield name, function, d, instance, trial


def table(rows: list[list[object]], names: list[str], dims: list[int]) -> Iterator[str]:
    """Share of targets and evaluation ratios by dimension, and over all of them."""
    ours = names[0]
    yield (
        "  d   " + "".join(f"{name:>18}" for name in names) + "".join(f"{'ratio to ' + name:>24}" for name in names[1:])
    )
    for label, some in [*((f"{d:4}", [d]) for d in dims), (" all", dims)]:
        shares = "".join(f"{100 * np.mean([share(rows, name, d) for d in some]):17.1f}%" for name in names)
        logs = [[ratio for d in some for ratio in log_ratios(rows, ours, name, d)] for name in names[1:]]
        ratios = "".join(f"{f'{np.exp(np.mean(log)):.3f} ({len(log)} functions)' if log else '-':>24}" for log in logs)
        yield f"{label}  {shares}{ratios}"


def share(rows: list[list[object]], name: str, d: int) -> float:
    """Share of all targets that were reached in dimension d."""
    return float(
        np.mean(np.isfinite(np.array([row[6:] for row in rows if row[0] == name and row[2] == d], dtype=float)))
    )


def log_ratios(rows: list[list[object]], ours: str, theirs: str, d: int) -> Iterator[float]:
    """Logarithm of the ratio of median evaluations to the last target, for each function that both solved in more than
    half of the runs.
    """
    for function in range(1, 25):
        medians = [
            np.median([float(row[-1]) for row in rows if row[:3] == [name, function, d]]) for name in (ours, theirs)
        ]
        if np.all(np.isfinite(medians)):
            yield float(np.log(medians[0] / medians[1]))


def draw(rows: list[list[object]], names: list[str], dims: list[int], target: Path) -> None:
    """Share of targets reached against evaluations/d, one panel per dimension."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(dims), figsize=(3.2 * len(dims), 3.2), sharey=True, squeeze=False, constrained_layout=True
    )
    for panel, d in zip(panels[0], dims, strict=True):
        for name in names:
            hits = np.array([row[6:] for row in rows if row[0] == name and row[2] == d], dtype=float).ravel() / d
            grid = np.geomspace(1, max(np.max(hits, where=np.isfinite(hits), initial=2), 2), 200)
            panel.semilogx(grid, [np.mean(hits <= t) for t in grid], label=name)
        panel.set(title=f"d = {d}", xlabel="evaluations / d", ylim=(0, 1))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("share of targets")
    panels[0, -1].legend(frameon=False)
    figure.savefig(target, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--methods",
        default="cma,cma package,cmaes package",
        help="ours first: names of sublevel's methods, and the packages",
    )
    parser.add_argument("--dims", default="2,3,5,10,20")
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument(
        "--trials", type=int, default=1, help="runs on each instance: where restarts decide, one is a matter of chance"
    )
    parser.add_argument("--budget", type=int, default=10_000, help="evaluations per dimension")
    parser.add_argument("--out", type=Path, default=Path("bbob"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    names, dims = given.methods.split(","), [int(d) for d in given.dims.split(",")]
    if given.quick:
        dims, given.instances, given.budget = [2, 5], 1, 1000
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[list[object]] = []
    with (
        ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool,
        open(given.out / "runs.csv", "w", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["algorithm", "function", "d", "instance", "evaluations", "seconds", *TARGETS])
        pending = [
            pool.submit(solved, *task, given.budget) for task in tasks(names, dims, given.instances, given.trials)
        ]
        for done, future in enumerate(as_completed(pending), start=1):
            rows.append(future.result())
            writer.writerow(rows[-1])
            file.flush()
            print(f"\r{done}/{len(pending)}", end="", flush=True)
    print()
    print("\n".join(table(rows, names, dims)))
    draw(rows, names, dims, given.out / "ecdf.png")
    print(f"written: {given.out}/runs.csv, {given.out}/ecdf.png")


if __name__ == "__main__":
    main()
