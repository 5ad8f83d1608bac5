"""What one setting of the reproduction costs over the arithmetic it cannot do without.

    python benchmarks/reproduction.py [--repeats 5]

Figure 1's n = d³, c_C = 0.1 (d = 20), a chunk of trials to its end as `sublevel reproduce` runs it, curves and checks
included, over drawing the same normals, the sampling product, the moment product and the objective alone: target ≤ 1.6.
Both sides in one process with one thread, interleaved, medians; below, where the time goes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from sublevel.paper.runner import ENVIRONMENT

if any(
    os.environ.get(name) != value for name, value in ENVIRONMENT.items()
):  # what a worker has; it is only read at the start
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})

import numpy as np

from sublevel.engine.tangent import weighted_moment
from sublevel.paper.figures.compute import Chunk, chunks
from sublevel.paper.figures.config import Setting, hessian_diagonal
from sublevel.paper.streams import SEED

SETTING = Setting("ngd", 8000, 0.1, 0.0)
TARGET = 1.6
PARTS = ("normals", "sampling", "objective", "moment")


def alone(chunk: Chunk, iterations: int, parts: Sequence[str] = PARTS) -> Callable[[], object]:
    """The arithmetic alone, or some of it."""
    setting, hessian = chunk.setting, hessian_diagonal(chunk.setting.d)
    root = np.linalg.qr(np.random.default_rng(1).standard_normal((chunk.count, setting.d, setting.d)))[0]
    weights = np.random.default_rng(2).standard_normal((chunk.count, setting.n)) / setting.n
    shape = (chunk.count, setting.n, setting.d)

    def run() -> object:
        noise = setting.streams(chunk.seed, chunk.first, chunk.count)
        z = x = noise.standard_normal(shape)
        for _ in range(iterations):
            z = noise.standard_normal(shape) if "normals" in parts else z
            x = z @ root.mT if "sampling" in parts else x
            if "objective" in parts:
                np.square(x) @ hessian
            if "moment" in parts:
                weighted_moment(z, weights)
        return x

    return run


def seconds(run: Callable[[], object]) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    chunk = chunks(SETTING, SEED, 50)[0]
    iterations = int(np.max(chunk.compute()["iterations"]))  # also warms up
    sides = {
        "as reproduced": chunk.compute,
        "arithmetic alone": alone(chunk, iterations),
        **{f"  {part}": alone(chunk, iterations, (part,)) for part in PARTS},
    }
    times = {name: np.empty(repeats) for name in sides}
    for repeat in range(repeats):
        for name, run in sides.items():
            times[name][repeat] = seconds(run)
    print(
        f"{SETTING.key}, {chunk.count} trials to the target in {iterations} iterations; ms per trial and iteration, "
        f"medians of {repeats}"
    )
    for name, values in times.items():
        print(f"{name:<20}{1e3 * float(np.median(values)) / iterations / chunk.count:8.3f}")
    ratio = float(np.median(times["as reproduced"] / times["arithmetic alone"]))
    print(f"ratio {ratio:.2f} (target ≤ {TARGET}): {'met' if ratio <= TARGET else 'NOT MET'}")


if __name__ == "__main__":
    main()
