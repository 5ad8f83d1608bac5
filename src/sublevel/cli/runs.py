"""`sublevel runs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import CommandError, Subparsers, add_command, printable


def add_runs(commands: Subparsers) -> None:
    """`sublevel runs`."""
    parser = add_command(commands, "runs", "list the stored runs in a directory", "example:\n  sublevel runs results/")
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: the working directory"
    )
    parser.set_defaults(run=run_runs)


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
            text = (
                f"{printable(str(status.settings.method or 'own method'))}, {status.variables} variables, "
                f"{status_line(status)}"
            )
        except StoreError as error:
            exit_status, text = 1, str(error)
        print(f"{printable(path.name)}: {text}")
    if not paths:
        print(
            f"no stored runs in {given.directory}. Create one with `sublevel minimize --store FILE` or `minimize(..., "
            "store=FILE)`."
        )
    return exit_status
