"""Curvature of log-scaled variables, the minimum that is reported, and calls that fail or take too long."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import OptimizeResult

import sublevel as sl

EXACT = 2.0, np.sqrt(2.0)
"""Minimum and standard deviation of p − 2 ln p."""


class Recorded:
    """An objective that keeps the points it was called with."""

    def __init__(self, fun):
        self.fun, self.points = fun, []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.fun(x)

    @property
    def seen(self):
        return np.array(self.points)


def poisson(p):
    """−ln L of one count of 2 at rate p, NaN outside of its domain."""
    return p[0] - 2 * np.log(p[0]) if p[0] > 0 else np.nan


def names(found):
    return [problem.name for problem in found.problems]


def test_a_log_scaled_likelihood_has_its_exact_error_and_a_positive_interval():
    nll = Recorded(lambda p: p[0] - 2 * np.log(p[0]))
    result = sl.minimize(nll, [1.0], 0.5, log_scaled=True, rng=1)
    nll.points.clear()
    found = sl.curvature(nll, result, kind="nll")
    assert (nll.seen > 0).all()
    assert_allclose([found.x[0], found.stderr[0]], EXACT, rtol=2e-4)
    low, high = found.intervals(0.95)[0]
    assert 0 < low < 2 < high
    assert_allclose(low * high, 4.0, rtol=1e-6)  # symmetric in ln p
    assert found.fun == nll(found.x)
    assert found.success


@pytest.mark.parametrize("bounds", [None, [(0.5, 3.0), (0.0, None)]])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_nothing_outside_the_domain_and_the_bounds_is_evaluated(bounds, noise, rng):
    nll = Recorded(lambda p: p[0] - 2 * np.log(p[0]) + 3 * p[1] - 0.3 * np.log(p[1]) + noise * rng.standard_normal())
    low, high = (np.zeros(2), np.full(2, np.inf)) if bounds is None else (np.array([0.5, 0.0]), np.array([3.0, np.inf]))
    result = sl.minimize(nll, [1.0, 1.0], 0.5, log_scaled=True, bounds=bounds, rng=1, maxfevals=1500)
    found = sl.curvature(nll, result, kind="nll")
    found.profile()
    assert np.isfinite(nll.seen).all()
    assert (nll.seen > 0).all()
    assert (nll.seen >= low).all()
    assert (nll.seen <= high).all()
    if noise:
        assert not found.success  # how wide a look has to be for a quadratic is too narrow for the noise
        assert {"not_quadratic", "off_minimum"} & set(names(found))
    else:
        assert_allclose(found.stderr, [np.sqrt(2), np.sqrt(0.3) / 3], rtol=0.02)


def test_a_logarithm_by_hand_and_log_scaled_agree(rng):
    t = np.linspace(0, 4, 30)
    y = 2 * np.exp(-1.3 * t) + 0.02 * rng.standard_normal(t.size)
    squares = lambda p: np.sum((p[0] * np.exp(-p[1] * t) - y) ** 2)  # noqa: E731
    plain = sl.minimize(squares, [1.0, 1.0], 0.5, log_scaled=True, rng=1)
    by_hand = sl.minimize(lambda u: squares(np.exp(u)), [0.0, 0.0], 0.5, rng=1)
    settings = {"kind": "least_squares", "n_residuals": t.size}
    found, other = (
        sl.curvature(squares, plain, **settings),
        sl.curvature(lambda u: squares(np.exp(u)), by_hand, **settings),
    )
    assert_allclose(found.x, np.exp(other.x), rtol=1e-6)
    assert_allclose(found.stderr / found.x, other.stderr, rtol=1e-4)
    assert_allclose(found.intervals(0.9), np.exp(other.intervals(0.9)), rtol=1e-4)
    assert_allclose(found.correlation, other.correlation, atol=1e-4)


def test_a_fixed_and_a_plain_variable_beside_a_log_scaled_one():
    f = lambda x: (np.log(x[0]) - 1) ** 2 + (x[1] - 2 + np.log(x[0])) ** 2 + (x[2] - 1) ** 2  # noqa: E731
    result = sl.minimize(
        f, [1.0, 0.0, 3.0], 0.5, log_scaled=[True, False, False], bounds=[(None, None), (None, None), (3, 3)], rng=1
    )
    found = sl.curvature(f, result, kind="nll")
    assert_allclose(found.hessian[:2, :2], [[4 / np.e**2, 2 / np.e], [2 / np.e, 2]], rtol=1e-4)
    assert_array_equal(found.free, [True, True, False])
    assert_array_equal(found.intervals()[2], [3.0, 3.0])
    assert found.intervals()[0, 0] > 0


def test_a_point_of_another_library_may_be_log_scaled():
    nll = Recorded(poisson)
    found = sl.curvature(nll, OptimizeResult(x=[2.0], fun=poisson([2.0])), kind="nll", log_scaled=True)
    assert (nll.seen > 0).all()
    assert_allclose(found.stderr, EXACT[1], rtol=2e-4)
    with pytest.raises(ValueError, match="log_scaled"):
        sl.curvature(poisson, sl.minimize(poisson, [1.0], 0.5, log_scaled=True, rng=1), log_scaled=True)


@pytest.mark.parametrize("power", [-20, 7])
def test_units_of_a_log_scaled_variable_change_nothing(power):
    unit = 2.0**power
    plain, scaled = (
        sl.curvature(f, OptimizeResult(x=[2.0 * u, 1.0], fun=f([2.0 * u, 1.0])), kind="nll", log_scaled=[True, False])
        for u, f in (
            (1.0, lambda p: poisson([p[0]]) + (p[1] - 1) ** 2),
            (unit, lambda p: poisson([p[0] / unit]) + (p[1] - 1) ** 2),
        )
    )
    assert_array_equal(scaled.intervals()[0], unit * plain.intervals()[0])
    assert_array_equal(scaled.intervals()[1], plain.intervals()[1])


def test_minimize_adds_the_curvature_of_log_scaled_variables():
    nll = Recorded(lambda p: p[0] - 2 * np.log(p[0]))
    result = sl.minimize(nll, [1.0], 0.5, log_scaled=True, rng=1, curvature=True)
    assert (nll.seen > 0).all()
    assert_allclose(result.hess_inv, [[2.0]], rtol=1e-4)


def test_ranks_of_log_scaled_variables_stay_in_the_domain():
    f = Recorded(lambda x: (np.log(x[0])) ** 2 + 4 * (x[1] - np.log(x[0])) ** 2)
    result = sl.minimize(f, [2.0, 0.0], 0.5, log_scaled=[True, False], rng=1)
    shape = sl.shape_from_ranks(f, result, iterations=60, scale=1e9, rng=1)
    assert (f.seen[:, 0] > 0).all()
    assert_allclose(shape.hess_inv / shape.hess_inv[0, 0], [[1, 1], [1, 1.25]], rtol=0.1)


def test_pictures_of_log_scaled_variables_stay_positive(tmp_path):
    f = lambda p: p[0] - 2 * np.log(p[0]) + p[1] - 3 * np.log(p[1]) + 0.3 * np.log(p[0]) * np.log(p[1])  # noqa: E731
    found = sl.curvature(f, sl.minimize(f, [1.0, 1.0], 0.5, log_scaled=True, rng=1), kind="nll")
    figure = found.plot(tmp_path / "log.png")
    outlines = [patch.get_xy() for axis in figure.axes if axis.get_label() == "ellipse" for patch in axis.patches]
    assert outlines
    assert all((outline > 0).all() for outline in outlines)


# --- the minimum that is reported
# --------------------------------------------------------------------------------------------------


def test_the_reported_minimum_is_never_above_the_point_that_was_given(rng):
    steep = lambda x: np.exp(3 * x[0]) - 3 * x[0] + np.abs(x[1]) ** 3 + x[1] ** 2  # noqa: E731
    found = sl.curvature(steep, sl.minimize(steep, [1.0, 1.0], 0.5, rng=1), kind="nll")
    assert found.fun == steep(found.x)
    assert found.fun <= 1.0


def test_a_better_point_is_reported_with_what_it_gains():
    f = lambda x: (x[0] - 1) ** 2 + (x[1] + 2) ** 2 + 5  # noqa: E731
    found = sl.curvature(f, OptimizeResult(x=[1.3, -2.0], fun=f([1.3, -2.0])), kind="nll")
    assert names(found) == ["better_point"]
    assert "lower by 0.09" in str(found.problems[0])
    assert_allclose(found.x, [1.0, -2.0], atol=1e-6)
    assert found.fun == f(found.x)
    assert found.success


def test_a_lower_value_that_is_no_minimum_of_the_quadratic_is_named():
    found = sl.curvature(lambda x: x[0] ** 2 - x[1] ** 2, OptimizeResult(x=[0.0, 0.0], fun=0.0), kind="nll")
    assert "lower_point" in names(found)
    assert not found.success


# --- calls
# ----------------------------------------------------------------------------------------------------------------------


def hangs_aside(x):
    """A bowl that takes for ever at one side, beyond half a standard deviation."""
    if x[0] > 1.5:
        time.sleep(60)
    return float((x - 1) @ (x - 1))


def raises_aside(x):
    if x[0] > 1.5:
        raise RuntimeError("no value here")
    return float((x - 1) @ (x - 1))


def test_an_evaluation_that_takes_too_long_is_ended():
    found = sl.curvature(hangs_aside, OptimizeResult(x=np.ones(2), fun=0.0), delta_f=1.0, timeout=0.5)
    assert_allclose(found.hessian, 2 * np.eye(2), atol=1e-5)
    assert "timeout" in str(next(problem for problem in found.problems if problem.name == "failures"))


def test_an_exception_is_raised_or_counted():
    place = OptimizeResult(x=np.ones(2), fun=0.0)
    with pytest.raises(RuntimeError, match="no value here"):
        sl.curvature(raises_aside, place, delta_f=1.0)
    found = sl.curvature(raises_aside, place, delta_f=1.0, on_error="nan")
    assert names(found) == ["failures"]
    assert "no value here" in str(found.problems[0])
    assert_allclose(found.hessian, 2 * np.eye(2), atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("below", [True, False])
def test_a_log_scaled_variable_whose_minimum_lies_outside_is_held_at_its_bound(seed, below):
    bound, outside = (0.1, 0.02) if below else (10.0, 60.0)
    f = Recorded(lambda x: (np.log(x[0]) - np.log(outside)) ** 2 + (x[1] - np.log(x[0])) ** 2)  # coupled
    options = {"bounds": [(0.1, 10.0), (-9, 9)], "log_scaled": [True, False], "maxfevals": 40}
    found = sl.curvature(f, sl.minimize(f, [1.0, 1.0], 0.3, rng=seed, **options))
    assert f.seen[:, 0].min() >= 0.1
    assert f.seen[:, 0].max() <= 10.0
    assert "at_bound" in names(found)
    assert_array_equal(found.free, [False, True])
    assert_allclose(found.x, [bound, np.log(bound)], atol=1e-6)
    assert_allclose(found.hessian[1, 1], 2.0, rtol=1e-4)
    assert found.success


def test_ranks_take_a_time_limit():
    place = OptimizeResult(x=np.ones(2), fun=0.0, hess_inv=0.01 * np.eye(2))
    shape = sl.shape_from_ranks(raises_aside, place, scale=1.0, iterations=8, on_error="nan", rng=1)
    assert shape.nfev > 0
    with pytest.raises(ValueError, match="timeout"):
        sl.shape_from_ranks(lambda x, y: True, place, comparison=True, timeout=1.0)


def test_the_objective_is_kept_but_not_pickled():
    bowl = lambda x: (x - 1) @ (x - 1)  # noqa: E731
    found = sl.curvature(bowl, OptimizeResult(x=np.ones(2), fun=0.0), kind="nll")
    assert copy.deepcopy(found).profile().nfev == 16
    again = pickle.loads(pickle.dumps(found))
    with pytest.raises(ValueError, match="`fun`"):
        again.profile()
    assert again.profile(bowl).nfev == 16
    with pytest.raises(ValueError, match="`args`"):
        found.profile(args=(1,))
