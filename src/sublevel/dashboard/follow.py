"""Reading a growing file: each call reads only what was written since the last one, and for a limited time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.evaluation.failures import Failures
from sublevel.hessian.result import Curvature
from sublevel.hessian.stored import read_curvature
from sublevel.run.constraints import Constraints
from sublevel.run.history import Trace, real_axes, staying_of
from sublevel.run.initial import deviations_of, mean_of
from sublevel.run.noisy_answer import Estimate
from sublevel.run.optimizer import Optimizer
from sublevel.run.restarts import Run
from sublevel.run.state import Best, RunState
from sublevel.store.errors import StoreError
from sublevel.store.file import NUMBERS, Row
from sublevel.store.load import sketch_optimizer
from sublevel.store.lock import is_locked
from sublevel.store.reader import Note, Reading, add_failures, driver, ending, failure_notes, open_run
from sublevel.store.samples import SampleForm, StoredPoints, Stretch, evaluation_rows
from sublevel.store.serialize import unpack
from sublevel.store.settings import Settings

MOST_POINTS = 2048
"""Most evaluations of an even selection that is kept with its points."""
POINT_NUMBERS = 2**22
"""Most numbers of these points, 32 MB, but at least 64 points."""
WIDE = 0.5
"""A generation searches widely as long as the largest standard deviation is not below this share of the run's first."""
MOST_BEST = 128
"""The best evaluations that are kept in any case."""
TOGETHER = 2**14
"""Evaluations that are selected from together."""
ALMOST = 0.999
"""The share of a file whose evaluations are read, but not all search distributions."""
MOST_SNAPSHOTS = 96
"""Most search distributions of which means and axes are kept."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of the evaluations in the order of the search: an even selection, or the best ones."""

    index: NDArray[np.int64]  # (n,), numbers of the evaluations
    run: NDArray[np.int64]  # (n,)
    values: Array  # (n,)
    violations: Array  # (n,), the largest violation of a constraint; 0 without any
    points: Array  # (n, d)

    @classmethod
    def empty(cls, d: int) -> Selection:
        """No evaluations of d variables."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, np.empty(0), np.empty(0), np.empty((0, d)))

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Selection:
        """The evaluations in these rows."""
        return Selection(self.index[rows], self.run[rows], self.values[rows], self.violations[rows], self.points[rows])

    def join(self, others: Selection) -> Selection:
        """These evaluations, followed by others."""
        return Selection(
            index=np.append(self.index, others.index),
            run=np.append(self.run, others.run),
            values=np.append(self.values, others.values),
            violations=np.append(self.violations, others.violations),
            points=np.concatenate([self.points, others.points]),
        )

    def lowest(self, most: int) -> Selection:
        """The best evaluations, sorted by their violation and their value, without those that failed."""
        known = np.flatnonzero(~(np.isnan(self.values) | np.isnan(self.violations)))
        order = np.lexsort((self.values[known], self.violations[known]))[:most]
        return self.take(known[order])


class TracePoint(NamedTuple):
    """A search distribution after some evaluations, in numbers."""

    nfev: int
    run: int
    mean: Array  # (d,), in the user's space
    deviations: Array  # (d,), of ln x where a variable is log-scaled
    axes: Array  # (r,)
    staying: Array  # (m,)


class Position(NamedTuple):
    """The state of a run at its last checkpoint, and its best point so far."""

    state: RunState
    best: Best
    finished: list[tuple[Run, int]]
    endings: list[dict[str, float]]
    reasons: dict[str, float]
    driver: dict[str, str]
    curvature: Curvature | None  # at the minimum, if the run has ended there


@dataclass(slots=True)
class Progress:
    """What was read of a run so far. Rows of generations are complete; evaluations are read later."""

    origin: int
    optimizer: Optimizer
    settings: Settings
    table: Array = field(default_factory=lambda: np.empty((0, NUMBERS)))  # (g, 7), as in the file
    runs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (g,)
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (g,)
    failed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (g,)
    feasible: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (g,)
    iteration: int = 0  # the last generation whose evaluations were read
    count: int = 0  # evaluations that were read
    stride: int = 1  # of the even selection
    even: Selection = field(default_factory=lambda: Selection.empty(0))
    best: Selection = field(default_factory=lambda: Selection.empty(0))
    wide: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # (g,), still searching widely
    early_stride: int = 1
    early: Selection = field(default_factory=lambda: Selection.empty(0))  # evaluations of such generations
    open_values: Array = field(default_factory=lambda: np.empty(0))  # of the unfinished generation
    left: Selection = field(default_factory=lambda: Selection.empty(0))  # all of it, if the run has ended
    failures: Failures = field(default_factory=Failures)
    trace: list[TracePoint] = field(default_factory=list[TracePoint])
    has_all_snapshots: bool = False
    position: Position | None = None
    estimate: Estimate | None = None  # the answer of a noisy objective, once it is re-evaluated
    reevaluated: int = 0

    @property
    def dimension(self) -> int:
        """The number of variables."""
        return self.optimizer.start.x0.size

    @property
    def nfev(self) -> int:
        """All evaluations in the file, including those of the unfinished generation and of the answer."""
        return (int(self.table[-1, 0]) if len(self.table) else 0) + self.open_values.size + self.reevaluated

    @property
    def share_read(self) -> float:
        """The share of the finished evaluations that were read, 0 to 1; below 1 if search distributions are missing."""
        finished = int(np.sum(self.sizes))
        share = self.count / finished if finished else 1.0
        return share if self.has_all_snapshots else min(share, ALMOST)

    @property
    def selection(self) -> Selection:
        """All evaluations that are kept, in the order of the search, each once."""
        found = self.early.join(self.even).join(self.best).join(self.left)
        return found.take(np.unique(found.index, return_index=True)[1])

    @property
    def theta_of_best(self) -> Family:
        """The distribution of the run that found the best point: the current one, or the one at its end."""
        if self.position is None:
            return self.optimizer.theta
        return self.position.best.theta or self.position.state.search.theta

    def as_trace(self) -> Trace:
        """The search distributions as arrays."""
        found = self.trace
        return Trace(
            nfev=np.array([one.nfev for one in found], dtype=np.int64),
            run=np.array([one.run for one in found], dtype=np.int64),
            mean=np.array([one.mean for one in found]).reshape(len(found), -1),
            deviations=np.array([one.deviations for one in found]).reshape(len(found), -1),
            axes=np.array([one.axes for one in found]).reshape(len(found), -1),
            staying=np.array([one.staying for one in found]).reshape(len(found), -1),
        )


class Follower:
    """Follows one file. It is opened for each call and closed again, so that it never keeps a writer from closing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.progress: Progress | None = None
        self.is_running = False

    def advance(self, seconds: float, evaluations: bool = True) -> Progress:
        """Read what is new, for about this time; StoreError if the file cannot be read."""
        until = time.monotonic() + seconds
        try:
            self.is_running = is_locked(self.path)
        except OSError as error:
            raise StoreError(f"cannot open {self.path}: {error.strerror or error}") from None
        progress, self.progress = self.progress, None  # after an error, the file is read from the beginning
        with open_run(self.path) as reading:
            if progress is None or progress.origin != reading.file.origin:
                progress = new_progress(reading)
            read_generations(reading, progress)
            ledger = reading.ledger(progress.optimizer.start.space)
            progress.reevaluated, progress.estimate = len(ledger.entries), ledger.estimate(len(progress.table))
            progress.position = read_position(reading, progress)
            if evaluations:
                read_snapshots(reading, progress, until)
                read_evaluations(reading, progress, until)
                read_incomplete(reading, progress)
            self.progress = progress
            return progress


def new_progress(reading: Reading) -> Progress:
    """The beginning of a reading."""
    optimizer = sketch_optimizer(reading)
    none = Selection.empty(optimizer.start.x0.size)
    return Progress(reading.file.origin, optimizer, reading.settings, even=none, best=none, early=none, left=none)


def read_position(reading: Reading, progress: Progress) -> Position:
    """The state of the last checkpoint, the best point, why the run or its earlier runs ended, and the curvature."""
    runs, endings = reading.finished_runs()
    optimizer, file = progress.optimizer, reading.file
    state = reading.run_state(optimizer, memory=False)
    found = read_curvature(reading, optimizer, progress.nfev)
    return Position(state, reading.best(optimizer, state), runs, endings, ending(file), driver(file), found)


def read_generations(reading: Reading, progress: Progress) -> None:
    """Append the generations that are new, and replace the values of the unfinished one."""
    last, tables, keys = len(progress.table), [progress.table], list[tuple[int, int]]()
    condition = "WHERE iteration > ? ORDER BY iteration"
    for iteration, run, size, numbers in reading.file.rows("generations", condition, (last,)):
        if iteration != last + 1 or not numbers or len(numbers) % (8 * NUMBERS) or run < 0 or size < 1:
            raise StoreError(f"{reading.path} is damaged: generations are missing or invalid.")
        tables.append(np.frombuffer(numbers).reshape(-1, NUMBERS))
        keys.append((run, size))
        last += len(tables[-1])
    runs, sizes = _repeat(keys, [len(table) for table in tables[1:]])
    progress.table = np.concatenate(tables)
    progress.runs, progress.sizes = np.append(progress.runs, runs), np.append(progress.sizes, sizes)
    firsts = np.flatnonzero(np.diff(progress.runs, prepend=-1))
    initial = np.repeat(progress.table[firsts, 3], np.diff(firsts, append=last))
    progress.wide = progress.table[:, 3] >= WIDE * initial
    progress.failed = _extend(progress.failed, last)
    progress.feasible = _extend(progress.feasible, last)
    progress.open_values = _open_values(reading, last)


def _repeat(keys: Sequence[tuple[int, int]], counts: Sequence[int]) -> NDArray[np.int64]:
    """Pairs of numbers as two rows (2, n), each pair so many times."""
    return np.repeat(np.array(keys, dtype=np.int64).reshape(-1, 2), np.array(counts, dtype=np.intp), axis=0).T


def _extend(counts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Counts with zeros at the end."""
    return np.append(counts, np.zeros(length - len(counts), dtype=np.int64))


def _open_values(reading: Reading, last: int) -> Array:
    """The values of the generation after the last finished one."""
    rows = reading.file.rows("evaluations", "WHERE iteration > ? ORDER BY iteration, place", (last,))
    return np.concatenate([np.empty(0), *(np.frombuffer(row[5]) for row in rows if len(row[5]) % 8 == 0)])


def read_snapshots(reading: Reading, progress: Progress, until: float) -> None:
    """Append the search distributions that are new, an even selection of them, until some time."""
    optimizer, last = progress.optimizer, progress.trace[-1].nfev if progress.trace else -1
    progress.has_all_snapshots = True
    for nfev, run, layout, data in reading.file.rows("snapshots", "WHERE nfev > ? ORDER BY nfev", (last,)):
        theta = unpack(optimizer.theta, layout, data)
        progress.trace.append(trace_point(nfev, run, theta, optimizer))
        if time.monotonic() > until:
            progress.has_all_snapshots = False
            break
    progress.trace = thin(progress.trace, MOST_SNAPSHOTS)


def thin(trace: list[TracePoint], most: int) -> list[TracePoint]:
    """The first, the last, and between them every other one until there are few enough."""
    while len(trace) > most:
        trace = [*trace[:-1:2], trace[-1]]
    return trace


def trace_point(nfev: int, run: int, theta: Family, optimizer: Optimizer) -> TracePoint:
    """The numbers of a search distribution."""
    space = optimizer.start.space
    with np.errstate(all="ignore"):  # a forged distribution may overflow
        numbers = mean_of(theta, space), deviations_of(theta, space), real_axes(theta, space), staying_of(theta, space)
    return TracePoint(nfev, run, *numbers)


def read_evaluations(reading: Reading, progress: Progress, until: float) -> None:
    """Read the evaluations of finished generations until some time, at least those of one row."""
    last = len(progress.table)
    if progress.iteration >= last:
        return
    choose_stride(progress)
    stored = StoredPoints(reading.file, SampleForm.of(progress.optimizer))
    notes, read = failure_notes(reading, progress.iteration + 1), progress.iteration
    waiting, size = list[Stretch](), 0
    for row in evaluation_rows(reading.file, progress.iteration + 1, last):
        iteration, is_first = row[0], row[1] == 0  # a large generation has several rows
        if iteration != read + is_first:
            raise StoreError(f"{reading.path} is damaged: evaluations of generation {read + 1} are missing.")
        if is_first and size >= TOGETHER:
            select(progress, waiting)
            progress.iteration, waiting, size = read, [], 0
            if time.monotonic() > until:
                return
        waiting += add_row(row, progress, stored, notes)
        size += len(row[5]) // 8
        read = iteration + len(row[5]) // (8 * row[3]) - 1
    select(progress, waiting)
    progress.iteration = read


def read_incomplete(reading: Reading, progress: Progress) -> None:
    """Read the evaluations of the generation that a run which has ended left incomplete."""
    progress.left = Selection.empty(progress.dimension)
    if progress.open_values.size and progress.position is not None and progress.position.reasons:
        stored = StoredPoints(reading.file, SampleForm.of(progress.optimizer))
        parts = list(stored.stretches(len(progress.table) + 1))
        found = without_points(progress, parts, int(np.sum(progress.sizes)))
        progress.left = replace(found, points=np.concatenate([part.points for part in parts]))


def choose_stride(progress: Progress) -> None:
    """Double the strides of the selections until all evaluations that are in the file fit."""
    most = most_points(progress)
    while np.sum(progress.sizes) > most * progress.stride:
        progress.stride *= 2
    progress.even = progress.even.take(progress.even.index % progress.stride == 0)
    while np.sum(progress.sizes[progress.wide]) > most * progress.early_stride:
        progress.early_stride *= 2
    progress.early = progress.early.take(progress.early.index % progress.early_stride == 0)


def most_points(progress: Progress) -> int:
    """Most evaluations of a selection."""
    return int(np.clip(POINT_NUMBERS // max(progress.dimension, 1), 64, MOST_POINTS))


def add_row(row: Row, progress: Progress, stored: StoredPoints, notes: Mapping[int, Sequence[Note]]) -> list[Stretch]:
    """Count the failures of a row of the file, which has one generation or several; returns its evaluations.

    Those of several generations are together if their points are stored, which is quicker to read.
    """
    iteration, place, run, size, data, numbers = row
    values, count, constraints = np.frombuffer(numbers), len(numbers) // (8 * size), progress.optimizer.constraints
    width = progress.dimension + (0 if constraints is None else constraints.size)
    is_whole = len(data) == 8 * width * len(values) or (not data and constraints is None)
    sizes = progress.sizes[iteration - 1 : iteration - 1 + count]
    has_sizes = len(sizes) == count and np.all(sizes == size if count > 1 else place <= sizes - size)
    if not is_whole or not has_sizes:
        raise StoreError(f"{stored.path} is damaged: the evaluations of generation {iteration} are inconsistent.")
    kept = np.frombuffer(data).reshape(-1, width)

    def generation(k: int) -> Stretch:
        part = slice(k * size, (k + 1) * size)
        return Stretch(run, iteration + k, place, values[part], kept[part], stored)

    failed = np.count_nonzero(np.isnan(values).reshape(count, size), axis=1)
    progress.failed[iteration - 1 : iteration - 1 + count] += failed
    for k in np.flatnonzero(failed).tolist():
        add_failures(progress.failures, generation(k), notes.get(iteration + k, ()))
    if constraints is not None:
        is_feasible = largest_violation(kept[:, progress.dimension :], constraints) <= 0
        progress.feasible[iteration - 1 : iteration - 1 + count] += np.sum(is_feasible.reshape(count, size), axis=1)
    if not data:
        return [generation(k) for k in range(count)]
    return [Stretch(run, iteration, place, values, kept, stored)]


def largest_violation(values: Array, constraints: Constraints) -> Array:
    """The largest violation (n,) of constraint values (n, k); 0 where all are satisfied."""
    return np.max(constraints.g(values), axis=1, initial=0.0)


def select(progress: Progress, parts: Sequence[Stretch]) -> None:
    """Keep some of these evaluations: every so many, and those that are among the best."""
    if not parts:
        return
    found = without_points(progress, parts, progress.count)
    index = found.index
    lowest = found.lowest(MOST_BEST)
    if len(progress.best.index) == MOST_BEST:
        lowest = lowest.take(_is_better(lowest, progress.best.violations[-1], progress.best.values[-1]))
    evenly = found.take(index % progress.stride == 0)
    early = found.take(is_wide(progress, parts) & (index % progress.early_stride == 0))
    rows = np.unique(np.concatenate([evenly.index, early.index, lowest.index])) - progress.count
    points = points_of(parts, rows)
    evenly, early, lowest = (
        replace(some, points=points[np.searchsorted(rows, some.index - progress.count)])
        for some in (evenly, early, lowest)
    )
    progress.even, progress.early = progress.even.join(evenly), progress.early.join(early)
    progress.best = progress.best.join(lowest).lowest(MOST_BEST)
    progress.count += len(index)


def without_points(progress: Progress, parts: Sequence[Stretch], first: int) -> Selection:
    """All evaluations of the parts, from number `first` on, with points of no variables."""
    values, constraints = np.concatenate([part.values for part in parts]), progress.optimizer.constraints
    index, violations = first + np.arange(len(values)), np.zeros(len(values))
    if constraints is not None:
        violations = largest_violation(np.concatenate([part.constraints for part in parts]), constraints)
    run = np.repeat([part.run for part in parts], [len(part.values) for part in parts])
    return Selection(index, run, values, violations, np.empty((len(values), 0)))


def is_wide(progress: Progress, parts: Sequence[Stretch]) -> NDArray[np.bool_]:
    """Whether the generations of evaluations (n,) searched widely."""
    generations = [
        part.iteration - 1 + np.arange(len(part.values)) // progress.sizes[part.iteration - 1] for part in parts
    ]
    return progress.wide[np.concatenate(generations)]


def _is_better(found: Selection, violation: float, value: float) -> NDArray[np.bool_]:
    """Which evaluations are better than one with this violation and value."""
    is_tied = found.violations == violation
    return (found.violations < violation) | (is_tied & (found.values < value))


def points_of(parts: Sequence[Stretch], rows: NDArray[np.intp]) -> Array:
    """The points (n, d) of some rows (n,), sorted, of all evaluations of the parts; others are not drawn."""
    ends = np.cumsum([len(part.values) for part in parts])
    cuts = np.searchsorted(rows, ends)
    found, begin, first = [np.empty((0, parts[0].source.dimension))], 0, 0
    for part, end, cut in zip(parts, ends.tolist(), cuts.tolist(), strict=True):
        if cut > first:
            found.append(part.points[rows[first:cut] - begin])
        begin, first = end, cut
    return np.concatenate(found)
