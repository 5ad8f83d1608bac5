"""The runs that the page shows: files by number, each with what was read of it so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sublevel.cli.common import printable
from sublevel.cli.run_status import read_status
from sublevel.dashboard import data
from sublevel.dashboard.data import Importance, Json
from sublevel.dashboard.follow import Follower, Progress
from sublevel.store.errors import StoreError
from sublevel.store.export import csv_parts, table_columns
from sublevel.store.file import side_file
from sublevel.store.load import load
from sublevel.store.lock import is_locked
from sublevel.store.output import is_stored_run

READING = 0.2
"""Seconds for which one request reads evaluations; the next request continues."""
MOST_FILES = 500
"""Most files of a directory, the latest ones."""
MOST_COMPARED = 12
"""Most runs of a comparison."""
GROWTH = 1.1
"""Growth of the number of evaluations after which the importance of the variables is computed again."""
DAMAGED = (StoreError, OSError, ValueError, ArithmeticError, LookupError, MemoryError)
"""Errors of reading a file that was damaged, forged, deleted or replaced."""


@dataclass(slots=True)
class Entry:
    """A file with its number, its last overview, and its follower."""

    number: int
    path: Path
    follower: Follower
    lock: threading.Lock = field(default_factory=threading.Lock)
    signature: object = None  # of the file when the overview was made
    overview: Json = field(default_factory=Json)
    importance: Importance | None = None


class Runs:
    """Stored runs, some of them in directories in which others may appear. Requests may come from several threads."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raise StoreError if a file is not a stored run, or if there is neither a file nor a directory."""
        self._lock = threading.Lock()
        self._directories = [path for path in paths if path.is_dir()]
        self._entries: dict[Path, Entry] = {}
        for path in paths:
            if not path.is_dir():
                read_status(path)
                self._add(path)
        self.look_for_files()

    def _add(self, path: Path) -> None:
        path = path.absolute()
        if path not in self._entries:
            self._entries[path] = Entry(len(self._entries), path, Follower(path))

    def look_for_files(self) -> None:
        """Add the stored runs that have appeared in the directories."""
        with self._lock:
            for directory in self._directories:
                for path in files_of(directory):
                    self._add(path)

    @property
    def entries(self) -> list[Entry]:
        """All runs, by number."""
        with self._lock:
            return list(self._entries.values())

    def entry(self, number: int) -> Entry | None:
        """The run of a number."""
        entries = self.entries
        return entries[number] if 0 <= number < len(entries) else None

    def overviews(self) -> list[Json]:
        """A row for each run."""
        entries = self.entries
        names = unique_names([entry.path for entry in entries])
        rows = zip(entries, names, strict=True)
        return [{**overview_of(entry), "name": printable(name)} for entry, name in rows]

    def compare(self, numbers: Sequence[int]) -> list[Json]:
        """The curves of some runs; those that cannot be read are left out, as the list of runs says why."""
        found = list[Json]()
        for number in numbers[:MOST_COMPARED]:
            if (entry := self.entry(number)) is not None and "error" not in entry.overview:
                with entry.lock:
                    try:
                        found.append(data.comparison(number, advance(entry, 0.0, evaluations=False)))
                    except DAMAGED as error:
                        entry.overview, entry.signature = data.unreadable(number, error), None
        return found

    def detail(self, entry: Entry, wanted: str, seen: str) -> Json:
        """Everything about a run; only its version if that is the one that was seen."""
        with entry.lock:
            try:
                is_first = entry.follower.progress is None  # the first answer is quick
                progress = advance(entry, 0.0 if is_first else READING)
                shares = importance_shares(entry, progress)
                version = version_of(progress, entry, wanted)
                if version == seen:
                    return {"id": entry.number, "version": version}
                found = data.detail(progress, shares, wanted, entry.follower.is_running)
                return {"id": entry.number, "version": version, **found}
            except DAMAGED as error:
                return {"id": entry.number, "version": "", "error": str(error)}


def files_of(directory: Path) -> list[Path]:
    """The stored runs in a directory by name; the latest ones if there are very many."""
    try:
        found = [path for path in sorted(directory.iterdir()) if is_stored_run(path)]
    except OSError:  # the directory was removed
        return []
    latest = sorted(found, key=lambda path: signature_of(path)[0], reverse=True)[:MOST_FILES]
    return sorted(latest)


def signature_of(path: Path) -> tuple[int, ...]:
    """Numbers that change when a file changes: times and sizes of the file and its log."""
    found = list[int]()
    for name in (path, side_file(path, "-wal")):
        try:
            facts = os.stat(name)
            found += [facts.st_mtime_ns, facts.st_size, facts.st_ino]
        except OSError:
            found += [0, 0, 0]
    return tuple(found)


def unique_names(paths: Sequence[Path]) -> list[str]:
    """The names of files, with their directories where names are equal."""
    names = [path.name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def overview_of(entry: Entry) -> Json:
    """The row of a run, which is read again only if its file or its state has changed."""
    with entry.lock:
        try:
            signature = (signature_of(entry.path), is_locked(entry.path))
            if signature != entry.signature:
                entry.overview, entry.signature = data.overview(entry.number, read_status(entry.path)), signature
        except DAMAGED as error:
            entry.overview, entry.signature = data.unreadable(entry.number, error), None
        return entry.overview


def advance(entry: Entry, seconds: float, evaluations: bool = True) -> Progress:
    """Read what is new, and make the overview, which costs less than reading the status of a large file."""
    signature, known = signature_of(entry.path), entry.follower.progress
    if known is not None and not evaluations and (signature, is_locked(entry.path)) == entry.signature:
        return known
    progress = entry.follower.advance(seconds, evaluations)
    entry.overview = data.overview_of_progress(entry.number, progress, entry.follower.is_running)
    entry.signature = (signature, entry.follower.is_running)
    return progress


def version_of(progress: Progress, entry: Entry, wanted: str) -> str:
    """A text that changes when the page has something else to show."""
    importance = 0 if entry.importance is None else entry.importance.evaluations
    reasons = () if progress.position is None else tuple(progress.position.reasons)
    has_error_bars = progress.position is not None and progress.position.curvature is not None
    parts = progress.origin, progress.nfev, progress.count, len(progress.trace), importance, has_error_bars
    return f"{parts} {entry.follower.is_running} {reasons} {wanted}"


def importance_shares(entry: Entry, progress: Progress) -> np.ndarray:
    """The importance of the variables by evaluations; computed again when there are some more."""
    known = entry.importance
    is_new = known is None or known.evaluations > progress.count or known.shares.size != progress.dimension
    if is_new or (known is not None and progress.count >= GROWTH * known.evaluations + 1):
        known = entry.importance = data.importance_of(progress)
    return np.empty(0) if known is None else known.shares


def as_csv(path: Path) -> Iterator[bytes]:
    """All evaluations of a run as CSV, in parts."""
    run = load(path)
    columns = table_columns(run.evaluations, run.settings, run.start)
    return (text.encode() for text in csv_parts(run.evaluations, columns))


def as_json(path: Path) -> Json:
    """The result and the settings of a run as `sublevel show --json` prints them, and its history."""
    from sublevel.cli.run_status import is_run_active
    from sublevel.cli.show import run_as_json

    is_running = is_run_active(path)
    run = load(path)
    history = {name: data.numbers(column, 17) for name, column in run.result.history.arrays().items()}
    return {**run_as_json(run, is_running), "history": history}
