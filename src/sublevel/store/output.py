"""Output files of commands. They never overwrite a stored run, follow no symbolic links, and are written atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from sublevel.store.errors import StoreError
from sublevel.store.file import APPLICATION, SIDE_FILES, publish

HEADER = 72
"""Bytes at the beginning of a file that identify a stored run."""


def is_stored_run(path: Path) -> bool:
    """Whether a file is marked as a stored run. Pipes, sockets and devices are not opened."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as stream:
            head = stream.read(HEADER) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except (OSError, ValueError):
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION.to_bytes(4)


def check_output(path: Path, force: bool) -> None:
    """Raise StoreError if a file must not be written; `force` allows an ordinary file to be overwritten."""
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link, which is not followed. Choose another name, or remove the link.")
    owners = [path.with_name(path.name.removesuffix(end) or path.name) for end in SIDE_FILES]
    if any(map(is_stored_run, owners)):
        raise StoreError(f"{path} belongs to a stored run, which is never overwritten. Choose another name.")
    if os.path.lexists(path) and not path.is_file():
        raise StoreError(f"{path} is not a regular file. Choose another name.")
    if path.exists() and not force:
        raise StoreError(f"{path} exists already. Choose another name, or overwrite it with --force.")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"cannot write {path}: there is no directory {path.absolute().parent}.")


def write_output(path: Path, write: Callable[[Path], object], force: bool = False) -> None:
    """Call `write` with a temporary path and give the file its name when it is complete."""
    check_output(path, force)
    unfinished = path.with_name(f".{os.urandom(6).hex()}{path.suffix}")
    try:
        write(unfinished)
        check_output(path, force)  # what is there may have changed
        if force:
            os.replace(unfinished, path)
        else:
            publish(unfinished, path)
    except FileExistsError:
        raise StoreError(f"{path} exists already. Choose another name.") from None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)
