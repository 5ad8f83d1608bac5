# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Frames of an animation: the search distribution over contour lines of f, in the plane of two variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, nearest_integers
from sublevel.evaluation.objective import name_parameters
from sublevel.plots.style import CIRCLE, FAINT, ORANGE, short_name
from sublevel.run.arguments import Objective
from sublevel.run.history import History
from sublevel.run.search_space import exp_where, log_where
from sublevel.summaries import short_repr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FINEST = 69
"""Points of the finest grid in each direction; the coarser grids use every second and every fourth of them."""
COARSEST = 4
"""Stride of the coarsest grid."""
SECONDS = 10.0
"""Time for the evaluations of all views, approximately, above which grids are coarsened."""
MOST_NUMBERS = 1_000_000
"""Largest number of coordinates in memory: with many variables, a grid is evaluated in parts."""
EARLY = 1.5
"""Exponent of the times of frames, which are denser at the beginning."""


def choose_snapshots(count: int, frames: int) -> NDArray[np.int_]:
    """Indices of the snapshots to draw, at most `frames` of `count`."""
    moments = np.linspace(0.0, 1.0, frames) ** EARLY * (count - 1)
    return np.unique(moments.round().astype(int))


def choose_pair(history: History, variables: tuple[int | str, int | str] | None) -> list[int]:
    """Indices of two searched variables that are given by number or name; the first ones by default."""
    free, labels = history.free.tolist(), history.labels
    if variables is None:
        real = history.free[history.is_real[: len(free)]].tolist()
        return real[:2] if len(real) > 1 else _two(free[:2], free, variables)
    by_name = {labels.name(i): i for i in free}
    return _two([by_name.get(one, -1) if isinstance(one, str) else one for one in variables], free, variables)


def _two(pair: list[int], free: list[int], given: object) -> list[int]:
    if len(set(pair)) != 2 or len(pair) != 2 or not {*pair} <= {*free}:
        raise ValueError(
            "`variables` must be two different indices or names of searched variables that are not choices, "
            f"{short_repr(free)}, got {given!r}."
        )
    return pair


class Plane:
    """The plane of two variables through a point. Log-scaled variables are shown as logarithms."""

    def __init__(
        self,
        history: History,
        fun: Objective | None,
        through: Array,
        variables: tuple[int | str, int | str] | None,
        vectorized: bool,
        views: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """The plane through a point (d,); `views` is the number of views that share the time."""
        self.history, self.vectorized, self.views, self.clock = history, vectorized, views, clock
        self.fun = None if fun is None else name_parameters(fun, history.parameters)
        self.trace = history.trace()
        free = history.free
        self.pair = choose_pair(history, variables)  # indices in user coordinates
        self.searched = np.searchsorted(free, self.pair)  # indices in search coordinates
        self.through = log_where(history.is_log, through)  # (d,)
        self.means = log_where(history.is_log, self.trace.mean)[:, self.pair]  # (s, 2)
        names = history.names
        self.names = [short_name(names[i]) for i in self.pair]
        self.visible: list[Line2D] = []
        self.cache: dict[bytes, Array] = {}  # values in views
        self.stride: int | None = None  # of the grids; None until the time of an evaluation is known

    def ellipse(self, index: int, radius: float) -> Array:
        """Points (2, 181) at `radius` standard deviations of the distribution of a snapshot, folded at the bounds."""
        theta = self.history.snapshots[index].theta
        u = np.repeat(theta.center[None], CIRCLE.shape[1], axis=0)
        root = np.linalg.cholesky(theta.correlation(self.searched) + 1e-12 * np.eye(2))  # in spite of rounding
        u[:, self.searched] += radius * (theta.deviations[self.searched, None] * (root @ CIRCLE)).T
        if self.history.space is None:
            return u[:, self.pair].T
        points = log_where(self.history.is_log, self.history.space.points(u))[:, self.pair]
        is_whole = self.history.space.discrete[self.pair]  # integers are not folded, and the ellipse is not rounded
        return np.where(is_whole, u[:, self.searched], points).T

    def whole_view(self) -> Array:
        """Limits (2, 2) of a view with all means, the best point and the first ellipse."""
        ends = np.concatenate([self.means.T, self.through[self.pair][:, None], self.ellipse(0, 2.0)], axis=1)
        low, high = ends.min(axis=1), ends.max(axis=1)
        return self.view(0.5 * (low + high), 0.6 * (high - low))

    def view(self, middle: Array, reach: Array) -> Array:
        """Limits (2, 2) at least `reach` from the middle (2,), in proportion to the initial standard deviations."""
        initial = self.trace.deviations[0][self.searched]
        return middle[:, None] + np.max(reach / initial) * initial[:, None] * [-1, 1]

    def show_contours(self, axis: Axes, ends: Array) -> None:
        """Contour lines at ranks of the values in the view."""
        axis.set(xlim=ends[0], ylim=ends[1], box_aspect=1)
        if self.fun is None:
            return
        from matplotlib.colors import BoundaryNorm

        across, up = (np.linspace(low, high, FINEST) for low, high in ends.tolist())
        values = self.values(across, up)
        stride = (FINEST - 1) // (len(values) - 1)
        usable = np.isfinite(values)
        if np.unique(values[usable]).size < 2:
            return
        ranks = _ranks(values)
        if stride > 1 and usable.all():
            ranks, stride = _refine(across[::stride], up[::stride], ranks, across, up), 1
        levels = np.linspace(0.0, 1.0, 13) ** 1.5
        grid, norm = (across[::stride], up[::stride], ranks), BoundaryNorm(levels, 256)
        axis.contourf(*grid, levels=levels, cmap="Blues_r", alpha=0.55, norm=norm)
        axis.contour(*grid, levels=levels, colors=FAINT, linewidths=0.5)

    def values(self, across: Array, up: Array) -> Array:
        """Values (m, n) on the grid or a coarser one, NaN outside the bounds; each view is evaluated once."""
        view = across.tobytes() + up.tobytes()
        if view not in self.cache:
            values = np.full((up.size, across.size), np.nan)
            known = np.zeros(values.shape, dtype=bool)
            if self.stride is None:
                began = self.clock()
                self._evaluate(values, known, across, up, COARSEST)
                self.stride = self._affordable((self.clock() - began) / max(np.count_nonzero(known), 1))
            self._evaluate(values, known, across, up, self.stride)
            self.cache[view] = values[:: self.stride, :: self.stride]
        return self.cache[view]

    def _affordable(self, seconds: float) -> int:
        """The stride for which all views together take little time, for the given seconds per evaluation."""
        strides = [stride for stride in (1, 2) if self.views * ((FINEST - 1) // stride + 1) ** 2 * seconds <= SECONDS]
        return min(strides, default=COARSEST)

    def _evaluate(self, values: Array, known: NDArray[np.bool_], across: Array, up: Array, stride: int) -> None:
        """Fill in the unknown values (m, n) of every `stride`-th point across and up."""
        wanted = np.zeros(known.shape, dtype=bool)
        wanted[::stride, ::stride] = True
        wanted &= ~known
        known |= wanted
        places = np.stack(np.meshgrid(across, up), axis=-1)[wanted]
        if self.fun is not None and len(places):
            chunks = np.array_split(places, -(-len(places) * self.through.size // MOST_NUMBERS))
            values[wanted] = np.concatenate([self._values_at(chunk, self.fun) for chunk in chunks])

    def _values_at(self, places: Array, fun: Callable[..., Any]) -> Array:
        """Values (n,) at points (n, 2) of the plane, NaN outside the bounds."""
        grid = np.tile(self.through, (len(places), 1))
        grid[:, self.pair] = places
        points = exp_where(self.history.is_log, grid)
        if self.history.space is not None:
            points = np.where(self.history.space.discrete, nearest_integers(points), points)
        inside, found = self.is_inside(points), np.full(len(points), np.nan)
        if inside.any():
            found[inside] = fun(points[inside]) if self.vectorized else [fun(point) for point in points[inside]]
        return found

    def is_inside(self, points: Array) -> NDArray[np.bool_]:
        """Which points (n, d) are feasible: within the bounds, and positive where a variable is log-scaled."""
        space = self.history.space
        lower, upper = (-np.inf, np.inf) if space is None else space.box
        possible = np.isfinite(points) & (points >= lower) & (points <= upper) & ((points > 0) | ~self.history.is_log)
        return np.all(possible, axis=1)

    def draw(self, axes: Sequence[Axes], index: int) -> None:
        """Draw one frame."""
        for artist in self.visible:
            artist.remove()
        axes[1].clear()
        ends = self.view(self.means[index], 1.6 * np.ptp(self.ellipse(index, 1.0), axis=1))
        self.show_contours(axes[1], ends)
        axes[1].tick_params(length=0, labelleft=False, labelbottom=False)
        same_run = (self.trace.run == self.trace.run[index]) & (np.arange(self.trace.run.size) <= index)
        self.visible = axes[0].plot(*self.means[same_run].T, color=ORANGE, lw=0.9, marker="o", ms=1.8)
        axes[1].plot(*self.means[index], color=ORANGE, marker="o", ms=3.5)
        for radius, width in ((1.0, 2.0), (2.0, 1.0)):
            for axis in axes:
                self.visible += axis.plot(
                    *self.ellipse(index, radius), color=ORANGE, lw=width, scalex=False, scaley=False
                )
        closer = np.ptp(axes[0].get_xlim()) / np.ptp(ends[0])
        axes[0].set(title=f"{self.trace.nfev[index]} evaluations", xlabel=self.names[0], ylabel=self.names[1])
        axes[1].set_title(f"{closer:.3g} times as large" if closer < 1000 else f"{closer:.1e} times as large")


def _ranks(values: Array) -> Array:
    """Ranks of values (m, n) among the finite ones, from 0 to 1; equal values have equal ranks, NaN stays NaN."""
    usable = np.isfinite(values)
    ordered = np.sort(values[usable])
    twice = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1
    return np.where(usable, np.clip(0.5 * twice / max(ordered.size - 1, 1), 0.0, 1.0), np.nan)


def _refine(across: Array, up: Array, ranks: Array, finer_across: Array, finer_up: Array) -> Array:
    """Interpolate ranks (m, n) smoothly from a coarse grid to a finer one."""
    from scipy.interpolate import RectBivariateSpline

    return np.clip(RectBivariateSpline(up, across, ranks)(finer_up, finer_across), 0.0, 1.0)
