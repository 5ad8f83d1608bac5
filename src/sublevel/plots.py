# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Pictures of a run. They need matplotlib: `pip install 'sublevel[plot]'`.

>>> import sublevel as sl
>>> result = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1)
>>> result.plot("run.png")  # doctest: +SKIP
>>> sl.plots.correlation(result, "correlation.png")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array
from sublevel.record import History, Trace
from sublevel.space import exp_where, log_where

INK, FAINT, GRID = "#22262b", "#6b727b", "#e4e6e9"
BLUE, ORANGE, GREEN, VIOLET = "#1f77b4", "#c2410c", "#1b9a6c", "#4b2e83"
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
}
WIDE = 30
"""Letters of names that a row of labels below a panel holds."""
NAMED = 12
"""Up to so many curves are named one by one."""
ACROSS = 70
"""Points of the grid on which contour lines are found, in each direction."""
EARLY = 1.5
"""Frames of an animation lie denser in the beginning, where more happens: this is the exponent."""
CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 181)), np.sin(np.linspace(0, 2 * np.pi, 181))])
"""Points of the unit circle (2, 181)."""


def convergence(run: Any, file: str | Path | None = None) -> Any:
    """The four panels, against evaluations, of a result or history: values, step size and axis ratio; mean; principal axes; deviations.

    Written to `file` if there is one, else on a pyplot figure. Returns the axes (2, 2).
    """
    import matplotlib as mpl

    history = _history(run)
    trace = history.trace()
    with mpl.rc_context(STYLE):
        figure = new_figure(file, (11.0, 7.4))
        axes = figure.subplots(2, 2, sharex=True)
        free, names = history.free, history.names
        colours = _colours(len(names))  # of a variable, in all panels
        _values_panel(axes[0, 0], history, trace)
        _curves(axes[0, 1], trace, log_where(history.is_log, trace.mean), "mean", names, colours)
        _curves(axes[1, 0], trace, trace.axes, "standard deviations along the principal axes", [], [VIOLET] * free.size, log=True)
        own_names, own_colours = [names[i] for i in free], [colours[i] for i in free]
        _curves(axes[1, 1], trace, trace.deviations, "standard deviations of the variables", own_names, own_colours, log=True)
        for axis in axes.flat:
            _mark_restarts(axis, trace)
        for axis in axes[1]:
            axis.set_xlabel("evaluations")
        finish(figure, file)
    return axes


def correlation(run: Any, file: str | Path | None = None) -> Any:
    """How the variables hang together in the search distribution of a result or history, where the best run ended. Returns the axes."""
    import matplotlib as mpl

    history = _history(run)
    cov, names = history.theta_of_best.cov, [history.names[i] for i in history.free]
    deviations = np.sqrt(np.diagonal(cov))
    matrix = cov / deviations / deviations[:, None]
    with mpl.rc_context(STYLE):
        size = float(np.clip(2.2 + 0.5 * len(names), 3.6, 9.0))
        figure = new_figure(file, (size + 0.8, size), "compressed")
        axis = figure.subplots()
        matrix_panel(axis, matrix, names, "correlations in the search distribution")
        finish(figure, file)
    return axis


def matrix_panel(axis: Any, matrix: Array, names: list[str], title: str) -> None:
    """Correlations (k, k) as colours, with names and numbers if there are few."""
    image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")  # squares would be laid out before their labels
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    if len(names) <= 2 * NAMED:
        slant = {"rotation": 90} if len(names) > 6 else {"rotation": 30, "ha": "right"} if sum(map(len, names)) > WIDE else {}
        axis.set_xticks(range(len(names)), names, **slant)
        axis.set_yticks(range(len(names)), names)
    if len(names) <= NAMED:
        for (row, column), value in np.ndenumerate(matrix):
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if abs(value) > 0.6 else INK, fontsize=8)
    axis.set_title(title)
    axis.figure.colorbar(image, ax=axis, fraction=0.046, pad=0.04).outline.set_visible(False)


def animate(
    fun: Callable[[Array], Any],
    run: Any,
    file: str | Path | None = None,
    *,
    variables: tuple[int, int] = (0, 1),
    vectorized: bool = False,
    frames: int = 60,
    fps: int = 6,
) -> Any:
    """The search distribution over the contour lines of `fun`, in the plane of two variables through the best point of a result or history.

    Two views: one that stands still, one that goes with the distribution. Contour lines are spaced by rank, as the search sees f.
    Log-scaled variables are shown by their logarithm. `fun` is evaluated at 4900 points for the view that stands still and at 4900 for each
    frame, fewer where a view reaches beyond the bounds; a frame that is shown again costs nothing. Saved as a GIF if there is a `file`.
    Returns the matplotlib animation, which evaluates as it is drawn.
    """
    import matplotlib as mpl
    from matplotlib.animation import FuncAnimation, PillowWriter

    history = _history(run)
    through = history.trace().mean[-1] if isinstance(run, History) else run.x
    plane = _Plane(history, fun, through, variables, vectorized)
    moments = np.linspace(0.0, 1.0, frames) ** EARLY * (len(history.snapshots) - 1)
    chosen = np.unique(moments.round().astype(int))
    with mpl.rc_context(STYLE):
        figure = new_figure(file, (8.4, 4.5), None)
        axes = figure.subplots(1, 2, gridspec_kw={"left": 0.09, "right": 0.99, "bottom": 0.11, "top": 0.92, "wspace": 0.08})
        plane.show_contours(axes[0], plane.whole_view())

        def draw(frame: int) -> None:
            plane.draw(axes, int(chosen[frame]))

        animation = FuncAnimation(figure, draw, frames=len(chosen), init_func=lambda: None, interval=1000 / fps)
        if file is not None:
            animation.save(file, writer=PillowWriter(fps=fps), dpi=80)
    return animation


def _history(run: Any) -> History:
    return run if isinstance(run, History) else run.history


def new_figure(file: str | Path | None, size: tuple[float, float], layout: Any = "constrained") -> Any:
    """A figure of pyplot's, which a screen can show; one that nobody else holds if it goes to a file."""
    if file is None:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout=layout)
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout=layout)


def finish(figure: Any, file: str | Path | None) -> None:
    """Write the figure to the file if there is one."""
    if file is not None:
        figure.savefig(file, dpi=130, facecolor="white")


def _values_panel(axis: Any, history: History, trace: Trace) -> None:
    """Values of f, step size and axis ratio."""
    columns = history.arrays()
    nfev, best, every = columns["nfev"], columns["best"], columns["generation_best"]
    finite = every[np.isfinite(every)]
    lowest = float(finite.min()) if finite.size else 0.0
    is_plain = lowest > 0 and lowest < 1e-3 * float(finite[0])
    floor, label = (0.0, "f") if is_plain else (lowest, f"f {'−' if lowest >= 0 else '+'} {abs(lowest):.6g}")
    for run in history.runs:
        axis.plot(nfev[run.rows], _positive(every[run.rows] - floor), color=BLUE, lw=0.6, alpha=0.45)
    axis.plot(nfev, _positive(best - floor), color=BLUE, lw=1.8, label=label)
    _broken(axis, trace, trace.sigma, color=GREEN, lw=1.5, label="step size σ")
    _broken(axis, trace, trace.axis_ratio, color=ORANGE, lw=1.5, label="axis ratio")
    tidy(axis, log=True)
    axis.legend(ncols=3, loc="lower left", bbox_to_anchor=(-0.01, 0.99), handlelength=1.4, borderaxespad=0.0)


def _positive(values: Array) -> Array:
    """Values that a logarithmic axis can show; NaN elsewhere."""
    with np.errstate(invalid="ignore"):
        return np.where((values > 0) & (values < np.inf), values, np.nan)


def _curves(axis: Any, trace: Trace, columns: Array, title: str, names: list[str], colours: list[Any], log: bool = False) -> None:
    """A curve for each column (s, k), in its colour, named at its end if there are few."""
    for column, colour in zip(columns.T, colours, strict=True):
        _broken(axis, trace, column, color=colour, lw=1.3)
    tidy(axis, log)
    if len(names) > NAMED:
        title += f", {names[0]} dark … {names[-1]} light"
    elif names:
        _name_ends(axis, columns[-1], names, colours)
    axis.set_title(title)


def _colours(count: int) -> list[Any]:
    import matplotlib as mpl

    if count <= 10:
        return [f"C{i}" for i in range(count)]
    return list(mpl.colormaps["viridis"](np.linspace(0, 0.95, count)))


def _segments(trace: Trace) -> Iterator[slice]:
    """The snapshots of one run after the other."""
    cuts = [0, *(np.flatnonzero(np.diff(trace.run)) + 1).tolist(), trace.run.size]
    yield from (slice(begin, end) for begin, end in pairwise(cuts))


def _broken(axis: Any, trace: Trace, column: Array, label: str | None = None, **style: Any) -> None:
    """A curve that ends with each run."""
    for part in _segments(trace):
        axis.plot(trace.nfev[part], column[part], label=label, **style)
        label = None


def _mark_restarts(axis: Any, trace: Trace) -> None:
    begins = [trace.nfev[part.start] for part in _segments(trace)][1:]
    for nfev in begins if len(begins) <= 30 else []:
        axis.axvline(nfev, color=GRID, lw=0.8, zorder=0)


def tidy(axis: Any, log: bool) -> None:
    """A grid behind the curves, and little room beside them."""
    if log:
        axis.set_yscale("log")
    axis.grid(True, color=GRID, lw=0.6)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)


def _name_ends(axis: Any, ends: Array, names: list[str], colours: list[Any]) -> None:
    """Names at the right of the curves' ends, moved apart where they would overlap."""
    axis.get_ylim()  # settles the limits
    to_axis = axis.transData + axis.transAxes.inverted()
    wanted = to_axis.transform(np.column_stack([np.ones(ends.size), ends]))[:, 1]
    for place, name, colour in zip(_apart(wanted, 0.055), names, colours, strict=True):
        axis.annotate(
            name, (1.0, place), xycoords="axes fraction", xytext=(3, 0), textcoords="offset points", va="center", color=colour, fontsize=8.5
        )


def _apart(wanted: Array, gap: float) -> Array:
    """Places near the wanted ones (n,) in [0, 1], at least `gap` from each other: the least squares, by pooling what is too close."""
    order, pools = np.argsort(wanted), list[list[float]]()
    for rank, place in enumerate(wanted[order]):
        pools.append([float(place) - gap * rank])
        while len(pools) > 1 and np.mean(pools[-2]) >= np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    places = np.empty(wanted.size)
    places[order] = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools]) + gap * np.arange(wanted.size)
    return places + max(-places.min(), 0.0) - max(places.max() - 1.0, 0.0)


class _Plane:
    """The plane of two variables through a point, with the search distribution in it. Its coordinates are logarithms of log-scaled ones."""

    def __init__(self, history: History, fun: Callable[[Array], Any], through: Array, variables: tuple[int, int], vectorized: bool) -> None:
        self.history, self.fun, self.vectorized = history, fun, vectorized
        self.trace = history.trace()
        free = history.free
        if len(set(variables)) != 2 or not {*variables} <= {*free.tolist()}:
            raise ValueError(f"`variables` must be two different ones of those that are searched, {free.tolist()}, got {variables!r}.")
        self.pair = list(variables)  # as the user counts
        self.searched = np.searchsorted(free, self.pair)  # as the search does
        self.through = log_where(history.is_log, through)  # (d,)
        self.means = log_where(history.is_log, self.trace.mean)[:, self.pair]  # (s, 2)
        self.names = [history.names[i] for i in self.pair]
        self.shown: list[Any] = []
        self.seen: dict[bytes, Array] = {}  # values in views

    def ellipse(self, index: int, radius: float) -> Array:
        """Where the distribution of a snapshot has that many standard deviations in the plane (2, 181), bent as the bounds bend it."""
        theta = self.history.snapshots[index].theta
        u = np.repeat(theta.mean[None], CIRCLE.shape[1], axis=0)
        root = np.linalg.cholesky(_scaled(theta.cov[np.ix_(self.searched, self.searched)]))
        u[:, self.searched] += radius * (theta.deviations[self.searched, None] * (root @ CIRCLE)).T
        points = u if self.history.space is None else log_where(self.history.is_log, self.history.space.points(u))
        return points[:, self.pair].T

    def whole_view(self) -> Array:
        """Ends (2, 2) of a view in which all means, the best point and the first ellipse have room."""
        ends = np.concatenate([self.means.T, self.through[self.pair][:, None], self.ellipse(0, 2.0)], axis=1)
        low, high = ends.min(axis=1), ends.max(axis=1)
        return self.view(0.5 * (low + high), 0.6 * (high - low))

    def near_view(self, index: int) -> Array:
        """Ends (2, 2) of a view around a snapshot's distribution."""
        return self.view(self.means[index], 1.6 * np.ptp(self.ellipse(index, 1.0), axis=1))

    def view(self, middle: Array, reach: Array) -> Array:
        """Ends (2, 2) that lie as far from the middle (2,) as asked, with the proportions that the initial deviations have."""
        initial = self.trace.deviations[0][self.searched]
        return middle[:, None] + np.max(reach / initial) * initial[:, None] * [-1, 1]

    def show_contours(self, axis: Any, ends: Array) -> None:
        """Contour lines at ranks of the values in the view."""
        across, up = (np.linspace(low, high, ACROSS) for low, high in ends.tolist())
        values = self.values(across, up)
        usable = values[np.isfinite(values)]
        levels = np.unique(np.quantile(usable, np.linspace(0.0, 1.0, 13) ** 1.5)) if usable.size else usable
        if levels.size > 1:
            grid = np.where(np.isfinite(values), values, np.nan)
            axis.contourf(across, up, grid, levels=levels, cmap="Blues_r", alpha=0.55, norm=_by_rank(levels))
            axis.contour(across, up, grid, levels=levels, colors=FAINT, linewidths=0.5)
        axis.set(xlim=ends[0], ylim=ends[1], box_aspect=1)

    def values(self, across: Array, up: Array) -> Array:
        """Values (m, n) on the grid of n coordinates across and m up, NaN beyond the bounds. Each grid is evaluated once."""
        view = across.tobytes() + up.tobytes()
        if view not in self.seen:
            grid = np.tile(self.through, (across.size * up.size, 1))
            grid[:, self.pair] = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
            points = exp_where(self.history.is_log, grid)
            inside = self.is_inside(points)
            values = np.full(len(points), np.nan)
            values[inside] = self.fun(points[inside]) if self.vectorized else [self.fun(point) for point in points[inside]]
            self.seen[view] = values.reshape(up.size, across.size)
        return self.seen[view]

    def is_inside(self, points: Array) -> NDArray[np.bool_]:
        """Which of the user's points (n, d) the search could ask for: inside the bounds, and positive where a variable is log-scaled."""
        space = self.history.space
        lower, upper = (-np.inf, np.inf) if space is None else space.box
        possible = np.isfinite(points) & (points >= lower) & (points <= upper) & ((points > 0) | ~self.history.is_log)
        return np.all(possible, axis=1)

    def draw(self, axes: Any, index: int) -> None:
        """One frame."""
        for artist in self.shown:
            artist.remove()
        axes[1].clear()
        ends = self.near_view(index)
        self.show_contours(axes[1], ends)
        axes[1].tick_params(length=0, labelleft=False, labelbottom=False)
        same_run = (self.trace.run == self.trace.run[index]) & (np.arange(self.trace.run.size) <= index)
        self.shown = axes[0].plot(*self.means[same_run].T, color=ORANGE, lw=0.9, marker="o", ms=1.8)
        axes[1].plot(*self.means[index], color=ORANGE, marker="o", ms=3.5)
        for radius, width in ((1.0, 2.0), (2.0, 1.0)):
            for axis in axes:
                self.shown += axis.plot(*self.ellipse(index, radius), color=ORANGE, lw=width, scalex=False, scaley=False)
        closer = np.ptp(axes[0].get_xlim()) / np.ptp(ends[0])
        axes[0].set(title=f"{self.trace.nfev[index]} evaluations", xlabel=self.names[0], ylabel=self.names[1])
        axes[1].set_title(f"{closer:.3g} times as large" if closer < 1000 else f"{closer:.1e} times as large")


def _scaled(cov: Array) -> Array:
    """The correlation matrix (2, 2), kept away from degeneracy by rounding."""
    deviations = np.sqrt(np.diagonal(cov))
    return cov / deviations / deviations[:, None] + 1e-12 * np.eye(2)


def _by_rank(levels: Array) -> Any:
    from matplotlib.colors import BoundaryNorm

    return BoundaryNorm(levels, 256)
