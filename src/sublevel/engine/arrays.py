"""Arrays with leading batch axes (...), which are independent trials, and sources of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Array = NDArray[np.float64]
"""Float array; docstrings give its shape, e.g. (..., n, d)."""
Mask = NDArray[np.bool_] | np.bool_
"""One Boolean per trial, shape (...)."""
T = TypeVar("T")
PerTrial = Any
"""One number per trial, shape (...): a NumPy scalar for a single run."""
ZERO = np.float64(0.0)
ONE = np.float64(1.0)


@dataclass_transform(frozen_default=True)
def value_class(cls: type[T]) -> type[T]:
    """Make a dataclass that type checkers treat as frozen.

    At run time it is an ordinary class with slots: a frozen dataclass takes half a microsecond longer to create, and a
    step creates eight.
    """
    return dataclass(slots=True)(cls)


class Noise(Protocol):
    """A source of random numbers: a NumPy generator, or one stream per trial of a batch."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array: ...
    def random(self, size: tuple[int, ...], /) -> Array: ...


@dataclass(frozen=True, slots=True)
class Streams:
    """One generator per trial: trial k of a batch draws the same numbers as trial k on its own."""

    generators: tuple[np.random.Generator, ...]

    @classmethod
    def spawn(cls, seed: int | Sequence[int] | np.random.SeedSequence, trials: int) -> Streams:
        """Create `trials` independent streams from one seed."""
        root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        return cls(tuple(np.random.Generator(np.random.SFC64(child)) for child in root.spawn(trials)))

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Normals of shape (trials, ...), each trial from its own stream."""
        out = np.empty(size)
        for generator, trial in zip(self.generators, out, strict=True):
            generator.standard_normal(out=trial)
        return out

    def random(self, size: tuple[int, ...], /) -> Array:
        """Uniforms on [0, 1) of shape (trials, ...), each trial from its own stream."""
        out = np.empty(size)
        for generator, trial in zip(self.generators, out, strict=True):
            generator.random(out=trial)
        return out


@dataclass(frozen=True, slots=True)
class MirroredFrames:
    """Normal vectors in orthogonal frames ±Q·r: each row is N(0, I), the rows of a frame have equal lengths and sum to
    0.

    Σ zzᵀ over a frame is exactly 2r²·I. If C matches the Hessian, the sampling noise of a natural gradient therefore
    cancels within each frame; with independent points it has to be averaged out.
    """

    generator: np.random.Generator

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Rows (..., n, d) of ⌈n/2d⌉ independent frames; the last frame may be incomplete."""
        *batch, n, d = size
        shape = (*batch, -(-n // (2 * d)))
        q, r = np.linalg.qr(self.generator.standard_normal((*shape, d, d)))
        signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)  # makes Q uniform on the orthogonal group
        half = q * signs[..., None, :] * np.sqrt(self.generator.chisquare(d, shape))[..., None, None]
        return np.concatenate([half, -half], axis=-2).reshape(*batch, -1, d)[..., :n, :]

    def random(self, size: tuple[int, ...], /) -> Array:
        """Uniforms on [0, 1), independent."""
        return self.generator.random(size)


def read_only(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def expand_trailing(per_trial: PerTrial, axes: int) -> Array:
    """Append `axes` axes of length 1 to numbers per trial (...,), to broadcast over arrays; one number is unchanged."""
    return per_trial if per_trial.ndim == 0 else per_trial.reshape(per_trial.shape + (1,) * axes)


def total(numbers: Array) -> PerTrial:
    """Sum over the last axis (..., n); for a single run a dot product, which has a third of a reduction's overhead."""
    return numbers.dot(ones(numbers.size)) if numbers.ndim == 1 else np.add.reduce(numbers, axis=-1)


@lru_cache(maxsize=64)
def constant(number: float) -> Array:
    """A cached array () of a number: multiplying an array by it is a third faster than by a float."""
    return read_only(np.array(number))


@lru_cache(maxsize=64)
def ones(size: int) -> Array:
    """A cached vector of ones."""
    return read_only(np.ones(size))


@lru_cache(maxsize=64)
def zeros(size: int) -> Array:
    """A cached vector of zeros."""
    return read_only(np.zeros(size))


def rows(per_trial: Array) -> Array:
    """Reshape a vector per trial (..., d) to broadcast over the rows of (..., n, d)."""
    return per_trial if per_trial.ndim == 1 else per_trial[..., None, :]


def maximum(a: PerTrial, b: PerTrial) -> PerTrial:
    """The larger of two numbers per trial (...,)."""
    return (b if b > a else a) if a.ndim == 0 else np.maximum(a, b)


def minimum(a: PerTrial, b: float) -> PerTrial:
    """The smaller of numbers per trial (...,) and b."""
    return (b if b < a else a) if a.ndim == 0 else np.minimum(a, b)


def nearest_integers(x: Array) -> Array:
    """Integers nearest to x (...), the upper one of two: unlike the even one, it does not depend on where 0 is."""
    rounded = np.rint(x)
    return rounded + (x - rounded == 0.5)


def as_number(mask: Mask) -> PerTrial:
    """1.0 where the mask (...) is true and 0.0 elsewhere."""
    return np.float64(mask) if mask.ndim else ONE if mask else ZERO


def all_trials(mask: Mask) -> bool:
    """Whether the mask is true in every trial."""
    return mask is np.True_ or (mask.ndim > 0 and bool(mask.all()))


def any_trial(mask: Mask) -> bool:
    """Whether the mask is true in at least one trial."""
    return bool(mask) if mask.ndim == 0 else bool(mask.any())


@lru_cache(maxsize=64)
def _field_readers(cls: type[DataclassInstance]) -> tuple[Callable[[object], object], ...]:
    """One function per field of a dataclass that returns the field of an instance."""
    return tuple(attrgetter(field.name) for field in fields(cls))


def _map_arrays(function: Callable[..., object], tree: T, *others: object) -> T:
    """Apply a function to each array of nested tuples and dataclasses, and to those at its place in the others."""
    if isinstance(tree, np.ndarray | np.generic):
        result = function(tree, *others)
    elif isinstance(tree, tuple):
        trees = cast("tuple[tuple[object, ...], ...]", (tree, *others))
        result = tuple(_map_arrays(function, *parts) for parts in zip(*trees, strict=True))
    elif is_dataclass(tree) and not isinstance(tree, type):
        create: Callable[..., object] = type(tree)
        trees = (tree, *others)
        result = create(*(_map_arrays(function, *map(read, trees)) for read in _field_readers(type(tree))))
    else:
        return tree
    return cast(T, result)


def select_trials(mask: NDArray[np.bool_], tree: T) -> T:
    """Select the trials of a batch where the mask (k,) is true, in all arrays of nested tuples and dataclasses."""

    def keep(array: Array) -> Array:
        return array[mask] if array.ndim else array

    return _map_arrays(keep, tree)


def select(mask: Mask, new: T, old: T) -> T:
    """Take `new` where the mask (...) is true and `old` elsewhere, in all arrays of nested tuples and dataclasses."""

    def choose(new: Array, old: Array) -> Array:
        return np.where(mask.reshape(mask.shape + (1,) * (new.ndim - mask.ndim)), new, old)[()]

    return _map_arrays(choose, new, old)
