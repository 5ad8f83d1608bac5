"""The experiments of the paper: the function, the settings of each figure, and the chunks of trials."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from sublevel.engine.arrays import Array, Streams
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.paper.streams import streams

CODE = ("paper/figures/compute.py", "paper/figures/config.py", "paper/theory/measure.py")
"""The code that determines the data, besides the engine."""
DIMENSION = 20
CONDITION = 1e6
"""Condition number of the Hessian, whose eigenvalues range over [1, 10⁶]."""
TARGET = 1e-10
"""A trial ends when m'Am + Tr(CA) ≤ TARGET."""
TRIALS = 50
QUICK_TRIALS, QUICK_SECONDS, QUICK_LEAST = 8, 4.0, 2
"""A quick run takes 8 trials of a setting, or as many as fit into about 4 seconds, but at least 2."""
RATES = (0.1, 0.5, 1.0)
"""The values of c_C in figure 1."""
FAR = 10.0
"""Every coordinate of the other initial mean."""
CHUNK_POINTS = 16_000
CHUNK_TRIALS = 25
"""A chunk has as many trials as fit into the second-level cache, at most 25, independent of the number of processes."""


def sample_size(half_powers: int, d: int) -> int:
    """n = ⌈d^(k/2)⌉ for k = `half_powers`, in whole numbers."""
    return isqrt(d**half_powers - 1) + 1


def hessian_diagonal(d: int) -> Array:
    """A (d,) of the paper's f(x) = xᵀAx = Σ 10^(6(i−1)/(d−1)) xᵢ²."""
    return CONDITION ** (np.arange(d) / (d - 1))


@dataclass(frozen=True, slots=True)
class Setting:
    """One curve of the paper: a method, its sample size, rate and initial mean."""

    method: str  # "ngd" or "rank-mu"
    n: int
    c_cov: float | None  # None for rank-µ, whose rate follows from d and n
    start: float  # every coordinate of m⁰
    d: int = DIMENSION

    @property
    def key(self) -> str:
        """Name in files and seeds; it must not change, because the data depend on it."""
        rate = "" if self.c_cov is None else f"-c{self.c_cov:g}"
        return f"{self.method}-d{self.d}-n{self.n}{rate}-m{self.start:g}"

    @property
    def recipe(self) -> Method:
        """The method itself."""
        return rank_mu() if self.c_cov is None else ngd(c_cov=self.c_cov)

    def theta(self, trials: int) -> FullGaussian:
        """N(m⁰, I) for each trial."""
        return FullGaussian.start(np.full((trials, self.d), self.start), np.ones((trials, self.d)))

    def streams(self, seed: int, first: int, count: int) -> Streams:
        """The random numbers of trials first, first + 1, ..."""
        return streams(seed, self.key, first, count)

    @property
    def cost(self) -> float:
        """Expected seconds of one trial, for the progress bar and the order of tasks."""
        rate = self.c_cov or (0.14 if self.n <= self.d else 0.75)
        iterations = (60 + 4400 / self.n**0.5) / rate  # as first measured
        return iterations * (40 + 0.5 * self.n) * 1e-6

    @property
    def quick_trials(self) -> int:
        """Trials of this setting in a quick run."""
        return min(QUICK_TRIALS, max(QUICK_LEAST, int(QUICK_SECONDS / self.cost)))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some trials of a setting, computed together."""

    setting: Setting
    seed: int
    first: int
    count: int

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"{self.setting.key}.{self.first:04d}-{self.first + self.count - 1:04d}"

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return self.setting.cost * self.count

    @property
    def config(self) -> dict[str, Any]:
        """Everything that determines its data, apart from the code."""
        return {**setting_config(self.setting, self.seed), "first": self.first, "count": self.count}


def setting_config(setting: Setting, seed: int) -> dict[str, Any]:
    """The configuration as it is written into files."""
    return {
        "method": setting.method,
        "n": setting.n,
        "c_C": setting.c_cov,
        "m0": setting.start,
        "d": setting.d,
        "seed": seed,
        "target": TARGET,
    }


def chunks(setting: Setting, seed: int, trials: int) -> list[Chunk]:
    """The trials of a setting in chunks of a size that depends on n alone."""
    size = min(CHUNK_TRIALS, max(1, CHUNK_POINTS // setting.n))
    return [Chunk(setting, seed, first, min(size, trials - first)) for first in range(0, trials, size)]


def matched_rates(d: int) -> tuple[tuple[int, float], ...]:
    """n and the c_C at which NGD adapts about as fast as rank-µ does at that n, from the caption of figure 3."""
    return (sample_size(2, d), 0.14), (sample_size(4, d), 0.75)


def figure_settings(figure: int, d: int = DIMENSION) -> list[Setting]:
    """The settings of one of the paper's figures."""
    sizes = {power: sample_size(power, d) for power in range(1, 7)}
    if figure == 1:
        return [Setting("ngd", n, rate, 0.0, d) for rate in RATES for n in sizes.values()]
    if figure == 2:
        return [Setting("ngd", sizes[power], 0.1, start, d) for power in (2, 4, 6) for start in (0.0, FAR)]
    return [
        Setting(method, n, rate if method == "ngd" else None, start, d)
        for n, rate in matched_rates(d)
        for method in ("ngd", "rank-mu")
        for start in (0.0, FAR)
    ]


FIGURES = (1, 2, 3)


def all_settings(figures: tuple[int, ...], d: int = DIMENSION) -> list[Setting]:
    """The settings of some figures, each once."""
    return list(dict.fromkeys(setting for figure in figures for setting in figure_settings(figure, d)))
