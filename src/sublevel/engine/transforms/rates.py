"""Learning rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import PerTrial, maximum, total, value_class
from sublevel.engine.constants import hansen_kern_rate, spectral_rate, xnes_rate
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import Memory, NoMemory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform
from sublevel.engine.weights.quantile import Scheme, effective_size, scheme_weights


@value_class
class CovarianceRate(Memory):
    """A learning rate, computed at the start of a run."""

    rate: PerTrial  # (...,)


@value_class
class Age(Memory):
    """The number of iterations of a run."""

    iterations: PerTrial  # (...,)


@dataclass(frozen=True, slots=True)
class SpectralRates(Transform):
    """η_m = c_mean/σ₁(Z) and η_C = c_cov/(2σ₁(Z)): no principal variance changes by more than a factor 1 ± c_cov/2.

    The rates of section 4 of the paper, where c_mean = 1. C stays positive definite by construction.
    """

    c_cov: float | None = None  # depends on d and the family if None
    c_mean: float | None = 1.0  # None: the new mean is that of the positive weights, as step-size rules assume

    def __post_init__(self) -> None:
        if self.c_cov is not None and not 0 < self.c_cov <= 1:
            raise ValueError(
                f"`c_cov` must lie in (0, 1], got {self.c_cov!r}. Smaller is slower and more precise; the paper uses "
                "0.1 to 1."
            )
        if self.c_mean is not None and not 0 < self.c_mean < np.inf:
            raise ValueError(f"`c_mean` must be positive and finite, got {self.c_mean!r}. The paper uses 1.")

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent at these rates; 0 if its covariance part is 0."""
        rate, theta = reciprocal(tangent.spectral_norm), generation.theta
        c_cov = spectral_rate(theta.dimension, theta.degrees_of_freedom) if self.c_cov is None else self.c_cov
        if self.c_mean is None:
            mean = reciprocal(total(np.maximum(generation.weighting.mean, 0.0)))
        else:
            mean = self.c_mean * rate
        return tangent.scale(mean=mean, cov=0.5 * c_cov * rate), memory


@dataclass(frozen=True, slots=True)
class DecreasingRates(Transform):
    """η_m = η_C = c/(2·max(σ₁(Z), ‖mean part‖)) with c = min(1, span/t) up to iteration t = constant_from, and constant
    after it.

    These are spectral rates, except that no step of the mean is longer than c/2 on a slope, where Z may vanish. Large
    early steps make up for a bad start, small later ones average noise (Robbins & Monro, Ann. Math. Stat. 22, 1951).
    Iterations after `constant_from` can be averaged (Polyak & Juditsky, SIAM J. Control Optim. 30, 1992).
    """

    span: float
    constant_from: int

    def __post_init__(self) -> None:
        if not (0 < self.span < np.inf and self.constant_from >= 1):
            raise ValueError(
                f"`span` must be positive and `constant_from` at least 1, got {self.span!r} and {self.constant_from!r}."
            )

    def init(self, theta: Family, sample_size: int) -> Age:
        """No iteration yet."""
        return Age(np.zeros(theta.mean.shape[:-1])[()])

    def __call__(self, tangent: Tangent, memory: Age, generation: Generation, /) -> tuple[Tangent, Age]:
        """The tangent at the rate of this iteration."""
        age = memory.iterations + 1.0
        size = maximum(tangent.spectral_norm, np.sqrt(np.vecdot(tangent.mean, tangent.mean)))
        rate = 0.5 * np.minimum(1.0, self.span / np.minimum(age, self.constant_from)) * reciprocal(size)
        return tangent.scale(mean=rate, cov=rate), Age(age)


@dataclass(frozen=True, slots=True)
class FixedRates(Transform):
    """η_m = mean and η_C = cov."""

    needs_spectrum: ClassVar[bool] = False
    mean: float
    cov: float

    def __post_init__(self) -> None:
        for name, rate in (("mean", self.mean), ("cov", self.cov)):
            if not 0 <= rate < np.inf:
                raise ValueError(f"`{name}` must be a rate ≥ 0, got {rate!r}. Usual values lie in (0, 1].")

    def __call__(self, tangent: Tangent, memory: NoMemory, generation: Generation, /) -> tuple[Tangent, NoMemory]:
        """The tangent at these rates."""
        return tangent.scale(mean=np.float64(self.mean), cov=np.float64(self.cov)), memory


@dataclass(frozen=True, slots=True)
class HansenKernRates(Transform):
    """η_m = 1 and η_C = (2µ_w − 1)/((d + 2)² + µ_w) for the weights of a selection scheme, as in section 4.2 of Akimoto
    2012.

    Restricted families have a larger η_C, see `constants.hansen_kern_rate`.
    """

    needs_spectrum: ClassVar[bool] = False
    scheme: Scheme
    c_mean: float = 1.0

    def init(self, theta: Family, sample_size: int) -> CovarianceRate:
        """The covariance rate (...,), which depends on d, n and the family."""
        mu_eff = effective_size(scheme_weights(self.scheme, sample_size))
        rate = hansen_kern_rate(theta.dimension, mu_eff, theta.degrees_of_freedom)
        return CovarianceRate(np.full(theta.mean.shape[:-1], rate)[()])

    def __call__(
        self, tangent: Tangent, memory: CovarianceRate, generation: Generation, /
    ) -> tuple[Tangent, CovarianceRate]:
        """The tangent at these rates."""
        return tangent.scale(mean=np.float64(self.c_mean), cov=memory.rate), memory


@dataclass(frozen=True, slots=True)
class ExponentialRates(Transform):
    """η_m = c_mean and η_C = (9 + 3 ln d)/(5d√d) along the exponential map, which stays in the family.

    xNES (Glasmachers et al., GECCO 2010); SNES for restricted families, with η_C = (3 + ln d)/(5√d).
    """

    needs_spectrum: ClassVar[bool] = False
    c_mean: float = 1.0

    def init(self, theta: Family, sample_size: int) -> CovarianceRate:
        """The covariance rate (...,), which depends on d and the family."""
        return CovarianceRate(np.full(theta.mean.shape[:-1], xnes_rate(theta.dimension, theta.degrees_of_freedom))[()])

    def __call__(
        self, tangent: Tangent, memory: CovarianceRate, generation: Generation, /
    ) -> tuple[Tangent, CovarianceRate]:
        """The tangent at these rates, with an exponential step."""
        scaled = tangent.scale(mean=np.float64(self.c_mean), cov=memory.rate)
        return replace(scaled, exponential=True), memory


def reciprocal(positive: PerTrial) -> PerTrial:
    """1/positive (...,), and 0 where this is not finite."""
    if positive.ndim == 0:
        return positive * 0.0 if positive <= 1e-300 else 1.0 / positive
    usable = ~(positive <= 1e-300)  # NaN stays NaN, and the step is refused
    return np.where(usable, 1.0 / np.where(usable, positive, 1.0), 0.0)
