"""Profile-likelihood intervals; the evaluations of all ends are made together."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Evaluator, evaluate_all
from sublevel.evaluation.failures import Failures
from sublevel.hessian.calls import ObjectiveCalls, failure_findings
from sublevel.hessian.frame import in_search_units
from sublevel.hessian.profile_path import Chart, End, Line, Target, climb
from sublevel.hessian.report import problem_lines
from sublevel.hessian.tuning import ProfileTuning
from sublevel.plots import curvature
from sublevel.run.diagnosis import Finding
from sublevel.summaries import aligned, counted
from sublevel.validation import short_repr

K = TypeVar("K")
HARMLESS = frozenset({"at_bound", "failures"})
"""Findings that do not affect the intervals."""


@dataclass(frozen=True, slots=True, eq=False)
class ProfileIntervals:
    """Profile-likelihood intervals of d variables: where f, minimised over the other variables, has risen by `rise`.

    Attributes
    ----------
    intervals : array, shape (d, 2)
        Lower and upper ends: a bound if f rises too little before it, ±inf (0 for the lower end of a log-scaled
        variable) if f never rises enough, NaN if `problems` gives the reason or the variable was not requested.
    at_bound : array of bool, shape (d, 2)
        Which ends are bounds.
    points : array, shape (d, 2, d)
        All variables at each end.
    paths : tuple of array, shape (n, 2)
        For each variable, its values in ascending order and the rise of the profile there.
    level, rise : float
        The confidence level and the corresponding rise of f.
    nfev : int
        Number of evaluations.
    problems : tuple of Finding
        One for each end that is not a crossing, and for points below the minimum.
    """

    x: Array
    intervals: Array
    at_bound: NDArray[np.bool_]
    points: Array
    paths: tuple[Array, ...]
    deviations: Array  # (d,), standard deviations of the quadratic, in the variables' units
    unit: float  # rise at one of them
    is_log: NDArray[np.bool_]  # (d,), variables that are log-scaled
    level: float
    rise: float
    nfev: int
    problems: tuple[Finding, ...]
    names: tuple[str, ...]

    @property
    def success(self) -> bool:
        """Whether every end was found (possibly a bound), and no point below the minimum."""
        return not {problem.name for problem in self.problems} - HARMLESS

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw each profile and the parabola of the Hessian, save the figure to `file` if given, and return it."""
        return curvature.profiles(self, file)

    def __str__(self) -> str:
        """A line for each variable, and warnings."""
        rows = [["variable", "value", "− error", "+ error", f"{100 * self.level:.4g} % profile interval"]]
        for i in np.flatnonzero(np.isfinite(self.deviations)):
            (low, high), x = self.intervals[i], self.x[i]
            notes = [" (bound)" if is_bound else "" for is_bound in self.at_bound[i]]
            ends = f"[{low:.6g}{notes[0]}, {high:.6g}{notes[1]}]"
            rows.append([self.names[i], f"{x:.7g}", f"{x - low:.4g}", f"{high - x:.4g}", ends])
        rise = f"f rises by {self.rise:.4g} at the ends; {self.nfev} evaluations"
        return "\n".join([*aligned(rows), rise, *problem_lines(self.problems)])

    def __repr__(self) -> str:
        """One line."""
        return f"ProfileIntervals({counted(self.x.size, 'variable')}, level {self.level:g}, {self.nfev} evaluations)"


def profile_intervals(
    found: Any,
    quantile: float,
    level: float,
    calls: ObjectiveCalls,
    variables: Any,
    maxfevals: float,
    tuning: ProfileTuning | None = None,
) -> ProfileIntervals:
    """Compute the intervals of a curvature for a normal or Student's t quantile."""
    wanted, unit = _variable_indices(variables, found), found.unit_rise
    chart = _chart(found, tuning or ProfileTuning())
    target = _target(found, quantile, chart.tuning)
    failures = Failures()
    with calls.open(failures) as evaluate:
        values = _Values(evaluate, chart, found.fun, unit, _repeats(found, target), maxfevals)
        root = _root(found, chart, values)
        lines = {
            (i, side): _line(chart, root, found.free, i, side) for i in wanted for side in (0, 1) if i in chart.moving
        }
        ends = _run_in_lockstep({key: climb(line, target) for key, line in lines.items() if line.limit > 1e-6}, values)
    for key, line in lines.items():
        if key not in ends:
            ends[key] = End(line.limit, "bound", line.offsets(line.limit, np.zeros(line.others.size)), 0.0)
    return _assemble(found, chart, lines, ends, target, level, values, failure_findings(failures))


def _variable_indices(variables: Any, found: Any) -> list[int]:
    """Indices of the requested variables, given by name or index; all if None."""
    if variables is None:
        return list(range(found.x.size))
    given: list[Any] = [variables] if isinstance(variables, str | int) else list(variables)
    names, d = list(found.names), found.x.size
    indices = [names.index(one) if one in names else one for one in given]
    if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) and -d <= i < d for i in indices):
        raise ValueError(
            f"`variables` must be names ({', '.join(names[:8])}) or indices below {d}, got {short_repr(variables)}."
        )
    return sorted({int(i) % d for i in indices})


def _target(found: Any, quantile: float, tuning: ProfileTuning) -> Target:
    """The rise to find, in units of that of one standard deviation, and the noise after averaging."""
    rise, noise = quantile**2, (found.noise if found.is_noisy else 0.0) / found.unit_rise
    repeats = int(np.ceil(max((noise / (tuning.precision * rise)) ** 2, 1.0)))
    if repeats > tuning.max_repeats:
        raise ValueError(
            f"noise of {found.noise:.3g} is too large for profile intervals: f rises by {rise * found.unit_rise:.3g} "
            f"at their ends, which would take {repeats} evaluations of each point. Average in the objective, or use "
            'method="hessian".'
        )
    noise = noise / np.sqrt(repeats)
    return Target(
        rise, tuning.step_for_noise if noise else tuning.step, noise, max(tuning.accuracy * rise, 2.0 * noise)
    )


def _repeats(found: Any, target: Target) -> int:
    """Number of evaluations of each point."""
    return round((found.noise / found.unit_rise / target.noise) ** 2) if target.noise else 1


def _chart(found: Any, tuning: ProfileTuning) -> Chart:
    """Offsets of the variables that are not fixed."""
    box: tuple[Array, Array] = found.box
    moving = np.flatnonzero(box[0] < box[1])
    lower, x, upper = in_search_units(found.is_log, box[0], found.x, box[1])
    return Chart(found.x, found.is_log, box, moving, (lower - x)[moving], (upper - x)[moving], tuning)


def _root(found: Any, chart: Chart, values: _Values) -> Array:
    """A root (m, m) of the covariance in offsets; for variables at a bound, the scale at which f rises."""
    free = found.free[chart.moving]
    inverse = found.hess_inv[np.ix_(chart.moving[free], chart.moving[free])]
    if not np.isfinite(inverse).all() or not np.all(np.diagonal(inverse) > 0):
        reasons = "; ".join(str(problem) for problem in found.problems) or "unknown reason"
        raise ValueError(
            f"profile intervals need an inverse Hessian of all free variables, which is not available: {reasons}"
        )
    root = np.zeros((chart.moving.size, chart.moving.size))
    slopes = np.where(found.is_log, found.x, 1.0)[chart.moving[free]]
    directions = found.directions[chart.moving[free]] / np.sqrt(found.curvatures)
    root[np.ix_(free, free)] = np.sqrt(2.0 * found.unit_rise) * directions / slopes[:, None]
    held = np.flatnonzero(~free)
    scales = _run_in_lockstep({int(i): _probe_scale(chart, int(i)) for i in held}, values)
    for i in held:
        root[i, i] = (
            scale if isinstance(scale := scales[int(i)], float) else 1.0
        )  # without evaluations left there is none
    return root


def _probe_scale(chart: Chart, index: int) -> Generator[Array, Array, float]:
    """About how far a variable at its bound moves inwards for F to rise by 1."""
    factor = chart.tuning.probe_factor
    side, room = (1.0, chart.high[index]) if chart.high[index] > -chart.low[index] else (-1.0, -chart.low[index])
    step, low, high, rise = min(1e-3 * _size(chart, index), room), 0.0, np.inf, np.nan
    for _ in range(chart.tuning.max_probes):
        offsets = np.zeros((1, chart.moving.size))
        offsets[0, index] = side * step
        rise = float((yield offsets)[0])
        if 0.1 < rise < 10.0 or (rise <= 0.1 and step >= room):
            break
        low, high = (step, high) if rise <= 0.1 else (low, step)
        step = np.sqrt(low * high) if low > 0 and high < np.inf else step * (factor if rise <= 0.1 else 1.0 / factor)
        step = min(float(step), room)
    return step / np.sqrt(rise) if 0.01 < rise < np.inf else step


def _size(chart: Chart, index: int) -> float:
    """About how large a variable is: 1 for logarithms, and that of the others if it is next to nothing."""
    moving = np.abs(chart.x[chart.moving])
    if chart.is_log[chart.moving[index]]:
        return 1.0
    return float(moving[index] if moving[index] > 1e-6 * np.max(moving) else np.max(moving)) or 1.0


def _line(chart: Chart, root: Array, free: NDArray[np.bool_], variable: int, side: int) -> Line:
    """From the minimum to one side (0 or 1) of a variable."""
    index, sign = int(np.flatnonzero(chart.moving == variable)[0]), 2.0 * side - 1.0
    row = root[index]
    deviation = float(np.linalg.norm(row))
    others = np.delete(np.arange(chart.moving.size), index)
    complement = np.linalg.qr(row[:, None], mode="complete")[0][:, 1:]
    given = np.linalg.qr((root[others] @ complement).T)[1].T if others.size else np.zeros((0, 0))
    limit = float(chart.high[index] if side else -chart.low[index]) / deviation
    is_guess = not free[chart.moving[others]].all()
    return Line(chart, sign * (root @ row) / deviation, others, given, max(limit, 0.0), is_guess)


class _Values:
    """F of offsets, averaged over repeats, counted; the lowest value is kept."""

    def __init__(
        self, evaluate: Evaluator, chart: Chart, fun: float, unit: float, repeats: int, maxfevals: float
    ) -> None:
        self.evaluate, self.chart, self.fun, self.unit, self.repeats, self.maxfevals = (
            evaluate,
            chart,
            fun,
            unit,
            repeats,
            maxfevals,
        )
        self.nfev, self.lowest, self.lowest_x = 0, 0.0, chart.x

    def can_pay(self, points: int) -> bool:
        """Whether so many points may still be evaluated."""
        return self.nfev + points * self.repeats <= self.maxfevals

    def __call__(self, offsets: Array) -> Array:
        """F (n,) of offsets (n, m)."""
        if not len(offsets):
            return np.empty(0)
        points = self.chart.points(offsets)
        self.nfev += self.repeats * len(points)
        values = evaluate_all(self.evaluate, np.repeat(points, self.repeats, axis=0)).reshape(len(points), self.repeats)
        rises = (np.mean(values, axis=1) - self.fun) / self.unit
        if np.min(rises, initial=np.inf, where=~np.isnan(rises)) < self.lowest:
            best = int(np.nanargmin(rises))
            self.lowest, self.lowest_x = float(rises[best]), points[best]
        return rises


def _run_in_lockstep(climbs: dict[K, Generator[Array, Array, Any]], values: _Values) -> dict[K, Any]:
    """Run generators of offsets together and return their results; those beyond the budget are closed."""
    ends, requests = dict[K, Any](), {key: next(one) for key, one in climbs.items()}
    while requests:
        paid = dict[K, Array]()
        for key, offsets in requests.items():
            if values.can_pay(len(offsets) + sum(map(len, paid.values()))):
                paid[key] = offsets
            else:
                climbs[key].close()
                ends[key] = End(
                    np.nan, "failed", offsets[0], np.nan, f"`maxfevals` = {values.maxfevals:g} was too small"
                )
        if not paid:
            break
        rises = np.split(
            values(np.concatenate(list(paid.values()))), np.cumsum([len(offsets) for offsets in paid.values()])[:-1]
        )
        requests = {}
        for key, its in zip(paid, rises, strict=True):
            try:
                requests[key] = climbs[key].send(its)
            except StopIteration as stop:
                ends[key] = stop.value
    return ends


def _assemble(
    found: Any,
    chart: Chart,
    lines: dict[tuple[int, int], Line],
    ends: dict[tuple[int, int], End],
    target: Target,
    level: float,
    values: _Values,
    failed: tuple[Finding, ...],
) -> ProfileIntervals:
    """The ends in user coordinates."""
    d: int = found.x.size
    intervals, points, at_bound = np.full((d, 2), np.nan), np.full((d, 2, d), np.nan), np.zeros((d, 2), dtype=np.bool_)
    deviations, paths, problems = np.full(d, np.nan), [np.empty((0, 2))] * d, list[Finding]()
    fixed = np.setdiff1d(np.arange(d), chart.moving)
    intervals[fixed] = found.x[fixed, None]
    for i in sorted({i for i, _ in ends}):
        deviations[i] = _scale_of_variable(lines[i, 1], i) * (found.x[i] if found.is_log[i] else 1.0)
        paths[i] = _path(chart, lines, ends, i, values.unit)
        for side in (0, 1):
            end, line = ends[i, side], lines[i, side]
            intervals[i, side] = _end_value(found, line, end, i, side)
            points[i, side], at_bound[i, side] = chart.points(end.offsets), end.status == "bound"
            problems += _end_problems(found, chart, end, i, side, target.rise * values.unit, values.unit)
    problems += _lower_point(values, target)
    rise = target.rise * values.unit
    findings = tuple(problems) + failed
    seen = tuple(paths), deviations, values.unit, found.is_log
    return ProfileIntervals(
        found.x, intervals, at_bound, points, *seen, level, rise, values.nfev, findings, found.names
    )


def _scale_of_variable(line: Line, variable: int) -> float:
    """Offset of the variable itself at t = 1."""
    return float(line.direction[np.flatnonzero(line.chart.moving == variable)[0]])


def _variable_at(chart: Chart, line: Line, variable: int, t: Array) -> Array:
    """Values (n,) of a variable at t (n,)."""
    offsets = np.zeros((t.size, chart.moving.size))
    offsets[:, chart.moving == variable] = (t * _scale_of_variable(line, variable))[:, None]
    return chart.points(offsets)[:, variable]


def _end_value(found: Any, line: Line, end: End, variable: int, side: int) -> float:
    """An end in the user's units."""
    if end.status == "bound":
        return float(line.chart.box[side][variable])
    if end.status == "open":
        return (0.0 if found.is_log[variable] else -np.inf) if side == 0 else np.inf
    return float(_variable_at(line.chart, line, variable, np.array([end.t]))[0]) if np.isfinite(end.t) else np.nan


def _path(
    chart: Chart, lines: dict[tuple[int, int], Line], ends: dict[tuple[int, int], End], variable: int, unit: float
) -> Array:
    """Values of a variable and rises of its profile (n, 2), ascending."""
    parts = list[Array]()
    for side in (0, 1):
        seen = np.array(ends[variable, side].trail).reshape(-1, 2)
        parts.append(
            np.column_stack([_variable_at(chart, lines[variable, side], variable, seen[:, 0]), unit * seen[:, 1]])
        )
    whole = np.concatenate(parts)
    return whole[np.unique(whole[:, 0], return_index=True)[1]]


def _end_problems(
    found: Any, chart: Chart, end: End, variable: int, side: int, rise: float, unit: float
) -> list[Finding]:
    """A finding if an end is not a crossing."""
    name, which = found.names[variable], ("lower", "upper")[side]
    where = f"{chart.points(end.offsets)[variable]:.6g}"
    sentences = {
        "bound": (
            f"the {which} end of {name} is its bound, {where}: f rises by {unit * end.rise:.3g} there, less than "
            f"{rise:.3g}"
        ),
        "open": f"{name} has no {which} end: f rises by {unit * end.rise:.3g} up to {where}, less than {rise:.3g}",
        "jump": f"the {which} end of {name} is a jump of f at {where}",
        "failed": f"the {which} end of {name} was not found: near {name} = {where} {end.reason}",
    }
    names = {"bound": "at_bound", "open": "open", "jump": "jump", "failed": "failed"}
    if end.status not in names:
        return []
    return [Finding(names[end.status], sentences[end.status], {"variable": float(variable), "side": float(side)})]


def _lower_point(values: _Values, target: Target) -> list[Finding]:
    """A finding if a profile fell below the minimum."""
    if -values.lowest <= max(values.chart.tuning.lower, 4.0 * target.noise):
        return []
    drop, where = -values.lowest * values.unit, np.array2string(values.lowest_x, threshold=20)
    sentence = (
        f"f is lower by {drop:.3g} at x = {where} than at the minimum; minimise again from there, and repeat the "
        "curvature and the intervals"
    )
    return [Finding("lower_point", sentence, {"drop": drop})]
