"""What the page shows of a run, as values for JSON: thinned, rounded, and with None for numbers that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublevel.cli.common import describe_objective, printable
from sublevel.cli.run_status import RunStatus, state_name
from sublevel.dashboard.follow import Progress, Selection
from sublevel.dashboard.importance import covariance_importance, evaluation_importance
from sublevel.engine.arrays import Array
from sublevel.hessian.report import MEANING, parameter_rows
from sublevel.run.initial import deviations_of, mean_of
from sublevel.run.labels import Labels
from sublevel.run.parameters import Choice
from sublevel.run.termination import message
from sublevel.store.environment import HOST
from sublevel.store.settings import Settings
from sublevel.summaries import listed

MOST_ROWS = 480
"""Most points of a curve, besides one for each restart."""
MOST_EVALUATIONS = 900
"""Most evaluations of the plots of single evaluations."""
MOST_SHOWN = 12
"""Most variables and axes that have a curve or a plot each."""
MOST_LISTED = 200
"""Most rows of a table."""
MOST_LABELS = 40
"""Most values of a choice that are named in a plot."""
RECENT = 20.0
"""Seconds over which the rate of evaluations is averaged."""

Json = dict[str, object]


class Importance(NamedTuple):
    """Importance of the variables (d,) by the evaluations, and the number of evaluations it is from."""

    shares: Array
    evaluations: int


def numbers(column: Iterable[float] | Array, digits: int = 6) -> list[float | None]:
    """Numbers with so many digits; None for those that are not finite."""
    items = column.tolist() if isinstance(column, np.ndarray) else column
    return [float(f"{item:.{digits}g}") if math.isfinite(item) else None for item in items]


def number(item: float, digits: int = 12) -> float | None:
    """A number with so many digits; None if it is not finite."""
    return numbers([float(item)], digits)[0]


def overview(identifier: int, status: RunStatus) -> Json:
    """A run as one row of the list of runs."""
    return {
        "id": identifier,
        "state": state_name(status.reasons, status.is_running),
        "running": status.is_running,
        "method": printable(str(status.settings.method or "own method")),
        "variables": status.variables,
        "nfev": status.nfev,
        "nit": status.nit,
        "restarts": status.restarts,
        "best": number(status.best),
        "deviation": number(status.deviation, 4),
        "seconds": number(status.seconds, 6),
    }


def overview_of_progress(identifier: int, progress: Progress, is_running: bool) -> Json:
    """A run that is followed as one row of the list of runs."""
    found, reasons = totals(progress), {} if progress.position is None else progress.position.reasons
    deviation = float(progress.table[-1, 3]) if len(progress.table) else math.nan
    return {
        "id": identifier,
        "state": state_name(reasons, is_running),
        "running": is_running,
        "method": printable(str(progress.settings.method or "own method")),
        "variables": progress.dimension,
        "deviation": number(deviation, 4),
        **{name: found[name] for name in ("nfev", "nit", "restarts", "best", "seconds")},
    }


def unreadable(identifier: int, error: Exception) -> Json:
    """A file that cannot be read, as a row of the list of runs."""
    return {"id": identifier, "state": "unreadable", "running": False, "error": str(error)}


def comparison(identifier: int, progress: Progress) -> Json:
    """The curve of a run for the comparison of runs."""
    heads, ends = row_groups(progress, MOST_ROWS // 2)
    return {
        "id": identifier,
        "nfev": progress.table[ends, 0].astype(np.int64).tolist(),
        "seconds": numbers(progress.table[ends, 6] - progress.settings.began, 7),
        "best": numbers(progress.table[ends, 1], 9),
        "restarts": len(np.unique(progress.runs[heads])) - 1 if heads.size else 0,
    }


def row_groups(progress: Progress, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the last generation of groups that share a point of a curve, by number; none spans a restart."""
    nfev, runs = progress.table[:, 0], progress.runs
    if not len(nfev):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    group = np.floor((nfev - nfev[0]) * (most / max(nfev[-1] - nfev[0] + 1, 1)))
    is_head = np.append(True, (np.diff(group) != 0) | (np.diff(runs) != 0))
    heads = np.flatnonzero(is_head)
    return heads, np.append(heads[1:], len(nfev)) - 1


def further_name(settings: Settings) -> str | None:
    """What the sixth number of a generation is: a violation of constraints, the agreement of a surrogate or nothing."""
    if settings.constraints is not None:
        return "violation"
    return "agreement" if settings.surrogate else None


def curves(progress: Progress) -> Json:
    """The curves over the generations."""
    heads, ends = row_groups(progress, MOST_ROWS)
    table, further = progress.table, further_name(progress.settings)
    found: Json = {
        "nfev": table[ends, 0].astype(np.int64).tolist(),
        "run": progress.runs[ends].tolist(),
        "seconds": numbers(table[ends, 6] - progress.settings.began, 7),
        "best": numbers(table[ends, 1], 9),
        "lowest": numbers(np.fmin.reduceat(table[:, 2], heads) if heads.size else [], 9),
        "median": numbers(table[ends, 4], 9),
        "deviation": numbers(table[ends, 3], 5),
    }
    sums = {"evaluated": progress.sizes, "failed": progress.failed}
    if progress.settings.constraints is not None:
        sums["feasible"] = progress.feasible
    for name, counts in sums.items():
        found[name] = np.add.reduceat(counts, heads).tolist() if heads.size else []
    if further is not None:
        found[further] = numbers(table[ends, 5], 5)
    return found


def trace_curves(progress: Progress, shown: Sequence[int]) -> Json:
    """The curves of the search distribution; means and deviations of the variables that are shown."""
    trace = progress.as_trace()
    if not trace.nfev.size:
        return {"nfev": [], "run": [], "sigma": [], "ratio": [], "axes": [], "mean": [], "deviations": []}
    chosen = np.unique(np.arange(MOST_SHOWN) * (trace.axes.shape[1] - 1) // (MOST_SHOWN - 1))
    axes = trace.axes[:, chosen] if trace.axes.shape[1] else trace.axes
    with np.errstate(all="ignore"):
        return {
            "nfev": trace.nfev.tolist(),
            "run": trace.run.tolist(),
            "sigma": numbers(trace.sigma, 5),
            "ratio": numbers(trace.axis_ratio, 5),
            "axes": [numbers(column, 5) for column in axes.T],
            "mean": [numbers(trace.mean[:, i], 7) for i in shown],
            "deviations": [numbers(trace.deviations[:, i], 5) for i in shown],
        }


class Variables:
    """The variables of a run, with the order in which they are shown."""

    def __init__(self, progress: Progress, by_evaluations: Array, wanted: str) -> None:
        self.progress, self.by_evaluations = progress, by_evaluations
        self.labels: Labels = progress.optimizer.start.labels
        self.by_covariance = covariance_importance(progress.theta_of_best, progress.optimizer.start)
        names = [self.labels.name(i) for i in range(progress.dimension)]
        folded = wanted.casefold().split()
        self.names = names
        self.matching = [i for i, name in enumerate(names) if all(word in name.casefold() for word in folded)]
        both = np.nan_to_num(self.by_covariance) + np.nan_to_num(by_evaluations)
        first = sorted(self.matching, key=lambda i: -both[i])[:MOST_SHOWN]
        self.shown = sorted(first)

    @property
    def is_log(self) -> NDArray[np.bool_]:
        """Which variables (d,) are log-scaled."""
        space = self.progress.optimizer.start.space
        return np.zeros(self.progress.dimension, dtype=np.bool_) if space is None else space.log_scaled

    def describe(self) -> Json:
        """The variables with their best value, the mean and the spread of the search, and their importance."""
        progress, labels, space = self.progress, self.labels, self.progress.optimizer.start.space
        theta = progress.theta_of_best
        x, mean, spread = best_point(progress), mean_of(theta, space), deviations_of(theta, space)
        discrete = labels.discrete(progress.dimension)

        def row(i: int) -> Json:
            return {
                "index": i,
                "name": printable(self.names[i]),
                "best": printable(labels.text(i, float(x[i]))),
                "mean": printable(labels.text(i, float(mean[i]), 5)),
                "spread": printable(labels.spread(i, spread, theta)),
                "kind": "discrete" if discrete[i] else "log" if self.is_log[i] else "real",
                "covariance": number(self.by_covariance[i], 4),
                "evaluations": number(self.by_evaluations[i], 4),
            }

        some = [self.matching[k] for k in listed(len(self.matching), MOST_LISTED) if k is not None]
        return {
            "count": progress.dimension,
            "matching": len(self.matching),
            "rows": [row(i) for i in some],
            "constants": {printable(name): printable(text) for name, text in labels.constants().items()},
            "shown": [
                {
                    "index": i,
                    "name": printable(self.names[i]),
                    "log": bool(self.is_log[i]),
                    "labels": self._labels(i),
                    "best": number(float(x[i]), 9),
                }
                for i in self.shown
            ],
        }

    def _labels(self, index: int) -> list[str] | None:
        """The values of a choice as texts."""
        space = self.progress.optimizer.start.parameters
        parameter = None if space is None else list(space.parameters.values())[index]
        if not isinstance(parameter, Choice):
            return None
        return [printable(self.labels.text(index, k))[:60] for k in range(min(len(parameter.values), MOST_LABELS))]


def best_point(progress: Progress) -> Array:
    """The best point (d,). That of a noisy objective is no evaluation, because it would be a lucky one."""
    if progress.estimate is not None:
        return progress.estimate.x
    return progress.optimizer.start.x0 if progress.position is None else progress.position.best.x


def best_value(progress: Progress) -> float:
    """The value at the best point; NaN if that violates constraints."""
    if progress.estimate is not None:
        return progress.estimate.fun
    if progress.position is None:
        return math.nan
    best, constraints = progress.position.best, progress.optimizer.constraints
    return best.fun if constraints is None or constraints.allows(best.constraints) else math.nan


def evaluations(selection: Selection, shown: Sequence[int]) -> Json:
    """Some evaluations with the variables that are shown: evenly chosen ones and the best ones."""
    n = len(selection.index)
    if n > MOST_EVALUATIONS:
        best = selection.lowest(MOST_EVALUATIONS // 6).index
        few = MOST_EVALUATIONS - len(best)
        even = selection.index[np.arange(few) * (n - 1) // (few - 1)]
        selection = selection.take(np.isin(selection.index, np.append(even, best)))
    return {
        "index": selection.index.tolist(),
        "run": selection.run.tolist(),
        "value": numbers(selection.values, 8),
        "feasible": (selection.violations <= 0).tolist(),
        "points": [numbers(selection.points[:, i], 6) for i in shown],
    }


def restarts(progress: Progress) -> list[Json]:
    """The runs between restarts, the last ones if there are many."""
    firsts = np.flatnonzero(np.diff(progress.runs, prepend=-1))
    ends = np.append(firsts, len(progress.runs))[1:]
    found = list[Json]()
    for first, end in list(zip(firsts.tolist(), ends.tolist(), strict=True))[-MOST_LISTED:]:
        run = int(progress.runs[first])
        reasons = _reasons(progress, run)
        found.append(
            {
                "run": run,
                "popsize": _popsize(progress, run, int(progress.sizes[end - 1])),
                "generations": end - first,
                "nfev": int(np.sum(progress.sizes[first:end])),
                "best": number(_best_of_run(progress, first, end)),
                "reason": message(reasons) if reasons else "",
            }
        )
    return found


def _best_of_run(progress: Progress, first: int, end: int) -> float:
    """The best value of some generations; under noise the level of the answer after them, which is not a lucky one."""
    if progress.settings.noise:
        return float(progress.table[end - 1, 1])
    return float(np.fmin.reduce(progress.table[first:end, 2], initial=np.nan))


def _popsize(progress: Progress, run: int, evaluated: int) -> int:
    """Points per generation of a run; with a surrogate, more than are evaluated."""
    position = progress.position
    if position is None or run > len(position.finished):
        return evaluated
    return (position.finished[run][0] if run < len(position.finished) else position.state.run).popsize


def _reasons(progress: Progress, run: int) -> dict[str, float]:
    """Why a run ended; empty if it has not."""
    if progress.position is None:
        return {}
    endings = [*progress.position.endings, progress.position.reasons]
    return endings[run] if run < len(endings) else {}


def failures(progress: Progress) -> Json:
    """Numbers of failed evaluations by kind, and the last of them."""
    found, labels = progress.failures, progress.optimizer.start.labels
    last = [
        {
            "kind": printable(one.kind),
            "detail": printable(one.detail),
            "point": "" if one.x is None or one.x.ndim != 1 else printable(labels.point(one.x)),
        }
        for one in list(found.last)[-10:]
    ]
    return {"counts": {printable(kind): count for kind, count in found.counts.most_common()}, "last": last[::-1]}


def constraint_values(progress: Progress) -> list[Json]:
    """The constraint values of the best point, and by how much they violate their bounds."""
    constraints, position = progress.optimizer.constraints, progress.position
    if constraints is None or position is None or position.best.constraints is None:
        return []
    values = position.best.constraints
    violations = constraints.violations(values)
    return [
        {"name": printable(name), "value": number(value, 7), "violation": number(violation, 4)}
        for name, value, violation in zip(constraints.labels, values.tolist(), violations.tolist(), strict=False)
    ]


def error_bars(progress: Progress) -> Json | None:
    """The error bars of the variables as texts, what they mean, and reasons not to trust them; None without any."""
    found = None if progress.position is None else progress.position.curvature
    if found is None:
        return None
    header, *rows = [[printable(text) for text in row] for row in parameter_rows(found)]
    problems = [printable(str(problem)) for problem in found.problems]
    return {
        "header": header,
        "rows": rows,
        "meaning": f"{MEANING[found.kind]}; {found.nfev} evaluations",
        "problems": problems,
    }


def totals(progress: Progress) -> Json:
    """The numbers at the head of the page."""
    table, trace = progress.table, progress.trace[-1] if progress.trace else None
    axes = np.empty(0) if trace is None else trace.axes
    lost = int(np.count_nonzero(np.isnan(progress.open_values)))
    error = math.nan if progress.estimate is None else progress.estimate.error
    with np.errstate(all="ignore"):
        return {
            "best": number(best_value(progress)),
            "error": number(error, 3),
            "nfev": progress.nfev,
            "nit": len(table),
            "restarts": int(progress.runs[-1]) if len(table) else 0,
            "sigma": number(float(np.exp(np.mean(np.log(axes)))), 4) if axes.size else None,
            "ratio": number(float(axes[0] / axes[-1]), 4) if axes.size else None,
            "failed": int(np.sum(progress.failed)) + lost,
            "rate": number(rate(progress), 4),
            "open": progress.open_values.size,
            "seconds": number(float(table[-1, 6]) - progress.settings.began, 6) if len(table) else 0.0,
        }


def rate(progress: Progress) -> float:
    """Evaluations per second in the last seconds of the run; NaN if there are too few generations."""
    times, nfev = progress.table[:, 6], progress.table[:, 0]
    if len(times) < 2:
        return math.nan
    first = min(int(np.count_nonzero(times < times[-1] - RECENT)), len(times) - 2)
    span = float(times[-1] - times[first])
    return float(nfev[-1] - nfev[first]) / span if span > 0 else math.nan


def facts(progress: Progress) -> Json:
    """The settings of a run as texts."""
    settings = progress.settings
    limits = dict(zip(("maxfevals", "maxiter", "ftarget", "maxtime"), settings.limits, strict=False))
    host = "" if progress.position is None else progress.position.driver.get(HOST, "")
    found = {
        "objective": describe_objective(settings),
        "method": printable(settings.method or settings.parts),
        "points per generation": str(settings.popsize),
        "workers": "executor or client" if settings.workers is None else str(settings.workers),
        "restarts": "none" if settings.restarts is None else printable(_strategy(settings.restarts)),
        "limits": ", ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None) or "none",
        "noise": "the answer is the mean of the search, or of its best points" if settings.noise else "",
        "surrogate": f"evaluations at a time: {settings.surrogate}" if settings.surrogate else "",
        "constraints": "" if progress.optimizer.constraints is None else str(progress.optimizer.constraints.size),
        "on error": printable(settings.on_error),
        "host": printable(host),
        "sublevel": printable(settings.version),
    }
    return {**found}


def _strategy(restarts: str | list[str | int | float]) -> str:
    return restarts if isinstance(restarts, str) else ", ".join(map(str, restarts))


def detail(progress: Progress, by_evaluations: Array, wanted: str, is_running: bool) -> Json:
    """Everything that the page shows of a run, with the variables whose names match the words that are wanted."""
    variables = Variables(progress, by_evaluations, wanted)
    reasons = {} if progress.position is None else progress.position.reasons
    text = "The run is in progress." if is_running else message(reasons) if reasons else ""
    return {
        "state": state_name(reasons, is_running),
        "running": is_running,
        "noise": progress.settings.noise,
        "message": text or "The process ended before the run was complete; continue it with `sublevel resume`.",
        "read": round(progress.share_read, 4),
        "totals": totals(progress),
        "facts": facts(progress),
        "curves": curves(progress),
        "trace": trace_curves(progress, variables.shown),
        "variables": variables.describe(),
        "evaluations": evaluations(progress.selection, variables.shown),
        "restarts": restarts(progress),
        "failures": failures(progress),
        "constraints": constraint_values(progress),
        "error_bars": error_bars(progress),
    }


def importance_of(progress: Progress) -> Importance:
    """The importance of the variables by the evaluations of generations that searched widely.

    Later ones are near the minimum, where the search has already made all variables equally important.
    """
    selection, start = progress.early, progress.optimizer.start
    values = np.where(selection.violations <= 0, selection.values, np.nan)
    none = np.zeros(progress.dimension, dtype=np.bool_)
    is_log = none if start.space is None else start.space.log_scaled
    shares = evaluation_importance(selection.points, values, is_log, start.labels.discrete(progress.dimension))
    return Importance(shares, progress.count)
