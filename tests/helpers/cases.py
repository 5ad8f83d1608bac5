"""The tables that contracts and laws run over. Families, step-size rules and orderings of constrained points are read
from their registries; add other parts here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from sublevel.engine.families import FAMILIES as CONTINUOUS
from sublevel.engine.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.engine.method import Method
from sublevel.engine.ordering import ORDERINGS as CONSTRAINED
from sublevel.engine.ordering import Ordering, ranking
from sublevel.engine.recipes import cma, ngd, pbil, rank_mu, shape_only, with_adapted_rates, xnes
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.transforms import STEP_SIZES, SpectralRates
from sublevel.engine.weights import LeaveOneOut, LogLinear, Quantile

GAUSSIANS = list(CONTINUOUS.values())
ANALYSED = [FullGaussian, DiagonalGaussian, IsotropicGaussian]
"""Families that the theory makes predictions for."""
FAMILIES = [*GAUSSIANS, Bernoulli]


def member(family, d, rng, batch=()):
    """Some θ of a family, well away from its boundary, and for a Gaussian with a root that is not symmetric."""
    if family is Bernoulli:
        return Bernoulli.start(rng.uniform(0.2, 0.8, (*batch, d)))
    root = np.eye(d) + 0.5 * rng.standard_normal((*batch, d, d)) / np.sqrt(d)
    return family.start(rng.standard_normal((*batch, d)), rng.uniform(0.3, 0.9, (*batch, d)), root)


def trial(theta, index):
    """One trial of a batch, as it would be alone."""
    return type(theta)(*(part[index] for part in parts(theta)))


def parts(theta):
    """The arrays a θ is made of."""
    values = [getattr(theta, field.name) for field in fields(theta)]
    return [part for part in values if isinstance(part, np.ndarray | np.generic)]


def same_bits(one, other):
    """Whether two θ are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


def distance(theta, mean, cov):
    """How far θ's mean and covariance are from others, each relative to the size of the others."""
    return max(
        np.linalg.norm(theta.mean - mean) / np.linalg.norm(mean), np.linalg.norm(theta.cov - cov) / np.linalg.norm(cov)
    )


@dataclass(frozen=True)
class Case:
    """A method in d dimensions with n points, and where it starts."""

    method: Method
    d: int
    n: int

    def __str__(self):
        family = self.method.family.__name__.removesuffix("Gaussian").lower()
        return f"{self.method.name}-{family}-d{self.d}-n{self.n}"

    def start(self, *, shift=0.0, factor=1.0, batch=()):
        """θ⁰, moved by `shift` and then stretched by `factor`."""
        rng = np.random.default_rng(self.d)
        if self.method.family is Bernoulli:
            return Bernoulli.start(rng.uniform(0.3, 0.7, (*batch, self.d)))
        root = np.eye(self.d) + 0.5 * rng.standard_normal((self.d, self.d)) / np.sqrt(self.d)
        mean, deviations = rng.standard_normal((*batch, self.d)), rng.uniform(0.5, 1.5, (*batch, self.d))
        return self.method.family.start(factor * (mean + shift), factor * deviations, root)

    def with_parts(self, *, weights=None, transforms=None):
        """The case with other weights or transforms: how negative controls are made."""
        method = self.method
        method = Method(
            method.name, weights or method.weights, transforms or method.transforms, method.popsize, method.family
        )
        return Case(method, self.d, self.n)


def lra_cma(**parts):
    """The default method with adapted rates: a transform with memory after another."""
    return with_adapted_rates(cma(**parts))


def lra_xnes(**parts):
    """An exponential method with adapted rates."""
    return with_adapted_rates(xnes(**parts))


def late_lra_cma(**parts):
    """The default method for noisy objectives."""
    return with_adapted_rates(cma(**parts), onset=100.0)


@dataclass(frozen=True)
class ByPosition(Ordering):
    """The ordering by value, found by comparing other numbers: the positions of the sorted values."""

    def __call__(self, values, constraints, memory, /):
        positions = np.arange(values.shape[-1], dtype=np.float64)
        return ranking(ranking(values).assign_by_rank(positions, average_ties=False)), memory


# Fewer points than dimensions, more of them, and the range where the engine goes through k×k matrices (d > 64).
SIZES = [(5, 4), (5, 12), (70, 8)]
RECIPES = [ngd, rank_mu, cma, xnes, lra_cma, lra_xnes, late_lra_cma]
# Parts that no recipe uses by default: add yours.
WEIGHTS = [Quantile(LogLinear()), LeaveOneOut()]
ORDERINGS = [ByPosition(), *(ordering() for ordering in CONSTRAINED.values())]
WEIGHTED = [
    *(Method(type(rule).__name__.lower(), rule, (SpectralRates(),)) for rule in WEIGHTS),
    *(replace(cma(), name=f"cma-{type(rule).__name__.lower()}", weights=rule) for rule in WEIGHTS if rule.normalized),
]
"""A method with each weight rule, and CMA-ES with each one whose weights are normalized."""
ORDERED = [replace(cma(), name=f"cma-{type(rule).__name__.lower()}", ordering=rule) for rule in ORDERINGS]
OTHER_STEP_SIZES = [rule for rule in STEP_SIZES if rule != "csa"]
OTHER_SAMPLINGS = [name for name in SAMPLINGS if name != "independent"]
PARTS = [
    *WEIGHTED,
    *ORDERED,
    *(recipe(sampling="mirrored-orthogonal") for recipe in (cma, ngd, lra_cma)),
    replace(ngd(c_mean=0.05), name="slow-mean-ngd"),
    *(cma(step_size=rule) for rule in OTHER_STEP_SIZES),
]
SHAPES = [Case(shape_only(span=5.0, constant_from=10), d, n) for d, n in SIZES]
SEARCHES = [
    *(Case(recipe(family=family), d, n) for recipe in RECIPES for family in GAUSSIANS for d, n in SIZES),
    *SHAPES,
]
SEARCHES += [Case(method, d, n) for method in PARTS for d, n in SIZES]
BITS = [Case(pbil(), 12, 20)]
METHODS = [*SEARCHES, *BITS]


def of_family(*families):
    """The searches on these families."""
    return [case for case in SEARCHES if case.method.family in families]


def ellipsoid(x):
    """A convex quadratic with values (..., n) of about 1 near the start."""
    slopes = np.arange(1.0, x.shape[-1] + 1)
    return np.square(x) @ (slopes / slopes.sum())


def terraces(x):
    """The ellipsoid on a grid of values ≥ 0 (..., n): differences survive any g, and some of them are 0."""
    return np.floor(64 * ellipsoid(x)) / 64


def path(case: Case, theta, fun: Callable, noise, iterations=30):
    """θ⁰, θ¹, ..., as the method goes on `fun` from θ⁰."""
    state = case.method.init(theta, case.n)
    thetas = [theta]
    for _ in range(iterations):
        sample = case.method.ask(state, noise, case.n)
        state, _ = case.method.tell(state, sample, fun(sample.x))
        thetas.append(state.theta)
    return thetas
