"""One generation of a method: sample, evaluate, order, weight, natural gradient, transform, move.

This is the only module of the engine that combines the others. `Method.init`, `ask` and `tell` are pure functions of
their arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import ONE, ZERO, Array, Mask, Noise, all_trials, any_trial, select, value_class
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.protocol import Family, Sample
from sublevel.engine.linalg import combination
from sublevel.engine.memory import NO_MEMORY, Memory
from sublevel.engine.ordering.by_value import BY_VALUE, Ordering
from sublevel.engine.ordering.ranks import Ranking, ranking
from sublevel.engine.sampling import INDEPENDENT, Sampling
from sublevel.engine.tangent import Cloud, Tangent, Weighting
from sublevel.engine.transforms.protocol import Generation, Transform
from sublevel.engine.weights.protocol import Weights


class Outcome(IntEnum):
    """The outcome of a step. All but MOVED leave the state unchanged."""

    MOVED = 0
    FLAT = 1  # all values are equal
    FAILED = 2  # all values are NaN or +inf
    NO_SELECTION = 3  # all weights are 0: the sample is too small for the weight rule, or the best points are tied
    REFUSED = 4  # the new C would not be positive definite, or a number would leave the range of floats


MOVED = Outcome.MOVED


@value_class
class State:
    """The state of a search between generations. With the state of the generator it determines the rest of the run."""

    theta: Family
    memory: tuple[Memory, ...]  # of each transform
    ordering: Memory = NO_MEMORY

    @property
    def pace(self) -> float:
        """Speed of a single run as a fraction of its usual speed."""
        return min([float(part.pace) for part in self.memory], default=1.0)

    def rescale(self, factors: Array) -> State:
        """The state of a single run after coordinates of θ were multiplied by factors (d,) about its mean."""
        return State(self.theta.rescale(factors), tuple([part.rescale(factors) for part in self.memory]), self.ordering)


@value_class
class Info:
    """The outcome of a step and the ranking of its sample."""

    outcome: Outcome | NDArray[np.int_]  # (...,)
    ranks: Ranking


@dataclass(frozen=True, slots=True)
class Method:
    """A search method, composed of independent parts.

    Recipes such as `sublevel.cma` return methods; `minimize(..., method=...)` and `Optimizer` accept them.

    Parameters
    ----------
    name : str
        Name for messages and stored runs.
    weights : Weights
        Rule that turns the ranks of a sample into weights.
    transforms : tuple of Transform
        Step-size rules, learning rates and evolution paths, applied to the natural gradient in this order.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.
    family : type of Family, optional
        Family of the search distribution; `FullGaussian` if not given.
    ordering : Ordering, optional
        Rule that ranks the points of a sample; by value if not given.
    sampling : Sampling, optional
        Rule for the dependence of the points of a sample; they are independent if not given.

    Examples
    --------
    >>> import sublevel as sl
    >>> from sublevel.engine.transforms import FixedRates
    >>> from sublevel.engine.weights import Quantile
    >>> method = sl.Method("fixed", Quantile(), (FixedRates(1.0, 0.1),), popsize=20)
    >>> sl.minimize(lambda x: x @ x, [1, 1], 0.5, method=method, rng=1, ftarget=1e-6).success
    True
    """

    name: str
    weights: Weights
    transforms: tuple[Transform, ...]
    popsize: int | None = None
    family: type[Family] = FullGaussian
    ordering: Ordering = BY_VALUE
    sampling: Sampling = INDEPENDENT
    _adds_points: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sampling != INDEPENDENT and not self.family.continuous:
            raise ValueError(f"`sampling` must be Sampling() for {self.family.__name__}, got {self.sampling!r}.")
        object.__setattr__(self, "_adds_points", any(transform.adds_points for transform in self.transforms))

    def init(self, theta: Family, sample_size: int, constraints: int = 0) -> State:
        """The initial state of a search from θ, with a number of constraints."""
        memory = tuple(transform.init(theta, sample_size) for transform in self.transforms)
        return State(theta, memory, self.ordering.init(theta, sample_size, constraints))

    def ask(self, state: State, noise: Noise, sample_size: int) -> Sample:
        """Draw points (..., n, d) to evaluate."""
        noise = self.sampling.of(noise)
        sample = state.theta.sample(noise, sample_size)
        if self._adds_points:
            for transform, memory in zip(self.transforms, state.memory, strict=True):
                if transform.adds_points:
                    sample = transform.add_points(memory, state.theta, sample, noise)
        return sample

    def tell(self, state: State, sample: Sample, values: Array, constraints: Array | None = None) -> tuple[State, Info]:
        """The next state, given the values (..., n) of the sample and its constraint values (..., n, m), if any."""
        ranks, ordering = self.rank(state, values, constraints)
        if self.sampling.mirrored and not sample.pairs:
            sample = sample.with_pairs()
        weighting = self.weights(ranks, sample)
        generation = Generation(state.theta, sample, values, ranks, weighting)
        if sample.half is None:
            tangent = natural_gradient(sample.z, weighting, sample.images)
        else:  # sums over pairs need only their first points
            tangent = natural_gradient(sample.half, weighting.of_pairs(), sample.images)
        return self.apply_gradient(state, generation, tangent, ordering)

    def rank(self, state: State, values: Array, constraints: Array | None = None) -> tuple[Ranking, Memory]:
        """The ranking of a sample, and the new memory of the ordering. The best value is that of the best point, also
        if the ordering compares other numbers, or NaN if no point can be ranked.
        """
        if self.ordering is BY_VALUE:
            return ranking(values), state.ordering
        ranks, ordering = self.ordering(values, constraints, state.ordering)
        best = np.where(np.isnan(ranks.best), np.nan, ranks.take_best(values))[()]
        return Ranking(ranks.order, ranks.tie_ends, best), ordering

    def apply_gradient(
        self, state: State, generation: Generation, tangent: Tangent, ordering: Memory = NO_MEMORY
    ) -> tuple[State, Info]:
        """The next state, given the natural gradient of an evaluated sample and the new memory of the ordering."""
        ranks = generation.ranks
        attracts = ranks.take_best(generation.weighting.mean) > 0  # unlike those for the covariance, equal for ties
        state, taken = self.step(state, generation, tangent, ranks.has_direction & attracts, ordering)
        return state, Info(MOVED if all_trials(taken) else _outcome(ranks, attracts, taken), ranks)

    def step(
        self,
        state: State,
        generation: Generation,
        tangent: Tangent,
        mask: Mask = np.True_,
        ordering: Memory = NO_MEMORY,
    ) -> tuple[State, Mask]:
        """The state after a step, and whether it was taken (...): the mask is true and the step stays in the family."""
        memory: list[Memory] = []
        for index, transform in enumerate(self.transforms):
            tangent, after = transform(tangent, state.memory[index], generation)
            memory.append(after)
        move = state.theta.move(tangent)
        taken = move.usable & mask
        if all_trials(taken):
            return State(move.theta, tuple([part.transport(move) for part in memory]), ordering), taken
        if not any_trial(taken):
            return state, taken
        with np.errstate(divide="ignore", invalid="ignore"):  # of trials that do not move
            after = State(move.theta, tuple([part.transport(move) for part in memory]), ordering)
        return select(taken, after, state), taken


def natural_gradient(vectors: Array, weighting: Weighting, images: Array | None = None) -> Tangent:
    """Σ wᵢ ∇̃ log p(xᵢ) in the whitened frame, eq:ng-est: z for the mean, zzᵀ − I for the covariance."""
    cloud = Cloud(vectors, weighting.cov, weighting.decay, images)
    mean_image = None if images is None else combination(weighting.mean, images)
    return Tangent(combination(weighting.mean, vectors), cloud, ONE, ZERO, False, mean_image)


def _outcome(ranks: Ranking, attracts: Mask, taken: Mask) -> Outcome | NDArray[np.int_]:
    """The outcome of each trial (...), given where the best point has a positive weight and where a step was taken."""
    code = np.select(
        [taken, ~(ranks.best < np.inf), ranks.is_flat, ~attracts],
        [Outcome.MOVED, Outcome.FAILED, Outcome.FLAT, Outcome.NO_SELECTION],
        Outcome.REFUSED,
    )
    return Outcome(int(code)) if code.ndim == 0 else code
