"""`sublevel runs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import Command, CommandError, argument, printable


def run_runs(given: argparse.Namespace) -> int:
    """Print a line for each stored run; 1 if one cannot be read."""
    from sublevel.cli.run_status import read_status, status_line
    from sublevel.store.errors import StoreError
    from sublevel.store.output import is_stored_run

    if not given.directory.is_dir():
        raise CommandError(f"there is no directory {given.directory}.")
    exit_status, paths = 0, [path for path in sorted(given.directory.iterdir()) if is_stored_run(path)]
    for path in paths:
        try:
            status = read_status(path)
            method = printable(str(status.settings.method or "own method"))
            text = f"{method}, {status.variables} variables, {status_line(status)}"
        except StoreError as error:
            exit_status, text = 1, str(error)
        print(f"{printable(path.name)}: {text}")
    if not paths:
        hint = "Create one with `sublevel minimize --store FILE` or `minimize(..., store=FILE)`."
        print(f"no stored runs in {given.directory}. {hint}")
    return exit_status


DIRECTORY = argument("directory", "directory (default: the working directory)", Path, "DIR", nargs="?", default=Path())
EXAMPLE = "example:\n  sublevel runs results/"
COMMAND = Command("runs", "list the stored runs in a directory", run_runs, (DIRECTORY,), EXAMPLE)
