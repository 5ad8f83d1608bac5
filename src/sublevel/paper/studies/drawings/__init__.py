"""The figures of the studies. Requires Matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from sublevel.paper.drawing import save_figure
from sublevel.paper.studies.drawings import (
    consistency,
    dimension,
    estimator,
    ngd_vs_rank_mu,
    predictions,
    restricted,
    samplings,
)
from sublevel.paper.studies.study import Data

FIGURES: dict[str, Callable[[Data], Figure]] = {
    "consistency": consistency.figure,
    "restricted": restricted.figure,
    "dimension": dimension.figure,
    "apart": ngd_vs_rank_mu.figure,
    "predictions": predictions.figure,
    "estimator": estimator.figure,
    "samplings": samplings.figure,
}


def draw_study(name: str, data: Data, path: Path) -> None:
    """Draw a study into a PNG and an SVG file beside `path`."""
    save_figure(lambda: FIGURES[name](data), path)
