"""Evaluations of CMA-ES with each sampling: the table in docs/methods.md.

    python benchmarks/sampling.py [--method xnes] [--dims 5,10,20] [--seeds 100:121]      (about three minutes)

Median number of evaluations until a value at or below 1e-8 is found, with the default population and σ0 = 0.5. Runs
start at (1, …, 1), on Rosenbrock's function at (0, …, 0). Medians are taken over the runs that reach the target; their
share is printed if it is below 100 %. The last rows are geometric means of the ratios to independent points, with an
interval of 95 % by resampling the seeds. Evaluations do not depend on the load of the machine.
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
from sublevel.engine.sampling import SAMPLINGS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the test functions
from helpers.functions import UNIMODAL

TARGET, SIGMA0, BUDGET, DRAWS = 1e-8, 0.5, 20_000, 1000


RECIPES = {"cma": sl.cma, "xnes": sl.xnes}


def evaluations(recipe: str, sampling: str, name: str, d: int, seed: int) -> float:
    """Evaluations until the target is reached; NaN if it is not within `BUDGET` per variable."""
    x0 = np.zeros(d) if name == "Rosenbrock" else np.ones(d)
    settings = {"method": RECIPES[recipe](sampling=sampling), "vectorized": True, "rng": seed, "evaluate_x0": False}
    result = sl.minimize(UNIMODAL[name], x0, SIGMA0, ftarget=TARGET, maxfevals=BUDGET * d, **settings)
    return result.nfev if result.fun <= TARGET else np.nan


def cell(counts: np.ndarray) -> str:
    """The median over the runs that reach the target, and their share."""
    share = float(np.mean(np.isfinite(counts)))
    if share == 0:
        return "—"
    return f"{np.nanmedian(counts):.0f}" + (f" ({100 * share:.0f} %)" if share < 1 else "")


def mean_ratio(table: np.ndarray) -> np.ndarray:
    """Geometric means over the functions of the medians of counts (functions, samplings, seeds) over the first one."""
    medians = np.nanmedian(table, axis=-1)
    return np.exp(np.mean(np.log(medians / medians[:, :1]), axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=RECIPES, default="cma")
    parser.add_argument("--dims", default="5,10,20")
    parser.add_argument("--seeds", default="100:121", help="first and end, such as 100:121")
    arguments = parser.parse_args()
    first, end = map(int, arguments.seeds.split(":"))
    print("| function | d |" + "".join(f' `"{name}"` |' for name in SAMPLINGS))
    print("|---|---|" + "---|" * len(SAMPLINGS))
    for d in map(int, arguments.dims.split(",")):
        table = np.full((len(UNIMODAL), len(SAMPLINGS), end - first), np.nan)
        for row, function in zip(table, UNIMODAL, strict=True):
            for index, seed in enumerate(range(first, end)):
                row[:, index] = [evaluations(arguments.method, sampling, function, d, seed) for sampling in SAMPLINGS]
            print(f"| {function} | {d} |" + "".join(f" {cell(counts)} |" for counts in row), flush=True)
        rng = np.random.default_rng(1)
        draws = [mean_ratio(table[..., rng.integers(end - first, size=end - first)]) for _ in range(DRAWS)]
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        ratios = zip(mean_ratio(table), low, high, strict=True)
        print(f"| mean ratio | {d} |" + "".join(f" {mid:.2f} [{a:.2f}, {b:.2f}] |" for mid, a, b in ratios), flush=True)


if __name__ == "__main__":
    main()
