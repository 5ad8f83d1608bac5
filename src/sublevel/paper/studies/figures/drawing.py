# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What the pictures share: panels, axes, names at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

from sublevel.paper.figures.draw import FAINT, GRID, INK

DASHES = (0, (5, 2.5))
SEQUENCE = ("#1b3a6b", "#1f77b4", "#1b9a8c", "#5a9a1b", "#b8a010", "#e8890c", "#d1521a", "#9b1c31")
"""From small to large."""


def blank(size: tuple[float, float]) -> Figure:
    """A figure to fill."""
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.08, wspace=0.04))
    FigureCanvasAgg(figure)
    return figure


def tidy(axis: Any, title: str, *, x: str = "", y: str = "") -> None:
    """A quiet axis under a title that says what to see."""
    axis.grid(color=GRID, lw=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=0)
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def logarithmic(axis: Any, *, x: bool = True, y: bool = True) -> None:
    """Logarithmic scales without minor ticks."""
    for wanted, which in ((x, axis.xaxis), (y, axis.yaxis)):
        if wanted:
            (axis.set_xscale if which is axis.xaxis else axis.set_yscale)("log")
            which.set_minor_locator(NullLocator())
            which.set_minor_formatter(NullFormatter())


def ticks(which: Any, values: Any, text: str = "{x:g}") -> None:
    """These ticks and no others."""
    which.set_ticks(list(values))
    which.set_major_formatter(StrMethodFormatter(text))
    which.set_minor_locator(NullLocator())


def label(axis: Any, x: float, y: float, text: str, colour: str = FAINT, **more: Any) -> None:
    """A name beside a point."""
    settings: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 8.5, **more}
    axis.annotate(text, (x, y), color=colour, annotation_clip=False, **settings)


def labels_at_the_end(axis: Any, names: Sequence[tuple[float, float, str, str]], gap: float) -> None:
    """Names (x, y, text, colour) beside the ends of lines on a logarithmic y axis, at least `gap` of its height apart."""
    low, high = np.log(axis.get_ylim())
    names = sorted(names, key=lambda name: name[1])
    wanted = (np.log([y for _, y, _, _ in names]) - low) / (high - low)
    placed = wanted.copy()
    for _ in range(50):
        overlap = np.maximum(0.0, gap - np.diff(placed)) / 2
        placed[:-1] -= overlap
        placed[1:] += overlap
    for (x, _, text, colour), height in zip(names, placed, strict=True):
        label(axis, x, float(np.exp(low + height * (high - low))), text, colour)
