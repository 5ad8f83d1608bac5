"""A stored run to look at: while another process drives it, after it was killed, or when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.engine.weights import Active
from sublevel.evaluation.failures import Failures
from sublevel.run.data_frames import data_frame
from sublevel.run.optimizer import Optimizer
from sublevel.run.result import Result, deferred_diagnosis, result_of
from sublevel.run.termination import message
from sublevel.run.warm_start import Beginning, warm_start
from sublevel.store.export import column_names, export
from sublevel.store.file import File
from sublevel.store.reader import Evaluations, Reading, ending, evaluations, first_row, restored, unfit
from sublevel.store.samples import SampleForm
from sublevel.store.serialize import FormatError
from sublevel.store.settings import FAMILY_TYPES, Overrides, Settings, checked_path, rebuilt
from sublevel.summaries import Summary, counted, short_array


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What a file holds: the settings, every evaluation, and the result so far, with its history."""

    path: Path
    settings: Settings
    evaluations: Evaluations
    result: Result
    log_scaled: Any

    @property
    def points(self) -> Array:
        """All points that were evaluated (n, d), in the order of the search. Those of a large run are read from its
        file when asked for.
        """
        return self.evaluations.points

    @property
    def values(self) -> Array:
        """Their values (n,)."""
        return self.evaluations.values

    def to_frame(self) -> Any:
        """All evaluations as a table: a DataFrame if pandas is installed, a structured array otherwise.

        Returns
        -------
        pandas.DataFrame or structured numpy.ndarray
            A row for each evaluation, with the columns ``run``, ``iteration``, ``index`` (in its generation),
            ``value``, and the variables by their names, x0, x1 and so on if they have none.
        """
        found = self.evaluations
        keys = {"run": found.run, "iteration": found.iteration, "index": found.place, "value": found.values}
        return data_frame(keys, found.points, column_names(found, self.settings.names)[len(keys) :])

    def __repr__(self) -> str:
        """What the file holds, in a few lines."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """What the file holds, for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        result = self.result
        facts = {
            "fun": f"{result.fun:.10g}",
            "x": short_array(result.x),
            "method": (self.settings.method or self.settings.parts)[:100],
            "state": result.message if result.reasons else "not ended",
            "spent": f"nfev {result.nfev}, nit {result.nit}, restarts {result.restarts}",
        }
        return Summary(
            f"StoredRun: {self.path}, {counted(result.x.size, 'variable')}, {counted(len(self.values), 'evaluation')}",
            facts,
        )

    def export(self, file: str | Path) -> None:
        """Write all evaluations to a .csv, .parquet or .npz file; .npz suits many variables."""
        export(self.evaluations, Path(file), self.settings.names)

    def warm_start(self, *, gamma: float = 0.1, alpha: float = 0.1, correlations: bool = True) -> Beginning:
        """Where to begin another search, by `sublevel.warm_start` from the evaluations of this one."""
        log_scaled = False if self.log_scaled is None else self.log_scaled
        return warm_start(
            self.points, self.values, gamma=gamma, alpha=alpha, log_scaled=log_scaled, correlations=correlations
        )


def load(store: str | Path) -> StoredRun:
    """Read a stored run; the file is not changed, and a process that writes it is not disturbed.

    >>> import tempfile, pathlib, numpy as np, sublevel as sl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.db"
    >>> result = sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.5, rng=1, store=file)
    >>> run = sl.load(file)
    >>> bool(run.result.fun == result.fun == run.values.min())
    True
    >>> x0, sigma0, cov0 = run.warm_start()  # for a similar problem
    """
    file = File(checked_path(store))
    try:
        reading = Reading.of(file)
        optimizer = sketch(reading)
        found, failures = evaluations(reading, SampleForm.of(optimizer))
        result = result_so_far(reading, optimizer, found, failures)
        return StoredRun(file.path, reading.settings, found, result, reading.problem.log_scaled)
    finally:
        file.close()


def result_so_far(reading: Reading, optimizer: Optimizer, found: Evaluations, failures: Failures) -> Result:
    """The result as `minimize` would return it now: as of the last checkpoint, and with the best of what was evaluated
    since.

    `optimizer` is the `sketch` of the run, which is brought to that state.
    """
    history = restored(reading, optimizer, whole=False)
    reasons = ending(reading.file)
    history.end(optimizer, reasons)
    result = result_of(optimizer, history, reasons, failures)
    first = first_row(found.iteration, optimizer.nit + 1)  # evaluated after the checkpoint
    since = found.values[first:]
    if since.size:
        result.update(
            nfev=result.nfev + since.size, nit=int(found.iteration[-1]) - (1 if _is_open(reading, found) else 0)
        )
        if np.any(~np.isnan(since)) and not result.fun <= (best := np.nanmin(since)):
            x = found.point(first + int(np.nanargmin(since)))
            result.update(fun=float(best), x=x, success=False, message=message(reasons))
            result.update(diagnosis=deferred_diagnosis(x.copy(), history, result.failures))
    return result


def _is_open(reading: Reading, found: Evaluations) -> bool:
    """Whether the last generation of which there is a value is not finished."""
    return int(found.iteration[-1]) > reading.file.count_generations()[1]


def sketch(reading: Reading) -> Optimizer:
    """An optimizer with the distribution and the space of a stored one, whatever its method is."""
    settings = reading.settings
    method = Method("stored", Active(), (), None, FAMILY_TYPES[settings.family])
    plain: dict[str, Any] = {name: getattr(settings, name) for name in settings.__slots__}
    plain |= {"method": None, "parts": "", "restarts": None, "draws_x0": False}
    try:
        return rebuilt(Settings(**plain), reading.problem, reading.facts.get("rng"), Overrides(method, checked=False))
    except FormatError as misfit:
        raise unfit(reading.path, misfit) from None
