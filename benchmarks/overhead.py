"""What a step costs, as ratios measured side by side in one run with one thread.

    OPENBLAS_NUM_THREADS=1 python benchmarks/overhead.py [--repeats 40] [--against CHECKOUT]

1. One `ask` + `tell` with a vectorised objective against the packages `cma` and `cmaes`, same d and n, up to d = 40 and
   at d = 500.
2. Whole runs on an ellipsoid of condition number 1e6 to 1e-10, with the reasons to stop asked for after every
   generation, by `minimize` and by `ask` and `tell`: microseconds per evaluation, the objective included.
3. A full step at d = 1000, n = 24 over its own sampling product (n×d · d×d).
4. 50 batched trials at d = 20, n = 20, per trial and iteration, over a single run.
5. `ask` + `tell` of `cma` with mirrored and orthogonal points over that with independent ones.

With `--against`, only `ask` + `tell`, with and without `stop`, against another checkout of this repository: both in new
processes that take turns. Its blocks are up to 300 steps long, as many as a run has: work that a version puts off
counts.

Medians over interleaved repeats of the mean over a block of steps, because the package `cma` decomposes its matrix only
now and then; the time of the objective is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import sublevel as sl


def default_popsize(d: int) -> int:
    """The usual number of points, 4 + ⌊3 ln d⌋."""
    return 4 + int(3 * np.log(d))


Step = Callable[[], float]
"""Does one iteration and returns the seconds it took outside the objective."""


def sphere(points: np.ndarray) -> np.ndarray:
    return np.sum(np.square(points), axis=-1)


def timed_ask_tell(ask: Callable[[], object], tell: Callable[[object, np.ndarray], object]) -> Step:
    def step() -> float:
        start = time.perf_counter()
        points = ask()
        asked = time.perf_counter()
        values = sphere(np.asarray(points))
        evaluated = time.perf_counter()
        tell(points, values)
        return time.perf_counter() - evaluated + asked - start

    return step


def ours(method: str | sl.Method, d: int, n: int) -> Step:
    optimizer = sl.Optimizer(np.ones(d), 0.5, method=method, popsize=n, rng=1)
    return timed_ask_tell(optimizer.ask, optimizer.tell)


def cma_step(d: int, n: int) -> Step:
    import cma

    strategy = cma.CMAEvolutionStrategy(d * [1.0], 0.5, {"verbose": -9, "seed": 1, "popsize": n})
    return timed_ask_tell(strategy.ask, lambda points, values: strategy.tell(points, list(values)))


def cmaes_step(d: int, n: int) -> Step:
    import cmaes

    strategy = cmaes.CMA(mean=np.ones(d), sigma=0.5, seed=1, population_size=n)
    return timed_ask_tell(
        lambda: [strategy.ask() for _ in range(n)],
        lambda points, values: strategy.tell(list(zip(points, values, strict=True))),
    )


def medians(makers: dict[str, Callable[[], Step]], repeats: int, block: int) -> dict[str, float]:
    """Seconds of a step of each, the median of the means of their blocks; they take turns, and each starts anew in
    every repeat.
    """
    times: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(repeats):
        for name, maker in makers.items():
            step = maker()
            for _ in range(3):
                step()
            times[name].append(float(np.mean([step() for _ in range(block)])))
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


METHODS = ("ngd", "rank-mu", "cma")
SAMPLINGS = ("independent", "mirrored-orthogonal")


def compare_with_peers(repeats: int) -> None:
    print(
        "one ask + tell [µs] and ours / theirs (wanted: ≤ 1/6 = 0.167 of cma, ≤ 1/3 = 0.333 of cmaes; at d = 500 ≤ "
        "0.125 and ≤ 0.02)"
    )
    print("   d   n  method     ours     cma   cmaes   ours/cma  ours/cmaes")
    for d in (5, 10, 20, 40, 500):
        n = default_popsize(d)
        makers = {name: (lambda name=name, d=d, n=n: ours(name, d, n)) for name in METHODS}
        makers |= {"the package cma": lambda d=d, n=n: cma_step(d, n)}
        peer = {"the package cmaes": lambda d=d, n=n: cmaes_step(d, n)}
        if d < 500:
            time_of = medians(makers | peer, repeats, block=60)
        else:  # one decomposition of the package `cma` in about fifty steps, and one in each step of `cmaes`
            time_of = medians(makers, max(repeats // 2, 3), block=150) | medians(peer, 3, block=6)
        for name in METHODS:
            t, cma, cmaes = time_of[name], time_of["the package cma"], time_of["the package cmaes"]
            print(
                f"{d:4} {n:3}  {name:8}{t * 1e6:7.1f} {cma * 1e6:7.0f} {cmaes * 1e6:7.0f} {t / cma:10.3f} "
                f"{t / cmaes:11.4f}"
            )


TARGET = 1e-10


def whole_runs(d: int) -> dict[str, Callable[[], int]]:
    """Runs to the target, by name; each returns its evaluations."""
    import cma
    import cmaes

    axes = np.geomspace(1.0, 1e6, d)

    def ellipsoid(points: np.ndarray) -> np.ndarray:
        return np.square(points).dot(axes)

    def by_minimize() -> int:
        return sl.minimize(ellipsoid, np.ones(d), 0.5, vectorized=True, rng=1, ftarget=TARGET).nfev

    def by_ask_and_tell() -> int:
        optimizer = sl.Optimizer(np.ones(d), 0.5, rng=1)
        while not optimizer.stop() and not optimizer.best_fun <= TARGET:
            points = optimizer.ask()
            optimizer.tell(points, ellipsoid(points))
        return optimizer.nfev

    def by_cma() -> int:
        strategy = cma.CMAEvolutionStrategy(d * [1.0], 0.5, {"verbose": -9, "seed": 1, "ftarget": TARGET})
        while not strategy.stop():
            points = strategy.ask()
            strategy.tell(points, ellipsoid(np.asarray(points)).tolist())
        return int(strategy.countevals)

    def by_cmaes() -> int:
        strategy, best, count = cmaes.CMA(mean=np.ones(d), sigma=0.5, seed=1), np.inf, 0
        while not strategy.should_stop() and best > TARGET:
            points = [strategy.ask() for _ in range(strategy.population_size)]
            values = ellipsoid(np.asarray(points)).tolist()
            strategy.tell(list(zip(points, values, strict=True)))
            best, count = min(best, *values), count + len(points)
        return count

    return {
        "minimize": by_minimize,
        "ask, tell": by_ask_and_tell,
        "the package cma": by_cma,
        "the package cmaes": by_cmaes,
    }


def compare_whole_runs(repeats: int) -> None:
    print("\nwhole runs, µs per evaluation with the objective, and ours / theirs")
    print("   d  by            ours     cma   cmaes   ours/cma  ours/cmaes")
    for d in (5, 10, 20, 40):
        runs = whole_runs(d)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(max(repeats // 3, 3)):
            for name, run in runs.items():
                start = time.perf_counter()
                evaluations = run()
                times[name].append((time.perf_counter() - start) / evaluations)
        seconds = {name: float(np.median(taken)) for name, taken in times.items()}
        cma, cmaes = seconds["the package cma"], seconds["the package cmaes"]
        for name in ("minimize", "ask, tell"):
            t = seconds[name]
            print(
                f"{d:4}  {name:10}{t * 1e6:8.2f} {cma * 1e6:7.1f} {cmaes * 1e6:7.1f} {t / cma:10.3f} {t / cmaes:11.4f}"
            )


def compare_with_product(repeats: int, d: int = 1000, n: int = 24) -> None:
    print(f"\na full step at d = {d}, n = {n} over its sampling product (wanted: ≤ 4)")
    noise = np.random.default_rng(1)
    root, z = noise.standard_normal((d, d)), noise.standard_normal((n, d))

    def product() -> float:
        start = time.perf_counter()
        z @ root.T
        return time.perf_counter() - start

    makers = {name: (lambda name=name: ours(name, d, n)) for name in ("ngd", "rank-mu")}
    time_of = medians({"product": lambda: product, **makers}, repeats, block=8)
    for name in makers:
        print(
            f"  {name:8} {time_of[name] * 1e3:6.2f} ms / {time_of['product'] * 1e3:5.2f} ms = "
            f"{time_of[name] / time_of['product']:.2f}"
        )


def compare_batch_with_single(repeats: int, d: int = 20, n: int = 20, trials: int = 50) -> None:
    print(f"\n{trials} batched trials at d = {d}, n = {n}, per trial and iteration, over a single run (wanted: ≤ 0.6)")
    from sublevel.engine.arrays import Streams

    for name, method in (("ngd", sl.ngd()), ("rank-mu", sl.rank_mu())):

        def batch(method: sl.Method = method) -> Step:
            state = method.init(sl.FullGaussian.start(np.ones((trials, d)), np.full((trials, d), 0.5)), n)
            noise = Streams.spawn(1, trials)

            def step() -> float:
                nonlocal state
                start = time.perf_counter()
                sample = method.ask(state, noise, n)
                asked = time.perf_counter()
                values = sphere(sample.x)
                evaluated = time.perf_counter()
                state, _ = method.tell(state, sample, values)
                return (time.perf_counter() - evaluated + asked - start) / trials

            return step

        time_of = medians({"batch": batch, "single": lambda name=name: ours(name, d, n)}, repeats, block=30)
        ratio = time_of["batch"] / time_of["single"]
        print(f"  {name:8} {time_of['batch'] * 1e6:6.1f} µs / {time_of['single'] * 1e6:6.1f} µs = {ratio:.2f}")


def compare_samplings(repeats: int) -> None:
    print("\none ask + tell of cma [µs] by sampling, and mirrored-orthogonal over independent")
    print("   d   n  independent  mirrored-orthogonal   ratio")
    for d in (5, 10, 20, 40, 100, 500):
        n = default_popsize(d)
        makers = {name: (lambda name=name, d=d, n=n: ours(sl.cma(sampling=name), d, n)) for name in SAMPLINGS}
        independent, pairs = medians(makers, repeats, block=60).values()
        print(f"{d:4} {n:3} {independent * 1e6:12.1f} {pairs * 1e6:20.1f} {pairs / independent:7.3f}")


def generation_seconds(d: int, asks_to_stop: bool, steps: int) -> float:
    """Seconds per generation of `ask`, `tell` and perhaps `stop`, over a run of so many on the sphere."""
    optimizer = sl.Optimizer(np.ones(d), 0.5, popsize=default_popsize(d), rng=1)

    def tell(points: object, values: np.ndarray) -> None:
        optimizer.tell(points, values)
        if asks_to_stop:
            optimizer.stop()

    step = timed_ask_tell(optimizer.ask, tell)
    return float(np.mean([step() for _ in range(steps)]))


STEPS = {5: 100, 10: 300, 20: 300, 40: 300, 100: 300, 500: 60}
"""Steps of a block by dimension, in which a run on the sphere does not converge."""
CASES = [(d, asks_to_stop, steps) for d, steps in STEPS.items() for asks_to_stop in (False, True)]
"""With and without `stop`."""


def print_case_medians() -> None:
    """Print the median seconds of each case as JSON, for `compare_with_checkout`."""
    print(json.dumps([float(np.median([generation_seconds(*case) for _ in range(12)])) for case in CASES]))


def compare_with_checkout(checkout: Path, repeats: int) -> None:
    """Print the seconds of each case here over those in another checkout."""
    sources = {"there": checkout / "src", "here": Path(__file__).resolve().parents[1] / "src"}
    seconds: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(repeats):
        for name, source in sources.items():
            command = [sys.executable, __file__, "--cases"]
            run = subprocess.run(
                command, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
            )
            seconds[name].append(json.loads(run.stdout))
    there, here = (1e6 * np.median(seconds[name], axis=0) for name in ("there", "here"))
    print("one generation [µs]    d   there    here  here/there")
    for (d, asks_to_stop, _), before, now in zip(CASES, there, here, strict=True):
        print(f"ask, tell{', stop' if asks_to_stop else '':10}{d:5} {before:7.1f} {now:7.1f} {now / before:8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of this repository")
    parser.add_argument("--cases", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    repeats = arguments.repeats
    if arguments.cases:
        return print_case_medians()
    if arguments.against is not None:
        if not (arguments.against / "src" / "sublevel").is_dir():
            parser.error(f"--against must be a directory with src/sublevel, got {arguments.against}.")
        return compare_with_checkout(arguments.against, repeats)
    warnings.simplefilter("ignore")  # of the peers
    compare_with_peers(repeats)
    compare_whole_runs(repeats)
    compare_with_product(repeats)
    compare_batch_with_single(repeats)
    compare_samplings(repeats)


if __name__ == "__main__":
    main()
