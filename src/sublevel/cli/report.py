"""`sublevel report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import CommandError, Subparsers, add_command, add_file_argument, add_force_option


def add_report(commands: Subparsers) -> None:
    """`sublevel report`."""
    summary = "write an HTML report on a stored run"
    parser = add_command(
        commands, "report", summary, "example:\n  sublevel report run.db --out run.html", "The report is one file."
    )
    add_file_argument(parser)
    parser.add_argument("--out", type=Path, metavar="PAGE", help="file to write (default: FILE with the suffix .html)")
    add_force_option(parser)
    parser.set_defaults(run=run_report)


def run_report(given: argparse.Namespace) -> int:
    """Write the report."""
    from sublevel.store.load import load
    from sublevel.store.output import check_output, write_output

    out = given.out or given.file.with_suffix(".html")
    check_output(out, given.force)
    try:
        from sublevel.cli.report_page import report_page

        text = report_page(load(given.file))
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the figures need {error.name}, which is not installed: pip install 'sublevel[plot]'"
        ) from error
    write_output(out, lambda file: file.write_text(text, encoding="utf-8"), given.force)
    print(f"report: {out.resolve()}")
    return 0
