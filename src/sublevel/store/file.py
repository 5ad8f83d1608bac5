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
import struct
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from sublevel.store.errors import StoreError, store_error
from sublevel.store.lock import validate_locks_available

APPLICATION = int.from_bytes(b"subl")
VERSION = 6
LONGEST_FACTS = 2**24
"""Bytes that the facts of a part may have."""
LARGEST_BLOB = 10**9
"""Bytes that SQLite takes in one value unless built otherwise."""
LARGE_ROWS = 2**18
"""Bytes of a generation from which on the file has large pages: these are written faster, but a small row would waste them."""
LONGEST_LOG = 2**25
"""Bytes of the log from which on SQLite moves it into the file, which waits for the disk twice."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite keeps beside its own."""
BUSY = 5000
"""Milliseconds to wait for a reader that is about to be done."""

SCHEMA = {
    "parts": "CREATE TABLE parts (name TEXT PRIMARY KEY, facts TEXT NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL, "
    "origin INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "restarts": "CREATE TABLE restarts (number INTEGER PRIMARY KEY, spent INTEGER NOT NULL, reasons TEXT NOT NULL, run TEXT NOT NULL, "
    "origin INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "snapshots": "CREATE TABLE snapshots (nfev INTEGER PRIMARY KEY, run INTEGER NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL, "
    "origin INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "generations": "CREATE TABLE generations (iteration INTEGER PRIMARY KEY, run INTEGER NOT NULL, popsize INTEGER NOT NULL, "
    "numbers BLOB NOT NULL, origin INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "evaluations": "CREATE TABLE evaluations (iteration INTEGER NOT NULL, place INTEGER NOT NULL, run INTEGER NOT NULL, "
    "points BLOB NOT NULL, vals BLOB NOT NULL, origin INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (iteration, place))",
    "samples": "CREATE TABLE samples (iteration INTEGER PRIMARY KEY, place INTEGER NOT NULL, size INTEGER NOT NULL, state TEXT NOT NULL, "
    "layout TEXT NOT NULL, data BLOB NOT NULL, origin INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "failures": "CREATE TABLE failures (iteration INTEGER NOT NULL, place INTEGER NOT NULL, size INTEGER NOT NULL, kind TEXT NOT NULL, "
    "what TEXT NOT NULL, origin INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (iteration, place))",
}
"""The tables. Arrays are bytes of little-endian float64; `origin` is the number of the run, and `crc` is that of all other columns."""
COLUMNS = {
    "parts": (str, str, str, bytes),
    "restarts": (int, int, str, str),
    "snapshots": (int, int, str, bytes),
    "generations": (int, int, int, bytes),
    "evaluations": (int, int, int, bytes, bytes),
    "samples": (int, int, int, str, str, bytes),
    "failures": (int, int, int, str, str),
}
"""The types of their columns but the last two, which SQLite does not enforce."""

Row = tuple[Any, ...]
Change = tuple[str, Sequence[Row]]
"""A statement and the rows that it is executed for."""


def with_checksum(*columns: Any) -> Row:
    """A row with its checksum: the CRC-32 of its numbers and of the lengths of the others (bytes, characters), then of these."""
    crc = zlib.crc32(struct.pack(f"<{len(columns)}q", *[column if type(column) is int else len(column) for column in columns]))
    for column in columns:
        if type(column) is not int:
            crc = zlib.crc32(column.encode() if type(column) is str else column, crc)
    return (*columns, crc)


def insert_rows(table: str, rows: Sequence[Row], origin: int, replacing: bool = False) -> Change:
    """Add rows to a table, with the number of their run; those that are there already stay as they are unless `replacing`."""
    places = ", ".join("?" * (len(COLUMNS[table]) + 2))
    statement = f"INSERT OR {'REPLACE' if replacing else 'IGNORE'} INTO {table} VALUES ({places})"
    return statement, [with_checksum(*row, origin) for row in rows]


class File:
    """An open file of ours, checked at the door. Everything that SQLite finds wrong becomes a StoreError."""

    def __init__(self, path: Path, writing: bool = False) -> None:
        self.path = path = path.absolute()  # the objective may change the working directory
        with self.translate_errors():
            self._connection = _connect(path, writing)
            try:
                self._check()
                self.origin = self._origin()
                if writing:
                    self._start_log()
            except BaseException:
                self._connection.close()
                raise

    def _start_log(self) -> None:
        """Write ahead, with a log that is there from now on."""
        (page_size,) = self._fetch_one("PRAGMA page_size")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {LONGEST_LOG // page_size}")
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("COMMIT")
        self._log = os.stat(side_file(self.path, "-wal"))

    def has_lost_log(self) -> bool:
        """Whether the log that this is writing to is not there any more, or another one is."""
        try:
            return not os.path.samestat(os.stat(side_file(self.path, "-wal")), self._log)
        except OSError:
            return True

    def reopen(self) -> bool:
        """Move what is in the log into the file, and begin another log; False if a reader is in the way."""
        with self.translate_errors():
            (is_busy, _, _) = self._fetch_one("PRAGMA wal_checkpoint(FULL)")
            if is_busy:
                return False
            self._connection.close()
            self._connection = _connect(self.path, writing=True)
            self._check()
            self._start_log()
        return True

    def _check(self) -> None:
        """It is ours, of this version, and has our tables and nothing else."""
        (application,), (version,) = (self._fetch_one(f"PRAGMA {name}") for name in ("application_id", "user_version"))
        if application != APPLICATION:
            raise StoreError(f"{self.path} is not a stored run of sublevel.")
        if version != VERSION:
            raise StoreError(
                f"{self.path} has version {version} of the format; this sublevel reads version {VERSION}. Use the one that wrote it."
            )
        found = self._connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 20").fetchall()
        if sorted(found) != sorted(("table", name, sql) for name, sql in SCHEMA.items()):
            raise StoreError(f"{self.path} is damaged: its tables are not those of a stored run.")

    def _origin(self) -> int:
        """The number of the run that the file is of."""
        found = self._fetch_one("SELECT origin FROM parts WHERE name = 'configuration'")
        if found is None or type(found[0]) is not int:
            raise StoreError(f"{self.path} is damaged: its configuration is missing.")
        return found[0]

    def _fetch_one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()

    @contextlib.contextmanager
    def translate_errors(self) -> Generator[None]:
        """SQLite's complaints as ours."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            raise store_error(self.path, error) from error

    def check_structure(self) -> None:
        """SQLite's own look at every page: before anything is written into a file."""
        with self.translate_errors():
            (verdict,) = self._fetch_one("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise StoreError(f"{self.path} is damaged: {str(verdict)[:200]}")

    def rows(self, table: str, condition: str = "", arguments: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a table that meet a condition, without their checksums, which are right."""
        types = COLUMNS[table]
        with self.translate_errors():
            for row in self._connection.execute(f"SELECT * FROM {table} {condition}", arguments):
                columns, origin = row[:-2], row[-2]
                if tuple(map(type, row[:-1])) != (*types, int) or with_checksum(*columns, origin)[-1] != row[-1]:
                    raise StoreError(f"{self.path} is damaged: the row {str(row[0])[:40]!r} of {table} does not have its checksum.")
                if origin != self.origin:
                    raise StoreError(
                        f"{self.path} is damaged: the row {str(row[0])[:40]!r} of {table} belongs to another run. A write-ahead log "
                        f"({self.path.name}-wal) of that run may have been beside this file when it was opened."
                    )
                yield columns

    def part(self, name: str) -> tuple[dict[str, Any], str, bytes]:
        """Facts, layout and bytes of a part."""
        with self.translate_errors():
            sizes = self._fetch_one(f"SELECT length(facts) + length(layout) FROM parts WHERE name = '{name}'")
        if sizes is None or not isinstance(sizes[0], int) or sizes[0] > LONGEST_FACTS:
            raise StoreError(f"{self.path} is damaged: its {name} is missing or far too long.")
        for _, facts, layout, data in self.rows("parts", "WHERE name = ?", (name,)):
            return parse_json(facts, self.path, name), layout, data
        raise StoreError(f"{self.path} is damaged: its {name} is missing.")

    def last(self, table: str) -> tuple[int, int]:
        """How many iterations a table has rows of, and the last one (0 if none): equal, unless rows are missing."""
        rows = "*" if table == "generations" else "DISTINCT iteration"
        with self.translate_errors():
            count, last = self._fetch_one(f"SELECT count({rows}), max(iteration) FROM {table}")
        return count, 0 if last is None else last

    def evaluations_after(self, iteration: int) -> int:
        """How many evaluations there are of the generations after one."""
        with self.translate_errors():
            (size,) = self._fetch_one(f"SELECT sum(length(vals)) FROM evaluations WHERE iteration > {int(iteration)}")
        return 0 if size is None else int(size) // 8

    def write(self, changes: Sequence[Change], sync: bool) -> None:
        """Statements, each for its rows, in one transaction, which reaches the disk before this returns if `sync`."""
        connection = self._connection
        with self.translate_errors():
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
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.execute("PRAGMA synchronous = OFF")  # all is on the disk, and only the header is left to change
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


def create(path: Path, tables: Mapping[str, Sequence[Row]], page_size: int = 4096) -> None:
    """A new file with these rows: it is there with all of them or not at all, and no file that was there is touched."""
    _validate_platform()
    unfinished = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        _check_new(path)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        _write_new(unfinished, tables, page_size)
        _publish(unfinished, path)
        _sync(path.resolve().parent)
    except FileExistsError:
        raise StoreError(
            f"{path} exists already. `sublevel.resume` or `sublevel resume` continues a stored run; for a new one choose another name."
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise store_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # what could not be created cannot be removed, and the first error is the one to tell
            unfinished.unlink()


def _check_new(path: Path) -> None:
    """Nothing has this name, and nothing that SQLite would take for a part of the new file."""
    if os.path.lexists(path):
        raise FileExistsError
    for end in SIDE_FILES:
        if os.path.lexists(side := side_file(path, end)):
            raise StoreError(
                f"{side} is left over from another run whose file {path} is gone; SQLite would mix its contents into the new file. "
                f"Delete {side}, or choose another name. (It may hold the last evaluations of that run: if you still have its file, put "
                "that back and resume it.)"
            )


def side_file(path: Path, end: str) -> Path:
    """One of SQLite's files beside a file, which may be a link."""
    target = path.resolve()
    return target.with_name(target.name + end)


def _write_new(path: Path, tables: Mapping[str, Sequence[Row]], page_size: int) -> None:
    origin = int.from_bytes(os.urandom(7))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA synchronous = OFF")  # the file reaches the disk as a whole, before it gets its name
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in SCHEMA.values():
            connection.execute(statement)
        for table, rows in tables.items():
            connection.executemany(*insert_rows(table, rows, origin))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    _sync(path)


def _publish(unfinished: Path, path: Path) -> None:
    """The name, if nobody has it."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        _check_new(path)
        os.rename(unfinished, path)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _validate_platform() -> None:
    validate_locks_available()
    if sys.byteorder != "little":  # pragma: no cover
        raise StoreError("stored runs hold little-endian numbers, and this machine has others.")


def _connect(path: Path, writing: bool) -> sqlite3.Connection:
    """A connection to a file that is there, in which nothing of the file's own is ever run."""
    _validate_platform()
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror or error}") from None
    if not is_file:
        raise StoreError(f"{path} is not a file.")
    address = f"file:{quote(os.fsencode(path.resolve()))}?mode={'rw' if writing else 'ro'}"
    if not writing and not os.access(path.resolve().parent, os.W_OK) and not side_file(path, "-wal").exists():
        address += "&immutable=1"  # nobody can write there, and SQLite could not put its own files beside it
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY / 1000, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_BLOB)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", f"query_only = {'OFF' if writing else 'ON'}"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def parse_json(text: str, path: Path, name: str) -> dict[str, Any]:
    """JSON text as a dict."""
    try:
        facts: Any = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise StoreError(f"{path} is damaged: its {name} cannot be read.")
    return cast(dict[str, Any], facts)
