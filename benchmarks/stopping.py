"""Evaluations of fits until they end, and how many of them were needed.

    python benchmarks/stopping.py --seeds 5                                            (about 5 minutes)

Needed are the evaluations until the best value is within a part of the lowest one, `--rtolfun` of it. Printed: medians
of the evaluations by the default criteria, of those that were needed, and of those of runs with this `rtolfun`; the
median of the ratio of these to those that were needed; and how much the worst run lacks, as a part of the lowest value.
With and without a surrogate.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.integrate import odeint, solve_ivp

import sublevel as sl

Model = Callable[[np.ndarray], np.ndarray]


class Fit(NamedTuple):
    """A least-squares problem."""

    name: str
    model: Model
    data: np.ndarray
    x0: np.ndarray
    log_scaled: list[bool]

    def __call__(self, p: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            residuals = self.model(p) - self.data
            return float(residuals @ residuals)


def fit(name: str, model: Model, truth: list[float], noise: float, log: str, spread: float, seed: int) -> Fit:
    """Data with noise, and a start some way from the parameters they were made with."""
    p, is_log = np.array(truth), [letter == "l" for letter in log]
    clean = model(p)
    data = clean + noise * np.random.default_rng(seed).standard_normal(clean.shape)
    steps = spread * np.random.default_rng(seed + 10).standard_normal(p.size)
    return Fit(name, model, data, np.where(is_log, p * np.exp(np.where(is_log, steps, 0)), p + steps), is_log)


def epidemic(p: np.ndarray) -> np.ndarray:
    """The SIR model of the README, with the tolerances that `solve_ivp` has by default."""
    flow = lambda _, y: [-p[0] * y[0] * y[1] / 1000, p[0] * y[0] * y[1] / 1000 - p[1] * y[1]]  # noqa: E731
    return solve_ivp(flow, (0, 60), [1000 - p[2], p[2]], t_eval=np.linspace(0, 60, 31)).y[1]


def predators(p: np.ndarray) -> np.ndarray:
    """Lotka and Volterra's model, solved to a relative tolerance of 1e-6."""
    flow = lambda y, _: [p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]]  # noqa: E731
    return odeint(flow, [10, 5], np.linspace(0, 20, 31), rtol=1e-6, atol=1e-6).ravel()


def exponentials(p: np.ndarray) -> np.ndarray:
    t = np.linspace(0, 10, 40)
    return sum(a * np.exp(-b * t) for a, b in p.reshape(-1, 2))


def oscillation(p: np.ndarray) -> np.ndarray:
    t = np.linspace(0, 10, 40)
    return p[0] * np.exp(-p[1] * t) * np.cos(p[2] * t + p[3])


def peaks(p: np.ndarray) -> np.ndarray:
    t = np.linspace(0, 10, 60)
    return p[0] + sum(a * np.exp(-0.5 * np.square((t - at) / width)) for a, at, width in p[1:].reshape(-1, 3))


def logistic(p: np.ndarray) -> np.ndarray:
    return p[0] / (1 + np.exp(-p[1] * (np.linspace(0, 12, 30) - p[2]))) + p[3]


def fits() -> Iterator[Fit]:
    counts = epidemic(np.array([0.4, 0.1, 5])) + np.random.default_rng(0).normal(0, 10, 31)
    yield Fit("epidemic", epidemic, counts, np.array([1, 0.3, 1]), [True] * 3)
    yield fit("predators and prey", predators, [1, 0.1, 1.5, 0.075], 1.0, "llll", 0.3, 1)
    yield fit("two exponentials", exponentials, [2, 1.2, 1, 0.15], 0.02, "llll", 0.7, 2)
    yield fit("three exponentials", exponentials, [1, 3, 1, 0.8, 0.7, 0.15], 0.002, "llllll", 0.7, 2)
    yield fit("oscillation", oscillation, [2, 0.15, 3, 0.5], 0.1, "lll-", 0.2, 3)
    yield fit("two peaks", peaks, [0.5, 2, 3, 0.5, 1, 6.5, 0.8], 0.05, "-l-ll-l", 0.3, 4)
    yield fit("logistic", logistic, [3, 1, 5, 0.3], 0.1, "ll-l", 0.5, 5)


def row(problem: Fit, tolerance: float, seeds: int, *, surrogate: bool) -> str:
    """Medians over seeds."""
    found = []
    for seed in range(seeds):
        given = {"log_scaled": problem.log_scaled, "rng": seed, "surrogate": surrogate}
        values: list[float] = []

        def noted(p: np.ndarray, values: list[float] = values) -> float:
            values.append(problem(p))
            return values[-1]

        whole = sl.minimize(noted, problem.x0, 0.3, **given)
        needed = 1 + int(np.argmax(np.minimum.accumulate(values) <= whole.fun * (1 + tolerance)))
        ended = sl.minimize(problem, problem.x0, 0.3, rtolfun=tolerance, **given)
        found.append((whole.nfev, needed, ended.nfev, ended.nfev / needed, ended.fun / whole.fun - 1))
    whole_run, needed, ended_run, ratio, _ = np.median(found, axis=0)
    lacking = max(excess for *_, excess in found)
    return f"{whole_run:.0f} | {needed:.0f} | {ended_run:.0f} | {ratio:.2f} | {lacking:.0e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rtolfun", type=float, default=1e-6)
    given = parser.parse_args()
    print("| fit | surrogate | default | needed | with rtolfun | ratio | lacking |")
    for problem in fits():
        for surrogate in (False, True):
            columns = row(problem, given.rtolfun, given.seeds, surrogate=surrogate)
            print(f"| {problem.name} | {'yes' if surrogate else 'no'} | {columns} |", flush=True)


if __name__ == "__main__":
    main()
