"""The control of a surrogate against its rules in plain loops: when a model is accepted, which points are evaluated
otherwise, and what is injected; and its models between bounds, where the space is mirrored.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

import sublevel as sl
from sublevel.engine.families import FAMILIES, FullGaussian
from sublevel.run.search_space import Fold
from sublevel.surrogate.archive import Archive
from sublevel.surrogate.control import (
    add_values,
    begin_generation,
    begin_run,
    end_generation,
    minimum_nearby,
    model_generation,
    move_frame,
    tuning_for,
    whiten,
    whitened_sample,
)
from sublevel.surrogate.model import Quadratic
from sublevel.surrogate.result import describe_surrogate

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
        self.tried = list(zip(values, z, strict=True))  # the last evaluations, with those that failed
        self.kept = max((z.shape[1] + 1) * (z.shape[1] + 2), n)

    @property
    def usable(self):
        """Values and points of the evaluations that did not fail; models are judged by them alone."""
        return [(value, z) for value, z in self.tried if value < np.inf]

    def predict(self, models, values, z):
        """Take new evaluations, and judge what the models before said about them."""
        self.tried = [*self.tried, *zip(values, z, strict=True)][-self.kept :]
        self.evaluated += len(values)
        new = sum(value < np.inf for value in values)
        last = min(max(15, new + 10), len(self.usable))
        recent, points = zip(*self.usable[-last:], strict=True)
        found = [kendall(recent, model(np.array(points)), last - new) for model in models]
        self.scores = [0.9 * score + 0.1 * tau for score, tau in zip(self.scores, found, strict=True)]
        best = max(range(len(models)), key=lambda index: self.scores[index])
        if self.scores[best] > self.scores[self.used] + 0.01:
            self.used = best
        return found[self.used]

    def agreement(self, model):
        """τ of the model with the last evaluations."""
        last = min(max(15, int(min(1.2 * self.evaluated, 0.75 * self.n))), len(self.usable))
        recent, points = zip(*self.usable[-last:], strict=True)
        return kendall(recent, model(np.array(points)))

    def values_of(self, model, z):
        """What the model says about points; infinity if the nearest evaluation failed."""
        values = []
        for point in z:
            nearest = min(self.tried, key=lambda one: np.linalg.norm(one[1] - point))
            values.append(model(point[None])[0] if nearest[0] < np.inf else np.inf)
        return values

    def next_points(self, model, predicted, unknown, z):
        """None if the model is accepted, else the best half as many as so far, by the model."""
        if self.agreement(model) >= self.threshold and predicted + self.allowance >= self.threshold:
            return []
        values = self.values_of(model, z)
        return sorted(unknown, key=lambda index: values[index])[: ceil(self.evaluated / 2)]


def play(d, noise, wall, seed, generations=40):
    """Generations of an unchanged distribution on a quadratic with noise, which fails beyond a wall, checked against
    the rules; how they ended.
    """
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
            values = np.where(sample.x[asked, 0] < wall, values + noise * rng.standard_normal(asked.size), np.nan)
            candidates = add_values(candidates, values, tuning)
            if was_fitted:
                predicted = rules.predict(before.surrogate.models, values, sample.x[asked])
                after = candidates.surrogate
                assert after.used == rules.used
                assert_allclose(after.scores, rules.scores, rtol=1e-12, atol=1e-15)
                unknown = np.flatnonzero(~candidates.known)
                if len(rules.usable) < d + 4:
                    assert_array_equal(candidates.asked, unknown)  # too few for a model
                    continue
                assert after.agreement == pytest.approx(rules.agreement(after.model), rel=1e-12, abs=1e-15)
                assert list(candidates.asked) == rules.next_points(after.model, predicted, unknown, sample.x)
        told, surrogate = end_generation(candidates, tuning)
        if was_fitted:
            expected = candidates.values
            if not candidates.known.all():
                expected = rules.values_of(surrogate.model, sample.x)
            assert_allclose(told, expected, rtol=1e-12)
            is_accepted = not candidates.known.all()
            assert surrogate.injects == (is_accepted or surrogate.agreement >= rules.threshold)
            endings.append((is_accepted, surrogate.injects))
    return endings


@pytest.mark.parametrize("wall", [np.inf, 0.8, 0.0])
@pytest.mark.parametrize("d", [2, 4])
def test_models_are_accepted_by_the_rules(d, wall):
    endings = [ending for seed, noise in enumerate([0.0, 1.0, 3.0, 10.0]) for ending in play(d, noise, wall, seed)]
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


# Failures


def beyond(fun, wall):
    """A function that fails where the wall is positive."""
    return lambda x: fun(x) if wall(x) <= 0 else np.nan


TURN = np.linalg.qr(np.random.default_rng(5).standard_normal((5, 5)))[0]
SCALES = 10.0 ** np.linspace(0, 3, 5)


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_points_next_to_failures_are_worst_and_not_injected(at_a_time, rng):
    """Also in a step with values of the model alone."""
    d, tuning = 3, tuning_for(3)
    theta = FullGaussian.start(np.zeros(d), np.ones(d))
    x = rng.standard_normal((200, d))
    values = np.where(x[:, 0] < 0.5, -x[:, 0], np.nan)  # falls towards the wall
    surrogate = replace(begin_run(theta, 10, Archive(x, values), None, tuning), injects=True)
    sample = theta.sample_at(rng.standard_normal((10, d)))
    told_sample, told = model_generation(surrogate, theta, sample, None, tuning)
    assert_array_equal(told_sample.z, sample.z)  # the minimum of the model is beyond the wall
    archive = surrogate.archive
    for point, value in zip(sample.x, told, strict=True):
        nearest = np.argmin(np.linalg.norm(archive.x - point, axis=1))
        assert np.isinf(value) == np.isnan(archive.values[nearest])
    assert 0 < np.count_nonzero(np.isinf(told)) < 10
    _, candidates = begin_generation(surrogate, theta, sample, None, at_a_time, tuning)
    assert np.isfinite(told[candidates.asked]).all()


WALLS = {
    "sphere": (beyond(lambda x: x @ x, lambda x: 1 - x.sum()), 6, (0.4, 1.2), 1 / 6 + 1e-5),
    "ellipsoid": (beyond(lambda x: SCALES @ (TURN @ (x - 1)) ** 2, lambda x: 5 - x.sum()), 5, (1.1, 2.0), 1e-6),
}
"""A function with its minimum at a wall of failures, number of variables, where it starts, and a target."""


@pytest.mark.parametrize("name", WALLS)
def test_a_minimum_at_a_wall_of_failures_takes_fewer_evaluations(name):
    fun, d, start, target = WALLS[name]

    def evaluations(seed, surrogate):
        x0, options = np.random.default_rng(seed).uniform(*start, d), {"maxfevals": 4000, "rng": seed}
        result = sl.minimize(fun, x0, 0.5, surrogate=surrogate, ftarget=target, **options)
        assert result.success
        return result.nfev

    plain, modelled = (sum(evaluations(seed, surrogate) for seed in range(3)) for surrogate in (False, True))
    assert plain > 1.5 * modelled


def prey_and_predators(log_p):
    """Solutions of Lotka and Volterra's equations; none where a rate is more than three times another."""
    times = np.linspace(0, 20, 41)
    a, b, d, g, *start = np.exp(log_p)
    if a > 3 * b or d * start[0] > 1.35 or np.max(log_p) > np.log(60):
        return np.full((2, times.size), np.nan)
    return solve_ivp(
        lambda t, y: [a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - g * y[1]],
        (0, 20),
        start,
        t_eval=times,
        rtol=1e-6,
        atol=1e-6,
        method="LSODA",
    ).y


@pytest.mark.parametrize("seed", range(2))
def test_a_search_leaves_a_wall_of_failures_beside_its_start(seed):
    truth = np.log([1.1, 0.4, 0.1, 0.4, 10.0, 5.0])
    data = prey_and_predators(truth)
    x0 = np.log([0.841, 0.285, 0.194, 0.521, 6.457, 6.934])

    def misfit(log_p):
        return float(np.sum((prey_and_predators(log_p) - data) ** 2))

    result = sl.minimize(misfit, x0, 0.3, rng=seed, surrogate=True, maxfevals=1000, ftarget=1.0)
    assert result.success
    assert result.failures


@pytest.mark.parametrize("at_a_time", [1, 4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_run_goes_on_when_all_remembered_evaluations_have_failed(d, at_a_time):
    opt, told = sl.Optimizer(np.ones(d), 0.3, rng=1, surrogate=at_a_time), 0
    while not opt.stop():
        X = opt.ask()
        opt.tell(X, [float(x @ x) if told + k < 60 else np.nan for k, x in enumerate(X)])
        told += len(X)
    assert opt.run_state.surrogate.is_fitted
    assert not opt.run_state.surrogate.archive.usable.any()
    assert describe_surrogate(opt.run_state.surrogate, None).evaluations == 0
    assert np.isfinite(opt.best_fun)


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


@pytest.mark.parametrize("seed", range(4))
def test_the_hessian_of_a_result_has_the_signs_of_the_space_between_the_bounds(seed):
    hessian, minimum = np.array([[2.0, 1.6, 0.0], [1.6, 2.0, 0.7], [0.0, 0.7, 1.0]]), np.array([0.005, 0.3, 0.4])

    def fun(x):
        return float((x - minimum) @ hessian @ (x - minimum))

    result = sl.minimize(fun, [0.02, 0.5, 0.5], 0.3, bounds=[(0.0, 1.0)] * 3, surrogate=True, rng=seed)
    found = result.surrogate.hessian
    assert (np.sign(found[[0, 1], [1, 2]]) == 1.0).all()


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
