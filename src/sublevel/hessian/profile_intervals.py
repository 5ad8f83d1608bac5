"""Profile-likelihood intervals; the evaluations of all ends are made together."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.evaluation.evaluators import Evaluator, evaluate_all
from sublevel.evaluation.failures import Failures
from sublevel.hessian.calls import ObjectiveCalls, failure_findings
from sublevel.hessian.estimate import Estimate, LowerPoint
from sublevel.hessian.frame import in_search_units
from sublevel.hessian.profile_path import Chart, End, Line, OutOfEvaluationsError, Target, climb
from sublevel.hessian.report import held_text, problem_lines
from sublevel.hessian.tuning import ProfileTuning
from sublevel.plots import curvature
from sublevel.run.arguments import FileName
from sublevel.run.diagnosis import Finding
from sublevel.summaries import aligned, counted, number_text
from sublevel.validation import short_repr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K = TypeVar("K")
R = TypeVar("R")
Variables = str | int | Iterable[str | int] | None
"""Names or indices of variables; None for all."""
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
    uncertainty : array, shape (d, 2)
        How far an end may be off where the minimum over the other variables was not found exactly; 0 where it was, NaN
        where the end is NaN.
    at_bound : array of bool, shape (d, 2)
        Which ends are bounds.
    points : array, shape (d, 2, d)
        All variables at each end.
    paths : tuple of array, shape (n, 2)
        For each variable, its values in ascending order and the rise of the profile there, negative where f is lower
        than at the minimum.
    upper_limits : tuple of array, shape (n, 2)
        The same where f was not minimised over the other variables: the profile is lower there, or equal.
    level, rise : float
        The confidence level and the corresponding rise of f.
    nfev : int
        Number of evaluations.
    lower_point : LowerPoint or None
        The lowest point of all profiles, with its `x` and `fun`, if f is lower there than at the minimum.
    problems : tuple of Finding
        One for each end that is not a crossing, and for points below the minimum.
    """

    x: Array
    intervals: Array
    uncertainty: Array
    at_bound: NDArray[np.bool_]
    points: Array
    paths: tuple[Array, ...]
    upper_limits: tuple[Array, ...]
    deviations: Array  # (d,), standard deviations of the quadratic, in the variables' units
    unit: float  # rise at one of them
    is_log: NDArray[np.bool_]  # (d,), variables that are log-scaled
    level: float
    rise: float
    nfev: int
    problems: tuple[Finding, ...]
    names: tuple[str, ...]
    held: Mapping[str, str] = field(default_factory=dict[str, str])  # values of discrete variables as texts, by name
    fun: float = np.nan  # f at the minimum
    lower_point: LowerPoint | None = None

    @property
    def success(self) -> bool:
        """Whether every end was found (possibly a bound), and no point below the minimum."""
        return not {problem.name for problem in self.problems} - HARMLESS

    def plot(self, file: FileName | None = None) -> Figure:
        """Draw each profile and the parabola of the Hessian, save the figure to `file` if given, and return it."""
        return curvature.profiles(self, file)

    def __str__(self) -> str:
        """A line for each variable, and warnings."""
        rows = [["variable", "value", "− error", "+ error", f"{100 * self.level:.4g} % profile interval"]]
        for i in np.flatnonzero(np.isfinite(self.deviations)):
            (low, high), x = self.intervals[i], self.x[i]
            notes = [
                " (bound)" if is_bound else f" ± {doubt:.2g}" if doubt > 0 else ""
                for is_bound, doubt in zip(self.at_bound[i], self.uncertainty[i], strict=True)
            ]
            ends = f"[{number_text(low, '.6g')}{notes[0]}, {number_text(high, '.6g')}{notes[1]}]"
            rows.append([self.names[i], f"{x:.7g}", number_text(x - low, ".4g"), number_text(high - x, ".4g"), ends])
        rise = f"f rises by {self.rise:.4g} at the ends; {self.nfev} evaluations"
        held = [f"held: {held_text(self.held)}"] if self.held else []
        return "\n".join([*aligned(rows), rise, *held, *problem_lines(self.problems)])

    def __repr__(self) -> str:
        """One line."""
        return f"ProfileIntervals({counted(self.x.size, 'variable')}, level {self.level:g}, {self.nfev} evaluations)"


def profile_intervals(
    found: Estimate,
    quantile: float,
    level: float,
    calls: ObjectiveCalls,
    variables: Variables,
    maxfevals: float,
    tuning: ProfileTuning | None = None,
) -> ProfileIntervals:
    """Compute the intervals of a curvature for a normal or Student's t quantile."""
    wanted, chart = _variable_indices(variables, found), _chart(found, tuning or ProfileTuning())
    target = _target(found, quantile, chart.tuning)
    with calls.open(failures := Failures()) as evaluate:
        values = _Values(evaluate, chart, found.fun, found.unit_rise, target.repeats, maxfevals)
        root = _root(found, chart, values)
        sides = [(i, side) for i in wanted for side in (0, 1) if i in chart.moving]
        lines = {(i, side): _line(chart, root, found.free, i, side) for i, side in sides}
        climbs = {key: climb(line, target) for key, line in lines.items() if line.limit > 1e-6}
        ends = _run_together(climbs, values)
    for key, line in lines.items():
        if key not in ends:
            ends[key] = End(line.limit, "bound", line.offsets(line.limit, np.zeros(line.others.size)), 0.0)
    intervals = _assemble(found, {key: (line, ends[key]) for key, line in lines.items()}, target, level, values)
    return replace(intervals, problems=intervals.problems + failure_findings(failures))


def _variable_indices(variables: Variables, found: Estimate) -> list[int]:
    """Indices of the requested variables, given by name or index; all if None."""
    if variables is None:
        return list(range(found.x.size))
    given = [variables] if isinstance(variables, str | int) else list(variables)
    names, d = list(found.names), found.x.size
    indices = [names.index(one) if one in names else one for one in given]
    if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) and -d <= i < d for i in indices):
        known = f"names ({', '.join(names[:8])}) or indices below {d}"
        raise ValueError(f"`variables` must be {known}, got {short_repr(variables)}.")
    return sorted({int(i) % d for i in indices})


def _target(found: Estimate, quantile: float, tuning: ProfileTuning) -> Target:
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
    step = tuning.step_for_noise if noise else tuning.step
    return Target(rise, step, noise, max(tuning.accuracy * rise, 2.0 * noise), repeats)


def _chart(found: Estimate, tuning: ProfileTuning) -> Chart:
    """Offsets of the variables that are not fixed."""
    moving = np.flatnonzero(found.box[0] < found.box[1])
    lower, x, upper = in_search_units(found.is_log, found.box[0], found.x, found.box[1])
    return Chart(found.x, found.is_log, found.box, moving, (lower - x)[moving], (upper - x)[moving], tuning)


def _root(found: Estimate, chart: Chart, values: _Values) -> Array:
    """A root (m, m) of the covariance in offsets; for variables at a bound, the scale at which f rises."""
    free = found.free[chart.moving]
    inverse = found.hess_inv[np.ix_(chart.moving[free], chart.moving[free])]
    if not np.isfinite(inverse).all() or not np.all(np.diagonal(inverse) > 0):
        reasons = "; ".join(str(problem) for problem in found.problems) or "unknown reason"
        raise ValueError(f"profile intervals need the inverse Hessian of all free variables: {reasons}")
    root = np.zeros((chart.moving.size, chart.moving.size))
    slopes = np.where(found.is_log, found.x, 1.0)[chart.moving[free]]
    directions = found.directions[chart.moving[free]] / np.sqrt(found.curvatures)
    root[np.ix_(free, free)] = np.sqrt(2.0 * found.unit_rise) * directions / slopes[:, None]
    held = np.flatnonzero(~free)
    scales = _run_together({int(i): _probe_scale(chart, int(i)) for i in held}, values)
    for i in held:
        root[i, i] = scales.get(int(i), 1.0)  # 1 without evaluations left
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
    """The magnitude of a variable: 1 for logarithms, and the largest of all if it is negligible."""
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
    return Line(chart, index, side, sign * (root @ row) / deviation, others, given, max(limit, 0.0), is_guess)


class _Values:
    """F of offsets, averaged over repeats, counted; the lowest value is kept."""

    def __init__(
        self, evaluate: Evaluator, chart: Chart, fun: float, unit: float, repeats: int, maxfevals: float
    ) -> None:
        self.evaluate, self.chart, self.fun, self.unit = evaluate, chart, fun, unit
        self.repeats, self.maxfevals = repeats, maxfevals
        self.nfev, self.lowest, self.lowest_point = 0, 0.0, LowerPoint(chart.x, fun)

    def __call__(self, offsets: Array) -> Array:
        """F (n,) of offsets (n, m)."""
        if not len(offsets):
            return np.empty(0)
        points = self.chart.points(offsets)
        self.nfev += self.repeats * len(points)
        values = evaluate_all(self.evaluate, np.repeat(points, self.repeats, axis=0)).reshape(len(points), self.repeats)
        means = np.mean(values, axis=1)
        rises = (means - self.fun) / self.unit
        if np.min(rises, initial=np.inf, where=~np.isnan(rises)) < self.lowest:
            best = int(np.nanargmin(rises))
            self.lowest, self.lowest_point = float(rises[best]), LowerPoint(points[best], float(means[best]))
        return rises


def _run_together(searches: dict[K, Generator[Array, Array, R]], values: _Values) -> dict[K, R]:
    """Run generators of offsets with common evaluations; their results, as far as they have one.

    A request that exceeds the budget is answered by `OutOfEvaluationsError`, which ends a generator.
    """
    results, requests = dict[K, R](), {key: next(one) for key, one in searches.items()}
    while requests:
        paid = dict[K, Array]()
        for key, offsets in requests.items():
            points = len(offsets) + sum(map(len, paid.values()))
            if values.nfev + points * values.repeats <= values.maxfevals:
                paid[key] = offsets
            else:
                results |= _end_unpaid(key, searches[key], values.maxfevals)
        requests = {}
        if not paid:
            break
        ends = np.cumsum([len(offsets) for offsets in paid.values()])[:-1]
        for key, rises in zip(paid, np.split(values(np.concatenate(list(paid.values()))), ends), strict=True):
            try:
                requests[key] = searches[key].send(rises)
            except StopIteration as stop:
                results[key] = stop.value
    return results


def _end_unpaid(key: K, search: Generator[Array, Array, R], maxfevals: float) -> dict[K, R]:
    """The result of a generator that cannot go on, if it has one."""
    try:
        search.throw(OutOfEvaluationsError(f"`maxfevals` = {maxfevals:g} was too small"))
    except StopIteration as stop:
        return {key: stop.value}
    except OutOfEvaluationsError:
        pass
    return {}


def _assemble(
    found: Estimate, ends: dict[tuple[int, int], tuple[Line, End]], target: Target, level: float, values: _Values
) -> ProfileIntervals:
    """The ends, by variable and side, in user coordinates."""
    d, rise = found.x.size, target.rise * values.unit
    points, at_bound, deviations = np.full((d, 2, d), np.nan), np.zeros((d, 2), dtype=np.bool_), np.full(d, np.nan)
    is_fixed = found.box[0] == found.box[1]
    intervals = np.repeat(np.where(is_fixed, found.x, np.nan)[:, None], 2, axis=1)
    uncertainty = np.where(np.isnan(intervals), np.nan, 0.0)
    paths, limits, problems = [np.empty((0, 2))] * d, [np.empty((0, 2))] * d, list[Finding]()
    for key in sorted(ends):
        i, (line, end) = key[0], ends[key]
        intervals[key], at_bound[key] = _end_value(line, end), end.status == "bound"
        uncertainty[key] = _uncertainty(line, end)
        points[key] = line.chart.points(end.offsets)
        deviations[i] = abs(line.scale) * (found.x[i] if found.is_log[i] else 1.0)
        paths[i] = _lowest(paths[i], _rises(line, end.trail, values.unit))
        limits[i] = _lowest(limits[i], _rises(line, end.upper_limits, values.unit))
        problems += _end_problems(line, end, found.names[i], rise, values.unit)
    lower = _lower_point(values, target)
    problems += _lower_findings(found.fun, lower)
    seen = tuple(paths), tuple(limits), deviations, values.unit, found.is_log, level, rise, values.nfev, tuple(problems)
    return ProfileIntervals(
        found.x, intervals, uncertainty, at_bound, points, *seen, found.names, found.held, found.fun, lower
    )


def _rises(line: Line, points: tuple[tuple[float, float], ...], unit: float) -> Array:
    """Values of the variable and rises of f (n, 2) of points (t, F)."""
    t, rises = np.array(points).reshape(-1, 2).T
    return np.column_stack([line.values_at(t), unit * rises])


def _lowest(*rows: Array) -> Array:
    """Rows (n, 2) of values and rises in ascending order, the lowest rise of each value."""
    both = np.concatenate(rows)
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return both[np.unique(both[:, 0], return_index=True)[1]]


def _end_value(line: Line, end: End) -> float:
    """An end in the user's units."""
    if end.status == "bound":
        return float(line.chart.box[line.side][line.variable])
    if end.status == "open" and line.side == 0:
        return 0.0 if line.chart.is_log[line.variable] else -np.inf
    if end.status == "open":
        return np.inf
    return float(line.values_at(np.array([end.t]))[0]) if np.isfinite(end.t) else np.nan


def _uncertainty(line: Line, end: End) -> float:
    """How far an end may be off, in the user's units."""
    if end.status == "failed":
        return np.nan
    low, high = line.values_at(end.t + end.doubt * np.array([-1.0, 1.0])) if end.doubt else (0.0, 0.0)
    return float(0.5 * abs(high - low))


def _end_problems(line: Line, end: End, name: str, rise: float, unit: float) -> list[Finding]:
    """A finding if an end is not a crossing."""
    which, where = ("lower", "upper")[line.side], f"{line.chart.points(end.offsets)[line.variable]:.6g}"
    rises = f"f rises by {unit * end.rise:.3g}"
    sentences = {
        "bound": f"the {which} end of {name} is its bound, {where}: {rises} there, less than {rise:.3g}",
        "open": f"{name} has no {which} end: {rises} up to {where}, less than {rise:.3g}",
        "jump": f"the {which} end of {name} is a jump of f at {where}",
        "uncertain": f"the {which} end of {name} is uncertain: near {name} = {where} {end.reason}",
        "failed": f"the {which} end of {name} was not found: near {name} = {where} {end.reason}",
    }
    if end.status not in sentences:
        return []
    numbers = {"variable": float(line.variable), "side": float(line.side)}
    return [Finding("at_bound" if end.status == "bound" else end.status, sentences[end.status], numbers)]


def _lower_point(values: _Values, target: Target) -> LowerPoint | None:
    """The lowest evaluated point if it is significantly below the minimum."""
    is_lower = -values.lowest > max(values.chart.tuning.lower, 4.0 * target.noise)
    return values.lowest_point if is_lower else None


def _lower_findings(fun: float, lower: LowerPoint | None) -> list[Finding]:
    """A finding if a profile fell below the minimum."""
    if lower is None:
        return []
    drop, where = fun - lower.fun, np.array2string(lower.x, threshold=20)
    sentence = (
        f"f is lower by {drop:.3g} at x = {where} than at the minimum; minimise again from there, and repeat the "
        "curvature and the intervals"
    )
    return [Finding("lower_point", sentence, {"drop": drop})]
