"""Samples whose points depend on each other: each point is N(0, I), and part of the noise of a sample cancels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import LinearConstraint, NonlinearConstraint

import sublevel as sl
from helpers.cases import GAUSSIANS, OTHER_SAMPLINGS
from helpers.objectives import sphere
from sublevel.engine.arrays import Streams
from sublevel.engine.constants import cma_constants, path_constants, selection_variance
from sublevel.engine.families import FullGaussian
from sublevel.engine.linalg import LEAST_SINE, gram, orthogonal_rows
from sublevel.engine.sampling import SAMPLINGS, SMALL, count_equal, count_pairs, mirror, sampling_name
from sublevel.engine.transforms import Transform

SIZES = [(1, 1), (5, 1), (2, 3), (7, 3), (8, 3), (13, 3), (4, 10), (21, 10), (9, 4)]  # n, d


def draw(name, n, d, trials=None, seed=1):
    batch = () if trials is None else (trials,)
    noise = np.random.default_rng(seed)
    return SAMPLINGS[name].draw(noise, (*batch, n, d))


def gram_schmidt(vectors):
    """Vectors of the same lengths by the textbook's process, in blocks of d."""
    directions = []
    for index, vector in enumerate(vectors):
        block = directions[index - index % len(vector) :]
        rest = vector.copy()
        for direction in block:
            rest = rest - (vector @ direction) * direction
        directions.append(rest / np.sqrt(rest @ rest))
    return np.array(directions) * np.linalg.norm(vectors, axis=1, keepdims=True)


def significance(z):
    """The least of the p-values of three tests of N(0, I) for vectors (m, d): lengths, signs and one coordinate."""
    d = z.shape[-1]
    lengths = stats.kstest(np.sum(z**2, axis=-1), stats.chi2(d).cdf).pvalue
    coordinate = stats.kstest(z[:, -1], stats.norm.cdf).pvalue
    product = stats.kstest(np.where(np.sum(z**2, axis=-1) > d, z[:, 0], -z[:, 0]), stats.norm.cdf).pvalue
    return min(lengths, coordinate, product)


# ------------------------------------------------------------------------------------------------- the distribution


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(("n", "d"), [(7, 3), (8, 3), (4, 5), (3, 1)])
def test_each_point_alone_is_standard_normal(name, n, d):
    z = draw(name, n, d, trials=4000)
    assert min(significance(z[:, row]) for row in range(n)) > 1e-5


def test_directions_of_householder_reflections_alone_would_not_be_normal():
    """LAPACK's Q has columns of a fixed sign; the signs of R make them uniform."""
    z = np.random.default_rng(1).standard_normal((4000, 3, 5))
    q = np.linalg.qr(z.mT)[0].mT * np.linalg.norm(z, axis=-1, keepdims=True)
    assert min(significance(q[:, row]) for row in range(3)) < 1e-10


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_orthogonal_rows_are_those_of_the_gram_schmidt_process(n, d):
    z = np.random.default_rng(n).standard_normal((3, n, d))
    expected = np.array([gram_schmidt(trial) for trial in z])
    np.testing.assert_allclose(orthogonal_rows(z), expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(orthogonal_rows(z[0].copy()), expected[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("gap", [1.0, 2 * LEAST_SINE, 0.5 * LEAST_SINE, 1e-3, 1e-7, 1e-10])
def test_rows_are_orthogonal_to_rounding_however_close_the_last_vector_was(gap):
    """A Cholesky factor alone would lose the square of the condition, as VVᵀ does."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        z = rng.standard_normal((4, 6))
        z[3] = z[2] + gap * rng.standard_normal(6)
        rows = orthogonal_rows(z.copy())
        products = gram(rows) / np.outer(np.linalg.norm(z, axis=1), np.linalg.norm(z, axis=1))
        np.testing.assert_allclose(products, np.eye(4), rtol=0, atol=1e-12)
    if gap < 1e-6:
        lower = np.linalg.cholesky(z @ z.T)
        rest = np.linalg.solve(lower, z)
        assert np.max(np.abs(rest @ rest.T - np.eye(4))) > 1e-6


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("name", ["orthogonal", "mirrored-orthogonal"])
def test_points_of_a_block_are_orthogonal(name, n, d):
    z = draw(name, n, d)
    half = z[::2] if SAMPLINGS[name].mirrored else z
    for start in range(0, len(half), d):
        block = half[start : start + d]
        products = block @ block.T
        assert np.max(np.abs(products - np.diag(np.diag(products)))) < 1e-12 * np.max(products)


@pytest.mark.parametrize("name", ["orthogonal", "mirrored-orthogonal"])
def test_lengths_stay_those_that_were_drawn(name):
    z, plain = draw(name, 8, 5), draw("mirrored" if "mirrored" in name else "independent", 8, 5)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), np.linalg.norm(plain, axis=1), rtol=1e-14)
    assert np.max(np.abs(z - plain)) > 0.1


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("name", ["mirrored", "mirrored-orthogonal"])
def test_neighbours_are_mirror_images(name, n, d, batch):
    z = draw(name, n, d, *batch)
    assert z.shape == (*batch, n, d)
    np.testing.assert_array_equal(z[..., 1::2, :], -z[..., : n - n % 2 : 2, :])


def test_a_trial_of_a_batch_draws_its_own_numbers():
    name = "mirrored-orthogonal"
    together = SAMPLINGS[name].draw(Streams.spawn(1, 3), (3, 8, 5))
    for index, generator in enumerate(Streams.spawn(1, 3).generators):
        np.testing.assert_allclose(together[index], SAMPLINGS[name].draw(generator, (8, 5)), rtol=0, atol=1e-13)


def test_pairs_are_counted_in_any_order_and_not_if_a_point_was_replaced():
    z = draw("mirrored", 9, 4)
    assert count_pairs(np.vecdot(z, z)) == 4
    shuffled = np.random.default_rng(2).permutation(z)
    assert count_pairs(np.vecdot(shuffled, shuffled)) == 4
    z[3, 0] += 1e-9
    assert count_pairs(np.vecdot(z, z)) == 3
    independent = draw("independent", 9, 4)
    assert count_pairs(np.vecdot(independent, independent)) == 0


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 64, 65, 200])
def test_pairs_in_their_order_are_counted_as_numbers_that_occur_twice(n):
    rng = np.random.default_rng(n)
    for _ in range(100):
        squares = np.repeat(rng.random(n), 2)[:n]
        moved = rng.random(n) < rng.choice([0.0, 0.0, 0.1])
        squares[moved] = rng.choice(np.append(squares, [np.inf, np.nan, rng.random()]), np.count_nonzero(moved))
        assert count_pairs(squares) == count_equal(squares)
        shuffled = rng.permutation(squares)
        assert count_pairs(shuffled) == count_equal(shuffled) == count_equal(squares)
        assert count_pairs(np.stack([squares, shuffled])) == count_equal(squares)


def test_neighbours_of_equal_squares_are_counted_once():
    assert count_pairs(np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.0])) == 1
    assert count_pairs(np.array([1.0, 1.0, 2.0, 2.0, 1.0])) == 1
    assert count_pairs(np.array([1.0, 1.0, 2.0, 2.0, 3.0])) == 2


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (8, 3), (40, 30)])
def test_small_and_large_samples_are_mirrored_to_the_same_bits(n, d, monkeypatch):
    half = np.random.default_rng(n).standard_normal(((n + 1) // 2, d))
    assert n * half.size <= SMALL or n == 40
    product = mirror(half, n)
    monkeypatch.setattr("sublevel.engine.sampling.SMALL", 0)
    np.testing.assert_array_equal(product, mirror(half, n))
    np.testing.assert_array_equal(product, mirror(half[None], n)[0])


def test_points_that_were_moved_to_one_place_are_no_pairs():
    assert count_pairs(np.array([3.0, 1.0, 2.0, 2.0, 1.0, 2.0, 4.0])) == 1
    assert count_pairs(np.array([[2.0, 2.0, 2.0], [1.0, 1.0, 2.0]])) == 0
    weights = np.array([0.2, 0.2, 0.2, 0.2, 0.2, 0.0])
    moved = count_pairs(np.array([2.0, 2.0, 2.0, 2.0, 2.0, 3.0]))
    assert selection_variance(weights @ weights, 1.0, 6, moved) > 0


# ------------------------------------------------------------------------------------------------- sums over pairs


def evaluated(n, d, batch=(), name="mirrored-orthogonal", seed=1):
    """A method, a state after some generations, a sample and its values on a sphere."""
    method, noise = sl.cma(sampling=name), np.random.default_rng(seed)
    state = method.init(FullGaussian.start(np.ones((*batch, d)), np.full((*batch, d), 0.5)), n)
    for _ in range(3):
        sample = method.ask(state, noise, n)
        state, _ = method.tell(state, sample, np.sum(sample.x**2, axis=-1))
    sample = method.ask(state, noise, n)
    return method, state, sample, np.sum(sample.x**2, axis=-1)


HALVED = [(16, 70), (17, 70), (140, 70), (141, 70)]  # n, d


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("n", "d"), HALVED)
def test_a_step_from_the_first_points_of_pairs_is_that_from_all_points(n, d, batch):
    method, state, sample, values = evaluated(n, d, batch)
    assert sample.half.shape == (*batch, (n + 1) // 2, d)
    half = method.tell(state, sample, values)[0].theta
    whole = method.tell(state, state.theta.sample_at(sample.z), values)[0].theta
    np.testing.assert_allclose(half.mean, whole.mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(half.cov, whole.cov, rtol=0, atol=1e-13)
    wrong = method.tell(state, replace(sample, half=-sample.half, images=None), values)[0].theta
    assert np.max(np.abs(wrong.mean - whole.mean)) > 1e-3
    wrong = method.tell(state, replace(sample, half=sample.half[..., ::-1, :].copy(), images=None), values)[0].theta
    assert np.max(np.abs(wrong.cov - whole.cov)) > 1e-4


@pytest.mark.parametrize(("n", "d"), [(15, 40), (120, 100), (70, 70), (139, 70)])
def test_sums_over_all_points_are_formed_where_they_take_less_time(n, d):
    *_, sample, _ = evaluated(n, d)
    assert sample.half is None
    assert sample.pairs == n // 2


@pytest.mark.parametrize("mean", [0.0, 3.0])
@pytest.mark.parametrize(("n", "d"), [*HALVED, (8, 5), (15, 40)])
def test_points_of_a_pair_are_mirror_images_to_rounding(n, d, mean):
    theta = FullGaussian.start(np.full(d, mean), np.linspace(0.1, 2.0, d))
    sample = theta.sample(SAMPLINGS["mirrored"].of(np.random.default_rng(1)), n)
    first, second = sample.x[0 : n - n % 2 : 2] - mean, sample.x[1::2] - mean
    np.testing.assert_allclose(second, -first, rtol=0, atol=2 * np.spacing(mean + 10.0) if mean else 0.0)
    np.testing.assert_allclose(sample.x, theta.push(sample.z), rtol=0, atol=1e-13)


@pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(("n", "d"), [(2, 1), (9, 1), (8, 5), (9, 5), (16, 70)])
def test_pairs_that_are_known_are_those_counted(n, d, name, family):
    theta = family.start(np.zeros(d), np.ones(d))
    sample = theta.sample(SAMPLINGS[name].of(np.random.default_rng(n)), n)
    assert sample.pairs == count_pairs(sample.squares) == (n // 2 if SAMPLINGS[name].mirrored else 0)
    assert theta.sample_at(sample.z).with_pairs().pairs == sample.pairs


# --------------------------------------------------------------------------------------------- the path of the mean


def enumerated_variance(weights, pairs):
    """Variance of a coordinate of Σ wᵢzᵢ over all assignments of weights to points, 2·pairs of which are in pairs."""
    n = len(weights)
    covariance = np.eye(n)
    for pair in range(pairs):
        covariance[2 * pair, 2 * pair + 1] = covariance[2 * pair + 1, 2 * pair] = -1.0
    return np.mean([np.array(w) @ covariance @ np.array(w) for w in permutations(weights)])


@pytest.mark.parametrize("pairs", [0, 1, 2, 3])
@pytest.mark.parametrize("weights", [[0.6, 0.3, 0.1, 0.0, 0.0, 0.0], [0.5, 0.2, 0.1, -0.1, -0.3, -0.9]])
def test_variance_under_random_selection_is_the_enumerated_one(weights, pairs):
    w = np.array(weights)
    closed = selection_variance(np.float64(w @ w), np.float64(w.sum()), w.size, pairs)
    assert closed == pytest.approx(enumerated_variance(weights, pairs), rel=1e-12)
    if pairs:
        assert abs(closed - w @ w) > 1e-3


def mean_square_step(name, pairs, d=10, n=10, count=4000):
    """Mean square of a coordinate of a step under random ranks in units of what the path takes it to be."""
    c = cma_constants(d, n, None, pairs)
    z = draw(name, n, d, trials=count, seed=3)
    order = np.random.default_rng(4).permuted(np.tile(c.attracting, (count, 1)), axis=1)
    steps = float(c.gain_sigma) * np.einsum("tn,tnd->td", order, z)
    return np.mean(steps**2) / (c.c_sigma * (2 - c.c_sigma)), np.std(np.mean(steps**2, axis=1)) / np.sqrt(count)


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_path_of_random_steps_has_the_length_of_a_normal_vector(name):
    pairs = 5 if SAMPLINGS[name].mirrored else 0
    mean, error = mean_square_step(name, pairs)
    assert abs(mean - 1.0) < 5 * error
    if pairs:
        shorter, error = mean_square_step(name, 0)
        assert shorter < 1.0 - 20 * error


@pytest.mark.parametrize("name", ["mirrored", "mirrored-orthogonal"])
def test_the_step_size_does_not_fall_on_pure_noise(name, monkeypatch):
    """Random values: the logarithm of the step size walks at random, in 200 generations by about 2 in each trial."""

    def fall():
        method, trials = sl.cma(sampling=name), 100
        noise, values = Streams.spawn(1, trials), np.random.default_rng(2)
        state = method.init(FullGaussian.start(np.zeros((trials, 10)), np.ones((trials, 10))), 10)
        for _ in range(200):
            state, _ = method.tell(state, method.ask(state, noise, 10), values.random((trials, 10)))
        return np.mean(np.log(state.theta.deviations))

    assert fall() > -2.0
    monkeypatch.setattr("sublevel.engine.families.full.known_pairs", lambda noise, size: 0)
    monkeypatch.setattr("sublevel.engine.families.protocol.count_pairs", lambda squares: 0)
    assert fall() < -6.0


def test_constants_are_faster_by_the_share_of_pairs():
    """All of it for a default sample of pairs only, less for a larger one or if points lost their partner."""

    def ratios(n, pairs, freedom=None):
        plain, paired = cma_constants(10, n, freedom), cma_constants(10, n, freedom, pairs)
        damping = (paired.d_sigma - paired.c_sigma) / (plain.d_sigma - plain.c_sigma)
        return paired.c_1 / plain.c_1, paired.c_mu / plain.c_mu, damping

    for freedom in (None, 10, 1):
        assert [ratios(10, pairs, freedom)[0] for pairs in (0, 2, 5)] == pytest.approx([1.0, 1.2, 1.5], rel=1e-12)
        assert [ratios(n, n // 2, freedom)[0] for n in (4, 20, 100)] == pytest.approx([1.5, 1.25, 1.05], rel=1e-12)
        assert [ratios(n, n // 2, freedom)[2] for n in (4, 20, 100)] == pytest.approx([0.7, 0.85, 0.97], rel=1e-12)
    assert ratios(10, 5)[1] == pytest.approx(1.5, rel=1e-12)


def test_a_part_of_a_path_is_read_with_the_damping_of_pairs():
    for pairs in (0, 3, 5):
        whole, table = cma_constants(10, 10, 10, pairs), path_constants(10, 10, 10, pairs)
        assert table.gain[10] == pytest.approx(whole.scale_gain, rel=1e-12)
    assert path_constants(10, 10, 10, 5).gain[4] > 1.1 * path_constants(10, 10, 10).gain[4]


# ---------------------------------------------------------------------------------------------------- what users see


def evaluations(sampling, function, seeds, d=5):
    results = [
        sl.minimize(function, np.ones(d), 0.5, method=sl.cma(sampling=sampling), rng=seed, ftarget=1e-8)
        for seed in seeds
    ]
    assert all(result.success for result in results)
    return np.median([result.nfev for result in results])


def test_pairs_need_a_quarter_fewer_evaluations():
    for function in (sphere, lambda x: x**2 @ np.array([1.0, 1e6, 1e6, 1e6, 1e6])):
        independent = evaluations("independent", function, range(11))
        assert evaluations("mirrored-orthogonal", function, range(20, 31)) < 0.85 * independent


@pytest.mark.parametrize("recipe", [sl.cma, sl.xnes, sl.ngd, sl.rank_mu])
def test_an_unknown_sampling_is_refused(recipe):
    with pytest.raises(ValueError, match=r"`sampling` must be one of 'independent', .* got 'antithetic'"):
        recipe(sampling="antithetic")


def test_bits_have_no_mirror_images():
    with pytest.raises(ValueError, match="`sampling` must be Sampling"):
        replace(sl.pbil(), sampling=SAMPLINGS["mirrored"])


def test_names_are_those_of_the_registry():
    assert [sampling_name(rule) for rule in SAMPLINGS.values()] == list(SAMPLINGS)
    assert sl.cma(sampling="mirrored").name == "cma-mirrored"
    assert sl.cma(sampling="mirrored", step_size="tpa").name == "cma-tpa-mirrored"
    assert sl.cma() == sl.cma(sampling="mirrored-orthogonal")
    assert sl.cma(sampling="independent").name == "cma-independent"
    for recipe in (sl.xnes, sl.ngd, sl.rank_mu):
        assert recipe() == recipe(sampling="independent")
        assert recipe(sampling="mirrored-orthogonal").name == f"{recipe().name}-mirrored-orthogonal"


# -------------------------------------------------------------------------------------------------- with other parts

SETTINGS = {
    "plain": {},
    "bounds": {"bounds": [(0.2, 2.0)] * 4},
    "log": {"bounds": [(0.01, 10.0)] * 4, "log_scaled": True, "sigma0": 0.5},
    "integers": {"integrality": [True, False, False, True]},
    "restarts": {"restarts": "bipop", "maxfevals": 3000},
    "noise": {"noise": True, "maxfevals": 2000},
    "surrogate": {"surrogate": True},
    "odd": {"popsize": 9},
    "large": {"popsize": 40},
}


@pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("name", OTHER_SAMPLINGS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_run_is_the_same_stored_and_resumed(setting, name, family, tmp_path):
    """With a store, a run that is left in the middle and resumed."""
    method = sl.cma(sampling=name, family=family)
    arguments = {"x0": np.ones(4), "sigma0": 0.3, "maxfevals": 400, "rng": 3} | SETTINGS[setting] | {"method": method}
    whole = sl.minimize(sphere, **arguments)
    path, calls = tmp_path / "run.db", 0

    def interrupted(x):
        nonlocal calls
        calls += 1
        if calls > 150:
            raise KeyboardInterrupt
        return sphere(x)

    sl.minimize(interrupted, store=path, **arguments)
    again = sl.resume(path, sphere, method=method)
    assert (again.nfev, again.fun) == (whole.nfev, whole.fun)
    np.testing.assert_array_equal(again.x, whole.x)
    assert sl.load(path).result.nfev == whole.nfev


def test_pairs_of_a_sample_are_mirrored_before_bounds_fold_them():
    optimizer = sl.Optimizer(np.full(3, 0.1), 1.0, bounds=[(0.0, 1.0)] * 3, method=sl.cma(sampling="mirrored"), rng=1)
    points = optimizer.ask()
    assert ((points >= 0.0) & (points <= 1.0)).all()
    z = optimizer._pending.z
    np.testing.assert_array_equal(z[1::2], -z[: len(z) - len(z) % 2 : 2])


def test_two_point_adaptation_keeps_the_pairs():
    method = sl.cma(sampling="mirrored", step_size="tpa")
    noise, state = np.random.default_rng(1), method.init(FullGaussian.start(np.ones(4), np.ones(4)), 8)
    for _ in range(3):
        sample = method.ask(state, noise, 8)
        assert sample.with_pairs().pairs == 4
        state, _ = method.tell(state, sample, np.sum(sample.x**2, axis=-1))


def test_independent_points_come_from_the_generator_itself():
    noise = np.random.default_rng(1)
    assert SAMPLINGS["independent"].of(noise) is noise


@dataclass(frozen=True)
class Witness(Transform):
    """Notes the pairs that a generation is told of, and those that are there, found in plain loops."""

    seen: list = field(default_factory=list)
    needs_spectrum: ClassVar[bool] = False
    reads_points: ClassVar[bool] = True

    def __call__(self, tangent, memory, generation, /):
        z = generation.sample.z
        partners = [[j for j, other in enumerate(z) if np.allclose(other, -point, rtol=0, atol=1e-9)] for point in z]
        there = sum(len(mine) == 1 and len(partners[mine[0]]) == 1 for mine in partners) // 2
        self.seen.append((generation.sample.pairs, there, len(z) // 2))
        return tangent, memory


def tilted(x):
    """No minimum at the start, and different values of a point and its mirror image."""
    return float(np.sum((np.asarray(x, dtype=float) - 0.3) ** 2 * np.arange(1, len(x) + 1)))


def of_choices(p):
    return (p["a"] - 0.3) ** 2 + 2 * (p["b"] + 0.1) ** 2 + {"x": 0.0, "y": 1.0}[p["c"]]


INSIDE = NonlinearConstraint(lambda x: sum(x), 3.9, 4.2, keep_feasible=True)
WHOLE = {
    "plain": {},
    "two points": {"popsize": 2},
    "odd": {"popsize": 9},
    "more than variables": {"popsize": 40},
    "one variable": {"x0": [1.0]},
    "bounds": {"bounds": [(0.9, 1.1)] * 4},
    "log": {"bounds": [(0.01, 10.0)] * 4, "log_scaled": True},
    "two-point adaptation": {"method": sl.cma(step_size="tpa")},
    "population success": {"method": sl.cma(step_size="psr")},
    "adapted rates": {"method": sl.with_adapted_rates(sl.cma())},
    "noise": {"noise": True},
    "restarts": {"restarts": "ipop", "tolx": 0.1},
    "linear constraints": {"constraints": LinearConstraint(np.ones((1, 4)), -np.inf, 4.2)},
    "constraint functions": {"constraints": {"type": "ineq", "fun": lambda x: 3.0 - sum(x)}},
}
"""Settings that leave all pairs of a sample as they were drawn."""
PARTLY = {
    "redrawn points": {"constraints": INSIDE},
    "integers": {"integrality": [True, False, False, False], "x0": [3.4, 1.0, 1.0, 1.0]},
    "surrogate": {"surrogate": True},
    "choices": {"fun": of_choices, "x0": sl.Space(a=sl.Real(-1, 1), b=sl.Real(-1, 1), c=sl.Choice("x", "y"))},
}
"""Settings in which points are replaced or moved."""


def pairs_of(setting, family):
    """(told, there, possible) pairs of each generation of a run."""
    arguments = {"fun": tilted, "x0": np.ones(4), "sigma0": 0.3, "maxfevals": 400, "rng": 1} | setting
    if isinstance(arguments["x0"], sl.Space):
        del arguments["sigma0"]
    method, witness = arguments.get("method", sl.cma()), Witness()
    method = replace(method, family=family, transforms=(witness, *method.transforms))
    sl.minimize(**arguments | {"method": method})
    return np.array(witness.seen)


@pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("setting", WHOLE)
def test_all_pairs_are_told(setting, family):
    told, there, possible = pairs_of(WHOLE[setting], family).T
    np.testing.assert_array_equal(told, there)
    np.testing.assert_array_equal(told, possible)


@pytest.mark.parametrize("family", GAUSSIANS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("setting", PARTLY)
def test_points_that_were_replaced_are_in_no_pair(setting, family):
    if setting == "surrogate":
        family = FullGaussian  # of another one, no point is replaced by the minimiser of the model
    told, there, possible = pairs_of(PARTLY[setting], family).T
    np.testing.assert_array_equal(told, there)
    assert np.any(told < possible)
    assert np.any(told > 0)


def test_pairs_that_are_not_counted_again_would_be_noticed(monkeypatch):
    monkeypatch.setattr("sublevel.engine.families.protocol.count_pairs", lambda squares: len(squares) // 2)
    told, there, _ = pairs_of(PARTLY["redrawn points"], FullGaussian).T
    assert np.any(told != there)


def test_a_sample_that_was_taken_has_the_pairs_of_the_one_that_was_drawn():
    """Although whitening its points rounds them."""
    start = {"x0": 1e3 * np.ones(4), "sigma0": 0.5, "rng": 1}
    drawn, taken = sl.Optimizer(**start), sl.Optimizer(**start)
    drawn.ask()
    taken.take_sample(drawn._pending.x[::-1])
    assert count_pairs(drawn.theta.whiten(drawn._pending.x)[:, 0]) == 0
    assert taken._pending.with_pairs().pairs == 4
    moved = drawn._pending.x + 1e-3 * np.arange(8.0)[:, None]
    taken.take_sample(moved)
    assert taken._pending.with_pairs().pairs == 0
