"""`sublevel export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import CommandError, Subparsers, add_command, add_file_argument, add_force_option


def add_export(commands: Subparsers) -> None:
    """`sublevel export`."""
    summary = "export all evaluations of a stored run as CSV, Parquet or NPZ"
    parser = add_command(commands, "export", summary, "example:\n  sublevel export run.db run.csv")
    add_file_argument(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="file to write; must end with .csv, .parquet or .npz")
    add_force_option(parser)
    parser.set_defaults(run=run_export)


def run_export(given: argparse.Namespace) -> int:
    """Write the table."""
    from sublevel.store.export import export
    from sublevel.store.load import load
    from sublevel.store.output import check_output

    check_output(given.out, given.force)
    try:
        run = load(given.file)
        export(run.evaluations, given.out, run.settings.names, given.force)
    except ValueError as error:
        raise CommandError(str(error)) from error
    print(f"export: {given.out.resolve()}")
    return 0
