"""The 24 functions of COCO's bbob suite, ours and the packages `cma` and `cmaes` on the same problems in the same run.

    python benchmarks/bbob.py --methods "cma,cma package" --trials 3 --out bbob        (about 40 minutes on 2 cores)
    python benchmarks/bbob.py --methods "cma,cma independent" --dims 5,10 --instances 1:9,1:6 --budget 1000
    python benchmarks/bbob.py --methods "cma,cma package" --out new --reuse bbob/runs.csv
    python benchmarks/bbob.py --quick                                                  (a minute)

A method of ours is a name, and after a space a sampling or a restart strategy, such as "cma independent" or "cma ipop".
Every algorithm starts from points uniform in [−4, 4]ᵈ with σ0 = 2, and restarts, by BIPOP if nothing else is given,
until the last of 51 targets, f_opt + 10^[2 … −8], or `budget`·d evaluations. Written: `runs.csv` (evaluations to each
target), `ecdf.png`. Printed, by dimension: the share of targets reached, and the ratio of evaluations, ours over
theirs: the geometric mean over functions of the ratio of median evaluations to the last target, for functions that both
solved in more than half of the runs. Then the share of targets reached within a number of evaluations, for all
functions and for the five groups of the suite, with the difference of ours to the others on the same problems and its
standard error: functions are given, instances and runs are a sample.

With `--reuse`, runs of an earlier table are taken from there if all those of a problem are in it, with at least this
budget. Only an algorithm that has not changed can be reused.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from coco_targets import Counted, Finished, budget_table, draw, optimal_value, read_rows, reusable, run_tasks, table

from sublevel.adapters.coco import UniformStart, coco_problem, search_repeatedly
from sublevel.engine.method import Method
from sublevel.engine.sampling import SAMPLINGS
from sublevel.validation import as_method

SUITE, SIGMA0 = "bbob", 2.0
BUDGETS = (50, 100, 200, 500, 1000, 3000, 10_000)
GROUPS = {
    "all": range(1, 25),
    "separable, f1-5": range(1, 6),
    "moderate, f6-9": range(6, 10),
    "ill-conditioned, f10-14": range(10, 15),
    "multimodal, f15-19": range(15, 20),
    "weak structure, f20-24": range(20, 25),
}


def run_sublevel(name: str) -> Callable[[Counted, int, int], None]:
    method, restarts = configuration(name)

    def run(fun: Counted, d: int, seed: int) -> None:
        start = UniformStart(np.full(d, -4.0), np.full(d, 4.0))
        settings = {"method": method, "restarts": restarts, "maxfevals": fun.budget}
        search_repeatedly(fun, [seed], x0=start, sigma0=SIGMA0, **settings)

    return run


def configuration(name: str) -> tuple[Method, str]:
    """A method of ours and its restarts, from the words of a name."""
    first, *words = name.split()
    method, restarts = as_method(first), "bipop"
    for word in words:
        if word in SAMPLINGS:
            method = replace(method, sampling=SAMPLINGS[word])
        else:
            restarts = word
    return method, restarts


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


def solved(name: str, function: int, d: int, instance: int, trial: int, budget: int) -> list[object]:
    """One row of the table: evaluations to each target. Trials differ in their seeds."""
    warnings.simplefilter("ignore")
    problem = coco_problem(SUITE, function, d, instance)
    fun = Counted(problem, optimal_value(SUITE, function, d, instance), budget * d)
    start = time.perf_counter()
    with suppress(Finished):
        algorithm(name)(fun, d, 1000 * function + instance + 100_000 * trial)
    return [name, function, d, instance, fun.evaluations, round(time.perf_counter() - start, 3), *fun.hits]


def instances_of(text: str, dims: list[int]) -> dict[int, range]:
    """The instances in each dimension, from "first:end" for all dimensions or for each of them, with commas between."""
    ranges = [range(*map(int, part.split(":"))) for part in text.split(",")]
    return dict(zip(dims, ranges * len(dims) if len(ranges) == 1 else ranges, strict=True))


def tasks(names: list[str], instances: dict[int, range], trials: int) -> Iterator[tuple[str, int, int, int, int]]:
    for d in sorted(instances, reverse=True):  # the long ones first
        for function in range(1, 25):
            for instance in instances[d]:
                for trial in range(trials):
                    for name in names:
                        yield name, function, d, instance, trial


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--methods",
        default="cma,cma package,cmaes package",
        help="ours first: names of sublevel's methods, and the packages",
    )
    parser.add_argument("--dims", default="2,3,5,10,20")
    parser.add_argument("--instances", default="1:6", help="first:end, or one such range for each dimension")
    parser.add_argument(
        "--trials", type=int, default=1, help="runs on each instance: where restarts decide, one is a matter of chance"
    )
    parser.add_argument("--budget", type=int, default=10_000, help="evaluations per dimension")
    parser.add_argument("--reuse", type=Path, nargs="*", default=[], help="tables of earlier runs")
    parser.add_argument("--out", type=Path, default=Path("bbob"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    names, dims = given.methods.split(","), [int(d) for d in given.dims.split(",")]
    if given.quick:
        dims, given.instances, given.budget = [2, 5], "1:2", 1000
    every = list(tasks(names, instances_of(given.instances, dims), given.trials))
    known = reusable([row for path in given.reuse for row in read_rows(path)], every, given.budget, given.trials)
    made = {tuple(row[:4]) for row in known}
    remaining = [(*task, given.budget) for task in every if task[:4] not in made]
    rows = run_tasks(solved, remaining, given.jobs, given.out, known)
    print("\n".join(table(rows, names, dims)))
    print("\n".join(budget_table(rows, names, dims, [b for b in BUDGETS if b <= given.budget], GROUPS)))
    draw(rows, names, dims, given.out / "ecdf.png")
    print(f"written: {given.out}/runs.csv, {given.out}/ecdf.png")


if __name__ == "__main__":
    main()
