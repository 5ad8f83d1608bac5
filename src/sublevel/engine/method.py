"""One iteration as a sentence of six verbs: sample → evaluate → weight → natural gradient → transform → move.

The only file where the rooms meet. A method says what to do and knows nothing of a run; `init`, `ask` and `tell` are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, all_trials, any_trial, select, value_class
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.protocol import Family, Sample
from sublevel.engine.memory import NO_MEMORY, Memory
from sublevel.engine.ordering.by_value import BY_VALUE, Ordering
from sublevel.engine.ordering.ranks import Ranking
from sublevel.engine.tangent import Tangent, natural_gradient
from sublevel.engine.transforms.protocol import Generation, Transform
from sublevel.engine.weights.protocol import Weights


class Outcome(IntEnum):
    """What became of a step. Every one but MOVED leaves the state as it was."""

    MOVED = 0
    FLAT = 1  # all values are equal: there is no direction to go
    FAILED = 2  # no value is finite or −inf: nothing was learned
    NO_SELECTION = 3  # all weights are 0: the sample is too small for the weight rule, or ties hide the best
    REFUSED = 4  # the step would leave the family: C not positive definite, or a number beyond the range of floats


MOVED = Outcome.MOVED


@value_class
class State:
    """What the next step needs. With the generator's state it is a checkpoint."""

    theta: Family
    memory: tuple[Memory, ...]  # of each transform
    ordering: Memory = NO_MEMORY

    @property
    def pace(self) -> float:
        """Speed of a single run as a fraction of its usual speed."""
        return min([float(kept.pace) for kept in self.memory], default=1.0)

    def rescale(self, factors: Array) -> State:
        """The state of a single run with coordinates of θ multiplied by factors (d,) about its mean, and all that depends on its frame."""
        return State(self.theta.rescale(factors), tuple([kept.rescale(factors) for kept in self.memory]), self.ordering)


@value_class
class Info:
    """What was seen in a step."""

    outcome: Outcome | NDArray[np.int_]  # (...,)
    ranks: Ranking


@dataclass(frozen=True, slots=True)
class Method:
    """The parts of an iteration, started from a family: an ordering, a weight rule, transforms, and a sample size."""

    name: str
    weights: Weights
    transforms: tuple[Transform, ...]
    popsize: int | None = None  # chosen from d if None
    family: type[Any] = FullGaussian
    ordering: Ordering = BY_VALUE

    def init(self, theta: Family, sample_size: int) -> State:
        """The state to begin with at θ."""
        memory = tuple(transform.init(theta, sample_size) for transform in self.transforms)
        return State(theta, memory, self.ordering.init(theta, sample_size))

    def ask(self, state: State, noise: Noise, sample_size: int) -> Sample:
        """Points (..., n, d) to evaluate, with their whitened coordinates."""
        sample = state.theta.sample(noise, sample_size)
        for transform, memory in zip(self.transforms, state.memory, strict=True):
            if transform.adds_points:
                sample = state.theta.sample_at(transform.add_points(memory, sample.z))
        return sample

    def tell(self, state: State, sample: Sample, values: Array, constraints: Array | None = None) -> tuple[State, Info]:
        """The next state, given the f-values (..., n) of the sample and what constraints there are (..., n, m), and what was seen."""
        ranks, kept = self.ordering(values, constraints, state.ordering)
        weighting = self.weights(ranks, sample)
        generation = Generation(state.theta, sample, values, ranks, weighting)
        return self.apply_gradient(state, generation, natural_gradient(sample.z, weighting, sample.images), kept)

    def apply_gradient(self, state: State, generation: Generation, tangent: Tangent, kept: Memory = NO_MEMORY) -> tuple[State, Info]:
        """The next state, given the natural gradient of an evaluated sample, and what was seen; `kept` is the memory of the ordering."""
        ranks = generation.ranks
        attracts = ranks.take_best(generation.weighting.cov) > 0
        state, taken = self.step(state, generation, tangent, ranks.has_direction & attracts, kept)
        return state, Info(MOVED if all_trials(taken) else _outcome(ranks, attracts, taken), ranks)

    def step(
        self, state: State, generation: Generation, tangent: Tangent, wanted: Any = np.True_, kept: Memory = NO_MEMORY
    ) -> tuple[State, Any]:
        """The state after a step along a tangent, and where it was taken (...): where it was `wanted` and stays in the family."""
        memory: list[Memory] = []
        for transform, remembered in zip(self.transforms, state.memory, strict=True):
            tangent, after = transform(tangent, remembered, generation)
            memory.append(after)
        move = state.theta.move(tangent)
        taken = move.usable & wanted
        everyone = all_trials(taken)
        if not everyone and not any_trial(taken):
            return state, taken
        after = State(move.theta, tuple([part.transport(move) for part in memory]), kept)
        return (after if everyone else select(taken, after, state)), taken


def _outcome(ranks: Ranking, attracts: Any, taken: Any) -> Any:
    """The outcome of each trial (...), given where the best point attracts and where a step was taken."""
    code = np.select(
        [taken, ~(ranks.best < np.inf), ranks.is_flat, ~attracts],
        [Outcome.MOVED, Outcome.FAILED, Outcome.FLAT, Outcome.NO_SELECTION],
        Outcome.REFUSED,
    )
    return Outcome(int(code)) if code.ndim == 0 else code
