"""Expensive objectives: evaluations with `surrogate=True`, and those of other packages, on the same problems.

    python benchmarks/surrogate.py targets --seeds 15       evaluations to f_opt + 1e-8
    python benchmarks/surrogate.py bbob --dims 2,3,5,10     share of bbob's targets after 20·d … 200·d evaluations
    python benchmarks/surrogate.py cpu                      time per generation
    python benchmarks/surrogate.py workers                  simulated time with workers

Solvers: `plain` and `ours` without and with a surrogate, `cma` and `lq` of the package cma (`fmin2`, `fmin_lq_surr2`),
`tpe` of Optuna, `cobyqa` of SciPy. Runs are cached in `--cache`, by solver, version and problem; ours by the code of
`surrogate/`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from coco_targets import Counted, Finished, coco_problem, optimal_value

TARGET = 1e-8
TPE_TRIALS = 300
"""Most trials of TPE, whose time grows with their square."""
EXP_SCALE = 5e-5
"""Factor of f in exp(f): about e⁵⁰ at the start, and no overflow. exp(f) itself is infinite at the start, which ends lq
by an exception. Below f = 1/EXP_SCALE, that is in 12 of the 14 decades of a run, exp(f) is nearly 1 + f; the
exponential of the fourth root is far from linear in f everywhere.
"""
BUDGETS = (20, 50, 100, 200)
"""Evaluations per variable after which bbob's targets are counted."""


def scales(d: int, exponent: float) -> np.ndarray:
    return 10.0 ** (exponent * np.arange(d) / max(d - 1, 1))


def ellipsoid(x: np.ndarray) -> float:
    return float(np.sum(scales(x.size, 6.0) * x**2))


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def rastrigin(x: np.ndarray) -> float:
    return float(10 * x.size + np.sum(x**2 - 10 * np.cos(2 * np.pi * x)))


FUNCTIONS: dict[str, Callable[[np.ndarray], float]] = {
    "sphere": lambda x: float(x @ x),
    "ellipsoid": ellipsoid,
    "ellipsoid^1/4": lambda x: ellipsoid(x) ** 0.25,
    "log ellipsoid": lambda x: float(np.log(ellipsoid(x) + 1e-300)),
    "exp ellipsoid": lambda x: float(np.exp(EXP_SCALE * ellipsoid(x))),
    "exp ellipsoid^1/4": lambda x: float(np.exp(ellipsoid(x) ** 0.25)),
    "cigar": lambda x: float(x[0] ** 2 + 1e6 * np.sum(x[1:] ** 2)),
    "discus": lambda x: float(1e6 * x[0] ** 2 + np.sum(x[1:] ** 2)),
    "rosenbrock": rosenbrock,
    "different powers": lambda x: float(np.sum(np.abs(x) ** (2 + 4 * np.arange(x.size) / max(x.size - 1, 1)))),
    "sharp ridge": lambda x: float(x[0] ** 2 + 100 * np.sqrt(np.sum(x[1:] ** 2))),
    "sum of |x|": lambda x: float(np.sum(np.abs(x))),
    "rastrigin": rastrigin,
}
VALUE_TARGETS = {
    "ellipsoid^1/4": TARGET**0.25,
    "log ellipsoid": float(np.log(TARGET)),
    "exp ellipsoid": float(np.exp(EXP_SCALE * TARGET)),
    "exp ellipsoid^1/4": float(np.exp(TARGET**0.25)),
}
MULTIMODAL = {"rastrigin"}


class Noisy:
    """The sphere times a random factor. Whether a point is good enough is judged without it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, x: np.ndarray) -> float:
        return float(x @ x) * float(np.exp(0.3 * self.rng.standard_normal()))


class Objective:
    """Counts evaluations, and ends a run at the target or the budget."""

    def __init__(self, name: str, seed: int, budget: float) -> None:
        self.fun = Noisy(seed) if name == "noisy sphere" else FUNCTIONS[name]
        self.target = 1e-6 if name == "noisy sphere" else VALUE_TARGETS.get(name, TARGET)
        self.budget, self.evaluations, self.is_solved = budget, 0, False

    def __call__(self, x: np.ndarray) -> float:
        if self.is_solved or self.evaluations >= self.budget:
            raise Finished
        x = np.asarray(x, dtype=float)
        self.evaluations += 1
        value = self.fun(x)
        self.is_solved = value <= self.target
        if self.is_solved:
            raise Finished
        return value


Function = Callable[[np.ndarray], float]
Solver = Callable[[Function, np.ndarray, float, int, bool, float], None]
"""Minimises a function from a start with a standard deviation, given a seed, whether to restart, and a budget."""


def ours(surrogate: bool | int) -> Solver:
    def solve(fun: Function, x0: np.ndarray, sigma0: float, seed: int, restarts: bool, budget: float) -> None:
        import sublevel as sl

        for attempt in range(100):
            sl.minimize(
                fun,
                x0,
                sigma0,
                rng=[seed, attempt],
                surrogate=surrogate,
                maxfevals=max(budget, 1000),
                restarts="ipop" if restarts else None,
                evaluate_x0=False,
            )
            if not restarts:
                return

    return solve


def pycma(surrogate: bool) -> Solver:
    def solve(fun: Function, x0: np.ndarray, sigma0: float, seed: int, restarts: bool, budget: float) -> None:
        import cma

        for attempt in range(100):
            options = {"verbose": -9, "seed": 1000 * seed + attempt + 1, "popsize_factor": 2.0**attempt}
            if surrogate:
                cma.fmin_lq_surr2(fun, x0, sigma0, options=options)
            else:
                cma.fmin2(fun, x0, sigma0, options)
            if not restarts:
                return

    return solve


def tpe(fun: Function, x0: np.ndarray, sigma0: float, seed: int, restarts: bool, budget: float) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: optuna.Trial) -> float:
        low, high = x0 - 5 * sigma0, x0 + 5 * sigma0
        return fun(np.array([trial.suggest_float(f"x{i}", low[i], high[i]) for i in range(x0.size)]))

    study.optimize(objective, n_trials=int(min(budget, TPE_TRIALS)))


def cobyqa(fun: Function, x0: np.ndarray, sigma0: float, seed: int, restarts: bool, budget: float) -> None:
    from scipy.optimize import minimize

    options = {"initial_tr_radius": sigma0, "final_tr_radius": 1e-10, "maxfev": int(budget)}
    minimize(fun, x0, method="COBYQA", options=options)


SOLVERS: dict[str, Solver] = {
    "cma": pycma(surrogate=False),
    "plain": ours(surrogate=False),
    "ours": ours(surrogate=True),
    "ours x4": ours(surrogate=4),
    "lq": pycma(surrogate=True),
    "tpe": tpe,
    "cobyqa": cobyqa,
}


class Cache:
    """Numbers of runs by a text that says what was run, in a JSON file per solver."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, list[float]]] = {}

    def get(self, solver: str, key: str, compute: Callable[..., list[float]], *problem: object) -> list[float]:
        """The numbers of a run, computed by `compute(solver, *problem)` if they are not known."""
        path = self.folder / f"{solver.replace(' ', '-')}-{version(solver)}.json"
        if solver not in self.known:
            self.known[solver] = json.loads(path.read_text()) if path.exists() else {}
        found = self.known[solver]
        if key not in found:
            found[key] = compute(solver, *problem)
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found))
        return found[key]


def version(solver: str) -> str:
    """The version of a solver; of ours a digest of the code."""
    import cma
    import optuna
    import scipy

    import sublevel

    packages = {"cma": cma, "lq": cma, "tpe": optuna, "cobyqa": scipy}
    if solver in packages:
        return str(packages[solver].__version__)
    room = Path(sublevel.__file__).parent / ("surrogate" if solver.startswith("ours") else "engine")
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(room.rglob("*.py")))).hexdigest()[:12]


def solve_target(solver: str, function: str, d: int, seed: int, budget: float) -> list[float]:
    """Evaluations to the target, infinite if it was not reached, and all evaluations."""
    rng = np.random.default_rng([seed, d])
    is_valley = function == "rosenbrock"
    x0 = rng.uniform(-0.1, 0.1, d) if is_valley else rng.uniform(0.5, 1.5, d)
    objective = Objective(function, seed, budget)
    if function in MULTIMODAL:
        x0, sigma0 = rng.uniform(-4, 4, d), 2.0
    else:
        sigma0 = 0.1 if is_valley else 0.5
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SOLVERS[solver](objective, x0, sigma0, seed, function in MULTIMODAL, budget)
    except Finished:
        pass
    return [float(objective.evaluations) if objective.is_solved else float("inf"), float(objective.evaluations)]


def compare_targets(options: argparse.Namespace, cache: Cache) -> None:
    """A table of median evaluations to the target, with the share of runs that reached it."""
    print(f"{'':24}" + "".join(f"{name:>16}" for name in options.solvers) + f"{'cma/ours':>10}{'ours/lq':>10}")
    for d in options.dims:
        for function in options.functions:
            medians = {}
            for solver in options.solvers:
                budget = float(options.budget * d)
                key = f"{function} {d} {budget}"
                runs = [
                    cache.get(solver, f"{key} {seed}", solve_target, function, d, seed, budget)
                    for seed in options.seed_list
                ]
                hits = np.array([run[0] for run in runs])
                medians[solver] = np.median(hits), np.mean(np.isfinite(hits))
            cells = "".join(
                f"{m:10.0f} {s:5.2f}" if np.isfinite(m) else f"{'-':>10} {s:5.2f}" for m, s in medians.values()
            )
            plain, mine, lq = (medians.get(name, (np.nan, 0))[0] for name in ("cma", "ours", "lq"))
            print(f"d={d:<3} {function:18}{cells}{plain / mine:10.2f}{mine / lq:10.2f}", flush=True)


def solve_bbob(solver: str, function: int, d: int, instance: int, budget: int) -> list[float]:
    """Evaluations to each of bbob's targets."""
    problem = coco_problem("bbob", function, d, instance)
    counted = Counted(problem, optimal_value("bbob", function, d, instance), budget * d)
    rng = np.random.default_rng([instance, function, d])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SOLVERS[solver](counted, rng.uniform(-4, 4, d), 2.0, instance, True, budget * d)
    except Finished:
        pass
    return counted.hits.tolist()


def compare_bbob(options: argparse.Namespace, cache: Cache) -> None:
    """A table of the share of targets reached within budgets per variable, and its interval over functions."""
    chosen = [int(name) for name in options.functions] if options.functions else list(range(1, 25))
    budgets = [b for b in BUDGETS if b < options.budget] + [options.budget]
    for d in options.dims:
        shares, hits = dict[str, np.ndarray](), dict[str, list[list[float]]]()
        for solver in options.solvers:
            hits[solver] = [
                cache.get(solver, f"bbob {f} {d} {i} {options.budget}", solve_bbob, f, d, i, options.budget)
                for f in chosen
                for i in options.seed_list
            ]
            shares[solver] = np.array([[np.mean(np.array(run) <= b * d) for b in budgets] for run in hits[solver]])
            cells = "".join(
                f"{b:8}d {100 * share:5.1f}%" for b, share in zip(budgets, shares[solver].mean(axis=0), strict=True)
            )
            print(f"d={d:<3} {solver:10}{cells}", flush=True)
        for other in ("lq", "cma", "plain"):
            if {"ours", other} <= shares.keys():
                print(f"      ours − {other:5}{interval(shares['ours'] - shares[other])}", flush=True)
        if {"ours", "plain"} <= hits.keys():
            compare_functions(hits["plain"], hits["ours"], chosen, d, options.budget * d)


def interval(apart: np.ndarray) -> str:
    """Bootstrap intervals of the mean differences of shares (runs, budgets)."""
    draws = np.random.default_rng(0).integers(0, len(apart), (2000, len(apart)))
    low, high = np.percentile(apart[draws].mean(axis=1), [2.5, 97.5], axis=0)
    return "".join(f"  [{100 * a:+5.1f}, {100 * b:+5.1f}]" for a, b in zip(low, high, strict=True))


def compare_functions(
    plain: list[list[float]], mine: list[list[float]], chosen: list[int], d: int, budget: float
) -> None:
    """Evaluations without over evaluations with a surrogate, in the geometric mean over the targets that one of them
    reached, by function, with its interval over instances; the whole budget for the other one if it did not.
    """
    per_function = len(plain) // len(chosen)
    draws = np.random.default_rng(0).integers(0, per_function, (2000, per_function))
    texts, logs = list[str](), list[float]()
    for place, function in enumerate(chosen):
        rows = slice(place * per_function, (place + 1) * per_function)
        first, second = np.array(plain[rows]), np.array(mine[rows])
        reached = np.isfinite(first) | np.isfinite(second)
        ratios = np.where(reached, np.log(np.minimum(first, budget) / np.minimum(second, budget)), 0.0).sum(axis=1)
        counts = reached.sum(axis=1)
        logs.append(float(ratios.sum() / max(counts.sum(), 1)))
        drawn = ratios[draws].sum(axis=1) / np.maximum(counts[draws].sum(axis=1), 1)
        low, high = np.exp(np.percentile(drawn, [2.5, 97.5]))
        texts.append(f"f{function} {np.exp(logs[-1]):.2f} ({low:.2f} to {high:.2f})")
    print(f"      d={d}, plain/ours, geometric mean {np.exp(np.mean(logs)):.2f}: " + ", ".join(texts))


def measure_cpu(options: argparse.Namespace) -> None:
    """Milliseconds per generation without and with a surrogate, of the process, on Rosenbrock's function."""
    import sublevel as sl

    print(f"{'':6}{'plain':>10}{'surrogate':>12}  ms per generation (median of generations)")
    for d in options.dims:
        took = []
        for surrogate in (False, True):
            marks = [time.process_time()]
            sl.minimize(
                rosenbrock,
                np.zeros(d),
                0.1,
                rng=1,
                maxiter=300 if d < 20 else 250,
                surrogate=surrogate,
                callback=lambda _, marks=marks: marks.append(time.process_time()),
            )
            steps = np.diff(marks)
            took.append(1e3 * float(np.median(steps[len(steps) // 2 :])))
        print(f"d={d:<4}{took[0]:10.2f}{took[1]:12.2f}", flush=True)


def count_rounds(function: str, d: int, seed: int, workers: int) -> list[float]:
    """Rounds of evaluations in parallel to the target: seconds if each evaluation takes one; and evaluations."""
    import sublevel as sl

    rng = np.random.default_rng([seed, d])
    x0, sigma0 = (rng.uniform(-0.1, 0.1, d), 0.1) if function == "rosenbrock" else (rng.uniform(0.5, 1.5, d), 0.5)
    opt = sl.Optimizer(x0, sigma0, rng=seed, surrogate=workers)
    rounds = 0
    while not opt.stop():
        X = opt.ask()
        values = np.array([FUNCTIONS[function](x) for x in X])
        good = np.flatnonzero(values <= TARGET)
        if good.size:
            return [float(rounds + good[0] // workers + 1), float(opt.nfev + good[0] + 1)]
        rounds += -(-len(X) // workers)
        opt.tell(X, values)
    return [float("inf"), float(opt.nfev)]


def compare_workers(options: argparse.Namespace) -> None:
    """Simulated time of 1, 2, 4 and 8 workers with evaluations of one second."""
    for d in options.dims:
        for function in options.functions or ["ellipsoid", "rosenbrock"]:
            one = None
            for workers in (1, 2, 4, 8):
                runs = np.array([count_rounds(function, d, seed, workers) for seed in options.seed_list])
                seconds, evaluations = np.median(runs, axis=0)
                one = one or seconds
                print(
                    f"d={d:<3} {function:12} {workers} workers {seconds:8.0f} s ({seconds / one:.2f}), "
                    f"{evaluations:6.0f} evaluations",
                    flush=True,
                )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["targets", "bbob", "cpu", "workers"])
    parser.add_argument("--functions", help="names, or numbers of bbob, with commas between them")
    parser.add_argument("--dims", help="5,10 by default")
    parser.add_argument("--seeds", default="15", help="how many, or first:last; instances of bbob")
    parser.add_argument("--solvers", default="cma,ours,lq")
    parser.add_argument("--budget", type=int, help="evaluations per variable: 2000, or 200 for bbob")
    parser.add_argument("--cache", type=Path, default=Path("surrogate-cache"))
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.rpartition(":")
    options.seed_list = list(range(int(first or 1), int(last) + 1))
    options.solvers = options.solvers.split(",")
    defaults = {"cpu": "5,10,20", "workers": "10", "bbob": "2,3,5,10"}
    options.dims = [int(d) for d in (options.dims or defaults.get(options.what, "5,10")).split(",")]
    options.budget = options.budget or (200 if options.what == "bbob" else 2000)
    everything = [*FUNCTIONS] if options.what == "targets" else []
    options.functions = options.functions.split(",") if options.functions else everything
    return options


def main() -> None:
    options = parse()
    if options.what == "targets":
        compare_targets(options, Cache(options.cache))
    elif options.what == "bbob":
        compare_bbob(options, Cache(options.cache))
    elif options.what == "cpu":
        measure_cpu(options)
    else:
        compare_workers(options)


if __name__ == "__main__":
    main()
