"""A sharded run on local Dask workers against the same run in one process, measured side by side in one run.

    python benchmarks/sharded.py [--popsize 1000000] [--dimension 50] [--workers 2] [--shards 8] [--repeats 5] [--model]

Prints the peak memory of the driver for growing d; the seconds of a generation alone and on the cluster, with their
ratio; and, with --model, what the parts of a generation cost, how well they add up to whole generations, and what they
say of larger clusters. Every process has one BLAS thread. The cluster listens on the loopback interface only.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from distributed import Client, LocalCluster
from scipy.optimize import nnls

import sublevel as sl
from sublevel.evaluation import dask_backend, sharded

LOOPBACK = "127.0.0.1:0"
METHODS = ("ngd", "rank-mu", "cma")
CHECKED = [
    (50_000, 50, 4),
    (200_000, 50, 4),
    (200_000, 50, 32),
    (500_000, 20, 8),
    (1_000_000, 50, 8),
    (100_000, 200, 8),
]
"""Points, variables and shards of the generations that the model has to predict."""
FORESEEN = [(2, 10**6), (10, 10**7), (100, 10**8), (1000, 10**8), (1000, 10**9)]
"""Workers and points of the generations that nobody has seen."""


def ellipsoid(points: np.ndarray) -> np.ndarray:
    return np.square(points) @ np.logspace(0, 4, points.shape[1])


def seconds_of(call: Callable[[], object], repeats: int = 3) -> float:
    """The least of some times: what is beyond it is somebody else's."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def generation_seconds(
    workers: object, method: str, n: int, d: int, shards: int, generations: int
) -> tuple[list[float], bytes]:
    """Seconds of generations after the first, which imports and starts, and the bits of the mean in the end."""
    ends: list[float] = []
    result = sl.minimize_sharded(
        ellipsoid,
        np.ones(d),
        0.5,
        popsize=n,
        shards=shards,
        workers=workers,
        method=method,
        rng=1,
        maxiter=generations + 1,
        callback=lambda _: ends.append(time.perf_counter()),
    )
    return list(np.diff(ends)), result.mean.tobytes()


def show_memory(client: Client, shards: int) -> None:
    """Peak memory of this process for the same n and growing d: flat, because no point is ever here."""
    print("peak memory of the driver")
    for d in (10, 50, 200):
        sl.minimize_sharded(
            ellipsoid, np.ones(d), 0.5, popsize=200_000, shards=shards, workers=client, method="ngd", rng=1, maxiter=3
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  n = 200000, d = {d:3}: {peak:5.0f} MB (the points are {200_000 * d * 8 / 1e6:.0f} MB)")


def processor_seconds(workers: object) -> tuple[float, float]:
    """Processor time of this process, and of the busiest worker, so far."""
    return time.process_time(), max(workers.run(time.process_time).values()) if isinstance(workers, Client) else 0.0


def show_ratios(client: Client, n: int, d: int, shards: int, repeats: int) -> None:
    """Generations alone and on the cluster, taking turns; and their processor time, which others on this machine do not
    change.
    """
    count = len(client.scheduler_info()["workers"])
    print(
        f"\nseconds per generation, n = {n}, d = {d}, {shards} shards, {count} workers: medians of {3 * repeats}, "
        "alone and together"
    )
    for method in METHODS:
        wall, busy, bits = (
            {"alone": list[float](), "together": list[float]()},
            {"alone": np.zeros(2), "together": np.zeros(2)},
            set[bytes](),
        )
        for _ in range(repeats):
            for who, workers in (("alone", 1), ("together", client)):
                before = processor_seconds(workers)
                took, mean = generation_seconds(workers, method, n, d, shards, 3)
                wall[who] += took
                busy[who] += np.subtract(processor_seconds(workers), before) / (4 * repeats)
                bits.add(mean)
        a, b = np.median(wall["alone"]), np.median(wall["together"])
        same = "the same bits" if len(bits) == 1 else "OTHER BITS"
        print(
            f"  {method:8} {a:7.3f} {b:7.3f}  ratio {b / a:.2f} (of the least: "
            f"{min(wall['together']) / min(wall['alone']):.2f}), {same}"
        )
        (alone, _), (driver, worker) = busy["alone"], busy["together"]
        path = (driver + worker) / alone
        print(
            f"    processor time: alone {alone:.3f}; driver {driver:.3f}, busiest worker {worker:.3f}; their sum over "
            f"alone {path:.2f}"
        )


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a generation take."""

    per_number: float  # drawn and evaluated, on a worker: n·d of them
    per_product: float  # of matrices, on a worker: n·d² of them
    per_point: float  # ranked and weighted by the driver
    per_task: float  # two for each shard, by the scheduler
    per_byte: float  # of values, squares, weights and matrices, through the driver

    def parts(self, n: int, d: int, shards: int, workers: int) -> dict[str, float]:
        """Seconds of a generation, by where they go."""
        return {
            "shards": (self.per_number * n * d + self.per_product * n * d * d) / workers,
            "driver": self.per_point * n,
            "traffic": self.per_byte * (24 * n + 16 * shards * d * (d + 1)),
            "tasks": self.per_task * 2 * shards,
        }


def work_seconds(n: int, d: int) -> float:
    """Both tasks of one shard of n points, here."""
    optimizer = sl.Optimizer(np.ones(d), 0.5, method="ngd", popsize=n, rng=1)
    shard, weights = sharded.Shard((1,), 0, 0, 0, n, d), np.full(n, 1.0 / n)

    def both() -> None:
        sharded.evaluate_shard(ellipsoid, None, optimizer.theta, True, shard)
        sharded.sum_shard(shard, weights, None)

    return seconds_of(both)


def driver_seconds(n: int) -> float:
    """Ranks and weights of n points, with the volume rule, which takes longest."""
    rng = np.random.default_rng(1)
    values, squares = rng.standard_normal(n), rng.chisquare(50, n)
    weights = sl.ngd().weights
    return seconds_of(lambda: weights(sharded.ranking(values), sharded.RemoteSample.of(squares, n, 50)))


def task_seconds(client: Client, count: int, size: int, serial: list[int]) -> float:
    """`count` tasks that take and return `size` numbers each."""

    def once() -> None:
        serial[0] += 1
        numbers = np.zeros(size)
        names = [f"cost-{serial[0]}-{k}" for k in range(count)]
        dask_backend.run_calls(client, np.negative, [(numbers,)] * count, names, [""] * count)

    return seconds_of(once)


def measured_costs(client: Client) -> Costs:
    """Each part alone."""
    serial = [0]
    sizes = [(125_000, 10), (125_000, 50), (60_000, 100), (30_000, 200)]
    seconds = np.array([work_seconds(n, d) for n, d in sizes])
    work, _ = nnls(np.array([[n * d, n * d * d] for n, d in sizes]) / seconds[:, None], np.ones(len(sizes)))
    few, many = (task_seconds(client, count, 1, serial) for count in (8, 128))
    small, large = (task_seconds(client, 8, size, serial) for size in (1, 250_000))
    return Costs(
        work[0],
        work[1],
        driver_seconds(10**6) / 10**6,
        (many - few) / 120,
        max(large - small, 0.0) / (2 * 8 * 8 * 250_000),
    )


def show_model(client: Client) -> None:
    """What the parts cost, whether they add up, and what they say of larger clusters."""
    costs, workers = measured_costs(client), len(client.scheduler_info()["workers"])
    print(
        "\ncosts in ns: "
        + ", ".join(f"{name.replace('_', ' ')} {1e9 * value:.3g}" for name, value in vars(costs).items())
    )
    print("whole generations of ngd: measured (least of 6), and the sum of the parts")
    for n, d, shards in CHECKED:
        took, _ = generation_seconds(client, "ngd", n, d, shards, 6)
        print(
            f"  n = {n:7}, d = {d:3}, {shards:2} shards: {min(took):6.3f} "
            f"{sum(costs.parts(n, d, shards, workers).values()):6.3f}"
        )
    print("foreseen seconds of a generation, d = 50, two shards for each worker")
    for count, n in FORESEEN:
        parts = costs.parts(n, 50, 2 * count, count)
        shown = ", ".join(f"{name} {value:.3g}" for name, value in parts.items())
        print(f"  {count:4} workers, n = {n:.0e}: {sum(parts.values()):7.3g} = {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("popsize", 1_000_000), ("dimension", 50), ("workers", 2), ("shards", 8), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    where = {"host": "127.0.0.1", "dashboard_address": LOOPBACK, "worker_dashboard_address": LOOPBACK}
    with LocalCluster(n_workers=given.workers, threads_per_worker=1, **where) as local, Client(local) as client:
        show_memory(client, given.shards)
        show_ratios(client, given.popsize, given.dimension, given.shards, given.repeats)
        if given.model:
            show_model(client)


if __name__ == "__main__":
    main()
