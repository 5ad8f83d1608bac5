"""Exponential natural evolution strategy, against Glasmachers et al. (GECCO 2010) in plain loops, and what the
exponential map promises.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from scipy.linalg import expm

from helpers.cases import distance
from sublevel import FullGaussian, Outcome, minimize, xnes
from sublevel.engine.constants import default_popsize
from sublevel.engine.families import DiagonalGaussian, IsotropicGaussian

AGREEMENT = 1e-10
PROJECTIONS = {
    FullGaussian: lambda G: G,
    DiagonalGaussian: lambda G: np.diag(np.diag(G)),
    IsotropicGaussian: lambda G: np.trace(G) / len(G) * np.eye(len(G)),
}


def utilities(n):
    """Section 3.1: uₖ = max(0, log(n/2 + 1) − log k)/Σ − 1/n."""
    raw = [max(0.0, log(n / 2 + 1) - log(k)) for k in range(1, n + 1)]
    return [u / sum(raw) - 1 / n for u in raw]


def rate(family, d):
    """η_σ = η_B = (9 + 3 ln d)/(5d√d) of xNES; from d = 4 on (3 + ln d)/(5√d) of SNES for other families than the full
    one.
    """
    return (9 + 3 * log(d)) / (5 * d * sqrt(d)) if family is FullGaussian or d <= 3 else (3 + log(d)) / (5 * sqrt(d))


def xnes_step(m, A, z, values, project, eta, exponential=expm):
    """Algorithm 1 in one exponential: m ← m + A·Σuz, A ← A·exp(η/2·Σu(zzᵀ − I)), as η_σ = η_B = η."""
    n, d = z.shape
    u = utilities(n)
    G_m, G_A = np.zeros(d), np.zeros((d, d))
    for u_k, i in zip(u, np.argsort(values), strict=True):
        G_m = G_m + u_k * z[i]
        G_A = G_A + u_k * (np.outer(z[i], z[i]) - np.eye(d))
    return m + A @ G_m, A @ exponential(eta / 2 * project(G_A))


def disagreement(family, d, n=None, iterations=100, **changed):
    """The largest relative difference of m and C between engine and loops: both take the same root, so no frame has to
    be turned.
    """
    n = n or default_popsize(d)
    rng = np.random.default_rng([d, n])
    m, A = 3 * rng.standard_normal(d), 0.7 * np.eye(d)
    method = xnes(family=family)
    state = method.init(family.start(m, np.full(d, 0.7)), n)
    worst = 0.0
    for t in range(iterations):
        z = rng.standard_normal((n, d))
        steps = z @ A.T
        values = np.sum(steps**2, axis=1) - 30 * (t // 20 % 2) * steps[:, 0]
        m, A = xnes_step(m, A, z, values, PROJECTIONS[family], rate(family, d), **changed)
        state, info = method.tell(state, state.theta.sample_at(z), values)
        assert info.outcome == Outcome.MOVED
        worst = max(worst, distance(state.theta, m, A @ A.T))
    return worst


@pytest.mark.parametrize("d", [1, 2, 5, 20, 70])  # beyond 64 few points go another way
@pytest.mark.parametrize("family", PROJECTIONS, ids=lambda family: family.__name__)
def test_engine_takes_the_steps_of_xnes(family, d):
    assert disagreement(family, d) <= AGREEMENT


@pytest.mark.parametrize(("d", "n"), [(5, 2), (5, 3), (5, 60), (70, 100)])
def test_engine_takes_the_steps_of_xnes_with_any_sample(d, n):
    assert disagreement(FullGaussian, d, n, iterations=40) <= AGREEMENT


def test_comparison_would_notice_a_linear_step():
    assert disagreement(FullGaussian, 5, exponential=lambda G: np.eye(len(G)) + G) > 1e3 * AGREEMENT


@pytest.mark.parametrize(("d", "n"), [(5, 12), (70, 8)])
@pytest.mark.parametrize("family", PROJECTIONS, ids=lambda family: family.__name__)
def test_a_step_from_selected_extremes_never_leaves_the_family(family, d, n):
    """The worst of all points are the nearest, and by far: a linear step of this size would take more variance than
    there is.
    """
    method = xnes(family=family)
    state = method.init(family.start(np.zeros(d), np.ones(d)), n)
    z = np.random.default_rng(1).standard_normal((n, d)) * np.geomspace(1.0, 6.0, n)[:, None]
    for _ in range(30):
        state, info = method.tell(state, state.theta.sample_at(z), np.arange(n))
        assert info.outcome == Outcome.MOVED
    assert (state.theta.deviations > 0).all()


@pytest.mark.parametrize("family", ["", "sep-", "iso-"])
def test_xnes_finds_a_minimum(family):
    result = minimize(
        lambda X: np.sum(np.square(X - 1), axis=1), np.zeros(5), 0.5, method=f"{family}xnes", vectorized=True, rng=1
    )
    assert result.success
    np.testing.assert_allclose(result.x, 1.0, atol=1e-6)


def test_xnes_learns_an_ellipsoid():
    axes = np.array([1.0, 10.0, 100.0])
    result = minimize(
        lambda X: np.square(X) @ axes, np.ones(3), 0.5, method="xnes", popsize=20, vectorized=True, ftarget=1e-12, rng=1
    )
    assert result.success
    assert np.sqrt(result.cov[0, 0] / result.cov[2, 2]) == pytest.approx(10, rel=0.7)
