# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Figures of a curvature. They require matplotlib: `pip install 'sublevel[plot]'`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.estimate import Estimate
from sublevel.hessian.report import deviations, main_parts, strongest_pairs
from sublevel.plots.run import NAMED, matrix_panel
from sublevel.plots.style import BLUE, CIRCLE, FAINT, INK, ORANGE, Target, label_log, new_figure, short_name, tidy
from sublevel.summaries import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

PROFILES = 12
"""Largest number of profiles in a figure."""
ELLIPSES = 4
"""Largest number of ellipses in a figure."""
LEVELS = ((2.447746830680816, 0.12), (1.5095921854516636, 0.3))
"""Radii √(−2 ln(1 − level)) of the ellipses of 95 % and 68 % of a normal distribution, and their opacities."""


def overview(found: Estimate, file: Target = None) -> Figure:
    """Draw parameters, stiff-to-sloppy spectrum, correlations and ellipses in one figure, and return it."""
    with new_figure(file, (11.0, 8.2)) as figure:
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(0.85, 1.0))[:, 0]
        parameters, spectrum = upper.subplots(1, 2)
        left, right = lower.subfigures(1, 2)
        correlations = left.subplots()
        for axis, label in ((parameters, "parameters"), (spectrum, "spectrum"), (correlations, "correlations")):
            axis.set_label(label)
        _parameters_panel(parameters, found)
        _spectrum_panel(spectrum, found)
        names = [name for name, is_free in zip(found.names, found.free, strict=True) if is_free]
        matrix_panel(correlations, found.correlation[np.ix_(found.free, found.free)], names, "correlations")
        _ellipse_panels(right, found)
    return figure


def _parameters_panel(axis: Axes, found: Estimate) -> None:
    """Relative error of each variable."""
    free = np.flatnonzero(found.free)
    errors, x = deviations(found)[free], np.abs(found.x[free])
    known = np.isfinite(errors) & (x > 0)
    relative = np.where(known, errors / np.where(x > 0, x, 1.0), np.nan)
    rows = np.arange(free.size)
    tidy(axis)
    if known.any():
        axis.scatter(relative[known], rows[known], color=BLUE, s=22, zorder=3)
        axis.set_xscale("log")
        axis.set_xlim(0.3 * np.nanmin(relative), 3.0 * np.nanmax(relative))
        label_log(axis.xaxis)
    if free.size <= 2 * NAMED:
        known = zip([short_name(found.names[i]) for i in free], found.x[free], errors, strict=True)
        labels = [f"{name} = {value:.4g} ± {number_text(error, '.2g')}" for name, value, error in known]
        axis.set_yticks(rows, labels, color=INK, parse_math=False)
    axis.set_ylim(free.size - 0.5, -0.5)
    axis.grid(False, axis="y")
    axis.set_title("relative error of each variable" if found.kind else "relative distance to a rise of 1/2")


def _spectrum_panel(axis: Axes, found: Estimate) -> None:
    """Curvatures from stiff to sloppy, with their standard errors; non-positive ones are marked at the bottom."""
    rank, values = np.arange(1, found.curvatures.size + 1), found.curvatures
    visible = values > 0
    tidy(axis, log=True)
    if visible.any():
        high = found.curvatures_error[visible]
        errors = np.stack([np.minimum(high, 0.9 * values[visible]), high]).tolist()  # matplotlib 3.8 needs lists
        axis.errorbar(rank[visible], values[visible], errors, fmt="o", ms=4, color=BLUE, ecolor=FAINT, lw=1)
        label_log(axis.yaxis)
    for i in rank[~visible]:
        axis.annotate("≤ 0", (i, 0.03), xycoords=("data", "axes fraction"), ha="center", color=ORANGE)
    if rank.size <= NAMED:
        axis.set_xticks(rank)
        for i in {0, rank.size - 1} if visible.any() else set():
            height = values[i] if visible[i] else np.min(values[visible])
            shift, ha, va = ((8, 4), "left", "top") if i == 0 else ((-8, -4), "right", "bottom")
            parts = main_parts(found, i, 2).replace(" +", "\n+").replace(" -", "\n-")
            text = axis.annotate(parts, (rank[i], height), shift, textcoords="offset points", ha=ha, va=va)
            text.set(fontsize=8, color=FAINT, parse_math=False)
    axis.set(xlabel="principal direction, stiff to sloppy", xlim=(0.4, rank.size + 0.6))
    axis.set_title("curvature along the principal directions")


def _ellipse_panels(figure: SubFigure, found: Estimate) -> None:
    """The most correlated pairs of variables, with the 68 % and 95 % regions."""
    cov = found.covariance if found.kind else found.hess_inv
    pairs = [pair for pair in strongest_pairs(found) if np.isfinite(cov[np.ix_(pair, pair)]).all()][:ELLIPSES]
    if not pairs:
        return
    rows = 1 if len(pairs) < 3 else 2
    axes = np.ravel(figure.subplots(rows, -(-len(pairs) // rows), squeeze=False))
    for axis in axes[len(pairs) :]:
        axis.set_axis_off()
    for axis, pair in zip(axes, pairs, strict=False):
        steps = np.zeros((CIRCLE.shape[1], found.x.size))
        steps[:, pair] = ellipse(cov[np.ix_(pair, pair)]).T
        _fill_regions(axis, found, pair, steps)
        axis.plot(*found.x[list(pair)][:, None], "+", color=INK)
        axis.set_xlabel(short_name(found.names[pair[0]]), parse_math=False)
        axis.set_ylabel(short_name(found.names[pair[1]]), parse_math=False)
        axis.set_label("ellipse")
        axis.locator_params(nbins=4)
        axis.tick_params(labelsize=8, colors=FAINT)
    title = "68 % and 95 % regions" if found.kind else "rise of 1.14 and of 3"
    if any(line.get_label() == "bound" for axis in axes for line in axis.lines):
        title += ", cut off at bounds (dashed)"
    figure.suptitle(title, x=0.02, ha="left", fontsize=10.5)


def _fill_regions(axis: Axes, found: Estimate, pair: tuple[int, int], steps: Array) -> None:
    """Fill the regions of a pair of variables, within the bounds; `steps` (n, d) lead to one standard deviation.

    Bounds that cut off a region are dashed lines.
    """
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    regions = [found.shift(radius * steps)[:, pair] for radius, _ in LEVELS]
    least, most = np.min(regions[0], axis=0), np.max(regions[0], axis=0)
    lower, upper = (np.broadcast_to(bound, found.x.shape)[list(pair)] for bound in found.box)
    box = Bbox([np.maximum(lower, least), np.minimum(upper, most)])
    for region, (_, alpha) in zip(regions, LEVELS, strict=True):
        axis.fill(
            *np.asarray(Path(region).clip_to_bbox(box).vertices, dtype=np.float64).T, color=BLUE, alpha=alpha, lw=0
        )
    for line, i in ((axis.axvline, 0), (axis.axhline, 1)):
        for bound in [*lower[i : i + 1][lower[i] > least[i]], *upper[i : i + 1][upper[i] < most[i]]]:
            line(bound, color=ORANGE, lw=1, ls="--", label="bound")


def profiles(found: Any, file: Target = None) -> Figure:
    """Draw the profile of each variable that has an interval, and the parabola of the Hessian; return the figure."""
    visible = np.flatnonzero(np.isfinite(found.deviations))[:PROFILES]
    columns = min(3, max(visible.size, 1))
    rows = max(-(-visible.size // columns), 1)
    with new_figure(file, (3.8 * columns, 2.9 * rows)) as figure:
        axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
        for axis, i in zip(axes, visible, strict=False):
            _profile_panel(axis, found, int(i))
        for axis in axes[visible.size :]:
            axis.set_axis_off()
        known = [axis.get_legend_handles_labels() for axis in axes]
        handles = dict(pair for handles, labels in known for pair in zip(labels, handles, strict=True))
        if handles:
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _profile_panel(axis: Axes, found: Any, i: int) -> None:
    """f minimised over the other variables (a curve through the evaluated points), the parabola, and the interval."""
    x, (at, rise) = found.x[i], found.paths[i].T
    low, high = np.where(np.isfinite(found.intervals[i]), found.intervals[i], (np.min(at), np.max(at)))
    margin = 0.08 * max(high - low, 1e-12 * abs(x))
    grid = np.linspace(max(low - margin, 0.0) if found.is_log[i] else low - margin, high + margin, 302)[1:]
    steps = (x * np.log(grid / x) if found.is_log[i] else grid - x) / found.deviations[i]
    axis.axhline(found.rise, color=FAINT, lw=0.8)
    axis.axvspan(low, high, color=BLUE, alpha=0.1, lw=0, label=f"{100 * found.level:.4g} % interval")
    axis.plot(grid, found.unit * np.square(steps), color=FAINT, lw=1, ls="--", label="parabola of the Hessian")
    if at.size > 1:
        inside = grid[(grid >= np.min(at)) & (grid <= np.max(at))]
        axis.plot(inside, _profile_curve(x, at, rise, inside), color=BLUE, label="profile")
    axis.plot(at, rise, "o", ms=3, color=BLUE)
    axis.plot(x, 0.0, "+", color=INK)
    lowest = min(np.min(rise), _mark_lower_point(axis, found, i))
    if len(found.upper_limits[i]):
        axis.plot(*found.upper_limits[i].T, "v", ms=4, mfc="none", color=FAINT, label="not minimised: an upper limit")
    axis.set_xlabel(short_name(found.names[i]), parse_math=False)
    bottom = min(-0.05 * found.rise, lowest - 0.1 * found.rise * (lowest < 0))
    axis.set(ylabel="rise of f", xlim=(grid[0], grid[-1]), ylim=(bottom, 1.6 * found.rise))
    for end, doubt in zip(found.intervals[i], found.uncertainty[i], strict=True):
        if doubt > 0:
            axis.plot([end - doubt, end + doubt], [found.rise] * 2, color=ORANGE, lw=2.5, label="uncertain end")
    axis.set_title(_range_text(found, i))
    axis.locator_params(axis="x", nbins=5)


def _profile_curve(x: float, at: Array, rise: Array, grid: Array) -> Array:
    """A curve through the points of a profile with a minimum at x."""
    curve = np.empty(grid.shape)
    for points, side in ((at <= x, grid <= x), (at >= x, grid >= x)):
        if side.any():
            curve[side] = _profile_side(x, at[points], rise[points], grid[side])
    return curve


def _profile_side(x: float, at: Array, rise: Array, grid: Array) -> Array:
    """One side of that curve: the root of the rise is nearly straight; a side with negative rises has none."""
    from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

    if np.min(rise) >= 0:
        return np.square(np.asarray(PchipInterpolator(at, np.sqrt(rise))(grid), dtype=np.float64))
    slopes = np.where(at == x, 0.0, PchipInterpolator(at, rise).derivative()(at))
    return np.asarray(CubicHermiteSpline(at, rise, slopes)(grid), dtype=np.float64)


def _mark_lower_point(axis: Axes, found: Any, i: int) -> float:
    """Mark the lower point, if there is one, and return its rise, which is negative."""
    if found.lower_point is None:
        return 0.0
    rise = found.lower_point.fun - found.fun
    axis.plot(found.lower_point.x[i], rise, "*", ms=9, color=ORANGE, label="lower point", zorder=4)
    return rise


def _range_text(found: Any, i: int) -> str:
    """A value and the ends of its interval."""
    known, x = ~np.isnan(found.intervals[i]), f"{found.x[i]:.4g}"
    if not known.any():
        return f"{x}, ends unknown"
    low, high = (
        f"{end:.4g}".replace("inf", "∞") + (" (bound)" if is_bound else f" ± {doubt:.2g}" if doubt > 0 else "")
        for end, is_bound, doubt in zip(found.intervals[i], found.at_bound[i], found.uncertainty[i], strict=True)
    )
    if known.all():
        return f"{x}, from {low} to {high}"
    return f"{x}, from {low}, upper end unknown" if known[0] else f"{x}, lower end unknown, to {high}"


def ellipse(cov: Array) -> Array:
    """One standard deviation around 0 of a covariance (2, 2): points (2, 181)."""
    deviations = np.sqrt(np.diagonal(cov))
    correlation = float(np.clip(cov[0, 1] / deviations[0] / deviations[1], -1.0, 1.0))
    root = np.array([[1.0, 0.0], [correlation, np.sqrt(1.0 - correlation**2)]])
    return deviations[:, None] * (root @ CIRCLE)
