"""Evolution paths: what CMA-ES remembers of its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublevel.arrays import Array, PerTrial, smaller, spread, value
from sublevel.constants import cma_constants
from sublevel.families.protocol import Family, Transport
from sublevel.linalg import inner
from sublevel.tangent import ONE, Tangent


@value
class Paths:
    """Both paths in the whitened frame."""

    sigma: Array  # (..., d), stays in the frame of the root
    cov: Array  # (..., d), a displacement that is carried from frame to frame
    fading: PerTrial  # (...,), (1 − c_σ)^{2t}: what is left of the first step

    def carried(self, transport: Transport) -> Paths:
        """The covariance path in the new frame."""
        return Paths(self.sigma, transport(self.cov), self.fading)


@dataclass(frozen=True, slots=True)
class Cumulation:
    """Cumulative step-size adaptation, rank-one and rank-µ update at the rates of CMA-ES (Hansen, arXiv:1604.00772, eqs. 43–47)."""

    c_mean: float = 1.0

    def init(self, theta: Family, sample_size: int) -> Paths:
        """Paths of length 0."""
        return Paths(np.zeros_like(theta.mean), np.zeros_like(theta.mean), np.ones(theta.mean.shape[:-1])[()])

    def __call__(self, tangent: Tangent, memory: Paths, theta: Family, /) -> tuple[Tangent, Paths]:
        """The tangent with CMA-ES's rates, one more vector and a change of scale."""
        cloud, step = tangent.cloud, tangent.mean
        c = cma_constants(step.shape[-1], cloud.size)
        p_sigma = (1.0 - c.c_sigma) * memory.sigma + c.gain_sigma * step
        fading = memory.fading * c.fade
        length = inner(p_sigma, p_sigma) ** 0.5 / c.chi
        goes_on = length < c.stall * (1.0 - fading) ** 0.5  # h_σ
        p_c = (1.0 - c.c_c) * memory.cov + spread(c.gain_c * goes_on, 1) * step
        decay = c.c_mu * cloud.decay + c.c_1 - c.c_1_stalled * ~goes_on
        joined = cloud.joined(c.c_mu, p_c, c.c_1, decay, theta.images(p_c) if cloud.is_thin else None)
        log_scale = smaller(c.c_sigma / c.d_sigma * (length - 1.0), 1.0)
        mean = step if self.c_mean == 1.0 else self.c_mean * step
        return Tangent(mean, joined, ONE, log_scale), Paths(p_sigma, p_c, fading)
