"""One driver for each file: a lock that dies with its process."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from sublevel.store.errors import StoreError

PATIENCE = 0.1
"""Seconds in which a reader that asks who drives must be gone."""


class Lock:
    """The right to drive a file, held until closed or until this process is no more."""

    def __init__(self, path: Path) -> None:
        """Take it at once or raise."""
        self._file = os.open(path, os.O_RDONLY)  # not inherited by programs that are started
        until = time.monotonic() + PATIENCE
        while not _try_lock(self._file, exclusive=True):
            if time.monotonic() > until:
                self.close()
                raise StoreError(
                    f"{path} is being driven by another process. Wait until it has ended, or end it; `sublevel watch {path}` shows "
                    "what it does."
                )
            time.sleep(0.005)
        os.register_at_fork(after_in_child=partial(_close_in_child, self))
        try:
            _validate_single_name(path, self._file)
        except BaseException:
            self.close()
            raise

    def is_of(self, path: Path) -> bool:
        """Whether the file that has this name is still the one that was locked."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._file))
        except OSError:
            return False

    def close(self) -> None:
        """Let others drive."""
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)


def _close_in_child(lock: Lock) -> None:
    """In a forked child: it must not keep the lock when the driver is gone."""
    lock.close()


def _validate_single_name(path: Path, file: int) -> None:
    """The file has no other name: SQLite keeps a log beside each name, and what is in one log is missing from the other."""
    if os.fstat(file).st_nlink > 1:
        _remove_temporary_name(path.resolve(), file)
    if (names := os.fstat(file).st_nlink) > 1:
        raise StoreError(
            f"{path} is one of {names} names (hard links) of a file, and writing under one name would damage it for the others. "
            f"Make a copy under a new name and resume that, or delete the other names; the run was begun under the name that has a "
            "file ending with -wal beside it, if there is one."
        )


def _remove_temporary_name(path: Path, file: int) -> None:
    """Remove the name that the file had before it was complete, if its creator was killed before it could do so."""
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}")
    for entry in os.scandir(path.parent):
        if unfinished.fullmatch(entry.name) and os.path.samestat(os.lstat(entry.path), os.fstat(file)):
            os.unlink(entry.path)


def is_locked(path: Path) -> bool:
    """Whether some process drives the file now."""
    file = os.open(path, os.O_RDONLY)
    try:
        return not _try_lock(file, exclusive=False)
    finally:
        os.close(file)


def validate_locks_available() -> None:
    """There are locks that die with their process."""
    if importlib.util.find_spec("fcntl") is None:  # pragma: no cover
        raise StoreError("stored runs need `flock`, which this operating system does not have.")


def _try_lock(file: int, exclusive: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
