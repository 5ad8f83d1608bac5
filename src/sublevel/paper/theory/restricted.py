"""Rates of the restricted families: the paragraph and the footnote after thm:rate.

C = vI. The whitened matrix is Z = c·vA, and the rates divide by its σ₁ = c·v·a_max. So m ← (I − αA/a_max)m, whose modes
shrink by 1 − αaᵢ/a_max, and v, which keeps tr(Z)/d, by 1 − αā/a_max, ā = tr(A)/d. All lie in [1 − α, 1 − α/Cond(A)], as
the paper says.

C diagonal. Let D = diag(A), Ã = D^{-1/2}AD^{-1/2}, U = CD. The diagonal of Z is c·uᵢ and σ₁(Z) = c·λ₁(√UÃ√U), hence
uᵢ ← uᵢ(1 − αuᵢ/λ₁(√UÃ√U)): eq:diag-up with η_C·u_max between α/λ₁(Ã) and α. The proof of thm:cond goes through word for
word for U in place of √AC√A, with γ = α/λ₁(Ã): Cond(CD) → 1. At the limit C = uD⁻¹, in the coordinates D^{1/2}x, this
*is* the isotropic case on Ã: the modes of m shrink by 1 − αλᵢ(Ã)/λ₁(Ã), and C by 1 − α/λ₁(Ã) since tr(Ã)/d = 1; all lie
in [1 − α, 1 − α/Cond(Ã)].

The footnote prints [σ_d(I − α·Cond(Ã)), σ₁(I − α·Cond(Ã))]. Cond(Ã) is a number, so this would be the one point |1 −
α·Cond(Ã)|, above 1 whenever Cond(Ã) > 2/α. Two readings make sense. Dividing by σ₁ of all of Z, as the paragraph on C =
vI must, the matrix is I − αÃ/λ₁(Ã), with the interval above. Dividing by λ₁ of the *projected* matrix, which is what
λ₁(C⁻¹δC) is if δC is the gradient in the restricted family, it is I − αÃ, and [σ_d(I − αÃ), σ₁(I − αÃ)] is the footnote
without "Cond". But then C = vI would have the modes 1 − αaᵢ/ā, of which the smallest is below 1 − α, against the
paragraph; and as λ₁(Ã) may be as large as d, αλ₁(Ã) > 2 makes m diverge. Only the first reading agrees with the
paragraph and always converges: it is the engine's. The tests compare it with the second one.
"""

from __future__ import annotations

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.paper.theory.quadratic import hessian_spectrum, normalised_root

GaussianFamily = type[FullGaussian] | type[DiagonalGaussian] | type[IsotropicGaussian]


def effective_root(family: GaussianFamily, hessian_root: Array) -> Array:
    """The root of A in coordinates in which the limit of C is ∝ I: of I (full), Ã (diagonal), A (isotropic)."""
    if family is FullGaussian:
        return np.eye(hessian_root.shape[-1])
    if family is DiagonalGaussian:
        return normalised_root(hessian_root)
    if family is IsotropicGaussian:
        return hessian_root
    raise ValueError(f"`family` must be a Gaussian family, got {family!r}.")


def mode_rates(family: GaussianFamily, hessian_root: Array, alpha: float) -> Array:
    """1 − αaᵢ/a_max (d,), rising: the limit rate of each mode of the mean, a the spectrum of the effective Hessian."""
    spectrum = hessian_spectrum(effective_root(family, hessian_root))
    return 1.0 - alpha * spectrum / spectrum[0]


def variance_rate(family: GaussianFamily, hessian_root: Array, alpha: float) -> float:
    """1 − αā/a_max, the limit rate of C: 1 − α (full), 1 − α/λ₁(Ã) (diagonal), 1 − αā/a_max (isotropic)."""
    spectrum = hessian_spectrum(effective_root(family, hessian_root))
    return float(1.0 - alpha * np.mean(spectrum) / spectrum[0])


def rate_interval(family: GaussianFamily, hessian_root: Array, alpha: float) -> tuple[float, float]:
    """[1 − α, 1 − α/Cond], which contains these rates, Cond of the effective Hessian; the upper end is that of ‖m‖."""
    rates = mode_rates(family, hessian_root, alpha)
    return float(rates[0]), float(rates[-1])


def expected_objective_rate(family: GaussianFamily, hessian_root: Array, *, alpha: float, alpha_mean: float) -> float:
    """The limit rate of mᵀAm + Tr(CA): the slower of the slowest mode squared and C."""
    slowest = mode_rates(family, hessian_root, alpha_mean)[-1]
    return float(max(np.square(slowest), variance_rate(family, hessian_root, alpha)))


def diagonal_gamma(hessian_root: Array, alpha: float) -> float:
    """γ = α/λ₁(Ã) in [α/d, α]: thm:cond holds with it for Cond(C·diag(A)) under a diagonal C."""
    return float(alpha / hessian_spectrum(normalised_root(hessian_root))[0])
