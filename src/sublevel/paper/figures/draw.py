# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The figures of the paper, in its layout, with the theoretical curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import FullGaussian
from sublevel.paper.drawing import DASHES, METHOD_COLOURS, SIZE_COLOURS, empty_figure, legend_handle, save_figure, tidy
from sublevel.paper.figures import config
from sublevel.paper.figures.config import EXPERIMENT, Setting, figure_settings, sample_size
from sublevel.paper.figures.results import Result, Results
from sublevel.paper.theory.curves import Curves, predicted_curves
from sublevel.plots.style import FAINT, INK

METHOD_NAMES = {"ngd": "NGD", "rank-mu": "rank-µ CMA-ES"}
SIZE_NAMES = ("⌈√d⌉", "d", "⌈d³ᐟ²⌉", "d²", "⌈d⁵ᐟ²⌉", "d³")
FAR_DASHES = (0, (1.2, 1.1))
COND_LABEL = r"$\mathrm{Cond}(C^tA)$"
EXPECTED_LABEL = r"$m^\mathrm{T}\!Am + \mathrm{Tr}(CA)$"
HEADROOM, FAILURES_SHOWN, POINTS = 3e8, 8, 300
"""Upper limit of a panel with failed trials, failed trials drawn individually, and points of a curve."""


def figure_1(results: Results, d: int) -> Figure:
    """Condition number for three rates and all sample sizes, and the expected objective for the smallest rate."""
    figure = empty_figure((7.2, 12.4))
    *upper, last = figure.subplots(4, 1, sharex=True)
    colours = dict(zip((sample_size(power, d) for power in range(1, 7)), SIZE_COLOURS, strict=True))
    for axis, rate in zip(upper, EXPERIMENT.rates, strict=True):
        runs = [results[s] for s in figure_settings(1, d) if s.c_cov == rate]
        for run in runs:
            _trace(axis, run, "cond", colours[run.setting.n])
        _theory(axis, rate, d, "cond")
        top = HEADROOM if any(run.failed for run in runs) else 3 * EXPERIMENT.condition
        _condition_axis(axis, f"$c_C = {rate}$", top)
        _name_failures(axis, runs, colours)
    for n, colour in colours.items():
        _trace(last, results[Setting("ngd", n, 0.1, 0.0, d)], "expected", colour)
    _theory(last, 0.1, d, "expected")
    _expected_axis(last, "$c_C = 0.1$")
    last.set_xlabel("iteration $t$")
    _legend(figure, [*_size_handles(colours, SIZE_NAMES), _theory_handle(), _failure_handle(results)], columns=4)
    return figure


def figure_2(results: Results, d: int) -> Figure:
    """Condition number for means at the optimum and far from it."""
    figure = empty_figure((7.2, 4.6))
    axis = figure.subplots()
    colours = dict(zip((sample_size(power, d) for power in (2, 4, 6)), SIZE_COLOURS[1::2], strict=True))
    runs = [results[s] for s in figure_settings(2, d)]
    for run in runs:
        _trace(axis, run, "cond", colours[run.setting.n])
    _theory(axis, 0.1, d, "cond")
    _condition_axis(axis, "$c_C = 0.1$", top=3 * EXPERIMENT.condition)
    axis.set_xlabel("iteration $t$")
    sizes = _size_handles(colours, SIZE_NAMES[1::2])
    meanings = [*_start_handles(), _theory_handle()]
    _legend(figure, [handle for pair in zip(sizes, meanings, strict=True) for handle in pair], columns=3)
    return figure


def figure_3(results: Results, d: int) -> Figure:
    """NGD against rank-µ CMA-ES: condition number above, expected objective below."""
    figure = empty_figure((9.6, 7.0))
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    for (above, below), (n, rate), size in zip(axes.T, config.matched_rates(d), ("d", "d^2"), strict=True):
        runs = [results[s] for s in figure_settings(3, d) if s.n == n]
        for axis, name in ((above, "cond"), (below, "expected")):
            for run in runs:
                _trace(axis, run, name, METHOD_COLOURS[run.setting.method])
            _theory(axis, rate, d, name)
        title = f"$n = {size} = {n}$,  $c_C = {rate}$"
        _condition_axis(above, title, top=20 * EXPERIMENT.condition)
        _expected_axis(below, title)
        below.set_xlabel("iteration $t$")
    for axis in axes[:, 1]:
        axis.set_ylabel("")
    methods = [legend_handle(METHOD_NAMES[m], colour, lw=2) for m, colour in METHOD_COLOURS.items()]
    _legend(figure, [*methods, *_start_handles(), _theory_handle("theory of NGD, m⁰ = 0")], columns=5)
    return figure


FIGURES: dict[int, Callable[[Results, int], Figure]] = {1: figure_1, 2: figure_2, 3: figure_3}


def draw_figures(figures: Iterable[int], results: Results, d: int, directory: Path) -> dict[int, Path]:
    """Draw figures into PNG and SVG files; returns the SVG files by figure."""
    return {
        number: save_figure(lambda number=number: FIGURES[number](results, d), directory / f"figure-{number}")
        for number in figures
    }


def _trace(axis: Axes, run: Result, name: str, colour: str) -> None:
    """Mean ± standard deviation over the trials that reached the target, a dot at the end; failed trials dotted."""
    times, mean, std = _thin(*run.curve(name))
    if times.size:
        floor, end = 1.0 if name == "cond" else 1e-3 * mean, (run.mean("iterations"), run.mean(f"final_{name}"))
        axis.fill_between(times, np.maximum(mean - std, floor), mean + std, color=colour, alpha=0.18, lw=0)
        axis.plot(times, mean, color=colour, lw=1.6, ls="-" if run.setting.start == 0 else FAR_DASHES)
        axis.plot(*end, "o", color=colour, ms=4.5, mec="white", mew=0.8, zorder=5)
    for curve in run.arrays[name][~run.reached][:FAILURES_SHOWN]:
        times, curve = _thin(run.arrays["times"], curve)
        axis.plot(times, curve, color=colour, lw=0.7, ls=":", alpha=0.8)


def _thin(times: NDArray[np.int64], *curves: Array) -> tuple[Array | NDArray[np.int64], ...]:
    """About `POINTS` points, evenly spaced on a logarithmic axis, from t = 1 on."""
    if times.size < 2:
        return times, *curves
    wanted = np.unique(np.searchsorted(times, np.geomspace(1, times[-1], POINTS)))
    return times[wanted], *(curve[wanted] for curve in curves)


def _theory(axis: Axes, rate: float, d: int, name: str) -> None:
    """The deterministic algorithm from m⁰ = 0 at the rate c_C, until its expected objective reaches the target."""
    curves = deterministic(rate, d)
    curve = {"cond": curves.condition, "expected": curves.expected}[name]
    length = int(np.argmax(curves.expected <= EXPERIMENT.target)) + 1
    axis.plot(np.arange(1, length), curve[1:length], color=INK, lw=1.3, ls=DASHES, zorder=4)


def deterministic(rate: float, d: int) -> Curves:
    """Theoretical curves of NGD from m⁰ = 0 at the rate c_C."""
    theta = FullGaussian.start(np.zeros(d), np.ones(d))
    # An upper bound: E f decreases by 1 − α asymptotically.
    steps = int(np.log(EXPERIMENT.condition**4 / EXPERIMENT.target) / (rate / 2))
    root = np.diag(np.sqrt(config.hessian_diagonal(d)))
    return predicted_curves(theta, root, alpha=rate / 2, alpha_mean=1.0, steps=steps)


def _condition_axis(axis: Axes, title: str, top: float) -> None:
    _log_axes(axis, title)
    axis.set_ylabel(COND_LABEL)
    axis.set_ylim(0.8, top)


def _expected_axis(axis: Axes, title: str) -> None:
    _log_axes(axis, title)
    axis.set_ylabel(EXPECTED_LABEL)
    axis.axhline(EXPERIMENT.target, color=FAINT, lw=0.8, zorder=0)
    axis.set_ylim(EXPERIMENT.target / 10, None)


def _log_axes(axis: Axes, title: str) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(1, None)
    axis.yaxis.set_major_locator(LogLocator(numticks=12))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.minorticks_off()
    tidy(axis, title)


def _name_failures(axis: Axes, runs: list[Result], colours: Mapping[int, str]) -> None:
    """Write the number of failed trials above the beginning of all curves, in the colour of those trials."""
    for line, run in enumerate(run for run in runs if run.failed):
        left = run.trials - run.failed
        curve = f", curve of the other {left}" if left else ""
        text, colour = f"n = {run.setting.n}: {run.failed} of {run.trials} failed{curve}", colours[run.setting.n]
        axis.text(0.01, 0.97 - 0.075 * line, text, transform=axis.transAxes, color=colour, fontsize=8.5, va="top")


def _size_handles(colours: Mapping[int, str], names: Iterable[str]) -> list[Line2D]:
    pairs = zip(colours.items(), names, strict=True)
    return [legend_handle(f"n = {name} = {n}", colour, lw=2) for (n, colour), name in pairs]


def _start_handles() -> list[Line2D]:
    starts = ((0.0, "-"), (EXPERIMENT.far, FAR_DASHES))
    return [legend_handle(f"m⁰ = ({start:g}, …, {start:g})", FAINT, lw=2, ls=dashes) for start, dashes in starts]


def _theory_handle(label: str = "theory") -> Line2D:
    return legend_handle(label, lw=1.3, ls=DASHES)


def _failure_handle(results: Results) -> Line2D:
    kinds = sorted({kind for run in results.values() for kind in run.failures}) or ["none"]
    named = ["Cond(CA) > 10¹⁴" if kind == "degenerate" else kind for kind in kinds]
    return legend_handle(f"failed ({', '.join(named)})", FAINT, lw=1, ls=":")


def _legend(figure: Figure, handles: list[Line2D], columns: int) -> None:
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=2.2, fontsize=9)
