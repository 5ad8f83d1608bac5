"""Run a study: compute its data into one file, draw the figure, and return the findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublevel.paper import cache
from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.runner import DataFile, Task, compute_files
from sublevel.paper.streams import SEED
from sublevel.paper.studies import consistency, dimension, ngd_vs_rank_mu, restricted
from sublevel.paper.studies.study import Arrays, Data, Piece, Scale, Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (consistency.STUDY, restricted.STUDY, dimension.STUDY, ngd_vs_rank_mu.STUDY)
}
CODE = ("paper/studies", "paper/theory", "paper/figures/compute.py", "paper/figures/config.py")
"""The code that determines the data, besides the engine."""


@dataclass(frozen=True, slots=True)
class Request:
    """Which study to run, how much of it, and where to save it."""

    name: str
    out: Path
    seed: int = SEED
    scale: Scale = "full"

    @property
    def study(self) -> Study:
        """The study of that name."""
        if self.name not in STUDIES:
            raise ValueError(f"there is no study {self.name!r}; choose one of {', '.join(STUDIES)}")
        return STUDIES[self.name]

    @property
    def path(self) -> Path:
        """The data file; figure and text have the same name with other suffixes."""
        return self.out / f"{self.name}.npz"

    def data_file(self, pieces: list[Piece]) -> DataFile:
        """The data file with a task for each piece."""
        config = {
            "study": self.name,
            "seed": self.seed,
            "scale": self.scale,
            "pieces": [piece.config for piece in pieces],
        }
        keys = [piece.key for piece in pieces]
        return DataFile(
            path=self.path,
            stamp=cache.stamp(config, CODE),
            tasks=[self._task(piece) for piece in pieces],
            join=lambda parts: {
                f"{key}/{name}": part[name] for key, part in zip(keys, parts, strict=True) for name in part
            },
        )

    def _task(self, piece: Piece) -> Task:
        name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in piece.key)
        path = self.out / f"{self.name}-parts" / f"{name}.npz"
        return Task(path, cache.stamp(piece.config, CODE), piece.cost, piece.compute, piece.argument)


def run(request: Request, jobs: int, progress: ProgressBar) -> list[str]:
    """Run a study and return its findings as lines of text, which are also saved beside the data, with a figure as PNG
    and SVG.
    """
    from sublevel.paper.studies.drawings import (
        draw_study,
    )  # requires Matplotlib, which is optional: fail before the computation

    study = request.study
    data = compute_data(request, study.pieces(request.scale, request.seed), jobs, progress)
    lines = study.findings(data)
    cache.save_text(request.path.with_suffix(".txt"), "\n".join(lines) + "\n")
    draw_study(request.name, data, request.path)
    return lines


def compute_data(request: Request, pieces: list[Piece], jobs: int, progress: ProgressBar) -> Data:
    """The data of all pieces, from an earlier run if available."""
    (arrays,), _ = compute_files([request.data_file(pieces)], jobs, progress)
    return split_by_piece(arrays)


def split_by_piece(arrays: dict[str, Any]) -> Data:
    """Arrays by piece, from the names "piece/array" in a file."""
    data: dict[str, Arrays] = {}
    for name, array in arrays.items():
        key, _, inner = name.rpartition("/")
        data.setdefault(key, {})[inner] = array
    return data
