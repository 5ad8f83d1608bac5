# pyright: reportUnknownMemberType=false
"""The pictures of the studies. Needs Matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from sublevel.paper.figures.draw import STYLE
from sublevel.paper.studies.common import Data
from sublevel.paper.studies.figures import consistency, dimension, ngd_vs_rank_mu, restricted

FIGURES: dict[str, Callable[[Data], Figure]] = {
    "consistency": consistency.figure,
    "restricted": restricted.figure,
    "dimension": dimension.figure,
    "apart": ngd_vs_rank_mu.figure,
}


def drawn(name: str, data: Data, path: Path) -> None:
    """Draw a study into a PNG and an SVG file beside `path`."""
    with mpl.rc_context(STYLE):
        figure = FIGURES[name](data)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=150)
