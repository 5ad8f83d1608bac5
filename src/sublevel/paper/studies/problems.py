"""Functions that might tell two methods apart, with where a run begins and what counts as success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array

BUDGET = 150_000
"""Evaluations after which a trial is given up."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A function, the start N(start·1, spread²·I), and the value that is success, once a point of a sample has it."""

    name: str
    values: Callable[[Array], Array]  # (..., d) ↦ (...,)
    start: float = 1.0
    spread: float = 1.0
    target: float = 1e-10
    noise: float = 0.0  # standard deviation of what is added to each value
    budget: int = BUDGET  # of evaluations
    judged_at_the_end: bool = False  # by the value at the mean when the budget is spent, because of noise


def _axis(x: Array) -> Array:
    """0 … 1 over the coordinates (d,)."""
    return np.linspace(0.0, 1.0, x.shape[-1])


def sphere(x: Array) -> Array:
    """‖x‖²."""
    return np.vecdot(x, x)


def ellipsoid(x: Array) -> Array:
    """The paper's f, Cond(A) = 10⁶."""
    return np.square(x) @ 1e6 ** _axis(x)


def discus(x: Array) -> Array:
    """One steep axis."""
    return sphere(x) + (1e6 - 1) * np.square(x[..., 0])


def cigar(x: Array) -> Array:
    """One flat axis."""
    return 1e6 * sphere(x) - (1e6 - 1) * np.square(x[..., 0])


def different_powers(x: Array) -> Array:
    """Σ|xᵢ|^(2 … 6): unimodal, and no ellipsoid at any scale."""
    return np.sum(np.abs(x) ** (2 + 4 * _axis(x)), axis=-1)


def rosenbrock(x: Array) -> Array:
    """A bent valley."""
    ahead, behind = x[..., 1:], x[..., :-1]
    return np.sum(100 * np.square(ahead - np.square(behind)) + np.square(1 - behind), axis=-1)


def slope(x: Array) -> Array:
    """−x₁: every sublevel set has infinite volume."""
    return -x[..., 0]


def sharp_ridge(x: Array) -> Array:
    """−x₁ + 100·‖(x₂, …)‖."""
    return -x[..., 0] + 100 * np.linalg.norm(x[..., 1:], axis=-1)


def parabolic_ridge(x: Array) -> Array:
    """−x₁ + 100·‖(x₂, …)‖²."""
    return -x[..., 0] + 100 * sphere(x[..., 1:])


def two_funnels(x: Array) -> Array:
    """The narrow funnel at (2.5, …) is the deeper one, the wide one at (−2.5, …) ends d/2 higher."""
    return np.minimum(sphere(x - 2.5), 0.5 * x.shape[-1] + 0.9 * sphere(x + 2.5))


def rastrigin(x: Array) -> Array:
    """‖x‖² with waves of height 2·3 on every axis (Rastrigin's are 2·10)."""
    return sphere(x) + 3 * np.sum(1 - np.cos(2 * np.pi * x), axis=-1)


def steps(x: Array) -> Array:
    """‖x‖² rounded coordinate by coordinate to whole numbers: plateaus everywhere, the lowest |xᵢ| < 1/2."""
    return sphere(np.floor(np.abs(x) + 0.5))


def terraces(x: Array) -> Array:
    """⌊log₂ ‖x‖²⌋: plateaus at every scale, between which f is the sphere's."""
    return np.floor(np.log2(np.maximum(sphere(x), 1e-300)))


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("sphere", sphere),
        Problem("ellipsoid", ellipsoid),
        Problem("discus", discus),
        Problem("cigar", cigar),
        Problem("different powers", different_powers),
        Problem("slope", slope, start=0.0, target=-1e6),
        Problem("sharp ridge", sharp_ridge, start=0.0, target=-1e6),
        Problem("parabolic ridge", parabolic_ridge, start=0.0, target=-1e3),
        Problem("sphere from afar", sphere, spread=1e-2),
        Problem("Rosenbrock", rosenbrock, start=0.0, spread=0.1),
        Problem("two funnels", two_funnels, start=0.0, spread=2.0),
        Problem("Rastrigin-like", rastrigin, start=3.0, spread=2.0),
        Problem("noisy sphere", sphere, noise=1.0, target=0.5, budget=30_000, judged_at_the_end=True),
        Problem("steps", steps, start=3.0, spread=2.0, target=0.0),
        Problem("terraces", terraces, target=-34.0),
    )
}
