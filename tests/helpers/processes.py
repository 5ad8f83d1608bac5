"""Processes of the system, and waiting for them."""

from __future__ import annotations

import time
from pathlib import Path


def is_running(pid):
    """Whether a process is there and has not ended. It may end while this is asked."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds):
    """Whether a condition holds within a time."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def ends(pid, within=5.0):
    """Whether a process ends in time."""
    return wait_until(lambda: not is_running(pid), within)
