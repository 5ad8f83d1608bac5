# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What all figures of this package share: style, colours, axes, labels. Requires Matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

from sublevel.plots.style import BLUE, FAINT, GREEN, GRID, INK, ORANGE, OTHERS, STYLE, VIOLET

SIZE_COLOURS = (ORANGE, OTHERS[0], OTHERS[1], GREEN, BLUE, VIOLET)
"""From the smallest sample to the largest."""
METHOD_COLOURS = {"ngd": BLUE, "rank-mu": ORANGE}
DASHES = (0, (5, 2.5))
SEQUENCE = ("#1b3a6b", "#1f77b4", "#1b9a8c", "#5a9a1b", "#b8a010", "#e8890c", "#d1521a", "#9b1c31")
"""Colours from small to large."""


def save_figure(draw: Callable[[], Figure], path: Path) -> Path:
    """Draw a figure in the common style and save it as PNG and SVG beside `path`; returns the SVG file."""
    with mpl.rc_context(STYLE):
        figure = draw()
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=160)
    return path.with_suffix(".svg")


def empty_figure(size: tuple[float, float]) -> Figure:
    """A figure without axes."""
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.08, wspace=0.04))
    FigureCanvasAgg(figure)
    return figure


def tidy(axis: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Set grid, title and labels of an axis."""
    axis.grid(color=GRID, lw=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)
    axis.set_title(title, color=INK)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def set_log_scale(axis: Axes, *, x: bool = True, y: bool = True) -> None:
    """Logarithmic scales without minor ticks."""
    for wanted, which in ((x, axis.xaxis), (y, axis.yaxis)):
        if wanted:
            (axis.set_xscale if which is axis.xaxis else axis.set_yscale)("log")
            which.set_minor_locator(NullLocator())
            which.set_minor_formatter(NullFormatter())


def set_ticks(which: Axis, values: Iterable[float], text: str = "{x:g}") -> None:
    """Set the ticks of an axis, without minor ticks."""
    which.set_ticks(list(values))
    which.set_major_formatter(StrMethodFormatter(text))
    which.set_minor_locator(NullLocator())


def legend_handle(label: str, colour: str = INK, **style: Any) -> Line2D:
    """A line or a marker of a legend."""
    return Line2D([], [], color=colour, label=label, **style)


def add_label(axis: Axes, x: float, y: float, text: str, colour: str = FAINT, **more: Any) -> None:
    """Write a label beside a point."""
    settings: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 8.5}
    axis.annotate(text, (x, y), color=colour, annotation_clip=False, **(settings | more))


def label_ends(axis: Axes, names: Sequence[tuple[float, float, str, str]], gap: float) -> None:
    """Write labels (x, y, text, colour) at ends of lines, on a log y axis, at least `gap` of its height apart."""
    low, high = np.log(axis.get_ylim())
    names = sorted(names, key=lambda name: name[1])
    wanted = (np.log([y for _, y, _, _ in names]) - low) / (high - low)
    placed = wanted.copy()
    for _ in range(50):
        overlap = np.maximum(0.0, gap - np.diff(placed)) / 2
        placed[:-1] -= overlap
        placed[1:] += overlap
    for (x, _, text, colour), height in zip(names, placed, strict=True):
        add_label(axis, x, float(np.exp(low + height * (high - low))), text, colour)
