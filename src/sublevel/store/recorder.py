"""Keeping a run: every value when it arrives, a row for each generation, and the state now and then.

A value is written at once as long as writing takes less than a small share of the time; what comes faster is written
together, and nothing waits longer than `LONGEST_WAIT`. What is written survives the death of the process. It also
survives the loss of power where syncing takes less than a still smaller share of the time: always, if the objective
takes a second.
"""

from __future__ import annotations

import json
import struct
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.method import State
from sublevel.evaluation.failures import Failure
from sublevel.run.history import History
from sublevel.run.optimizer import Optimizer
from sublevel.run.state import RunState
from sublevel.store.environment import environment
from sublevel.store.errors import StoreError
from sublevel.store.file import (
    LARGE_ROWS,
    LARGEST_BLOB,
    LONGEST_FACTS,
    Change,
    File,
    Row,
    create,
    insert_rows,
    side_file,
)
from sublevel.store.lock import Lock
from sublevel.store.rng_state import KINDS, plain_state
from sublevel.store.samples import ROUNDING, Sample, SampleForm, StoredPoints, is_redrawn
from sublevel.store.serialize import FormatError, packed, size_of
from sublevel.store.settings import LARGEST_GENERATION, Problem, Settings

WRITING = 0.1
"""Of the time, for writing values one by one."""
SYNCING = 0.005
"""Of the time, for waiting until they are on the disk."""
SAVINGS = 0.05
"""Seconds of either that can be saved up."""
LONGEST_WAIT = 0.05
"""Seconds that a value waits to be written at most."""
REPLAY = 0.25
"""Seconds of own work after which the state is kept, so that no more has to be repeated."""
SELDOM = 1.0
"""Seconds after which it is kept anyway: for those who watch, and because a run may go on on another machine, which
rounds differently.
"""
CHEAP = 0.05
"""Of the own work, for keeping the state."""

LARGEST_ROW = 2**23
"""Bytes that one row takes at most, unless it is one point."""
MOST_WAITING = 2**28
"""Bytes that may wait to be written; beyond, the search waits for the disk."""

DELETE_GENERATION = "DELETE FROM evaluations WHERE iteration = ?"
DELETE_SNAPSHOT = "DELETE FROM snapshots WHERE nfev = ?"


class TimeBudget:
    """A share of the time that may be spent on something."""

    def __init__(self, share: float) -> None:
        self.share, self.seen, self.left = share, time.perf_counter(), SAVINGS

    def allows(self, now: float) -> bool:
        """Whether there is some left."""
        self.left = min(self.left + self.share * (now - self.seen), SAVINGS)
        self.seen = now
        return self.left > 0


def checkpoint_rows(optimizer: Optimizer, history: History) -> list[Row]:
    """The state of a run between two generations, as parts of its file. The runs before it are apart, in
    `restart_rows`.
    """
    state = optimizer.run_state
    facts = {
        "rng": plain_state(optimizer.rng.bit_generator.state),
        "pace": list(history.pace),
        "has_theta_of_best": state.best.theta is not None,
    }
    return [part("checkpoint", facts, without_memory(state)), part("memory", {}, memory_of(state))]


def without_memory(state: RunState) -> RunState:
    """The state without what the parts of its method remember: what can be read without knowing the method."""
    return replace(state, search=State(state.search.theta, ()))


def memory_of(state: RunState) -> tuple[Any, ...]:
    """What the parts of its method remember."""
    return state.search.memory, state.search.ordering


def restart_rows(optimizer: Optimizer, since: int) -> list[Row]:
    """The runs that ended, from number `since` on: the evaluations each took, why it ended, and how it was asked
    for.
    """
    rows: list[Row] = []
    for number in range(since, len(optimizer.finished)):
        run, nfev = optimizer.finished[number]
        asked = [run.popsize, run.sigma_factor, run.maxfevals, run.spares_leaders]
        rows.append((number, nfev, json.dumps(optimizer.endings[number]), json.dumps(asked)))
    return rows


def part(name: str, facts: Mapping[str, Any], arrays: Any = ()) -> Row:
    """A part of a file, small enough to be read again."""
    text, (layout, data) = json.dumps(facts), packed(arrays)
    if len(text) + len(layout) > LONGEST_FACTS:
        raise StoreError(
            f"the {name} of this run cannot be stored: it takes {len(text) + len(layout)} characters, of "
            f"{LONGEST_FACTS}."
        )
    return name, text, layout, data


def configuration_row(settings: Settings, problem: Problem) -> Row:
    """What the run was asked to do, as a part of its file."""
    return part("configuration", asdict(settings), problem)


def driver_row() -> Row:
    """On what the run is driven, as a part of its file."""
    return part("driver", environment())


def ending_row(reasons: Any) -> Row:
    """How the last driver ended; it has not if there are no reasons."""
    return part("ending", {"reasons": dict(reasons), "time": time.time()})


def check_storable(optimizer: Optimizer) -> None:
    """A generator and a memory that plain numbers can hold, in sizes that can be read again."""
    kind = type(optimizer.rng.bit_generator).__name__
    if kind not in KINDS:
        raise StoreError(f"`rng` must be one of NumPy's own generators to be stored, {', '.join(KINDS)}, got {kind}.")
    try:
        size = size_of(optimizer.state)
    except FormatError as misfit:
        raise StoreError(f"the method {optimizer.method.name} cannot be stored: {misfit}.") from None
    if 2 * size > LARGEST_BLOB:
        raise StoreError(
            f"a state of {size:.2g} bytes cannot be stored, {LARGEST_BLOB // 2:.2g} is the most. Use a method that "
            "begins with `sep-` or `iso-`, whose state is smaller."
        )
    check_generation(optimizer)


def check_generation(optimizer: Optimizer) -> None:
    """A sample that can be read again."""
    if (size := 8 * optimizer.popsize * optimizer.best_x.size) > LARGEST_GENERATION:
        raise StoreError(
            f"a generation of {optimizer.popsize} points with {optimizer.best_x.size} variables takes {size:.2g} bytes "
            f"and cannot be stored, {LARGEST_GENERATION:.2g} is the most. Give a smaller `popsize`, or fewer restarts "
            "if these increase it."
        )


def record_new(path: Path, configuration: Row, optimizer: Optimizer, history: History) -> Recorder:
    """A recorder of a run that begins, into a new file."""
    check_storable(optimizer)
    tables = {
        "parts": [configuration, *checkpoint_rows(optimizer, history), driver_row(), ending_row({})],
        "restarts": restart_rows(optimizer, 0),
        "snapshots": snapshot_rows(history, set()),
    }
    create(path, tables, page_size=65536 if largest_row(optimizer) >= LARGE_ROWS else 4096)
    lock = Lock(path)
    try:
        return Recorder(File(path, writing=True), lock, history, Stored())
    except BaseException:
        lock.close()
        raise


def largest_row(optimizer: Optimizer) -> int:
    """Bytes of the largest row that a run writes again and again: a distribution, values, or points with them."""
    popsize, d = optimizer.popsize, optimizer.best_x.size
    is_drawn = is_redrawn(optimizer.method, optimizer.theta, popsize, d)
    return max(size_of(optimizer.theta), 8 * popsize * (1 if is_drawn else d))


def snapshot_rows(history: History, known: set[int]) -> list[Row]:
    """The snapshots of a history, but for those that are known by their evaluations."""
    return [(s.nfev, s.run, *packed(s.theta)) for s in history.snapshots if s.nfev not in known]


@dataclass(frozen=True, slots=True)
class Stored:
    """How much of a run is in its file."""

    generations: int = 0
    awaited: int = 0  # the last generation of which there is a value
    restarts: int = 0  # rows of them


@dataclass(slots=True)
class Generation:
    """A generation whose values arrive: which of them wait to be written, and whether some are in the file."""

    run: int
    iteration: int
    points: Array  # (n, d)
    values: Array  # (n,)
    popsize: int  # the last so many are those that the search asked for; the start may be before them
    sample: Sample | None = None  # what they were drawn with, if their points are not stored
    has_sample: bool = False  # it is in the file
    waiting: list[Any] = field(default_factory=list[Any])  # places, or arrays of them
    in_file: bool = False
    is_whole: bool = False  # all of it is in the file as the rows that a finished generation has

    def rows(self, parts: Sequence[tuple[int, int]] | None = None) -> Iterator[Row]:
        """A row for each stretch of places, or for all; several if it is a large one. Points that are drawn again are
        left out.
        """
        drawn = len(self.values) if self.sample is None else self.sample.place  # from here on
        for begin, end in [(0, len(self.values))] if parts is None else parts:
            for piece in cut(begin, min(end, drawn), LARGEST_ROW // max(self.points[:1].nbytes, 1)):
                yield self.iteration, piece.start, self.run, _bytes(self.points[piece]), _bytes(self.values[piece])
            for piece in cut(max(begin, drawn), end, LARGEST_ROW // 8):
                yield self.iteration, piece.start, self.run, b"", _bytes(self.values[piece])


def cut(begin: int, end: int, most: int) -> Iterator[slice]:
    """The places from `begin` to `end`, at most so many at a time."""
    step = max(most, 1)
    for place in range(begin, end, step):
        yield slice(place, min(place + step, end))


def stretches(places: Sequence[Any], n: int) -> list[tuple[int, int]]:
    """Places among n, each a number, an array of them or a slice of all, as begins and ends of stretches without
    gaps.
    """
    if any(isinstance(part, slice) for part in places):
        return [(0, n)]
    ordered = np.sort(np.concatenate([np.atleast_1d(part) for part in places]))
    cuts = np.flatnonzero(np.diff(ordered) > 1) + 1
    begins, ends = np.append(0, cuts), np.append(cuts, ordered.size)
    return [(int(ordered[begin]), int(ordered[end - 1]) + 1) for begin, end in zip(begins, ends, strict=True)]


def _bytes(array: Array) -> memoryview | bytes:
    """The bytes of an array, without a copy where it has them in order."""
    return array.data.cast("B") if array.flags.c_contiguous and array.size else array.tobytes()


@dataclass(slots=True)
class Waiting:
    """What is to be written next."""

    since: float = 0.0  # when the oldest of it came
    bytes: int = 0
    generations: list[Row] = field(default_factory=list[Row])
    finished: list[Generation] = field(
        default_factory=list[Generation]
    )  # whose values are not in the file as they are to be
    failures: list[Row] = field(default_factory=list[Row])

    def __bool__(self) -> bool:
        """Whether there is something."""
        return bool(self.generations or self.finished or self.failures)


class Recorder:
    """Writes what happens into an open file, from the thread that drives and, for what waits there, from one of its
    own.

    `_guard` is held while what waits is changed, `_disk` while the file is used. What waits is removed once it is
    written, and not before: an interrupt leaves it for the next time.
    """

    def __init__(self, file: File, lock: Lock, history: History, stored: Stored) -> None:
        """A recorder of a run of which so much is in the file."""
        self._file, self._lock = file, lock
        self._guard, self._disk, self._closed = threading.Lock(), threading.RLock(), threading.Event()
        self._waiting = Waiting()
        self._open: Generation | None = None
        self._stored, self._restarts, self._awaited = stored.generations, stored.restarts, stored.awaited
        self._snapshots = {snapshot.nfev for snapshot in history.snapshots}
        self._writing, self._syncing = TimeBudget(WRITING), TimeBudget(SYNCING)
        self._state: Any = None  # of the generator, before a large sample
        self._own, self._left, self._kept_at, self._cost = 0.0, time.perf_counter(), time.perf_counter(), 0.0
        self._trouble: BaseException | None = None
        self._over = self._is_lost = False
        self._thread = threading.Thread(target=self._write_what_waits, name="sublevel-store", daemon=True)
        self._thread.start()

    def reopen(self) -> None:
        """The run goes on: how it ended before does not hold any more."""
        self._write([self._insertion("parts", [ending_row({}), driver_row()], replacing=True)])

    def before_ask(self, done: Optimizer) -> None:
        """Note the state of the generator if the next sample is large and is stored as what it was drawn with."""
        is_large = is_redrawn(done.method, done.theta, done.popsize, done.best_x.size)
        self._state = done.rng.bit_generator.state if is_large else None

    def recall(self, done: Optimizer, points: Array, values: Array, known: NDArray[np.bool_]) -> bool:
        """Fill in the values (n,) of the next generation's points (n, d) that are stored, mark them as known, and say
        if there are any.
        """
        check_generation(done)
        iteration = done.nit + 1
        sample = None if self._state is None else Sample(done.theta, self._state, points, len(points) - done.popsize)
        self._open = Generation(done.restarts, iteration, points, values, done.popsize, sample)
        if iteration <= self._awaited:
            with self._disk:
                stored = np.full(points.shape, np.nan)
                for piece, found, numbers in stored_values(self._file, SampleForm.of(done), iteration, len(points)):
                    stored[piece], values[piece], known[piece] = found, numbers, True
            self._open.in_file = bool(known.any())
            _check_same(self._file.path, iteration, points[known], stored[known])
        now = time.perf_counter()
        self._own += now - self._left
        self._left = now
        return self._open.in_file

    def arrived(self, places: Any, failure: Failure | None = None) -> None:
        """Keep values of some of the generation's points, by number, array of numbers or slice; and how those that are
        NaN failed.
        """
        now = time.perf_counter()
        generation = self._open
        if generation is None:
            raise RuntimeError("values arrived before their points")
        with self._guard:
            self._raise_trouble()
            self._note_wait(now, 0)
            generation.waiting.append(places)
            if failure is not None:
                self._waiting.failures += failure_rows(generation, places, failure)
        if self._writing.allows(now):
            self._write()
        self._left = time.perf_counter()

    def finished(self, done: Optimizer, history: History) -> None:
        """Keep the generation that was told, and the state if it is time to."""
        now = time.perf_counter()
        self._own += now - self._left
        with self._guard:
            self._raise_trouble()
            if done.nit > self._stored:
                self._add_generation(now, done, history)
            is_much = self._waiting.bytes > MOST_WAITING
        if self._own > max(REPLAY, self._cost / CHEAP) or now - self._kept_at > max(SELDOM, self._cost / CHEAP):
            self._keep(done, history)
        elif is_much or self._writing.allows(now):
            self._write(patient=is_much)
        self._left = time.perf_counter()

    def _note_wait(self, now: float, size: int) -> None:
        if not self._waiting and (self._open is None or not self._open.waiting):
            self._waiting.since = now
        self._waiting.bytes += size

    def _add_generation(self, now: float, done: Optimizer, history: History) -> None:
        """A row of numbers, and the values if they are not in the file as they are to be."""
        generation, self._open = self._open, None
        if generation is None:
            raise RuntimeError("a generation was told before its points were made")
        ordered = generation.values[-generation.popsize :].copy()
        ordered.partition(middle := generation.popsize // 2)
        numbers = struct.pack("<6d", *history.last, ordered[middle], time.time())
        self._note_wait(now, generation.points.nbytes)
        self._waiting.generations.append((done.nit, history.last_run, len(generation.values), numbers))
        if not generation.is_whole:
            generation.waiting = []
            self._waiting.finished.append(generation)
        self._stored = done.nit

    def _keep(self, done: Optimizer, history: History, ending: Sequence[Row] = ()) -> None:
        """Write the state with all that waits."""
        began = time.perf_counter()
        self._check_files()
        known = {snapshot.nfev for snapshot in history.snapshots}
        restarts = restart_rows(done, self._restarts)
        self._write(
            [
                self._insertion("parts", [*checkpoint_rows(done, history), *ending], replacing=True),
                self._insertion("restarts", restarts),
                (DELETE_SNAPSHOT, [(nfev,) for nfev in self._snapshots - known]),
                self._insertion("snapshots", snapshot_rows(history, self._snapshots)),
            ]
        )
        self._snapshots, self._restarts = known, self._restarts + len(restarts)
        self._kept_at = time.perf_counter()
        self._own, self._cost = 0.0, self._kept_at - began

    def _insertion(self, table: str, rows: Sequence[Row], replacing: bool = False) -> Change:
        return insert_rows(table, rows, self._file.origin, replacing)

    def _write(self, more: Sequence[Change] = (), patient: bool = True) -> None:
        """All that waits, in one transaction; nothing, unless `patient`, if the other thread is writing."""
        if not self._disk.acquire(blocking=patient):
            return
        try:
            began = time.perf_counter()
            self._commit(more, sync := self._syncing.allows(began))
            took = time.perf_counter() - began
            if sync:
                self._syncing.left -= took
            elif not more:
                self._writing.left -= took
        finally:
            self._disk.release()

    def _commit(self, more: Sequence[Change], sync: bool) -> None:
        """Write what waits, then forget it."""
        with self._guard:
            waiting, generation = self._waiting, self._open
            batch = Waiting(
                waiting.since, waiting.bytes, waiting.generations[:], waiting.finished[:], waiting.failures[:]
            )
            places = [] if generation is None else generation.waiting[:]
            parts = [] if generation is None or not places else stretches(places, len(generation.values))
            if generation is not None and parts:
                generation.is_whole = not generation.in_file and parts == [(0, len(generation.values))]
                generation.in_file = True
        changes = [*self._changes(batch, generation, parts), *more]
        if changes and not self._is_lost:
            self._file.write(changes, sync)
        with self._guard:
            waiting.bytes -= batch.bytes
            waiting.since = time.perf_counter()
            del waiting.generations[: len(batch.generations)], waiting.finished[: len(batch.finished)]
            del waiting.failures[: len(batch.failures)]
            if generation is not None:
                del generation.waiting[: len(places)]
                generation.has_sample = generation.has_sample or bool(places)

    def _changes(
        self, batch: Waiting, generation: Generation | None, parts: Sequence[tuple[int, int]]
    ) -> Iterator[Change]:
        """What waits, as statements. A finished generation replaces those of its values that are in the file."""
        if stale := [(done.iteration,) for done in batch.finished if done.in_file]:
            yield DELETE_GENERATION, stale
        if batch.generations:
            yield self._insertion("generations", batch.generations)
        rows = [row for done in batch.finished for row in done.rows()]
        if generation is not None:
            rows += generation.rows(parts)
        if rows:
            yield self._insertion("evaluations", rows)
        new = [*batch.finished, *([generation] if generation is not None and parts else [])]
        if samples := [
            part.sample.row(part.iteration) for part in new if part.sample is not None and not part.has_sample
        ]:
            yield self._insertion("samples", samples)
        if batch.failures:
            yield self._insertion("failures", batch.failures)

    def _write_what_waits(self) -> None:
        """In a thread of its own: write what has waited long enough for something to come."""
        while not self._closed.wait(LONGEST_WAIT / 2):
            with self._guard:
                waits = bool(self._waiting) or (self._open is not None and bool(self._open.waiting))
                is_due = waits and time.perf_counter() - self._waiting.since > LONGEST_WAIT / 2
            if is_due and self._trouble is None:
                try:
                    self._write()
                except StoreError as error:
                    self._trouble = error

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            raise self._trouble

    def _check_files(self) -> None:
        """Tell if the file or its log was deleted or replaced. If only its log was, its contents are saved, and another
        one is begun.
        """
        if self._is_lost:
            return
        path = self._file.path
        if not self._lock.is_of(path):
            self._is_lost = True
            warnings.warn(
                f"{path} was deleted or replaced while the run goes on: nothing is stored any more, and the run "
                "cannot be resumed.",
                stacklevel=2,
            )
        elif self._file.has_lost_log():
            with self._disk:
                if not self._file.reopen():
                    return
            warnings.warn(
                f"{side_file(path, '-wal')} was deleted while the run goes on. Nothing is lost, because this process "
                f"still had it open; do not delete files beside {path}.",
                stacklevel=2,
            )

    def abandon(self) -> None:
        """Close the file as it is, for a run that cannot begin."""
        self._closed.set()
        self._thread.join()
        self._over = True
        self._file.close()

    def close(self, reasons: Any, done: Optimizer | None, history: History) -> None:
        """Write what waits and how it ended, and the state of what is `done` with its last generation; let others
        drive.
        """
        if self._over:
            return
        self._closed.set()
        self._thread.join()
        try:
            if self._trouble is None:
                if done is not None:
                    self._keep(done, history, [ending_row(reasons)])
                else:
                    self._check_files()
                    self._write([self._insertion("parts", [ending_row(reasons)], replacing=True)])
        finally:
            self._over = True
            self._file.close(whole=not self._is_lost)
            self._lock.close()


def failure_rows(generation: Generation, places: Any, failure: Failure) -> list[Row]:
    """A row for each stretch of places: those of their values that are NaN failed in this way."""
    parts = stretches([places], len(generation.values))
    return [(generation.iteration, begin, end - begin, failure.kind, failure.detail) for begin, end in parts]


def stored_values(file: File, form: SampleForm, iteration: int, n: int) -> Iterator[tuple[slice, Array, Array]]:
    """Places, points and values of what is stored of a generation of n points."""
    d, stored = form.dimension, StoredPoints(file, form)
    for row in file.rows("evaluations", "WHERE iteration = ? ORDER BY place", (iteration,)):
        _, place, _, points, values = row
        count = len(values) // 8
        if not 0 <= place <= n - count or len(values) % 8 or len(points) not in (0, d * len(values)):
            raise StoreError(f"{file.path} is damaged: generation {iteration} should have {n} points of {d} variables.")
        yield slice(place, place + count), stored.of_row(row), np.frombuffer(values)


def _check_same(path: Path, iteration: int, made: Array, stored: Array) -> None:
    """The points (k, d) that are made again are those that were evaluated, but for rounding on another machine."""
    if made.tobytes() == stored.tobytes():
        return
    apart = np.max(np.abs(made - stored) / np.maximum(np.max(np.abs(stored), axis=0), np.finfo(np.float64).tiny))
    if not apart <= ROUNDING:
        raise StoreError(
            f"{path}: generation {iteration} does not reproduce the stored points; `x0`, `restarts` or `method` differ "
            "from the original run, or this machine rounds differently."
        )
    warnings.warn(
        f"{path}: this machine or NumPy rounds differently from the one before; the run goes on, but not bit for bit.",
        stacklevel=2,
    )
