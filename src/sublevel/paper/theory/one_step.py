"""Averages over one step of a method on xᵀx from random C and m: what the stationary law is determined by.

The step is that of the engine: C⁺ = A(I − B)Aᵀ and m⁺ = m + As, with B and s computed from a sample z by the weight
rule and the learning rates. On xᵀHx with another Hessian H the law of √H C √H and √H m is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian, GaussianSample
from sublevel.engine.method import Method, natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.sampling import Sampling
from sublevel.engine.tangent import Tangent
from sublevel.engine.transforms import Generation
from sublevel.paper.theory.checks import covariance_part
from sublevel.paper.theory.wishart import Shapes, anisotropy, power_of_two, shape_count, shapes

SEED = 2012
"""Of the samples that expectations over a step are averages over; they are the same for all C and m."""
COORDINATES, FEWEST = 4_000_000, 8
"""Coordinates of all points in such an average, and the smallest number of samples."""
BATCH = 200_000
"""Coordinates of the points that are held at a time."""


@dataclass(frozen=True, slots=True)
class StepAverages:
    """Averages over C, m and a sample, for tr C = d. I + X = C and I + Y ∝ C⁻¹ have the trace d."""

    shrinkage: float  # E tr B/d
    restoring: float  # E tr (X − Y)B/d, by which log(tr C·tr C⁻¹) falls to first order in B
    widening: float  # by which it rises by the higher orders
    anisotropy: float  # E tr X(X − Y)/d of the spectra that were used
    pull: float  # a_m = −E sᵀAᵀm / E mᵀCm
    mean_square: float  # E ‖m‖²
    moment_changes: tuple[float, float]  # E of the changes of ‖m‖² and mᵀCm, in units of tr C/d before and after
    exponent: float  # E log det(I − B)/d
    error: float  # its standard error
    spread: float  # standard deviation of log det(I − B)/d

    @property
    def response(self) -> float:
        """χ, the part of X that B shows: 1 for the exact natural gradient, for which B ∝ I + X."""
        return self.restoring / (self.shrinkage * self.anisotropy)


def sample_count(d: int, n: int) -> int:
    """The number of samples in an average, a power of 2 and at most one for each shape."""
    return min(shape_count(d), max(FEWEST, power_of_two(COORDINATES // (n * d))))


def step_of(method: Method, theta: FullGaussian, sample: GaussianSample, values: Array) -> tuple[Array, Array]:
    """B (k, d, d) and s (k, d) for values (k, n) of samples."""
    ranks = ranking(values)
    weighting = method.weights(ranks, sample)
    generation = Generation(theta, sample, values, ranks, weighting)
    tangent: Tangent = natural_gradient(sample.z, weighting)
    for transform in method.transforms:
        memory = transform.init(theta, sample.z.shape[-2])
        tangent, _ = transform(tangent, memory, generation)
    return -covariance_part(tangent), tangent.mean


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a method, with the numbers that C and m are made of, and the step from C = I, m = 0 for each.

    These steps do not depend on C and m. Their product with X, or with m, has the expectation 0 and is subtracted, so
    that only what C and m change in a step adds to the error of an average.
    """

    method: Method
    n: int
    shapes: Shapes  # at least as many as samples
    diagonals: Array  # (k, d), of B at C = I, m = 0
    steps: Array  # (k, d), s there

    @classmethod
    def draw(cls, method: Method, d: int, n: int, count: int) -> Samples:
        """`count` samples for the dimension d."""
        zeros = np.zeros((count, d))
        parts = [
            step_of(method, *at(zeros[place], 1.0 + zeros[place], z))
            for place, z in batches(method.sampling, count, n, d)
        ]
        diagonals = np.concatenate([np.diagonal(change, axis1=-2, axis2=-1) for change, _ in parts])
        return cls(method, n, shapes(d).first(count), diagonals, np.concatenate([step for _, step in parts]))

    def average(self, eigenvalues: Array, variances: Array) -> StepAverages:
        """Averages for C with some of these spectra (≥ k, d), and m normal with E[mmᵀ|C] = k₀I + k₁C⁻¹."""
        count, d = self.steps.shape
        spectra = eigenvalues[:count]
        means = np.sqrt(np.maximum(variances[0] + variances[1] / spectra, 0.0)) * self.shapes.normals[:count]
        rows: list[Array] = []
        for place, z in batches(self.method.sampling, count, self.n, d):
            mean, spectrum = means[place], spectra[place]
            change, step = step_of(self.method, *at(mean, spectrum, z))
            changes = shape_numbers(change, spectrum, self.diagonals[place])
            moments = mean_numbers(change, step, spectrum, mean, self.steps[place])
            rows.append(np.concatenate([changes, moments], axis=-1))
        return _averages(np.concatenate(rows), anisotropy(spectra))


def batches(sampling: Sampling, count: int, n: int, d: int) -> Iterator[tuple[slice, Array]]:
    """Whitened points z (b, n, d) of some samples at a time, with the place of these samples among all."""
    rng = np.random.Generator(np.random.SFC64(SEED))
    size = max(1, BATCH // (n * d))
    for first in range(0, count, size):
        place = slice(first, min(count, first + size))
        yield place, sampling.draw(rng, (place.stop - first, n, d))


def at(mean: Array, spectrum: Array, z: Array) -> tuple[FullGaussian, GaussianSample, Array]:
    """N(m, C) for C with this spectrum, its sample for z, and the values of xᵀx."""
    theta = FullGaussian.start(mean, np.sqrt(spectrum))
    sample = theta.sample_at(z)
    return theta, sample, np.vecdot(sample.x, sample.x)


def shape_numbers(change: Array, spectrum: Array, reference: Array) -> Array:
    """tr B/d, tr (X − Y)B/d, the terms of higher order, and log det(I − B)/d of each sample (k, 4).

    `reference` (k, d) is the diagonal of B at C = I, m = 0.
    """
    values, vectors = np.linalg.eigh(change)
    inverse = 1.0 / spectrum
    inverse /= np.mean(inverse, axis=-1, keepdims=True)  # I + Y
    diagonal = np.diagonal(change, axis1=-2, axis2=-1)
    trace, inverse_trace = np.mean(diagonal * spectrum, axis=-1), np.mean(diagonal * inverse, axis=-1)
    weights = (np.square(vectors.mT) @ inverse[..., None])[..., 0]  # of the eigenvalues of (I − B)⁻¹
    grown = np.mean(weights / (1.0 - values), axis=-1)  # tr C⁺⁻¹/tr C⁻¹
    return np.stack(
        [
            np.mean(values, axis=-1),
            np.mean((diagonal - reference) * (spectrum - inverse), axis=-1),
            np.log1p(-trace) + trace + np.log(grown) - inverse_trace,
            np.mean(np.log1p(-values), axis=-1),
        ],
        axis=-1,
    )


def mean_numbers(change: Array, step: Array, spectrum: Array, mean: Array, reference: Array) -> Array:
    """−sᵀAᵀm, mᵀCm, ‖m‖², and the changes of the latter two in units of tr C/d (k, 5), with s less `reference`."""
    root = np.sqrt(spectrum)
    image, moved = root * mean, mean + root * step  # Aᵀm, m⁺
    scale = 1.0 - np.mean(np.diagonal(change, axis1=-2, axis2=-1) * spectrum, axis=-1)  # tr C⁺/tr C
    moved_image = root * moved
    square, form = np.vecdot(mean, mean), np.vecdot(image, image)
    new_form = np.vecdot(moved_image, moved_image) - np.vecdot(moved_image, (change @ moved_image[..., None])[..., 0])
    return np.stack(
        [
            np.vecdot(reference - step, image),
            form,
            square,
            np.vecdot(moved, moved) / scale - square - 2.0 * np.vecdot(image, reference),
            new_form / np.square(scale) - form - 2.0 * np.vecdot(spectrum * image, reference),
        ],
        axis=-1,
    )


def _averages(rows: Array, spectra_anisotropy: float) -> StepAverages:
    means = [float(mean) for mean in np.mean(rows, axis=0)]
    shrinkage, restoring, widening, exponent, pull, form, square, *changes = means
    spread = float(np.std(rows[:, 3], ddof=1))
    return StepAverages(
        shrinkage=shrinkage,
        restoring=restoring,
        widening=widening,
        anisotropy=spectra_anisotropy,
        pull=pull / form,
        mean_square=square,
        moment_changes=(changes[0], changes[1]),
        exponent=exponent,
        error=spread / np.sqrt(len(rows)),
        spread=spread,
    )
