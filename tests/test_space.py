"""Bounds, fixed and log-scaled variables: no point outside, no bend inside, optima on the boundary."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

import sublevel as sl
from helpers.functions import ellipsoid, sphere
from sublevel.run.search_space import MARGIN, REACH, WIDEST, Variables, bounded_space

INF = float("inf")
ENDS = [-INF, -1e300, -1e9, -3.0, -1e-9, 0.0, 1e-300, 0.1, 2.0, 1e9, 1e300, INF]
PAIRS = [(low, high) for low in ENDS for high in ENDS if low < high and low < INF and high > -INF]


def space_of(*pairs, deviation=0.5, log_scaled=False):
    """The space of a box, begun in its middle or near its lone end."""
    lower, upper = np.array(pairs, dtype=float).T
    mask = np.broadcast_to(log_scaled, lower.shape).copy()
    x0 = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    real = np.zeros(lower.size, dtype=bool)
    variables = Variables(lower, upper, mask, real, real.astype(np.intp))
    return bounded_space(variables, np.full(lower.size, deviation), x0)


def inside(pair, share, spread=1.0):
    """A point of a box: `share` of the way through it, or that many standard deviations from its lone end."""
    low, high = pair
    if np.isfinite(low) and np.isfinite(high):
        return min(max((1 - share) * low + share * high, low), high)
    if np.isfinite(low):
        return low + spread * share
    return high - spread * share if np.isfinite(high) else spread * share


shares = st.floats(0.0, 1.0)
searched_points = st.floats(-1e6, 1e6)
pairs = st.sampled_from(PAIRS)


# The map itself


@given(pairs, searched_points)
def test_no_search_point_is_mapped_outside(pair, u):
    space = space_of(pair)
    (x,) = space.points(np.array([u]))
    assert pair[0] <= x <= pair[1]


@given(pairs, st.sampled_from([-1e308, -1e200, -1e-200, 0.0, 5e-324, 1e200, 1e308]))
def test_no_search_point_is_mapped_outside_however_far_it_is(pair, u):
    (x,) = space_of(pair, deviation=1e-3).points(np.array([u]))
    assert pair[0] <= x <= pair[1]


@given(pairs, shares)
def test_every_point_of_the_box_is_found_again(pair, share):
    space, x = space_of(pair), np.array([inside(pair, share)])
    scale = max(abs(end) for end in (*pair, *x, 0.5) if np.isfinite(end))
    np.testing.assert_allclose(space.points(space.searched(x)), x, rtol=0, atol=4 * np.spacing(scale))


@given(pairs, shares)
def test_inside_the_margins_nothing_is_changed(pair, share):
    space, x = space_of(pair), np.array([inside(pair, share, spread=100.0)])
    if space.fold.lower + space.fold.width <= x <= space.fold.upper - space.fold.width:
        assert space.points(x) == x == space.searched(x)


def test_the_margins_are_small_parts_of_the_box_or_of_the_standard_deviation():
    space = space_of((0.0, 2.0), (0.0, 1e3), (0.0, INF), (-INF, 1.0), (-INF, INF))
    widest = MARGIN * REACH * 0.5
    np.testing.assert_array_equal(space.fold.width, [2 * MARGIN, widest, widest, widest, widest])


@pytest.mark.parametrize("pair", [(0.0, 1.0), (-3.0, 1e9), (0.0, INF), (-INF, 2.0), (1.0, 1.1)])
def test_the_map_rises_from_vertex_to_vertex_and_is_mirrored_beyond(pair):
    space = space_of(pair)
    left, right = space.fold.lower - space.fold.width, space.fold.upper + space.fold.width
    u = np.linspace(max(left[0], -20.0), min(right[0], 20.0), 20_001)[:, None]
    x = space.points(u)
    assert (np.diff(x[:, 0]) >= 0).all()
    for vertex, end in ((left, pair[0]), (right, pair[1])):
        if np.isfinite(end):
            offsets = np.linspace(0.0, 0.9 * float(space.fold.width[0]), 50)[:, None]
            assert space.points(vertex) == end
            rounding = 8 * np.spacing(max(abs(end), 1.0))
            np.testing.assert_allclose(
                space.points(vertex - offsets), space.points(vertex + offsets), rtol=0, atol=rounding
            )


MIRRORED = [(0.0, 1.0), (-3.0, 5.0), (0.0, INF), (-INF, 2.0), (-INF, INF)]


@pytest.mark.parametrize("pair", MIRRORED)
def test_every_point_has_an_image_in_every_cell(pair, rng):
    """With the same x, and by a map of slope ±1 that is the identity within a cell."""
    fold = space_of(pair).fold
    for near in rng.uniform(-30.0, 30.0, (20, 1)):
        u = rng.uniform(-30.0, 30.0, (400, 1))
        images, turns = fold.image(u, near), fold.turns(u, near)
        np.testing.assert_allclose(fold(images), fold(u), rtol=0, atol=1e-13)
        np.testing.assert_array_equal(fold.cells(images), np.broadcast_to(fold.cells(near), u.shape))
        np.testing.assert_array_equal(images[fold.cells(u) == fold.cells(near)], u[fold.cells(u) == fold.cells(near)])
        same_cell = fold.cells(u + 1e-3) == fold.cells(u)
        slopes = (fold.image(u + 1e-3, near) - images) / 1e-3
        np.testing.assert_allclose(slopes[same_cell], turns[same_cell], atol=1e-9)
        assert set(np.unique(turns)) == ({-1.0, 1.0} if np.isfinite(pair).any() else {1.0})


@pytest.mark.parametrize("pair", MIRRORED)
def test_points_are_clipped_to_the_vertices_of_a_cell(pair, rng):
    """Where the map is at a bound, and nowhere steeper than inside."""
    fold = space_of(pair).fold
    for near in rng.uniform(-30.0, 30.0, (20, 1)):
        u = rng.uniform(-100.0, 100.0, (400, 1))
        clipped, inside = fold.clip(u, near), (fold.cells(u) == fold.cells(near))[:, 0]
        np.testing.assert_array_equal(clipped[inside], u[inside])
        at_bounds = fold(clipped[~inside])
        distances = np.min(np.abs(at_bounds - np.array([end for end in pair if np.isfinite(end)] or [0.0])), axis=1)
        np.testing.assert_allclose(distances, 0.0, atol=1e-13)
        assert np.all(np.abs(clipped - near) <= np.abs(u - near))


@pytest.mark.parametrize("pair", [(0.0, 1.0), (0.0, INF), (-INF, 2.0)])
def test_the_map_is_smooth_where_it_begins_to_bend(pair):
    space = space_of(pair)
    for place in (space.fold.lower + space.fold.width, space.fold.upper - space.fold.width):
        if np.isfinite(place).all():
            slopes = np.diff(space.points(place[0] + np.array([[-1e-6], [0.0], [1e-6]]))[:, 0]) / 1e-6
            np.testing.assert_allclose(slopes, 1.0, atol=1e-4)


@pytest.mark.parametrize("pair", [(0.5, 1.5), (0.5, INF), (-INF, 2.0)])
def test_slopes_are_those_of_the_map(pair):
    """Central differences are exact on a parabola; a log-scaled variable has the slope of exp as well."""
    for is_log in (False, True)[: 1 + (pair[0] > 0)]:
        space, h = space_of(pair, deviation=0.2, log_scaled=is_log), 1e-6
        low, high = np.maximum(space.fold.lower, -2.0), np.minimum(space.fold.upper, 2.0)
        u = np.linspace(low + 2 * h, high - 2 * h, 401)
        u = u[(np.abs(np.abs(u - space.fold.lower) - space.fold.width) > 2 * h).all(axis=1)]
        differences = (space.points(u + h) - space.points(u - h)) / (2 * h)
        np.testing.assert_allclose(space.slopes(space.points(u)), differences, rtol=0, atol=1e-8)
        assert np.min(differences) < 0.6


@given(st.floats(-300.0, 300.0), st.floats(0.1, 300.0), shares)
def test_a_log_scaled_box_is_a_box_of_logarithms(exponent, width, share):
    low, high = 10.0**exponent, 10.0 ** min(exponent + width, 305.0)
    space = space_of((low, high), log_scaled=True)
    x = np.array([np.clip(np.exp((1 - share) * np.log(low) + share * np.log(high)), low, high)])
    np.testing.assert_allclose(space.points(space.searched(x)), x, rtol=1e-11)
    assert low <= space.points(np.array([700.0]))[0] <= high


def test_fixed_variables_are_not_searched_and_keep_their_value():
    space = space_of((0.0, 1.0), (3.0, 3.0), (-INF, INF))
    assert space.fold.lower.size == 2
    np.testing.assert_array_equal(
        space.points(np.array([[0.5, 7.0], [0.4, -7.0]])), [[0.5, 3.0, 7.0], [0.4, 3.0, -7.0]]
    )
    np.testing.assert_array_equal(space.searched(np.array([0.5, 9.0, 7.0])), [0.5, 7.0])


@pytest.mark.parametrize("power", [-40, 40])
def test_units_of_the_box_change_nothing(power):
    pairs, u = np.array([(0.0, 1.0), (-2.0, INF), (-INF, 3.0)]), np.random.default_rng(1).normal(size=(200, 3)) * 3
    plain = space_of(*pairs).points(u)
    scaled = space_of(*np.ldexp(pairs, power), deviation=np.ldexp(0.5, power)).points(np.ldexp(u, power))
    np.testing.assert_array_equal(np.ldexp(scaled, -power), plain)


# Runs


class Guarded:
    """A function that counts its evaluations and raises for a point outside the box."""

    def __init__(self, fun, bounds):
        self.fun, self.count = fun, 0
        self.lower, self.upper = np.array(bounds, dtype=float).T

    def __call__(self, X):
        assert ((self.lower <= X) & (self.upper >= X)).all()
        self.count += len(X)
        return self.fun(X)


def never_outside(evaluations, method, bounds):
    """Runs that are drawn to a corner, to a face, to the middle and along the box, until so many evaluations are
    made.
    """
    middle = np.clip(np.zeros(4), *np.array(bounds, dtype=float).T)
    functions = [
        lambda X: X.sum(axis=1),
        lambda X: -X[:, 0],
        sphere,
        lambda X: -sphere(X),
        lambda X: np.sin(9 * X).sum(axis=1),
    ]
    made, seed = 0, 0
    while made < evaluations:
        fun = Guarded(functions[seed % len(functions)], bounds)
        sl.minimize(
            fun,
            middle,
            0.5 * 10.0 ** (seed % 3),
            method=method,
            bounds=bounds,
            vectorized=True,
            rng=seed,
            maxfevals=20_000,
        )
        made, seed = made + fun.count, seed + 1


BOXES = {
    "finite": [(-1, 2)] * 4,
    "narrow": [(1e-3, 1.1e-3), (0, 1), (-1e6, 1e6), (-1e-9, 0)],
    "open": [(0, INF), (-INF, 1), (-INF, INF), (-1, 1)],
}


@pytest.mark.parametrize("method", ["cma", "sep-cma", "xnes", "lra-cma"])
@pytest.mark.parametrize("box", BOXES)
def test_no_point_outside_is_evaluated(box, method):
    never_outside(9_000, method, BOXES[box])


@pytest.mark.slow
@pytest.mark.parametrize("box", BOXES)
def test_no_point_outside_is_evaluated_in_a_million(box):
    never_outside(350_000, "cma", BOXES[box])


@cache
def median_evaluations(pair):
    """To 1e-10 on the ellipsoid in 10 dimensions, each variable within the pair."""
    bounds = None if pair is None else [pair] * 10
    results = [
        sl.minimize(ellipsoid, np.ones(10), 0.5, bounds=bounds, vectorized=True, ftarget=1e-10, rng=seed, maxfevals=1e5)
        for seed in range(101)  # medians of fewer differ by as much as the bounds cost
    ]
    assert all(result.fun <= 1e-10 for result in results)
    return np.median([result.nfev for result in results])


@pytest.mark.parametrize("pair", [(-1.1, 1.3), (-0.1, 3), (-0.1, None)], ids=str)
def test_a_box_around_the_optimum_of_an_ill_conditioned_ellipsoid_costs_nothing(pair):
    assert median_evaluations(pair) <= 1.05 * median_evaluations(None)


TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]


@cache
def median_evaluations_to_a_turned_valley(pair, optimum):
    """To 1e-10 on the ellipsoid in 10 dimensions, turned and moved to the optimum."""
    bounds = None if pair is None else [pair] * 10

    def fun(X):
        return ellipsoid((X - optimum) @ TURN)

    results = [
        sl.minimize(fun, np.full(10, 0.5), 0.5, bounds=bounds, vectorized=True, ftarget=1e-10, rng=seed)
        for seed in range(21)
    ]
    assert all(result.fun <= 1e-10 for result in results)
    return np.median([result.nfev for result in results])


TURNED = [((-1, 6), 2.0), ((-1, 6), -0.6), ((-1, None), -0.6)]


@pytest.mark.parametrize(("pair", "optimum"), TURNED, ids=str)
def test_bounds_near_a_turned_valley_cost_little(pair, optimum):
    """Some points lie beyond the bound until σ is small, and those tell nothing of the valley."""
    assert median_evaluations_to_a_turned_valley(pair, optimum) <= 1.3 * median_evaluations_to_a_turned_valley(
        None, optimum
    )


def test_wide_margins_would_be_noticed(monkeypatch):
    monkeypatch.setattr("sublevel.run.search_space.MARGIN", 0.05)
    assert median_evaluations_to_a_turned_valley.__wrapped__(
        (-1, 6), -0.6
    ) > 1.4 * median_evaluations_to_a_turned_valley(None, -0.6)


ON_THE_BOUNDARY = {
    "corner": (ellipsoid, [(0, 2)] * 10),
    "upper corner": (lambda X: ellipsoid(X - 2), [(0, 2)] * 10),
    "corner of an open box": (ellipsoid, [(0, None)] * 10),
    "face of the flat axis": (ellipsoid, [(0, 2)] + [(-2, 2)] * 9),
    "face of the steep axis": (ellipsoid, [(-2, 2)] * 9 + [(0, 2)]),
    "corner with a slope": (lambda X: X.sum(axis=1), [(0, 2)] * 10),
    "corner before the optimum": (lambda X: sphere(X + 1) - 10, [(0, 2)] * 10),
    "face before the optimum": (lambda X: ellipsoid(X) + X[:, 0], [(0, 2)] + [(-2, 2)] * 9),
}


@pytest.mark.parametrize("place", ON_THE_BOUNDARY)
def test_optima_on_the_boundary_are_found(place):
    fun, bounds = ON_THE_BOUNDARY[place]
    for seed in range(3):
        result = sl.minimize(
            fun, np.ones(10), 0.5, bounds=bounds, vectorized=True, ftarget=1e-10, rng=seed, maxfevals=1e5
        )
        assert result.fun <= 1e-10, result


def test_an_optimum_at_a_corner_is_found_without_a_target_and_named_a_success():
    result = sl.minimize(lambda X: ellipsoid(X - 2), np.ones(5), 0.5, bounds=[(0, 2)] * 5, vectorized=True, rng=1)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, 2.0, rtol=0, atol=1e-8)


def test_fixed_variables_leave_the_others_free():
    bounds = [(-3, 3), (0.5, 0.5), (None, None), (1, 1)]
    result = sl.minimize(lambda X: sphere(X - 1), [0.0, 0.5, 0.0, 1.0], 0.5, bounds=bounds, vectorized=True, rng=1)
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 0.5, 1.0, 1.0], atol=1e-6)
    assert result.cov.shape == (4, 4)
    assert not result.cov[1].any()
    assert not result.cov[:, 3].any()


def test_one_free_variable_is_enough():
    result = sl.minimize(lambda x: (x[1] - 0.3) ** 2, [1.0, 0.0, 2.0], 0.5, bounds=[(1, 1), (-1, 1), (2, 2)], rng=1)
    assert result.x[1] == pytest.approx(0.3)


def test_a_log_scaled_variable_is_searched_over_many_orders_of_magnitude():
    result = sl.minimize(
        lambda x: np.log10(x[0] / 1e-7) ** 2 + (x[1] - 3) ** 2, [1.0, 1.0], [2.0, 0.5], log_scaled=[True, False], rng=1
    )
    np.testing.assert_allclose(result.x, [1e-7, 3.0], rtol=1e-6)


def test_a_log_scaled_box_is_not_left_and_its_ends_are_reached():
    seen = []

    def fun(x):
        seen.append(x.copy())
        return np.log(x[0]) - np.log(x[1])

    result = sl.minimize(fun, [1.0, 1.0], 1.0, bounds=[(1e-9, 1e3)] * 2, log_scaled=True, rng=1)
    np.testing.assert_allclose(result.x, [1e-9, 1e3], rtol=1e-9)
    assert 1e-9 <= np.min(seen) <= np.max(seen) <= 1e3


@pytest.mark.parametrize(
    "bounds",
    [[(0, 2)] * 2, [[0, 2], [0, 2]], np.array([[0.0, 2.0]] * 2), Bounds(0, 2), Bounds([0, 0], [2, 2])],
    ids=str,
)
def test_boxes_are_written_as_for_scipy(bounds):
    result = sl.minimize(sphere, [1.0, 1.0], 0.5, bounds=bounds, vectorized=True, rng=1, maxiter=20)
    expected = sl.minimize(sphere, [1.0, 1.0], 0.5, bounds=[(0, 2)] * 2, vectorized=True, rng=1, maxiter=20)
    np.testing.assert_array_equal(result.x, expected.x)


@pytest.mark.parametrize("bounds", [[(None, None)] * 3, [(-INF, INF)] * 3, Bounds(), [(-1e308, 1.7e308)] * 3], ids=str)
def test_a_box_without_effect_has_none(bounds):
    free, boxed = (sl.minimize(sphere, np.ones(3), 0.5, bounds=b, vectorized=True, rng=1) for b in (None, bounds))
    assert (boxed.nfev, boxed.fun) == (free.nfev, free.fun)


@pytest.mark.parametrize("bounds", [[(1, 1 + 2.3e-16), (0, 2)], [(1 - 1e-16, 1), (1, 1 + 1e-9)]], ids=str)
def test_boxes_as_narrow_as_floats_allow(bounds):
    fun = Guarded(sphere, bounds)
    assert np.isfinite(sl.minimize(fun, [1.0, 1.0], 0.5, bounds=bounds, vectorized=True, rng=1).fun)


# At the door


WRONG = {
    "too few": ([(0, 2)], ValueError, "pair .* each of the 2 variables"),
    "too many": ([(0, 2)] * 3, ValueError, "each of the 2 variables"),
    "no pairs": ([0, 2, 4], ValueError, "pair"),
    "triples": ([(0, 1, 2)] * 2, ValueError, "pair"),
    "a number": (5, TypeError, "`bounds` must hold a .*got 5"),
    "words": ([("low", "high")] * 2, ValueError, "`bounds` must hold"),
    "complex": ([(0, 1j)] * 2, TypeError, "`bounds` must hold"),
    "wrong order": ([(2, 0)] * 2, ValueError, "low ≤ high"),
    "NaN": ([(0, float("nan"))] * 2, ValueError, "low ≤ high"),
    "x0 outside": ([(2, 3)] * 2, ValueError, "`x0` must lie within the bounds"),
    "all fixed": ([(1, 1)] * 2, ValueError, "nothing is left"),
    "Bounds of another length": (Bounds([0] * 3, [2] * 3), ValueError, "`bounds` must hold"),
    "Bounds in the wrong order": (Bounds(2, 0), ValueError, "low ≤ high"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_box_that_is_none_is_refused_at_the_door(case):
    bounds, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        sl.minimize(sphere, [1.0, 1.0], 0.5, bounds=bounds, vectorized=True)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"log_scaled": "x"}, TypeError, "`log_scaled`"),
        ({"log_scaled": [True] * 3}, TypeError, "`log_scaled`"),
        ({"log_scaled": True, "bounds": [(-1, 2)] * 2}, ValueError, "negative lower bound"),
        ({"log_scaled": True, "x0": [0.0, 1.0]}, ValueError, "positive"),
        ({"bounds": [(0, 2), (1, 1)], "cov0": np.eye(3)}, ValueError, "`cov0`"),
        ({"bounds": [(0, 2), (1, 1)], "cov0": "round"}, TypeError, "`cov0`"),
        ({"bounds": [(0, 2)] * 2, "sigma0": -1.0}, ValueError, "`sigma0`"),
        ({"bounds": [(0, 1)] * 2, "method": "pbil", "sigma0": None}, ValueError, "binary methods take neither"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_the_door(given, error, message):
    given = {"x0": [1.0, 1.0], "sigma0": 0.5} | given
    with pytest.raises(error, match=message):
        sl.minimize(sphere, given.pop("x0"), given.pop("sigma0"), vectorized=True, **given)


# Restarts in a box, and the ends of a logarithm


def restart_points(count, **given):
    optimizer = sl.Optimizer(rng=1, **given)
    return np.array([optimizer.start.point(optimizer.rng) for _ in range(count)])


def test_restarts_are_uniform_in_the_logarithm_of_a_log_scaled_variable():
    points = restart_points(4000, x0=[1e-3, 0.5], sigma0=1.0, bounds=[(1e-8, 1), (0, 1)], log_scaled=[True, False])
    decades, _ = np.histogram(np.log10(points[:, 0]), bins=8, range=(-8, 0))
    tenths, _ = np.histogram(points[:, 1], bins=8, range=(0, 1))
    assert np.all(np.abs(decades - 500) < 5 * np.sqrt(500))
    assert np.all(np.abs(tenths - 500) < 5 * np.sqrt(500))


def test_restarts_of_a_log_scaled_variable_without_a_lower_end_are_drawn_around_the_start():
    points = restart_points(100, x0=[1e-3], sigma0=1.0, bounds=[(0, 1)], log_scaled=True)
    assert np.all((points > 0) & (points <= 1))
    assert 1e-4 < np.median(points) < 1e-2


@pytest.mark.parametrize("sign", [1, -1])
def test_a_log_scaled_variable_stays_positive_and_finite(sign):
    seen = []

    def fun(x):
        seen.append(x[0])
        return sign * math.log(x[0])

    result = sl.minimize(fun, [2.0], 1.0, log_scaled=True, rng=1)
    assert 0 < min(seen) <= max(seen) < np.inf
    assert "plateau" in result.message or result.success


@pytest.mark.parametrize(
    ("second", "given", "message"),
    [(-3.0, {"bounds": [(0, 1)]}, "within the bounds"), (-0.5, {"log_scaled": True}, "positive")],
    ids=str,
)
def test_a_function_that_draws_a_start_outside_is_told_so(second, given, message):
    points = iter([0.5, second])
    with pytest.raises(ValueError, match=message):
        sl.minimize(lambda x: float(np.square(x[0] - 0.5)), lambda rng: [next(points)], 0.1, restarts=3, rng=1, **given)


# A search is no wider than the box


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sigma0", [0.1, 0.3])
def test_adapted_rates_converge_in_a_box(sigma0, seed):
    """They widen the search while they are small, and in a box wide searches see nothing but folds."""
    given = {"method": "lra-cma", "vectorized": True, "rng": seed, "ftarget": 1e-10, "maxfevals": 20_000}
    result = sl.minimize(lambda X: sphere(X - 0.3), np.full(8, 0.5), sigma0, bounds=[(0, 1)] * 8, **given)
    assert result.fun <= 1e-10


def test_without_a_limit_to_their_width_they_do_not(monkeypatch):
    monkeypatch.setattr("sublevel.run.search_space.WIDEST", np.inf)
    given = {"method": "lra-cma", "vectorized": True, "rng": 0, "ftarget": 1e-10, "maxfevals": 20_000}
    assert sl.minimize(lambda X: sphere(X - 0.3), np.full(8, 0.5), 0.3, bounds=[(0, 1)] * 8, **given).fun > 1e-6


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "lra-cma", "xnes", "ngd"])
@pytest.mark.parametrize("d", [3, 70])
def test_standard_deviations_stay_within_the_box(method, d):
    widths = np.geomspace(1e-3, 1e3, d)
    opt = sl.Optimizer(np.zeros(d), widths, method=method, bounds=np.array([-widths, widths]).T, rng=1)
    for _ in range(20):
        X = opt.ask()
        opt.tell(X, np.sum(X / widths, axis=1))
        assert np.all(opt.deviations <= WIDEST * 2 * widths * (1 + 1e-12))


def test_the_image_of_a_path_is_squeezed_with_the_frame():
    """Beyond d = 64 the image of p_c is carried along, and must stay what the root makes of p_c."""
    d = 70
    opt = sl.Optimizer(np.full(d, 0.5), 0.3, bounds=[(0, 1)] * d, rng=1)
    for _ in range(5):
        X = opt.ask()
        opt.tell(X, np.sum((X - 0.2) ** 2, axis=1))
        kept = opt.state.memory[-1]
        np.testing.assert_allclose(kept.image, opt.theta.images(kept.path), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-160, 1e-100, 1e100, 1e160])
@pytest.mark.parametrize("place", [0.004, 0.0, 0.996])
def test_optima_near_a_bound_are_found_in_any_units(unit, place):
    result = sl.minimize(
        lambda X: sphere(X / unit - place),
        np.full(2, 0.5 * unit),
        0.3 * unit,
        bounds=[(0, unit)] * 2,
        vectorized=True,
        rng=1,
    )
    assert result.fun < 1e-15


def test_an_upper_bound_beyond_all_searches_is_kept_by_log_scaled_variables():
    seen = []
    sl.minimize(
        lambda x: seen.append(x[0]) or -math.log(x[0]),
        [1e300],
        1.0,
        bounds=[(1, 1e302)],
        log_scaled=True,
        rng=1,
        maxfevals=500,
    )
    assert max(seen) <= 1e302
