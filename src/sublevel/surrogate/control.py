"""Which points of a generation are evaluated, and what a method is told: steps between `ask` and `tell`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, value_class
from sublevel.engine.constants import is_restricted
from sublevel.engine.families import Family, Sample
from sublevel.surrogate.archive import Archive, concordance, dense_ranks
from sublevel.surrogate.model import (
    Fit,
    Quadratic,
    count_coefficients,
    fit_quadratic,
    minimum_in_ball,
    most_uncertain,
    uncertainty,
)

Indices = NDArray[np.intp]


class Mirrors(Protocol):
    """A space that is mirrored at bounds: f has the same values at all images of a point, one in each cell."""

    def cells(self, u: Array) -> Array: ...  # the cell of each coordinate (..., d)
    def turns(self, u: Array, near: Array) -> Array: ...  # −1 (..., d) where the cells of u and `near` (d,) are images
    def image(self, u: Array, near: Array) -> Array: ...  # of u (..., d) in the cell of `near` (d,)
    def clip(self, u: Array, near: Array) -> Array: ...  # u (..., d), at the end of that cell if it is beyond


@dataclass(frozen=True, slots=True)
class Tuning:
    """Parameters of the control."""

    fits: tuple[Fit, ...] = (Fit(2.0, 20.0, 1.0), Fit(1.0, 20.0, 30.0))
    further: int = 4  # points above d that are evaluated before there is a model
    better: float = 0.75  # part of a sample, the better one by the model, of which points are evaluated first
    optimism: float | None = None  # κ of the point with the lowest q − κs, which is evaluated first instead
    threshold: float = 0.85  # agreement from which a model is accepted
    allowance: float = 0.5  # by which the agreement of a prediction may be lower
    growth: float = 0.5  # further evaluations after a model was not accepted, as a fraction of those so far
    judged: int = 15  # least number of evaluations from which agreement is computed
    memory: float = 0.9  # weight of the past in the scores of models
    lead: float = 0.01  # score by which the other model must be better
    trusted: float = 0.7  # score from which values of the model alone make a further step


DEFAULT = Tuning()
FEW = Tuning(fits=(Fit(2.0, 20.0, 1.0), Fit(1.25, 20.0, 10.0)), optimism=2.5)
FEW_VARIABLES = range(3, 8)
"""Numbers of variables with the parameters `FEW`: measured in 2, 3, 5, 7 and 10 variables (docs/surrogate.md)."""


def tuning_for(d: int) -> Tuning:
    """The parameters in d variables."""
    return FEW if d in FEW_VARIABLES else DEFAULT


@value_class
class Surrogate:
    """Archive and models between two generations."""

    archive: Archive
    theta: Family  # the frame of the models
    models: tuple[Quadratic, ...]
    scores: Array  # (models,), average agreement of predictions
    used: int  # the index of the model in use
    is_fitted: bool
    injects: bool  # whether the next sample contains the minimiser of the model
    agreement: float  # of the model in use with the last evaluations, Kendall's τ
    saved: int  # points told by model values alone, in all generations of the run

    @property
    def model(self) -> Quadratic:
        """The model in use."""
        return self.models[self.used]


@value_class
class Candidates:
    """A generation of which some points have been evaluated."""

    surrogate: Surrogate  # in the frame of the generation
    fold: Mirrors | None  # where the space of the search is mirrored
    z: Array  # (n, d), as the model sees them
    x: Array  # (n, d)
    values: Array  # (n,), NaN where they are not known
    known: NDArray[np.bool_]  # (n,)
    asked: Indices  # (k,), to be evaluated; empty at the end
    at_a_time: int  # evaluations in parallel

    @property
    def is_over(self) -> bool:
        """Whether the method can be told."""
        return self.asked.size == 0

    @property
    def predicted_values(self) -> Array:
        """Values (n,) by the model in use; +inf for points that failed or are expected to."""
        return predict_values(self.surrogate, self.z, self.fold)


def whiten(theta: Family, x: Array, fold: Mirrors | None) -> Array:
    """The whitened points (n, d) of search points (n, d), of their mirror images where bounds fold the space: the model
    is one of f between the bounds, on the side of the mean, and the images have the same values.
    """
    return theta.whiten(x if fold is None else fold.image(x, theta.mean))


def whitened_sample(theta: Family, sample: Sample, fold: Mirrors | None) -> Array:
    """The points (n, d) of a sample as the model sees them; exactly its z where they are no mirror images."""
    if fold is None:
        return sample.z
    is_mirrored = np.any(fold.cells(sample.x) != fold.cells(theta.mean), axis=1)
    if not is_mirrored.any():
        return sample.z
    return np.where(is_mirrored[:, None], whiten(theta, sample.x, fold), sample.z)


def usable_part(archive: Archive, theta: Family, fold: Mirrors | None) -> tuple[Archive, Array]:
    """The evaluations that a model is fitted to, those that did not fail, and their whitened points (n, d)."""
    usable = archive.take(archive.usable)
    return usable, whiten(theta, usable.x, fold)


def near_failures(z: Array, archive: Archive, theta: Family, fold: Mirrors | None) -> NDArray[np.bool_]:
    """Which whitened points (n, d) are expected to fail, because the nearest evaluation did."""
    usable = archive.usable
    if usable.all():
        return np.zeros(len(z), dtype=np.bool_)
    tried = whiten(theta, archive.x, fold)
    squares = np.einsum("ni,ni->n", tried, tried) - 2.0 * (z @ tried.T)  # up to ‖z‖²
    return ~usable[np.argmin(squares, axis=1)]


def begin_run(theta: Family, popsize: int, known: Archive | None, fold: Mirrors | None, tuning: Tuning) -> Surrogate:
    """The surrogate of a run that starts with θ, with a model of the known evaluations, if there are enough."""
    d = theta.dimension
    models = identity_models(d, tuning)
    empty = Surrogate(Archive.empty(d), theta, models, np.zeros(len(models)), 0, False, False, 0.0, 0)
    if known is None:
        return empty
    archive = nearest(known, theta, fold, capacity(d, popsize, tuning))
    usable, z = usable_part(archive, theta, fold)
    if usable.size < d + tuning.further:
        return empty
    return refit(replace(empty, archive=archive), usable, z, 0, popsize, tuning)


def nearest(known: Archive, theta: Family, fold: Mirrors | None, count: int) -> Archive:
    """The evaluations that are nearest to the mean of θ, the nearest one last."""
    z = whiten(theta, known.x, fold)
    order = np.argsort(-np.einsum("ni,ni->n", z, z), kind="stable")[-count:]
    return Archive(known.x[order], known.values[order])


def identity_models(d: int, tuning: Tuning) -> tuple[Quadratic, ...]:
    """Models before the first fit."""
    return tuple(Quadratic(np.zeros(d), np.eye(d)) for _ in tuning.fits)


def capacity(d: int, popsize: int, tuning: Tuning) -> int:
    """Evaluations that are kept."""
    return max(int(max(fit.points for fit in tuning.fits) * count_coefficients(d)), popsize)


def move_frame(surrogate: Surrogate, theta: Family, fold: Mirrors | None, tuning: Tuning) -> Surrogate:
    """The surrogate in the frame of another distribution, which may be the mirror image of the one before."""
    old, d = surrogate.theta, theta.dimension
    shift = whiten(old, theta.mean[None], fold)[0]
    root = theta.dense_root if fold is None else fold.turns(theta.mean, old.mean)[:, None] * theta.dense_root
    matrix = old.at_mean(np.zeros(d)).whiten(root.T).T
    models = tuple(model.move(shift, matrix) for model in surrogate.models)
    if not all(model.is_finite for model in models):
        models = identity_models(d, tuning)
        return replace(surrogate, theta=theta, models=models, is_fitted=False, injects=False)
    return replace(surrogate, theta=theta, models=models)


def injected_point(surrogate: Surrogate, fold: Mirrors | None) -> Array | None:
    """The whitened point (d,) that is added to the next sample, if the model was accepted.

    None if the covariance is isotropic or diagonal: it cannot take the shape of the model, all steps go along the
    valley, and the step size would grow without limit.
    """
    theta = surrogate.theta
    is_full = not is_restricted(theta.dimension, theta.degrees_of_freedom)
    return minimum_nearby(surrogate, fold) if surrogate.injects and is_full else None


def minimum_nearby(surrogate: Surrogate, fold: Mirrors | None) -> Array:
    """The minimiser (d,) of the model within the length of injected points (Hansen, arXiv:1110.4181), moved between the
    bounds if it is beyond: the model says nothing about what is there.
    """
    theta, d = surrogate.theta, surrogate.theta.dimension
    longest = sqrt(d) + 2 * d / (d + 2)
    minimum = minimum_in_ball(surrogate.model, longest)
    if fold is None:
        return minimum
    point = theta.push(minimum[None])
    inside = fold.clip(point, theta.mean)
    if np.array_equal(inside, point):
        return minimum
    minimum = theta.whiten(inside)[0]
    return minimum * (longest / max(float(np.linalg.norm(minimum)), longest))


def with_minimum(surrogate: Surrogate, sample: Sample, fold: Mirrors | None) -> Sample:
    """A sample of the distribution that is the frame of the model, with the minimiser as its last point."""
    minimum = injected_point(surrogate, fold)
    if minimum is None or near_failures(minimum[None], surrogate.archive, surrogate.theta, fold).any():
        return sample
    z = sample.z.copy()
    z[-1] = minimum
    return surrogate.theta.sample_at(z, sample.choices)


def begin_generation(
    surrogate: Surrogate, theta: Family, sample: Sample, fold: Mirrors | None, at_a_time: int, tuning: Tuning
) -> tuple[Sample, Candidates]:
    """The sample with the minimiser of the model as its last point, and the first points to evaluate."""
    surrogate = move_frame(surrogate, theta, fold, tuning)
    sample = with_minimum(surrogate, sample, fold)
    n, z = len(sample.z), whitened_sample(theta, sample, fold)
    known, nothing = np.zeros(n, dtype=bool), np.empty(0, dtype=np.intp)
    candidates = Candidates(surrogate, fold, z, sample.x, np.full(n, np.nan), known, nothing, at_a_time)
    return sample, replace(candidates, asked=first_points(candidates, tuning))


def first_points(candidates: Candidates, tuning: Tuning) -> Indices:
    """The point that may be the best, in 3 to 7 variables; otherwise the points of which the model is least certain,
    among the better ones by the model; of several, one is the best by the model. Without a model, as many as it takes
    to have one, and half of all points.
    """
    (n, d), count = candidates.z.shape, candidates.at_a_time
    surrogate = candidates.surrogate
    if not surrogate.is_fitted:
        return np.arange(min(n, max(d + tuning.further, -(-n // 2))), dtype=np.intp)
    values = candidates.predicted_values
    if tuning.optimism is not None and count == 1:
        deviations = np.sqrt(np.maximum(np.diagonal(covariance(candidates, candidates.z, tuning)), 0.0))
        return np.argmin(values - tuning.optimism * deviations, keepdims=True)
    usable = np.count_nonzero(values < np.inf)
    better = np.argsort(values, kind="stable")[: max(ceil(tuning.better * usable), count)]
    chosen = most_uncertain(covariance(candidates, candidates.z[better], tuning), min(count, n), first=int(count > 1))
    return better[chosen]


def covariance(candidates: Candidates, z: Array, tuning: Tuning) -> Array:
    """Covariance (m, m) of the values of the model in use at whitened points z (m, d)."""
    surrogate = candidates.surrogate
    archive, known = usable_part(surrogate.archive, surrogate.theta, candidates.fold)
    return uncertainty(z, known, archive.values, tuning.fits[surrogate.used])


def predict_values(surrogate: Surrogate, z: Array, fold: Mirrors | None) -> Array:
    """Values (n,) of whitened points (n, d) by the model in use; +inf for points that failed or are expected to."""
    fails = near_failures(z, surrogate.archive, surrogate.theta, fold)
    return np.where(fails, np.inf, surrogate.model(z))


def further_points(candidates: Candidates, tuning: Tuning) -> Indices:
    """The best of the points that are left, by the model."""
    unknown = np.flatnonzero(~candidates.known)
    evaluated = len(candidates.known) - unknown.size
    count = max(ceil(tuning.growth * evaluated), candidates.at_a_time)
    order = np.argsort(candidates.predicted_values[unknown], kind="stable")
    return unknown[order[:count]]


def add_values(candidates: Candidates, values: Array, tuning: Tuning) -> Candidates:
    """The generation after the values (k,) of the points asked; more points are asked unless the model is accepted."""
    before, asked = candidates.surrogate, candidates.asked
    n, d = candidates.z.shape
    known, numbers = candidates.known.copy(), candidates.values.copy()
    known[asked], numbers[asked] = True, values
    archive = before.archive.add(candidates.x[asked], values, capacity(d, n, tuning))
    usable, z = usable_part(archive, before.theta, candidates.fold)
    predicted = predict(before, z, usable, int(np.count_nonzero(values < np.inf)), tuning)
    scores, used = choose_model(before, predicted, tuning)
    surrogate = replace(before, archive=archive, scores=scores, used=used)
    after = replace(candidates, surrogate=surrogate, known=known, values=numbers)
    if usable.size < d + tuning.further:
        return replace(after, asked=np.flatnonzero(~known))
    t_p = predicted[used] if before.is_fitted else 1.0
    after = replace(after, surrogate=refit(surrogate, usable, z, int(np.sum(known)), n, tuning))
    is_accepted = min(after.surrogate.agreement, t_p + tuning.allowance) >= tuning.threshold
    return replace(after, asked=after.asked[:0] if is_accepted or known.all() else further_points(after, tuning))


def predict(before: Surrogate, z: Array, archive: Archive, new: int, tuning: Tuning) -> list[float]:
    """The agreement of each model with the last `new` evaluations, which it has not seen."""
    if not before.is_fitted:
        return [0.0 for _ in before.models]
    last = min(max(tuning.judged, new + 10), archive.size)
    ranks = dense_ranks(archive.values[-last:])
    return [concordance(ranks, model(z[-last:]), last - new) for model in before.models]


def choose_model(before: Surrogate, predicted: list[float], tuning: Tuning) -> tuple[Array, int]:
    """Scores of the models and the one in use after predictions with these agreements."""
    if not before.is_fitted:
        return before.scores, before.used
    scores = tuning.memory * before.scores + (1 - tuning.memory) * np.array(predicted)
    best = int(np.argmax(scores))
    return scores, best if scores[best] > scores[before.used] + tuning.lead else before.used


def refit(surrogate: Surrogate, archive: Archive, z: Array, evaluated: int, popsize: int, tuning: Tuning) -> Surrogate:
    """The surrogate with models fitted to the usable part of its archive, whose whitened points are z (n, d)."""
    d = z.shape[1]
    models = tuple(
        fit_quadratic(z, archive.values, how, model) for how, model in zip(tuning.fits, surrogate.models, strict=True)
    )
    if not all(model.is_finite for model in models):
        return replace(surrogate, models=identity_models(d, tuning), is_fitted=False, agreement=0.0)
    last = min(max(tuning.judged, int(min(1.2 * evaluated, 0.75 * popsize))), archive.size)
    agreement = concordance(dense_ranks(archive.values[-last:]), models[surrogate.used](z[-last:]))
    return replace(surrogate, models=models, is_fitted=True, agreement=agreement)


def end_generation(candidates: Candidates, tuning: Tuning) -> tuple[Array, Surrogate]:
    """The values (n,) that the method is told, and the surrogate for the next generation."""
    surrogate, known = candidates.surrogate, candidates.known
    if known.all():
        injects = surrogate.is_fitted and surrogate.agreement >= tuning.threshold
        return candidates.values, replace(surrogate, injects=injects)
    saved = surrogate.saved + int(np.sum(~known))
    return candidates.predicted_values, replace(surrogate, injects=True, saved=saved)


def is_trusted(surrogate: Surrogate, at_a_time: int, tuning: Tuning) -> bool:
    """Whether a generation is followed by a step with values of the model alone: if several points are evaluated at a
    time and the model predicts their order well, more steps are needed rather than more evaluations.
    """
    return at_a_time > 1 and surrogate.injects and float(surrogate.scores[surrogate.used]) >= tuning.trusted


def model_generation(
    surrogate: Surrogate, theta: Family, sample: Sample, fold: Mirrors | None, tuning: Tuning
) -> tuple[Sample, Array] | None:
    """The sample of θ with the minimiser of the model as its last point, and its values (n,) by the model; None if the
    model has no finite coefficients in the frame of θ.
    """
    moved = move_frame(surrogate, theta, fold, tuning)
    sample = with_minimum(moved, sample, fold)
    if not moved.is_fitted:
        return None
    return sample, predict_values(moved, whitened_sample(theta, sample, fold), fold)
