"""Findings about the problem and the start of a finished run, each a sentence with its numbers.

Every finding is about ranks and ratios: none of them changes when f is scaled, or x scaled or shifted. Findings about
widths are about real variables: integers are kept wide, and choices have no width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family, method_prefix
from sublevel.engine.families.mixed import SETTLED
from sublevel.evaluation.failures import Failures
from sublevel.run import termination
from sublevel.run.history import History, RunSummary, axis_ratio, log_size, real_axes, staying_of
from sublevel.run.narrowing import FACTORS, WAITS, beginnings_of
from sublevel.run.search_space import log_where
from sublevel.summaries import counted

ILL_CONDITIONED = 1e5
"""Condition number of the covariance, in units of `sigma0`, from which a problem counts as ill-conditioned."""
DIFFERENT = 1e-6
"""End values of two runs are different minima if they differ by more than this part of the way down to them."""
ROUNDING = 1e-12
"""Values that differ by less than this part of their size may differ by rounding."""
GROWN, CLOSENESS = 10.0, 0.01
"""`sigma0` was too small if it grew by this factor, and too large if the minimum lay this part of it from `x0`."""
TOUCHING = 1e-6
"""A variable is at a bound if it is this part of the box away from it."""
WINDOW = 40
"""Generations, at least, from which a trend is read."""
NO_TREND, STEADY = 0.3, 1e-4
"""Values are noisy if their rank correlation with time is below this while the step keeps this part of its size."""
DISTINCT = 0.5
"""An objective has plateaus if the best values of generations are fewer distinct numbers than this part of them."""
MANY, EVALUATIONS_PER_AXIS = 300, 10
"""Above this dimension, the principal axes of a full covariance, O(d³), need this many evaluations per variable."""
ENDS = termination.SUCCESSES | {"flat", "stagnation", "abandoned"}
"""Reasons of runs that ended at a value, not at a limit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a run: its name, a sentence, and the numbers in it."""

    name: str
    sentence: str
    numbers: dict[str, float] = field(repr=False)

    def __str__(self) -> str:
        """The sentence, with its name."""
        return f"{self.name}: {self.sentence}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Facts:
    """The data of the checks."""

    x: Array  # (d,), the best point
    history: History
    columns: dict[str, Array]
    runs: list[RunSummary]
    failures: Failures
    violated: tuple[tuple[str, float], ...] = ()  # constraints that x violates, and by how much

    @property
    def first(self) -> Family:
        """The distribution the search began with."""
        return self.history.snapshots[0].theta

    @property
    def last(self) -> Family:
        """The distribution that the run which found the best point ended with."""
        return self.history.theta_of_best

    @property
    def closed_in(self) -> bool:
        """Whether that run ended narrower than the search began; if not, its shape is that of a slope."""
        space = self.history.space
        return log_size(self.last, space) < log_size(self.first, space)

    @property
    def real(self) -> NDArray[np.bool_]:
        """The coordinates (k,) that stand for real variables."""
        return self.history.is_real

    @property
    def is_mixed(self) -> bool:
        """Whether some variables are integers or choices."""
        return self.first.discrete is not None

    @property
    def variables(self) -> NDArray[np.intp]:
        """The real variables (r,), by number."""
        free = self.history.free
        return free[self.real[: free.size]]

    def deviations(self, theta: Family) -> Array:
        """Standard deviations (r,) of the real coordinates."""
        return theta.deviations[self.real]

    def way(self) -> Array:
        """How far the best point lies from the start (r,), in each real coordinate."""
        return np.abs(self.searched(self.x) - self.first.mean)[self.real]

    @property
    def is_too_short_for_axes(self) -> bool:
        """Whether principal axes would cost more than the run itself, which was too short to learn them."""
        d = self.last.dimension
        return not self.last.coordinate_axes and d > MANY and self.columns["nfev"][-1] < EVALUATIONS_PER_AXIS * d

    @property
    def advice(self) -> str:
        """The remedy for noise and many minima: adapted learning rates, unless in use, and a larger sample."""
        if self.history.adapts_rates:
            return "try a larger `popsize`"
        return f"try `method='lra-{method_prefix(self.first)}cma'`, or a larger `popsize`"

    def searched(self, points: Array) -> Array:
        """The user's points (..., d) as the search sees them (..., k)."""
        return points if self.history.space is None else self.history.space.searched(points)


def diagnose(
    x: Array, history: History, failures: Failures, violated: tuple[tuple[str, float], ...] = ()
) -> list[Finding]:
    """All findings of a run with the best point x (d,), the ones that matter most first."""
    if not len(history):
        return []
    facts = Facts(x, history, history.arrays(), history.runs, failures, violated)
    found: dict[str, Finding] = {}
    for check in (failed,) if not facts.first.continuous else CHECKS:
        if found.keys().isdisjoint(SILENCED_BY.get(check, ())) and (finding := check(facts)) is not None:
            found[finding.name] = finding
    return list(found.values())


def failed(facts: Facts) -> Finding | None:
    """Evaluations failed; they count as worse than all others."""
    failures = facts.failures
    if not failures:
        return None
    last, nfev = failures.last[-1], int(facts.columns["nfev"][-1]) + facts.history.later
    labels, x = facts.history.labels, np.asarray(last.x)
    where = labels.point(x) if labels.by_name else f"x = {np.array2string(x, threshold=20, separator=', ')}"
    sentence = (
        f"{len(failures)} of {nfev} evaluations failed ({failures!r}) and counted as worse than all others; "
        f"the last at {where}: {last.detail}"
    )
    return Finding("failed", sentence, {"failed": len(failures), "nfev": nfev, **failures.counts})


def infeasible_message(violated: tuple[tuple[str, float], ...]) -> str:
    """What to add to the message of a run that found no feasible point; nothing if it did."""
    names = [f"{label} by {amount:.3g}" for label, amount in violated]
    return f"; no feasible point was found: `x` violates {_listed(names)}" if names else ""


def infeasible(facts: Facts) -> Finding | None:
    """No point satisfied all constraints."""
    if not facts.violated:
        return None
    names = [f"{label} by {amount:.3g}" for label, amount in facts.violated]
    sentence = (
        f"no feasible point was found: the point with the smallest violation violates {_listed(names)}; the "
        "constraints may contradict each other, or `x0` may be too far from the feasible region: relax them, change "
        "`x0`, or allow restarts"
    )
    return Finding("infeasible", sentence, {"violated": len(names), "largest": facts.violated[0][1]})


def start_is_best(facts: Facts) -> Finding | None:
    """The search found nothing as good as its start."""
    best, found = float(facts.columns["best"][-1]), float(np.fmin.reduce(facts.columns["generation_best"]))
    if not best < found:
        return None
    advice = "a smaller `sigma0`, or restarts" if facts.real.any() else "restarts"
    start = "`x0`" if facts.history.parameters is None else "the initial values of the space"
    sentence = (
        f"no point of the search was better than {start}, whose value is {best:.6g}; the lowest value found was "
        f"{found:.6g}: the search ended elsewhere; try {advice}"
    )
    return Finding("start_is_best", sentence, {"start": best, "found": found})


def flat(facts: Facts) -> Finding | None:
    """Many points have equal values."""
    best = facts.columns["generation_best"]
    if facts.is_mixed:  # values repeat where all variables are discrete, or where the real ones have converged
        is_wide = facts.columns["deviation"] > CLOSENESS * np.max(facts.deviations(facts.first), initial=0.0)
        best = best[is_wide & facts.real.any()]
    best = best[~np.isnan(best)]  # no usable value, or no feasible point
    ended_flat = any({"flat", "tolfun"} & set(run.reasons) for run in facts.runs)
    count = len(np.unique(best))
    if not count or count > DISTINCT * best.size or not (ended_flat or best.size >= WINDOW):
        return None
    sentence = (
        f"the generations' best values were only {counted(count, 'different number')} in "
        f"{counted(best.size, 'generation')}: the objective has plateaus, on which all directions are equal; a "
        "larger `sigma0` or `popsize` may reach beyond them"
    )
    return Finding("flat", sentence, {"distinct": count, "generations": best.size})


def noise_floor(facts: Facts) -> Finding | None:
    """The run that found the best point reached the noise of the objective."""
    run = next((run for run in facts.runs if run.fun == facts.columns["best"][-1]), facts.runs[-1])
    if facts.history.run_of_answer is not None:
        run = facts.runs[facts.history.run_of_answer]
    if "noise_floor" not in run.reasons:
        return None
    generations = int(run.reasons["noise_floor"])
    shrinkage = float(np.max(facts.deviations(facts.last) / facts.deviations(facts.first)))
    rows = slice(max(run.rows.start, run.rows.stop - generations), run.rows.stop)
    best = facts.columns["generation_best"][rows]
    best = best[~np.isnan(best)]  # generations without a feasible point have none
    scatter = float(np.ptp(best)) if best.size else np.nan
    sentence = (
        f"over the last {generations} generations the order of the values was random, with standard deviations of "
        f"{shrinkage:.2g} of their initial values or less: the best values of these generations scatter by "
        f"{scatter:.2g}, {_meaning_of_scatter(scatter, float(np.max(np.abs(best), initial=0.0)))}"
    )
    return Finding("noise_floor", sentence, {"generations": generations, "shrinkage": shrinkage, "scatter": scatter})


def _meaning_of_scatter(scatter: float, size: float) -> str:
    """What follows from the scatter of the values at the end, given their size."""
    if scatter <= ROUNDING * size:
        return (
            f"{scatter / size:.1g} of their size, which is the rounding of floating-point numbers: the minimum is as "
            "precise as these values can tell"
        )
    return (
        "and smaller differences of the objective are noise; a more precise objective, such as a tighter solver "
        "tolerance, would allow a more precise minimum"
    )


def noisy(facts: Facts) -> Finding | None:
    """The values of generations go up and down without a trend, and the search does not close in."""
    if not facts.real.any() or facts.history.run_of_answer is not None:  # noise was expected
        return None
    run = max(facts.runs, key=lambda run: run.rows.stop - run.rows.start)
    rows = slice(run.rows.stop - (run.rows.stop - run.rows.start) // 3, run.rows.stop)
    values, deviations = facts.columns["generation_best"][rows], facts.columns["deviation"][rows]
    if values.size < WINDOW or not np.isfinite(values).all() or len(np.unique(values)) < DISTINCT * values.size:
        return None
    trend, kept = rank_correlation(values), float(deviations[-1] / deviations[0])
    if abs(trend) > NO_TREND or not STEADY < kept < 1 / STEADY:
        return None
    sentence = (
        f"over the last {values.size} generations the best values went up and down (rank correlation with time "
        f"{trend:.2f}) while the step size kept {kept:.2g} of its size: the values look noisy, or rugged at the scale "
        f"of the step; {facts.advice}, or the mean of several evaluations; `result.mean` is a better estimate than "
        "`result.x`"
    )
    return Finding("noisy", sentence, {"generations": values.size, "trend": trend, "kept": kept})


def multimodal(facts: Facts) -> Finding | None:
    """Runs converged to different values."""
    ends = np.array([run.fun for run in facts.runs if ENDS & run.reasons.keys() and np.isfinite(run.fun)])
    if ends.size < 2:
        return None
    lowest, highest = float(ends.min()), float(ends.max())
    start = facts.columns["generation_best"][[run.rows.start for run in facts.runs]]
    descent = max(float(np.max(start, where=np.isfinite(start), initial=lowest)) - lowest, highest - lowest)
    resolution = max(DIFFERENT * descent, ROUNDING * abs(lowest))
    share = int(np.count_nonzero(ends - lowest <= resolution))
    if share == ends.size:
        return None
    sentence = (
        f"{ends.size} runs converged to values between {lowest:.6g} and {highest:.6g}, {share} of them at the "
        f"lowest: there are several minima; allow more restarts, or {facts.advice}"
    )
    numbers = {"runs": ends.size, "lowest": lowest, "highest": highest, "at_lowest": share}
    return Finding("multimodal", sentence, numbers)


def at_bound(facts: Facts) -> Finding | None:
    """Variables ended at a bound."""
    space = facts.history.space
    if space is None:
        return None
    x, deviations = facts.x[space.free], facts.first.deviations
    with np.errstate(divide="ignore", invalid="ignore"):
        u = log_where(space.is_log, x)
        width = space.fold.upper - space.fold.lower
        width = np.where(np.isfinite(width), width, deviations)
        lower, upper = u - space.fold.lower <= TOUCHING * width, space.fold.upper - u <= TOUCHING * width
    if not (lower | upper).any():
        return None
    box = space.box
    name, free = facts.history.name, facts.history.free
    names = [f"{name(i)} at its lower bound {box[0][i]:.6g}" for i in free[lower]]
    names += [f"{name(i)} at its upper bound {box[1][i]:.6g}" for i in free[upper]]
    sentence = f"the best point has {_listed(names)}: a better one may lie beyond"
    return Finding("at_bound", sentence, {"lower": int(np.count_nonzero(lower)), "upper": int(np.count_nonzero(upper))})


def small_sigma0(facts: Facts) -> Finding | None:
    """The step size grew much before it shrank, and the best point lies far from the start."""
    initial, snapshots = facts.deviations(facts.first), [one for one in facts.history.snapshots if one.run == 0]
    if all(np.all(facts.deviations(snapshot.theta) < GROWN * initial) for snapshot in snapshots):
        return None
    sizes = np.array([log_size(snapshot.theta, facts.history.space) for snapshot in snapshots])
    peak = int(np.argmax(sizes))
    growth, nfev = float(np.exp(sizes[peak] - sizes[0])), snapshots[peak].nfev
    way = facts.way()
    if growth < GROWN or not np.any(way >= GROWN * initial):
        return None
    if peak == sizes.size - 1:
        advice = "and never shrank: the minimum is far from `x0`, or there is none"
    else:
        advice = f"before it shrank: `sigma0` was too small for where `x0` lies; {_suitable_sigma0(facts, way)}"
    sentence = f"the step size grew {growth:.3g}-fold in the first {nfev} evaluations, {advice}"
    return Finding("small_sigma0", sentence, {"growth": growth, "nfev": nfev})


def _suitable_sigma0(facts: Facts, way: Array) -> str:
    """A third of the way (r,) for variables that ended many initial deviations away; one number if it suits all."""
    initial, names, free = facts.deviations(facts.first), facts.history.names, facts.variables
    far, suitable = np.flatnonzero(way >= GROWN * initial), way / 3
    if far.size == way.size and suitable.max() < 3 * suitable.min():
        return f"about {np.median(suitable):.2g} suits"
    far = far[np.argsort(-(way / initial)[far], kind="stable")]
    return f"about {_listed([f'{suitable[i]:.2g} for {names[free[i]]}' for i in far])} suits"


def narrowed(facts: Facts) -> Finding | None:
    """The search began again around its start, narrower."""
    rows = facts.runs[0].rows
    count = beginnings_of(facts.columns["best"][rows], facts.columns["generation_best"][rows])
    if not count or facts.is_mixed or "maxcv" in facts.columns:
        return None
    generations, narrowest = WAITS[count - 1], min(FACTORS[:count])
    nfev = int(facts.columns["nfev"][generations - 1])
    if FACTORS[count - 1] == narrowest:
        end = "a smaller `sigma0` would have saved these evaluations"
    else:
        end = "`x0` may be a local minimum, and the search went on with the initial ones"
    sentence = (
        f"no point of the first {generations} generations, {nfev} evaluations, was as good as `x0`, and the "
        f"search began again there with {narrowest:g} of the standard deviations: {end}"
    )
    return Finding("narrowed", sentence, {"times": count, "nfev": nfev, "factor": narrowest})


def large_sigma0(facts: Facts) -> Finding | None:
    """The minimum lay within a small part of the initial step size, or that was wider than the box."""
    first, space = facts.deviations(facts.first), facts.history.space
    if not first.size:
        return None
    if space is not None:
        share = float(np.max(first / (space.fold.upper - space.fold.lower)[facts.real]))
        if share > 1:
            sentence = f"`sigma0` is {share:.3g} times the distance between the bounds: a third of it is wide enough"
            return Finding("large_sigma0", sentence, {"share": share})
    closeness = float(np.max(facts.way() / first))
    shrunk = facts.columns["deviation"] < CLOSENESS * np.max(first)
    if closeness > CLOSENESS or not shrunk[-1]:
        return None
    nfev = int(facts.columns["nfev"][np.argmax(shrunk)])
    sentence = (
        f"the best point lies {closeness:.2g} standard deviations from `x0`, and the search took {nfev} evaluations to "
        f"narrow to {CLOSENESS:g} of the initial ones: a smaller `sigma0` would have saved these evaluations"
    )
    return Finding("large_sigma0", sentence, {"closeness": closeness, "nfev": nfev})


def ill_conditioned(facts: Facts) -> Finding | None:
    """The principal axes became very different in units of `sigma0` while the search closed in on a minimum."""
    theta, space = facts.last, facts.history.space
    if not facts.real.any() or facts.is_too_short_for_axes or not facts.closed_in:
        return None
    condition = _condition(real_axes(theta, space, facts.first.deviations))
    if not condition >= ILL_CONDITIONED:
        return None
    remaining = _condition(real_axes(theta, space, theta.deviations))
    shrinkage = facts.deviations(theta) / facts.deviations(facts.first)
    free, narrow, wide = facts.variables, int(np.argmin(shrinkage)), int(np.argmax(shrinkage))
    name = facts.history.name
    if remaining < np.sqrt(condition):
        advice = (
            f"with one entry of `sigma0` per variable it would be {remaining:.2g}: {name(free[narrow])} ended at "
            f"{shrinkage[narrow]:.2g} of its `sigma0`, {name(free[wide])} at {shrinkage[wide]:.2g}"
        )
    else:
        advice = (
            f"it is due to combinations of variables, not to their units: after rescaling it is still {remaining:.2g}"
        )
    sentence = (
        f"the longest principal axis is {np.sqrt(condition):.2g} times the shortest, a condition number of "
        f"{condition:.2g}; {advice}"
    )
    numbers = {"condition": condition, "rescaled": remaining, "narrowest": int(free[narrow]), "widest": int(free[wide])}
    return Finding("ill_conditioned", sentence, numbers)


def unsettled(facts: Facts) -> Finding | None:
    """Discrete variables still changed when the run that found the best point ended."""
    discrete, reasons = facts.last.discrete, facts.runs[facts.history.best_run].reasons
    if discrete is None or not discrete.unsettled or not reasons or termination.SUCCESSES & reasons.keys():
        return None
    name, staying = facts.history.name, staying_of(facts.last, facts.history.space)
    order = [int(i) for i in np.argsort(staying, kind="stable") if 1.0 - staying[i] > SETTLED * discrete.margin]
    names = [f"{name(facts.history.discrete[i])} ({staying[i]:.2g})" for i in order]
    sentence = (
        f"{discrete.unsettled} of {counted(discrete.variables, 'discrete variable')} had not settled when the run "
        f"ended; their most probable values have the probabilities in parentheses: {_listed(names)}. Allow more "
        "evaluations, unless these variables hardly affect f"
    )
    return Finding("unsettled", sentence, {"unsettled": discrete.unsettled, "discrete": discrete.variables})


CHECKS: tuple[Callable[[Facts], Finding | None], ...] = (
    failed,
    infeasible,
    start_is_best,
    flat,
    noise_floor,
    noisy,
    multimodal,
    at_bound,
    small_sigma0,
    narrowed,
    large_sigma0,
    ill_conditioned,
    unsettled,
)
"""Every check, in the order of the findings."""
SILENCED_BY: dict[Callable[[Facts], Finding | None], frozenset[str]] = {
    noisy: frozenset({"noise_floor"}),  # the search converged to the noise
    multimodal: frozenset({"noisy"}),  # runs end at different values because of the noise
    large_sigma0: frozenset({"narrowed"}),  # the same advice
    ill_conditioned: frozenset({"noisy"}),  # the covariance is determined by noise, not by the Hessian
}
"""Earlier findings that explain those of a check."""


def rank_correlation(values: Array) -> float:
    """Spearman's: of values (n,) with their order in time."""
    ranks, middle = np.argsort(np.argsort(values, kind="stable")), 0.5 * (values.size - 1)
    time = np.arange(values.size) - middle
    return float(np.sum(time * (ranks - middle)) / np.sum(time**2))


def _condition(axes: Array) -> float:
    """Condition number of the covariance with these principal axes (k,)."""
    with np.errstate(over="ignore"):
        return float(np.square(axis_ratio(axes)))


def _listed(names: list[str], shown: int = 3) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
