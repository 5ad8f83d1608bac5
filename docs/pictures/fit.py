"""Draw the picture of the README: a simulator fitted to data, with error bars.

python docs/pictures/fit.py docs/pictures/fit.png
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import sublevel as sl

t = np.linspace(0, 60, 31)
START, BLUE = (1.0, 0.3, 1.0), "#1f77b4"


def infected(rate: float, recovery: float, first: float) -> np.ndarray:
    """An SIR epidemic among 1000 people."""

    def flow(_: float, y: np.ndarray) -> list[float]:
        return [-rate * y[0] * y[1] / 1000, rate * y[0] * y[1] / 1000 - recovery * y[1]]

    return solve_ivp(flow, (0, 60), [1000 - first, first], t_eval=t).y[1]


data = infected(0.4, 0.1, 5) + np.random.default_rng(0).normal(0, 10, t.size)


def squares(p: np.ndarray) -> float:
    return np.sum((infected(*p) - data) ** 2)


def main(file: str) -> None:
    names = ["rate", "recovery", "first"]
    fit = sl.minimize(squares, x0=START, sigma0=0.3, log_scaled=True, rtolfun=1e-6, names=names, rng=1)
    bars = sl.curvature(squares, fit, kind="least_squares", n_residuals=t.size)
    rng = np.random.default_rng(1)
    figure, (curves, cloud) = plt.subplots(1, 2, figsize=(9, 3.4), gridspec_kw={"width_ratios": [1.5, 1]})
    for p in rng.multivariate_normal(bars.x, bars.covariance, 60):
        curves.plot(t, infected(*p), color=BLUE, alpha=0.08, lw=1)
    curves.plot(t, infected(*fit.x), color=BLUE, lw=2, label="fit")
    curves.plot(t, infected(*START), color="0.6", ls="--", label="start")
    curves.plot(t, data, "o", ms=4, color="#d62728", label="data")
    curves.set(xlabel="days", ylabel="infected", title=f"{fit.nfev} evaluations from the start to the fit")
    curves.legend(frameon=False)
    points = rng.multivariate_normal(bars.x, bars.covariance, 1500)
    cloud.plot(points[:, 0], points[:, 2], ".", ms=2, alpha=0.3, color=BLUE)
    cloud.errorbar(bars.x[0], bars.x[2], xerr=bars.stderr[0], yerr=bars.stderr[2], fmt="o", color="k", capsize=3)
    cloud.set(xlabel="rate", ylabel="first", title=f"error bars: {bars.nfev} more evaluations")
    for axes in (curves, cloud):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1])
