"""The result of `sublevel.shape_from_ranks`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.rank_shape.average import ShapeAverage
from sublevel.run.diagnosis import Finding
from sublevel.summaries import Summary, counted, short_array


@dataclass(frozen=True, slots=True, eq=False)
class RankShape:
    """Inverse Hessian up to a factor, with errors. Of d variables k are free (neither fixed nor at a bound).

    The determinant over the free variables is 1, because ranks do not depend on the units of f. Entries of variables
    that are not free are NaN in `hessian` and 0 in `hess_inv`, as in a `Curvature`.

    Attributes
    ----------
    x : array, shape (d,)
        Average mean of the search: the minimum, as estimated from ranks.
    root : array, shape (d, k)
        Root of `hess_inv`.
    free : array of bool, shape (d,)
        Which variables are free.
    names : tuple of str
        Names of the variables.
    scale : float
        Factor by which the search distribution was enlarged.
    signal : float
        Rank correlation of f and the distance from the minimum; 1 for a quadratic without noise.
    iterations, popsize, nfev : int
        Number of iterations, points per iteration, and points in total.
    comparisons : int
        Number of comparisons, if `fun` compares points.
    problems : tuple of Finding
        Reasons not to trust the shape.
    """

    x: Array
    root: Array
    free: NDArray[np.bool_]
    names: tuple[str, ...] = field(repr=False)
    average: ShapeAverage | None = field(default=None, repr=False)  # None for k = 1, which has only one shape
    scale: float = 1.0
    signal: float = 1.0
    iterations: int = 0
    popsize: int = 0
    nfev: int = 0
    comparisons: int = 0
    problems: tuple[Finding, ...] = ()

    @property
    def success(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def hess_inv(self) -> Array:
        """The inverse Hessian (d, d) up to a factor."""
        return self.root @ self.root.T

    @property
    def hess_inv_error(self) -> Array:
        """Standard errors (d, d) of its entries."""
        c, k = self.hess_inv, self.root.shape[1]
        variances = np.diagonal(c)
        return self.error * np.sqrt(variances * variances[:, None] + (1.0 - 2.0 / k) * np.square(c))

    @property
    def hessian(self) -> Array:
        """The Hessian (d, d) up to a factor; NaN for variables that are not free."""
        inverse = np.linalg.inv(self.root[self.free])
        full = np.full((self.free.size, self.free.size), np.nan)
        full[np.ix_(self.free, self.free)] = inverse.T @ inverse
        return full

    @property
    def curvatures(self) -> Array:
        """Eigenvalues (k,) of the Hessian, largest (stiff) to smallest (sloppy); only their ratios are meaningful."""
        return 1.0 / np.square(self._singular[1])

    @property
    def curvatures_error(self) -> Array:
        """Standard errors (k,) of the curvatures, valid if these differ by more than their errors."""
        return self.curvatures * self.error * np.sqrt(2.0 - 2.0 / self.root.shape[1])

    @property
    def directions(self) -> Array:
        """The directions (d, k) of the curvatures, in columns."""
        return self._singular[0]

    @property
    def _singular(self) -> tuple[Array, Array]:
        """Left singular vectors (d, k) and singular values (k,) of the root, the smallest first."""
        vectors, values, _ = np.linalg.svd(self.root, full_matrices=False)
        return vectors[:, ::-1], values[::-1]

    @property
    def correlation(self) -> Array:
        """Correlations (d, d) of the variables in `hess_inv`; 0 for variables that are not free, 1 on the diagonal."""
        deviations = np.sqrt(np.vecdot(self.root, self.root))
        rows = self.root / np.where(deviations == 0, 1.0, deviations)[:, None]
        matrix = rows @ rows.T
        np.fill_diagonal(matrix, 1.0)
        return matrix

    @property
    def correlation_error(self) -> Array:
        """Standard errors (d, d) of the correlations: s·(1 − r²)."""
        return self.error * (1.0 - np.square(self.correlation))

    @property
    def error(self) -> float:
        """Standard error s of an off-diagonal entry where f is round; that of a relative curvature is about s√2."""
        return 0.0 if self.average is None else self.average.error

    def accuracy(self, level: float = 0.95) -> float:
        """Upper bound on Cond(hess_inv·H), from the variation between iterations.

        Parameters
        ----------
        level : float, optional
            Confidence level, between 0 and 1.

        Returns
        -------
        float
            1 for the exact shape.
        """
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, got {level!r}. 0.95 is 95 % confidence.")
        return 1.0 if self.average is None else self.average.spread(level)

    def summary(self) -> str:
        """Summarise spectrum, directions, accuracy and warnings.

        Returns
        -------
        str
            A few lines of text.
        """
        seen = (
            f"{self.nfev} points" if not self.comparisons else f"{self.comparisons} comparisons of {self.nfev} points"
        )
        curvatures, errors = self.curvatures, self.curvatures_error
        unit = curvatures[-1]
        lines = [
            f"shape from ranks: {self.iterations} iterations of {self.popsize}, {seen}",
            f"Cond(hess_inv·H) ≤ {self.accuracy():.4g} with 95 % confidence",
            "curvature relative to the smallest, and its direction:",
        ]
        for curvature, error, direction in zip(curvatures / unit, errors / unit, self.directions.T, strict=True):
            lines.append(f"  {curvature:10.4g} ± {error:8.2g}   {_describe_direction(direction, self.names)}")
        return "\n".join(lines + [f"! {problem}" for problem in self.problems])

    __str__ = summary

    def __repr__(self) -> str:
        """The shape in a few lines; see `summary()` for more."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """The shape in a few lines, for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        facts = {
            "x": short_array(self.x),
            "curvatures": f"{short_array(self.curvatures / self.curvatures[-1])}, relative to the smallest",
            "accuracy": f"Cond(hess_inv·H) ≤ {self.accuracy():.4g} with 95 % confidence",
        }
        title = f"RankShape: {counted(self.free.size, 'variable')}, {self.nfev} evaluations"
        return Summary(title, facts, notes=[str(problem) for problem in self.problems])


def _describe_direction(direction: Array, names: tuple[str, ...], most: int = 4) -> str:
    """The largest components of a direction (d,), the first one positive."""
    order = np.argsort(-np.abs(direction), kind="stable")[:most]
    sign = 1.0 if direction[order[0]] >= 0 else -1.0
    return " ".join(f"{sign * direction[i]:+.2f}·{names[i]}" for i in order if abs(direction[i]) >= 0.005)
