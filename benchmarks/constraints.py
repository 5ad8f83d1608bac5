"""Orderings of constrained points beside the augmented Lagrangian of the package `cma` and SciPy's differential
evolution.

    python benchmarks/constraints.py classic --seeds 100:110          (about 5 minutes)
    python benchmarks/constraints.py bbob --dims 5,10                 (about 20 minutes)

`classic`: sphere and ellipsoid with linear constraints that are all active, g06, g07, g09, the pressure vessel with
continuous variables, and the welded beam. Printed: evaluations until a feasible value within 1e-6·max(1, |f*|) of the
best known one, with the evaluations of failed runs added and divided by the number of successful ones, and how many
succeeded; last, the geometric mean of the ratio to `cma` over the problems that both solved.

`bbob`: the 54 functions of COCO's suite bbob-constrained. Printed: the share of 41 targets, f* + 10^[2 … −6], that a
feasible point reached within 1000·d evaluations.

An evaluation is one point: f and all constraints. CMA-ES restarts with twice the points, from a uniform point in the
box. In `bbob` the first run has the point that the suite proposes. Tuned with seeds 0 to 2 and with `classic` only,
except for `feasible_share` of the augmented Lagrangian, which was chosen with seeds 100 to 119 of the pressure vessel
and functions 5, 6, 21, 23 and 41 of `bbob` in 10 variables, instance 4.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

TARGETS = 10.0 ** np.linspace(2, -6, 41)
SIGMA0 = 0.2  # of the box


class Finished(Exception):
    """The last target is reached or the budget is spent."""


@dataclass(frozen=True)
class Problem:
    """A function of points (n, d) with constraint values (n, m), a box, and the best known value."""

    name: str
    lower: np.ndarray
    upper: np.ndarray
    fun: Callable[[np.ndarray], np.ndarray]
    constraints: Callable[[np.ndarray], np.ndarray]
    m: int
    best: float
    budget: int = 20_000
    has_bounds: bool = True
    x0: np.ndarray | None = None  # of the first run


class Counted:
    """The evaluations of a problem, and when each target was reached by a feasible point."""

    def __init__(self, problem: Problem, targets: np.ndarray) -> None:
        self.problem, self.targets = problem, problem.best + targets
        self.evaluations = self.reached = 0
        self.hits = np.full(targets.size, np.inf)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, constraints = self.problem.fun(points), self.problem.constraints(points)
        for value, feasible in zip(values, (constraints <= 0).all(axis=1), strict=True):
            self.evaluations += 1
            while feasible and self.reached < self.targets.size and value <= self.targets[self.reached]:
                self.hits[self.reached] = self.evaluations
                self.reached += 1
            if self.reached == self.targets.size or self.evaluations >= self.problem.budget:
                raise Finished
        return values, constraints


# Problems


def linear(name: str, d: int, m: int, condition: float) -> Problem:
    """xᵀHx/2 with m linear constraints, all active at the optimum, where f = 1/2 and all multipliers are equal."""
    h = condition ** (np.arange(d) / (d - 1))
    a = np.linalg.qr(np.random.default_rng(100 * d + m).standard_normal((d, d)))[0][:m]
    x = a.sum(axis=0) / h
    x /= np.sqrt(np.sum(h * x**2))
    return Problem(
        name,
        np.full(d, -5.0),
        np.full(d, 5.0),
        lambda points: 0.5 * points**2 @ h,
        lambda points: a @ x - points @ a.T,
        m,
        0.5,
        has_bounds=False,
    )


def g06() -> Problem:
    def fun(p: np.ndarray) -> np.ndarray:
        return (p[:, 0] - 10) ** 3 + (p[:, 1] - 20) ** 3

    def constraints(p: np.ndarray) -> np.ndarray:
        a, b = p.T
        return np.stack([100 - (a - 5) ** 2 - (b - 5) ** 2, (a - 6) ** 2 + (b - 5) ** 2 - 82.81], axis=1)

    return Problem("g06", np.array([13.0, 0]), np.array([100.0, 100]), fun, constraints, 2, -6961.81387558015)


def g07() -> Problem:
    def fun(p: np.ndarray) -> np.ndarray:
        a, b, c, d, e, f, g, h, i, j = p.T
        first = a**2 + b**2 + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2
        return first + 2 * (f - 1) ** 2 + 5 * g**2 + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45

    def constraints(p: np.ndarray) -> np.ndarray:
        a, b, c, d, e, f, g, h, i, j = p.T
        rows = [
            -105 + 4 * a + 5 * b - 3 * g + 9 * h,
            10 * a - 8 * b - 17 * g + 2 * h,
            -8 * a + 2 * b + 5 * i - 2 * j - 12,
            3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c**2 - 7 * d - 120,
            5 * a**2 + 8 * b + (c - 6) ** 2 - 2 * d - 40,
            a**2 + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
            0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e**2 - f - 30,
            -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
        ]
        return np.stack(rows, axis=1)

    return Problem("g07", np.full(10, -10.0), np.full(10, 10.0), fun, constraints, 8, 24.30620906818, 40_000)


def g09() -> Problem:
    def fun(p: np.ndarray) -> np.ndarray:
        a, b, c, d, e, f, g = p.T
        first = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6
        return first + 7 * f**2 + g**4 - 4 * f * g - 10 * f - 8 * g

    def constraints(p: np.ndarray) -> np.ndarray:
        a, b, c, d, e, f, g = p.T
        rows = [
            -127 + 2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e,
            -282 + 7 * a + 3 * b + 10 * c**2 + d - e,
            -196 + 23 * a + b**2 + 6 * f**2 - 8 * g,
            4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
        ]
        return np.stack(rows, axis=1)

    return Problem("g09", np.full(7, -10.0), np.full(7, 10.0), fun, constraints, 4, 680.630057374402)


def vessel() -> Problem:
    def fun(p: np.ndarray) -> np.ndarray:
        shell, head, radius, length = p.T
        first = 0.6224 * shell * radius * length + 1.7781 * head * radius**2
        return first + 3.1661 * shell**2 * length + 19.84 * shell**2 * radius

    def constraints(p: np.ndarray) -> np.ndarray:
        shell, head, radius, length = p.T
        volume = np.pi * radius**2 * length + 4 / 3 * np.pi * radius**3
        rows = [0.0193 * radius - shell, 0.00954 * radius - head, 1_296_000 - volume, length - 240]
        return np.stack(rows, axis=1)

    lower, upper = np.array([0.0625, 0.0625, 10, 10]), np.array([6.1875, 6.1875, 200, 200])
    return Problem("vessel", lower, upper, fun, constraints, 4, 5885.332773616458)


def beam() -> Problem:
    load, length, young, shear = 6000.0, 14.0, 30e6, 12e6

    def fun(p: np.ndarray) -> np.ndarray:
        h, w, t, b = p.T
        return 1.10471 * h**2 * w + 0.04811 * t * b * (14 + w)

    def constraints(p: np.ndarray) -> np.ndarray:
        h, w, t, b = p.T
        arm = np.sqrt(w**2 / 4 + ((h + t) / 2) ** 2)
        polar = 2 * np.sqrt(2) * h * w * (w**2 / 12 + ((h + t) / 2) ** 2)
        direct, torsion = load / (np.sqrt(2) * h * w), load * (length + w / 2) * arm / polar
        stress = np.sqrt(direct**2 + direct * torsion * w / arm + torsion**2)
        slender = 1 - t / (2 * length) * np.sqrt(young / (4 * shear))
        buckling = 4.013 * young * np.sqrt(t**2 * b**6 / 36) / length**2 * slender
        rows = [
            stress - 13600,
            6 * load * length / (b * t**2) - 30000,
            h - b,
            0.10471 * h**2 + 0.04811 * t * b * (14 + w) - 5,
            0.125 - h,
            4 * load * length**3 / (young * t**3 * b) - 0.25,
            load - buckling,
        ]
        return np.stack(rows, axis=1)

    return Problem("beam", np.full(4, 0.1), np.array([2.0, 10, 10, 2]), fun, constraints, 7, 1.7248523085973)


def classic() -> list[Problem]:
    shapes = [("sphere", 1.0), ("ellipsoid", 1e6)]
    problems = [linear(f"{name} m={m}", 10, m, condition) for name, condition in shapes for m in (1, 5)]
    return [*problems, g06(), g07(), g09(), vessel(), beam()]


def bbob(d: int, functions: str, instances: str) -> Iterator[Problem]:
    """Problems of the suite bbob-constrained in d variables. The optimum is used for the targets only."""
    import cocoex

    chosen = f"dimensions:{d} function_indices:{functions} instance_indices:{instances}"
    for problem in cocoex.Suite("bbob-constrained", "", chosen):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            problem._best_parameter("print")
            best = problem(np.loadtxt("._bbob_problem_best_parameter.txt"))

        def fun(points: np.ndarray, problem: Callable = problem) -> np.ndarray:
            return np.array([problem(point) for point in points])

        def constraints(points: np.ndarray, problem: Callable = problem) -> np.ndarray:
            return np.array([problem.constraint(point) for point in points])

        m, x0 = problem.number_of_constraints, np.array(problem.initial_solution)
        box = problem.lower_bounds, problem.upper_bounds
        yield Problem(problem.id, *box, fun, constraints, m, best, 1000 * d, True, x0)


# Solvers


def starts(problem: Problem, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Where the runs of a solver start."""
    if problem.x0 is not None:
        yield problem.x0
    while True:
        yield rng.uniform(problem.lower, problem.upper)


def run_sublevel(handling: str) -> Callable[[Counted, int], None]:
    def run(counted: Counted, seed: int) -> None:
        problem, rng, popsize = counted.problem, np.random.default_rng([seed, 7]), None
        width = problem.upper - problem.lower
        bounds = np.stack([problem.lower, problem.upper], axis=1) if problem.has_bounds else None
        for x0 in starts(problem, rng):
            result = sl.minimize(
                counted,
                x0,
                SIGMA0 * width,
                constraints=problem.m,
                constraint_handling=handling,
                popsize=popsize,
                bounds=bounds,
                rng=rng,
                maxfevals=np.inf,
                evaluate_x0=False,
                vectorized=True,
            )
            popsize = 2 * result.history.runs[0].popsize

    return run


def run_cma(counted: Counted, seed: int) -> None:
    import cma

    problem, rng, options = counted.problem, np.random.default_rng([seed, 7]), {"verbose": -9}
    lower, width, values = problem.lower, problem.upper - problem.lower, {}
    if problem.has_bounds:
        options["bounds"] = [0, 1]

    def constraints(z: np.ndarray) -> np.ndarray:  # is called before the objective, with the same point
        (values["f"],), (g,) = counted((lower + width * np.asarray(z))[None])
        return g

    for x0 in starts(problem, rng):
        options["seed"] = int(rng.integers(1, 2**31))
        es = cma.CMAEvolutionStrategy((x0 - lower) / width, SIGMA0, options)
        lagrangian = cma.ConstrainedFitnessAL(lambda _: values["f"], constraints, logging=0, archives=False)
        while not es.stop():
            points = es.ask()
            es.tell(points, [lagrangian(z) for z in points])
            lagrangian.update(es)
        options["popsize"] = 2 * es.popsize


def run_de(counted: Counted, seed: int) -> None:
    from scipy.optimize import NonlinearConstraint, differential_evolution

    problem, values = counted.problem, {}

    def constraints(x: np.ndarray) -> np.ndarray:  # is called before the objective, which it may make unnecessary
        (values[x.tobytes()],), (g,) = counted(x[None])
        return g

    for attempt in range(1000):
        differential_evolution(
            lambda x: values[x.tobytes()],
            list(zip(problem.lower, problem.upper, strict=True)),
            constraints=NonlinearConstraint(constraints, -np.inf, 0.0),
            x0=problem.x0 if attempt == 0 else None,
            polish=False,
            maxiter=10**6,
            rng=np.random.default_rng([seed, attempt]),
        )


SOLVERS = {
    "cma package": run_cma,
    "rank Lagrangian": run_sublevel("rank-lagrangian"),
    "Lagrangian": run_sublevel("augmented-lagrangian"),
    "lexicographic": run_sublevel("lexicographic"),
    "SciPy DE": run_de,
}


def hits(name: str, problem: Problem, targets: np.ndarray, seed: int) -> np.ndarray:
    """Evaluations until each target, inf for those not reached."""
    counted = Counted(problem, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(Finished):
            SOLVERS[name](counted, seed)
    return counted.hits


# Tables


def report_classic(solvers: list[str], seeds: range) -> None:
    problems, expected = classic(), {}
    print(" " * 16, *(f"{problem.name:>16}" for problem in problems))
    for name in solvers:
        start, cells, expected[name] = time.perf_counter(), [], []
        for problem in problems:
            target = np.array([1e-6 * max(1.0, abs(problem.best))])
            spent = np.array([hits(name, problem, target, seed)[0] for seed in seeds])
            solved = int(np.isfinite(spent).sum())
            total = np.where(np.isfinite(spent), spent, problem.budget).sum()
            expected[name].append(total / solved if solved else np.inf)
            cells.append(f"{expected[name][-1]:9.0f} {solved:2}/{spent.size}")
        ratio = ""
        if "cma package" in expected:
            ratios = np.array(expected[name]) / np.array(expected["cma package"])
            usable = np.isfinite(ratios)
            ratio = f"ratio {np.exp(np.mean(np.log(ratios[usable]))):.2f} on {usable.sum()}" if usable.any() else ""
        print(
            f"{name:16}", *(f"{cell:>16}" for cell in cells), ratio, f"{time.perf_counter() - start:.0f} s", flush=True
        )


def report_bbob(
    solvers: list[str], seeds: range, dims: list[int], functions: str, instances: str, out: Path | None
) -> None:
    for d in dims:
        for name in solvers:
            start, shares = time.perf_counter(), []
            for problem in bbob(d, functions, instances):
                for seed in seeds:
                    reached = hits(name, problem, TARGETS, seed)
                    shares.append(np.isfinite(reached).mean())
                    if out is not None:
                        with open(out, "a") as file:
                            print(name, problem.name, seed, *reached, sep=",", file=file)
            seconds = time.perf_counter() - start
            print(f"d = {d:2}  {name:16} {np.mean(shares):.3f} of {len(shares)} runs, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=["classic", "bbob"])
    parser.add_argument("--solvers", default=",".join(SOLVERS))
    parser.add_argument("--seeds", default="100:120", help="first:end")
    parser.add_argument("--functions", default="1-54", help="of bbob")
    parser.add_argument("--instances", default="4,5", help="of bbob")
    parser.add_argument("--dims", default="5,10", help="of bbob")
    parser.add_argument("--out", type=Path, help="of bbob: a file to which the evaluations to each target are added")
    arguments = parser.parse_args()
    solvers, seeds = arguments.solvers.split(","), range(*map(int, arguments.seeds.split(":")))
    if arguments.suite == "classic":
        report_classic(solvers, seeds)
    else:
        dims = [int(d) for d in arguments.dims.split(",")]
        report_bbob(solvers, seeds, dims, arguments.functions, arguments.instances, arguments.out)


if __name__ == "__main__":
    main()
