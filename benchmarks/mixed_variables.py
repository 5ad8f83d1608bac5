"""Functions of real variables together with integers, bits or categories: ours and other libraries.

    python benchmarks/mixed_variables.py --dims 20 --cache mixed.json
    python benchmarks/mixed_variables.py --peers "" --functions SphereInt,EllipsoidInt --dims 20       (ours alone)
    python benchmarks/mixed_variables.py --peers "cmaes CMAwM,pycma" --without-ours --cache mixed.json

Half of the N variables are real. The others are integers −10 … 10 or bits, as in Hamano et al., CMA-ES with Margin
(arXiv:2205.13482), or have five categories, as in Hamano et al., CatCMA (arXiv:2405.09962). Which category is the right
one is drawn for each variable, because libraries that take categories as integers would gain from the first. The
initial mean is uniform in [1, 3], the standard deviation 1 and every bit or category equally likely. Libraries that
need bounds of real variables have the initial mean ± 5 instead, so that the middle tells nothing.

Printed: the share of runs that evaluate a point with f ≤ 1e-10, and the mean evaluations of these, which are one run
each, without restarts and without the termination criteria of the library, ours excepted. A run ends unsuccessfully
after `--budget`·N evaluations, not before: an integer may change for the better after thousands of them without one.

Not among the default peers: Optuna, whose TPE needs hours for so many evaluations and whose CMA-ES is that of cmaes,
and nevergrad, which takes about 20 ms per evaluation if there are categories.
With `--cache`, runs of the peers are read from that file if they are in it, and written to it. Ours are always made.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from coco_targets import Finished
from mixed_search import LIBRARY_ERRORS, NO_CATEGORIES, OURS, SEARCHES, Unsupported, Variables

TARGET, CATEGORIES = 1e-10, 5
DEFAULT_PEERS = "cmaes CMAwM,cmaes CatCMAwM,pycma,scipy DE"


def sphere(x: np.ndarray) -> float:
    return float(x @ x)


def ellipsoid(x: np.ndarray) -> float:
    """Axes of 1 … 1000."""
    return sphere(1000 ** np.linspace(0, 1, x.size) * x)


def reverse_ellipsoid(x: np.ndarray) -> float:
    """The ellipsoid, with real variables the sensitive ones."""
    return ellipsoid(x[::-1])


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (x[:-1] - 1) ** 2))


def wrong(right: np.ndarray) -> float:
    """Number of variables with the wrong category, N − OneMax."""
    return float(np.sum(~right))


def after_first_wrong(right: np.ndarray) -> float:
    """Number of variables from the first wrong one on, N − LeadingOnes."""
    return float(right.size - np.sum(np.cumprod(right)))


@dataclass(frozen=True)
class Function:
    """f of the ordered variables plus g of which categories are right; without g, half of the variables are
    integers.
    """

    f: Callable[[np.ndarray], float]
    g: Callable[[np.ndarray], float] | None = None
    categories: int = 2

    def variables(self, n: int, rng: np.random.Generator) -> Variables:
        mean = rng.uniform(1, 3, n if self.g is None else n - n // 2)
        is_integer = np.arange(mean.size) >= n - n // 2
        return Variables(
            lower=np.where(is_integer, -10, mean - 5),
            upper=np.where(is_integer, 10, mean + 5),
            is_integer=is_integer,
            mean=mean,
            std=np.ones(mean.size),
            categories=() if self.g is None else (self.categories,) * (n // 2),
            is_open=True,
        )


FUNCTIONS = {
    "SphereInt": Function(sphere),
    "EllipsoidInt": Function(ellipsoid),
    "ReverseEllipsoidInt": Function(reverse_ellipsoid),
    "SphereOneMax": Function(sphere, wrong),
    "EllipsoidOneMax": Function(ellipsoid, wrong),
    "EllipsoidLeadingOnes": Function(ellipsoid, after_first_wrong),
    "SphereCOM": Function(sphere, wrong, CATEGORIES),
    "EllipsoidCLO": Function(ellipsoid, after_first_wrong, CATEGORIES),
    "RosenbrockCLO": Function(rosenbrock, after_first_wrong, CATEGORIES),
}


class Counted:
    """An objective that ends the run by an exception."""

    def __init__(self, function: Function, answer: np.ndarray, budget: int) -> None:
        self.function, self.answer, self.budget = function, answer, budget
        self.evaluations = 0
        self.best = np.inf

    def __call__(self, x: np.ndarray, categories: np.ndarray = NO_CATEGORIES) -> float:
        if self.best <= TARGET or self.evaluations >= self.budget:
            raise Finished
        value = self.function.f(x)
        if self.function.g is not None:
            value += self.function.g(categories == self.answer)
        self.evaluations += 1
        self.best = min(self.best, value)
        return value


def run(library: str, name: str, n: int, seed: int, budget: int) -> dict[str, Any] | None:
    """One run: evaluations, the best value, seconds, and the exception if there was one; None if the library has no
    such variables.
    """
    function, rng = FUNCTIONS[name], np.random.default_rng(seed)
    variables = function.variables(n, rng)
    answer = rng.integers(function.categories, size=len(variables.categories))
    fun, start, error = Counted(function, answer, budget * n), time.perf_counter(), None
    try:
        with suppress(Finished):
            SEARCHES[library](fun, variables, seed, False)
    except Unsupported:
        return None
    except LIBRARY_ERRORS as exception:
        if library == OURS:
            raise
        error = repr(exception)
    seconds = round(time.perf_counter() - start, 2)
    return {"evaluations": fun.evaluations, "best": fun.best, "seconds": seconds, "error": error}


class Cache:
    """Runs of the peers by library, function, N, seed and budget, kept in a JSON file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.runs: dict[str, Any] = json.loads(path.read_text()) if path and path.exists() else {}

    def run(self, *task: Any) -> dict[str, Any] | None:
        key = "|".join(map(str, task))
        if task[0] == OURS or key not in self.runs:
            self.runs[key] = run(*task)
            self.write()
        return self.runs[key]

    def write(self) -> None:
        if self.path is not None:
            kept = {key: found for key, found in self.runs.items() if not key.startswith(f"{OURS}|")}
            draft = self.path.with_suffix(".part")
            draft.write_text(json.dumps(kept, indent=0))
            draft.replace(self.path)


def cell(runs: list[dict[str, Any] | None]) -> str:
    """Share of successful runs and their mean evaluations."""
    made = [found for found in runs if found is not None]
    if not made:
        return "-"
    solved = [found["evaluations"] for found in made if found["best"] <= TARGET]
    return f"{len(solved)}/{len(made)}  " + (f"{np.mean(solved):8.0f}" if solved else f"{'-':>8}")


def table(
    runs: dict[tuple[str, int, str], list[dict[str, Any] | None]], libraries: list[str], rows: list[tuple[int, str]]
) -> Iterator[str]:
    yield f"successful runs and their mean evaluations to {TARGET:g}"
    yield f"{'function':22}{'N':>4}" + "".join(f"{library:>20}" for library in libraries)
    for n, name in rows:
        yield f"{name:22}{n:4}" + "".join(f"{cell(runs[name, n, library]):>20}" for library in libraries)
    for library in libraries:
        errors = [
            found["error"] for key in runs if key[2] == library for found in runs[key] if found and found["error"]
        ]
        if errors:
            yield f"{library}: {len(errors)} runs ended with an exception, the first with {errors[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=DEFAULT_PEERS, help=f"from {', '.join(SEARCHES)}; separated by commas")
    parser.add_argument("--without-ours", action="store_true", help="the peers alone")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--dims", default="20,40,60")
    parser.add_argument("--seeds", default="0:20", help="first:end")
    parser.add_argument("--budget", type=int, default=2_000, help="evaluations per variable")
    parser.add_argument("--cache", type=Path, help="a JSON file with the runs of the peers")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers
    libraries = [*([] if given.without_ours else [OURS]), *filter(None, given.peers.split(","))]
    rows = list(product([int(n) for n in given.dims.split(",")], given.functions.split(",")))
    cache, seeds = Cache(given.cache), range(*map(int, given.seeds.split(":")))
    runs: dict[tuple[str, int, str], list[dict[str, Any] | None]] = {}
    for seed, (n, name), library in product(seeds, rows, libraries):
        if sys.stderr.isatty():
            print(f"\rseed {seed}: {name}, N = {n}, {library:20}", end="", file=sys.stderr)
        runs.setdefault((name, n, library), []).append(cache.run(library, name, n, seed, given.budget))
    print("\n".join(table(runs, libraries, rows)))


if __name__ == "__main__":
    main()
