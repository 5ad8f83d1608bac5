"""Noisy objectives at small budgets: the gap of the answer of `noise=True` to the optimum, relative to other methods.

    python benchmarks/noise_budget.py --instances 61-72      # about 15 min

Twelve functions of bbob in 5 variables, whose distance from the optimal value has noise: a factor exp(N(0, 1)), or
N(0, 1) that is added. Each run starts at a point uniform in [−4, 4]ᵈ with σ0 = 2 and has a budget of 50, 100, 300 or
1000 evaluations per variable. Its gap is the exact value at the answer less the optimal value, at least 1e-8. All
methods have the same problems, starts, seeds and noise. For each budget the table shows the geometric mean of the gaps
of `noise=True`, divided by that of each other method, with an interval of 95 % by resampling the instances of each
function. `better` is the method with the smaller geometric mean of `"cma"` without noise handling and `"lra-cma"`, the
adaptation of learning rates as in its paper. The functions are those of the package `cma`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from typing import Any, NamedTuple

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from cma import bbobbenchmarks

import sublevel as sl

FUNCTIONS = (1, 2, 6, 7, 8, 10, 11, 12, 13, 14, 15, 21)
BUDGETS = (50, 100, 300, 1000)
KINDS = ("factor", "added")
SETTINGS: dict[str, dict[str, Any]] = {
    "noise=True": {"noise": True},
    '"cma"': {"evaluate_x0": False},  # so that all have the same noise
    '"lra-cma"': {"noise": True, "method": "lra-cma"},
}
REFERENCES = ('"cma"', '"lra-cma"')
LEAST_GAP = 1e-8
RESAMPLES = 2000


@cache
def bbob(function: int, instance: int) -> tuple[Any, float]:
    """A function and its optimal value."""
    return bbobbenchmarks.instantiate(function, instance)


class Case(NamedTuple):
    """A run."""

    function: int
    instance: int
    kind: str
    d: int
    budget: int  # evaluations per variable
    setting: str

    def gap(self) -> float:
        """The exact value at the answer less the optimal value."""
        warnings.simplefilter("ignore")
        f, optimum = bbob(self.function, self.instance)
        key = [self.function, self.instance, self.d]
        x0 = np.random.default_rng([*key, 1]).uniform(-4, 4, self.d)
        noise = np.random.default_rng([*key, 2])

        def fun(points: np.ndarray) -> np.ndarray:
            gaps, draws = f(points) - optimum, noise.standard_normal(len(points))
            return gaps * np.exp(draws) if self.kind == "factor" else gaps + draws

        given = SETTINGS[self.setting]
        result = sl.minimize(
            fun, x0, 2.0, vectorized=True, maxfevals=self.budget * self.d, rng=np.random.default_rng(key), **given
        )
        return max(float(f(result.x[None])[0]) - optimum, LEAST_GAP)


def gap(case: Case) -> float:
    """The gap of a run."""
    return case.gap()


def compared(gaps: np.ndarray, others: np.ndarray) -> str:
    """The ratio of the geometric means of gaps (functions, instances), with an interval."""
    logs = np.log(gaps / others)
    rng, (functions, instances) = np.random.default_rng(1), logs.shape
    drawn = rng.integers(instances, size=(RESAMPLES, functions, instances))
    means = np.take_along_axis(np.broadcast_to(logs, drawn.shape), drawn, axis=2).mean(axis=(1, 2))
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return f"{np.exp(logs.mean()):.2g} [{low:.2g}, {high:.2g}]"


def numbers(text: str) -> list[int]:
    """Numbers and ranges, such as 1-3,7."""
    ends = [part.split("-") for part in text.split(",")]
    return [number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=numbers, default="61-72")
    parser.add_argument("--functions", type=numbers, default=list(FUNCTIONS))
    parser.add_argument("--budgets", type=numbers, default=list(BUDGETS))
    parser.add_argument("--d", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    axes = given.functions, given.instances, KINDS, [given.d], given.budgets, list(SETTINGS)
    with ProcessPoolExecutor(given.jobs) as pool:
        gaps = np.array(list(pool.map(gap, [Case(*case) for case in product(*axes)], chunksize=8)))
    gaps = gaps.reshape([len(axis) for axis in axes])[:, :, :, 0]
    names = list(SETTINGS)
    ours, others = gaps[..., 0], {name: gaps[..., i] for i, name in enumerate(names) if i > 0}
    print("noise, evaluations, gap of noise=True (geometric mean), relative to: better | " + " | ".join(others))
    for (k, kind), (b, budget) in product(enumerate(KINDS), enumerate(given.budgets)):
        mine, rest = ours[:, :, k, b], {name: other[:, :, k, b] for name, other in others.items()}
        better = min((rest[name] for name in REFERENCES), key=lambda other: np.log(other).mean())
        columns = " | ".join(compared(mine, other) for other in (better, *rest.values()))
        print(f"{kind}, {budget}·d, {np.exp(np.log(mine).mean()):.2g}: {columns}", flush=True)


if __name__ == "__main__":
    main()
