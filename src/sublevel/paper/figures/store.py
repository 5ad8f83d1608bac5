"""Results in files: written whole or not at all, and used again only if they answer the same question."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import sublevel

ROOMS = (
    *(
        "arrays.py",
        "constants.py",
        "linalg.py",
        "method.py",
        "recipes.py",
        "summaries.py",
        "tangent.py",
        "families",
        "transforms",
        "weights",
    ),
    *("theory/measure.py", "experiments/config.py", "experiments/compute.py"),
)
"""The code that decides the data of a run."""
UNFINISHED = ".sublevel-unfinished-"
"""How the names of files begin that are being written."""
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading a file that is missing, cut short or overwritten can raise."""


@lru_cache(maxsize=1)
def provenance() -> dict[str, str]:
    """What besides the configuration decides the bits of the data: version and text of the code, version of NumPy."""
    package = Path(__file__).parent.parent
    rooms = [package / room for room in ROOMS]
    files = [file for room in rooms for file in ([room] if room.is_file() else sorted(room.glob("*.py")))]
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return {"version": sublevel.__version__, "code": digest[:16], "numpy": np.__version__}


def stamp(config: Mapping[str, Any]) -> str:
    """Configuration and provenance as JSON text in a fixed order: what a file must carry to be used again."""
    return json.dumps({**config, **provenance()}, sort_keys=True)


def save(path: Path, stamp: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays with their stamp, under the name `config`, as compressed npz."""
    with _replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, config=np.array(stamp), **arrays)


def save_text(path: Path, text: str) -> None:
    """Write a text file."""
    with _replacing(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _replacing(path: Path) -> Generator[Any]:
    """A new file that takes the place of `path` once it is complete and has reached the disk."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=UNFINISHED, delete=False) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def load(path: Path, stamp: str) -> dict[str, Any] | None:
    """The arrays of a file with this stamp; None if it is missing, damaged or of another run."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
            return arrays if str(arrays.pop("config")) == stamp else None
    except DAMAGE:
        return None


def prepare(*directories: Path) -> None:
    """Make directories to write into, without what a killed run left unfinished there."""
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob(UNFINISHED + "*"):
            path.unlink(missing_ok=True)
