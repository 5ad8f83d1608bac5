"""A run from its file: what was asked, what was evaluated, where the search is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.method import State
from sublevel.engine.transforms import AdaptiveRates
from sublevel.evaluation.evaluators import RETURNED_NAN
from sublevel.evaluation.failures import KEPT, Failure, Failures, printable
from sublevel.run.history import Generations, History, Snapshot
from sublevel.run.optimizer import Optimizer
from sublevel.run.restarts import Run
from sublevel.run.state import RunState
from sublevel.run.termination import KINDS, NAMES, PATIENCE
from sublevel.store.environment import LONGEST
from sublevel.store.errors import StoreError
from sublevel.store.file import NUMBERS, File
from sublevel.store.recorder import memory_of, without_memory
from sublevel.store.rng_state import state_like
from sublevel.store.samples import SampleForm, StoredPoints, Stretch, row_parts
from sublevel.store.serialize import FormatError, unpacked
from sublevel.store.settings import (
    LARGEST_GENERATION,
    Problem,
    Settings,
    check_size,
    checked_settings,
    unpacked_problem,
)

LARGEST_PART = 2**23
"""Bytes of points that are given at a time, at least one point."""
MOST_KEPT = 2**26
"""Bytes of points that are read with the rest of a file; of more, they stay there until they are asked for."""


class StoredGenerations(NamedTuple):
    """What is stored of all generations (g,)."""

    generations: Generations
    medians: Array
    times: Array
    sizes: NDArray[np.int64]  # evaluations


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of a file that everything else is made from."""

    file: File
    settings: Settings
    problem: Problem
    facts: dict[str, Any]  # of the checkpoint
    layout: str
    data: bytes

    @classmethod
    def of(cls, file: File) -> Reading:
        """The settings, the problem and the checkpoint; an error if they do not fit each other."""
        settings, layout, data = file.part("configuration")
        facts, form, arrays = file.part("checkpoint")
        try:
            problem = unpacked_problem(layout, data)
            reading = cls(file, checked_settings(settings), problem, facts, form, arrays)
            check_size(reading.settings, problem, len(reading.data))
        except FormatError as misfit:
            raise unfit(file.path, misfit) from None
        return reading

    @property
    def path(self) -> Path:
        """Of the file."""
        return self.file.path

    def run_state(self, optimizer: Optimizer, memory: bool = True) -> RunState:
        """The stored state of an optimizer with this configuration, decoded by the type and the shapes of its first
        state.
        """
        template = optimizer.run_state
        theta = template.search.theta
        best = replace(template.best, theta=theta if self.facts.get("has_theta_of_best") is True else None)
        try:
            state: RunState = unpacked(without_memory(replace(template, best=best)), self.layout, self.data)
            search = State(state.search.theta, ())
            if memory:
                search = State(state.search.theta, *unpacked(memory_of(template), *self.file.part("memory")[1:]))
            check_run_state(state, optimizer.best_x.size)
        except FormatError as misfit:
            raise unfit(self.path, misfit) from None
        return replace(state, search=search)

    def finished_runs(self) -> tuple[list[tuple[Run, int]], list[dict[str, float]]]:
        """The runs that ended with the evaluations each took, and why they ended."""
        runs, endings = list[tuple[Run, int]](), list[dict[str, float]]()
        for number, nfev, reasons, asked in self.file.rows("restarts", "ORDER BY number"):
            if number != len(runs) or nfev < 0:
                raise FormatError("its restarts are not as they should be")
            runs.append((_run(_loaded(asked)), nfev))
            endings.append(_reasons(_loaded(reasons)))
            if len(endings[-1]) != 1:
                raise FormatError("its restarts are not as they should be")
        return runs, endings

    def rng_state(self, optimizer: Optimizer) -> Any:
        """The state of the generator."""
        return state_like(optimizer.rng.bit_generator.state, self.facts.get("rng"))

    def snapshot_pace(self) -> tuple[int, int]:
        """Evaluations after which the next snapshot is taken, and between two."""
        pace = self.facts.get("pace")
        if (
            not isinstance(pace, list)
            or len(cast(list[Any], pace)) != 2
            or not all(type(n) is int and n >= 0 for n in cast(list[Any], pace))
        ):
            raise FormatError("its checkpoint contradicts itself")
        return cast(tuple[int, int], tuple(cast(list[Any], pace)))

    def generations(self, until: int | None = None) -> StoredGenerations:
        """The generations, all of them or the first ones."""
        count, last = self.file.count_generations()
        until = last if until is None else until
        rows = list(self.file.rows("generations", "WHERE iteration <= ? ORDER BY iteration", (until,)))
        lengths = [len(row[3]) // (8 * NUMBERS) for row in rows]
        firsts = list(accumulate(lengths[:-1], initial=1))[: len(rows)]
        is_complete = count == last and until <= last and [row[0] for row in rows] == firsts
        if not is_complete or any(not row[3] or len(row[3]) % (8 * NUMBERS) for row in rows):
            raise StoreError(f"{self.path} is damaged: generations are missing or invalid.")
        table = np.frombuffer(b"".join(row[3] for row in rows)).reshape(-1, NUMBERS)[:until]
        runs, sizes = (np.repeat([row[k] for row in rows], lengths).astype(np.int64)[:until] for k in (1, 2))
        popsizes = sizes.copy()
        popsizes[:1] -= self.settings.evaluate_x0  # the start is in the first generation
        return StoredGenerations(Generations(table[:, :4].copy(), runs, popsizes), table[:, 4], table[:, 5], sizes)

    def last_generation(self) -> tuple[tuple[Array, int], int]:
        """The numbers and the run of the last generation, all NaN and 0 if there is none; and the number of values
        since.
        """
        count, last = self.file.count_generations()
        loose = self.file.evaluations_after(last)
        for _, run, _, numbers in self.file.rows("generations", "ORDER BY iteration DESC LIMIT 1"):
            if len(numbers) % (8 * NUMBERS) == 0 < len(numbers) and count == last:
                return (np.frombuffer(numbers)[-NUMBERS:], run), loose
            raise StoreError(f"{self.path} is damaged: generations are missing.")
        return (np.array([0.0, *[np.nan] * (NUMBERS - 1)]), 0), loose

    def snapshots(self, theta: Family) -> list[Snapshot]:
        """The search distribution now and then, like θ."""
        try:
            return [
                Snapshot(nfev, run, _check_theta(unpacked(theta, layout, data)))
                for nfev, run, layout, data in self.file.rows("snapshots", "ORDER BY nfev")
            ]
        except FormatError as misfit:
            raise unfit(self.path, misfit) from None

    def history(self, optimizer: Optimizer, stored: StoredGenerations, endings: list[Any]) -> History:
        """The history of these generations."""
        snapshots = self.snapshots(optimizer.theta)
        if not snapshots or len(snapshots) > 10_000:
            raise StoreError(f"{self.path} is damaged: its snapshots are missing.")
        try:
            pace = self.snapshot_pace()
        except FormatError as misfit:
            raise unfit(self.path, misfit) from None
        history = History.restored(optimizer.start, snapshots, pace, stored.generations, endings)
        history.theta_of_best, history.adapts_rates = (
            optimizer.theta_of_best,
            AdaptiveRates.__name__ in self.settings.parts,
        )
        return history


def unfit(path: Path, misfit: FormatError) -> StoreError:
    """A file whose parts do not have the form they must have."""
    return StoreError(f"{path} is damaged or forged: {misfit}.")


def restored(reading: Reading, optimizer: Optimizer, whole: bool = True) -> History:
    """Bring an optimizer that begins to where the stored one was, and its history; without what only driving needs
    unless `whole`.
    """
    state = reading.run_state(optimizer, memory=whole)
    try:
        runs, endings = reading.finished_runs()
        if len(runs) != state.restarts:
            raise FormatError("its checkpoint contradicts itself")
        rng_state = reading.rng_state(optimizer)
    except FormatError as misfit:
        raise unfit(reading.path, misfit) from None
    stored = reading.generations(state.nit if whole else None)
    sizes, mine = stored.sizes, stored.generations.runs == state.restarts
    if state.nit > len(sizes) or int(np.sum(sizes[: state.nit])) != state.nfev:
        raise StoreError(
            f"{reading.path} is damaged: its generations have not as many evaluations as its checkpoint says."
        )
    optimizer.resume_from(state, runs, endings, stored.generations.table[mine, 2], stored.medians[mine])
    optimizer.rng.bit_generator.state = rng_state
    return reading.history(optimizer, stored, endings)


def check_run_state(state: RunState, d: int) -> None:
    """Raise an error for numbers that no run of d variables can have."""
    standing, size = state.standing, state.run.popsize
    counts = (
        state.began,
        state.nfev,
        state.nit,
        state.restarts,
        state.best.run,
        standing.generations,
        standing.standing_for,
    )
    if min(counts) < 0 or max(counts) >= 2**53 or state.began > state.nfev or standing.generations > state.nit:
        raise FormatError("its checkpoint has counts out of range")
    if size < 2 or 8 * size * d > LARGEST_GENERATION:
        raise FormatError(f"its run has an impossible sample size of {size}")
    has_ended = state.best.theta is not None
    if state.best.run > state.restarts or has_ended != (state.best.run < state.restarts):
        raise FormatError("its checkpoint contradicts itself")
    if standing.standstill != -1 and NAMES.get(standing.standstill) not in PATIENCE:
        raise FormatError("its checkpoint has parts of another kind")
    for theta in (state.search.theta, state.best.theta):
        if theta is not None:
            _check_theta(theta)


def _loaded(text: str) -> Any:
    """JSON text as what it says."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError("its restarts cannot be read") from None


def _reasons(given: Any) -> dict[str, float]:
    if not isinstance(given, dict) or not cast(dict[str, Any], given).keys() <= KINDS.keys():
        raise FormatError("its reasons to stop are not ours")
    return {name: _real(number) for name, number in cast(dict[str, Any], given).items()}


def _real(number: Any) -> float:
    if type(number) not in (int, float):
        raise FormatError("its checkpoint has parts of another kind")
    return float(number)


def _run(asked: Any) -> Run:
    """A run from its numbers."""
    if not isinstance(asked, list) or len(cast(list[Any], asked)) != 4:
        raise FormatError("its restarts are not as they should be")
    popsize, factor, budget, spares_leaders = cast(list[Any], asked)
    if type(popsize) is not int or not 2 <= popsize < 2**53 or type(spares_leaders) is not bool:
        raise FormatError("its restarts are not as they should be")
    return Run(popsize, _real(factor), _real(budget), spares_leaders)


def _check_theta(theta: Any) -> Any:
    """A distribution, if its numbers can be that."""
    with np.errstate(all="ignore"):
        deviations = theta.deviations
        if not (np.all(np.isfinite(theta.mean)) and np.all(np.isfinite(deviations)) and np.all(deviations > 0)):
            raise FormatError("its search distribution is none")
    return theta


def ending(file: File) -> dict[str, float]:
    """Why the last driver ended; empty if it did not, or not by itself."""
    try:
        return _reasons(file.part("ending")[0].get("reasons"))
    except FormatError as misfit:
        raise unfit(file.path, misfit) from None


def fingerprint(path: Path) -> str:
    """SHA-256 of the outcome of a run: state, generator, generations, snapshots and evaluations. Times, settings and
    the division into rows do not count.
    """
    digest, file = sha256(), File(path)
    try:
        for name in ("checkpoint", "memory"):
            facts, layout, data = file.part(name)
            digest.update(repr(sorted(facts.items())).encode() + layout.encode() + data)
        for iteration, run, popsize, numbers in file.rows("generations", "ORDER BY iteration"):
            for k, begin in enumerate(range(0, len(numbers), 8 * NUMBERS)):
                digest.update(repr((iteration + k, run, popsize)).encode() + numbers[begin : begin + 8 * (NUMBERS - 1)])
        for table, order in (("restarts", "number"), ("snapshots", "nfev"), ("samples", "iteration")):
            for row in file.rows(table, f"ORDER BY {order}"):
                digest.update(
                    repr([sha256(column).digest() if type(column) is bytes else column for column in row]).encode()
                )
        keys, points, values = sha256(), sha256(), sha256()
        for part in row_parts(file):
            table = np.empty((len(part.values) // 8, 4), dtype=np.int64)
            table[:] = part.run, part.iteration, bool(part.points), part.place
            table[:, 3] += np.arange(len(table))
            keys.update(table.tobytes())
            points.update(part.points)
            values.update(part.values)
    finally:
        file.close()
    for part in (keys, points, values):
        digest.update(part.digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Evaluations:
    """All evaluations that were stored when a file was read, in the order of the search. Of many, the points stay in
    the file.
    """

    path: Path
    form: SampleForm
    run: NDArray[np.int64]  # (n,), 0 is the first, then the restarts
    iteration: NDArray[np.int64]  # (n,)
    place: NDArray[np.int64]  # (n,), index in its generation
    values: Array  # (n,)
    kept: Array | None  # (n, d), None if they are read from the file when they are asked for

    @property
    def dimension(self) -> int:
        """d."""
        return self.form.dimension

    @cached_property
    def points(self) -> Array:
        """All points (n, d)."""
        if self.kept is not None:
            return self.kept
        points = np.empty((self.values.size, self.dimension))
        for rows, part in self.parts():
            points[rows] = part
        return points

    def point(self, row: int) -> Array:
        """The point (d,) of one of them."""
        if self.kept is not None:
            return self.kept[row].copy()
        rows, part = next((rows, part) for rows, part in self.parts(row) if rows.start <= row < rows.stop)
        return part[row - rows.start].copy()

    def parts(self, since: int = 0) -> Iterator[tuple[slice, Array]]:
        """Rows and their points (m, d), a few megabytes at a time, from the generation of the row `since` on."""
        if self.kept is not None:
            yield slice(0, self.values.size), self.kept
            return
        file, begin = File(self.path), first_row(self.iteration, int(self.iteration[since]))
        try:
            span = int(self.iteration[begin]), int(self.iteration[-1])
            for stretch in StoredPoints(file, self.form).stretches(*span):
                for part in self._known_parts(stretch, begin):
                    yield slice(begin, begin + len(part)), part
                    begin += len(part)
        finally:
            file.close()
        if begin != self.values.size:
            raise StoreError(f"{self.path} has changed since it was read: evaluations are missing.")

    def _known_parts(self, part: Stretch, begin: int) -> Iterator[Array]:
        """Those of the points (m, d) that were there when the file was read, the next ones from `begin` on, piece by
        piece.
        """
        known = self.place[begin : first_row(self.iteration, part.iteration + 1)] - part.place
        known = known[(known >= 0) & (known < len(part.values))]
        most = max(LARGEST_PART // (8 * self.dimension), 1)
        for first in range(0, len(known), most):
            yield part.points[known[first : first + most]]


def first_row(iterations: NDArray[np.int64], iteration: int) -> int:
    """The first row of an iteration or of a later one, among sorted iterations (n,)."""
    return int(cast(Any, iterations.searchsorted(iteration)))


def stretches(reading: Reading, sizes: NDArray[np.int_], form: SampleForm) -> Iterator[Stretch]:
    """All evaluations in the order of the search; those of finished generations, of these sizes, are complete."""
    last, end = 0, 0
    for part in StoredPoints(reading.file, form).stretches():
        if part.iteration != last:
            _check_complete(reading.path, last, end, sizes, part.iteration)
            last, end = part.iteration, 0
        if part.place < end:
            raise StoreError(f"{reading.path} is damaged: generation {last} has evaluations twice.")
        end = (end if last <= len(sizes) else part.place) + len(part.values)
        yield part
    _check_complete(reading.path, last, end, sizes, max(len(sizes), last) + 1)


def _check_complete(path: Path, iteration: int, count: int, sizes: NDArray[np.int_], following: int) -> None:
    """A told generation has as many evaluations as it must have, and no other one is missing before the following."""
    is_short = 0 < iteration <= len(sizes) and count != sizes[iteration - 1]
    if is_short or (following != iteration + 1 and iteration < len(sizes)):
        raise StoreError(
            f"{path} is damaged: evaluations of generation {iteration if is_short else iteration + 1} are missing."
        )


def evaluations(reading: Reading, form: SampleForm) -> tuple[Evaluations, Failures]:
    """Every evaluation, those of a generation that is not finished included, and how some of them failed."""
    failures, notes = Failures(), failure_notes(reading)
    keys, values, points, size = list[tuple[int, int, int]](), [np.empty(0)], list[Array](), 0
    for part in stretches(reading, reading.generations().sizes, form):
        add_failures(failures, part, notes.get(part.iteration, ()))
        keys.append((part.run, part.iteration, part.place))
        values.append(part.values)
        size += form.dimension * part.values.nbytes
        if size <= MOST_KEPT:
            points.append(part.points)
        else:
            points.clear()
    kept = np.concatenate([np.empty((0, form.dimension)), *points]) if size <= MOST_KEPT else None
    return _joined(reading.path.resolve(), form, keys, values, kept), failures


def _joined(
    path: Path, form: SampleForm, keys: list[tuple[int, int, int]], values: list[Array], points: Array | None
) -> Evaluations:
    """Evaluations from the keys (run, iteration, place) and values of stretches, the first of the values empty, and
    points (n, d).
    """
    sizes = np.array([len(part) for part in values[1:]], dtype=np.int64)
    table = np.array(keys, dtype=np.int64).reshape(-1, 3)
    begins = np.cumsum(sizes) - sizes
    return Evaluations(
        path=path,
        form=form,
        run=np.repeat(table[:, 0], sizes),
        iteration=np.repeat(table[:, 1], sizes),
        place=np.arange(np.sum(sizes)) + np.repeat(table[:, 2] - begins, sizes),
        values=np.concatenate(values),
        kept=points,
    )


class Note(NamedTuple):
    """How those evaluations failed whose value is NaN: of a generation, from some place on."""

    place: int
    size: int
    kind: str
    what: str


def failure_notes(reading: Reading) -> dict[int, list[Note]]:
    """Notes by generation. What the objective returned as NaN has none."""
    notes: dict[int, list[Note]] = {}
    for iteration, *note in reading.file.rows("failures", "ORDER BY iteration, place"):
        found = Note(*note)
        is_text = all(text == printable(text) for text in (found.kind, found.what))
        if not found.size > 0 <= found.place or not is_text:
            raise StoreError(f"{reading.path} is damaged: its failures are not as they should be.")
        notes.setdefault(iteration, []).append(found)
    return notes


def add_failures(failures: Failures, part: Stretch, notes: Sequence[Note]) -> None:
    """Take note of those values of a stretch that are NaN."""
    missing = np.flatnonzero(np.isnan(part.values))
    if missing.size == 0:
        return
    which = np.full(len(part.values), len(notes))
    for number, note in enumerate(notes):
        begin = note.place - part.place
        which[max(begin, 0) : max(begin + note.size, 0)] = number
    kinds: list[Failure] = [*(Failure(note.kind, note.what) for note in notes), RETURNED_NAN]
    for number, count in zip(*np.unique(which[missing], return_counts=True), strict=True):
        failures.counts[kinds[int(number)].kind] += int(count)
    points = part.points
    failures.last.extend(kinds[which[place]]._replace(x=points[place].copy()) for place in missing[-KEPT:])


def stored_failures(reading: Reading, sizes: NDArray[np.int_], form: SampleForm) -> Failures:
    """How evaluations failed, from a file of which every row is looked at."""
    failures, notes = Failures(), failure_notes(reading)
    for part in stretches(reading, sizes, form):
        add_failures(failures, part, notes.get(part.iteration, ()))
    return failures


def driver(file: File) -> dict[str, str]:
    """On what the run was driven last, as text by name."""
    facts = file.part("driver")[0]
    if (
        not all(isinstance(text, str) and text.isprintable() and len(text) <= LONGEST for text in facts.values())
        or len(facts) > 100
    ):
        raise StoreError(f"{file.path} is damaged: what it says of its driver is not as it should be.")
    return facts
