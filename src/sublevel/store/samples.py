"""Large samples, stored as the distribution and the state of the generator that they were drawn with.

A point takes d times as many bytes as its value. The points of a large generation are therefore not stored: they are
drawn again from the same distribution with the same random numbers, which gives the same bits. So are those of smaller
generations if the objective takes less time than storing them; then several of them share a row with one state of the
generator. A checksum of all points of the first of them and a few of their numbers are stored as well, to detect a
library that rounds differently or draws other numbers.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array, value_class
from sublevel.engine.families import Family
from sublevel.engine.sampling import Sampling
from sublevel.run.optimizer import Optimizer
from sublevel.run.search_space import SearchSpace
from sublevel.store.errors import StoreError, format_errors
from sublevel.store.file import File, Row
from sublevel.store.rng_state import generator_like, plain_state, state_like
from sublevel.store.serialize import as_dict, as_list, pack, pack_each, parse_json, size_of, unpack
from sublevel.store.settings import LARGEST_GENERATION

SMALLEST = 2**14
"""Bytes of points from which a sample is always drawn again when it is read."""
SMALLEST_IF_FAST = 2**11
"""The same for an objective that takes less than `FAST`."""
LEAST_GAIN = 2
"""Least ratio of the bytes of such points to those that are stored instead; otherwise the points are stored."""
FAST = 5e-8
"""Seconds of the objective for each byte of points, ten times as many as storing them takes (`benchmarks/durable.py`).
"""
LARGEST_SHARED_ROW = 2**20
"""Most bytes in a row of several generations, without the last one: of their points, or of values if they are drawn
again.
"""
MOST_GENERATIONS = 1000
"""Most generations of such a row."""
WITNESSES = 1000
"""Most coordinates of the first point that are stored for comparison."""
ROUNDING = 1e-6
"""Largest relative difference of redrawn points that rounding explains."""


@value_class
class Sample:
    """What is stored instead of the points of a generation."""

    theta: Family
    before: Mapping[str, object] | None  # state of the bit generator; None if it was drawn right after the one before
    after: Mapping[str, object] | None  # None if nothing else uses the generator
    place: int  # index of the first point that was drawn
    size: int  # number of points that were drawn


@value_class
class Witness:
    """Numbers of a sample of points (n, d) by which it is recognised when it is drawn again."""

    first: Array  # the first coordinates of the first point
    checksum: np.int64  # of all points

    @classmethod
    def of(cls, points: Array) -> Witness:
        """The witness of points (n, d)."""
        return cls(points[0, :WITNESSES].copy(), checksum(points))


def size_of_witness(d: int) -> int:
    """Bytes of the witness of a sample of points with d variables."""
    return 8 * min(d, WITNESSES) + 8


def sample_row(iteration: int, sample: Sample, thetas: Sequence[Family], witness: Witness) -> Row:
    """The row of the table `samples` for consecutive generations, from `iteration` on, given their distributions, and
    the sample and the witness of the first one. Each was drawn right after the one before.
    """
    facts: dict[str, object] = {"generations": len(thetas), "state": sample.before}
    packed = pack_each(thetas)
    layouts = [layout for layout, _ in packed]
    if len(set(layouts)) > 1:
        facts["layouts"] = layouts
    data = b"".join([*(data for _, data in packed), pack(witness)[1]])
    return iteration, sample.place, sample.size, json.dumps(facts, default=plain_state), layouts[0], data


def longest_redrawn(done: Optimizer) -> float:
    """Seconds of the objective for a generation below which the points of the next sample are drawn again when they
    are read: infinity if they are many; 0, and hence never, if they are few, if parts of the method add points or if
    there are constraints.
    """
    size, instead = 8 * done.popsize * done.best_x.size, _stored_bytes(done)
    if done.constraints is not None or done.partial is not None:
        return 0.0
    if any(transform.adds_points for transform in done.method.transforms):
        return 0.0
    if size < min(SMALLEST, SMALLEST_IF_FAST) or size < LEAST_GAIN * instead:
        return 0.0
    return np.inf if size >= SMALLEST else FAST * size


def _stored_bytes(done: Optimizer) -> int:
    """Bytes that are stored instead of the points of the next sample, without the state of the generator."""
    return size_of(done.theta) + 8 * min(done.best_x.size, WITNESSES) + 8


def relative_difference(points: Array, others: Array, scale: Array) -> float:
    """The largest difference of points (..., d), relative to the largest coordinates in `scale` (n, d)."""
    sizes = np.maximum(np.max(np.abs(scale), axis=0), np.finfo(np.float64).tiny)
    return float(np.max(np.abs(points - others) / sizes))


def checksum(points: Array) -> np.int64:
    """The exclusive or of all numbers (n, d), as 64 bits."""
    return np.bitwise_xor.reduce(points.reshape(-1).view(np.int64))


@dataclass(frozen=True, slots=True)
class SampleForm:
    """Templates for the samples of a run: a distribution of the same family, the space, and a generator state."""

    theta: Family
    space: SearchSpace | None
    state: Mapping[str, object]
    dimension: int  # d
    sampling: Sampling
    constraints: int = 0  # constraint values k of an evaluation, which are stored after its point

    @classmethod
    def of(cls, optimizer: Optimizer) -> SampleForm:
        """The templates of an optimizer."""
        k = 0 if optimizer.constraints is None else optimizer.constraints.size
        state, d = optimizer.rng.bit_generator.state, optimizer.start.x0.size
        return cls(optimizer.theta, optimizer.start.space, state, d, optimizer.method.sampling, k)


class RowPart(NamedTuple):
    """The part of a row of the table `evaluations` that belongs to one generation."""

    run: int
    iteration: int
    place: int  # index of its first point
    points: memoryview  # empty if they are drawn again
    values: memoryview


def evaluation_rows(file: File, first: int = 1, last: int = 2**62) -> Iterator[Row]:
    """All rows that have evaluations of these generations, in the order of the search."""
    condition = "WHERE iteration BETWEEN coalesce((SELECT max(iteration) FROM evaluations WHERE iteration <= ?), 0)"
    for row in file.rows("evaluations", f"{condition} AND ? ORDER BY iteration, place", (first, last)):
        iteration, place, _, size, points, values = row
        is_row = place >= 0 and size >= 1 and values and len(values) % (8 * size) == len(points) % len(values) == 0
        if not is_row or (len(values) > 8 * size and place):
            raise StoreError(f"{file.path} is damaged: the evaluations of generation {iteration} are incomplete.")
        yield row


def row_parts(file: File, first: int = 1, last: int = 2**62) -> Iterator[RowPart]:
    """The parts of all rows that have evaluations of these generations, in the order of the search."""
    for iteration, place, run, size, points, values in evaluation_rows(file, first, last):
        count = len(values) // (8 * size)
        some, numbers, width = memoryview(points), memoryview(values), len(points) // count
        for k in range(count):
            part = some[k * width : (k + 1) * width], numbers[8 * size * k : 8 * size * (k + 1)]
            yield RowPart(run, iteration + k, place, *part)


class SamplePart(NamedTuple):
    """The part of a row of the table `samples` that belongs to one generation."""

    iteration: int
    place: int  # index of the first point that was drawn
    size: int
    first: int  # generation of the row
    state: object  # of the generator before the sample of that generation, as plain numbers
    layout: str
    data: memoryview  # its distribution
    witness: memoryview  # of the first generation of the row


def sample_parts(file: File, iteration: int, d: int) -> Iterator[SamplePart]:
    """The samples in the row that has a generation of points with d variables."""
    condition, arguments = "WHERE iteration = (SELECT max(iteration) FROM samples WHERE iteration <= ?)", (iteration,)
    refusal = "the state of its random generator cannot be read"
    for first, place, size, text, layout, data in file.rows("samples", condition, arguments):
        with format_errors(file.path):
            facts = as_dict(parse_json(text, refusal), refusal)
        count, end = facts.get("generations"), len(data) - size_of_witness(d)
        if type(count) is not int or not 0 < count <= min(end, MOST_GENERATIONS) or end % count:
            raise StoreError(f"{file.path} is damaged: the sample of generation {first} is incomplete.")
        if size < 1 or (count - 1) * 8 * size > LARGEST_SHARED_ROW:
            raise StoreError(f"{file.path} is damaged: the sample of generation {first} has an impossible size.")
        width, arrays, layouts = end // count, memoryview(data), facts.get("layouts", [layout] * count)
        with format_errors(file.path):
            texts = [text if isinstance(text, str) else "" for text in as_list(layouts, count, refusal)]
        for k in range(count):
            piece = arrays[k * width : (k + 1) * width]
            yield SamplePart(first + k, place, size, first, facts.get("state"), texts[k], piece, arrays[end:])


class Stretch(NamedTuple):
    """Evaluations of one generation that are stored together: m points from some index on."""

    run: int
    iteration: int
    place: int
    values: Array  # (m,)
    kept: Array  # (m, d + k), with constraint values, or (0, d) if the points are drawn again
    source: StoredPoints

    @property
    def points(self) -> Array:
        """The points (m, d); StoreError if they are none of the space."""
        points = self.kept[:, : self.source.dimension] if len(self.kept) else self.source.draw_points(self)
        self.source.check_discrete(self.iteration, points)
        return points

    @property
    def constraints(self) -> Array:
        """The constraint values (m, k)."""
        return self.kept[:, self.source.dimension :]


class StoredPoints:
    """Stored evaluations, with points that are stored or drawn again."""

    def __init__(self, file: File, form: SampleForm) -> None:
        self._file, self._form = file, form
        self._iteration, self._place, self._points_of_sample = 0, 0, np.empty((0, form.dimension))  # of the last sample
        self._samples: dict[int, SamplePart] = {}  # of the last row
        self._generator, self._next = np.random.default_rng(0), -1  # to draw the sample of this generation of the row

    @property
    def dimension(self) -> int:
        """The number of variables."""
        return self._form.dimension

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def stretches(self, first: int = 1, last: int = 2**62) -> Iterator[Stretch]:
        """All evaluations in the rows that have some of these generations, in the order of the search."""
        width = self._form.dimension + self._form.constraints
        for run, iteration, place, points, values in row_parts(self._file, first, last):
            if len(points) not in (() if self._form.constraints else (0,)) + (width * len(values),):
                d = self._form.dimension
                raise StoreError(f"{self._file.path} is damaged: its points do not have {d} variables.")
            kept = np.frombuffer(points).reshape(-1, width)
            yield Stretch(run, iteration, place, np.frombuffer(values), kept, self)

    def draw_points(self, part: Stretch) -> Array:
        """The points (m, d) of evaluations whose points are not stored."""
        begin, end = part.place, part.place + len(part.values)
        if part.iteration != self._iteration:
            self._place, self._points_of_sample = self._draw(part.iteration, end)
            self._iteration = part.iteration
        if not self._place <= begin <= end <= self._place + len(self._points_of_sample):
            raise self._missing_points_error(part.iteration)
        return self._points_of_sample[begin - self._place : end - self._place]

    def check_discrete(self, iteration: int, points: Array) -> None:
        """Raise StoreError if integers or categories among the variables of points (m, d) are impossible."""
        space = self._form.space
        if space is None or not space.is_mixed:
            return
        some = points[:, space.discrete]
        if not (space.has_values(points) and np.all(some == np.rint(some))):
            raise StoreError(
                f"{self._file.path} is damaged or forged: generation {iteration} has points outside of its space."
            )

    def _draw(self, iteration: int, end: int) -> tuple[int, Array]:
        """The points (n, d) of a sample, at least up to the index `end`, preceded by the index of the first one."""
        path, form = self._file.path, self._form
        if iteration not in self._samples:
            self._samples, self._next = (
                {p.iteration: p for p in sample_parts(self._file, iteration, form.dimension)},
                -1,
            )
        if iteration not in self._samples:
            raise StoreError(f"{path} is damaged: the sample of generation {iteration} is missing.")
        part = self._samples[iteration]
        if not 2 <= part.size <= LARGEST_GENERATION // (8 * form.dimension) or part.place not in (0, 1):
            raise StoreError(f"{path} is damaged: the sample of generation {iteration} has an impossible size.")
        if part.place + part.size < end:
            raise self._missing_points_error(iteration)
        with format_errors(path):
            if not part.first <= self._next <= iteration:
                self._generator, self._next = self._generator_at(part.state), part.first
            while self._next < iteration:
                self._draw_next()
            return part.place, self._draw_next()

    def _draw_next(self) -> Array:
        """The points (n, d) of the next sample of the row, in the user's variables."""
        part, form = self._samples[self._next], self._form
        theta = unpack(form.theta, part.layout, part.data)
        self._next += 1
        with np.errstate(all="ignore"):  # a forged distribution may overflow
            searched = theta.sample(form.sampling.of(self._generator), part.size).x
            points = searched if form.space is None else form.space.points(searched)
        if part.iteration == part.first:
            numbers = np.frombuffer(part.witness)
            if checksum(points) != numbers[-1:].view(np.int64)[0]:
                self._check_rounding(part.iteration, points, numbers[:-1])
        return points

    def _missing_points_error(self, iteration: int) -> StoreError:
        return StoreError(f"{self._file.path} is damaged: generation {iteration} has values without points.")

    def _generator_at(self, plain: object) -> np.random.Generator:
        state = state_like(self._form.state, plain)
        generator = generator_like(state)
        generator.bit_generator.state = state
        return generator

    def _check_rounding(self, iteration: int, points: Array, first: Array) -> None:
        """Warn of points (n, d) that differ from the original ones by rounding; StoreError if they differ by more."""
        if not relative_difference(points[0, : first.size], first, points[:, : first.size]) <= ROUNDING:
            raise StoreError(
                f"{self._file.path}: the points of generation {iteration} cannot be drawn again: NumPy "
                f"{np.__version__} draws different random numbers than the version that wrote the file. Use that "
                "version to read it."
            )
        warnings.warn(
            f"{self._file.path}: points that are drawn again from stored distributions differ by rounding errors from "
            "the original ones, because this machine or its libraries round differently.",
            stacklevel=2,
        )
