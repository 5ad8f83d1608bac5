"""The result of `minimize`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from scipy.optimize import OptimizeResult

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.families import Family
from sublevel.evaluation.failures import Failures
from sublevel.run import termination
from sublevel.run.diagnosis import Finding, diagnose, infeasible_message
from sublevel.run.history import History
from sublevel.run.initial import covariance_of, deviations_of, mean_of
from sublevel.run.inside import KnownConstraints
from sublevel.run.optimizer import Optimizer
from sublevel.summaries import Summary, listed, short_array

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

    from sublevel.hessian.result import Curvature
    from sublevel.run.parameters import Space
    from sublevel.surrogate.result import SurrogateModel

PLAIN = dict[str, object]
R = TypeVar("R", bound="Result")
LARGEST_DIAGNOSED = 500
"""Variables up to which `repr` reads the diagnosis, which may take an SVD."""
JSON_ENTRIES = ("x", "fun", "success", "status", "message", "reasons", "nfev", "nit", "restarts", "mean", "std")
"""Entries that `to_json` writes unchanged."""
NOISY = frozenset({"fun_error", "fun_values"})
"""Entries of a noisy objective."""
SHOWN = NOISY | frozenset(
    {"fun", "x", "std", "message", "success", "status", "nfev", "nit", "restarts", "failures", "diagnosis"}
)
"""Entries that `repr` shows, or that follow from what it shows."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An entry of a result that is computed when it is first read, from values that do not change."""

    compute: Callable[..., object]  # a function of a module, so that it can be pickled
    arguments: tuple[object, ...]
    size: tuple[int, ...]  # of the array it makes, or () if it is none

    def __call__(self) -> object:
        """The value."""
        return self.compute(*self.arguments)

    def __repr__(self) -> str:
        """A description of the array, which is not computed."""
        return f"array of shape {self.size}, computed when read"


class Result(OptimizeResult):
    """SciPy's OptimizeResult, with the search distribution, the history and figures of the run.

    Entries can also be read as attributes. `mean`, `std`, `cov` and `diagnosis` are computed when they are first read:
    `cov` has d² numbers. A result given to a callback describes that moment and does not change later.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The best point that was evaluated.
    fun : float
        Its value. With ``noise=True``, `x` is the mean of the search distribution or the average of the five points
        with the lowest values, with constraints a feasible point near the mean, and `fun` the average of re-evaluations
        there. Before the run ends, or if it was interrupted, `x` is the mean and `fun` the average of the medians of
        recent generations.
    fun_error : float
        Standard error of `fun`, NaN if there are fewer than two re-evaluations. Only with ``noise=True``.
    fun_values : ndarray, shape (k,)
        The re-evaluations at `x`, NaN for those that failed and do not count. Only with ``noise=True``.
    success : bool
        Whether the run that found `x` converged, or reached `ftarget`.
    status : int
        Number of the first reason for stopping; -1 while the run continues.
    message : str
        The reasons for stopping as a sentence.
    reasons : dict
        The reasons for stopping by name, each with the number that decided it.
    nfev, nit, restarts : int
        Evaluations, generations and restarts so far.
    mean, std : ndarray, shape (d,)
        Mean of the search distribution as a point of the user's space, and its standard deviations, which are those of
        ln x where a variable is log-scaled and 0 where one is fixed.
    cov : ndarray, shape (d, d)
        Covariance of the search distribution, with ``std**2`` on its diagonal.
    distribution : Family
        The search distribution of the free variables, in the coordinates of the search; its arrays are read-only. Use
        it where `cov` would be too large.
    history : History
        One row per generation, and snapshots of the search distribution.
    failures : Failures
        Evaluations that failed: how many of each kind, and the last ones.
    diagnosis : list of Finding
        Findings about the run, such as noise or a small `sigma0`.
    space : Space or None
        The space of named parameters, if one was searched.
    params : dict
        The best point by the names of its variables.
    curvature : Curvature or None
        The curvature at the minimum, if `minimize` was called with ``curvature=True``.
    hess_inv : ndarray, shape (d, d), or None
        Its inverse Hessian.
    maxcv : float
        Largest violation of a constraint at `x`. Only with constraints, as are the next two attributes.
    constr : list of ndarray
        Values of each constraint at `x`.
    multipliers : list of ndarray or None
        Lagrange multipliers of each constraint: positive at an upper bound, negative at a lower one, NaN for
        linear inequalities and constraints with ``keep_feasible=True``. None if the ordering has no multipliers in the
        units of f.
    constraints : KnownConstraints
        The constraints, inside which `sublevel.curvature` and `sublevel.shape_from_ranks` stay. A pickled or stored
        result has no functions. Only with constraints.
    surrogate : SurrogateModel
        The final model, with its minimiser ``x``, its ``hessian`` up to a factor and its ``agreement``. Only with
        ``surrogate=True``.
    """

    x: Array
    fun: float
    fun_error: float
    fun_values: Array
    success: bool
    status: int
    message: str
    reasons: dict[str, float]
    nfev: int
    nit: int
    restarts: int
    mean: Array
    std: Array
    cov: Array
    distribution: Family
    history: History
    failures: Failures
    diagnosis: list[Finding]
    space: Space | None
    params: dict[str, Any]
    curvature: Curvature | None
    hess_inv: Array | None
    maxcv: float
    constr: list[Array]
    multipliers: list[Array] | None
    constraints: KnownConstraints
    surrogate: SurrogateModel

    def plot(self, file: str | Path | None = None) -> Figure:
        """Draw the run by `sublevel.plots.convergence`.

        Parameters
        ----------
        file : path, optional
            Where to save the figure. By default a pyplot figure is made, which notebooks show.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from sublevel import plots

        return plots.convergence(self, file)

    def entries(self) -> dict[str, object]:
        """All entries as they are: those that were not read yet as `Deferred`."""
        return dict(PLAIN.items(_plain(self)))

    def __getitem__(self, name: str, /) -> Any:
        """The entry of that name, computed if it was not read before."""
        found = PLAIN.__getitem__(_plain(self), name)
        if isinstance(found, Deferred):
            found = found()
            PLAIN.__setitem__(_plain(self), name, found)
        return found

    def __iter__(self) -> Iterator[str]:
        """Names of the entries. Without this method ``dict(result)`` would copy entries as `Deferred`."""
        return iter(PLAIN.keys(_plain(self)))

    def get(self, name: str, default: object = None, /) -> Any:
        """The entry of that name, or the default if there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> ValuesView[Any]:
        """Values of all entries."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:
        """Names and values of all entries."""
        return ItemsView(self)

    def pop(self, name: str, /, *default: object) -> Any:
        """Remove the entry of that name and return it, or the default if there is none."""
        if name in self:
            self[name]  # computes it
        return PLAIN.pop(_plain(self), name, *default)

    def popitem(self) -> tuple[str, object]:
        """Remove the last entry and return its name and value."""
        name = list(self)[-1]
        return name, self.pop(name)

    def setdefault(self, name: str, default: object = None, /) -> Any:
        """The entry of that name, which becomes the default if there is none."""
        PLAIN.setdefault(_plain(self), name, default)
        return self[name]

    def copy(self) -> Self:
        """A result with the same entries."""
        return restored_result(type(self), self.entries())

    def __or__(self, other: dict[str, object]) -> dict[str, object]:
        """A dict with the entries of both."""
        return dict(self) | other

    def __ror__(self, other: dict[str, object]) -> dict[str, object]:
        """A dict with the entries of both."""
        return other | dict(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled with what was not read yet still deferred."""
        return restored_result, (type(self), self.entries())

    def to_json(self, indent: int | None = None) -> str:
        """The result as JSON, for other programs.

        Parameters
        ----------
        indent : int, optional
            Spaces by which lines are indented; by default there is one line.

        Returns
        -------
        str
            An object with ``x``, ``fun``, ``success``, ``status``, ``message``, ``reasons``, ``nfev``, ``nit``,
            ``restarts``, ``mean``, ``std``, ``names``, ``params``, ``diagnosis`` (names, sentences and numbers),
            ``failures`` (how many of each kind), ``maxcv``, ``constr`` and ``multipliers`` with constraints,
            ``fun_error`` and ``fun_values`` with noise, and ``hess_inv`` if it is there. Numbers that are not finite
            are null; values of choices that JSON does not have are texts.
        """
        facts = {name: self[name] for name in JSON_ENTRIES}
        facts["names"] = [self.history.name(i) for i in range(self.x.size)]
        facts["params"] = plain_values(self.params)
        facts["diagnosis"] = [{"name": f.name, "sentence": f.sentence, "numbers": f.numbers} for f in self.diagnosis]
        facts["failures"] = dict(self.failures.counts)
        facts |= {name: self[name] for name in ("maxcv", "constr", "multipliers", *NOISY) if name in self}
        if self.get("hess_inv") is not None:
            facts["hess_inv"] = self.hess_inv
        return json.dumps(finite(facts), indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        """The most important entries, of many variables a few; large matrices are not computed."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """The most important entries and a table of the variables, for notebooks."""
        summary, rows = self._summary(), [["variable", "x", "std"]]
        if self.keys() >= {"history", "std", "distribution"}:
            labels, x, std, theta = self.history.labels, self.x, self.std, self.distribution
            for i in listed(x.size):
                row = ["…", "", ""]
                rows.append(row if i is None else [labels.name(i), labels.text(i, x[i]), labels.spread(i, std, theta)])
            rows += [[name, text, "constant"] for name, text in labels.constants().items()]
        return replace(summary, table=rows if len(rows) > 1 else ()).html()

    def _summary(self) -> Summary:
        if not self.keys() >= (SHOWN - NOISY) | {"reasons", "history"}:  # entries were removed
            return Summary(f"Result with the entries {', '.join(self)}")
        title = "Result of a run in progress"
        if self.success or self.reasons:
            title = "Result: success" if self.success else "Result: no success"
        facts = {
            "fun": self.fun_text(),
            **self._point(),
            "message": self.message,
            "spent": f"nfev {self.nfev}, nit {self.nit}, restarts {self.restarts}",
            "failures": repr(self.failures),
        }
        hidden = SHOWN | facts.keys()
        others = [name for name, found in self.entries().items() if name not in hidden and found is not None]
        facts["also"] = ", ".join(others)
        if not self.failures:
            del facts["failures"]
        if "maxcv" in self:
            facts = {"fun": facts.pop("fun"), "maxcv": f"{self.maxcv:.3g}", **facts}
        is_cheap = self.x.size <= LARGEST_DIAGNOSED or "diagnosis" not in self._deferred()
        return Summary(title, facts, notes=[str(finding) for finding in self.diagnosis] if is_cheap else ())

    def fun_text(self) -> str:
        """The value as text, with its error if values are noisy."""
        if not self.keys() >= NOISY:
            return f"{self.fun:.10g}"
        count = int(np.count_nonzero(~np.isnan(self.fun_values)))
        if not count:
            return f"{self.fun:.6g} (average of medians of recent generations; `x` was not re-evaluated)"
        failed = f", {self.fun_values.size - count} more failed" if count < self.fun_values.size else ""
        return f"{self.fun:.6g} ± {self.fun_error:.2g} (average of {count} re-evaluations of `x`{failed})"

    def _point(self) -> dict[str, str]:
        """The best point and the width of the search: by name if there is a space or an integer, else as arrays."""
        labels = self.history.labels
        if not labels.by_name or "distribution" not in self:
            return {"x": short_array(self.x), "std": short_array(self.std)}
        return {"params": labels.point(self.x), "std": labels.spreads(self.std, self.distribution)}

    def _deferred(self) -> set[str]:
        """Names of the entries that were not read yet."""
        return {name for name, found in self.entries().items() if isinstance(found, Deferred)}

    def __dir__(self) -> list[str]:
        """Names of the attributes, for tab completion."""
        return [*super().__dir__(), "plot", "to_json"]


def _plain(result: Result) -> PLAIN:
    """A result as the dict that it is at run time; the type stubs of SciPy know it as a Mapping only."""
    return cast(PLAIN, result)


def restored_result(kind: type[R], entries: Mapping[str, object]) -> R:
    """A result from its entries."""
    result = kind()
    result.update(entries)
    return result


def plain_values(params: Mapping[str, object]) -> dict[str, object]:
    """Parameters as JSON can have them: values of choices of other types as texts."""
    plain = str | bool | int | float | None
    return {name: value if isinstance(value, plain) else str(value) for name, value in params.items()}


def finite(value: object) -> object:
    """The value as JSON can have it: lists for arrays, and None for numbers that are not finite."""
    if isinstance(value, np.ndarray | np.generic):
        return finite(cast(Array, value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in cast(dict[str, object], value).items()}
    return [finite(part) for part in cast(list[object], value)] if isinstance(value, list | tuple) else value


def result_of(optimizer: Optimizer, history: History, reasons: Mapping[str, float], failures: Failures) -> Result:
    """The result of a run so far, in arrays of its own; with restarts, of the run that found the best point."""
    reason, theta, space = next(iter(reasons), None), optimizer.theta_of_best, optimizer.space
    ending, d = optimizer.ending_of_best(reasons), optimizer.best_x.size
    violated = optimizer.violated
    _lock(theta)
    result = Result()
    result.update(
        x=optimizer.best_x.copy(),
        fun=optimizer.best_fun,
        nfev=optimizer.nfev,
        nit=optimizer.nit,
        success=bool(reasons)
        and not termination.SUCCESSES.isdisjoint(ending)
        and bool(np.isfinite(optimizer.best_fun))
        and optimizer.is_feasible,
        status=-1 if reason is None else termination.KINDS[reason].status,
        message=termination.message(reasons)
        + ("" if ending is reasons else f"; `x` is from run {optimizer.best_run}: {termination.message(ending)}")
        + infeasible_message(violated),
        reasons=dict(reasons),
        restarts=max(history.last_run, optimizer.best_run),
        mean=Deferred(mean_of, (theta, space), (d,)),
        std=Deferred(deviations_of, (theta, space), (d,)),
        cov=Deferred(covariance_of, (theta, space), (d, d)),
        distribution=theta,
        history=history,
        failures=failures,
        diagnosis=deferred_diagnosis(optimizer.best_x, history, failures, violated),
        space=optimizer.start.parameters,
        params=Deferred(history.labels.values, (optimizer.best_x.copy(),), ()),
        curvature=None,
        hess_inv=None,
        **constraint_entries(optimizer),
        **noise_entries(optimizer),
        **surrogate_entries(optimizer),
    )
    return result


def constraint_entries(optimizer: Optimizer) -> dict[str, object]:
    """The entries of a result with constraints: none without."""
    constraints, x, values = optimizer.constraints, optimizer.best_x, optimizer.best_constraints
    if constraints is None:
        return {}
    return {
        "maxcv": optimizer.maxcv,
        "constr": constraints.all_values(x, values),
        "multipliers": optimizer.multipliers,
        "constraints": KnownConstraints(constraints),
    }


def noise_entries(optimizer: Optimizer) -> dict[str, object]:
    """The entries of a result of a noisy objective: none otherwise."""
    if not optimizer.noise:
        return {}
    estimate = optimizer.estimate
    if estimate is None:
        return {"fun_error": np.nan, "fun_values": np.empty(0)}
    return {"fun_error": estimate.error, "fun_values": estimate.values.copy()}


def surrogate_entries(optimizer: Optimizer) -> dict[str, object]:
    """The entry of a result with a surrogate: none without."""
    surrogate = optimizer.run_state.surrogate
    if surrogate is None:
        return {}
    from sublevel.surrogate.result import describe_surrogate

    return {"surrogate": Deferred(describe_surrogate, (surrogate, optimizer.space), ())}


def deferred_diagnosis(
    x: Array, history: History, failures: Failures, violated: tuple[tuple[str, float], ...] = ()
) -> Deferred:
    """The diagnosis of a run with the best point x (d,), computed when read: principal axes may take O(d³)."""
    return Deferred(diagnose, (x, history, failures, violated), ())


def _lock(theta: Family) -> None:
    """Make the arrays of a distribution read-only: the search goes on from them."""
    for field in fields(cast("DataclassInstance", theta)):
        part = getattr(theta, field.name)
        if isinstance(part, np.ndarray):
            read_only(cast(Array, part))
