"""Evolution paths: what CMA-ES remembers of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublevel.arrays import Array, PerTrial, as_number, smaller, spread, value
from sublevel.constants import cma_constants
from sublevel.families.protocol import Family, Move
from sublevel.linalg import inner
from sublevel.tangent import ONE, Tangent, is_thin


@value
class Paths:
    """Both paths in the whitened frame."""

    sigma: Array  # (..., d), stays in the frame of the root
    cov: Array  # (..., d), a displacement that is carried from frame to frame
    fading: PerTrial  # (...,), (1 − c_σ)^{2t}: what is left of the first step
    image: Array | None  # (..., d), the covariance path seen through the root, where images are kept

    def carried(self, move: Move) -> Paths:
        """The covariance path in the new frame. Its image is the same but for the unit."""
        image = None if self.image is None else self.image / spread(move.stretch, 1)
        return Paths(self.sigma, move.transport(self.cov), self.fading, image)

    def squeezed(self, factors: Array) -> Paths:
        """The paths after coordinates were multiplied by factors (d,): whitened vectors stay, images follow."""
        return self if self.image is None else Paths(self.sigma, self.cov, self.fading, factors * self.image)


@dataclass(frozen=True, slots=True)
class Cumulation:
    """Cumulative step-size adaptation, rank-one and rank-µ update at the rates of CMA-ES (Hansen, arXiv:1604.00772, eqs. 43–47).

    The rates of the covariance depend on the family's degrees of freedom, see `constants.covariance_rates`.
    """

    needs_spectrum: ClassVar[bool] = False
    c_mean: float = 1.0

    def init(self, theta: Family, sample_size: int) -> Paths:
        """Paths of length 0."""
        nothing = np.zeros_like(theta.mean)
        image = theta.images(nothing) if is_thin(sample_size, theta.dimension) else None
        return Paths(nothing, nothing, np.ones(theta.mean.shape[:-1])[()], image)

    def __call__(self, tangent: Tangent, memory: Paths, theta: Family, /) -> tuple[Tangent, Paths]:
        """The tangent with CMA-ES's rates, one more vector and a change of scale."""
        cloud, step = tangent.cloud, tangent.mean
        c = cma_constants(step.shape[-1], cloud.size, theta.degrees_of_freedom)
        p_sigma = c.keep_sigma * memory.sigma
        p_sigma += c.gain_sigma * step
        fading = memory.fading * c.fade
        length = inner(p_sigma, p_sigma) ** 0.5 / c.chi
        goes_on = as_number(length < c.stall * (1.0 - fading) ** 0.5)  # h_σ
        gain = spread(c.gain_c * goes_on, 1)
        p_c = c.keep_c * memory.cov
        p_c += gain * step
        image = None if memory.image is None or tangent.mean_image is None else c.keep_c * memory.image + gain * tangent.mean_image
        decay = c.c_mu * cloud.decay + c.c_1 - c.c_1_stalled * (1.0 - goes_on)
        joined = cloud.joined(c.c_mu, p_c, c.c_1, decay, image)
        log_scale = smaller(c.c_sigma / c.d_sigma * (length - 1.0), 1.0)
        moved = Tangent(step, joined, ONE, log_scale, mean_image=tangent.mean_image)
        return (moved if self.c_mean == 1.0 else moved.scaled(mean=np.float64(self.c_mean), cov=ONE)), Paths(p_sigma, p_c, fading, image)
