# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The figure of `samplings`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.engine.sampling import SAMPLINGS
from sublevel.paper import drawing
from sublevel.paper.drawing import DASHES, add_label, empty_figure, legend_handle, set_log_scale, tidy
from sublevel.paper.studies.predictions import Comparison
from sublevel.paper.studies.samplings import PARTS, Estimates, conditions, rates, variances
from sublevel.paper.studies.study import Data
from sublevel.paper.theory.estimate_variance import total_variances
from sublevel.plots.style import BLUE, FAINT, INK, ORANGE, VIOLET

COLOURS = dict(zip(SAMPLINGS, (INK, BLUE, ORANGE, VIOLET), strict=True))
DIMENSION = 10
"""Of the lower row; the tables have the others."""


def figure(data: Data) -> Figure:
    """Variances of both parts against the distance of the mean, final Cond(CA), and evaluations against it."""
    picture = empty_figure((12.6, 8.2))
    (upper_left, upper_right), (lower_left, lower_right) = picture.subplots(2, 2)
    for axis, part in zip((upper_left, upper_right), PARTS, strict=True):
        _variances(axis, data, part)
    found, speeds = conditions(data), rates(data)
    _conditions(lower_left, found)
    _evaluations(lower_right, found, speeds)
    name = "$\\Vert m - x^*\\Vert$ in standard deviations"
    first = next(work for work in data if isinstance(work, Estimates))
    where = f"independent points = 1, d = {first.d}, n = {first.n}"
    tidy(upper_left, f"Variance of the estimated gradient of m,\n{where}", x=name)
    tidy(upper_right, f"Variance of the estimated gradient of C,\n{where}", x=name)
    tidy(lower_left, "Final Cond(CA) − 1", x="$c_C$")
    tidy(lower_right, "Evaluations for each factor e of f", x="final Cond(CA) − 1")
    colours = [legend_handle(rule, colour, lw=2) for rule, colour in COLOURS.items()]
    upper_left.legend(handles=colours, loc="upper left")
    kinds = [
        legend_handle("closed form", INK, lw=1.3),
        legend_handle("measured with V", INK, marker="o", lw=0, mfc="white"),
        legend_handle("measured with $\\hat V$, the algorithm's own", INK, marker="x", lw=0),
    ]
    upper_right.legend(handles=kinds, loc="upper right")
    marks = [
        legend_handle("predicted", INK, lw=1.3),
        legend_handle("measured", INK, marker="o", lw=0, mfc="white"),
    ]
    lower_left.legend(handles=marks, loc="upper left")
    return picture


def _variances(axis: Axes, data: Data, part: str) -> None:
    """Closed forms as lines, measured ratios as marks."""
    rows = variances(data, part)
    for rule, colour in COLOURS.items():
        own = sorted((row for row in rows if row.work.sampling == rule), key=lambda row: row.work.distance)
        at = [row.work.distance for row in own]
        line = np.linspace(0.0, max(at), 121)
        axis.plot(line, [_closed(own[0].work, part, float(x)) for x in line], color=colour, lw=1.3)
        bars = [2 * row.error for row in own]
        axis.errorbar(at, [row.measured for row in own], yerr=bars, fmt="o", color=colour, ms=4.5, mfc="white", mew=1.2)
        axis.plot(at, [row.estimated for row in own], "x", color=colour, ms=5)
    axis.set_ylim(0.0, 2.3)


def _closed(work: Estimates, part: str, distance: float) -> float:
    """The ratio of the closed forms at a distance."""
    there = Estimates(work.sampling, work.d, work.n, distance, 0, 0).whitened_cost
    place = PARTS.index(part)
    plain, own = (total_variances(there, SAMPLINGS[rule], work.n)[place] for rule in ("independent", work.sampling))
    return own / plain


def _shown(rows: list[tuple[str, Comparison]]) -> list[tuple[str, Comparison]]:
    """Those of `DIMENSION`, or all if there are none."""
    return [item for item in rows if item[1].d == DIMENSION] or rows


def _lines(rows: list[tuple[str, Comparison]]) -> list[tuple[str, int, list[Comparison]]]:
    """For each sampling and n the comparisons by rate."""
    sizes = sorted({row.n for _, row in _shown(rows)})
    found = [
        (rule, n, [row for name, row in _shown(rows) if (name, row.n) == (rule, n)]) for rule in COLOURS for n in sizes
    ]
    return [(rule, n, sorted(own, key=lambda row: row.c_cov)) for rule, n, own in found if own]


def _conditions(axis: Axes, rows: list[tuple[str, Comparison]]) -> None:
    """A line of predictions and marks of measurements for each sampling and n."""
    set_log_scale(axis)
    for rule, n, own in _lines(rows):
        x = [row.c_cov for row in own]
        axis.plot(x, [row.predicted - 1 for row in own], color=COLOURS[rule], lw=1.3)
        bars = [2 * row.error for row in own]
        values = [row.measured - 1 for row in own]
        axis.errorbar(x, values, yerr=bars, fmt="o", color=COLOURS[rule], ms=4.5, mfc="white", mew=1.2)
        if rule == "independent":
            add_label(axis, x[0], values[0], f"d = {own[0].d}, n = {n}", FAINT, xytext=(5, -9))
    drawing.set_ticks(axis.xaxis, sorted({row.c_cov for _, row in rows}))
    drawing.set_ticks(axis.yaxis, (0.2, 0.5, 1, 2, 5, 10))


def _evaluations(axis: Axes, found: list[tuple[str, Comparison]], speeds: list[tuple[str, Comparison]]) -> None:
    """n over the rate against the final Cond(CA) − 1, along c_C."""
    set_log_scale(axis)
    for (rule, n, own), (_, _, fast) in zip(_lines(found), _lines(speeds), strict=True):
        dashes = "-" if n == min(row.n for _, row in _shown(found)) else DASHES
        axis.plot(
            [row.predicted - 1 for row in own],
            [-n / row.predicted for row in fast],
            color=COLOURS[rule],
            lw=1.3,
            ls=dashes,
        )
        axis.plot(
            [row.measured - 1 for row in own],
            [-n / row.measured for row in fast],
            "o",
            color=COLOURS[rule],
            ms=4.5,
            mfc="white",
            mew=1.2,
        )
    drawing.set_ticks(axis.xaxis, (0.2, 0.5, 1, 2, 5, 10))
    drawing.set_ticks(axis.yaxis, (200, 500, 1000, 2000, 5000, 10_000))
    sizes = sorted({row.n for _, row in _shown(found)})
    styles = ["-", DASHES]
    handles = [legend_handle(f"n = {n}", INK, lw=1.3, ls=style) for n, style in zip(sizes, styles, strict=False)]
    axis.legend(handles=handles, loc="upper right")
