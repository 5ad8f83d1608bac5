"""How iterations and evaluations to learn C grow with d."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian, Sample
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.recipes import ngd
from sublevel.engine.weights import Volume
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.compute import Batch, condition, first_times, is_recorded
from sublevel.paper.figures.config import EXPERIMENT, hessian_diagonal, sample_size
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies.statistics import Interval, bootstrap, mean
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.theory.curves import predicted_times

NAMES = {1: "⌈√d⌉", 2: "d", 4: "d²"}
"""The rules n = ⌈d^(k/2)⌉, by k."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    dimensions: tuple[int, ...] = (2, 3, 5, 10, 20, 40, 80)
    trials: int = 20
    trials_from_40: int = 12  # for d ≥ 40
    samples: int = 400  # of the signal
    rate: float = 0.1  # c_C
    fitted_from: int = 10  # smallest d of the fits: below, n = ⌈√d⌉ is 2 or 3
    cap: int = 300_000  # iterations after which a trial is stopped, five times those of the slowest
    seconds: float = 12.0  # that a chunk of trials takes, roughly


FULL = Design()
DESIGNS: dict[Scale, Design] = {
    "full": FULL,
    "quick": replace(FULL, dimensions=FULL.dimensions[:-2], trials=6, samples=40),
    "tiny": replace(FULL, dimensions=(2, 3), trials=2, samples=40),
}


@dataclass(frozen=True, slots=True)
class Learning:
    """Trials at one d and n."""

    d: int
    power: int
    first: int
    count: int
    seed: int

    @property
    def key(self) -> str:
        return f"learning-d{self.d}-k{self.power}-t{self.first}"

    @property
    def n(self) -> int:
        """Sample size."""
        return sample_size(self.power, self.d)

    @property
    def cost(self) -> float:
        """Seconds, roughly, as first measured at d = 80: 9.5, 3 and 5 for a trial."""
        slowest = {1: (9.5, 1.9), 2: (3.0, 2.0), 4: (5.0, 2.6)}[self.power]
        return self.count * (0.02 + slowest[0] * (self.d / 80) ** slowest[1])

    def compute(self) -> Arrays:
        """First times (count, thresholds) at which Cond(CᵗA) is below 10⁵ … 10 on the paper's ellipsoid."""
        d, n, count = self.d, self.n, self.count
        method, hessian, iteration = ngd(c_cov=FULL.rate), hessian_diagonal(d), 0
        noise = streams(self.seed, f"dimension-d{d}-n{n}", self.first, count)
        batch = Batch.start(method, FullGaussian.start(np.zeros((count, d)), np.ones((count, d))), n, noise)
        times, curves = [0], [condition(batch.theta, hessian)]
        while batch.trials.size and iteration < FULL.cap:
            iteration += 1
            sample = method.ask(batch.state, batch.noise, n)
            state, _ = method.tell(batch.state, sample, np.square(sample.x) @ hessian)
            batch = replace(batch, state=state)
            if is_recorded(iteration):
                here, row = condition(batch.theta, hessian), np.full(count, np.nan)
                row[batch.trials] = here
                times.append(iteration)
                curves.append(row)
                batch = batch.select((here > EXPERIMENT.thresholds[-1]) & (here < EXPERIMENT.degenerate))
        return {"first_times": first_times(np.array(times, dtype=np.int64), np.stack(curves, axis=1)), "n": np.array(n)}


@dataclass(frozen=True, slots=True)
class Signal:
    """The share of a step that is not noise, in single samples at C = A⁻¹."""

    d: int
    power: int
    count: int
    seed: int

    @property
    def key(self) -> str:
        return f"signal-d{self.d}-k{self.power}"

    @property
    def cost(self) -> float:
        return self.count * (1e-4 + 3e-8 * sample_size(self.power, self.d) * self.d)

    def compute(self) -> Arrays:
        """−tr(Z)/(d·σ₁(Z)) of each sample (samples,), 1 for the exact gradient."""
        n = sample_size(self.power, self.d)
        noise = generator(self.seed, f"signal-d{self.d}-n{n}")
        theta = FullGaussian.start(np.zeros(self.d), np.ones(self.d))
        return {"share": np.array([_share(theta.sample(noise, n)) for _ in range(self.count)]), "n": np.array(n)}


def _share(sample: Sample) -> float:
    tangent = natural_gradient(sample.z, Volume()(ranking(np.vecdot(sample.x, sample.x)), sample))
    return float(-np.mean(tangent.cloud.diagonal) / tangent.spectral_norm)


def works(scale: Scale, seed: int) -> list[Learning | Signal]:
    """Chunks of trials that take about ten seconds, and the shares."""
    design, made = DESIGNS[scale], list[Learning | Signal]()
    for d in design.dimensions:
        trials = min(design.trials, design.trials_from_40) if d >= 40 else design.trials
        for power in NAMES:
            size = max(1, min(trials, int(design.seconds / Learning(d, power, 0, 1, seed).cost)))
            made += [Learning(d, power, first, min(size, trials - first), seed) for first in range(0, trials, size)]
            made.append(Signal(d, power, design.samples, seed))
    return made


@dataclass(frozen=True, slots=True)
class Growth:
    """Iterations to Cond(CA) < 10 for one rule n(d)."""

    power: int
    dimensions: Array  # (k,)
    sizes: Array  # (k,), n
    iterations: list[Array]  # k times (trials,)
    failed: int  # trials, of all d, that were stopped
    share: Array  # (k,), mean of the signal

    @property
    def typical(self) -> Array:
        """Geometric mean of the iterations (k,)."""
        return np.array([np.exp(np.mean(np.log(sample))) for sample in self.iterations])

    @property
    def is_fitted(self) -> NDArray[np.bool_]:
        """The dimensions (k,) that exponents are fitted to."""
        return self.dimensions >= min(FULL.fitted_from, self.dimensions[-2])

    def exponent(self, *, evaluations: bool) -> Interval:
        """b in iterations, or evaluations, ∝ d^b over the larger d, its interval bootstrapped over trials."""
        fitted = self.is_fitted
        x = np.log(self.dimensions[fitted])
        x = (x - x.mean()) / np.sum(np.square(x - x.mean()))
        offset = np.log(self.sizes[fitted]) if evaluations else np.zeros(np.count_nonzero(fitted))
        samples = [np.log(sample) for sample, keep in zip(self.iterations, fitted, strict=True) if keep]
        return bootstrap(lambda *drawn: x @ (np.array([sample.mean() for sample in drawn]) + offset), *samples)

    @property
    def share_exponent(self) -> float:
        """b in 1/share ∝ d^b over the same d."""
        return float(np.polyfit(np.log(self.dimensions[self.is_fitted]), -np.log(self.share[self.is_fitted]), 1)[0])


def growths(data: Data) -> list[Growth]:
    """One for each rule n(d)."""
    return [_growth(data, power) for power in NAMES]


def _growth(data: Data, power: int) -> Growth:
    by_d: dict[int, list[Array]] = {}
    share: dict[int, float] = {}
    for work, arrays in data.items():
        if isinstance(work, Learning) and work.power == power:
            by_d.setdefault(work.d, []).append(arrays["first_times"][:, -1])
        elif isinstance(work, Signal) and work.power == power:
            share[work.d] = mean(arrays["share"])
    order = sorted(by_d)
    every = [np.concatenate(by_d[d]) for d in order]
    return Growth(
        power=power,
        dimensions=np.array(order, dtype=np.float64),
        sizes=np.array([sample_size(power, d) for d in order], dtype=np.float64),
        iterations=[times[np.isfinite(times)] for times in every],
        failed=sum(int(np.count_nonzero(~np.isfinite(times))) for times in every),
        share=np.array([share[d] for d in order]),
    )


def theory_iterations() -> float:
    """What the exact algorithm needs in every dimension, eq:cond-sp."""
    return float(predicted_times(EXPERIMENT.condition, FULL.rate / 2, np.array([EXPERIMENT.thresholds[-1]]))[0])


def findings(data: Data) -> list[str]:
    """Iterations and evaluations for every d, and the exponents."""
    head = f"iterations from Cond(CA) = 10⁶ to 10, c_C = {FULL.rate}; the exact algorithm needs"
    text = [f"{head} {theory_iterations():.0f} for every d"]
    for growth in growths(data):
        text.append(f"n = {NAMES[growth.power]}  ({growth.failed} trials failed)")
        columns = zip(growth.dimensions, growth.sizes, growth.iterations, growth.typical, growth.share, strict=True)
        for d, n, sample, typical, share in columns:
            deviation = float(np.std(np.log(sample)))
            text.append(
                f"  d = {d:2.0f}  n = {n:4.0f}  iterations {typical:8.0f} (±{100 * deviation:.1f} %, {sample.size} "
                f"trials)  evaluations {typical * n:9.3g}  share of signal {share:.4f}"
            )
        iterations, evaluations = growth.exponent(evaluations=False), growth.exponent(evaluations=True)
        text.append(
            f"  d ≥ {growth.dimensions[growth.is_fitted][0]:.0f}: iterations ∝ d^{iterations}, evaluations ∝ "
            f"d^{evaluations}, 1/share ∝ d^{growth.share_exponent:.3f}"
        )
    return text


STUDY = Study("dimension", works, findings)
