"""Results as the paper reports them, made up number by number, so that a test can change one and see who notices."""

from __future__ import annotations

import numpy as np

from sublevel.paper.figures.config import EXPERIMENT, FIGURES, Setting, all_settings
from sublevel.paper.figures.results import Result, join_parts

THRESHOLDS = EXPERIMENT.thresholds
TRIALS = 4
DELAYS = {5: 33.0, 20: 10.0, 90: 3.5, 400: 1.7, 1789: 1.17, 8000: 1.0}
"""How many times longer than n = d³ a sample size takes to learn C."""
FINAL = {5: 4.0, 20: 2.2, 90: 1.6, 400: 1.36, 1789: 1.2, 8000: 1.1}
FAILING = {(5, 0.5), (20, 0.5), (5, 1.0), (20, 1.0)}


def made_up(setting, *, failed=None, times=None, final=None, iterations=None, ending="degenerate"):
    """A result with these numbers; what is not given is as in the paper."""
    rate = setting.c_cov or {20: 0.14, 400: 0.75}[setting.n]
    learned = DELAYS[setting.n] * 0.1 / rate
    late = 1 + 0.04 * DELAYS[setting.n] if setting.start else 1.0
    times = (
        np.array([46, 92, 141, 195, 254]) * learned * late if times is None else np.broadcast_to(times, len(THRESHOLDS))
    )
    final = {0.5: 1.28, 1.0: 1.6}.get(rate, 1.1) / 1.1 * FINAL[setting.n] if final is None else final
    failed = TRIALS if failed is None and (setting.n, setting.c_cov) in FAILING else failed or 0
    lost = np.arange(TRIALS) < failed
    curve = np.broadcast_to(np.array([1e6, 1e3, final]), (TRIALS, 3))
    return Result(
        setting,
        join_parts(
            [
                {
                    "times": np.arange(3),
                    "cond": curve.astype(np.float32),
                    "expected": curve.astype(np.float32),
                    "thresholds": np.array(THRESHOLDS),
                    "first_times": np.where(lost[:, None], np.nan, times),
                    "ending": np.where(lost, ending, "reached"),
                    "iterations": np.full(TRIALS, 1000 * learned if iterations is None else iterations),
                    "final_cond": np.where(lost, 2e14, final),
                    "final_expected": np.where(lost, 1e-2, 1e-10),
                    "final_mean_share": np.where(lost, 0.9999, 0.1),
                    "final_eigenvalue_ratio": np.where(lost, 1e-18, 1e-6),
                }
            ]
        ),
    )


def paper_results(changed=None):
    """The results of all settings, one of them changed if asked for: (setting, the numbers to change)."""
    results = {setting: made_up(setting) for setting in all_settings(FIGURES)}
    if changed is not None:
        setting, numbers = changed
        results[setting] = made_up(setting, **numbers)
    return results


def ngd(n, rate, start=0.0):
    """A setting of the paper's algorithm."""
    return Setting("ngd", n, rate, start)


def rank_mu(n, start=0.0):
    """A setting of rank-µ CMA-ES."""
    return Setting("rank-mu", n, None, start)
