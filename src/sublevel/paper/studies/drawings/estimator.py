# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The figure of `estimator`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sublevel.paper.drawing import add_label, empty_figure, legend_handle, set_log_scale, tidy
from sublevel.paper.studies.estimator import FUNCTIONS, angle_results, race_pairs, step_results, success
from sublevel.paper.studies.statistics import mean, standard_error
from sublevel.paper.studies.study import Data
from sublevel.plots.style import BLUE, FAINT, INK, ORANGE

COLOURS = {"paper": BLUE, "leave-one-out": ORANGE}


def figure(data: Data) -> Figure:
    """The change of C in a step, the angle of the estimate, and the evaluations of runs."""
    picture = empty_figure((13.2, 4.8))
    left, middle, right = picture.subplots(1, 3)
    _steps(left, data)
    _angles(middle, data)
    _races(right, data)
    tidy(left, "Change of the mean variance\nin a step, $c_C = 1$")
    tidy(middle, "Sine of the angle\nto the exact gradient", x="sample size $n$")
    tidy(right, "Share of successful runs,\nd = 10")
    left.legend(handles=[legend_handle(name, colour, marker="o", lw=0) for name, colour in COLOURS.items()])
    return picture


def _steps(axis: Axes, data: Data) -> None:
    """One row for each function and setting."""
    names: list[str] = []
    for work, part in sorted(step_results(data), key=lambda item: FUNCTIONS.index(item[0].function)):
        name = f"{work.function}, d = {work.d}, n = {work.n}"
        if name not in names:
            names.append(name)
        row = -names.index(name) + (0.12 if work.rule == "paper" else -0.12)
        value, bar = mean(part["trace"]), 2 * standard_error(part["trace"])
        axis.errorbar(value, row, xerr=bar, fmt="o", color=COLOURS[work.rule], ms=4.5)
    axis.set_yticks([-place for place in range(len(names))], names)
    axis.set_xticks([-0.2, -0.1, 0.0])
    axis.axvline(0.0, color=FAINT, lw=0.8)


def _angles(axis: Axes, data: Data) -> None:
    """Means over the samples against n; solid for the smallest d, dashed for others."""
    set_log_scale(axis)
    first = min(work.d for work, _ in angle_results(data))
    for work, part in angle_results(data):
        typical = np.mean(part["sines"], axis=1)
        style = "-" if work.d == first else "--"
        axis.plot(part["sizes"], typical, style, marker="o", ms=3.5, lw=1.2, color=COLOURS[work.rule])
        if work.rule == "paper" and (work.d == first or work.condition == 1.0):
            text = f"d = {work.d}, Cond {work.condition:g}" if work.d == first else f"d = {work.d}, any Cond"
            add_label(axis, part["sizes"][-1], typical[-1], text, INK)
    axis.set_xlim(None, axis.get_xlim()[1] * 15)


def _races(axis: Axes, data: Data) -> None:
    """The share of successes of both rules for each problem and n, and the ratio of evaluations where both succeed."""
    names: list[str] = []
    for work, paper, other in race_pairs(data):
        names.append(f"{work.problem}, n = {work.n}")
        row = 1 - len(names)
        (first, slow), (second, fast) = success(paper), success(other)
        for count, rule, shift in ((first, "paper", 0.14), (second, "leave-one-out", -0.14)):
            axis.plot(count / work.trials, row + shift, "o", color=COLOURS[rule], ms=4.5)
        if first and second:
            add_label(axis, 1.0, row, f"{fast / slow:.2f} × the evaluations", FAINT, fontsize=7.5, xytext=(8, 0))
    axis.set_yticks([-place for place in range(len(names))], names, fontsize=7.5)
    axis.set_xticks([0.0, 0.5, 1.0])
    axis.set_xlim(-0.1, 1.8)
