"""Gaussian × categorical with integers against the papers' formulas in plain loops, and against the parts alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from helpers import mixed_oracle as oracle
from helpers.cases import OTHER_STEP_SIZES, RECIPES, trial
from helpers.mixed import leaves, same_bits
from sublevel import Integer as Whole
from sublevel import Optimizer, Space, cma, ngd, xnes
from sublevel.engine.arrays import Streams
from sublevel.engine.families import FAMILIES, Bernoulli, FullGaussian
from sublevel.engine.families.categorical import Categorical, margin_of
from sublevel.engine.families.mixed import Mixed
from sublevel.engine.method import natural_gradient
from sublevel.engine.tangent import Weighting
from sublevel.engine.transforms import ChoiceRates
from sublevel.run.integers import Grid
from sublevel.validation import as_method

AGREEMENT = 1e-10
ITERATIONS = 150
COUNTS = {"bits": (2, 2, 2), "one": (5,), "different": (2, 3, 4, 7), "many": (3,) * 12}


def with_choices(method):
    """A method as `Optimizer` makes it for spaces with categories."""
    return replace(method, transforms=(*method.transforms, ChoiceRates()))


def some_categorical(rng, counts, batch=()):
    """Probabilities (..., m, K) away from 0 and from each other."""
    q = rng.uniform(0.5, 2.0, (*batch, len(counts), max(counts)))
    q = np.where(np.arange(max(counts)) < np.array(counts)[:, None], q, 0.0)
    return Categorical(q / q.sum(axis=-1, keepdims=True))


def some_mixed(rng, counts, d=3, batch=(), family=FullGaussian):
    """A product with real coordinates and categories."""
    gaussian = family.start(rng.standard_normal((*batch, d)), np.ones((*batch, d)))
    margin = np.full(batch, margin_of(len(counts)))[()]
    ones, zeros = np.ones((*batch, d)), np.zeros((*batch, d))
    return Mixed(gaussian, ones, zeros, some_categorical(rng, counts, batch), margin)


def own_probabilities(q, counts):
    """Probabilities (m, K) as lists of each variable's own."""
    return [list(row[:count]) for row, count in zip(q, counts, strict=True)]


# The natural gradient


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_natural_gradient_is_that_of_the_fisher_metric(counts, rng):
    theta, n = some_categorical(rng, counts), 9
    drawn, weights = theta.sample(rng, n), rng.standard_normal(n)
    found = theta.natural_gradient(drawn, weights)
    for j, q in enumerate(own_probabilities(theta.probabilities, counts)):
        assert_allclose(found[j, : counts[j]], oracle.natural_gradient(q, drawn[:, j], weights), atol=1e-12)
    assert not found[theta.probabilities == 0].any()


def test_fisher_matrix_of_a_product_is_that_of_its_parts(rng):
    """So the natural gradient of the product is the product of natural gradients."""
    counts = (2, 3, 4)
    theta = some_categorical(rng, counts)
    qs = own_probabilities(theta.probabilities, counts)
    drawn, weights = theta.sample(rng, 6), rng.standard_normal(6)
    scores = [np.concatenate([oracle.score(q, c) for q, c in zip(qs, row, strict=True)]) for row in drawn]
    joint = np.linalg.solve(oracle.joint_fisher(qs), weights @ np.array(scores))
    found = theta.natural_gradient(drawn, weights)
    assert_allclose(joint, np.concatenate([row[: k - 1] for row, k in zip(found, counts, strict=True)]), atol=1e-12)


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_orthonormal_coordinates_have_the_length_of_the_fisher_metric(counts, rng):
    theta = some_categorical(rng, counts)
    change = theta.natural_gradient(theta.sample(rng, 5), rng.standard_normal(5))
    qs = own_probabilities(theta.probabilities, counts)
    steps = [row[:count] for row, count in zip(change, counts, strict=True)]
    assert_allclose(np.linalg.norm(theta.orthonormal(change)), oracle.fisher_length(qs, steps), rtol=1e-12)
    assert abs(np.linalg.norm(change) / oracle.fisher_length(qs, steps) - 1) > 0.1  # the Euclidean length differs


def test_two_categories_are_a_bit(rng):
    m, n = 6, 11
    p = rng.uniform(0.2, 0.8, m)
    bits, choices = Bernoulli.start(p), Categorical(np.stack([1 - p, p], axis=-1))
    drawn, weights = choices.sample(rng, n), rng.standard_normal(n)
    sample = bits.sample_at(bits.whiten(drawn.astype(float)))
    velocity = bits.velocity(natural_gradient(sample.z, Weighting.from_weights(weights)))
    gradient = choices.natural_gradient(drawn, weights)
    assert_allclose(gradient[:, 1], velocity, atol=1e-13)
    assert_allclose(gradient[:, 0], -velocity, atol=1e-13)
    assert_allclose(np.sum(choices.orthonormal(gradient) ** 2), velocity @ bits.fisher @ velocity, rtol=1e-12)


def test_categories_are_drawn_with_their_probabilities(rng):
    theta = some_categorical(rng, (2, 5, 3))
    drawn = theta.sample(rng, 40_000)
    shares = (drawn[..., None] == np.arange(5)).mean(axis=0)
    assert np.max(np.abs(shares - theta.probabilities)) < 5 * 0.5 / np.sqrt(40_000)
    assert (drawn < theta.counts).all()


class Highest:
    """The largest uniform number below 1, and 0."""

    def random(self, size):
        return np.where(np.arange(np.prod(size)).reshape(size) % 2, np.nextafter(1.0, 0.0), 0.0)


def test_rounding_never_draws_a_category_that_is_not_there():
    q = np.zeros((2, 12))
    q[0], q[1, :10] = 1 / 12, 0.1  # 0.1 + … + 0.1 < 1 in floats
    drawn = Categorical(q).sample(Highest(), 8)
    assert drawn.min() == 0
    assert (drawn.max(axis=0) <= [11, 9]).all()


# The step of the categories


def disagreement(counts, method=None, draws="informative", **slip):
    """The largest difference of a probability, and of ln Δ, between engine and oracle in a run."""
    rng, n, m = np.random.default_rng(len(counts)), 10, len(counts)
    method = with_choices(method or cma())
    theta = replace(some_mixed(rng, counts), choices=Categorical.uniform(np.array(counts)))
    state = method.init(theta, n)
    weights = slip.pop("weights", oracle.log_weights(n))
    margin = slip.pop("margin", float(theta.margin))
    reference = oracle.ASNG(own_probabilities(theta.choices.probabilities, counts), margin, **slip)
    worst = 0.0
    for t in range(ITERATIONS):
        z, drawn = rng.standard_normal((n, 3)), state.theta.choices.sample(rng, n)
        values = rng.permutation(n) + (100.0 * drawn @ np.arange(1, m + 1) if t % 3 else 0.0)
        reference.step(drawn[np.argsort(values)].tolist(), weights)
        state, _ = method.tell(state, state.theta.sample_at(z, drawn), values)
        memory = state.memory[-1]
        for row, q in zip(state.theta.choices.probabilities, reference.qs, strict=True):
            worst = max(worst, np.max(np.abs(row[: len(q)] - q)))
        worst = max(worst, abs(np.log(memory.steps / reference.Delta)), abs(memory.power - reference.gamma))
        if worst > 1e-3:
            break
    return worst


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_categories_take_the_papers_steps(counts):
    assert disagreement(counts) <= AGREEMENT


SLIPS = {
    "another α": {"alpha": 1.6},
    "Euclidean length": {"is_fisher": False},
    "the rate of the generation before": {"lags": True},
    "a smaller margin": {"margin": 0.05},
    "equal weights": {"weights": [0.2] * 5 + [0.0] * 5},
}


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_comparison_would_notice(slip):
    assert disagreement(COUNTS["different"], **slip) > 1e3 * AGREEMENT


def test_step_of_a_product_is_the_step_of_its_parts(rng):
    """Gaussian and categories do not influence each other in a step, but by the common order of the points."""
    counts, n = (2, 4), 8
    theta = some_mixed(rng, counts)
    for method in (cma(), ngd(), xnes()):
        both, alone = with_choices(method).init(theta, n), method.init(theta.gaussian, n)
        for _ in range(20):
            z, drawn, values = rng.standard_normal((n, 3)), both.theta.choices.sample(rng, n), rng.permutation(n) * 1.0
            both, _ = with_choices(method).tell(both, both.theta.sample_at(z, drawn), values)
            alone, _ = method.tell(alone, alone.theta.sample_at(z), values)
            assert same_bits(both.theta.gaussian, alone.theta)


def test_no_probability_falls_below_the_margin(rng):
    for counts in COUNTS.values():
        theta, margin = some_categorical(rng, counts), margin_of(len(counts))
        for _ in range(50):
            change = theta.natural_gradient(theta.sample(rng, 2), np.array([30.0, -10.0]))
            theta = theta.move(change, np.float64(margin))
            least = margin / (np.array(counts) - 1)
            own = np.where(theta.probabilities > 0, theta.probabilities, np.inf)
            assert (own.min(axis=-1) >= least * (1 - 1e-12)).all()
            assert (theta.counts == counts).all()
            assert_allclose(theta.probabilities.sum(axis=-1), 1.0, rtol=1e-14)


# Batches


def trial_of_mixed(theta, k):
    """One trial of a batch, as it would be alone."""
    choices = None if theta.choices is None else Categorical(theta.choices.probabilities[k])
    return Mixed(trial(theta.gaussian, k), theta.widening[k], theta.leaving[k], choices, theta.margin[k])


def values_of(x):
    """An ellipsoid and the number of categories that are not 0."""
    return np.square(x[..., :3]) @ np.array([1.0, 3.0, 9.0]) + np.sum(x[..., 3:] != 0, axis=-1)


def after(method, theta, noise, n=10, iterations=25):
    """θ after some generations."""
    state = method.init(theta, n)
    for _ in range(iterations):
        sample = method.ask(state, noise, n)
        state, _ = method.tell(state, sample, values_of(sample.x))
    return state.theta


def batch_error(method, noise, alone):
    """The largest difference of a probability or a mean between the trials of a batch and each alone."""
    start = some_mixed(np.random.default_rng(3), (2, 3, 4), batch=(3,), family=method.family)
    together = after(method, start, noise)
    worst = 0.0
    for k in range(3):
        single, one = after(method, trial_of_mixed(start, k), alone(k)), trial_of_mixed(together, k)
        worst = max(worst, np.max(np.abs(single.choices.probabilities - one.choices.probabilities)))
        worst = max(worst, np.max(np.abs(single.mean - one.mean)))
    return worst


def streams():
    return Streams.spawn(5, 3)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_trial_in_a_batch_is_the_trial_alone(recipe, family):
    method = with_choices(recipe(family=family))
    assert batch_error(method, streams(), lambda k: streams().generators[k]) <= 1e-9


@pytest.mark.parametrize("rule", OTHER_STEP_SIZES)
def test_trial_in_a_batch_is_the_trial_alone_with_other_step_sizes(rule):
    assert batch_error(with_choices(cma(step_size=rule)), streams(), lambda k: streams().generators[k]) <= 1e-9


def test_streams_that_are_not_the_trials_own_would_be_noticed():
    assert batch_error(with_choices(cma()), streams(), lambda k: streams().generators[0]) > 1e-3


# Integers: the margin


K = 400
"""Integer coordinates that are corrected at once."""


def some_integers(rng, k=K, margin=0.05):
    """Integer coordinates anywhere: at edges, between them and beyond, narrow and wide, with earlier margins."""
    low = rng.integers(-4, 1, k) * 1.0
    high = low + rng.choice([1.0, 2.0, 5.0, np.inf], k)
    low = np.where(rng.random(k) < 0.1, -np.inf, low)
    mean = rng.uniform(-6.0, 6.0, k)
    narrow, widening = 10 ** rng.uniform(-3, 0, k), 10 ** rng.uniform(0, 0.5, k)
    grid = Grid(np.ones(k, dtype=bool), np.zeros(k, dtype=bool), low, high, margin)
    gaussian = FAMILIES["sep-"].start(mean, narrow)
    return grid, Mixed(gaussian, widening, rng.uniform(margin, 0.5, k), None, np.float64(margin))


def margin_error(rng, **slip):
    """The largest difference of mean, deviation and probability of leaving from the oracle's."""
    grid, theta = some_integers(rng)
    succeeded = rng.random(K) < 0.5
    found = grid.correct(theta, succeeded)
    wanted = [
        oracle.correct_integer(
            theta.mean[j],
            theta.deviations[j],
            grid.low[j],
            grid.high[j],
            slip.get("before", theta.leaving)[j],
            slip.get("succeeded", succeeded)[j],
            slip.get("margin", grid.margin),
            slip.get("width", 1.0),
        )
        for j in range(K)
    ]
    return np.max(np.abs(np.stack([found.mean, found.deviations, found.leaving], axis=-1) - wanted), axis=0)


def test_margin_of_integers_is_that_of_the_oracle(rng):
    assert (margin_error(rng) <= 1e-9).all()


MARGIN_SLIPS = {
    "margin of the whole": {"margin": 0.1},
    "always success": {"succeeded": np.ones(K, dtype=bool)},
    "never success": {"succeeded": np.zeros(K, dtype=bool)},
    "no memory of leaving": {"before": np.full(K, 0.5)},
    "no limit beyond a bound": {"width": np.inf},
}


@pytest.mark.parametrize("slip", MARGIN_SLIPS.values(), ids=MARGIN_SLIPS)
def test_comparison_of_margins_would_notice(slip, rng):
    assert margin_error(rng, **slip).max() > 1e-3


def probability_of_leaving(theta, grid):
    """P(the integer drawn is not the mean's) of each coordinate (k,), from the distribution itself."""
    here = grid.nearest(theta.mean)
    below, above = grid.position(here - 0.5), grid.position(here + 0.5)
    lower = np.where(here > grid.low, ndtr((below - theta.mean) / theta.deviations), 0.0)
    upper = np.where(here < grid.high, ndtr((theta.mean - above) / theta.deviations), 0.0)
    return np.where(grid.is_integer, lower + upper, 0.0)


def test_every_integer_is_left_with_at_least_the_margin(rng):
    grid, theta = some_integers(rng)
    assert (probability_of_leaving(theta, grid) < grid.margin).any()
    for succeeded in (np.zeros(K, dtype=bool), np.ones(K, dtype=bool)):
        after_it = grid.correct(theta, succeeded)
        left = probability_of_leaving(after_it, grid)
        assert (left >= grid.margin * (1 - 1e-9)).all()
        assert_allclose(left, after_it.leaving, rtol=1e-6)
        assert (grid.nearest(after_it.mean) == grid.nearest(theta.mean)).all()


def test_correction_changes_nothing_the_second_time(rng):
    grid, theta = some_integers(rng)
    succeeded = rng.random(K) < 0.5
    once = grid.correct(theta, succeeded)
    for again in (grid.correct(once, succeeded), grid.correct(once, ~succeeded)):
        for a, b in zip(leaves(once), leaves(again), strict=True):
            assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_margin_does_not_touch_real_coordinates(rng):
    theta = some_mixed(rng, (2,))
    grid = Grid(np.array([False, True, False]), np.zeros(3, dtype=bool), np.full(3, -5.0), np.full(3, 5.0), 0.05)
    after_it = grid.correct(theta, np.zeros(3, dtype=bool))
    real = ~grid.is_integer
    assert np.array_equal(after_it.mean[real], theta.mean[real])
    assert np.array_equal(after_it.deviations[real], theta.deviations[real])


def test_margin_of_log_scaled_integers(rng):
    low, high, k = np.full(60, 1.0), np.full(60, 5000.0), 60
    grid = Grid(np.ones(k, dtype=bool), np.ones(k, dtype=bool), low, high, 0.05)
    gaussian = FAMILIES["sep-"].start(rng.uniform(0.0, 9.0, k), 10 ** rng.uniform(-6, 0, k))
    theta = Mixed(gaussian, np.ones(k), np.full(k, 0.5), None, np.float64(0.05))
    left = probability_of_leaving(grid.correct(theta, rng.random(k) < 0.5), grid)
    assert (left >= 0.05 * (1 - 1e-6)).all()


@pytest.mark.parametrize("is_log", [False, True])
def test_margin_ends_where_floats_do_not_resolve_integers(is_log):
    """Beyond the resolution of floats a coordinate is left as it is, finite."""
    mean = np.array([30.0, 80.0, 680.0, 720.0] if is_log else [2.0**48, 2.0**53, 1e100, 1e300])
    grid = Grid(np.ones(4, dtype=bool), np.full(4, is_log), np.full(4, 1.0), np.full(4, np.inf), 0.05)
    theta = Mixed(FAMILIES["sep-"].start(mean, np.ones(4)), np.ones(4), np.full(4, 0.5), None, np.float64(0.05))
    after_it = grid.correct(theta, np.ones(4, dtype=bool))
    assert all(np.isfinite(leaf).all() for leaf in leaves(after_it))
    assert np.array_equal(after_it.mean[1:], mean[1:])
    sample = after_it.sample(np.random.default_rng(1), 6)
    centred, _ = grid.center(after_it, sample, np.arange(6))
    assert np.isfinite(centred.x).all()


# Integers: centring


def centring_error(rng, k=40, n=14, **slip):
    """The largest difference of a centred coordinate from the oracle's."""
    low, high = np.full(k, -3.0), np.full(k, 4.0)
    is_integer = np.arange(k) % 4 > 0
    grid = Grid(
        is_integer,
        np.zeros(k, dtype=bool),
        np.where(is_integer, low, -np.inf),
        np.where(is_integer, high, np.inf),
        0.05,
    )
    gaussian = FullGaussian.start(rng.uniform(-3, 3, k), 10 ** rng.uniform(-2, 0, k))
    theta = Mixed(gaussian, np.where(is_integer, rng.uniform(1, 2, k), 1.0), np.full(k, 0.3), None, np.float64(0.05))
    sample, order = theta.sample(rng, n), rng.permutation(n)
    centred, succeeded = grid.center(theta, sample, order)
    best = order[: n // 2]
    whole = np.flatnonzero(is_integer)
    wanted, success = oracle.center_integers(
        sample.x[np.ix_(best, whole)], theta.mean[whole], low[whole], high[whole], **slip
    )
    assert succeeded[whole].tolist() == success
    assert 0 < sum(success) < len(success)
    assert not succeeded[~is_integer].any()
    others = np.delete(np.arange(n), best)
    assert np.array_equal(centred.z[others], sample.z[others])
    assert_allclose(centred.x[:, ~is_integer], sample.x[:, ~is_integer], rtol=0, atol=1e-12)
    return np.max(np.abs(centred.x[np.ix_(best, whole)] - wanted))


def test_centring_of_integers_is_that_of_the_oracle(rng):
    assert max(centring_error(rng) for _ in range(20)) <= 1e-12


CENTRING_SLIPS = {"shifts the mean": {"is_balanced": False}, "leaves points beyond a bound": {"reach": np.inf}}


@pytest.mark.parametrize("slip", CENTRING_SLIPS.values(), ids=CENTRING_SLIPS)
def test_comparison_of_centring_would_notice(slip, rng):
    assert centring_error(rng, **slip) > 1e-3


def test_generation_without_other_integers_is_not_moved(rng):
    theta = some_mixed(rng, (2,))
    theta = replace(theta, gaussian=FullGaussian.start(np.array([0.3, 2.1, -1.0]), np.full(3, 1e-3)))
    grid = Grid(np.array([False, True, True]), np.zeros(3, dtype=bool), np.full(3, -5.0), np.full(3, 5.0), 0.05)
    sample = theta.sample(rng, 8)
    centred, succeeded = grid.center(theta, sample, np.arange(8))
    assert centred is sample
    assert not succeeded.any()


def test_mean_of_integers_moves_to_the_weighted_mean_of_the_points(rng):
    """m ← Σ wᵢxᵢ, with the points as they were drawn: wider than the Gaussian by which the covariance is learned."""
    grid, theta = some_integers(rng, 5)
    method = as_method("sep-cma")
    before = method.init(theta, 8)
    sample, values = theta.sample(rng, 8), rng.standard_normal(8)
    after, _ = method.tell(before, sample, values)
    wanted = np.array(oracle.log_weights(8)) @ sample.x[np.argsort(values)]
    assert_allclose(grid.step_as_drawn(theta, after.theta).mean, wanted, rtol=0, atol=1e-12)
    assert np.max(np.abs(after.theta.mean - wanted)) > 1e-3


def test_optimizer_centres_and_corrects(rng):
    """The step of an optimizer on integers is centring, the method's step, its widening and the margin, in this
    order.
    """
    optimizer = Optimizer(Space(a=Whole(0, 20), b=Whole(-5, 5), c=Whole(1, 3)), rng=4)
    for _ in range(30):
        X = optimizer.ask()
        values = np.abs(X - [7, 2, 3]).sum(axis=1) + 0.01 * rng.random(len(X))
        before, sample, grid = optimizer.state, optimizer._pending, optimizer.space.grid
        centred, succeeded = grid.center(before.theta, sample, np.argsort(values))
        wanted, _ = optimizer.method.tell(before, centred, values)
        optimizer.tell(X, values)
        assert same_bits(optimizer.theta, grid.correct(grid.step_as_drawn(before.theta, wanted.theta), succeeded))
    assert optimizer.mean.tolist() == [7, 2, 3]
