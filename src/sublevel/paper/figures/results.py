"""The trials of a setting, their averages, and the row of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.compute import REACHED
from sublevel.paper.figures.config import EXPERIMENT, Setting

CURVES = ("cond", "expected")


def join_parts(parts: Sequence[Arrays]) -> Arrays:
    """The arrays of consecutive chunks as one, with mean and standard deviation of the curves added."""
    longest = max(parts, key=lambda part: part["times"].size)
    shared = {name: longest[name] for name in ("times", "thresholds")}

    def rows(part: Arrays, name: str) -> Array:
        missing = shared["times"].size - part[name].shape[1] if name in CURVES else 0
        return np.pad(part[name], ((0, 0), (0, missing)), constant_values=np.nan) if missing else part[name]

    arrays = {name: np.concatenate([rows(part, name) for part in parts]) for name in longest if name not in shared}
    reached = arrays["ending"] == REACHED
    running = np.count_nonzero(np.isfinite(arrays["cond"][reached]), axis=0)
    together = running == np.count_nonzero(reached)  # later averages would be over the slow trials only
    averages = {
        f"{name}_{word}": np.where(together, moment, np.nan)
        for name in CURVES
        for word, moment in zip(("mean", "std"), _moments(arrays[name][reached].astype(np.float64)), strict=True)
    }
    return {**shared, **arrays, **averages, "running": running}


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
    arrays: Arrays

    @cached_property
    def reached(self) -> NDArray[np.bool_]:
        """Which trials reached the target (trials,)."""
        return np.asarray(self.arrays["ending"] == REACHED)

    @property
    def trials(self) -> int:
        """The number of trials."""
        return self.reached.size

    @property
    def failed(self) -> int:
        """The number of trials that did not reach the target."""
        return self.trials - int(self.reached.sum())

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed trials by the name of the failure."""
        names, counts = np.unique(self.arrays["ending"][~self.reached], return_counts=True)
        return {str(name): int(count) for name, count in zip(names, counts, strict=True)}

    def numbers(self, name: str) -> Array:
        """A number of each trial that reached the target."""
        return self.arrays[name][self.reached]

    def mean(self, name: str) -> float:
        """Mean of a number per trial; NaN if no trial reached the target."""
        return float(_moments(self.numbers(name))[0])

    def std(self, name: str) -> float:
        """Standard deviation of a number per trial."""
        return float(_moments(self.numbers(name))[1])

    def time_to(self, threshold: float) -> float:
        """Mean first time to Cond(CA) ≤ threshold; NaN if not every trial that reached the target got there."""
        return float(_moments(self.times_to(threshold))[0])

    def times_to(self, threshold: float) -> Array:
        """First time to Cond(CA) ≤ threshold of each trial that reached the target; NaN if it did not get there."""
        return self.arrays["first_times"][self.reached, EXPERIMENT.thresholds.index(threshold)]

    def curve(self, name: str) -> tuple[NDArray[np.int64], Array, Array]:
        """Times, mean and standard deviation of "cond" or "expected", cut where the first trial reaches the target."""
        mean = self.arrays[f"{name}_mean"]
        there = np.isfinite(mean)
        return self.arrays["times"][there], mean[there], self.arrays[f"{name}_std"][there]


Results = Mapping[Setting, Result]


def summary_row(figure: int, result: Result) -> dict[str, str | float | None]:
    """One object of `summary.json`. Means are over the trials that reached the target; null if there is none."""
    setting = result.setting
    means = {
        "iterations": result.mean("iterations"),
        "cond_final": result.mean("final_cond"),
        "cond_final_std": result.std("final_cond"),
        "iterations_to_cond10": result.time_to(10.0),
    }
    return {
        **{"figure": figure, "method": setting.method, "n": setting.n, "c_C": setting.c_cov, "m0": int(setting.start)},
        **{"trials": result.trials, "failed": result.failed},
        **{name: value if isfinite(value) else None for name, value in means.items()},
    }
