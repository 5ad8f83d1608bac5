"""A million iterations: does memory grow, does it slow down?

    OPENBLAS_NUM_THREADS=1 python benchmarks/soak.py [--iterations 1000000] [--store FILE]

`minimize` with d = 10, n = 10 and a batched objective, an ellipsoid of condition number 1e6, whose runs converge and
begin anew, with all that `minimize` does: histories, reasons to stop, restarts. A restart is remembered, with why the
run before it ended: some 400 bytes each. Then one single run by `ask`, `tell` and `stop` on values without order, which
never ends: nothing begins anew there, so whatever could grow does. Memory is that of the process (resident set),
sampled a hundred times; the warm-up is the first tenth. Times are CPU seconds per iteration, so that other work on the
machine does not matter much.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl

D, N, SAMPLES = 10, 10, 100


def ellipsoid(points: np.ndarray) -> np.ndarray:
    return np.square(points) @ np.geomspace(1.0, 1e6, D)


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Samples:
    """Memory and CPU time after every hundredth of the iterations."""

    def __init__(self, iterations: int) -> None:
        self.every, self.count = iterations // SAMPLES, 0
        self.memory: list[int] = []
        self.times = [time.process_time()]

    def see(self) -> None:
        self.count += 1
        if self.count % self.every == 0:
            gc.collect()
            self.memory.append(resident())
            self.times.append(time.process_time())

    def verdict(self, name: str) -> str:
        memory, durations = np.array(self.memory) / 1e6, np.diff(self.times)
        tenth = SAMPLES // 10
        ratio = np.sum(durations[-tenth:]) / np.sum(durations[:tenth])
        per_iteration = 1e6 * np.array([np.median(durations[:tenth]), np.median(durations[-tenth:])]) / self.every
        growth = memory[-1] - memory[tenth - 1]
        return (
            f"{name}: {self.count} iterations, {memory[tenth - 1]:.1f} MB after the first tenth, {growth:+.2f} MB "
            f"until the end (at most {memory.max() - memory[tenth - 1]:+.2f} MB), last tenth / first tenth {ratio:.3f} "
            f"({per_iteration[1]:.0f} and {per_iteration[0]:.0f} µs per iteration)"
        )


def minimized(iterations: int, store: Path | None) -> str:
    samples = Samples(iterations)
    settings = {"restarts": sl.IPOP(10**9, 1.0), "maxiter": iterations, "maxfevals": np.inf, "ftarget": -1.0}
    with_store = {} if store is None else {"store": store}

    def callback(result: object) -> None:
        samples.see()

    sl.minimize(
        ellipsoid, np.ones(D), 0.5, popsize=N, vectorized=True, rng=1, callback=callback, **settings, **with_store
    )
    assert samples.count == iterations
    return samples.verdict("minimize with restarts" + ("" if store is None else ", stored"))


def single(iterations: int) -> str:
    samples, optimizer, noise = (
        Samples(iterations),
        sl.Optimizer(np.zeros(D), 1.0, popsize=N, method="rank-mu", rng=1),
        np.random.default_rng(2),
    )
    history = sl.History(optimizer)
    for _ in range(iterations):
        points = optimizer.ask()
        optimizer.tell(points, noise.random(N))
        history.record(optimizer)
        optimizer.stop()
        samples.see()
    return samples.verdict("one run without end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="store the run of minimize in this file")
    given = parser.parse_args()
    print(minimized(given.iterations, given.store), flush=True)
    print(single(given.iterations), flush=True)


if __name__ == "__main__":
    main()
