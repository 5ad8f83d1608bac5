"""What storing costs, and how fast a stored run opens, measured side by side in one run with one thread.

    OPENBLAS_NUM_THREADS=1 python benchmarks/durable.py [--repeats 5] [--folder DIR]

1. Milliseconds per iteration that `minimize(store=...)` takes more than `minimize`, medians over interleaved repeats,
   for objectives that take no time, called point by point and batched. Wall time and CPU time.
2. The part of the wall time spent on storing when the objective takes 100 ms, from the beginning of the run to its end,
   and without creating and closing the file, which a run does once.
3. How many times as long a run takes that is stored, for an objective that takes no time, by sample size and number of
   variables: medians of the ratios to the plain runs directly before and after, from the beginning of the run to its
   end, and the bytes of the file for each evaluation.
4. Seconds to load, and to resume, a run of 10⁶ evaluations.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl
from sublevel.store.recorder import Recorder


def sphere(points: np.ndarray) -> np.ndarray:
    return np.sum(np.square(points), axis=-1)


def timed(run: Callable[[], sl.Result]) -> tuple[np.ndarray, sl.Result]:
    """Wall and CPU seconds, and the result."""
    before = time.perf_counter(), time.process_time()
    result = run()
    return np.array([time.perf_counter(), time.process_time()]) - before, result


def extra_per_iteration(folder: Path, d: int, vectorized: bool, iterations: int, repeats: int) -> np.ndarray:
    """Milliseconds per iteration (wall, CPU) that storing adds."""
    differences = []
    for repeat in range(repeats):
        settings = {
            "rng": repeat,
            "maxiter": iterations,
            "ftarget": -1.0,
            "vectorized": vectorized,
            "restarts": sl.IPOP(10**6, 1.0),
        }
        plain, result = timed(lambda s=settings: sl.minimize(sphere, np.ones(d), 0.5, **s))
        file = folder / f"{d}-{vectorized}-{repeat}.db"
        stored, again = timed(lambda s=settings, f=file: sl.minimize(sphere, np.ones(d), 0.5, **s, store=f))
        assert again.x.tobytes() == result.x.tobytes()
        differences.append(1e3 * (stored - plain) / result.nit)
    return np.median(differences, axis=0)


SIZES = {  # popsize: d, method, generations
    8: (10, "cma", 10_000),
    30: (10, "cma", 8000),
    100: (10, "cma", 5000),
    300: (10, "cma", 4000),
    1000: (10, "cma", 3000),
    3000: (10, "cma", 1000),
    10_000: (10, "cma", 300),
    50_000: (10, "cma", 40),
    1_000_000: (10, "cma", 5),
    None: (100_000, "sep-cma", 20),
}
"""Runs whose time is compared with and without a file; None is the default sample size, evaluated point by point."""


def ratio_of_times(folder: Path, popsize: int | None, repeats: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Seconds without a file, and stored over plain, each (wall, CPU); and bytes of the file for each evaluation.

    Each stored run is compared with the mean of the plain ones directly before and after it.
    """
    d, method, iterations = SIZES[popsize]
    settings = {"maxiter": iterations, "maxfevals": 1e9, "ftarget": -1.0, "vectorized": popsize is not None}
    settings |= {"popsize": popsize, "method": method, "restarts": sl.IPOP(10**6, 1.0)}

    def run(**more: Any) -> tuple[np.ndarray, sl.Result]:
        return timed(lambda: sl.minimize(sphere, np.zeros(d), 0.3, **settings, **more))

    plain, stored, size = [run(rng=0)[0]], [], 0.0
    for repeat in range(repeats):
        file = folder / f"{popsize}-{repeat}.db"
        seconds, result = run(rng=repeat, store=file)
        stored.append(seconds)
        size = file.stat().st_size / result.nfev
        file.unlink()
        plain.append(run(rng=repeat)[0])
    around = 0.5 * (np.array(plain[:-1]) + plain[1:])
    return np.median(plain, axis=0), np.median(stored / around, axis=0), size


def share_of_storing(folder: Path, seconds: float, evaluations: int) -> tuple[float, float]:
    """Part of the wall time in the recorder when the objective takes `seconds`: with and without the file's creation
    and end.
    """
    spent = dict.fromkeys(("recall_values", "add_values", "end_generation", "close"), 0.0)
    originals = {name: getattr(Recorder, name) for name in spent}

    def counted(name: str) -> Callable[..., object]:
        def method(*arguments: object) -> object:
            began = time.perf_counter()
            try:
                return originals[name](*arguments)
            finally:
                spent[name] += time.perf_counter() - began

        return method

    def fun(x: np.ndarray) -> float:
        time.sleep(seconds)
        return float(sphere(x))

    for name in spent:
        setattr(Recorder, name, counted(name))
    began = time.perf_counter()
    sl.minimize(fun, np.ones(10), 0.5, rng=1, maxfevals=evaluations, store=folder / "slow.db")
    whole = time.perf_counter() - began
    for name, original in originals.items():
        setattr(Recorder, name, original)
    return (whole - evaluations * seconds) / whole, (sum(spent.values()) - spent["close"]) / whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary directory)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        print("| d | objective | ms per iteration more, wall | CPU |\n|---|---|---|---|")
        for d, iterations in ((2, 2000), (10, 2000), (40, 1000), (100, 500)):
            for vectorized in (True, False):
                wall, cpu = extra_per_iteration(folder, d, vectorized, iterations, given.repeats)
                print(f"| {d} | {'batched' if vectorized else 'point by point'} | {wall:.3f} | {cpu:.3f} |", flush=True)
        with_ends, without = share_of_storing(folder, 0.1, 100)
        print(
            f"\nobjective of 100 ms: storing takes {100 * without:.2f} % of the time; all that is not the objective "
            f"{100 * with_ends:.2f} %"
        )
        print(
            "\n| popsize | d | plain, s | stored / plain, wall | CPU | bytes per evaluation "
            "|\n|---|---|---|---|---|---|"
        )
        for popsize, (d, _, _) in SIZES.items():
            plain, ratio, size = ratio_of_times(folder, popsize, given.repeats)
            words = "default, point by point" if popsize is None else f"{popsize}"
            print(f"| {words} | {d} | {plain[0]:.2f} | {ratio[0]:.2f} | {ratio[1]:.2f} | {size:.0f} |", flush=True)
        print()
        file = folder / "large.db"
        settings = {
            "rng": 1,
            "maxfevals": 1_000_000,
            "ftarget": -1.0,
            "vectorized": True,
            "popsize": 10,
            "restarts": sl.IPOP(10**6, 1.0),
        }
        sl.minimize(sphere, np.ones(10), 0.5, **settings, store=file)
        (wall, cpu), run = timed(lambda: sl.load(file))
        print(
            f"{run.values.size} evaluations of 10 variables, {file.stat().st_size / 1e6:.0f} MB: loaded in {wall:.2f} "
            f"s (CPU {cpu:.2f} s)"
        )
        (wall, cpu), _ = timed(lambda: sl.resume(file, sphere))
        print(f"resumed, which checks every page and row and writes the end again, in {wall:.2f} s (CPU {cpu:.2f} s)")


if __name__ == "__main__":
    main()
