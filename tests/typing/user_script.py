"""A script as a user would write it: clean in pyright strict and in mypy strict. `test_typing.py` runs both over it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

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


def tuned(parameters: dict[str, Any]) -> float:
    """Named parameters to one value."""
    return float(parameters["rate"]) + float(parameters["depth"] == 3)


@dataclass
class Model:
    """A dataclass that stands for a space."""

    rate: Annotated[float, sl.Real(1e-6, 1, log=True)]
    depth: Annotated[int, sl.Integer(1, 12)] = 3


def trained(model: Model) -> float:
    """A model to one value."""
    return model.rate * model.depth


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


space = sl.Space(
    rate=sl.Real(1e-6, 1, log=True),
    shift=sl.Real(scale=2.0, start=0.5),
    depth=sl.Integer(1, 12),
    kernel=sl.Choice("rbf", "poly", ordered=False, start="poly"),
    seed=3,
)
of_space: sl.Result = sl.minimize(tuned, space, maxfevals=50, rng=1)
of_class = sl.minimize(trained, Model, maxfevals=50, rng=1)
of_integers = sl.minimize(sphere, np.ones(3), 0.5, integrality=[0, 1, 0], names=["a", "n", "b"], maxiter=3)
asked = sl.Optimizer(space.start_at({"depth": 4}), rng=1)
asked.tell(asked.ask(), np.arange(asked.popsize))


def use_space(result: sl.Result) -> tuple[dict[str, Any], Points]:
    """The best point by names, and as an array."""
    found: sl.Space | None = result.space
    names: tuple[str, ...] = () if found is None else found.names
    point: Points = space.encode({**space.decode(result.x), "depth": 2})
    again: sl.Space = sl.Space.from_description(space.describe())
    print(names, len(again), list(again), again == space, sl.Space.of(Model).build([0.1, 2]))
    return result.params, point


print(use_space(of_space), of_class.params["depth"])


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


for one in (plain, short, boxed, other, again, drawn, named_seed, of_space, of_class, of_integers):
    print(use(one))
