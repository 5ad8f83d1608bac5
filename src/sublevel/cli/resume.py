"""`sublevel resume`. The file never decides what is executed: the objective must be given again."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublevel.cli.common import CommandError, Subparsers, add_command, add_file_argument, describe_objective
from sublevel.cli.objective import objective, objective_label
from sublevel.cli.run_options import FUNCTION_HELP, add_run_options, run_options

if TYPE_CHECKING:
    from sublevel.run.result import Result

EXAMPLES = """examples:
  sublevel resume run.db mymodule.py:cost
  sublevel resume run.db --maxfevals 2000 --workers 4 --command ./simulate --fast

Options that are not given keep their stored values. Pass a larger budget to continue a run that used up its budget.
`sublevel show run.db` prints how the run was started.
"""


def add_resume(commands: Subparsers) -> None:
    """`sublevel resume`."""
    summary = "resume a stored run; the function or program must be given again"
    parser = add_command(commands, "resume", summary, EXAMPLES, "The result is the same as without the interruption.")
    add_file_argument(parser)
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=FUNCTION_HELP)
    parser.add_argument(
        "--no-check", action="store_true", help="do not check the objective by evaluating a stored point again"
    )
    add_run_options(parser)
    parser.set_defaults(run=run_resume)


def run_resume(given: argparse.Namespace) -> int:
    """Resume and print the result."""
    from sublevel.cli.execute import run_and_print
    from sublevel.cli.run_status import open_reader

    if given.function is None and given.command is None:
        raise CommandError(_missing_objective(given.file))
    given.file = given.file.absolute()
    with open_reader(given.file) as reading:
        d, names = reading.problem.x0.size, reading.settings.names
    return run_and_print(objective(given, d, names), given, _resume)


def _missing_objective(path: Path) -> str:
    """The message if no objective was given. It repeats the stored command line, which is never executed by itself."""
    from sublevel.cli.run_status import open_reader

    with open_reader(path) as reading:
        words = describe_objective(reading.settings)
    return (
        f"give the function or program again: sublevel resume {shlex.quote(str(path))} ... The run was started "
        f"with: {words}"
    )


def _resume(fun: Callable[..., Any], given: argparse.Namespace, workers: Any) -> Result:
    from sublevel.cli.run_status import open_reader
    from sublevel.store.resume import resume

    with open_reader(given.file) as reading:
        before = reading.settings.command
    if before and before != objective_label(given):
        print(f"note: the run was started with {describe_objective(reading.settings)}", file=sys.stderr)
    return resume(given.file, fun, workers=workers, check=not given.no_check, **run_options(fun, given))
