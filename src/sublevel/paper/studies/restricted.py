"""Full, diagonal and isotropic covariance on rotated ellipsoids: rate measured against rate predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import exp

import numpy as np
from scipy.optimize import brentq

from sublevel.engine.arrays import Array
from sublevel.engine.families import DiagonalGaussian, Family, FullGaussian, IsotropicGaussian
from sublevel.engine.recipes import ngd
from sublevel.paper.cache import Arrays
from sublevel.paper.streams import generator, streams
from sublevel.paper.studies.statistics import mean, standard_error
from sublevel.paper.studies.study import Data, Scale, Study
from sublevel.paper.theory.exact import PseudoRates, deterministic_ngd
from sublevel.paper.theory.measure import log_covariance_norm, log_expected_objective, log_mean_distance
from sublevel.paper.theory.quadratic import random_hessian_root
from sublevel.paper.theory.restricted import GaussianFamily, expected_objective_rate, mode_rates, variance_rate

FAMILIES: dict[str, GaussianFamily] = {
    "full": FullGaussian,
    "diagonal": DiagonalGaussian,
    "isotropic": IsotropicGaussian,
}


@dataclass(frozen=True, slots=True)
class Design:
    """What is measured at one scale."""

    conditions: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4)
    steps: tuple[tuple[int, int], ...] = ((100, 1500), (1000, 800), (10_000, 300))  # n and its iterations
    trials: int = 4  # of each rotation
    points: int = 4_000_000  # of the single steps
    dimension: int = 5
    alpha: float = 0.1  # α = c_C/2; that of the mean is 1
    rotations: int = 4
    offset: float = 0.5  # distance of the mean in the single steps
    every: int = 10  # iterations between two points of a curve
    left_behind: float = 30.0  # ‖m‖/σ from which the mean does not reach the optimum any more


FULL = Design()
DESIGNS: dict[Scale, Design] = {
    "full": FULL,
    "quick": replace(
        FULL, conditions=FULL.conditions[:-1:2], steps=((100, 600), (1000, 200)), trials=2, points=200_000
    ),
    "tiny": replace(FULL, conditions=(1.0, 10.0), steps=((100, 60),), trials=1, points=200_000),
}
DIMENSION, ALPHA = FULL.dimension, FULL.alpha


@dataclass(frozen=True, slots=True)
class Descent:
    """Runs of one family on some random rotations of one ellipsoid; n = 0 is the exact algorithm."""

    family: str
    condition: float
    n: int
    rotations: int
    trials: int  # of each rotation
    steps: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.family}-cond{self.condition:g}-n{self.n}"

    @property
    def cost(self) -> float:
        return self.steps * (1.5e-4 + self.runs * (1e-5 + 2.2e-7 * self.n))

    @property
    def hessian_roots(self) -> Array:
        """L (rotations, d, d), the same for all families."""
        rng = generator(self.seed, f"rotations-{self.condition:g}")
        return np.array([random_hessian_root(rng, DIMENSION, self.condition) for _ in range(self.rotations)])

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.rotations * self.trials

    def compute(self) -> Arrays:
        """Logarithms of E f, ‖m‖² and ‖C‖ along the runs (runs, times), and the predicted rates (rotations,)."""
        each = np.repeat(self.hessian_roots, self.trials, axis=0)
        rows = [_record_state(theta, each) for t, theta in enumerate(path(self, each)) if t % FULL.every == 0]
        predicted = [_predicted(FAMILIES[self.family], root) for root in self.hessian_roots]
        curves = {name: np.stack([row[name] for row in rows], axis=-1) for name in rows[0]}
        return {**curves, **{f"predicted_{name}": np.array([one[name] for one in predicted]) for name in predicted[0]}}


def path(descent: Descent, each: Array) -> Iterator[Family]:
    """θ⁰, θ¹, … (runs,) from N(1, I) on the Hessians of roots (runs, d, d): exact, or each run with its own stream."""
    family = FAMILIES[descent.family]
    theta = family.start(np.ones((descent.runs, DIMENSION)), np.ones((descent.runs, DIMENSION)))
    if descent.n == 0:
        yield from islice(deterministic_ngd(theta, each, PseudoRates(mean=1.0, cov=ALPHA)), descent.steps + 1)
        return
    method, noise = ngd(c_cov=2 * ALPHA, family=family), streams(descent.seed, descent.key, 0, descent.runs)
    state = method.init(theta, descent.n)
    yield theta
    for _ in range(descent.steps):
        sample = method.ask(state, noise, descent.n)
        state, _ = method.tell(state, sample, np.sum(np.square(sample.x @ each.mT), axis=-1))
        yield state.theta


def _record_state(theta: Family, roots: Array) -> dict[str, Array]:
    return {
        "objective": log_expected_objective(theta, roots),
        "mean": 2 * log_mean_distance(theta),
        "covariance": log_covariance_norm(theta),
    }


def _predicted(family: GaussianFamily, root: Array) -> dict[str, float]:
    """Rates of E f, ‖m‖² and ‖C‖."""
    return {
        "objective": expected_objective_rate(family, root, alpha=ALPHA, alpha_mean=1.0),
        "mean": float(np.square(mode_rates(family, root, 1.0)[-1])),
        "covariance": variance_rate(family, root, ALPHA),
    }


def works(scale: Scale, seed: int) -> list[Descent | Flattening]:
    """Every family, condition and sample size."""
    design, made = DESIGNS[scale], list[Descent | Flattening]()
    for family in FAMILIES:
        for condition in design.conditions:
            made.append(Descent(family, condition, 0, design.rotations, 1, exact_steps(family, condition), seed))
            for n, steps in design.steps:
                if n < 10_000 or condition <= 100:  # beyond, its iterations are too few for the limit
                    trials = design.trials if n < 10_000 else 1
                    made.append(Descent(family, condition, n, design.rotations, trials, steps, seed))
    mild = [condition for condition in design.conditions if condition <= 1000]
    return [*made, *(Flattening(condition, n, design.points, seed) for condition in mild for n, _ in design.steps)]


def exact_steps(family: str, condition: float) -> int:
    """Iterations after which the rate of the exact algorithm is close to its limit."""
    return 600 if family == "full" else int(600 + min(40 * condition, 4000 + 3 * condition))


@dataclass(frozen=True, slots=True)
class Flattening:
    """Single steps from N(m, I) with an isotropic C, m half a deviation away along the flattest axis."""

    condition: float
    n: int
    points: int  # in all samples together
    seed: int

    @property
    def key(self) -> str:
        return f"probe-cond{self.condition:g}-n{self.n}"

    @property
    def cost(self) -> float:
        return self.points * 3e-7

    def compute(self) -> Arrays:
        """The part of m that a step removes (pairs,), 1/Cond(A) by theory, and the part of C, αā/a_max."""
        pairs, hessian = self.points // self.n // 2, np.geomspace(1.0, self.condition, DIMENSION)
        start = np.zeros((2, pairs, DIMENSION))
        start[..., 0] = FULL.offset
        method = ngd(c_cov=2 * ALPHA, family=IsotropicGaussian)
        state = method.init(IsotropicGaussian.start(start, np.ones(start.shape)), self.n)
        z = streams(self.seed, self.key, 0, pairs).standard_normal((pairs, self.n, DIMENSION))
        sample = state.theta.sample_at(np.stack([z, -z]))  # most of the noise in the step of the mean is odd in z
        state, _ = method.tell(state, sample, np.square(sample.x) @ hessian)
        removed = 1 - np.mean(state.theta.mean[..., 0], axis=0) / FULL.offset
        shrinkage = 1 - np.mean(np.square(state.theta.deviations[..., 0]), axis=0)
        exact = np.array([1 / self.condition, ALPHA * np.mean(hessian) / self.condition])
        return {"mean": removed, "covariance": shrinkage, "exact": exact}


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a family converges on ellipsoids of one condition."""

    family: str
    condition: float
    n: int
    measured: Array  # (runs,), −log of the factor by which E f is multiplied in an iteration, over the last third
    predicted: Array  # (rotations,), by theory
    distance: Array  # (runs,), at the end: ‖m‖ in units of the root mean variance of C
    covariance: Array  # (runs,), −log of the factor of ‖C‖
    predicted_covariance: Array  # (rotations,)
    predicted_mean: Array  # (rotations,), of ‖m‖²

    @property
    def is_left_behind(self) -> bool:
        """Whether C has become too small for the mean to reach the optimum: more than 30 deviations in most runs."""
        return bool(np.median(self.distance) > FULL.left_behind)


def critical_condition() -> float:
    """Cond(A) from which on the exact algorithm with an isotropic C shrinks C faster than the slowest mode of m²."""

    def lead(log_condition: float) -> float:
        root = np.diag(np.geomspace(1.0, exp(0.5 * log_condition), DIMENSION))
        rates = _predicted(IsotropicGaussian, root)
        return rates["mean"] - rates["covariance"]

    return exp(float(brentq(lead, 1.0, 10.0)))


def speeds(data: Data) -> list[Speed]:
    """The speeds of all families, conditions and sample sizes."""
    return [_speed(work, arrays) for work, arrays in data.items() if isinstance(work, Descent)]


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """What single steps remove of m along the flattest axis and of C, in units of what the exact gradient would."""

    condition: float
    n: int
    mean: float
    error: float  # standard error of `mean`
    covariance: float


def shrinkages(data: Data) -> list[Shrinkage]:
    """What single steps remove, for all conditions and sample sizes."""
    found: list[Shrinkage] = []
    for work, arrays in data.items():
        if isinstance(work, Flattening):
            removed, exact = arrays["mean"], arrays["exact"].tolist()
            parts = mean(removed) / exact[0], standard_error(removed) / exact[0], mean(arrays["covariance"]) / exact[1]
            found.append(Shrinkage(work.condition, work.n, *parts))
    return found


def _speed(work: Descent, arrays: Arrays) -> Speed:
    return Speed(
        family=work.family,
        condition=work.condition,
        n=work.n,
        measured=_slope(arrays["objective"]),
        predicted=-np.log(arrays["predicted_objective"]),
        distance=np.exp(0.5 * (arrays["mean"][:, -1] - arrays["covariance"][:, -1])),
        covariance=_slope(arrays["covariance"]),
        predicted_covariance=-np.log(arrays["predicted_covariance"]),
        predicted_mean=-np.log(np.maximum(arrays["predicted_mean"], 1e-300)),
    )


def _slope(curve: Array) -> Array:
    """Fall of a curve (runs, times) by iteration over its last third (runs,)."""
    first = curve.shape[-1] * 2 // 3
    return (curve[:, first] - curve[:, -1]) / (FULL.every * (curve.shape[-1] - 1 - first))


def findings(data: Data) -> list[str]:
    """Speeds measured and predicted."""
    head = "speed = −log(factor of E f in an iteration), mean over runs [least, most]; C: the same of ‖C‖; "
    text = [head + "‖m‖/σ at the end, median"]
    for speed in sorted(speeds(data), key=lambda one: (one.n, list(FAMILIES).index(one.family), one.condition)):
        name = "exact" if speed.n == 0 else f"n = {speed.n}"
        end = f"{np.median(speed.distance):.3g}{'  left behind' if speed.n and speed.is_left_behind else ''}"
        text.append(
            f"{name:9s} {speed.family:9s} Cond {speed.condition:6g}  speed {_range(speed.measured)}  theory "
            f"{_range(speed.predicted)}  C {np.mean(speed.covariance):.4f} theory "
            f"{np.mean(speed.predicted_covariance):.4f}  ‖m‖/σ {end}"
        )
    head = "single steps, isotropic C: what they remove of m along the flattest axis and of C, over what the exact"
    text += ["", f"{head} gradient removes"]
    text += [
        f"n = {one.n:5d}  Cond {one.condition:6g}  m {one.mean:.3f} ± {one.error:.3f}  C {one.covariance:.3f}"
        for one in shrinkages(data)
    ]
    worst = max(float(np.max(np.abs(one.measured / one.predicted - 1))) for one in speeds(data) if one.n == 0)
    text.append(
        f"isotropic C: in the exact algorithm m² falls more slowly than C from Cond(A) = {critical_condition():.0f} on"
    )
    return [
        *text,
        f"exact algorithm: the measured speed is within {worst:.1g} of the predicted one (relative error)",
    ]


def _range(values: Array) -> str:
    return f"{np.mean(values):.3g} [{np.min(values):.3g}, {np.max(values):.3g}]"


STUDY = Study("restricted", works, findings)
