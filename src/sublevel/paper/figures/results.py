"""What came out of a setting: its trials, their averages, and the row of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.paper.figures.compute import REACHED, THRESHOLDS
from sublevel.paper.figures.config import Setting

ALONG_TIME = ("cond", "expected")


def join_parts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The arrays of consecutive chunks as one, with mean and standard deviation of the curves added."""
    longest = max(parts, key=lambda part: part["times"].size)
    shared = {name: longest[name] for name in ("times", "thresholds")}
    arrays = {
        name: np.concatenate(
            [_pad_curves(part[name], shared["times"].size) if name in ALONG_TIME else part[name] for part in parts]
        )
        for name in longest
        if name not in shared
    }
    reached = arrays["ending"] == REACHED
    running = np.count_nonzero(np.isfinite(arrays["cond"][reached]), axis=0)
    together = running == np.count_nonzero(
        reached
    )  # from the first arrival on, an average would be over the slow ones only
    averages = {
        f"{name}_{word}": np.where(together, moment, np.nan)
        for name in ALONG_TIME
        for word, moment in zip(("mean", "std"), _moments(arrays[name][reached].astype(np.float64)), strict=True)
    }
    return {**shared, **arrays, **averages, "running": running}


def _pad_curves(curve: NDArray[Any], size: int) -> NDArray[Any]:
    return np.pad(curve, ((0, 0), (0, size - curve.shape[1])), constant_values=np.nan)


def _moments(curves: Array) -> tuple[Array, Array]:
    """Mean and standard deviation over trials (trials, ...), NaN without a trial."""
    if not len(curves):
        return np.full(curves.shape[1:], np.nan), np.full(curves.shape[1:], np.nan)
    mean = np.add.reduce(curves, axis=0) / len(curves)
    return mean, np.sqrt(np.add.reduce(np.square(curves - mean), axis=0) / max(1, len(curves) - 1))


@dataclass(frozen=True)
class Result:
    """The trials of a setting. Averages are over those that reached the target; the others are `failures`, by name."""

    setting: Setting
    arrays: Mapping[str, Any]

    @cached_property
    def reached(self) -> NDArray[np.bool_]:
        """Which trials reached the target (trials,)."""
        return np.asarray(self.arrays["ending"] == REACHED)

    @property
    def trials(self) -> int:
        """How many there were."""
        return self.reached.size

    @property
    def failed(self) -> int:
        """How many did not reach the target."""
        return self.trials - int(self.reached.sum())

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed in which way."""
        names, counts = np.unique(self.arrays["ending"][~self.reached], return_counts=True)
        return {str(name): int(count) for name, count in zip(names, counts, strict=True)}

    def mean(self, name: str) -> float:
        """Mean of a number per trial; NaN if no trial reached the target."""
        return float(_moments(self.arrays[name][self.reached])[0])

    def std(self, name: str) -> float:
        """Standard deviation of a number per trial."""
        return float(_moments(self.arrays[name][self.reached])[1])

    def time_to(self, threshold: float) -> float:
        """Mean first time to Cond(CA) ≤ threshold; NaN if not every trial that reached the target got there."""
        return float(_moments(self.arrays["first_times"][self.reached, THRESHOLDS.index(threshold)])[0])

    def curve(self, name: str) -> tuple[NDArray[np.int64], Array, Array]:
        """Times, mean and standard deviation of "cond" or "expected", cut where the first trial reaches the target."""
        mean = self.arrays[f"{name}_mean"]
        there = np.isfinite(mean)
        return self.arrays["times"][there], mean[there], self.arrays[f"{name}_std"][there]


Results = Mapping[Setting, Result]


def summary_row(figure: int, result: Result) -> dict[str, Any]:
    """One object of `summary.json`. Means are over the trials that reached the target; null if there is none."""
    setting = result.setting
    return {
        "figure": figure,
        "method": setting.method,
        "n": setting.n,
        "c_C": setting.c_cov,
        "m0": int(setting.start),
        "trials": result.trials,
        "failed": result.failed,
        "iterations": _number(result.mean("iterations")),
        "cond_final": _number(result.mean("final_cond")),
        "cond_final_std": _number(result.std("final_cond")),
        "iterations_to_cond10": _number(result.time_to(10.0)),
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
