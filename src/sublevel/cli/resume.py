"""`sublevel resume`. The file never decides what is executed: the objective must be given again."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sublevel.cli.common import FILE, Command, CommandError, argument, describe_objective
from sublevel.cli.objective import Objective, objective, objective_label
from sublevel.cli.run_options import FUNCTION, RUN_ARGUMENTS, run_options

if TYPE_CHECKING:
    from sublevel.cli.execute import Workers
    from sublevel.run.result import Result

EXAMPLES = """examples:
  sublevel resume run.db mymodule.py:cost
  sublevel resume run.db --maxfevals 2000 --workers 4 --command ./simulate --fast

Options that are not given keep their stored values, except --workers (default: 1) and --error-bars, which are computed
only if they are asked for again. Pass a larger budget to continue a run that used up its budget.
`sublevel show run.db` prints the function or the program, the method and the result so far.
"""


def run_resume(given: argparse.Namespace) -> int:
    """Resume and print the result."""
    from sublevel.cli.execute import run_and_print
    from sublevel.store.reader import open_run

    with open_run(given.file) as reading:
        settings, problem = reading.settings, reading.problem
    started = describe_objective(settings)
    if given.function is None and given.command is None:  # the stored command line is never executed by itself
        command = f"sublevel resume {shlex.quote(str(given.file))} ..."
        raise CommandError(f"give the function or program again: {command} The run was started with: {started}")
    if not settings.is_described:
        hint = f"sublevel.resume({str(given.file)!r}, fun, space=space)"
        raise CommandError(f"the space of this run could not be stored in full; resume it from Python: {hint}")
    given.file = given.file.absolute()
    names = settings.names if settings.space is None else list(settings.space)
    integers = [] if problem.integrality is None else np.flatnonzero(problem.integrality).tolist()
    given.constraints = _printed_constraints(settings.constraints)
    fun = objective(given, problem.x0.size if settings.space is None else len(settings.space), names, integers)
    if settings.command and settings.command != objective_label(given):
        print(f"note: the run was started with {started}", file=sys.stderr)
    return run_and_print(fun, given, _resume)


def _printed_constraints(facts: Mapping[str, object] | None) -> int:
    """Number of constraint values that the objective returns with f."""
    from sublevel.store.constraint_facts import has_functions, stored_constraints

    if facts is None:
        return 0
    if has_functions(facts):
        raise CommandError("the constraints of this run are functions, which are not stored; resume it from Python.")
    return stored_constraints(facts).size


def _resume(fun: Objective, given: argparse.Namespace, workers: Workers) -> Result:
    from sublevel.store.resume import resume

    return resume(given.file, fun, workers=workers, check=not given.no_check, **run_options(fun, given))


COMMAND = Command(
    "resume",
    "resume a stored run; the function or program must be given again",
    run_resume,
    (
        FILE,
        FUNCTION,
        argument("--no-check", "do not check the objective by evaluating a stored point again", action="store_true"),
        *RUN_ARGUMENTS,
    ),
    EXAMPLES,
    "The result is the same as without the interruption.",
)
