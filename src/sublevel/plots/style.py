# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The palette and style of all figures. matplotlib is imported when the first figure is made."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from sublevel.run.arguments import FileName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, FAINT, GRID = "#22262b", "#6b727b", "#e4e6e9"
BLUE, ORANGE, GREEN, VIOLET = "#1f77b4", "#c2410c", "#1b9a6c", "#4b2e83"
OTHERS = ("#e8890c", "#8a9a1b", "#0e7490", "#a21caf", "#57534e", "#7fb2d9")
"""Colours of the fifth to the tenth variable."""
VARIABLES = (BLUE, ORANGE, GREEN, VIOLET, *OTHERS)
"""Colours of up to ten variables."""
FONT_SIZE = 9.5
DPI = 130
"""Pixels per inch of saved figures."""
STYLE: dict[Any, Any] = {
    "font.size": FONT_SIZE,
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
    "svg.hashsalt": "sublevel",
}
HTML_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #22262b; max-width: 68rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.6rem; }
.lead, figcaption, th { color: #6b727b; }
.lead { margin-top: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem; border-bottom: 1px solid #e4e6e9; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { white-space: nowrap; }
.verdict { font-weight: 600; white-space: nowrap; }
.yes .verdict { color: #15803d; }
.no .verdict { color: #b91c1c; }
.no { background: #fef2f2; }
figure { margin: 1.6rem 0; }
figure img { width: 100%; max-width: 54rem; display: block; margin: auto; }
figcaption { font-size: .88rem; max-width: 54rem; margin: .6rem auto 0; }
"""
"""The style sheet of all HTML reports."""
CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 181)), np.sin(np.linspace(0, 2 * np.pi, 181))])
"""Points of the unit circle (2, 181)."""
LONGEST_NAME = 24
"""Longest variable name in a figure, in characters."""
SHORT_SPAN = 10.0
"""Range of a logarithmic axis, as a ratio, below which powers of ten are too few ticks."""

Colour = str | tuple[float, ...]
Layout = Literal["constrained", "compressed"]
Target = FileName | IO[bytes] | None
"""Where a figure is saved: a file or a stream; None for a pyplot figure."""


@contextmanager
def new_figure(
    file: Target, size: tuple[float, float], layout: Layout | None = "constrained", file_format: str | None = None
) -> Generator[Figure]:
    """A figure in this style that is saved to `file` at the end; a pyplot figure if `file` is None.

    The figure is made before the rc_context begins: the first pyplot figure loads a backend, which may change settings
    itself (that of a notebook switches `interactive` on), and the end of the rc_context would undo that.
    """
    figure = _figure(file, size, layout)
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield figure
        if file is not None and layout is not None:
            metadata = {"Date": None} if file_format == "svg" or str(file).endswith(".svg") else None
            if file_format == "png" or str(file).endswith(".png"):
                _place_axes(figure)
            figure.savefig(file, dpi=DPI, facecolor="white", format=file_format, metadata=metadata)


def _figure(file: Target, size: tuple[float, float], layout: Layout | None) -> Figure:
    if file is None:
        from matplotlib import pyplot

        from sublevel.plots.notebook import NotebookFigure

        return pyplot.figure(figsize=size, layout=layout, FigureClass=NotebookFigure)
    from matplotlib.figure import Figure

    return Figure(figsize=size, dpi=DPI, layout=layout)


def _place_axes(figure: Figure) -> None:
    """Place the axes of a figure by its layout, for the last time. Otherwise `savefig` draws everything twice."""
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)


def colours(count: int) -> list[Colour]:
    """A colour for each of `count` variables."""
    import matplotlib as mpl

    if count <= len(VARIABLES):
        return list(VARIABLES[:count])
    return list(map(tuple, mpl.colormaps["viridis"](np.linspace(0, 0.95, count)).tolist()))


def tidy(axis: Axes, log: bool = False) -> None:
    """Draw a grid behind the curves, reduce the margins, and set the colours of the ticks."""
    if log:
        axis.set_yscale("log")
    axis.grid(True, color=GRID, lw=0.6)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)
    axis.tick_params(which="both", colors=FAINT, labelsize=FONT_SIZE)


def label_log(axis: Axis) -> None:
    """Label a logarithmic x- or y-axis with several ticks, even if its range is short."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    if 0 < low < high < np.inf and high / low < SHORT_SPAN**2:
        is_long = high / low > SHORT_SPAN
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if is_long else MaxNLocator(5, steps=(1, 2, 5, 10)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def short_name(name: str) -> str:
    """A variable name, truncated if it is long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
