"""The deterministic algorithm: exact natural gradients on g(xᵀAx), fed to the same rates and the same `move`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family, GaussianSample
from sublevel.engine.linalg import combination, image
from sublevel.engine.method import Method
from sublevel.engine.ordering import Ranking
from sublevel.engine.tangent import Cloud, Tangent, Weighting
from sublevel.engine.transforms import Generation, NoMemory, Transform
from sublevel.engine.weights import Volume
from sublevel.paper.theory.measure import whitened_root


def exact_natural_gradient(
    theta: Family, hessian_root: Array, optimum: Array | float = 0.0, constant: float | None = None
) -> Tangent:
    """The descent direction −c(CAm, CAC) at θ in its whitened frame, prop:ng.

    A = LᵀL with `hessian_root` L (..., k, d). V ∝ (x − x*)ᵀA(x − x*) for every increasing g, so g does not enter. The
    `constant` is c; without it the tangent has a unit of its own, safe at every scale and right for every rule that
    divides by σ₁.
    """
    vectors, unit = whitened_root(theta, hessian_root)  # rows of LR, R the root of C: RᵀAR = Σ vᵢvᵢᵀ
    gradient = image(hessian_root, theta.mean - optimum) / unit[..., None]
    size = np.ones_like(unit)[()] if constant is None else constant * np.square(unit)
    cloud = Cloud(vectors, np.full(vectors.shape[:-1], -1.0), np.zeros(vectors.shape[:-2])[()])
    return Tangent(mean=-combination(gradient, vectors), cloud=cloud).scale(mean=size, cov=size)


def deterministic_ngd(
    theta: Family, hessian_root: Array, rates: Transform, optimum: Array | float = 0.0, constant: float | None = None
) -> Iterator[Family]:
    """θ⁰, θ¹, ... of eq:m-quad and eq:c-quad for any family and rate rule, until a step would leave the family.

    A rule that does not divide by σ₁, such as FixedRates, needs the `constant` c (1 for V = xᵀAx) to mean anything.
    """
    method = Method("deterministic ngd", Volume(), (rates,))
    state, taken = method.init(theta, 0), np.True_
    while np.all(taken):
        yield state.theta
        gradient = exact_natural_gradient(state.theta, hessian_root, optimum, constant)
        state, taken = method.step(state, no_sample(state.theta), gradient)


def no_sample(theta: Family) -> Generation:
    """A generation without points: the gradient is exact."""
    nothing, points = np.empty(0), np.empty((0, theta.dimension))
    ranks = Ranking(np.empty(0, dtype=np.intp), None, np.float64(np.nan))
    return Generation(theta, GaussianSample(points, points), nothing, ranks, Weighting.from_weights(nothing))


@dataclass(frozen=True, slots=True)
class PseudoRates(Transform):
    """η_m = mean/λ₁ and η_C = cov/λ₁ with λ₁ = λ₁(C⁻¹δC) of the full matrix: the paper's α, without limits.

    SpectralRates(c_cov, c_mean) is PseudoRates(mean=c_mean, cov=c_cov/2), but refuses what the theorems do not cover.
    """

    mean: float
    cov: float

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent at these rates."""
        norm = tangent.spectral_norm
        return tangent.scale(mean=self.mean / norm, cov=self.cov / norm), memory
