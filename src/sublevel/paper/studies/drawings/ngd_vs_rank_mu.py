# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The picture of `apart`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sublevel.paper import drawing
from sublevel.paper.drawing import DASHES, METHOD_COLOURS, add_label, legend_handle, set_log_scale, set_ticks, tidy
from sublevel.paper.studies import ngd_vs_rank_mu as study
from sublevel.paper.studies.methods import MATCHES
from sublevel.paper.studies.ngd_vs_rank_mu import DISTANCES, LARGE, PAPER, PARTS, SMALL, Comparison, Setting
from sublevel.paper.studies.problems import BUDGET, PROBLEMS
from sublevel.paper.studies.statistics import running_time
from sublevel.paper.studies.study import Data
from sublevel.plots.style import FAINT, GRID, INK

EDGES = 0.016, 30.0
"""Ratios beyond are drawn at an edge."""
GROUPS = 5, 10, 13
"""Problems above the lines between rows: near quadratics, where C has to grow, hills and noise, plateaus."""
VERDICT_COLOURS = {
    "same": INK,
    "undecided": FAINT,
    "neither": FAINT,
    "NGD": METHOD_COLOURS["ngd"],
    "rank-µ": METHOD_COLOURS["rank-mu"],
}
PART_COLOURS = {**METHOD_COLOURS, "ngd-long": "#7fb2d9", "mixed": "#8a9a1b", "rank-mu-short": "#f0a47a"}
PART_NAMES = {
    "ngd": "NGD",
    "ngd-long": "NGD, long mean steps",
    "mixed": "quantile cost, NGD's rates",
    "rank-mu-short": "rank-µ, short mean steps",
    "rank-mu": "rank-µ",
}
NEVER, GAP, SLOPE_AT = 1.2e7, 0.17, 260.0
"""Where a method without a success is drawn, the gap between two marks in a row, and the place of the slope."""
MARKS = {SMALL: ("o", GAP), LARGE: ("s", -GAP), PAPER: ("D", 0.0)}
"""Marker and place in the row of each setting."""


def figure(data: Data) -> Figure:
    """Above, problem by problem; below, why."""
    found = study.comparisons(data)
    settings = [setting for setting in (SMALL, LARGE) if any(one.setting == setting for one in found)]
    picture = drawing.empty_figure((14.6, 12.0))
    upper, lower = picture.subfigures(2, 1, squeeze=False, height_ratios=(1.55, 1))[:, 0]
    columns = upper.subplots(1, 2 + len(settings), sharey=True, width_ratios=(2.2, 1.7, *(0.8 for _ in settings)))
    rows = {problem: len(PROBLEMS) - number for number, problem in enumerate(PROBLEMS)}
    tuned = study.tuned_comparisons(data)
    _ratios(columns[0], [one.comparison for one in tuned if one.spread == 1], rows, "each at its best rate")
    _other_starts(columns[0], [one for one in tuned if one.spread != 1], rows)
    columns[0].legend(
        handles=_ratio_handles(), frameon=False, fontsize=7.4, loc="center left", bbox_to_anchor=(0, 0.53)
    )
    _ratios(columns[1], found, rows, "at rates matched on the ellipsoid")
    for axis in columns:
        for above in GROUPS:
            axis.axhline(len(PROBLEMS) - above + 0.5, color=FAINT, lw=0.7)
    for axis, setting in zip(columns[2:], settings, strict=True):
        best = [one.comparison for one in tuned if one.spread == 1 and one.comparison.setting == setting]
        _successes(axis, best, rows, setting)
    panels = lower.subplots(1, 3, width_ratios=(1, 1, 1.35))
    _variances(panels[0], data, settings[0])
    _mean_steps(panels[1], data, settings[0])
    _parts(panels[2], data)
    return picture


def _ratios(axis: Axes, found: list[Comparison], rows: dict[str, int], how: str) -> None:
    margin = found[0].margin
    axis.axvspan(1 / margin, margin, color=GRID, alpha=0.7, lw=0)
    axis.axvline(1, color=FAINT, lw=1)
    for one in found:
        _ratio(axis, one, rows[one.problem])
    set_log_scale(axis, y=False)
    axis.set_xlim(EDGES[0] * 0.8, EDGES[1] * 1.6)
    set_ticks(axis.xaxis, (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
    axis.set_yticks(list(rows.values()), list(rows), color=INK, fontsize=10)
    axis.set_ylim(0.3, len(rows) + 0.7)
    tidy(axis, f"Evaluations for a success, NGD over rank-µ,\n{how}", x="← NGD needs fewer     NGD needs more →")


def _other_starts(axis: Axes, found: list[study.TunedComparison], rows: dict[str, int]) -> None:
    """The ratios from other σ⁰, as small triangles below the square of the same n."""
    for one in found:
        ratio = one.comparison.ratio.value
        if one.comparison.verdict != "neither":
            x = min(max(ratio, EDGES[0]), EDGES[1] * 1.2)
            marker, colour = "v" if one.spread < 1 else "^", VERDICT_COLOURS[one.comparison.verdict]
            axis.plot(x, rows[one.comparison.problem] - 2.1 * GAP, marker, color=colour, ms=3.2, mfc="white", mew=0.8)


def _ratio_handles() -> list[Line2D]:
    settings = "d = {}, n = {}".format
    return [
        legend_handle(settings(*SMALL), marker="o", ls="", ms=5.5),
        legend_handle(settings(*LARGE), marker="s", ls="", ms=5, mfc="white"),
        legend_handle(f"{settings(*PAPER)}, as in the paper", marker="D", ls="", ms=4, mfc="white"),
        legend_handle(f"n = {LARGE[1]}, σ⁰/10 and 10σ⁰", marker="v", ls="", ms=3.6, mfc="white"),
        legend_handle(f"NGD never in {BUDGET:,}".replace(",", "\u2009"), marker=">", ls="", ms=6),
        legend_handle(f"rank-µ never in {BUDGET:,}".replace(",", "\u2009"), marker="<", ls="", ms=6),
        legend_handle("equivalent: interval in the band", INK, lw=1.8),
        legend_handle("undecided", FAINT, lw=1.8),
    ]


def _legend(axis: Axes, handles: Iterable[Line2D], size: float = 8.5, side: Literal["left", "right"] = "left") -> None:
    loc = "upper left" if side == "left" else "upper right"
    axis.legend(handles=list(handles), frameon=True, framealpha=1, edgecolor="none", fontsize=size, loc=loc)


def _ratio(axis: Axes, one: Comparison, row: int) -> None:
    colour, (marker, shift) = VERDICT_COLOURS[one.verdict], MARKS[one.setting]
    fill, y = colour if one.setting == SMALL else "white", row + shift
    if one.verdict == "neither":
        add_label(axis, 1.12, y, f"neither succeeds at d = {one.setting[0]}, n = {one.setting[1]}", FAINT, fontsize=8)
    elif not 0 < one.ratio.value < np.inf:
        x, marker = (EDGES[1] * 1.2, ">") if one.ratio.value > 1 else (EDGES[0], "<")
        axis.plot(x, y, marker, color=colour, mfc=fill, ms=6.5)
    elif one.ratio.value > EDGES[1]:
        add_label(axis, EDGES[1] * 1.4, y, f"{one.ratio.value:.0f} ▸", colour, ha="right", xytext=(0, 0))
    else:
        low, high = max(one.ratio.low, EDGES[0]), min(one.ratio.high, EDGES[1])
        axis.plot([low, high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
        axis.plot(one.ratio.value, y, marker, color=colour, mfc=fill, ms=4 if marker == "D" else 5.5)


def _successes(axis: Axes, found: list[Comparison], rows: dict[str, int], setting: Setting) -> None:
    for one in found:
        for result, method, shift in ((one.ngd, "ngd", GAP), (one.rank_mu, "rank-mu", -GAP)):
            y, rate, colour = rows[one.problem] + shift, result.success, METHOD_COLOURS[method]
            axis.plot([100 * rate.low, 100 * rate.high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
            axis.plot(100 * rate.value, y, "o", color=colour, ms=4.8)
    set_ticks(axis.xaxis, (0, 50, 100), "{x:g} %")
    axis.set_xlim(-6, 106)
    tidy(axis, f"Success at the\nbest rate, n = {setting[1]}")
    _legend(axis, (legend_handle(PART_NAMES[m], METHOD_COLOURS[m], marker="o", ms=5) for m in ("ngd", "rank-mu")))


def _steps_panel(axis: Axes, data: Data, setting: Setting, part: str) -> None:
    """The mean of single steps against the distance, with two standard errors; the slope is at the right end."""
    for variant in ("ngd", "mixed", "rank-mu"):
        sample, colour = study.probes(data)[variant, setting][part], PART_COLOURS[variant]
        centre, error = sample.mean(axis=1), 2 * sample.std(axis=1) / np.sqrt(sample.shape[1])
        x, last = np.maximum(np.array(DISTANCES), 0.5), len(DISTANCES)
        axis.fill_between(x, (centre - error)[:last], (centre + error)[:last], color=colour, alpha=0.2, lw=0)
        axis.plot(x, centre[:last], "o-", color=colour, ms=3.4, lw=1.5)
        axis.plot([x[-1], SLOPE_AT], centre[last - 1 : last + 1], color=colour, lw=1, ls=":")
        axis.plot(SLOPE_AT, centre[last], "D", color=colour, ms=4.5)
    set_log_scale(axis, y=False)
    axis.set_xlim(0.42, SLOPE_AT * 1.5)
    set_ticks(axis.xaxis, (0.5, 1, 2, 5, 10, 20, 50, 100, SLOPE_AT))
    axis.set_xticklabels(["0", "1", "2", "5", "10", "20", "50", "100", "slope"])


def _variances(axis: Axes, data: Data, setting: Setting) -> None:
    exact, colour = -MATCHES[setting].ngd / 2, PART_COLOURS["ngd"]
    _steps_panel(axis, data, setting, "along")
    axis.axhline(0, color=INK, lw=0.8)
    axis.axhline(exact, color=colour, lw=1.3, ls=DASHES)
    add_label(axis, 0.5, exact, "exact volume cost: at every distance", colour, xytext=(0, 8))
    title = f"Change of the variance downhill\nin one iteration, n = {setting[1]}"
    tidy(axis, title, x="distance of a sphere's optimum, in σ")


def _mean_steps(axis: Axes, data: Data, setting: Setting) -> None:
    _steps_panel(axis, data, setting, "step")
    axis.set_ylim(-0.05, None)
    tidy(axis, f"Step of the mean downhill,\nin σ, n = {setting[1]}", x="distance of a sphere's optimum, in σ")
    shown = ("rank-mu", "mixed", "ngd")
    handles = [legend_handle(PART_NAMES[one], PART_COLOURS[one], marker="o", ms=4) for one in shown]
    axis.legend(handles=handles, frameon=False, fontsize=8.5, loc="center right")


def _parts(axis: Axes, data: Data) -> None:
    found = study.results(data)
    shown = [problem for problem in study.DISSECTED if (problem, "mixed", SMALL) in found]
    if not shown:
        axis.set_axis_off()
        text = "one part at a time:\nin the full study"
        axis.text(0.5, 0.5, text, ha="center", color=FAINT, transform=axis.transAxes)
        return
    for row, problem in enumerate(reversed(shown)):
        for number, variant in enumerate(PARTS):
            result = found[problem, variant, SMALL]
            needed = running_time(result.evaluations, result.reached)
            y, colour = row + 0.28 - 0.14 * number, PART_COLOURS[variant]
            if np.isfinite(needed):
                axis.plot(needed, y, "o", color=colour, ms=5)
            else:
                axis.plot(NEVER, y, "x", color=colour, ms=5.5, mew=1.8)
        axis.axhline(row + 0.5, color=GRID, lw=0.8)
    axis.set_yticks(range(len(shown)), list(reversed(shown)), color=INK, fontsize=9)
    set_log_scale(axis, y=False)
    handles = (legend_handle(PART_NAMES[one], PART_COLOURS[one], marker="o", ls="", ms=5) for one in PARTS)
    _legend(axis, handles, 8, "right")
    axis.set_ylim(-0.5, len(shown) - 0.5)
    tidy(axis, f"One part at a time, matched rates: evaluations\nfor a success, n = {SMALL[1]}  (× none)")
    axis.grid(visible=False, axis="y")
