"""How often to look under noise, and from which radii: the nearer, the more noise; the wider, the more f is no quadratic.

At radius r a curvature is seen as q + βr² + γr⁴ + …, with noise of variance v/r⁴. Two radii tell β and take it out
(`design.extrapolated`) for 16/9 of the variance at the inner one. Those radii are taken that promise the smallest mean squared error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.design import INNER, extrapolated, extrapolated_unit, fitted
from sublevel.hessian.probing import Look, Objective, Rounds
from sublevel.hessian.tuning import Tuning


def settled(objective: Objective, look: Look, is_fixed: bool) -> Look:
    """The look repeated until noise moves no curvature by more than `precision`, or a budget that was given is spent.

    Where that is worth more than the same points again, and the region is not `is_fixed` by who asked, other radii are looked at too.
    """
    if not look.ground.is_noisy:
        return look
    residuals = 1 + look.rounds.star.checks + len(look.rounds.star.couple_rows) // 2
    look = repeated(objective, look, np.ceil(objective.tuning.noise_dof / residuals))
    if not is_fixed and look.rounds.star.both and (objective.spends or is_bent(look)):
        look = recentred(objective, with_least_error(objective, look))
    count = look.rounds.count if look.inner is None else look.inner.count
    enough = np.ceil(count * np.square(look.spread / look.tuning.precision))
    return with_bias(repeated(objective, look, objective.tuning.max_rounds if objective.spends else enough))


def extrapolated_smooth(objective: Objective, look: Look) -> Look:
    """Without noise: the limit of small radii, from the look and one of half its radius, where curvatures change with the radius."""
    star, frame = look.rounds.star, look.frame
    known, size = look.rounds, star.size
    costs = 2 * size + 2 * len(star.couple_rows)
    if star.checks < size or not np.max(look.lack, initial=0.0) > objective.tuning.smooth_change or objective.left < costs + 1:
        return look
    nearer = objective.pairs(frame, INNER**2 * np.eye(size))
    inner = Rounds(
        star,
        known.centre,
        (np.append(known.axes[0][size:], nearer[0]), np.append(known.axes[1][size:], nearer[1])),
        objective.pairs(frame, INNER * star.couple_rows),
    )
    fit = extrapolated(star, known.values, inner.values, exact=True)
    return replace(look, inner=inner, fit=fit, nfev=objective.nfev) if np.isfinite(fit.matrix).all() else look


def repeated(objective: Objective, look: Look, wanted: float) -> Look:
    """With so many rounds as are wanted, or as can be paid, of the inner star if there are two."""
    count = int(min(wanted, objective.tuning.max_rounds))
    if look.inner is not None:
        inner = look.inner.more(objective, look.frame.turned(INNER * np.eye(look.frame.size)), count)
        return _paired(replace(look, nfev=objective.nfev), inner)
    rounds = look.rounds.more(objective, look.frame, count)
    return replace(look, rounds=rounds, fit=fitted(rounds.star, rounds.values, exact=False), nfev=objective.nfev)


def with_bias(look: Look) -> Look:
    """With errors such that, all curvatures together, they hold the bias too."""
    if not look.bias:
        return look
    noise = float(np.sum(_variances(look, _metric(look))))
    return replace(look, widening=1.0 + look.bias / noise)


def seen_change(look: Look, least: float) -> float:
    """The largest relative change of a curvature with the radius if it is more than `least` and than noise, else 0."""
    lack = look.lack
    is_seen = lack > np.maximum(least, look.ground.is_noisy * look.tuning.significance * look.lack_error)
    return float(np.max(lack[is_seen], initial=0.0))


def is_bent(look: Look) -> bool:
    """Whether a curvature changes with the radius, by more than noise and `precision`."""
    return seen_change(look, look.tuning.precision) > 0


def with_least_error(objective: Objective, plain: Look) -> Look:
    """The plain look or one extrapolated from two radii, whichever is to be expected to have the smaller mean squared error.

    The pair of radii begins at half the radius if f is seen to bend, and is doubled while that makes the error smaller.
    """
    bent, enough = is_bent(plain), objective.tuning.min_rounds_left
    other = _from_radius(objective, plain, INNER if bent else 1.0 / INNER) if _can_pay(objective, plain, enough) else None
    if other is None:
        return plain
    inner, outer = (other, plain) if bent else (plain, other)
    best = _paired(outer, inner.rounds)
    metric = _metric(best)
    slope = _difference(outer, inner, metric)
    share = np.square((1.0 if bent else INNER**2) / (1.0 - INNER**2))  # of the slope that is the bias of the plain look
    term = _next_term(slope)
    expected = term if np.isfinite(term) else 0.0  # nothing is known of it
    best = replace(best, bias=expected)
    while outer.delta < 0.9 * objective.tuning.max_radius**2 * plain.delta and _can_pay(objective, plain, enough):
        wider = _from_radius(objective, outer, 1.0 / INNER)
        if wider is None:
            break
        pair = _paired(wider, outer.rounds)
        apart = _difference(pair, best, metric)
        term = _next_term(_difference(wider, outer, metric))
        bias = min(term, apart.at_most)
        wider_expected = bias if np.isfinite(term) else apart.seen
        if _noise(objective, pair, metric) + wider_expected > _noise(objective, best, metric) + expected:
            break
        outer, best, expected = wider, replace(pair, bias=bias), wider_expected
    is_better = _noise(objective, best, metric) + expected < _noise(objective, plain, metric) + share * slope.seen
    return replace(best if is_better else replace(plain, bias=share * slope.at_most), nfev=objective.nfev)


class _Difference(NamedTuple):
    """Of the relative curvatures of two looks."""

    most: float  # of any direction
    square: float  # of all together, less what noise makes of it
    deviation: float  # its standard deviation
    tuning: Tuning

    @property
    def at_most(self) -> float:
        """What the square may well be, noise allowed for."""
        return self.square + self.deviation

    @property
    def seen(self) -> float:
        """The square, or 0 if it may all be noise."""
        return self.square if self.square > self.tuning.visible * self.deviation else 0.0


def _difference(one: Look, other: Look, metric: Array) -> _Difference:
    """The sum of squares of a symmetric matrix with entries of variances v has a standard deviation of 2‖v‖ at most."""
    variances = _variances(one, metric) + _variances(other, metric)
    matrix = metric.T @ (one.relative - other.relative) @ metric
    square = max(float(np.sum(np.square(matrix)) - np.sum(variances)), 0.0)
    return _Difference(float(np.linalg.norm(matrix, 2)), square, 2.0 * float(np.linalg.norm(variances)), one.tuning)


def _next_term(change: _Difference) -> float:
    """Square of the error INNER²·γr⁴ left by extrapolation if γ/β² is `term_ratio`; infinite where βr² is 1 or more."""
    slope = change.most / (1.0 - INNER**2)
    share = change.tuning.term_ratio * INNER**2 * slope / (1.0 - INNER**2)
    return float(np.square(share) * change.at_most) if slope < 1.0 else np.inf


def recentred(objective: Objective, look: Look) -> Look:
    """A pair of radii around the minimum of the quadratic, where that is well inside: noise stops a search beside it.

    Without cubic terms that minimum is known much better than from the search, and where f bends the curvature is not the same beside it.
    Once more if the new minimum is so far away that a curvature changes by `precision`.
    """
    for _ in range(objective.tuning.max_moves):
        if look.inner is None or look.drift < look.tuning.precision or not _is_inside(look) or not _can_pay(objective, look, 3):
            break
        there = replace(look, frame=replace(look.frame, centre=look.frame.points(look.newton)))
        outer = _from_radius(objective, there, 1.0)
        inner = None if outer is None else _from_radius(objective, outer, INNER)
        if outer is None or inner is None:
            break
        pair = _paired(outer, inner.rounds)
        look = replace(pair, drift=_drift(look, pair), bias=look.bias, nfev=objective.nfev)
    return look


def _is_inside(look: Look) -> bool:
    """Whether the quadratic has a minimum, not far outside of the inner star."""
    return bool(np.linalg.norm(look.newton) < 1.0 and np.min(np.linalg.eigvalsh(look.fit.matrix)) > 0)


def _drift(before: Look, after: Look) -> float:
    """By what part a curvature changes on the way to the new minimum, if it goes on as on the way from the old centre to the new one."""
    change, flat = after.relative - before.relative, after.tuning.flat
    most = max(float(np.linalg.norm(metric.T @ change @ metric, 2)) for metric in (_metric(before, flat), _metric(after, flat)))
    return most * float(np.linalg.norm(after.newton) / np.linalg.norm(before.newton))


def _can_pay(objective: Objective, look: Look, rounds: int) -> bool:
    return objective.left >= rounds * look.rounds.star.evaluations


def _from_radius(objective: Objective, look: Look, factor: float) -> Look | None:
    """One round from a radius that is `factor` times that of a look; None if the box or f do not allow it."""
    star, frame = look.rounds.star, look.frame.turned(factor * np.eye(look.frame.size))
    if factor >= 1.0 and np.min(frame.reach(objective.tuning.axis_rounding)) < 1.0:
        return None
    rounds = Rounds(star, objective.centre(frame), objective.pairs(frame, star.axis_rows), objective.pairs(frame, star.couple_rows))
    fit = fitted(star, rounds.values, exact=False)
    if not np.isfinite(fit.matrix).all():
        return None
    return Look(frame, factor**2 * look.delta, look.ground, rounds, fit, objective.nfev)


def _paired(outer: Look, inner: Rounds) -> Look:
    """The look extrapolated from its own rounds and those of half its radius."""
    return replace(outer, inner=inner, fit=extrapolated(outer.rounds.star, outer.rounds.values, inner.values))


def _metric(look: Look, least: float | None = None) -> Array:
    """W (k, k) such that WᵀQW is the relative change of curvatures for a change Q, each taken as at least `least` of the largest."""
    values, vectors = np.linalg.eigh(look.relative)
    sizes, share = np.abs(values), look.tuning.roundness_for_noise if least is None else least
    return vectors / np.sqrt(np.maximum(sizes, share * np.max(sizes)))


def _variances(look: Look, metric: Array) -> Array:
    """What noise makes of the relative curvatures (k, k), as it is now."""
    return look.fit.errors.of_form(metric) * look.noise_variance / np.square(2.0 * look.delta)


def _noise(objective: Objective, look: Look, metric: Array) -> float:
    """The same of all curvatures together when all evaluations are spent: on the inner star if there are two."""
    variance = float(np.sum(_variances(look, metric)))
    more, outer = objective.left // look.rounds.star.evaluations, 1.0 / look.rounds.count
    if look.inner is None:
        return variance / (1.0 + more * outer)
    now, then = (extrapolated_unit(outer, 1.0 / count, 2) for count in (look.inner.count, look.inner.count + more))
    return variance * then / now
