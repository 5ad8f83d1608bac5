"""Mirrored and orthogonal points in NGD: the variance of the estimate, and what it does to the final Cond(CA) and the
rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.recipes import ngd
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.weights import Volume
from sublevel.paper.cache import Arrays
from sublevel.paper.streams import generator
from sublevel.paper.studies.predictions import CHEAP, Comparison, Stationary
from sublevel.paper.studies.statistics import standard_error
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.theory.checks import covariance_part
from sublevel.paper.theory.estimate_variance import WhitenedCost, total_variances
from sublevel.paper.theory.measure import condition_number, expected_objective
from sublevel.paper.theory.predictions import convergence_rate, final_condition, stability
from sublevel.paper.theory.sampled import squared_errors
from sublevel.paper.theory.stationary import Stability, large_sample_law

PARTS = ("mean", "covariance")
LEARNED, TARGET = 10.0, 1e-10
"""Cond(CA) and E f at which iterations are counted."""
MOST_ITERATIONS = 20_000
"""Of a whole run."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    samples: tuple[int, int] = (10, 20)  # d and n of single estimates
    distances: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the mean from x*
    estimates: int = 20_000
    settings: tuple[tuple[int, int], ...] = ((5, 10), (10, 20), (10, 100), (20, 400))  # d and n
    rates: tuple[float, ...] = (0.1, 0.3, 1.0)  # c_C
    trials: int = 30
    cheap_trials: int = 300  # with at most `CHEAP` coordinates in a sample
    whole_runs: tuple[tuple[int, int], ...] = ((10, 20), (10, 100))
    whole_trials: int = 20


FULL = Design()
QUICK = replace(FULL, estimates=4000, settings=((10, 20), (10, 100)), rates=(0.1, 0.3), cheap_trials=30, whole_trials=4)
TINY = replace(
    QUICK,
    samples=(5, 10),
    distances=(0.0, 2.0),
    estimates=200,
    settings=((10, 400),),
    rates=(0.3,),
    trials=4,
    whole_runs=((4, 12),),
    whole_trials=2,
)
DESIGNS: dict[Scale, Design] = {"full": FULL, "quick": QUICK, "tiny": TINY}


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of the natural gradient of xᵀx at N(m, I), for a distance ‖m‖."""

    sampling: str
    d: int
    n: int
    distance: float
    trials: int
    seed: int

    @property
    def key(self) -> str:
        return f"estimates-{self.sampling}-d{self.d}-n{self.n}-at{self.distance:g}"

    @property
    def cost(self) -> float:
        return self.trials * self.n * (0.2 + 0.1 * self.d) * 1e-6 + 0.01

    @property
    def theta(self) -> FullGaussian:
        """The search distribution."""
        return FullGaussian.start(self.distance * np.eye(self.d)[0], np.ones(self.d))

    @property
    def whitened_cost(self) -> WhitenedCost:
        """V less its expectation."""
        return WhitenedCost.at(self.theta, np.eye(self.d))

    def compute(self) -> Arrays:
        """Squared errors (2, trials) with V itself, and squared deviations (2, trials) with the estimated V̂."""
        exact = squared_errors(self.whitened_cost, self.sampling, self.n, self.trials, self.seed)
        mean = np.broadcast_to(self.theta.mean, (self.trials, self.d))
        z = SAMPLINGS[self.sampling].draw(generator(self.seed, self.key), (self.trials, self.n, self.d))
        sample = FullGaussian.start(mean, np.ones((self.trials, self.d))).sample_at(z)
        tangent = natural_gradient(z, Volume()(ranking(np.vecdot(sample.x, sample.x)), sample))
        parts = tangent.mean, covariance_part(tangent).reshape(self.trials, -1)
        deviations = [part - np.mean(part, axis=0) for part in parts]
        return {"exact": exact, "estimated": np.array([np.vecdot(part, part) for part in deviations])}


@dataclass(frozen=True, slots=True)
class WholeRuns:
    """Runs of NGD on the paper's ellipsoid, Cond(A) = 10⁶, from m = (10, …, 10) and C = I."""

    sampling: str
    d: int
    n: int
    c_cov: float
    trials: int
    seed: int

    @property
    def key(self) -> str:
        return f"runs-{self.sampling}-d{self.d}-n{self.n}"

    @property
    def cost(self) -> float:
        return 1000 * self.trials * (20 + self.n * (0.1 + 0.02 * self.d)) * 1e-6

    def compute(self) -> Arrays:
        """Iterations (trials,) until Cond(CA) < 10, and until E f ≤ 10⁻¹⁰; infinite if that does not happen."""
        method, scales = ngd(c_cov=self.c_cov, sampling=self.sampling), np.logspace(0, 6, self.d)
        start = np.full((self.trials, self.d), 10.0)
        state = method.init(FullGaussian.start(start, np.ones_like(start)), self.n)
        noise, root = generator(self.seed, self.key), np.diag(np.sqrt(scales))
        learned, done = np.full(self.trials, np.inf), np.full(self.trials, np.inf)
        for iteration in range(1, MOST_ITERATIONS + 1):
            sample = method.ask(state, noise, self.n)
            state, _ = method.tell(state, sample, np.square(sample.x) @ scales)
            now = condition_number(state.theta, root) < LEARNED
            learned = np.minimum(learned, np.where(now, iteration, np.inf))
            done = np.minimum(done, np.where(expected_objective(state.theta, root) <= TARGET, iteration, np.inf))
            if np.all(np.isfinite(done)):
                break
        return {"learned": learned, "done": done}


def works(scale: Scale, seed: int) -> list[Estimates | Stationary | WholeRuns]:
    """All measurements, with each sampling."""
    design = DESIGNS[scale]
    found: list[Estimates | Stationary | WholeRuns] = []
    for name in SAMPLINGS:
        found += [Estimates(name, *design.samples, at, design.estimates, seed) for at in design.distances]
        found += [
            Stationary(d, n, rate, design.trials if n * d > CHEAP else design.cheap_trials, seed, name)
            for d, n in design.settings
            for rate in design.rates
        ]
        found += [WholeRuns(name, d, n, 0.3, design.whole_trials, seed) for d, n in design.whole_runs]
    return found


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a part of the estimate over that with independent points: of the closed form, and measured."""

    work: Estimates
    predicted: float
    measured: float  # with V itself
    error: float  # standard error of that, of the numerator alone
    estimated: float  # with V̂


def variances(data: Data, part: str) -> list[Variance]:
    """Those of one of the `PARTS`, in units of the variance with independent points."""
    place = PARTS.index(part)
    found = {work: arrays for work, arrays in data.items() if isinstance(work, Estimates)}
    rows: list[Variance] = []
    for work, arrays in found.items():
        plain: Array = found[replace(work, sampling="independent")]["estimated"][place]
        cost = work.whitened_cost
        unit, closed = (
            total_variances(cost, SAMPLINGS[name], work.n)[place] for name in ("independent", work.sampling)
        )
        exact: Array = arrays["exact"][place]
        estimated: Array = arrays["estimated"][place]
        row = float(np.mean(exact)) / unit, standard_error(exact) / unit, float(np.mean(estimated) / np.mean(plain))
        rows.append(Variance(work, closed / unit, *row))
    return rows


def stationary_results(data: Data) -> list[tuple[Stationary, Arrays]]:
    """The settings of stationary runs with their arrays."""
    return [(work, part) for work, part in data.items() if isinstance(work, Stationary)]


def lost(part: Arrays) -> int:
    """The number of segments in which the mean was lost."""
    return int(np.sum(~np.isfinite(part["cond"])))


def laws(data: Data) -> list[tuple[Stationary, Arrays]]:
    """The settings with a stationary law, by theory, of which no segment lost the mean."""
    return [
        (work, part)
        for work, part in stationary_results(data)
        if _stability(work) == Stability.STABLE and not lost(part)
    ]


def without_law(data: Data) -> list[tuple[Stationary, str, int]]:
    """The other settings with what theory says, and the number of segments in which the mean was lost."""
    compared = {work for work, _ in laws(data)}
    return [(work, _stability(work), lost(part)) for work, part in stationary_results(data) if work not in compared]


def _stability(work: Stationary) -> str:
    return str(stability(work.d, work.n, _rate(work), work.sampling))


def _rate(work: Stationary) -> float:
    return 0.0 if work.c_cov is None else work.c_cov


def conditions(data: Data) -> list[tuple[str, Comparison]]:
    """Final Cond(CA) for each sampling."""
    return _compare(data, "cond", lambda d, n, c, name: float(final_condition(d, n, c, name)))


def rates(data: Data) -> list[tuple[str, Comparison]]:
    """The change of log det(C)/d in an iteration for each sampling."""
    return _compare(data, "rate", lambda d, n, c, name: float(convergence_rate(d, n, c, name).exponent))


def _compare(data: Data, name: str, predict: Callable[[int, int, float, str], float]) -> list[tuple[str, Comparison]]:
    rows: list[tuple[str, Comparison]] = []
    for work, part in laws(data):
        values: Array = part[name]
        predicted = predict(work.d, work.n, _rate(work), work.sampling)
        error = standard_error(values)
        rows.append((work.sampling, Comparison(work.d, work.n, _rate(work), predicted, float(np.mean(values)), error)))
    return rows


def run_results(data: Data) -> list[tuple[WholeRuns, Arrays]]:
    """Whole runs with their arrays."""
    return [(work, part) for work, part in data.items() if isinstance(work, WholeRuns)]


def findings(data: Data) -> list[str]:
    """Tables of variances, of final Cond(CA) and rates, and of whole runs."""
    lines: list[str] = []
    for part in PARTS:
        lines.append(f"variance of the {part} part over that with independent points: closed form, measured, with V̂")
        for row in variances(data, part):
            name = f"  {row.work.sampling:20s} d = {row.work.d}, n = {row.work.n}, ‖m‖ = {row.work.distance:g}"
            lines.append(f"{name}: {row.predicted:.4f} {row.measured:.4f} ({row.error:.2g}) {row.estimated:.3f}")
        lines.append("")
    for title, rows in (("final Cond(CA)", conditions(data)), ("change of log det(C)/d", rates(data))):
        worst = max((abs(row.off) for _, row in rows), default=0.0)
        lines.append(f"{title}: predicted, measured (standard error), first order; at most {100 * worst:.1f} % apart")
        lines += [_line(name, row, title == "final Cond(CA)") for name, row in rows]
        lines.append("")
    lines.append("other settings: what is predicted, and segments in which the mean was lost")
    lines += [
        f"  {work.sampling:20s} d = {work.d}, n = {work.n}, c_C = {work.c_cov:g}: {said}, {count} of {work.trials}"
        for work, said, count in without_law(data)
    ]
    lines += ["", f"median iterations from m = (10, …, 10) to Cond(CA) < {LEARNED:g} and to E f ≤ {TARGET:g}"]
    lines += [
        f"  {work.sampling:20s} d = {work.d}, n = {work.n}: {np.median(part['learned']):g} {np.median(part['done']):g}"
        for work, part in run_results(data)
    ]
    return lines


def _line(name: str, row: Comparison, of_condition: bool) -> str:
    first = large_sample_law(row.d, row.n, row.c_cov, SAMPLINGS[name])[0 if of_condition else 1]
    setting = f"  {name:20s} d = {row.d:2d}, n = {row.n:4d}, c_C = {row.c_cov:g}"
    return f"{setting}: {row.predicted:8.4g} {row.measured:8.4g} ({row.error:.2g}) {first:8.4g} {100 * row.off:+5.1f} %"


STUDY = Study("samplings", works, findings)
