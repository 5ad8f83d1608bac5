"""Loading a stored run while another process runs it, after it was killed, or when it has ended."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.weights import Active
from sublevel.evaluation.failures import Failures
from sublevel.hessian.stored import add_stored_curvature
from sublevel.run.data_frames import data_frame
from sublevel.run.initial import Start
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.run.warm_start import Beginning, SpaceBeginning, warm_start
from sublevel.store.constraint_facts import stored_constraints
from sublevel.store.errors import FormatError
from sublevel.store.export import NO_VARIABLES, export, is_too_wide, omission, table_columns
from sublevel.store.reader import (
    Evaluations,
    Reading,
    add_failed_reevaluations,
    ending,
    evaluations,
    first_row,
    open_run,
    restore_state,
)
from sublevel.store.samples import SampleForm
from sublevel.store.settings import FAMILY_TYPES, Overrides, Settings, as_path, rebuild_optimizer
from sublevel.store.spaces import VariableColumns
from sublevel.summaries import Summary, counted, short_array, short_params

if TYPE_CHECKING:
    from sublevel.run.result import Result


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored run, as read by `load`.

    Attributes
    ----------
    path : Path
        The file.
    settings : Settings
        The settings of the run.
    evaluations : Evaluations
        All evaluations; `points`, `values` and `constraints` are their arrays.
    result : Result
        The result so far, with its history.
    start : Start
        The starting point, the initial distribution and the bounds.
    """

    path: Path
    settings: Settings
    evaluations: Evaluations
    result: Result
    start: Start

    @property
    def space(self) -> Space | None:
        """The space that was searched, if the run was started with one; values that could not be stored are strings."""
        return self.result.space

    @property
    def params(self) -> dict[str, Any]:
        """The best point by the names of its variables."""
        return self.result.params

    @property
    def points(self) -> Array:
        """All points (n, d) in the order of the search; those of a large run are read when they are first used."""
        return self.evaluations.points

    @property
    def values(self) -> Array:
        """The values (n,) of the points."""
        return self.evaluations.values

    @property
    def constraints(self) -> Array:
        """The constraint values (n, k) of the points, in the order of the constraints; (n, 0) without any."""
        return self.evaluations.constraints

    def to_frame(self) -> Any:
        """All evaluations as a table: a DataFrame if pandas is installed, a structured array otherwise.

        Returns
        -------
        pandas.DataFrame or structured numpy.ndarray
            One row per evaluation with the columns ``run``, ``iteration``, ``index`` (in its generation), ``value``,
            ``g0``, ``g1``, … for the values of constraints, and one column per variable with its name, or x0, x1, … if
            there are no names. Integers are integers, and choices are strings unless their values are all numbers,
            or True and False.
        """
        found, variables = self.evaluations, self._columns()
        keys = {"run": found.run, "iteration": found.iteration, "index": found.place, "value": found.values}
        keys |= dict(zip(found.constraint_names, found.constraints.T, strict=True))
        if variables.is_plain:
            return data_frame(keys, found.points, variables.names)
        return data_frame(keys | dict(zip(variables.names, variables.decode(found.points), strict=True)))

    def _columns(self) -> VariableColumns:
        return table_columns(self.evaluations, self.settings, self.start)

    def __repr__(self) -> str:
        """A summary in a few lines."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """The summary for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        result = self.result
        facts = {
            "fun": result.fun_text(),
            **({"x": short_array(result.x)} if self.space is None else {"params": short_params(result.params)}),
            "method": (self.settings.method or self.settings.parts)[:100],
            "state": result.message if result.reasons else "not ended",
            "spent": f"nfev {result.nfev}, nit {result.nit}, restarts {result.restarts}",
        }
        sizes = f"{counted(result.x.size, 'variable')}, {counted(len(self.values), 'evaluation')}"
        return Summary(f"StoredRun: {self.path}, {sizes}", facts)

    def export(self, file: str | Path, *, variables: bool | None = None) -> None:
        """Write all evaluations to a .csv, .parquet or .npz file; .npz suits many variables.

        Parameters of a space have their values as in `to_frame`.

        Parameters
        ----------
        file : str or path
            An existing file is overwritten.
        variables : bool, optional
            Whether a .csv file has the variables. By default it has them up to 16,384 columns, which is the most that
            spreadsheet programs open; otherwise there is a warning. The other formats always have them.
        """
        file = Path(file)
        if variables is None and is_too_wide(self.evaluations, file):
            warnings.warn(f"{omission(self.evaluations, file)}, and a .csv file with variables=True.", stacklevel=2)
            variables = False
        is_without = variables is False and file.suffix.lower() == ".csv"
        export(self.evaluations, file, NO_VARIABLES if is_without else self._columns())

    def warm_start(
        self, *, gamma: float = 0.1, alpha: float = 0.1, correlations: bool = True
    ) -> Beginning | SpaceBeginning:
        """Compute the start of another search from the evaluations of this one.

        Parameters
        ----------
        gamma, alpha, correlations : optional
            As for `sublevel.warm_start`.

        Returns
        -------
        Beginning or SpaceBeginning
            A named tuple ``(x0, sigma0, cov0)`` for `minimize` and `Optimizer`; `x0` is a space if this run has one.
            Points that satisfy the constraints count as better than others.
        """
        how: dict[str, Any] = {"gamma": gamma, "alpha": alpha, "correlations": correlations}
        facts = self.settings.constraints
        if facts is not None and self.constraints.size:
            how["constraints"] = stored_constraints(facts).g(self.constraints)
        if self.space is not None:
            if not self.settings.is_described:
                raise ValueError(
                    "the space of this run could not be stored in full; pass it to "
                    "sublevel.warm_start(run.points, run.values, space=space)."
                )
            return warm_start(self.points, self.values, space=self.space, **how)
        log_scaled = False if self.start.space is None else self.start.space.log_scaled
        return warm_start(self.points, self.values, log_scaled=log_scaled, **how)


def load(store: str | Path) -> StoredRun:
    """Read a stored run. The file is not changed, and the run may still be in progress.

    Parameters
    ----------
    store : path
        The file of the run.

    Returns
    -------
    StoredRun
        The settings, all evaluations, and the result so far.

    Raises
    ------
    StoreError
        If the file is damaged, of another version, or not a stored run.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, sublevel as sl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.db"
    >>> result = sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.5, rng=1, store=file)
    >>> run = sl.load(file)
    >>> bool(run.result.fun == result.fun == run.values.min())
    True
    >>> x0, sigma0, cov0 = run.warm_start()  # for a similar problem
    """
    with open_run(as_path(store)) as reading:
        optimizer = sketch_optimizer(reading)
        found, failures = evaluations(reading, SampleForm.of(optimizer))
        result = result_so_far(reading, optimizer, found, failures)
        add_stored_curvature(reading, result)
        return StoredRun(reading.path, reading.settings, found, result, optimizer.start)


def load_table(store: str | Path) -> tuple[Evaluations, VariableColumns]:
    """All evaluations of a stored run and the columns of its variables: faster than `load`, which reads the result."""
    with open_run(as_path(store)) as reading:
        optimizer = sketch_optimizer(reading)
        found, _ = evaluations(reading, SampleForm.of(optimizer))
        return found, table_columns(found, reading.settings, optimizer.start)


def result_so_far(reading: Reading, optimizer: Optimizer, found: Evaluations, failures: Failures) -> Result:
    """The result at the last checkpoint, with the best of later evaluations; sets the optimizer to that checkpoint."""
    from sublevel.run.result import result_of  # imports scipy.optimize

    history = restore_state(reading, optimizer, whole=False)
    reasons = ending(reading.file)
    _restore_estimate(reading, optimizer, failures)
    history.end(optimizer, reasons)
    optimizer.run_state = replace(optimizer.run_state, best=reading.best(optimizer, optimizer.run_state))
    result = result_of(optimizer, history, reasons, failures)
    if optimizer.constraints is not None and optimizer.run_state.best.theta is None:
        result.update(multipliers=reading.multipliers(optimizer.constraints))
    if later := found.values.size - first_row(found.iteration, optimizer.nit + 1):
        is_open = int(found.iteration[-1]) > reading.file.count_generations()[1]  # the last generation is unfinished
        result.update(nfev=result.nfev + later, nit=int(found.iteration[-1]) - is_open)
        history.count_later(result.nfev)
    return result


def _restore_estimate(reading: Reading, optimizer: Optimizer, failures: Failures) -> None:
    """Restore the estimate of a noisy objective, if it belongs to the last generation, and count its evaluations."""
    ledger = reading.ledger(optimizer.start.space)
    optimizer.reevaluated = len(ledger.entries)
    optimizer.estimate = ledger.estimate(reading.file.count_generations()[1])
    add_failed_reevaluations(failures, ledger)


def sketch_optimizer(reading: Reading) -> Optimizer:
    """An optimizer with the distribution, the sampling and the space of a stored one, whatever its method is."""
    family, sampling = FAMILY_TYPES[reading.settings.family], SAMPLINGS[reading.settings.sampling]
    method = Method("stored", Active(), (), None, family, sampling=sampling)
    settings = replace(reading.settings, method=None, parts="", restarts=None, draws_x0=False)
    try:
        return rebuild_optimizer(settings, reading.problem, reading.facts.get("rng"), Overrides(method, checked=False))
    except FormatError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # all arguments are from the file
        raise FormatError(f"its arguments are invalid: {str(error)[:200]}") from None
