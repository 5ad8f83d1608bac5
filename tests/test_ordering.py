"""The contract of an ordering, with and without constraint values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sublevel as sl
from helpers.cases import ORDERINGS, ByPosition, member
from sublevel.engine.ordering import BY_VALUE

TRIALS, SIZE = 4, 7
CONSTRAINTS = {"free": None, "constrained": np.random.default_rng(2).standard_normal((TRIALS, SIZE, 2))}
VALUES = np.random.default_rng(1).standard_normal((TRIALS, SIZE))
VALUES[1, 2:5] = VALUES[1, 2]
VALUES[2, 3] = np.nan

contract = pytest.mark.parametrize("ordering", [BY_VALUE, *ORDERINGS], ids=repr)
constrained = pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)


def rank_trials(ordering, values, constraints, batch=(TRIALS,)):
    """The rankings of three generations in a row."""
    method, theta = replace(sl.cma(), ordering=ordering), member(sl.FullGaussian, 3, np.random.default_rng(3), batch)
    state, rankings = method.init(theta, SIZE, 0 if constraints is None else constraints.shape[-1]), []
    for _ in range(3):
        ranks, memory = method.rank(state, values, constraints)
        state = replace(state, ordering=memory)
        rankings.append(ranks)
    return rankings


@constrained
@contract
def test_best_value_is_that_of_the_best_point(ordering, constraints):
    for ranks in rank_trials(ordering, VALUES, constraints):
        assert_array_equal(np.sort(ranks.order, axis=-1), np.tile(np.arange(SIZE), (TRIALS, 1)))
        assert_array_equal(ranks.best, VALUES[np.arange(TRIALS), ranks.order[:, 0]])


@constrained
@contract
def test_trial_in_a_batch_is_ranked_as_alone(ordering, constraints):
    numbers = np.arange(float(SIZE))
    together = rank_trials(ordering, VALUES, constraints)
    for trial in range(TRIALS):
        alone = rank_trials(ordering, VALUES[trial], None if constraints is None else constraints[trial], batch=())
        for one, many in zip(alone, together, strict=True):
            assert_array_equal(
                one.assign_by_rank(numbers, average_ties=True), many.assign_by_rank(numbers, average_ties=True)[trial]
            )


@constrained
@contract
def test_values_that_are_all_nan_give_no_direction(ordering, constraints):
    for ranks in rank_trials(ordering, np.full((TRIALS, SIZE), np.nan), constraints):
        assert not ranks.has_direction.any()


def test_result_has_values_of_the_objective_if_the_ordering_compares_other_numbers():
    method = replace(sl.cma(), ordering=ByPosition())
    result = sl.minimize(lambda x: 1 + x @ x, np.ones(3), 0.5, method=method, rng=1, maxfevals=500)
    assert result.fun == 1 + result.x @ result.x < 1.001
    assert result.history["best"][-1] == result.fun
