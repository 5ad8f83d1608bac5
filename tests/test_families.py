"""Contracts of the families, over the table of all of them; and of the factorisations they stand on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from helpers.cases import FAMILIES, GAUSSIANS, member, same_bits, trial
from sublevel.engine import linalg
from sublevel.engine.families import Bernoulli, FullGaussian
from sublevel.engine.method import Method, Outcome, natural_gradient
from sublevel.engine.recipes import ngd, pbil, rank_mu
from sublevel.engine.tangent import Cloud, Tangent, Weighting
from sublevel.engine.transforms import FixedRates
from sublevel.engine.weights import Volume

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
EVERY_GAUSSIAN = pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
ROUNDINGS = 1e-12
"""A few hundred roundings of numbers of size 1, at Cond(A) < 100."""


def after(move):
    """The new θ, and whether it is one."""
    return move.theta, move.usable


def some_tangent(z, rng):
    """A tangent of whitened points with weights of both signs, long enough to come near the edge of the family."""
    tangent = natural_gradient(z, Weighting.from_weights(rng.standard_normal(z.shape[:-1]) / z.shape[-2]))
    return tangent.scale(mean=0.3 / tangent.spectral_norm, cov=0.9 / tangent.spectral_norm)


# Whitening


@EVERY_FAMILY
def test_whitening_undoes_pushing(family, rng):
    theta = member(family, 7, rng)
    z = rng.standard_normal((5, 7))
    assert_allclose(theta.whiten(theta.push(z)), z, atol=ROUNDINGS)
    assert_allclose(theta.push(theta.whiten(z)), z, atol=ROUNDINGS)


@EVERY_FAMILY
@pytest.mark.parametrize("n", [3, 90])
def test_sample_keeps_the_whitened_points(family, n, rng):
    theta = member(family, 70, rng)
    sample = theta.sample(rng, n)
    assert_allclose(theta.whiten(sample.x), sample.z, atol=1e2 * ROUNDINGS)  # d = 70
    again = theta.sample_at(sample.z)
    assert_allclose(again.x, sample.x, atol=ROUNDINGS)
    assert_allclose(again.surprise, sample.surprise, rtol=ROUNDINGS)


@EVERY_FAMILY
def test_surprise_is_the_negative_log_density_up_to_a_constant(family, rng):
    theta = member(family, 5, rng)
    sample = theta.sample(rng, 20)
    assert np.ptp(sample.surprise + theta.log_density(sample.x)) <= ROUNDINGS


@EVERY_FAMILY
def test_pull_is_the_adjoint_of_push(family, rng):
    theta = member(family, 6, rng)
    covectors, z = rng.standard_normal((4, 6)), rng.standard_normal((3, 6))
    steps = theta.push(z) - theta.mean
    assert_allclose(theta.pull(covectors) @ z.T, covectors @ steps.T, atol=ROUNDINGS)


def test_pull_of_an_asymmetric_root_is_not_push(rng):
    theta = member(FullGaussian, 6, rng)
    covectors, z = rng.standard_normal((4, 6)), rng.standard_normal((3, 6))
    wrong = FullGaussian(theta.mean, theta.root.T, theta.scale).pull(covectors)
    assert np.max(np.abs(wrong @ z.T - covectors @ (theta.push(z) - theta.mean).T)) > 0.1


# Densities and samples


@EVERY_FAMILY
def test_log_density_is_that_of_scipy(family, rng):
    theta = member(family, 4, rng)
    x = theta.sample(rng, 10).x
    if family is Bernoulli:
        expected = stats.bernoulli.logpmf(x, theta.mean).sum(axis=-1)
    else:
        expected = stats.multivariate_normal.logpdf(x, theta.mean, theta.cov)
    assert_allclose(theta.log_density(x), expected, rtol=ROUNDINGS)


FALSE_ALARM = 1e-6
DRAWS = 20_000


def is_unlikely(law, counts):
    """Whether any of these draws from `law` lies in its tails, with a false-alarm rate of FALSE_ALARM for all of them
    together.
    """
    tail = np.minimum(law.cdf(counts), law.sf(counts))
    return np.any(tail < FALSE_ALARM / (2 * np.size(counts)))


def moments_are_wrong(theta, x):
    """Whether points x contradict θ's mean and covariance: exact tests on z along axes and diagonals, each N(0, 1)
    under θ.
    """
    z = np.linalg.solve(np.linalg.cholesky(theta.cov), (x - theta.mean).T)
    d = theta.dimension
    pairs = [(np.eye(d)[i] + sign * np.eye(d)[j]) / np.sqrt(2) for i in range(d) for j in range(i) for sign in (1, -1)]
    along = np.array([*np.eye(d), *pairs]) @ z
    return is_unlikely(stats.norm(scale=np.sqrt(len(x))), along.sum(axis=1)) or is_unlikely(
        stats.chi2(len(x)), (along**2).sum(axis=1)
    )


@EVERY_GAUSSIAN
def test_sample_has_the_mean_and_covariance_it_says(family, rng):
    theta = member(family, 4, rng)
    assert not moments_are_wrong(theta, theta.sample(rng, DRAWS).x)


def test_moments_would_tell_a_transposed_root(rng):
    theta = member(FullGaussian, 4, rng)
    transposed = FullGaussian(theta.mean, theta.root.T, theta.scale)
    assert moments_are_wrong(theta, transposed.sample(rng, DRAWS).x)


def test_bits_have_the_probabilities_they_say_and_are_independent(rng):
    theta = member(Bernoulli, 4, rng)
    x = theta.sample(rng, DRAWS).x
    pairs = [(i, j) for i in range(4) for j in range(i)]
    assert not is_unlikely(stats.binom(DRAWS, theta.mean), x.sum(axis=0))
    both = np.array([theta.mean[i] * theta.mean[j] for i, j in pairs])
    assert not is_unlikely(stats.binom(DRAWS, both), np.array([(x[:, i] * x[:, j]).sum() for i, j in pairs]))
    assert is_unlikely(stats.binom(DRAWS, theta.mean + 0.05), x.sum(axis=0))


# The natural gradient


def numerical_gradient(fun, at):
    """Derivatives of fun by the five-point stencil, whose error h⁴ and rounding 1e-16/h are both about 1e-12 at this
    h.
    """
    h = 1e-3
    steps = h * np.eye(at.size)
    return np.array([(8 * (fun(at + s) - fun(at - s)) - (fun(at + 2 * s) - fun(at - 2 * s))) / (12 * h) for s in steps])


def ascent(theta, x, weights):
    """Fisher⁻¹ × numerical gradient of Σ wᵢ log p(xᵢ) in θ's coordinates."""

    def weighted_log_density(coordinates):
        return weights @ theta.at_coordinates(coordinates).log_density(x)

    return np.linalg.solve(theta.fisher, numerical_gradient(weighted_log_density, theta.coordinates))


@EVERY_FAMILY
@pytest.mark.parametrize("n", [2, 9])
def test_natural_gradient_is_the_inverse_fisher_information_times_the_gradient(family, n, rng):
    theta = member(family, 3, rng)
    sample = theta.sample(rng, n)
    weights = rng.standard_normal(n)
    velocity = theta.velocity(natural_gradient(sample.z, Weighting.from_weights(weights)))
    assert_allclose(
        ascent(theta, sample.x, weights), velocity, rtol=0, atol=1e-8 * np.abs(velocity).max()
    )  # the stencil's h⁴ · f⁽⁵⁾/30


@EVERY_FAMILY
def test_plain_gradient_would_be_told_from_the_natural_one(family, rng):
    theta = member(family, 3, rng)
    sample = theta.sample(rng, 9)
    weights = rng.standard_normal(9)
    plain = theta.fisher @ ascent(theta, sample.x, weights)
    assert np.max(np.abs(plain - theta.velocity(natural_gradient(sample.z, Weighting.from_weights(weights))))) > 1e-3


@EVERY_FAMILY
def test_coordinates_give_the_member_back(family, rng):
    theta = member(family, 4, rng)
    back = theta.at_coordinates(theta.coordinates)
    assert_allclose(back.mean, theta.mean, rtol=ROUNDINGS)
    assert_allclose(back.cov, theta.cov, atol=ROUNDINGS)
    assert_allclose(back.deviations, np.sqrt(np.diagonal(theta.cov)), rtol=ROUNDINGS)


# Moving


@EVERY_FAMILY
@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 2), (3, 8), (70, 5)])
def test_zero_tangent_moves_nothing(family, d, k, rng):
    theta = member(family, d, rng)
    z = theta.sample(rng, k).z
    moved, usable = after(theta.move(natural_gradient(z, Weighting.from_weights(np.zeros(k)))))
    assert usable
    assert same_bits(moved, theta)


# Fewer vectors than dimensions and more, on both sides of d = 64, where the engine changes its way; so many that it
# sums in blocks.
CLOUDS = [
    (1, 1),
    (1, 2),
    (1, 7),
    (3, 1),
    (3, 2),
    (3, 3),
    (3, 8),
    (70, 1),
    (70, 5),
    (70, 69),
    (70, 70),
    (70, 90),
    (70, 2000),
]


@EVERY_GAUSSIAN
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(("d", "k"), CLOUDS)
def test_step_is_exactly_the_tangent(family, d, k, repeats, rng):
    """m + velocity and C + velocity, also where vectors are repeated and the cloud has not full rank."""
    theta = member(family, d, rng)
    tangent = some_tangent(np.repeat(rng.standard_normal((k, d)), repeats, axis=0), rng)
    moved, usable = after(theta.move(tangent))
    expected = theta.coordinates + theta.velocity(tangent)
    assert usable
    assert_allclose(moved.coordinates, expected, rtol=0, atol=ROUNDINGS * np.abs(expected).max())


SIGNS = {"mixed": lambda w: w, "positive": np.abs, "negative": lambda w: -np.abs(w)}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(("d", "k"), CLOUDS)
def test_spectral_norm_is_the_largest_singular_value(d, k, sign, rng):
    """σ₁(Σ wᵢ (vᵢvᵢᵀ − I)), also along directions that no vector reaches, where the eigenvalue is −Σ wᵢ."""
    vectors, weights = rng.standard_normal((k, d)), SIGNS[sign](rng.standard_normal(k))
    Z = sum(w * (np.outer(v, v) - np.eye(d)) for w, v in zip(weights, vectors, strict=True))
    assert_allclose(
        natural_gradient(vectors, Weighting.from_weights(weights)).spectral_norm, np.linalg.norm(Z, 2), rtol=ROUNDINGS
    )


def test_sampled_images_give_the_same_step(rng):
    theta = member(FullGaussian, 70, rng)
    sample, weights = theta.sample(rng, 5), rng.standard_normal(5) / 100
    with_images, _ = after(theta.move(natural_gradient(sample.z, Weighting.from_weights(weights), sample.images)))
    without, _ = after(theta.move(natural_gradient(sample.z, Weighting.from_weights(weights))))
    assert_allclose(with_images.cov, without.cov, atol=ROUNDINGS)


def along_axes(d, k, eigenvalue):
    """A tangent whose covariance part has this eigenvalue along k axes and 0 along the others."""
    return Tangent(np.zeros(d), Cloud(np.eye(d)[:k], np.full(k, eigenvalue), np.float64(0.0)))


def variances_after(theta, tangent):
    """Eigenvalues of C + velocity, whether or not that is a covariance."""
    d = theta.dimension
    after = (theta.coordinates + theta.velocity(tangent))[d:]
    return np.linalg.eigvalsh(after.reshape(d, d)) if isinstance(theta, FullGaussian) else after


@pytest.mark.parametrize(
    ("family", "d", "k"), [(FullGaussian, 3, 1), (FullGaussian, 70, 2), *((family, 3, 3) for family in GAUSSIANS)]
)
def test_step_is_one_if_and_only_if_it_keeps_c_positive(family, d, k, rng):
    theta = member(family, d, rng)
    for eigenvalue, is_one in [(-1 + 1e-9, True), (-1 - 1e-9, False), (-5.0, False)]:
        tangent = along_axes(d, k, eigenvalue)
        assert bool(theta.move(tangent).usable) is is_one
        assert (
            bool(variances_after(theta, tangent).min() > 0) is is_one
        )  # the control: taken anyway, it would not be a distribution


@EVERY_GAUSSIAN
@pytest.mark.parametrize(("d", "n"), [(5, 12), (70, 8)])
def test_step_that_would_break_positivity_leaves_the_state_as_it_was(family, d, n, rng):
    method = Method("too fast", Volume(), (FixedRates(1.0, 1e6),), family=family)
    state = method.init(member(family, d, rng), n)
    sample = method.ask(state, rng, n)
    after, info = method.tell(state, sample, np.square(sample.x).sum(axis=-1))
    assert info.outcome == Outcome.REFUSED
    assert same_bits(after.theta, state.theta)


@pytest.mark.parametrize(("d", "n"), [(5, 12), (70, 8)])
def test_rate_at_which_nothing_of_c_is_left_is_refused(d, n, rng):
    """η_C = 1 for weights that sum to 1: C becomes Σ wᵢ (xᵢ − m)(xᵢ − m)ᵀ, of less than full rank for µ < d."""
    method = rank_mu(c_cov=1.0)
    state = method.init(member(FullGaussian, d, rng), n)
    sample = method.ask(state, rng, n)
    after, info = method.tell(state, sample, np.square(sample.x).sum(axis=-1))
    assert info.outcome == Outcome.REFUSED
    assert same_bits(after.theta, state.theta)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@EVERY_GAUSSIAN
def test_covariance_part_does_not_depend_on_the_scale(family, scale, rng):
    small = family.start(np.zeros(4), np.full(4, scale))
    tangent = some_tangent(rng.standard_normal((3, 4)), rng)
    moved, usable = after(small.move(tangent))
    unit, _ = after(family.start(np.zeros(4), np.ones(4)).move(tangent))
    assert usable
    assert_allclose(moved.deviations / scale, unit.deviations, rtol=ROUNDINGS)


@EVERY_GAUSSIAN
@pytest.mark.parametrize(("scale", "eigenvalue"), [(1e300, 1e20), (1e-300, -1 + 1e-14)])
def test_step_out_of_the_range_of_floats_is_not_one(family, scale, eigenvalue):
    theta = family.start(np.zeros(3), np.full(3, scale))
    assert not theta.move(along_axes(3, 3, eigenvalue)).usable


@EVERY_GAUSSIAN
def test_mean_out_of_the_range_of_floats_is_not_one(family, rng):
    theta = family.start(np.zeros(3), np.full(3, 1e300))
    tangent = natural_gradient(rng.standard_normal((4, 3)), Weighting.from_weights(np.full(4, 0.1)))
    assert theta.move(tangent).usable
    assert not theta.move(tangent.scale(mean=np.float64(1e20), cov=np.float64(1.0))).usable


# Bits


def test_bits_move_by_the_formula_of_pbil(rng):
    theta = member(Bernoulli, 6, rng)
    x = theta.sample(rng, 8).x
    weights = rng.uniform(0, 0.1, 8)
    moved, usable = after(theta.move(natural_gradient(theta.whiten(x), Weighting.from_weights(weights))))
    assert usable
    assert_allclose(
        moved.mean, theta.mean + weights @ (x - theta.mean), rtol=1e-14
    )  # whitening and back: a few roundings


def test_pbil_shifts_towards_the_best_quarter(rng):
    method, theta = pbil(rate=0.1), member(Bernoulli, 6, rng)
    state = method.init(theta, 20)
    sample = method.ask(state, rng, 20)
    values = np.arange(20.0)
    after, _ = method.tell(state, sample, values)
    assert_allclose(after.theta.mean, 0.9 * theta.mean + 0.1 * sample.x[:5].mean(axis=0), rtol=1e-14)


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_bits_that_would_leave_the_unit_interval_do_not_move(corner, rng):
    theta = member(Bernoulli, 6, rng)
    tangent = natural_gradient(theta.whiten(np.full((1, 6), corner)), Weighting.from_weights(np.ones(1)))
    assert theta.move(tangent).usable
    assert not theta.move(tangent.scale(mean=np.float64(1.001), cov=np.float64(1.0))).usable


# Batches


OPERATIONS = {
    "push": lambda theta, z, weights: theta.push(z),
    "whiten": lambda theta, z, weights: theta.whiten(z),
    "pull": lambda theta, z, weights: theta.pull(z),
    "sample_at": lambda theta, z, weights: theta.sample_at(z).x,
    "surprise": lambda theta, z, weights: theta.sample_at(z).surprise,
    "log_density": lambda theta, z, weights: theta.log_density(theta.sample_at(z).x),
    "cov": lambda theta, z, weights: theta.cov,
    "deviations": lambda theta, z, weights: theta.deviations,
    "coordinates": lambda theta, z, weights: theta.coordinates,
    "at_coordinates": lambda theta, z, weights: theta.at_coordinates(theta.coordinates).cov,
    "fisher": lambda theta, z, weights: theta.fisher,
    "spectral norm": lambda theta, z, weights: natural_gradient(z, Weighting.from_weights(weights)).spectral_norm,
    "velocity": lambda theta, z, weights: theta.velocity(natural_gradient(z, Weighting.from_weights(weights))),
    "moved mean": lambda theta, z, weights: theta.move(natural_gradient(z, Weighting.from_weights(weights))).theta.mean,
    "moved covariance": lambda theta, z, weights: (
        theta.move(natural_gradient(z, Weighting.from_weights(weights))).theta.cov
    ),
    "moved at all": lambda theta, z, weights: theta.move(natural_gradient(z, Weighting.from_weights(weights))).usable,
}


BATCHES = [
    (name, d, k) for name in OPERATIONS for d, k in [(1, 2), (4, 3), (4, 9), (70, 5)] if (name, d) != ("fisher", 70)
]  # 5000 × 5000


@EVERY_FAMILY
@pytest.mark.parametrize(("operation", "d", "k"), BATCHES)
def test_batch_is_a_loop(family, operation, d, k, rng):
    batch = (2, 3)
    theta = member(family, d, rng, batch)
    z, weights = theta.sample(rng, k).z, rng.standard_normal((*batch, k)) / (10 * d)
    together = OPERATIONS[operation](theta, z, weights)
    assert together.shape[:2] == batch
    for index in np.ndindex(batch):
        alone = OPERATIONS[operation](trial(theta, index), z[index], weights[index])
        assert_allclose(together[index], alone, rtol=0, atol=ROUNDINGS * np.max(np.abs(alone)))


@EVERY_GAUSSIAN
@pytest.mark.parametrize(("d", "k"), [(3, 3), (70, 2)])
def test_step_of_one_trial_cannot_spoil_the_others(family, d, k, rng):
    theta = member(family, d, rng, (3,))
    smallest = np.array([-0.5, -40.0 * d, -0.25])  # the second leaves every family
    tangent = Tangent(
        np.zeros((3, d)), Cloud(np.broadcast_to(np.eye(d)[:k], (3, k, d)), np.tile(smallest[:, None], k), np.zeros(3))
    )
    moved, usable = after(theta.move(tangent))
    assert_array_equal(usable, [True, False, True])
    for index in (0, 2):
        single = Tangent(np.zeros(d), Cloud(np.eye(d)[:k], np.full(k, smallest[index]), np.float64(0.0)))
        alone, _ = after(trial(theta, index).move(single))
        assert_allclose(trial(moved, index).cov, alone.cov, atol=ROUNDINGS)


# The factorisations


def test_cholesky_names_the_matrices_that_are_not_definite(rng):
    root = np.eye(3) + 0.3 * rng.standard_normal((2, 2, 3, 3))
    matrices = root @ root.mT
    matrices[0, 1] = np.diag([1.0, -1.0, 1.0])
    factors, definite = linalg.cholesky(matrices)
    assert_array_equal(definite, [[True, False], [True, True]])
    for index in [(0, 0), (1, 0), (1, 1)]:
        assert_allclose(factors[index] @ factors[index].T, matrices[index], atol=ROUNDINGS)
        assert_allclose(linalg.cholesky(matrices[index])[0], factors[index], atol=ROUNDINGS)


def raise_linalg_error(*args, **kwargs):
    raise np.linalg.LinAlgError("did not converge")


@pytest.mark.parametrize("solver", ["eigh", "eigvalsh"])
def test_eigensolver_of_a_batch_falls_back_to_single_matrices(solver, monkeypatch, rng):
    matrices = rng.standard_normal((2, 3, 4, 4))
    matrices += matrices.mT
    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, solver, raise_linalg_error)
        answer = getattr(linalg, solver)(matrices)
    values = answer if solver == "eigvalsh" else answer[0]
    assert_allclose(values, np.linalg.eigvalsh(matrices), atol=ROUNDINGS)
    if solver == "eigh":
        assert_allclose(answer[1] * values[..., None, :] @ answer[1].mT, matrices, atol=ROUNDINGS)


@pytest.fixture
def eigensolvers_that_fail(monkeypatch):
    """Every eigensolver reports that it did not converge, info = 1, and leaves garbage."""

    def failing(solver):
        return lambda *args, **kwargs: (*(np.full_like(part, np.nan) for part in solver(*args, **kwargs)[:-1]), 1)

    solvers = {name: failing(getattr(linalg.lapack, name)) for name in ("dsyev", "dsyevd")}
    monkeypatch.setattr(linalg, "lapack", SimpleNamespace(**{**vars(linalg.lapack), **solvers}))
    for name in ("eigh", "eigvalsh"):
        monkeypatch.setattr(np.linalg, name, raise_linalg_error)


@pytest.mark.usefixtures("eigensolvers_that_fail")
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("d", "n"), [(5, 3), (5, 12), (70, 8)])
@EVERY_GAUSSIAN
def test_failed_eigensolver_means_a_refused_step(family, d, n, batch, rng):
    method = ngd(family=family)
    state = method.init(member(family, d, rng, batch), n)
    sample = method.ask(state, rng, n)
    after, info = method.tell(state, sample, np.square(sample.x).sum(axis=-1))
    assert_array_equal(info.outcome, np.full(batch, Outcome.REFUSED))
    assert same_bits(after.theta, state.theta)
