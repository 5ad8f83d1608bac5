"""Keeping a run: every value when it arrives, a row for each generation, and the state now and then.

A value is written at once as long as writing takes less than a small share of the time; what comes faster is written together, and
nothing waits longer than `LONGEST_WAIT`. What is written survives the death of the process. It also survives the loss of power where
syncing takes less than a still smaller share of the time: always, if the objective takes a second.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array
from sublevel.optimizer import Optimizer, Saved
from sublevel.record import History
from sublevel.store.configuration import Problem, Settings
from sublevel.store.errors import StoreError
from sublevel.store.file import File, Row, create, insertion, summed
from sublevel.store.leaves import Misfit, packed
from sublevel.store.lock import Lock
from sublevel.store.randomness import KINDS, plain_state

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
"""Seconds after which it is kept anyway: for those who watch, and because a run may go on on another machine, which rounds differently."""
CHEAP = 0.05
"""Of the own work, for keeping the state."""

ROUNDING = 1e-6
"""Points that are made again differ by less than this part of their size, if by rounding only."""

DELETE_ARRIVALS = "DELETE FROM arrivals WHERE iteration <= ?"


class Purse:
    """A share of the time that may be spent on something."""

    def __init__(self, share: float) -> None:
        self.share, self.seen, self.left = share, time.perf_counter(), SAVINGS

    def allows(self, now: float) -> bool:
        """Whether there is some left."""
        self.left = min(self.left + self.share * (now - self.seen), SAVINGS)
        self.seen = now
        return self.left > 0


def checkpoint_rows(saved: Saved, history: History) -> list[Row]:
    """The state of a run between two generations, as parts of its file."""
    facts = {**saved.facts, "rng": plain_state(saved.facts["rng"]), "pace": list(history.pace)}
    facts["sent"] = [[plain_state(state), spent] for state, spent in saved.facts["sent"]]
    arrays = {
        "theta": saved.state.theta,
        "initial_deviations": saved.initial_deviations,
        "best_x": saved.best_x,
        "theta_of_best": saved.theta_of_best,
    }
    return [summed("checkpoint", json.dumps(facts), *packed(arrays)), summed("memory", "{}", *packed(saved.state.memory))]


def configuration_row(settings: Settings, problem: Problem) -> Row:
    """What the run was asked to do, as a part of its file."""
    return summed("configuration", json.dumps(asdict(settings)), *packed(problem))


def ending_row(reasons: Any) -> Row:
    """How the last driver ended; it has not if there are no reasons."""
    return summed("ending", json.dumps({"reasons": dict(reasons), "time": time.time()}), "[]", b"")


def check_storable(optimizer: Optimizer) -> None:
    """A generator and a memory that plain numbers can hold."""
    kind = type(optimizer.rng.bit_generator).__name__
    if kind not in KINDS:
        raise StoreError(f"`rng` must be one of NumPy's own generators to be stored, {', '.join(KINDS)}, got {kind}.")
    try:
        packed(optimizer.state)
    except Misfit as misfit:
        raise StoreError(f"the method {optimizer.method.name} cannot be stored: {misfit}.") from None


def record_new(path: Path, configuration: Row, optimizer: Optimizer, history: History) -> Recorder:
    """A recorder of a run that begins, into a new file."""
    check_storable(optimizer)
    parts = [configuration, *checkpoint_rows(optimizer.saved(), history), ending_row({})]
    create(path, [(insertion("parts"), parts), (insertion("snapshots"), snapshot_rows(history, set()))])
    lock = Lock(path)
    try:
        return Recorder(File(path, writing=True), lock, history)
    except BaseException:
        lock.close()
        raise


def snapshot_rows(history: History, known: set[int]) -> list[Row]:
    """The snapshots of a history, but for those that are known by their evaluations."""
    return [summed(s.nfev, s.run, *packed(s.theta)) for s in history.snapshots if s.nfev not in known]


class Recorder:
    """Writes what happens into an open file, from the thread that drives and, for what waits there, from one of its own."""

    def __init__(self, file: File, lock: Lock, history: History, iteration: int = 0, awaited: int = 0) -> None:
        """A recorder after `iteration` generations; there may be values for those up to number `awaited`."""
        self._file, self._lock = file, lock
        self._guard, self._closed = threading.Lock(), threading.Event()
        self._arrivals: list[tuple[int, int, Any, Array, Array]] = []  # run, iteration, places, points, values
        self._generations: list[Row] = []
        self._evaluations: list[Row] = []
        self._written_arrivals = awaited > iteration
        self._since = 0.0  # when the oldest of them came
        self._stored, self._awaited = iteration, awaited
        self._snapshots = {snapshot.nfev for snapshot in history.snapshots}
        self._writing, self._syncing = Purse(WRITING), Purse(SYNCING)
        self._own, self._left, self._kept_at, self._cost = 0.0, time.perf_counter(), time.perf_counter(), 0.0
        self._trouble: BaseException | None = None
        self._over = False
        self._thread = threading.Thread(target=self._write_what_waits, name="sublevel-store", daemon=True)
        self._thread.start()

    def reopen(self) -> None:
        """The run goes on: how it ended before does not hold any more."""
        with self._guard:
            self._write([(insertion("parts", replacing=True), [ending_row({})])])

    def recall(self, iteration: int, points: Array, values: Array, known: NDArray[np.bool_]) -> None:
        """Fill in the values (n,) of a generation's points (n, d) that are stored, and mark them as known."""
        if iteration <= self._awaited:
            with self._guard:
                stored = np.full(points.shape, np.nan)
                for place, point, value in stored_values(self._file, iteration, points.shape):
                    stored[place], values[place], known[place] = point, value, True
            _check_same(self._file.path, iteration, points[known], stored[known])
        now = time.perf_counter()
        self._own += now - self._left
        self._left = now

    def arrived(self, run: int, iteration: int, places: Any, points: Array, values: Array) -> None:
        """Keep values of some of a generation's points."""
        now = time.perf_counter()
        with self._guard:
            self._raise_trouble()
            if not self._arrivals and not self._generations:
                self._since = now
            self._arrivals.append((run, iteration, places, points, values))
            if self._writing.allows(now):
                self._write()
        self._left = time.perf_counter()

    def finished(self, done: Optimizer, history: History, points: Array, values: Array) -> None:
        """Keep a generation that was told, and the state if it is time to."""
        now = time.perf_counter()
        self._own += now - self._left
        with self._guard:
            self._raise_trouble()
            if done.nit > self._stored:
                self._add_generation(done, history, points, values)
            if self._own > max(REPLAY, self._cost / CHEAP) or now - self._kept_at > max(SELDOM, self._cost / CHEAP):
                self._keep(done, history)
            elif self._writing.allows(now):
                self._write()
        self._left = time.perf_counter()

    def _add_generation(self, done: Optimizer, history: History, points: Array, values: Array) -> None:
        """A row of numbers, and one of points and values in place of the arrivals."""
        run = history.last_run
        numbers = np.array([*history.last, np.sort(values)[len(values) // 2], time.time()])
        if not self._arrivals and not self._generations:
            self._since = time.perf_counter()
        self._generations.append(summed(done.nit, run, len(points), numbers.tobytes()))
        self._evaluations.append(summed(done.nit, run, points.tobytes(), values.tobytes()))
        self._arrivals = []
        self._stored = done.nit

    def _keep(self, done: Optimizer, history: History, ending: Sequence[Row] = ()) -> None:
        """Write the state with all that waits."""
        began = time.perf_counter()
        known = {snapshot.nfev for snapshot in history.snapshots}
        self._write(
            [
                (insertion("parts", replacing=True), [*checkpoint_rows(done.saved(), history), *ending]),
                ("DELETE FROM snapshots WHERE nfev = ?", [(nfev,) for nfev in self._snapshots - known]),
                (insertion("snapshots"), snapshot_rows(history, self._snapshots)),
            ]
        )
        self._snapshots = known
        self._kept_at = time.perf_counter()
        self._own, self._cost = 0.0, self._kept_at - began

    def _write(self, more: Sequence[tuple[str, Sequence[Row]]] = ()) -> None:
        """All that waits, in one transaction."""
        began = time.perf_counter()
        changes: list[tuple[str, Sequence[Row]]] = []
        if self._generations:
            changes += [(insertion("generations"), self._generations), (insertion("evaluations"), self._evaluations)]
            if self._written_arrivals:
                changes.append((DELETE_ARRIVALS, [(self._generations[-1][0],)]))
        if self._arrivals:
            changes.append((insertion("arrivals"), [row for arrival in self._arrivals for row in arrival_rows(*arrival)]))
        sync = self._syncing.allows(began)
        if changes or more:
            self._file.write([*changes, *more], sync)
            self._written_arrivals = bool(self._arrivals) or (self._written_arrivals and not self._generations)
            self._arrivals, self._generations, self._evaluations = [], [], []
        took = time.perf_counter() - began
        if sync:
            self._syncing.left -= took
        elif not more:
            self._writing.left -= took

    def _write_what_waits(self) -> None:
        """In a thread of its own: write what has waited long enough for something to come."""
        while not self._closed.wait(LONGEST_WAIT / 2):
            with self._guard:
                waits = bool(self._arrivals or self._generations) and time.perf_counter() - self._since > LONGEST_WAIT / 2
                if waits and self._trouble is None:
                    try:
                        self._write()
                    except StoreError as error:
                        self._trouble = error

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            raise self._trouble

    def close(self, reasons: Any, done: Optimizer | None, history: History) -> None:
        """Write what waits and how it ended, and the state of what is `done` with its last generation; let others drive."""
        if self._over:
            return
        self._closed.set()
        self._thread.join()
        try:
            if self._trouble is None:
                if done is not None:
                    self._keep(done, history, [ending_row(reasons)])
                else:
                    self._write([(insertion("parts", replacing=True), [ending_row(reasons)])])
        finally:
            self._over = True
            self._file.close(whole=True)
            self._lock.close()


def arrival_rows(run: int, iteration: int, places: Any, points: Array, values: Array) -> list[Row]:
    """A row for each value that came alone."""
    return [summed(iteration, place, run, points[place].tobytes(), values[place].tobytes()) for place in np.atleast_1d(places).tolist()]


def stored_values(file: File, iteration: int, form: tuple[int, int]) -> Any:
    """Place, point and value of what is stored of a generation with points of that form (n, d)."""
    n, d = form
    for _, _, points, values in file.rows("evaluations", "WHERE iteration = ?", (iteration,)):
        if len(points) != 8 * n * d or len(values) != 8 * n:
            raise StoreError(f"{file.path} is damaged: generation {iteration} should have {n} points of {d} variables.")
        yield from zip(range(n), np.frombuffer(points).reshape(n, d), np.frombuffer(values), strict=True)
        return
    for _, place, _, point, value in file.rows("arrivals", "WHERE iteration = ?", (iteration,)):
        if not 0 <= place < n or len(point) != 8 * d or len(value) != 8:
            raise StoreError(f"{file.path} is damaged: generation {iteration} should have {n} points of {d} variables.")
        yield place, np.frombuffer(point), np.frombuffer(value)[0]


def _check_same(path: Path, iteration: int, made: Array, stored: Array) -> None:
    """The points (k, d) that are made again are those that were evaluated, but for rounding on another machine."""
    if made.tobytes() == stored.tobytes():
        return
    apart = np.max(np.abs(made - stored) / np.maximum(np.max(np.abs(stored), axis=0), np.finfo(np.float64).tiny))
    if not apart <= ROUNDING:
        raise StoreError(
            f"{path}: generation {iteration} comes out with other points than were evaluated. What was given again, such as `x0` or "
            "`restarts`, must be what the run began with; or this machine rounds differently from the one that evaluated them."
        )
    warnings.warn(
        f"{path}: this machine or NumPy rounds differently from the one before; the run goes on, but not bit for bit.", stacklevel=2
    )
