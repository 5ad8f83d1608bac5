"""Preselection of points by the ranks of their neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Noise, value_class
from sublevel.engine.families.protocol import Family, Sample
from sublevel.engine.memory import Memory
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms.protocol import Generation, Transform

DECAY = 2.5
"""How fast weights decay with the distance. Scores of tuned models hardly differ between 2.5 and 10."""

MOST_VARIABLES = 10
"""Variables of a space up to which points are preselected: among many variables, few evaluations have neighbours."""


@value_class
class Evaluations(Memory):
    """The first N evaluations of a run, from the right; real coordinates are followed by categories."""

    points: Array  # (..., N, k + m)
    values: Array  # (..., N), NaN where there is none yet, +inf where it failed

    @property
    def is_missing(self) -> NDArray[np.bool_]:
        """Where there is no evaluation yet (..., N)."""
        return np.isnan(self.values)

    @property
    def is_full(self) -> bool:
        """Whether there are N evaluations in each trial."""
        return not np.any(self.is_missing[..., 0])

    @property
    def ranks(self) -> Array:
        """The share of evaluations that are better (..., N), where ties count as halves."""
        mine, other = self.values[..., :, None], self.values[..., None, :]
        return np.mean((other < mine) + 0.5 * (other == mine), axis=-1)

    def after(self, points: Array, values: Array) -> Evaluations:
        """With further points (..., n, k + m) and their values (..., n)."""
        size, known = self.values.shape[-1], np.where(np.isnan(values), np.inf, values)
        return Evaluations(
            np.concatenate([self.points, points], axis=-2)[..., -size:, :],
            np.concatenate([self.values, known], axis=-1)[..., -size:],
        )

    def predict(self, points: Array, units: Array) -> Array:
        """Weighted average of the ranks of all evaluations (..., n) as seen from points (..., n, k + m).

        Weights are exp(−DECAY·δ), where δ is the mean over the variables of squared distances: of coordinates in these
        units (..., k), of categories 0 or 1.
        """
        k = units.shape[-1]
        here, there = points[..., :, None, :], self.points[..., None, :, :]
        squares = np.square((here[..., :k] - there[..., :k]) / units[..., None, None, :])
        differs = here[..., k:] != there[..., k:]
        distances = (np.sum(squares, axis=-1) + np.sum(differs, axis=-1)) / points.shape[-1]
        distances = np.where(self.is_missing[..., None, :], np.inf, distances)
        weights = np.exp(DECAY * (np.min(distances, axis=-1, keepdims=True) - distances))
        return np.vecdot(weights, self.ranks[..., None, :]) / np.sum(weights, axis=-1)


@dataclass(frozen=True, slots=True)
class Preselection(Transform):
    """Draw several candidates for each point of a sample, and evaluate the one whose neighbours have the best ranks.

    A generation of a few points says little, and a small budget has few generations: the evaluations of all of them
    say where it is not worth looking. Only ranks are used, so that increasing transforms of f change nothing. After the
    first 128 evaluations of a run, samples are left as they are.
    """

    needs_spectrum: ClassVar[bool] = False
    reads_points: ClassVar[bool] = True
    adds_points: ClassVar[bool] = True
    compares_generations: ClassVar[bool] = True
    capacity: ClassVar[int] = 128
    candidates: int = 3

    def init(self, theta: Family, sample_size: int) -> Evaluations:
        """No evaluations."""
        *batch, d = theta.center.shape
        missing = np.full((*batch, self.capacity), np.nan)
        return Evaluations(np.zeros((*batch, self.capacity, d)), missing)

    def add_points(self, memory: Evaluations, theta: Family, sample: Sample, noise: Noise) -> Sample:
        """The best of the candidates for each point."""
        if memory.is_full or np.all(memory.is_missing):
            return sample
        n = sample.z.shape[-2]
        more = theta.sample(noise, n * (self.candidates - 1))
        predicted = memory.predict(np.concatenate([sample.x, more.x], axis=-2), theta.deviations)
        best = np.argmin(predicted.reshape(*predicted.shape[:-1], self.candidates, n), axis=-2)
        rows: NDArray[np.intp] = (n * best + np.arange(n, dtype=np.intp))[..., None]
        z = np.take_along_axis(np.concatenate([sample.z, more.z], axis=-2), rows, axis=-2)
        if sample.choices is None or more.choices is None:
            return theta.sample_at(z)
        choices = np.concatenate([sample.choices, more.choices], axis=-2)
        return theta.sample_at(z, np.take_along_axis(choices, rows, axis=-2))

    def __call__(self, tangent: Tangent, memory: Evaluations, generation: Generation, /) -> tuple[Tangent, Evaluations]:
        """The tangent as it is, and the evaluations with those of the generation."""
        return tangent, memory if memory.is_full else memory.after(generation.sample.x, generation.values)
