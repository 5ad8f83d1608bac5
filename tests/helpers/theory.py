"""The deterministic algorithm for any family and rule, and the other reading of the rates of restricted families."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms import Generation, NoMemory, Transform
from sublevel.paper.theory.curves import Curves
from sublevel.paper.theory.exact import deterministic_ngd
from sublevel.paper.theory.measure import condition_number, expected_objective
from sublevel.paper.theory.quadratic import hessian_spectrum
from sublevel.paper.theory.restricted import GaussianFamily, effective_root


def exact_curves(
    theta: Family, hessian_root: Array, rates: Transform, steps: int, optimum: Array | float = 0.0
) -> Curves:
    """The deterministic algorithm from θ for any family and rule; shorter if a step leaves the family."""
    path = islice(deterministic_ngd(theta, hessian_root, rates, optimum), steps + 1)
    rows = [(condition_number(at, hessian_root), expected_objective(at, hessian_root, optimum)) for at in path]
    return Curves(np.array([row[0] for row in rows]), np.array([row[1] for row in rows]))


@dataclass(frozen=True, slots=True)
class ProjectedRates(Transform):
    """Rates as of PseudoRates, with λ₁ of what the family keeps of C⁻¹δC: its diagonal, or its trace/d.

    The other reading of the paper's rule for restricted families; theory/restricted.py says what it would cost.
    """

    mean: float
    cov: float

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent at these rates."""
        norm = projected_norm(tangent, generation.theta)
        return tangent.scale(mean=self.mean / norm, cov=self.cov / norm), memory


def projected_norm(tangent: Tangent, theta: Family) -> Array:
    """The largest |eigenvalue| (...,) of the covariance part as θ's family keeps it."""
    if theta.degrees_of_freedom == 1:
        return np.abs(tangent.rate * np.mean(tangent.cloud.diagonal, axis=-1))
    if theta.degrees_of_freedom == theta.dimension:
        return np.max(np.abs(tangent.cloud.diagonal), axis=-1) * tangent.rate
    return tangent.spectral_norm


def projected_mode_rates(family: GaussianFamily, hessian_root: Array, alpha: float) -> Array:
    """1 − αaᵢ/ā (d,), rising: the modes after division by the projected λ₁; of I − αÃ for a diagonal C."""
    spectrum = hessian_spectrum(effective_root(family, hessian_root))
    return 1.0 - alpha * spectrum / np.mean(spectrum)
