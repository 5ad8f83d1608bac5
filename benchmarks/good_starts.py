"""Evaluations with a good start and standard deviations that may be too wide for it, with the start evaluated or not.

    python benchmarks/good_starts.py --seeds 11                                        (about a minute)

Least-squares problems of Moré, Garbow & Hillstrom (ACM TOMS 7, 1981) from their standard starts. Printed: median
evaluations divided by n + 1 to a tenth of the difference between f(x0) and the minimum, for each initial standard
deviation, if `x0` is evaluated and if it is not; in parentheses how often the search began again at `x0`, on average.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import sublevel as sl

Residuals = Callable[[np.ndarray], np.ndarray]
OSBORNE_1 = """.844 .908 .932 .936 .925 .908 .881 .850 .818 .784 .751 .718 .685 .658 .628 .603 .580 .558 .538 .522 .506
.490 .478 .467 .457 .448 .438 .431 .424 .420 .414 .411 .406"""
OSBORNE_2 = """1.366 1.191 1.112 1.013 .991 .885 .831 .847 .786 .725 .746 .679 .608 .655 .616 .606 .602 .626 .651 .724
.649 .649 .694 .644 .624 .661 .612 .558 .533 .495 .500 .423 .395 .375 .372 .391 .396 .405 .428 .429 .523 .562 .607 .653
.672 .708 .633 .668 .645 .632 .591 .559 .597 .625 .739 .710 .729 .720 .636 .581 .428 .292 .162 .098 .054"""
KOWALIK = ".1957 .1947 .1735 .1600 .0844 .0627 .0456 .0342 .0323 .0235 .0246"
GRID = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
BUDGET = 200
"""Evaluations, divided by n + 1."""


def measured(text: str) -> np.ndarray:
    return np.array([float(number) for number in text.split()])


def chebyquad(x: np.ndarray) -> np.ndarray:
    n = x.size
    integrals = [0.0 if k % 2 else -1 / (k * k - 1) for k in range(1, n + 1)]
    return np.polynomial.chebyshev.chebvander(2 * x - 1, n)[:, 1:].mean(axis=0) - integrals


def osborne_1(x: np.ndarray) -> np.ndarray:
    t = 10.0 * np.arange(33)
    return measured(OSBORNE_1) - (x[0] + x[1] * np.exp(-t * x[3]) + x[2] * np.exp(-t * x[4]))


def osborne_2(x: np.ndarray) -> np.ndarray:
    t = np.arange(65) / 10
    peaks = x[1:4] * np.exp(-np.square(t[:, None] - x[8:11]) * x[5:8])
    return measured(OSBORNE_2) - (x[0] * np.exp(-t * x[4]) + peaks.sum(axis=1))


def kowalik(x: np.ndarray) -> np.ndarray:
    return measured(KOWALIK) - x[0] * (GRID**2 + GRID * x[1]) / (GRID**2 + GRID * x[2] + x[3])


def brown_dennis(x: np.ndarray) -> np.ndarray:
    t = np.arange(1, 21) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


def problems() -> Iterator[tuple[str, Residuals, np.ndarray, float]]:
    """Name, residuals, start and minimum."""
    minima = {6: 0.0, 7: 0.0, 8: 3.51687e-3, 9: 0.0, 10: 4.77271e-3, 11: 2.79976e-3}
    for n, minimum in minima.items():
        yield f"Chebyquad, n = {n}", chebyquad, np.arange(1, n + 1) / (n + 1), minimum
    yield "Kowalik & Osborne, n = 4", kowalik, np.array([0.25, 0.39, 0.415, 0.39]), 3.07505e-4
    yield "Brown & Dennis, n = 4", brown_dennis, np.array([25, 5, -5, -1.0]), 85822.2
    yield "Osborne 1, n = 5", osborne_1, np.array([0.5, 1.5, -1, 0.01, 0.02]), 5.46489e-5
    x0 = np.array([1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5])
    yield "Osborne 2, n = 11", osborne_2, x0, 4.01377e-2


def solved(residuals: Residuals, x0: np.ndarray, sigma0: float, target: float, seed: int, *, known: bool) -> sl.Result:
    """A search to the target."""

    def fun(x: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            r = residuals(x)
            return float(r @ r)

    settings = {"ftarget": target, "maxfevals": BUDGET * (x0.size + 1), "evaluate_x0": known}
    return sl.minimize(fun, x0, sigma0, rng=seed, **settings)


def row(residuals: Residuals, x0: np.ndarray, minimum: float, widths: list[float], seeds: int) -> Iterator[str]:
    start = residuals(x0)
    target = minimum + 0.1 * (float(start @ start) - minimum)
    for sigma0 in widths:
        for known in (True, False):
            runs = [solved(residuals, x0, sigma0, target, seed, known=known) for seed in range(seeds)]
            counts = [run.nfev if run.fun <= target else np.inf for run in runs]
            times = [
                finding.numbers["times"] for run in runs for finding in run.diagnosis if finding.name == "narrowed"
            ]
            yield f"{np.median(counts) / (x0.size + 1):.0f}" + (f" ({sum(times) / seeds:.1f})" if known else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=11)
    given, widths = parser.parse_args(), [0.1, 0.3, 1.0]
    print("| problem | " + " | ".join(f"σ0 = {width:g} | alone" for width in widths) + " |")
    for name, residuals, x0, minimum in problems():
        print(f"| {name} | " + " | ".join(row(residuals, x0, minimum, widths, given.seeds)) + " |", flush=True)


if __name__ == "__main__":
    main()
