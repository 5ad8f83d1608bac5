"""Run a chunk of trials together, and record what the figures show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Streams, select_trials
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method, Outcome, State
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.config import EXPERIMENT, Setting, hessian_diagonal
from sublevel.paper.theory.measure import condition_number

REACHED = "reached"


def is_recorded(iteration: int) -> bool:
    """Whether Cond(CᵗA) is recorded: at every t < 400, then in steps of t/200, because it needs an SVD."""
    return iteration % max(1, iteration // 200) == 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The trials that have not ended."""

    trials: NDArray[np.intp]  # (k,), their numbers in the chunk
    state: State
    noise: Streams
    still: NDArray[np.intp]  # (k,), consecutive iterations without a step

    @classmethod
    def start(cls, method: Method, theta: FullGaussian, n: int, noise: Streams) -> Batch:
        """All trials, at a distribution θ (trials,)."""
        trials = np.arange(len(noise.generators))
        return cls(trials, method.init(theta, n), noise, np.zeros(trials.size, dtype=np.intp))

    @property
    def theta(self) -> FullGaussian:
        """The search distributions."""
        return cast(FullGaussian, self.state.theta)

    def select(self, mask: NDArray[np.bool_]) -> Batch:
        """The trials where the mask (k,) holds."""
        generators = tuple(generator for generator, keep in zip(self.noise.generators, mask, strict=True) if keep)
        return Batch(self.trials[mask], select_trials(mask, self.state), Streams(generators), self.still[mask])


class Record:
    """Data of a chunk: curves at the recorded times, and the ending of each trial."""

    def __init__(self, trials: int) -> None:
        self.times: list[int] = []
        self.curves: dict[str, list[Array]] = {"cond": [], "expected": []}
        self.ending = np.full(trials, "", dtype="<U12")
        self.iterations = np.zeros(trials, dtype=np.int64)
        self.final = {name: np.full(trials, np.nan) for name in ("cond", "expected", "mean_share", "eigenvalue_ratio")}

    def add(self, iteration: int, trials: NDArray[np.intp], **numbers: Array) -> None:
        """Add a point to the curves of some trials."""
        self.times.append(iteration)
        for name, curve in self.curves.items():
            row = np.full(self.ending.size, np.nan)
            row[trials] = numbers[name]
            curve.append(row)

    def end(self, iteration: int, trials: NDArray[np.intp], endings: NDArray[np.str_], **numbers: Array) -> None:
        """Record the end of some trials."""
        self.ending[trials] = endings
        self.iterations[trials] = iteration
        for name, values in numbers.items():
            self.final[name][trials] = values

    def arrays(self) -> Arrays:
        """All data, one row per trial; curves (trials, times) are NaN after the end, in single precision."""
        times = np.array(self.times, dtype=np.int64)
        curves = {name: np.stack(curve, axis=1) for name, curve in self.curves.items()}
        return {
            "times": times,
            **{name: curve.astype(np.float32) for name, curve in curves.items()},
            "first_times": first_times(times, curves["cond"]),
            "thresholds": np.array(EXPERIMENT.thresholds),
            "ending": self.ending,
            "iterations": self.iterations,
            **{f"final_{name}": values for name, values in self.final.items()},
        }


def first_times(times: NDArray[np.int64], cond: Array) -> Array:
    """`crossing_times` of all thresholds (trials, thresholds)."""
    return np.stack([crossing_times(times, cond, threshold) for threshold in EXPERIMENT.thresholds], axis=1)


def crossing_times(times: NDArray[np.int64], cond: Array, threshold: float) -> Array:
    """First iteration (trials,) with Cond ≤ threshold, NaN if there is none.

    Exact where every iteration is recorded. Elsewhere log Cond is interpolated between two recorded times, at most
    t/200 apart.
    """
    below = cond <= threshold
    index = np.argmax(below, axis=1)
    before = np.maximum(index - 1, 0)
    rows = np.arange(len(cond))
    with np.errstate(divide="ignore", invalid="ignore"):
        high, low = np.log(cond[rows, before]), np.log(cond[rows, index])
        part = np.where(index > before, (high - np.log(threshold)) / (high - low), 0.0)
    found = times[before] + np.ceil(part * (times[index] - times[before]))
    return np.where(below.any(axis=1), found, np.nan)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some trials of a setting, computed together."""

    setting: Setting
    seed: int
    first: int
    count: int

    @property
    def key(self) -> str:
        return f"{self.setting.key}.{self.first:04d}-{self.first + self.count - 1:04d}"

    @property
    def cost(self) -> float:
        return self.setting.cost * self.count

    def compute(self) -> Arrays:
        """Run the trials to their ends; arrays by name, one row per trial."""
        setting, record = self.setting, Record(self.count)
        method, hessian, iteration = setting.recipe, hessian_diagonal(setting.d), 0
        noise = setting.streams(self.seed, self.first, self.count)
        batch = Batch.start(method, setting.theta(self.count), setting.n, noise)
        expected = expected_objective(batch.theta, hessian)
        record.add(0, batch.trials, cond=condition(batch.theta, hessian), expected=expected)
        while batch.trials.size:
            iteration += 1
            sample = method.ask(batch.state, batch.noise, setting.n)
            state, info = method.tell(batch.state, sample, np.square(sample.x) @ hessian)
            batch = replace(batch, state=state, still=np.where(info.outcome, batch.still + 1, 0))
            batch = record_iteration(batch, info.outcome, iteration, hessian, record)
        return record.arrays()


def chunks(setting: Setting, seed: int, trials: int) -> list[Chunk]:
    """The trials of a setting in chunks of a size that depends on n alone."""
    size = min(EXPERIMENT.chunk_trials, max(1, EXPERIMENT.chunk_points // setting.n))
    return [Chunk(setting, seed, first, min(size, trials - first)) for first in range(0, trials, size)]


def record_iteration(
    batch: Batch, outcome: Outcome | NDArray[np.int_], iteration: int, hessian: Array, record: Record
) -> Batch:
    """Record the iteration and the trials that end; returns the trials that continue."""
    expected = expected_objective(batch.theta, hessian)
    reached, stuck, recorded = expected <= EXPERIMENT.target, batch.still >= EXPERIMENT.patience, is_recorded(iteration)
    if not recorded and not reached.any() and not stuck.any():
        return batch
    cond = condition(batch.theta, hessian)
    if recorded:
        record.add(iteration, batch.trials, cond=cond, expected=expected)
    degenerate, slow = ~(cond <= EXPERIMENT.degenerate), np.full(cond.shape, iteration >= EXPERIMENT.cap)
    names = np.array([code.name.lower() for code in Outcome])[outcome]
    endings = np.select([reached, stuck, degenerate, slow], [REACHED, names, "degenerate", "slow"], "")
    over = endings != ""
    if over.any():
        done = batch.select(over)
        numbers = {"cond": cond[over], "expected": expected[over], **failure_details(done.theta, hessian)}
        record.end(iteration, done.trials, endings[over], **numbers)
        batch = batch.select(~over)
    return batch


def failure_details(theta: FullGaussian, hessian: Array) -> dict[str, Array]:
    """The share of m'Am in the expected objective, and λ_min/λ_max of C as computed in step 1 of the paper."""
    eigenvalues = np.linalg.eigvalsh(theta.root @ theta.root.mT)
    return {
        "mean_share": np.square(theta.mean) @ hessian / expected_objective(theta, hessian),
        "eigenvalue_ratio": eigenvalues[:, 0] / eigenvalues[:, -1],
    }


def expected_objective(theta: FullGaussian, hessian: Array) -> Array:
    """m'Am + Tr(CA) (trials,) for a diagonal A (d,): without the matrix product of `theory.expected_objective`."""
    return (np.square(theta.mean) + np.square(theta.deviations)) @ hessian


def condition(theta: FullGaussian, hessian: Array) -> Array:
    """Cond(CA) (trials,) for a diagonal A (d,)."""
    return condition_number(theta, np.diag(np.sqrt(hessian)))
