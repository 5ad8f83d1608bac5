# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The picture of `consistency`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.paper.drawing import DASHES, SEQUENCE, add_label, empty_figure, label_ends, set_log_scale, set_ticks, tidy
from sublevel.paper.studies.consistency import dimensions, lines, relative_error
from sublevel.paper.studies.study import Data
from sublevel.paper.theory.sampled import consistency_exponent
from sublevel.plots.style import FAINT, INK

COLOURS = {2: "#c2410c", 5: "#1b9a6c", 20: "#1f77b4"}


def figure(data: Data) -> Figure:
    """Errors against n, their slopes against Cond(CA), and their size against d."""
    drawing = empty_figure((12.6, 4.3))
    left, middle, right = drawing.subplots(1, 3, width_ratios=(1.1, 1, 0.9))
    _errors(left, data)
    _slopes(middle, data)
    _dimensions(right, data)
    return drawing


def _errors(axis: Axes, data: Data) -> None:
    smallest = min(line.d for line in lines(data))
    shown, names = [line for line in lines(data) if line.d == smallest], list[tuple[float, float, str, str]]()
    places = np.linspace(0, len(SEQUENCE) - 1, len(shown)).astype(int)
    for line, colour in zip(shown, (SEQUENCE[place] for place in places), strict=True):
        low, high = np.quantile(line.errors, [0.25, 0.75], axis=1)
        axis.fill_between(line.sizes, low, high, color=colour, alpha=0.13, lw=0)
        axis.plot(line.sizes, line.typical, "o-", color=colour, lw=1.5, ms=3.2)
        half = len(line.sizes) // 2
        fall = (line.sizes[half:] / line.sizes[half]) ** consistency_exponent(line.condition)
        centre = np.exp(np.mean(np.log(line.typical[half:]) - np.log(fall)))
        axis.plot(line.sizes[half:], centre * fall, color=INK, lw=1.1, ls=DASHES, zorder=4)
        names.append((float(line.sizes[-1]), float(line.typical[-1]), f"{line.condition:g}", colour))
    set_log_scale(axis)
    axis.set_ylim(None, 1.3)
    label_ends(axis, names, 0.04)
    add_label(axis, names[-1][0], 1.3, "Cond(CA)", FAINT, xytext=(-14, 0))
    title = f"Relative error, d = {smallest}: the worse C fits,\nthe less a larger sample helps"
    tidy(axis, title, x="sample size $n$")


def _slopes(axis: Axes, data: Data) -> None:
    for number, (d, colour) in enumerate(COLOURS.items()):
        shown = [line for line in lines(data) if line.d == d]
        if not shown:
            continue
        x = np.array([line.condition for line in shown]) * 1.05 ** (number - 1)
        slopes = [line.slope for line in shown]
        y = np.array([slope.value for slope in slopes])
        reach = [y - [slope.low for slope in slopes], [slope.high for slope in slopes] - y]
        upto = f"n ≤ {shown[0].sizes[-1]:,}".replace(",", "\u2009")
        axis.errorbar(x, y, yerr=reach, fmt="o-", color=colour, lw=1.2, ms=4, elinewidth=1.4, label=f"d = {d}, {upto}")
    x = np.geomspace(1, 110, 200)
    first_order = [consistency_exponent(one) for one in x]
    axis.plot(x, first_order, color=INK, lw=1.3, ls=DASHES, label="limit: −min(½, 1/Cond)")
    wrong = [-min(0.5, 2 / one) for one in x]
    axis.plot(x, wrong, color=FAINT, lw=1.0, ls=":", label="−min(½, 2/Cond): not in d = 2")
    set_log_scale(axis, y=False)
    set_ticks(axis.xaxis, (1, 2, 3, 4, 5, 10, 30, 100))
    axis.legend(frameon=False, fontsize=8.5, loc="upper left")
    axis.set_ylim(-0.62, 0.3)
    axis.set_yticks([-0.5, -0.4, -0.3, -0.2, -0.1, 0.0])
    title = "Exponent of n: −½ only while Cond(CA) < 2;\nin more dimensions the limit shows later"
    tidy(axis, title, x="Cond(CA)", y="log-log slope, 95 % band")


def _dimensions(axis: Axes, data: Data) -> None:
    found = dimensions(data)
    x, y, spread = [one.d for one in found], [one.scaled for one in found], [2 * one.spread for one in found]
    grid, formula = np.geomspace(min(x), max(x), 100), r"$\sqrt{(d^2 + 14d + 18 + 20/d)/2}$"
    axis.plot(grid, [relative_error(d, 1) for d in grid], color=INK, lw=1.3, ls=DASHES, label=formula)
    axis.errorbar(x, y, yerr=spread, fmt="o", color="#1f77b4", ms=5, label="measured")
    set_log_scale(axis)
    set_ticks(axis.xaxis, x)
    set_ticks(axis.yaxis, (5, 10, 20, 50))
    axis.legend(frameon=False, fontsize=9, loc="upper left")
    tidy(axis, "Error · √n at Cond(CA) = 1:\nn ∝ d² keeps it", x="dimension $d$")
