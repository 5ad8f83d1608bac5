"""Weights: the order of values, the volume cost against 60 digits, the quantile cost against its definition."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers.cma_oracle import NEAR, table_1
from sublevel.engine.constants import hansen_kern_rate
from sublevel.engine.families.protocol import GaussianSample
from sublevel.engine.ordering import ranking
from sublevel.engine.weights import Active, LogLinear, Quantile, Truncation, Volume, effective_size

INF, NAN = np.inf, np.nan
EPS = np.finfo(float).eps


# The order of values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 1.0, 2.0], [3, 1, 2]),
        ([1.0, 1.0, 0.0], [3, 3, 1]),  # {j : fⱼ ≤ fᵢ} holds both of the tied
        ([0.0, -0.0, 1.0], [2, 2, 3]),
        ([NAN, INF, -INF], [3, 2, 1]),
        ([NAN, 1.0, NAN, INF], [4, 1, 4, 2]),
        ([INF, INF, -INF], [3, 3, 1]),
        ([5e-324, 0.0, -5e-324], [3, 2, 1]),
        ([1.7e308, -1.7e308, 0.0], [3, 1, 2]),
        ([NAN, NAN], [2, 2]),
    ],
)
def test_rank_counts_the_values_that_are_no_worse(values, expected):
    ranks = ranking(np.array(values))
    positions = np.arange(1.0, len(values) + 1)
    assert_array_equal(ranks.unsort(ranks.equalize_ties(positions)), expected)


@pytest.mark.parametrize(
    ("values", "best", "flat"),
    [([2.0, 1.0], 1.0, False), ([NAN, 3.0], 3.0, False), ([4.0, 4.0], 4.0, True), ([NAN, NAN], NAN, True)],
)
def test_ranking_knows_the_best_value_and_a_plateau(values, best, flat):
    ranks = ranking(np.array(values))
    assert_array_equal(ranks.best, best)
    assert bool(ranks.is_flat) is flat


def test_batch_is_ranked_trial_by_trial(rng):
    values = np.round(rng.standard_normal((3, 4, 9)))
    values[0, 0, :3] = NAN
    positions = np.broadcast_to(np.arange(1.0, 10), values.shape)
    batch = ranking(values)
    together = batch.unsort(batch.equalize_ties(positions))
    for index in np.ndindex(3, 4):
        alone = ranking(values[index])
        assert_array_equal(together[index], alone.unsort(alone.equalize_ties(positions[index])))
        assert_array_equal(batch.is_flat[index], alone.is_flat)


# The volume cost


@dataclass(frozen=True)
class Sample:
    """A sample as the weights see it: d from z, and −log p(xᵢ)."""

    z: np.ndarray
    surprise: np.ndarray


def exact_cost(surprises, values, exponent):
    """Step 6 to 60 digits as V̂ᵢ/V̂_max − 1, whatever the range of exp(surprise)."""
    with mpmath.workdps(60):
        inverse_densities = [mpmath.exp(s - max(surprises)) for s in surprises]
        whole = mpmath.fsum(inverse_densities)
        cost = {}
        for value in set(values):
            inside = mpmath.fsum(p for p, f in zip(inverse_densities, values, strict=True) if f <= value)
            outside = mpmath.fsum(p for p, f in zip(inverse_densities, values, strict=True) if f > value)
            cost[value] = mpmath.expm1(
                exponent * (mpmath.log(inside / whole) if inside < outside else mpmath.log1p(-outside / whole))
            )
        return [cost[value] for value in values]


def exact_weights(surprises, values, exponent):
    """Steps 7 and 8: wᵢ = (b − V̂ᵢ)/n with the mean b of V̂."""
    with mpmath.workdps(60):
        cost = exact_cost(surprises, values, exponent)
        return [(mpmath.fsum(cost) / len(cost) - c) / len(cost) for c in cost]


def error(numbers, exact):
    """The largest absolute error."""
    with mpmath.workdps(60):
        return float(max(abs(mpmath.mpf(float(a)) - b) for a, b in zip(numbers, exact, strict=True)))


def half_square_norms(z):
    with mpmath.workdps(60):
        return [mpmath.fsum(mpmath.mpf(float(c)) ** 2 for c in row) / 2 for row in z]


def volume_cost(sample, values):
    with np.errstate(all="raise", under="ignore"):  # exp(−800) beside 1 may become 0
        return Volume().cost(ranking(values), sample)


def volume_weights(sample, values):
    with np.errstate(all="raise", under="ignore"):
        return Volume()(ranking(values), sample).cov


def with_one_far_away(z):
    z = z.copy()
    z[-1] *= 1e3 / np.linalg.norm(z[-1])
    return z


POINTS = {
    "gaussian": lambda z: z,
    "equal norms": lambda z: np.sqrt(z.shape[1]) * z / np.linalg.norm(z, axis=1, keepdims=True),
    "tiny": lambda z: 1e-160 * z,
    "one with ‖z‖² = 1e6": with_one_far_away,
}
ORDERS = {
    "near first": lambda norms, rng: norms,
    "any": lambda norms, rng: rng.standard_normal(len(norms)),
    "far first": lambda norms, rng: -norms,
}
DIMENSIONS = [1, 2, 3, 10, 100, 1000, 2000]
SAMPLE_SIZES = [2, 5, 20, 100]


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_volumes_of_points_are_exact_to_fourteen_digits(d, points, rng):
    """V̂/V̂_max from z, for all sorts of points in all orders."""
    for n in SAMPLE_SIZES if d < 1000 else [2, 20]:
        z = POINTS[points](rng.standard_normal((n, d)))
        exact_surprises = half_square_norms(z)
        for order in ORDERS.values():
            values = order(np.array(exact_surprises, dtype=float), rng)
            cost = volume_cost(GaussianSample(z, z), values)
            assert error(cost, exact_cost(exact_surprises, values, mpmath.mpf(2) / d)) <= 1e-14
            assert np.all(np.isfinite(volume_weights(GaussianSample(z, z), values)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_volume_weights_are_exact_to_fourteen_digits_of_the_largest(d, order, rng):
    """However small the weights are: the rate 1/σ₁(Z) divides by their size, so a step feels nothing else.

    They are small where the best point alone holds nearly all of the volume. Given are the densities, not z:
    ‖z‖²/2 ≈ d/2 as a float is off by about d/2·1e-16, and there the weights are too.
    """
    for n in [*SAMPLE_SIZES, 400]:
        surprises = 0.5 * rng.chisquare(d, n)
        values = ORDERS[order](surprises, rng)
        exact = exact_weights([mpmath.mpf(s) for s in surprises], values, mpmath.mpf(2) / d)
        largest = float(max(abs(w) for w in exact))
        assert error(volume_weights(Sample(np.zeros((n, d)), surprises), values), exact) <= 1e-14 * largest


def test_surprise_of_a_gaussian_is_half_the_square_norm(rng):
    for d in DIMENSIONS:
        z = rng.standard_normal((5, d))
        exact = half_square_norms(z)
        assert error(GaussianSample(z, z).surprise, exact) <= 8 * EPS * float(
            max(exact)
        )  # a few roundings: sums of squares do not cancel


def test_volumes_beyond_the_range_of_exp_are_exact():
    surprises = np.array([500.0, 800.0, 2000.0])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.exp(surprises)
    exact = exact_weights([mpmath.mpf(s) for s in surprises], range(3), mpmath.mpf(2) / 2000)
    assert error(volume_weights(Sample(np.zeros((3, 2000)), surprises), np.arange(3.0)), exact) <= 1e-14 * float(
        max(abs(w) for w in exact)
    )


def test_reference_would_notice_another_exponent(rng):
    z, values = rng.standard_normal((20, 10)), rng.standard_normal(20)
    exact = exact_cost(half_square_norms(z), values, mpmath.mpf(2) / 10)
    assert error(Volume(exponent=0.2).cost(ranking(values), GaussianSample(z, z)), exact) <= 1e-14
    assert error(Volume(exponent=0.2 + 1e-12).cost(ranking(values), GaussianSample(z, z)), exact) > 1e-14


@pytest.mark.parametrize("d", [1, 3, 2000])
def test_volume_weights_share_ties_fall_with_rank_and_sum_to_zero(d, rng):
    z = rng.standard_normal((4, 50, d))
    values = np.round(2 * rng.standard_normal((4, 50)))
    weights = volume_weights(GaussianSample(z, z), values)
    assert np.all(np.isfinite(weights))
    assert np.all(np.abs(weights.sum(axis=-1)) <= 50 * EPS * np.abs(weights).max(axis=-1))  # n roundings
    for w, f in zip(weights, values, strict=True):
        for value in np.unique(f):
            assert np.unique(w[f == value]).size == 1  # tied points have the same bits
        assert np.all(np.diff(w[np.argsort(f)]) <= 0)  # V̂ does not fall from best to worst


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [NAN, NAN, NAN], [INF, INF, INF]])
def test_volume_weights_of_a_plateau_are_zero(values, rng):
    z = rng.standard_normal((3, 4))
    assert_array_equal(volume_weights(GaussianSample(z, z), np.array(values)), 0.0)


@pytest.mark.parametrize("values", [[0.0, -0.0, 1.0], [NAN, INF, NAN], [-INF, -INF, NAN]])
def test_volume_weights_see_nothing_but_ranks(values, rng):
    z = rng.standard_normal((3, 4))
    ranks = [sum((f <= g) or np.isnan(g) for f in values) for g in values]
    sample = GaussianSample(z, z)
    assert_array_equal(volume_weights(sample, np.array(values)), volume_weights(sample, np.array(ranks, dtype=float)))


def test_batch_of_volume_weights_is_a_loop(rng):
    z, values = rng.standard_normal((2, 3, 8, 5)), np.round(rng.standard_normal((2, 3, 8)), 1)
    together = volume_weights(GaussianSample(z, z), values)
    for index in np.ndindex(2, 3):
        alone = volume_weights(GaussianSample(z[index], z[index]), values[index])
        assert_allclose(together[index], alone, rtol=0, atol=8 * EPS * np.abs(alone).max())  # sums of 8 numbers


@pytest.mark.parametrize("exponent", [0.0, -1.0, NAN, INF])
def test_volume_needs_a_positive_power(exponent):
    with pytest.raises(ValueError, match="exponent"):
        Volume(exponent)


# The quantile cost


@pytest.mark.parametrize("n", [2, 3, 4, 7, 20, 400])
def test_truncation_selects_a_quarter(n):
    mu = n // 4
    assert_array_equal(Truncation()(n), [1 / mu] * mu + [0.0] * (n - mu) if mu else [0.0] * n)


@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_log_linear_weights_are_those_of_the_tutorial(n):
    raw = [max(log((n + 1) / 2) - log(k), 0) for k in range(1, n + 1)]
    assert_allclose(LogLinear()(n), np.array(raw) / sum(raw), rtol=1e-14)  # a few roundings of the logarithms


@pytest.mark.parametrize("scheme", [Truncation(), Truncation(0.5), LogLinear()])
def test_quantile_weights_follow_the_definition(scheme, rng):
    sample = GaussianSample(rng.standard_normal((12, 3)), np.zeros((12, 3)))
    by_rank = scheme(12)
    for values in np.round(3 * rng.standard_normal((50, 12))):
        no_worse = [int(np.sum(values <= f)) for f in values]
        better = [int(np.sum(values < f)) for f in values]
        assert_array_equal(Quantile(scheme)(ranking(values), sample).cov, [by_rank[r - 1] for r in no_worse])
        shared = [np.mean(by_rank[b:r]) for b, r in zip(better, no_worse, strict=True)]
        assert_allclose(
            Quantile(scheme, average_ties=True)(ranking(values), sample).cov, shared, rtol=0, atol=12 * EPS
        )  # sums of 12 numbers


@pytest.mark.parametrize(("d", "n"), [(1, 2), (3, 7), (5, 12), (20, 40)])
def test_tied_points_share_the_weights_of_the_tutorial(d, n, rng):
    """In plain loops: the average of Table 1 over the ranks of the tied points, positive and negative parts apart, the
    latter times d/‖z‖².
    """
    by_rank = table_1(d, n).w
    for values in np.round(np.sqrt(n) * rng.standard_normal((40, n)) / 2):
        z = rng.standard_normal((n, d))
        found = Active()(ranking(values), GaussianSample(z, z))
        for i, value in enumerate(values):
            first = sum(other < value for other in values)
            shared = by_rank[first : first + sum(other == value for other in values)]
            toward = sum(w for w in shared if w > 0) / len(shared)
            away = sum(w for w in shared if w < 0) / len(shared)
            assert found.mean[i] == pytest.approx(toward, rel=1e-12, abs=1e-15)
            assert found.cov[i] == pytest.approx(toward + away * d / (z[i] @ z[i] + NEAR), rel=1e-12, abs=1e-15)


def test_averaged_ties_keep_the_total_weight(rng):
    sample = GaussianSample(rng.standard_normal((5, 20, 3)), np.zeros((5, 20, 3)))
    values = rng.integers(0, 4, (5, 20)).astype(float)
    total = Quantile(average_ties=True)(ranking(values), sample).cov.sum(axis=-1)
    assert_allclose(total, 1.0, rtol=20 * EPS)
    assert np.any(Quantile()(ranking(values), sample).cov.sum(axis=-1) < 0.9)  # the paper's tie rule does not


def test_effective_size_counts_equal_weights():
    assert effective_size(Truncation()(20)) == pytest.approx(5, rel=1e-15)
    assert effective_size(np.zeros(3)) == 0
    assert hansen_kern_rate(20, 5.0) == pytest.approx(9 / 489, rel=1e-15)
    assert hansen_kern_rate(20, 0.0) == 0


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, NAN])
def test_truncation_needs_a_fraction(fraction):
    with pytest.raises(ValueError, match="fraction"):
        Truncation(fraction)
