"""A start that no point improves on is not left: the search begins again there, narrower, and only ranks decide."""

from __future__ import annotations

import numpy as np
import pytest

import sublevel as sl
from helpers.functions import ellipsoid, rastrigin, sphere
from sublevel.run import optimizer
from sublevel.run.narrowing import FACTORS, WAITS, beginnings, beginnings_of, sigma_factor
from sublevel.store.fingerprint import fingerprint

NEAR, SIGMA0 = np.full(6, 1e-6), 1.0
BENT = np.array([0.043153, 0.19309, 0.26633, 0.5, 0.5, 0.73367, 0.80691, 0.95685])
"""The minimum of Chebyquad in 8 variables to five digits."""


def chebyquad(X):
    """Equal weights of a quadrature formula: a good start lies in a bent valley (Moré, Garbow & Hillstrom, 1981)."""
    n = X.shape[-1]
    integrals = np.array([0.0 if k % 2 else -1 / (k * k - 1) for k in range(1, n + 1)])
    means = np.polynomial.chebyshev.chebvander(2 * X - 1, n)[..., 1:].mean(axis=-2)
    return np.sum(np.square(means - integrals), axis=-1)


def searched(fun=sphere, x0=NEAR, sigma0=SIGMA0, **options):
    return sl.minimize(fun, x0, sigma0, **{"rng": 1, "vectorized": True, "maxfevals": 3000} | options)


def findings(result):
    return {finding.name: finding for finding in result.diagnosis}


def without_the_rule(monkeypatch):
    monkeypatch.setattr(optimizer, "sigma_factor", lambda _: None)


# The rule


def test_a_search_begins_again_thrice_narrower_and_once_as_at_first():
    factors = {count: sigma_factor(count) for count in range(40)}
    assert {count: factor for count, factor in factors.items() if factor} == {6: 0.1, 9: 0.01, 12: 0.001, 15: 1.0}
    assert [beginnings(count) for count in (0, 5, 6, 8, 9, 11, 12, 14, 15, 99)] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize(
    ("found", "times"),
    [
        ([2, 2, 2, 2, 2, 2, 0.5], 1),
        ([2, 2, 2, 2, 2, 1], 0),
        ([2, np.nan, 3, np.inf, 2, 2, 2, 2, 2, 2, 2], 2),
        ([2] * 40, 4),
        ([np.nan] * 40, 4),
        ([2] * 5, 0),
    ],
)
def test_the_number_of_times_follows_from_the_history(found, times):
    best = np.minimum.accumulate(np.fmin(found, 1.0))
    assert beginnings_of(best, np.array(found, dtype=float)) == times


def test_a_start_without_a_value_is_not_begun_at_again():
    for value in (np.nan, np.inf):
        assert beginnings_of(np.full(40, value), np.full(40, np.nan)) == 0


@pytest.mark.parametrize("iterations", range(4, 18))
def test_the_mean_is_put_back_and_the_deviations_are_cut(iterations):
    result = searched(maxiter=iterations)
    width = SIGMA0 * (1.0, *FACTORS)[beginnings(iterations)]
    assert result.nfev == 9 * iterations + 1
    if iterations in WAITS:
        np.testing.assert_array_equal(result.mean, NEAR)
        np.testing.assert_allclose(result.std, width)
        np.testing.assert_array_equal(result.x, NEAR)
    else:
        assert not np.array_equal(result.mean, NEAR)
        assert 0.15 < np.max(result.std) / width < 3


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [
        ({"bounds": (-4, 4)}, NEAR, 0.1),
        ({"log_scaled": True, "fun": lambda X: sphere(np.log(X)), "x0": np.exp(NEAR)}, np.exp(NEAR), 0.1),
        ({"sigma0": np.arange(1.0, 7.0), "method": "sep-cma"}, NEAR, np.arange(1.0, 7.0) / 10),
        ({"cov0": np.diag(np.arange(1.0, 7.0)), "method": "xnes"}, NEAR, np.sqrt(np.arange(1.0, 7.0)) / 10),
        ({"method": "ngd"}, NEAR, 0.1),
    ],
    ids=["bounds", "log", "sigma0", "cov0", "ngd"],
)
def test_it_begins_again_with_the_initial_shape(options, mean, std):
    result = searched(**options, maxiter=6)
    np.testing.assert_allclose(result.mean, mean)
    np.testing.assert_allclose(result.std, std * np.ones(6))


def test_a_good_start_saves_evaluations(monkeypatch):
    counts = []
    for _ in range(2):
        runs = [searched(chebyquad, np.arange(1, 9) / 9, 0.3, rng=seed, ftarget=0.006) for seed in range(7)]
        counts.append(np.median([run.nfev for run in runs]))
        without_the_rule(monkeypatch)
    assert counts[0] < 0.75 * counts[1]


def test_a_start_without_merit_changes_nothing(monkeypatch):
    given = {"fun": ellipsoid, "x0": np.full(6, 1.0), "sigma0": 0.3}
    result, alone = searched(**given), searched(**given, evaluate_x0=False)
    np.testing.assert_array_equal(result.x, alone.x)
    assert "narrowed" not in findings(result)
    without_the_rule(monkeypatch)
    assert searched(**given).nfev == result.nfev


def test_a_lucky_value_at_the_start_does_not_hold_a_search():
    def fun(X):
        return np.where((X == NEAR).all(axis=-1), -1.0, sphere(X - 1))

    result = searched(fun)
    assert result.fun == -1
    np.testing.assert_allclose(result.mean, np.ones(6), atol=1e-6)
    assert findings(result)["narrowed"].numbers["times"] == 4


@pytest.mark.parametrize("failure", [np.nan, np.inf])
def test_a_search_in_which_only_the_start_has_a_value_narrows(failure, monkeypatch):
    def fun(X):
        return np.where(np.abs(X).max(axis=-1) < 0.05, sphere(X), failure)

    result = searched(fun, np.full(6, 1e-3))
    assert result.success
    assert result.fun < 1e-15
    without_the_rule(monkeypatch)
    assert list(searched(fun, np.full(6, 1e-3)).reasons) == ["all_failed"]


# Only ranks matter


def test_increasing_transforms_of_f_change_nothing():
    plain = searched(chebyquad, np.arange(1, 8) / 8, 0.3, maxfevals=600)
    assert "narrowed" in findings(plain)
    for transform, same in ((np.log1p, True), (lambda f: 3e9 * f, True), (np.cos, False)):
        other = searched(lambda X, g=transform: g(chebyquad(X)), np.arange(1, 8) / 8, 0.3, maxfevals=600)
        assert np.array_equal(other.x, plain.x) == same
        assert np.array_equal(other.mean, plain.mean) == same


def test_a_value_that_is_equal_to_that_of_the_start_is_enough():
    def fun(X, step):
        return np.maximum(np.floor(sphere(X) / step), 0.0)

    assert "narrowed" in findings(searched(lambda X: fun(X, 0.02), maxiter=30))
    assert "narrowed" not in findings(searched(lambda X: fun(X, 20.0), maxiter=30))


# With everything else


@pytest.mark.parametrize(
    "options",
    [
        {"evaluate_x0": False},
        {"integrality": [0, 0, 0, 0, 0, 1], "x0": np.append(NEAR[:5], 0)},
        {"constraints": {"type": "ineq", "fun": lambda x: 1 - x[..., 0]}},
        {"noise": True},
        {"x0": lambda _: NEAR},
    ],
    ids=["unknown", "integer", "constraint", "noise", "function"],
)
def test_it_needs_the_value_at_a_start_among_real_variables_without_constraints(options):
    result = searched(**options, maxiter=6)
    assert not np.allclose(result.std, 0.1)
    assert "narrowed" not in findings(result)


def test_only_the_first_run_begins_at_the_start():
    result = searched(restarts=2, maxfevals=8000)
    assert result.restarts == 2
    assert findings(result)["narrowed"].numbers["times"] >= 1
    begins = [run.rows.start for run in result.history.runs]
    assert (result.history["deviation"][begins[1] : begins[1] + 4] > 0.3).all()


def test_an_optimizer_narrows_if_it_is_told_the_start():
    for is_told in (True, False):
        opt = sl.Optimizer(NEAR, SIGMA0, rng=1)
        if is_told:
            opt.note(NEAR[None], sphere(NEAR[None]))
        for _ in range(6):
            X = opt.ask()
            opt.tell(X, sphere(X))
        assert np.array_equal(opt.mean, NEAR) == is_told


@pytest.mark.parametrize("surrogate", [False, True])
def test_a_search_that_will_be_wide_again_has_not_converged(surrogate, monkeypatch):
    """Its standard deviations are cut below `tolx`, while the points that it has tried say little about the minimum."""
    given = {"fun": chebyquad, "x0": BENT, "sigma0": 0.1, "surrogate": surrogate, "vectorized": not surrogate}
    result = searched(**given, tolx=1e-3)
    assert list(result.reasons) == ["tolx"]
    assert findings(result)["narrowed"].numbers["times"] == 4
    assert result.history["deviation"][-1] < 0.01
    monkeypatch.setattr(optimizer, "beginnings", lambda _: len(WAITS))
    assert findings(searched(**given, tolx=1e-3))["narrowed"].numbers["times"] < 4


def test_a_search_that_has_just_become_wide_again_has_not_converged(monkeypatch):
    """All recent samples were close to the start, and their values differ by less than `tolfun`."""
    given = {"fun": lambda X: 100 + rastrigin(X), "x0": np.zeros(1), "sigma0": 10.0, "tolfun": 1.0}
    result = searched(**given)
    assert findings(result)["narrowed"].numbers["times"] == 4
    assert result.nit > WAITS[-1] + 1
    monkeypatch.setattr(optimizer, "beginnings", lambda generations: beginnings(generations + 1))
    assert searched(**given).nit == WAITS[-1]


def test_bits_are_not_fixed_by_a_point_that_is_noted():
    opt = sl.Optimizer([0.5] * 6, method="pbil", rng=1)
    opt.note(np.ones((1, 6)), np.array([-10.0]))
    for _ in range(20):
        X = opt.ask()
        opt.tell(X, X.sum(axis=1))
    assert opt.best_fun == -10
    assert np.all(opt.mean < 0.5)


def test_a_surrogate_learns_before_it_narrows():
    result = searched(surrogate=True, vectorized=False, maxfevals=300)
    assert result.fun < 1e-12


def test_stored_runs_go_on_bit_for_bit(tmp_path):
    whole = searched(maxfevals=400, store=tmp_path / "whole.db")
    assert findings(whole)["narrowed"].numbers["times"] >= 2
    for cut in (1, 6, 7, 9, 13):
        searched(maxfevals=400, maxiter=cut, store=tmp_path / f"{cut}.db")
        resumed = sl.resume(tmp_path / f"{cut}.db", sphere, maxiter=10_000)
        np.testing.assert_array_equal(resumed.x, whole.x)
        assert fingerprint(tmp_path / f"{cut}.db") == fingerprint(tmp_path / "whole.db")
        assert findings(resumed)["narrowed"].numbers == findings(whole)["narrowed"].numbers


def test_the_diagnosis_says_what_happened():
    result = searched(maxiter=40)
    finding = findings(result)["narrowed"]
    times, nfev = finding.numbers["times"], finding.numbers["nfev"]
    assert nfev == result.history["nfev"][WAITS[times - 1] - 1]
    assert f"{nfev} evaluations" in finding.sentence
    assert f"{min(FACTORS[:times]):g} of the standard deviations" in finding.sentence
    assert "large_sigma0" not in findings(result)
