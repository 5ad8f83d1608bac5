"""What `sublevel.curvature` returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import OnError
from sublevel.hessian import report
from sublevel.hessian.calls import Calls, calls_for
from sublevel.hessian.profile import STEPS, Profile, profiled
from sublevel.hessian.profile_intervals import ProfileIntervals, profile_intervals
from sublevel.plots import curvature
from sublevel.run.diagnosis import Finding
from sublevel.run.search_space import shift_where
from sublevel.validation import as_budget, short_repr

HARMLESS = frozenset({"at_bound", "better_point", "failures"})
"""Findings that leave the numbers of the free variables as good as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """The minimum, its curvature, and how sure that is. d variables, k of them free (neither fixed nor at a bound).

    In `hessian`, `gradient` and their errors NaN stands for what belongs to a variable that is not free, in `hess_inv` and what follows
    from it 0: such a variable does not vary. Where f has no curvature to invert, `hess_inv` is NaN and `problems` says why.
    """

    x: Array  # (d,), the minimum: the lower of the point that was given and the minimum of the fitted quadratic; under noise the latter
    fun: float  # the value there; under noise that of the quadratic
    centre: Array  # (d,), where f was looked at
    gradient: Array  # (d,), at the centre
    gradient_error: Array  # (d,), standard errors
    hessian: Array  # (d, d)
    hessian_error: Array  # (d, d)
    hess_inv: Array  # (d, d)
    hess_inv_error: Array  # (d, d)
    curvatures: Array  # (k,), eigenvalues of the Hessian of the free variables, stiff to sloppy
    curvatures_error: Array  # (k,)
    directions: Array  # (d, k), their directions in columns
    free: NDArray[np.bool_]  # (d,)
    delta_f: float  # rise of f over the region that was looked at
    noise: float  # standard deviation of a value, as far as the quadratic does not explain it
    dof: int  # degrees of freedom of that
    lack: float  # largest relative change of a curvature between half the radius and the radius: what is not quadratic, and noise
    nfev: int
    kind: str | None = None
    n_residuals: int | None = None  # number of residuals, for kind="least_squares"
    problems: tuple[Finding, ...] = ()
    names: tuple[str, ...] = ()
    box: tuple[Array, Array] = (np.array(-np.inf), np.array(np.inf))  # (d,) each
    is_log: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))  # (d,), variables that are log-scaled
    is_noisy: bool = False  # whether f returned different values at the same point
    calls: Calls | None = field(default=None, repr=False)  # how to evaluate f; None after pickling

    @property
    def success(self) -> bool:
        """Whether nothing stands against taking `hess_inv` at its word."""
        return not {problem.name for problem in self.problems} - HARMLESS

    @property
    def correlation(self) -> Array:
        """Correlations (d, d) of the variables in `hess_inv`; 0 for those that are not free, 1 on the diagonal."""
        deviations = np.sqrt(np.diagonal(self.hess_inv))
        safe = np.where(deviations == 0, 1.0, deviations)
        matrix = self.hess_inv / safe / safe[:, None]
        np.fill_diagonal(matrix, np.where(np.isnan(deviations), np.nan, 1.0))
        return matrix

    @property
    def covariance(self) -> Array:
        """Covariance (d, d) of the fitted parameters, 0 for those that are not free."""
        return self._variance * self.hess_inv

    @property
    def stderr(self) -> Array:
        """Standard deviations (d,) of the fitted parameters."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.diagonal(self.covariance))

    def intervals(self, level: float = 0.95, method: str = "hessian", fun: Callable[..., Any] | None = None, **settings: Any) -> Array:
        """Confidence intervals of the parameters.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1.
        method : "hessian" or "profile"
            "hessian" takes f for a quadratic: normal quantiles for a likelihood, Student's t where the variance was estimated. "profile"
            moves one variable at a time while f is minimised over the others, as MINOS does; see `profile_intervals`, which returns more
            than the numbers. An end that is a bound, or that was not found, is named in a warning.
        fun, **settings
            For "profile", as in `profile_intervals`.

        Returns
        -------
        array, shape (d, 2)
            Lower and upper ends. Those of log-scaled variables are positive.
        """
        if method == "profile":
            profiles = self.profile_intervals(level, fun, **settings)
            if profiles.problems:
                warnings.warn("\n".join(map(str, profiles.problems)), stacklevel=2)
            return profiles.intervals
        if method != "hessian":
            raise ValueError(f'`method` must be "hessian" or "profile", got {short_repr(method)}.')
        if fun is not None or settings:
            raise ValueError('`fun` and settings of evaluations belong to method="profile"; method="hessian" evaluates nothing.')
        quantile = self._quantile(level)
        return np.stack([self.shifted(sign * quantile * self.stderr) for sign in (-1.0, 1.0)], axis=-1)

    def profile_intervals(
        self,
        level: float = 0.95,
        fun: Callable[..., Any] | None = None,
        *,
        variables: Any = None,
        maxfevals: float | None = None,
        args: tuple[Any, ...] | None = None,
        vectorized: bool | None = None,
        workers: int | Callable[..., Any] | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> ProfileIntervals:
        """Profile-likelihood intervals: where f, minimised over the other variables, has risen to the level.

        They need no quadratic, may be asymmetric, and do not depend on how a variable is scaled. The curvature serves as a first guess.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1: f rises by half of the squared normal quantile for a likelihood, by s² times the squared
            quantile of Student's t for least squares.
        fun, args, vectorized, workers, timeout, on_error
            The objective and how to call it, by default as `curvature` was told. A curvature that was pickled needs `fun` again. The
            evaluations of all ends are made together, so that `workers` and `vectorized` help.
        variables : names or indices, optional
            Which variables get an interval; all by default.
        maxfevals : int, optional
            Evaluations at most.

        Returns
        -------
        ProfileIntervals

        Raises
        ------
        ValueError
            If f has no `kind`, if the objective is not at hand, if the curvature has no inverse, or if noise is too large.
        """
        quantile = self._quantile(level)
        if not self._variance > 0:
            raise ValueError(f"profile intervals need a residual variance above 0, got {self._variance!r}: the fit is perfect.")
        calls = calls_for(self.calls, fun, args=args, vectorized=vectorized, workers=workers, timeout=timeout, on_error=on_error)
        budget = np.inf if maxfevals is None else as_budget("maxfevals", maxfevals)
        return profile_intervals(self, quantile, level, calls, variables, budget)

    def _quantile(self, level: float) -> float:
        """How many standard deviations an interval reaches."""
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, got {level!r}. 0.95 gives 95 % intervals.")
        return float(ndtri(0.5 + 0.5 * level) if self.n_residuals is None else stdtrit(self._residual_dof, 0.5 + 0.5 * level))

    def shifted(self, steps: Array) -> Array:
        """The user's points (..., d) at steps (..., d) from `x`: straight on, and in ln x for log-scaled variables, which stay positive."""
        return shift_where(self.is_log, self.x, steps / np.where(self.is_log, self.x, 1.0))

    @property
    def _residual_dof(self) -> int:
        return (self.n_residuals or 0) - int(np.count_nonzero(self.free))

    @property
    def _variance(self) -> float:
        """What `hess_inv` is to be multiplied with to be a covariance of parameters."""
        if self.kind == "nll":
            return 1.0
        if self.kind == "least_squares":
            return 2.0 * self.fun / self._residual_dof
        raise ValueError(
            'what a rise of f means for the parameters depends on what f is: say kind="nll" for a negative log-likelihood, or '
            'kind="least_squares" and n_residuals=n for a sum of n squared residuals. `hess_inv` is there without it.'
        )

    @property
    def unit_rise(self) -> float:
        """The rise of f at one standard deviation if f has a kind; delta_f if not."""
        return self.delta_f if self.kind is None else 0.5 * self._variance

    def profile(
        self,
        fun: Callable[..., Any] | None = None,
        *,
        steps: Any = STEPS,
        tolerance: float = 0.1,
        args: tuple[Any, ...] | None = None,
        vectorized: bool | None = None,
        workers: int | Callable[..., Any] | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> Profile:
        """How far the quadratic holds: `fun` along each principal direction, against what the quadratic says.

        `steps` are taken to both sides, in units in which the quadratic rises by `unit_rise`: one standard deviation if f has a kind. The
        quadratic holds as far as the two rises differ by no more than `tolerance`. It costs 2 evaluations for each step and direction.
        Log-scaled variables are stepped in ln x. `fun` and how to call it default to what `curvature` was given.
        """
        calls = calls_for(self.calls, fun, args=args, vectorized=vectorized, workers=workers, timeout=timeout, on_error=on_error)
        mainly = tuple(report.main_parts(self, i) for i in range(self.curvatures.size))
        return profiled(self, calls, steps, tolerance, mainly)

    def summary(self) -> str:
        """One page of text: parameters, spectrum, correlations, and what to mind."""
        return report.summary(self)

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw parameters, spectrum, correlations and ellipses, into `file` if there is one. Returns the matplotlib Figure.

        Its ``axes`` have the labels "parameters", "spectrum", "correlations" and, for up to four pairs of variables, "ellipse".
        """
        return curvature.overview(self, file)

    __str__ = summary

    def __repr__(self) -> str:
        """The minimum and its errors; `summary()` says more."""
        return report.short_summary(self).text()

    def _repr_html_(self) -> str:
        """The minimum and its errors, for notebooks."""
        return report.short_summary(self).html()
