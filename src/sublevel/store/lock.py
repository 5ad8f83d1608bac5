"""One driver for each file: a lock that dies with its process."""

from __future__ import annotations

import importlib.util
import os
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
        while not _taken(self._file, exclusive=True):
            if time.monotonic() > until:
                self.close()
                raise StoreError(
                    f"{path} is being driven by another process. Wait until it has ended, or end it; `sublevel watch {path}` shows "
                    "what it does."
                )
            time.sleep(0.005)
        os.register_at_fork(after_in_child=partial(_left, self))

    def close(self) -> None:
        """Let others drive."""
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)


def _left(lock: Lock) -> None:
    """In a forked child: it must not keep the lock when the driver is gone."""
    lock.close()


def is_driven(path: Path) -> bool:
    """Whether some process drives the file now."""
    file = os.open(path, os.O_RDONLY)
    try:
        return not _taken(file, exclusive=False)
    finally:
        os.close(file)


def check_lockable() -> None:
    """There are locks that die with their process."""
    if importlib.util.find_spec("fcntl") is None:  # pragma: no cover
        raise StoreError("stored runs need `flock`, which this operating system does not have.")


def _taken(file: int, exclusive: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
