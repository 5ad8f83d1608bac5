"""The experiments of the paper: the function and the settings of each figure."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from sublevel.engine.arrays import Array, Streams
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.paper.streams import streams

CODE = ("paper/figures/compute.py", "paper/figures/config.py", "paper/theory/measure.py")
"""The code that determines the data, besides the engine."""
FIGURES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The numbers of the experiment: those of the paper, and limits of the computation."""

    dimension: int = 20
    condition: float = 1e6  # of the Hessian, whose eigenvalues range over [1, 10⁶]
    target: float = 1e-10  # a trial ends when m'Am + Tr(CA) is at most this
    rates: tuple[float, ...] = (0.1, 0.5, 1.0)  # the values of c_C in figure 1
    far: float = 10.0  # every coordinate of the other initial mean
    trials: int = 50
    quick_trials: int = 8  # of a setting in a quick run, or as many as fit into `quick_seconds`
    quick_seconds: float = 4.0
    quick_least: int = 4  # but at least these, or nothing could be said about means
    chunk_points: int = 16_000  # of the samples of a chunk of trials, which then fit into the second-level cache
    chunk_trials: int = 25  # at most, in a chunk
    degenerate: float = 1e14  # Cond(CA) beyond which the eigenvalues of C have no digit left: C shrank faster than m
    cap: int = 100_000  # iterations after which a trial is stopped, five times those of the slowest setting
    patience: int = 10  # consecutive iterations without a step after which a trial is stopped
    thresholds: tuple[float, ...] = (1e5, 1e4, 1e3, 1e2, 1e1)  # condition numbers whose first iteration is recorded


EXPERIMENT = Experiment()


def sample_size(half_powers: int, d: int) -> int:
    """n = ⌈d^(k/2)⌉ for k = `half_powers`, in whole numbers."""
    return isqrt(d**half_powers - 1) + 1


def hessian_diagonal(d: int) -> Array:
    """A (d,) of the paper's f(x) = xᵀAx = Σ 10^(6(i−1)/(d−1)) xᵢ²."""
    return EXPERIMENT.condition ** (np.arange(d) / (d - 1))


@dataclass(frozen=True, slots=True)
class Setting:
    """One curve of the paper: a method, its sample size, rate and initial mean."""

    method: str  # "ngd" or "rank-mu"
    n: int
    c_cov: float | None  # None for rank-µ, whose rate follows from d and n
    start: float  # every coordinate of m⁰
    d: int = EXPERIMENT.dimension

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
        fitting = int(EXPERIMENT.quick_seconds / self.cost)
        return min(EXPERIMENT.quick_trials, max(EXPERIMENT.quick_least, fitting))

    def config(self, seed: int, trials: int) -> dict[str, object]:
        """The configuration as it is written into the data file."""
        numbers = {"n": self.n, "c_C": self.c_cov, "m0": self.start, "d": self.d, "target": EXPERIMENT.target}
        return {"method": self.method, **numbers, "seed": seed, "trials": trials}


def matched_rates(d: int) -> tuple[tuple[int, float], ...]:
    """n and the c_C at which NGD adapts about as fast as rank-µ does at that n, from the caption of figure 3."""
    return (sample_size(2, d), 0.14), (sample_size(4, d), 0.75)


def figure_settings(figure: int, d: int = EXPERIMENT.dimension) -> list[Setting]:
    """The settings of one of the paper's figures."""
    sizes, starts = {power: sample_size(power, d) for power in range(1, 7)}, (0.0, EXPERIMENT.far)
    if figure == 1:
        return [Setting("ngd", n, rate, 0.0, d) for rate in EXPERIMENT.rates for n in sizes.values()]
    if figure == 2:
        return [Setting("ngd", sizes[power], 0.1, start, d) for power in (2, 4, 6) for start in starts]
    return [
        Setting(method, n, rate if method == "ngd" else None, start, d)
        for n, rate in matched_rates(d)
        for method in ("ngd", "rank-mu")
        for start in starts
    ]


def all_settings(figures: tuple[int, ...], d: int = EXPERIMENT.dimension) -> list[Setting]:
    """The settings of some figures, each once."""
    return list(dict.fromkeys(setting for figure in figures for setting in figure_settings(figure, d)))
