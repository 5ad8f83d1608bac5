"""Numbers made of d, n and µ_eff, each with its source."""

from __future__ import annotations

from math import floor, log


def default_popsize(d: int) -> int:
    """λ = 4 + ⌊3 ln d⌋: Hansen, arXiv:1604.00772, eq. 48."""
    return 4 + floor(3 * log(d))


def hansen_kern_rate(d: int, mu_eff: float) -> float:
    """η_C = (2µ_w − 1)/((d + 2)² + µ_w): Hansen & Kern 2004, as quoted in section 4.2 of Akimoto 2012; 0 if nothing is selected."""
    return (2 * mu_eff - 1) / ((d + 2) ** 2 + mu_eff) if mu_eff > 0 else 0.0
