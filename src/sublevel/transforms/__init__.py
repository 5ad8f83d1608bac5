"""Rules that scale a tangent or remember past ones."""

from sublevel.transforms.adaptive import AdaptedRates
from sublevel.transforms.paths import Cumulation
from sublevel.transforms.protocol import Memory, Transform
from sublevel.transforms.rates import ExponentialRates, FadingRates, FixedRates, HansenKernRates, SpectralRates
from sublevel.transforms.volume import KeptVolume

__all__ = [
    "AdaptedRates",
    "Cumulation",
    "ExponentialRates",
    "FadingRates",
    "FixedRates",
    "HansenKernRates",
    "KeptVolume",
    "Memory",
    "SpectralRates",
    "Transform",
]
