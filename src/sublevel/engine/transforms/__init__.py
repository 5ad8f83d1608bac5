"""Parts that scale the natural gradient or add to it: learning rates, evolution paths, step-size rules."""

from sublevel.engine.memory import NO_MEMORY, Memory, NoMemory
from sublevel.engine.transforms.adaptive import AdaptiveRates, GradualRates
from sublevel.engine.transforms.choice_rates import ChoiceRates
from sublevel.engine.transforms.preselection import Preselection
from sublevel.engine.transforms.protocol import Generation, Transform
from sublevel.engine.transforms.rank_mu import RankMu
from sublevel.engine.transforms.rank_one import RankOne
from sublevel.engine.transforms.rates import (
    DecreasingRates,
    ExponentialRates,
    FixedRates,
    HansenKernRates,
    SpectralRates,
)
from sublevel.engine.transforms.step_path import Cumulation
from sublevel.engine.transforms.step_size import CSA, PSR, STEP_SIZES, TPA
from sublevel.engine.transforms.volume import ConstantVolume

__all__ = [
    "CSA",
    "NO_MEMORY",
    "PSR",
    "STEP_SIZES",
    "TPA",
    "AdaptiveRates",
    "ChoiceRates",
    "ConstantVolume",
    "Cumulation",
    "DecreasingRates",
    "ExponentialRates",
    "FixedRates",
    "Generation",
    "GradualRates",
    "HansenKernRates",
    "Memory",
    "NoMemory",
    "Preselection",
    "RankMu",
    "RankOne",
    "SpectralRates",
    "Transform",
]
