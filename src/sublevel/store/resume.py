"""Resuming a stored run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.method import Method
from sublevel.evaluation.evaluators import make_evaluator
from sublevel.evaluation.failures import Failures, OnError
from sublevel.evaluation.objective import bind_args, name_parameters
from sublevel.evaluation.this_process import SigtermAsInterrupt
from sublevel.run.arguments import FileName, Objective, RestartRule, Workers
from sublevel.run.constraints import ConstraintsLike, with_constraints
from sublevel.run.history import History
from sublevel.run.minimize import Callback, Limits, Search
from sublevel.run.noisy_answer import Ledger
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.run.progress import Progress
from sublevel.store.environment import HOST, describe_differences, environment
from sublevel.store.file import File
from sublevel.store.load import sketch_optimizer
from sublevel.store.lock import Lock
from sublevel.store.probe import Probe, ProbingEvaluator, choose_probe
from sublevel.store.reader import (
    Reading,
    add_failed_reevaluations,
    driver,
    ending,
    open_run,
    restore_state,
    stored_failures,
)
from sublevel.store.recorder import Recorder, Stored, check_same
from sublevel.store.samples import SampleForm, StoredPoints
from sublevel.store.settings import Overrides, Settings, as_path, rebuild_optimizer
from sublevel.validation import (
    as_callback,
    as_flag,
    as_on_error,
    as_timeout,
    as_workers,
    explain_keywords,
    validate_callable,
)

if TYPE_CHECKING:
    from sublevel.run.result import Result

LOGGER = logging.getLogger(__name__)


@explain_keywords
def resume(
    store: FileName,
    fun: Objective,
    *,
    args: tuple[object, ...] = (),
    space: Space | type[object] | None = None,
    constraints: ConstraintsLike | None = None,
    x0: Callable[[np.random.Generator], ArrayLike] | None = None,
    method: str | Method | None = None,
    restarts: RestartRule | None = None,
    maxfevals: float | None = None,
    maxiter: float | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolfun: float | None = None,
    tolx: float | None = None,
    rtolfun: float | None = None,
    noise_floor: bool | None = None,
    vectorized: bool | None = None,
    workers: Workers | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    check: bool = True,
) -> Result:
    """Resume a run that was stored by ``minimize(..., store=...)``, with the result of an uninterrupted run.

    Parameters
    ----------
    store : path
        The file of the run.
    fun : callable
        The objective, which must be given again. Stored evaluations are not repeated.
    args, x0, method, restarts
        Must be given again if they cannot be stored: arguments, a function that draws starting points, a Method, or a
        strategy that is not registered.
    space : Space or dataclass, optional
        The space of the run, if it was started with one. It must be given again if a dataclass defines it, or if it has
        a choice with values other than numbers, strings, True, False and None, which cannot be stored.
    constraints : optional
        The constraints of the run, which must be given again if they are functions.
    maxfevals, maxiter, ftarget, tolfun, tolx, rtolfun, noise_floor : optional
        New limits. A run that ended at a budget continues with a larger one, and a run that ended at the noise of its
        objective continues with noise_floor=False. Budgets and the target end no run before all stored evaluations are
        taken.
    maxtime : float, optional
        Maximum time of this call in seconds; by default that of the original call.
    vectorized, workers, timeout, on_error, callback, progress : optional
        As for `minimize`. They default to the stored settings; executors and clients cannot be stored and must be
        passed again.
    check : bool, optional
        Whether to evaluate one stored point again, to verify that `fun` is the objective of this run. That evaluation
        is not counted. If the value differs, the point is evaluated once more: a StoreError is raised if the new values
        agree with each other or are far from all stored ones; a warning is given if `fun` is noisy and its values
        differ from the stored one by more than those of the last generation differ from each other.

    Returns
    -------
    Result
        As returned by `minimize`, bit for bit that of an uninterrupted run.

    Raises
    ------
    StoreError
        If the file is damaged, in use or not a stored run, or if `fun` is not the original objective.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, sublevel as sl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.db"
    >>> def sphere(x):
    ...     return np.sum(x**2)
    >>> half = sl.minimize(sphere, np.ones(3), 0.5, rng=1, maxfevals=100, store=file)
    >>> whole = sl.resume(file, sphere, maxfevals=10_000)
    >>> bool(np.all(whole.x == sl.minimize(sphere, np.ones(3), 0.5, rng=1).x))
    True
    """
    validate_callable("fun", fun)
    observer = as_callback(callback)
    path, check = as_path(store), as_flag("check", check)
    File(path).close()  # refuses other files, and leaves them as they are
    with ExitStack() as opened:
        lock = Lock(path)
        opened.callback(lock.close)
        tolerances = tolfun, tolx, rtolfun, noise_floor
        given = method, restarts, x0, True, tolerances, space, constraints, vectorized, workers
        found = _read_run(path, Overrides(*given))
        stored = found.settings
        if stored.takes_args and not args:
            raise TypeError("`args` must be given again, because the run was started with arguments.")
        pairs = zip((maxfevals, maxiter, ftarget, maxtime), stored.limits, strict=True)
        chosen = [old if new is None else new for new, old in pairs]
        limits = Limits.checked(found.optimizer, *chosen, batch=stored.batch)
        show = Progress(limits.maxfevals) if as_flag("progress", progress) else None
        called = bind_args(name_parameters(fun, found.optimizer.start.parameters), args)
        evaluate = make_evaluator(
            with_constraints(called, found.optimizer.constraints),
            as_flag("vectorized", stored.vectorized if vectorized is None else vectorized),
            as_workers((stored.workers or 1) if workers is None else workers),
            as_timeout(stored.timeout if timeout is None else timeout),
            as_on_error(stored.on_error if on_error is None else on_error),
            found.failures,
        )
        opened.callback(evaluate.close)
        recorder = Recorder(File(path), lock, found.history, found.stored)
        opened.pop_all()
    if check and found.probe is not None:
        k = 0 if found.optimizer.constraints is None else found.optimizer.constraints.size
        evaluate = ProbingEvaluator(evaluate, found.probe, found.failures, path, k, stored.noise)
    counts = found.optimizer.nit, found.optimizer.nfev
    LOGGER.info("resume %s at generation %d, after %d evaluations", ascii(str(path))[1:-1], *counts)
    start = found.optimizer.start.x0 if stored.evaluate_x0 else None
    parts = found.optimizer, evaluate, limits, observer, show, found.history, found.failures
    with SigtermAsInterrupt():
        return Search(*parts, recorder=recorder, x0=start, ledger=found.ledger).run_to_the_end()


class ResumedRun(NamedTuple):
    """A run at its last checkpoint."""

    settings: Settings
    optimizer: Optimizer
    history: History
    failures: Failures
    stored: Stored
    probe: Probe | None
    ledger: Ledger


def _read_run(path: Path, again: Overrides) -> ResumedRun:
    """Read a run."""
    with open_run(path) as reading:
        file = reading.file
        file.check_structure()
        sketch_optimizer(reading)  # arguments of the file are refused as such, before those that are given again
        optimizer = rebuild_optimizer(reading.settings, reading.problem, reading.facts.get("rng"), again)
        history, form = restore_state(reading, optimizer), SampleForm.of(optimizer)
        failures = stored_failures(reading, reading.generations().sizes, form)
        _check_start(reading, optimizer, form)
        counts = file.count_generations()[1], file.last_evaluated(), optimizer.restarts, optimizer.nit
        stored = Stored(*counts, reading.active_until())
        _warn_of_differences(reading)
        probe = choose_probe(file, stored.awaited, form)
        ledger = reading.ledger(optimizer.start.space)
        optimizer.reevaluated = len(ledger.entries)
        add_failed_reevaluations(failures, ledger)
        return ResumedRun(reading.settings, optimizer, history, failures, stored, probe, ledger)


def _check_start(reading: Reading, optimizer: Optimizer, form: SampleForm) -> None:
    """Raise StoreError if the start was evaluated and is not the first stored point. Runs that are begun again with the
    stored values would notice, but not those that continue from a later state.
    """
    if reading.settings.evaluate_x0:
        for part in StoredPoints(reading.file, form).stretches(1, 1):
            if part.iteration == 1 and part.place == 0:
                check_same(reading.path, 1, optimizer.start.x0[None], part.points[:1])


def _warn_of_differences(reading: Reading) -> None:
    """Warn if results may differ by rounding, or if another host may still run the run."""
    before, now = driver(reading.file), environment()
    if apart := describe_differences(before, now):
        warnings.warn(
            f"{reading.path}: the run is resumed in another environment, so its results may differ in the last digits "
            f"from those of an uninterrupted run ({'; '.join(apart)}).",
            stacklevel=4,
        )
    if before.get(HOST) != now[HOST] and not ending(reading.file):
        warnings.warn(
            f"{reading.path}: the run was started on the host {before.get(HOST)!r} and did not end there. Make sure "
            "that no process on that host still runs it: the lock of a file does not extend to other hosts.",
            stacklevel=4,
        )
