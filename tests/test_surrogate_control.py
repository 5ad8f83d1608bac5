"""The control of a surrogate against its rules in plain loops: when a model is accepted, which points are evaluated
otherwise, and what is injected; and its models between bounds, where the space is mirrored.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sublevel as sl
from sublevel.engine.families import FAMILIES, FullGaussian
from sublevel.run.search_space import Fold
from sublevel.surrogate.control import (
    add_values,
    begin_generation,
    begin_run,
    end_generation,
    minimum_nearby,
    move_frame,
    tuning_for,
    whiten,
    whitened_sample,
)
from sublevel.surrogate.model import Quadratic

# The rules of docs/surrogate.md, after lq-CMA-ES (Hansen, GECCO 2019)


def kendall(values, predicted, first_new=0):
    """τ over the pairs of different values with a new point; 0 without such a pair."""
    agree = pairs = 0
    for j in range(first_new, len(values)):
        for i in range(j):
            truth = np.sign(values[j] - values[i])
            pairs += abs(truth)
            agree += truth * np.sign(predicted[j] - predicted[i])
    return agree / pairs if pairs else 0.0


class Rules:
    """The control of a generation of n points, given the models that are fitted on the way."""

    threshold, allowance = 0.85, 0.5

    def __init__(self, n, scores, used, values, z):
        self.n, self.scores, self.used, self.evaluated = n, list(scores), used, 0
        self.values, self.z = list(values), list(z)  # of the last evaluations
        d = len(self.z[0]) if self.z else 1
        self.kept = max((d + 1) * (d + 2), n)

    def predict(self, models, values, z):
        """Take new evaluations, and judge what the models before said about them."""
        self.values = [*self.values, *values][-self.kept :]
        self.z = [*self.z, *z][-self.kept :]
        self.evaluated += len(values)
        last = min(max(15, len(values) + 10), len(self.values))
        recent = np.array(self.z[-last:])
        found = [kendall(self.values[-last:], model(recent), last - len(values)) for model in models]
        self.scores = [0.9 * score + 0.1 * tau for score, tau in zip(self.scores, found, strict=True)]
        best = max(range(len(models)), key=lambda index: self.scores[index])
        if self.scores[best] > self.scores[self.used] + 0.01:
            self.used = best
        return found[self.used]

    def agreement(self, model):
        """τ of the model with the last evaluations."""
        last = min(max(15, int(min(1.2 * self.evaluated, 0.75 * self.n))), len(self.values))
        return kendall(self.values[-last:], model(np.array(self.z[-last:])))

    def next_points(self, model, predicted, unknown, z):
        """None if the model is accepted, else the best half as many as so far, by the model."""
        if self.agreement(model) >= self.threshold and predicted + self.allowance >= self.threshold:
            return []
        order = sorted(unknown, key=lambda index: model(z[index][None])[0])
        return order[: ceil(self.evaluated / 2)]


def play(d, noise, seed, generations=40):
    """Generations of an unchanged distribution on a quadratic with noise, checked against the rules; how they ended."""
    rng, n, tuning = np.random.default_rng(seed), 12, tuning_for(d)
    theta = FullGaussian.start(np.zeros(d), np.ones(d))
    surrogate, endings = begin_run(theta, n, None, None, tuning), []
    for _ in range(generations):
        sample = theta.sample(rng, n)
        was_fitted, archive = surrogate.is_fitted, surrogate.archive
        rules = Rules(n, surrogate.scores, surrogate.used, archive.values, archive.x)
        sample, candidates = begin_generation(surrogate, theta, sample, None, 1, tuning)
        while not candidates.is_over:
            asked, before = candidates.asked, candidates
            values = np.sum(np.arange(1, d + 1) * (sample.x[asked] - 1.0) ** 2, axis=1)
            values = values + noise * rng.standard_normal(asked.size)
            candidates = add_values(candidates, values, tuning)
            if was_fitted:
                predicted = rules.predict(before.surrogate.models, values, sample.x[asked])
                after = candidates.surrogate
                assert after.used == rules.used
                assert_allclose(after.scores, rules.scores, rtol=1e-12, atol=1e-15)
                assert after.agreement == pytest.approx(rules.agreement(after.model), rel=1e-12, abs=1e-15)
                unknown = np.flatnonzero(~candidates.known)
                assert list(candidates.asked) == rules.next_points(after.model, predicted, unknown, sample.x)
        _, surrogate = end_generation(candidates, tuning)
        if was_fitted:
            is_accepted = not candidates.known.all()
            assert surrogate.injects == (is_accepted or surrogate.agreement >= rules.threshold)
            endings.append((is_accepted, surrogate.injects))
    return endings


@pytest.mark.parametrize("d", [2, 4])
def test_models_are_accepted_by_the_rules(d):
    endings = [ending for seed, noise in enumerate([0.0, 1.0, 3.0, 10.0]) for ending in play(d, noise, seed)]
    assert {(True, True), (False, True), (False, False)} <= set(endings)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_injected_points_have_at_most_the_length_of_their_paper(d, rng):
    """√d + 2d/(d + 2): Hansen, arXiv:1110.4181, section 3."""
    theta = FullGaussian.start(np.zeros(d), np.ones(d))
    empty, direction = begin_run(theta, 10, None, None, tuning_for(d)), rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    longest = sqrt(d) + 2 * d / (d + 2)
    for distance in (0.1, 0.99 * longest, 1.01 * longest, 100.0):
        models = tuple(Quadratic(-2 * distance * direction, np.eye(d)) for _ in empty.models)
        found = minimum_nearby(replace(empty, models=models), None)
        assert_allclose(found, min(distance, longest) * direction, rtol=1e-9, atol=1e-12)


# Between bounds


BOUNDS = Fold(np.array([0.0, -1.0, -np.inf, -np.inf]), np.array([1.0, np.inf, 2.0, np.inf]), np.full(4, 0.01))
"""Two bounds, one, the other one, and none."""


def some_theta(rng, family=FullGaussian):
    """A distribution somewhere, often beyond a bound."""
    root = np.eye(4) + 0.5 * rng.standard_normal((4, 4))
    return family.start(rng.uniform(-3.0, 3.0, 4), rng.uniform(0.05, 0.3, 4), root if family is FullGaussian else None)


def random_models(surrogate, rng):
    """The surrogate with models of random coefficients."""
    d = surrogate.theta.dimension
    models = tuple(Quadratic(rng.standard_normal(d), rng.standard_normal((d, d))) for _ in surrogate.models)
    return replace(surrogate, models=tuple(Quadratic(model.g, model.H + model.H.T) for model in models))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.__name__)
def test_a_model_has_the_same_differences_from_every_side_of_a_bound(family, rng):
    tuning = tuning_for(4)
    for _ in range(20):
        before, after = some_theta(rng, family), some_theta(rng, family)
        surrogate = random_models(begin_run(before, 10, None, BOUNDS, tuning), rng)
        moved = move_frame(surrogate, after, BOUNDS, tuning)
        x = rng.uniform(-3.0, 3.0, (30, 4))
        old, new = surrogate.model(whiten(before, x, BOUNDS)), moved.model(whiten(after, x, BOUNDS))
        assert_allclose(np.diff(new), np.diff(old), rtol=1e-7, atol=1e-9 * np.ptp(old))


def test_the_model_sees_the_images_between_the_bounds(rng):
    for _ in range(20):
        theta = some_theta(rng)
        sample = theta.sample(rng, 50)
        z = whitened_sample(theta, sample, BOUNDS)
        x = theta.push(z)
        assert_allclose(BOUNDS(x), BOUNDS(sample.x), rtol=0, atol=1e-9)
        stays = (BOUNDS.cells(sample.x) == BOUNDS.cells(theta.mean)).all(axis=1)
        assert_array_equal(z[stays], sample.z[stays])
        vertices = BOUNDS.clip(x, theta.mean)
        assert_allclose(x, vertices, rtol=0, atol=1e-9)


def test_the_minimum_of_the_model_is_between_the_bounds(rng):
    longest, on_bounds = 2.0 + 8.0 / 6.0, 0
    for _ in range(40):
        theta = some_theta(rng)
        surrogate = random_models(begin_run(theta, 10, None, BOUNDS, tuning_for(4)), rng)
        minimum = minimum_nearby(surrogate, BOUNDS)
        x = theta.push(minimum[None])[0]
        assert np.linalg.norm(minimum) <= longest * (1 + 1e-9)
        assert_allclose(x, BOUNDS.clip(x, theta.mean), rtol=0, atol=1e-9)
        on_bounds += not np.array_equal(minimum, minimum_nearby(surrogate, None))
    assert 5 < on_bounds < 40


LOW = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
HIGH = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])


def borehole(u):
    """309.6 minus the flow of water through a borehole, in a unit box: 0.0244 in a corner, and hardly a function of
    some of the variables.
    """
    radius, reach, upper, head, lower, sink, length, conductivity = LOW + (HIGH - LOW) * u
    log_ratio = np.log(reach / radius)
    leak = 2 * length * upper / (log_ratio * radius**2 * conductivity)
    return 309.6 - 2 * np.pi * upper * (head - sink) / (log_ratio * (1 + leak + upper / lower))


def weighted_sum(u):
    return float(np.sum(u * 10.0 ** np.linspace(0, 2, u.size)))


@pytest.mark.parametrize(("fun", "d", "target"), [(borehole, 8, 0.0245), (weighted_sum, 10, 1e-5)])
@pytest.mark.parametrize("seed", range(3))
def test_a_minimum_in_a_corner_takes_fewer_evaluations(fun, d, target, seed):
    x0 = np.random.default_rng(50 + seed).uniform(0.15, 0.85, d)
    options = {"bounds": (0, 1), "maxfevals": 8000, "rng": seed, "ftarget": target}
    plain, modelled = (sl.minimize(fun, x0, 0.25, surrogate=s, **options) for s in (False, True))
    assert plain.success
    assert modelled.success
    assert plain.nfev > 5 * modelled.nfev
