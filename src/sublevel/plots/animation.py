# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Frames of an animation: the search distribution over contour lines of f, in the plane of two variables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.plots.style import CIRCLE, FAINT, ORANGE, short_name
from sublevel.run.history import History
from sublevel.run.search_space import exp_where, log_where

FINEST = 69
"""Points of the finest grid in each direction; every second and every fourth of them make the coarser grids of 35 and 18 points."""
COARSEST = 4
"""Stride of the coarsest grid."""
SECONDS = 10.0
"""What the evaluations of all views together may take, about, before grids are coarser."""
MOST_NUMBERS = 1_000_000
"""Numbers of points that are made at a time: of many variables, a grid is evaluated in parts."""
EARLY = 1.5
"""Frames lie denser in the beginning, where more happens: this is the exponent."""


def chosen_snapshots(count: int, frames: int) -> NDArray[np.int_]:
    """Which of `count` snapshots are drawn, `frames` of them at most."""
    moments = np.linspace(0.0, 1.0, frames) ** EARLY * (count - 1)
    return np.unique(moments.round().astype(int))


class Plane:
    """The plane of two variables through a point, with the search distribution in it. Its coordinates are logarithms of log-scaled ones."""

    def __init__(
        self,
        history: History,
        fun: Callable[[Array], Any] | None,
        through: Array,
        variables: tuple[int, int],
        vectorized: bool,
        views: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """The plane through a point (d,); `views` is how many there will be, which share the time."""
        self.history, self.fun, self.vectorized, self.views, self.clock = history, fun, vectorized, views, clock
        self.trace = history.trace()
        free = history.free
        if len(set(variables)) != 2 or not {*variables} <= {*free.tolist()}:
            raise ValueError(f"`variables` must be two different ones of those that are searched, {free.tolist()}, got {variables!r}.")
        self.pair = list(variables)  # as the user counts
        self.searched = np.searchsorted(free, self.pair)  # as the search does
        self.through = log_where(history.is_log, through)  # (d,)
        self.means = log_where(history.is_log, self.trace.mean)[:, self.pair]  # (s, 2)
        names = history.names
        self.names = [short_name(names[i]) for i in self.pair]
        self.shown: list[Any] = []
        self.seen: dict[bytes, Array] = {}  # values in views
        self.stride: int | None = None  # of the grids; None as long as the time that an evaluation takes is not known

    def ellipse(self, index: int, radius: float) -> Array:
        """Where the distribution of a snapshot has that many standard deviations in the plane (2, 181), bent as the bounds bend it."""
        theta = self.history.snapshots[index].theta
        u = np.repeat(theta.mean[None], CIRCLE.shape[1], axis=0)
        root = np.linalg.cholesky(_correlation(theta, self.searched))
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
        axis.set(xlim=ends[0], ylim=ends[1], box_aspect=1)
        if self.fun is None:
            return
        across, up = (np.linspace(low, high, FINEST) for low, high in ends.tolist())
        values = self.values(across, up)
        stride = (FINEST - 1) // (len(values) - 1)
        usable = np.isfinite(values)
        if np.unique(values[usable]).size < 2:
            return
        ranks = _ranks(values)
        if stride > 1 and usable.all():
            ranks, stride = _refined(across[::stride], up[::stride], ranks, across, up), 1
        levels = np.linspace(0.0, 1.0, 13) ** 1.5
        axis.contourf(across[::stride], up[::stride], ranks, levels=levels, cmap="Blues_r", alpha=0.55, norm=_by_rank(levels))
        axis.contour(across[::stride], up[::stride], ranks, levels=levels, colors=FAINT, linewidths=0.5)

    def values(self, across: Array, up: Array) -> Array:
        """Values (m, n) on every, every second or every fourth point of the grid across and up, NaN beyond the bounds; each view once."""
        view = across.tobytes() + up.tobytes()
        if view not in self.seen:
            values = np.full((up.size, across.size), np.nan)
            known = np.zeros(values.shape, dtype=bool)
            if self.stride is None:
                began = self.clock()
                self._evaluate(values, known, across, up, COARSEST)
                self.stride = self._affordable((self.clock() - began) / max(np.count_nonzero(known), 1))
            self._evaluate(values, known, across, up, self.stride)
            self.seen[view] = values[:: self.stride, :: self.stride]
        return self.seen[view]

    def _affordable(self, seconds: float) -> int:
        """The stride with which all views take little time, if an evaluation takes so many seconds."""
        strides = [stride for stride in (1, 2) if self.views * ((FINEST - 1) // stride + 1) ** 2 * seconds <= SECONDS]
        return min(strides, default=COARSEST)

    def _evaluate(self, values: Array, known: NDArray[np.bool_], across: Array, up: Array, stride: int) -> None:
        """Fill in the values (m, n) of every `stride`-th point across and up which are not known yet."""
        wanted = np.zeros(known.shape, dtype=bool)
        wanted[::stride, ::stride] = True
        wanted &= ~known
        known |= wanted
        places = np.stack(np.meshgrid(across, up), axis=-1)[wanted]
        if self.fun is not None and len(places):
            chunks = np.array_split(places, -(-len(places) * self.through.size // MOST_NUMBERS))
            values[wanted] = np.concatenate([self._values_at(chunk, self.fun) for chunk in chunks])

    def _values_at(self, places: Array, fun: Callable[[Array], Any]) -> Array:
        """Values (n,) at places (n, 2) of the plane, NaN beyond the bounds."""
        grid = np.tile(self.through, (len(places), 1))
        grid[:, self.pair] = places
        points = exp_where(self.history.is_log, grid)
        inside, found = self.is_inside(points), np.full(len(points), np.nan)
        if inside.any():
            found[inside] = fun(points[inside]) if self.vectorized else [fun(point) for point in points[inside]]
        return found

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


def _correlation(theta: Family, pair: NDArray[np.intp]) -> Array:
    """Correlation matrix (2, 2) of two variables, kept away from degeneracy by rounding; no matrix of all variables is made."""
    return theta.correlation(pair) + 1e-12 * np.eye(2)


def _ranks(values: Array) -> Array:
    """The part of the finite values (m, n) that are lower than each, 0 … 1; equal values have equal ranks, NaN stays."""
    usable = np.isfinite(values)
    ordered = np.sort(values[usable])
    ranks = 0.5 * (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / max(ordered.size - 1, 1)
    return np.where(usable, np.clip(ranks, 0.0, 1.0), np.nan)


def _refined(across: Array, up: Array, ranks: Array, finer_across: Array, finer_up: Array) -> Array:
    """Ranks (m, n) on a coarse grid as a smooth surface on a finer one."""
    from scipy.interpolate import RectBivariateSpline

    return np.clip(RectBivariateSpline(up, across, ranks)(finer_up, finer_across), 0.0, 1.0)


def _by_rank(levels: Array) -> Any:
    from matplotlib.colors import BoundaryNorm

    return BoundaryNorm(levels, 256)
