"""The SQLite file of a run: its tables, how it is opened, and when it is refused.

Readers open it read-only. Its application id, version and schema are checked before anything else is read, and every
row has a checksum. Sizes declared in the file are not trusted: a blob is never larger than the file, and arrays are
read into templates of known layout.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
import struct
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sublevel.store.errors import StoreError, format_errors, store_error
from sublevel.store.lock import validate_locks_available
from sublevel.store.serialize import LONGEST_JSON, as_dict, parse_json

APPLICATION = int.from_bytes(b"subl")
VERSION = 15
LARGEST_BLOB = 10**9
"""Most bytes of a value in SQLite by default."""
PAGE_SIZES = {2**18: 65536, 2**11: 16384, 0: 4096}
"""Bytes of a page by the least bytes of a generation. Large pages are faster, but waste space with small rows."""
LEAST_LOG, LONGEST_LOG = 2**22, 2**25
"""Bytes of the write-ahead log from which SQLite moves it into the file, which waits for the disk twice: as many as the
file has, within these limits. A value that is written alone takes a page of the log or two.
"""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to its own."""
NUMBERS = 7
"""Numbers of a generation: evaluations, best value so far, best value, largest deviation, median value, violation of
constraints at the best point (0 without any), time of the run's clock, which stands still while no process runs it.
"""
BUSY = 5000
"""Milliseconds to wait for a reader."""

TABLES = {
    "parts": "name TEXT, facts TEXT, layout TEXT, data BLOB",
    "restarts": "number INTEGER, spent INTEGER, reasons TEXT, run TEXT",
    "snapshots": "nfev INTEGER, run INTEGER, layout TEXT, data BLOB",
    "generations": "iteration INTEGER, run INTEGER, popsize INTEGER, numbers BLOB",
    "evaluations": "iteration INTEGER, place INTEGER, run INTEGER, size INTEGER, points BLOB, vals BLOB",
    "samples": "iteration INTEGER, place INTEGER, size INTEGER, state TEXT, layout TEXT, data BLOB",
    "failures": "iteration INTEGER, place INTEGER, size INTEGER, kind TEXT, what TEXT",
}
"""The tables. Arrays are bytes of little-endian float64. Every row also has the columns `origin`, which identifies the
run, and `crc`, the checksum of all other columns. The key is the first column, or (iteration, place).
"""
CLASSES = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
COLUMNS = {table: tuple(CLASSES[word] for word in re.findall("[A-Z]+", text)) for table, text in TABLES.items()}
"""Types of the columns except `origin` and `crc`; SQLite does not enforce them."""


def _create_statement(table: str) -> str:
    key, *others = [*TABLES[table].split(", "), "origin INTEGER", "crc INTEGER"]
    if table in ("evaluations", "failures"):
        return f"CREATE TABLE {table} ({' NOT NULL, '.join([key, *others])} NOT NULL, PRIMARY KEY (iteration, place))"
    return f"CREATE TABLE {table} ({key} PRIMARY KEY, {' NOT NULL, '.join(others)} NOT NULL)"


SCHEMA = {table: _create_statement(table) for table in TABLES}

Row = tuple[Any, ...]
Change = tuple[str, Sequence[Row]]
"""A statement and its rows of parameters."""


def with_checksum(*columns: int | str | bytes | memoryview) -> Row:
    """Append the CRC-32 of all integers and of the lengths of the other columns, followed by their contents."""
    crc = zlib.crc32(
        struct.pack(f"<{len(columns)}q", *[column if isinstance(column, int) else len(column) for column in columns])
    )
    for column in columns:
        if not isinstance(column, int):
            crc = zlib.crc32(column.encode() if isinstance(column, str) else column, crc)
    return (*columns, crc)


def insert_rows(table: str, rows: Sequence[Row], origin: int) -> Change:
    """A change that adds or replaces rows of a run."""
    places = ", ".join("?" * (len(COLUMNS[table]) + 2))
    return f"INSERT OR REPLACE INTO {table} VALUES ({places})", [with_checksum(*row, origin) for row in rows]


class File:
    """An open file of a run, which is validated when it is opened. Errors of SQLite become a StoreError."""

    def __init__(self, path: Path, writing: bool = False) -> None:
        self.path = path = path.absolute()  # the objective may change the working directory
        self.is_writable = writing
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
        """Switch to a write-ahead log and create it."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        self.limit_log()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("COMMIT")
        self._log = os.stat(side_file(self.path, "-wal"))

    def limit_log(self) -> None:
        """Let the log become as long as the file, within limits. It is to be called from time to time."""
        with self.translate_errors():
            (page_size,), (pages,) = (self._fetch_one(f"PRAGMA {name}") for name in ("page_size", "page_count"))
            longest = min(max(page_size * pages, LEAST_LOG), LONGEST_LOG)
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {longest // page_size}")
            self._connection.execute(f"PRAGMA journal_size_limit = {longest}")

    def has_lost_log(self) -> bool:
        """Whether the write-ahead log was deleted or replaced."""
        try:
            return not os.path.samestat(os.stat(side_file(self.path, "-wal")), self._log)
        except OSError:
            return True

    def reopen(self) -> bool:
        """Move the contents of the log into the file and start a new log; False if a reader prevents it."""
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
        """Raise StoreError unless the file has our application id, version and tables, and nothing else."""
        (application,), (version,) = (self._fetch_one(f"PRAGMA {name}") for name in ("application_id", "user_version"))
        if application != APPLICATION:
            raise StoreError(f"{self.path} is not a stored run of sublevel.")
        if version != VERSION:
            raise StoreError(
                f"{self.path} has format version {version}, but this sublevel reads format {VERSION}. Use the version "
                "that wrote it."
            )
        found = self._connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 20"
        ).fetchall()
        if sorted(found) != sorted(("table", name, sql) for name, sql in SCHEMA.items()):
            raise StoreError(f"{self.path} is damaged: its tables are not those of a stored run.")

    def _origin(self) -> int:
        """The number that identifies the run."""
        found = self._fetch_one("SELECT origin FROM parts WHERE name = 'configuration'")
        if found is None or type(found[0]) is not int:
            raise StoreError(f"{self.path} is damaged: its configuration is missing.")
        return found[0]

    def _fetch_one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()

    @contextlib.contextmanager
    def translate_errors(self) -> Generator[None]:
        """Raise errors of SQLite as StoreError."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            raise store_error(self.path, error) from error

    def check_structure(self) -> None:
        """Let SQLite check every page, before the file is written to."""
        with self.translate_errors():
            (verdict,) = self._fetch_one("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise StoreError(f"{self.path} is damaged: {str(verdict)[:200]}")

    def rows(self, table: str, condition: str = "", arguments: Sequence[int | str] = ()) -> Iterator[Row]:
        """The rows of a table that satisfy a condition, without their checksums, which are verified."""
        types = COLUMNS[table]
        with self.translate_errors():
            for row in self._connection.execute(f"SELECT * FROM {table} {condition}", arguments):
                columns, origin = row[:-2], row[-2]
                if tuple(map(type, row[:-1])) != (*types, int) or with_checksum(*columns, origin)[-1] != row[-1]:
                    raise StoreError(
                        f"{self.path} is damaged: the row {str(row[0])[:40]!r} of {table} has a wrong checksum."
                    )
                if origin != self.origin:
                    raise StoreError(
                        f"{self.path} is damaged: the row {str(row[0])[:40]!r} of {table} belongs to another run. A "
                        f"write-ahead log ({self.path.name}-wal) of that run may have been next to this file when it "
                        "was opened."
                    )
                yield columns

    def has_part(self, name: str) -> bool:
        """Whether the file has a part of this name, which not every run has."""
        with self.translate_errors():
            return self._fetch_one(f"SELECT 1 FROM parts WHERE name = '{name}'") is not None

    def part(self, name: str) -> tuple[dict[str, object], str, bytes]:
        """Facts, layout and bytes of a part."""
        with self.translate_errors():
            sizes = self._fetch_one(f"SELECT length(facts) + length(layout) FROM parts WHERE name = '{name}'")
        if sizes is None or not isinstance(sizes[0], int) or sizes[0] > LONGEST_JSON:
            raise StoreError(f"{self.path} is damaged: its {name} is missing or too long.")
        for _, facts, layout, data in self.rows("parts", "WHERE name = ?", (name,)):
            with format_errors(self.path):
                return as_dict(parse_json(facts, refusal := f"its {name} cannot be read"), refusal), layout, data
        raise StoreError(f"{self.path} is damaged: its {name} is missing.")

    def count_generations(self) -> tuple[int, int]:
        """The number of finished generations, and the last one (0 if none). They are equal unless rows are missing."""
        return self._count("sum({0}), max(iteration + {0} - 1)", f"length(numbers) / {8 * NUMBERS}", "generations")

    def last_evaluated(self) -> int:
        """The last generation of which there is a value (0 if none)."""
        return self._count("0, max(iteration + {0} - 1)", "length(vals) / (8 * size)", "evaluations")[1]

    def _count(self, query: str, generations: str, table: str) -> tuple[int, int]:
        """Two counts, given the number of generations of a row in SQL."""
        with self.translate_errors():
            found = self._fetch_one(f"SELECT {query.format(generations)} FROM {table}")
        count, last = (0 if number is None else number for number in found)
        if type(count) is not int or type(last) is not int:
            raise StoreError(f"{self.path} is damaged: the numbers of its generations are invalid.")
        return count, last

    def evaluations_after(self, iteration: int) -> int:
        """The number of evaluations after a generation."""
        with self.translate_errors():
            (size,) = self._fetch_one(f"SELECT sum(length(vals)) FROM evaluations WHERE iteration > {int(iteration)}")
        return 0 if size is None else int(size) // 8

    def write(self, changes: Sequence[Change], sync: bool) -> None:
        """Execute changes in one transaction; with `sync`, wait until it is on the disk."""
        connection = self._connection
        with self.translate_errors():
            if connection.in_transaction:  # after an interrupt
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
        """Close the file; with `whole`, merge the log into it unless a reader prevents it."""
        if whole:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 200")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.execute("PRAGMA synchronous = OFF")  # all data are on the disk
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


def create(path: Path, tables: Mapping[str, Sequence[Row]], page_size: int) -> None:
    """Create a file with these rows, atomically. Existing files are not touched."""
    _validate_platform()
    unfinished = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        _check_new(path)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        _write_new(unfinished, tables, page_size)
        publish(unfinished, path)
        _sync(path.resolve().parent)
    except FileExistsError:
        raise StoreError(
            f"{path} exists already. Continue a stored run with `sublevel.resume` or `sublevel resume`; for a new run "
            "choose another name."
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise store_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # it may not exist; the first error is raised
            unfinished.unlink()


def _check_new(path: Path) -> None:
    """Raise an error if the name is taken, or if SQLite would use an old file as a part of the new one."""
    if os.path.lexists(path):
        raise FileExistsError
    for end in SIDE_FILES:
        if os.path.lexists(side := side_file(path, end)):
            raise StoreError(
                f"{side} is left over from another run, whose file {path} no longer exists; SQLite would add its "
                f"contents to the new file. Delete {side}, or choose another name. It may contain the last evaluations "
                "of that run: if you still have its file, restore it and resume the run."
            )


def side_file(path: Path, end: str) -> Path:
    """A file that SQLite keeps next to a file, which may be a symbolic link."""
    target = path.resolve()
    return target.with_name(target.name + end)


def _write_new(path: Path, tables: Mapping[str, Sequence[Row]], page_size: int) -> None:
    origin = int.from_bytes(os.urandom(7))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA synchronous = OFF")  # the whole file is synced before it gets its name
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


def _link(target: Path, path: Path) -> None:
    if not hasattr(os, "link"):
        raise OSError("this system has no links")
    os.link(target, path)


def publish(unfinished: Path, path: Path) -> None:
    """Give a complete file its name; FileExistsError if the name is taken. The other name is to be removed."""
    try:
        _link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileExistsError from None
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
        raise StoreError("stored runs need a little-endian machine.")


def _connect(path: Path, writing: bool) -> sqlite3.Connection:
    """Connect to an existing file. No code in the file, such as triggers or views, is ever executed."""
    _validate_platform()
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror or error}") from None
    if not is_file:
        raise StoreError(f"{path} is not a file.")
    address = f"file:{quote(os.fsencode(path.resolve()))}?mode={'rw' if writing else 'ro'}"
    if not writing and not os.access(path.resolve().parent, os.W_OK) and not side_file(path, "-wal").exists():
        address += "&immutable=1"  # a read-only directory, in which SQLite cannot create its own files
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY / 1000, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_BLOB)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in (
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        f"query_only = {'OFF' if writing else 'ON'}",
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection
