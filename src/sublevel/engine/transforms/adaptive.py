"""Learning-rate adaptation: rates that keep a signal-to-noise ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublevel.engine.arrays import ZERO, Array, PerTrial, as_number, value_class
from sublevel.engine.families.protocol import Family
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform


@value_class
class Signal:
    """A learning rate and the moving averages that determine it."""

    rate: PerTrial  # (...,), η
    average: Array  # (..., q), E: of the changes
    power: PerTrial  # (...,), V: of their squared lengths

    def update(self, change: Array, beta: float, alpha: PerTrial, gamma: float, least: PerTrial) -> Signal:
        """Update with an orthonormal change (..., q): η grows if the signal-to-noise ratio is above αη, or falls
        until `least`.
        """
        average = (1.0 - beta) * self.average + beta * change
        power = (1.0 - beta) * self.power + beta * np.vecdot(change, change)
        signal = np.vecdot(average, average)
        noise = np.maximum(power - signal, np.finfo(np.float64).tiny)
        ratio = (signal - beta / (2.0 - beta) * power) / noise
        growth = np.clip(ratio / (alpha * self.rate) - 1.0, -1.0, 1.0)
        rate = self.rate * np.exp(np.minimum(gamma * self.rate, beta) * growth)
        rate = np.minimum(np.maximum(rate, least), 1.0)
        return Signal(rate, average, power)


@value_class
class Signals(Memory):
    """Signals of the mean and of the covariance. The averages are kept in the frame of the root, as in the paper."""

    mean: Signal
    cov: Signal

    @property
    def pace(self) -> PerTrial:
        """Speed of the search as a fraction of its usual speed (...,)."""
        return np.minimum(self.mean.rate, self.cov.rate)


@dataclass(frozen=True, slots=True)
class AdaptiveRates(Transform):
    """Multiply the change of θ by rates η_m and η_Σ that keep a constant signal-to-noise ratio.

    LRA-CMA-ES (Nomura, Akimoto, Ono, GECCO 2023). Must be the last transform; works with every method and family. The
    scale is multiplied by η_m(t)/η_m(t + 1), as in the paper.
    """

    needs_spectrum: ClassVar[bool] = False
    reduces_rates: ClassVar[bool] = True
    alpha: float = 1.4
    beta_mean: float = 0.1
    beta_cov: float = 0.03
    gamma: float = 0.1

    def init(self, theta: Family, sample_size: int) -> Signals:
        """Rates of 1 and averages of 0."""
        batch = theta.mean.shape[:-1]

        def initial(q: int) -> Signal:
            return Signal(np.ones(batch)[()], np.zeros((*batch, q)), np.zeros(batch)[()])

        return Signals(initial(theta.dimension), initial(theta.covariance_change_size))

    def __call__(self, tangent: Tangent, memory: Signals, generation: Generation, /) -> tuple[Tangent, Signals]:
        """The tangent multiplied by the adapted rates."""
        return self.adapt(tangent, memory, generation.theta, self.alpha, ZERO)

    def adapt(
        self, tangent: Tangent, memory: Signals, theta: Family, alpha: PerTrial, least: PerTrial
    ) -> tuple[Tangent, Signals]:
        """The tangent at θ multiplied by rates η that keep the signal-to-noise ratio αη and are at least `least`."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is refused later
            mean = memory.mean.update(tangent.mean, self.beta_mean, alpha, self.gamma, least)
            cov = memory.cov.update(theta.covariance_change(tangent), self.beta_cov, alpha, self.gamma, least)
            correction = np.log(memory.mean.rate / mean.rate)
            return tangent.damp(mean=mean.rate, cov=cov.rate, log_scale=correction), Signals(mean, cov)


@value_class
class GradualSignals(Memory):
    """Signals, and how long they have been observed."""

    signals: Signals
    evaluations: PerTrial  # (...,), per variable

    @property
    def pace(self) -> PerTrial:
        """Speed of the search as a fraction of its usual speed (...,)."""
        return self.signals.pace


@dataclass(frozen=True, slots=True)
class GradualRates(Transform):
    """Adaptive rates for small budgets: nearly the usual ones at first, and those of `AdaptiveRates` from `onset` on.

    Within t evaluations per variable, the rates keep the signal-to-noise ratio min(1, t/onset)·αη. At first they are
    therefore reduced only where there is no signal at all. Until t = hold they are the usual ones, because few
    generations do not show whether there is a signal. Neither values of f nor a budget are used. Must be the last
    transform.
    """

    needs_spectrum: ClassVar[bool] = False
    reduces_rates: ClassVar[bool] = True
    onset: float  # evaluations per variable
    hold: float = 100.0  # evaluations per variable
    rates: AdaptiveRates = AdaptiveRates()

    def __post_init__(self) -> None:
        for name in ("onset", "hold"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(
                    f"`{name}` must be positive and finite, got {getattr(self, name)!r}. It is a number of evaluations "
                    "per variable."
                )

    def init(self, theta: Family, sample_size: int) -> GradualSignals:
        """No evaluation yet."""
        return GradualSignals(self.rates.init(theta, sample_size), np.zeros(theta.mean.shape[:-1])[()])

    def __call__(
        self, tangent: Tangent, memory: GradualSignals, generation: Generation, /
    ) -> tuple[Tangent, GradualSignals]:
        """The tangent multiplied by the rates of this generation."""
        n, d = generation.sample.z.shape[-2:]
        evaluations = memory.evaluations + n / d
        alpha = self.rates.alpha * np.minimum(1.0, evaluations / self.onset)
        least = as_number(evaluations <= self.hold)
        tangent, signals = self.rates.adapt(tangent, memory.signals, generation.theta, alpha, least)
        return tangent, GradualSignals(signals, evaluations)
