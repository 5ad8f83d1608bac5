"""`sublevel report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import FILE, FORCE, Command, CommandError, argument


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
        hint = "which is not installed: pip install 'sublevel[plot]'"
        raise CommandError(f"the figures need {error.name}, {hint}") from error
    write_output(out, lambda file: file.write_text(text, encoding="utf-8"), given.force)
    print(f"report: {out.resolve()}")
    return 0


OUT = argument("--out", "file to write (default: FILE with the suffix .html)", Path, "PAGE")
COMMAND = Command(
    "report",
    "write an HTML report on a stored run",
    run_report,
    (FILE, OUT, FORCE),
    "example:\n  sublevel report run.db --out run.html",
    "The report is one file.",
)
