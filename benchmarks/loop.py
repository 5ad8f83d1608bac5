"""What the loop around a step costs, and how long the import takes, as ratios measured side by side in one run.

    OPENBLAS_NUM_THREADS=1 python benchmarks/loop.py [--repeats 25]

1. `minimize` per generation over a plain loop of `ask`, the objective point by point, `tell` and `stop`, at d = 5, 10
   and 20, on the sphere until it converges. Required: at most 1.15. Each run of `minimize` is compared with the plain
   loops directly before and after it, since the speed of a machine may change within seconds; printed are the median
   of these ratios and their quartiles.
2. A whole `minimize` over the C++ libraries fcmaes and pygmo (if they are installed), with the same number of
   evaluations, for that objective and for Rosenbrock's function in NumPy, at d = 5, 10, 20 and 40.
3. `import sublevel` over `import numpy, scipy.linalg`, in new processes. Required: at most 1.5.

Medians over interleaved repeats, one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

GENERATIONS = 200


def trivial(x: np.ndarray) -> float:
    """The sphere, which takes half a microsecond."""
    return float(x @ x)


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


def medians(routes: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Median seconds of each route, measured in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in routes}
    for route in routes.values():
        route()
    for _ in range(repeats):
        for name, route in routes.items():
            seconds[name].append(route())
    return {name: float(np.median(times)) for name, times in seconds.items()}


def loop_seconds(d: int) -> float:
    """Seconds per generation of a plain loop."""
    began = time.perf_counter()
    optimizer = sl.Optimizer(np.ones(d), 0.5, rng=1)
    while not optimizer.stop():
        points = optimizer.ask()
        optimizer.tell(points, [trivial(x) for x in points])
    return (time.perf_counter() - began) / optimizer.nit


def minimize_seconds(d: int) -> float:
    """Seconds per generation of `minimize`."""
    began = time.perf_counter()
    result = sl.minimize(trivial, np.ones(d), 0.5, rng=1, evaluate_x0=False)
    return (time.perf_counter() - began) / result.nit


def paired_runs(d: int, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds per generation of runs of `minimize` (repeats,) and of the plain loops around them, on average."""
    loop_seconds(d), minimize_seconds(d)
    loops, runs = [loop_seconds(d)], []
    for _ in range(repeats):
        runs.append(minimize_seconds(d))
        loops.append(loop_seconds(d))
    return np.array(runs), 0.5 * (np.array(loops[:-1]) + loops[1:])


def whole_runs(d: int, fun: Callable[[np.ndarray], float]) -> dict[str, Callable[[], float]]:
    """Seconds per evaluation of whole runs of the libraries that are installed."""
    popsize, x0 = 4 + int(3 * np.log(d)), np.ones(d)
    budget = GENERATIONS * popsize

    def ours() -> float:
        began = time.perf_counter()
        result = sl.minimize(fun, x0, 0.5, rng=1, popsize=popsize, maxfevals=budget, evaluate_x0=False)
        return (time.perf_counter() - began) / result.nfev

    routes: dict[str, Callable[[], float]] = {"sublevel": ours}
    try:
        from fcmaes import cmaescpp
        from scipy.optimize import Bounds
    except ImportError:
        pass
    else:

        def with_fcmaes() -> float:
            began = time.perf_counter()
            result = cmaescpp.minimize(
                fun, Bounds([-1e9] * d, [1e9] * d), x0, 0.5 / 2e9, popsize=popsize, max_evaluations=budget, runid=1
            )
            return (time.perf_counter() - began) / result.nfev

        routes["fcmaes"] = with_fcmaes
    try:
        import pygmo
    except ImportError:
        return routes

    class Problem:
        """An objective as pygmo takes it."""

        def fitness(self, x: np.ndarray) -> list[float]:
            return [fun(x)]

        def get_bounds(self) -> tuple[list[float], list[float]]:
            return [-10.0] * d, [10.0] * d

    def with_pygmo() -> float:
        problem = pygmo.problem(Problem())
        population = pygmo.population(problem, popsize, seed=1)
        algorithm = pygmo.algorithm(pygmo.cmaes(gen=GENERATIONS, sigma0=0.5, ftol=0.0, xtol=0.0, seed=1))
        began = time.perf_counter()
        population = algorithm.evolve(population)
        return (time.perf_counter() - began) / max(population.problem.get_fevals() - popsize, 1)

    routes["pygmo"] = with_pygmo
    return routes


def import_seconds(statement: str) -> float:
    """Seconds that a new interpreter takes for a statement."""
    code = f"import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=25)
    repeats = parser.parse_args().repeats
    print("µs per generation with a trivial objective    d   plain loop   minimize   ratio (quartiles)")
    for d in (5, 10, 20):
        runs, loops = paired_runs(d, repeats)
        low, ratio, high = np.percentile(runs / loops, [25, 50, 75])
        print(f"{'':43}{d:4d} {1e6 * np.median(loops):11.1f} {1e6 * np.median(runs):10.1f} ", end="")
        print(f"{ratio:7.3f} ({low:.2f} to {high:.2f})", flush=True)
    print("\nwhole runs, µs per evaluation; in brackets sublevel over the other")
    for fun in (trivial, rosenbrock):
        for d in (5, 10, 20, 40):
            found = medians(whole_runs(d, fun), max(repeats // 3, 3))
            ours = found.pop("sublevel")
            others = "".join(f"   {name} {1e6 * t:6.1f} ({ours / t:.2f})" for name, t in found.items())
            print(f"{fun.__name__:12} d = {d:2d}   sublevel {1e6 * ours:6.1f}{others}")
    found = medians(
        {
            "sublevel": lambda: import_seconds("import sublevel as sl; sl.minimize"),
            "package": lambda: import_seconds("import sublevel"),
            "numpy": lambda: import_seconds("import numpy, scipy.linalg"),
        },
        repeats,
    )
    print(f"\nimport numpy, scipy.linalg: {1e3 * found['numpy']:.0f} ms")
    print(f"import sublevel: {1e3 * found['package']:.0f} ms, ratio {found['package'] / found['numpy']:.2f}")
    print(f"import sublevel; sublevel.minimize: {1e3 * found['sublevel']:.0f} ms, ", end="")
    print(f"ratio {found['sublevel'] / found['numpy']:.2f}")


if __name__ == "__main__":
    main()
