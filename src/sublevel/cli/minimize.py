"""`sublevel minimize`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sublevel.cli.argument_types import (
    bounds,
    count,
    kinds,
    matrix,
    numbers,
    restarts,
    seed,
    some_variables,
    tolerance,
    variable_names,
)
from sublevel.cli.common import Command, CommandError, argument
from sublevel.cli.objective import Objective, objective, objective_label
from sublevel.cli.run_options import FUNCTION, RUN_ARGUMENTS, Options, run_options
from sublevel.cli.space_file import read_space, space_names
from sublevel.engine.ordering import ORDERINGS

if TYPE_CHECKING:
    from sublevel.cli.execute import Workers
    from sublevel.run.result import Result

EXAMPLES = """examples:
  sublevel minimize mymodule.py:cost --x0 0,0,0 --sigma0 0.5
  sublevel minimize mymodule:cost --x0 1,2 --sigma0 0.3 --bounds "-1:2,0:none" --restarts bipop --plot run.png
  sublevel minimize --x0 1,2 --sigma0 0.3 --timeout 60 --workers 4 --store run.db --command ./simulate --fast
  sublevel minimize --x0 1,2 --sigma0 0.3 --names rate,depth --pattern last --command ./simulate --rate={rate} {depth}
  sublevel minimize --x0 1,2 --sigma0 0.3 --pattern "cost = (.*)" --command ./simulate {}
  sublevel minimize --space space.toml --pattern last --command ./train --rate={rate} --kernel={kernel}
  sublevel minimize mymodule.py:cost --x0 1,2 --sigma0 0.3 --integrality 0,1
  sublevel minimize fit.py:chi2 --x0 1,2 --sigma0 0.3 --names rate,depth --error-bars 31

functions:
  FUNCTION is in a Python file, in an installed module or in a module of the working directory.

spaces:
  The file of --space is JSON or TOML and has a table for each parameter, here in TOML:
    rate = {type = "real", low = 1e-6, high = 1, log = true}
    depth = {type = "integer", low = 1, high = 12}
    kernel = {type = "choice", values = ["rbf", "poly"]}
  Further keys are start, scale (of real and integer) and ordered (of choice); a plain value is a constant.
  A function is then called with a dict, and a program gets the values by name. --x0 is not needed.

programs:
  A program reads the point as a JSON list from stdin, with --space as a JSON object. Values can also be arguments:
  {0} or {x0} is the first variable, {NAME} a variable named by --names or --space, and {} alone inserts all values.
  Write {{0}} for the text {0}.
  The output must be one number. With --pattern REGEX the value is the last match, or its group if the expression has
  one; with --pattern last it is the last number in the output. An evaluation fails if the exit status is not 0, if
  there is no value, or on timeout.

constraints:
  With --constraints M a function returns (f, g) with M values g, which are at most 0 where the constraints are
  satisfied; a program prints f and then g, as 1 + M numbers, or those are the last ones that --pattern finds.

exit status:
  0 a finite value was found, 1 none was found or the function raised, 2 wrong usage, 130 interrupted.
  After an error or Ctrl-C the best point so far is printed.
"""


def run_minimize(given: argparse.Namespace) -> int:
    """Minimize and print the result."""
    from sublevel.cli.execute import run_and_print
    from sublevel.validation import as_integrality, as_names

    if given.space is not None:
        _check_alone(given)
        given.space = read_space(given.space)
        names = space_names(given.space)
        return run_and_print(objective(given, len(names), names), given, _minimize)
    needed = ("--x0", "--sigma0") if given.bounds is None else ("--x0",)
    missing = [name for name in needed if getattr(given, name[2:]) is None]
    if missing:
        hint = " Everything after --command belongs to the program: put --command last." if given.command else ""
        meaning = "the starting point and its initial standard deviation"
        raise CommandError(f"{' and '.join(missing)} must be given: {meaning}; or --space.{hint}")
    d = len(given.x0)
    try:
        names = None if given.names is None else as_names(given.names, d)
        integers = np.flatnonzero(as_integrality(given.integrality, d)).tolist()
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from None
    return run_and_print(objective(given, d, names, integers), given, _minimize)


def _check_alone(given: argparse.Namespace) -> None:
    """Refuse options that a space replaces."""
    unset: dict[str, object] = {"x0": None, "bounds": None, "log_scaled": [], "integrality": None, "names": None}
    for name, default in unset.items():
        if getattr(given, name) != default:
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option} must not be given with --space, whose parameters define it.")


def _minimize(fun: Objective, given: argparse.Namespace, workers: Workers) -> Result:
    from sublevel.run.minimize import evaluations_at_a_time, minimize
    from sublevel.store.load import load
    from sublevel.store.settings import Target

    settings: Options = {
        "method": given.method,
        "noise": given.noise,
        "popsize": given.popsize,
        "restarts": given.restarts,
        "rng": given.seed,
        "store": None if given.store is None else Target(given.store, objective_label(given)),
        "cov0": given.cov0,
        "evaluate_x0": given.evaluate_x0,
        "constraints": given.constraints,
        "constraint_handling": given.constraint_handling,
        "surrogate": given.surrogate and evaluations_at_a_time(True, given.workers),
        "known": None if given.known is None else load(given.known),
    }
    if given.constraint_tol is not None:
        settings["constraint_tol"] = given.constraint_tol
    if given.space is None:
        settings |= _variables(given, len(given.x0))
    start = given.x0 if given.space is None else given.space
    sigma0 = None if given.method == "pbil" or given.sigma0 is None else given.sigma0
    sigma0 = sigma0[0] if sigma0 is not None and len(sigma0) == 1 else sigma0
    return minimize(fun, start, sigma0, workers=workers, **settings, **run_options(fun, given))


def _variables(given: argparse.Namespace, d: int) -> Options:
    """The options about d variables without a space."""
    return {
        "bounds": given.bounds * d if given.bounds is not None and len(given.bounds) == 1 else given.bounds,
        "names": given.names,
        "log_scaled": _log_scaled(given.log_scaled, given.names, d),
        "integrality": given.integrality,
    }


def _log_scaled(chosen: list[str] | None, names: list[str] | None, d: int) -> list[bool]:
    """Which of d variables are log-scaled, given their indices or names; None means all."""
    if chosen is None:
        return [True] * d
    known = {str(i): i for i in range(d)} | {name: i for i, name in enumerate(names or ())}
    for word in chosen:
        if word not in known:
            hint = "" if names is None else f" and named {','.join(names)}"
            raise CommandError(f"--log-scaled: no variable {word!r}; --x0 has {d} variables, numbered from 0{hint}.")
    indices = {known[word] for word in chosen}
    return [i in indices for i in range(d)]


COV0 = "shape of the initial covariance, its rows separated by semicolons (default: the identity)"
CONSTRAINT_TOL = "largest violation with which a result counts as feasible (default: 1e-6)"
CONSTRAINT_HANDLING = "how points that violate constraints are compared (default: augmented-lagrangian)"
SIGMA0 = (
    "initial standard deviation, one number or one per variable (required without --space; a third of the range of "
    "each variable by default if all --bounds are finite)"
)
PROBLEM = (
    FUNCTION,
    argument("--x0", "starting point (required without --space)", numbers, "1,2,3"),
    argument("--sigma0", SIGMA0, numbers, "S"),
    argument("--cov0", COV0, matrix, "1,0.5;0.5,1"),
    argument("--space", "JSON or TOML file of named parameters, in place of --x0; see below", Path, "FILE"),
    argument("--bounds", "one pair for all variables or one for each; none: no bound", bounds, "LO:HI,..."),
    argument(
        "--log-scaled",
        "indices or names of variables to search on a log scale, or all",
        some_variables,
        "0,2|all",
        default=[],
    ),
    argument("--integrality", "1 for variables that are integers, 0 for others", kinds, "0,1,..."),
    argument("--constraints", "number of constraint values g <= 0 that follow the value", count, "M"),
    argument("--constraint-tol", CONSTRAINT_TOL, tolerance, "T"),
    argument("--constraint-handling", CONSTRAINT_HANDLING, choices=[*ORDERINGS]),
    argument("--names", "names of the variables, also usable in --command as {NAME}", variable_names, "NAME,..."),
)
NO_X0 = "do not evaluate --x0 or the start of --space with the first generation"
NOISE = (
    "values are noisy: report the mean of the search, or of its best points, and the average of re-evaluations there"
)
SURROGATE = "save evaluations of an expensive objective with a model that predicts the order of its values"
METHOD = (
    argument(
        "--method",
        "cma, sep-cma, lra-cma, xnes, ngd, ... (default: cma; with --noise late-lra-cma, or lra-cma in a large budget)",
        metavar="NAME",
    ),
    argument("--no-evaluate-x0", NO_X0, dest="evaluate_x0", action="store_false", default=None),
    argument("--noise", NOISE, action="store_true"),
    argument("--popsize", "number of points per generation", count, "N"),
    argument("--restarts", "restart when the search converges before the budget ends", restarts, "auto|ipop|bipop|N"),
    argument("--surrogate", SURROGATE, action="store_true"),
    argument("--known", "file of a run whose evaluations give the first model of --surrogate", Path, "FILE"),
    argument("--seed", "seed of the random numbers, for a reproducible run", seed, "S"),
    argument("--store", "store every evaluation in a new file; see `sublevel resume`", Path, "FILE"),
)
SUMMARY = "minimize a Python function or an external program"
COMMAND = Command("minimize", SUMMARY, run_minimize, (*PROBLEM, *METHOD, *RUN_ARGUMENTS), EXAMPLES)
