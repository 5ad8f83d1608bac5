"""`sublevel minimize`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublevel.cli.argument_types import bounds, count, indices, numbers, restarts, seed, variable_names
from sublevel.cli.common import CommandError, Subparsers, add_command
from sublevel.cli.objective import objective, objective_label
from sublevel.cli.run_options import FUNCTION_HELP, add_run_options, run_options

if TYPE_CHECKING:
    from sublevel.run.result import Result

EXAMPLES = """examples:
  sublevel minimize mymodule.py:cost --x0 0,0,0 --sigma0 0.5
  sublevel minimize mymodule:cost --x0 1,2 --sigma0 0.3 --bounds "-1:2,0:none" --restarts bipop --plot run.png
  sublevel minimize --x0 1,2 --sigma0 0.3 --timeout 60 --workers 4 --store run.db --command ./simulate --fast
  sublevel minimize --x0 1,2 --sigma0 0.3 --names rate,depth --pattern last --command ./simulate --rate={rate} {depth}
  sublevel minimize --x0 1,2 --sigma0 0.3 --pattern "cost = (.*)" --command ./simulate {}
  sublevel minimize fit.py:chi2 --x0 1,2 --sigma0 0.3 --names rate,depth --error-bars 31

functions:
  FUNCTION is in a Python file, in an installed module or in a module of the working directory.

programs:
  A program reads the point as a JSON list from stdin. Values can also be arguments: {0} or {x0} is the first
  variable, {NAME} a variable named by --names, and {} alone inserts all values. Write {{0}} for the text {0}.
  The output must be one number. With --pattern REGEX the value is the last match, or its group if the expression has
  one; with --pattern last it is the last number in the output. An evaluation fails if the exit status is not 0, if
  there is no value, or on timeout.

exit status:
  0 a finite value was found, 1 none was found or the function raised, 2 wrong usage, 130 interrupted.
  After an error or Ctrl-C the best point so far is printed.
"""


def add_minimize(commands: Subparsers) -> None:
    """`sublevel minimize`."""
    parser = add_command(commands, "minimize", "minimize a Python function or an external program", EXAMPLES)
    _add_problem(parser)
    parser.add_argument(
        "--method", default="cma", metavar="NAME", help="cma, sep-cma, lra-cma, xnes, ngd, ... (default: cma)"
    )
    parser.add_argument("--popsize", type=count, metavar="N", help="number of points per generation")
    parser.add_argument(
        "--restarts",
        type=restarts,
        metavar="ipop|bipop|N",
        help="restart when the search converges before the budget ends",
    )
    parser.add_argument("--seed", type=seed, metavar="S", help="seed of the random numbers, for a reproducible run")
    parser.add_argument(
        "--store", type=Path, metavar="FILE", help="store every evaluation in a new file; see `sublevel resume`"
    )
    add_run_options(parser)
    parser.set_defaults(run=run_minimize)


def _add_problem(parser: argparse.ArgumentParser) -> None:
    """The objective, the starting point and the variables."""
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=FUNCTION_HELP)
    parser.add_argument("--x0", type=numbers, metavar="1,2,3", help="starting point (required)")
    parser.add_argument(
        "--sigma0",
        type=numbers,
        metavar="S",
        help="initial standard deviation, one number or one per variable (required)",
    )
    parser.add_argument(
        "--bounds",
        type=bounds,
        metavar="LO:HI,...",
        help="one pair for all variables or one per variable; none: no bound",
    )
    parser.add_argument(
        "--log-scaled",
        type=indices,
        metavar="0,2|all",
        default=[],
        help="indices of variables to search on a log scale",
    )
    parser.add_argument(
        "--names",
        type=variable_names,
        metavar="NAME,...",
        help="names of the variables, also usable in --command as {NAME}",
    )


def run_minimize(given: argparse.Namespace) -> int:
    """Minimize and print the result."""
    from sublevel.cli.execute import run_and_print
    from sublevel.validation import as_names

    missing = [name for name in ("--x0", "--sigma0") if getattr(given, name[2:]) is None]
    if missing:
        hint = " Everything after --command belongs to the program: put --command last." if given.command else ""
        raise CommandError(
            f"{' and '.join(missing)} must be given: the starting point and its initial standard deviation.{hint}"
        )
    try:
        names = None if given.names is None else as_names(given.names, len(given.x0))
    except ValueError as error:
        raise CommandError(str(error)) from None
    return run_and_print(objective(given, len(given.x0), names), given, _minimize)


def _minimize(fun: Callable[..., Any], given: argparse.Namespace, workers: Any) -> Result:
    from sublevel.run.minimize import minimize

    d = len(given.x0)
    settings: dict[str, Any] = {
        "method": given.method,
        "popsize": given.popsize,
        "bounds": given.bounds * d if given.bounds is not None and len(given.bounds) == 1 else given.bounds,
        "names": given.names,
        "restarts": given.restarts,
        "log_scaled": _log_scaled(given.log_scaled, d),
        "rng": given.seed,
        "store": _store_target(given),
    }
    sigma0 = given.sigma0[0] if len(given.sigma0) == 1 else given.sigma0
    return minimize(
        fun,
        given.x0,
        None if given.method == "pbil" else sigma0,
        workers=workers,
        **settings,
        **run_options(fun, given),
    )


def _store_target(given: argparse.Namespace) -> Any:
    if given.store is None:
        return None
    from sublevel.store.settings import Target

    return Target(given.store, objective_label(given))


def _log_scaled(chosen: list[int] | None, d: int) -> list[bool]:
    """Which of d variables are log-scaled, given their indices; None means all."""
    if chosen is None:
        return [True] * d
    if chosen and max(chosen) >= d:
        raise CommandError(
            f"--log-scaled: index {max(chosen)} is out of range; --x0 has {d} variables, numbered from 0."
        )
    return [i in chosen for i in range(d)]
