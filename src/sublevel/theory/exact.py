"""The deterministic algorithm: exact natural gradients on g(xᵀHx), fed to the same rates and the same `moved`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sublevel.arrays import Array
from sublevel.families import Family
from sublevel.method import Method, State
from sublevel.tangent import Cloud, Tangent
from sublevel.transforms import Transform
from sublevel.weights import Volume


def exact_natural_gradient(theta: Family, hessian_root: Array, optimum: Array | float = 0.0) -> Tangent:
    """The descent direction −(CHm, CHC) at θ in its whitened frame, up to a positive factor, prop:ng.

    H = LᵀL with `hessian_root` L (..., k, d). V ∝ (x − x*)ᵀH(x − x*) for every increasing g, so g does not enter.
    """
    vectors = theta.pull(hessian_root)  # rows of LA: AᵀHA = Σ vᵢvᵢᵀ
    size = np.max(np.abs(vectors), axis=(-2, -1), keepdims=True)
    gradient = np.matvec(hessian_root, theta.mean - optimum)  # Hm = Lᵀ(Lm)
    mean = np.vecmat(gradient, vectors / size) / size[..., 0]
    weights = np.full(vectors.shape[:-1], -1.0)
    return Tangent(mean=-mean, cloud=Cloud(vectors / size, weights, np.zeros(vectors.shape[:-2])[()]))


def deterministic_ngd(theta: Family, hessian_root: Array, rates: Transform, optimum: Array | float = 0.0) -> Iterator[Family]:
    """θ⁰, θ¹, ... of eq:m-quad and eq:c-quad at the given rates; ends where a step would leave the family."""
    method = Method("deterministic ngd", Volume(), (rates,))
    state, taken = State(theta, (rates.init(theta, 0),)), np.True_
    while np.all(taken):
        yield state.theta
        state, taken = method.advanced(state, exact_natural_gradient(state.theta, hessian_root, optimum))
