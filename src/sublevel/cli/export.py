"""`sublevel export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sublevel.cli.common import FILE, FORCE, Command, CommandError, argument


def run_export(given: argparse.Namespace) -> int:
    """Write the table."""
    from sublevel.store.export import NO_VARIABLES, export, is_too_wide, omission
    from sublevel.store.load import load_table
    from sublevel.store.output import check_output

    check_output(given.out, given.force)
    try:
        found, columns = load_table(given.file)
        is_without = not given.variables and is_too_wide(found, given.out)
        export(found, given.out, NO_VARIABLES if is_without else columns, given.force)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if is_without:
        print(f"{omission(found, given.out)}, and a .csv file with --variables.", file=sys.stderr)
    print(f"export: {given.out.resolve()}")
    return 0


OUT = argument("out", "file to write; must end with .csv, .parquet or .npz", Path, "OUT")
SUMMARY = "export all evaluations of a stored run as CSV, Parquet or NPZ"
VARIABLES = argument(
    "--variables", "write all variables to a .csv file of more than 16,384 columns, too", action="store_true"
)
COMMAND = Command(
    "export", SUMMARY, run_export, (FILE, OUT, VARIABLES, FORCE), "example:\n  sublevel export run.db run.csv"
)
