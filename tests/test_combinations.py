"""Everything that can be combined runs combined: family × method × adapted rates × bounds × restarts × vectorized, and
improves f.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import sublevel as sl
from sublevel.engine.families import FAMILIES
from sublevel.validation import RECIPES, STRATEGIES, as_method

NAMES = [name for name in RECIPES if name != "pbil"]
LATE = "late-lra-cma"
BOUNDS = {
    "free": None,
    "box": [(-2, 3)] * 4,
    "mixed": [(0, None), (None, 3), (0.5, 0.5), (None, None)],  # half open, fixed, open
}
RESTARTS = {"once": None} | {name: name for name in STRATEGIES}


def terraces(x):
    """The sphere around (½, …, ½) on a grid of values, the lowest a ball: a run soon ends there, and another begins."""
    return np.floor(8 * np.sum(np.square(x - 0.5), axis=-1))


def keeps_scales(family):
    """Whether a family can start with any standard deviation per variable."""
    deviations = np.array([1.0, 2.0, 3.0])
    return np.array_equal(family.start(np.zeros(3), deviations).deviations, deviations)


class Counted:
    """The terraces, with every point that was asked for."""

    def __init__(self):
        self.points = []

    def __call__(self, x):
        self.points.append(np.atleast_2d(x).copy())
        return terraces(x)


def test_the_names_are_those_of_every_family_with_every_method():
    families, methods = {"", "sep-", "iso-", *FAMILIES}, ("cma", "xnes", "ngd", "rank-mu")
    every = {lra + family + method for lra, family, method in product(("", "lra-"), families, methods)}
    assert set(NAMES) == every | {LATE}


@pytest.mark.parametrize("vectorized", [False, True], ids=["single", "vectorized"])
@pytest.mark.parametrize("restarts", RESTARTS)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_combination_improves_f(name, bounds, restarts, vectorized):
    fun, box, x0 = Counted(), BOUNDS[bounds], np.array([2.0, 2.0, 0.5, 2.0])
    result = sl.minimize(
        fun,
        x0,
        0.4,
        method=name,
        bounds=box,
        restarts=RESTARTS[restarts],
        vectorized=vectorized,
        popsize=12,
        rng=1,
        maxfevals=720,
    )
    points = np.concatenate(fun.points)
    assert len(points) == result.nfev <= 720
    assert result.fun == terraces(result.x) == terraces(points).min()
    assert result.fun <= 0.3 * terraces(x0)
    if bounds == "box":
        assert ((points >= -2) & (points <= 3)).all()
    if bounds == "mixed":
        assert ((points[:, 0] >= 0) & (points[:, 1] <= 3) & (points[:, 2] == 0.5)).all()


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("restarts", STRATEGIES)
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("cma")])
def test_restarts_happen_in_every_combination(name, restarts, bounds):
    x0 = [2.0, 2.0, 0.5, 2.0]
    result = sl.minimize(
        terraces, x0, 0.4, method=name, bounds=BOUNDS[bounds], restarts=restarts, vectorized=True, rng=1, maxfevals=3000
    )
    assert result.restarts >= 1
    assert result.fun == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_method_works_with_one_variable(name):
    result = sl.minimize(lambda x: abs(x[0] - 3), [1.0], 0.5, method=name, popsize=8, rng=1, maxfevals=4000)
    assert result.fun < 0.01


@pytest.mark.parametrize("name", [name for name in NAMES if keeps_scales(as_method(name).family)])
def test_every_method_works_with_a_scale_per_variable_and_a_covariance(name):
    cov0 = [[1.0, 0.3, 0.0], [0.3, 2.0, 0.0], [0.0, 0.0, 0.5]]
    result = sl.minimize(
        lambda X: np.square(X / [1, 1e3, 1e-3]).sum(axis=1),
        [1.0, 1e3, 1e-3],
        [0.5, 500.0, 5e-4],
        cov0=cov0,
        method=name,
        vectorized=True,
        popsize=12,
        rng=1,
        maxfevals=1200,
    )
    assert result.fun < 0.5


@pytest.mark.parametrize("name", NAMES)
def test_every_method_works_with_log_scaled_variables(name):
    result = sl.minimize(
        lambda X: np.abs(np.log10(X[:, 0])) + np.abs(X[:, 1]),
        [1e-6, 3.0],
        [3.0, 1.0],
        method=name,
        log_scaled=[True, False],
        bounds=[(1e-12, 1e12), (-5, 5)],
        vectorized=True,
        popsize=12,
        rng=1,
        maxfevals=1200,
    )
    assert result.fun < 0.5 * (6 + 3)


@pytest.mark.parametrize("restarts", RESTARTS)
@pytest.mark.parametrize("vectorized", [False, True], ids=["single", "vectorized"])
@pytest.mark.parametrize("method", [sl.pbil(), sl.with_adapted_rates(sl.pbil())], ids=lambda method: method.name)
def test_bits_combine_too(method, restarts, vectorized):
    result = sl.minimize(
        lambda x: -np.sum(x, axis=-1),
        np.full(8, 0.5),
        None,
        method=method,
        restarts=RESTARTS[restarts],
        vectorized=vectorized,
        popsize=12,
        rng=1,
        maxfevals=600,
    )
    assert result.fun <= -7


@pytest.mark.parametrize("restarts", [name for name in RESTARTS if name != "ipop"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_combination_takes_noise(name, bounds, restarts):
    fun, rng = Counted(), np.random.default_rng(1)
    result = sl.minimize(
        lambda X: fun(X) + rng.standard_normal(len(X)),
        x0 := np.array([2.0, 2.0, 0.5, 2.0]),
        0.4,
        method=name,
        bounds=BOUNDS[bounds],
        restarts=RESTARTS[restarts],
        vectorized=True,
        popsize=12,
        noise=True,
        rng=1,
        maxfevals=720,
    )
    points = np.concatenate(fun.points)
    assert len(points) == result.nfev <= 720
    assert np.array_equal(result.x, result.mean)
    assert abs(result.fun - terraces(result.x)) < 5 * result.fun_error
    assert terraces(result.x) <= 0.6 * terraces(x0)
