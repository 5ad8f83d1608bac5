"""Options that `sublevel minimize` and `sublevel resume` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sublevel.cli.argument_types import budget, error_kind, seconds, tolerance, workers
from sublevel.cli.objective import pattern
from sublevel.cli.program import Program
from sublevel.evaluation.failures import ATTEMPTS

FUNCTION_HELP = "module:function or file.py:function; it is called with an array of the variables"
PASSED_ON = ("maxfevals", "maxiter", "maxtime", "ftarget", "tolfun", "tolx")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of stopping, evaluation and output."""
    _add_stopping_options(parser)
    parser.add_argument(
        "--workers", type=workers, default=1, metavar="N", help="number of parallel evaluations; -1: one per core"
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="time limit of one evaluation, which then counts as failed"
    )
    parser.add_argument(
        "--on-error",
        choices=[*ATTEMPTS],
        help="if an evaluation fails: raise ends the run, nan continues with the value NaN, retry evaluates once more "
        "before that (default: raise for functions, nan for programs)",
    )
    parser.add_argument(
        "--error-bars",
        type=error_kind,
        metavar="nll|N",
        help="compute error bars and correlations with further evaluations; nll: the value is a negative "
        "log-likelihood, N: the value is a sum of N squared residuals",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="save a figure of the run; an existing figure is overwritten"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--path", type=Path, metavar="DIR", help="directory to import the module from")
    parser.add_argument(
        "--pattern",
        type=pattern,
        metavar="REGEX|last",
        help="how to find the value in the output of a program (default: all of the output)",
    )
    parser.add_argument(
        "--command",
        nargs=argparse.REMAINDER,
        metavar="PROG ARG",
        help="program and its arguments; must be the last option",
    )


def _add_stopping_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--maxfevals", type=budget, metavar="N", help="maximum number of evaluations")
    parser.add_argument("--maxiter", type=budget, metavar="N", help="maximum number of generations")
    parser.add_argument("--maxtime", type=seconds, metavar="SECONDS", help="start no evaluation after this time")
    parser.add_argument("--ftarget", type=float, metavar="F", help="stop when a value of at most F is found")
    parser.add_argument(
        "--tolfun", type=tolerance, metavar="T", help="stop when recent values differ by at most T (default: 0)"
    )
    parser.add_argument(
        "--tolx", type=tolerance, metavar="T", help="stop when all standard deviations are at most T (default: 0)"
    )
    parser.add_argument(
        "--no-noise-floor",
        dest="noise_floor",
        action="store_false",
        default=None,
        help="do not stop when the differences between values are only noise",
    )


def run_options(fun: Callable[..., Any], given: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_run_options` as keyword arguments of `minimize` or `resume`. A program handles its timeout
    itself.
    """
    is_program = isinstance(fun, Program)
    options: dict[str, Any] = {name: getattr(given, name) for name in PASSED_ON}
    options["progress"] = sys.stderr is not None and sys.stderr.isatty()
    if given.noise_floor is not None:
        options["noise_floor"] = given.noise_floor
    if not is_program:
        options["timeout"] = given.timeout
    if is_program or given.on_error is not None:
        options["on_error"] = given.on_error or "nan"
    return options
