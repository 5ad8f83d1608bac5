"""How much each variable matters: by the covariance that the search learned, and by the evaluations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.run.initial import Start

LARGEST_ROOT = 400
"""Number of coordinates up to which correlations are used; beyond it only the standard deviations are."""
BINS = 6
"""Bins of a real variable in the additive model."""
MOST_COLUMNS = 512
"""Most columns of the additive model; variables beyond it have no importance."""
LEAST_POINTS = 32
"""Fewest evaluations from which an importance is computed."""
RIDGE = 1e-2
"""Weight of the penalty, relative to that of an evaluation in each bin."""


def covariance_importance(theta: Family, start: Start) -> Array:
    """The share (d,) of each variable in the rise of f, by the covariance C of a search distribution.

    C approximates the inverse Hessian up to a factor. Over the initial distribution, with standard deviations s,
    a quadratic function with Hessian C⁻¹ rises by Σᵢ (C⁻¹)ᵢᵢ sᵢ²/2 on average. NaN for discrete and fixed variables:
    the search keeps the former from converging.
    """
    first, full = start.theta(start.x0), np.full(start.x0.size, np.nan)
    space = start.space
    is_real = np.ones(theta.dimension, dtype=np.bool_) if space is None else space.judged
    if not is_real.any() or not theta.continuous:
        return full
    with np.errstate(all="ignore"):
        precision = (theta.deviations / first.deviations) ** -2.0
        if not theta.coordinate_axes and theta.dimension <= LARGEST_ROOT:
            root = theta.dense_root / first.deviations[:, None]
            precision = np.sum(_inverse(root / np.max(np.abs(root))) ** 2, axis=0)
        shares = precision[is_real] / np.max(precision[is_real])
        shares /= np.sum(shares)
    full[np.ones(full.size, dtype=np.bool_) if space is None else space.free & ~space.discrete] = shares
    return full


def _inverse(root: Array) -> Array:
    """The inverse (k, k), NaN if there is none."""
    try:
        return np.linalg.inv(root).astype(np.float64)
    except np.linalg.LinAlgError:
        return np.full(root.shape, np.nan)


def evaluation_importance(
    points: Array, values: Array, is_log: NDArray[np.bool_], discrete: NDArray[np.bool_]
) -> Array:
    """The share (d,) of each variable in an additive model of the ranks of values (n,) at points (n, d).

    The model is a sum of one step function per variable, fitted by least squares. A variable's importance is the
    variance of its function over its bins, less that due to the scatter of the values, as in a functional analysis of
    variance without interactions. Points whose value is NaN count as the worst. NaN if there are too few points, or
    too many variables.
    """
    d, shares = points.shape[1], np.full(points.shape[1], np.nan)
    most = MOST_COLUMNS // BINS
    if len(values) < LEAST_POINTS or d > most:
        return shares
    target = np.empty(len(values))
    target[np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")] = np.linspace(-1, 1, len(values))
    columns = [
        bin_numbers(np.log(np.maximum(column, np.finfo(float).tiny)) if log else column, is_discrete)
        for column, log, is_discrete in zip(points.T, is_log, discrete, strict=True)
    ]
    widths = [int(column.max()) + 1 for column in columns]
    firsts = np.cumsum([0, *widths])
    design = np.zeros((len(values), firsts[-1]))
    for column, first in zip(columns, firsts.tolist(), strict=False):
        design[np.arange(len(values)), first + column] = 1.0
    effects, noise = _ridge(design, target)
    parts = [slice(a, b) for a, b in pairwise(firsts.tolist())]
    variances = np.array([max(np.var(effects[part]) - np.mean(noise[part]), 0.0) for part in parts])
    return variances / np.sum(variances) if np.sum(variances) > 0 else shares


def bin_numbers(column: Array, is_discrete: bool) -> NDArray[np.intp]:
    """The numbers (n,) of the bins of a variable: its values if it is discrete, else bins with equally many points."""
    if is_discrete:
        found = np.unique(column, return_inverse=True)[1]
        return np.minimum(found, 4 * BINS)
    edges = np.quantile(column, np.arange(1, BINS) / BINS)
    return np.searchsorted(edges, column, side="right")


def _ridge(design: Array, target: Array) -> tuple[Array, Array]:
    """Coefficients (c,) of a least-squares fit to a target (n,) whose mean is 0, with a small penalty; then their
    variances (c,) by the residuals.
    """
    gram, n = design.T @ design, len(target)
    inverse = _inverse(gram + RIDGE * n / len(gram) * np.eye(len(gram)))
    effects = inverse @ (design.T @ target)
    scatter = np.sum((target - design @ effects) ** 2) / max(n - len(gram), 1)
    return effects, scatter * np.diag(inverse @ gram @ inverse)
