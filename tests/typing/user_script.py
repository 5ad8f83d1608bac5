"""A script as a user would write it: clean in pyright strict and in mypy strict. `test_typing.py` runs both over it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds

import sublevel as sl

Points = NDArray[np.float64]


def sphere(x: Points) -> float:
    """One point (d,) to one value."""
    return float(np.sum(x**2))


def shifted(x: Points, shift: float, power: int) -> np.float64:
    """With further arguments."""
    return np.float64(np.sum((x - shift) ** power))


def many(points: Points) -> Points:
    """Points (n, d) to values (n,)."""
    return np.asarray(np.sum(points**2, axis=1))


def draw(rng: np.random.Generator) -> Points:
    """A starting point."""
    return rng.uniform(-1.0, 1.0, 3)


def stop_early(result: sl.Result) -> bool:
    """A callback."""
    return result.fun < 1e-3 and result.nit > 2


def named(*, intermediate_result: sl.Result) -> None:
    """A callback as SciPy names its argument."""
    kept.append(intermediate_result)


kept: list[sl.Result] = []
plain: sl.Result = sl.minimize(
    sphere, [1.0, 2.0, 3.0], 0.5, rng=1, maxfevals=1e3, callback=stop_early, names=["a", "b", "c"], tolx=1e-9
)
short = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1, ftarget=1e-10)
boxed = sl.minimize(
    sphere,
    np.ones(3),
    [0.5, 0.1, 0.1],
    bounds=[(0, 1), (None, 5.0), (-1, None)],
    rng=np.random.default_rng(1),
    maxiter=3,
)
other = sl.minimize(
    many,
    np.ones(3),
    0.5,
    bounds=Bounds([0, 0, 0], [2, 2, 2]),
    vectorized=True,
    log_scaled=[True, False, False],
    maxiter=3,
)
again = sl.minimize(
    shifted, (1.0, 1.0), 0.5, args=(0.5, 2), method="lra-cma", restarts="ipop", popsize=8, maxiter=3, callback=named
)
drawn = sl.minimize(
    sphere, draw, 0.5, method=sl.ngd(), restarts=sl.BIPOP(2), cov0=np.eye(3), on_error="retry", maxiter=3
)
named_seed = sl.minimize(sphere, np.ones(3), 0.5, rng=np.random.SeedSequence(1), workers=map, timeout=None, maxiter=3)


def run_with_store(file: Path) -> sl.Result:
    """Store, resume, load."""
    with ThreadPoolExecutor(2) as pool:
        sl.minimize(sphere, np.ones(3), 0.5, workers=pool, store=file, maxiter=3)
    print(sl.load(file).result.fun)
    return sl.resume(file, sphere, maxiter=5)


def use(result: sl.Result) -> tuple[float, int, bool, str]:
    """Every attribute has its type."""
    x: Points = result.x
    deviations: Points = result.std
    variances: Points = np.diagonal(result.cov)
    shift: Points = result.mean - x
    reasons: dict[str, float] = result.reasons
    values: Points = result.history["best"]
    names: list[str] = [finding.name for finding in result.diagnosis]
    failed: int = len(result.failures)
    widest: Points = result.distribution.principal_axes()
    if result.curvature is not None and result.hess_inv is not None:
        print(result.curvature.hess_inv.shape, np.trace(result.hess_inv))
    print(
        deviations.max(),
        variances.min(),
        shift.sum(),
        list(reasons),
        values[-1],
        names,
        failed,
        widest[0],
        result.status,
    )
    return result.fun, result.nfev + result.nit + result.restarts, result.success, result.message


for one in (plain, short, boxed, other, again, drawn, named_seed):
    print(use(one))
