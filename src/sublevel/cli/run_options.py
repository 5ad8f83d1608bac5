"""Options that `sublevel minimize` and `sublevel resume` share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sublevel.cli.argument_types import budget, error_kind, seconds, tolerance, workers
from sublevel.cli.common import argument
from sublevel.cli.objective import Objective, pattern
from sublevel.cli.program import Program
from sublevel.evaluation.failures import ATTEMPTS

Options = dict[str, Any]
"""Keyword arguments of `minimize` or `resume`."""
PASSED_ON = ("maxfevals", "maxiter", "maxtime", "ftarget", "tolfun", "tolx", "rtolfun")
CALLED = "module:function or file.py:function; called with an array of the variables, or a dict with --space"
FUNCTION = argument("function", CALLED, metavar="FUNCTION", nargs="?")
NO_NOISE_FLOOR = "do not stop when the differences between values are only noise"
STOPPING = (
    argument("--maxfevals", "maximum number of evaluations", budget, "N"),
    argument("--maxiter", "maximum number of generations", budget, "N"),
    argument("--maxtime", "start no new evaluation after this time", seconds, "SECONDS"),
    argument("--ftarget", "stop when a value of at most F is found", float, "F"),
    argument("--tolfun", "stop when f would fall by at most T (default: 0)", tolerance, "T"),
    argument("--rtolfun", "stop when f would fall by at most T times its value (default: 0)", tolerance, "T"),
    argument("--tolx", "stop when all standard deviations are at most T (default: 0)", tolerance, "T"),
    argument("--no-noise-floor", NO_NOISE_FLOOR, dest="noise_floor", action="store_false", default=None),
)
ON_ERROR = (
    "if an evaluation fails: raise ends the run, nan continues with the value NaN, retry evaluates once more before "
    "that (default: raise for functions, nan for programs)"
)
ERROR_BARS = (
    "compute error bars and correlations with further evaluations; nll: the value is a negative log-likelihood, or "
    "half of chi-squared with known measurement errors; N: the value is a sum of N squared residuals"
)
PATTERN = "how to find the value in the output of a program (default: all of the output)"
COMMAND_LINE = "program and its arguments; must be the last option"
RUN_ARGUMENTS = (
    *STOPPING,
    argument("--workers", "number of parallel evaluations; -1: one per core", workers, "N", default=1),
    argument("--timeout", "time limit of one evaluation, which then counts as failed", seconds, "SECONDS"),
    argument("--on-error", ON_ERROR, choices=[*ATTEMPTS]),
    argument("--error-bars", ERROR_BARS, error_kind, "nll|N"),
    argument("--plot", "save a figure of the run; an existing figure is overwritten", Path, "FILE"),
    argument("--json", "print the result as JSON", action="store_true"),
    argument("--path", "directory to import the module from", Path, "DIR"),
    argument("--pattern", PATTERN, pattern, "REGEX|last"),
    argument("--command", COMMAND_LINE, metavar="PROG ARG", nargs=argparse.REMAINDER),
)


def run_options(fun: Objective, given: argparse.Namespace) -> Options:
    """The options as keyword arguments of `minimize` or `resume`. A program handles its timeout itself."""
    is_program = isinstance(fun, Program)
    options: Options = {name: getattr(given, name) for name in PASSED_ON}
    options["progress"] = sys.stderr is not None and sys.stderr.isatty()
    if given.noise_floor is not None:
        options["noise_floor"] = given.noise_floor
    if not is_program:
        options["timeout"] = given.timeout
    if is_program or given.on_error is not None:
        options["on_error"] = given.on_error or "nan"
    return options
