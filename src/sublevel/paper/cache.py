"""A cache of results in files, written atomically and used again only if configuration and code are the same."""

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
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

import sublevel

Arrays = dict[str, NDArray[Any]]
"""Arrays by name: numbers or text."""
Code = tuple[str, ...]
"""Files and directories of the package that determine the data, besides the engine."""
UNFINISHED = ".sublevel-unfinished-"
"""Prefix of the names of files that are being written."""
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
"""Exceptions raised on reading a missing or damaged file."""


@lru_cache
def provenance(code: Code) -> dict[str, str]:
    """What determines the data apart from the configuration: version and hash of the code, version of NumPy."""
    digest = sha256(b"".join(file.read_bytes() for file in source_files(code))).hexdigest()
    return {"version": sublevel.__version__, "code": digest[:16], "numpy": np.__version__}


def source_files(code: Code) -> list[Path]:
    """The files of the engine, of random streams, of this cache, and `code`."""
    package = Path(sublevel.__file__).parent
    paths = [package / name for name in ("summaries.py", "paper/streams.py", "paper/cache.py", *code)]
    return [
        *sorted((package / "engine").rglob("*.py")),
        *(file for path in paths for file in (sorted(path.glob("*.py")) or [path])),
    ]


def stamp(config: Mapping[str, object], code: Code) -> str:
    """Configuration and provenance as JSON text; a cached file is used only if it has the same stamp."""
    return json.dumps({**config, **provenance(code)}, sort_keys=True)


def save(path: Path, stamp: str, arrays: Arrays) -> None:
    """Write arrays with their stamp, under the name `config`, as compressed npz."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"Object arrays cannot be saved, got {name!r}.")  # NumPy 2.0 would pickle them
    with _replace_file(path) as file:
        np.savez_compressed(file, config=np.array(stamp), **arrays)  # pyright: ignore[reportArgumentType]


def save_text(path: Path, text: str) -> None:
    """Write a text file."""
    with _replace_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _replace_file(path: Path) -> Generator[IO[bytes]]:
    """A new file that replaces `path` once it is complete and on disk."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=UNFINISHED, delete=False) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def load(path: Path, stamp: str) -> Arrays | None:
    """The arrays of a file with this stamp; None if the file is missing, damaged or has another stamp."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
            return arrays if str(arrays.pop("config")) == stamp else None
    except DAMAGE:
        return None


def prepare(*directories: Path) -> None:
    """Create directories, and remove unfinished files of a killed run from them."""
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob(UNFINISHED + "*"):
            path.unlink(missing_ok=True)
