"""Rules that scale a tangent or remember past ones."""

from sublevel.transforms.paths import Cumulation
from sublevel.transforms.protocol import Memory, Transform
from sublevel.transforms.rates import FixedRates, HansenKernRates, SpectralRates

__all__ = ["Cumulation", "FixedRates", "HansenKernRates", "Memory", "SpectralRates", "Transform"]
