"""Independent categorical variables. A bit is one with two categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, PerTrial, expand_trailing, value_class

LEAVING = 0.27
"""Probability that at least one of the discrete variables of a point leaves its most probable value when all of them
have settled: 1 − 0.73 (Hamano et al., CatCMA with Margin, arXiv:2504.07884).
"""


def margin_of(discrete: int) -> float:
    """Least probability that one of `discrete` variables leaves its most probable value."""
    return 1.0 - (1.0 - LEAVING) ** (1.0 / max(discrete, 1))


@value_class
class Categorical:
    """Independent categorical variables, m of them with up to K categories."""

    probabilities: Array  # (..., m, K), 0 beyond a variable's own categories

    @classmethod
    def uniform(cls, counts: NDArray[np.intp]) -> Categorical:
        """Equal probabilities of `counts` (m,) categories."""
        is_category = np.arange(np.max(counts, initial=1)) < counts[:, None]
        return cls(is_category / counts[:, None])

    def settle(self, categories: NDArray[np.intp], margin: PerTrial) -> Categorical:
        """The variables with these categories (..., m) as their most probable ones, left with the margin's probability
        (...,).
        """
        chosen = categories[..., None] == np.arange(self.probabilities.shape[-1], dtype=np.intp)
        return self.move(chosen - self.probabilities, margin)

    @property
    def counts(self) -> NDArray[np.intp]:
        """Categories of each variable (..., m)."""
        return np.count_nonzero(self.probabilities, axis=-1)

    @property
    def mode(self) -> NDArray[np.intp]:
        """The most probable category of each variable (..., m)."""
        return np.argmax(self.probabilities, axis=-1)

    @property
    def leaving(self) -> Array:
        """Probability that each variable is not in its most probable category (..., m)."""
        return 1.0 - np.max(self.probabilities, axis=-1)

    def sample(self, noise: Noise, size: int) -> NDArray[np.intp]:
        """Draw categories (..., size, m)."""
        *batch, m, _ = self.probabilities.shape
        reached = np.cumsum(self.probabilities, axis=-1)[..., None, :, :-1]
        drawn = np.sum(noise.random((*batch, size, m))[..., None] >= reached, axis=-1)
        return np.minimum(drawn, self.counts[..., None, :] - 1)

    def natural_gradient(self, drawn: NDArray[np.intp], weights: Array) -> Array:
        """Σ wᵢ (eᵢ − q) (..., m, K) for categories (..., n, m) and weights (..., n), where eᵢ has a 1 at the category
        drawn: the natural gradient in the coordinates q.
        """
        chosen: NDArray[np.bool_] = drawn[..., None] == np.arange(self.probabilities.shape[-1], dtype=np.intp)
        total = np.sum(weights, axis=-1)[..., None, None]
        return np.sum(weights[..., None, None] * chosen, axis=-3) - total * self.probabilities

    def orthonormal(self, change: Array) -> Array:
        """A change of the probabilities (..., m, K) in coordinates whose squared length is that of the Fisher metric,
        Σ Δq²/q.
        """
        return change / np.sqrt(np.where(self.probabilities > 0.0, self.probabilities, 1.0))

    def move(self, change: Array, margin: PerTrial) -> Categorical:
        """The probabilities after a change (..., m, K), none below margin/(number of categories − 1)."""
        least = expand_trailing(margin, 2) / (self.counts[..., None] - 1.0)
        floor = np.where(self.probabilities > 0.0, least, 0.0)
        raised = np.maximum(self.probabilities + change, floor)
        above = raised - floor
        room = 1.0 - np.sum(floor, axis=-1, keepdims=True)
        return Categorical(floor + above * (room / np.sum(above, axis=-1, keepdims=True)))
