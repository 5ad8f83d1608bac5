"""How far the estimated natural gradient is from the exact one, against n, d and Cond(CA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import cast

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.engine.recipes import ngd
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.compute import condition
from sublevel.paper.figures.config import EXPERIMENT, hessian_diagonal
from sublevel.paper.streams import generator
from sublevel.paper.studies.statistics import mean, standard_error
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.theory.intervals import Interval
from sublevel.paper.theory.sampled import consistency_exponent, estimation_errors, log_log_slope


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    conditions: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0, 30.0, 100.0)
    decisive: tuple[float, ...] = (3.0, 4.0, 5.0)  # where 1/Cond is neither near 1/2 nor near 0
    more: int = 3  # times as many trials there, in the smallest d
    largest: tuple[tuple[int, int], ...] = ((2, 316_228), (5, 100_000), (20, 31_623))  # d and its largest n
    decades: float = 3.0  # that n ranges over, two sizes in each; the slope is that of the upper half
    dimensions: tuple[int, ...] = (2, 3, 5, 10, 20, 40, 80)
    size: int = 100_000  # the largest n at which the error is measured against d
    onset: tuple[int, ...] = (300, 1_000, 3_000, 10_000, 30_000, 100_000)  # n of the search for the asymptotic law
    within: float = 0.05  # the law holds from the n on where the error is this near to it
    speeds: tuple[int, ...] = (20, 400, 8000)  # n at which iterations are counted at the paper's d
    trials: int = 40
    block: int = 200_000  # points drawn at a time


FULL = Design()
QUICK = replace(
    FULL,
    largest=tuple((d, n // 30) for d, n in FULL.largest),
    decades=2.0,
    size=10_000,
    onset=FULL.onset[:4],
    speeds=FULL.speeds[:2],
    trials=24,
)
TINY = replace(
    QUICK,
    conditions=(1.0, 10.0),
    largest=tuple((d, n // 300) for d, n in FULL.largest),
    dimensions=FULL.dimensions[:4],
    onset=(1_000, 10_000),
    speeds=(400,),
    trials=4,
)
DESIGNS: dict[Scale, Design] = {"full": FULL, "quick": QUICK, "tiny": TINY}


def relative_error(d: float, n: float) -> float:
    """√((d² + 14d + 18 + 20/d)/(2n)): first-order root mean square of ‖estimate − exact‖/‖exact‖ at C ∝ A⁻¹, m = x*.

    There V = r² = ‖z‖², and with the exact V the estimate is the mean over the sample of (r² − d)·(z, zzᵀ − I). Because
    E r⁴ = d(d + 2) and so on, the variances are 2d + 24 for each of d(d − 1) entries off the diagonal, 4d + 52 for each
    of d on it, and 2d + 8 for each of d of the mean. V̂ in place of V adds to every point its part in the volumes of
    the worse ones, (2/d)·E[R²(R²/d − 1)/v(R); R > r]/p(r) = 2(r² − d + 2)/d times I, which makes the variance larger by
    40 in all. The exact matrix is 2I, with the squared norm 4d.
    """
    return sqrt((d * d + 14 * d + 18 + 20 / d) / (2 * n))


@dataclass(frozen=True, slots=True)
class Errors:
    """Some samples of each size at one d and one Cond(CA)."""

    d: int
    condition: float
    sizes: tuple[int, ...]
    trials: int
    seed: int
    kind: str = "slope"  # or "dimension"

    @property
    def key(self) -> str:
        return f"{self.kind}-d{self.d}-cond{self.condition:g}"

    @property
    def cost(self) -> float:
        return sum(self.sizes) * self.trials * (0.2 + 0.05 * self.d) * 1e-6

    def compute(self) -> Arrays:
        """Relative errors (sizes, trials) of the estimate at N(0, I) on an ellipsoid."""
        return {"sizes": np.array(self.sizes), "errors": np.array([self._errors_at(size) for size in self.sizes])}

    def _errors_at(self, size: int) -> Array:
        root = np.diag(np.geomspace(1.0, sqrt(self.condition), self.d))
        theta = FullGaussian.start(np.zeros(self.d), np.ones(self.d))
        noise = generator(self.seed, f"consistency-d{self.d}-cond{self.condition:g}-n{size}")
        at_once = max(1, FULL.block // size)
        counts = [min(at_once, self.trials - first) for first in range(0, self.trials, at_once)]
        return np.concatenate([estimation_errors(theta, root, size, count, noise) for count in counts])


def sizes_up_to(largest: int, decades: float) -> tuple[int, ...]:
    """Two sizes to a decade."""
    return tuple(round(largest * 10 ** (-step / 2)) for step in range(round(2 * decades), -1, -1))


@dataclass(frozen=True, slots=True)
class Speed:
    """Iterations in which NGD with c_C = 0.1 falls from Cond(CA) = 10⁶ to 10⁵ on the paper's ellipsoid."""

    n: int
    trials: int
    seed: int

    @property
    def key(self) -> str:
        return f"speed-n{self.n}"

    @property
    def cost(self) -> float:
        return (60 + 1000 / self.n**0.5) * self.trials * (4e-5 + 1e-6 * self.n)

    def compute(self) -> Arrays:
        """Iterations (trials,)."""
        d, method = EXPERIMENT.dimension, ngd(c_cov=0.1)
        hessian, noise = hessian_diagonal(d), generator(self.seed, f"consistency-{self.key}")
        state = method.init(FullGaussian.start(np.zeros((self.trials, d)), np.ones((self.trials, d))), self.n)
        times, iteration = np.zeros(self.trials), 0
        while not np.all(times):
            iteration += 1
            sample = method.ask(state, noise, self.n)
            state, _ = method.tell(state, sample, np.square(sample.x) @ hessian)
            below = condition(cast(FullGaussian, state.theta), hessian) < EXPERIMENT.thresholds[0]
            times = np.where((times == 0) & below, iteration, times)
        return {"times": times}


def works(scale: Scale, seed: int) -> list[Errors | Speed]:
    """A slope for each d and condition, errors for each d, and iterations for some n."""
    design = DESIGNS[scale]
    sizes = {d: sizes_up_to(largest, design.decades) for d, largest in design.largest}
    made: list[Errors | Speed] = []
    for d in sizes:
        for at in design.conditions:
            often = design.more if d == min(sizes) and at in design.decisive else 1
            made.append(Errors(d, at, sizes[d], often * design.trials, seed))
    for d in design.dimensions:
        trials = design.trials * (3 if d <= 10 else 1)
        onset = tuple(size for size in design.onset if size <= design.size)
        made.append(Errors(d, 1.0, onset if d <= 20 else (design.size,), trials, seed, "dimension"))
    return [*made, *(Speed(n, max(2, design.trials // 4), seed) for n in design.speeds)]


@dataclass(frozen=True, slots=True)
class Line:
    """The errors at one d and Cond(CA), and how they fall with n."""

    d: int
    condition: float
    sizes: Array  # (k,)
    errors: Array  # (k, trials)

    @property
    def typical(self) -> Array:
        """Geometric means (k,)."""
        return np.exp(np.mean(np.log(self.errors), axis=1))

    @property
    def slope(self) -> Interval:
        """Over the upper half of the sizes."""
        half = len(self.sizes) // 2
        return log_log_slope([int(size) for size in self.sizes[half:]], self.errors[half:])


def _of_kind(data: Data, kind: str) -> list[tuple[Errors, Arrays]]:
    found = [(work, part) for work, part in data.items() if isinstance(work, Errors) and work.kind == kind]
    return sorted(found, key=lambda pair: (pair[0].d, pair[0].condition))


def lines(data: Data) -> list[Line]:
    """All slopes, by d and condition."""
    return [Line(work.d, work.condition, part["sizes"], part["errors"]) for work, part in _of_kind(data, "slope")]


@dataclass(frozen=True, slots=True)
class Dimension:
    """The error at Cond(CA) = 1 in one dimension, times √n."""

    d: int
    n: int
    scaled: float  # root mean square
    spread: float  # its standard error
    predicted: float

    @property
    def excess(self) -> float:
        """How far the error is above the formula."""
        return self.scaled / self.predicted - 1


def dimensions(data: Data) -> list[Dimension]:
    """The errors against d at the largest n."""
    return [rows[-1] for rows in onsets(data).values()]


def onsets(data: Data) -> dict[int, list[Dimension]]:
    """The errors against n by d."""
    found: dict[int, list[Dimension]] = {}
    for work, part in _of_kind(data, "dimension"):
        for size, errors in zip(part["sizes"], part["errors"], strict=True):
            squares = np.square(errors)
            scaled = sqrt(int(size) * mean(squares))
            spread = 0.5 * scaled * standard_error(squares) / mean(squares)
            found.setdefault(work.d, []).append(Dimension(work.d, int(size), scaled, spread, relative_error(work.d, 1)))
    return found


def onset(rows: Sequence[Dimension]) -> int | None:
    """The smallest n from which on all errors are near the formula, and are known as precisely, if there is one."""
    near = [max(abs(row.excess), row.spread / row.predicted) <= FULL.within for row in rows]
    first = len(near) - near[::-1].index(False) if False in near else 0
    return rows[first].n if first < len(rows) else None


def speeds(data: Data) -> dict[int, Array]:
    """Iterations (trials,) from Cond(CA) = 10⁶ to 10⁵ by n."""
    return {work.n: part["times"] for work, part in data.items() if isinstance(work, Speed)}


def findings(data: Data) -> list[str]:
    """Slopes beside the predicted exponent, errors beside the formula."""
    return [
        "log-log slope of the error against n, with its 95 % band",
        "  d  Cond(CA)  n from … to        slope                    predicted",
        *(_slope_row(line) for line in lines(data)),
        "",
        "error·√n at Cond(CA) = 1: measured ± standard error, and √((d² + 14d + 18 + 20/d)/2)",
        *(f"{one.d:3d}  {one.scaled:7.2f} ± {one.spread:.2f}   {one.predicted:7.2f}" for one in dimensions(data)),
        "",
        f"error above the formula against n, and the n from which on it is within {100 * FULL.within:.0f} %",
        *(_onset_row(d, rows) for d, rows in onsets(data).items()),
        "",
        "iterations from Cond(CA) = 10⁶ to 10⁵ at d = 20, c_C = 0.1: mean ± standard error",
        *(f"  n = {n:5d}  {mean(times):7.1f} ± {standard_error(times):.1f}" for n, times in speeds(data).items()),
    ]


def _onset_row(d: int, rows: Sequence[Dimension]) -> str:
    cells = "  ".join(f"{row.n}: {100 * row.excess:+.1f} ± {100 * row.spread / row.predicted:.1f} %" for row in rows)
    return f"{d:3d}  {cells}  from {onset(rows) or 'beyond'}"


def _slope_row(line: Line) -> str:
    slope, sizes = line.slope, line.sizes[len(line.sizes) // 2 :]
    band = f"{slope.value:6.3f} [{slope.low:6.3f}, {slope.high:6.3f}]   {consistency_exponent(line.condition):6.3f}"
    return f"{line.d:3d} {line.condition:8g}  {sizes[0]:8d} … {sizes[-1]:8d}  {band}"


STUDY = Study("consistency", works, findings)
