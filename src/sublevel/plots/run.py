# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Figures of a run."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.plots import style
from sublevel.plots.style import Colour, Target, label_log, new_figure, short_name, tidy
from sublevel.run.arguments import FileName, Objective
from sublevel.run.history import History, Trace
from sublevel.run.search_space import log_where

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 30
"""Total length of names in a row of horizontal tick labels."""
TITLE_WIDTH = 42
"""Line width of a title, in characters."""
NAMED = 12
"""Largest number of curves that are labelled individually."""
MOST_CURVES = 100
"""Largest number of curves; with more variables, quantiles are drawn."""
QUANTILES = {"smallest": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "largest": 1.0}
"""The quantiles that are drawn for many variables."""
MOST_BARS = 20
"""Largest number of multipliers that are drawn."""
MOST_ROWS = 4000
"""Largest number of generations drawn individually; with more, the extremes of bins are drawn."""
MOST_CORRELATIONS = 1000
"""Largest number of variables in a correlation matrix."""
DIGITS = 7
"""Largest number of digits of a label of f; beyond it, labels are differences from the best value."""
PANEL = (4.9, 3.3)
"""Size of a single panel in inches, legible on a phone."""


class RunLike(Protocol):
    """A `Result`, or another object with a history and its best point."""

    @property
    def history(self) -> History: ...
    @property
    def x(self) -> Array: ...


def convergence(run: RunLike | History, file: Target = None) -> Figure:
    """Draw values, mean, principal axes with step size and axis ratio, and standard deviations against evaluations.

    With integers or choices, a further panel shows the probability of the most probable value of each of them; without
    real variables, the panels of principal axes and standard deviations are left out. With constraints, the violation
    at the best point is drawn until a point is feasible, and a panel shows the multipliers if there are any. With a
    surrogate, a panel shows the agreement of the model and the share of points that were evaluated.

    Parameters
    ----------
    run : Result or History
        The run to draw.
    file : path, optional
        Where to save the figure, as PNG, SVG or PDF by its suffix. By default a pyplot figure is made, which notebooks
        show.

    Returns
    -------
    matplotlib.figure.Figure
        Its ``axes`` are labelled "values", "mean", "axes", "deviations", "discrete", "multipliers" and "model".

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, rng=1)
    >>> figure = sl.plots.convergence(result)
    """
    history = _history(run)
    trace, multipliers = history.trace(), _known_multipliers(run)
    places, size = _layout(_panel_names(history) + (["multipliers"] if multipliers else []))
    with new_figure(file, size) as figure:
        for name, axis in figure.subplot_mosaic(places).items():
            axis.set_label(name)
            if name == "multipliers":
                _multipliers_panel(axis, multipliers)
            else:
                PANELS[name](axis, history, trace)
    return figure


def _known_multipliers(run: RunLike | History) -> dict[str, float]:
    """Multipliers of a result by their place in its lists, without NaN; none of a history."""
    found: list[Array] = (run.get("multipliers") if isinstance(run, Mapping) else None) or []
    return {
        f"[{i}][{j}]": float(value) for i, part in enumerate(found) for j, value in enumerate(part) if value == value
    }


def _multipliers_panel(axis: Axes, multipliers: dict[str, float]) -> None:
    """A bar for each multiplier, or for those with the largest absolute values if there are many."""
    chosen = sorted(multipliers, key=lambda name: -abs(multipliers[name]))[:MOST_BARS]
    names = [name for name in multipliers if name in chosen]
    which = f" (largest {MOST_BARS} of {len(multipliers)})" if len(multipliers) > MOST_BARS else ""
    axis.barh(np.arange(len(names)), [multipliers[name] for name in names], color=style.BLUE, height=0.6)
    axis.set_yticks(np.arange(len(names)), names)
    axis.invert_yaxis()
    axis.axvline(0.0, color=style.GRID, lw=0.8, zorder=0)
    tidy(axis)
    axis.set_title(f"multipliers of the constraints{which}")


def _panel_names(history: History) -> list[str]:
    """The panels that a run has: some are about real, numeric or discrete variables."""
    exists = {
        "mean": history.free.size or not history.discrete.size,
        "axes": bool(history.is_real.any()),
        "deviations": history.free.size,
        "discrete": history.discrete.size,
        "model": "agreement" in history.columns,
    }
    return [name for name in PANELS if exists.get(name, True)]


def _layout(names: list[str]) -> tuple[list[Any], tuple[float, float]]:
    """Panels in rows, and the size of the figure in inches; of five panels the first one is wide."""
    if len(names) <= 2:
        return [names], (11.0, 3.9)
    if len(names) in (4, 6):
        half = len(names) // 2
        return [names[:half], names[half:]], (11.0 if half == 2 else 15.0, 7.4)
    if len(names) == 3:
        return [names], (15.0, 3.9)
    return [[names[0], names[0], names[1]], names[2:]], (15.0, 7.4)


def panel_images(run: RunLike | History, file_format: str = "svg") -> dict[str, bytes]:
    """Draw each panel of `convergence` as a separate figure, for narrow pages. Returns the file contents by label."""
    history, images = _history(run), dict[str, bytes]()
    trace = history.trace()
    for name in _panel_names(history):
        stream = io.BytesIO()
        with new_figure(stream, PANEL, file_format=file_format) as figure:
            PANELS[name](figure.subplots(), history, trace)
        images[name] = stream.getvalue()
    return images


def correlation(run: RunLike | History, file: Target = None, file_format: str | None = None) -> Figure:
    """Draw the correlations of the variables in the search distribution where the best run ended.

    Parameters
    ----------
    run : Result or History
        The run to draw; at most 1000 variables.
    file : path, optional
        Where to save the figure. By default a pyplot figure is made, which notebooks show.
    file_format : str, optional
        The format, such as "svg", if `file` is a stream.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there are more than 1000 variables, or if all of them are choices.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, rng=1)
    >>> figure = sl.plots.correlation(result)
    """
    history = _history(run)
    names = _free_names(history)
    if not names:
        raise ValueError("choices have no correlations in the search distribution, and all variables are choices.")
    if len(names) > MOST_CORRELATIONS:
        raise ValueError(f"the correlations of at most {MOST_CORRELATIONS} variables can be drawn, got {len(names)}.")
    cov = history.theta_of_best.cov
    deviations = np.sqrt(np.diagonal(cov))
    matrix = cov / deviations / deviations[:, None]
    with new_figure(file, matrix_size(names), "compressed", file_format=file_format) as figure:
        matrix_panel(figure.subplots(), matrix, names, "correlations of the search")
    return figure


def matrix_size(names: list[str]) -> tuple[float, float]:
    """Width and height in inches of a correlation matrix with these variable names and its colour bar."""
    size = float(np.clip(1.9 + 0.36 * len(names), 2.8, 6.5))
    letters = max(len(short_name(name)) for name in names) if len(names) <= 2 * NAMED else 0
    return size + 0.9 + 0.05 * max(letters - 6, 0), size


def matrix_panel(axis: Axes, matrix: Array, names: list[str], title: str) -> None:
    """Draw correlations (k, k) as colours, with names and numbers if there are few variables."""
    places = np.arange(len(names))
    # Not an image, which would be rasterised in an SVG
    cells = axis.pcolormesh(places, places, matrix, shading="nearest", cmap="RdBu_r", vmin=-1, vmax=1)
    axis.invert_yaxis()
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, colors=style.FAINT)
    if len(names) <= 2 * NAMED:
        labels = [short_name(name) for name in names]
        is_slanted = len(names) <= 6 and sum(map(len, labels)) > WIDE
        rotation = 90 if len(names) > 6 else 30 * is_slanted
        axis.set_xticks(places, labels, parse_math=False, rotation=rotation, ha="right" if is_slanted else "center")
        axis.set_yticks(places, labels, parse_math=False)
    if len(names) <= NAMED:
        for (row, column), value in np.ndenumerate(matrix):
            colour = "white" if abs(value) > 0.6 else style.INK
            text = "?" if np.isnan(value) else f"{value:.2f}"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    axis.set_title(title)
    bar = axis.figure.colorbar(cells, ax=axis, fraction=0.046, pad=0.04, ticks=[-1, -0.5, 0, 0.5, 1])
    if bar.solids is not None:
        bar.solids.set_rasterized(False)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.FAINT)


def animate(
    fun: Objective | None,
    run: RunLike | History,
    file: FileName | None = None,
    *,
    variables: tuple[int | str, int | str] | None = None,
    vectorized: bool = False,
    frames: int = 60,
    fps: int = 6,
) -> FuncAnimation:
    """Animate the search distribution over contour lines of f, in the plane of two variables through the best point.

    There are two views: a fixed one, and one that follows the distribution. Contour lines are equally spaced in rank,
    because the search depends on ranks only. Log-scaled variables are shown as logarithms.

    Parameters
    ----------
    fun : callable or None
        The objective as it was minimised, for the contour lines: each view evaluates it on a grid of 69 × 69 points, or
        of 35 × 35 or 18 × 18 if all views would otherwise take more than about ten seconds. Nothing outside the bounds
        is evaluated, and no view twice. None draws none.
    run : Result or History
        The run to animate.
    file : path, optional
        Where to save a GIF.
    variables : pair of int or str, optional
        The two variables, by number or name, which must be neither fixed nor choices; the first two such variables by
        default, real ones if there are two. Steps of integers are visible in the contour lines.
    vectorized : bool
        Whether `fun` takes points (n, d) and returns values (n,).
    frames, fps : int
        Maximum number of frames, and frames per second.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        `fun` is evaluated while it is drawn.
    """
    from matplotlib.animation import FuncAnimation, PillowWriter

    from sublevel.plots.animation import Plane, choose_snapshots

    history = _history(run)
    through = history.trace().mean[-1] if isinstance(run, History) else run.x
    chosen = choose_snapshots(len(history.snapshots), frames)
    plane = Plane(history, fun, through, variables, vectorized, views=len(chosen) + 1)
    with new_figure(file, (8.4, 4.5), None) as figure:
        axes = figure.subplots(1, 2)
        figure.subplots_adjust(0.09, 0.11, 0.99, 0.92, 0.08)
        plane.show_contours(axes[0], plane.whole_view())

        def draw(frame: int) -> None:
            plane.draw(axes, int(chosen[frame]))

        animation = FuncAnimation(figure, draw, frames=len(chosen), init_func=lambda: None, interval=1000 / fps)
        if file is not None:
            animation.save(os.fspath(file), writer=PillowWriter(fps=fps), dpi=80)
    return animation


def _history(run: RunLike | History) -> History:
    return run if isinstance(run, History) else run.history


def _free_names(history: History) -> list[str]:
    """Names of the searched variables (k,)."""
    names = history.names
    return [names[i] for i in history.free.tolist()]


def _values_panel(axis: Axes, history: History, trace: Trace) -> None:
    """Best value so far and of each generation. Labels are values of f even if the axis shows differences."""
    columns = history.arrays()
    nfev, best, every = columns["nfev"], columns["best"], columns["generation_best"]
    finite = every[np.isfinite(every)]
    lowest = float(finite.min()) if finite.size else 0.0
    is_plain = lowest > 0 and lowest < 1e-3 * float(finite[0])
    floor = 0.0 if is_plain else lowest
    positive = (finite - floor)[finite > floor]
    bottom = 0.3 * float(positive.min()) if positive.size else 0.1  # position of 0 on a logarithmic axis
    for run in history.runs:
        rows = _thin_rows(every[run.rows])
        heights = _clip_to_bottom(every[run.rows][rows] - floor, bottom)
        axis.plot(nfev[run.rows][rows], heights, color=style.BLUE, lw=0.6, alpha=0.45)
    rows = _thin_rows(best)
    marker, heights = "o" if rows.size == 1 else "", _clip_to_bottom(best[rows] - floor, bottom)
    axis.plot(nfev[rows], heights, color=style.BLUE, lw=1.8, label="f", marker=marker, ms=4)
    tidy(axis, log=True)
    if is_plain:
        axis.set_ylabel("f")
        label_log(axis.yaxis)
    else:
        _label_values(axis, floor, bottom)
    found = f"best f = {float(best[-1]):.8g}" if finite.size else "no finite value of f"
    if history.run_of_answer is not None and finite.size:
        found = f"average f = {float(best[-1]):.6g}"
    if "maxcv" in columns:
        _draw_violation(axis, nfev, columns["maxcv"])
    _finish_panel(axis, trace, f"{found} (thin: per generation)")


def _draw_violation(axis: Axes, nfev: Array, violation: Array) -> None:
    """The violation of constraints at the best point, on a scale at the right, until a point is feasible."""
    positive = violation > 0
    if not positive.any():
        return
    other = axis.twinx()
    other.set_label("violation")
    rows = _thin_rows(violation)
    heights = np.where(positive[rows], violation[rows], np.nan)
    other.plot(nfev[rows], heights, color=style.ORANGE, lw=1.3, ls=(0, (4, 1.5)), marker=".", ms=3)
    tidy(other, log=True)
    other.grid(False)
    other.tick_params(axis="y", which="both", colors=style.ORANGE)
    other.set_ylabel("largest violation", color=style.ORANGE)
    label_log(other.yaxis)


def _clip_to_bottom(values: Array, bottom: float) -> Array:
    """Values for a logarithmic axis: at least `bottom`, NaN where not finite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), np.maximum(values, bottom), np.nan)


def _thin_rows(values: Array) -> NDArray[np.intp]:
    """Indices of the values (n,) to draw: all, or the extremes of bins if there are many."""
    if values.size <= MOST_ROWS:
        return np.arange(values.size)
    edges = np.linspace(0, values.size, MOST_ROWS // 2 + 1).astype(int)
    filled = np.where(np.isfinite(values), values, np.inf)
    rows = [low + find(filled[low:high]) for low, high in pairwise(edges.tolist()) for find in (np.argmin, np.argmax)]
    return np.unique([0, *rows, values.size - 1])


def _label_values(axis: Axes, lowest: float, bottom: float) -> None:
    """Label a logarithmic axis of f − lowest with values of f if they have few digits, else with differences."""
    from matplotlib.ticker import LogLocator, NullFormatter

    high = axis.get_ylim()[1]
    axis.set_ylim(0.5 * bottom, high)
    lowest_tick = bottom * max(2.0, (high / bottom) ** 0.06)  # labels need room
    ticks = [
        float(tick) for tick in LogLocator(numticks=8).tick_values(lowest_tick, high) if lowest_tick < tick <= high
    ]
    labels = [f"{lowest:.{DIGITS}g}", *(_value_label(lowest, tick) for tick in ticks)]
    axis.set_yticks([bottom, *ticks], labels)
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_ylabel("f (+: above the best)" if any(label.startswith("+") for label in labels) else "f")


def _value_label(lowest: float, difference: float) -> str:
    """lowest + difference with enough digits to distinguish it from `lowest`; "+1e-09" if that takes too many."""
    value, order = lowest + difference, int(np.floor(np.log10(difference)))
    digits = int(np.floor(np.log10(max(abs(value), difference)))) - order + 2
    if digits > DIGITS:
        return f"+{difference:.0e}"
    return f"{value:.{max(1 - order, 0)}f}" if 1e-3 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _mean_panel(axis: Axes, history: History, trace: Trace) -> None:
    means, numeric = log_where(history.is_log, trace.mean), np.arange(history.is_log.size)
    if history.space is not None:
        numeric = np.setdiff1d(numeric, history.space.choices)
        means = means[:, numeric]
    which = _curves(axis, trace, means, lambda: _names_and_colours(history, numeric))
    _finish_panel(axis, trace, "mean of the search" + which)


def _discrete_panel(axis: Axes, history: History, trace: Trace) -> None:
    """Probability of the most probable value of each integer and choice, which is named at the end."""
    labels, discrete = history.labels, history.discrete

    def ends() -> tuple[list[str], list[Colour]]:
        names, colours = _names_and_colours(history, discrete)
        if len(names) <= NAMED:
            names = [f"{labels.name(i)} = {labels.text(i, trace.mean[-1, i])}" for i in discrete.tolist()]
        return names, colours

    axis.set_ylim(0.0, 1.03)  # before names are written beside the curves
    which = _curves(axis, trace, trace.staying, ends)
    _finish_panel(axis, trace, "probability of the most probable value" + which)


def _model_panel(axis: Axes, history: History, trace: Trace) -> None:
    """Agreement of the model, Kendall's τ, and the share of the points of a generation that were evaluated."""
    nfev, agreement = history["nfev"], history["agreement"]
    popsizes = np.concatenate([np.full(run.rows.stop - run.rows.start, run.popsize) for run in history.runs])
    share = np.minimum(np.diff(nfev, prepend=0.0) / popsizes, 1.0)
    axis.plot(nfev, share, ".", color=style.ORANGE, ms=3.0, label="share of points evaluated")
    axis.plot(nfev, agreement, color=style.GREEN, lw=1.3, label="agreement of the model")
    axis.set_ylim(min(0.0, float(np.min(agreement, initial=0.0))), 1.03)
    axis.legend(frameon=False)
    _finish_panel(axis, trace, "model of the order of values")


def _axes_panel(axis: Axes, history: History, trace: Trace) -> None:
    """Standard deviations along the principal axes, their geometric mean σ, and the longest over the shortest."""
    which = _curves(axis, trace, trace.axes, log=True, lw=0.9, alpha=0.6)
    axis.plot([], [], color=style.VIOLET, lw=0.9, label=f"principal axes{which}")
    _plot_runs(axis, trace, trace.sigma, color=style.GREEN, lw=1.8, label="step size σ")
    label_log(axis.yaxis)
    other = axis.twinx()
    other.set_label("axis ratio")
    _plot_runs(other, trace, trace.axis_ratio, color=style.ORANGE, lw=1.3, ls=(0, (4, 1.5)), label="axis ratio (right)")
    tidy(other, log=True)
    other.grid(False)
    other.tick_params(axis="y", which="both", colors=style.ORANGE)
    other.set_ylim(0.9, max(2.0, other.get_ylim()[1]))
    label_log(other.yaxis)
    handles = [*axis.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    axis.legend(
        handles=handles,
        ncols=2 if which else 3,  # in one row, if there is room
        handlelength=1.4,
        columnspacing=1.0,
        fontsize=9,
        loc="lower left",
        bbox_to_anchor=(-0.02, 0.985),
    )
    _finish_panel(axis, trace, "")


def _deviations_panel(axis: Axes, history: History, trace: Trace) -> None:
    which = _curves(axis, trace, trace.deviations, lambda: _names_and_colours(history, history.free), log=True)
    label_log(axis.yaxis)
    _finish_panel(axis, trace, "standard deviations of the variables" + which)


PANELS: dict[str, Callable[[Axes, History, Trace], None]] = {
    "values": _values_panel,
    "mean": _mean_panel,
    "axes": _axes_panel,
    "deviations": _deviations_panel,
    "discrete": _discrete_panel,
    "model": _model_panel,
}
"""The panels of `convergence` by name; the last two for runs with integers or choices, and with a surrogate."""


def _finish_panel(axis: Axes, trace: Trace, title: str) -> None:
    """Mark restarts, and set title and x label."""
    begins = [float(trace.nfev[part.start]) for part in _segments(trace)][1:]
    for nfev in begins if len(begins) <= 30 else []:
        axis.axvline(nfev, color=style.GRID, lw=0.8, zorder=0)
    axis.set_title(textwrap.fill(title, TITLE_WIDTH), parse_math=False)
    axis.set_xlabel("evaluations")


def _names_and_colours(history: History, variables: NDArray[np.intp]) -> tuple[list[str], list[Colour]]:
    """Names and colours of some variables. A variable has the same colour in all panels."""
    names, colours = history.names, style.colours(history.is_log.size)
    return [names[i] for i in variables.tolist()], [colours[i] for i in variables.tolist()]


def _curves(
    axis: Axes,
    trace: Trace,
    columns: Array,
    describe: Callable[[], tuple[list[str], list[Colour]]] | None = None,
    log: bool = False,
    lw: float = 1.3,
    alpha: float = 1.0,
) -> str:
    """Draw a curve for each column (s, k), or quantiles of many columns. Returns a note for the title.

    `describe` returns names and colours; without it the curves have no names and one colour. It is not called if there
    are many columns.
    """
    which, names, colours = "", list[str](), list[Colour]()
    if columns.shape[1] > MOST_CURVES:
        which = f": quantiles of {columns.shape[1]}"
        columns = np.quantile(columns, list(QUANTILES.values()), axis=1).T
        names, colours = list(QUANTILES), style.colours(len(QUANTILES))
    elif describe is not None:
        names, colours = describe()
    if describe is None:
        names, colours = [], [style.VIOLET] * columns.shape[1]
    for column, colour in zip(columns.T, colours, strict=True):
        _plot_runs(axis, trace, column, color=colour, lw=lw, alpha=alpha)
    tidy(axis, log)
    if len(names) > NAMED:
        which = f", {short_name(names[0])} dark … {short_name(names[-1])} light"
    elif names:
        _name_ends(axis, columns[-1], names, colours)
    return which


def _segments(trace: Trace) -> Iterator[slice]:
    """The snapshots of each run."""
    cuts = [0, *(np.flatnonzero(np.diff(trace.run)) + 1).tolist(), trace.run.size]
    yield from (slice(begin, end) for begin, end in pairwise(cuts))


def _plot_runs(axis: Axes, trace: Trace, column: Array, label: str | None = None, **style: Any) -> None:
    """Draw a curve that is interrupted between runs."""
    for part in _segments(trace):
        axis.plot(trace.nfev[part], column[part], label=label, **style)
        label = None


def _name_ends(axis: Axes, ends: Array, names: list[str], colours: list[Colour]) -> None:
    """Write names to the right of the ends of the curves, moved apart where they would overlap."""
    axis.get_ylim()  # settles the limits
    to_axis = axis.transData + axis.transAxes.inverted()
    wanted = to_axis.transform(np.column_stack([np.ones(ends.size), ends]))[:, 1]
    for place, name, colour in zip(_separate(wanted, 0.065), names, colours, strict=True):
        text = axis.annotate(short_name(name), (1.0, place), (3, 0), "axes fraction", "offset points", va="center")
        text.set(color=colour, fontsize=8.5, parse_math=False)


def _separate(wanted: Array, gap: float) -> Array:
    """Positions in [0, 1], `gap` apart, nearest to the wanted ones (n,) in least squares (pool adjacent violators)."""
    order, pools = np.argsort(wanted), list[list[float]]()
    for rank, place in enumerate(wanted[order]):
        pools.append([float(place) - gap * rank])
        while len(pools) > 1 and np.mean(pools[-2]) >= np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    places = np.empty(wanted.size)
    places[order] = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools]) + gap * np.arange(wanted.size)
    return places + max(-places.min(), 0.0) - max(places.max() - 1.0, 0.0)
