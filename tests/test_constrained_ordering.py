"""Orderings of constrained points: feasibility first, ranks only, ties, NaN, batches, multipliers."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from helpers import lagrangian_oracle as oracle
from helpers.cases import same_bits
from sublevel.engine.arrays import Streams
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Outcome
from sublevel.engine.ordering import (
    BY_VALUE,
    ORDERINGS,
    AugmentedLagrangian,
    ConstraintHandling,
    Lexicographic,
    RankLagrangian,
    equality_constraints,
)
from sublevel.engine.recipes import cma

INVARIANT = [Lexicographic(), RankLagrangian()]
each = pytest.mark.parametrize("ordering", [rule() for rule in ORDERINGS.values()], ids=ORDERINGS)
each_invariant = pytest.mark.parametrize("ordering", INVARIANT, ids=lambda ordering: type(ordering).__name__)
D, N = 4, 8


def sphere(x):
    """‖x‖²/2 (..., n)."""
    return 0.5 * np.sum(np.square(x), axis=-1)


def two_constraints(x):
    """x₀ ≥ 1 and x₁ + x₂ ≥ 1 (..., n, 2): the optimum is (1, ½, ½, 0) with multipliers 1 and ½, and f = ¾."""
    return np.stack([1 - x[..., 0], 1 - x[..., 1] - x[..., 2]], axis=-1)


def start(batch=()):
    return FullGaussian.start(np.full((*batch, D), 2.0), np.ones((*batch, D)))


def search(ordering, noise, fun=sphere, constraints=two_constraints, iterations=60, batch=()):
    """The states of CMA-ES with an ordering."""
    method = replace(cma(), ordering=ordering)
    states = [method.init(start(batch), N, 2)]
    for _ in range(iterations):
        sample = method.ask(states[-1], noise, N)
        states.append(method.tell(states[-1], sample, fun(sample.x), constraints(sample.x))[0])
    return states


def rank(ordering, values, constraints):
    """The ranking of one sample at the start of a run."""
    values, constraints = np.array(values, dtype=float), np.array(constraints, dtype=float)
    return ordering(values, constraints, ordering.init(start(), values.size, constraints.shape[-1]))[0]


def stretch(g):
    """A strictly increasing transform of constraint values that keeps their sign, another one for each constraint."""
    return np.stack([np.expm1(g[..., 0]), 1e3 * np.cbrt(g[..., 1])], axis=-1)


def has_same_path(ordering, fun, constraints):
    """Whether the search is the same to the last bit as on the original problem."""
    paths = [search(ordering, np.random.default_rng(1), *problem) for problem in ((), (fun, constraints))]
    return all(same_bits(one.theta, other.theta) for one, other in zip(*paths, strict=True))


def test_names_for_type_checkers_are_those_of_the_orderings():
    assert get_args(ConstraintHandling) == tuple(ORDERINGS)


@each_invariant
def test_increasing_transforms_of_f_and_g_change_no_bit(ordering):
    assert has_same_path(ordering, lambda x: np.log(sphere(x)) ** 3, two_constraints)
    assert has_same_path(ordering, sphere, lambda x: stretch(two_constraints(x)))
    assert has_same_path(ordering, lambda x: np.exp(sphere(x)), lambda x: stretch(two_constraints(x)))


def test_transforms_change_the_path_of_the_augmented_lagrangian():
    """The negative control of the law above."""
    assert not has_same_path(AugmentedLagrangian(), lambda x: np.exp(sphere(x)), two_constraints)
    assert not has_same_path(AugmentedLagrangian(), sphere, lambda x: stretch(two_constraints(x)))


def test_scaling_by_powers_of_two_changes_no_bit_of_the_augmented_lagrangian():
    assert has_same_path(AugmentedLagrangian(), lambda x: 8 * sphere(x), lambda x: two_constraints(x) * [0.5, 16])


def test_lexicographic_ranking_uses_positive_parts_only():
    def flat_inside(x):
        g = two_constraints(x)
        return np.where(g > 0, g, -1.0)

    assert has_same_path(Lexicographic(), sphere, flat_inside)
    assert not has_same_path(RankLagrangian(), sphere, flat_inside)


@each
def test_feasible_samples_are_ranked_by_value(ordering, rng):
    """With the same bits, ties included, over several generations."""
    memory = ordering.init(start(), N, 2)
    for _ in range(5):
        values = np.round(rng.standard_normal(N), 1)
        ranks, memory = ordering(values, -rng.random((N, 2)), memory)
        expected, _ = BY_VALUE(values, None, None)
        assert np.array_equal(ranks.order, expected.order)
        assert ranks.best == expected.best
        assert np.array_equal(ranks.assign_by_rank(np.arange(N), True), expected.assign_by_rank(np.arange(N), True))


@each
def test_without_constraints_points_are_ranked_by_value(ordering, rng):
    values = rng.standard_normal(N)
    memory = ordering.init(start(), N)
    ranks, after = ordering(values, None, memory)
    assert np.array_equal(ranks.order, np.argsort(values))
    assert after is memory


def test_infeasible_points_come_last_by_the_sum_of_their_ranks():
    ranks = rank(Lexicographic(), [3, 2, 1, 0, -1], [[0, -1], [-1, 0], [1, 0], [5, 9], [2, 1]])
    assert list(ranks.order) == [1, 0, 2, 4, 3]
    assert ranks.best == 2


@each
def test_points_with_equal_values_and_constraints_are_tied(ordering):
    ranks = rank(ordering, [1, 2, 2, 0, 3], [[-1, 1], [2, 3], [2, 3], [-1, -1], [-1, -1]])
    numbers = ranks.assign_by_rank(np.arange(5.0), average_ties=True)
    assert numbers[1] == numbers[2]
    assert np.unique(numbers).size == 4


@each
def test_nan_is_ranked_last_and_does_not_spread(ordering, rng):
    memory = ordering.init(start(), N, 2)
    for _ in range(4):
        values, constraints = rng.standard_normal(N), rng.standard_normal((N, 2))
        values[0], constraints[1, 1] = np.nan, np.nan
        ranks, memory = ordering(values, constraints, memory)
        assert set(ranks.order[-2:]) == {0, 1}
        numbers = ranks.assign_by_rank(np.arange(float(N)), average_ties=True)
        assert numbers[0] == numbers[1]
        if hasattr(memory, "multipliers"):
            assert np.isfinite([memory.multipliers, memory.factors]).all()


@each
def test_infinite_values_and_constraints_do_not_spread(ordering, rng):
    memory = ordering.init(start(), N, 2)
    for _ in range(4):
        values, constraints = rng.standard_normal(N), rng.standard_normal((N, 2))
        values[0], constraints[0] = np.inf, np.inf
        ranks, memory = ordering(values, constraints, memory)
        assert ranks.order[-1] == 0
        if hasattr(memory, "multipliers"):
            assert np.isfinite([memory.multipliers, memory.factors]).all()


@each
def test_a_sample_without_known_points_fails(ordering):
    method = replace(cma(), ordering=ordering)
    state = method.init(start(), N, 2)
    sample = method.ask(state, np.random.default_rng(1), N)
    after, info = method.tell(state, sample, np.ones(N), np.full((N, 2), np.nan))
    assert info.outcome == Outcome.FAILED
    assert after is state


@each
def test_infeasible_samples_lead_to_the_feasible_region(ordering):
    state = search(ordering, np.random.default_rng(2), constraints=lambda x: two_constraints(x - 30), iterations=150)[
        -1
    ]
    assert np.all(two_constraints(state.theta.mean - 30) <= 0.1)


@each
def test_search_converges_to_the_constrained_optimum(ordering):
    state = search(ordering, np.random.default_rng(3), iterations=250)[-1]
    assert np.allclose(state.theta.mean, [1, 0.5, 0.5, 0], atol=1e-3)


def test_multipliers_converge_to_those_of_the_problem():
    state = search(AugmentedLagrangian(), np.random.default_rng(4), iterations=150)[-1]  # soon f is rounded
    assert np.allclose(state.ordering.multipliers, [1, 0.5], atol=1e-3)


def test_multipliers_of_inactive_constraints_are_zero():
    state = search(
        AugmentedLagrangian(), np.random.default_rng(5), iterations=150, constraints=lambda x: x[..., :2] - 1
    )[-1]
    assert np.array_equal(state.ordering.multipliers, [0, 0])


@each
def test_trials_of_a_batch_go_as_they_would_alone(ordering):
    together = search(ordering, Streams.spawn(7, 3), batch=(3,), iterations=40)[-1]
    for index, generator in enumerate(Streams.spawn(7, 3).generators):
        alone = search(ordering, Streams((generator,)), batch=(1,), iterations=40)[-1]
        assert np.allclose(together.theta.mean[index], alone.theta.mean[0], rtol=1e-9)


def trial(memory, index):
    """The memory of one trial of a batch."""
    return type(memory)(*(getattr(memory, name)[index] for name in memory.__dataclass_fields__))


@each
def test_a_batch_is_ranked_as_its_trials(ordering, rng):
    memory = ordering.init(start((3,)), N, 2)
    for _ in range(4):
        values, constraints = rng.standard_normal((3, N)), rng.standard_normal((3, N, 2)) - 0.3
        constraints[0] -= 10
        ranks, after = ordering(values, constraints, memory)
        for index in range(3):
            one, kept = ordering(values[index], constraints[index], trial(memory, index))
            assert np.array_equal(ranks.order[index], one.order)
            assert all(
                np.array_equal(getattr(kept, name), getattr(after, name)[index], equal_nan=True)
                for name in type(kept).__dataclass_fields__
            )
        memory = after


@each
def test_the_order_of_the_points_does_not_matter(ordering, rng):
    values, constraints = rng.standard_normal(N), rng.standard_normal((N, 2))
    turned = rng.permutation(N)
    one, other = rank(ordering, values, constraints), rank(ordering, values[turned], constraints[turned])
    by_rank = np.arange(float(N))
    assert np.array_equal(one.assign_by_rank(by_rank, True)[turned], other.assign_by_rank(by_rank, True))


def test_a_memory_without_values_takes_no_space():
    """The sample size may come from a file that is damaged."""
    memory = RankLagrangian().init(start(), 10**13, 2)
    assert memory.constraints.nbytes > 10**15
    assert memory.constraints.base.nbytes <= 16


@pytest.mark.parametrize("two_sided", [False, True])
def test_equalities_are_inequalities_with_a_tolerance(two_sided):
    residuals = np.array([[0.0], [0.5], [-0.5], [2.0], [-2.0]])
    constraints = equality_constraints(residuals, 0.5, two_sided=two_sided)
    assert constraints.shape == (5, 1 + two_sided)
    assert list((constraints <= 0).all(axis=-1)) == [True, True, True, False, False]


def test_equalities_are_met_by_the_augmented_lagrangian():
    def on_a_plane(x):
        return equality_constraints(x[..., :1] + x[..., 1:2] - 1, 1e-6, two_sided=True)

    state = search(AugmentedLagrangian(), np.random.default_rng(6), constraints=on_a_plane, iterations=300)[-1]
    assert np.allclose(state.theta.mean, [0.5, 0.5, 0, 0], atol=1e-3)


# In plain loops


def some_generations(rng, m, n=9, count=60):
    """Values (n,) and constraint values (n, m) of generations that drift across g = 0, slowly and in steps, some of
    them rounded, which makes ties, and some with a NaN.
    """
    for t in range(count):
        offsets = 2.0 * np.sin(0.05 * t * np.arange(1, m + 1)) + 0.8 * (t % 4 == 3)
        values, g = rng.standard_normal(n), rng.standard_normal((n, m)) + offsets
        if t % 5 == 4:
            values, g = np.round(2 * values) / 2, np.round(2 * g) / 2
        if t % 7 == 6:
            values[0], g[1, 0] = np.nan, np.nan
        yield values, g


def assert_agree(ranks, memory, keys, multipliers):
    """The same order of the points and, to rounding, the same multipliers, factors and streaks."""
    order = ranks.assign_by_rank(np.arange(1.0, len(keys) + 1), average_ties=True)
    np.testing.assert_array_equal(order, oracle.ranks(keys))
    np.testing.assert_allclose(memory.multipliers, [one.value for one in multipliers], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(memory.factors, [one.factor for one in multipliers], rtol=1e-9)
    np.testing.assert_array_equal(memory.streak, [one.sign * one.since for one in multipliers])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [1, 2, 6])
def test_the_augmented_lagrangian_is_that_of_the_paper(m, seed):
    ordering = AugmentedLagrangian()
    memory, multipliers = ordering.init(start(), 9, m), [oracle.Multiplier()] * m
    active = []
    for values, g in some_generations(np.random.default_rng([m, seed]), m):
        ranks, memory = ordering(values, g, memory)
        keys, multipliers = oracle.augmented_lagrangian(values.tolist(), g.T.tolist(), multipliers, D)
        assert_agree(ranks, memory, keys, multipliers)
        active.append(np.count_nonzero(memory.multipliers))
    assert max(active) == m
    assert max(one.since for one in multipliers) > 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [1, 2, 6])
def test_the_rank_lagrangian_is_that_of_the_scores_of_fifteen_generations(m, seed):
    ordering, n = RankLagrangian(), 9
    memory, multipliers = ordering.init(start(), n, m), [oracle.Multiplier(factor=0.3)] * m
    all_values, all_constraints, at_the_limit = [], [[] for _ in range(m)], 0
    for values, g in some_generations(np.random.default_rng([m, seed]), m):
        ranks, memory = ordering(values, g, memory)
        all_values += values.tolist()
        for one, numbers in zip(all_constraints, g.T.tolist(), strict=True):
            one += numbers
        recent = [numbers[-15 * n :] for numbers in all_constraints]
        keys, multipliers = oracle.rank_lagrangian(all_values[-15 * n :], recent, multipliers, n)
        assert_agree(ranks, memory, keys, multipliers)
        at_the_limit += np.count_nonzero(memory.factors == 0.3)
    assert 0 < at_the_limit < 60 * m
