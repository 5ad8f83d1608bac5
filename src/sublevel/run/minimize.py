"""The loop of a run: generations until there is a reason for stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.method import Method
from sublevel.engine.ordering import ConstraintHandling
from sublevel.evaluation.evaluators import (
    RETURNED_NAN,
    Evaluator,
    SerialEvaluator,
    VectorizedEvaluator,
    make_evaluator,
    unwrap_stop_iteration,
)
from sublevel.evaluation.failures import Failure, Failures, OnError, annotate_exception
from sublevel.evaluation.objective import AtPoints, bind_args, name_parameters
from sublevel.evaluation.this_process import SigtermAsInterrupt, available_cores
from sublevel.run.arguments import Box, FileName, Objective, RestartRule, Seed, StartingPoint, Workers
from sublevel.run.constraints import TOLERANCE, ConstraintsLike, as_batched, with_constraints
from sublevel.run.history import History
from sublevel.run.initial import as_space
from sublevel.run.noisy_answer import COMPARISON, LEAST, RESERVED_TIME, Ledger, count_candidates, count_reevaluations
from sublevel.run.optimizer import Optimizer
from sublevel.run.progress import Progress
from sublevel.validation import (
    as_args,
    as_budget,
    as_callback,
    as_flag,
    as_on_error,
    as_seconds,
    as_target,
    as_timeout,
    as_workers,
    default_method,
    explain_keywords,
    validate_callable,
    validate_memory,
)

if TYPE_CHECKING:
    from sublevel.run.result import Result
    from sublevel.store.recorder import Recorder
    from sublevel.store.settings import Target
    from sublevel.surrogate.known import Known

EVALUATIONS_PER_DIMENSION = 100_000
"""Default budget: enough for `ngd` to learn a condition number of 1e6 in 20 dimensions."""
GENERATIONS = 1000
"""Generations the default budget has room for at least, however large the sample is."""


class NamedCallback(Protocol):
    """A callback as SciPy names its argument."""

    def __call__(self, *, intermediate_result: Result) -> object: ...


Callback: TypeAlias = "Callable[[Result], object] | NamedCallback"
"""Called with the result so far after each generation; True or StopIteration ends the run."""


@explain_keywords
def minimize(
    fun: Objective,
    x0: StartingPoint,
    sigma0: ArrayLike | None = None,
    *,
    args: object = (),
    method: str | Method | None = None,
    popsize: int | None = None,
    cov0: ArrayLike | None = None,
    bounds: Box | None = None,
    log_scaled: ArrayLike = False,
    integrality: ArrayLike | None = None,
    restarts: RestartRule | None = None,
    rng: Seed | None = None,
    maxfevals: float | None = None,
    maxiter: float | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolfun: float | None = None,
    tolx: float | None = None,
    rtolfun: float | None = None,
    noise: bool = False,
    noise_floor: bool = True,
    names: Sequence[str] | None = None,
    evaluate_x0: bool | None = None,
    vectorized: bool = False,
    workers: Workers = 1,
    timeout: float | None = None,
    on_error: OnError = "raise",
    callback: Callback | None = None,
    progress: bool = False,
    store: FileName | Target | None = None,
    curvature: bool = False,
    kind: str | None = None,
    n_residuals: int | None = None,
    constraints: ConstraintsLike | None = None,
    constraint_tol: float = TOLERANCE,
    constraint_handling: ConstraintHandling | None = None,
    surrogate: bool | int = False,
    known: Known | None = None,
) -> Result:
    """Minimise a function of real, integer or named parameters, using only the order of its values.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns the value at a point (d,), or the values (n,) of points (n, d) if `vectorized`. NaN is
        worse than +inf. With a `Space`, x is a dict of the parameters by name, or of lists of them if `vectorized`.
    x0 : array_like, callable, Space or dataclass type
        Starting point (d,), or a function ``x0(rng)`` that draws one for each run; or a space of named parameters with
        their own start, bounds and scales. A dataclass with annotated fields may be passed in place of a
        space; `fun` is then called with an instance.
    sigma0 : float or array_like, optional
        Initial standard deviation, one for all variables or one per variable: about a third of the range to search.
        Optional with a `Space`, and if all `bounds` are finite: it is then a third of the range of each variable, of ln
        x where it is log-scaled.
    args : tuple, optional
        Additional arguments of `fun`.
    method : str or Method, optional
        "cma" (default), "xnes", "ngd", "rank-mu" or "pbil"; with the prefix "sep-" for a diagonal covariance, "iso-"
        for a single variance, "lra-" for adaptive learning rates; "late-lra-cma", whose rates adapt gradually
        (default with `noise`, and "lra-cma" if `maxfevals` allows 600 evaluations per variable); or a Method such as
        ``sl.cma(step_size="tpa")``.
    popsize : int, optional
        Points per generation; 4 + ⌊3 ln d⌋ by default, twice as many with a `surrogate`.
    cov0 : array_like, optional
        Shape of the initial covariance (d, d); the identity by default.
    bounds : sequence or scipy.optimize.Bounds, optional
        A (low, high) pair for all variables or one per variable, None for an open end. Equal bounds fix a variable.
        `fun` is never called outside the bounds.
    log_scaled : bool or array_like of bool, optional
        Positive variables that are searched on a log scale; their `sigma0` refers to ln x.
    integrality : bool or array_like, optional
        1 or True for each variable that is an integer, as in SciPy. `fun` is called with whole numbers.
    restarts : int, str or strategy, optional
        Number of IPOP restarts, "ipop", "bipop", "auto" or a strategy object. Later runs start uniformly in a finite
        box, else at a point drawn from the initial distribution, or at ``x0(rng)``. With "auto", single variables of
        the best point are changed in between.
    rng : int or numpy.random.Generator, optional
        Seed or generator.
    maxfevals, maxiter : float, optional
        Maximum number of evaluations, and of generations. If fewer evaluations are left than a generation has points,
        only its first points are evaluated, and the search distribution is not updated. With `noise`, and if `popsize`
        is given with `vectorized`, no such part is evaluated, and some evaluations are left.
    maxtime : float, optional
        Maximum time in seconds. No evaluation starts later, and worker processes are stopped.
    ftarget : float, optional
        Stop when a value of at most `ftarget` is found.
    tolfun, rtolfun, tolx : float, optional
        A run has converged when further evaluations would lower f by no more than `tolfun`, or `rtolfun` times its
        value, judged by the better halves of a few recent samples; or when no standard deviation exceeds `tolx` (of ln
        x for log-scaled variables). Off by default: a run then ends where values are equal to rounding, and f may be
        transformed by any increasing function.
    noise : bool, optional
        Whether `fun` is noisy, so that its lowest value is not a reliable one. ``result.x`` is then the mean of the
        search distribution or the average of the five points with the lowest values, whichever seems better, and
        ``result.fun`` the average of re-evaluations there, with the standard error ``result.fun_error``. The number of
        re-evaluations is a twentieth of that of the search, but at least 10 and at most 100; they count towards
        `maxfevals`. `ftarget` is compared with the average of the medians of recent generations. The default method
        averages the noise.
    noise_floor : bool, optional
        Whether a run ends when it has reached the noise of `fun`, such as the tolerance of an ODE solver: all standard
        deviations are below 0.001 of their initial values, recent values do not fall, and their order no longer depends
        on the distance from the mean.
    names : sequence of str, optional
        Names of the variables for messages, plots, reports and files.
    evaluate_x0 : bool, optional
        Whether `x0` is evaluated with the first generation, so that the result is never worse than the start. If no
        point of six generations is as good, the search begins again at `x0` with a tenth of the standard deviations,
        at most three times, unless there are constraints or discrete variables. True by default, unless `x0` is a
        function, `fun` is noisy, the method is binary, or `popsize` is given with `vectorized`.
    vectorized : bool, optional
        Whether `fun` takes all points of a generation at once.
    workers : int, Executor, Client or callable, optional
        Number of processes (−1: one per core), an Executor, a Dask Client, or a function like `map`; takes precedence
        over `vectorized`.
    timeout : float, optional
        Seconds that one evaluation may take.
    on_error : {"raise", "nan", "retry"}, optional
        Whether an exception of `fun` ends the run, counts as NaN, or counts as NaN after a second attempt.
    callback : callable, optional
        Called with a Result after each generation; returning True or raising StopIteration ends the run.
    progress : bool, optional
        Whether to show a progress line.
    store : path, optional
        A new file for every evaluation and the state of the run; `sublevel.resume` continues from it.
    curvature : bool, optional
        Whether to add ``hess_inv`` and ``curvature``, using about (d + 1)(d + 2) further evaluations that do not
        count towards `maxfevals`; d is the number of real variables, and discrete ones are held at the best point.
    kind : {"nll", "least_squares"}, optional
        With ``curvature=True``: what f is, which defines standard errors and intervals. "nll" is a negative
        log-likelihood, "least_squares" a sum of squared residuals. See `sublevel.curvature`.
    n_residuals : int, optional
        Number of squared residuals, required with kind="least_squares".
    constraints : NonlinearConstraint, LinearConstraint, dict, int or a sequence of these, optional
        Constraints of SciPy, dicts as for SLSQP (``{"type": "ineq", "fun": c}`` means c(x) ≥ 0), or the number m of
        constraints if ``fun(x)`` returns (f, g) with g (m,); they are satisfied where g ≤ 0. Constraint functions are
        called with the same argument as `fun`; if `vectorized`, they return values (n, k) for points (n, d). `fun` is
        never called where a linear inequality or a constraint with ``keep_feasible=True`` is violated; the other
        constraints are evaluated together with `fun`.
    constraint_tol : float, optional
        Largest violation with which a result counts as feasible, and tolerance of equalities.
    constraint_handling : {"augmented-lagrangian", "rank-lagrangian", "lexicographic"}, optional
        How points that violate constraints are compared. The first one is the default; the others use only comparisons.
    surrogate : bool or int, optional
        Whether to save evaluations of an expensive `fun` with a quadratic model of the order of its values: only some
        points of a generation are evaluated. An integer is the number of points that are evaluated at a time; by
        default the number of workers.
    known : tuple or StoredRun, optional
        Points (n, d) and values (n,) of `fun` that are already known, for the first model of a `surrogate`: a pair, or
        a run that was loaded. They do not count as evaluations, and the best point is not among them.

    Returns
    -------
    Result
        A `scipy.optimize.OptimizeResult` with ``x``, ``fun``, ``nfev``, ``nit``, ``success``, ``status``, ``message``,
        ``reasons``, ``restarts``, ``mean``, ``std``, ``cov``, ``distribution``, ``history``, ``failures``,
        ``diagnosis``, ``space``, ``params``, ``curvature``, ``hess_inv`` and ``plot()``; with constraints also
        ``maxcv``, ``constr`` and ``multipliers``, with `noise` ``fun_error`` and ``fun_values``, and with a surrogate
        ``surrogate``. Ctrl-C and SIGTERM return the best point so far.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid.
    Exception
        Exceptions raised by `fun` propagate with the attributes ``sublevel_x`` and ``sublevel_result``, unless
        `on_error` is "nan" or "retry".

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1, ftarget=1e-10)
    >>> result.success
    True
    """
    validate_callable("fun", fun)
    method = _method_for(x0, maxfevals, noise) if method is None else method
    optimizer = Optimizer(
        x0,
        sigma0,
        method=method,
        popsize=popsize,
        cov0=cov0,
        bounds=bounds,
        log_scaled=log_scaled,
        integrality=integrality,
        restarts=restarts,
        rng=rng,
        tolfun=tolfun,
        tolx=tolx,
        rtolfun=rtolfun,
        noise=noise,
        noise_floor=noise_floor,
        names=names,
        constraints=as_batched(constraints, vectorized, workers),
        constraint_tol=constraint_tol,
        constraint_handling=constraint_handling,
        surrogate=evaluations_at_a_time(surrogate, workers),
        known=known,
    )
    validate_memory(optimizer.popsize, optimizer.theta.dimension)
    of_curvature = _checked_curvature(curvature, kind, n_residuals, optimizer)
    observer, show = as_callback(callback), Progress(maxfevals) if as_flag("progress", progress) else None
    how = as_flag("vectorized", vectorized), as_workers(workers), as_timeout(timeout), as_on_error(on_error)
    batch = popsize if how[0] and isinstance(how[1], int) and how[1] == 1 else None
    limits = Limits.checked(optimizer, maxfevals, maxiter, ftarget, maxtime, batch)
    extra = _checked_start(evaluate_x0, optimizer, limits, batch)
    called = bind_args(name_parameters(fun, optimizer.start.parameters), args)
    evaluate = make_evaluator(with_constraints(called, optimizer.constraints), *how, failures := Failures())
    search = Search(optimizer, evaluate, limits, observer, show, History(optimizer), failures, x0=extra)
    with SigtermAsInterrupt():
        if store is not None:
            request = as_args(args), (limits.maxfevals, maxiter, ftarget, maxtime), *how, log_scaled
            search = search.stored(store, method, fun, *request, extra is not None, constraint_handling, batch)
        return _with_curvature(search.run_to_the_end(), AtPoints(called), search.recorder, of_curvature, *how)


def _method_for(x0: object, maxfevals: object, noise: object) -> str:
    """The method if none is named. The budget for each variable is not known with a function that draws x0."""
    space = as_space(x0)
    if callable(x0) and space is None:
        return default_method(as_flag("noise", noise))
    variables = len(space) if space is not None else np.asarray(x0, dtype=object).size
    budget = inf if maxfevals is None else as_budget("maxfevals", maxfevals)
    return default_method(as_flag("noise", noise), budget / max(variables, 1))


def evaluations_at_a_time(surrogate: bool | int, workers: Workers) -> bool | int:
    """The evaluations at a time with a surrogate: the number of workers, unless it is given."""
    if surrogate is not True or not isinstance(workers, int) or workers == 1:
        return surrogate
    return available_cores() if workers == -1 else workers


def _with_curvature(
    result: Result, fun: Callable[..., object], recorder: Recorder | None, meaning: dict[str, Any] | None, *how: object
) -> Result:
    """The result, whose curvature is added to it and to the file of the run if it is wanted.

    `how` is `vectorized`, `workers`, `timeout` and `on_error`.
    """
    if meaning is None:
        return result
    from sublevel.hessian.curvature import add_curvature

    names, file = ("vectorized", "workers", "timeout", "on_error"), None if recorder is None else recorder.path
    add_curvature(result, fun, file, **meaning, **dict(zip(names, how, strict=True)))
    return result


def _checked_curvature(
    curvature: object, kind: str | None, n_residuals: object, optimizer: Optimizer
) -> dict[str, Any] | None:
    """What f means, `kind` and `n_residuals`, if a curvature is wanted, else None."""
    if not as_flag("curvature", curvature):
        if kind is not None or n_residuals is not None:
            raise ValueError(
                "`kind` and `n_residuals` say what f is for the error bars of `curvature=True`, got curvature=False. "
                "Pass curvature=True, or pass them to `sublevel.curvature` after the search."
            )
        return None
    if not optimizer.theta.continuous:
        raise ValueError("binary methods have no curvature, got curvature=True.")
    from sublevel.hessian.curvature import Options
    from sublevel.hessian.frame import check_number_of_variables, check_real_variables

    check_real_variables(optimizer.space)
    check_number_of_variables(optimizer.theta.dimension)
    options, space = Options.from_arguments(None, None, kind, n_residuals), optimizer.space
    size = optimizer.theta.dimension if space is None else int(np.count_nonzero(space.judged))
    if options.n_residuals is not None and options.n_residuals <= size:
        raise ValueError(f"`n_residuals` must exceed the number of real variables, {size}, got {options.n_residuals}.")
    return {"kind": options.kind, "n_residuals": options.n_residuals}


def _checked_start(evaluate_x0: object, optimizer: Optimizer, limits: Limits, batch: int | None) -> Array | None:
    """`x0` (d,) if it is evaluated with the first generation; not by default if `fun` takes a `batch` of points."""
    is_bits, start = not optimizer.theta.continuous, optimizer.start
    if evaluate_x0 is None:
        has_no_value = optimizer.noise or is_bits or start.another is not None or batch is not None
        return None if has_no_value else start.x0
    if not as_flag("evaluate_x0", evaluate_x0):
        return None
    if optimizer.noise:
        raise ValueError(
            "`evaluate_x0` must be left out with noise=True: the answer is a mean, and one noisy value at `x0` cannot "
            "be compared with it."
        )
    if is_bits:
        raise ValueError("binary methods cannot evaluate `x0`, which holds probabilities, got evaluate_x0=True.")
    if limits.is_whole and limits.maxfevals < (least := optimizer.popsize + 1):
        raise ValueError(
            f"`maxfevals` must allow `popsize` + 1 = {least} evaluations with evaluate_x0=True and batches of a fixed "
            f"size, got {limits.maxfevals:.0f}."
        )
    return start.x0


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets and the target value."""

    maxfevals: float
    maxiter: float
    ftarget: float
    maxtime: float = inf  # seconds
    deadline: float = inf  # when they are over, by the monotonic clock
    batch: int | None = None  # points of each call of the objective, if their number is fixed
    is_whole: bool = False  # whether no generation is begun for which there are too few evaluations
    reserved: int = 0  # evaluations that are left for the estimate of a noisy objective, `tries` among them
    tries: int = 0  # evaluations that are left for finding its answer
    reserved_time: float = 0.0  # seconds, likewise

    @classmethod
    def checked(
        cls,
        optimizer: Optimizer,
        maxfevals: object,
        maxiter: object,
        ftarget: object,
        maxtime: object = None,
        batch: int | None = None,
    ) -> Limits:
        """The limits, with room for one generation at least. The time begins now.

        They depend on the sample size of the first run, so that those of a resumed run are the same after restarts.
        Generations are whole if `fun` takes a `batch` of points, or if it is noisy: then the answer is a mean.
        """
        seconds = inf if maxtime is None else as_seconds("maxtime", maxtime)
        popsize = optimizer.first_popsize
        default = max(EVALUATIONS_PER_DIMENSION * optimizer.theta.dimension, GENERATIONS * popsize)
        limits = cls(
            maxfevals=default if maxfevals is None else as_budget("maxfevals", maxfevals),
            maxiter=inf if maxiter is None else as_budget("maxiter", maxiter),
            ftarget=as_target(ftarget),
            maxtime=seconds,
            deadline=time.monotonic() + seconds,
            batch=batch,
            is_whole=optimizer.noise or (batch is not None and optimizer.partial is None),
        )
        if limits.maxfevals < popsize and optimizer.partial is None:
            raise ValueError(
                f"`maxfevals` must allow one generation of `popsize` = {popsize} evaluations, got "
                f"{maxfevals!r}. Give a larger budget or a smaller `popsize`."
            )
        return limits.with_reserve(optimizer) if optimizer.noise else limits

    def with_reserve(self, optimizer: Optimizer) -> Limits:
        """With a part of the evaluations and of the time left for the estimate."""
        unit, popsize = self.batch or 1, optimizer.first_popsize
        has_time = self.maxtime == inf  # for more than the estimate
        has_room = self.batch is None and has_time and self.maxfevals >= popsize + COMPARISON
        compares = has_room and optimizer.run_state.best.lowest is not None
        tries = count_candidates(optimizer.constraints, self.batch, compares)
        room = self.maxfevals - popsize - tries
        least = self.batch or LEAST
        if room < least:
            raise ValueError(
                f"`maxfevals` must allow one generation of `popsize` = {popsize} evaluations and "
                f"{least + tries} re-evaluations with noise=True, got {self.maxfevals:.0f}."
            )
        wanted = count_reevaluations(self.maxfevals, self.batch)
        count = wanted if room >= wanted else int(room // unit) * unit
        seconds = RESERVED_TIME * self.maxtime if self.maxtime < inf else 0.0
        return replace(self, reserved=count + tries, tries=tries, reserved_time=seconds)

    def target(self, done: Optimizer) -> dict[str, float]:
        """The reason for stopping if no better value is needed, else none."""
        best = done.run_state.best.fun
        if not best <= self.ftarget or not done.is_feasible:
            return {}
        return {"unbounded": best} if best == -inf else {"ftarget": best}

    def budget(self, done: Optimizer, earlier: int = 0) -> dict[str, float]:
        """The reason for stopping before the next generation, or before the next evaluation if a part of a generation
        may be evaluated, else none; `earlier` are re-evaluations so far.
        """
        state = done.run_state
        least = state.run.popsize if self.is_whole else 1
        if state.nfev + earlier + least + self.reserved > self.maxfevals:
            return {"maxfevals": self.maxfevals}
        if state.nit >= self.maxiter:
            return {"maxiter": self.maxiter}
        return self.too_late if self.deadline < inf else {}

    @property
    def too_late(self) -> dict[str, float]:
        """The reason for stopping when the time is over, else none."""
        is_over = self.deadline < inf and time.monotonic() >= self.deadline - self.reserved_time
        return {"maxtime": self.maxtime} if is_over else {}

    @property
    def is_over(self) -> bool:
        """Whether the time of the re-evaluations is over, too."""
        return self.deadline < inf and time.monotonic() >= self.deadline


class TimeOver(Exception):
    """`maxtime` is over, in the middle of a generation."""


class EarlyEnd(Exception):
    """There is a reason for stopping in the middle of a generation."""

    def __init__(self, reasons: dict[str, float]) -> None:
        super().__init__()
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class Search:
    """An optimizer with its objective, its limits, its observers and its history."""

    optimizer: Optimizer
    evaluate: Evaluator
    limits: Limits
    callback: Callable[[Result], object] | None
    progress: Progress | None
    history: History
    failures: Failures
    make_generation: Callable[[Optimizer], None] | None = None  # makes a generation elsewhere, as in a sharded run
    recorder: Recorder | None = None
    x0: Array | None = None  # (d,), the start, if it is evaluated with the first generation
    ledger: Ledger = field(default_factory=Ledger)  # re-evaluations of a noisy objective

    def stored(self, store: FileName | Target, *request: Any) -> Search:
        """The search with a recorder into a new file, given the fields of a `RunRequest`."""
        try:
            from sublevel.store.recorder import configuration_row, record_new
            from sublevel.store.settings import RunRequest, Target

            target, given = Target.of(store), RunRequest(*request)
            settings = given.settings(self.optimizer, target.command)
            configuration = configuration_row(settings, given.problem(self.optimizer))
            return replace(self, recorder=record_new(target.path, configuration, self.optimizer, self.history))
        except BaseException:
            self.evaluate.close()
            raise

    def run_to_the_end(self) -> Result:
        """Run generations until a reason for stopping, such as Ctrl-C. Other exceptions carry the result so far."""
        reasons: dict[str, float] = {}
        try:
            try:
                result_maker()  # imports SciPy here, where an interrupt is handled
                reasons, values_of = self.next_run() if self.optimizer.nit else {}, self.fastest_values()
                while not reasons:
                    reasons = self.generation(values_of)
                self.estimate_answer()
            except (TimeOver, EarlyEnd):
                self.estimate_answer()
                raise
            finally:
                self.evaluate.close()
            self.close(reasons, whole=True)
        except (KeyboardInterrupt, TimeOver) as early:
            reasons = reasons or (self.out_of_time() if isinstance(early, TimeOver) else self.interrupted)
            self.close(reasons)
        except EarlyEnd as early:
            reasons = early.reasons
            self.close(reasons)
        except BaseException as error:
            annotate_exception(error, sublevel_result=self.final(self.interrupted))
            from sublevel.store.errors import StoreError

            with suppress(StoreError):  # the first error is the one to report
                self.close(self.interrupted)
            raise
        return self.final(reasons)

    def close(self, reasons: dict[str, float], whole: bool = False) -> None:
        """Close the file, with the state in it if the last generation is `whole`."""
        if self.recorder is not None:
            self.recorder.close(reasons, self.optimizer if whole else None, self.history)

    def generation(self, values_of: Callable[[Array], Array]) -> dict[str, float]:
        """One generation, and the reasons for stopping after it, given a function from points (n, d) to values (n,)."""
        optimizer = self.optimizer
        self.evaluate_and_tell(values_of)
        self.history.record(optimizer)
        if self.recorder is not None:
            self.history.last_median = optimizer.generation_median  # the next run begins without one
        if self.progress is not None:
            self.progress.update(optimizer)
        reasons = self.next_run()
        if self.recorder is not None:
            self.recorder.end_generation(optimizer, self.history)
        if self.callback is not None and _wants_stop(self.callback, self.result(reasons)):
            reasons = reasons or {"callback": float(optimizer.nit)}
        return reasons

    def next_run(self) -> dict[str, float]:
        """The reason for stopping: the target, the end of the last run, or a budget. Starts the next run if needed.

        Evaluations that are stored already are taken first, whatever the target and the budgets are now.
        """
        optimizer, limits, has_stored = self.optimizer, self.limits, self.has_stored_values
        may_suffice = optimizer.run_state.best.fun <= limits.ftarget and not has_stored
        reasons = (limits.target(optimizer) if may_suffice else {}) or optimizer.stop()
        if reasons:
            return reasons
        optimizer.advance()
        return {} if has_stored else self.budget_reason()

    def budget_reason(self) -> dict[str, float]:
        """The reason for stopping before the next evaluation, or the next generation if that must be whole; none if
        the budgets allow it.
        """
        optimizer, nit = self.optimizer, self.optimizer.nit
        # Without the re-evaluations that followed, a run that is resumed after its end ends for the same reason.
        earlier = (self.ledger.count_before(nit + later) if optimizer.noise else 0 for later in (0, 1))
        before, after = (self.limits.budget(optimizer, count) for count in earlier)
        found = before or after
        return found and (optimizer.reason_without_sweep() or found)

    @property
    def has_stored_values(self) -> bool:
        """Whether there are stored evaluations that the search has not taken yet."""
        return self.recorder is not None and self.recorder.has_values

    def room(self, count: int) -> int:
        """How many of the next `count` evaluations may be made, apart from the stored ones."""
        limits, optimizer = self.limits, self.optimizer
        if self.has_stored_values and (limits.target(optimizer) or self.budget_reason()):
            return 0
        return int(max(min(count, limits.maxfevals - optimizer.run_state.nfev), 0))

    def early_end(self) -> EarlyEnd:
        """The end of a search within a generation, after evaluations that are counted already."""
        return EarlyEnd(self.limits.target(self.optimizer) or self.budget_reason())

    def estimate_answer(self) -> None:
        """Estimate a noisy objective at the answer, from values that had no part in its choice."""
        if not self.optimizer.noise or not self.optimizer.nit:
            return
        from sublevel.run.reevaluation import Reevaluation

        parts, limits = (self.optimizer, self.evaluate, self.failures, self.ledger, self.recorder), self.limits
        how = limits.maxfevals, limits.batch, limits.tries, lambda: limits.is_over
        Reevaluation(*parts, *how).estimate_answer()

    def evaluate_and_tell(self, values_of: Callable[[Array], Array]) -> None:
        """Tell the optimizer a generation, or have one made; the first one may have the start before its points."""
        optimizer = self.optimizer
        if self.make_generation is not None:
            self.make_generation(optimizer)
            return
        if optimizer.partial is not None:
            self.evaluate_in_parts()
            return
        state = optimizer.run_state
        start = None if self.x0 is None or state.nit else self.x0
        size = state.run.popsize + (start is not None)
        if (room := self.room(size)) < size:
            self.keep_state()
            values_of = partial(self.first_values, room)
        if self.recorder is not None:
            self.recorder.note_generator(optimizer, is_batch=values_of == self.batch_values and start is None)
        asked = optimizer.ask()
        if start is None:
            values = values_of(asked)
        else:
            points = read_only(np.concatenate([start[None], asked]))
            values = values_of(points)
            self.note(points[:1], values[:1])
            values = values[1:]
        if values.ndim > 1:
            optimizer.tell(asked, values[:, 0], values[:, 1:])
        else:
            optimizer.tell(asked, values)

    def keep_state(self) -> None:
        """Write the state to the file, if there is one, before a generation that may remain incomplete."""
        if self.recorder is not None:
            self.recorder.keep_state(self.optimizer, self.history)

    def first_values(self, room: int, points: Array) -> Array:
        """The values (n,) or rows (n, 1 + k) of points (n, d) for which the limits have `room`. EarlyEnd unless all
        others are stored: the known ones are counted, without a step.

        A run that is resumed with more evaluations begins the generation again and takes these values from the file.
        """
        values, known = self.some_values(points, room)
        if not known.all():
            self.note(points[known], values[known])
            raise self.early_end()
        return values

    def evaluate_in_parts(self) -> None:
        """Tell the optimizer the points of a generation that are worth an evaluation; EarlyEnd if that is enough."""
        optimizer, nit = self.optimizer, self.optimizer.nit
        size = optimizer.popsize + (self.x0 is not None)
        if self.room(size) < size:
            self.keep_state()
        if self.recorder is not None:
            self.recorder.note_generator(optimizer)
            self.recorder.begin_parts(optimizer, int(self.x0 is not None and nit == 0))
        if self.x0 is not None and nit == 0:
            start = read_only(self.x0[None].copy())
            self.note(start, self.values(start))
        while optimizer.nit == nit:
            asked = optimizer.ask()
            optimizer.tell(asked, self.first_values(self.room(len(asked)), asked))
            is_within = optimizer.nit == nit and not self.has_stored_values
            if is_within and (reasons := self.limits.target(optimizer) or self.budget_reason()):
                raise EarlyEnd(reasons)

    def note(self, points: Array, values: Array) -> None:
        """Count evaluations without a step, given their values (n,) or rows (n, 1 + k)."""
        if values.ndim > 1:
            self.optimizer.note(points, values[:, 0], values[:, 1:])
        else:
            self.optimizer.note(points, values)

    @property
    def constraint_values(self) -> int:
        """Number of constraint values k of an evaluation."""
        return 0 if self.optimizer.constraints is None else self.optimizer.constraints.size

    def values(self, points: Array) -> Array:
        """Values (n,) of points (n, d), with constraints rows (n, 1 + k). If the objective raises, those that came
        before are counted.
        """
        return self.some_values(points, len(points))[0]

    def some_values(self, points: Array, count: int) -> tuple[Array, NDArray[np.bool_]]:
        """Values (n,) or rows (n, 1 + k) of points (n, d), and which are known: the first `count` of them. Stored
        values are known as well, and count.
        """
        k = self.constraint_values
        values, known = np.empty((len(points), 1 + k) if k else len(points)), np.zeros(len(points), dtype=bool)
        try:
            if self.recorder is not None:
                self.stored_values(self.recorder, points, values, known, count)
            elif count:
                some = known[:count]
                for index, arrived in self.evaluate(points[:count]):
                    values[:count][index] = arrived
                    some[index] = True
                    self.check_time(some)
        except BaseException as error:
            self.note(points[known], values[known])
            raise unwrap_stop_iteration(error)  # noqa: B904
        return values, known

    def fastest_values(self) -> Callable[[Array], Array]:
        """The function `values`, or a faster one where nothing has to be done between two evaluations."""
        if self.is_batched:
            return self.batch_values
        is_watched = self.constraint_values or self.recorder is not None or self.limits.deadline < inf
        if is_watched or not isinstance(self.evaluate, SerialEvaluator):
            return self.values
        return partial(self.serial_values, self.evaluate)

    @property
    def is_batched(self) -> bool:
        """Whether the values of all points arrive together."""
        return isinstance(self.evaluate, VectorizedEvaluator) and not self.constraint_values

    def batch_values(self, points: Array) -> Array:
        """The values (n,) of points (n, d), which arrive together."""
        recorder, evaluate = self.recorder, self.evaluate
        if not isinstance(evaluate, VectorizedEvaluator) or (recorder is not None and not recorder.expects_batch):
            return self.values(points)
        failures = self.failures.last
        if recorder is not None:
            recorder.begin_batch(self.optimizer)
        began, last = time.perf_counter(), failures[-1] if failures else None
        values = np.empty(len(points))
        values[:] = evaluate.values(points)
        if recorder is not None:
            failure = self.failure_since(last) if failures else None
            recorder.add_batch(self.optimizer, points, values, began, failure)
        return values

    def serial_values(self, evaluate: SerialEvaluator, points: Array) -> Array:
        """The values (n,) of points (n, d), one after another."""
        values: list[float] = []
        try:
            evaluate.append_values(points, values)
        except BaseException:
            self.optimizer.note(points[: len(values)], np.array(values))
            raise
        return np.array(values)

    def stored_values(
        self, recorder: Recorder, points: Array, values: Array, known: NDArray[np.bool_], count: int
    ) -> None:
        """Fill in `count` values of points (n, d): the stored ones, and those that arrive, each of which is stored."""
        missing = None
        if recorder.recall_values(self.optimizer, points, values, known) or count < len(points):
            missing = np.flatnonzero(~known)[: max(count - np.count_nonzero(known), 0)]
            if missing.size == 0:
                return
        asked, last = points if missing is None else points[missing], self.last_failure
        part = None if self.optimizer.partial is None else values
        asked.setflags(write=False)
        for index, arrived in self.evaluate(asked):
            places = index if missing is None else missing[index]
            values[places] = arrived
            known[places] = True
            recorder.add_values(places, self.failure_since(last), part)
            last = self.last_failure
            self.check_time(known if missing is None else known[missing])

    def check_time(self, known: NDArray[np.bool_]) -> None:
        """Raise TimeOver if the time is over and a value is missing. Known values are kept."""
        if self.limits.too_late and not known.all():
            raise TimeOver

    @property
    def last_failure(self) -> Failure | None:
        """The last failure, another object for each one; None if there is none."""
        return self.failures.last[-1] if self.failures.last else None

    def failure_since(self, last: Failure | None) -> Failure | None:
        """The last failure if it is another one than `last` and has another reason than that f is NaN, else None."""
        latest = self.last_failure
        return None if latest is None or latest is last or latest[:2] == RETURNED_NAN[:2] else latest

    def out_of_time(self) -> dict[str, float]:
        """The reason of a run whose time is over in the middle of a generation."""
        return self.optimizer.reason_without_sweep() or {"maxtime": self.limits.maxtime}

    @property
    def interrupted(self) -> dict[str, float]:
        """The reason of a run that was ended by an exception or a signal."""
        return {"interrupted": self.optimizer.nit + 1.0}

    def final(self, reasons: dict[str, float]) -> Result:
        """The result of a finished run."""
        self.history.end(self.optimizer, reasons)
        if self.progress is not None:
            self.progress.end(self.optimizer)
        return result_maker()(self.optimizer, self.history, reasons, self.failures)

    def result(self, reasons: dict[str, float]) -> Result:
        """The result so far, which later generations do not change."""
        return result_maker()(self.optimizer, self.history.freeze(), reasons, self.failures.copy())


def result_maker() -> Callable[[Optimizer, History, dict[str, float], Failures], Result]:
    """The function that makes a result. Its module imports SciPy, which takes a while when it is first called."""
    from sublevel.run.result import result_of

    return result_of


def _wants_stop(callback: Callable[[Result], object], result: Result) -> bool:
    try:
        return bool(callback(result))
    except StopIteration:
        return True
