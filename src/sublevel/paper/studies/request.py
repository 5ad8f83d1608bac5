"""Run a study: compute its data into one file, draw the figure, and return the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sublevel.paper import cache
from sublevel.paper.cache import Arrays
from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.runner import DataFile, Work, compute_files
from sublevel.paper.streams import SEED
from sublevel.paper.studies import (
    consistency,
    dimension,
    estimator,
    ngd_vs_rank_mu,
    predictions,
    restricted,
    samplings,
)
from sublevel.paper.studies.study import Data, Scale, Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        *(consistency.STUDY, restricted.STUDY, dimension.STUDY, ngd_vs_rank_mu.STUDY),
        *(predictions.STUDY, estimator.STUDY, samplings.STUDY),
    )
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

    def data_file(self, works: Sequence[Work]) -> DataFile:
        """The data file with a task for each unit of work, and arrays named "unit/array"."""

        def join(parts: list[Arrays]) -> Arrays:
            named = zip(works, parts, strict=True)
            return {f"{work.key}/{name}": array for work, part in named for name, array in part.items()}

        units = [{"key": work.key, **asdict(work)} for work in works]
        config = {"study": self.name, "seed": self.seed, "scale": self.scale, "pieces": units}
        return DataFile.plan(self.path, config, CODE, works, self.out / f"{self.name}-parts", join)


def run(request: Request, jobs: int, progress: ProgressBar) -> list[str]:
    """Run a study and return its findings as lines of text; text, data and figure (PNG and SVG) are saved."""
    from sublevel.paper.studies.drawings import draw_study  # fails before the computation if Matplotlib is missing

    data = compute_data(request, request.study.works(request.scale, request.seed), jobs, progress)
    lines = request.study.findings(data)
    cache.save_text(request.path.with_suffix(".txt"), "\n".join(lines) + "\n")
    draw_study(request.name, data, request.path)
    return lines


def compute_data(request: Request, works: Sequence[Work], jobs: int, progress: ProgressBar) -> Data:
    """The data of all units of work, from an earlier run if available."""
    (arrays,), _ = compute_files([request.data_file(works)], jobs, progress)
    units: dict[str, Arrays] = {work.key: {} for work in works}
    for name, array in arrays.items():
        key, _, inner = name.rpartition("/")
        units[key][inner] = array
    return {work: units[work.key] for work in works}
