"""`sublevel export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import FILE, FORCE, Command, CommandError, argument


def run_export(given: argparse.Namespace) -> int:
    """Write the table."""
    from sublevel.store.export import export, table_columns
    from sublevel.store.load import load
    from sublevel.store.output import check_output

    check_output(given.out, given.force)
    try:
        run = load(given.file)
        export(run.evaluations, given.out, table_columns(run.evaluations, run.settings, run.start), given.force)
    except ValueError as error:
        raise CommandError(str(error)) from error
    print(f"export: {given.out.resolve()}")
    return 0


OUT = argument("out", "file to write; must end with .csv, .parquet or .npz", Path, "OUT")
SUMMARY = "export all evaluations of a stored run as CSV, Parquet or NPZ"
COMMAND = Command("export", SUMMARY, run_export, (FILE, OUT, FORCE), "example:\n  sublevel export run.db run.csv")
