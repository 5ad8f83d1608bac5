# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The figures of the paper, in its layout, with the theoretical curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from sublevel.engine.families import FullGaussian
from sublevel.paper.drawing import DASHES, METHOD_COLOURS, SIZE_COLOURS, empty_figure, save_figure, tidy
from sublevel.paper.figures.config import (
    CONDITION,
    FAR,
    RATES,
    TARGET,
    Setting,
    figure_settings,
    hessian_diagonal,
    matched_rates,
    sample_size,
)
from sublevel.paper.figures.results import Result, Results
from sublevel.paper.theory.curves import Curves, predicted_curves
from sublevel.plots.style import FAINT, INK

METHOD_NAMES = {"ngd": "NGD", "rank-mu": "rank-µ CMA-ES"}
SIZE_NAMES = ("⌈√d⌉", "d", "⌈d³ᐟ²⌉", "d²", "⌈d⁵ᐟ²⌉", "d³")
FAR_DASHES = (0, (1.2, 1.1))
COND_LABEL = r"$\mathrm{Cond}(C^tA)$"
EXPECTED_LABEL = r"$m^\mathrm{T}\!Am + \mathrm{Tr}(CA)$"
HEADROOM = 1e8
"""Upper limit of the panels of the condition number, which the curves of failed trials exceed."""

FAILURES_SHOWN = 8
"""Failed trials drawn individually; their number is written beside them."""
POINTS = 300
"""Points of a curve."""


def figure_1(results: Results, d: int) -> Figure:
    """Condition number for three rates and all sample sizes, and the expected objective for the smallest rate."""
    figure, axes = _panels(4, 1, (7.2, 12.4), sharex=True)
    colours = dict(zip((sample_size(power, d) for power in range(1, 7)), SIZE_COLOURS, strict=True))
    for axis, rate in zip(axes[:3, 0], RATES, strict=True):
        runs = [results[s] for s in figure_settings(1, d) if s.c_cov == rate]
        for run in runs:
            _trace(axis, run, "cond", colours[run.setting.n])
        _theory(axis, rate, d, "cond")
        _condition_axis(axis, f"$c_C = {rate}$", top=HEADROOM if any(run.failed for run in runs) else 3 * CONDITION)
        _name_failures(axis, runs, colours)
    for n, colour in colours.items():
        _trace(axes[3, 0], results[Setting("ngd", n, 0.1, 0.0, d)], "expected", colour)
    _theory(axes[3, 0], 0.1, d, "expected")
    _expected_axis(axes[3, 0], "$c_C = 0.1$")
    axes[3, 0].set_xlabel("iteration $t$")
    _legend(figure, [*_size_handles(colours, SIZE_NAMES), _theory_handle(), _failure_handle(results)], columns=4)
    return figure


def figure_2(results: Results, d: int) -> Figure:
    """Condition number for means at the optimum and far from it."""
    figure, axes = _panels(1, 1, (7.2, 4.6))
    colours = dict(zip((sample_size(power, d) for power in (2, 4, 6)), SIZE_COLOURS[1::2], strict=True))
    runs = [results[s] for s in figure_settings(2, d)]
    for run in runs:
        _trace(axes[0, 0], run, "cond", colours[run.setting.n], _dashes(run.setting))
    _theory(axes[0, 0], 0.1, d, "cond")
    _condition_axis(axes[0, 0], "$c_C = 0.1$", top=3 * CONDITION)
    axes[0, 0].set_xlabel("iteration $t$")
    sizes = _size_handles(colours, SIZE_NAMES[1::2])
    meanings = [*_start_handles(), _theory_handle()]
    _legend(figure, [handle for pair in zip(sizes, meanings, strict=True) for handle in pair], columns=3)
    return figure


def figure_3(results: Results, d: int) -> Figure:
    """NGD against rank-µ CMA-ES: condition number above, expected objective below."""
    figure, axes = _panels(2, 2, (9.6, 7.0), sharex="col", sharey="row")
    for column, (n, rate) in enumerate(matched_rates(d)):
        runs = [results[s] for s in figure_settings(3, d) if s.n == n]
        for run in runs:
            for row, name in enumerate(("cond", "expected")):
                _trace(axes[row, column], run, name, METHOD_COLOURS[run.setting.method], _dashes(run.setting))
        for row, name in enumerate(("cond", "expected")):
            _theory(axes[row, column], rate, d, name)
        title = f"$n = {'d' if column == 0 else 'd^2'} = {n}$,  $c_C = {rate}$"
        _condition_axis(axes[0, column], title, top=20 * CONDITION)
        _expected_axis(axes[1, column], title)
        axes[1, column].set_xlabel("iteration $t$")
    for axis in axes[:, 1]:
        axis.set_ylabel("")
    methods = [Line2D([], [], color=METHOD_COLOURS[m], lw=2, label=METHOD_NAMES[m]) for m in METHOD_COLOURS]
    _legend(figure, [*methods, *_start_handles(), _theory_handle("theory of NGD, m⁰ = 0")], columns=5)
    return figure


FIGURES: dict[int, Callable[[Results, int], Figure]] = {1: figure_1, 2: figure_2, 3: figure_3}


def draw_figures(figures: Iterable[int], results: Results, d: int, directory: Path) -> dict[int, Path]:
    """Draw figures into PNG and SVG files; returns the SVG files by figure."""
    return {
        number: save_figure(lambda number=number: FIGURES[number](results, d), directory / f"figure-{number}")
        for number in figures
    }


def _panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Figure, Any]:
    figure = empty_figure(size)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def _trace(axis: Any, run: Result, name: str, colour: str, dashes: Any = "-") -> None:
    """Mean and one standard deviation over the trials that reached the target, a dot at the end; failed trials as
    dotted lines.
    """
    times, mean, std = _thin(*run.curve(name))
    if times.size:
        floor = 1.0 if name == "cond" else 1e-3 * mean
        axis.fill_between(times, np.maximum(mean - std, floor), mean + std, color=colour, alpha=0.18, lw=0)
        axis.plot(times, mean, color=colour, lw=1.6, ls=dashes)
        axis.plot(
            run.mean("iterations"), run.mean(f"final_{name}"), "o", color=colour, ms=4.5, mec="white", mew=0.8, zorder=5
        )
    for curve in run.arrays[name][~run.reached][:FAILURES_SHOWN]:
        times, curve = _thin(run.arrays["times"], curve)
        axis.plot(times, curve, color=colour, lw=0.7, ls=":", alpha=0.8)


def _thin(times: Any, *curves: Any) -> tuple[Any, ...]:
    """About `POINTS` points, evenly spaced on a logarithmic axis, from t = 1 on."""
    if times.size < 2:
        return times, *curves
    wanted = np.unique(np.searchsorted(times, np.geomspace(1, times[-1], POINTS)))
    return times[wanted], *(curve[wanted] for curve in curves)


def _theory(axis: Any, rate: float, d: int, name: str) -> None:
    """The deterministic algorithm from m⁰ = 0 at the rate c_C, until its expected objective reaches the target."""
    curves = deterministic(rate, d)
    curve = {"cond": curves.condition, "expected": curves.expected}[name]
    length = int(np.argmax(curves.expected <= TARGET)) + 1
    axis.plot(np.arange(1, length), curve[1:length], color=INK, lw=1.3, ls=DASHES, zorder=4)


def deterministic(rate: float, d: int) -> Curves:
    """Theoretical curves of NGD from m⁰ = 0 at the rate c_C."""
    theta = FullGaussian.start(np.zeros(d), np.ones(d))
    steps = int(np.log(CONDITION**4 / TARGET) / (rate / 2))  # an upper bound: E f decreases by 1 − α asymptotically
    return predicted_curves(theta, np.diag(np.sqrt(hessian_diagonal(d))), alpha=rate / 2, alpha_mean=1.0, steps=steps)


def _condition_axis(axis: Any, title: str, top: float) -> None:
    _log_axes(axis, title)
    axis.set_ylabel(COND_LABEL)
    axis.set_ylim(0.8, top)


def _expected_axis(axis: Any, title: str) -> None:
    _log_axes(axis, title)
    axis.set_ylabel(EXPECTED_LABEL)
    axis.axhline(TARGET, color=FAINT, lw=0.8, zorder=0)
    axis.set_ylim(TARGET / 10, None)


def _log_axes(axis: Any, title: str) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(1, None)
    axis.yaxis.set_major_locator(LogLocator(numticks=12))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.minorticks_off()
    tidy(axis, title)


def _name_failures(axis: Any, runs: list[Result], colours: Mapping[int, str]) -> None:
    """Write the number of failed trials, in the colour of their curves."""
    for line, run in enumerate(run for run in reversed(runs) if run.failed):
        text = f"n = {run.setting.n}: {run.failed} of {run.trials} failed"
        axis.text(
            0.99,
            0.05 + 0.085 * line,
            text,
            transform=axis.transAxes,
            color=colours[run.setting.n],
            fontsize=8.5,
            ha="right",
        )


def _dashes(setting: Setting) -> Any:
    return "-" if setting.start == 0 else FAR_DASHES


def _size_handles(colours: Mapping[int, str], names: Iterable[str]) -> list[Line2D]:
    pairs = zip(colours.items(), names, strict=True)
    return [Line2D([], [], color=colour, lw=2, label=f"n = {name} = {n}") for (n, colour), name in pairs]


def _start_handles() -> list[Line2D]:
    return [
        Line2D([], [], color=FAINT, lw=2, ls="-", label="m⁰ = (0, …, 0)"),
        Line2D([], [], color=FAINT, lw=2, ls=FAR_DASHES, label=f"m⁰ = ({FAR:g}, …, {FAR:g})"),
    ]


def _theory_handle(label: str = "theory") -> Line2D:
    return Line2D([], [], color=INK, lw=1.3, ls=DASHES, label=label)


def _failure_handle(results: Results) -> Line2D:
    kinds = sorted({kind for run in results.values() for kind in run.failures})
    return Line2D([], [], color=FAINT, lw=1, ls=":", label=f"failed ({', '.join(kinds)})" if kinds else "failed (none)")


def _legend(figure: Figure, handles: list[Line2D], columns: int) -> None:
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=2.2, fontsize=9)
