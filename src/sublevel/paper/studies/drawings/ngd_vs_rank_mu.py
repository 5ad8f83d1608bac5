# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The picture of `apart`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sublevel.paper.drawing import DASHES, METHOD_COLOURS, add_label, empty_figure, set_log_scale, set_ticks, tidy
from sublevel.paper.studies.methods import MATCHES
from sublevel.paper.studies.ngd_vs_rank_mu import (
    DISSECTED,
    DISTANCES,
    LARGE,
    PAPER,
    PARTS,
    SMALL,
    Comparison,
    Setting,
    comparisons,
    results,
)
from sublevel.paper.studies.problems import PROBLEMS
from sublevel.paper.studies.statistics import running_time
from sublevel.paper.studies.study import Data
from sublevel.plots.style import FAINT, GRID, INK

EDGES = 0.016, 30.0
"""Ratios beyond are drawn at an edge."""
GROUPS = 5, 10, 13
"""Problems above each line that parts the rows: near quadratics, where C has to grow, hills and noise, plateaus."""
VERDICT_COLOURS = {"same": FAINT, "neither": FAINT, "NGD": METHOD_COLOURS["ngd"], "rank-µ": METHOD_COLOURS["rank-mu"]}
PART_COLOURS = {
    "ngd": METHOD_COLOURS["ngd"],
    "ngd-long": "#7fb2d9",
    "mixed": "#8a9a1b",
    "rank-mu-short": "#f0a47a",
    "rank-mu": METHOD_COLOURS["rank-mu"],
}
PART_NAMES = {
    "ngd": "NGD",
    "ngd-long": "NGD, long mean steps",
    "mixed": "quantile cost, NGD's rates",
    "rank-mu-short": "rank-µ, short mean steps",
    "rank-mu": "rank-µ",
}
NEVER = 1.2e7
"""Where a method without a success is drawn."""
GAP = 0.17
"""Between two marks in a row."""
MARKS = {SMALL: ("o", GAP), LARGE: ("s", -GAP), PAPER: ("D", 0.0)}
"""Marker and place in the row of each setting."""


def figure(data: Data) -> Figure:
    """Above, problem by problem; below, why."""
    found = comparisons(data)
    settings = [setting for setting in (SMALL, LARGE) if any(one.setting == setting for one in found)]
    drawing = empty_figure((12.6, 11.4))
    parts: Any = drawing.subfigures(2, 1, height_ratios=(1.45, 1))
    upper, lower = parts
    columns = upper.subplots(1, 1 + len(settings), sharey=True, width_ratios=(2.4, *(1 for _ in settings)))
    rows = {problem: len(PROBLEMS) - number for number, problem in enumerate(PROBLEMS)}
    _ratios(columns[0], found, rows)
    for axis in columns:
        for above in GROUPS:
            axis.axhline(len(PROBLEMS) - above + 0.5, color=FAINT, lw=0.7)
    for axis, setting in zip(columns[1:], settings, strict=True):
        _successes(axis, [one for one in found if one.setting == setting], rows, setting)
    panels = lower.subplots(1, 3, width_ratios=(1, 1, 1.35))
    _variances(panels[0], data, settings[0])
    _mean_steps(panels[1], data, settings[0])
    _parts(panels[2], data)
    return drawing


def _ratios(axis: Any, found: list[Comparison], rows: dict[str, int]) -> None:
    axis.axvspan(1 / 1.1, 1.1, color=GRID, alpha=0.7, lw=0)
    axis.axvline(1, color=FAINT, lw=1)
    for one in found:
        _ratio(axis, one, rows[one.problem])
    set_log_scale(axis, y=False)
    axis.set_xlim(EDGES[0] * 0.8, EDGES[1] * 1.6)
    set_ticks(axis.xaxis, (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
    axis.set_yticks(list(rows.values()), list(rows), color=INK, fontsize=10)
    axis.set_ylim(0.3, len(rows) + 0.7)
    tidy(
        axis,
        "Evaluations for a success, NGD over rank-µ (95 % interval)",
        x="← NGD needs fewer            NGD needs more →",
    )
    handles = [
        Line2D([], [], color=INK, marker="o", ls="", ms=5.5, label=f"d = {SMALL[0]}, n = {SMALL[1]}"),
        Line2D([], [], color=INK, marker="s", ls="", ms=5, mfc="white", label=f"d = {LARGE[0]}, n = {LARGE[1]}"),
        Line2D(
            [],
            [],
            color=INK,
            marker="D",
            ls="",
            ms=4,
            mfc="white",
            label=f"d = {PAPER[0]}, n = {PAPER[1]}, as in the paper",
        ),
        Line2D([], [], color=INK, marker=">", ls="", ms=6, label="NGD never, in the budget"),
        Line2D([], [], color=INK, marker="<", ls="", ms=6, label="rank-µ never, in the budget"),
    ]
    axis.legend(handles=handles, frameon=True, framealpha=1, edgecolor="none", fontsize=8.5, loc="upper left")


def _ratio(axis: Any, one: Comparison, row: int) -> None:
    colour, (marker, shift) = VERDICT_COLOURS[one.verdict], MARKS[one.setting]
    fill, y = colour if one.setting == SMALL else "white", row + shift
    if one.verdict == "neither":
        add_label(axis, 1.12, y, f"neither succeeds at d = {one.setting[0]}, n = {one.setting[1]}", FAINT, fontsize=8)
    elif not 0 < one.ratio.value < np.inf:
        never_ngd = one.ratio.value > 1
        axis.plot(
            EDGES[1] * 1.2 if never_ngd else EDGES[0], y, ">" if never_ngd else "<", color=colour, mfc=fill, ms=6.5
        )
    elif one.ratio.value > EDGES[1]:
        add_label(axis, EDGES[1] * 1.4, y, f"{one.ratio.value:.0f} ▸", colour, ha="right", xytext=(0, 0))
    else:
        low, high = max(one.ratio.low, EDGES[0]), min(one.ratio.high, EDGES[1])
        axis.plot([low, high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
        axis.plot(one.ratio.value, y, marker, color=colour, mfc=fill, ms=4 if marker == "D" else 5.5)


def _successes(axis: Any, found: list[Comparison], rows: dict[str, int], setting: Setting) -> None:
    for one in found:
        for result, method, shift in ((one.ngd, "ngd", GAP), (one.rank_mu, "rank-mu", -GAP)):
            y, rate, colour = rows[one.problem] + shift, result.success, METHOD_COLOURS[method]
            axis.plot([100 * rate.low, 100 * rate.high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
            axis.plot(100 * rate.value, y, "o", color=colour, ms=4.8)
    set_ticks(axis.xaxis, (0, 50, 100), "{x:g} %")
    axis.set_xlim(-6, 106)
    tidy(axis, f"Success at n = {setting[1]} ($c_C$ = {MATCHES[setting].ngd})")
    handles = [
        Line2D([], [], color=METHOD_COLOURS[m], marker="o", ms=5, label=PART_NAMES[m]) for m in ("ngd", "rank-mu")
    ]
    axis.legend(handles=handles, frameon=True, framealpha=1, edgecolor="none", fontsize=8.5, loc="upper left")


def _probed(axis: Any, data: Data, setting: Setting, part: str, *, slope_at: float) -> None:
    """The mean of single steps against the distance, with two standard errors; the slope is written at the right
    end.
    """
    for variant in ("ngd", "mixed", "rank-mu"):
        sample, colour = data[f"probe/{variant}/d{setting[0]}/n{setting[1]}"][part], PART_COLOURS[variant]
        centre, error = sample.mean(axis=1), 2 * sample.std(axis=1) / np.sqrt(sample.shape[1])
        x = np.maximum(np.array(DISTANCES), 0.5)
        last = len(DISTANCES)
        axis.fill_between(x, (centre - error)[:last], (centre + error)[:last], color=colour, alpha=0.2, lw=0)
        axis.plot(x, centre[:last], "o-", color=colour, ms=3.4, lw=1.5)
        axis.plot([x[-1], slope_at], centre[last - 1 : last + 1], color=colour, lw=1, ls=":")
        axis.plot(slope_at, centre[last], "D", color=colour, ms=4.5)
    set_log_scale(axis, y=False)
    axis.set_xlim(0.42, slope_at * 1.5)
    set_ticks(axis.xaxis, (0.5, 1, 2, 5, 10, 20, 50, 100, slope_at))
    axis.set_xticklabels(["0", "1", "2", "5", "10", "20", "50", "100", "slope"])


def _variances(axis: Any, data: Data, setting: Setting) -> None:
    _probed(axis, data, setting, "along", slope_at=260.0)
    axis.axhline(0, color=INK, lw=0.8)
    axis.axhline(-MATCHES[setting].ngd / 2, color=PART_COLOURS["ngd"], lw=1.3, ls=DASHES)
    add_label(
        axis, 0.5, -MATCHES[setting].ngd / 2, "exact volume cost: at every distance", PART_COLOURS["ngd"], xytext=(0, 8)
    )
    tidy(
        axis,
        f"Change of the variance downhill\nin one iteration, n = {setting[1]}",
        x="distance of a sphere's optimum, in σ",
    )


def _mean_steps(axis: Any, data: Data, setting: Setting) -> None:
    _probed(axis, data, setting, "step", slope_at=260.0)
    axis.set_ylim(-0.05, None)
    tidy(axis, f"Step of the mean downhill,\nin σ, n = {setting[1]}", x="distance of a sphere's optimum, in σ")
    handles = [
        Line2D([], [], color=PART_COLOURS[one], marker="o", ms=4, label=PART_NAMES[one])
        for one in ("rank-mu", "mixed", "ngd")
    ]
    axis.legend(handles=handles, frameon=False, fontsize=8.5, loc="center right")


def _parts(axis: Any, data: Data) -> None:
    found = results(data)
    shown = [problem for problem in DISSECTED if (problem, "mixed", SMALL) in found]
    if not shown:
        axis.set_axis_off()
        axis.text(
            0.5, 0.5, "one part at a time:\nin the full study", ha="center", color=FAINT, transform=axis.transAxes
        )
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
    handles = [Line2D([], [], color=PART_COLOURS[one], marker="o", ls="", ms=5, label=PART_NAMES[one]) for one in PARTS]
    axis.legend(handles=handles, frameon=True, framealpha=1, edgecolor="none", fontsize=8, loc="upper right")
    axis.set_ylim(-0.5, len(shown) - 0.5)
    tidy(axis, f"One part at a time: evaluations\nfor a success, n = {SMALL[1]}  (× none)")
    axis.grid(visible=False, axis="y")
