"""The SQLite file of a run: what is in it, how it is opened, and what makes us refuse it.

Readers open it read-only. Its application id, version and schema are compared with ours before anything else is asked of it, every row
carries a checksum, and no size that the file declares is believed: a blob is never larger than the file, and arrays are poured into
templates.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from sublevel.store.errors import StoreError
from sublevel.store.lock import check_lockable

APPLICATION = int.from_bytes(b"subl")
VERSION = 3
LONGEST_FACTS = 2**24
"""Bytes that the facts of a part may have."""
LARGEST_BLOB = 10**9
"""Bytes that SQLite takes in one value unless built otherwise; so many may the points of one generation be."""
BUSY = 5000
"""Milliseconds to wait for a reader that is about to be done."""

SCHEMA = {
    "parts": "CREATE TABLE parts (name TEXT PRIMARY KEY, facts TEXT NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL, "
    "crc INTEGER NOT NULL)",
    "snapshots": "CREATE TABLE snapshots (nfev INTEGER PRIMARY KEY, run INTEGER NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL, "
    "crc INTEGER NOT NULL)",
    "generations": "CREATE TABLE generations (iteration INTEGER PRIMARY KEY, run INTEGER NOT NULL, popsize INTEGER NOT NULL, "
    "numbers BLOB NOT NULL, crc INTEGER NOT NULL)",
    "evaluations": "CREATE TABLE evaluations (iteration INTEGER PRIMARY KEY, run INTEGER NOT NULL, points BLOB NOT NULL, "
    "vals BLOB NOT NULL, crc INTEGER NOT NULL)",
    "arrivals": "CREATE TABLE arrivals (iteration INTEGER NOT NULL, place INTEGER NOT NULL, run INTEGER NOT NULL, point BLOB NOT NULL, "
    "value BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (iteration, place))",
}
"""The tables. Arrays are bytes of little-endian float64; `crc` is that of all other columns."""
COLUMNS = {
    "parts": (str, str, str, bytes),
    "snapshots": (int, int, str, bytes),
    "generations": (int, int, int, bytes),
    "evaluations": (int, int, bytes, bytes),
    "arrivals": (int, int, int, bytes, bytes),
}
"""The types of their columns but the last, which SQLite does not enforce."""

Row = tuple[Any, ...]


def summed(*columns: Any) -> Row:
    """A row with its checksum: the CRC-32 of its numbers and of the lengths of the others, then of these."""
    crc = zlib.crc32(repr([column if type(column) is int else len(column) for column in columns]).encode())
    for column in columns:
        if type(column) is bytes:
            crc = zlib.crc32(column, crc)
        elif type(column) is str:
            crc = zlib.crc32(column.encode(), crc)
    return (*columns, crc)


class File:
    """An open file of ours, checked at the door. Everything that SQLite finds wrong becomes a StoreError."""

    def __init__(self, path: Path, writing: bool = False) -> None:
        self.path = path
        with self.complaining():
            self._connection = _connected(path, writing)
            try:
                self._check()
                if writing:
                    self._connection.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                self._connection.close()
                raise

    def _check(self) -> None:
        """It is ours, of this version, and has our tables and nothing else."""
        (application,), (version,) = (self._one(f"PRAGMA {name}") for name in ("application_id", "user_version"))
        if application != APPLICATION:
            raise StoreError(f"{self.path} is not a stored run of sublevel.")
        if version != VERSION:
            raise StoreError(
                f"{self.path} has version {version} of the format; this sublevel reads version {VERSION}. Use the one that wrote it."
            )
        found = self._connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 20").fetchall()
        if sorted(found) != sorted(("table", name, sql) for name, sql in SCHEMA.items()):
            raise StoreError(f"{self.path} is damaged: its tables are not those of a stored run.")

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()

    @contextlib.contextmanager
    def complaining(self) -> Generator[None]:
        """SQLite's complaints as ours."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            raise StoreError(f"{self.path} cannot be used, it may be damaged: {error}") from error

    def check_structure(self) -> None:
        """SQLite's own look at every page: before anything is written into a file."""
        with self.complaining():
            (verdict,) = self._one("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise StoreError(f"{self.path} is damaged: {str(verdict)[:200]}")

    def rows(self, table: str, condition: str = "", arguments: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a table that meet a condition, without their checksums, which are right."""
        types = COLUMNS[table]
        with self.complaining():
            for row in self._connection.execute(f"SELECT * FROM {table} {condition}", arguments):
                columns = row[:-1]
                if tuple(map(type, columns)) != types or summed(*columns)[-1] != row[-1]:
                    raise StoreError(f"{self.path} is damaged: the row {str(row[0])[:40]!r} of {table} does not have its checksum.")
                yield columns

    def part(self, name: str) -> tuple[dict[str, Any], str, bytes]:
        """Facts, layout and bytes of a part."""
        with self.complaining():
            sizes = self._one(f"SELECT length(facts) + length(layout) FROM parts WHERE name = '{name}'")
        if sizes is None or not isinstance(sizes[0], int) or sizes[0] > LONGEST_FACTS:
            raise StoreError(f"{self.path} is damaged: its {name} is missing or far too long.")
        for _, facts, layout, data in self.rows("parts", "WHERE name = ?", (name,)):
            return parsed(facts, self.path, name), layout, data
        raise StoreError(f"{self.path} is damaged: its {name} is missing.")

    def last(self, table: str) -> tuple[int, int]:
        """How many rows a table has, and the last iteration in it (0 if none): equal, unless rows are missing."""
        with self.complaining():
            count, last = self._one(f"SELECT count(*), max(iteration) FROM {table}")
        return count, 0 if last is None else last

    def write(self, changes: Sequence[tuple[str, Sequence[Row]]], sync: bool) -> None:
        """Statements, each for its rows, in one transaction, which reaches the disk before this returns if `sync`."""
        connection = self._connection
        with self.complaining():
            if connection.in_transaction:  # an interrupt came in between
                connection.execute("ROLLBACK")
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in changes:
                    connection.executemany(statement, rows)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self, whole: bool = False) -> None:
        """Close it; as a single file if `whole` and nobody reads."""
        if whole:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 200")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


def insertion(table: str, replacing: bool = False) -> str:
    """The statement that adds rows to a table; rows that are there already stay as they are unless `replacing`."""
    places = ", ".join("?" * (len(COLUMNS[table]) + 1))
    return f"INSERT OR {'REPLACE' if replacing else 'IGNORE'} INTO {table} VALUES ({places})"


def create(path: Path, changes: Sequence[tuple[str, Sequence[Row]]]) -> None:
    """A new file with these rows: it is there with all of them or not at all, and no file that was there is touched."""
    _check_machine()
    unfinished = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        _check_new(path)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        _write_new(unfinished, changes)
        _give_name(unfinished, path)
        _sync_directory(path.resolve().parent)
    except FileExistsError:
        raise StoreError(
            f"{path} exists already. `sublevel.resume` or `sublevel resume` continues a stored run; for a new one choose another name."
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {path}: {error}. Choose a directory that exists and has room.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _check_new(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError


def _write_new(path: Path, changes: Sequence[tuple[str, Sequence[Row]]]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in SCHEMA.values():
            connection.execute(statement)
        for statement, rows in changes:
            connection.executemany(statement, rows)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _give_name(unfinished: Path, path: Path) -> None:
    """The name, if nobody has it."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        _check_new(path)
        os.rename(unfinished, path)


def _sync_directory(directory: Path) -> None:
    """Names reach the disk too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_machine() -> None:
    check_lockable()
    if sys.byteorder != "little":  # pragma: no cover
        raise StoreError("stored runs hold little-endian numbers, and this machine has others.")


def _connected(path: Path, writing: bool) -> sqlite3.Connection:
    """A connection to a file that is there, in which nothing of the file's own is ever run."""
    _check_machine()
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror or error}") from None
    if not is_file:
        raise StoreError(f"{path} is not a file.")
    address = f"file:{quote(str(path.resolve()))}?mode={'rw' if writing else 'ro'}"
    if not writing and not os.access(path.resolve().parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        address += "&immutable=1"  # nobody can write there, and SQLite could not put its own files beside it
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY / 1000, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_BLOB)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", f"query_only = {'OFF' if writing else 'ON'}"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def parsed(text: str, path: Path, name: str) -> dict[str, Any]:
    """JSON text as a dict."""
    try:
        facts: Any = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise StoreError(f"{path} is damaged: its {name} cannot be read.")
    return cast(dict[str, Any], facts)
