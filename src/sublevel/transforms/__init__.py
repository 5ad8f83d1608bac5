"""Rules that scale a tangent or remember past ones."""

from sublevel.transforms.adaptive import AdaptedRates
from sublevel.transforms.paths import Cumulation
from sublevel.transforms.protocol import Memory, Transform
from sublevel.transforms.rates import ExponentialRates, FixedRates, HansenKernRates, SpectralRates

__all__ = ["AdaptedRates", "Cumulation", "ExponentialRates", "FixedRates", "HansenKernRates", "Memory", "SpectralRates", "Transform"]
