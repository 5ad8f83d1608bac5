"""One iteration as a sentence of six verbs: sample → evaluate → weight → natural gradient → transform → move.

The only file where the rooms meet. A method says what to do and knows nothing of a run; `init`, `ask` and `tell` are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array, Noise, anywhere, chosen, everywhere, value
from sublevel.families.full import FullGaussian
from sublevel.families.protocol import Family, Sample
from sublevel.tangent import Tangent, Weighting, natural_gradient
from sublevel.transforms.protocol import Memory, Transform
from sublevel.weights.protocol import Weights
from sublevel.weights.ranking import Ranking, ranking


class Outcome(IntEnum):
    """What became of a step. Every one but MOVED leaves the state as it was."""

    MOVED = 0
    FLAT = 1  # all values are equal: there is no direction to go
    FAILED = 2  # no value is finite or −inf: nothing was learned
    UNSELECTIVE = 3  # all weights are 0: the sample is too small for the weight rule, or ties hide the best
    REFUSED = 4  # the step would leave the family: C not positive definite, or a number beyond the range of floats


MOVED = Outcome.MOVED


@value
class State:
    """What the next step needs. With the generator's state it is a checkpoint."""

    theta: Family
    memory: tuple[Memory, ...]


def squeezed(state: State, factors: Array) -> State:
    """The state of a single run with coordinates of θ multiplied by factors (d,) about its mean, and all that depends on its frame."""
    theta: Any = state.theta  # a Gaussian: bits have no coordinates
    memory = tuple([kept.squeezed(factors) if hasattr(kept, "squeezed") else kept for kept in state.memory])
    return State(theta.squeezed(factors), memory)


@value
class Info:
    """What was seen in a step."""

    outcome: Outcome | NDArray[np.int_]  # (...,)
    ranks: Ranking


@dataclass(frozen=True, slots=True)
class Method:
    """Weights, transforms and a sample size: what to do in an iteration, started from a family."""

    name: str
    weights: Weights
    transforms: tuple[Transform, ...]
    popsize: int | None = None  # chosen from d if None
    family: type[Any] = FullGaussian

    def init(self, theta: Family, sample_size: int) -> State:
        """The state to begin with at θ."""
        return State(theta, tuple(transform.init(theta, sample_size) for transform in self.transforms))

    def ask(self, state: State, noise: Noise, sample_size: int) -> Sample:
        """Points (..., n, d) to evaluate, with their whitened coordinates."""
        return state.theta.sample(noise, sample_size)

    def tell(self, state: State, sample: Sample, values: Array) -> tuple[State, Info]:
        """The next state, given the f-values (..., n) of the sample, and what was seen."""
        ranks = ranking(values)
        weighting = self.weights(ranks, sample)
        return self.told(state, ranks, weighting, natural_gradient(sample.z, weighting, sample.images))

    def told(self, state: State, ranks: Ranking, weighting: Weighting, tangent: Tangent) -> tuple[State, Info]:
        """The next state, given the ranks of a sample, its weights and the natural gradient they make, wherever that was summed up."""
        attracts = ranks.of_best(weighting.cov) > 0
        state, taken = self.advanced(state, tangent, ranks.is_telling & attracts)
        return state, Info(MOVED if everywhere(taken) else _outcome(ranks, attracts, taken), ranks)

    def advanced(self, state: State, tangent: Tangent, wanted: Any = np.True_) -> tuple[State, Any]:
        """The state after a step along a tangent, and where it was taken (...): where it was `wanted` and stays in the family."""
        theta = state.theta
        memory: list[Memory] = []
        for transform, remembered in zip(self.transforms, state.memory, strict=True):
            tangent, kept = transform(tangent, remembered, theta)
            memory.append(kept)
        move = theta.moved(tangent)
        taken = move.usable & wanted
        everyone = everywhere(taken)
        if not everyone and not anywhere(taken):
            return state, taken
        after = State(move.theta, tuple([kept.carried(move) if hasattr(kept, "carried") else kept for kept in memory]))
        return (after if everyone else chosen(taken, after, state)), taken


def _outcome(ranks: Ranking, attracts: Any, taken: Any) -> Any:
    """The outcome of each trial (...), given where the best point attracts and where a step was taken."""
    code = np.select(
        [taken, ~(ranks.best < np.inf), ranks.is_flat, ~attracts],
        [Outcome.MOVED, Outcome.FAILED, Outcome.FLAT, Outcome.UNSELECTIVE],
        Outcome.REFUSED,
    )
    return Outcome(int(code)) if code.ndim == 0 else code
