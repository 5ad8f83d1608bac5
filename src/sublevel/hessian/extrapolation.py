"""Repetitions and radii under noise: a smaller radius has more noise, a larger one more bias by higher-order terms.

At radius r the estimate of a curvature is q + βr² + γr⁴ + …, with variance v/r⁴. Two radii eliminate β
(`design.fit_extrapolated`) at 16/9 of the variance of the inner one. The radii with the smallest expected mean squared
error are used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.design import INNER, Values, extrapolated_unit, fit_extrapolated, fit_quadratic
from sublevel.hessian.probing import CountedObjective, Probe
from sublevel.hessian.tuning import Tuning


def repeat_until_precise(objective: CountedObjective, probe: Probe, is_fixed: bool) -> Probe:
    """Repeat the probe until noise changes no curvature by more than `precision`, or a given budget is spent.

    Unless the region `is_fixed`, other radii are tried if they are worth more than repetitions.
    """
    if not probe.baseline.is_noisy:
        return probe
    residuals = 1 + probe.star.checks + len(probe.star.couple_rows) // 2
    probe = repeat_rounds(objective, probe, np.ceil(objective.tuning.noise_dof / residuals))
    spared = objective.left // (2 * probe.star.evaluations)  # rounds for other radii, if a change is seen
    probe = repeat_rounds(objective, probe, min(_rounds_to_resolve(probe), probe.values.rounds + spared))
    if not probe.is_defined:
        return probe
    if not is_fixed and probe.star.both and (objective.spends or changes_with_radius(probe)):
        probe = recentre(objective, choose_radii(objective, probe))
    count = probe.values.rounds if probe.inner is None else probe.inner.rounds
    enough = max(np.ceil(count * np.square(probe.spread / probe.tuning.precision)), _rounds_to_resolve(probe))
    return widen_by_bias(repeat_rounds(objective, probe, objective.tuning.max_rounds if objective.spends else enough))


def _rounds_to_resolve(probe: Probe) -> float:
    """Rounds after which a change of a curvature with the radius that is reported, or twice it, is significant.

    They are more than `noise_dof` takes where f cannot rise by as much as requested, because of bounds. None are needed
    if a change is seen already, or eliminated.
    """
    if probe.inner is not None or not probe.is_defined or changes_with_radius(probe):
        return 0.0
    hidden = float(np.max(hidden_changes(probe), initial=0.0))
    return float(np.ceil(probe.values.rounds * np.square(hidden / (2.0 * probe.tuning.not_quadratic))))


def extrapolate_smooth(objective: CountedObjective, probe: Probe) -> Probe:
    """Without noise: extrapolate to radius 0 from two radii if curvatures change with the radius."""
    star, frame, known = probe.star, probe.frame, probe.values
    size, is_smooth = star.size, not np.max(probe.lack, initial=0.0) > objective.tuning.smooth_change
    if star.checks < size or is_smooth or objective.left < 2 * size + 2 * len(star.couple_rows) + 1:
        return probe
    nearer = objective.pairs(frame, INNER**2 * np.eye(size))
    axes = np.append(known.axes[0][0, size:], nearer[0]), np.append(known.axes[1][0, size:], nearer[1])
    inner = Values.of_one_round(known.centre, axes, objective.pairs(frame, INNER * star.couple_rows))
    fit = fit_extrapolated(star, known, inner, exact=True)
    extrapolated = replace(probe, inner=inner, fit=fit, nfev=objective.nfev)
    return extrapolated if extrapolated.is_defined else probe


def repeat_rounds(objective: CountedObjective, probe: Probe, wanted: float) -> Probe:
    """Add rounds up to `wanted`, or as the budget allows, of the inner star if there are two."""
    count = int(min(wanted, objective.tuning.max_rounds))
    if probe.inner is not None:
        inner = objective.more_rounds(probe.frame.scale(INNER), probe.star, probe.inner, count)
        return _extrapolate_pair(replace(probe, nfev=objective.nfev), inner)
    values = objective.more_rounds(probe.frame, probe.star, probe.values, count)
    fit = fit_quadratic(probe.star, values, exact=False)
    return replace(probe, values=values, fit=fit, nfev=objective.nfev)


def widen_by_bias(probe: Probe) -> Probe:
    """Widen the errors such that, summed over all curvatures, they include the bias."""
    if not probe.bias or not probe.is_defined:
        return probe
    noise = float(np.sum(_variances(probe, _metric(probe))))
    return replace(probe, widening=1.0 + probe.bias / noise) if noise > 0 else probe


def significant_change(probe: Probe, least: float) -> float:
    """The largest relative change of a curvature with the radius that exceeds `least` and noise; 0 if there is none."""
    lack = probe.lack
    is_seen = lack > np.maximum(least, probe.baseline.is_noisy * probe.tuning.significance * probe.lack_error)
    return float(np.max(lack[is_seen], initial=0.0))


def hidden_changes(probe: Probe) -> Array:
    """The smallest relative change (n,) of each curvature with the radius that would be significant under noise."""
    return probe.tuning.significance * probe.lack_error


def changes_with_radius(probe: Probe) -> bool:
    """Whether a curvature changes with the radius by more than noise and `precision`."""
    return significant_change(probe, probe.tuning.precision) > 0


def choose_radii(objective: CountedObjective, plain: Probe) -> Probe:
    """The plain probe or one extrapolated from two radii, whichever has the smaller expected mean squared error.

    The pair of radii starts at half the radius if curvatures change with the radius, and is doubled while that reduces
    the error.
    """
    bent, enough = changes_with_radius(plain), objective.tuning.min_rounds_left
    if not _can_pay(objective, plain, enough):
        return plain
    other = _probe_at_radius(objective, plain, INNER if bent else 1.0 / INNER)
    if other is None:
        return plain
    inner, outer = (other, plain) if bent else (plain, other)
    best = _extrapolate_pair(outer, inner.values)
    metric = _metric(best)
    slope = _change_between(outer, inner, metric)
    share = np.square((1.0 if bent else INNER**2) / (1.0 - INNER**2))  # part of the slope that biases the plain probe
    term = _next_term(slope)
    expected = term if np.isfinite(term) else 0.0  # unknown
    best = replace(best, bias=expected)
    while outer.delta < 0.9 * objective.tuning.max_radius**2 * plain.delta and _can_pay(objective, plain, enough):
        wider = _probe_at_radius(objective, outer, 1.0 / INNER)
        if wider is None:
            break
        pair = _extrapolate_pair(wider, outer.values)
        apart = _change_between(pair, best, metric)
        term = _next_term(_change_between(wider, outer, metric))
        bias = min(term, apart.at_most)
        wider_expected = bias if np.isfinite(term) else apart.seen
        if _noise(objective, pair, metric) + wider_expected > _noise(objective, best, metric) + expected:
            break
        outer, best, expected = wider, replace(pair, bias=bias), wider_expected
    is_better = _noise(objective, best, metric) + expected < _noise(objective, plain, metric) + share * slope.seen
    return replace(best if is_better else replace(plain, bias=share * slope.at_most), nfev=objective.nfev)


class _Change(NamedTuple):
    """Change of the relative curvatures between two probes."""

    most: float  # along any direction
    square: float  # sum of squares, less its expectation under noise
    deviation: float  # its standard deviation
    tuning: Tuning

    @property
    def at_most(self) -> float:
        """An upper estimate of the square."""
        return self.square + self.deviation

    @property
    def seen(self) -> float:
        """The square, or 0 if it is not significant."""
        return self.square if self.square > self.tuning.visible * self.deviation else 0.0


def _change_between(one: Probe, other: Probe, metric: Array) -> _Change:
    """The sum of squares of a symmetric matrix with entries of variances v has a standard deviation of 2‖v‖ at most."""
    variances = _variances(one, metric) + _variances(other, metric)
    matrix = metric.T @ (one.relative - other.relative) @ metric
    square = max(float(np.sum(np.square(matrix)) - np.sum(variances)), 0.0)
    return _Change(float(np.linalg.norm(matrix, 2)), square, 2.0 * float(np.linalg.norm(variances)), one.tuning)


def _next_term(change: _Change) -> float:
    """Square of the error INNER²·γr⁴ left by extrapolation if γ/β² is `term_ratio`; infinite where βr² is 1 or more."""
    slope = change.most / (1.0 - INNER**2)
    share = change.tuning.term_ratio * INNER**2 * slope / (1.0 - INNER**2)
    return float(np.square(share) * change.at_most) if slope < 1.0 else np.inf


def recentre(objective: CountedObjective, probe: Probe) -> Probe:
    """Move a pair of radii to the minimum of the quadratic if that lies well inside: under noise a search ends nearby.

    Repeated while the new minimum is so far away that a curvature changes by `precision`.
    """
    for _ in range(objective.tuning.max_moves):
        is_done = probe.inner is None or probe.centre_change < probe.tuning.precision
        if is_done or not _can_pay(objective, probe, 3):
            break
        if not (np.linalg.norm(probe.newton) < 1.0 and np.min(np.linalg.eigvalsh(probe.fit.matrix)) > 0):
            break  # no minimum, or one far outside the inner star
        there = replace(probe, frame=replace(probe.frame, centre=probe.frame.points(probe.newton)))
        outer = _probe_at_radius(objective, there, 1.0)
        inner = None if outer is None else _probe_at_radius(objective, outer, INNER)
        if outer is None or inner is None:
            break
        pair = _extrapolate_pair(outer, inner.values)
        probe = replace(pair, centre_change=_relative_change(probe, pair), bias=probe.bias, nfev=objective.nfev)
    return probe


def _relative_change(before: Probe, after: Probe) -> float:
    """Relative change of a curvature between the new centre and the new minimum, from that between the two centres."""
    change, flat = after.relative - before.relative, after.tuning.flat
    metrics = _metric(before, flat), _metric(after, flat)
    most = max(float(np.linalg.norm(metric.T @ change @ metric, 2)) for metric in metrics)
    moved = float(np.linalg.norm(before.newton))
    return most * float(np.linalg.norm(after.newton)) / moved if moved > 0 else 0.0


def _can_pay(objective: CountedObjective, probe: Probe, rounds: int) -> bool:
    return objective.left >= rounds * probe.star.evaluations


def _probe_at_radius(objective: CountedObjective, probe: Probe, factor: float) -> Probe | None:
    """One round at `factor` times the radius of a probe; None if the box does not allow it or f is not finite."""
    star, frame = probe.star, probe.frame.scale(factor)
    if factor >= 1.0 and np.min(frame.reach(objective.tuning.axis_rounding)) < 1.0:
        return None
    values = objective.one_round(frame, star)
    fit = fit_quadratic(star, values, exact=False)
    found = Probe(frame, factor**2 * probe.delta, probe.baseline, star, values, fit, objective.nfev)
    return found if found.is_defined else None


def _extrapolate_pair(outer: Probe, inner: Values) -> Probe:
    """The probe extrapolated from its own rounds and those of half its radius."""
    return replace(outer, inner=inner, fit=fit_extrapolated(outer.star, outer.values, inner))


def _metric(probe: Probe, least: float | None = None) -> Array:
    """W (k, k) such that WᵀQW is the change Q relative to the curvatures, taken as at least `least` of the largest."""
    values, vectors = np.linalg.eigh(probe.relative)
    sizes, share = np.abs(values), probe.tuning.roundness_for_noise if least is None else least
    return vectors / np.sqrt(np.maximum(sizes, share * np.max(sizes) or 1.0))


def _variances(probe: Probe, metric: Array) -> Array:
    """Variances (k, k) of the relative curvatures due to noise, at present."""
    return probe.fit.errors.of_form(metric) * probe.noise_variance / np.square(2.0 * probe.delta)


def _noise(objective: CountedObjective, probe: Probe, metric: Array) -> float:
    """The sum of these variances when the budget is spent, on the inner star if there are two."""
    variance = float(np.sum(_variances(probe, metric)))
    more, outer = objective.left // probe.star.evaluations, 1.0 / probe.values.rounds
    if probe.inner is None:
        return variance / (1.0 + more * outer)
    now, then = (extrapolated_unit(outer, 1.0 / count, 2) for count in (probe.inner.rounds, probe.inner.rounds + more))
    return variance * then / now
