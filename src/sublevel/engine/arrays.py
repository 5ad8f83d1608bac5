"""Arrays with leading batch axes: the last axes are ours, the leading ones (...) are independent trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Float array; docstrings give its shape, e.g. (..., n, d)."""
Mask = NDArray[np.bool_] | np.bool_
"""One truth value per trial, shape (...)."""
T = TypeVar("T")
PerTrial = Any
"""One number per trial, shape (...): a NumPy scalar for a single run."""


@dataclass_transform(frozen_default=True)
def value_class(cls: type[T]) -> type[T]:
    """A dataclass that is frozen for readers and the type checker.

    At run time it is a plain slotted class: freezing costs half a microsecond for each value made, and a step makes eight.
    """
    return dataclass(slots=True)(cls)


class Noise(Protocol):
    """Where randomness comes from: a NumPy generator, or one stream per trial of a batch."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array: ...
    def random(self, size: tuple[int, ...], /) -> Array: ...


@dataclass(frozen=True, slots=True)
class Streams:
    """One generator per trial, so that trial k of a batch draws what trial k alone would draw."""

    generators: tuple[np.random.Generator, ...]

    @classmethod
    def spawn(cls, seed: int | Sequence[int] | np.random.SeedSequence, trials: int) -> Streams:
        """`trials` independent streams from one seed tree."""
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
    """Normals in orthogonal frames ±Q·r: each row is N(0, I), and the rows of a frame share their length and sum up to 0.

    Σ zzᵀ over a frame is 2r²·I exactly, so that at a C that fits the noise of a natural gradient cancels within each frame, where that of
    independent points has to be averaged out.
    """

    generator: np.random.Generator

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Rows (..., n, d) of ⌈n/2d⌉ independent frames, the last of them cut off where n ends."""
        *batch, n, d = size
        shape = (*batch, -(-n // (2 * d)))
        q, r = np.linalg.qr(self.generator.standard_normal((*shape, d, d)))
        signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)  # makes Q uniform over all rotations and reflections
        half = q * signs[..., None, :] * np.sqrt(self.generator.chisquare(d, shape))[..., None, None]
        return np.concatenate([half, -half], axis=-2).reshape(*batch, -1, d)[..., :n, :]

    def random(self, size: tuple[int, ...], /) -> Array:
        """Uniforms on [0, 1), independent."""
        return self.generator.random(size)


def read_only(array: Array) -> Array:
    """The array itself, read-only from now on."""
    array.setflags(write=False)
    return array


def expand_trailing(per_trial: PerTrial, axes: int) -> Any:
    """Numbers per trial (...,) with `axes` trailing axes of length 1, ready to multiply arrays; a single number as it is."""
    return per_trial if per_trial.ndim == 0 else per_trial.reshape(per_trial.shape + (1,) * axes)


def total(numbers: Array) -> PerTrial:
    """Sum over the last axis (..., n); one run's n numbers by a dot product, which starts three times faster than a reduction."""
    return numbers.dot(ones(numbers.size)) if numbers.ndim == 1 else np.add.reduce(numbers, axis=-1)


def all_finite(numbers: Array) -> Any:
    """Where all of the numbers along the last axis (..., n) are finite."""
    if numbers.ndim > 1:
        return np.isfinite(np.add.reduce(numbers, axis=-1))
    return numbers.dot(_zeros(numbers.size)) == 0.0  # inf·0 and NaN·0 are NaN


@lru_cache(maxsize=64)
def constant(number: float) -> Array:
    """A number as an array (), made once: it multiplies arrays a third faster."""
    return read_only(np.array(number))


@lru_cache(maxsize=64)
def ones(size: int) -> Array:
    """A vector of ones, made once."""
    return read_only(np.ones(size))


@lru_cache(maxsize=64)
def _zeros(size: int) -> Array:
    return read_only(np.zeros(size))


def rows(per_trial: Array) -> Array:
    """A vector per trial (..., d) that broadcasts over the rows of (..., n, d)."""
    return per_trial if per_trial.ndim == 1 else per_trial[..., None, :]


def maximum(a: PerTrial, b: PerTrial) -> PerTrial:
    """The larger of two numbers per trial (...,)."""
    return max(a, b) if a.ndim == 0 else np.maximum(a, b)


def minimum(a: PerTrial, b: float) -> PerTrial:
    """Numbers per trial (...,), but no more than b."""
    return min(a, b) if a.ndim == 0 else np.minimum(a, b)


def as_number(mask: Any) -> PerTrial:
    """1 where the mask (...) holds and 0 elsewhere."""
    return np.float64(mask)


def all_trials(mask: Any) -> bool:
    """True if the mask holds in every trial (a plain truth value for a single run)."""
    return mask is np.True_ or (mask.ndim > 0 and bool(mask.all()))


def any_trial(mask: Any) -> bool:
    """True if the mask holds in some trial."""
    return bool(mask) if mask.ndim == 0 else bool(mask.any())


@lru_cache(maxsize=64)
def _field_readers(cls: type[Any]) -> tuple[Callable[[Any], Any], ...]:
    """One function per field of a dataclass that returns the field of an instance."""
    return tuple(attrgetter(field.name) for field in fields(cls))


def select_trials(mask: NDArray[np.bool_], tree: T) -> T:
    """The trials of a batch where the mask (k,) holds, through tuples and dataclasses down to the arrays."""
    if isinstance(tree, np.ndarray):
        return cast(Any, tree)[mask]
    if isinstance(tree, tuple):
        return cast(T, tuple(select_trials(mask, part) for part in cast(Any, tree)))
    if is_dataclass(tree):
        return type(tree)(*(select_trials(mask, read(tree)) for read in _field_readers(type(tree))))
    return tree


def select(mask: Mask, new: Any, old: Any) -> Any:
    """`new` where the mask (...) holds and `old` elsewhere, through tuples and dataclasses down to the arrays."""
    if isinstance(new, np.ndarray | np.generic):
        array = cast(Array, new)
        return np.where(mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim)), array, old)[()]
    if isinstance(new, tuple):
        return tuple(select(mask, *pair) for pair in zip(cast(Any, new), old, strict=True))
    if is_dataclass(new):
        return type(cast(Any, new))(*(select(mask, read(new), read(old)) for read in _field_readers(type(new))))
    return new
