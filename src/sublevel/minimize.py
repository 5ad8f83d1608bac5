"""Minimise a function that can only be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from sublevel import stop
from sublevel.door import checked_count
from sublevel.evaluate import EvaluationFailed, Evaluator
from sublevel.method import Method
from sublevel.optimizer import Optimizer
from sublevel.record import History

EVALUATIONS_PER_DIMENSION = 100_000
"""Default budget: enough for `ngd` to learn a condition number of 1e6 in 20 dimensions."""


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    sigma0: Any,
    *,
    method: str | Method = "ngd",
    popsize: int | None = None,
    cov0: Any = None,
    rng: Any = None,
    maxfevals: int | None = None,
    maxiter: int | None = None,
    ftarget: float | None = None,
    vectorized: bool = False,
    callback: Callable[[OptimizeResult], Any] | None = None,
) -> OptimizeResult:
    """Minimise `fun` from N(x0, sigma0²·cov0).

    Parameters
    ----------
    fun
        Objective: a point (d,) to a number, or (popsize, d) to (popsize,) if `vectorized`. NaN counts as worse than +inf.
    x0, sigma0
        Where to start and the standard deviation there: about a third of the range in which the optimum is expected. One number or one per variable.
    method
        A name ("ngd", "rank-mu", "pbil", ... with "sep-" for a diagonal and "iso-" for a single variance) or a Method such as ``sl.ngd(c_cov=0.5)``.
    popsize, cov0
        Points per generation (default 4 + 3 ln d), and the shape of the initial covariance (default the identity).
    rng
        Seed, numpy Generator or None.
    maxfevals, maxiter, ftarget
        Budgets, and a value that is good enough.
    callback
        Called after each generation with an OptimizeResult; returning True or raising StopIteration stops.

    Returns
    -------
    OptimizeResult
        ``x, fun, nfev, nit, success, status, message``, the search distribution's ``mean`` and ``cov``, ``reasons`` and ``history``.
        If `fun` raises, its exception arrives with the point in ``sublevel_x`` and this result in ``sublevel_result``.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1, ftarget=1e-10)
    >>> result.success
    True
    """
    if not callable(fun):
        raise TypeError(f"`fun` must be callable, got {fun!r}.")
    optimizer = Optimizer(x0, sigma0, method=method, popsize=popsize, cov0=cov0, rng=rng)
    budget = _Budget(optimizer, maxfevals, maxiter, ftarget)
    evaluate, history = Evaluator(fun, vectorized), History()
    reasons: dict[str, float] = {}
    while not reasons:
        points = optimizer.ask()
        try:
            values = evaluate(points)
        except EvaluationFailed as failure:
            raise _with_result(failure, optimizer, points, history) from failure.cause.__cause__
        optimizer.tell(points, values)
        history.add(optimizer.nfev, optimizer.best_fun, float(values.min()), float(optimizer.deviations.max()))
        reasons = budget.reasons() or _asked_to_stop(callback, optimizer, history)
    return _result(optimizer, reasons, history)


class _Budget:
    """What the user allows."""

    def __init__(self, optimizer: Optimizer, maxfevals: int | None, maxiter: int | None, ftarget: float | None) -> None:
        default = EVALUATIONS_PER_DIMENSION * optimizer.theta.dimension
        self.optimizer = optimizer
        self.maxfevals = default if maxfevals is None else checked_count("maxfevals", maxfevals)
        self.maxiter = None if maxiter is None else checked_count("maxiter", maxiter)
        self.ftarget = _checked_target(ftarget)

    def reasons(self) -> dict[str, float]:
        """Reasons to stop: the target, then convergence or trouble, then the budgets. A generation that would exceed `maxfevals` is not begun."""
        done = self.optimizer
        if done.best_fun <= self.ftarget:
            return {"ftarget": done.best_fun}
        reasons = done.stop()
        if not reasons and done.nfev + done.popsize > self.maxfevals:
            reasons = {"maxfevals": float(self.maxfevals)}
        if not reasons and self.maxiter is not None and done.nit >= self.maxiter:
            reasons = {"maxiter": float(self.maxiter)}
        return reasons


def _checked_target(ftarget: float | None) -> float:
    if ftarget is None:
        return -np.inf
    try:
        target = float(ftarget)
    except (TypeError, ValueError):
        raise TypeError(f"`ftarget` must be a number, got {ftarget!r}.") from None
    if np.isnan(target):
        raise ValueError("`ftarget` must be a number, got NaN. Leave it out if there is no target.")
    return target


def _asked_to_stop(callback: Callable[[OptimizeResult], Any] | None, optimizer: Optimizer, history: History) -> dict[str, float]:
    if callback is None:
        return {}
    try:
        wants_stop = callback(_result(optimizer, {}, history))
    except StopIteration:
        wants_stop = True
    return {"callback": float(optimizer.nit)} if wants_stop else {}


def _result(optimizer: Optimizer, reasons: dict[str, float], history: History) -> OptimizeResult:
    result = OptimizeResult()
    reason = next(iter(reasons), None)
    result.update(
        x=optimizer.best_x,
        fun=optimizer.best_fun,
        nfev=optimizer.nfev,
        nit=optimizer.nit,
        success=reason in stop.SUCCESSES and bool(np.isfinite(optimizer.best_fun)),
        status=-1 if reason is None else stop.STATUS[reason],
        message=stop.message(reasons),
        reasons=reasons,
        mean=optimizer.mean,
        cov=optimizer.cov,
        history=history,
    )
    return result


def _with_result(failure: EvaluationFailed, optimizer: Optimizer, points: Any, history: History) -> BaseException:
    """The objective's own exception, with what was done so far attached."""
    if failure.values.size:
        optimizer.note(points, failure.values)
    failure.cause.sublevel_result = _result(optimizer, {}, history)  # type: ignore[attr-defined]
    return failure.cause
