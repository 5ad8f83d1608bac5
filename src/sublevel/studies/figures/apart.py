# pyright: reportUnknownMemberType=false
"""The picture of `apart`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sublevel.experiments.draw import FAINT, GRID, INK, METHOD_COLOURS
from sublevel.studies.apart import DISSECTED, DISTANCES, PARTS, Comparison, comparisons, results
from sublevel.studies.common import Data
from sublevel.studies.contenders import MATCHES, SIZES
from sublevel.studies.figures.drawing import DASHES, blank, label, logarithmic, ticks, tidy
from sublevel.studies.problems import PROBLEMS

EDGE = 30.0
"""Ratios beyond are drawn at the edge."""
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
GAP = 0.17
"""Between the two sample sizes, and the two methods, in a row."""


def figure(data: Data) -> Figure:
    """Above, problem by problem; below, why."""
    found = comparisons(data)
    sizes = sorted({one.n for one in found})
    drawing = blank((12.6, 11.2))
    upper, lower = drawing.subfigures(2, 1, height_ratios=(1.5, 1))
    columns = upper.subplots(1, 1 + len(sizes), sharey=True, width_ratios=(2.4, *(1 for _ in sizes)))
    rows = {problem: len(PROBLEMS) - number for number, problem in enumerate(PROBLEMS)}
    _ratios(columns[0], found, rows)
    for axis, n in zip(columns[1:], sizes, strict=True):
        _successes(axis, [one for one in found if one.n == n], rows, n)
    panels = lower.subplots(1, 3, width_ratios=(1, 1, 1.35))
    _variances(panels[0], data, sizes[0])
    _mean_steps(panels[1], data, sizes[0])
    _parts(panels[2], data, sizes[0])
    return drawing


def _ratios(axis: Any, found: list[Comparison], rows: dict[str, int]) -> None:
    axis.axvline(1, color=INK, lw=1)
    axis.axvspan(1 / 1.1, 1.1, color=GRID, alpha=0.6, lw=0)
    for one in found:
        y = rows[one.problem] + (GAP if one.n == min(SIZES) else -GAP)
        _ratio(axis, one, y)
    logarithmic(axis, y=False)
    axis.set_xlim(0.03, EDGE * 1.6)
    ticks(axis.xaxis, (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
    axis.set_yticks(list(rows.values()), list(rows), color=INK, fontsize=10)
    axis.set_ylim(0.3, len(rows) + 0.7)
    tidy(axis, "Evaluations for a success, NGD over rank-µ (95 % interval)", x="← NGD needs less            NGD needs more →")
    handles = [
        Line2D([], [], color=INK, marker="o", ls="", ms=5.5, label=f"n = d = {SIZES[0]}"),
        Line2D([], [], color=INK, marker="s", ls="", ms=5, mfc="white", label=f"n = d² = {SIZES[1]}"),
        Line2D([], [], color=INK, marker=">", ls="", ms=6, label="NGD never succeeds"),
        Line2D([], [], color=INK, marker="<", ls="", ms=6, label="rank-µ never does"),
    ]
    axis.legend(handles=handles, frameon=True, framealpha=1, edgecolor="none", fontsize=8.5, loc="upper left")


def _ratio(axis: Any, one: Comparison, y: float) -> None:
    colour, first = VERDICT_COLOURS[one.verdict], one.n == min(SIZES)
    fill = colour if first else "white"
    if one.verdict == "neither":
        label(axis, 1, y, f"neither succeeds at n = {one.n}", FAINT, xytext=(6, 0), fontsize=8)
        return
    if not 0 < one.ratio.value < np.inf:
        never_ngd = one.ratio.value > 1
        axis.plot(EDGE if never_ngd else 0.04, y, ">" if never_ngd else "<", color=colour, mfc=fill, ms=7)
        return
    low, high = max(one.ratio.low, 0.04), min(one.ratio.high, EDGE)
    axis.plot([low, high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
    axis.plot(one.ratio.value, y, "o" if first else "s", color=colour, mfc=fill, ms=5.5)


def _successes(axis: Any, found: list[Comparison], rows: dict[str, int], n: int) -> None:
    for one in found:
        for result, method, shift in ((one.ngd, "ngd", GAP), (one.rank_mu, "rank-mu", -GAP)):
            y, rate, colour = rows[one.problem] + shift, result.success, METHOD_COLOURS[method]
            axis.plot([100 * rate.low, 100 * rate.high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
            axis.plot(100 * rate.value, y, "o", color=colour, ms=4.8)
    ticks(axis.xaxis, (0, 50, 100), "{:g} %")
    axis.set_xlim(-6, 106)
    tidy(axis, f"Success, n = {n}, $c_C$ = {MATCHES[n].ngd}")
    handles = [Line2D([], [], color=METHOD_COLOURS[m], marker="o", ms=5, label=PART_NAMES[m]) for m in ("ngd", "rank-mu")]
    axis.legend(handles=handles, frameon=True, framealpha=1, edgecolor="none", fontsize=8.5, loc="upper left")


def _probed(axis: Any, data: Data, n: int, part: str, *, slope_at: float) -> None:
    """The mean of single steps against the distance, with two standard errors; the slope stands at the right end."""
    for variant in ("ngd", "mixed", "rank-mu"):
        sample, colour = data[f"probe-{variant}-n{n}"][part], PART_COLOURS[variant]
        centre, error = sample.mean(axis=1), 2 * sample.std(axis=1) / np.sqrt(sample.shape[1])
        x = np.maximum(np.array(DISTANCES), 0.5)
        last = len(DISTANCES)
        axis.fill_between(x, (centre - error)[:last], (centre + error)[:last], color=colour, alpha=0.2, lw=0)
        axis.plot(x, centre[:last], "o-", color=colour, ms=3.4, lw=1.5)
        axis.plot([x[-1], slope_at], centre[last - 1 : last + 1], color=colour, lw=1, ls=":")
        axis.plot(slope_at, centre[last], "D", color=colour, ms=4.5)
    logarithmic(axis, y=False)
    axis.set_xlim(0.42, slope_at * 1.5)
    ticks(axis.xaxis, (0.5, 1, 2, 5, 10, 20, 50, 100, slope_at))
    axis.set_xticklabels(["0", "1", "2", "5", "10", "20", "50", "100", "slope"])


def _variances(axis: Any, data: Data, n: int) -> None:
    _probed(axis, data, n, "along", slope_at=260.0)
    axis.axhline(0, color=INK, lw=0.8)
    axis.axhline(-MATCHES[n].ngd / 2, color=PART_COLOURS["ngd"], lw=1.3, ls=DASHES)
    label(axis, 0.5, -MATCHES[n].ngd / 2, "exact natural gradient", PART_COLOURS["ngd"], xytext=(0, 7))
    tidy(axis, f"Change of the variance downhill\nin one iteration, n = {n}", x="distance of a sphere's optimum, in σ")


def _mean_steps(axis: Any, data: Data, n: int) -> None:
    _probed(axis, data, n, "step", slope_at=260.0)
    axis.set_ylim(-0.05, None)
    tidy(axis, f"Step of the mean downhill,\nin σ, n = {n}", x="distance of a sphere's optimum, in σ")
    handles = [Line2D([], [], color=PART_COLOURS[one], marker="o", ms=4, label=PART_NAMES[one]) for one in ("rank-mu", "mixed", "ngd")]
    axis.legend(handles=handles, frameon=False, fontsize=8.5, loc="upper left")


def _parts(axis: Any, data: Data, n: int) -> None:
    found = results(data)
    shown = [problem for problem in DISSECTED if (problem, "mixed", n) in found]
    if not shown:
        axis.set_axis_off()
        axis.text(0.5, 0.5, "one part at a time:\nin the full study", ha="center", color=FAINT, transform=axis.transAxes)
        return
    for row, problem in enumerate(reversed(shown)):
        for number, variant in enumerate(PARTS):
            rate = found[problem, variant, n].success
            times = found[problem, variant, n].evaluations[found[problem, variant, n].reached]
            y = row + 0.3 - 0.15 * number
            value = np.median(times) if times.size else 2e5
            fill = PART_COLOURS[variant] if rate.value > 0.5 else "white"
            axis.plot(value, y, "o" if times.size else "x", color=PART_COLOURS[variant], mfc=fill, ms=5, mew=1.4)
            if 0 < rate.value < 1:
                label(axis, value, y, f"{100 * rate.value:.0f} %", PART_COLOURS[variant], fontsize=7.5)
    axis.set_yticks(range(len(shown)), list(reversed(shown)), color=INK, fontsize=9)
    logarithmic(axis, y=False)
    handles = [Line2D([], [], color=PART_COLOURS[one], marker="o", ls="", ms=5, label=PART_NAMES[one]) for one in PARTS]
    axis.legend(handles=handles, frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2)
    tidy(axis, f"One part at a time: median evaluations\nof the successful, n = {n}  (× no success)")
