"""Parts that scale a tangent, add to it or remember past ones."""

from sublevel.transforms.adaptive import AdaptedRates
from sublevel.transforms.protocol import NO_MEMORY, Generation, Memory, NoMemory, Transform
from sublevel.transforms.rank_mu import RankMu
from sublevel.transforms.rank_one import RankOne
from sublevel.transforms.rates import ExponentialRates, FadingRates, FixedRates, HansenKernRates, SpectralRates
from sublevel.transforms.step_path import Cumulation
from sublevel.transforms.step_size import CSA, PSR, STEP_SIZES, TPA
from sublevel.transforms.volume import KeptVolume

__all__ = [
    "CSA",
    "NO_MEMORY",
    "PSR",
    "STEP_SIZES",
    "TPA",
    "AdaptedRates",
    "Cumulation",
    "ExponentialRates",
    "FadingRates",
    "FixedRates",
    "Generation",
    "HansenKernRates",
    "KeptVolume",
    "Memory",
    "NoMemory",
    "RankMu",
    "RankOne",
    "SpectralRates",
    "Transform",
]
