"""The stationary shape of C: a Wishart matrix, with a real number of degrees of freedom, divided by its trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from sublevel.engine.arrays import Array, read_only

SEED = 1928
"""Of the numbers that integrals over shapes are averages over; Wishart's paper is of that year."""
ENTRIES, FEWEST, MOST = 2_000_000, 256, 65_536
"""Entries of all matrices in such an average, and the range of their number, which is a power of 2."""


def power_of_two(number: float) -> int:
    """The largest power of 2 that is not larger, and at least 1."""
    return 2 ** int(log2(max(number, 1)))


def shape_count(d: int) -> int:
    """The number of matrices of size d in an average."""
    return power_of_two(np.clip(ENTRIES // d**2, FEWEST, MOST))


def low_discrepancy_points(count: int, dimension: int, seed: int) -> Array:
    """Points of Sobol's sequence (count, dimension) in the unit cube, for a power of 2, shifted at random modulo 1.

    Every point is uniformly distributed, so that averages have no bias; they converge faster than those over random
    numbers. Beyond the dimensions for which the sequence is known the points are random numbers.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    if dimension > qmc.Sobol.MAXDIM:
        return rng.random((count, dimension))
    points = qmc.Sobol(dimension, scramble=False).random_base2(int(log2(count)))
    return (points + rng.random(dimension)) % 1.0


@dataclass(frozen=True, slots=True)
class Shapes:
    """Spectra of Wishart matrices of one size for all degrees of freedom ν > d − 1, from the same numbers.

    Bartlett's decomposition (Proc. R. Soc. Edinb. 53, 1933): W = LLᵀ has independent normals below the diagonal of L,
    and roots of χ² with ν, ν − 1, ... degrees of freedom on it. Because the numbers are fixed, averages are smooth in
    ν.
    """

    below: Array  # (k, d, d), strictly lower triangular
    levels: Array  # (k, d), uniform on (0, 1)
    normals: Array  # (k, d), independent of the shapes, for vectors

    @classmethod
    def draw(cls, d: int) -> Shapes:
        """A number of matrices that depends on d alone."""
        count = shape_count(d)
        points = low_discrepancy_points(count, d * (d + 3) // 2, SEED)
        levels, normals, entries = np.split(points, [d, 2 * d], axis=-1)
        below = np.zeros((count, d, d))
        below[(slice(None), *np.tril_indices(d, -1))] = ndtri(entries)
        return cls(read_only(below), read_only(levels), read_only(ndtri(normals)))

    def first(self, count: int) -> Shapes:
        """The first of them, but not fewer than `FEWEST`."""
        part = slice(max(count, FEWEST))
        return Shapes(self.below[part], self.levels[part], self.normals[part])

    def eigenvalues(self, freedom: float) -> Array:
        """Ascending eigenvalues (k, d) with the mean 1."""
        d = self.levels.shape[-1]
        root = self.below.copy()
        index = np.arange(d, dtype=np.intp)
        root[:, index, index] = np.sqrt(2.0 * gammaincinv((freedom - index) / 2.0, self.levels))
        values = np.linalg.eigvalsh(root @ root.mT)
        return values / np.mean(values, axis=-1, keepdims=True)


@lru_cache(maxsize=64)
def shapes(d: int) -> Shapes:
    """`Shapes.draw`, once for each d."""
    return Shapes.draw(d)


def mean_condition(eigenvalues: Array) -> float:
    """The mean of λ₁/λ_d over spectra (k, d)."""
    return float(np.mean(eigenvalues[:, -1] / eigenvalues[:, 0]))


def anisotropy(eigenvalues: Array) -> float:
    """The mean of tr X(X − Y)/d over spectra (k, d), for I + X ∝ C and I + Y ∝ C⁻¹ with the trace 0 of X and Y.

    It is near E 2 tr X²/d for small X, and falls like 1/ν.
    """
    squares: Array = np.mean(np.square(eigenvalues - 1.0), axis=-1)  # tr X²/d
    inverses: Array = np.mean(1.0 / eigenvalues, axis=-1)  # −tr XY/d = 1 − 1/this
    return float(np.mean(squares + 1.0 - 1.0 / inverses))
