# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The figure of `predictions`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.paper import drawing
from sublevel.paper.drawing import DASHES, SEQUENCE, empty_figure, legend_handle, set_log_scale, tidy
from sublevel.paper.studies.predictions import Comparison, conditions, limits, matches, rates
from sublevel.paper.studies.study import Data
from sublevel.plots.style import FAINT, INK

MARKS = ("o", "s", "^")
"""For n = d, d², d³ in the upper row."""


def figure(data: Data) -> Figure:
    """Final Cond(CA), rate, largest stable c_C and matched c_C: lines are predicted, marks are measured."""
    picture = empty_figure((12.6, 8.2))
    (upper_left, upper_right), (lower_left, lower_right) = picture.subplots(2, 2)
    found, speeds = conditions(data), rates(data)
    colours = _colours([*found, *limits(data), *matches(data)])
    _against_rate(upper_left, found, colours, less=1.0)
    _against_rate(upper_right, speeds, colours, sign=-1.0)
    _against_size(lower_left, limits(data), colours)
    _against_size(lower_right, matches(data), colours)
    tidy(upper_left, "Final Cond(CA) − 1", x="$c_C$")
    tidy(upper_right, "Rate: decrease of log det(C)/d in an iteration", x="$c_C$")
    tidy(lower_left, "Largest stable $c_C$", x="sample size over dimension, $n/d$")
    tidy(lower_right, "$c_C$ that makes NGD as fast as rank-µ", x="sample size over dimension, $n/d$")
    _legends(upper_left, upper_right, found, colours)
    return picture


def _colours(rows: Sequence[Comparison]) -> dict[int, str]:
    """A colour for each dimension."""
    dimensions = sorted({row.d for row in rows})
    places = np.linspace(0, len(SEQUENCE) - 1, max(len(dimensions), 2)).astype(int)
    return {d: SEQUENCE[place] for d, place in zip(dimensions, places, strict=False)}


def _power(row: Comparison) -> int:
    """k with n ≈ dᵏ."""
    return round(float(np.log(row.n) / np.log(row.d)))


def _against_rate(
    axis: Axes, rows: Sequence[Comparison], colours: dict[int, str], less: float = 0.0, sign: float = 1.0
) -> None:
    """A line of predictions and marks of measurements for each d and n."""
    set_log_scale(axis)
    for d, n in sorted({(row.d, row.n) for row in rows}):
        own = [row for row in rows if (row.d, row.n) == (d, n)]
        x = [row.c_cov for row in own]
        axis.plot(x, [sign * row.predicted - less for row in own], color=colours[d], lw=1.3, ls="-")
        values = np.array([sign * row.measured - less for row in own])
        mark = MARKS[min(max(_power(own[0]), 1), 3) - 1]
        bars = [2 * row.error for row in own]
        axis.errorbar(x, values, yerr=bars, fmt=mark, color=colours[d], ms=4.5, lw=1.0, mfc="white", mew=1.2)
    drawing.set_ticks(axis.xaxis, sorted({row.c_cov for row in rows}))


def _against_size(axis: Axes, rows: Sequence[Comparison], colours: dict[int, str]) -> None:
    """Predictions and measurements against n/d."""
    set_log_scale(axis)
    for d in sorted({row.d for row in rows}):
        own = sorted((row for row in rows if row.d == d), key=lambda row: row.n)
        x = np.array([row.n / d for row in own])
        axis.plot(x, [row.predicted for row in own], color=colours[d], lw=1.3, marker="_", ms=7)
        bars = [2 * row.error for row in own]
        axis.errorbar(
            x, [row.measured for row in own], yerr=bars, fmt="o", color=colours[d], ms=4.5, mfc="white", mew=1.2
        )
    drawing.set_ticks(axis.yaxis, (0.1, 0.2, 0.3, 0.5, 0.7, 1.0))
    drawing.set_ticks(axis.xaxis, (0.25, 0.5, 1, 2, 5, 10, 20))
    axis.axhline(1.0, color=FAINT, lw=0.8, ls=DASHES)
    if rows:
        ratios, heights = [row.n / row.d for row in rows], [min(row.predicted, row.measured) for row in rows]
        axis.set_xlim(min(ratios) / 1.2, max(ratios) * 1.2)
        axis.set_ylim(min(heights) / 1.2, 1.1)


def _legends(left: Axes, right: Axes, rows: Sequence[Comparison], colours: dict[int, str]) -> None:
    """Colours at the left, marks at the right."""
    left.legend(handles=[legend_handle(f"d = {d}", colour, lw=2) for d, colour in colours.items()], loc="upper left")
    powers = sorted({min(max(_power(row), 1), 3) for row in rows})
    marks = [
        legend_handle(f"measured, n = {('d', 'd²', 'd³')[k - 1]}", INK, marker=MARKS[k - 1], lw=0, mfc="white")
        for k in powers
    ]
    right.legend(handles=[legend_handle("predicted", INK, lw=1.3), *marks], loc="upper left")
