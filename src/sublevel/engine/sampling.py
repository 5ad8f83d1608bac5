"""How the whitened points of a sample are drawn: independently, or so that part of their noise cancels.

Each point alone is N(0, I), whatever the sampling is; only the points of a sample depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sublevel.engine.arrays import Array, Noise, read_only, value_class
from sublevel.engine.linalg import orthogonal_rows

FEW = 64
"""Number of points up to which a Python list finds pairs faster than NumPy."""
SMALL = 1 << 13
"""Number of products up to which a matrix product mirrors points faster than two copies."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """A rule for the dependence of the points of a sample.

    Orthogonal points have independent lengths and orthogonal directions, in blocks of d. A mirrored sample is made of
    pairs z, −z; the last of an odd number of points has no partner. Brockhoff et al., PPSN 2010; Wang, Emmerich & Bäck,
    PPSN 2014 and Evolutionary Computation 27, 2019.
    """

    orthogonal: bool = False
    mirrored: bool = False

    def of(self, noise: Noise) -> Noise:
        """A source of random numbers that draws samples by this rule."""
        return DependentNoise(noise, self) if self.orthogonal or self.mirrored else noise

    def draw(self, noise: Noise, size: tuple[int, ...]) -> Array:
        """Whitened points (..., n, d); of a mirrored sample the pairs are neighbours."""
        n = size[-2]
        z = noise.standard_normal((*size[:-2], (n + 1) // 2, size[-1]) if self.mirrored else size)
        if self.orthogonal:
            z = orthogonal_rows(z)
        return mirror(z, n) if self.mirrored else z


@value_class
class DependentNoise:
    """Random numbers whose normal vectors depend on each other as a sampling says."""

    noise: Noise
    sampling: Sampling

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """The points (..., n, d) of a sample."""
        return self.sampling.draw(self.noise, size)

    def random(self, size: tuple[int, ...], /) -> Array:
        """Uniforms on [0, 1), independent."""
        return self.noise.random(size)


def known_pairs(noise: Noise, size: int) -> int:
    """Mirrored pairs among the points of a sample of this size, as they are drawn."""
    return size // 2 if isinstance(noise, DependentNoise) and noise.sampling.mirrored else 0


INDEPENDENT = Sampling()
SAMPLINGS = {
    "independent": INDEPENDENT,
    "orthogonal": Sampling(orthogonal=True),
    "mirrored": Sampling(mirrored=True),
    "mirrored-orthogonal": Sampling(orthogonal=True, mirrored=True),
}
"""The samplings by name."""


def sampling_name(sampling: Sampling) -> str:
    """The name of a sampling."""
    return next(name for name, other in SAMPLINGS.items() if other == sampling)


def mirror(half: Array, n: int) -> Array:
    """The first n of the points z₁, −z₁, z₂, −z₂, … (..., n, d) of a half (..., ⌈n/2⌉, d)."""
    if half.ndim == 2 and n * half.size <= SMALL:  # each sum has one term besides zeros and is exact
        return signs_of_pairs(n).dot(half)
    z = np.empty((*half.shape[:-2], n, half.shape[-1]))
    z[..., 0::2, :] = half
    np.negative(half[..., : n // 2, :], out=z[..., 1::2, :])
    return z


@lru_cache(maxsize=64)
def signs_of_pairs(n: int) -> Array:
    """The matrix (n, ⌈n/2⌉) that makes pairs of their first points, cached and read-only."""
    signs = np.zeros((n, (n + 1) // 2))
    signs[np.arange(n), np.arange(n) // 2] = 1.0 - 2.0 * (np.arange(n) % 2)
    return read_only(signs)


def exact_pairs(z: Array) -> Array:
    """Points (n, d), in which points that are mirror images to rounding, in any order, are so to the last bit."""
    squares = np.vecdot(z, z)
    order = np.argsort(squares)
    one, other = order[:-1], order[1:]
    sums = z[one] + z[other]
    is_pair = np.vecdot(sums, sums) <= 1e-12 * squares[other]
    z = z.copy()
    z[other[is_pair]] = -z[one[is_pair]]
    return z


def count_pairs(squares: Array) -> int:
    """Mirrored pairs among points with these ‖z‖² (..., n), in any order; of a batch, the least number of a trial.

    Pairs have equal squares to the last bit, other points of a continuous distribution have not. Points that were
    replaced after sampling have no partner; three or more equal squares are points that were moved to one place.
    """
    if squares.ndim == 1 and squares.size <= FEW:  # pairs as they were drawn, found in a tenth of the time
        numbers = squares.tolist()
        first, second = numbers[0::2], numbers[1::2]
        if first[: len(second)] == second and len(set(first)) == len(first):
            return len(second)
    return count_equal(squares)


def count_equal(squares: Array) -> int:
    """Numbers that occur exactly twice among (..., n); of a batch, the least count of a trial."""
    ordered = np.sort(squares, axis=-1)
    equal = ordered[..., 1:] == ordered[..., :-1]
    only = equal.copy()
    only[..., 1:] &= ~equal[..., :-1]
    only[..., :-1] &= ~equal[..., 1:]
    return int(np.min(np.count_nonzero(only, axis=-1)))
