"""The stationary shape of C: a Wishart matrix, with a real number of degrees of freedom, divided by its trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from sublevel.engine.arrays import Array, read_only

SEED = 1928
"""Of the numbers that integrals over shapes are averages over; Wishart's paper is of that year."""
ENTRIES, FEWEST, MOST = 100_000, 256, 4096
"""Entries of all matrices in such an average, and the range of their number."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Spectra of Wishart matrices of one size for all degrees of freedom ν > d − 1, from the same random numbers.

    Bartlett's decomposition (Proc. R. Soc. Edinb. 53, 1933): W = LLᵀ has independent normals below the diagonal of L,
    and roots of χ² with ν, ν − 1, ... degrees of freedom on it. Because the numbers are fixed, averages are smooth in
    ν.
    """

    below: Array  # (k, d, d), strictly lower triangular
    levels: Array  # (k, d), uniform on (0, 1)

    @classmethod
    def draw(cls, d: int) -> Shapes:
        """A number of matrices that depends on d alone."""
        rng = np.random.Generator(np.random.SFC64(SEED))
        count = int(np.clip(ENTRIES // d**2, FEWEST, MOST))
        return cls(read_only(np.tril(rng.standard_normal((count, d, d)), -1)), read_only(rng.random((count, d))))

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
