"""`sublevel watch`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from sublevel.cli.common import FILE, Command
from sublevel.cli.standard_streams import is_lost

INTERVAL = 0.5
"""Seconds between two updates."""


def run_watch(given: argparse.Namespace) -> int:
    """Print the status until the run ends: one line that is updated on a terminal, else a line for each change."""
    from sublevel.cli.run_status import read_status, status_line

    is_terminal, previous = sys.stdout.isatty(), ""
    try:
        while True:
            status = read_status(given.file)
            text = status_line(status)
            if is_terminal:
                print("\r" + text[: shutil.get_terminal_size().columns - 1].ljust(len(previous)), end="", flush=True)
            elif text != previous:
                print(text, flush=True)
            previous = text
            if not status.is_running or is_lost(sys.stdout):
                break
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        pass
    if is_terminal:
        print()
    return 0


SUMMARY, EXAMPLE = "follow a stored run while another process runs it", "example:\n  sublevel watch run.db"
COMMAND = Command("watch", SUMMARY, run_watch, (FILE,), EXAMPLE, "Ctrl-C stops watching, not the run.")
