"""How exact curvatures are, and how true their standard errors: the figures of docs/curvature.md, "How good it is".

    python benchmarks/curvature_errors.py [--jobs 2]      (several minutes)

The problems are those of tests/test_curvature.py. e is the largest difference from 1 among the eigenvalues of
H_true⁻¹H.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from scipy.optimize import rosen_hess

import sublevel as sl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the problems are defined among the tests
from helpers.functions import rosenbrock
from test_curvature import (
    TRUTH,
    bowl,
    factor_off,
    logistic,
    logistic_with_minimum,
    noisy_rosenbrock,
    noisy_trial,
    relative,
    shares_with_a_budget,
    turned,
    turned_bowl,
    within_two,
)


def error(found: sl.Curvature, truth: np.ndarray) -> float:
    """e of a curvature."""
    return float(np.max(np.abs(relative(found, truth) - 1.0)))


def ellipsoids(d: int) -> str:
    errors, calls = [], set[int]()
    for condition, height, seed in product((1e6, 1e8, 1e10), (0.0, 100.0), range(3)):
        rng = np.random.default_rng(seed)
        hessian, x = turned(d, condition, rng), rng.standard_normal(d)
        f = bowl(hessian, x, height)
        found = sl.curvature(f, sl.minimize(f, np.zeros(d), 1.0, vectorized=True, rng=seed), vectorized=True)
        errors.append(error(found, hessian))
        calls.add(found.nfev)
    return f"turned ellipsoids, d = {d}: e at most {max(errors):.2g}, evaluations {sorted(calls)}"


def valley(d: int = 10) -> str:
    errors, calls = [], set[int]()
    for seed in range(6):
        found = sl.curvature(
            rosenbrock, sl.minimize(rosenbrock, np.zeros(d), 0.5, vectorized=True, rng=seed), vectorized=True
        )
        errors.append(error(found, rosen_hess(np.ones(d))))
        calls.add(found.nfev)
    return f"Rosenbrock, d = {d}: e at most {max(errors):.2g}, evaluations {sorted(calls)}"


def under_noise(count: int = 200) -> str:
    trials = [noisy_trial(seed) for seed in range(count)]
    errors, calls = [error(*trial) for trial in trials], [found.nfev for found, _ in trials]
    rises = np.sort([found.delta_f for found, _ in trials])
    shares = 100 * np.mean([within_two(*trial) for trial in trials], axis=(0, 2))
    return (
        f"noise 0.01, {count} searches: e at most {max(errors):.2g}, evaluations {np.mean(calls):.0f} on average, at "
        f"most {max(calls)}; rises {rises[0]:.2g} … {rises[-4]:.2g}, the largest three {rises[-3:].round(2).tolist()}; "
        f"within two standard errors {shares[0]:.1f} % of H, {shares[1]:.1f} % of the inverse"
    )


def budget(case: str) -> str:
    make, delta_f = {
        "quadratic": (turned_bowl, None),
        "regression": (logistic_with_minimum, None),
        "one radius": (logistic_with_minimum, 4.0),
    }[case]
    shares = 100 * shares_with_a_budget(make, delta_f)
    return (
        f"noise 0.01, maxfevals=750, {case}: within two standard errors {shares[0]:.1f} % of H, {shares[1]:.1f} % "
        f"of the inverse"
    )


def coverage(count: int = 500) -> str:
    covered = []
    for seed in range(count):
        nll, _ = logistic(seed)
        found = sl.curvature(
            nll, sl.minimize(nll, np.zeros(4), 1.0, vectorized=True, rng=seed), kind="nll", vectorized=True
        )
        covered.append(
            [(low < TRUTH) & (high > TRUTH) for low, high in (found.intervals(level).T for level in (0.68, 0.95))]
        )
    narrow, wide = 100 * np.mean(covered, axis=(0, 2))
    return f"logistic regression, {count} data sets: nominal 68 % cover {narrow:.1f} %, 95 % cover {wide:.1f} %"


def noisy_valley(count: int = 40) -> str:
    found = [sl.curvature(*noisy_rosenbrock(seed, 1e-2), vectorized=True) for seed in range(count)]
    off = np.array([factor_off(one, rosen_hess(np.ones(5))) for one in found])
    good = np.array([one.success for one in found])
    return (
        f"Rosenbrock, d = 5, noise 0.01, {count} searches: off by {np.median(off):.3g} in the median; "
        f"{np.count_nonzero(~good)} with a warning; of the others the worst off by {np.max(off[good], initial=1.0):.3g}"
    )


TASKS: list[tuple[Callable[..., str], tuple[object, ...]]] = [
    *((ellipsoids, (d,)) for d in (5, 10, 20)),
    (valley, ()),
    (noisy_valley, ()),
    (coverage, ()),
    (under_noise, ()),
    *((budget, (case,)) for case in ("quadratic", "regression", "one radius")),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    with ProcessPoolExecutor(parser.parse_args().jobs, mp_context=get_context("spawn")) as pool:
        for line in [pool.submit(task, *given) for task, given in TASKS]:
            print(line.result(), flush=True)


if __name__ == "__main__":
    main()
