"""Standard streams that may be closed, or whose reader may go away: what is written is then lost, and nothing else happens."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any


class TolerantStream:
    """A stream that discards what cannot be written, once its reader is gone."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_lost = stream, False

    def write(self, text: str) -> int:
        """Write or discard; how many characters that was."""
        try:
            return self._stream.write(text)
        except OSError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """Write out what is held back, or discard it."""
        try:
            self._stream.flush()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        """From now on the descriptor is that of the null device, for Python and for every process that inherits it."""
        self.is_lost = True
        with contextlib.suppress(OSError, ValueError):
            handle = os.open(os.devnull, os.O_WRONLY)
            os.dup2(handle, self._stream.fileno())
            os.close(handle)
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the stream has."""
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_streams() -> Generator[None]:
    """Let stdout and stderr be closed, or be closed by their readers."""
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
    """Give closed standard descriptors to the null device, before a file of ours gets their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def is_lost(stream: Any) -> bool:
    """Whether nobody reads a stream any more."""
    return getattr(stream, "is_lost", False)
