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
    tidy(left, "Change of the mean variance in a step, $c_C = 1$")
    tidy(middle, "Sine of the angle to the exact gradient", x="sample size $n$")
    tidy(right, "Evaluations, leave-one-out over paper")
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
    axis.axvline(0.0, color=FAINT, lw=0.8)


def _angles(axis: Axes, data: Data) -> None:
    """Means over the samples against n; solid for the smallest d, dashed for others."""
    set_log_scale(axis)
    first = min(work.d for work, _ in angle_results(data))
    for work, part in angle_results(data):
        typical = np.mean(part["sines"], axis=1)
        style = "-" if work.d == first else "--"
        axis.plot(part["sizes"], typical, style, marker="o", ms=3.5, lw=1.2, color=COLOURS[work.rule])
        if work.rule == "paper":
            add_label(axis, part["sizes"][-1], typical[-1], f"d = {work.d}, Cond {work.condition:g}", INK)
    axis.set_xlim(None, axis.get_xlim()[1] * 6)


def _races(axis: Axes, data: Data) -> None:
    """One row for each problem; the text is the successes of both rules where they differ or no trial succeeds."""
    problems: list[str] = []
    for work, paper, other in race_pairs(data):
        if work.problem not in problems:
            problems.append(work.problem)
        (first, slow), (second, fast) = success(paper), success(other)
        row = -problems.index(work.problem) + (0.25 if work.n < 50 else -0.05) - (0.15 if work.c_cov > 0.2 else 0.0)
        ratio = fast / slow if first and second else 1.0
        axis.plot(ratio, row, "o" if work.n < 50 else "s", color=INK, ms=4.5, mfc="white" if work.c_cov < 0.2 else INK)
        if first != second or not first:
            add_label(axis, ratio, row, f"{first} / {second} of {work.trials}", FAINT, fontsize=7)
    axis.set_yticks([-place for place in range(len(problems))], problems)
    axis.axvline(1.0, color=FAINT, lw=0.8)
    axis.set_xlim(min(0.4, axis.get_xlim()[0]), max(1.3, axis.get_xlim()[1]))
    kinds = [("o", "white", "n = 10, $c_C$ = 0.1"), ("o", INK, "n = 10, $c_C$ = 0.3")]
    kinds += [("s", "white", "n = 100, $c_C$ = 0.1"), ("s", INK, "n = 100, $c_C$ = 0.3")]
    handles = [legend_handle(text, INK, marker=mark, mfc=face, lw=0, ms=4.5) for mark, face, text in kinds]
    axis.legend(handles=handles, loc="lower left", fontsize=7.5)
