"""The result of `sublevel.curvature`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import OnError
from sublevel.hessian import report
from sublevel.hessian.calls import resolve_calls
from sublevel.hessian.estimate import Estimate
from sublevel.hessian.profile import STEPS, Profile, evaluate_profile
from sublevel.hessian.profile_intervals import ProfileIntervals, Variables, profile_intervals
from sublevel.plots import curvature
from sublevel.run.arguments import FileName, Workers
from sublevel.run.constraints import ConstraintsLike
from sublevel.run.inside import given_or_known
from sublevel.validation import as_budget, short_repr

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class Curvature(Estimate):
    """A minimum and its curvature, with errors. Of d variables k are free: real, neither fixed nor at a bound.

    Entries of variables that are not free are NaN in `hessian`, `gradient` and their errors, and 0 in `hess_inv` and
    all that follows from it. `hess_inv` is NaN where f has no curvature to invert; `problems` gives the reason.

    Attributes
    ----------
    x : array, shape (d,)
        The minimum: the lower of the given point and the minimum of the fitted quadratic; under noise the latter.
    fun : float
        The value at `x`; under noise that of the quadratic.
    centre : array, shape (d,)
        The centre of the region in which f was evaluated.
    gradient, gradient_error : array, shape (d,)
        Gradient at the centre and its standard errors.
    hessian, hessian_error, hess_inv, hess_inv_error : array, shape (d, d)
        Hessian, its inverse, and their standard errors.
    curvatures, curvatures_error : array, shape (k,)
        Eigenvalues of the Hessian of the free variables, largest (stiff) to smallest (sloppy), and their standard
        errors.
    directions : array, shape (d, k)
        The corresponding unit eigenvectors, in columns.
    free : array of bool, shape (d,)
        Which variables are free.
    delta_f : float
        Rise of f over the region in which f was evaluated; less than requested where bounds do not allow more.
    noise : float
        Standard deviation of the residuals of the quadratic.
    dof : int
        Degrees of freedom of `noise`.
    lack : float
        Lack of fit: the largest relative change of a curvature between half the radius and the radius, including noise.
    nfev : int
        Number of evaluations.
    kind, n_residuals
        As passed to `curvature`.
    problems : tuple of Finding
        Reasons not to trust the numbers, and remarks.
    lower_point : LowerPoint or None
        The lowest evaluated point, with its `x` and `fun`, if f is lower there than at the minimum: minimise again from
        there.
    names : tuple of str
        Names of the variables.
    held : dict
        Values of the integers and choices by name, as strings. They are held at the best point, and all numbers are
        conditional on them.
    space : Space or None
        The space of named parameters, if one was searched; the objective is then called with named parameters.
    constraints : KnownConstraints or None
        The constraints of the search, if it had some. None of them is active, and f is not evaluated outside.
    """

    def intervals(
        self, level: float = 0.95, method: str = "hessian", fun: Callable[..., object] | None = None, **settings: Any
    ) -> Array:
        """Confidence intervals of the parameters.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1.
        method : "hessian" or "profile"
            "hessian" assumes that f is quadratic: normal quantiles for a likelihood, Student's t if the variance was
            estimated. "profile" varies one variable at a time while f is minimised over the others, like MINOS; see
            `profile_intervals`, which returns more details. A warning names ends that are bounds or were not found.
        fun, **settings
            For "profile", as in `profile_intervals`.

        Returns
        -------
        array, shape (d, 2)
            Lower and upper ends, within the bounds. Those of log-scaled variables are positive. `ends_at_bound(level)`
            marks the ends of "hessian" that are bounds.

        Examples
        --------
        >>> import sublevel as sl
        >>> nll = lambda x: 0.5 * (x[0] - 1) ** 2 + 2 * (x[1] - 2) ** 2
        >>> found = sl.curvature(nll, sl.minimize(nll, [0, 0], 0.5, rng=1), kind="nll")
        >>> found.intervals(0.95).round(2)
        array([[-0.96,  2.96],
               [ 1.02,  2.98]])
        """
        if method == "profile":
            profiles = self.profile_intervals(level, fun, **settings)
            if profiles.problems:
                warnings.warn("\n".join(map(str, profiles.problems)), stacklevel=2)
            return profiles.intervals
        if method != "hessian":
            raise ValueError(f'`method` must be "hessian" or "profile", got {short_repr(method)}.')
        if fun is not None or settings:
            raise ValueError('`fun` and evaluation settings are only valid with method="profile".')
        return self.wald_intervals(level)

    def profile_intervals(
        self,
        level: float = 0.95,
        fun: Callable[..., object] | None = None,
        *,
        variables: Variables = None,
        maxfevals: float | None = None,
        args: object = None,
        constraints: ConstraintsLike | None = None,
        vectorized: bool | None = None,
        workers: Workers | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> ProfileIntervals:
        """Profile-likelihood intervals: where f, minimised over the other variables, rises to the confidence level.

        They do not assume a quadratic, may be asymmetric, and do not depend on the scale of a variable.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1: f rises by half of the squared normal quantile for a likelihood, by s²
            times the squared quantile of Student's t for least squares.
        fun, args, vectorized, workers, timeout, on_error
            The objective and how to evaluate it, by default as passed to `curvature`. A pickled curvature needs `fun`
            again, and so does one from a file. The ends are computed in parallel, so that `workers` and `vectorized`
            help.
        constraints : optional
            As for `sublevel.curvature`; to be given again with a pickled or stored curvature if they are functions.
        variables : names or indices, optional
            Which variables get an interval; all by default.
        maxfevals : int, optional
            Maximum number of evaluations.

        Returns
        -------
        ProfileIntervals

        Raises
        ------
        ValueError
            If f has no `kind`, the objective is not available, the Hessian has no inverse, noise is too large, or a
            constraint is violated where f is needed.
        """
        quantile, variance = self._quantile(level), self._variance
        if not variance > 0:
            raise ValueError(f"profile intervals need a residual variance above 0, got {variance!r}: a perfect fit.")
        how = {"vectorized": vectorized, "workers": workers, "timeout": timeout, "on_error": on_error}
        known = partial(given_or_known, constraints, self.constraints, self.x, self.space)
        calls = resolve_calls(self.calls, fun, self.space, known, args=args, **how)
        budget = np.inf if maxfevals is None else as_budget("maxfevals", maxfevals)
        return profile_intervals(self, quantile, level, calls, variables, budget)

    def profile(
        self,
        fun: Callable[..., object] | None = None,
        *,
        steps: ArrayLike = STEPS,
        tolerance: float = 0.1,
        args: object = None,
        constraints: ConstraintsLike | None = None,
        vectorized: bool | None = None,
        workers: Workers | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> Profile:
        """How far the quadratic holds: values of `fun` along each principal direction, compared with the quadratic.

        Parameters
        ----------
        steps : sequence of float
            Steps taken to both sides, in units of the step at which the quadratic rises by `unit_rise` (one standard
            deviation if f has a kind). Log-scaled variables are stepped in ln x. Each step costs 2 evaluations per
            direction.
        tolerance : float
            Largest relative difference of the two rises where the quadratic holds.
        fun, args, vectorized, workers, timeout, on_error
            The objective and how to evaluate it, by default as passed to `curvature`.
        constraints : optional
            As for `sublevel.curvature`; to be given again with a pickled or stored curvature if they are functions.

        Returns
        -------
        Profile
        """
        how = {"vectorized": vectorized, "workers": workers, "timeout": timeout, "on_error": on_error}
        known = partial(given_or_known, constraints, self.constraints, self.x, self.space)
        calls = resolve_calls(self.calls, fun, self.space, known, args=args, **how)
        return evaluate_profile(self, calls, steps, tolerance)

    def summary(self) -> str:
        """Summarise parameters, spectrum, correlations and warnings.

        Returns
        -------
        str
            About one page of text.
        """
        return report.summary(self)

    def plot(self, file: FileName | None = None) -> Figure:
        """Draw parameters, spectrum, correlations and confidence ellipses.

        Parameters
        ----------
        file : path, optional
            Where to save the figure.

        Returns
        -------
        matplotlib.figure.Figure
            Its ``axes`` are labelled "parameters", "spectrum", "correlations" and, for up to four pairs of variables,
            "ellipse".
        """
        return curvature.overview(self, file)

    __str__ = summary

    def __repr__(self) -> str:
        """The minimum and its errors; see `summary()` for more."""
        return report.short_summary(self).text()

    def _repr_html_(self) -> str:
        """The minimum and its errors, for notebooks."""
        return report.short_summary(self).html()
