"""Generations on their way to the file: values that arrive, and rows of the tables made from them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.evaluation.failures import Failure
from sublevel.run.optimizer import Optimizer
from sublevel.store.file import Row
from sublevel.store.rng_state import is_same_state
from sublevel.store.samples import LARGEST_SHARED_ROW, MOST_GENERATIONS, Sample, Witness, sample_row

LARGEST_ROW = 2**23
"""Most bytes of a row, unless it is one point."""
SMALL_GENERATION = 2**16
"""Bytes of points below which generations share a row."""

Places = int | slice | NDArray[np.intp]
"""Indices of points in their generation; a slice is all of them."""
ALL = slice(None)


class Generation:
    """A generation: its values, which of them are not yet written, and its numbers when it has ended."""

    has_sample = False  # in the file
    in_file = False  # some values
    is_whole = False  # all values are in the file, in the rows of a finished generation
    numbers: tuple[float, ...] = ()  # of a row of the table `generations`
    continued: SharedRow | None = None  # the row whose samples its own one continues
    witness: Witness | None = None  # of its sample, if its points were dropped
    begin = 0  # the first point of the part that is evaluated, if it is evaluated in parts
    evaluated: int | None = None  # points that are or were evaluated then

    def __init__(
        self,
        run: int,
        iteration: int,
        points: Array,
        values: Array,
        sample: Sample | None = None,
        measured: Array | None = None,
    ) -> None:
        self.run, self.iteration = run, iteration
        self.points = points  # (n, d), or (n, d + k) with constraint values
        self.values = values  # (n,)
        self.sample = sample  # if its points are not stored
        self.measured = measured  # (n, 1 + k), values and constraint values as they arrive
        self.waiting: list[Places] = []

    @classmethod
    def of(cls, done: Optimizer, points: Array, values: Array, sample: Sample | None) -> Generation:
        """The next generation of an optimizer, with values (n,) or rows (n, 1 + k) that will be filled in."""
        state = done.run_state
        if values.ndim == 1:
            return cls(state.restarts, state.nit + 1, points, values, sample)
        both = np.concatenate([points, np.full((len(points), values.shape[1] - 1), np.nan)], axis=1)
        return cls(state.restarts, state.nit + 1, both, values[:, 0], measured=values)

    def take_constraints(self, places: Places | NDArray[np.bool_]) -> None:
        """Copy the constraint values of these points next to them."""
        if self.measured is not None:
            self.points[places, 1 - self.measured.shape[1] :] = self.measured[places, 1:]

    def place_part(self, places: Places, values: Array) -> Places:
        """Copy those of a part's values (k,) that arrived; return their indices in the generation."""
        arrived = np.arange(len(values))[places]
        self.values[self.begin + arrived] = values[arrived]
        return self.begin + np.atleast_1d(arrived)

    def end_parts(self) -> None:
        """Drop the room for points that were not evaluated."""
        if self.evaluated is not None:
            self.points, self.values = self.points[: self.evaluated], self.values[: self.evaluated]

    def drop_points(self) -> None:
        """Drop points that are drawn again, so that their memory is free."""
        if self.sample is not None and self.sample.place == 0 and len(self.points):
            self.witness = Witness.of(self.points)
            self.points = self.points[:0].copy()

    def store_points(self) -> None:
        """Store the points, if it cannot be said from the sample alone how they were drawn."""
        if self.sample is not None and self.sample.before is None:
            self.sample = None

    def rows(self, parts: Sequence[tuple[int, int]] | None = None) -> Iterator[Row]:
        """Rows for stretches of indices, or for all points, without the points that are drawn again."""
        drawn = len(self.values) if self.sample is None else self.sample.place
        for begin, end in [(0, len(self.values))] if parts is None else parts:
            for piece in _pieces(begin, min(end, drawn), LARGEST_ROW // max(self.points[:1].nbytes, 1)):
                yield self._row(piece, _bytes(self.points[piece]))
            for piece in _pieces(max(begin, drawn), end, LARGEST_ROW // 8):
                yield self._row(piece, b"")

    def _row(self, piece: slice, points: memoryview | bytes) -> Row:
        values = self.values[piece]
        return self.iteration, piece.start, self.run, len(values), points, _bytes(values)

    def count_bytes(self) -> int:
        """Bytes of its values, and of its points unless they are drawn again."""
        return self.values.nbytes + (self.points.nbytes if self.sample is None else 0)

    def may_share_row(self) -> bool:
        """Whether it is small, has no rows in the file, and stores all of its points or none."""
        if self.sample is None:
            return self.points.nbytes < SMALL_GENERATION and not self.is_whole
        return self.values.nbytes < SMALL_GENERATION and not self.in_file and self.sample.place == 0

    def sample_rows(self) -> Iterator[Row]:
        """Its row of the table `samples`, if it has one that is not in the file."""
        if self.sample is not None and not self.has_sample:
            witness = self.witness or Witness.of(self.points[self.sample.place :])
            yield sample_row(self.iteration, self.sample, [self.sample.theta], witness)

    def generation_row(self) -> Row:
        """Its row of the table `generations`."""
        return self.iteration, self.run, len(self.values), array("d", self.numbers).tobytes()

    def evaluation_rows(self) -> Iterator[Row]:
        """Its rows of the table `evaluations` that are not in the file."""
        return iter(()) if self.is_whole else self.rows()


class SharedRow:
    """Finished generations of one run and size that share a row of each table."""

    def __init__(self, first: Generation) -> None:
        self.run, self.iteration, self.size = first.run, first.iteration, len(first.values)
        self.sample = first.sample  # None if the points are stored
        size = first.points.nbytes if first.sample is None else first.values.nbytes
        self.bytes_each, self.most = first.count_bytes(), min(LARGEST_SHARED_ROW // max(size, 1) + 1, MOST_GENERATIONS)
        self.after: Mapping[str, object] | None = None  # the last sample
        self.numbers, self.values, self.points, self.thetas = array("d"), list[Array](), list[Array](), list[Family]()
        if first.sample is not None:
            self.witness = Witness.of(first.points)
        self.append(first)

    def append(self, generation: Generation) -> None:
        """Append the next generation, which fits."""
        self.numbers.extend(generation.numbers)
        self.values.append(generation.values)
        if generation.sample is None:
            self.points.append(generation.points)
        else:
            self.thetas.append(generation.sample.theta)
            self.after = generation.sample.after

    def is_open(self, run: int, size: int, is_drawn: bool) -> bool:
        """Whether another generation of this run and size fits in, whose points are drawn again or stored."""
        fits = self.run == run and self.size == size and len(self.values) < self.most
        return fits and (self.sample is not None) == is_drawn

    def continues_with(self, before: Mapping[str, object] | None) -> bool:
        """Whether the next sample can be drawn after those of the row, given the state of the generator before it, None
        if nothing else uses the generator.
        """
        return self.after is None if before is None else is_same_state(before, self.after)

    def add(self, generation: Generation) -> bool:
        """Append the next generation if it fits."""
        sample = generation.sample
        if not self.is_open(generation.run, len(generation.values), sample is not None):
            return False
        if sample is not None and not self.continues_with(sample.before):
            return False
        self.append(generation)
        return True

    def count_bytes(self) -> int:
        """Bytes of their values and points."""
        return len(self.values) * self.bytes_each

    def sample_rows(self) -> Iterator[Row]:
        """The row of the table `samples`, if their points are drawn again."""
        if self.sample is not None:
            yield sample_row(self.iteration, self.sample, self.thetas, self.witness)

    def generation_row(self) -> Row:
        """The row of the table `generations`."""
        return self.iteration, self.run, self.size, self.numbers.tobytes()

    def evaluation_rows(self) -> Iterator[Row]:
        """The row of the table `evaluations`."""
        points, values = (b"".join([part.tobytes() for part in parts]) for parts in (self.points, self.values))
        yield self.iteration, 0, self.run, self.size, points, values


def failure_rows(generation: Generation, places: Places, failure: Failure) -> list[Row]:
    """A row for each stretch of places; their values that are NaN failed in this way."""
    parts = as_stretches([places], len(generation.values))
    return [(generation.iteration, begin, end - begin, failure.kind, failure.detail) for begin, end in parts]


def as_stretches(places: Sequence[Places], n: int) -> list[tuple[int, int]]:
    """Beginnings and ends of contiguous stretches of indices below n."""
    indices = [np.atleast_1d(part) for part in places if not isinstance(part, slice)]
    if len(indices) < len(places):
        return [(0, n)]
    ordered = np.sort(np.concatenate(indices))
    cuts = np.flatnonzero(np.diff(ordered) > 1) + 1
    begins, ends = np.append(0, cuts), np.append(cuts, ordered.size)
    return [(int(ordered[begin]), int(ordered[end - 1]) + 1) for begin, end in zip(begins, ends, strict=True)]


def _pieces(begin: int, end: int, most: int) -> Iterator[slice]:
    """The indices from `begin` to `end`, at most `most` at a time."""
    step = max(most, 1)
    return (slice(place, min(place + step, end)) for place in range(begin, end, step))


def _bytes(numbers: Array) -> memoryview | bytes:
    """The bytes of an array, without a copy if it is contiguous."""
    return numbers.data.cast("B") if numbers.flags.c_contiguous and numbers.size else numbers.tobytes()
