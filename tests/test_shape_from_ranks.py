"""The shape of a valley from ranks alone: the same bits for everything that orders points alike, and an error that is
what it says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, kstest

import sublevel as sl
from sublevel.engine.arrays import MirroredFrames
from sublevel.engine.families import FullGaussian
from sublevel.engine.recipes import shape_only, xnes
from sublevel.engine.transforms import ConstantVolume, DecreasingRates, ExponentialRates, FixedRates
from sublevel.evaluation.evaluators import ComparisonEvaluator, evaluate_all
from sublevel.rank_shape import average
from sublevel.rank_shape.average import average_shapes, mean_variance


def hessian_root(d, condition, seed=5):
    """L (d, d) with H = LᵀL, a turned ellipsoid of that condition."""
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    return np.sqrt(condition ** (np.arange(d) / (d - 1)))[:, None] * turn


def quadratic(root, noise=0.0, seed=1):
    """‖Lx‖² of points (n, d), with noise of that standard deviation."""
    rng = np.random.default_rng(seed)
    return lambda x: np.sum(np.square(x @ root.T), axis=-1) + (noise * rng.standard_normal(len(x)) if noise else 0.0)


def condition(shape, root):
    """Cond(hess_inv·H)."""
    return np.linalg.cond(root @ shape.hess_inv @ root.T)


def learned(fun, d, *, sigma0=1.0, seed=1, **settings):
    return sl.shape_from_ranks(fun, np.zeros(d), sigma0=sigma0, rng=seed, vectorized=True, **settings)


def converged(root):
    """What the default method finds on the quadratic of that root."""
    return sl.minimize(quadratic(root), np.ones(root.shape[1]), 0.5, rng=1, vectorized=True)


def by_value(root):
    return lambda x: float(np.sum(np.square(root @ x)))


@pytest.fixture(scope="module")
def valley():
    """The valley of the acceptance criterion with the end of a run in it."""
    root = hessian_root(20, 1e6)
    return root, converged(root)


def asked_three_ways(root, found, iterations):
    """f, log f and a judge of two points, each with the same seed."""
    fun = by_value(root)
    yield sl.shape_from_ranks(fun, found, iterations=iterations, rng=3)
    yield sl.shape_from_ranks(lambda x: np.log(fun(x)), found, iterations=iterations, rng=3)
    yield sl.shape_from_ranks(lambda x, y: fun(x) < fun(y), found, iterations=iterations, rng=3, comparison=True)


def check_three_ways(valley, iterations, limit):
    root, found = valley
    f, log_f, judged = asked_three_ways(root, found, iterations)
    assert condition(f, root) <= limit
    assert f.popsize == 400
    assert np.array_equal(f.root, log_f.root)
    assert np.array_equal(f.root, judged.root)
    assert f.success
    assert (f.comparisons, log_f.comparisons) == (0, 0)
    assert 0 < judged.comparisons <= judged.nfev * (np.log2(400) + 1)
    other = sl.shape_from_ranks(lambda x: -by_value(root)(x), found, iterations=8, rng=3)
    assert not np.array_equal(f.root, other.root)


def test_f_its_logarithm_and_a_judge_give_the_same_bits(valley):
    check_three_ways(valley, 100, 1.25)


@pytest.mark.slow
def test_four_times_as_many_iterations(valley):
    check_three_ways(valley, 400, 1.12)


def test_independent_points_would_not_do(valley, monkeypatch):
    """The negative control: what mirrored frames are for."""
    root, found = valley
    monkeypatch.setattr(MirroredFrames, "standard_normal", lambda self, size: self.generator.standard_normal(size))
    assert condition(sl.shape_from_ranks(quadratic(root), found, vectorized=True, rng=3), root) > 1.25


@pytest.mark.parametrize("limit", [1e2, 1e6, 1e10])
def test_a_start_that_knows_nothing_of_the_valley_will_do(limit):
    root = hessian_root(10, limit)
    shape = learned(quadratic(root), 10, iterations=100 if limit < 1e10 else 200)
    assert condition(shape, root) <= shape.accuracy(1 - 1e-6)
    assert shape.accuracy() < 1.15
    assert shape.success


def test_everything_the_shape_says_is_about_the_same_matrix():
    root = hessian_root(5, 1e4)
    shape = learned(quadratic(root), 5)
    truth = root.T @ root / np.exp(np.linalg.slogdet(root)[1] * 2 / 5)
    assert np.linalg.det(shape.hess_inv) == pytest.approx(1)
    np.testing.assert_allclose(shape.hess_inv @ shape.hessian, np.eye(5), atol=1e-9)
    np.testing.assert_allclose((shape.directions * shape.curvatures) @ shape.directions.T, shape.hessian, rtol=1e-9)
    assert np.all(np.diff(shape.curvatures) < 0)
    values = np.linalg.eigvalsh(truth)[::-1]
    assert np.all(np.abs(shape.curvatures - values) < 5.5 * shape.curvatures_error)  # beyond 5.5 lies 4e-8 of a normal
    inverse = np.linalg.inv(truth)
    assert np.all(np.abs(shape.hess_inv - inverse) < 5.5 * shape.hess_inv_error)
    deviations = np.sqrt(np.diagonal(inverse))
    gaps = np.abs(shape.correlation - inverse / deviations / deviations[:, None])
    assert np.all(gaps <= 5.5 * shape.correlation_error + 1e-12)
    assert np.all(shape.correlation_error[~np.eye(5, dtype=bool)] > 0)
    assert np.all(np.abs(shape.x) < 0.1)
    text = shape.summary()
    assert f"≤ {shape.accuracy():.4g} with 95 % confidence" in text
    assert len(text.splitlines()) == 3 + 5
    assert str(shape) == text


# The error is what it says


def coverage(d, condition_number, noise, seeds, **settings):
    """How often accuracy(95 %) and accuracy(50 %) hold, and the true errors in units of the reported one."""
    holds, errors = np.zeros(2), []
    for seed in range(seeds):
        root = hessian_root(d, condition_number, seed)
        shape = learned(
            quadratic(root, noise, seed), d, sigma0=condition_number**-0.25, seed=seed, scale=1.0, **settings
        )
        holds += [condition(shape, root) <= shape.accuracy(level) for level in (0.95, 0.5)]
        matrix = root @ shape.hess_inv @ root.T
        values, vectors = np.linalg.eigh(matrix / np.exp(np.linalg.slogdet(matrix)[1] / d))
        errors.append(((vectors * np.log(values)) @ vectors.T)[np.triu_indices(d, 1)] / shape.error)
    return holds, np.concatenate(errors)


def check_calibration(d, condition_number, noise, seeds, **settings):
    holds, errors = coverage(d, condition_number, noise, seeds, **settings)
    # Within 5 points of what is promised, up to what chance does once in 10⁶ times.
    for count, level in zip(holds, (0.95, 0.5), strict=True):
        assert binom.ppf(5e-7, seeds, level - 0.05) <= count <= binom.ppf(1 - 5e-7, seeds, min(level + 0.05, 1.0))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1, abs=0.15)
    assert np.mean(np.abs(errors) < 2) == pytest.approx(0.95, abs=0.03)


def test_error_is_calibrated():
    check_calibration(5, 100, 2.0, 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "condition_number", "noise"), [(3, 10, 2.0), (5, 1e4, 0.0), (5, 100, 2.0), (10, 1e4, 0.0), (10, 100, 3.0)]
)
def test_error_is_calibrated_with_and_without_noise(d, condition_number, noise):
    check_calibration(d, condition_number, noise, 300)


def test_error_of_an_average_that_takes_iterations_for_independent_is_too_small(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(average, "_coefficient", lambda ratio, count: 0.0)
    holds, errors = coverage(5, 100, 2.0, 20)
    assert holds[0] < 10
    assert np.sqrt(np.mean(np.square(errors))) > 1.5


def wandering(phi, count, k, rng):
    """exp(G) (count, k, k) of symmetric matrices of trace 0 that follow an autoregressive process, entries of variance
    1e-4.
    """
    noise = rng.standard_normal((count, k, k))
    noise = 1e-2 * (noise + noise.mT) / np.sqrt(2)
    g = noise - np.trace(noise, axis1=-2, axis2=-1)[:, None, None] * np.eye(k) / k
    for t in range(1, count):
        g[t] = phi * g[t - 1] + np.sqrt(1 - phi**2) * g[t]
    values, vectors = np.linalg.eigh(g)
    return (vectors * np.exp(values)[:, None]) @ vectors.mT


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_average_of_an_autoregressive_sequence_has_the_error_it_says(phi, rng):
    reported, true, found = [], [], []
    for _ in range(200):
        got = average_shapes(wandering(phi, 60, 4, rng))
        reported.append(got.error**2)
        found.append(got.correlation)
        true.append((got.root @ got.root.T)[np.triu_indices(4, 1)])
    assert np.mean(reported) == pytest.approx(mean_variance(phi, 60) * 1e-4, rel=0.1)
    assert np.mean(np.square(true)) == pytest.approx(np.mean(reported), rel=0.2)
    assert np.mean(found) == pytest.approx(phi, abs=0.03)


@pytest.mark.parametrize("k", [2, 3])
def test_error_of_an_average_of_independent_shapes_is_that_of_chi_square(k, rng, monkeypatch):
    """Symmetric matrices of trace 0 have k(k + 1)/2 − 1 entries, of which the last one on the diagonal is not free."""
    monkeypatch.setattr(average, "_coefficient", lambda ratio, count: 0.0)
    repeats, count, entries = 400, 30, len(np.triu_indices(k)[0]) - 1
    found = [average_shapes(wandering(0.0, count, k, rng)) for _ in range(repeats)]
    squares = np.array([one.error**2 for one in found])
    dof = entries * (count - 1)
    assert np.mean(squares) == pytest.approx(1e-4 / count, rel=4 * np.sqrt(2 / dof / repeats))
    assert np.var(squares) == pytest.approx(2 / dof * np.mean(squares) ** 2, rel=4 * np.sqrt(2 / repeats))
    assert {one.dof for one in found} == {entries * count}


def test_mean_variance_is_the_double_sum():
    lags = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    assert mean_variance(0.6, 7) == pytest.approx(np.mean(0.6**lags))


def test_width_of_random_matrices_by_their_tridiagonal_form(rng):
    dense = rng.standard_normal((4000, 6, 6))
    values = np.linalg.eigvalsh((dense + dense.mT) / np.sqrt(2))
    assert kstest(average.eigenvalue_widths(6), values[:, -1] - values[:, 0]).pvalue > 1e-6
    assert kstest(average.eigenvalue_widths(5), values[:, -1] - values[:, 0]).pvalue < 1e-6


# Laws


def test_noise_costs_precision_and_not_the_answer():
    root = hessian_root(5, 100)
    plain, noisy = (learned(quadratic(root, noise), 5, scale=1.0) for noise in (0.0, 30.0))
    assert condition(noisy, root) <= noisy.accuracy(1 - 1e-6)
    assert noisy.accuracy() > plain.accuracy()
    assert plain.signal > noisy.signal


@pytest.mark.parametrize("power", [-30, 7])
def test_units_that_are_a_power_of_two_away_give_the_same_bits(power):
    root, unit = hessian_root(4, 100), 2.0**power
    one, other = (
        learned(quadratic(root), 4, iterations=20),
        learned(quadratic(root / unit), 4, sigma0=unit, iterations=20),
    )
    assert np.array_equal(one.root, other.root)
    assert np.array_equal(one.x * unit, other.x)


def test_linear_maps_of_the_space_map_the_shape(rng):
    root, turn = hessian_root(4, 100), rng.standard_normal((4, 4))
    turn /= np.abs(np.linalg.det(turn)) ** 0.25
    inverse = np.linalg.inv(turn)
    start, other = sl.Optimizer(np.zeros(4), 1.0), sl.Optimizer(np.zeros(4), 1.0)
    theta = start.theta
    turned = replace(other.state, theta=FullGaussian(theta.mean, turn @ theta.root, theta.scale))
    other.run_state = replace(other.run_state, search=turned)
    one = sl.shape_from_ranks(quadratic(root), start, vectorized=True, iterations=30, rng=1)
    mapped = sl.shape_from_ranks(quadratic(root @ inverse), other, vectorized=True, iterations=30, rng=1)
    np.testing.assert_allclose(turn @ one.hess_inv @ turn.T, mapped.hess_inv, rtol=1e-6)


def test_scale_grows_until_values_differ():
    root = hessian_root(4, 100)
    found = sl.minimize(lambda x: quadratic(root)(x) + 1.0, np.ones(4), 0.5, vectorized=True, rng=1, maxfevals=20_000)
    tiny = sl.Optimizer(found.mean, 1e-12)
    shape = sl.shape_from_ranks(lambda x: quadratic(root)(x) + 1.0, tiny, vectorized=True, rng=1)
    assert shape.scale > 1e3
    assert condition(shape, root) <= 1.1
    fixed = sl.shape_from_ranks(lambda x: quadratic(root)(x) + 1.0, tiny, vectorized=True, rng=1, scale=1.0)
    assert "stalled" in {problem.name for problem in fixed.problems}


def test_bounds_of_a_result_hold_and_variables_at_them_are_left_out():
    root, seen = hessian_root(3, 100), []

    def fun(x):
        seen.append(x)
        return quadratic(root)(np.delete(x, 1, axis=1)) + x[:, 1]

    found = sl.minimize(fun, np.ones(4), 0.5, bounds=[(-5, 5), (0.5, 5), (-5, 5), (-5, 5)], vectorized=True, rng=1)
    shape = sl.shape_from_ranks(fun, found, vectorized=True, rng=1)
    assert [problem.name for problem in shape.problems] == ["at_bound"]
    assert "x[1]" in shape.problems[0].sentence
    assert np.concatenate(seen)[:, 1].min() >= 0.5
    free = [0, 2, 3]
    assert shape.free.tolist() == [True, False, True, True]
    assert np.linalg.cond(root @ shape.hess_inv[np.ix_(free, free)] @ root.T) < 1.1
    assert not shape.hess_inv[1].any()
    assert np.isnan(shape.hessian[1]).all()


def test_one_dimension_has_one_shape_and_costs_nothing():
    shape = sl.shape_from_ranks(lambda x: 1 / 0, [3.0], sigma0=1.0)
    assert shape.hess_inv.tolist() == [[1.0]]
    assert (shape.nfev, shape.accuracy(), shape.error, shape.success) == (0, 1.0, 0.0, True)
    assert shape.x.tolist() == [3.0]


# What is named


SLOPES = {
    "saddle": lambda x: np.sum(np.square(x[:, 1:]), axis=1) - 0.1 * np.square(x[:, 0]),
    "maximum": lambda x: -np.sum(np.square(x), axis=1),
    "slope": lambda x: x[:, 0],
    "flat direction": lambda x: np.sum(np.square(x[:, 1:]), axis=1),
}


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("name", SLOPES)
def test_what_has_no_minimum_does_not_settle(name, d):
    problems = {problem.name: problem for problem in learned(SLOPES[name], d).problems}
    assert "unsettled" in problems
    assert max(problems["unsettled"].numbers.values()) > 4


@pytest.mark.parametrize("d", [2, 6])
def test_nothing_but_noise_is_named(d):
    rng = np.random.default_rng(1)
    names = {problem.name for problem in learned(lambda x: rng.standard_normal(len(x)), d).problems}
    assert "weak_signal" in names


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_plain_valleys_have_no_problems(d, seed):
    for fun in (
        quadratic(hessian_root(d, 1e3, seed)),
        lambda x: np.sum(np.abs(x), axis=1),
        lambda x: np.sum(x**4, axis=1),
    ):
        assert learned(fun, d, seed=seed).problems == ()


def test_iterations_that_told_nothing_are_counted():
    shape = learned(lambda x: np.where(np.linalg.norm(x) > 1e9, 1.0, np.nan) + 0 * x[:, 0], 2, scale=1.0, iterations=10)
    assert {problem.name: problem.numbers for problem in shape.problems}["stalled"] == {"stalls": 10.0}


REFUSED = {
    "f has the same value, 1.0, at all points": {"fun": lambda x: 1.0},
    r"f has no value except NaN or \+inf": {"fun": lambda x: np.nan},
    "at least 4 points per free direction, 8 here, got 7": {"popsize": 7},
    "`iterations` must be a whole number of at least 8": {"iterations": 7},
    "`sigma0` is missing": {"sigma0": None},
    "`scale` must be one positive number": {"scale": -1.0},
    "`fun` must be a function": {"fun": 3},
    "leave out `vectorized`, `workers`": {"comparison": True, "workers": 2},
    "one pair of points at a time": {"comparison": True, "vectorized": True},
    "`comparison` must be True or False": {"comparison": "yes"},
    "every variable is fixed": {"bounds": [(0, 0), (0, 0)]},
    "must be True or False, got": {"fun": lambda x, y: 0.5, "comparison": True},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_work_is_refused(message):
    settings = {"fun": lambda x: x @ x, "sigma0": 1.0} | REFUSED[message]
    with pytest.raises((ValueError, TypeError), match=message.split(", got")[0]):
        sl.shape_from_ranks(settings.pop("fun"), [0.0, 0.0], **settings)


def test_a_space_is_judged_by_its_named_parameters():
    space = sl.Space(a=sl.Real(-1, 1), b=sl.Real(-1, 1))

    def fun(params):
        return params["a"] ** 2 + 25 * params["b"] ** 2

    result, settings = sl.minimize(fun, space, rng=1), {"iterations": 20, "rng": 1}
    judged = sl.shape_from_ranks(lambda p, q: bool(fun(p) < fun(q)), result, comparison=True, **settings)
    shape = sl.shape_from_ranks(fun, result, **settings)
    np.testing.assert_array_equal(shape.hess_inv, judged.hess_inv)
    np.testing.assert_allclose(shape.hess_inv[0, 0] / shape.hess_inv[1, 1], 25, rtol=0.1)


def test_a_result_has_its_own_deviations_and_bits_have_no_shape():
    found = sl.minimize(lambda x: x @ x, [1.0, 1.0], 0.5, rng=1)
    with pytest.raises(ValueError, match="Enlarge them with `scale`"):
        sl.shape_from_ranks(lambda x: x @ x, found, sigma0=1.0)
    with pytest.raises(ValueError, match="binary methods"):
        sl.shape_from_ranks(lambda x: x.sum(), sl.Optimizer([0.5, 0.5], None, method="pbil"))
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
        sl.shape_from_ranks(lambda x: x @ x, found, iterations=8, rng=1).accuracy(1.0)


# Comparisons


def test_comparisons_are_about_n_log_n(rng):
    points, asked = rng.standard_normal((500, 3)), []

    def better(x, y):
        asked.append(1)
        return x[0] < y[0]

    ranks = evaluate_all(ComparisonEvaluator(better), points)
    assert np.array_equal(ranks, np.argsort(np.argsort(points[:, 0])))
    assert len(asked) <= 500 * np.log2(500) + 500


def test_points_of_which_none_is_better_share_a_rank(rng):
    points = rng.integers(0, 4, (50, 2)).astype(float)
    ranks = evaluate_all(ComparisonEvaluator(lambda x, y: bool(x[0] < y[0])), points)
    assert np.array_equal(ranks, points[:, 0])


def test_an_error_of_a_judge_comes_with_both_points(rng):
    with pytest.raises(ZeroDivisionError) as caught:
        evaluate_all(ComparisonEvaluator(lambda x, y: 1 / 0), rng.standard_normal((3, 2)))
    assert caught.value.sublevel_x.shape == (2, 2)


def test_a_judge_gets_args():
    shape = sl.shape_from_ranks(
        lambda x, y, a: bool(x @ a @ x < y @ a @ y), [0, 0], sigma0=1, comparison=True, args=(np.diag([1, 100]),), rng=1
    )
    assert shape.curvatures[0] / shape.curvatures[1] == pytest.approx(100, rel=0.1)


# The parts


def test_mirrored_frames_are_normal_row_by_row(rng):
    frames = MirroredFrames(rng)
    z = frames.standard_normal((2000, 24, 3))[:, 5]  # one row of many samples: independent
    assert kstest(z.ravel(), "norm").pvalue > 1e-6
    assert kstest(np.sum(np.square(z), axis=1), "chi2", (3,)).pvalue > 1e-6
    sample = frames.standard_normal((12, 3))
    assert np.array_equal(sample[:3], -sample[3:6])
    gram = sample[:3].T @ sample[:3]
    np.testing.assert_allclose(gram, np.eye(3) * gram[0, 0], atol=1e-12 * gram[0, 0])
    assert frames.standard_normal((7, 3)).shape == (7, 3)
    assert frames.random((2, 2)).shape == (2, 2)


@pytest.mark.parametrize(
    "rates",
    [FixedRates(0.1, 0.02), ExponentialRates(), DecreasingRates(5.0, 10)],
    ids=["fixed", "exponential", "fading"],
)
@pytest.mark.parametrize(("d", "n"), [(5, 4), (5, 30), (70, 8)])
def test_kept_volume_is_kept(rates, d, n, rng):
    def log_volume(transforms):
        method = replace(xnes(), transforms=transforms)
        state = method.init(FullGaussian.start(np.zeros((2, d)), np.ones((2, d))), n)
        for _ in range(5):
            sample = method.ask(state, rng, n)
            state, _ = method.tell(state, sample, np.sum(np.square(sample.x) * np.arange(1, d + 1), axis=-1))
        return np.linalg.slogdet(state.theta.root)[1] + d * np.log(state.theta.scale)

    assert np.max(np.abs(log_volume((rates, ConstantVolume())))) < 1e-12 * d
    assert np.max(np.abs(log_volume((rates,)))) > 1e-3


def test_fading_rates_fall_and_settle():
    method = shape_only(span=2.0, constant_from=4)
    state, steps = method.init(FullGaussian.start(np.zeros(3), np.ones(3)), 12), []
    for _ in range(6):
        sample = method.ask(state, MirroredFrames(np.random.default_rng(1)), 12)
        after, _ = method.tell(state, sample, sample.x @ [1.0, 2.0, 3.0])
        steps.append(
            np.linalg.norm(np.linalg.solve(state.theta.root, after.theta.mean - state.theta.mean) / state.theta.scale)
        )
        state = replace(state, memory=after.memory)
    np.testing.assert_allclose(np.array(steps) / steps[0], [1, 1, 2 / 3, 1 / 2, 1 / 2, 1 / 2], rtol=1e-12)
    assert max(steps) <= 0.5 + 1e-12


@pytest.mark.parametrize(("span", "constant_from"), [(0.0, 5), (5.0, 0)])
def test_decreasing_rates_are_validated(span, constant_from):
    with pytest.raises(ValueError, match="`span` must be positive and `constant_from` at least 1"):
        DecreasingRates(span, constant_from)
