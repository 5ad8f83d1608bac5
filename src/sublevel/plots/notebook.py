# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""A matplotlib Figure that a notebook shows once. Requires matplotlib, so it is imported on first use."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A pyplot figure that is not shown a second time as the value of a cell.

    At the end of a cell Jupyter's inline backend shows and closes every open pyplot figure; the value of the cell's
    last line is shown before that. For a line such as `result.plot()` both are the same figure.
    """

    def _repr_mimebundle_(self, **_: object) -> None:
        """Close the figure in pyplot, as the inline backend does, because IPython is about to show it."""
        if "inline" in mpl.get_backend():
            pyplot.close(self)
