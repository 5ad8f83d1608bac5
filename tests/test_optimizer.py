"""The protocol of ask and tell: what may be told, when, and that nothing is lost by a mistake."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import sublevel as sl
from helpers.runs import GAUSSIAN, METHODS, assert_sound, bits, cube, started, told

each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def test_tell_before_ask_is_refused():
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4)
    with pytest.raises(RuntimeError, match=r"call `ask\(\)` before each"):
        opt.tell(np.zeros((4, 2)), np.zeros(4))


def test_telling_twice_is_refused_and_changes_nothing():
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4)
    X = opt.ask()
    opt.tell(X, cube(X))
    before = bits(opt)
    with pytest.raises(RuntimeError, match="without a pending sample"):
        opt.tell(X, cube(X))
    assert bits(opt) == before
    assert (opt.nfev, opt.nit) == (4, 1)


BAD_POINTS = [
    (lambda X: X[:3], ValueError, r"shape \(4, 2\), got shape \(3, 2\)"),
    (lambda X: X[:, :1], ValueError, r"got shape \(4, 1\)"),
    (lambda X: X.T, ValueError, r"got shape \(2, 4\)"),
    (lambda X: X[None], ValueError, r"got shape \(1, 4, 2\)"),
    (lambda X: X[0], ValueError, r"got shape \(2,\)"),
    (lambda X: None, ValueError, r"got shape \(\)"),
    (lambda X: [], ValueError, r"got shape \(0,\)"),
    (lambda X: [[1.0, 2.0], [3.0]], ValueError, "got"),
    (lambda X: X.astype(str), TypeError, "dtype"),
    (lambda X: X.astype(complex), TypeError, "dtype"),
    (lambda X: X + 1.0, ValueError, "4 of 4 are missing"),
    (lambda X: X.astype(np.float32), ValueError, "4 of 4 are missing"),
    (lambda X: np.full_like(X, np.nan), ValueError, "4 of 4 are missing"),
    (lambda X: X[[0, 1, 2, 2]], ValueError, "1 of 4 are missing"),
    (lambda X: X[[0, 0, 0, 0]], ValueError, "3 of 4 are missing"),
]
BAD_VALUES = [
    (lambda f: f[:3], ValueError, r"`values`.*of shape \(3,\)"),
    (lambda f: f[:, None], ValueError, r"of shape \(4, 1\)"),
    (lambda f: f[0], ValueError, r"of shape \(\)"),
    (lambda f: None, TypeError, "`values`"),
    (lambda f: f * 1j, TypeError, "dtype complex"),
    (lambda f: f.astype(str), TypeError, "dtype"),
    (lambda f: [1.0, 2.0, 3.0, None], TypeError, "None"),
    (lambda f: ["a", "b", "c", "d"], TypeError, "'a'"),
]


def assert_can_still_be_told(opt, X):
    """The run goes on as if the mistake had not been made."""
    untroubled = told(sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=7), cube, 2)
    assert (opt.nfev, opt.nit, opt.stop()) == (0, 0, {})
    opt.tell(X, cube(X))
    assert bits(told(opt, cube)) == bits(untroubled)
    assert (opt.nfev, opt.best_fun) == (untroubled.nfev, untroubled.best_fun)


@pytest.mark.parametrize(("spoil", "kind", "words"), BAD_POINTS, ids=[words for *_, words in BAD_POINTS])
def test_points_that_were_not_asked_are_refused_and_nothing_is_lost(spoil, kind, words):
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=7)
    X = opt.ask()
    with pytest.raises(kind, match=words):
        opt.tell(spoil(X), cube(X))
    assert_can_still_be_told(opt, X)


@pytest.mark.parametrize(("spoil", "kind", "words"), BAD_VALUES, ids=[words for *_, words in BAD_VALUES])
def test_values_that_are_none_are_refused_and_nothing_is_lost(spoil, kind, words):
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=7)
    X = opt.ask()
    with pytest.raises(kind, match=words):
        opt.tell(X, spoil(cube(X)))
    assert_can_still_be_told(opt, X)


def test_a_failure_inside_the_method_loses_nothing():
    class Weights:
        calls = 0

        def __call__(self, ranks, sample):
            self.calls += 1
            if self.calls == 1:
                raise MemoryError
            return sl.cma().weights(ranks, sample)

    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=7, method=replace(sl.cma(), name="frail", weights=Weights()))
    X = opt.ask()
    with pytest.raises(MemoryError):
        opt.tell(X, cube(X))
    assert_can_still_be_told(opt, X)


@each_method
@pytest.mark.parametrize("popsize", [5, 12])
def test_points_may_be_told_in_any_order(method, popsize, rng):
    straight, shuffled = started(method, 4, popsize), started(method, 4, popsize)
    for _ in range(20):
        X = shuffled.ask()
        order = rng.permutation(popsize)
        shuffled.tell(X[order], cube(X)[order])
        told(straight, cube)
    assert bits(shuffled) == bits(straight)
    assert shuffled.best_x.tobytes() == straight.best_x.tobytes()


@each_method
def test_points_may_come_back_from_json(method):
    straight, travelled = started(method, 3), started(method, 3)
    for _ in range(10):
        X = travelled.ask()
        points = json.loads(json.dumps(X.tolist()))[::-1]
        travelled.tell(points, [float(cube(np.array(x))) for x in points])
        told(straight, cube)
    assert bits(travelled) == bits(straight)


def test_bits_may_be_told_as_bools_and_repeat_themselves():
    straight, as_bools = started(sl.pbil(popsize=20), 2), started(sl.pbil(popsize=20), 2)
    for _ in range(5):
        X = as_bools.ask().astype(bool)[::-1]  # 20 points, of which at most 4 differ
        as_bools.tell(X, np.sum(X, axis=1))
        told(straight, lambda X: np.sum(X, axis=1))
    assert bits(as_bools) == bits(straight)


def test_minus_zero_is_zero_on_the_way_back():
    opt = sl.Optimizer([0.0, 0.0], None, method=sl.pbil(popsize=4), rng=1)
    X = opt.ask()
    opt.tell(np.where(X == 0, -0.0, X)[::-1], cube(X)[::-1])
    assert opt.nit == 1


def test_asking_again_forgets_the_sample_before():
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=1)
    first, second = opt.ask(), opt.ask()
    assert not np.array_equal(first, second)
    with pytest.raises(ValueError, match="4 of 4 are missing"):
        opt.tell(first, cube(first))
    opt.tell(second, cube(second))
    assert opt.nfev == 4


# ---------------------------------------------------------------------------------------------------- what an optimizer
# shows


@each_method
def test_what_it_shows_cannot_be_used_to_change_it(method):
    opt = told(started(method, 3), cube, 3)
    for shown in (opt.mean, opt.deviations, opt.best_x, opt.ask()):
        with pytest.raises(ValueError, match="read-only"):
            shown[...] = 0.0
    before = bits(opt)
    opt.cov[...] = 0.0
    assert bits(opt) == before


@each_method
def test_counts_and_best_are_kept(method, rng):
    opt = started(method, 3, 6)
    assert np.isnan(opt.best_fun)
    assert np.isnan(opt.generation_best)
    points, values = [], []
    for generation in range(1, 8):
        X, f = opt.ask(), rng.standard_normal(6)
        opt.tell(X, f)
        points.extend(X)
        values.extend(f)
        assert (opt.nfev, opt.nit) == (6 * generation, generation)
        assert opt.generation_best == np.min(f)
        assert opt.best_fun == np.min(values)
        np.testing.assert_array_equal(opt.best_x, points[np.argmin(values)])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("generations", "best", "generation", "index"),
    [
        ([[NAN, NAN, NAN]], NAN, None, None),
        ([[INF, NAN, INF]], INF, 0, None),
        ([[INF, INF, NAN], [NAN, 5.0, INF]], 5.0, 1, 1),
        ([[NAN, 3.0, 2.0], [2.0, 2.0, 2.5]], 2.0, 0, 2),
        ([[NAN, NAN, NAN], [NAN, INF, NAN], [NAN, NAN, 1.0]], 1.0, 2, 2),
        ([[1.0, -INF, NAN], [-INF, -INF, -1.0]], -INF, 0, 1),
        ([[-1e308, 1.0, INF], [0.0, -INF, NAN]], -INF, 1, 1),
        ([[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0]], 0.0, 0, 0),
        ([[5e-324, 1.0, 2.0], [0.0, 1.0, 2.0]], 0.0, 1, 0),
    ],
)
def test_the_best_is_the_first_of_the_smallest_and_never_nan(generations, best, generation, index):
    opt = sl.Optimizer([0.5, 0.25], 1.0, popsize=3, rng=1)
    samples = []
    for values in generations:
        samples.append(opt.ask())
        opt.tell(samples[-1], values)
    np.testing.assert_equal(opt.best_fun, best)
    if generation is None:
        np.testing.assert_array_equal(opt.best_x, [0.5, 0.25])
    elif index is None:
        assert any(np.array_equal(opt.best_x, point) for point in samples[generation])
    else:
        np.testing.assert_array_equal(opt.best_x, samples[generation][index])


# ---------------------------------------------------------------------------------------------------- seeds, methods,
# sizes


@each_method
@pytest.mark.parametrize("seed", [0, 12345, [1, 2, 3], np.random.SeedSequence(5), np.int64(7)], ids=str)
def test_the_same_seed_gives_the_same_bits(method, seed):
    once, again = (told(started(method, 5, rng=seed), cube, 20) for _ in range(2))
    assert bits(once) == bits(again)
    assert bits(once) != bits(told(started(method, 5, rng=99), cube, 20))


def test_a_generator_is_used_as_it_is():
    def mean_of(rng):
        return told(sl.Optimizer([1.0, 0.0], 1.0, rng=rng), cube, 5).mean.tobytes()

    assert mean_of(np.random.default_rng(3)) == mean_of(3)
    generator = np.random.default_rng(3)
    assert mean_of(generator) != mean_of(generator)
    assert mean_of(np.random.PCG64(3)) == mean_of(3)
    assert mean_of(np.random.Generator(np.random.SFC64(3))) != mean_of(3)


def test_no_seed_is_a_fresh_one():
    first, second = (sl.Optimizer([0.0, 0.0], 1.0).ask() for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("ngd", sl.ngd()),
        ("sep-ngd", sl.ngd(family=sl.DiagonalGaussian)),
        ("iso-ngd", sl.ngd(family=sl.IsotropicGaussian)),
        ("rank-mu", sl.rank_mu()),
        ("sep-rank-mu", sl.rank_mu(family=sl.DiagonalGaussian)),
        ("iso-rank-mu", sl.rank_mu(family=sl.IsotropicGaussian)),
        ("pbil", sl.pbil()),
    ],
)
def test_a_method_may_be_named_or_given(name, method):
    sigma0 = None if name == "pbil" else 0.5
    by_name, by_value = (told(sl.Optimizer([0.5] * 3, sigma0, method=m, rng=1), cube, 20) for m in (name, method))
    assert bits(by_name) == bits(by_value)
    results = [sl.minimize(cube, [0.5] * 3, sigma0, method=m, rng=1, maxiter=20) for m in (name, method)]
    assert results[0].mean.tobytes() == results[1].mean.tobytes() == by_name.mean.tobytes()


@pytest.mark.parametrize("recipe", [sl.ngd, sl.rank_mu, sl.pbil])
@pytest.mark.parametrize(
    ("inside", "outside", "expected"), [(None, None, 10), (6, None, 6), (None, 7, 7), (6, 7, 7), (6, np.int32(9), 9)]
)
def test_popsize_as_an_argument_wins_over_that_of_the_method(recipe, inside, outside, expected):
    opt = started(recipe(popsize=inside), 8, outside)
    assert opt.popsize == expected
    assert opt.ask().shape == (expected, 8)


# ---------------------------------------------------------------------------------------------------- stop


@each_method
def test_there_is_no_reason_to_stop_before_the_first_tell(method):
    opt = started(method, 3)
    assert opt.stop() == {}
    opt.ask()
    assert opt.stop() == {}


@pytest.mark.parametrize("method", [pytest.param(m, id=n) for n, m in GAUSSIAN.items() if m.name == "ngd"])
def test_a_run_that_shrank_enough_has_converged(method):
    opt = started(method, 3, 12, x0=0.0)
    for _ in range(20_000):
        if opt.stop():
            break
        told(opt, cube)
    (reason, width), *others = opt.stop().items()
    assert (reason, others) == ("tolx", [])
    assert width == np.max(opt.deviations) / 0.7 <= 1e-11


def test_stop_does_not_notice_the_scale_of_the_problem():
    ends = []
    for scale in (2.0**-900, 1.0, 2.0**900):
        opt = sl.Optimizer([scale, 0.0], 0.5 * scale, rng=1)
        while not opt.stop():
            told(opt, cube)
        ends.append((opt.nit, opt.stop()))
    assert ends[0] == ends[1] == ends[2]


@each_method
@pytest.mark.parametrize("constant", [0.0, -1e308, 5e-324])
def test_a_flat_function_is_named_after_two_generations(method, constant):
    opt = started(method, 6, 8)
    told(opt, lambda X: np.full(8, constant))
    assert opt.stop() == {}
    told(opt, lambda X: np.full(8, constant))
    assert opt.stop() == {"flat": 2.0}


def test_a_standstill_counts_only_in_a_row_and_of_one_kind():
    opt = sl.Optimizer([0.0, 0.0], 1.0, popsize=4, rng=1)
    for values in ([1.0] * 4, [1.0, 2.0, 3.0, 4.0], [1.0] * 4, [NAN] * 4, [1.0] * 4):
        told(opt, lambda X, values=values: values)
        assert opt.stop() == {}
    told(opt, lambda X: [1.0] * 4)
    assert opt.stop() == {"flat": 2.0}
    told(opt, cube)
    assert opt.stop() == {}


def test_steps_that_change_nothing_are_named():
    opt = sl.Optimizer(np.full(3, 1e8), 1.0, popsize=12, rng=1)
    while not opt.stop():
        told(opt, lambda X: cube(X - 1e8))
    assert list(opt.stop()) == ["no_effect"]
    assert np.max(opt.deviations) > 1e-9  # the spacing of floats near 1e8 is 1.5e-8
    assert_sound(opt)


def test_some_coordinates_may_end_at_the_spacing_of_floats_and_others_at_the_tolerance():
    optimum = np.array([1e8, 0.0, 0.0])
    opt = sl.Optimizer(optimum + 1.0, 1.0, popsize=12, method="sep-ngd", rng=1)
    for _ in range(5_000):
        if opt.stop():
            break
        told(opt, lambda X: cube(X - optimum))
    assert list(opt.stop()) == ["no_effect"]


def test_a_start_without_effect_has_not_converged():
    opt = told(sl.Optimizer([1.0, 1.0], 1e-30, rng=1), cube)
    assert opt.stop() == {"too_narrow": 1.0}


def test_bits_have_converged_when_samples_hold_one_point():
    opt = sl.Optimizer(np.full(8, 0.5), None, method="pbil", rng=1)
    for _ in range(5_000):
        if opt.stop():
            break
        told(opt, lambda X: -np.sum(X, axis=1))
    assert list(opt.stop()) in (["collapsed_sample"], ["tolfun"])
    assert opt.best_fun == -8
    np.testing.assert_array_equal(np.rint(opt.mean), np.ones(8))


def test_a_small_sample_of_few_bits_does_not_end_a_run_by_chance():
    for seed in range(20):
        opt = sl.Optimizer([0.5], None, method=sl.pbil(popsize=4), rng=seed)
        while not opt.stop():
            told(opt, lambda X: X[:, 0])
        assert opt.mean[0] < 0.2


# Copies


def rugged(X):
    return np.sum(X**2 - 10 * np.cos(2 * np.pi * X), axis=1)


@pytest.mark.parametrize(
    "copied", [lambda opt: pickle.loads(pickle.dumps(opt)), copy.deepcopy], ids=["pickled", "copied"]
)
@pytest.mark.parametrize("method", ["cma", "sep-cma", "lra-cma"])
def test_a_copy_goes_on_as_the_optimizer_does(method, copied):
    """Between two generations and within one, over restarts that draw from the generator."""
    straight = sl.Optimizer(np.full(2, 3.0), 2.0, method=method, restarts="bipop", rng=1)
    broken = sl.Optimizer(np.full(2, 3.0), 2.0, method=method, restarts="bipop", rng=1)
    for generation in range(400):
        X = straight.ask()
        straight.tell(X, rugged(X))
        straight.stop()
        X = broken.ask()
        if generation % 7 == 0:
            broken = copied(broken)
        broken.tell(X, rugged(X))
        if generation % 5 == 0:
            broken = copied(broken)
        broken.stop()
    assert straight.restarts == broken.restarts
    assert straight.restarts > 1 or method == "lra-cma"
    assert straight.best_x.tobytes() == broken.best_x.tobytes()
    assert straight.mean.tobytes() == broken.mean.tobytes()
    assert not broken.best_x.flags.writeable


def test_a_copy_leaves_the_optimizer_alone():
    optimizer = sl.Optimizer(np.ones(2), 0.5, restarts=2, rng=1)
    twin = copy.deepcopy(optimizer)
    np.testing.assert_array_equal(optimizer.ask(), twin.ask())
    single = copy.copy(optimizer)
    assert len({id(one.rng) for one in (optimizer, twin, single)}) == 3


def test_sample_taken_at_the_points_drawn_makes_the_same_step():
    start = {"x0": np.ones(4), "sigma0": 0.5, "rng": 1, "bounds": 4 * [(-2, 3)]}
    drawn, given = sl.Optimizer(**start), sl.Optimizer(**start)
    for _ in range(5):
        X = drawn.ask()
        points = given.take_sample(drawn._pending.x)
        np.testing.assert_array_equal(points, X)
        for opt in (drawn, given):
            opt.tell(X, np.sum(X**2, axis=1))
        np.testing.assert_allclose(given.mean, drawn.mean, rtol=1e-10)
        np.testing.assert_allclose(given.cov, drawn.cov, rtol=1e-8)


def test_points_far_away_pull_with_a_limited_length():
    near, far = (sl.Optimizer(np.zeros(3), 1.0, popsize=6, rng=1) for _ in range(2))
    direction = np.eye(3)[[0, 0, 0, 1, 1, 1]]
    for opt, length in ((near, 100.0), (far, 1e9)):
        X = opt.take_sample(length * direction)
        opt.tell(X, np.arange(6.0))
        np.testing.assert_allclose(opt.mean, [np.sqrt(3) + 3, 0, 0], rtol=1e-8)  # the better half are one point
