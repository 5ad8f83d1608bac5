"""The engine against the paper's steps in plain loops: the same ranks and the same points give the same m and C."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from helpers import oracle
from helpers.cases import distance
from sublevel import Outcome, ngd, rank_mu
from sublevel.engine.families import FullGaussian

DIMENSIONS = [1, 2, 5, 20]
SAMPLE_SIZES = [2, 5, 20, 400]
ITERATIONS = 200
AGREEMENT = 1e-10
"""The agreement the project promises; rounding alone gives about 1e-12 here."""


def some_values(t, steps, wanted_variances):
    """Values of the points m + steps: some spread is best, narrow and wide in turn, so that C neither grows nor shrinks
    for ever.

    Every fourth generation is rounded to whole numbers, which makes ties.
    """
    values = np.mean((steps**2 - wanted_variances[t // 20 % 2]) ** 2, axis=1) - steps[:, 0]
    return np.round(values) if t % 4 == 0 else values


def disagreement(method, step, d, n, wanted_variances=(0.25, 2.0)):
    """The largest relative difference of m and of C between engine and oracle in a run, and the outcomes the engine
    named.
    """
    rng = np.random.default_rng([d, n])
    m, C = 3 * rng.standard_normal(d), np.eye(d)
    state = method.init(FullGaussian.start(m, np.ones(d)), n)
    worst, outcomes = 0.0, set()
    for t in range(ITERATIONS):
        z = rng.standard_normal((n, d))
        symmetric_root, _ = oracle.square_root(C)
        values = some_values(t, z @ symmetric_root, wanted_variances)
        before = m, C
        m, C = step(m, C, z, values)
        turn = np.linalg.solve(
            state.theta.scale * state.theta.root, symmetric_root
        )  # the engine's root is √C up to a rotation
        state, info = method.tell(state, state.theta.sample_at(z @ turn.T), values)
        outcomes.add(info.outcome)
        if (info.outcome == Outcome.MOVED) == (before[1] is C):
            return np.inf, outcomes
        worst = max(worst, distance(state.theta, m, C))
    return worst, outcomes


@pytest.mark.parametrize("n", SAMPLE_SIZES)
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize(
    ("method", "step"), [(ngd(), oracle.ngd_step), (rank_mu(), oracle.rank_mu_step)], ids=["ngd", "rank-mu"]
)
def test_engine_takes_the_papers_steps(method, step, d, n):
    worst, outcomes = disagreement(method, step, d, n)
    assert worst <= AGREEMENT
    assert (Outcome.MOVED in outcomes) == (method.name == "ngd" or n >= 4)  # ⌊n/4⌋ = 0 selects nobody


@pytest.mark.parametrize(
    ("method", "step"), [(ngd(), oracle.ngd_step), (rank_mu(), oracle.rank_mu_step)], ids=["ngd", "rank-mu"]
)
def test_engine_takes_the_papers_steps_through_small_matrices_too(method, step):
    """Beyond 64 dimensions fewer points than dimensions go another way."""
    assert disagreement(method, step, d=66, n=16)[0] <= AGREEMENT


def test_engine_stays_where_a_step_would_leave_nothing_of_c():
    # η_C = min(1, 199/109) = 1: C becomes the sample's own, at the edge of what keeps it positive, and is taken by
    # both.
    worst, outcomes = disagreement(rank_mu(), oracle.rank_mu_step, d=1, n=400, wanted_variances=(0.25, 4.0))
    assert worst <= AGREEMENT
    assert set(outcomes) <= {Outcome.MOVED, Outcome.FLAT, Outcome.NO_SELECTION}


WRONG_STEPS = {
    "no exponent 2/d": (ngd(), partial(oracle.ngd_step, exponent=1.0)),
    "λ₁ for σ₁": (ngd(), partial(oracle.ngd_step, size=oracle.largest_eigenvalue)),
    "ngd with ties by order": (ngd(), partial(oracle.ngd_step, sublevel=oracle.sooner_in_line)),
    "rank-µ with ties by order": (rank_mu(), partial(oracle.rank_mu_step, sublevel=oracle.sooner_in_line)),
    "another c_C": (ngd(c_cov=0.1001), oracle.ngd_step),
}


@pytest.mark.parametrize("slip", WRONG_STEPS)
def test_comparison_would_notice(slip):
    assert disagreement(*WRONG_STEPS[slip], d=5, n=20)[0] > 1e3 * AGREEMENT


def test_exponent_does_not_matter_in_two_dimensions():
    assert (
        disagreement(*WRONG_STEPS["no exponent 2/d"], d=2, n=20)[0] <= AGREEMENT
    )  # 2/d = 1: the control above is fair
