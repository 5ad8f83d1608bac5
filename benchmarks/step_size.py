"""Evaluations of CMA-ES with each step-size rule: the table in docs/methods.md.

    python benchmarks/step_size.py [--seeds 11]      (about two minutes)

Median number of evaluations until a value at or below 1e-10 is found, with the default population and σ0 = 0.5. Runs
start at (1, …, 1), on Rosenbrock's function at (0, …, 0). Medians are taken over the runs that reach the target; their
share is printed if it is below 100 %. Evaluations do not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl
from sublevel.engine.transforms.step_size import STEP_SIZES

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the test functions
from helpers.functions import ellipsoid, rosenbrock, sphere

TARGET, SIGMA0, BUDGET, DIMENSIONS = 1e-10, 0.5, 20_000, (5, 20)
FUNCTIONS = {
    "sphere": (sphere, 1.0),
    "ellipsoid, condition number 1e6": (ellipsoid, 1.0),
    "Rosenbrock": (rosenbrock, 0.0),
}


def evaluations(rule: str, name: str, d: int, seed: int) -> float:
    """Evaluations until the target is reached; NaN if it is not within `BUDGET` per variable."""
    fun, x0 = FUNCTIONS[name]
    settings = {"method": sl.cma(step_size=rule), "vectorized": True, "rng": seed, "evaluate_x0": False}
    result = sl.minimize(fun, np.full(d, x0), SIGMA0, ftarget=TARGET, maxfevals=BUDGET * d, **settings)
    return result.nfev if result.fun <= TARGET else np.nan


def cell(rule: str, name: str, d: int, seeds: int) -> str:
    """The median over the runs that reach the target, and their share."""
    counts = np.array([evaluations(rule, name, d, seed) for seed in range(seeds)])
    share = float(np.mean(np.isfinite(counts)))
    if share == 0:
        return "—"
    return f"{np.nanmedian(counts):.0f}" + (f" ({100 * share:.0f} %)" if share < 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=11)
    seeds = parser.parse_args().seeds
    print("| function | d |" + "".join(f' `"{rule}"` |' for rule in STEP_SIZES))
    print("|---|---|" + "---|" * len(STEP_SIZES))
    for name in FUNCTIONS:
        for d in DIMENSIONS:
            print(f"| {name} | {d} |" + "".join(f" {cell(rule, name, d, seeds)} |" for rule in STEP_SIZES), flush=True)


if __name__ == "__main__":
    main()
