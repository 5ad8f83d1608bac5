"""The paper's algorithms as printed, in plain loops: eig(C), B√D Bᵀ, sums over i and over {j : f(xⱼ) ≤ f(xᵢ)}.

Slow and naive on purpose, and written without a look at the engine. `../shared/paper/notes.md` settles the slips of the
text: step 6 carries the exponent 2/d of eq:mc-nu, eq:intermediate reads Rᵢ ≤ ⌊n/4⌋, and rank-µ goes towards its
weights. A step that would leave C indefinite is not taken, nor is one without a direction (Z = 0, or no weight).
"""

from __future__ import annotations

from math import exp, pi, sqrt

import numpy as np


def square_root(C):
    """Steps 1 and 2: [B, D] = eig(C), √C = B√D Bᵀ; also det(D)."""
    D, B = np.linalg.eigh(C)
    return B @ np.diag(np.sqrt(D)) @ B.T, float(np.prod(D))


def points(m, C, z):
    """Step 4: xᵢ = m + √C zᵢ."""
    root, _ = square_root(C)
    return np.array([m + root @ z_i for z_i in z])


def no_worse(values, i):
    """Which j are in {j : f(xⱼ) ≤ f(xᵢ)}."""
    return values <= values[i]


def sooner_in_line(values, i):
    """A wrong tie rule, for a negative control: of equal points the earlier one counts as better."""
    return (values < values[i]) | ((values == values[i]) & (np.arange(len(values)) <= i))


def volumes(C, z, values, exponent, sublevel):
    """Step 6 with eq:mc-nu: V̂(xᵢ) = ((2π)^(d/2) det(D)^(1/2) / n · Σ exp(‖zⱼ‖²/2))^(2/d)."""
    n, d = z.shape
    _, determinant = square_root(C)
    inverse_densities = np.array([(2 * pi) ** (d / 2) * sqrt(determinant) * exp(z_j @ z_j / 2) for z_j in z])
    return [(inverse_densities[sublevel(values, i)].sum() / n) ** exponent for i in range(n)]


def estimates(m, C, z, weights):
    """Step 9, eq:ng-est: δm = Σ wᵢ(xᵢ − m) and δC = Σ wᵢ((xᵢ − m)(xᵢ − m)ᵀ − C)."""
    delta_m, delta_C = np.zeros_like(m), np.zeros_like(C)
    for x_i, w_i in zip(points(m, C, z), weights, strict=True):
        delta_m = delta_m + w_i * (x_i - m)
        delta_C = delta_C + w_i * (np.outer(x_i - m, x_i - m) - C)
    return delta_m, delta_C


def largest_singular_value(Z):
    """σ₁(Z)."""
    return np.linalg.svd(Z, compute_uv=False)[0]


def largest_eigenvalue(Z):
    """λ₁(Z), for a negative control."""
    return np.linalg.eigvalsh(Z)[-1]


def updated(m, C, step_m, step_C):
    """Step 11, if it keeps C positive definite; else no step."""
    if np.linalg.eigvalsh(C + step_C)[0] <= 0:
        return m, C
    return m + step_m, C + (step_C + step_C.T) / 2


def ngd_step(m, C, z, values, *, c_cov=0.1, exponent=None, size=largest_singular_value, sublevel=no_worse):
    """One iteration of the stochastic NGD, steps 6 to 11, with η_m = 1/σ₁(Z) and η_C = c_C/(2σ₁(Z))."""
    n, d = z.shape
    if len(set(values)) == 1:
        return m, C
    V = volumes(C, z, values, 2 / d if exponent is None else exponent, sublevel)
    b = sum(V) / n
    w = [(V_i - b) / n for V_i in V]
    delta_m, delta_C = estimates(m, C, z, w)
    inverse_root = np.linalg.inv(square_root(C)[0])
    Z = inverse_root @ delta_C @ inverse_root  # eq:learning
    return updated(m, C, -delta_m / size(Z), -c_cov / (2 * size(Z)) * delta_C)


def rank_mu_step(m, C, z, values, *, sublevel=no_worse):
    """One iteration of the pure rank-µ CMA-ES: eq:intermediate, η_m = 1 and η_C = (2µ_w − 1)/((d + 2)² + µ_w), µ_w =
    µ.
    """
    n, d = z.shape
    mu = n // 4
    w = [1 / mu if sublevel(values, i).sum() <= mu else 0.0 for i in range(n)]
    if not any(w):
        return m, C
    toward_m, toward_C = estimates(m, C, z, w)
    return updated(m, C, toward_m, min(1.0, (2 * mu - 1) / ((d + 2) ** 2 + mu)) * toward_C)
