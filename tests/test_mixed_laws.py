"""What a search of integers, categories and real variables does not notice, each with a control that breaks it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import rankdata

import sublevel as sl
from helpers.cases import OTHER_STEP_SIZES
from helpers.mixed import leaves, same_bits
from sublevel.engine.constants import cma_constants, path_constants
from sublevel.engine.families import DiagonalGaussian, FullGaussian
from sublevel.engine.families.mixed import Mixed
from sublevel.engine.method import natural_gradient
from sublevel.engine.ordering import ranking
from sublevel.engine.tangent import Weighting
from sublevel.engine.transforms import CSA, Generation
from sublevel.engine.weights import Active
from sublevel.validation import RECIPES, as_method

METHODS = {name: name for name in RECIPES if name != "pbil"}
METHODS |= {
    method.name: method for method in (*(sl.cma(step_size=rule) for rule in OTHER_STEP_SIZES), sl.xnes(step_size="csa"))
}
METHODS |= {f"lra-{rule}": sl.with_adapted_rates(sl.cma(step_size=rule)) for rule in OTHER_STEP_SIZES}
SPACES = {
    "integers": sl.Space(a=sl.Integer(-20, 20), b=sl.Integer(0, 5), c=sl.Integer(scale=3)),
    "choices": sl.Space(k=sl.Choice(*"abcde"), b=sl.Choice(False, True), o=sl.Choice(*"SML", ordered=True)),
    "only choices": sl.Space({f"k{i}": sl.Choice(*range(3)) for i in range(4)}),
    "all kinds": sl.Space(
        x=sl.Real(-5, 5), r=sl.Real(1e-3, 10, log=True), y=sl.Real(scale=2), n=sl.Integer(-3, 12),
        m=sl.Integer(1, 500, log=True), k=sl.Choice(*"abcd"), f=sl.Real(2, 2),
    ),
}  # fmt: skip


def whole_values(X):
    """Values ≥ 0 (n,) on a grid, some of them equal: differences survive any g."""
    centre = np.arange(1.0, X.shape[1] + 1) / 2
    return np.floor(8 * np.abs(X - centre).sum(axis=1)) / 8


def path(space, method, fun, generations=25, rng=3, popsize=None):
    """The distributions of a search by ask and tell."""
    optimizer = sl.Optimizer(space, method=method, rng=rng, popsize=popsize)
    thetas = [optimizer.theta]
    for _ in range(generations):
        X = optimizer.ask()
        optimizer.tell(X, fun(X))
        thetas.append(optimizer.theta)
    return thetas, optimizer


# g∘f: only the order of values counts


INCREASING = {
    "cube": lambda f: f**3,
    "log1p": np.log1p,
    "exp": lambda f: np.exp(f / 64),
    "shift": lambda f: 1e6 * f - 7.0,
}


@pytest.mark.parametrize("g", INCREASING)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("method", METHODS)
def test_search_does_not_notice_an_increasing_g(method, space, g):
    plain, _ = path(SPACES[space], METHODS[method], whole_values)
    composed, _ = path(SPACES[space], METHODS[method], lambda X: INCREASING[g](whole_values(X)))
    assert all(same_bits(a, b) for a, b in zip(plain, composed, strict=True))
    assert not same_bits(plain[-1], plain[0])


@dataclass(frozen=True)
class ValueWeights:
    """Broken: weights that are made of the values themselves."""

    fun: object
    normalized = False

    def __call__(self, ranks, sample, /):
        values = self.fun(sample.x[..., :3])
        return Weighting.from_weights((values.mean() - values) / (1 + np.abs(values).max()))


@pytest.mark.parametrize("g", INCREASING)
def test_weights_made_of_values_would_notice_g(g):
    def broken(fun):
        return replace(as_method("ngd"), weights=ValueWeights(fun))

    space = SPACES["choices"]
    plain, _ = path(space, broken(whole_values), whole_values)
    composed, _ = path(space, broken(lambda X: INCREASING[g](whole_values(X))), whole_values)
    assert not same_bits(plain[-1], composed[-1])


def test_ranks_within_generations_are_enough():
    """Methods that do not compare generations, as small samples in spaces with choices do, see the order within each
    of them alone.
    """
    for name in METHODS:
        if any(part.compares_generations for part in as_method(METHODS[name]).transforms):
            continue
        plain, _ = path(SPACES["all kinds"], METHODS[name], whole_values, popsize=80)
        ranks, _ = path(
            SPACES["all kinds"], METHODS[name], lambda X: rankdata(whole_values(X), method="dense") * 1.0, popsize=80
        )
        assert same_bits(plain[-1], ranks[-1]), name


# Translation of integers by whole numbers


POPSIZE = 12
"""The three best points of 12 have equal weights in rank-µ: the mean of three integers is never half an integer, which
would be rounded to the even neighbour.
"""


def translated(shift):
    """A space of integers whose ranges lie `shift` further."""
    return sl.Space(
        a=sl.Integer(-20 + shift, 20 + shift),
        b=sl.Integer(0 + shift, 5 + shift),
        c=sl.Integer(2 + shift, scale=3),
        d=sl.Integer(None, shift, scale=3),
        k=sl.Choice("a", "b", "c"),
    )


def after_translation(method, shift, fun_shift=None):
    """The points of a search, and of the one among integers that lie `shift` further, moved back."""
    back = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    asked = [[], []]
    for points, by, of_fun in zip(asked, (0, shift), (0, shift if fun_shift is None else fun_shift), strict=True):
        optimizer = sl.Optimizer(translated(by), method=method, popsize=POPSIZE, rng=5)
        for _ in range(25):
            X = optimizer.ask()
            points.append(X - by * back)
            optimizer.tell(X, whole_values(X - of_fun * back))
    return np.array(asked[0]), np.array(asked[1])


@pytest.mark.parametrize("shift", [-64, 3, 1000])
@pytest.mark.parametrize("method", METHODS)
def test_search_does_not_notice_a_translation_of_integers(method, shift):
    plain, moved = after_translation(METHODS[method], shift)
    assert np.array_equal(plain, moved)


def test_translation_of_the_space_alone_would_be_noticed():
    plain, moved = after_translation("cma", 7, fun_shift=0)
    assert not np.array_equal(plain, moved)


# Permutation of the labels of categories


@dataclass(frozen=True)
class Relabelled:
    """The noise of a space whose categories have other numbers: each uniform number moved to the interval that has the
    same category, given the probabilities at the time.
    """

    inner: np.random.Generator
    order: tuple  # category j of the other space is order[j] of this one
    probabilities: object  # () → (m, K) of the relabelled search

    def standard_normal(self, size, /):
        return self.inner.standard_normal(size)

    def random(self, size, /):
        uniform, q = self.inner.random(size), self.probabilities()
        out = np.empty(size)
        for j in range(size[-1]):
            old = q[j][list(np.argsort(self.order))]
            ends = np.cumsum(old)
            drawn = np.minimum(np.searchsorted(ends[:-1], uniform[:, j], side="right"), len(old) - 1)
            new = np.argsort(self.order)[drawn]
            middle = np.cumsum(q[j]) - 0.5 * q[j]
            out[:, j] = middle[new]
        return out


def labelled_path(method, order, values, generations=25):
    """Probabilities (m, K) of a search after some generations; with the labels `order` if given."""
    method = as_method(method)
    space = sl.Space(x=sl.Real(-5, 5), k=sl.Choice(*range(4)), j=sl.Choice(*range(4)))
    optimizer = sl.Optimizer(space, method=method, popsize=10, rng=9)
    noise = optimizer.rng
    if order is not None:
        noise = Relabelled(optimizer.rng, order, lambda: optimizer.theta.choices.probabilities)
    state = optimizer.state
    for _ in range(generations):
        sample = optimizer.method.ask(state, noise, 10)
        state, _ = optimizer.method.tell(state, sample, values(sample.x))
        optimizer.run_state = replace(optimizer.run_state, search=state)
    return state.theta.choices.probabilities


ORDER = (2, 0, 3, 1)


def values_of_labels(x):
    """Values that depend on the category: 0 is best for both variables."""
    return np.abs(x[:, 0]) + np.sum(np.array([0.0, 2.0, 3.0, 5.0])[x[:, 1:].astype(int)], axis=1)


def relabelled_values(x):
    """The same values of the same categories, which have other numbers."""
    return values_of_labels(np.concatenate([x[:, :1], np.array(ORDER, dtype=float)[x[:, 1:].astype(int)]], axis=1))


@pytest.mark.parametrize("method", METHODS)
def test_search_does_not_notice_the_numbers_of_categories(method):
    plain = labelled_path(METHODS[method], None, values_of_labels)
    other = labelled_path(METHODS[method], ORDER, relabelled_values)
    np.testing.assert_allclose(other, plain[:, list(ORDER)], rtol=1e-9)
    assert plain.max() > 0.5


def test_other_values_of_categories_would_be_noticed():
    plain = labelled_path("cma", None, values_of_labels)
    other = labelled_path("cma", ORDER, values_of_labels)
    assert np.max(np.abs(other - plain[:, list(ORDER)])) > 1e-3


# Powers of two in the units of real variables


def scaled(power):
    """A space whose real variables have units 2^power times smaller."""
    factor = 2.0**power
    return sl.Space(
        x=sl.Real(-5 * factor, 5 * factor),
        y=sl.Real(scale=2 * factor),
        n=sl.Integer(-3, 12),
        k=sl.Choice("a", "b", "c"),
    )


def after_scaling(method, power, fun_power=None):
    """The points of a search, and of the one in other units, in the first one's."""
    asked = [[], []]
    for points, one, of_fun in zip(asked, (0, power), (0, power if fun_power is None else fun_power), strict=True):
        optimizer = sl.Optimizer(scaled(one), method=method, rng=5)
        for _ in range(25):
            X = optimizer.ask()
            points.append(np.ldexp(X, [-one, -one, 0, 0]))
            optimizer.tell(X, whole_values(np.ldexp(X, [-of_fun, -of_fun, 0, 0])))
    return np.array(asked[0]), np.array(asked[1])


@pytest.mark.parametrize("power", [-60, 1, 60])
@pytest.mark.parametrize("method", [name for name in METHODS if "iso" not in name])
def test_search_does_not_notice_a_power_of_two_in_the_units(method, power):
    """To the last bit with variances alone; a full covariance is rounded where the units of its variables differ."""
    plain, other = after_scaling(METHODS[method], power)
    assert np.array_equal(plain[..., 2:], other[..., 2:])
    np.testing.assert_allclose(other, plain, rtol=0, atol=0 if "sep" in method else 1e-11)


def test_units_that_the_function_does_not_have_would_be_noticed():
    plain, other = after_scaling("cma", 3, fun_power=0)
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize("method", ["cma", "sep-cma", "lra-cma"])
def test_order_of_told_points_does_not_matter(method):
    space, ends = SPACES["all kinds"], []
    for shuffle in (False, True):
        optimizer, rng = sl.Optimizer(space, method=method, rng=3), np.random.default_rng(1)
        for _ in range(20):
            X = optimizer.ask()
            order = rng.permutation(len(X)) if shuffle else np.arange(len(X))
            optimizer.tell(X[order], whole_values(X)[order])
        ends.append(optimizer.theta)
    assert same_bits(*ends)
    assert len(leaves(ends[0])) > 5


# Settled integers say nothing about the width of the others


REALS, WHOLES = 3, 5


def step_size_path(leaving, wholes, family=FullGaussian, seed=4):
    """The memory of CSA and the change of ln σ after one generation of a product of real and integer coordinates, the
    latter with these probabilities of leaving and steps multiplied by `wholes`.
    """
    k = REALS + WHOLES
    gaussian = family.start(np.zeros(k), np.ones(k))
    theta = Mixed(gaussian, np.ones(k), np.append(np.zeros(REALS), np.full(WHOLES, leaving)), None, np.float64(0.02))
    z = np.random.default_rng(seed).standard_normal((10, k)) * np.append(np.ones(REALS), np.full(WHOLES, wholes))
    sample, values = theta.sample_at(z), np.arange(10.0)
    ranks = ranking(values)
    weighting = Active()(ranks, sample)
    generation = Generation(theta, sample, values, ranks, weighting)
    tangent, memory = CSA()(natural_gradient(z, weighting), CSA().init(theta, 10), generation)
    return memory.path, float(tangent.log_scale)


def test_settled_integers_do_not_change_the_step_size():
    assert step_size_path(0.02, 1.0)[1] == step_size_path(0.02, 3.0)[1]


def test_integers_that_have_not_settled_would_change_it():
    assert step_size_path(0.3, 1.0)[1] != step_size_path(0.3, 3.0)[1]


@pytest.mark.parametrize(("family", "freedom"), [(FullGaussian, None), (DiagonalGaussian, REALS)])
def test_real_variables_among_settled_integers_are_judged_as_if_alone(family, freedom):
    c = cma_constants(REALS, 10, freedom)
    seen, log_scale = step_size_path(0.02, 1.0, family)
    assert log_scale == pytest.approx(c.c_sigma / c.d_sigma * (np.linalg.norm(seen[:REALS]) / c.chi - 1), rel=1e-14)
    assert log_scale != pytest.approx(c.c_sigma / c.d_sigma * (np.linalg.norm(seen) / c.chi - 1), rel=1e-3)


def test_the_step_size_stays_if_all_variables_are_settled_integers():
    constants = path_constants(4, 8)
    assert constants.gain[0] == 0
    assert np.all(constants.gain[1:] > 0)
    whole = cma_constants(4, 8)
    assert constants.gain[4] == whole.c_sigma / whole.d_sigma
    assert (constants.chi[4], constants.stall[4]) == (whole.chi, whole.stall)


def test_trials_of_a_batch_have_their_own_integers_settled():
    margin, leaving = np.array([0.02, 0.02]), np.array([[0.0, 0.02, 0.5], [0.0, 0.5, 0.02]])
    gaussian = FullGaussian.start(np.zeros((2, 3)), np.ones((2, 3)))
    theta = Mixed(gaussian, np.ones((2, 3)), leaving, None, margin)
    assert np.array_equal(theta.follows_scale, [[True, False, True], [True, True, False]])
    assert Mixed.start(np.zeros(3), np.ones(3)).follows_scale is None
