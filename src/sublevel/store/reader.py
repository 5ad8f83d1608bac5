"""Reading a run from its file."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.method import State
from sublevel.engine.transforms import AdaptiveRates
from sublevel.evaluation.evaluators import RETURNED_NAN
from sublevel.evaluation.failures import KEPT, Failure, Failures, printable
from sublevel.run.constraints import Constraints
from sublevel.run.history import Generations, History, Snapshot
from sublevel.run.noisy_answer import Entry, Ledger
from sublevel.run.optimizer import Optimizer
from sublevel.run.restarts import Run
from sublevel.run.search_space import SearchSpace
from sublevel.run.state import Best, RunState
from sublevel.run.sweep import Changes, Sweep
from sublevel.run.termination import KINDS, NAMES, PATIENCE
from sublevel.store.constraint_facts import stored_constraints
from sublevel.store.environment import LONGEST
from sublevel.store.errors import FormatError, StoreError, format_errors
from sublevel.store.file import NUMBERS, File
from sublevel.store.recorder import memory_of, without_memory
from sublevel.store.rng_state import state_like
from sublevel.store.samples import SampleForm, StoredPoints, Stretch
from sublevel.store.serialize import as_dict, as_list, parse_json, unpack
from sublevel.store.settings import LARGEST_GENERATION, Problem, Settings, as_settings, check_size, unpack_problem

if TYPE_CHECKING:
    from sublevel.surrogate.control import Surrogate

LARGEST_PART = 2**23
"""Most bytes of points that are read at a time, at least one point."""
MOST_KEPT = 2**26
"""Most bytes of points that are kept in memory; more are read from the file when they are used."""
MOST_SNAPSHOTS = 10_000
MOST_ARCHIVED = 1_000_000
"""Most evaluations of an archive."""
INVALID_RESTARTS = "its restarts are invalid"
INVALID_CHECKPOINT = "its checkpoint is inconsistent"
INVALID_REEVALUATIONS = "its re-evaluations are invalid"


class StoredGenerations(NamedTuple):
    """The stored numbers of all generations (g,)."""

    generations: Generations
    medians: Array
    times: Array
    sizes: NDArray[np.int64]  # evaluations


@dataclass(frozen=True, slots=True)
class Reading:
    """An open file with its settings, problem and checkpoint. Methods raise FormatError if the file is inconsistent."""

    file: File
    settings: Settings
    problem: Problem
    facts: Mapping[str, object]  # of the checkpoint
    layout: str
    data: bytes

    @classmethod
    def of(cls, file: File) -> Reading:
        """Read and validate the settings, the problem and the checkpoint."""
        settings, layout, data = file.part("configuration")
        reading = cls(file, as_settings(settings), unpack_problem(layout, data), *file.part("checkpoint"))
        check_size(reading.settings, reading.problem, len(reading.data))
        return reading

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.file.path

    def run_state(self, optimizer: Optimizer, memory: bool = True) -> RunState:
        """The stored state, decoded by the type and the shapes of the first state of an optimizer."""
        template = optimizer.run_state
        theta = template.search.theta
        best = replace(template.best, theta=theta if self.facts.get("has_theta_of_best") is True else None)
        if self.facts.get("has_constraints_of_best") is True and optimizer.constraints is not None:
            best = replace(best, constraints=np.empty(optimizer.constraints.size))
        surrogate = surrogate_template(template.surrogate, self.facts.get("archive"))
        sweep = Sweep() if self.facts.get("has_sweep") is True else None
        if memory and (sweep is None) != (template.sweep is None):
            raise FormatError(INVALID_CHECKPOINT)
        whole = replace(template, best=best, leader=self._leader(optimizer), surrogate=surrogate, sweep=sweep)
        state = unpack(without_memory(whole), self.layout, self.data)
        check_run_state(state, optimizer.best_x.size, theta)
        check_sweep(state.sweep, state.best, optimizer.changes)
        space, known = optimizer.start.space, [best for best in (state.best, state.leader) if best is not None]
        if space is not None and not all(space.has_values(best.x) for best in known):
            raise FormatError(INVALID_CHECKPOINT)
        if not memory:
            return state
        if state.run.popsize != template.run.popsize:
            first = optimizer.method.init(theta, state.run.popsize, optimizer.inequalities)
            template = replace(template, search=first)
        parts = unpack(memory_of(template), *self.file.part("memory")[1:])
        return replace(state, search=State(state.search.theta, *parts))

    def _leader(self, optimizer: Optimizer) -> Best | None:
        """A template of the leader, if there is one."""
        if self.facts.get("has_leader") is not True or not optimizer.noise:
            return None
        first, constraints = optimizer.run_state, None
        if self.facts.get("has_constraints_of_leader") is True and optimizer.constraints is not None:
            constraints = np.empty(optimizer.constraints.size)
        return replace(first.best, theta=first.search.theta, constraints=constraints)

    def ledger(self, space: SearchSpace | None) -> Ledger:
        """The re-evaluations of a noisy objective, at points of the space."""
        if not self.settings.noise:
            return Ledger()
        facts, layout, data = self.file.part("reevaluations")
        m, n = _count(facts.get("points")), _count(facts.get("values"))
        d, constraints = self.problem.x0.size, self.settings.constraints
        width = 0 if not n else 1 if constraints is None else 1 + stored_constraints(constraints).size
        if 8 * (m * d + n * (3 + width)) != len(data):
            raise FormatError(INVALID_REEVALUATIONS)
        template = np.empty((m, d)), np.empty((n, 3), dtype=np.int64), np.empty((n, width))
        points, keys, rows = unpack(template, layout, data)
        if n and not ((keys[:, :2] >= 0).all() and (keys[:, 1] < m).all()):
            raise FormatError(INVALID_REEVALUATIONS)
        if space is not None and not space.has_values(points):
            raise FormatError(INVALID_REEVALUATIONS)
        failures = _failures(facts.get("failures"))
        places = enumerate(keys.tolist())
        entries = [Entry(nit, point, place, rows[i], failures.get(i)) for i, (nit, point, place) in places]
        return Ledger(list(points), entries)

    def multipliers(self, constraints: Constraints) -> list[Array] | None:
        """Multipliers of each constraint at the checkpoint; None if the method has none."""
        given = self.facts.get("multipliers")
        if given is None:
            return None
        numbers = [_number(number) for number in as_list(given, constraints.count, INVALID_CHECKPOINT)]
        return constraints.multipliers(np.array(numbers))

    def finished_runs(self) -> tuple[list[tuple[Run, int]], list[dict[str, float]]]:
        """The finished runs with their numbers of evaluations, and the reason of each to stop."""
        runs, endings = list[tuple[Run, int]](), list[dict[str, float]]()
        for number, nfev, reasons, asked in self.file.rows("restarts", "ORDER BY number"):
            runs.append((_run(parse_json(asked, INVALID_RESTARTS)), nfev))
            endings.append(_reasons(parse_json(reasons, INVALID_RESTARTS)))
            if number != len(runs) - 1 or nfev < 0 or len(endings[-1]) != 1:
                raise FormatError(INVALID_RESTARTS)
        return runs, endings

    def generations(self, until: int | None = None) -> StoredGenerations:
        """All generations, or those up to number `until`."""
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
        if np.any(np.diff(runs, prepend=0) < 0) or np.any(sizes < 1):
            raise StoreError(f"{self.path} is damaged: the runs or sizes of its generations are invalid.")
        popsizes = sizes.copy()
        popsizes[:1] -= self.settings.evaluate_x0  # the start is in the first generation
        has_more = self.settings.constraints is not None or self.settings.surrogate > 0
        columns = table[:, [0, 1, 2, 3, 5] if has_more else [0, 1, 2, 3]]
        further = "agreement" if self.settings.surrogate else "maxcv"
        return StoredGenerations(Generations(columns, runs, popsizes, further), table[:, 4], table[:, 6], sizes)

    def best(self, optimizer: Optimizer, state: RunState) -> Best:
        """The best point of the file: that of the checkpoint, or of an evaluation since, by the rule of the search.
        Under noise, the answer of the checkpoint with the level of the last generation.
        """
        best = state.best
        if optimizer.noise:
            (numbers, _), _ = self.last_generation()
            return best if np.isnan(numbers[1]) else replace(best, fun=float(numbers[1]))
        for part in StoredPoints(self.file, SampleForm.of(optimizer)).stretches(state.nit + 1):
            if part.iteration > state.nit:  # a row may begin with earlier generations
                best = optimizer.better(best, part.points, part.values, part.constraints, state.restarts)
        return best

    def last_generation(self) -> tuple[tuple[Array, int], int]:
        """The numbers (0, NaN, … if there are none) and the run of the last generation; the number of later values."""
        count, last = self.file.count_generations()
        loose = self.file.evaluations_after(last)
        for _, run, _, numbers in self.file.rows("generations", "ORDER BY iteration DESC LIMIT 1"):
            if len(numbers) % (8 * NUMBERS) == 0 < len(numbers) and count == last:
                return (np.frombuffer(numbers)[-NUMBERS:], run), loose
            raise StoreError(f"{self.path} is damaged: generations are missing.")
        return (np.array([0.0, *[np.nan] * (NUMBERS - 1)]), 0), loose

    def active_until(self) -> float:
        """The time of the run's clock when it ended or, if it was killed, at its last generation."""
        (numbers, _), _ = self.last_generation()
        begun_or_ended = _number(self.file.part("ending")[0].get("time"))
        return float(np.fmax(np.fmax(numbers[-1], self.settings.began), begun_or_ended))

    def history(
        self, optimizer: Optimizer, stored: StoredGenerations, endings: Sequence[Mapping[str, float]]
    ) -> History:
        """The history of these generations."""
        snapshots = list[Snapshot]()
        for nfev, run, layout, data in self.file.rows("snapshots", "ORDER BY nfev"):
            theta = unpack(optimizer.theta, layout, data)
            _check_theta(theta, optimizer.theta)
            snapshots.append(Snapshot(nfev, run, theta))
        if not 0 < len(snapshots) <= MOST_SNAPSHOTS:
            raise StoreError(f"{self.path} is damaged: its snapshots are missing.")
        upcoming, stride = map(_count, as_list(self.facts.get("pace"), 2, INVALID_CHECKPOINT))
        seen = stored.generations
        if optimizer.partial is not None:  # the first generation of a run may have fewer evaluations than points
            finished = [optimizer.finished[number][0].popsize for number in range(len(optimizer.finished))]
            sizes = np.array([*finished, optimizer.popsize])
            seen = seen._replace(popsizes=sizes[np.minimum(seen.runs, len(sizes) - 1)])
        pace = upcoming, stride
        history = History.restored(optimizer.start, snapshots, pace, seen, optimizer.first_popsize, endings)
        history.theta_of_best = optimizer.theta_of_best
        history.run_of_answer = optimizer.best_run if optimizer.noise else None
        history.adapts_rates = AdaptiveRates.__name__ in self.settings.parts
        return history


@contextmanager
def open_run(path: Path) -> Generator[Reading]:
    """Open a stored run for reading. A FormatError becomes a StoreError."""
    with closing(File(path)) as file, format_errors(file.path):
        yield Reading.of(file)


def restore_state(reading: Reading, optimizer: Optimizer, whole: bool = True) -> History:
    """Set an optimizer to the stored state, without the memories of its method unless `whole`; return the history."""
    state = reading.run_state(optimizer, memory=whole)
    runs, endings = reading.finished_runs()
    if len(runs) != state.restarts:
        raise FormatError(INVALID_CHECKPOINT)
    rng_state = state_like(optimizer.rng.bit_generator.state, reading.facts.get("rng"))
    stored = reading.generations(state.nit if whole else None)
    sizes, mine = stored.sizes, stored.generations.runs == state.restarts
    if state.nit > len(sizes) or int(np.sum(sizes[: state.nit])) != state.nfev:
        raise StoreError(f"{reading.path} is damaged: its generations and its checkpoint contradict each other.")
    optimizer.resume_from(state, runs, endings, stored.generations.table[mine, 2], stored.medians[mine])
    optimizer.rng.bit_generator.state = rng_state
    return reading.history(optimizer, stored, endings)


def surrogate_template(first: Surrogate | None, size: object) -> Surrogate | None:
    """The form of a surrogate whose archive has this number of evaluations, given the first one of a run."""
    if first is None:
        return None
    count, d = _count(size), first.theta.dimension
    if count > MOST_ARCHIVED:
        raise FormatError(INVALID_CHECKPOINT)
    return replace(first, archive=type(first.archive)(np.empty((count, d)), np.empty(count)))


def check_run_state(state: RunState, d: int, first: Family) -> None:
    """Raise FormatError if a run of d variables that began with the distribution `first` cannot have these numbers."""
    best, standing, size = state.best, state.standing, state.run.popsize
    counts = state.began, state.nfev, state.nit, state.restarts, best.run, standing.generations, standing.standing_for
    counts += (standing.settled_for,)
    if min(counts) < 0 or max(counts) >= 2**53 or state.began > state.nfev or standing.generations > state.nit:
        raise FormatError("its checkpoint has counts out of range")
    if size < 2 or 8 * size * d > LARGEST_GENERATION:
        raise FormatError(f"its run has an impossible sample size of {size}")
    if best.run > state.restarts or (best.theta is not None) != (best.run < state.restarts):
        raise FormatError(INVALID_CHECKPOINT)
    if standing.standstill != -1 and NAMES.get(standing.standstill) not in PATIENCE:
        raise FormatError(INVALID_CHECKPOINT)
    for theta in (state.search.theta, best.theta, None if state.leader is None else state.leader.theta):
        if theta is not None:
            _check_theta(theta, first)


def check_sweep(sweep: Sweep | None, best: Best, changes: Changes | None) -> None:
    """Raise FormatError if a sweep over these changes of single variables of the best point, or those that were tried
    in vain, cannot have these numbers.
    """
    if sweep is None or changes is None:  # without the strategy of a run, its changes are not known
        return
    if not 0 <= best.tried <= changes.total or best.returns < 0:
        raise FormatError(INVALID_CHECKPOINT)
    if not (0 <= sweep.position < max(sweep.size, 1) and 0 <= sweep.size <= changes.total):
        raise FormatError(INVALID_CHECKPOINT)


def _reasons(given: object) -> dict[str, float]:
    reasons = as_dict(given, "its reasons for stopping are invalid")
    if not reasons.keys() <= KINDS.keys():
        raise FormatError("its reasons for stopping are unknown")
    return {name: _number(number) for name, number in reasons.items()}


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise FormatError(INVALID_CHECKPOINT)
    return float(given)


def _count(given: object, least: int = 0) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 2**53:
        raise FormatError(INVALID_CHECKPOINT)
    return given


def _failures(given: object) -> dict[int, tuple[str, str]]:
    """Kinds and details of failed re-evaluations by number."""
    found: dict[int, tuple[str, str]] = {}
    for entry in as_list(given, None, INVALID_REEVALUATIONS):
        number, kind, detail = as_list(entry, 3, INVALID_REEVALUATIONS)
        if (
            not isinstance(kind, str)
            or not isinstance(detail, str)
            or (kind, detail) != tuple(map(printable, (kind, detail)))
        ):
            raise FormatError(INVALID_REEVALUATIONS)
        found[_count(number)] = kind, detail
    return found


def add_failed_reevaluations(failures: Failures, ledger: Ledger) -> None:
    """Add the re-evaluations that failed."""
    for entry in ledger.entries:
        if np.isnan(entry.row[0]):
            failure = RETURNED_NAN if entry.failure is None else Failure(*entry.failure)
            failures.add(failure, ledger.points[entry.point])


def _run(asked: object) -> Run:
    """A run from its stored numbers."""
    popsize, factor, budget, spares_leaders, tries_changes = as_list(asked, 5, INVALID_RESTARTS)
    if not (isinstance(spares_leaders, bool) and isinstance(tries_changes, bool)):
        raise FormatError(INVALID_RESTARTS)
    return Run(_count(popsize, 2), _number(factor), _number(budget), spares_leaders, tries_changes=tries_changes)


def _check_theta(theta: Family, first: Family) -> None:
    """Raise FormatError unless the mean is finite, the deviations are finite and positive, and discrete variables have
    probabilities, of the same values as in the distribution `first`.
    """
    with np.errstate(all="ignore"):
        deviations = theta.deviations
        if not (np.all(np.isfinite(theta.mean)) and np.all(np.isfinite(deviations)) and np.all(deviations > 0)):
            raise FormatError("its search distribution is invalid")
        if not _has_probabilities(theta, first):
            raise FormatError("its probabilities are invalid")


def _has_probabilities(theta: Family, first: Family) -> bool:
    """Whether the discrete variables of a distribution can be those of one that began with another."""
    found, expected = theta.discrete, first.discrete
    if found is None or expected is None:
        return found is expected
    if found.variables != expected.variables or found.margin != expected.margin:
        return False
    if theta.choices is None or first.choices is None:
        return True
    probabilities, total = theta.choices.probabilities, np.sum(theta.choices.probabilities, axis=-1)
    is_same = np.array_equal(probabilities > 0, first.choices.probabilities > 0)
    return is_same and bool(np.all(probabilities >= 0) and np.all(np.abs(total - 1) < 1e-6))


def ending(file: File) -> dict[str, float]:
    """The reason why the last process ended the run; empty if it is running or was killed."""
    return _reasons(file.part("ending")[0].get("reasons"))


@dataclass(frozen=True)
class Evaluations:
    """All evaluations in the order of the search. If there are many, their points stay in the file."""

    path: Path
    form: SampleForm
    run: NDArray[np.int64]  # (n,), 0 is the first, then the restarts
    iteration: NDArray[np.int64]  # (n,)
    place: NDArray[np.int64]  # (n,), index in its generation
    values: Array  # (n,)
    kept: Array | None  # (n, d), None if they stay in the file
    constraints: Array  # (n, k), constraint values

    @property
    def dimension(self) -> int:
        """The number of variables."""
        return self.form.dimension

    @property
    def constraint_names(self) -> list[str]:
        """Names of the constraint values (k,) in tables."""
        return [f"g{j}" for j in range(self.constraints.shape[1])]

    @cached_property
    def points(self) -> Array:
        """All points (n, d)."""
        if self.kept is not None:
            return self.kept
        points = np.empty((self.values.size, self.dimension))
        for rows, part in self.parts():
            points[rows] = part
        return points

    def parts(self) -> Generator[tuple[slice, Array], None, None]:
        """Rows and their points (m, d), at most `LARGEST_PART` at a time."""
        if self.kept is not None:
            yield slice(0, self.values.size), self.kept
            return
        begin = 0
        with closing(File(self.path)) as file:
            for stretch in StoredPoints(file, self.form).stretches():
                for part in self._known_parts(stretch, begin):
                    yield slice(begin, begin + len(part)), part
                    begin += len(part)
        if begin != self.values.size:
            raise StoreError(f"{self.path} has changed since it was read: evaluations are missing.")

    def _known_parts(self, part: Stretch, begin: int) -> Iterator[Array]:
        """The points of a stretch that were in the file when it was read, the first of which is in row `begin`."""
        known = self.place[begin : first_row(self.iteration, part.iteration + 1)] - part.place
        known = known[(known >= 0) & (known < len(part.values))]
        most, points = max(LARGEST_PART // (8 * self.dimension), 1), part.points
        is_contiguous = known.size > 0 and known[-1] - known[0] == known.size - 1  # they increase
        for first in range(0, len(known), most):
            places = known[first : first + most]
            yield points[places[0] : places[-1] + 1] if is_contiguous else points[places]


def first_row(iterations: NDArray[np.int64], iteration: int) -> int:
    """The first row of an iteration or of a later one, among sorted iterations (n,)."""
    return int(np.searchsorted(iterations, iteration))


def stretches(reading: Reading, sizes: NDArray[np.int_], form: SampleForm) -> Iterator[Stretch]:
    """All evaluations in the order of the search. StoreError if a finished generation does not have its size."""
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
    """Raise StoreError if evaluations of a finished generation, or all before the following one, are missing."""
    is_short = 0 < iteration <= len(sizes) and count != sizes[iteration - 1]
    if is_short or (following != iteration + 1 and iteration < len(sizes)):
        raise StoreError(
            f"{path} is damaged: evaluations of generation {iteration if is_short else iteration + 1} are missing."
        )


def evaluations(reading: Reading, form: SampleForm) -> tuple[Evaluations, Failures]:
    """All evaluations, including those of an unfinished generation, and the failures among them."""
    failures, notes = Failures(), failure_notes(reading)
    keys, values, points = list[tuple[int, int, int]](), [np.empty(0)], list[Array]()
    is_small = 8 * form.dimension * reading.file.evaluations_after(0) <= MOST_KEPT
    constraints = [np.empty((0, form.constraints))]
    for part in stretches(reading, reading.generations().sizes, form):
        add_failures(failures, part, notes.get(part.iteration, ()))
        keys.append((part.run, part.iteration, part.place))
        values.append(part.values)
        constraints += [part.constraints.copy()] if form.constraints else []
        if is_small:
            points.append(part.points)
    kept = np.concatenate([np.empty((0, form.dimension)), *points]) if is_small else None
    sizes = np.array([len(part) for part in values[1:]], dtype=np.int64)
    runs, iterations, places = np.array(keys, dtype=np.int64).reshape(-1, 3).T
    found = Evaluations(
        path=reading.path.resolve(),
        form=form,
        run=np.repeat(runs, sizes),
        iteration=np.repeat(iterations, sizes),
        place=np.arange(np.sum(sizes)) + np.repeat(places - np.cumsum(sizes) + sizes, sizes),
        values=np.concatenate(values),
        kept=kept,
        constraints=np.concatenate(constraints) if form.constraints else np.empty((int(np.sum(sizes)), 0)),
    )
    return found, failures


class Note(NamedTuple):
    """The failure of those evaluations of a generation from some place on whose value is NaN."""

    place: int
    size: int
    kind: str
    what: str


def failure_notes(reading: Reading, first: int = 0) -> dict[int, list[Note]]:
    """Notes by generation, from the first one on. There are none for values that the objective returned as NaN."""
    notes: dict[int, list[Note]] = {}
    condition = "WHERE iteration >= ? ORDER BY iteration, place"
    for iteration, *note in reading.file.rows("failures", condition, (first,)):
        found = Note(*note)
        is_text = all(text == printable(text) for text in (found.kind, found.what))
        if not found.size > 0 <= found.place or not is_text:
            raise StoreError(f"{reading.path} is damaged: its failures are invalid.")
        notes.setdefault(iteration, []).append(found)
    return notes


def add_failures(failures: Failures, part: Stretch, notes: Sequence[Note]) -> None:
    """Add the values of a stretch that are NaN."""
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
    """The failures among all evaluations. Every row of the file is validated."""
    failures, notes = Failures(), failure_notes(reading)
    for part in stretches(reading, sizes, form):
        part.source.check_discrete(part.iteration, part.kept[:, : form.dimension])
        add_failures(failures, part, notes.get(part.iteration, ()))
    return failures


def driver(file: File) -> dict[str, str]:
    """The environment of the last process that ran the run."""
    facts = file.part("driver")[0]
    texts = {name: text for name, text in facts.items() if isinstance(text, str)}
    is_valid = all(text.isprintable() and len(text) <= LONGEST for text in texts.values())
    if not is_valid or len(texts) < len(facts) or len(facts) > 100:
        raise StoreError(f"{file.path} is damaged: the environment of its last process is invalid.")
    return texts
