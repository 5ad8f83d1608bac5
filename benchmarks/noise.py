"""Noisy objectives: the true f at the answer and the value that is reported.

    python benchmarks/noise.py --seeds 15     # about 10 min

Sphere, ellipsoid (condition number 1e4) and Rosenbrock's function in 5 and 10 variables, with noise of standard
deviation 1 that is added, or a factor of 1 + 0.3·N(0, 1), at 100·d and 1000·d evaluations. For each solver the table
shows the median and the quartiles of the true f at its answer, and the median of what it reports less the true f: the
bias of its value. `covered` is the share of runs whose true value lies within two of the reported standard errors; all
rows use the same seeds, so these shares are not independent. pycma is the package `cma`, with its `NoiseHandler`;
its answer is the best point, or its mean (`xfavorite`).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import NamedTuple

import cma
import numpy as np

import sublevel as sl

FIRST_SEED = 7000
Function = Callable[[np.ndarray], float]


def sphere(x: np.ndarray) -> float:
    """The sphere."""
    return float(x @ x)


def ellipsoid(x: np.ndarray) -> float:
    """Condition number 1e4."""
    return float(10 ** (4 * np.arange(x.size) / (x.size - 1)) @ x**2)


def rosenbrock(x: np.ndarray) -> float:
    """A bent valley."""
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


FUNCTIONS: dict[str, tuple[Function, float]] = {
    "sphere": (sphere, 1.0),
    "ellipsoid": (ellipsoid, 1.0),
    "Rosenbrock": (rosenbrock, 0.0),
}


class Problem(NamedTuple):
    """A function with noise from a generator."""

    f: Function
    is_factor: bool
    rng: np.random.Generator

    def __call__(self, x: np.ndarray) -> float:
        """A noisy value."""
        draw = self.rng.standard_normal()
        return self.f(x) * (1 + 0.3 * draw) if self.is_factor else self.f(x) + draw


class Answer(NamedTuple):
    """A point with what is said about f there."""

    x: np.ndarray
    reported: float
    error: float = np.nan


Solver = Callable[[Problem, np.ndarray, int, int], Answer]


def ours(method: str | None, noise: bool) -> Solver:
    """`minimize`."""

    def solve(fun: Problem, x0: np.ndarray, budget: int, seed: int) -> Answer:
        result = sl.minimize(fun, x0, 1.0, method=method, noise=noise, maxfevals=budget, rng=seed)
        return Answer(result.x, result.fun, result.get("fun_error", np.nan))

    return solve


def final_mean(fun: Problem, x0: np.ndarray, budget: int, seed: int) -> Answer:
    """The mean at the end of a plain run, which reports no value."""
    return Answer(sl.minimize(fun, x0, 1.0, method="cma", maxfevals=budget, rng=seed).mean, np.nan)


def pycma(mean: bool) -> Solver:
    """`fmin2` with its noise handling."""

    def solve(fun: Problem, x0: np.ndarray, budget: int, seed: int) -> Answer:
        options = {"maxfevals": budget, "seed": seed, "verbose": -9}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, es = cma.fmin2(fun, x0, 1.0, options, noise_handler=cma.NoiseHandler(x0.size))
        found = es.result
        return Answer(np.array(found.xfavorite), np.nan) if mean else Answer(np.array(found.xbest), float(found.fbest))

    return solve


SOLVERS: dict[str, Solver] = {
    "noise=True": ours(None, noise=True),
    'noise=True, method="lra-cma"': ours("lra-cma", noise=True),
    'noise=True, method="cma"': ours("cma", noise=True),
    '"cma"': ours("cma", noise=False),
    '"cma", mean': final_mean,
    "pycma, best": pycma(mean=False),
    "pycma, mean": pycma(mean=True),
}


def row(solver: Solver, name: str, is_factor: bool, d: int, budget: int, seeds: int) -> str:
    """The numbers of a solver on a problem."""
    f, start = FUNCTIONS[name]
    truth, bias, covered = [], [], []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        problem = Problem(f, is_factor, np.random.default_rng([seed, d]))
        found = solver(problem, np.full(d, start), budget, seed)
        truth.append(f(found.x))
        bias.append(found.reported - truth[-1])
        covered.append(abs(bias[-1]) <= 2 * found.error)
    low, middle, high = np.quantile(truth, [0.25, 0.5, 0.75])
    share = f", covered {np.mean(covered):.2f}" if np.isfinite(found.error) else ""
    said = f"bias {np.median(bias):8.2g}{share}" if np.isfinite(bias).any() else ""
    return f"true f {middle:8.2g} ({low:.2g} to {high:.2g})  {said}"


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[5, 10])
    given = parser.parse_args()
    for d in given.dimensions:
        for is_factor in (False, True):
            for name in FUNCTIONS:
                for budget in (100 * d, 1000 * d):
                    print(f"\n{name}, d = {d}, {'factor' if is_factor else 'added'}, {budget} evaluations")
                    for label, solver in SOLVERS.items():
                        print(f"  {label:29} {row(solver, name, is_factor, d, budget, given.seeds)}", flush=True)


if __name__ == "__main__":
    main()
