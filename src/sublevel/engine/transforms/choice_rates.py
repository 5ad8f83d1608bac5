"""The learning rate of categorical variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from sublevel.engine.arrays import Array, PerTrial, expand_trailing, value_class
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform

T = TypeVar("T")
ROUNDING = 1e-12
"""Length of a gradient that may be due to rounding, as where the weights of all categories are their probabilities."""


@value_class
class ChoicePath(Memory):
    """Weighted sum of past steps of the probabilities, in coordinates of the Fisher metric."""

    path: Array  # (..., m, K)
    power: PerTrial  # (...,), expected squared length of the path under random selection
    steps: PerTrial  # (...,), Δ: the reciprocal of the length of a step


@dataclass(frozen=True, slots=True)
class ChoiceRates(Transform):
    """Add the natural gradient of categorical variables to a tangent, at an adaptive rate.

    A step has the length 1/Δ in the Fisher metric. Δ grows while past steps cancel and falls while they agree (ASNG:
    Akimoto et al., ICML 2019; α = 1.5 and an initial length of 1 as in CatCMA, Hamano et al., GECCO 2024).
    """

    needs_spectrum: ClassVar[bool] = False
    reads_points: ClassVar[bool] = True
    alpha: float = 1.5
    longest: float = 1.0

    def init(self, theta: Family, sample_size: int) -> ChoicePath:
        """A path of length 0."""
        batch = theta.mean.shape[:-1]
        return ChoicePath(np.zeros_like(_present(theta.choices).probabilities), np.zeros(batch)[()], np.ones(batch)[()])

    def __call__(self, tangent: Tangent, memory: ChoicePath, generation: Generation, /) -> tuple[Tangent, ChoicePath]:
        """The tangent with a step of the probabilities."""
        choices = _present(generation.theta.choices)
        gradient = choices.natural_gradient(
            _present(generation.sample.choices), np.maximum(generation.weighting.mean, 0.0)
        )
        direction = choices.orthonormal(gradient)
        length = np.sqrt(np.sum(np.square(direction), axis=(-2, -1)))
        is_clear = length > ROUNDING
        unit = expand_trailing(np.where(is_clear, 1.0 / np.where(is_clear, length, 1.0), 0.0)[()], 2)
        rate = self.longest / memory.steps
        free = np.sum(choices.counts - 1, axis=-1)
        beta = np.minimum(rate / np.sqrt(free), 1.0)
        keep, gain = 1.0 - beta, np.sqrt(beta * (2.0 - beta))
        path = expand_trailing(keep, 2) * memory.path + expand_trailing(gain, 2) * unit * direction
        power = keep**2 * memory.power + beta * (2.0 - beta)
        steps = memory.steps * np.exp(beta * (power - np.sum(np.square(path), axis=(-2, -1)) / self.alpha))
        return tangent.with_choices(expand_trailing(rate, 2) * unit * gradient), ChoicePath(path, power, steps)


def _present(part: T | None) -> T:
    """The categorical part of a distribution or a sample, which must have one."""
    if part is None:
        raise TypeError("`ChoiceRates` needs a distribution with categorical variables.")
    return part
