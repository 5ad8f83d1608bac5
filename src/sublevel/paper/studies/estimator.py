"""The volume of a sublevel set estimated with and without the point itself: what changes in a step and in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method, natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.transforms import SpectralRates
from sublevel.engine.weights import LeaveOneOut, Volume, Weights
from sublevel.paper.cache import Arrays
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies.problems import PROBLEMS
from sublevel.paper.studies.statistics import mean, standard_error
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.studies.trials import run_trials
from sublevel.paper.theory.checks import covariance_part
from sublevel.paper.theory.intervals import Interval
from sublevel.paper.theory.one_step import step_of
from sublevel.paper.theory.sampled import log_log_slope

RULES: dict[str, Weights] = {"paper": Volume(), "leave-one-out": LeaveOneOut()}
FUNCTIONS = ("noise", "slope", "sphere")
BLOCK = 400_000
"""Coordinates of the points drawn at a time."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    settings: tuple[tuple[int, int], ...] = ((5, 100), (10, 10), (10, 100), (20, 20), (20, 400))  # d and n, of a step
    points: int = 400_000  # of all samples of a setting
    dimensions: tuple[int, ...] = (2, 10)  # of the angles
    conditions: tuple[float, ...] = (1.0, 3.0, 10.0)
    largest: int = 100_000  # n, the last of five in steps of √10
    samples: int = 16  # of each size
    problems: tuple[str, ...] = (
        *("sphere", "ellipsoid", "slope", "sharp ridge", "parabolic ridge", "sphere from afar"),
        *("Rosenbrock", "noisy sphere", "steps"),
    )
    races: tuple[tuple[int, int], ...] = ((10, 30_000), (100, 100_000))  # n at d = 10, and evaluations of a trial
    rates: tuple[float, ...] = (0.3,)  # c_C
    trials: int = 10


FULL = Design()
QUICK = replace(FULL, points=100_000, largest=10_000, problems=FULL.problems[:4], races=((100, 30_000),), trials=6)
TINY = Design(
    settings=((5, 20),),
    points=10_000,
    dimensions=(2,),
    conditions=(1.0, 10.0),
    largest=1000,
    samples=4,
    problems=("slope",),
    races=((100, 2000),),
    trials=2,
)
DESIGNS: dict[Scale, Design] = {"full": FULL, "quick": QUICK, "tiny": TINY}


@dataclass(frozen=True, slots=True)
class Steps:
    """Single steps at c_C = 1 from N(0, I)."""

    rule: str
    function: str
    d: int
    n: int
    count: int
    seed: int

    @property
    def key(self) -> str:
        return f"steps-{self.rule}-{self.function}-d{self.d}-n{self.n}"

    @property
    def cost(self) -> float:
        return self.count * self.n * (0.2 + 0.05 * self.d) * 1e-6 + 0.01

    def compute(self) -> Arrays:
        """For each sample the mean variance after the step less 1, log of that along x₁, and the step along −x₁."""
        noise = generator(self.seed, f"steps-{self.function}-d{self.d}-n{self.n}")  # the same for both rules
        size = max(1, BLOCK // (self.n * self.d))
        parts = [self._numbers(noise, min(size, self.count - first)) for first in range(0, self.count, size)]
        trace, along, mean_step = np.concatenate(parts, axis=1)
        return {"trace": trace, "along": along, "mean_step": mean_step}

    def _numbers(self, noise: np.random.Generator, count: int) -> Array:
        theta = FullGaussian.start(np.zeros((count, self.d)), np.ones((count, self.d)))
        sample = theta.sample(noise, self.n)
        values = {"noise": lambda: noise.standard_normal((count, self.n)), "slope": lambda: sample.x[..., 0]}
        f = values[self.function]() if self.function in values else sample.squares
        method = Method(self.rule, RULES[self.rule], (SpectralRates(1.0),))
        change, step = step_of(method, theta, sample, f)
        trace = -np.trace(change, axis1=-2, axis2=-1) / self.d
        return np.stack([trace, np.log1p(-change[..., 0, 0]), -step[..., 0]])


@dataclass(frozen=True, slots=True)
class Angles:
    """The angle between the estimated and the exact natural gradient at m = x*, for some n."""

    rule: str
    d: int
    condition: float
    sizes: tuple[int, ...]
    samples: int
    seed: int

    @property
    def key(self) -> str:
        return f"angles-{self.rule}-d{self.d}-cond{self.condition:g}"

    @property
    def cost(self) -> float:
        return sum(self.sizes) * self.samples * (0.2 + 0.05 * self.d) * 1e-6

    def compute(self) -> Arrays:
        """Sines of the angle (sizes, samples); the scale of an estimate does not matter to the algorithm."""
        noise = generator(self.seed, f"angles-d{self.d}-cond{self.condition:g}")
        sines = [[self._sine(noise, size) for _ in range(self.samples)] for size in self.sizes]
        return {"sizes": np.array(self.sizes), "sines": np.array(sines)}

    def _sine(self, noise: np.random.Generator, size: int) -> float:
        hessian = np.geomspace(1.0, self.condition, self.d)
        theta = FullGaussian.start(np.zeros(self.d), np.ones(self.d))
        sample = theta.sample(noise, size)
        tangent = natural_gradient(sample.z, RULES[self.rule](ranking(np.square(sample.x) @ hessian), sample))
        estimate = np.concatenate([tangent.mean, -covariance_part(tangent).ravel()])
        exact = np.concatenate([np.zeros(self.d), np.diag(hessian).ravel()])
        cosine = estimate @ exact / np.linalg.norm(estimate) / np.linalg.norm(exact)
        return float(np.sqrt(max(0.0, 1.0 - cosine**2)))


@dataclass(frozen=True, slots=True)
class Race:
    """Trials of NGD with one of the rules, at d = 10."""

    rule: str
    problem: str
    n: int
    c_cov: float
    trials: int
    budget: int
    seed: int
    d: int = 10

    @property
    def key(self) -> str:
        return f"race-{self.rule}-{self.problem}-n{self.n}-c{self.c_cov:g}"

    @property
    def cost(self) -> float:
        return self.budget / self.n * self.trials * (40 + 0.5 * self.n) * 1e-6

    def compute(self) -> Arrays:
        """Evaluations, ending and final value of each trial."""
        method = Method(self.rule, RULES[self.rule], (SpectralRates(self.c_cov),))
        problem = replace(PROBLEMS[self.problem], budget=min(self.budget, PROBLEMS[self.problem].budget))
        noise = streams(self.seed, f"race-{self.problem}-n{self.n}", 0, self.trials)
        return run_trials(method, problem, self.d, self.n, noise)


def works(scale: Scale, seed: int) -> list[Steps | Angles | Race]:
    """All measurements, with both rules."""
    design = DESIGNS[scale]
    sizes = tuple(round(design.largest * 10 ** (-step / 2)) for step in range(4, -1, -1))
    found: list[Steps | Angles | Race] = []
    for rule in RULES:
        found += [
            Steps(rule, name, d, n, max(20, design.points // n), seed) for name in FUNCTIONS for d, n in design.settings
        ]
        found += [
            Angles(rule, d, at, sizes, design.samples, seed) for d in design.dimensions for at in design.conditions
        ]
        found += [
            Race(rule, name, n, rate, design.trials, budget, seed)
            for name in design.problems
            for n, budget in design.races
            for rate in design.rates
        ]
    return found


def step_results(data: Data) -> list[tuple[Steps, Arrays]]:
    """Single steps with their arrays."""
    return [(work, part) for work, part in data.items() if isinstance(work, Steps)]


def angle_results(data: Data) -> list[tuple[Angles, Arrays]]:
    """Angles with their arrays."""
    return [(work, part) for work, part in data.items() if isinstance(work, Angles)]


def race_pairs(data: Data) -> list[tuple[Race, Arrays, Arrays]]:
    """Races with the paper's rule, with the arrays of both rules."""
    found = {work: part for work, part in data.items() if isinstance(work, Race)}
    return [
        (work, part, found[replace(work, rule="leave-one-out")]) for work, part in found.items() if work.rule == "paper"
    ]


def slope_of(part: Arrays) -> Interval:
    """The exponent of n over the three largest sizes."""
    return log_log_slope([int(size) for size in part["sizes"][-3:]], part["sines"][-3:])


def success(part: Arrays) -> tuple[int, float]:
    """Trials that reached the target, and their mean evaluations; NaN if there is none."""
    reached = part["ending"] == "reached"
    return int(np.sum(reached)), float(np.mean(part["evaluations"][reached])) if reached.any() else float("nan")


def findings(data: Data) -> list[str]:
    """Tables of steps, angles and races."""
    lines = ["change in a step at c_C = 1 ± standard error: mean variance, log variance along x₁, mean along −x₁"]
    for work, part in step_results(data):
        numbers = "  ".join(f"{mean(part[name]):8.4f} ± {standard_error(part[name]):.4f}" for name in STEP_NAMES)
        lines.append(f"  {work.function:7s} d = {work.d:2d}, n = {work.n:4d}  {work.rule:13s}  {numbers}")
    lines += [
        "",
        "angle to the exact natural gradient: its sine at the largest n, and the exponent of n with its 95 % band",
    ]
    for work, part in angle_results(data):
        last: Array = part["sines"][-1]
        name = f"  d = {work.d:2d}, Cond(CA) = {work.condition:3g}  {work.rule:13s}"
        lines.append(f"{name}  {mean(last):.4f} at n = {int(part['sizes'][-1])}, {slope_of(part)}")
    lines += ["", "runs at d = 10, the paper's estimate / leave-one-out: successes, mean evaluations of these"]
    lines += [_race_line(work, paper, other) for work, paper, other in race_pairs(data)]
    return lines


STEP_NAMES: Sequence[str] = ("trace", "along", "mean_step")


def _race_line(work: Race, paper: Arrays, other: Arrays) -> str:
    (first, slow), (second, fast) = success(paper), success(other)
    name = f"  {work.problem:17s} n = {work.n:3d}, c_C = {work.c_cov:g}"
    return f"{name}: {first:2d} / {second:2d} of {work.trials}, {slow:7.0f} / {fast:7.0f} ({fast / slow:.2f})"


STUDY = Study("estimator", works, findings)
