"""Recording a run: each value when it arrives, a row per generation, and the state from time to time.

A value is written at once as long as writing takes a small share of the time that the objective takes. Values that
arrive faster are written together: small generations share a row, and none waits longer than `LONGEST_WAIT`. What is
written survives the end of the process. It also survives a power failure if it was synced, which takes a still smaller
share of the time: every value is synced if the objective takes a second.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.memory import Memory
from sublevel.engine.method import State
from sublevel.engine.ordering import LagrangianMemory
from sublevel.evaluation.failures import Failure
from sublevel.evaluation.this_process import can_start_threads
from sublevel.run.history import History
from sublevel.run.noisy_answer import Ledger
from sublevel.run.optimizer import Optimizer
from sublevel.run.state import RunState
from sublevel.store.environment import environment
from sublevel.store.errors import FormatError, StoreError
from sublevel.store.file import (
    LARGEST_BLOB,
    PAGE_SIZES,
    Change,
    File,
    Row,
    create,
    insert_rows,
    side_file,
)
from sublevel.store.lock import Lock
from sublevel.store.pending import ALL, Generation, Places, SharedRow, as_stretches, failure_rows
from sublevel.store.rng_state import KINDS, plain_state
from sublevel.store.samples import (
    ROUNDING,
    Sample,
    SampleForm,
    StoredPoints,
    Stretch,
    longest_redrawn,
    relative_difference,
)
from sublevel.store.serialize import LONGEST_JSON, pack, pack_each, size_of
from sublevel.store.settings import LARGEST_GENERATION, Problem, Settings

WRITING = 0.1
"""Share of the time of the objective for writing values as they arrive."""
SYNCING = 0.005
"""Share of the time for waiting until they are on the disk."""
SAVINGS = 0.05
"""Most seconds of either that are saved for later."""
CHEAPEST_WRITE = 5e-5
"""Least seconds of a write: values for which there is less time are written together."""
LONGEST_WAIT = 0.05
"""Most seconds that a value waits to be written."""
USUAL_WAIT = 0.7 * LONGEST_WAIT
"""Seconds that values wait to be written together if they arrive fast."""
REPLAY = 0.25
"""Seconds of own work after which the state is written: resuming repeats at most as much."""
SELDOM = 1.0
"""Seconds after which the state is written in any case, for `sublevel watch` and for resuming on other machines."""
CHEAP = 0.05
"""Share of the own work for writing the state."""

MOST_WAITING = 2**28
"""Most bytes that wait to be written; then the search waits for the disk."""

DELETE_GENERATION = "DELETE FROM evaluations WHERE iteration = ?"
DELETE_SAMPLE = "DELETE FROM samples WHERE iteration = ?"
DELETE_SNAPSHOT = "DELETE FROM snapshots WHERE nfev = ?"


class TimeBudget:
    """A share of some time, which may be spent on something."""

    def __init__(self, share: float, left: float) -> None:
        self.share, self.left = share, left

    def earn(self, seconds: float) -> None:
        """Add the share of this time."""
        self.left = min(self.left + self.share * seconds, SAVINGS)


def checkpoint_rows(optimizer: Optimizer, history: History) -> list[Row]:
    """The state of a run between two generations, as parts of its file."""
    state = optimizer.run_state
    facts = {
        "rng": plain_state(optimizer.rng.bit_generator.state),
        "pace": list(history.pace),
        "has_theta_of_best": state.best.theta is not None,
        "has_constraints_of_best": state.best.constraints is not None,
        "has_leader": state.leader is not None,
        "has_constraints_of_leader": state.leader is not None and state.leader.constraints is not None,
        "has_sweep": state.sweep is not None,
        "multipliers": _multipliers(optimizer),
    }
    if state.surrogate is not None:
        facts["archive"] = state.surrogate.archive.size
    return [part("checkpoint", facts, without_memory(state)), part("memory", {}, memory_of(state))]


def _multipliers(optimizer: Optimizer) -> list[float] | None:
    """Multipliers of the inequalities of constraints, which can be read without the method; None if there are none."""
    memory, constraints = optimizer.state.ordering, optimizer.constraints
    if constraints is None or not isinstance(memory, LagrangianMemory):
        return None
    return memory.multipliers[: constraints.count].tolist()


def without_memory(state: RunState) -> RunState:
    """The state without the memories of the method, which can be read without the method."""
    return replace(state, search=State(state.search.theta, ()))


def memory_of(state: RunState) -> tuple[tuple[Memory, ...], Memory]:
    """The memories of the method."""
    return state.search.memory, state.search.ordering


def restart_rows(optimizer: Optimizer, since: int) -> list[Row]:
    """The finished runs from number `since` on: evaluations, reason, and settings of each."""
    rows = list[Row]()
    for number in range(since, len(optimizer.finished)):
        run, nfev = optimizer.finished[number]
        asked = [run.popsize, run.sigma_factor, run.maxfevals, run.spares_leaders, run.tries_changes]
        rows.append((number, nfev, json.dumps(optimizer.endings[number]), json.dumps(asked)))
    return rows


def part(name: str, facts: Mapping[str, object], arrays: object = ()) -> Row:
    """A part of a file; StoreError if it is too long to be read again."""
    text, (layout, data) = json.dumps(facts), pack(arrays)
    if (size := len(text) + len(layout)) > LONGEST_JSON:
        raise StoreError(f"the {name} of this run cannot be stored: it takes {size} characters of {LONGEST_JSON}.")
    return name, text, layout, data


def configuration_row(settings: Settings, problem: Problem) -> Row:
    """The arguments of the run, as a part of its file."""
    return part("configuration", asdict(settings), problem)


def driver_row() -> Row:
    """The environment of the process, as a part of its file."""
    return part("driver", environment())


def ending_row(reasons: Mapping[str, float], now: float) -> Row:
    """The reason why the run ended, as a part of its file, and the time of its clock; no reason if it is running."""
    return part("ending", {"reasons": dict(reasons), "time": now})


def reevaluation_row(ledger: Ledger, d: int) -> Row:
    """The re-evaluations of a noisy objective with d variables, as a part of its file."""
    entries = ledger.entries
    facts = {
        "points": len(ledger.points),
        "values": len(entries),
        "failures": [[i, *entry.failure] for i, entry in enumerate(entries) if entry.failure is not None],
    }
    keys = np.array([(entry.nit, entry.point, entry.place) for entry in entries], dtype=np.int64).reshape(-1, 3)
    rows = np.array([entry.row for entry in entries]).reshape(len(entries), -1 if entries else 0)
    points = np.array(ledger.points).reshape(-1, d)
    return part("reevaluations", facts, (points, keys, rows))


def check_storable(optimizer: Optimizer) -> None:
    """Raise StoreError if the generator or the state of the method cannot be stored."""
    kind = type(optimizer.rng.bit_generator).__name__
    if kind not in KINDS:
        raise StoreError(f"stored runs need one of NumPy's own generators as `rng`, {', '.join(KINDS)}, got {kind}.")
    try:
        size = size_of(optimizer.state)
    except FormatError as misfit:
        raise StoreError(f"the method {optimizer.method.name} cannot be stored: {misfit}.") from None
    if 2 * size > LARGEST_BLOB:
        raise StoreError(
            f"a state of {size:.2g} bytes cannot be stored; the limit is {LARGEST_BLOB // 2:.2g} bytes. Use a method "
            "that begins with `sep-` or `iso-`, whose state is smaller."
        )
    check_generation(optimizer)


def check_generation(optimizer: Optimizer) -> None:
    """Raise StoreError if the sample is too large to be read again."""
    if (size := 8 * optimizer.popsize * optimizer.best_x.size) > LARGEST_GENERATION:
        raise StoreError(
            f"a generation of {optimizer.popsize} points with {optimizer.best_x.size} variables takes {size:.2g} bytes "
            f"and cannot be stored; the limit is {LARGEST_GENERATION:.2g} bytes. Use a smaller `popsize`, or fewer "
            "restarts if they increase it."
        )


def record_new(path: Path, configuration: Row, optimizer: Optimizer, history: History) -> Recorder:
    """The recorder of a new run into a new file."""
    check_storable(optimizer)
    parts = [configuration, *checkpoint_rows(optimizer, history), driver_row(), ending_row({}, time.time())]
    tables = {
        "parts": [*parts, reevaluation_row(Ledger(), optimizer.start.x0.size)] if optimizer.noise else parts,
        "restarts": restart_rows(optimizer, 0),
        "snapshots": snapshot_rows(history, set()),
    }
    create(path, tables, next(size for least, size in PAGE_SIZES.items() if largest_row(optimizer) >= least))
    lock = Lock(path)
    try:
        return Recorder(File(path, writing=True), lock, history, Stored())
    except BaseException:
        lock.close()
        raise


def largest_row(optimizer: Optimizer) -> int:
    """Bytes of the largest row that a run writes repeatedly: a distribution, values, or values with points."""
    popsize, d = optimizer.popsize, optimizer.best_x.size
    return max(size_of(optimizer.theta), 8 * popsize * (1 if longest_redrawn(optimizer) == np.inf else d))


def snapshot_rows(history: History, known: set[int]) -> list[Row]:
    """The snapshots of a history except those whose numbers of evaluations are known."""
    new = [snapshot for snapshot in history.snapshots if snapshot.nfev not in known]
    packed = pack_each([snapshot.theta for snapshot in new])
    return [(snapshot.nfev, snapshot.run, *arrays) for snapshot, arrays in zip(new, packed, strict=True)]


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a run that is in its file."""

    generations: int = 0
    awaited: int = 0  # the last generation that has a value
    restarts: int = 0
    checkpoint: int = 0  # the last generation before the stored state
    active_until: float = np.inf  # the time of its clock when it was last active


class Recorder:
    """Writes a run into an open file, from the thread of the search and from a thread for rows that have waited. Where
    there are no threads these rows wait for the next values.

    The file of a resumed run is open for reading until the search has taken all stored values: these must be values of
    the points that the settings lead to, or the file is refused as it is.

    `_guard` is held while the waiting rows are changed, `_disk` while the file is used. Rows are removed after they are
    written: after an interrupt they are written again.
    """

    def __init__(self, file: File, lock: Lock, history: History, stored: Stored) -> None:
        self._file, self._lock = file, lock
        self._guard, self._disk, self._closed = threading.Lock(), threading.RLock(), threading.Event()
        self._finished, self._failures = list[Generation | SharedRow](), list[Row]()  # to be written
        self._row: SharedRow | None = None  # the last one, unless it is being written
        self._stale = list[Generation]()  # finished ones with rows of single values in the file
        self._bytes, self._since = 0, np.inf  # of them, and the time of the first one
        self._open: Generation | None = None
        self._stored, self._restarts, self._awaited = stored.generations, stored.restarts, stored.awaited
        self._paused = max(time.time() - stored.active_until, 0.0)  # seconds between processes that ran the run
        self._taken = stored.checkpoint  # the last generation whose stored values are taken
        self._deferred: list[Change] | None = None if file.is_writable else []  # until the file is written to
        self._recalled: dict[int, list[Stretch]] = {}
        self._snapshots = {snapshot.nfev for snapshot in history.snapshots}
        self._writing, self._syncing = TimeBudget(WRITING, SAVINGS), TimeBudget(SYNCING, 0.0)
        self._synced_at = time.perf_counter()
        self._pace = 0.01  # average seconds of the objective between two arrivals
        self._evaluation, self._evaluations = 0.0, 0.01  # seconds of the objective for a generation, and their average
        self._popsize, self._longest_redrawn = 0, 0.0  # of the next sample
        self.expects_batch = False  # whether the values of the next sample are added together
        self._is_drawn = False  # whether it will be drawn again when it is read
        self._rng_state: Mapping[str, object] | None = None  # before it, unless it continues a row
        self._rng_state_after: Mapping[str, object] | None = None  # after it; None if only the search draws
        self._continued: SharedRow | None = None
        self._own, self._left, self._kept_at, self._cost = 0.0, time.perf_counter(), time.perf_counter(), 0.0
        self._error: StoreError | None = None
        self._over = self._is_lost = False
        self._thread = threading.Thread(target=self._write_periodically, name="sublevel-store", daemon=True)
        if can_start_threads():
            self._thread.start()

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def _clock(self) -> float:
        """Seconds since 1970 without those in which no process ran the run."""
        return time.time() - self._paused

    @property
    def has_values(self) -> bool:
        """Whether the file has values that the search has not taken yet."""
        return self._taken < self._awaited

    def begin_writing(self) -> None:
        """Open the file of a resumed run for writing and mark the run as not ended, unless values are still to be taken
        from it.
        """
        if self._deferred is None or self.has_values:
            return
        with self._disk:
            read, self._file = self._file, File(self._file.path, writing=True)
            read.close()
            deferred, self._deferred = self._deferred, None
            self._write([self._insertion("parts", [ending_row({}, self._clock), driver_row()]), *deferred])

    def note_generator(self, done: Optimizer, is_batch: bool = False) -> None:
        """Keep the state of the generator if the next sample will be drawn again when it is read.

        If its values are a batch, that is if they arrive together and none is in the file, they are added by
        `add_batch`, and the sample may continue those of the last row, without a state of its own.
        """
        state = done.run_state
        popsize = state.run.popsize
        if popsize != self._popsize:
            check_generation(done)
            self._popsize = popsize
            self._longest_redrawn = longest_redrawn(done)
        self.expects_batch = is_batch and state.nit >= self._awaited
        if self.expects_batch:
            self.begin_writing()
        self._is_drawn = self._evaluations < self._longest_redrawn and not done.is_sweeping
        self._continued = self._row_to_continue(done) if self.expects_batch else None
        is_first = self._is_drawn and self._continued is None
        self._rng_state = done.rng.bit_generator.state if is_first else None

    def begin_batch(self, done: Optimizer) -> None:
        """Keep the state of the generator after a sample was drawn, before the objective, which may use it, too."""
        is_shared = self._is_drawn and not done.owns_generator
        self._rng_state_after = done.rng.bit_generator.state if is_shared else None

    def _row_to_continue(self, done: Optimizer) -> SharedRow | None:
        """The last row if the next generation can be added to it, whatever its values are."""
        row, run, is_drawn = self._row, done.run_state, self._is_drawn
        if row is None or not row.is_open(run.restarts, run.run.popsize, is_drawn):
            return None
        before = done.rng.bit_generator.state if is_drawn and not done.owns_generator else None
        return row if not is_drawn or row.continues_with(before) else None

    def recall_values(self, done: Optimizer, points: Array, values: Array, known: NDArray[np.bool_]) -> bool:
        """Fill in stored values (n,), or rows (n, 1 + k), of the next points (n, d) and mark them as known; return
        whether there are any.
        """
        if done.partial is not None:
            return self._recall_part(done, points, values, known)
        state, sample = done.run_state, None
        if self._is_drawn:
            after, popsize = done.rng.bit_generator.state, state.run.popsize
            sample = Sample(state.search.theta, self._rng_state, after, len(points) - popsize, popsize)
        self._open, iteration = Generation.of(done, points, values, sample), state.nit + 1
        if iteration <= self._awaited:
            stored = np.full(points.shape, np.nan)
            for part in self._stored_parts(done, iteration):
                piece = slice(part.place, part.place + len(part.values))
                if piece.stop > len(points):
                    path, count = self._file.path, len(points)
                    raise StoreError(f"{path} is damaged: generation {iteration} has more than {count} points.")
                stored[piece], self._open.values[piece], known[piece] = part.points, part.values, True
                if values.ndim > 1:
                    values[piece, 1:] = part.constraints
            self._open.take_constraints(known)
            self._open.in_file = bool(known.any())
            check_same(self._file.path, iteration, points[known], stored[known])
            self._taken = iteration
        self.begin_writing()
        now = time.perf_counter()
        self._own += now - self._left
        self._left = now
        return self._open.in_file

    def begin_parts(self, done: Optimizer, more: int) -> None:
        """Open a generation that is evaluated in parts, with room for `more` points than it has."""
        n, d = done.popsize + more, done.best_x.size
        self._open = Generation.of(done, np.full((n, d), np.nan), np.full(n, np.nan), None)
        self._open.evaluated = 0
        self._parts = self._stored_parts(done, done.nit + 1) if done.nit < self._awaited else []
        self._open.in_file = bool(self._parts)

    def _recall_part(self, done: Optimizer, points: Array, values: Array, known: NDArray[np.bool_]) -> bool:
        """Fill in stored values of the next points of a generation that is evaluated in parts."""
        generation, count = self._open, len(points)
        if generation is None:
            raise RuntimeError("a part of a generation that is not open")
        begin = generation.evaluated or 0
        with self._guard:
            generation.points[begin : begin + count] = points
            generation.begin, generation.evaluated = begin, begin + count
        for part in self._parts:
            places = np.arange(part.place, part.place + len(part.values)) - begin
            mine = (places >= 0) & (places < count)
            values[places[mine]], known[places[mine]] = part.values[mine], True
            check_same(self._file.path, generation.iteration, points[places[mine]], part.points[mine])
        generation.values[begin : begin + count][known] = values[known]
        if not any(part.place + len(part.values) > begin + count for part in self._parts):
            self._taken = max(self._taken, generation.iteration)
        self.begin_writing()
        now = time.perf_counter()
        self._own += now - self._left
        self._left = now
        return bool(known.any())

    def _stored_parts(self, done: Optimizer, iteration: int) -> list[Stretch]:
        """The stored evaluations of a generation. Those of generations in the same row are kept for the next calls."""
        if iteration not in self._recalled:
            with self._disk:
                parts = list(StoredPoints(self._file, SampleForm.of(done)).stretches(iteration, iteration))
            self._recalled = {part.iteration: [] for part in parts}
            for part in parts:
                self._recalled[part.iteration].append(part)
        return self._recalled.pop(iteration, [])

    def add_values(self, places: Places, failure: Failure | None = None, values: Array | None = None) -> None:
        """Add the values with these indices; `failure` is the reason for those that are NaN. Values (n,) of a part of
        a generation are copied.
        """
        now = time.perf_counter()
        generation = self._open
        if generation is None:
            raise RuntimeError("values arrived before their points")
        if values is not None:
            places = generation.place_part(places, values)
        seconds = now - self._left
        self._writing.earn(seconds)
        self._pace += 0.2 * (seconds - self._pace)
        self._evaluation += seconds
        with self._guard:
            if self._error is not None:
                raise self._error
            self._since = min(self._since, now)
            generation.take_constraints(places)
            generation.waiting.append(places)
            if failure is not None:
                self._failures += failure_rows(generation, places, failure)
        self._write_if_due(now)
        self._left = time.perf_counter()

    def add_batch(
        self, done: Optimizer, points: Array, values: Array, began: float, failure: Failure | None = None
    ) -> None:
        """Add the values (n,) of all points (n, d) of a new generation, whose evaluation began at this time."""
        now, state, sample = time.perf_counter(), done.run_state, None
        if self._is_drawn:
            sample = Sample(state.search.theta, self._rng_state, self._rng_state_after, 0, len(points))
        generation = Generation(state.restarts, state.nit + 1, points, values, sample)
        generation.continued = self._continued
        generation.waiting.append(ALL)
        self._evaluation = seconds = now - began
        self._own += began - self._left
        with self._guard:
            if self._error is not None:
                raise self._error
            self._open = generation
            if now < self._since:
                self._since = now
            if failure is not None:
                self._failures += failure_rows(generation, ALL, failure)
        self._pace += 0.2 * (seconds - self._pace)
        if WRITING * self._pace > CHEAPEST_WRITE:
            self._writing.earn(seconds)
            self._write_if_due(now)
        self._left = now

    def end_generation(self, done: Optimizer, history: History) -> None:
        """Add the last generation, and write the state if it is due."""
        now = time.perf_counter()
        self._own += now - self._left
        self._evaluations += 0.2 * (self._evaluation - self._evaluations)
        self._evaluation = 0.0
        nit = done.run_state.nit
        self._taken = max(self._taken, nit)
        if self.has_values:
            self._left = time.perf_counter()
            return
        self.begin_writing()
        with self._guard:
            if self._error is not None:
                raise self._error
            if nit > self._stored:
                self._add_generation(history, now)
                self._stored = nit
        if self._own > max(REPLAY, self._cost) or now - self._kept_at > max(SELDOM, self._cost):
            self._keep(done, history)
        else:
            self._write_if_due(now)
        self._left = time.perf_counter()

    def _add_generation(self, history: History, now: float) -> None:
        generation, self._open, row = self._open, None, self._row
        if generation is None:
            raise RuntimeError("a generation ended before it began")
        last = history.last
        violation = last[4] if len(last) > 4 else 0.0
        generation.numbers = (*last[:4], history.last_median, violation, self._clock)
        if now < self._since:
            self._since = now
        if row is not None and generation.continued is row:
            row.append(generation)
            self._bytes += row.bytes_each
            return
        generation.end_parts()
        generation.store_points()
        self._bytes += generation.count_bytes()
        if generation.in_file:
            generation.waiting = []
            if not generation.is_whole:
                self._stale.append(generation)
        if not generation.may_share_row():
            generation.drop_points()
            self._finished.append(generation)
            self._row = None
        elif row is None or not row.add(generation):
            self._row = SharedRow(generation)
            self._finished.append(self._row)

    def keep_state(self, done: Optimizer, history: History) -> None:
        """Write the state before a generation that may remain incomplete: no generation before the last stored one."""
        if self._error is not None:
            raise self._error
        if done.nit + 1 >= self._awaited:
            self._keep(done, history)

    def _keep(self, done: Optimizer, history: History, ending: Sequence[Row] = ()) -> None:
        """Write the state and everything that waits."""
        began = time.perf_counter()
        known = {snapshot.nfev for snapshot in history.snapshots}
        restarts = restart_rows(done, self._restarts)
        changes = [
            self._insertion("parts", [*checkpoint_rows(done, history), *ending]),
            self._insertion("restarts", restarts),
            (DELETE_SNAPSHOT, [(nfev,) for nfev in self._snapshots - known]),
            self._insertion("snapshots", snapshot_rows(history, self._snapshots)),
        ]
        if self._deferred is None:
            self._check_files()
            self._write(changes)
            with self._disk:
                self._file.limit_log()
        else:
            self._deferred += changes
        self._snapshots, self._restarts = known, self._restarts + len(restarts)
        self._kept_at = time.perf_counter()
        self._own, self._cost = 0.0, (self._kept_at - began) / CHEAP

    def _insertion(self, table: str, rows: Sequence[Row]) -> Change:
        return insert_rows(table, rows, self._file.origin)

    def _write(self, more: Sequence[Change] = ()) -> float:
        """Write everything that waits in one transaction; return the seconds it took, 0 if it was synced."""
        with self._disk:
            began = time.perf_counter()
            self._syncing.earn(began - self._synced_at)
            self._commit(more, sync := self._syncing.left > 0)
            self._synced_at, took = began, time.perf_counter() - began
            if sync:
                self._syncing.left -= took
            return 0.0 if sync else took

    def _write_if_due(self, now: float) -> None:
        """Write what waits if the time budget allows it, or if it has waited for long or is large."""
        if self._writing.left > 0 and WRITING * self._pace > CHEAPEST_WRITE:
            self._writing.left -= self._write()
        elif self._bytes > MOST_WAITING or now - self._since > USUAL_WAIT:
            self._write()

    def _commit(self, more: Sequence[Change], sync: bool) -> None:
        """Write what waits and remove it afterwards."""
        with self._guard:
            finished, failures, generation = self._finished[:], self._failures[:], self._open
            stale, self._row = self._stale[:], None
            places = [] if generation is None else generation.waiting[:]
            parts = [] if generation is None or not places else as_stretches(places, len(generation.values))
            if generation is not None and parts:
                generation.store_points()
                generation.is_whole = not generation.in_file and parts == [(0, len(generation.values))]
                generation.in_file = True
        changes = [*self._changes(finished, stale, failures, generation, parts), *more]
        if changes and not self._is_lost:
            self._file.write(changes, sync)
        with self._guard:
            self._bytes -= sum(done.count_bytes() for done in finished)
            del self._finished[: len(finished)], self._stale[: len(stale)], self._failures[: len(failures)]
            if generation is not None:
                del generation.waiting[: len(places)]
                generation.has_sample = generation.has_sample or bool(places)
            waits = self._finished or self._failures or (self._open is not None and self._open.waiting)
            self._since = time.perf_counter() if waits else np.inf

    def _changes(
        self,
        finished: Sequence[Generation | SharedRow],
        stale: Sequence[Generation],
        failures: Sequence[Row],
        generation: Generation | None,
        parts: Sequence[tuple[int, int]],
    ) -> Iterator[Change]:
        """The statements for what waits. A finished generation replaces the rows of its single values."""
        if stale:
            yield DELETE_GENERATION, [(done.iteration,) for done in stale]
            yield DELETE_SAMPLE, [(done.iteration,) for done in stale if done.sample is None]  # of an earlier process
        rows = [row for done in finished for row in done.evaluation_rows()]
        new = [*finished, *([generation] if generation is not None and parts else [])]
        samples = [row for part in new for row in part.sample_rows()]
        if generation is not None:
            rows += generation.rows(parts)
        tables = {"generations": [done.generation_row() for done in finished], "evaluations": rows}
        for table, content in (tables | {"samples": samples, "failures": failures}).items():
            if content:
                yield self._insertion(table, content)

    def _write_periodically(self) -> None:
        """In a separate thread, write what has waited for `LONGEST_WAIT` during a longer call of the objective."""
        while not self._closed.wait(LONGEST_WAIT / 2):
            with self._guard:
                is_due = time.perf_counter() - self._since > LONGEST_WAIT * 3 / 4
            if is_due and self._error is None:
                try:
                    self._write()
                except StoreError as error:
                    self._error = error

    def _check_files(self) -> None:
        """Warn if the file or its log was deleted or replaced. A deleted log is saved, and a new one is started."""
        if self._is_lost:
            return
        path = self._file.path
        if not self._lock.is_of(path):
            self._is_lost = True
            warnings.warn(
                f"{path} was deleted or replaced during the run, which is no longer stored and cannot be resumed.",
                stacklevel=2,
            )
        elif self._file.has_lost_log():
            with self._disk:
                if not self._file.reopen():
                    return
            warnings.warn(
                f"{side_file(path, '-wal')} was deleted during the run. No data are lost, because this process had it "
                f"open; do not delete files next to {path}.",
                stacklevel=2,
            )

    def write_reevaluations(self, ledger: Ledger) -> None:
        """Write all re-evaluations. There are few, so that each is written at once."""
        if self._error is not None:
            raise self._error
        self.begin_writing()
        self._write([self._insertion("parts", [reevaluation_row(ledger, ledger.points[0].size)])])

    def _stop_thread(self) -> None:
        """End the thread that writes what has waited, if it could be started."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def close(self, reasons: Mapping[str, float], done: Optimizer | None, history: History) -> None:
        """Write what waits, the reasons, and the state unless `done` is None, then release the file. It stays as it is
        if not all stored values were taken.
        """
        if self._over:
            return
        self._stop_thread()
        try:
            if self._error is None and not self.has_values:
                self.begin_writing()
                if done is not None:
                    self._keep(done, history, [ending_row(reasons, self._clock)])
                else:
                    self._check_files()
                    self._write([self._insertion("parts", [ending_row(reasons, self._clock)])])
        finally:
            self._over = True
            self._file.close(whole=self._deferred is None and not self._is_lost)
            self._lock.close()


def check_same(path: Path, iteration: int, made: Array, stored: Array) -> None:
    """Compare points (k, d) with the stored ones: warn of rounding, raise StoreError if they differ by more."""
    if made.tobytes() == stored.tobytes():
        return
    if not relative_difference(made, stored, stored) <= ROUNDING:
        raise StoreError(
            f"{path}: generation {iteration} does not reproduce the stored points; `x0`, `restarts` or `method` differ "
            "from the original run, or this machine rounds differently."
        )
    warnings.warn(
        f"{path}: this machine or NumPy rounds differently, so results may differ in the last digits.",
        stacklevel=2,
    )
