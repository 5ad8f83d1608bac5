"""Generations of which only some points are evaluated, one part after the other."""

from __future__ import annotations

from typing import NamedTuple

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.families import Family, Sample
from sublevel.engine.method import Method
from sublevel.run.search_space import SearchSpace
from sublevel.surrogate.archive import Archive
from sublevel.surrogate.control import (
    Candidates,
    Surrogate,
    add_values,
    begin_generation,
    begin_run,
    end_generation,
    is_trusted,
    model_generation,
    tuning_for,
)

MOST_VARIABLES = 50
"""Variables up to which a quadratic is fitted: its (d + 1)(d + 2)/2 coefficients take as many evaluations to learn, and
the time of a fit grows as d⁶.
"""


class FinishedGeneration(NamedTuple):
    """A generation that is over."""

    sample: Sample
    values: Array  # (n,), for the method: those of the model, or of the objective if all points were evaluated
    surrogate: Surrogate
    true_values: Array  # (k,), of the points that were evaluated
    searched: Array  # (k, d), their search points
    squares: Array | None  # (n,), ‖z‖² if all points were evaluated
    points: Array  # (k, d)


class PartialGenerations:
    """The generation of an optimizer with a surrogate that is not over; archive and models are part of its state."""

    def __init__(self, at_a_time: int, d: int, space: SearchSpace | None) -> None:
        self.at_a_time, self.tuning = at_a_time, tuning_for(d)
        self.space, self._fold = space, None if space is None else space.fold
        self.clear()

    def clear(self) -> None:
        """Remove the generation."""
        self._candidates: Candidates | None = None
        self._sample: Sample | None = None
        self._points: Array | None = None  # (n, d), of the sample
        self.asked: Array | None = None  # (k, d), points that are being evaluated

    def begin_run(self, theta: Family, popsize: int, known: Archive | None = None) -> Surrogate:
        """The surrogate of a run that starts with θ; its archive is empty unless some evaluations are known."""
        self.clear()
        return begin_run(theta, popsize, known, self._fold, self.tuning)

    @property
    def is_over(self) -> bool:
        """Whether there is no generation."""
        return self._candidates is None

    def begin(self, surrogate: Surrogate, theta: Family, sample: Sample) -> Sample:
        """Begin a generation of θ; return its sample, which may contain the minimiser of the model."""
        self._sample, self._candidates = begin_generation(
            surrogate, theta, sample, self._fold, self.at_a_time, self.tuning
        )
        self._points = self._sample.x if self.space is None else self.space.points(self._sample.x)
        return self._sample

    def ask(self) -> Array:
        """The points to evaluate (k, d); the same ones until they are told."""
        if self.asked is None:
            if self._candidates is None or self._points is None:
                raise RuntimeError("there is no generation")
            self.asked = read_only(self._points[self._candidates.asked])
        return self.asked

    def tell(self, values: Array) -> FinishedGeneration | None:
        """Take the values (k,) of the points that were asked; None if the generation is not over."""
        if self.asked is None or self._candidates is None or self._sample is None or self._points is None:
            raise RuntimeError("there is no generation")
        candidates, sample, points = add_values(self._candidates, values, self.tuning), self._sample, self._points
        self._candidates, self.asked = candidates, None
        if not candidates.is_over:
            return None
        known = candidates.known
        told, surrogate = end_generation(candidates, self.tuning)
        self.clear()
        squares = sample.squares if known.all() else None
        return FinishedGeneration(
            sample, told, surrogate, candidates.values[known], sample.x[known], squares, points[known]
        )

    def is_trusted(self, surrogate: Surrogate) -> bool:
        """Whether a generation that left this surrogate is followed by a step with values of the model alone."""
        return is_trusted(surrogate, self.at_a_time, self.tuning)

    def by_model(self, surrogate: Surrogate, theta: Family, sample: Sample) -> tuple[Sample, Array] | None:
        """A sample of θ, which may contain the minimiser of the model, and its values (n,) by the model; None if they
        are not known.
        """
        return model_generation(surrogate, theta, sample, self._fold, self.tuning)


def check_surrogate(method: Method, space: SearchSpace | None, d: int, has_constraints: bool, has_noise: bool) -> None:
    """Raise ValueError if a run in d variables cannot have a surrogate."""
    if not method.family.continuous:
        raise ValueError("`surrogate` models real variables; it cannot be used with binary methods.")
    if space is not None and space.is_mixed:
        raise ValueError("`surrogate` models real variables; it cannot be used with integers or choices.")
    compared = [type(transform).__name__ for transform in method.transforms if transform.compares_generations]
    if compared:
        raise ValueError(
            f"a step-size rule that compares values of two generations ({compared[0]}) cannot be combined with "
            "`surrogate`, whose values of different generations are of different models. Use another rule."
        )
    if has_constraints:
        raise ValueError("`surrogate` cannot be used with `constraints`; only `bounds` are supported.")
    if has_noise:
        raise ValueError(
            "`surrogate` cannot be used with noise=True, which averages all values of a generation. Leave one of "
            "them out: without noise=True, more points are evaluated where noise changes the order of the values."
        )
    if d > MOST_VARIABLES:
        raise ValueError(
            f"`surrogate` is limited to {MOST_VARIABLES} variables, got {d}: with more, learning a quadratic model "
            "takes as many evaluations as a search without one. Leave it out."
        )
