"""Minimise a function that can only be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from sublevel import stop
from sublevel.arrays import Array
from sublevel.curvature.values import curvature as curvature_at
from sublevel.diagnosis import diagnosed
from sublevel.door import checked_budget, checked_callable, checked_flag, checked_target, checked_workers
from sublevel.evaluate import Evaluator, evaluator, tell_about, with_args
from sublevel.families import Bernoulli
from sublevel.method import Method
from sublevel.optimizer import Optimizer
from sublevel.progress import Progress
from sublevel.record import History
from sublevel.result import Result

EVALUATIONS_PER_DIMENSION = 100_000
"""Default budget: enough for `ngd` to learn a condition number of 1e6 in 20 dimensions."""
GENERATIONS = 1000
"""Generations the default budget has room for at least, however large the sample is."""


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    sigma0: Any,
    *,
    args: tuple[Any, ...] = (),
    method: str | Method = "cma",
    popsize: int | None = None,
    cov0: Any = None,
    bounds: Any = None,
    log_scaled: Any = False,
    restarts: Any = None,
    rng: Any = None,
    maxfevals: float | None = None,
    maxiter: float | None = None,
    ftarget: float | None = None,
    vectorized: bool = False,
    workers: int | Callable[..., Any] = 1,
    callback: Callable[[OptimizeResult], Any] | None = None,
    progress: bool = False,
    curvature: bool = False,
) -> Result:
    """Minimise `fun` from N(x0, sigma0²·cov0), using only the order of its values.

    fun
        Objective: ``fun(x, *args)`` of a point (d,), or of (popsize, d) to (popsize,) if `vectorized`. NaN counts as worse than +inf.
    x0, sigma0, cov0, popsize
        Where to start; the standard deviation there, one number or one per variable: about a third of the range to search; the shape of
        the initial covariance (default the identity); and points per generation (default 4 + 3 ln d).
    method
        A name: "cma" (the default), "xnes", "ngd", "rank-mu" or "pbil", with "sep-" for a diagonal covariance, "iso-" for a single
        variance and "lra-" for adapted learning rates before it; or a Method such as ``sl.ngd(c_cov=0.5)``.
    bounds, log_scaled
        A (low, high) pair per variable or `scipy.optimize.Bounds`: no point outside is ever evaluated, and equal bounds fix a variable.
        Variables that are `log_scaled` are positive and searched by their logarithm; their `sigma0` is that of ln x.
    restarts
        None, a number, "ipop", "bipop" or a strategy: what to do when a run ends before the budget does. Runs after the first begin
        anywhere in a finite box, else where the initial distribution puts them, or at ``x0(rng)`` if `x0` is a function.
    rng, maxfevals, maxiter, ftarget, progress, curvature
        Seed, numpy Generator or None; budgets; a value that is good enough; whether to show a live line on stderr; and whether to add
        ``hess_inv`` and ``curvature`` in the end by `sublevel.curvature`: about (d + 1)(d + 2) more evaluations, beyond `maxfevals`.
    workers, callback
        A number of processes, −1 for one on each core, or a function like `map`; as in SciPy, it wins over `vectorized`.
        The callback gets an OptimizeResult after each generation, and stops by returning True or raising StopIteration.

    Returns an OptimizeResult with ``x, fun, nfev, nit, success, status, message, reasons, restarts, mean, cov, history, diagnosis`` and
    ``plot()``. Ctrl-C returns the best so far. If `fun` raises, its exception arrives with ``sublevel_x`` and ``sublevel_result``.

    >>> import sublevel as sl
    >>> sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1, ftarget=1e-10).success
    True
    """
    _check_functions(fun, callback)
    shape: dict[str, Any] = {"cov0": cov0, "bounds": bounds, "log_scaled": log_scaled}
    optimizer = Optimizer(x0, sigma0, method=method, popsize=popsize, restarts=restarts, rng=rng, **shape)
    wants_curvature = _checked_curvature(curvature, optimizer)
    limits = _Limits.checked(optimizer, maxfevals, maxiter, ftarget)
    evaluate = evaluator(with_args(fun, args), checked_flag("vectorized", vectorized), checked_workers(workers))
    result = _Run(optimizer, evaluate, limits, callback, _checked_progress(progress, maxfevals), History(optimizer)).to_the_end()
    return _with_curvature(result, fun, args, vectorized, workers) if wants_curvature else result


def _check_functions(fun: Any, callback: Any) -> None:
    checked_callable("fun", fun)
    if callback is not None:
        checked_callable("callback", callback)


def _checked_progress(progress: Any, maxfevals: Any) -> Progress | None:
    return Progress(maxfevals) if checked_flag("progress", progress) else None


def _checked_curvature(curvature: Any, optimizer: Optimizer) -> bool:
    wanted = checked_flag("curvature", curvature)
    if wanted and isinstance(optimizer.theta, Bernoulli):
        raise ValueError("a method on bits has no `curvature`, got curvature=True.")
    return wanted


def _with_curvature(result: Result, fun: Callable[..., Any], args: tuple[Any, ...], vectorized: bool, workers: Any) -> Result:
    """The result with its inverse Hessian; both are None if there is no minimum to look at or Ctrl-C ended the look."""
    result.update(curvature=None, hess_inv=None)
    if "interrupted" in result.reasons or not np.isfinite(result.fun):
        return result
    try:
        found = curvature_at(fun, result, args=args, vectorized=vectorized, workers=workers)
    except KeyboardInterrupt:
        return result
    except BaseException as error:
        tell_about(error, sublevel_result=result)
        raise
    result.update(curvature=found, hess_inv=found.hess_inv, nfev=result.nfev + found.nfev)
    return result


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the user allows, and what is good enough."""

    maxfevals: float
    maxiter: float
    ftarget: float

    @classmethod
    def checked(cls, optimizer: Optimizer, maxfevals: Any, maxiter: Any, ftarget: Any) -> _Limits:
        """The limits, with room for one generation at least."""
        default = max(EVALUATIONS_PER_DIMENSION * optimizer.theta.dimension, GENERATIONS * optimizer.popsize)
        limits = cls(
            maxfevals=default if maxfevals is None else checked_budget("maxfevals", maxfevals),
            maxiter=np.inf if maxiter is None else checked_budget("maxiter", maxiter),
            ftarget=checked_target(ftarget),
        )
        if limits.maxfevals < optimizer.popsize:
            raise ValueError(
                f"`maxfevals` must allow one generation of `popsize` = {optimizer.popsize} evaluations, got {maxfevals!r}. "
                "Give a larger budget or a smaller `popsize`."
            )
        return limits

    def reasons(self, done: Optimizer) -> dict[str, float]:
        """Reasons to stop: the target, convergence or trouble, the budgets. No generation is begun that would exceed `maxfevals`."""
        if done.best_fun == -np.inf:
            return {"unbounded": done.best_fun}
        if done.best_fun <= self.ftarget:
            return {"ftarget": done.best_fun}
        reasons = done.stop()
        if not reasons and done.nfev + done.popsize > self.maxfevals:
            reasons = {"maxfevals": self.maxfevals}
        if not reasons and done.nit >= self.maxiter:
            reasons = {"maxiter": self.maxiter}
        return reasons


@dataclass(frozen=True, slots=True)
class _Run:
    """An optimizer with its objective, what it may cost, who wants to know, and what happened so far."""

    optimizer: Optimizer
    evaluate: Evaluator
    limits: _Limits
    callback: Callable[[OptimizeResult], Any] | None
    progress: Progress | None
    history: History

    def to_the_end(self) -> Result:
        """Generations until there is a reason to stop. Ctrl-C is one; any other exception takes with it what was done so far."""
        reasons: dict[str, float] = {}
        try:
            while not reasons:
                reasons = self.generation()
        except KeyboardInterrupt:
            reasons = self.interrupted
        except BaseException as error:
            tell_about(error, sublevel_result=self.final(self.interrupted))
            raise
        finally:
            self.evaluate.close()
        return self.final(reasons)

    def generation(self) -> dict[str, float]:
        """One generation, and the reasons to stop after it."""
        optimizer = self.optimizer
        points = optimizer.ask()
        optimizer.tell(points, self.values(points))
        self.history.see(optimizer)
        if self.progress is not None:
            self.progress.see(optimizer)
        reasons = self.limits.reasons(optimizer)
        if self.callback is not None and _wants_stop(self.callback, self.result(reasons)):
            reasons = reasons or {"callback": float(optimizer.nit)}
        return reasons

    def values(self, points: Array) -> Array:
        """Values (n,) of points (n, d). If the objective raises, those that came before are counted."""
        values, known = np.empty(len(points)), np.zeros(len(points), dtype=bool)
        try:
            for index, arrived in self.evaluate(points):
                values[index] = arrived
                known[index] = True
        except BaseException:
            self.optimizer.note(points[known], values[known])
            raise
        return values

    @property
    def interrupted(self) -> dict[str, float]:
        """The reason of a run that something ended from outside."""
        return {"interrupted": self.optimizer.nit + 1.0}

    def final(self, reasons: dict[str, float]) -> Result:
        """The result of a run that is over, with what its history tells."""
        self.history.end(self.optimizer, reasons)
        if self.progress is not None:
            self.progress.end(self.optimizer)
        result = self.result(reasons)
        result.update(diagnosis=diagnosed(result))
        return result

    def result(self, reasons: dict[str, float]) -> Result:
        """All there is to say at this point, in arrays of the user's own."""
        optimizer, reason = self.optimizer, next(iter(reasons), None)
        result = Result()
        result.update(
            x=optimizer.best_x.copy(),
            fun=optimizer.best_fun,
            nfev=optimizer.nfev,
            nit=optimizer.nit,
            success=reason in stop.SUCCESSES and bool(np.isfinite(optimizer.best_fun)),
            status=-1 if reason is None else stop.STATUS[reason],
            message=stop.message(reasons),
            reasons=reasons,
            restarts=optimizer.restarts,
            mean=optimizer.mean.copy(),
            cov=optimizer.cov,
            history=self.history,
        )
        return result


def _wants_stop(callback: Callable[[OptimizeResult], Any], result: OptimizeResult) -> bool:
    try:
        return bool(callback(result))
    except StopIteration:
        return True
