"""The diagnosis of a finished run: each finding is provoked, its numbers are true, and plain problems have none."""

from __future__ import annotations

import numpy as np
import pytest

import sublevel as sl
from sublevel.run.diagnosis import rank_correlation
from sublevel.run.result import Deferred


def sphere(x):
    return np.sum(np.square(x), axis=-1)


def ellipsoid(x, condition=1e6):
    return np.square(x) @ condition ** (np.arange(x.shape[-1]) / (x.shape[-1] - 1))


def rastrigin(x):
    return 10 * x.shape[-1] + np.sum(np.square(x) - 10 * np.cos(2 * np.pi * x), axis=-1)


def with_noise(fun, size, seed=3):
    rng = np.random.default_rng(seed)
    return lambda x: fun(x) + size * rng.standard_normal(len(x))


def turned(fun, d):
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
    return lambda x: fun(x @ turn)


def findings(fun, x0, sigma0, *, seed=1, **settings):
    """By name."""
    result = sl.minimize(fun, x0, sigma0, rng=seed, vectorized=True, **settings)
    return {finding.name: finding for finding in result.diagnosis}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "settings", [{}, {"restarts": 2}, {"maxfevals": 1500}, {"method": "sep-cma"}, {"bounds": [(-3, 3)] * 6}], ids=str
)
@pytest.mark.parametrize(
    "fun", [sphere, lambda x: ellipsoid(x, 100.0), lambda x: np.sum(np.abs(x), axis=-1)], ids=["sphere", "100", "abs"]
)
def test_plain_problems_have_no_findings(fun, settings, seed):
    assert findings(fun, np.ones(6), 0.5, seed=seed, **settings) == {}


def test_ill_conditioned_by_units():
    found = findings(ellipsoid, np.ones(5), 0.5)["ill_conditioned"]
    assert 1e5 < found.numbers["condition"] < 1e7
    assert found.numbers["rescaled"] < 100
    assert (found.numbers["narrowest"], found.numbers["widest"]) == (4, 0)
    assert "x[4]" in found.sentence
    assert "`sigma0` per variable" in found.sentence


def test_ill_conditioned_by_combinations_of_variables():
    found = findings(turned(ellipsoid, 5), np.ones(5), 0.5)["ill_conditioned"]
    assert found.numbers["rescaled"] > 1e4
    assert "combinations" in found.sentence


def test_conditioning_is_measured_in_the_units_that_sigma0_sets():
    assert findings(ellipsoid, np.zeros(5) + 1e-3, 1e6 ** (-0.5 * np.arange(5) / 4)).keys() <= {"narrowed"}


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_taken_for_bad_conditioning(seed):
    result = sl.minimize(with_noise(sphere, 0.1, seed), np.ones(5), 0.5, rng=seed, vectorized=True)
    assert [finding.name for finding in result.diagnosis] == ["noisy"]
    assert np.linalg.cond(result.cov) > 1e5  # which would be reported otherwise


@pytest.mark.parametrize("method", [sl.cma(sampling="independent"), sl.xnes()], ids=lambda method: method.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_diverged_says_nothing_of_conditioning(method, seed):
    result = sl.minimize(lambda x: x[:, 0], np.ones(5), 0.5, rng=seed, vectorized=True, method=method)
    assert np.linalg.cond(result.cov) > 1e5
    assert [finding.name for finding in result.diagnosis] == ["small_sigma0"]


def test_conditioning_that_was_learned_on_the_way_is_reported_before_the_run_has_converged():
    assert "ill_conditioned" in findings(ellipsoid, np.ones(5), 0.5, maxfevals=3000)


@pytest.mark.parametrize(
    "fun", [with_noise(sphere, 1.0), with_noise(sphere, 0.01), with_noise(lambda x: 0 * x[:, 0], 1.0)]
)
def test_noise(fun):
    found = findings(fun, np.ones(6), 0.5, maxfevals=8000)["noisy"]
    assert abs(found.numbers["trend"]) < 0.3
    assert f"{found.numbers['trend']:.2f}" in found.sentence
    assert "lra-cma" in found.sentence


@pytest.mark.parametrize(
    ("method", "advised"),
    [("cma", "'lra-cma'"), ("sep-cma", "'lra-sep-cma'"), ("lra-cma", None), ("lra-sep-cma", None)],
)
def test_a_method_is_not_advised_to_those_who_use_it(method, advised, tmp_path):
    for fun, settings in ((with_noise(sphere, 10.0), {}), (rastrigin, {"restarts": 2})):
        file = tmp_path / f"{len(settings)}.db"
        result = sl.minimize(
            fun, np.full(5, 2.7), 1.0, method=method, maxfevals=5000, vectorized=True, rng=1, store=file, **settings
        )
        for run in (result, sl.resume(file, fun), sl.load(file).result):
            told = [finding.sentence for finding in run.diagnosis if finding.name in ("noisy", "multimodal")]
            assert told
            assert all(advised in sentence if advised else "lra-" not in sentence for sentence in told)


def test_noise_is_not_taken_for_many_minima():
    assert "multimodal" not in findings(with_noise(sphere, 1.0), np.ones(6), 0.5, maxfevals=8000, restarts=3)


@pytest.mark.parametrize("restarts", [3, "bipop"])
def test_many_minima(restarts):
    found = findings(rastrigin, np.full(5, 3.0), 1.0, restarts=restarts, maxfevals=20_000)["multimodal"]
    assert found.numbers["lowest"] < found.numbers["highest"]
    assert 1 <= found.numbers["at_lowest"] < found.numbers["runs"]
    assert f"{found.numbers['highest']:.6g}" in found.sentence


def test_one_minimum_found_again_and_again_is_one():
    assert "multimodal" not in findings(lambda x: sphere(x) + 1e6, np.ones(4), 0.5, restarts=3)


def test_small_sigma0():
    found = findings(sphere, np.full(4, 1000.0), 0.1)["small_sigma0"]
    assert found.numbers["growth"] > 100
    assert "too small" in found.sentence
    suits = float(found.sentence.split("about ")[1].split()[0])
    assert findings(sphere, np.full(4, 1000.0), suits).keys() == set()


def test_small_sigma0_is_told_for_each_variable():
    found = findings(lambda x: sphere(x - [0, 0, 1000]), np.zeros(3), [1.0, 1.0, 1e-3])["small_sigma0"]
    assert found.sentence.endswith("; about 3.3e+02 for x[2] suits")
    suits = [1.0, 1.0, float(found.sentence.split("about ")[1].split()[0])]
    assert "small_sigma0" not in findings(lambda x: sphere(x - [0, 0, 1000]), np.zeros(3), suits)


def test_small_sigma0_of_a_logarithm():
    def fun(x):
        return (np.log(x[:, 1]) + 60) ** 2 + x[:, 2] ** 2

    settings = {"log_scaled": [False, True, False], "bounds": [(7, 7), (None, None), (None, None)]}
    found = findings(fun, [7.0, 1.0, 1.0], [1.0, 0.01, 1.0], **settings)["small_sigma0"]
    assert found.sentence.endswith("; about 20 for ln x[1] suits")
    assert "small_sigma0" not in findings(fun, [7.0, 1.0, 1.0], [1.0, 20.0, 1.0], **settings)


def test_small_sigma0_that_never_shrank():
    found = findings(lambda x: x[:, 0], np.ones(4), 0.1, maxfevals=1000)["small_sigma0"]
    assert "never shrank" in found.sentence


def test_large_sigma0():
    found = findings(sphere, np.full(4, 1e-4), 10.0, evaluate_x0=False)["large_sigma0"]
    assert found.numbers["closeness"] == pytest.approx(1e-5, rel=0.01)
    assert str(found.numbers["nfev"]) in found.sentence


def test_a_sigma0_that_is_wider_than_the_box():
    found = findings(sphere, np.ones(4), 30.0, bounds=[(-2, 3)] * 4)["large_sigma0"]
    assert found.numbers["share"] == 6.0


@pytest.mark.parametrize("other", [3.0, None])
def test_at_a_bound(other):
    found = findings(sphere, np.full(4, 2.0), 0.3, bounds=[(1, other), (-3, 3), (None, None), (1.5, other)])["at_bound"]
    assert found.numbers == {"lower": 2, "upper": 0}
    assert "x[0] at its lower bound 1, x[3] at its lower bound 1.5" in found.sentence


def test_at_a_bound_of_a_logarithm_and_not_of_a_fixed_variable():
    settings = {"bounds": [(1e-3, 2.0), (4.0, 4.0), (None, None)], "log_scaled": [True, False, False]}
    found = findings(lambda x: np.log(x[:, 0] / 5) ** 2 + x[:, 2] ** 2, [1.0, 4.0, 1.0], 0.3, **settings)["at_bound"]
    assert found.numbers == {"lower": 0, "upper": 1}
    assert "x[0] at its upper bound 2" in found.sentence


def test_many_bounds_are_counted():
    found = findings(sphere, np.full(8, 2.0), 0.3, bounds=[(1, 3)] * 8)["at_bound"]
    assert "and 5 more" in found.sentence


@pytest.mark.parametrize("fun", [lambda x: 0 * x[:, 0], lambda x: np.floor(sphere(x))])
def test_flat(fun):
    found = findings(fun, np.ones(4), 0.5)["flat"]
    assert found.numbers["distinct"] <= 0.5 * found.numbers["generations"]
    assert "plateaus" in found.sentence


SCALED = [
    (ellipsoid, {}),
    (rastrigin, {"restarts": 3, "maxfevals": 20_000}),
    (lambda x: sphere(x - 300.0), {}),
    (lambda x: sphere(x - 1.0 - 1e-4), {}),
]


@pytest.mark.parametrize(("fun", "settings"), SCALED)
def test_findings_do_not_change_with_the_units_of_f_and_x(fun, settings):
    plain = findings(fun, np.ones(4), 0.5, **settings)
    assert plain
    unit = 2.0**40
    scaled = findings(lambda x: 2.0**-100 * fun(x / unit), unit * np.ones(4), unit * 0.5, **settings)
    assert plain.keys() == scaled.keys()
    for name in plain.keys() - {"multimodal"}:  # which quotes values of f
        assert scaled[name].numbers == pytest.approx(plain[name].numbers, rel=1e-9)


def test_a_result_shows_its_findings_and_a_callback_does_not_pay_for_them():
    seen = []
    result = sl.minimize(
        ellipsoid, np.ones(5), 0.5, rng=1, vectorized=True, callback=lambda r: seen.append(r.entries()["diagnosis"])
    )
    assert all(isinstance(entry, Deferred) for entry in seen)
    assert "ill_conditioned: the longest principal axis" in repr(result)
    assert str(result.diagnosis[0]).startswith("ill_conditioned: ")


def test_bits_have_no_diagnosis():
    assert findings(lambda x: x.sum(axis=-1), np.full(5, 0.5), None, method="pbil", popsize=20) == {}


def test_failures_of_a_search_on_bits_are_told():
    def fun(x):
        if x[0] == 1:
            raise ArithmeticError("not here")
        return x.sum()

    result = sl.minimize(fun, np.full(5, 0.5), None, method="pbil", popsize=20, rng=1, on_error="nan", maxiter=5)
    assert [finding.name for finding in result.diagnosis] == ["failed"]
    assert result.diagnosis[0].numbers["error"] == len(result.failures) > 0


@pytest.mark.parametrize("how", [{"vectorized": True}, {}, {"workers": map}], ids=["at once", "one by one", "mapped"])
@pytest.mark.parametrize("limit", [0.0, np.inf])
def test_values_that_are_nan_are_told(how, limit):
    def fun(x):
        return np.where(x[..., 0] < limit, np.nan, sphere(x))[()]

    result = sl.minimize(fun, np.ones(3), 0.5, rng=1, maxfevals=300, **how)
    (found,) = (finding for finding in result.diagnosis if finding.name == "failed")
    seen = []
    sl.minimize(lambda x: seen.append(fun(x)) or seen[-1], np.ones(3), 0.5, rng=1, maxfevals=300)
    count = int(np.count_nonzero(np.isnan(seen)))
    assert 0 < count <= len(seen) == result.nfev
    assert found.numbers == {"failed": count, "nfev": len(seen), "nan": count}
    assert result.failures.counts == {"nan": count}
    assert all(failure.x[0] < limit for failure in result.failures.last)
    assert "the objective returned NaN" in found.sentence


def test_rank_correlation_is_spearmans():
    assert rank_correlation(np.exp(np.arange(9.0))) == 1.0
    assert rank_correlation(-np.arange(9.0)) == -1.0
    assert rank_correlation(np.array([1.0, 3.0, 2.0, 4.0])) == pytest.approx(0.8)
