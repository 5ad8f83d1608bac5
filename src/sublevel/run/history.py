"""The history of a run: a row of numbers per generation or several, and snapshots of the search distribution."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family, Mixed
from sublevel.engine.method import Method
from sublevel.run.data_frames import data_frame
from sublevel.run.labels import Labels
from sublevel.run.search_space import SearchSpace, no_choices
from sublevel.summaries import Summary, counted, listed

if TYPE_CHECKING:
    from sublevel.run.initial import Start
    from sublevel.run.optimizer import Optimizer

ROWS = 2**16
"""Maximum number of rows: 2 MB. Longer histories have one row for two generations, then for four and so on."""
LONGEST_ROW = 2**32
"""Maximum number of generations of a row. Every run has a row of its own."""
FEW = 100
"""Numbers whose maximum Python finds faster than NumPy."""
PIECE = 2**12
"""Number of rows that are merged at a time."""
SNAPSHOTS = (16, 128)
"""Minimum and maximum number of snapshots."""
SNAPSHOT_FLOATS = 1_000_000
"""Maximum number of floats in all snapshots, 8 MB, unless the minimum number of snapshots needs more."""


class Snapshot(NamedTuple):
    """The search distribution after some evaluations."""

    nfev: int
    run: int  # 0 is the first, then the restarts
    theta: Family


class RunSummary(NamedTuple):
    """One run of a search with restarts."""

    rows: slice  # of the history
    popsize: int
    fun: float  # best value of this run, NaN if there is none
    reasons: Mapping[str, float]  # why it ended; empty if it goes on


class Frozen(NamedTuple):
    """The part of the shared data of a growing history that belongs to a frozen one."""

    numbers: int
    last_row: array[float]  # which may be changed by further generations
    runs: int
    endings: int


class Trace(NamedTuple):
    """The snapshots as arrays: s snapshots, d variables, k of them free."""

    nfev: NDArray[np.int_]  # (s,)
    run: NDArray[np.int_]  # (s,)
    mean: Array  # (s, d), in the user's space
    deviations: Array  # (s, k), of ln x where a variable is log-scaled
    axes: Array  # (s, r), standard deviations along the principal axes of the real variables, the longest first
    staying: Array  # (s, m), probability of the most probable value of each discrete variable

    @property
    def sigma(self) -> Array:
        """Overall step size (s,): the geometric mean of the principal axes, det(C)^{1/2r}; NaN if there are none."""
        return np.exp(np.mean(np.log(self.axes), axis=1)) if self.axes.size else np.full(len(self.axes), np.nan)

    @property
    def axis_ratio(self) -> Array:
        """Longest over shortest principal axis (s,)."""
        return axis_ratio(self.axes)


class History:
    """One row per generation; `history["best"]` is a column, and `history.trace()` holds the search distributions.

    Beyond 65,536 generations, a row represents two generations of a run, later four and so on, which bounds the memory.
    `minimize` records a history. With `ask` and `tell`, call `record` after each `tell`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer, before its first step.

    Examples
    --------
    >>> import numpy as np, sublevel as sl
    >>> opt = sl.Optimizer(np.ones(4), 0.5, rng=1)
    >>> history = sl.History(opt)
    >>> for _ in range(10):
    ...     X = opt.ask()
    ...     opt.tell(X, np.sum(X**2, axis=1))
    ...     history.record(opt)
    >>> history["nfev"][:3]
    array([ 8., 16., 24.])
    >>> history.trace().mean.shape  # at the start and after each generation
    (11, 4)
    """

    COLUMNS = ("nfev", "best", "generation_best", "deviation")

    def __init__(self, optimizer: Optimizer) -> None:
        """The history of an optimizer from now on."""
        self._begin(optimizer.start, [Snapshot(optimizer.nfev, 0, optimizer.theta)], optimizer.popsize)
        self.adapts_rates = adapts_rates(optimizer.method)
        self.run_of_answer = 0 if optimizer.noise else None
        if optimizer.constraints is not None:
            self._add_column("maxcv")
        elif optimizer.partial is not None:
            self._add_column("agreement")

    def _add_column(self, name: str) -> None:
        """Have a column for the violation of the best point, or for the agreement of a surrogate."""
        self.columns, self._has_violations, self._is_plain = (*History.COLUMNS, name), True, False
        self.last = (*self.last, np.nan)

    def _begin(self, start: Start, snapshots: Sequence[Snapshot], popsize: int) -> None:
        theta = snapshots[0].theta
        self.columns: tuple[str, ...] = History.COLUMNS
        self.space, self.snapshots = start.space, list(snapshots)
        self.given_names = start.names  # None if the user gave none
        self.parameters = start.parameters  # a Space, if the user gave one
        self.adapts_rates = False  # whether the method does so: "lra-"
        self.later = 0  # evaluations after the last generation: a part of the next one, or of a noisy answer
        self.run_of_answer: int | None = None  # of a noisy objective; otherwise the run with the best value
        self._most = int(np.clip(SNAPSHOT_FLOATS // theta.stored_numbers, *SNAPSHOTS))
        self._next = self._stride = 0  # evaluations until the next snapshot, and between two
        self._numbers = array("d")
        self._per_row, self._in_row = 1, 0  # generations in a row, and those in the last one
        self._begins, self._popsizes = array("q", [0]), array("q", [popsize])  # first row and sample size of each run
        self._endings: Sequence[Mapping[str, float]] = ()
        self.theta_of_best = snapshots[-1].theta  # where the run that found the best point is, or where it ended
        self.last: tuple[float, ...] = (0.0, np.nan, np.nan, np.nan)  # numbers of the last generation
        self.last_median = np.nan  # of the values of the last generation
        is_real = start.space is None or not start.space.is_mixed
        self._is_plain = is_real and theta.dimension < FEW  # few real variables, four columns and not yet many rows
        self._has_violations = False
        self._is_shared = False  # whether a frozen history reads the same numbers
        self._frozen: Frozen | None = None

    @property
    def free(self) -> NDArray[np.intp]:
        """The variables that are searched by a coordinate (k,), by number."""
        return np.arange(self.snapshots[0].theta.dimension) if self.space is None else np.flatnonzero(self.space.free)

    @property
    def is_log(self) -> NDArray[np.bool_]:
        """Which of the variables (d,) are searched by their logarithm; fixed ones are not."""
        d = self.snapshots[0].theta.dimension
        return np.zeros(d, dtype=np.bool_) if self.space is None else self.space.log_scaled

    @property
    def is_real(self) -> NDArray[np.bool_]:
        """Which of the coordinates of the search distribution belong to real variables."""
        d = self.snapshots[0].theta.dimension
        return np.ones(d, dtype=np.bool_) if self.space is None else self.space.judged

    @property
    def discrete(self) -> NDArray[np.intp]:
        """The variables that are integers or choices (m,), by number."""
        return no_choices() if self.space is None else np.flatnonzero(self.space.discrete)

    @property
    def labels(self) -> Labels:
        """Names and values of the variables as strings."""
        return Labels(self.given_names, self.space, self.parameters)

    def name(self, index: int) -> str:
        """The user's name of a variable; x[0], x[1] … if none were given."""
        return self.labels.name(index)

    @property
    def names(self) -> list[str]:
        """Names of the variables (d,) in the search: `name`, or `ln name` where one is log-scaled."""
        name = self.labels.name
        return [f"ln {name(i)}" if is_log else name(i) for i, is_log in enumerate(self.is_log.tolist())]

    @property
    def last_run(self) -> int:
        """The run of the last generation."""
        return self._run_count - 1

    @property
    def pace(self) -> tuple[int, int]:
        """Evaluations after which the next snapshot is taken, and between two; needed to restore a history."""
        return self._next, self._stride

    @classmethod
    def restored(
        cls,
        start: Start,
        snapshots: Sequence[Snapshot],
        pace: tuple[int, int],
        seen: Generations,
        popsize: int,
        endings: Sequence[Mapping[str, float]] = (),
    ) -> Self:
        """The history of a run whose generations and snapshots were stored; `popsize` is that of its first run, which
        may have no generation yet.
        """
        history = cls.__new__(cls)
        history._begin(start, snapshots, popsize)
        history._next, history._stride = pace
        if seen.table.shape[1] > len(History.COLUMNS):
            history._add_column(seen.further)
        if len(seen.table):
            firsts = np.flatnonzero(np.diff(seen.runs, prepend=-1))
            while len(merged(seen.table, firsts, history._per_row)[0]) > ROWS and history._per_row < LONGEST_ROW:
                history._per_row *= 2
            table, rows = merged(seen.table, firsts, history._per_row)
            history._numbers = array("d", table.tobytes())
            history._begins, history._popsizes = array("q", rows.tolist()), array("q", seen.popsizes[firsts].tolist())
            history._endings = endings[: len(firsts) - 1]
            history._in_row = (len(seen.table) - int(firsts[-1]) - 1) % history._per_row + 1
            history._is_plain &= len(history._numbers) < ROWS
        return history

    def freeze(self) -> History:
        """The history as it is now, which later generations do not change.

        Cheap: both share their numbers, until this one has to merge some.
        """
        width = len(self.columns)
        frozen = History.__new__(History)
        vars(frozen).update(vars(self))
        frozen.snapshots = list(self.snapshots)
        if self._frozen is None:
            self._is_shared = True
            frozen._frozen = Frozen(len(self._numbers), self._numbers[-width:], len(self._begins), len(self._endings))
        return frozen

    def __getstate__(self) -> dict[str, object]:
        """The state to pickle or copy, with numbers that are not shared."""
        own = {"_numbers": array("d", self._table().tobytes()), "_begins": self._begins[: self._run_count]}
        own |= {"_popsizes": self._popsizes[: self._run_count], "_endings": self._endings[: self._ending_count]}
        return {**vars(self), **own, "_is_shared": False, "_frozen": None}

    def record(self, done: Optimizer) -> None:
        """Record the last generation: evaluations, best value so far, its best value, largest standard deviation (of
        the real variables, if there are any).
        """
        state = done.run_state
        if state.restarts >= len(self._begins):
            self._begin_run(done)
        best, nfev, theta = state.best, state.nfev, state.search.theta
        self.theta_of_best = best.theta or theta
        if self.run_of_answer is not None:
            self.run_of_answer = best.run
        if self._is_plain:  # the most common case
            self.last = last = (nfev, best.fun, state.standing.latest, max(done.deviations.tolist()))
            self._numbers.extend(last)
            self._in_row, self._is_plain = 1, len(self._numbers) < ROWS
        else:
            self._record_general(done)
        if nfev >= self._next:
            self._take_snapshot(Snapshot(nfev, state.restarts, theta))

    def _begin_run(self, done: Optimizer) -> None:
        """Have a row of its own for the first generation of a run."""
        self._begins.append(len(self))
        self._popsizes.append(done.popsize)
        self._endings = done.endings
        self._in_row = self._per_row

    def _record_general(self, done: Optimizer) -> None:
        """Add the numbers of the last generation, whatever their number and the variables are."""
        state = done.run_state
        last: tuple[float, ...] = (state.nfev, state.best.fun, done.generation_best, widest_deviation(done))
        if self._has_violations:
            more = done.maxcv if state.surrogate is None else state.surrogate.agreement
            last = (last[0], last[1] if done.is_feasible else np.nan, *last[2:], more)
        self.last = last
        self._add(last)

    def _take_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; of too many, every other one."""
        self.snapshots.append(snapshot)
        if len(self.snapshots) > self._most:
            self.snapshots[1:] = self.snapshots[2::2]
            self._stride = 2 * snapshot.nfev // self._most
        self._next = snapshot.nfev + self._stride

    def _add(self, numbers: tuple[float, ...]) -> None:
        """A row for a generation, or its numbers into the last row if that has room."""
        width = len(self.columns)
        if self._in_row % self._per_row == 0:
            self._numbers.extend(numbers)
            self._in_row = 0
        else:
            lowest = float(np.fmin(self._numbers[2 - width], numbers[2]))
            self._numbers[-width:] = array("d", (*numbers[:2], lowest, *numbers[3:]))
        self._in_row += 1
        while len(self._numbers) > ROWS * width and self._per_row < LONGEST_ROW:
            even = (len(self) - self._begins[-1]) % 2 == 0
            self._in_row += self._per_row if even else 0
            if self._is_shared:
                self._numbers, self._is_shared = self._numbers[:], False
            self._per_row *= 2
            rows, self._begins = halved(np.frombuffer(self._numbers).reshape(-1, width), self._begins)
            del self._numbers[rows * width :]

    def end(self, done: Optimizer, reasons: Mapping[str, float]) -> None:
        """Record the reasons for stopping, and the last distribution as a snapshot."""
        unknown = max(len(self._begins) - len(done.endings) - 1, 0)  # runs of a file after its last checkpoint
        self._endings = [*done.endings, *({} for _ in range(unknown)), reasons]
        self.count_later(done.nfev)
        same_run = done.restarts < len(self._begins)
        nfev = int(self._numbers[-len(self.columns)]) if len(self) else 0
        if same_run and self.snapshots[-1].nfev < nfev:
            self.snapshots.append(Snapshot(nfev, done.restarts, done.theta))

    def count_later(self, nfev: int) -> None:
        """Take note of all evaluations of a run, some of which may have been made after the last generation."""
        self.later = max(nfev - int(self._numbers[-len(self.columns)]), 0) if len(self) else nfev

    def to_frame(self) -> Any:
        """The rows as a table: a DataFrame if pandas is installed, a structured array otherwise.

        Returns
        -------
        pandas.DataFrame or structured numpy.ndarray
            Columns ``run`` (0 is the first, then the restarts), ``popsize``, ``nfev``, ``best``, ``generation_best``
            and ``deviation``; with constraints ``maxcv``, the violation at the best point, and ``best`` and
            ``generation_best`` are values of feasible points, NaN if there are none.
        """
        lengths = [run.rows.stop - run.rows.start for run in self.runs]
        run = np.repeat(np.arange(len(lengths)), lengths)
        popsize = np.array(self._popsizes[: self._run_count])[run]
        columns = self.arrays()
        return data_frame({"run": run, "popsize": popsize, "nfev": columns.pop("nfev").astype(np.int64), **columns})

    def __repr__(self) -> str:
        """A summary in one line."""
        return self._summary().title

    def _repr_html_(self) -> str:
        """The runs, for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        runs = self.runs
        title = f"History: {counted(len(self), 'row')} of {', '.join(self.columns)}; {counted(len(runs), 'run')}"
        rows = [["run", "popsize", "rows", "best value", "ended by"]]
        for i in listed(len(runs)):
            if i is None:
                rows.append(["…"] + [""] * 4)
            else:
                one = runs[i]
                count = one.rows.stop - one.rows.start
                rows.append([f"{i}", f"{one.popsize}", f"{count}", f"{one.fun:.8g}", ", ".join(one.reasons)])
        return Summary(title, table=rows)

    def __len__(self) -> int:
        """Rows so far."""
        return (len(self._numbers) if self._frozen is None else self._frozen.numbers) // len(self.columns)

    @property
    def _run_count(self) -> int:
        return len(self._begins) if self._frozen is None else self._frozen.runs

    @property
    def _ending_count(self) -> int:
        return len(self._endings) if self._frozen is None else self._frozen.endings

    def _table(self) -> Array:
        """All rows (rows, columns), in an array of their own."""
        width = len(self.columns)
        table = np.array(self._numbers[: len(self) * width], dtype=np.float64).reshape(-1, width)
        if self._frozen is not None and len(table):
            table[-1] = self._frozen.last_row
        return table

    def __getitem__(self, column: str) -> Array:
        """The column of that name, a number for each row."""
        return self.arrays()[column]

    def arrays(self) -> dict[str, Array]:
        """Columns by name."""
        return dict(zip(self.columns, self._table().T, strict=True))

    @property
    def runs(self) -> list[RunSummary]:
        """The runs so far, each with its best value and why it ended."""
        values = self["generation_best"]
        begins = self._begins[: self._run_count]
        ends = [*begins[1:], len(self)]
        endings: list[Mapping[str, float]] = [*self._endings[: min(len(ends), self._ending_count)], {}]
        return [
            RunSummary(slice(row, end), popsize, float(np.fmin.reduce(values[row:end], initial=np.nan)), reasons)
            for row, end, popsize, reasons in zip(begins, ends, self._popsizes, endings, strict=False)
        ]

    @property
    def best_run(self) -> int:
        """The run that found the best value, or the answer if values are noisy; the last one if there is no value."""
        if self.run_of_answer is not None:
            return self.run_of_answer
        values = np.array([run.fun for run in self.runs])
        return values.size - 1 if np.isnan(values).all() else int(np.nanargmin(values))

    def trace(self) -> Trace:
        """The snapshots as arrays."""
        thetas = [snapshot.theta for snapshot in self.snapshots]
        mean = np.array([theta.center for theta in thetas])
        free = self.free.size
        return Trace(
            nfev=np.array([snapshot.nfev for snapshot in self.snapshots]),
            run=np.array([snapshot.run for snapshot in self.snapshots]),
            mean=mean if self.space is None else self.space.points(mean),
            deviations=np.array([theta.deviations[:free] for theta in thetas]),
            axes=np.array([real_axes(theta, self.space) for theta in thetas]),
            staying=np.array([staying_of(theta, self.space) for theta in thetas]),
        )


class Generations(NamedTuple):
    """The stored numbers of g consecutive generations."""

    table: Array  # (g, 4) or (g, 5), columns of a history
    runs: NDArray[np.int_]  # (g,), 0 is the first, then the restarts
    popsizes: NDArray[np.int_]  # (g,)
    further: str = "maxcv"  # the name of a fifth column


def merged(table: Array, firsts: NDArray[np.intp], count: int) -> tuple[Array, NDArray[np.intp]]:
    """Each `count` rows of a run as one: the last one's numbers, and the best of their values. Then, where each run
    begins.

    Runs begin at the rows `firsts`; no row of the result is of two runs.
    """
    lengths = np.diff(firsts, append=len(table))
    place = np.arange(len(table)) - np.repeat(firsts, lengths)  # in its run
    heads = np.flatnonzero(place % count == 0)
    result = table[np.append(heads[1:], len(table)) - 1].copy()
    result[:, 2] = np.fmin.reduceat(table[:, 2], heads)
    return result, np.searchsorted(heads, firsts)


def halved(table: Array, firsts: array[int]) -> tuple[int, array[int]]:
    """Merge pairs of rows of each run, in place and in pieces to save memory: the rows left, and where runs begin."""
    rows, begins = 0, array("q")
    for first, last in pairwise([*firsts, len(table)]):
        begins.append(rows)
        for start in range(first, last, PIECE):
            piece, _ = merged(table[start : min(start + PIECE, last)], np.zeros(1, dtype=np.intp), 2)
            table[rows : rows + len(piece)] = piece
            rows += len(piece)
    return rows, begins


def largest(numbers: Array) -> float:
    """The largest number; of few numbers by Python, which has less overhead."""
    return max(numbers.tolist()) if numbers.size < FEW else float(np.max(numbers))


def widest_deviation(done: Optimizer) -> float:
    """The largest standard deviation of a search: of its real coordinates, of its integers if there are none, or 0 if
    there are only choices.
    """
    space = done.space
    if space is None or not space.is_mixed:
        return largest(done.deviations)
    judged = space.judged
    if judged.any():
        return largest(done.deviations[judged])
    return largest(done.deviations) if space.free.any() else 0.0


def real_axes(theta: Family, space: SearchSpace | None, units: Array | None = None) -> Array:
    """Standard deviations along the principal axes (r,) of a single run's real coordinates, the longest first, with
    coordinates in units (k,).
    """
    if space is None or not space.is_mixed:
        return theta.principal_axes(units)
    judged = space.judged
    scales = np.ones(int(np.count_nonzero(judged))) if units is None else units[judged]
    if theta.coordinate_axes:
        return np.sort(theta.deviations[judged] / scales)[::-1]
    return np.linalg.svd(theta.dense_root[judged] / scales[:, None], compute_uv=False).astype(np.float64)


def log_size(theta: Family, space: SearchSpace | None) -> float:
    """ln of the geometric mean of the principal axes of a single run's real coordinates; NaN if there are none."""
    if space is None or not space.is_mixed:
        return theta.log_size
    axes = real_axes(theta, space)
    return float(np.mean(np.log(axes))) if axes.size else np.nan


def staying_of(theta: Family, space: SearchSpace | None) -> Array:
    """Probabilities (m,) that a single run's discrete variables take their most probable value."""
    if space is None or not space.is_mixed:
        return np.zeros(0)
    full = np.zeros(space.free.size)
    full[space.free] = 1.0 - cast(Mixed, theta).leaving[: np.count_nonzero(space.free)]
    if theta.choices is not None:
        full[space.choices] = 1.0 - theta.choices.leaving
    return full[space.discrete]


def adapts_rates(method: Method) -> bool:
    """Whether the learning rates adapt themselves to noise and rugged functions."""
    return any(transform.reduces_rates for transform in method.transforms)


def axis_ratio(axes: Array) -> Array:
    """Longest over shortest (...,) of sorted principal axes (..., k), the root of the covariance's condition number."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return axes[..., 0] / axes[..., -1] if axes.shape[-1] else np.full(axes.shape[:-1], np.nan)
