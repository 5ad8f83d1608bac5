"""How iterations and evaluations to learn C grow with d."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.ordering import ranking
from sublevel.engine.recipes import ngd
from sublevel.engine.tangent import natural_gradient
from sublevel.engine.weights import Volume
from sublevel.paper.figures.compute import DEGENERATE, THRESHOLDS, Batch, condition, crossing_times, is_recorded
from sublevel.paper.figures.config import CONDITION, hessian_diagonal, sample_size
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies.statistics import Interval, bootstrap, mean
from sublevel.paper.studies.study import Arrays, Data, Piece, Scale, Study
from sublevel.paper.theory.curves import predicted_times

RATE = 0.1
"""c_C."""
DIMENSIONS = (2, 3, 5, 10, 20, 40, 80)
POWERS = (1, 2, 4)
"""n = ⌈d^(k/2)⌉: √d, d, d²."""
FITTED_FROM = 10
"""Smallest d of the fits: below, n = ⌈√d⌉ is 2 or 3."""
CAP = 300_000
"""Iterations after which a trial is given up; the slowest need a fifth of it."""
SIGNAL_SAMPLES = 400


@dataclass(frozen=True, slots=True)
class Learning:
    """Trials at one d and n."""

    d: int
    power: int
    first: int
    count: int
    seed: int

    @property
    def n(self) -> int:
        """Sample size."""
        return sample_size(self.power, self.d)

    @property
    def cost(self) -> float:
        """Seconds, roughly, as first measured at d = 80: 9.5, 3 and 5 for a trial."""
        slowest = {1: (9.5, 1.9), 2: (3.0, 2.0), 4: (5.0, 2.6)}[self.power]
        return self.count * (0.02 + slowest[0] * (self.d / 80) ** slowest[1])


def compute(learning: Learning) -> Arrays:
    """The first times (count, thresholds) at which Cond(CᵗA) is below 10⁵ … 10, from C = I and m = 0 on the paper's
    ellipsoid.
    """
    d, n, count = learning.d, learning.n, learning.count
    method, hessian = ngd(c_cov=RATE), hessian_diagonal(d)
    noise = streams(learning.seed, f"dimension-d{d}-n{n}", learning.first, count)
    theta = FullGaussian.start(np.zeros((count, d)), np.ones((count, d)))
    batch = Batch(np.arange(count), method.init(theta, n), noise, np.zeros(count, dtype=np.intp))
    times, curves, iteration = [0], [condition(theta, hessian)], 0
    while batch.trials.size and iteration < CAP:
        iteration += 1
        sample = method.ask(batch.state, batch.noise, n)
        state, _ = method.tell(batch.state, sample, np.square(sample.x) @ hessian)
        batch = replace(batch, state=state)
        if is_recorded(iteration):
            row = np.full(count, np.nan)
            row[batch.trials] = condition(batch.theta, hessian)
            times.append(iteration)
            curves.append(row)
            here = row[batch.trials]
            batch = batch.select((here > THRESHOLDS[-1]) & (here < DEGENERATE))
    known, cond = np.array(times, dtype=np.int64), np.stack(curves, axis=1)
    return {
        "first_times": np.stack([crossing_times(known, cond, threshold) for threshold in THRESHOLDS], axis=1),
        "n": np.array(n),
    }


def signal(learning: Learning) -> Arrays:
    """−tr(Z)/(d·σ₁(Z)) of single samples (samples,) where C = A⁻¹: the share of a step that is not noise; 1 for the
    exact gradient.
    """
    noise = generator(learning.seed, f"signal-d{learning.d}-n{learning.n}")
    theta = FullGaussian.start(np.zeros(learning.d), np.ones(learning.d))
    shares = [_share(theta.sample(noise, learning.n)) for _ in range(learning.count)]
    return {"share": np.array(shares), "n": np.array(learning.n)}


def _share(sample: Any) -> float:
    tangent = natural_gradient(sample.z, Volume()(ranking(np.vecdot(sample.x, sample.x)), sample))
    return float(-np.mean(tangent.cloud.diagonal) / tangent.spectral_norm)


def pieces(scale: Scale, seed: int) -> list[Piece]:
    """Chunks of trials that take about ten seconds, and the shares."""
    made: list[Piece] = []
    for d in {"full": DIMENSIONS, "quick": DIMENSIONS[:-2], "tiny": (2, 3)}[scale]:
        for power in POWERS:
            made.extend(_chunks(d, power, _trials(scale, d), seed))
            single = Learning(d, power, 0, SIGNAL_SAMPLES if scale == "full" else 40, seed)
            cost = single.count * (1e-4 + 3e-8 * single.n * d)
            made.append(Piece(f"signal-d{d}-k{power}", signal, single, cost))
    return made


def _trials(scale: Scale, d: int) -> int:
    return (20 if d < 40 else 12) if scale == "full" else (6 if scale == "quick" else 2)


def _chunks(d: int, power: int, trials: int, seed: int) -> list[Piece]:
    size = max(1, min(trials, int(12 / Learning(d, power, 0, 1, seed).cost)))
    works = [Learning(d, power, first, min(size, trials - first), seed) for first in range(0, trials, size)]
    return [Piece(f"learning-d{d}-k{power}-t{work.first}", compute, work, work.cost) for work in works]


@dataclass(frozen=True, slots=True)
class Growth:
    """Iterations to Cond(CA) < 10 for one rule n(d)."""

    power: int
    dimensions: Array  # (k,)
    sizes: Array  # (k,), n
    iterations: list[Array]  # k times (trials,)
    failed: int  # trials, of all d, that were given up
    share: Array  # (k,), mean of `signal`

    @property
    def typical(self) -> Array:
        """Geometric mean of the iterations (k,)."""
        return np.array([np.exp(np.mean(np.log(sample))) for sample in self.iterations])

    @property
    def is_fitted(self) -> NDArray[np.bool_]:
        """The dimensions (k,) that exponents are fitted to."""
        return self.dimensions >= min(FITTED_FROM, self.dimensions[-2])

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
    return [_growth(data, power) for power in POWERS]


def _growth(data: Data, power: int) -> Growth:
    by_d: dict[int, list[Array]] = {}
    sizes: dict[int, int] = {}
    for key, arrays in data.items():
        kind, d, k, *_ = key.split("-")
        if kind == "learning" and k == f"k{power}":
            by_d.setdefault(int(d[1:]), []).append(arrays["first_times"][:, -1])
            sizes[int(d[1:])] = int(arrays["n"])
    order = sorted(by_d)
    every = [np.concatenate(by_d[d]) for d in order]
    return Growth(
        power=power,
        dimensions=np.array(order, dtype=np.float64),
        sizes=np.array([sizes[d] for d in order], dtype=np.float64),
        iterations=[times[np.isfinite(times)] for times in every],
        failed=sum(int(np.count_nonzero(~np.isfinite(times))) for times in every),
        share=np.array([mean(data[f"signal-d{d}-k{power}"]["share"]) for d in order]),
    )


def theory_iterations() -> float:
    """What the exact algorithm needs in every dimension, eq:cond-sp."""
    return float(predicted_times(CONDITION, RATE / 2, np.array([THRESHOLDS[-1]]))[0])


NAMES = {1: "⌈√d⌉", 2: "d", 4: "d²"}


def findings(data: Data) -> list[str]:
    """Iterations and evaluations for every d, and the exponents."""
    text = [
        f"iterations from Cond(CA) = 10⁶ to 10, c_C = {RATE}; the exact algorithm needs {theory_iterations():.0f} for "
        "every d"
    ]
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


STUDY = Study("dimension", "How does the time to learn C grow with the dimension?", pieces, findings)
