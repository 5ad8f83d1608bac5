"""The numbers of a curvature, and what follows from them without evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from sublevel.engine.arrays import Array
from sublevel.hessian.calls import ObjectiveCalls
from sublevel.run.diagnosis import Finding
from sublevel.run.inside import KnownConstraints
from sublevel.run.parameters import Space
from sublevel.run.search_space import shift_where

HARMLESS = frozenset({"at_bound", "better_point", "failures"})
"""Findings that do not affect the numbers of the free variables."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerPoint:
    """An evaluated point at which f is lower than at the minimum: minimise again from there."""

    x: Array  # (d,)
    fun: float


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The fields of a `Curvature`, which documents them."""

    x: Array
    fun: float
    centre: Array
    gradient: Array
    gradient_error: Array
    hessian: Array
    hessian_error: Array
    hess_inv: Array
    hess_inv_error: Array
    curvatures: Array
    curvatures_error: Array
    directions: Array
    free: NDArray[np.bool_]
    delta_f: float
    noise: float
    dof: int
    lack: float
    nfev: int
    kind: str | None = None
    n_residuals: int | None = None
    problems: tuple[Finding, ...] = ()
    lower_point: LowerPoint | None = None
    names: tuple[str, ...] = ()
    box: tuple[Array, Array] = (np.array(-np.inf), np.array(np.inf))  # (d,) each
    is_log: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))  # (d,), log-scaled variables
    is_noisy: bool = False  # whether f returned different values at the same point
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    space: Space | None = None  # of named parameters, with which f is called
    constraints: KnownConstraints | None = None  # inside which f is evaluated
    calls: ObjectiveCalls | None = field(default=None, repr=False)  # how to evaluate f; None after pickling

    @property
    def success(self) -> bool:
        """Whether `hess_inv` can be trusted: no problem affects it."""
        return not {problem.name for problem in self.problems} - HARMLESS

    @property
    def correlation(self) -> Array:
        """Correlations (d, d) of the variables in `hess_inv`; 0 for variables that are not free, 1 on the diagonal."""
        deviations = np.sqrt(np.diagonal(self.hess_inv))
        safe = np.where(deviations == 0, 1.0, deviations)
        matrix = self.hess_inv / safe / safe[:, None]
        np.fill_diagonal(matrix, np.where(np.isnan(deviations), np.nan, 1.0))
        return matrix

    @property
    def covariance(self) -> Array:
        """Covariance (d, d) of the fitted parameters, 0 for variables that are not free."""
        return self._variance * self.hess_inv

    @property
    def stderr(self) -> Array:
        """Standard deviations (d,) of the fitted parameters."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.diagonal(self.covariance))

    def _quantile(self, level: float) -> float:
        """Half-width of an interval in standard deviations."""
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, got {level!r}. 0.95 gives 95 % intervals.")
        probability = 0.5 + 0.5 * level
        return float(ndtri(probability) if self.n_residuals is None else stdtrit(self._residual_dof, probability))

    def wald_intervals(self, level: float = 0.95) -> Array:
        """Confidence intervals (d, 2) that assume a quadratic, within the bounds; of log-scaled variables positive."""
        return np.clip(self._unbounded_intervals(level), *self._bounds)

    def ends_at_bound(self, level: float = 0.95) -> NDArray[np.bool_]:
        """Which ends (d, 2) of `intervals(level)` are bounds, beyond which the quadratic would extend.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1.

        Returns
        -------
        array of bool, shape (d, 2)
        """
        intervals, (lower, upper) = self._unbounded_intervals(level), self._bounds
        return (intervals < lower) | (intervals > upper)

    def _unbounded_intervals(self, level: float) -> Array:
        steps = self._quantile(level) * self.stderr
        return np.stack([self.shift(-steps), self.shift(steps)], axis=-1)

    @property
    def _bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds, in the shape of intervals."""
        lower, upper = (np.broadcast_to(bound, self.x.shape)[:, None] for bound in self.box)
        return lower, upper

    def shift(self, steps: Array) -> Array:
        """Points (..., d) at steps (..., d) from `x`; log-scaled variables are shifted in ln x and stay positive."""
        return shift_where(self.is_log, self.x, steps / np.where(self.is_log, self.x, 1.0))

    @property
    def _residual_dof(self) -> int:
        return (self.n_residuals or 0) - int(np.count_nonzero(self.free))

    @property
    def _variance(self) -> float:
        """Factor between `hess_inv` and the covariance of the parameters."""
        if self.kind == "nll":
            return 1.0
        if self.kind == "least_squares":
            return 2.0 * self.fun / self._residual_dof
        raise ValueError(
            'standard errors depend on what f is: pass kind="nll" to `curvature` for a negative log-likelihood, or '
            'kind="least_squares" and n_residuals=n for a sum of n squared residuals. `hess_inv` does not need it.'
        )

    @property
    def unit_rise(self) -> float:
        """The rise of f at one standard deviation if f has a kind, else `delta_f`."""
        return self.delta_f if self.kind is None else 0.5 * self._variance
