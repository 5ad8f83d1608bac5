"""Predictions of theory for the stochastic algorithm on a quadratic, and what runs on xᵀx do.

By invariance, runs on xᵀAx from C = A⁻¹ are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.engine.sampling import SAMPLINGS
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.compute import Batch
from sublevel.paper.streams import streams
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.theory.measure import condition_number
from sublevel.paper.theory.predictions import (
    CAVEAT,
    convergence_rate,
    final_condition,
    is_stable,
    matched_rate,
    stability_limit,
)

LOST = 1e4
"""mᵀC⁻¹m/d beyond which the mean is left behind."""
HORIZON = 20 * log(10)
"""Decrease of log det(C)/d after which a run that is not lost is stable: as much as ten digits of every coordinate."""
WARM_UP = 6.0
"""Length of the initial phase, in times in which C shrinks by a factor e; that of its shape is up to twice as long."""
SEGMENTS = ((1_500, 12.0), (64_000, 3.0), (float("inf"), 1.0))
"""Length of a segment in the same unit, where a sample has at most this number of coordinates."""
CHECKS = 20
"""Number of times in a segment at which Cond(CA) is recorded, roughly."""
CHEAP = 100
"""Coordinates of a sample up to which trials are short; Cond(CA) has a heavy tail there, and needs more of them."""
POINTS = 64_000
"""Points of all trials of a batch, at most."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    settings: tuple[tuple[int, int], ...]  # d and n
    rates: tuple[float, ...]  # c_C
    boundary: tuple[tuple[int, int], ...]  # d and n at which the largest stable c_C is searched
    matches: tuple[tuple[int, int], ...]  # d and n at which NGD is made as fast as rank-µ
    trials: int  # of a setting
    cheap_trials: int  # of one whose samples have at most `CHEAP` coordinates
    halvings: int  # of the bisection


def powers(dimensions: tuple[int, ...], exponents: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """d and n = dᵏ."""
    return tuple((d, d**k) for d in dimensions for k in exponents)


FULL = Design(
    settings=powers((5, 10, 20, 40), (1, 2, 3)),
    rates=(0.05, 0.1, 0.3, 0.5, 1.0),
    boundary=(
        *((5, n) for n in (3, 4, 5, 7, 10)),
        *((10, n) for n in (5, 7, 10, 15, 20)),
        *((20, n) for n in (5, 10, 15, 20, 30, 40)),
        (40, 40),
    ),
    matches=((5, 10), (5, 25), (10, 10), (10, 30), (10, 100), (20, 20), (20, 90), (20, 400)),
    trials=30,
    cheap_trials=300,
    halvings=6,
)
QUICK = replace(
    FULL,
    settings=powers((5, 10), (1, 2)),
    rates=(0.1, 0.3, 1.0),
    boundary=((5, 3), (5, 5), (10, 10)),
    matches=((5, 10), (10, 10)),
    cheap_trials=30,
    halvings=4,
)
TINY = replace(
    QUICK,
    settings=((5, 5), (5, 25)),
    rates=(0.3, 1.0),
    boundary=((5, 4),),
    matches=((5, 10),),
    trials=8,
    cheap_trials=8,
    halvings=2,
)
DESIGNS: dict[Scale, Design] = {"full": FULL, "quick": QUICK, "tiny": TINY}


@cache
def method_of(c_cov: float | None, sampling: str = "independent") -> Method:
    """NGD at this rate, or rank-µ for None."""
    return rank_mu(sampling=sampling) if c_cov is None else ngd(c_cov=c_cov, sampling=sampling)


class Runs:
    """Trials on xᵀx from C = I and m = 0, in batches that fit into the cache.

    Mirrored points start at m = (1, …, 1), because from m = 0 their steps have no mean.
    """

    def __init__(self, method: Method, d: int, n: int, trials: int, seed: int, key: str) -> None:
        self.method, self.d, self.n, self.trials = method, d, n, trials
        start = 1.0 if method.sampling.mirrored else 0.0
        theta = FullGaussian.start(np.full((trials, d), start), np.ones((trials, d)))
        self.batch = Batch.start(method, theta, n, streams(seed, key, 0, trials))

    @property
    def theta(self) -> FullGaussian:
        """The search distributions."""
        return self.batch.theta

    def step(self) -> None:
        """One iteration of all trials."""
        sample = self.method.ask(self.batch.state, self.batch.noise, self.n)
        state, _ = self.method.tell(self.batch.state, sample, np.vecdot(sample.x, sample.x))
        self.batch = replace(self.batch, state=state)

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Continue with the trials where the mask holds."""
        self.batch = self.batch.select(mask)


def log_scale(theta: FullGaussian) -> Array:
    """log det(C)/d (trials,)."""
    return 2.0 * np.linalg.slogdet(theta.root)[1] / theta.dimension + 2.0 * np.log(theta.scale)


def distance(theta: FullGaussian) -> Array:
    """‖m‖² over det(C)^(1/d) (trials,)."""
    return np.vecdot(theta.mean, theta.mean) * np.exp(-log_scale(theta))


@dataclass(frozen=True, slots=True)
class Stationary:
    """Final Cond(CA) and rate of a method: some trials, each with some segments."""

    d: int
    n: int
    c_cov: float | None  # None for rank-µ
    trials: int
    seed: int
    sampling: str = "independent"

    @property
    def key(self) -> str:
        rate = "rank-mu" if self.c_cov is None else f"c{self.c_cov:.4g}"
        rule = "" if self.sampling == "independent" else f"-{self.sampling}"
        return f"stationary-d{self.d}-n{self.n}-{rate}{rule}"

    @property
    def fold(self) -> int:
        """Iterations in which C shrinks by a factor e, roughly."""
        different = self.n / 2 if SAMPLINGS[self.sampling].mirrored else self.n  # outer products
        noise = 2 * (self.d * (2 * self.d + 24) / (4 * different)) ** 0.5
        return ceil((1 + 1.5 * noise) * 2 / (0.2 if self.c_cov is None else self.c_cov))

    @property
    def length(self) -> int:
        """Iterations in a segment."""
        return max(5, ceil(self.fold * next(length for most, length in SEGMENTS if self.n * self.d <= most)))

    @property
    def cost(self) -> float:
        steps = WARM_UP * self.fold * self.at_once + self.length * self.trials
        return steps * (30 + 0.5 * self.d**2 + self.n * (0.1 + 0.02 * self.d)) * 1e-6

    @property
    def at_once(self) -> int:
        """Trials that run side by side; each yields some of the segments."""
        return max(1, min(self.trials, POINTS // self.n))

    def compute(self) -> Arrays:
        """Means of Cond(CA), of the change of log det(C)/d, and of ‖m‖² in each segment, or NaN if the mean is lost."""
        method = method_of(self.c_cov, self.sampling)
        runs = Runs(method, self.d, self.n, self.at_once, self.seed, self.key)
        for _ in range(ceil(WARM_UP * self.fold)):
            runs.step()
        parts = [self._segment(runs) for _ in range(ceil(self.trials / self.at_once))]
        cond, rate, square, spread = np.concatenate(parts, axis=1)[:, : self.trials]
        return {"cond": cond, "rate": rate, "mean_square": square, "spread": spread}

    def _segment(self, runs: Runs) -> Array:
        """The numbers (4, trials) of a segment."""
        every = max(1, self.length // CHECKS)
        scales = [log_scale(runs.theta)]
        conds: list[Array] = []
        squares: list[Array] = []
        for step in range(self.length):
            runs.step()
            scales.append(log_scale(runs.theta))
            if step % every == 0:
                conds.append(condition_number(runs.theta, np.eye(self.d)))
                squares.append(distance(runs.theta))
        changes, cond = np.diff(scales, axis=0), np.mean(conds, axis=0)
        lost = ~(np.max(squares, axis=0) < LOST)
        numbers = np.stack([cond, np.mean(changes, axis=0), np.mean(squares, axis=0), np.std(changes, axis=0)])
        return np.where(lost, np.nan, numbers)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The c_C at which half of the trials lose the mean, by bisection."""

    d: int
    n: int
    trials: int
    halvings: int
    seed: int

    @property
    def key(self) -> str:
        return f"boundary-d{self.d}-n{self.n}"

    @property
    def cost(self) -> float:
        steps = 46 * Stationary(self.d, self.n, 0.5, 1, 0).fold * self.trials
        return self.halvings * steps * (30 + 0.5 * self.d**2) * 1e-6

    def compute(self) -> Arrays:
        """The last interval of the bisection (2,)."""
        low, high = 0.2, 1.0
        for _ in range(self.halvings):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if self.lost_share(middle) >= 0.5 else (middle, high)
        return {"interval": np.array([low, high])}

    def lost_share(self, c_cov: float) -> float:
        """The share of trials that lose the mean before `HORIZON`, or only on which side of 1/2 it is."""
        runs, lost, safe = (
            Runs(method_of(c_cov), self.d, self.n, self.trials, self.seed, f"{self.key}-{c_cov:.6g}"),
            0,
            0,
        )
        while max(lost, safe) <= self.trials / 2:
            runs.step()
            gone, done = ~(distance(runs.theta) < LOST), log_scale(runs.theta) < -HORIZON
            if gone.any() or done.any():
                lost, safe = lost + int(np.sum(gone)), safe + int(np.sum(done & ~gone))
                if lost + safe == self.trials:
                    break
                runs.keep(~(gone | done))
        return lost / self.trials if lost + safe == self.trials else float(lost > safe)


@dataclass(frozen=True, slots=True)
class Match:
    """The c_C at which NGD shrinks C as fast as rank-µ does, by the rule of false position."""

    d: int
    n: int
    trials: int
    seed: int

    @property
    def key(self) -> str:
        return f"match-d{self.d}-n{self.n}"

    @property
    def cost(self) -> float:
        return 4 * Stationary(self.d, self.n, 0.2, self.trials, 0).cost

    def compute(self) -> Arrays:
        """The matched rate, its standard error, and the two measured exponents."""
        target = self._rates(None)
        c_cov = 0.2
        for _ in range(2):  # the exponent is nearly ∝ c_C
            found = self._rates(c_cov)
            c_cov = min(1.0, c_cov * float(np.mean(target) / np.mean(found)))
        found = self._rates(c_cov)
        relative = np.sqrt(sum(np.var(rates) / rates.size / np.mean(rates) ** 2 for rates in (target, found)))
        numbers = [c_cov * float(np.mean(target) / np.mean(found)), c_cov * relative, np.mean(target), np.mean(found)]
        return {"match": np.array(numbers)}

    def _rates(self, c_cov: float | None) -> Array:
        return Stationary(self.d, self.n, c_cov, self.trials, self.seed).compute()["rate"]


def works(scale: Scale, seed: int) -> list[Stationary | Boundary | Match]:
    """All measurements, at the settings that theory calls stable, and at those it does not."""
    design = DESIGNS[scale]
    return [
        *(
            Stationary(d, n, c_cov, design.trials if n * d > CHEAP else design.cheap_trials, seed)
            for d, n in design.settings
            for c_cov in design.rates
        ),
        *(Boundary(d, n, design.trials, design.halvings, seed) for d, n in design.boundary),
        *(Match(d, n, ceil(design.trials / 3), seed) for d, n in design.matches),
    ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A predicted and a measured number."""

    d: int
    n: int
    c_cov: float
    predicted: float
    measured: float
    error: float  # standard error of the measured number

    @property
    def off(self) -> float:
        """Relative difference."""
        return self.predicted / self.measured - 1.0


def stationary_results(data: Data) -> list[tuple[Stationary, Arrays]]:
    """The settings of NGD with their arrays."""
    found = [(work, part) for work, part in data.items() if isinstance(work, Stationary) and work.c_cov is not None]
    return sorted(found, key=lambda item: (item[0].d, item[0].n, item[0].c_cov))


def conditions(data: Data) -> list[Comparison]:
    """Final Cond(CA), where stability is predicted."""
    return _compare(data, "cond", lambda d, n, c_cov: float(final_condition(d, n, c_cov)))


def rates(data: Data) -> list[Comparison]:
    """The change of log det(C)/d in an iteration, where stability is predicted."""
    return _compare(data, "rate", lambda d, n, c_cov: float(convergence_rate(d, n, c_cov).exponent))


def _compare(data: Data, name: str, predict: Callable[[int, int, float], float]) -> list[Comparison]:
    rows: list[Comparison] = []
    for work, part in stationary_results(data):
        c_cov, values = work.c_cov or 0.0, part[name]
        if is_stable(work.d, work.n, c_cov):
            predicted, error = predict(work.d, work.n, c_cov), float(np.std(values)) / values.size**0.5
            rows.append(Comparison(work.d, work.n, c_cov, predicted, float(np.mean(values)), error))
    return rows


def limits(data: Data) -> list[Comparison]:
    """The largest stable c_C; the error is half the last interval of the bisection."""
    found = [(work, part["interval"]) for work, part in data.items() if isinstance(work, Boundary)]
    rows: list[Comparison] = []
    for work, (low, high) in found:
        middle = float(np.sqrt(low * high))
        rows.append(
            Comparison(work.d, work.n, middle, float(stability_limit(work.d, work.n)), middle, (high - low) / 2)
        )
    return rows


def matches(data: Data) -> list[Comparison]:
    """The c_C at which NGD is as fast as rank-µ."""
    found = [(work, part["match"]) for work, part in data.items() if isinstance(work, Match)]
    return [
        Comparison(
            work.d, work.n, float(match[0]), float(matched_rate(work.d, work.n)), float(match[0]), float(match[1])
        )
        for work, match in found
    ]


def unstable_settings(data: Data) -> list[tuple[Stationary, int]]:
    """The settings that are predicted to be unstable, and how many of their segments lost the mean."""
    return [
        (work, int(np.sum(~np.isfinite(part["cond"]))))
        for work, part in stationary_results(data)
        if not is_stable(work.d, work.n, work.c_cov or 0.0)
    ]


def findings(data: Data) -> list[str]:
    """A table for each prediction, with the largest difference."""
    lines: list[str] = []
    for title, rows in (
        ("final Cond(CA)", conditions(data)),
        ("change of log det(C)/d in an iteration", rates(data)),
        ("largest stable c_C", limits(data)),
        ("c_C that makes NGD as fast as rank-µ", matches(data)),
    ):
        worst = max((abs(row.off) for row in rows), default=0.0)
        lines.append(f"{title}: predicted, measured (standard error); at most {100 * worst:.1f} % apart")
        lines.extend(_line(row) for row in rows)
        lines.append("")
    lines.extend([CAVEAT, ""])
    lines.append("predicted to be unstable: segments in which the mean is lost")
    for work, lost in unstable_settings(data):
        lines.append(f"  d = {work.d:2d}, n = {work.n:5d}, c_C = {work.c_cov:g}: {lost} of {work.trials}")
    return lines


def _line(row: Comparison) -> str:
    setting = f"  d = {row.d:2d}, n = {row.n:5d}, c_C = {row.c_cov:5.3f}"
    return f"{setting}: {row.predicted:8.4g} {row.measured:8.4g} ({row.error:.2g})  {100 * row.off:+5.1f} %"


STUDY = Study("predictions", works, findings)
