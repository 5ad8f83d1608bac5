"""A lock on the file of a run: one writer at a time. The lock ends with its process."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

from sublevel.store.errors import StoreError

LOCK_TIMEOUT = 0.1
"""Seconds to wait for a process that only checks whether the file is locked."""


class Lock:
    """The exclusive right to write a file, until it is closed or the process ends."""

    def __init__(self, path: Path) -> None:
        """Lock the file or raise StoreError."""
        self._file = _open(path)  # not inherited by child programs
        until = time.monotonic() + LOCK_TIMEOUT
        while not _try_lock(self._file, exclusive=True):
            if time.monotonic() > until:
                self.close()
                raise StoreError(
                    f"{path} is in use by another process. Wait until it ends, or stop it; `sublevel watch {path}` "
                    "shows its progress."
                )
            time.sleep(0.005)
        os.register_at_fork(after_in_child=self.close)  # a forked child would keep the lock after its parent ends
        try:
            _validate_single_name(path, self._file)
        except BaseException:
            self.close()
            raise

    def is_of(self, path: Path) -> bool:
        """Whether the path still refers to the locked file."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._file))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock."""
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)


def _validate_single_name(path: Path, file: int) -> None:
    """Raise StoreError if the file has hard links: SQLite keeps a separate log for each name."""
    if os.fstat(file).st_nlink > 1:
        _remove_temporary_name(path.resolve(), file)
    if (names := os.fstat(file).st_nlink) > 1:
        raise StoreError(
            f"{path} is one of {names} hard links to a file; writing to one of them would damage the run for the "
            "others. Copy the file and resume the copy, or delete the other links. If one of them has a file with the "
            "suffix -wal next to it, keep that link."
        )


def _remove_temporary_name(path: Path, file: int) -> None:
    """Remove the temporary name of the file, if its creator was killed before it could remove it."""
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}")
    for entry in os.scandir(path.parent):
        if unfinished.fullmatch(entry.name) and os.path.samestat(os.lstat(entry.path), os.fstat(file)):
            os.unlink(entry.path)


def is_locked(path: Path) -> bool:
    """Whether a process has locked the file."""
    validate_locks_available()
    file = _open(path)
    try:
        return not _try_lock(file, exclusive=False)
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """A descriptor of a file, without waiting: its name may have become that of a pipe."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))


def validate_locks_available() -> None:
    """Raise StoreError on a system without `flock`."""
    if importlib.util.find_spec("fcntl") is None:  # pragma: no cover
        raise StoreError(
            f"stored runs need `flock`, which Linux and macOS have and this system ({sys.platform}) does not."
        )


def _try_lock(file: int, exclusive: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
