"""Integers that are strongly coupled to real variables: how often one run ends at a neighbouring integer.

    python benchmarks/coupled_integers.py
    python benchmarks/coupled_integers.py --seeds 100:140

Quadratic functions with turned axes and Cond(H) = 100; some variables are integers, and the minimum is at integers.
With other integers the best values of the real variables are others too: once these have converged, no neighbouring
integer alone is better. Printed: runs that find the minimum, and mean evaluations of all runs, which end by themselves.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

CONDITION, TARGET, BOUND, BUDGET = 100.0, 1e-8, 10, 20_000
SIZES = {(4, 2): "4 variables, 2 integers", (6, 3): "6 variables, 3 integers", (10, 2): "10 variables, 2 integers"}
OPTIONS: dict[str, dict[str, Any]] = {"default": {}, "popsize 20": {"popsize": 20}, "ipop": {"restarts": "ipop"}}


def run(d: int, integers: int, seed: int, **options: Any) -> tuple[bool, int]:
    """Whether the minimum is found, and evaluations."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    hessian = turn * CONDITION ** np.linspace(0, 1, d) @ turn.T
    answer = rng.uniform(-BOUND / 2, BOUND / 2, d)
    answer[:integers] = np.rint(answer[:integers])
    result = sl.minimize(
        lambda x: float((x - answer) @ hessian @ (x - answer)),
        rng.uniform(-0.8 * BOUND, 0.8 * BOUND, d),
        0.4 * BOUND,
        integrality=np.arange(d) < integers,
        bounds=(-BOUND, BOUND),
        rng=seed,
        maxfevals=BUDGET,
        ftarget=TARGET,
        **options,
    )
    return bool(result.fun <= TARGET), result.nfev


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:40", help="first:end")
    seeds = range(*map(int, parser.parse_args().seeds.split(":")))
    print(f"{'':26}" + "".join(f"{name:>16}" for name in OPTIONS))
    for (d, integers), title in SIZES.items():
        cells: list[str] = []
        for options in OPTIONS.values():
            found, spent = zip(*(run(d, integers, seed, **options) for seed in seeds), strict=True)
            cells.append(f"{sum(found)}/{len(found)} {np.mean(spent):6.0f}")
        print(f"{title:26}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
