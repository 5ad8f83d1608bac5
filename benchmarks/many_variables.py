"""What a run of many variables costs beyond ask and tell: time ratios and peak memory of every way to make, keep and
look at one.

    python benchmarks/many_variables.py [--variables 100000] [--generations 20] [--repeats 3] [--method sep-cma]
    [--folder DIR]

Every measurement is made in a process of its own with one thread, routes and ask and tell in turns; medians over the
repeats. Bytecode is written, as it is by default, so that no measurement but the first compiles the package. Imports of
other libraries (SciPy, matplotlib, pyarrow), which do not depend on the number of variables, are measured apart.
`show`, `report`, `export` and the like look at the run that `store` made; their times are compared with those of ask
and tell too. So is the time of writing the bytes of an export alone, which depends on the memory that the system has at
hand.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["MPLBACKEND"] = "Agg"

import numpy as np

import sublevel as sl
from sublevel.cli.main import main as command


class Task(NamedTuple):
    """What to run, and where files are."""

    variables: int
    generations: int
    method: str
    folder: Path

    @property
    def store(self) -> Path:
        """The stored run that is looked at."""
        return self.folder / "run.db"


def sphere(x: np.ndarray) -> float:
    return float(x.dot(x))


def ask_and_tell(task: Task) -> None:
    opt = sl.Optimizer(np.ones(task.variables), 0.3, method=task.method, rng=1)
    for _ in range(task.generations):
        points = opt.ask()
        opt.tell(points, np.array([sphere(x) for x in points]))
        opt.stop()


def minimized(task: Task, **given: Any) -> sl.Result:
    return sl.minimize(
        sphere, np.ones(task.variables), 0.3, method=task.method, rng=1, maxiter=task.generations, **given
    )


def stored(task: Task) -> sl.Result:
    for old in task.folder.glob("run.*"):
        old.unlink()
    return minimized(task, store=task.store)


def commanded(*words: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if command([str(word) for word in words]):
            raise RuntimeError(f"{words} failed")


def exported(task: Task, ending: str) -> None:
    commanded("export", task.store, task.folder / f"{time.time_ns()}.{ending}")


def write_zeros(task: Task) -> None:
    """Write as many bytes as an export has."""
    sample = np.zeros((4 + int(3 * np.log(task.variables)), task.variables))
    with (task.folder / f"{time.time_ns()}.npz").open("wb") as stream:
        for _ in range(task.generations):
            stream.write(sample.data)


def with_trace(task: Task) -> None:
    minimized(task).history.trace()


ROUTES: dict[str, Callable[[Task], Any]] = {
    "ask and tell": ask_and_tell,
    "minimize": minimized,
    "minimize, history.trace()": with_trace,
    "minimize, diagnosis": lambda task: minimized(task).diagnosis,
    "minimize, a callback that keeps results": lambda task: minimized(task, callback=[].append),
    "minimize, plot()": lambda task: minimized(task).plot(task.folder / "plot.png"),
    "store": stored,
    "plot() of a stored run": lambda task: sl.load(task.store).result.plot(task.folder / "plot.png"),
    "load": lambda task: sl.load(task.store).result.fun,
    "show": lambda task: commanded("show", task.store),
    "watch": lambda task: commanded("watch", task.store),
    "report": lambda task: commanded("report", task.store, "--out", task.folder / f"{time.time_ns()}.html"),
    "write as many bytes as an export": write_zeros,
    "export .npz": lambda task: exported(task, "npz"),
    "export .parquet": lambda task: exported(task, "parquet"),
    "export .csv, without the variables": lambda task: exported(task, "csv"),
    "resume": lambda task: sl.resume(task.store, sphere, maxiter=task.generations),
}


IMPORTS = {
    "ask and tell": "scipy.linalg",
    "write as many bytes as an export": "scipy.linalg",
    "export .npz": "scipy.linalg",
    "export .csv, without the variables": "scipy.linalg",
    "export .parquet": "pyarrow.parquet, scipy.linalg",
} | dict.fromkeys(("minimize, plot()", "plot() of a stored run", "report"), "matplotlib.pyplot, scipy.optimize")
"""Libraries that a route imports where it needs them; the others import scipy.optimize."""


class Cost(NamedTuple):
    """Of one measurement."""

    seconds: float
    cpu: float
    megabytes: float
    imports: float  # CPU seconds, not in the others


def measure(route: str, task: Task) -> Cost:
    """A route in a process of its own."""
    words = [task.variables, task.generations, task.method, task.folder]
    for old in (old for ending in ("npz", "parquet", "csv", "html") for old in task.folder.glob(f"*.{ending}")):
        old.unlink()
    run = subprocess.run(
        [sys.executable, __file__, "--one", route, *map(str, words)],
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"{route}: {run.stderr}")
    return Cost(*json.loads(run.stdout.splitlines()[-1]))


def run_one(route: str, task: Task) -> None:
    """What the process does."""
    began = time.process_time()
    for library in IMPORTS.get(route, "scipy.optimize").split(", "):
        importlib.import_module(library)
    imports = time.process_time() - began
    wall, cpu = time.perf_counter(), time.process_time()
    ROUTES[route](task)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, imports]))


def report(task: Task, repeats: int) -> None:
    """The table."""
    print(f"{task.method}, {task.variables} variables, {task.generations} generations, {repeats} repeats\n")
    print(
        f"| {'route':<40} | seconds | × ask and tell | CPU seconds | × ask and tell | peak MB | imports, CPU seconds |"
    )
    print(f"|{'-' * 42}|--------:|---------------:|------------:|---------------:|--------:|---------------------:|")
    for route in ROUTES:
        pairs = [(measure("ask and tell", task), measure(route, task)) for _ in range(repeats)]
        costs = [statistics.median(column) for column in zip(*(cost for _, cost in pairs), strict=True)]
        wall, cpu = (statistics.median(cost[i] / plain[i] for plain, cost in pairs) for i in (0, 1))
        print(
            f"| {route:<40} | {costs[0]:7.2f} | {wall:14.2f} | {costs[1]:11.2f} | {cpu:14.2f} | {costs[2]:7.0f} | "
            f"{costs[3]:20.2f} |",
            flush=True,
        )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        route, variables, generations, method, folder = sys.argv[2:]
        run_one(route, Task(int(variables), int(generations), method, Path(folder)))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variables", type=int, default=100_000)
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="sep-cma")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        report(Task(given.variables, given.generations, given.method, Path(folder)), given.repeats)


if __name__ == "__main__":
    main()
