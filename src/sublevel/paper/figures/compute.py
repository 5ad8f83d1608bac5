"""Run a chunk of trials together, and record what the figures show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Streams, select_trials
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Outcome, State
from sublevel.paper.figures.config import TARGET, Chunk, hessian_diagonal
from sublevel.paper.theory.measure import condition_number

DEGENERATE = 1e14
"""Cond(CA) beyond which C is numerically singular: the eigenvalues of C in step 1 of the paper's algorithm have no
digit left.

Trials that get there have shrunk C faster than the mean could follow: what remains of the expected objective is m'Am.
"""
CAP = 100_000
"""Iterations after which a trial is stopped, five times those of the slowest setting."""
PATIENCE = 10
"""Consecutive iterations without a step after which a trial is stopped; its ending is named after the outcome."""
THRESHOLDS = (1e5, 1e4, 1e3, 1e2, 1e1)
"""Condition numbers for which the first iteration is recorded."""
REACHED = "reached"


def is_recorded(iteration: int) -> bool:
    """Whether Cond(CᵗA) is recorded: at every t < 400, then in steps of t/200, because it takes a singular value
    decomposition.
    """
    return iteration % max(1, iteration // 200) == 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The trials that have not ended."""

    trials: NDArray[np.intp]  # (k,), their numbers in the chunk
    state: State
    noise: Streams
    still: NDArray[np.intp]  # (k,), consecutive iterations without a step

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

    def arrays(self) -> dict[str, Any]:
        """All data, one row per trial; curves (trials, times) are NaN after the end, in single precision."""
        times = np.array(self.times, dtype=np.int64)
        curves = {name: np.stack(curve, axis=1) for name, curve in self.curves.items()}
        return {
            "times": times,
            **{name: curve.astype(np.float32) for name, curve in curves.items()},
            "first_times": np.stack(
                [crossing_times(times, curves["cond"], threshold) for threshold in THRESHOLDS], axis=1
            ),
            "thresholds": np.array(THRESHOLDS),
            "ending": self.ending,
            "iterations": self.iterations,
            **{f"final_{name}": values for name, values in self.final.items()},
        }


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


def compute(chunk: Chunk) -> dict[str, Any]:
    """Run the trials of a chunk to their ends; arrays by name, one row per trial."""
    setting, record = chunk.setting, Record(chunk.count)
    method, hessian = setting.recipe, hessian_diagonal(setting.d)
    state = method.init(setting.theta(chunk.count), setting.n)
    noise = setting.streams(chunk.seed, chunk.first, chunk.count)
    batch = Batch(np.arange(chunk.count), state, noise, np.zeros(chunk.count, dtype=np.intp))
    record.add(0, batch.trials, cond=condition(batch.theta, hessian), expected=expected_objective(batch.theta, hessian))
    iteration = 0
    while batch.trials.size:
        iteration += 1
        sample = method.ask(batch.state, batch.noise, setting.n)
        state, info = method.tell(batch.state, sample, np.square(sample.x) @ hessian)
        batch = replace(batch, state=state, still=np.where(info.outcome, batch.still + 1, 0))
        batch = record_iteration(batch, info.outcome, iteration, hessian, record)
    return record.arrays()


def record_iteration(batch: Batch, outcome: Any, iteration: int, hessian: Array, record: Record) -> Batch:
    """Record the iteration and the trials that end; returns the trials that continue."""
    expected = expected_objective(batch.theta, hessian)
    reached, stuck, recorded = expected <= TARGET, batch.still >= PATIENCE, is_recorded(iteration)
    if not recorded and not reached.any() and not stuck.any():
        return batch
    cond = condition(batch.theta, hessian)
    if recorded:
        record.add(iteration, batch.trials, cond=cond, expected=expected)
    degenerate, slow = ~(cond <= DEGENERATE), np.full(cond.shape, iteration >= CAP)
    names = np.array([code.name.lower() for code in Outcome])[outcome]
    endings = np.select([reached, stuck, degenerate, slow], [REACHED, names, "degenerate", "slow"], "")
    over = endings != ""
    if over.any():
        done = batch.select(over)
        record.end(
            iteration,
            done.trials,
            endings[over],
            cond=cond[over],
            expected=expected[over],
            **failure_details(done.theta, hessian),
        )
        batch = batch.select(~over)
    return batch


def failure_details(theta: FullGaussian, hessian: Array) -> dict[str, Array]:
    """Details of a failure: the share of m'Am in the expected objective, and λ_min/λ_max of C as computed in step 1 of
    the paper.
    """
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
