"""A result is SciPy's OptimizeResult whose large parts are computed when they are read, and one given to a callback
never changes.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

import sublevel as sl
from sublevel.run import history
from sublevel.run.result import Deferred

READ_LATER = ("mean", "std", "cov", "diagnosis", "params")


def sphere(x):
    return np.sum(x**2, axis=-1)


def small(**given):
    return sl.minimize(sphere, np.ones(3), 0.5, rng=1, maxiter=5, vectorized=True, **given)


def deferred(result):
    return {name for name, entry in result.entries().items() if isinstance(entry, Deferred)}


READINGS = {
    "attribute": lambda result, name: getattr(result, name),
    "key": lambda result, name: result[name],
    "get": lambda result, name: result.get(name),
    "values": lambda result, name: list(result.values())[list(result).index(name)],
    "items": lambda result, name: dict(result.items())[name],
    "dict": lambda result, name: dict(result)[name],
    "unpacking": lambda result, name: {**result}[name],
    "union": lambda result, name: (result | {"more": 1})[name],
    "reversed union": lambda result, name: ({"more": 1} | result)[name],
    "pop": lambda result, name: result.pop(name),
    "setdefault": lambda result, name: result.setdefault(name, 3),
    "copy": lambda result, name: result.copy()[name],
    "copy.copy": lambda result, name: copy.copy(result)[name],
    "deepcopy": lambda result, name: copy.deepcopy(result)[name],
    "pickle": lambda result, name: pickle.loads(pickle.dumps(result))[name],
    "OptimizeResult": lambda result, name: OptimizeResult(result)[name],
}


@pytest.mark.parametrize("name", READ_LATER)
@pytest.mark.parametrize("reading", READINGS)
def test_a_deferred_entry_is_there_however_it_is_read(reading, name):
    result = small()
    assert deferred(result) == set(READ_LATER)
    expected = getattr(small(), name)
    assert np.array_equal(READINGS[reading](result, name), expected)


def test_a_deferred_entry_is_computed_once_and_can_be_replaced():
    result = small()
    assert result.cov is result.cov
    result.mean = 3
    assert result["mean"] == 3
    del result.std
    assert "std" not in result
    assert result.get("std", "none") == "none"
    with pytest.raises(AttributeError, match="std"):
        getattr(result, "std")  # noqa: B009
    assert result.popitem()[0] == "hess_inv"
    assert len(result) == len(list(result)) == len(result.keys())


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "pbil"])
def test_mean_std_and_cov_are_those_of_the_distribution(method):
    x0, sigma0 = (np.full(4, 0.4), None) if method == "pbil" else (np.ones(4), [0.1, 0.2, 0.3, 0.4])
    result = sl.minimize(sphere, x0, sigma0, method=method, rng=1, maxiter=5, vectorized=True)
    np.testing.assert_allclose(result.std**2, np.diagonal(result.cov), rtol=1e-12)
    np.testing.assert_array_equal(result.mean, result.distribution.mean)
    np.testing.assert_allclose(
        result.distribution.principal_axes() ** 2, np.sort(np.linalg.eigvalsh(result.cov))[::-1], rtol=1e-9
    )
    np.testing.assert_allclose(result.distribution.log_size, 0.5 * np.linalg.slogdet(result.cov)[1] / 4, rtol=1e-9)
    pair = np.array([2, 0])
    scale = np.outer(result.std, result.std)
    np.testing.assert_allclose(
        result.distribution.correlation(pair), (result.cov / scale)[np.ix_(pair, pair)], rtol=1e-12, atol=1e-15
    )


def test_std_of_fixed_and_log_scaled_variables_is_that_of_cov():
    bounds, log_scaled = [(1, 1), (0.1, 10), (None, None)], [False, True, False]
    result = sl.minimize(
        sphere, np.ones(3), 0.5, bounds=bounds, log_scaled=log_scaled, rng=1, maxiter=5, vectorized=True
    )
    assert result.std[0] == 0
    np.testing.assert_allclose(result.std**2, np.diagonal(result.cov), rtol=1e-12)


def test_arrays_of_the_distribution_are_read_only_and_all_others_the_users_own():
    result = small()
    with pytest.raises(ValueError, match="read-only"):
        result.distribution.mean[0] = 1.0
    result.mean[:] = result.std[:] = result.x[:] = 0.0
    result.cov[:] = 0.0
    assert result.distribution.mean.any()
    assert result.distribution.deviations.all()


def test_a_result_in_a_callback_can_be_shown():
    shown = []
    small(callback=lambda result: shown.append(repr(result)))
    assert all("the run is in progress" in text for text in shown[:-1])
    assert len(shown) == 5


def test_showing_or_pickling_a_result_of_many_variables_makes_no_matrix():
    result = sl.minimize(sphere, np.ones(20_000), 0.5, method="sep-cma", rng=1, maxiter=2, vectorized=True)
    assert len(repr(result)) < 2000
    assert "cov" in result._deferred()
    assert len(pickle.dumps(result)) < 20 * 8 * 20_000
    assert isinstance(result.entries()["cov"], Deferred)


def facts(result):
    """All that a result says, in plain values."""
    trace = result.history.trace()
    return {
        "numbers": (
            result.fun,
            result.nfev,
            result.nit,
            result.restarts,
            result.status,
            result.message,
            dict(result.reasons),
        ),
        "arrays": [part.tobytes() for part in (result.x, result.mean, result.std, result.cov, *trace)],
        "history": [column.tobytes() for column in result.history.arrays().values()],
        "runs": [(run.rows, run.popsize, repr(run.fun), dict(run.reasons)) for run in result.history.runs],
        "pace": (len(result.history), result.history.last_run, result.history.best_run, repr(result.history.last)),
        "failures": (len(result.failures), len(result.failures.last)),
        "diagnosis": [str(finding) for finding in result.diagnosis],
    }


def often_nan(x):
    return np.where(x[..., 0] > 0.4, np.nan, np.sum(np.abs(x) ** 3, axis=-1))


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-ngd", "lra-cma"])
def test_a_result_kept_by_a_callback_never_changes(method, monkeypatch):
    monkeypatch.setattr(history, "ROWS", 64)  # so that rows are merged within this run
    kept = []

    def keep(result):
        if result.nit % 9 == 0:
            kept.append((result, pickle.dumps(result), facts(copy.deepcopy(result))))

    given = {"restarts": 3, "rng": 1, "popsize": 5, "maxfevals": 6000, "vectorized": True, "callback": keep}
    end = sl.minimize(often_nan, np.full(2, 0.3), 0.3, method=method, **given)
    assert end.restarts >= 1
    assert len(end.history) < end.nit
    for result, pickled, before in kept:
        assert facts(result) == before
        assert facts(pickle.loads(pickled)) == before


def test_a_callback_pays_for_no_matrix(monkeypatch):
    def refuse(self):
        raise AssertionError("a covariance was made that nobody asked for")

    for family in (sl.FullGaussian, sl.DiagonalGaussian, sl.IsotropicGaussian):
        monkeypatch.setattr(family, "cov", property(refuse))
    for method in ("cma", "sep-cma", "iso-cma"):
        assert small(method=method, callback=lambda result: result.fun < 0).nit == 5
