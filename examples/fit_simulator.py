"""Fit a small simulator to data: the best parameters, their error bars, pictures and a report. It takes a few seconds.

python examples/fit_simulator.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sublevel as sl
from sublevel.cli.main import main as sublevel_command

POPULATION, DAYS, STEPS_A_DAY = 10_000, 60, 8
NAMES = ["infection rate", "recovery rate", "first cases"]
TRUTH = np.array([0.42, 0.18, 3.0])


def simulate(parameters):
    """New cases of each day of an epidemic (the SIR model, in small steps)."""
    infection, recovery, infected = map(float, parameters)
    susceptible, cases = POPULATION - infected, []
    for _ in range(DAYS):
        new = 0.0
        for _ in range(STEPS_A_DAY):
            step = infection * susceptible * infected / POPULATION / STEPS_A_DAY
            susceptible -= step
            infected += step - recovery * infected / STEPS_A_DAY
            new += step
        cases.append(new)
    return np.array(cases)


COUNTS = np.random.default_rng(7).poisson(simulate(TRUTH))
"""The data: what a health office would count."""


def negative_log_likelihood(parameters):
    """How badly the parameters explain the counts, which scatter as Poisson numbers."""
    expected = np.maximum(simulate(parameters), 1e-9)
    return np.sum(expected - COUNTS * np.log(expected))


def fit(store):
    """Search from a rough guess: the rates within a factor of three or so, the number of first cases within a factor of
    ten. The error bars are those of a negative log-likelihood, and are in the file too.
    """
    bounds = [(0.01, 3), (0.01, 3), (0.1, 1000)]
    return sl.minimize(
        negative_log_likelihood,
        [0.5, 0.5, 20],
        [0.6, 0.6, 1.5],
        log_scaled=True,
        bounds=bounds,
        names=NAMES,
        rng=1,
        store=store,
        curvature=True,
        kind="nll",
    )


def draw(file, result, errors):
    """The data, the fit, and what parameters that are as likely would predict."""
    rng, days = np.random.default_rng(1), np.arange(1, DAYS + 1)
    others = np.exp(
        rng.multivariate_normal(np.log(errors.x), errors.covariance / np.outer(errors.x, errors.x), size=200)
    )
    low, high = np.quantile([simulate(parameters) for parameters in others], [0.025, 0.975], axis=0)
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.fill_between(days, low, high, color="#1f77b4", alpha=0.25, lw=0, label="95 % of the fits that are likely")
    axis.plot(days, simulate(result.x), color="#1f77b4", label="fit")
    axis.plot(days, COUNTS, "o", ms=3.5, color="#22262b", label="data")
    axis.set(xlabel="day", ylabel="new cases", title="An epidemic, and the simulator fitted to it")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(file, dpi=130)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("fit*"):
        old.unlink()
    print(f"Fitting {len(NAMES)} parameters of a simulator to {DAYS} counts ...")
    result = fit(store=folder / "fit.db")
    errors = result.curvature
    print(f"{result.message}; {result.nfev - errors.nfev} evaluations\n")
    print(errors.summary())
    print(
        "\nThe data were made with "
        + ", ".join(f"{name} {value:g}" for name, value in zip(NAMES, TRUTH, strict=True))
        + ".\n"
    )
    draw(folder / "fit.png", result, errors)
    errors.plot(folder / "fit-errors.png")
    sublevel_command(["report", str(folder / "fit.db"), "--out", str(folder / "fit.html")])
    print(f"pictures: {(folder / 'fit.png').resolve()}, {(folder / 'fit-errors.png').resolve()}")
    print(f"this script: {Path(__file__).resolve()}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
