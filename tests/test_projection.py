"""Points outside of constraints: their projection, and moving them towards a point that is inside."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint

import sublevel as sl
from sublevel.engine.families import FullGaussian
from sublevel.run.projection import HalfSpaces, _shortest_step, project
from sublevel.run.resampling import ROUNDS, draw_feasible
from sublevel.run.search_space import Variables, bounded_space

D = 4


def full_gaussian(rng, mean):
    """A Gaussian with correlations."""
    cov = np.cov(rng.standard_normal((D, 3 * D)))
    return FullGaussian.start(mean, np.full(D, 0.7), np.linalg.cholesky(cov))


def nearest_by_enumeration(x, scale, cov, rows, limits):
    """The x + scale·y with rows·(x + scale·y) ≥ limits and the smallest yᵀ cov⁻¹ y: the best of all active sets whose
    equations y = C Aᵀ(A C Aᵀ)⁻¹ gaps have a solution inside (Lagrange multipliers of a quadratic program).
    """
    a, gaps, best = rows * scale, limits - rows @ x, None
    for size in range(len(a) + 1):
        for active in map(list, combinations(range(len(a)), size)):
            image = cov @ a[active].T
            y = image @ np.linalg.lstsq(a[active] @ image, gaps[active], rcond=None)[0]
            if np.all(a @ y >= gaps - 1e-9 * (1 + np.abs(gaps))):
                length = y @ np.linalg.solve(cov, y)
                best = min(best or (np.inf, y), (length, y), key=lambda pair: pair[0])
    return None if best is None else x + scale * best[1]


def projection_error(rng, **slip):
    """The largest distance of a projection from that of the enumeration, in standard deviations, with two variables
    that are log-scaled and bounds on two.
    """
    lower, upper = np.array([-np.inf, -np.inf, -0.5, 0.0]), np.array([np.inf, np.inf, 1.5, np.inf])
    is_log, whole = np.array([False, True, False, True]), np.zeros(D, dtype=bool)
    start = np.array([0.0, 0.4, 0.5, 3.0])
    space = bounded_space(Variables(lower, upper, is_log, whole, whole.astype(np.intp)), np.ones(D), start)
    theta = full_gaussian(rng, space.searched(start))
    inside = HalfSpaces(rng.standard_normal((2, D)), rng.uniform(0.5, 2.0, 2))
    rows = np.concatenate([inside.matrix, np.eye(D)[1:], -np.eye(D)[2:3]])
    limits = np.concatenate([inside.limits, slip.get("lower", np.where(is_log, 0.0, lower))[1:], -upper[2:3]])
    errors = [0.0]
    for x in space.points(theta.sample(rng, 30).x):
        (found,) = project(x[None].copy(), theta, space, inside)
        scale = slip.get("scale", np.where(is_log, x, 1.0))
        wanted = nearest_by_enumeration(x, scale, theta.cov, rows, limits)
        if wanted is not None and np.any(inside.g(x) > 0):
            errors.append(np.max(np.abs(found - wanted) / (np.where(is_log, x, 1.0) * theta.deviations)))
    return max(errors)


def test_projections_are_the_nearest_points_that_satisfy_constraints_and_bounds(rng):
    assert max(projection_error(rng) for _ in range(5)) <= 1e-6


SLIPS = {"units of the others": {"scale": np.ones(D)}, "no bounds": {"lower": np.full(D, -np.inf)}}


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_comparison_of_projections_would_notice(slip, rng):
    assert max(projection_error(rng, **slip) for _ in range(3)) > 1e-2


def test_a_singular_system_of_the_projection_is_solved_in_another_way(rng, monkeypatch):
    """SciPy 1.13 raises LinAlgError if two constraints are parallel."""

    def singular(*_):
        raise np.linalg.LinAlgError("Matrix is singular.")

    for _ in range(20):
        rows, gaps = rng.standard_normal((4, 3)), rng.standard_normal(4)
        rows[3] = 2 * rows[0]
        given = rows, gaps, np.full(4, 1e-15)
        with monkeypatch.context() as patched:
            patched.setattr(scipy.optimize, "nnls", singular)
            found = _shortest_step(*given)
        expected = _shortest_step(*given)
        assert (found is None) == (expected is None)
        if found is not None:
            assert_allclose(found, expected, atol=1e-7)
            assert (rows @ found >= gaps).all()


PUSHED = LinearConstraint([[1, 1]], -np.inf, 1.0)
"""The nearest points in the metric of a wide search have a negative first variable."""


@pytest.mark.parametrize("bounds", [None, [(None, None), (-9, 9)], [(0, None), (None, None)]], ids=str)
def test_log_scaled_variables_remain_positive_under_linear_constraints(bounds):
    def fun(x):
        assert x[0] > 0
        assert x[0] + x[1] <= 1 + 1e-9
        return (np.log(x[0]) - np.log(0.01)) ** 2 + (x[1] - 3) ** 2

    given = {"log_scaled": [True, False], "bounds": bounds, "constraints": PUSHED, "rng": 1}
    result = sl.minimize(fun, [0.5, 0.0], 2.0, **given)
    expected = scipy.optimize.minimize_scalar(
        lambda u: (u - np.log(0.01)) ** 2 + (2 + np.exp(u)) ** 2, bounds=(-9, 0), options={"xatol": 1e-9}
    )
    assert result.success
    assert result.x[0] > 0
    assert_allclose(result.fun, expected.fun, rtol=1e-9)


def test_points_too_large_to_be_projected_are_drawn_again():
    """Without a warning, although squares of steps of a log-scaled variable overflow."""
    seen = []

    def fun(x):
        seen.append(x)
        return abs(np.log(x[0]) - 300) + x[1] ** 2

    sl.minimize(
        fun, [1.0, 0.0], [300.0, 1.0], log_scaled=[True, False], constraints=LinearConstraint([[1, 1]], -np.inf, 2),
        rng=1, maxfevals=60,
    )  # fmt: skip
    assert np.all(np.sum(seen, axis=1) <= 2)


NOT_MOVED = {
    "integers alone": ([0, 1, 1], (None, None), [[0, 1, 1]], -np.inf, 12, [9, 6, 6]),
    "integers, all others outside": ([0, 1, 1], (None, None), [[0, 1, 1], [0, 1, -1]], [4, 0], [4.5, 0.5], [9, 2, 2]),
    "all integers": ([1, 1, 1], (None, None), [[1, 1, 1]], -np.inf, 12, [4, 4, 4]),
    "fixed variables": ([0, 1, 1], [(2, 2), (0, 9), (0, 9)], [[1, 0, 0]], -np.inf, 12, [2, 9, 9]),
    "fixed variables and integers": ([0, 1, 1], [(2, 2), (0, 9), (0, 9)], [[1, 1, 1]], -np.inf, 12, [2, 5, 5]),
}


@pytest.mark.parametrize("case", NOT_MOVED)
def test_constraints_on_variables_that_are_not_moved(case):
    integrality, bounds, matrix, low, high, wanted = NOT_MOVED[case]

    def fun(x):
        assert np.all((np.array(matrix) @ x >= low) & (np.array(matrix) @ x <= high))
        return np.sum((x - 9) ** 2)

    constraints = LinearConstraint(matrix, low, high)
    pairs = bounds if isinstance(bounds, list) else [bounds] * 3
    result = sl.minimize(fun, [2, 2, 2], 2.0, integrality=integrality, bounds=pairs, constraints=constraints, rng=1)
    assert result.fun == pytest.approx(np.sum((np.array(wanted) - 9) ** 2), abs=1e-6)


def test_constraints_without_effect_on_choices():
    space = sl.Space(k=sl.Choice(*"abc"), n=sl.Integer(0, 9, start=2))
    for some, row in ((space, [0, 1]), (sl.Space(k=sl.Choice(*"abc")), [0])):
        limit = LinearConstraint([row], -np.inf, 3)
        result = sl.minimize(lambda p: p["k"] != "b", some, constraints=limit, rng=1, maxfevals=300)
        assert result.params["k"] == "b"
        assert result.params.get("n", 0) <= 3


@pytest.mark.parametrize("mean_is_inside", [True, False])
def test_points_that_are_never_inside_are_moved_halfway_until_they_are(mean_is_inside):
    """Towards the mean, or if it is outside, towards the anchor."""
    mean, anchor, n = np.full(D, 2.0), np.full(D, -1.0), 6
    theta = full_gaussian(np.random.default_rng(3), mean)
    goal = mean if mean_is_inside else anchor

    def inside(points):
        return np.max(np.abs(points - goal), axis=1) < 1e-4

    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    sample, points, _ = draw_feasible(theta, theta.sample(rng, n), rng, None, inside, anchor)
    drawn = [theta.sample(again, n) for _ in range(1 + ROUNDS)][-1].x
    for x, point in zip(drawn, points, strict=True):
        while not inside(x[None])[0]:
            x = goal + (x - goal) / 2
        assert_allclose(point, x, rtol=0, atol=1e-12)
    assert_allclose(sample.x, points, rtol=0, atol=1e-12)
