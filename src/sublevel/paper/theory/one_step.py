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
from sublevel.engine.method import Method
from sublevel.engine.ordering import ranking
from sublevel.engine.tangent import Tangent, natural_gradient
from sublevel.engine.transforms import Generation
from sublevel.paper.theory.checks import covariance_part

SEED = 2012
"""Of the samples that expectations over a step are averages over; they are the same for all C and m."""
COORDINATES, ENTRIES, FEWEST, MOST = 1_000_000, 100_000, 4, 4000
"""Coordinates of all points in such an average, entries of all matrices B, and the range of the number of samples.

An average over matrices of d² entries is the more precise the larger d is.
"""
BATCH = 500_000
"""Coordinates of the points that are held at a time."""


@dataclass(frozen=True, slots=True)
class StepAverages:
    """Averages over C, m and a sample, for tr C = d."""

    shrinkage: float  # E tr B/d
    log_volume: float  # E log det(I − B)/d + E tr B/d, of second order in B
    log_trace: float  # E log(tr C⁺/tr C) + E tr CB/d, of second order in B
    step_square: float  # E ‖s‖²
    mean_square: float  # E ‖m‖²
    mean_form: float  # E mᵀCm
    error: float  # standard error of the average of log det(I − B)/d
    spread: float  # standard deviation of log det(I − B)/d


@dataclass(frozen=True, slots=True)
class Response:
    """How the expected step depends on C and m: E B = (E tr B/d)·(I + χX) at C = I + X, and E s = −a_m Aᵀm.

    χ = 1 for the exact natural gradient, and a_m = 2E tr B/(d·c_C) at the paper's rates.
    """

    shape: float  # χ
    mean: float  # a_m


def sample_count(d: int, n: int) -> int:
    """The number of samples in an average."""
    return int(np.clip(min(COORDINATES // (n * d), ENTRIES // d**2), FEWEST, MOST))


def batches(d: int, n: int, seed: int) -> Iterator[tuple[slice, Array, np.random.Generator]]:
    """Whitened points z (k, n, d) of some samples at a time, with the place of these samples among all."""
    rng = np.random.Generator(np.random.SFC64(seed))
    count, size = sample_count(d, n), max(1, BATCH // (n * d))
    for first in range(0, count, size):
        place = slice(first, min(count, first + size))
        yield place, rng.standard_normal((place.stop - first, n, d)), rng


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


def average_step(method: Method, n: int, eigenvalues: Array, variances: Array) -> StepAverages:
    """Averages for C with these eigenvalues (k, d), and m normal with these variances (k, d) along the axes of C."""
    d = eigenvalues.shape[-1]
    rows: list[Array] = []
    eigenvalues, variances = (np.resize(array, (sample_count(d, n), d)) for array in (eigenvalues, variances))
    for place, z, rng in batches(d, n, SEED):
        spectrum = eigenvalues[place]
        mean = np.sqrt(variances[place]) * rng.standard_normal(spectrum.shape)
        theta = FullGaussian.start(mean, np.sqrt(spectrum))
        sample = theta.sample_at(z)
        change, step = step_of(method, theta, sample, np.vecdot(sample.x, sample.x))
        rows.append(_step_numbers(change, step, spectrum, mean))
    return _averages(np.concatenate(rows))


def _step_numbers(change: Array, step: Array, spectrum: Array, mean: Array) -> Array:
    """The numbers of each sample (k, 6) whose averages are wanted."""
    values = np.linalg.eigvalsh(change)
    shrinkage = np.mean(values, axis=-1)
    trace = np.mean(np.diagonal(change, axis1=-2, axis2=-1) * spectrum, axis=-1)
    image = np.sqrt(spectrum) * mean  # Aᵀm
    return np.stack(
        [
            shrinkage,
            np.mean(np.log1p(-values), axis=-1),
            np.log1p(-trace) + trace,
            np.vecdot(step, step),
            np.vecdot(mean, mean),
            np.vecdot(image, image),
        ],
        axis=-1,
    )


def _averages(rows: Array) -> StepAverages:
    shrinkage, log_volume, log_trace, step_square, mean_square, mean_form = (
        float(mean) for mean in np.mean(rows, axis=0)
    )
    spread = float(np.std(rows[:, 1], ddof=1))
    moments = (step_square, mean_square, mean_form)
    return StepAverages(shrinkage, log_volume + shrinkage, log_trace, *moments, spread / np.sqrt(len(rows)), spread)


def response(method: Method, d: int, n: int, freedom: float, mean_form: float) -> Response:
    """χ and a_m for symmetric X with the trace 0 and entries of variance 1/ν, and ‖Aᵀm‖² = `mean_form`.

    The values at (X, m) and (−X, −m) use the same points, so that what does not depend on X and m cancels.
    """
    work = square = shrinkage = pull = 0.0
    for _, z, rng in batches(d, n, SEED + 1):
        x = _traceless(rng.standard_normal((len(z), d, d))) / np.sqrt(freedom)
        theta = FullGaussian.start(np.zeros((len(z), d)), np.ones((len(z), d)))
        sample = theta.sample_at(z)
        tilt = np.vecdot(z @ x, z) + 2.0 * np.sqrt(mean_form) * z[..., 0]
        square += float(np.sum(np.square(x)))
        for sign in (0.5, -0.5):
            change, step = step_of(method, theta, sample, sample.squares + 2.0 * sign * tilt)
            work += sign * float(np.sum(x * change))
            pull -= sign * float(np.sum(step[..., 0]))
            shrinkage += 0.5 * float(np.sum(np.trace(change, axis1=-2, axis2=-1))) / d
    count = sample_count(d, n)
    return Response(shape=work / square * count / shrinkage, mean=pull / count / np.sqrt(mean_form))


def _traceless(normals: Array) -> Array:
    """Symmetric matrices (k, d, d) with entries of variance 1 off the diagonal, less their trace."""
    x = (normals + normals.mT) / np.sqrt(2.0)
    d = x.shape[-1]
    return x - np.trace(x, axis1=-2, axis2=-1)[:, None, None] / d * np.eye(d)
