"""How far the estimated natural gradient is from the exact one, against n, d and Cond(CA)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.paper.streams import generator
from sublevel.paper.studies.statistics import mean, standard_error
from sublevel.paper.studies.study import Arrays, Data, Piece, Scale, Study
from sublevel.paper.theory.sampled import Slope, consistency_exponent, estimation_errors, log_log_slope

CONDITIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
LARGEST = {2: 1_000_000, 5: 316_228, 20: 100_000}
"""The largest n of each d at which slopes are measured."""
DECADES = 3.0
"""Sizes range over these, two to a decade; the slope is that of the upper half."""
DIMENSIONS = (2, 3, 5, 10, 20, 40, 80)
SIZE_OF_DIMENSIONS = 100_000
"""n at which the error is measured against d."""
BLOCK = 200_000
"""Points drawn at a time."""


def relative_error(d: float, n: float) -> float:
    """√((d² + 14d + 18 + 20/d)/(2n)): root mean square of ‖estimate − exact‖/‖exact‖ at C ∝ A⁻¹ and m = x*, to first
    order in n.

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

    @property
    def key(self) -> str:
        """Name of the piece."""
        return f"d{self.d}-cond{self.condition:g}"

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return sum(self.sizes) * self.trials * (0.2 + 0.05 * self.d) * 1e-6


def compute(errors: Errors) -> Arrays:
    """Relative errors (sizes, trials) of the estimate at N(0, I) on xᵀAx, the eigenvalues of A evenly spaced in the
    logarithm.
    """
    hessian_root = np.diag(np.geomspace(1.0, sqrt(errors.condition), errors.d))
    theta = FullGaussian.start(np.zeros(errors.d), np.ones(errors.d))
    measured = [_errors_at(theta, hessian_root, size, errors) for size in errors.sizes]
    return {"sizes": np.array(errors.sizes), "errors": np.array(measured)}


def _errors_at(theta: FullGaussian, hessian_root: Array, size: int, errors: Errors) -> Array:
    noise = generator(errors.seed, f"consistency-{errors.key}-n{size}")
    at_once = max(1, BLOCK // size)
    counts = [min(at_once, errors.trials - first) for first in range(0, errors.trials, at_once)]
    return np.concatenate([estimation_errors(theta, hessian_root, size, count, noise) for count in counts])


def sizes_up_to(largest: int, decades: float) -> tuple[int, ...]:
    """Two sizes to a decade."""
    return tuple(round(largest * 10 ** (-step / 2)) for step in range(round(2 * decades), -1, -1))


def pieces(scale: Scale, seed: int) -> list[Piece]:
    """A slope for each d and condition, and one error for each d."""
    shrink, trials = {"full": (1, 40), "quick": (30, 24), "tiny": (300, 4)}[scale]
    conditions = CONDITIONS if scale != "tiny" else (1.0, 10.0)
    slopes = [
        Errors(d, condition, sizes_up_to(largest // shrink, DECADES if scale == "full" else 2.0), trials, seed)
        for d, largest in LARGEST.items()
        for condition in conditions
    ]
    dimensions = DIMENSIONS if scale != "tiny" else DIMENSIONS[:4]
    scan = [
        Errors(d, 1.0, (SIZE_OF_DIMENSIONS // min(shrink, 10),), trials * (3 if d <= 10 else 1), seed)
        for d in dimensions
    ]
    return [Piece(f"slope-{work.key}", compute, work, work.cost) for work in slopes] + [
        Piece(f"dimension-{work.key}", compute, work, work.cost) for work in scan
    ]


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
    def slope(self) -> Slope:
        """Over the upper half of the sizes."""
        half = len(self.sizes) // 2
        return log_log_slope([int(size) for size in self.sizes[half:]], self.errors[half:])


def lines(data: Data) -> list[Line]:
    """All slopes, by d and condition."""
    found: list[Line] = []
    for key, arrays in data.items():
        kind, d, condition = key.split("-")
        if kind == "slope":
            found.append(Line(int(d[1:]), float(condition[4:]), arrays["sizes"], arrays["errors"]))
    return sorted(found, key=lambda line: (line.d, line.condition))


@dataclass(frozen=True, slots=True)
class Dimension:
    """The error at Cond(CA) = 1 in one dimension, times √n."""

    d: int
    scaled: float  # root mean square
    spread: float  # its standard error
    predicted: float


def dimensions(data: Data) -> list[Dimension]:
    """The errors against d."""
    found: list[Dimension] = []
    for key, arrays in data.items():
        kind, d, _ = key.split("-")
        if kind == "dimension":
            n, squares = int(arrays["sizes"][0]), np.square(arrays["errors"][0])
            scaled = sqrt(n * mean(squares))
            spread = 0.5 * scaled * standard_error(squares) / mean(squares)
            found.append(Dimension(int(d[1:]), scaled, spread, relative_error(int(d[1:]), 1)))
    return sorted(found, key=lambda one: one.d)


def findings(data: Data) -> list[str]:
    """Slopes beside the predicted exponent, errors beside the formula."""
    head = (
        "log-log slope of the error against n, with its 95 % band\n  d  Cond(CA)  n from … to        slope         "
        "           predicted"
    )
    rows = [_slope_row(line) for line in lines(data)]
    scan = ["", "error·√n at Cond(CA) = 1: measured ± standard error, and √((d² + 14d + 18 + 20/d)/2)"]
    return [
        head,
        *rows,
        *scan,
        *(f"{one.d:3d}  {one.scaled:7.2f} ± {one.spread:.2f}   {one.predicted:7.2f}" for one in dimensions(data)),
    ]


def _slope_row(line: Line) -> str:
    slope, sizes = line.slope, line.sizes[len(line.sizes) // 2 :]
    band = f"{slope.value:6.3f} [{slope.low:6.3f}, {slope.high:6.3f}]"
    return (
        f"{line.d:3d} {line.condition:8g}  {sizes[0]:8d} … {sizes[-1]:8d}  {band}   "
        f"{consistency_exponent(line.condition):6.3f}"
    )


STUDY = Study("consistency", "How fast does the estimated natural gradient approach the exact one?", pieces, findings)
