"""Profile-likelihood intervals: against closed forms, nested minimisation and MINOS; bounds, noise, failures, and how f
is called.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import OptimizeResult, brentq, minimize
from scipy.special import expit, ndtri, stdtrit
from scipy.stats import norm

import sublevel as sl

LEVEL = 0.95
RISE = 0.5 * ndtri(0.5 + 0.5 * LEVEL) ** 2


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


def found(fun, x0, kind="nll", n_residuals=None, names=None, **settings):
    """The curvature at the minimum."""
    return sl.curvature(
        fun, sl.minimize(fun, x0, 0.3, rng=1, **settings), kind=kind, n_residuals=n_residuals, names=names
    )


def poisson(p):
    """−ln L of one count of 2."""
    return p[0] - 2 * np.log(p[0])


def skewed(x):
    """Not quadratic within one standard deviation, and x[1] follows x[0]."""
    return 0.5 * (np.exp(x[0]) - x[0] - 1) * 4 + 2 * (x[1] - 0.4 * x[0] ** 2 - 0.5 * x[0]) ** 2


def skewed_alone(v):
    """Its profile in x[0]."""
    return 2 * (np.exp(v) - v - 1)


def names(profiles):
    return [problem.name for problem in profiles.problems]


def ends(rise, low, start, high):
    return [brentq(rise, low, start), brentq(rise, start, high)]


# --- what they are
# -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_scaled", [True, False])
@pytest.mark.parametrize("level", [0.6827, 0.95])
def test_one_variable_has_the_ends_of_its_likelihood(level, log_scaled):
    settings = {"log_scaled": True} if log_scaled else {"bounds": [(1e-6, None)]}
    profiles = found(poisson, [1.0], **settings).profile_intervals(level)
    rise = lambda p: poisson([p]) - poisson([2.0]) - 0.5 * ndtri(0.5 + 0.5 * level) ** 2  # noqa: E731
    exact = ends(rise, 1e-3, 2.0, 30.0)
    assert_allclose(profiles.intervals[0], exact, atol=2e-3 * np.diff(exact)[0])
    assert profiles.success
    assert profiles.problems == ()
    assert profiles.nfev <= 14


def test_the_others_are_minimised_over():
    curved = found(skewed, [0.5, 0.5])
    profiles = curved.profile_intervals(LEVEL)
    exact = ends(lambda v: skewed_alone(v) - RISE, -5.0, 0.0, 3.0)
    assert_allclose(profiles.intervals[0], exact, atol=2e-3 * np.diff(exact)[0])
    low, high = profiles.intervals[0] - curved.x[0]
    assert abs(-low / high - 1) > 0.3  # asymmetric
    at_ends = profiles.points[0]
    assert_allclose(at_ends[:, 1], 0.4 * at_ends[:, 0] ** 2 + 0.5 * at_ends[:, 0], atol=0.05)
    assert_array_equal(curved.intervals(LEVEL, method="profile"), profiles.intervals)


def test_those_of_a_quadratic_are_those_of_its_hessian(rng):
    axes, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    hessian = (axes * 10.0 ** np.arange(-3, 2)) @ axes.T
    calls = Recorded(lambda x: 0.5 * (x - 1) @ hessian @ (x - 1))
    curved = found(calls, np.zeros(5))
    calls.points.clear()
    profiles = curved.profile_intervals(LEVEL)
    assert_allclose(profiles.intervals, curved.intervals(LEVEL), atol=1e-3 * np.min(curved.stderr))
    assert profiles.nfev == len(calls.points) == 2 * 5 * 5  # a value and four slopes for each end


def test_they_do_not_depend_on_how_a_variable_is_scaled():
    rng = np.random.default_rng(3)
    t = 3.0 * rng.weibull(1.7, 12)
    nll = lambda p: float(np.sum((t / p[1]) ** p[0] - p[0] * np.log(t / p[1]) - np.log(p[0])))  # noqa: E731
    plain = found(nll, [1.0, 2.0], bounds=[(1e-3, None)] * 2).profile_intervals(LEVEL).intervals
    logarithmic = found(nll, [1.0, 2.0], log_scaled=True).profile_intervals(LEVEL).intervals
    assert_allclose(logarithmic, plain, atol=3e-3 * np.min(np.diff(plain, axis=1)))


def test_least_squares_take_students_t(rng):
    t = np.linspace(-1, 1, 8)
    X = np.column_stack([np.ones(8), t])
    y = X @ [1.0, 2.0] + 0.1 * rng.standard_normal(8)
    curved = found(lambda p: np.sum((y - X @ p) ** 2), np.zeros(2), "least_squares", 8)
    best, (residual,), *_ = np.linalg.lstsq(X, y)
    half = stdtrit(6, 0.975) * np.sqrt(residual / 6 * np.diagonal(np.linalg.inv(X.T @ X)))
    assert_allclose(curved.intervals(LEVEL, "profile"), best[:, None] + half[:, None] * [-1, 1], rtol=1e-3)


def test_a_fixed_variable_and_those_not_asked_for():
    fun = lambda x: skewed(x[:2]) + (x[2] - 1) ** 2  # noqa: E731
    curved = found(fun, [0.5, 0.5, 1.5], bounds=[(None, None), (None, None), (1.5, 1.5)], names=["a", "b", "c"])
    whole = curved.profile_intervals(LEVEL)
    assert_array_equal(whole.intervals[2], [1.5, 1.5])
    some = curved.profile_intervals(LEVEL, variables=["b"])
    assert_array_equal(some.intervals[1], whole.intervals[1])
    assert np.isnan(some.intervals[0]).all()
    assert some.nfev < whole.nfev
    assert_array_equal(curved.profile_intervals(LEVEL, variables=1).intervals, some.intervals)
    assert "b " in str(some)
    assert "a " not in str(some)
    with pytest.raises(ValueError, match="`variables`"):
        curved.profile_intervals(LEVEL, variables=["d"])


# --- beside MINOS
# ------------------------------------------------------------------------------------------------------------------


def peak(rng):
    t = np.linspace(-5, 5, 50)
    counts = rng.poisson(15 * np.exp(-0.5 * ((t - 0.5) / 0.8) ** 2) + 5)

    def nll(p):
        mu = p[0] * np.exp(-0.5 * ((t - p[1]) / p[2]) ** 2) + p[3]
        return float(np.sum(mu - counts * np.log(mu))) if np.all(mu > 0) else np.inf

    return nll, [12.0, 0.2, 1.0, 4.0], {}


def logistic(rng, n=40):
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    sign = np.where(rng.random(n) < expit(X @ [0.5, 1.5, -1.0]), -1.0, 1.0)
    return lambda b: float(np.sum(np.logaddexp(0.0, (X @ b) * sign))), [0.0, 0.0, 0.0], {}


def kinetics(rng):
    s = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    y = 2.0 * s / (1.5 + s) + 0.04 * rng.standard_normal(s.size)
    return (
        lambda p: float(np.sum((p[0] * s / (p[1] + s) - y) ** 2)),
        [1.5, 1.0],
        {"kind": "least_squares", "n_residuals": 6},
    )


def weibull(rng, n=12):
    t = 3.0 * rng.weibull(1.7, n)

    def nll(p):
        return float(np.sum((t / p[1]) ** p[0] - p[0] * np.log(t / p[1]) - np.log(p[0]))) if min(p) > 0 else np.inf

    return nll, [1.0, 2.0], {"log_scaled": True}


def exponentials(rng):
    t = np.linspace(0.1, 6.0, 25)
    y = np.exp(-2.0 * t) + 0.6 * np.exp(-0.4 * t) + 0.01 * rng.standard_normal(t.size)
    squares = lambda p: float(np.sum((p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) - y) ** 2))  # noqa: E731
    return squares, [0.8, 1.5, 0.5, 0.3], {"kind": "least_squares", "n_residuals": 25, "log_scaled": True}


@pytest.mark.parametrize("level", [0.6827, 0.95])
@pytest.mark.parametrize("model", [peak, logistic, kinetics, weibull, exponentials])
def test_ends_are_those_of_minos_for_fewer_evaluations(model, level):
    iminuit = pytest.importorskip("iminuit")
    fun, x0, settings = model(np.random.default_rng(3))
    curved = found(fun, x0, **settings)
    profiles = curved.profile_intervals(level)
    minuit = iminuit.Minuit(fun, curved.x)
    minuit.errordef = profiles.rise
    minuit.migrad()
    before = minuit.nfcn
    minuit.minos()
    theirs = [
        (minuit.values[i] + error.lower, minuit.values[i] + error.upper)
        for i, error in enumerate(minuit.merrors.values())
    ]
    assert all(error.is_valid for error in minuit.merrors.values())
    width = np.diff(theirs, axis=1)
    assert (np.abs(profiles.intervals - theirs) < 0.01 * width).all()
    assert profiles.nfev < 0.6 * (minuit.nfcn - before)


def test_a_bent_valley_has_its_exact_ends():
    bent = lambda x: 0.5 * (4 * (x[1] - 0.5 * x[0] ** 2) ** 2 + (x[0] - 1) ** 2 / 1.5)  # noqa: E731
    profiles = found(bent, [0.5, 0.5]).profile_intervals(LEVEL)
    half = np.sqrt(2 * RISE * 1.5)
    assert_allclose(profiles.intervals[0], [1 - half, 1 + half], atol=0.005 * half)
    lowest = lambda v: min(bent([u, v]) for u in np.linspace(-6, 6, 20_001)) - RISE  # noqa: E731
    assert_allclose(profiles.intervals[1, 1], brentq(lowest, 0.5, 20.0, xtol=1e-4), rtol=0.005)


def lowest_at(fun, x, i, value):
    """The lowest value of f with a variable fixed."""
    rest = np.delete(np.arange(x.size), i)
    return minimize(
        lambda w: fun(np.insert(w, i, value)), x[rest], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}
    ).fun


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "truth"), [(weibull, (1.7, 3.0)), (logistic, (0.5, 1.5, -1.0)), (kinetics, (2.0, 1.5))]
)
def test_they_cover_what_they_promise(model, truth):
    covered, within = [], []
    for seed in range(300):
        fun, x0, settings = model(np.random.default_rng(1000 + seed))
        profiles = found(fun, x0, **settings).profile_intervals(LEVEL)
        low, high = profiles.intervals.T
        covered.append((low <= truth) & (truth <= high))
        within.append(
            [lowest_at(fun, profiles.x, i, truth[i]) - fun(profiles.x) <= profiles.rise for i in range(len(truth))]
        )
    assert np.mean(np.array(covered) == within) > 0.995  # an interval holds the truth if the likelihood ratio says so
    assert np.mean(covered) == pytest.approx(
        LEVEL, abs=0.025
    )  # few data: 0.931 is what the likelihood ratio has for 12 lifetimes


# --- bounds
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_scaled", [True, False])
def test_an_end_may_be_a_bound_and_nothing_beyond_is_evaluated(log_scaled):
    fun = Recorded(poisson)
    curved = found(fun, [1.0], bounds=[(0.5, 20.0)], log_scaled=log_scaled)
    profiles = curved.profile_intervals(LEVEL)
    assert profiles.intervals[0, 0] == 0.5
    assert_array_equal(profiles.at_bound, [[True, False]])
    assert names(profiles) == ["at_bound"]
    assert "lower end of x[0] is its bound" in str(profiles.problems[0])
    assert profiles.success
    assert "(bound)" in str(profiles)
    assert (fun.seen >= 0.5).all()
    with pytest.warns(UserWarning, match="is its bound"):
        curved.intervals(LEVEL, "profile")


def test_points_at_a_bound_have_its_value_in_spite_of_rounding():
    fun = lambda x: np.log(x[0] / 0.4) ** 2 + (x[1] - x[0]) ** 2  # noqa: E731
    profiles = found(fun, [0.4, 0.4], bounds=[(0.05, 3), (0, 2)]).profile_intervals(LEVEL)
    assert profiles.at_bound[1].all()
    assert_array_equal(profiles.points[1, :, 1], [0, 2])
    assert "is its bound, 0:" in str(profiles.problems[0])


def test_another_variable_may_reach_its_bound_on_the_way():
    fun = Recorded(lambda x: 0.5 * (x[0] ** 2 + 4 * (x[1] - 0.8 * x[0]) ** 2 + (x[2] + 0.3 * x[0] - x[1]) ** 2))
    curved = found(fun, [0.1, 0.1, 0.1], bounds=[(None, None), (-0.5, 0.5), (None, None)])
    fun.points.clear()
    profiles = curved.profile_intervals(LEVEL)
    assert (np.abs(fun.seen[:, 1]) <= 0.5).all()
    at = lambda v: 0.5 * v**2 + 2 * max(0.8 * abs(v) - 0.5, 0) ** 2 - RISE  # noqa: E731
    exact = brentq(at, 0.0, 5.0)
    assert_allclose(profiles.intervals[0], [-exact, exact], rtol=0.005)
    assert_array_equal(profiles.intervals[1], [-0.5, 0.5])
    assert_array_equal(profiles.at_bound[:, 0], [False, True, False])


def valley(seed):
    """A random skewed valley of some log-scaled and some bounded variables, in x and in v, and its minimum left to
    find.
    """
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    turn, quartic, skew = rng.standard_normal((d, d)) + 2 * np.eye(d), rng.uniform(0, 0.8, d), rng.uniform(0.2, 1.5, d)
    is_log = rng.random(d) < 0.4
    start, at = rng.normal(0, 0.5, d), rng.normal(0, 0.3, d)
    low = np.where(rng.random(d) < 0.35, start - rng.uniform(0, 0.8, d), -np.inf)
    high = np.where(rng.random(d) < 0.35, start + rng.uniform(0.01, 0.8, d), np.inf)

    def f(v):
        u = turn @ (v - start - at)
        return float(np.sum(np.exp(skew * u) - skew * u - 1 + 0.15 * u**2 + 0.1 * quartic * u**4))

    to_v = lambda x: np.where(is_log, np.log(np.where(is_log, x, 1.0)), x)  # noqa: E731
    to_x = lambda v: np.where(is_log, np.exp(np.where(is_log, v, 0.0)), v)  # noqa: E731
    return f, to_v, to_x, start, (low, high), is_log


@pytest.mark.parametrize("seed", [3, 8, 13, 29, 59, 73, 99, 127])
def test_ends_are_the_extremes_of_the_region_within_bounds(seed):
    f, to_v, to_x, start, (low, high), is_log = valley(seed)
    fun = Recorded(lambda x: f(to_v(x)))
    box = [
        tuple(end if np.isfinite(end) and end != 0 else None for end in pair)
        for pair in zip(to_x(low), to_x(high), strict=True)
    ]
    profiles = found(fun, to_x(start), bounds=box, log_scaled=is_log.tolist()).profile_intervals(LEVEL)
    assert profiles.success
    assert (to_v(fun.seen) >= low - 1e-12).all()
    assert (to_v(fun.seen) <= high + 1e-12).all()
    best, level = to_v(profiles.x), f(to_v(profiles.x)) + profiles.rise
    within = [tuple(None if not np.isfinite(end) else end for end in pair) for pair in zip(low, high, strict=True)]
    for i, side in np.argwhere(~profiles.at_bound):
        sign, end = 2 * side - 1, to_v(profiles.points[i, side])
        region = {"type": "ineq", "fun": lambda v: level - f(v)}
        exact = minimize(
            lambda v, i=i, sign=sign: -sign * v[i],
            end,
            bounds=within,
            method="SLSQP",
            constraints=region,
            options={"ftol": 1e-10},
        )
        assert exact.success
        assert abs(end[i] - exact.x[i]) < 0.01 * abs(exact.x[i] - best[i])


def test_a_variable_at_its_bound_has_an_upper_limit():
    fun = Recorded(lambda x: 3 * x[0] + 0.5 * x[0] ** 2 + 0.5 * (x[1] - 1 - 0.5 * x[0]) ** 2)
    curved = found(fun, [1.0, 0.0], bounds=[(0.0, None), (None, None)])
    assert not curved.free[0]
    fun.points.clear()
    profiles = curved.profile_intervals(LEVEL)
    assert (fun.seen[:, 0] >= 0).all()
    assert profiles.intervals[0, 0] == 0
    assert profiles.at_bound[0, 0]
    assert_allclose(profiles.intervals[0, 1], brentq(lambda v: 3 * v + 0.5 * v**2 - RISE, 0.0, 5.0), rtol=0.005)
    upper = minimize(lambda v: -v[1], [0.0, 1.0], bounds=[(0, None), (None, None)], method="SLSQP",
                     constraints={"type": "ineq", "fun": lambda v: RISE - fun(v)}).x[1]  # fmt: skip
    assert_allclose(profiles.intervals[1, 1], upper, rtol=0.005)


def test_what_never_rises_enough_is_open():
    fun = lambda x: 3 * x[0] / (1 + x[0]) ** 0.5 - np.log(x[0] / (1 + x[0]))  # noqa: E731
    flat_below = lambda p: 0.4 * np.exp(-(p[0] ** 2)) * p[0] ** 2 + (p[0] > 0) * 0.5 * p[0] ** 2  # noqa: E731
    assert found(fun, [1.0], log_scaled=True).profile_intervals(0.5).success
    profiles = found(flat_below, [0.1]).profile_intervals(LEVEL)
    assert profiles.intervals[0, 0] == -np.inf
    assert np.isfinite(profiles.intervals[0, 1])
    assert names(profiles) == ["open"]
    rate = lambda p: np.exp(-3.0) * 0 + 2 * p[0] - 0.05 * np.log(p[0] + 1e-3)  # noqa: E731
    background = found(rate, [0.1], log_scaled=True).profile_intervals(LEVEL)
    assert background.intervals[0, 0] == 0.0
    assert "no lower end" in str(background.problems[0])


def test_a_lower_end_is_open_though_the_others_move_far_at_first():
    """The background of a decay may vanish, which changes the lifetime: the valley is bent at first, then straight
    without end.
    """
    t = np.linspace(0.25, 9.75, 20)
    counts = np.random.default_rng(3).poisson(12 * np.exp(-t / 2.0) + 1.5)

    def nll(p):
        mu = p[0] * np.exp(-t / p[1]) + p[2]
        return float(np.sum(mu - counts * np.log(mu)))

    profiles = found(nll, [10.0, 2.0, 1.0], log_scaled=True).profile_intervals(LEVEL, variables=[2])
    without = minimize(
        lambda q: nll([*np.exp(q), 1e-12]), np.log([10.0, 2.0]), method="Nelder-Mead", options={"fatol": 1e-10}
    ).fun
    assert names(profiles) == ["open"]
    assert profiles.intervals[2, 0] == 0.0
    assert_allclose(profiles.paths[2][0, 1], without - nll(profiles.x), atol=0.01 * RISE)
    assert profiles.nfev <= 180


# --- what can go wrong
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("beyond", "name"), [(np.nan, "failed"), (np.inf, "jump")])
def test_where_f_ends_is_named(beyond, name):
    fun = lambda x: 0.5 * x[0] ** 2 + 0.5 * (x[1] - x[0]) ** 2 if x[0] < 1.5 else beyond  # noqa: E731
    curved = found(fun, [0.1, 0.1])
    profiles = curved.profile_intervals(LEVEL)
    first = profiles.problems[0]
    assert first.name == name
    assert "upper end of x[0]" in str(first)
    assert "1.49" in str(first) or "1.5" in str(first)
    assert np.isnan(profiles.intervals[0, 1]) == (name == "failed")
    assert_allclose(profiles.intervals[0, 0], -ndtri(0.975), rtol=0.005)


def test_a_budget_holds_and_says_so():
    fun = Recorded(skewed)
    curved = found(fun, [0.5, 0.5])
    fun.points.clear()
    profiles = curved.profile_intervals(LEVEL, maxfevals=7)
    assert profiles.nfev == len(fun.points) <= 7
    assert not profiles.success
    assert "`maxfevals` = 7" in str(profiles.problems)


def test_a_point_below_the_minimum_is_named():
    two = lambda x: 0.5 * x[0] ** 2 + 0.5 * x[1] ** 2 - 3 * np.exp(-20 * ((x[0] - 1.96) ** 2 + x[1] ** 2))  # noqa: E731
    curved = sl.curvature(two, OptimizeResult(x=np.zeros(2), fun=two(np.zeros(2))), kind="nll")
    profiles = curved.profile_intervals(LEVEL)
    assert "lower_point" in names(profiles)
    assert two(profiles.lower_point.x) == profiles.lower_point.fun < 0
    alone = lambda x: 0.5 * x @ x  # noqa: E731
    one = sl.curvature(alone, OptimizeResult(x=np.zeros(2), fun=0.0), kind="nll")
    assert one.profile_intervals(LEVEL).lower_point is None


def test_a_budget_that_ends_late_keeps_what_was_found():
    curved = found(skewed, [0.5, 0.5])
    whole = curved.profile_intervals(LEVEL)
    part = curved.profile_intervals(LEVEL, maxfevals=whole.nfev - 1)
    assert names(part) == ["uncertain"]
    assert "`maxfevals` = " in str(part.problems[0])
    assert (np.abs(part.intervals - whole.intervals) <= part.uncertainty).all()
    assert np.count_nonzero(part.uncertainty) == 1
    assert all(len(path) > 1 for path in part.paths)


def two_minima():
    """A small peak on a falling background, counts of which the likelihood has two minima."""
    rng, edges = np.random.default_rng(5), np.linspace(0, 10, 61)

    def expected(p):
        fallen = 1 - np.exp(-edges / p[4])
        return p[0] * np.diff(norm.cdf(edges, p[1], p[2])) + p[3] * np.diff(fallen / fallen[-1])

    counts = rng.poisson(expected([60, 4.2, 0.45, 1200, 2.5]))

    def nll(p):
        mu = expected(p)
        return float(np.sum(mu - counts * np.log(mu))) if np.all(mu > 0) else np.nan

    settings = {"bounds": [(0, None), (0, 10), (0.05, 3), (0, None), (0.1, 20)]}
    fit = sl.minimize(nll, [100, 5, 0.8, 800, 4], [50, 1, 0.3, 300, 1], rng=1, **settings)
    return nll, sl.curvature(nll, fit, kind="nll", names=["s", "mu", "sigma", "b", "tau"])


@pytest.fixture(scope="module")
def lower():
    """Its objective, and the profiles at the higher minimum."""
    nll, curved = two_minima()
    return nll, curved.profile_intervals(0.6827)


def test_a_profile_is_negative_where_f_is_lower(lower):
    nll, profiles = lower
    assert nll(profiles.lower_point.x) == profiles.lower_point.fun < profiles.fun - 0.8
    for i in (0, 2, 3, 4):
        value, rise = profiles.paths[i][np.argmin(profiles.paths[i][:, 1])]
        assert rise < -0.7
        exact = lowest_at(nll, profiles.lower_point.x, i, value) - profiles.fun
        assert_allclose(rise, exact, atol=0.03)  # 6 % of the level


def test_a_profile_has_no_spikes(lower):
    _, profiles = lower
    assert any(len(limits) for limits in profiles.upper_limits)
    for x, path in zip(profiles.x, profiles.paths, strict=True):
        assert (path[:, 1] < 3 * profiles.rise).all()
        for side in (path[path[:, 0] <= x][::-1], path[path[:, 0] >= x]):
            changes = np.diff(side[np.argmin(side[:, 1]) :, 1])  # outwards, from the lowest point on
            assert (changes > -0.02 * profiles.rise).all()


def test_a_picture_shows_the_lower_point_and_no_nan(lower, tmp_path):
    _, profiles = lower
    unknown = replace(
        profiles, intervals=np.where([[0, 0], [0, 0], [1, 1], [0, 1], [1, 0]], np.nan, profiles.intervals)
    )
    figure = unknown.plot(tmp_path / "profiles.png")
    lines = [{line.get_label(): line for line in axis.lines} for axis in figure.axes[:5]]
    assert min(lines[0]["profile"].get_ydata()) < -0.8
    for i, (axis, panel) in enumerate(zip(figure.axes, lines, strict=False)):
        drop = profiles.lower_point.fun - profiles.fun
        assert_array_equal(panel["lower point"].get_xydata(), [[profiles.lower_point.x[i], drop]])
        assert axis.get_ylim()[0] < drop
    titles = [axis.get_title(loc="left") for axis in figure.axes[:5]]
    assert not any("nan" in text for text in [*titles, str(unknown)])
    assert titles[2].endswith(", ends unknown")
    assert titles[3].endswith(", upper end unknown")
    assert "lower end unknown, to" in titles[4]


def test_evaluations_that_fail_are_counted():
    def fails(x):
        if x[0] > 1.5:
            raise RuntimeError("no convergence")
        return 0.5 * x[0] ** 2 + 0.5 * x[1] ** 2

    curved = sl.curvature(fails, OptimizeResult(x=np.zeros(2), fun=0.0), kind="nll", on_error="nan")
    profiles = curved.profile_intervals(LEVEL)
    assert names(profiles) == ["failed", "failures"]
    assert "no convergence" in str(profiles.problems[1])
    with pytest.raises(RuntimeError, match="no convergence"):
        curved.profile_intervals(LEVEL, on_error="raise")


def test_without_the_objective_it_is_asked_for():
    curved = found(skewed, [0.5, 0.5])
    again = pickle.loads(pickle.dumps(curved))
    with pytest.raises(ValueError, match="pass it again as `fun`"):
        again.intervals(LEVEL, "profile")
    assert_array_equal(again.intervals(LEVEL, "profile", skewed), curved.intervals(LEVEL, "profile"))


def test_what_cannot_work_is_refused():
    curved = found(skewed, [0.5, 0.5])
    with pytest.raises(ValueError, match="`method`"):
        curved.intervals(LEVEL, "minos")
    with pytest.raises(ValueError, match="`level`"):
        curved.profile_intervals(95)
    with pytest.raises(ValueError, match='only valid with method="profile"'):
        curved.intervals(LEVEL, fun=skewed)
    with pytest.raises(ValueError, match='kind="nll"'):
        sl.minimize(skewed, [0.5, 0.5], 0.3, rng=1, curvature=True).curvature.intervals(LEVEL, "profile")
    flat = sl.curvature(lambda x: (x[0] + x[1]) ** 2, OptimizeResult(x=np.zeros(2), fun=0.0), kind="nll")
    with pytest.raises(ValueError, match="not identifiable"):
        flat.profile_intervals(LEVEL)
    perfect = sl.curvature(lambda x: x @ x, OptimizeResult(x=np.zeros(2), fun=0.0), kind="least_squares", n_residuals=5)
    with pytest.raises(ValueError, match="perfect"):
        perfect.profile_intervals(LEVEL)


# --- noise
# ----------------------------------------------------------------------------------------------------------------------


def test_noise_is_averaged_out():
    rng = np.random.default_rng(5)
    curved = found(lambda x: skewed(x) + 0.02 * rng.standard_normal(), [0.5, 0.5], maxfevals=1500)
    assert curved.is_noisy
    exact = ends(lambda v: skewed_alone(v) - RISE, -5.0, 0.0, 3.0)
    profiles = curved.profile_intervals(LEVEL)
    assert_allclose(profiles.intervals[0], exact, atol=0.05 * np.diff(exact)[0])


@pytest.mark.parametrize(("d", "size"), [(3, 0.3), (3, 0.5), (5, 0.3)])
def test_a_rough_function_has_ends(d, size):
    """A solver with a loose tolerance makes f rough, by up to `size` here."""
    rng = np.random.default_rng(d)
    wave, root = rng.uniform(300, 3000, d), np.eye(d) + 0.5 * rng.standard_normal((d, d))
    hessian = root @ root.T
    rough = lambda x: 0.5 * x @ hessian @ x + size * np.sin(wave @ x + 0.3)  # noqa: E731
    smooth = sl.curvature(lambda x: 0.5 * x @ hessian @ x, OptimizeResult(x=np.zeros(d), fun=0.0), kind="nll")
    profiles = smooth.profile_intervals(LEVEL, rough)
    deviations, low, high = smooth.stderr[:, None], profiles.uncertainty, np.abs(profiles.intervals)
    assert (0.5 * ((high + low) / deviations) ** 2 >= RISE - 2 * size).all()
    assert (0.5 * ((high - low) / deviations) ** 2 <= RISE + 2 * size).all()
    assert (profiles.uncertainty < 0.2 * deviations).all()


def test_an_end_where_f_does_not_decrease_as_measured_is_uncertain():
    """f has holes where its gradient is measured, which no step meets."""

    def holed(x):
        in_hole = np.any(np.abs(x[1] - np.array([0.1, 0.5])) < 1e-3)
        return 0.5 * x[0] ** 2 * (0.8 if in_hole else 1.0) + 0.5 * x[1] ** 2

    whole = sl.curvature(lambda x: 0.5 * x @ x, OptimizeResult(x=np.zeros(2), fun=0.0), kind="nll")
    profiles = whole.profile_intervals(LEVEL, holed, variables=[0])
    assert names(profiles) == ["uncertain", "uncertain"]
    assert "f does not decrease along its gradient" in str(profiles)
    shallow, deep = np.sqrt(2 * RISE), np.sqrt(2 * RISE / 0.8)
    assert_allclose(np.abs(profiles.intervals[0]), shallow, rtol=1e-3)
    assert_allclose(profiles.uncertainty[0], deep - shallow, rtol=0.25)  # it is that of a straight line


def test_an_uncertain_end_says_so(tmp_path):
    curved = found(skewed, [0.5, 0.5], names=["a", "b"])
    part = curved.profile_intervals(LEVEL, maxfevals=curved.profile_intervals(LEVEL).nfev - 1)
    (i, side), *rest = np.argwhere(part.uncertainty > 0)
    assert not rest
    assert not part.success
    assert f"{part.intervals[i, side]:.6g} ± {part.uncertainty[i, side]:.2g}" in str(part)
    axis = part.plot(tmp_path / "profiles.png").axes[i]
    assert f"{part.intervals[i, side]:.4g} ± {part.uncertainty[i, side]:.2g}" in axis.get_title(loc="left")
    bar = next(line for line in axis.lines if line.get_label() == "uncertain end").get_xdata()
    assert_allclose(bar, part.intervals[i, side] + part.uncertainty[i, side] * np.array([-1, 1]))


def test_noise_that_is_too_large_is_refused():
    rng = np.random.default_rng(5)
    curved = found(lambda x: 0.5 * x @ x + 1.0 * rng.standard_normal(), [0.5, 0.5], maxfevals=1500)
    with pytest.raises(ValueError, match="is too large for profile intervals"):
        curved.profile_intervals(LEVEL)


# --- how f is called
# ---------------------------------------------------------------------------------------------------------------


def bowl(x, at=0.0):
    return float(0.5 * np.sum((x - at) ** 2) + 0.1 * np.sum((x - at) ** 3))


def test_workers_vectorized_and_args_change_nothing():
    place = OptimizeResult(x=np.full(2, 0.25), fun=0.0)
    curved = sl.curvature(bowl, place, kind="nll", args=(0.25,))
    plain = curved.profile_intervals(0.68).intervals
    assert_array_equal(curved.profile_intervals(0.68, workers=2, timeout=60.0).intervals, plain)
    assert_array_equal(curved.profile_intervals(0.68, bowl, args=(0.25,), workers=map).intervals, plain)
    at_once = lambda X: 0.5 * np.sum((X - 0.25) ** 2, axis=1) + 0.1 * np.sum((X - 0.25) ** 3, axis=1)  # noqa: E731
    assert_allclose(
        sl.curvature(at_once, place, kind="nll", vectorized=True).intervals(0.68, "profile"), plain, rtol=1e-9
    )


def test_picture(tmp_path):
    profiles = found(skewed, [0.5, 0.5], names=["a", "b"]).profile_intervals(LEVEL)
    figure = profiles.plot(tmp_path / "profiles.png")
    assert (tmp_path / "profiles.png").stat().st_size > 10_000
    assert [axis.get_xlabel() for axis in figure.axes] == ["a", "b"]
    for i, path in enumerate(profiles.paths):
        assert (np.diff(path[:, 0]) > 0).all()
        assert path[:, 1].min() == 0
        assert profiles.x[i] in path[:, 0]
