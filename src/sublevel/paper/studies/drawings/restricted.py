# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The picture of `restricted`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.paper.drawing import DASHES, add_label, empty_figure, legend_handle, set_log_scale, set_ticks, tidy
from sublevel.paper.studies.restricted import FULL, Speed, critical_condition, shrinkages, speeds
from sublevel.paper.studies.study import Data
from sublevel.plots.style import FAINT, INK

COLOURS = {"full": "#1f77b4", "diagonal": "#1b9a6c", "isotropic": "#c2410c"}
MARKERS = {100: "v", 1000: "s", 10000: "D"}


def figure(data: Data) -> Figure:
    """Speeds of the exact and the stochastic algorithm, the mean left behind, and the effect on the spectrum."""
    drawing = empty_figure((10.6, 8.6))
    axes = drawing.subplots(2, 2)
    found = sorted(speeds(data), key=lambda speed: speed.condition)
    _exact(axes[0, 0], found)
    _stochastic(axes[0, 1], found)
    _left_behind(axes[1, 0], found)
    _flattened(axes[1, 1], data)
    axes[0, 1].set_ylim(axes[0, 0].get_ylim())
    sizes = sorted({one.n for one in found} - {0})
    handles = [
        *(legend_handle(f"{family} C", colour, lw=2) for family, colour in COLOURS.items()),
        legend_handle("theory", lw=1.3, ls=DASHES),
        *(legend_handle(f"n = {n}", FAINT, marker=MARKERS[n], ls="", ms=5) for n in sizes),
        legend_handle("hollow: mean left behind", FAINT, marker="o", mfc="white", ls="", ms=5),
    ]
    drawing.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return drawing


def _theory(axis: Axes, found: list[Speed]) -> None:
    for family, colour in COLOURS.items():
        shown = [speed for speed in found if speed.family == family and speed.n == 0]
        x, y = [one.condition for one in shown], [np.mean(one.predicted) for one in shown]
        axis.plot(x, y, color=colour, lw=1.4, ls=DASHES)


def _exact(axis: Axes, found: list[Speed]) -> None:
    _theory(axis, found)
    for speed in found:
        if speed.n == 0:
            x = speed.condition * np.geomspace(0.94, 1.06, speed.measured.size)
            axis.plot(x, speed.measured, "o", color=COLOURS[speed.family], ms=3.6, mew=0)
    _axes(axis, "Exact gradient: speed as predicted", "speed: fall of $\\log$ E $f$ in an iteration")


def _stochastic(axis: Axes, found: list[Speed]) -> None:
    _theory(axis, found)
    for speed in found:
        if speed.n:
            colour = COLOURS[speed.family]
            fill = "white" if speed.is_left_behind else colour
            shift = {100: 0.88, 1000: 1.0, 10000: 1.14}[speed.n]
            middle = np.median(speed.measured)
            if middle > 0:
                axis.plot(speed.condition * shift, middle, MARKERS[speed.n], color=colour, mfc=fill, ms=4.6, mew=1.1)
    _axes(axis, "Sampled gradient: near it up to Cond(A) = 100")


def _left_behind(axis: Axes, found: list[Speed]) -> None:
    for family, colour in COLOURS.items():
        for n, marker in MARKERS.items():
            shown = [speed for speed in found if speed.family == family and speed.n == n]
            x, y = [speed.condition for speed in shown], [np.median(speed.distance) for speed in shown]
            axis.plot(x, y, marker + "-", color=colour, lw=0.9, ms=4, alpha=0.9)
    axis.axhline(FULL.left_behind, color=FAINT, lw=0.8)
    axis.axvline(critical_condition(), color=COLOURS["isotropic"], lw=1.3, ls=DASHES)
    text = "theory, isotropic C:\n$m$ slower than $C$\nfrom here on"
    add_label(axis, critical_condition(), 1e4, text, COLOURS["isotropic"], ha="right", xytext=(-6, 0))
    _axes(axis, "Where C shrinks faster than m, the mean is left behind", "distance $\\|m\\|/\\sigma$ at the end")


def _flattened(axis: Axes, data: Data) -> None:
    found = sorted(shrinkages(data), key=lambda one: one.condition)
    for n, marker in MARKERS.items():
        shown = [one for one in found if one.n == n]
        x = [one.condition for one in shown]
        errors = [2 * one.error for one in shown]
        axis.errorbar(x, [one.mean for one in shown], yerr=errors, fmt=marker + "-", color="#4b2e83", lw=1.1, ms=4.5)
        axis.plot(x, [one.covariance for one in shown], marker + "-", color="#e8890c", lw=1.1, ms=4.5)
    axis.axhline(1, color=INK, lw=1.2, ls=DASHES)
    axis.plot([], [], color="#4b2e83", lw=2, label="of $m$ along the flattest axis")
    axis.plot([], [], color="#e8890c", lw=2, label="of $C$")
    axis.legend(frameon=False, fontsize=9, loc="upper left")
    _axes(axis, "What a sampled step removes, isotropic C", "over what the exact gradient removes")
    set_ticks(axis.yaxis, (0.5, 1, 2, 3))


def _axes(axis: Axes, title: str, y: str = "") -> None:
    set_log_scale(axis)
    tidy(axis, title, x="Cond($A$)", y=y)
