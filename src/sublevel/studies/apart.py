"""Are there functions that tell NGD and the rank-µ CMA-ES apart? The paper's open question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array
from sublevel.families import FullGaussian
from sublevel.studies.common import Arrays, Data, Piece, Scale, Study, generator, streams
from sublevel.studies.contenders import DIMENSION, MATCHES, SIZES, method_of
from sublevel.studies.problems import BUDGET, PROBLEMS, slope, sphere
from sublevel.studies.runs import trials_of
from sublevel.studies.statistics import Interval, bootstrap, log_rank, running_time, wilson

RIVALS = ("ngd", "rank-mu")
PARTS = ("ngd", "ngd-long", "mixed", "rank-mu-short", "rank-mu")
"""From one method to the other by one part at a time."""
DISSECTED = ("ellipsoid", "slope", "sharp ridge", "parabolic ridge", "Rosenbrock", "Rastrigin-like", "noisy sphere")
"""Problems on which all of them are run, at n = d."""
TIED = ("steps", "terraces")
"""Problems on which rank-µ is also run with ties shared."""
DISTANCES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
"""From the mean to the optimum of a sphere, in standard deviations; beyond them comes the slope."""


@dataclass(frozen=True, slots=True)
class Race:
    """Trials of one method on one problem."""

    problem: str
    variant: str
    n: int
    trials: int
    budget: int  # at most; a problem may have less
    seed: int

    @property
    def key(self) -> str:
        """Name of the piece."""
        return f"race-{self.problem}-{self.variant}-n{self.n}"

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        slow = self.problem in {"sharp ridge", "parabolic ridge", "sphere from afar", "Rosenbrock"}
        evaluations = self.budget if slow else min(self.budget, 40_000)
        per_iteration = 1e-4 + self.trials * (2e-5 + 6e-7 * self.n) * (1 if self.variant.startswith("rank") else 1.6)
        return evaluations / self.n * per_iteration


@dataclass(frozen=True, slots=True)
class Probe:
    """Single steps of one method from N(m, I)."""

    variant: str
    n: int
    samples: int
    seed: int

    @property
    def key(self) -> str:
        """Name of the piece."""
        return f"probe-{self.variant}-n{self.n}"


def race(work: Race) -> Arrays:
    """Run the trials."""
    noise = streams(work.seed, f"apart-{work.key}", 0, work.trials)
    problem = PROBLEMS[work.problem]
    problem = replace(problem, budget=min(problem.budget, work.budget))
    return trials_of(method_of(work.variant, work.n), problem, DIMENSION, work.n, noise)


def probe(work: Probe) -> Arrays:
    """What one step does on a sphere at some distance, on a slope (the last entry) and on noise alone: samples of each (cases, samples).

    `step`: of the mean, downhill; `along`, `across`: relative change of the variance downhill and across; `largest`: the share of the
    point with the largest 1/p in Σ 1/p.
    """
    names = ("step", "along", "across", "largest")
    cases = [(sphere, distance) for distance in DISTANCES] + [(slope, 0.0), (None, 0.0)]
    rows = [_single_steps(work, function, distance, case) for case, (function, distance) in enumerate(cases)]
    return {name: np.array([row[name] for row in rows]) for name in names}


def _single_steps(work: Probe, function: Any, distance: float, case: int) -> dict[str, Array]:
    rng, method = generator(work.seed, f"{work.key}-{case}"), method_of(work.variant, work.n)
    mean = np.zeros((work.samples, DIMENSION))
    mean[:, 0] = -distance  # downhill is along the first axis
    theta = FullGaussian.start(mean, np.ones((work.samples, DIMENSION)))
    state = method.init(theta, work.n)
    sample = method.ask(state, rng, work.n)
    values = rng.standard_normal(sample.x.shape[:-1]) if function is None else function(sample.x)
    state, _ = method.tell(state, sample, values)
    variances, volumes = np.square(state.theta.deviations), np.exp(sample.surprise)
    return {
        "step": state.theta.mean[:, 0] + distance,
        "along": variances[:, 0] - 1,
        "across": np.mean(variances[:, 1:], axis=1) - 1,
        "largest": np.max(volumes, axis=1) / np.sum(volumes, axis=1),
    }


def pieces(scale: Scale, seed: int) -> list[Piece]:
    """All races and probes."""
    trials, samples, budget = {"full": (40, 4000, BUDGET), "quick": (8, 1000, 40_000), "tiny": (3, 50, 10_000)}[scale]
    problems, sizes = (["steps", "sphere"], SIZES[-1:]) if scale == "tiny" else (list(PROBLEMS), SIZES)
    races = [Race(problem, variant, n, trials, budget, seed) for n in sizes for problem in problems for variant in RIVALS]
    if scale == "full":
        between = [variant for variant in PARTS if variant not in RIVALS]
        races += [Race(problem, variant, SIZES[0], trials, budget, seed) for problem in DISSECTED for variant in between]
        races += [Race(problem, "rank-mu-ties", n, trials, budget, seed) for n in SIZES for problem in TIED]
    probes = [Probe(variant, n, samples if n <= DIMENSION else samples // 4, seed) for n in sizes for variant in (*RIVALS, "mixed")]
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
        return bootstrap(lambda times: np.quantile(times, 0.5, method="lower"), self.times)


def results(data: Data) -> dict[tuple[str, str, int], Result]:
    """By problem, variant and n."""
    found: dict[tuple[str, str, int], Result] = {}
    for key, arrays in data.items():
        kind, _, rest = key.partition("-")
        if kind == "race":
            name, _, size = rest.rpartition("-n")
            problem = next(known for known in PROBLEMS if name.startswith(known + "-") and name[len(known) + 1 :] in KNOWN)
            ending = arrays["ending"]
            result = Result(arrays["evaluations"], ending == "reached", ending, arrays["value"])
            found[problem, name[len(problem) + 1 :], int(size)] = result
    return found


KNOWN = {*PARTS, "rank-mu-ties"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """NGD against rank-µ on one problem."""

    problem: str
    n: int
    ngd: Result
    rank_mu: Result
    ratio: Interval  # evaluations of NGD for each success over those of rank-µ
    p_value: float  # of the log-rank test of equal times

    @property
    def verdict(self) -> str:
        """In one word."""
        if not np.isfinite(self.ratio.value) and not self.rank_mu.reached.any():
            return "neither"
        if self.ratio.low > 1.1:
            return "rank-µ"
        return "NGD" if self.ratio.high < 1 / 1.1 else "same"


def comparisons(data: Data) -> list[Comparison]:
    """All of them, in the order of the problems."""
    found = results(data)
    pairs = [(problem, n) for n in SIZES for problem in PROBLEMS if (problem, "ngd", n) in found]
    return [compared(problem, n, found[problem, "ngd", n], found[problem, "rank-mu", n]) for problem, n in pairs]


def compared(problem: str, n: int, ngd: Result, rank_mu: Result) -> Comparison:
    """NGD against rank-µ."""
    packed = [np.stack([result.evaluations, result.reached.astype(np.float64)], axis=1) for result in (ngd, rank_mu)]
    ratio = bootstrap(running_time_ratio, *packed)
    return Comparison(problem, n, ngd, rank_mu, ratio, log_rank(ngd.times, rank_mu.times, PROBLEMS[problem].budget))


def running_time_ratio(first: Array, second: Array) -> float:
    """Evaluations for each success of one over those of the other; inf or 0 if one never succeeds."""
    ours, theirs = (running_time(packed[:, 0], packed[:, 1] > 0) for packed in (first, second))
    if not np.isfinite(ours):
        return float("inf")
    return ours / theirs


def findings(data: Data) -> list[str]:
    """Success, evaluations and ratios; what lies between the methods; single steps."""
    found = results(data)
    lines = [f"NGD against rank-µ, d = {DIMENSION}; c_C of NGD: " + ", ".join(f"{MATCHES[n].ngd} at n = {n}" for n in SIZES)]
    lines += [_row(one) for one in comparisons(data)]
    lines += ["", "one part at a time: success, median evaluations of the successful, median value at the end"]
    for (problem, variant, n), result in sorted(found.items(), key=lambda item: (item[0][2], list(PROBLEMS).index(item[0][0]))):
        if (problem in DISSECTED and n == SIZES[0]) or problem in TIED:
            lines.append(f"  n = {n:3d}  {problem:16s} {variant:14s} {_summary(result)}")
    return [*lines, "", *_probe_lines(data)]


def _row(one: Comparison) -> str:
    return (
        f"  n = {one.n:3d}  {one.problem:17s} success {_percent(one.ngd.success)} against {_percent(one.rank_mu.success)}"
        f"  median {_count(one.ngd.median)} against {_count(one.rank_mu.median)}"
        f"  ratio {one.ratio}  p = {one.p_value:.1g}  {one.verdict}"
    )


def _percent(rate: Interval) -> str:
    return f"{100 * rate.value:3.0f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _count(evaluations: Interval) -> str:
    return f"{evaluations.value:.0f} [{evaluations.low:.0f}, {evaluations.high:.0f}]"


def _summary(result: Result) -> str:
    times = result.evaluations[result.reached]
    typical = f"{np.median(times):8.0f}" if times.size else "       –"
    endings = ", ".join(f"{count} {name}" for name, count in zip(*np.unique(result.ending, return_counts=True), strict=True))
    return f"{_percent(result.success)}  {typical}  {np.median(result.value):9.3g}  ({endings})"


def _probe_lines(data: Data) -> list[str]:
    lines = ["single steps from N(m, I): mean step downhill, change of the variance downhill and across (± standard error)"]
    names = [*(f"sphere at {distance:g}" for distance in DISTANCES), "slope", "noise alone"]
    for key, arrays in data.items():
        if key.startswith("probe-"):
            lines.append(f"  {key[6:]}: the point of the largest 1/p has {np.mean(arrays['largest'][0]):.3f} of Σ 1/p")
            lines += [f"    {name:14s} " + "  ".join(_mean(arrays[part][case]) for part in ("step", "along", "across")) for case, name in enumerate(names)]
    return lines


def _mean(sample: Array) -> str:
    return f"{np.mean(sample):+.5f} ± {np.std(sample) / np.sqrt(sample.size):.5f}"


STUDY = Study("apart", "Are there functions that tell NGD and rank-µ CMA-ES apart?", pieces, findings)
