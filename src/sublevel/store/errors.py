"""Error messages of stored runs."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class StoreError(RuntimeError):
    """Raised if a file cannot be used: it is damaged, forged, of another version, in use, or not a stored run."""


class FormatError(ValueError):
    """Stored data that do not have the expected form. The message continues a sentence about the file."""


@contextmanager
def format_errors(path: Path) -> Generator[None]:
    """Raise a FormatError as a StoreError that names the file."""
    try:
        yield
    except FormatError as error:
        raise StoreError(f"{path} is damaged or forged: {error}.") from None


FULL = "the disk is full: {path} could not be written. Free some space, then resume the run; earlier data are intact."
WRITING = (
    "{path} could not be written ({error}): the disk may be full or failing, or a limit on the size of files (`ulimit "
    "-f`) or a quota is reached. Resolve this, then resume the run; earlier data are intact."
)
READONLY = (
    "{path} cannot be written: the file, its directory or the file system is read-only ({error}). Make it writable, "
    "or copy the file, together with {path}-wal if it exists, to a writable directory; then resume the run."
)
OPENING = (
    "{path} cannot be opened ({error}): check the permissions of the file and its directory, and the limit of "
    "open files (`ulimit -n`)."
)
LOCKED = "{path} is locked by another program ({error}). Close that program, then try again."
READING = (
    "{path} cannot be read ({error}): the disk or the connection to it is failing. Copy the file to another "
    "disk, then try again."
)
MEMORY = "there is not enough memory for {path} ({error})."
DAMAGED = "{path} cannot be used and may be damaged: {error}"
NO_PLACE = "cannot write {path}: {error}. Choose an existing directory with enough space."
NO_RIGHTS = "cannot write {path}: {error}. Choose a directory in which you have write permission."
LONG_NAME = "cannot write {path}: {error}. Choose a name of at most 200 characters."

SQLITE = {
    "SQLITE_FULL": FULL,
    "SQLITE_READONLY": READONLY,
    "SQLITE_CANTOPEN": OPENING,
    "SQLITE_PERM": OPENING,
    "SQLITE_BUSY": LOCKED,
    "SQLITE_LOCKED": LOCKED,
    "SQLITE_NOMEM": MEMORY,
    "SQLITE_IOERR_READ": READING,
    "SQLITE_IOERR_SHORT_READ": DAMAGED,
    "SQLITE_IOERR_NOMEM": MEMORY,
    "SQLITE_IOERR_CORRUPTFS": READING,
    "SQLITE_IOERR": WRITING,
}
"""Messages by the names, or beginnings of names, of SQLite errors."""
SYSTEM = {
    errno.ENOSPC: "the disk is full: {path} could not be created. Free some space, or choose another directory.",
    errno.EDQUOT: "cannot write {path}: {error}. Free some space, or choose another directory.",
    errno.EFBIG: "cannot write {path}: {error}. A limit on the size of files (`ulimit -f`) is reached.",
    errno.EROFS: NO_RIGHTS,
    errno.EACCES: NO_RIGHTS,
    errno.EPERM: NO_RIGHTS,
    errno.ENAMETOOLONG: LONG_NAME,
    errno.EMFILE: "cannot write {path}: {error}. Raise the limit of open files (`ulimit -n`).",
}
"""Messages by the error numbers of the operating system."""


def store_error(path: Path, error: Exception) -> StoreError:
    """The StoreError for a failed access to a file."""
    if isinstance(error, OSError):
        sentence, reason = SYSTEM.get(error.errno or 0, NO_PLACE), error.strerror or error
    else:
        name = getattr(error, "sqlite_errorname", "") or ""
        ends = [end for end in range(len(name), 0, -1) if end == len(name) or name[end] == "_"]
        sentence, reason = next((SQLITE[name[:end]] for end in ends if name[:end] in SQLITE), DAMAGED), error
        if sentence is DAMAGED and isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error):
            sentence = FULL
    return StoreError(sentence.format(path=path, error=reason))
