"""Fingerprints of search paths: every method × family × LRA, with bounds, log scales and restarts. The same bits before
and after a change?

    OPENBLAS_NUM_THREADS=1 python benchmarks/paths.py --write before.json
    OPENBLAS_NUM_THREADS=1 python benchmarks/paths.py --compare before.json

A fingerprint is a hash of all points in the order of their evaluation, the result and the reason to stop. It depends on
the processor and on the versions of NumPy, SciPy and BLAS, so it compares two states of the code on one machine. Uses
public names only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import sublevel as sl

METHODS = [
    f"{lra}{family}{name}"
    for lra, family, name in product(("", "lra-"), ("", "sep-", "iso-"), ("cma", "xnes", "ngd", "rank-mu"))
]
SPACES: dict[str, dict[str, object]] = {
    "free": {},
    "box": {"bounds": [(-1.0, 3.0)] * 4},
    "half": {"bounds": [(0.5, None), (None, 1.5), (None, None), (2.0, 2.0)], "x0": [1.0, 1.0, 1.0, 2.0]},
    "log": {"log_scaled": [True, False, True, False]},
}
RESTARTS: list[object] = [None, 2, "bipop"]


def valley(x: np.ndarray) -> float:
    """A turned valley with a condition number of 1e4 and its minimum at (0.7, …, 0.7)."""
    u = np.cumsum(x - 0.7)
    return float(np.sum(100.0 ** np.linspace(0, 2, u.size) * u * u))


def rugged(x: np.ndarray) -> float:
    """Many minima, rounded so that there are ties, and NaN in a corner."""
    u = x - 0.7
    value = float(np.round(np.sum(u * u + 3.0 * (1.0 - np.cos(2.0 * np.pi * u))), 3))
    return value if u[0] < 2.0 else float("nan")


def onemax(x: np.ndarray) -> float:
    """Number of zeros."""
    return float(np.sum(1 - x))


def fingerprint(fun: Callable[[np.ndarray], float], x0: object, sigma0: object, **options: object) -> str:
    """Hash of the points that `minimize` evaluates, of its result and its reason to stop."""
    digest = hashlib.sha256()

    def seen(x: np.ndarray) -> float:
        digest.update(np.ascontiguousarray(x).tobytes())
        return fun(x)

    result = sl.minimize(seen, x0, sigma0, rng=7, evaluate_x0=False, **options)  # pyright: ignore[reportArgumentType]
    digest.update(np.array([result.fun, result.nfev, result.nit, result.restarts, *result.x, *result.mean]).tobytes())
    digest.update(repr(sorted(result.reasons)).encode())
    return digest.hexdigest()[:16]


def cases() -> Iterator[tuple[str, Callable[[], str]]]:
    """Name and computation of every fingerprint."""
    for method, (space, options), restarts in product(METHODS, SPACES.items(), RESTARTS):
        for fun in (valley, rugged):
            given = {"x0": [1.0] * 4, **options}
            x0 = given.pop("x0")
            yield (
                f"{method} {space} restarts={restarts} {fun.__name__}",
                lambda fun=fun, x0=x0, given=given, method=method, restarts=restarts: fingerprint(
                    fun, x0, 0.5, method=method, restarts=restarts, maxfevals=1500, **given
                ),
            )
    for method, d, popsize in product(METHODS, (1, 2, 70), (None, 100)):
        yield (
            f"{method} d={d} popsize={popsize}",
            lambda method=method, d=d, popsize=popsize: fingerprint(
                valley, np.ones(d), 0.5, method=method, popsize=popsize, maxiter=40
            ),
        )
    for popsize, restarts in product((None, 40), RESTARTS):
        yield (
            f"pbil popsize={popsize} restarts={restarts}",
            lambda popsize=popsize, restarts=restarts: fingerprint(
                onemax, [0.5] * 12, None, method="pbil", popsize=popsize, restarts=restarts, maxfevals=1000
            ),
        )


def main() -> None:
    """Write or compare fingerprints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, help="write the fingerprints of this code")
    action.add_argument("--compare", type=Path, help="compare this code with fingerprints that were written before")
    options = parser.parse_args()
    found = {name: compute() for name, compute in cases()}
    if options.write:
        options.write.write_text(json.dumps(found, indent=0))
        print(f"{len(found)} fingerprints written")
        return
    before = json.loads(options.compare.read_text())
    different = [name for name in before if found.get(name) != before[name]]
    for name in different:
        print("differs:", name)
    print(f"{len(before) - len(different)} of {len(before)} paths have the same bits")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
