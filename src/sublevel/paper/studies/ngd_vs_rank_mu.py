"""Are there functions that tell NGD and the rank-µ CMA-ES apart? The paper's open question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.tangent import natural_gradient
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies.methods import MATCHES, SETTINGS, method_of
from sublevel.paper.studies.problems import BUDGET, PROBLEMS, slope, sphere
from sublevel.paper.studies.runs import run_trials
from sublevel.paper.studies.statistics import (
    Interval,
    bootstrap,
    log_rank,
    mean,
    median_time,
    running_time,
    standard_error,
    wilson,
)
from sublevel.paper.studies.study import Arrays, Data, Piece, Scale, Study

RIVALS = ("ngd", "rank-mu")
PARTS = ("ngd", "ngd-long", "mixed", "rank-mu-short", "rank-mu")
"""From one method to the other by one part at a time."""
SMALL, LARGE, PAPER = SETTINGS
DISSECTED = (
    "ellipsoid",
    "slope",
    "sharp ridge",
    "parabolic ridge",
    "Rosenbrock",
    "Rastrigin-like",
    "noisy sphere",
    "steps",
    "terraces",
)
"""Problems on which all of them are run, at the small n."""
TIED = ("steps", "terraces")
"""Problems on which rank-µ is also run with ties shared."""
REPEATED = ("sphere", "ellipsoid", "slope", "sharp ridge", "Rosenbrock", "Rastrigin-like", "terraces")
"""Problems that are run at the paper's own d, n and c_C too."""
DISTANCES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
"""From the mean to the optimum of a sphere, in standard deviations; beyond them comes the slope."""


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
        """Name of the piece."""
        return f"race/{self.problem}/{self.variant}/d{self.d}/n{self.n}"

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        slow = self.problem in {"sharp ridge", "parabolic ridge", "sphere from afar", "Rosenbrock"}
        evaluations = (
            self.budget
            if slow and self.variant.startswith("ngd")
            else min(self.budget, (2000 if self.n > self.d else 5000) * self.d)
        )
        per_iteration = 1e-4 + self.trials * (2e-6 * self.d + 6e-7 * self.n) * (
            1 if self.variant.startswith("rank") else 1.6
        )
        return evaluations / self.n * per_iteration


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
        """Name of the piece."""
        return f"probe/{self.variant}/d{self.d}/n{self.n}"


def race(work: Race) -> Arrays:
    """Run the trials."""
    noise = streams(work.seed, f"apart-{work.key}", 0, work.trials)
    problem = PROBLEMS[work.problem]
    if not problem.judged_at_the_end:
        problem = replace(problem, budget=work.budget)
    return run_trials(method_of(work.variant, work.d, work.n), problem, work.d, work.n, noise)


def probe(work: Probe) -> Arrays:
    """What one step does on a sphere at some distance, on a slope (the last entry) and on noise alone: samples of each
    (cases, samples).

    `step`: of the mean, downhill; `along`, `across`: relative change of the variance downhill and across; `norm`:
    σ₁(Z); `largest`: the share of the point with the largest 1/p in Σ 1/p.
    """
    names = ("step", "along", "across", "norm", "largest")
    cases = [(sphere, distance) for distance in DISTANCES] + [(slope, 0.0), (None, 0.0)]
    rows = [_single_steps(work, function, distance, case) for case, (function, distance) in enumerate(cases)]
    return {name: np.array([row[name] for row in rows]) for name in names}


def _single_steps(work: Probe, function: Any, distance: float, case: int) -> dict[str, Array]:
    rng, method = generator(work.seed, f"{work.key}-{case}"), method_of(work.variant, work.d, work.n)
    mean = np.zeros((work.samples, work.d))
    mean[:, 0] = -distance  # downhill is along the first axis
    theta = FullGaussian.start(mean, np.ones((work.samples, work.d)))
    state = method.init(theta, work.n)
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


def pieces(scale: Scale, seed: int) -> list[Piece]:
    """All races and probes."""
    trials, samples, budget = {"full": (40, 4000, BUDGET), "quick": (8, 1000, 40_000), "tiny": (3, 50, 5_000)}[scale]
    problems = list(PROBLEMS) if scale != "tiny" else ["steps", "sphere"]
    settings = (SMALL, LARGE) if scale == "full" else (LARGE,)
    races = [
        Race(problem, variant, d, n, trials, budget, seed)
        for d, n in settings
        for problem in problems
        for variant in RIVALS
    ]
    if scale == "full":
        races += [
            Race(problem, variant, *SMALL, trials, budget, seed) for problem in DISSECTED for variant in PARTS[1:-1]
        ]
        races += [
            Race(problem, "rank-mu-ties", *setting, trials, budget, seed) for setting in settings for problem in TIED
        ]
        races += [
            Race(problem, variant, *PAPER, trials // 4, 3 * budget, seed) for problem in REPEATED for variant in RIVALS
        ]
    probes = [Probe(variant, d, n, samples * 10 // n, seed) for d, n in settings for variant in (*RIVALS, "mixed")]
    return [Piece(work.key, race, work, work.cost) for work in races] + [
        Piece(work.key, probe, work, work.samples * work.n * 1e-5) for work in probes
    ]


@dataclass(frozen=True, slots=True)
class Result:
    """How one method did on one problem."""

    evaluations: Array  # (trials,)
    reached: NDArray[np.bool_]  # (trials,)
    ending: NDArray[np.str_]  # (trials,)
    value: Array  # (trials,), what it was judged by

    @property
    def success(self) -> Interval:
        """The share of trials that reached the target, with Wilson's interval."""
        return wilson(int(np.count_nonzero(self.reached)), self.reached.size)

    @property
    def times(self) -> Array:
        """Evaluations (trials,), inf where the target was not reached."""
        return np.where(self.reached, self.evaluations, np.inf)

    @property
    def median(self) -> Interval:
        """Of the evaluations, inf if most trials fail."""
        return bootstrap(median_time, self.times)


Setting = tuple[int, int]
"""d and n."""


def results(data: Data) -> dict[tuple[str, str, Setting], Result]:
    """By problem, variant and setting."""
    found: dict[tuple[str, str, Setting], Result] = {}
    for key, arrays in data.items():
        kind, *names = key.split("/")
        if kind == "race":
            problem, variant, d, n = names
            ending = arrays["ending"]
            found[problem, variant, (int(d[1:]), int(n[1:]))] = Result(
                arrays["evaluations"], ending == "reached", ending, arrays["value"]
            )
    return found


SIZABLE = 1.1
SIGNIFICANT = 0.001
"""Two methods differ if the interval of the ratio leaves [1/1.1, 1.1] and the log-rank test says so at 0.05/(number of
comparisons).
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """NGD against rank-µ on one problem."""

    problem: str
    setting: Setting
    ngd: Result
    rank_mu: Result
    ratio: Interval  # evaluations of NGD for each success over those of rank-µ
    p_value: float  # of the log-rank test of equal times

    @property
    def verdict(self) -> str:
        """Which needs fewer evaluations, if the difference is neither small nor chance."""
        if not self.ngd.reached.any() and not self.rank_mu.reached.any():
            return "neither"
        if self.p_value > SIGNIFICANT or (self.ratio.high > 1 / SIZABLE and self.ratio.low < SIZABLE):
            return "same"
        return "rank-µ" if self.ratio.low > 1 else "NGD"


def comparisons(data: Data) -> list[Comparison]:
    """All of them, in the order of the problems."""
    found = results(data)
    pairs = [(problem, setting) for setting in SETTINGS for problem in PROBLEMS if (problem, "ngd", setting) in found]
    return [
        compare(problem, setting, found[problem, "ngd", setting], found[problem, "rank-mu", setting])
        for problem, setting in pairs
    ]


def compare(problem: str, setting: Setting, ngd: Result, rank_mu: Result) -> Comparison:
    """NGD against rank-µ."""
    packed = [np.stack([result.evaluations, result.reached.astype(np.float64)], axis=1) for result in (ngd, rank_mu)]
    ratio = bootstrap(running_time_ratio, *packed)
    return Comparison(problem, setting, ngd, rank_mu, ratio, log_rank(ngd.times, rank_mu.times))


def running_time_ratio(first: Array, second: Array) -> float:
    """Evaluations for each success of one over those of the other; inf or 0 if one never succeeds."""
    ours, theirs = (running_time(packed[:, 0], packed[:, 1] > 0) for packed in (first, second))
    if not np.isfinite(ours):
        return float("inf")
    return ours / theirs


def findings(data: Data) -> list[str]:
    """Success, evaluations and ratios; what lies between the methods; single steps."""
    rates = ", ".join(f"{MATCHES[setting].ngd} at d = {setting[0]}, n = {setting[1]}" for setting in SETTINGS)
    lines = [f"NGD against rank-µ; c_C of NGD: {rates}", *(_row(one) for one in comparisons(data))]
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
    endings = ", ".join(
        f"{count} {name}" for name, count in zip(*np.unique(result.ending, return_counts=True), strict=True)
    )
    return f"{_percent(result.success)}  {typical}  {np.median(result.value):9.3g}  ({endings})"


def _probe_lines(data: Data) -> list[str]:
    lines = [
        "single steps from N(m, I): mean step downhill, change of the variance downhill and across, σ₁(Z) (± standard "
        "error)"
    ]
    names = [*(f"sphere at {distance:g}" for distance in DISTANCES), "slope", "noise alone"]
    for key, arrays in data.items():
        if key.startswith("probe/"):
            lines.append(f"  {key[6:]}: the point of the largest 1/p has {np.mean(arrays['largest'][0]):.3f} of Σ 1/p")
            for case, name in enumerate(names):
                lines.append(
                    f"    {name:14s} "
                    + "  ".join(_mean(arrays[part][case]) for part in ("step", "along", "across", "norm"))
                )
    return lines


def _mean(sample: Array) -> str:
    return f"{mean(sample):+.5f} ± {standard_error(sample):.5f}"


STUDY = Study("apart", "Are there functions that tell NGD and rank-µ CMA-ES apart?", pieces, findings)
