"""The paper's numbers: d = 20, the 1e6-ellipsoid, m⁰ = 0, C⁰ = I, until E f = m'Am + Tr(CA) ≤ 1e-10 (the tables of
notes.md).
"""

from __future__ import annotations

import numpy as np
import pytest

from sublevel.engine.arrays import Streams
from sublevel.engine.families import FullGaussian
from sublevel.engine.recipes import ngd, rank_mu

pytestmark = pytest.mark.slow

D, TRIALS, TARGET = 20, 10, 1e-10
CURVATURES = 10.0 ** (6 * np.arange(D) / (D - 1))


def expected_value(theta):
    """m'Am + Tr(CA), shape (trials,)."""
    return np.square(theta.mean) @ CURVATURES + np.square(theta.deviations) @ CURVATURES


def condition_number(theta):
    """Cond(CA), shape (trials,)."""
    roots = np.sqrt(CURVATURES)
    spectrum = np.linalg.eigvalsh(roots[:, None] * theta.cov * roots)
    return spectrum[:, -1] / spectrum[:, 0]


def run_to_target(method, n, seed=1, limit=20_000):
    """For each trial the iterations until the target and the condition number there."""
    state = method.init(FullGaussian.start(np.zeros((TRIALS, D)), np.ones((TRIALS, D))), n)
    noise = Streams.spawn(seed, TRIALS)
    iterations, condition = np.zeros(TRIALS), np.zeros(TRIALS)
    for t in range(1, limit):
        sample = method.ask(state, noise, n)
        state, _ = method.tell(state, sample, np.square(sample.x) @ CURVATURES)
        arrived = (expected_value(state.theta) <= TARGET) & (iterations == 0)
        if arrived.any():
            iterations = np.where(arrived, t, iterations)
            condition = np.where(arrived, condition_number(state.theta), condition)
        if iterations.all():
            return iterations, condition
    raise AssertionError(
        f"{np.sum(iterations == 0)} trials of {method.name} did not reach the target in {limit} iterations"
    )


# The standard deviation between trials is about 1 % (n = 20) and less, so the mean of ten is known to 0.5 %.
@pytest.mark.parametrize(
    ("method", "n", "expected"),
    [(ngd(c_cov=0.1), 400, 2127), (ngd(c_cov=0.14), 20, 6458), (rank_mu(), 20, 6441)],
    ids=["ngd, n = d²", "ngd, n = d", "rank-µ, n = d"],
)
def test_iterations_to_the_target_are_those_of_the_paper(method, n, expected):
    iterations, _ = run_to_target(method, n)
    assert iterations.mean() == pytest.approx(expected, rel=0.03)


def test_covariance_becomes_the_inverse_hessian():
    _, condition = run_to_target(ngd(c_cov=0.1), 400)
    assert condition.mean() == pytest.approx(1.37, abs=0.05)


def test_numbers_would_tell_the_step_without_the_exponent():
    iterations, condition = run_to_target(ngd(c_cov=0.1, exponent=1.0), 400)
    assert iterations.mean() != pytest.approx(2127, rel=0.03)
    assert condition.mean() != pytest.approx(1.37, abs=0.05)
