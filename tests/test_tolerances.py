"""A tolerance of f ends a run soon after the values are within it of the minimum, and not before."""

from __future__ import annotations

import numpy as np
import pytest

import sublevel as sl
from helpers.functions import ellipsoid, rosenbrock, sphere
from sublevel.cli.main import main
from sublevel.run.termination import Standing, Tolerances, Window, find_reason, lengths
from sublevel.store.fingerprint import fingerprint

TIMES = np.linspace(0, 10, 40)
TRUTH = np.array([2, 1.2, 1, 0.15])


def decay(p):
    """A sum of two exponentials."""
    return p[..., :1] * np.exp(-p[..., 1:2] * TIMES) + p[..., 2:3] * np.exp(-p[..., 3:] * TIMES)


DATA = decay(TRUTH) + 0.02 * np.random.default_rng(2).standard_normal(TIMES.size)


def fit(p):
    """A sum of squares whose minimum is not 0."""
    return np.sum(np.square(decay(p) - DATA), axis=-1)


def fitted(seed, **options):
    start = TRUTH * np.exp([0.5, -0.4, 0.6, -0.5])
    return sl.minimize(fit, start, 0.3, log_scaled=True, rng=seed, **{"vectorized": True} | options)


def needed(result, relative, lowest):
    """Evaluations until the best value was this part of the lowest one above it."""
    return result.history["nfev"][np.argmax(result.history["best"] <= lowest * (1 + relative))]


# What it costs


@pytest.mark.parametrize("relative", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("surrogate", [False, True])
def test_no_more_than_a_third_of_the_evaluations_come_after_those_that_were_needed(surrogate, relative):
    excess, without = [], []
    for seed in range(3):
        options = {"surrogate": True, "vectorized": False} if surrogate else {}
        whole, ended = fitted(seed, **options), fitted(seed, rtolfun=relative, **options)
        assert list(ended.reasons) == ["tolfun"]
        assert ended.fun <= whole.fun * (1 + relative)
        count = needed(whole, relative, whole.fun)
        excess.append(ended.nfev / count)
        without.append(whole.nfev / count)
    assert np.median(excess) < 1.3
    assert np.median(without) > (1.3 if relative > 1e-8 else 1.1)


@pytest.mark.parametrize("d", [2, 5, 10])
@pytest.mark.parametrize("fun", [sphere, ellipsoid, rosenbrock])
def test_a_run_does_not_end_early(fun, d):
    for seed in range(3):
        given = {"vectorized": True, "rng": seed, "maxfevals": 1e5}
        result = sl.minimize(lambda X: 1 + fun(X), np.full(d, 0.5), 0.3, rtolfun=1e-7, **given)
        if result.fun < 3:  # Rosenbrock's function has another minimum
            assert result.fun - 1 < 1e-7


def test_the_halves_of_several_samples_have_to_agree():
    counts = {(d, n): lengths(d, n).few for d, n in ((2, 6), (5, 8), (20, 12), (20, 1000), (1000, 24))}
    assert counts == {(2, 6): 4, (5, 8): 6, (20, 12): 12, (20, 1000): 3, (1000, 24): 252}


@pytest.mark.parametrize(
    ("best", "medians", "ends"),
    [
        ([1.0] * 4, [1.0004] * 4, True),
        ([1.0] * 4, [1.0006] * 4, False),
        ([1.0006, 1.0, 1.0, 1.0], [1.0006, 1.0, 1.0, 1.0], False),
        ([1.0] * 4, [np.nan, 1.0, 1.0, 1.0], False),
        ([1.0] * 4, [1.0, 1.0, np.nan, 1.0], False),
        ([1.0] * 4, [1.0, np.inf, 1.0, 1.0], False),
        ([np.inf] * 4, [np.inf] * 4, False),
        ([1.0] * 3, [1.0] * 3, False),
    ],
)
@pytest.mark.parametrize("tolerances", [Tolerances(fun=1e-3), Tolerances(relative=1e-3)])
def test_the_better_halves_differ_by_half_the_tolerance(tolerances, best, medians, ends):
    standing = Standing(np.ones(2), generations=len(best), latest=best[-1], lowest=min(best), spread=1.0)
    theta, window = sl.FullGaussian(np.zeros(2), np.eye(2), np.float64(0.1)), Window(100, best, medians)

    def reason(tolerances):
        return find_reason(standing, window, tolerances, theta, theta.deviations, 6, lambda: 1.0)

    assert (reason(tolerances) is not None) == ends
    assert reason(Tolerances()) is None


def test_a_wide_search_among_equal_values_goes_on():
    """The best values of several generations are equal while the better halves are not."""
    result = sl.minimize(lambda X: np.floor(4 * sphere(X)), np.full(3, 2.2), 0.5, tolfun=0.1, vectorized=True, rng=1)
    assert result.fun == 0


# Units


@pytest.mark.parametrize("power", [-100, 100])
def test_a_relative_tolerance_does_not_notice_the_units_of_f(power):
    plain = fitted(1, rtolfun=1e-5)
    scaled = sl.minimize(
        lambda p: 2.0**power * fit(p), TRUTH * 1.3, 0.3, log_scaled=True, rng=1, vectorized=True, rtolfun=1e-5
    )
    same = sl.minimize(fit, TRUTH * 1.3, 0.3, log_scaled=True, rng=1, vectorized=True, rtolfun=1e-5)
    assert scaled.nfev == same.nfev
    np.testing.assert_array_equal(scaled.x, same.x)
    assert list(plain.reasons) == ["tolfun"]


def test_a_constant_added_to_f_matters_to_a_relative_tolerance_alone():
    def shifted(**options):
        return sl.minimize(
            lambda p: 2.0 + fit(p), TRUTH * 1.3, 0.3, log_scaled=True, rng=1, vectorized=True, **options
        ).nfev

    plain = {"log_scaled": True, "rng": 1, "vectorized": True}
    assert shifted(tolfun=1e-7) == sl.minimize(fit, TRUTH * 1.3, 0.3, tolfun=1e-7, **plain).nfev
    assert shifted(rtolfun=1e-5) < sl.minimize(fit, TRUTH * 1.3, 0.3, rtolfun=1e-5, **plain).nfev


def test_a_minimum_of_zero_is_not_within_a_relative_tolerance():
    plain, relative = (
        sl.minimize(sphere, np.ones(4), 0.5, rng=1, vectorized=True, **options) for options in ({}, {"rtolfun": 1e-6})
    )
    assert (relative.nfev, relative.reasons) == (plain.nfev, plain.reasons)


# With everything else


def test_without_a_tolerance_only_ranks_decide():
    zero, none = fitted(3, rtolfun=0.0, tolfun=0.0, maxfevals=500), fitted(3, maxfevals=500)
    np.testing.assert_array_equal(zero.x, none.x)
    assert zero.nfev == none.nfev == 500


def test_the_larger_of_two_tolerances_decides():
    counts = [fitted(1, tolfun=a, rtolfun=b).nfev for a, b in ((1e-4, 0), (1e-4, 1e-6), (0, 1e-6), (1e-12, 1e-6))]
    assert counts[0] == counts[1] < counts[2] == counts[3]


def test_runs_are_stored_and_go_on_with_a_smaller_tolerance(tmp_path):
    whole = fitted(1, rtolfun=1e-8, maxfevals=5000, store=tmp_path / "whole.db")
    fitted(1, rtolfun=1e-3, maxfevals=5000, store=tmp_path / "a.db")
    assert list(sl.resume(tmp_path / "a.db", fit).reasons) == ["tolfun"]
    resumed = sl.resume(tmp_path / "a.db", fit, rtolfun=1e-8)
    assert (resumed.nfev, resumed.reasons) == (whole.nfev, whole.reasons)
    fitted(1, rtolfun=1e-8, maxfevals=5000, maxiter=30, store=tmp_path / "b.db")
    assert sl.resume(tmp_path / "b.db", fit, maxiter=9999).nfev == whole.nfev
    assert fingerprint(tmp_path / "b.db") == fingerprint(tmp_path / "whole.db")


def test_restarts_go_on(tmp_path):
    result = fitted(1, rtolfun=1e-4, restarts=2, maxfevals=20_000, store=tmp_path / "a.db")
    assert [list(run.reasons) for run in result.history.runs] == [["tolfun"]] * 3
    with pytest.raises(ValueError, match="`rtolfun` and `noise_floor` must be those that the run was started with"):
        sl.resume(tmp_path / "a.db", fit, rtolfun=1e-9)


def test_it_ends_sharded_runs_and_those_of_an_optimizer():
    sharded = sl.minimize_sharded(fit, TRUTH * 1.3, 0.3, log_scaled=True, popsize=20, shards=2, rng=1, rtolfun=1e-4)
    assert list(sharded.reasons) == ["tolfun"]
    opt = sl.Optimizer(TRUTH * 1.3, 0.3, log_scaled=True, rng=1, rtolfun=1e-4)
    while not opt.stop():
        X = opt.ask()
        opt.tell(X, fit(X))
    assert list(opt.stop()) == ["tolfun"]


def test_it_is_an_option_of_the_command_line(tmp_path, capsys):
    (tmp_path / "bowl.py").write_text("def bowl(x):\n    return 1.0 + sum(x**2)\n")
    counts = []
    for options in ([], ["--rtolfun", "1e-3"]):
        words = ["minimize", f"{tmp_path / 'bowl.py'}:bowl", "--x0", "1,1", "--sigma0", "0.3", "--seed", "1"]
        assert main([*words, *options]) == 0
        counts.append(capsys.readouterr().out)
    assert "which is within a tolerance or rounding" in counts[1]
    assert counts[0] != counts[1]
