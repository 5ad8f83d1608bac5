"""Whatever f says and however the problem is scaled: the state stays a distribution, and every end has a name. Warnings
are errors.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sublevel as sl
from helpers.runs import GAUSSIAN, METHODS, assert_sound, bits, cube, started, told
from sublevel.engine.families.protocol import SCALE_RANGE
from sublevel.run import termination

NAN, INF = float("nan"), float("inf")
FULL = {name: method for name, method in GAUSSIAN.items() if method.family is sl.FullGaussian}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
each_gaussian = pytest.mark.parametrize("method", GAUSSIAN.values(), ids=GAUSSIAN)
each_full = pytest.mark.parametrize("method", FULL.values(), ids=FULL)


def driven(opt, fun, generations, until=lambda opt: False):
    """The optimizer after that many generations, or when `until` holds, with a sound state after each."""
    for _ in range(generations):
        if until(opt):
            break
        told(opt, fun)
        assert_sound(opt)
    return opt


def was_refused(opt):
    return opt.last is not None and opt.last.outcome == sl.Outcome.REFUSED


# ---------------------------------------------------------------------------------------------------- samples that tell
# nothing


@each_method
@pytest.mark.parametrize("popsize", [2, 5, 30])
@pytest.mark.parametrize("constant", [0.0, 1e308, -5e-324, -INF])
def test_a_flat_function_leaves_every_bit_as_it_was(method, popsize, constant):
    opt = started(method, 7, popsize)
    before = bits(opt)
    told(opt, lambda X: np.full(popsize, constant), 5)
    assert opt.last.outcome == sl.Outcome.FLAT
    assert bits(opt) == before
    assert set(opt.stop()) == {"flat"} or method.family is sl.Bernoulli  # 2 bit vectors may be the same


@each_method
@pytest.mark.parametrize("values", [[NAN] * 6, [INF] * 6, [INF, NAN] * 3, [NAN] * 5 + [INF]], ids=str)
def test_a_sample_without_a_usable_value_leaves_every_bit_as_it_was(method, values):
    opt = started(method, 7, 6)
    before = bits(opt)
    for generation in range(1, 12):
        assert opt.stop() == ({} if generation <= 10 else {"all_failed": 10.0})
        told(opt, lambda X: values)
    assert opt.last.outcome == sl.Outcome.FAILED
    assert bits(opt) == before


@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
@pytest.mark.parametrize("popsize", [2, 3])
def test_a_sample_too_small_to_select_from_is_named(family, popsize):
    opt = started(sl.rank_mu(family=family), 4, popsize)
    before = bits(opt)
    told(opt, cube, 10)
    assert opt.stop() == {"no_selection": 10.0}
    assert bits(opt) == before
    result = sl.minimize(cube, np.ones(4), 0.5, method="rank-mu", popsize=popsize)
    assert (list(result.reasons), result.success) == (["no_selection"], False)
    assert "popsize" in result.message


def test_ties_that_hide_the_best_are_named_and_nothing_moves():
    opt = started(sl.rank_mu(), 4, 8)  # selects 2, and 3 are best
    before = bits(opt)
    told(opt, lambda X: [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert opt.last.outcome == sl.Outcome.NO_SELECTION
    assert bits(opt) == before


# ---------------------------------------------------------------------------------------------------- values that are
# not finite


def worst_replaced(fun, count, bad):
    """The function with its `count` worst values of each sample replaced."""

    def replaced(X):
        values = np.array(fun(X))
        values[np.argsort(values)[len(values) - count :]] = bad
        return values

    return replaced


@each_gaussian
@pytest.mark.parametrize("count", [1, 4, 9])
def test_failed_points_count_as_the_worst(method, count):
    ends = [bits(told(started(method, 4, 10), worst_replaced(cube, count, bad), 30)) for bad in (NAN, INF, 1e300)]
    assert ends[0] == ends[1] == ends[2]


@each_gaussian
def test_nan_is_worse_than_infinity(method):
    def staged(infinite, failed):
        return worst_replaced(worst_replaced(cube, 5, infinite), 2, failed)

    reference = bits(told(started(method, 4, 10), staged(1e300, 1e301), 30))
    assert bits(told(started(method, 4, 10), staged(INF, NAN), 30)) == reference
    if method.name == "ngd":  # rank-µ does not look at what it has not selected
        assert bits(told(started(method, 4, 10), staged(INF, INF), 30)) != reference


@each_gaussian
def test_minus_infinity_is_a_value_like_any_other(method):
    def best_replaced(bad):
        return lambda X: np.where(cube(X) == cube(X).min(), bad, cube(X))

    ends = [told(started(method, 4, 10), best_replaced(bad), 30) for bad in (-INF, -1.0)]
    assert bits(ends[0]) == bits(ends[1])
    assert ends[0].best_fun == -INF


@each_method
@pytest.mark.parametrize("kind", [NAN, INF, -INF])
def test_failed_points_may_be_told_in_any_order(method, kind, rng):
    straight, shuffled = started(method, 4, 8), started(method, 4, 8)
    for _ in range(20):
        X = shuffled.ask()
        values = np.where(X[:, 0] > X[:, 1], kind, cube(X))
        order = rng.permutation(8)
        shuffled.tell(X[order], values[order])
        told(straight, lambda X, values=values: values)
    assert bits(shuffled) == bits(straight)


# ---------------------------------------------------------------------------------------------------- scales


@each_gaussian
@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("exponent", [-300, -299, -200, -150, -10, 0, 10, 150, 200, 299, 300])
def test_any_scale_is_as_good_as_another(method, d, exponent):
    scale = float(f"1e{exponent}")
    opt = started(method, d, sigma0=scale, x0=0.1 * scale)
    driven(opt, cube, 30)
    assert opt.nit == 30
    assert not {"flat", "all_failed", "too_narrow"} & set(opt.stop())
    assert not np.isnan(opt.cov).any()


@each_gaussian
@pytest.mark.parametrize("d", [2, 5])
def test_a_start_scaled_by_a_power_of_two_takes_the_same_path(method, d):
    ends = []
    for scale in (1.0, 2.0**-990, 2.0**-400, 2.0**400, 2.0**980):
        opt = driven(started(method, d, sigma0=0.5 * scale, x0=scale), cube, 12)
        ends.append(((opt.mean / scale).tobytes(), (opt.deviations / scale).tobytes()))
    assert len(set(ends)) == 1


FAST = {
    "ngd": lambda family: sl.ngd(c_cov=1.0, family=family),
    "rank-mu": lambda family: sl.rank_mu(c_cov=0.3, family=family),
}


@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
@pytest.mark.parametrize(("name", "d"), [("ngd", 2), ("rank-mu", 1), ("rank-mu", 2)])
def test_a_search_for_zero_goes_down_to_the_smallest_floats_and_says_so(family, name, d):
    opt = started(FAST[name](family), d, 20, x0=0.0, sigma0=1e-250)
    driven(opt, cube, 5_000, until=was_refused)
    assert was_refused(opt)
    assert list(opt.stop()) == ["tolx"]
    assert 1e-3 * SCALE_RANGE[0] < np.min(opt.deviations) < 1e-298
    assert opt.best_fun < 1e-299


@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
def test_at_the_end_of_the_range_a_run_is_stopped_by_name(family):
    result = sl.minimize(cube, [1e-299, 0.0], 1e-299, method=FAST["rank-mu"](family), popsize=20, rng=1)
    assert (list(result.reasons), result.success) == (["refused"], False)
    assert result.fun < 1e-299


@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
@pytest.mark.parametrize("coordinate", [0, -1])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_linear_function_drives_the_scale_up_to_the_largest_floats_and_says_so(family, coordinate, d):
    opt = started(FAST["rank-mu"](family), d, 20, sigma0=1e270)
    driven(opt, lambda X: X[:, coordinate], 20_000, until=was_refused)
    assert was_refused(opt)
    assert 1e297 < np.max(opt.deviations) < 1e3 * SCALE_RANGE[1]


@each_full
@pytest.mark.parametrize(("small", "large"), [(0, 1), (1, 0), (1, 2)])
@pytest.mark.parametrize("popsize", [6, 40])
def test_axes_that_drift_apart_without_end_leave_a_sound_state(method, small, large, popsize):
    """log|x_small| − log|x_large| has no minimum: one variable shrinks for ever, the other does not."""

    def fun(X):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(X[:, small])) - np.log(np.abs(X[:, large]))

    opt = started(FAST.get(method.name, lambda family: method)(sl.FullGaussian), 3, popsize)
    driven(opt, fun, 6_000, until=was_refused)
    assert_sound(opt)


@each_gaussian
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_distant_optimum_is_found_to_the_spacing_of_floats(method, d):
    opt = started(method, d, 20, x0=1e8 + 0.3, sigma0=1e-3)
    driven(opt, lambda X: cube(X - 1e8), 8_000, until=lambda opt: opt.stop())
    assert list(opt.stop()) in (
        ["no_effect"],
        ["flat"],
        ["no_selection"],
        ["collapsed_sample"],
        ["tolfun"],
        ["stagnation"],
    )
    assert np.max(opt.deviations) < 1e-4


@each_gaussian
def test_a_start_below_the_spacing_of_floats_is_named_at_once(method):
    result = sl.minimize(lambda x: cube(x - 1e8), [1e8] * 3, 1e-9, method=method, popsize=8)
    assert (list(result.reasons), result.nit, result.success) == (["too_narrow"], 1, False)
    assert "sigma0" in result.message
    np.testing.assert_array_equal(result.mean, [1e8] * 3)


# ---------------------------------------------------------------------------------------------------- shapes


def rotated_ellipsoid(d, condition, rng):
    """A Hessian (d, d) with that condition number along axes of no preference."""
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return turn * np.geomspace(1.0, condition, d) @ turn.T


@each_full
@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("condition", [1e8, 1e14])
def test_a_needle_may_be_given_as_the_initial_covariance(method, d, condition, rng):
    cov0 = rotated_ellipsoid(d, condition, rng)
    cov0 = 0.5 * (cov0 + cov0.T)
    opt = sl.Optimizer(np.zeros(d), 1e-7, method=method, cov0=cov0, rng=1)
    np.testing.assert_allclose(opt.cov, 1e-14 * cov0, rtol=1e-9, atol=1e-12 * np.max(opt.cov))
    driven(opt, cube, 100)
    assert opt.last.outcome == sl.Outcome.MOVED


@each_full
def test_a_needle_is_learned(method, rng):
    d, condition = 3, 1e14
    root = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(1.0, 1e7, d)

    def ellipsoid(X):
        return np.sum((X @ root) ** 2, axis=-1)

    fast = sl.ngd(c_cov=0.5) if method.name == "ngd" else sl.rank_mu(c_cov=0.2)
    opt = started(fast, d, 40, x0=0.0, sigma0=1.0)
    driven(opt, ellipsoid, 1_500, until=lambda opt: np.max(ellipsoid(opt.ask())) < 1e-6)
    shape = root.T @ opt.cov @ root
    assert np.linalg.cond(opt.cov) > condition / 100
    assert np.linalg.cond(shape) < 100


@each_method
@pytest.mark.parametrize("d", [1, 2, 3, 30, 70, 300, 2000])
@pytest.mark.parametrize("popsize", [2, None])
def test_any_number_of_variables(method, d, popsize):
    opt = driven(started(method, d, popsize), cube, 3)
    assert opt.mean.shape == (d,)
    assert opt.last.outcome in (sl.Outcome.MOVED, sl.Outcome.NO_SELECTION, sl.Outcome.FLAT)


@each_gaussian
@pytest.mark.parametrize("size", [30.0, 1e3, 1e8, 1e50, 1e100, 1e150])
@pytest.mark.parametrize("outliers", [slice(0, 1), slice(0, None)], ids=["one", "all"])
@pytest.mark.parametrize(("d", "n"), [(1, 4), (5, 4), (5, 12), (80, 6)])
def test_points_far_beyond_the_range_of_exp(method, size, outliers, d, n, rng):
    theta = method.family.start(np.zeros(d), np.ones(d))
    z = rng.standard_normal((n, d))
    z[outliers] *= size
    sample = theta.sample_at(z)
    state = method.init(theta, n)
    for values in (cube(sample.x), -cube(sample.x)):
        after, info = method.tell(state, sample, values)
        assert info.outcome in (sl.Outcome.MOVED, sl.Outcome.NO_SELECTION, sl.Outcome.REFUSED)
        assert np.isfinite(after.theta.mean).all()
        assert np.isfinite(after.theta.deviations).all()
        assert (after.theta.deviations > 0).all()


@pytest.mark.parametrize("c_cov", [1.0, 1.5, 40.0])
@pytest.mark.parametrize("family", [sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian])
@pytest.mark.parametrize(("d", "n"), [(3, 4), (3, 12), (80, 8)])
def test_a_rate_that_breaks_positivity_is_refused_or_harmless(c_cov, family, d, n):
    opt = started(sl.rank_mu(c_cov=c_cov, family=family), d, n)
    driven(opt, cube, 20)
    assert c_cov < 1.5 or family is not sl.FullGaussian or opt.last.outcome == sl.Outcome.REFUSED


# ---------------------------------------------------------------------------------------------------- faults below


class FailingLapack:
    """LAPACK on a bad day: each routine says that it failed."""

    def __init__(self, lapack):
        self.lapack = lapack

    def __getattr__(self, name):
        def routine(*args, **options):
            *answers, info = getattr(self.lapack, name)(*args, **options)
            return (*(np.full_like(answer, NAN) for answer in answers), info + 1)

        return routine


@each_full
@pytest.mark.parametrize(("d", "n"), [(3, 4), (3, 12), (80, 8)])
def test_when_lapack_fails_no_step_is_taken(method, d, n, monkeypatch):
    from sublevel.engine import linalg
    from sublevel.engine.families import roots

    opt = started(method, d, n)
    before = bits(opt)
    monkeypatch.setattr(roots, "SMALL_STEP", 0.0)  # else a small step of few vectors asks nothing of LAPACK
    monkeypatch.setattr(linalg, "lapack", FailingLapack(linalg.lapack))
    told(opt, cube, 2)
    assert opt.stop() == {"refused": 2.0}
    assert bits(opt) == before
    monkeypatch.undo()
    told(opt, cube)
    assert opt.last.outcome == sl.Outcome.MOVED


# ---------------------------------------------------------------------------------------------------- large samples


@each_gaussian
@pytest.mark.parametrize("d", [1, 3])
def test_a_large_sample_moves_in_every_generation(method, d):
    opt = started(method, d, 5_000)
    for _ in range(60):
        told(opt, cube)
        assert opt.last.outcome == sl.Outcome.MOVED


LARGE_SAMPLE = """
import numpy as np, sublevel as sl
opt = sl.Optimizer(np.ones({d}), 1.0, method=sl.{recipe}, popsize={n}, rng=1)
for _ in range(3):
    X = opt.ask()
    opt.tell(X, np.vecdot(X, X))
    del X
with open("/proc/self/status") as status:
    print(*(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss would count what the parent used")
@pytest.mark.parametrize("family", ["FullGaussian", "DiagonalGaussian", "IsotropicGaussian"])
@pytest.mark.parametrize("recipe", ["ngd", "rank_mu"])
@pytest.mark.parametrize(("d", "n"), [(10, 10**6), (1, 10**6), (500, 20_000)])
def test_memory_is_at_most_three_samples_and_200_megabytes(recipe, family, d, n):
    script = LARGE_SAMPLE.format(d=d, n=n, recipe=f"{recipe}(family=sl.{family})")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak = 1024 * int(run.stdout)
    assert peak <= 3 * 8 * n * d + 200e6, f"{peak / 1e6:.0f} MB"


# ---------------------------------------------------------------------------------------------------- anything at all

NUMBERS = st.one_of(
    st.floats(),  # NaN, infinities and denormals among them
    st.sampled_from([0.0, -0.0, 1.0, NAN, INF, -INF, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]),
    st.integers(-2, 2).map(float),  # ties
)
STARTS = st.builds(
    dict,
    method=st.sampled_from(list(METHODS.values())),
    d=st.integers(1, 5),
    popsize=st.integers(2, 9),
    rng=st.integers(0, 2**32),
)
EXPONENTS = st.sampled_from([-300, -160, -20, 0, 20, 160, 300])
TELLS = 25


@st.composite
def talks(draw):
    """An optimizer, and what it is told generation by generation."""
    start = draw(STARTS)
    generation = st.lists(NUMBERS, min_size=start["popsize"], max_size=start["popsize"])
    if start["method"].family is not sl.Bernoulli:
        scale = float(f"1e{draw(EXPONENTS)}")
        start |= {"sigma0": scale, "x0": draw(st.sampled_from([0.0, 1.0, -9.0])) * scale}
    return started(**start), draw(st.lists(generation, min_size=TELLS, max_size=TELLS))


def listen(talk):
    """Whatever is told: a sound state, a named outcome, and no step where there is nothing to learn."""
    opt, generations = talk
    for values in generations:
        before = bits(opt)
        told(opt, lambda X, values=values: values)
        assert_sound(opt)
        assert opt.last.outcome == sl.Outcome.MOVED or bits(opt) == before
        assert set(opt.stop()) <= set(termination.KINDS)
        assert not np.isnan(opt.cov).any()
    usable = [value for values in generations for value in values if value == value]
    np.testing.assert_equal(opt.best_fun, min(usable, default=NAN))
    assert opt.nfev == TELLS * opt.popsize


UNHURRIED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@given(talks())
@settings(max_examples=80, **UNHURRIED)
def test_two_thousand_tells_of_anything(talk):
    listen(talk)


@pytest.mark.slow
@given(talks())
@settings(max_examples=100_000 // TELLS, **UNHURRIED)
def test_a_hundred_thousand_tells_of_anything(talk):
    listen(talk)
