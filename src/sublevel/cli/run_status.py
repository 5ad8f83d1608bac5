"""The status of a stored run, which another process may be running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sublevel.run.noisy_answer import Estimate
from sublevel.run.optimizer import Optimizer
from sublevel.run.progress import duration
from sublevel.store.file import File
from sublevel.store.load import sketch_optimizer
from sublevel.store.lock import is_locked
from sublevel.store.reader import Reading, ending, open_run
from sublevel.store.settings import Settings
from sublevel.summaries import short_params


class RunStatus(NamedTuple):
    """How far a stored run is."""

    settings: Settings
    variables: int
    nfev: int
    nit: int
    restarts: int
    best: float
    deviation: float
    reasons: dict[str, float]
    seconds: float  # from the start to the last generation
    is_running: bool
    params: Mapping[str, object] | None  # the best point of a space, if it satisfies the constraints


def state_name(reasons: dict[str, float], is_running: bool) -> str:
    """ "running", "killed" or the reason why the run ended."""
    return "running" if is_running else next(iter(reasons), "killed")


def read_status(path: Path) -> RunStatus:
    """Read the status of a run. This is cheap: of the evaluations, only those since the last checkpoint are read."""
    is_running = is_run_active(path)
    with open_run(path) as reading:
        (numbers, run), loose = reading.last_generation()
        optimizer, (_, nit) = sketch_optimizer(reading), reading.file.count_generations()
        ledger = reading.ledger(optimizer.start.space)
        best, fun = _best(reading, optimizer, ledger.estimate(nit))
        last = numbers[-1] if nit else reading.settings.began
        return RunStatus(
            settings=reading.settings,
            variables=reading.problem.x0.size,
            nfev=int(numbers[0]) + loose + len(ledger.entries),
            nit=nit,
            restarts=run,
            best=fun,
            deviation=float(numbers[3]),
            reasons=ending(reading.file),
            seconds=max(float(last) - reading.settings.began, 0.0),
            is_running=is_running,
            params=best,
        )


def _best(
    reading: Reading, optimizer: Optimizer, estimate: Estimate | None
) -> tuple[Mapping[str, object] | None, float]:
    """The best point by name, None without a space, and its value, NaN if it violates constraints."""
    state = reading.run_state(optimizer, memory=False)
    optimizer.run_state, optimizer.estimate = replace(state, best=reading.best(optimizer, state)), estimate
    space, fun = optimizer.start.parameters, optimizer.best_fun if optimizer.is_feasible else np.nan
    return None if space is None or np.isnan(fun) else space.decode(optimizer.best_x), fun


def is_run_active(path: Path) -> bool:
    """Whether a process is running the stored run now. Raises StoreError if the file is not a stored run."""
    File(path).close()
    return is_locked(path)


def status_line(status: RunStatus) -> str:
    """The status in one line."""
    restarts = f", restart {status.restarts}" if status.restarts else ""
    width = f", std {status.deviation:.2g}" if np.isfinite(status.deviation) else ""
    place = "" if status.params is None else f" at {short_params(status.params)}"
    best, state = f"best {status.best:.8g}{place}{width}{restarts}", state_name(status.reasons, status.is_running)
    return f"{status.nfev} evaluations, {best}, {duration(status.seconds)}, {state}"
