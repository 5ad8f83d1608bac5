"""Standard streams that may be closed or lose their reader. Output is then discarded without an error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import TextIO


class TolerantStream:
    """A stream that discards its output once the reader has closed it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.is_lost = stream, False

    def write(self, text: str) -> int:
        """Write or discard the text; returns its length."""
        try:
            return self._stream.write(text)
        except OSError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """Flush the buffer or discard it."""
        try:
            self._stream.flush()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        """Redirect the descriptor to the null device, also for processes that inherit it."""
        self.is_lost = True
        with contextlib.suppress(OSError, ValueError):
            handle = os.open(os.devnull, os.O_WRONLY)
            os.dup2(handle, self._stream.fileno())
            os.close(handle)
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        """Other attributes of the stream."""
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_streams() -> Generator[None]:
    """Tolerate that stdout and stderr are closed, now or later."""
    open_closed_streams()
    before = sys.stdout, sys.stderr
    streams = sys.stdout, sys.stderr = TolerantStream(sys.stdout), TolerantStream(sys.stderr)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before


def open_closed_streams() -> None:
    """Open closed standard descriptors on the null device, so that no other file gets their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def is_lost(stream: object) -> bool:
    """Whether the reader of a stream has closed it."""
    return getattr(stream, "is_lost", False)
