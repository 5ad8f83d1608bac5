"""Are there functions that tell NGD and the rank-µ CMA-ES apart? The paper's open question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import natural_gradient
from sublevel.paper.cache import Arrays
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies import statistics
from sublevel.paper.studies.methods import MATCHES, SETTINGS, method_of
from sublevel.paper.studies.problems import BUDGET, PROBLEMS, slope, sphere
from sublevel.paper.studies.statistics import Interval, bootstrap
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.studies.trials import run_trials
from sublevel.paper.studies.tuned_race import TunedRace

Setting = tuple[int, int]
"""d and n."""

RIVALS = ("ngd", "rank-mu")
PARTS = ("ngd", "ngd-long", "mixed", "rank-mu-short", "rank-mu")
"""From one method to the other by one part at a time."""
SMALL, LARGE, PAPER = SETTINGS
TIED = ("steps", "terraces")
"""Problems on which rank-µ is also run with ties shared."""
DISSECTED = (
    *("ellipsoid", "slope", "sharp ridge", "parabolic ridge", "Rosenbrock", "Rastrigin-like", "noisy sphere"),
    *TIED,
)
"""Problems on which all of them are run, at the small n."""
REPEATED = ("sphere", "ellipsoid", "slope", "sharp ridge", "Rosenbrock", "Rastrigin-like", "terraces")
"""Problems that are run at the paper's own d, n and c_C too."""
RETUNED = ("ellipsoid", "sharp ridge", "Rosenbrock", "Rastrigin-like")
"""Problems on which the methods are tuned there, too."""
DISTANCES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
"""From the mean to the optimum of a sphere, in standard deviations; beyond them comes the slope."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale, and when two methods differ."""

    trials: int = 40
    trials_of_paper: int = 12  # at the paper's d = n = 20
    tuned_trials: int = 24  # at the best rate of a sweep, half as many from other σ⁰
    tuning: int = 4  # trials at each rate of a sweep
    spreads: tuple[float, ...] = (1.0, 0.1, 10.0)  # σ⁰ of tuned methods, in units of the problem's own
    samples: int = 4000  # of the single steps, times 10/n
    budget: int = BUDGET
    problems: tuple[str, ...] = tuple(PROBLEMS)
    settings: tuple[Setting, ...] = (SMALL, LARGE)
    margin: float = 1.1  # methods differ if the interval of the ratio is outside [1/margin, margin], and are
    # equivalent if it is inside; in between nothing is decided
    tuned_margin: float = 1.25  # of tuned methods, whose rates are tried in steps of 2
    significant: float = 0.0005  # a difference needs a log-rank test significant at 0.05/(number of comparisons)


FULL = Design()
DESIGNS: dict[Scale, Design] = {
    "full": FULL,
    "quick": Design(8, 4, 8, 3, (1.0,), 1000, 40_000, settings=(LARGE,)),
    "tiny": Design(3, 2, 2, 2, (1.0,), 50, 5_000, ("steps", "sphere"), (LARGE,)),
}


@dataclass(frozen=True, slots=True)
class Race:
    """Trials of one method on one problem."""

    problem: str
    variant: str
    d: int
    n: int
    trials: int
    budget: int
    seed: int

    @property
    def key(self) -> str:
        return f"race/{self.problem}/{self.variant}/d{self.d}/n{self.n}"

    @property
    def cost(self) -> float:
        slow = self.problem in {"sharp ridge", "parabolic ridge", "sphere from afar", "Rosenbrock"}
        usual = min(self.budget, (2000 if self.n > self.d else 5000) * self.d)
        evaluations = self.budget if slow and self.variant.startswith("ngd") else usual
        factor = 1 if self.variant.startswith("rank") else 1.6
        return evaluations / self.n * (1e-4 + self.trials * (2e-6 * self.d + 6e-7 * self.n) * factor)

    def compute(self) -> Arrays:
        """Run the trials."""
        noise, problem = streams(self.seed, f"apart-{self.key}", 0, self.trials), PROBLEMS[self.problem]
        if not problem.judged_at_the_end:
            problem = replace(problem, budget=self.budget)
        return run_trials(method_of(self.variant, self.d, self.n), problem, self.d, self.n, noise)


@dataclass(frozen=True, slots=True)
class Probe:
    """Single steps of one method from N(m, I)."""

    variant: str
    d: int
    n: int
    samples: int
    seed: int

    @property
    def key(self) -> str:
        return f"probe/{self.variant}/d{self.d}/n{self.n}"

    @property
    def cost(self) -> float:
        return self.samples * self.n * 1e-5

    def compute(self) -> Arrays:
        """The effect of one step on spheres at some distances, on a slope and on noise alone: (cases, samples) each.

        `step`: of the mean, downhill; `along`, `across`: relative change of the variance downhill and across; `norm`:
        σ₁(Z); `largest`: the share of the point with the largest 1/p in Σ 1/p.
        """
        cases: list[tuple[Function | None, float]] = [(sphere, distance) for distance in DISTANCES]
        cases += [(slope, 0.0), (None, 0.0)]
        rows = [_single_steps(self, function, distance, case) for case, (function, distance) in enumerate(cases)]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


Function = Callable[[Array], Array]


def _single_steps(work: Probe, function: Function | None, distance: float, case: int) -> dict[str, Array]:
    rng, method = generator(work.seed, f"{work.key}-{case}"), method_of(work.variant, work.d, work.n)
    mean = np.zeros((work.samples, work.d))
    mean[:, 0] = -distance  # downhill is along the first axis
    state = method.init(FullGaussian.start(mean, np.ones((work.samples, work.d))), work.n)
    sample = method.ask(state, rng, work.n)
    values = rng.standard_normal(sample.x.shape[:-1]) if function is None else function(sample.x)
    state, info = method.tell(state, sample, values)
    variances, volumes = np.square(state.theta.deviations), np.exp(sample.surprise)
    return {
        "step": state.theta.mean[:, 0] + distance,
        "along": variances[:, 0] - 1,
        "across": np.mean(variances[:, 1:], axis=1) - 1,
        "norm": natural_gradient(sample.z, method.weights(info.ranks, sample)).spectral_norm,
        "largest": np.max(volumes, axis=1) / np.sum(volumes, axis=1),
    }


Work = Race | TunedRace | Probe


def works(scale: Scale, seed: int) -> list[Work]:
    """All races and probes."""
    design = DESIGNS[scale]
    settings, amount = design.settings, (design.trials, design.budget, seed)
    made: list[Work] = [
        Race(name, variant, *setting, *amount) for setting in settings for name in design.problems for variant in RIVALS
    ]
    made += [
        TunedRace(name, method, *setting, spread, design.tuning, trials, design.budget, seed)
        for setting in settings
        for spread in (design.spreads if setting == LARGE else (1.0,))
        for trials in (design.tuned_trials if spread == 1 else design.tuned_trials // 2,)
        for name in design.problems
        for method in RIVALS
    ]
    if scale == "full":
        longer = design.trials_of_paper, 2 * design.budget, seed
        made += [TunedRace(name, method, *PAPER, 1.0, design.tuning, *longer) for name in RETUNED for method in RIVALS]
        made += [Race(name, variant, *SMALL, *amount) for name in DISSECTED for variant in PARTS[1:-1]]
        made += [Race(name, "rank-mu-ties", *setting, *amount) for setting in settings for name in TIED]
        made += [Race(name, variant, *PAPER, *longer) for name in REPEATED for variant in RIVALS]
    variants = (*RIVALS, "mixed")
    return made + [Probe(variant, d, n, design.samples * 10 // n, seed) for d, n in settings for variant in variants]


@dataclass(frozen=True, slots=True)
class Result:
    """The trials of one method on one problem."""

    evaluations: Array  # (trials,)
    reached: NDArray[np.bool_]  # (trials,)
    ending: NDArray[np.str_]  # (trials,)
    value: Array  # (trials,), what it was judged by

    @property
    def success(self) -> Interval:
        """The share of trials that reached the target, with Wilson's interval."""
        return statistics.wilson(int(np.count_nonzero(self.reached)), self.reached.size)

    @property
    def times(self) -> Array:
        """Evaluations (trials,), inf where the target was not reached."""
        return np.where(self.reached, self.evaluations, np.inf)

    @property
    def median(self) -> Interval:
        """Median of the evaluations, inf if most trials fail."""
        return bootstrap(statistics.median_time, self.times)


def results(data: Data) -> dict[tuple[str, str, Setting], Result]:
    """The results by problem, variant and setting."""
    found: dict[tuple[str, str, Setting], Result] = {}
    for work, arrays in data.items():
        if isinstance(work, Race):
            found[work.problem, work.variant, (work.d, work.n)] = _result(arrays)
    return found


def probes(data: Data) -> dict[tuple[str, Setting], Arrays]:
    """The single steps by variant and setting."""
    return {(work.variant, (work.d, work.n)): arrays for work, arrays in data.items() if isinstance(work, Probe)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """NGD against rank-µ on one problem."""

    problem: str
    setting: Setting
    ngd: Result
    rank_mu: Result
    ratio: Interval  # evaluations of NGD for each success over those of rank-µ
    p_value: float  # of the log-rank test of equal times
    margin: float = FULL.margin

    @property
    def verdict(self) -> str:
        """Which needs fewer evaluations, "same" if they are equivalent, "undecided" if neither is shown.

        Equivalence is two one-sided tests at 2.5 %: the 95 % interval of the ratio lies within the margin.
        """
        if not self.ngd.reached.any() and not self.rank_mu.reached.any():
            return "neither"
        if 1 / self.margin <= self.ratio.low and self.ratio.high <= self.margin:
            return "same"
        if self.p_value > FULL.significant or (self.ratio.high > 1 / self.margin and self.ratio.low < self.margin):
            return "undecided"
        return "rank-µ" if self.ratio.low > 1 else "NGD"


def comparisons(data: Data) -> list[Comparison]:
    """Comparisons of NGD and rank-µ on all problems, in their order."""
    found = results(data)
    pairs = [(problem, setting) for setting in SETTINGS for problem in PROBLEMS if (problem, "ngd", setting) in found]
    return [compare(*pair, *(found[pair[0], method, pair[1]] for method in RIVALS)) for pair in pairs]


@dataclass(frozen=True, slots=True)
class TunedComparison:
    """NGD against rank-µ, each at the best rate of a sweep."""

    spread: float  # σ⁰ in units of the problem's own
    c_cov: float
    eta_cov: float
    comparison: Comparison


def tuned_comparisons(data: Data) -> list[TunedComparison]:
    """Comparisons of tuned methods, by setting, σ⁰ and problem."""
    units = {
        (work.d, work.n, work.spread, work.problem, work.method): arrays
        for work, arrays in data.items()
        if isinstance(work, TunedRace)
    }
    found: list[TunedComparison] = []
    for d, n, spread, problem in dict.fromkeys(key[:-1] for key in units):
        ours, theirs = (units[d, n, spread, problem, method] for method in RIVALS)
        one = compare(problem, (d, n), _result(ours), _result(theirs), margin=FULL.tuned_margin)
        found.append(TunedComparison(spread, float(ours["rate"]), float(theirs["rate"]), one))
    return sorted(found, key=lambda one: (SETTINGS.index(one.comparison.setting), one.spread != 1, one.spread))


def _result(arrays: Arrays) -> Result:
    return Result(arrays["evaluations"], arrays["ending"] == "reached", arrays["ending"], arrays["value"])


def compare(problem: str, setting: Setting, ngd: Result, rank_mu: Result, *, margin: float = FULL.margin) -> Comparison:
    """NGD against rank-µ."""
    packed = [np.stack([result.evaluations, result.reached.astype(np.float64)], axis=1) for result in (ngd, rank_mu)]
    ratio = bootstrap(running_time_ratio, *packed)
    return Comparison(problem, setting, ngd, rank_mu, ratio, statistics.log_rank(ngd.times, rank_mu.times), margin)


def running_time_ratio(first: Array, second: Array) -> float:
    """Evaluations for each success of one over those of the other; inf or 0 if one never succeeds."""
    ours, theirs = (statistics.running_time(packed[:, 0], packed[:, 1] > 0) for packed in (first, second))
    return ours / theirs if np.isfinite(ours) else float("inf")


def findings(data: Data) -> list[str]:
    """Success, evaluations and ratios; what lies between the methods; single steps."""
    rates = ", ".join(f"{MATCHES[setting].ngd} at d = {setting[0]}, n = {setting[1]}" for setting in SETTINGS)
    budgets = f"at most {BUDGET} evaluations in a trial, {2 * BUDGET} at d = {PAPER[0]}"
    lines = [f"NGD against rank-µ, each at the best rate of a sweep on the problem; {budgets}"]
    for one in tuned_comparisons(data):
        lines.append(f"{_row(one.comparison)}  σ⁰ x {one.spread:g}  c_C = {one.c_cov:g}, η_C = {one.eta_cov:.3g}")
    lines += ["", f"NGD against rank-µ at rates matched on the ellipsoid; c_C of NGD: {rates}; {budgets}"]
    lines += [_row(one) for one in comparisons(data)]
    lines += ["", "one part at a time: success, median evaluations of the successful, median value at the end"]
    found = sorted(results(data).items(), key=lambda item: (item[0][2], list(PROBLEMS).index(item[0][0])))
    for (problem, variant, setting), result in found:
        if (problem in DISSECTED and setting == SMALL) or (problem in TIED and setting == LARGE):
            lines.append(f"  {_setting(setting)}  {problem:16s} {variant:14s} {_summary(result)}")
    return [*lines, "", *_probe_lines(data)]


def _setting(setting: Setting) -> str:
    return f"d = {setting[0]}, n = {setting[1]:3d}"


def _row(one: Comparison) -> str:
    return (
        f"  {_setting(one.setting)}  {one.problem:17s} success {_percent(one.ngd.success)} against "
        f"{_percent(one.rank_mu.success)}  median {_count(one.ngd.median)} against {_count(one.rank_mu.median)}  ratio "
        f"{one.ratio}  p = {one.p_value:.1g}  {one.verdict}"
    )


def _percent(rate: Interval) -> str:
    return f"{100 * rate.value:3.0f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _count(evaluations: Interval) -> str:
    return f"{evaluations.value:.0f} [{evaluations.low:.0f}, {evaluations.high:.0f}]"


def _summary(result: Result) -> str:
    times = result.evaluations[result.reached]
    typical = f"{np.median(times):8.0f}" if times.size else "       –"
    counts = zip(*np.unique(result.ending, return_counts=True), strict=True)
    endings = ", ".join(f"{count} {name}" for name, count in counts)
    return f"{_percent(result.success)}  {typical}  {np.median(result.value):9.3g}  ({endings})"


def _probe_lines(data: Data) -> list[str]:
    head = "single steps from N(m, I): mean step downhill, change of the variance downhill and across, σ₁(Z)"
    lines = [f"{head} (± standard error)"]
    names = [*(f"sphere at {distance:g}" for distance in DISTANCES), "slope", "noise alone"]
    for (variant, (d, n)), arrays in probes(data).items():
        share = statistics.mean(arrays["largest"][0])
        lines.append(f"  {variant}/d{d}/n{n}: the point of the largest 1/p has {share:.3f} of Σ 1/p")
        for case, name in enumerate(names):
            parts = [_mean(arrays[part][case]) for part in ("step", "along", "across", "norm")]
            lines.append(f"    {name:14s} {'  '.join(parts)}")
    return lines


def _mean(sample: Array) -> str:
    return f"{statistics.mean(sample):+.5f} ± {statistics.standard_error(sample):.5f}"


STUDY = Study("apart", works, findings)
