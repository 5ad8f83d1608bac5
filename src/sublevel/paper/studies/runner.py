"""Running a study: compute what is not there yet, put the data into one file, draw, and say what was found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sublevel.paper.figures import schedule, store
from sublevel.paper.figures.workbar import WorkBar
from sublevel.paper.studies import consistency, dimension, ngd_vs_rank_mu, restricted
from sublevel.paper.studies.common import Arrays, Data, Piece, Scale, Study

STUDIES: dict[str, Study] = {study.name: study for study in (consistency.STUDY, restricted.STUDY, dimension.STUDY, ngd_vs_rank_mu.STUDY)}
SEED = 12044141
"""The default seed: the paper's number on arXiv."""


@dataclass(frozen=True, slots=True)
class Request:
    """Which study to run, how much of it, and where to put it."""

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
        """Where the data goes; the picture and the text have the same name."""
        return self.out / f"{self.name}.npz"

    def stamp(self, pieces: list[Piece]) -> str:
        """Everything that decides the data."""
        config = {"study": self.name, "seed": self.seed, "scale": self.scale, "pieces": [piece.config for piece in pieces]}
        return store.stamp({**config, "studies": code()})


@lru_cache(maxsize=1)
def code() -> str:
    """The text of studies and theory, in a few letters."""
    package = Path(__file__).parent.parent
    files = [*sorted((package / "studies").glob("*.py")), *sorted((package / "theory").glob("*.py"))]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def run(request: Request, jobs: int, progress: WorkBar) -> list[str]:
    """Run a study; what was found, in lines of text. Beside the data appear a picture as PNG and SVG, and the text."""
    from sublevel.paper.studies.figures import drawn  # needs Matplotlib, which is optional: ask for it before minutes are spent

    study = request.study
    data = computed(request, study.pieces(request.scale, request.seed), jobs, progress)
    lines = study.findings(data)
    store.save_text(request.path.with_suffix(".txt"), "\n".join(lines) + "\n")
    drawn(request.name, data, request.path)
    return lines


def computed(request: Request, pieces: list[Piece], jobs: int, progress: WorkBar) -> Data:
    """The data of all pieces, from an earlier run where it is there."""
    parts = request.out / f"{request.name}-parts"
    store.prepare(request.out)
    stamp = request.stamp(pieces)
    present = store.load(request.path, stamp)
    if present is not None:
        progress.say(f"the data is there from an earlier run: {request.path}")
        return split(present)
    store.prepare(parts)
    tasks = {piece.key: _task(piece, parts) for piece in pieces}
    schedule.run(tasks.values(), jobs, progress)
    data = {key: _loaded(task) for key, task in tasks.items()}
    store.save(request.path, stamp, {f"{key}/{name}": array for key, arrays in data.items() for name, array in arrays.items()})
    for task in tasks.values():
        task.path.unlink(missing_ok=True)
    parts.rmdir()
    return data


def split(flat: dict[str, Any]) -> Data:
    """Arrays by piece, from the names "piece/array" in a file."""
    data: dict[str, Arrays] = {}
    for name, array in flat.items():
        key, _, inner = name.rpartition("/")
        data.setdefault(key, {})[inner] = array
    return data


def _task(piece: Piece, parts: Path) -> schedule.Task:
    name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in piece.key)
    return schedule.Task(parts / f"{name}.npz", store.stamp({**piece.config, "studies": code()}), piece.cost, piece.compute, piece.argument)


def _loaded(task: schedule.Task) -> Arrays:
    arrays = task.load()
    if arrays is None:
        raise OSError(f"{task.path} vanished while it was needed; is another run writing there?")
    return arrays
