"""Runs that end at the noise of their objective: none without noise, and what is saved with it.

    python benchmarks/noise_floor.py smooth --seeds 1 --processes 2     # about 20 min
    python benchmarks/noise_floor.py ode --seeds 3                      # about 15 min
    python benchmarks/noise_floor.py random --seeds 2                   # about 5 min

`smooth` runs functions without noise with the criterion. A run that it ends is repeated without it: the stop is false
if the longer run is better by more than rounding (1e-9 of the value, and 1e-25). `ode` fits models by
`scipy.integrate.solve_ivp`, whose values are exact up to the tolerance and the rounding of the solver, with and without
the criterion: the loss is how much better the longer run is, to compare with the spread of the best values of its last
20 generations. `random` adds noise that is drawn anew for each value and shows the exact function at the mean, which a
longer run may still lower by averaging.

The constants of the criterion were chosen on other models, starts and seeds.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import sublevel as sl

Values = Callable[[np.ndarray], np.ndarray]
FIRST_SEED = 5000


def axes(x: np.ndarray) -> np.ndarray:
    """0 for the first variable to 1 for the last (d,)."""
    return np.arange(x.shape[-1]) / max(x.shape[-1] - 1, 1)


def ridge(x: np.ndarray) -> np.ndarray:
    """Sharp ridge."""
    return np.square(x[..., 0]) + 100 * np.sqrt(np.sum(np.square(x[..., 1:]), axis=-1))


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """A bent valley, with the minimum at 0."""
    y = x + 1
    return np.sum(100 * np.square(y[..., 1:] - np.square(y[..., :-1])) + np.square(1 - y[..., :-1]), axis=-1)


def ackley(x: np.ndarray) -> np.ndarray:
    """Many minima in a funnel."""
    far = -20 * np.expm1(-0.2 * np.sqrt(np.mean(np.square(x), axis=-1)))
    return far + np.e - np.exp(np.mean(np.cos(2 * np.pi * x), axis=-1))


def terraces(x: np.ndarray) -> np.ndarray:
    """An ellipsoid on plateaus, with a slope at the bottom."""
    steps = np.where(np.abs(x) > 0.5, np.floor(0.5 + x), np.floor(0.5 + 10 * x) / 10)
    return np.maximum(1e-4 * np.abs(x[..., 0]), np.sum(100 ** axes(x) * np.square(steps), axis=-1))


FUNCTIONS: dict[str, Values] = {
    "sphere": lambda x: np.sum(np.square(x), axis=-1),
    "ellipsoid": lambda x: np.sum(1e6 ** axes(x) * np.square(x), axis=-1),
    "rosenbrock": rosenbrock,
    "different powers": lambda x: np.sqrt(np.sum(np.abs(x) ** (2 + 4 * axes(x)), axis=-1)),
    "rastrigin": lambda x: np.sum(np.square(x) + 10 * (1 - np.cos(2 * np.pi * x)), axis=-1),
    "sharp ridge": ridge,
    "sum of |x|": lambda x: np.sum(np.abs(x), axis=-1),
    "max of |x|": lambda x: np.max(np.abs(x), axis=-1),
    "steps": lambda x: np.floor(20 * np.sum(np.square(x), axis=-1)),
    "terraces": terraces,
    "ackley": ackley,
    "bent cigar": lambda x: (
        np.square(x[..., 0]) + 1e6 * np.sum(np.square(x[..., 1:] * (1 + 0.1 * np.abs(x[..., :1]))), axis=-1)
    ),
    "half space": lambda x: np.where(x[..., 0] < 0.1, np.nan, np.sum(np.square(x), axis=-1)),
    "levy": lambda x: np.sum(np.square(x / 4) * (1 + 10 * np.square(np.sin(np.pi * (1 + x / 4) + 1))), axis=-1),
}


@dataclass(frozen=True)
class Case:
    """A run without noise."""

    name: str
    d: int
    method: str
    settings: str  # plain, rotated, bounds, large, small, far
    seed: int

    @property
    def fun(self) -> Values:
        """The objective, rotated or not."""
        fun = FUNCTIONS[self.name]
        if self.settings != "rotated":
            return fun
        turn = np.linalg.qr(np.random.default_rng(self.d).standard_normal((self.d, self.d)))[0]
        return lambda x: fun(x @ turn)

    def run(self, noise_floor: bool) -> sl.Result:
        """The run, with the criterion or without."""
        rng, default = np.random.default_rng(self.seed), 4 + int(3 * np.log(self.d))
        size = {"large": 4 * default, "small": max(default // 2, 4)}.get(self.settings)
        bounds = (-1.5, 4.0) if self.settings == "bounds" else None
        sigma0 = 0.01 if self.settings == "far" else 0.7
        given: dict[str, Any] = {
            "bounds": bounds,
            "popsize": size,
            "rng": self.seed,
            "maxfevals": 3000 * self.d + 10_000,
        }
        with np.errstate(all="ignore"):
            x0 = rng.uniform(0.2, 1.2, self.d)
            return sl.minimize(
                self.fun, x0, sigma0, method=self.method, vectorized=True, noise_floor=noise_floor, **given
            )


def judge(case: Case) -> tuple[Case, str, float, float, int, int]:
    """How the run ended, its value beside that of the run without the criterion, and the evaluations of both."""
    ended = case.run(True)
    reason = next(iter(ended.reasons))
    if reason != "noise_floor":
        return case, reason, ended.fun, ended.fun, ended.nfev, ended.nfev
    longer = case.run(False)
    return case, reason, ended.fun, longer.fun, ended.nfev, longer.nfev


def is_false(found: float, longer: float) -> bool:
    """Whether the longer run is better by more than rounding, also where the minimum is 0."""
    return found - longer > max(1e-9 * abs(found), 1e-25)


def cases(seeds: int, dimensions: list[int]) -> list[Case]:
    """All combinations."""
    methods = ("cma", "sep-cma", "xnes", "ngd", "rank-mu")
    plain = itertools.product(FUNCTIONS, dimensions, methods, ("plain",), range(FIRST_SEED, FIRST_SEED + seeds))
    others = ("rotated", "bounds", "large", "small", "far")
    varied = itertools.product(
        FUNCTIONS, dimensions, ("cma",), others, range(FIRST_SEED + 100, FIRST_SEED + 100 + seeds)
    )
    return [Case(*row) for row in (*plain, *varied)]


def smooth(given: argparse.Namespace) -> None:
    """Functions without noise."""
    counts: dict[str, int] = {}
    false = 0
    with ProcessPoolExecutor(given.processes) as pool:
        for case, reason, found, longer, nfev, full in pool.map(
            judge, cases(given.seeds, given.dimensions), chunksize=4
        ):
            counts[reason] = counts.get(reason, 0) + 1
            if reason == "noise_floor":
                wrong = is_false(found, longer)
                false += wrong
                print(
                    f"{case}: f {found:.6g} after {nfev}, {longer:.6g} after {full}{', FALSE' if wrong else ''}",
                    flush=True,
                )
    print(
        f"{sum(counts.values())} runs without noise, {counts.get('noise_floor', 0)} ended by the criterion, {false} "
        "of them falsely"
    )
    print("reasons:", dict(sorted(counts.items(), key=lambda item: -item[1])))


@dataclass(frozen=True)
class Model:
    """An ODE to fit: its right-hand side f(t, y, p), times, start, parameters and by which factors the fit starts off
    them.
    """

    right: Callable[..., list[float]]
    times: np.ndarray
    start: list[float]
    parameters: list[float]
    factors: list[float]

    def objective(self, rtol: float, solver: str, seed: int) -> Callable[[np.ndarray], float]:
        """Sum of squares with data that have 3 % of noise."""
        clean = self.solve(np.array(self.parameters), 1e-10, "DOP853")
        scale = clean.std(axis=1, keepdims=True)
        data = clean + 0.03 * scale * np.random.default_rng(seed).standard_normal(clean.shape)

        def fun(p: np.ndarray) -> float:
            y = self.solve(p, rtol, solver)
            return float(np.sum(np.square((y - data) / scale))) if y.shape == data.shape else np.nan

        return fun

    def solve(self, p: np.ndarray, rtol: float, solver: str) -> np.ndarray:
        """The solution (2, times)."""
        span = (self.times[0], self.times[-1])
        with np.errstate(all="ignore"):
            return solve_ivp(self.right, span, self.start, solver, self.times, args=(p,), rtol=rtol, atol=1e-3 * rtol).y


MODELS = {
    "van der Pol": Model(
        lambda t, y, p: [y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]],
        np.linspace(0, 8, 25),
        [1.5, 0.0],
        [1.2, 0.9],
        [1.5, 0.7],
    ),
    "predator with saturation": Model(
        lambda t, y, p: [
            y[0] * (1 - y[0] / p[0]) - p[1] * y[0] * y[1] / (1 + y[0]),
            p[2] * y[0] * y[1] / (1 + y[0]) - p[3] * y[1],
        ],
        np.linspace(0, 15, 25),
        [1.0, 0.5],
        [2.5, 1.0, 0.8, 0.3],
        [1.3, 0.8, 1.2, 0.8],
    ),
}


def fit(task: tuple[str, float, str, int]) -> tuple[tuple[str, float, str, int], sl.Result, sl.Result, float]:
    """A fit with and without the criterion, and the spread of the best values of the last 20 generations without it."""
    name, rtol, solver, seed = task
    model = MODELS[name]
    fun, x0 = model.objective(rtol, solver, seed), np.array(model.parameters) * model.factors
    ended, longer = (
        sl.minimize(fun, x0, 0.3, log_scaled=True, rng=seed, maxfevals=8000, noise_floor=noise_floor)
        for noise_floor in (True, False)
    )
    return task, ended, longer, float(np.ptp(longer.history["generation_best"][-20:]))


def ode(given: argparse.Namespace) -> None:
    """Fits of two models."""
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    tasks = list(itertools.product(MODELS, (1e-3, 1e-4, 1e-5, 1e-6), ("RK45", "LSODA"), seeds))
    print(
        "model, rtol, solver, seed: reason and evaluations with the criterion | without | loss of f | spread at the "
        "floor"
    )
    spent: list[tuple[int, int]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for task, ended, longer, spread in pool.map(fit, tasks):
            spent.append((ended.nfev, longer.nfev))
            reasons = [next(iter(result.reasons)) for result in (ended, longer)]
            print(
                *task,
                "|",
                reasons[0],
                ended.nfev,
                "|",
                reasons[1],
                longer.nfev,
                f"| {ended.fun - longer.fun:.2g} | {spread:.2g}",
                flush=True,
            )
    print("median evaluations with and without:", *np.median(np.array(spent), axis=0))


NOISES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "f + 1e-2 N": lambda f, rng: f + 1e-2 * rng.standard_normal(f.shape),
    "f + 1e-6 N": lambda f, rng: f + 1e-6 * rng.standard_normal(f.shape),
    "f + 1e-10 N": lambda f, rng: f + 1e-10 * rng.standard_normal(f.shape),
    "(1 + f)(1 + 1e-8 N)": lambda f, rng: (1 + f) * (1 + 1e-8 * rng.standard_normal(f.shape)),
    "f exp(N)": lambda f, rng: f * np.exp(rng.standard_normal(f.shape)),
}


def noisy(fun: Values, noise: str, seed: int) -> Values:
    """The function with noise."""
    rng = np.random.default_rng(seed)
    return lambda x: NOISES[noise](fun(x), rng)


def random(given: argparse.Namespace) -> None:
    """Noise that is drawn anew for each value."""
    seeds, methods = range(FIRST_SEED, FIRST_SEED + given.seeds), ("cma", "xnes", "lra-cma")
    print(
        "function, d, method, noise, seed: reason and evaluations with the criterion | without | exact f at the mean, "
        "both"
    )
    for name, d, method, noise, seed in itertools.product(("sphere", "ellipsoid"), (3, 10), methods, NOISES, seeds):
        fun = FUNCTIONS[name]
        settings: dict[str, Any] = {"method": method, "rng": seed, "maxfevals": 3000 * d, "vectorized": True}
        results = [
            sl.minimize(noisy(fun, noise, seed + 1), np.full(d, 0.7), 0.5, noise_floor=noise_floor, **settings)
            for noise_floor in (True, False)
        ]
        (reason, nfev), (other, full) = ((next(iter(result.reasons)), result.nfev) for result in results)
        at_mean = [float(fun(result.mean)) for result in results]
        print(
            name,
            d,
            method,
            noise,
            seed,
            "|",
            reason,
            nfev,
            "|",
            other,
            full,
            f"| {at_mean[0]:.2g} {at_mean[1]:.2g}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("smooth", "ode", "random"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 5, 10, 20, 40])
    options = parser.parse_args()
    {"smooth": smooth, "ode": ode, "random": random}[options.part](options)
