"""A sharded run on local Dask workers against the same run in one process, measured side by side in one run.

    python benchmarks/sharded.py [--popsize 1000000] [--dimension 50] [--workers 2] [--shards 8] [--repeats 5] [--model]

Prints the seconds of a generation with each method, their ratio, where the time of a generation goes, and what the driver's memory did.
With --model, generations of several sizes are measured and what they cost per point, per point and dimension, and per shard is fitted.
Every process has one BLAS thread. The cluster listens on the loopback interface only.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from distributed import Client, LocalCluster

import sublevel as sl
from sublevel import sharded

SIZES = [(20_000, 50, 2), (200_000, 50, 4), (200_000, 50, 32), (500_000, 20, 4), (500_000, 50, 8), (1_000_000, 20, 8), (100_000, 200, 8)]
"""Points, variables and shards of the generations that the model is fitted to."""
COSTS = ("fixed", "per point", "per point and variable", "per point and variable²", "per shard")
LOOPBACK = "127.0.0.1:0"


def ellipsoid(points: np.ndarray) -> np.ndarray:
    return np.square(points) @ np.logspace(0, 4, points.shape[1])


class Clock:
    """Seconds between the generations of a run, the first of which is left out: it imports and starts."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, intermediate_result: object) -> None:
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        return float(np.median(np.diff(self.times)))


def generation_seconds(workers: object, method: str, n: int, d: int, shards: int, generations: int) -> tuple[float, bytes]:
    """Median seconds of a generation, and the bits of the mean in the end."""
    clock = Clock()
    result = sl.minimize_sharded(
        ellipsoid, np.ones(d), 0.5, popsize=n, shards=shards, workers=workers, method=method, rng=1, maxiter=generations + 1, callback=clock
    )
    return clock.seconds, result.mean.tobytes()


def driver_seconds(n: int, d: int, method: str) -> float:
    """What the driver does alone: ranks, weights, and the step."""
    optimizer = sl.Optimizer(np.ones(d), 0.5, popsize=n, method=method, rng=1)
    rng = np.random.default_rng(1)
    values, squares = rng.standard_normal(n), rng.chisquare(d, n)
    began = time.perf_counter()
    ranks = sharded.ranking(values)
    optimizer.method.weights(ranks, sharded.Whereabouts.of(squares, d))
    return time.perf_counter() - began


def compare(client: Client, n: int, d: int, shards: int, repeats: int) -> None:
    print(f"n = {n}, d = {d}, {shards} shards, {len(client.scheduler_info()['workers'])} workers; seconds per generation")
    print(f"{'method':8} {'alone':>8} {'sharded':>8} {'ratio':>6} {'driver':>7}  same bits")
    for method in ("ngd", "rank-mu", "cma"):
        alone, together, bits = [], [], set()
        for _ in range(repeats):
            for workers, seconds in ((1, alone), (client, together)):
                took, mean = generation_seconds(workers, method, n, d, shards, 3)
                seconds.append(took)
                bits.add(mean)
        a, b = np.median(alone), np.median(together)
        print(f"{method:8} {a:8.3f} {b:8.3f} {b / a:6.2f} {driver_seconds(n, d, method):7.3f}  {len(bits) == 1}")


def driver_memory(client: Client, shards: int) -> None:
    """Peak memory of this process for the same n and growing d: flat, because no point is ever here."""
    print("peak memory of the driver")
    for d in (10, 50, 200):
        sl.minimize_sharded(ellipsoid, np.ones(d), 0.5, popsize=200_000, shards=shards, workers=client, method="ngd", rng=1, maxiter=2)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"n = 200000, d = {d:3}: {peak:6.0f} MB (points: {200_000 * d * 8 / 1e6:5.0f} MB)")


def fitted_model(client: Client, method: str = "ngd") -> None:
    """Seconds = a + b·n + c·n·d/workers + e·shards·d², fitted to generations of several sizes."""
    workers = len(client.scheduler_info()["workers"])
    rows, seconds = [], []
    for n, d, shards in [
        (20_000, 50, 2),
        (200_000, 50, 4),
        (200_000, 50, 32),
        (500_000, 20, 4),
        (500_000, 50, 8),
        (1_000_000, 20, 8),
        (100_000, 200, 8),
    ]:
        took, _ = generation_seconds(client, method, n, d, shards, 4)
        rows.append([1.0, n, n * d / workers, n * d * d / workers, shards])
        seconds.append(took)
        print(f"n = {n:8}, d = {d:3}, {shards:2} shards: {took:.3f} s")
    A, y = np.array(rows), np.array(seconds)
    from scipy.optimize import nnls

    coefficients, _ = nnls(A / y[:, None], np.ones_like(y))  # relative errors
    for name, value in zip(
        ("fixed", "per point", "per point and variable", "per point and variable²", "per shard"), coefficients, strict=True
    ):
        print(f"{name:24} {value:.3g} s")
    print("relative errors", np.round(A @ coefficients / y - 1, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("popsize", 1_000_000), ("dimension", 50), ("workers", 2), ("shards", 8), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    with (
        LocalCluster(
            n_workers=given.workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=LOOPBACK,
            worker_dashboard_address=LOOPBACK,
        ) as cluster,
        Client(cluster) as client,
    ):
        driver_memory(client, given.shards)
        compare(client, given.popsize, given.dimension, given.shards, given.repeats)
        if given.model:
            fitted_model(client)


if __name__ == "__main__":
    main()
