# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The picture of `dimension`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.paper import drawing
from sublevel.paper.drawing import DASHES, SIZE_COLOURS, add_label, empty_figure, set_log_scale, tidy
from sublevel.paper.studies.dimension import NAMES, Growth, growths, theory_iterations
from sublevel.paper.studies.study import Data
from sublevel.plots.style import INK

COLOURS = {1: SIZE_COLOURS[0], 2: SIZE_COLOURS[3], 4: SIZE_COLOURS[4]}


def figure(data: Data) -> Figure:
    """Iterations and evaluations against d, and how much of a step is signal."""
    picture = empty_figure((12.6, 4.4))
    left, middle, right = picture.subplots(1, 3)
    found = growths(data)
    _lines(left, found, evaluations=False)
    _lines(middle, found, evaluations=True)
    for growth in found:
        right.plot(growth.dimensions, growth.share, "o-", color=COLOURS[growth.power], lw=1.5, ms=4.5)
        add_label(right, growth.dimensions[-1], growth.share[-1], f"n = {NAMES[growth.power]}", COLOURS[growth.power])
    _axes(right, found, 1.6)
    left.axhline(theory_iterations(), color=INK, lw=1.2, ls=DASHES)
    add_label(left, found[0].dimensions[-1], theory_iterations(), "exact gradient", INK, xytext=(5, 6))
    tidy(left, "Iterations to learn C: Cond(CA) from 10⁶ to 10", x="dimension $d$")
    tidy(middle, "Evaluations to learn C", x="dimension $d$")
    title = "Why: the share of a step that is signal,\n$-\\mathrm{tr}(Z)/(d\\,\\sigma_1(Z))$ where $C = A^{-1}$"
    tidy(right, title, x="dimension $d$")
    return picture


def _axes(axis: Axes, found: list[Growth], room: float) -> None:
    """Room is for the names at the right."""
    set_log_scale(axis)
    drawing.set_ticks(axis.xaxis, found[0].dimensions)
    axis.set_xlim(1.8, found[0].dimensions[-1] * room)


def _lines(axis: Axes, found: list[Growth], *, evaluations: bool) -> None:
    names: list[tuple[float, float, str, str]] = []
    for growth in found:
        colour, exponent = COLOURS[growth.power], growth.exponent(evaluations=evaluations)
        factor = growth.sizes if evaluations else np.ones_like(growth.sizes)
        for d, sample, times in zip(growth.dimensions, growth.iterations, factor, strict=True):
            axis.plot(np.full(sample.size, d), times * sample, ".", color=colour, ms=3, alpha=0.35, mew=0)
        centre = growth.typical * factor
        axis.plot(growth.dimensions, centre, "o", color=colour, ms=4.5)
        axis.plot(growth.dimensions, centre, color=colour, lw=0.8, alpha=0.5)
        x = growth.dimensions[growth.is_fitted]
        factor = np.exp(np.mean(np.log(centre[growth.is_fitted]) - exponent.value * np.log(x)))
        axis.plot(x, factor * x**exponent.value, color=colour, lw=1.8)
        half = f"{(exponent.high - exponent.low) / 2:.1g}"
        value = f"{exponent.value:.{max(2, len(half) - 2)}f}"
        text = f"n = {NAMES[growth.power]}:  $\\propto d^{{\\,{value} \\pm {half}}}$"
        names.append((x[-1], centre[-1], text, colour))
    _axes(axis, found, 7.0)
    drawing.label_ends(axis, names, 0.055)
