"""Run an optimization from the command line and print its result."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sublevel.cli.common import CommandError
from sublevel.cli.objective import Objective
from sublevel.cli.program import Program
from sublevel.cli.result_output import result_as_json, result_as_text
from sublevel.cli.run_options import run_options
from sublevel.evaluation.this_process import available_cores
from sublevel.run.result import Result
from sublevel.store.errors import StoreError
from sublevel.store.output import check_output, write_output

Workers = int | ThreadPoolExecutor


def run_and_print(fun: Objective, given: argparse.Namespace, run: Callable[..., Result]) -> int:
    """Run and print the result. Programs are called from threads, functions from processes."""
    make_paths_absolute(given)
    if given.error_bars is not None and getattr(given, "x0", None) is not None:
        _check_error_bars(given)
    if given.plot is not None:
        _check_plot(given.plot)
        if given.plot == getattr(given, "store", None):
            raise CommandError(f"--plot and --store must be different files, got {given.plot} for both.")
    start = time.monotonic()
    raised: Exception | None = None
    try:
        with _open_workers(fun, given.workers) as workers:
            result = run(fun, given, workers)
            if given.error_bars is not None:
                add_error_bars(result, fun, given, workers)
    except Exception as error:
        partial_result: Result | None = vars(error).get("sublevel_result")
        if partial_result is None:  # the run did not start
            raise CommandError(str(error)) from error
        _print_error(error)
        raised, result = error, partial_result
    print_result(result, time.monotonic() - start, given, raised)
    if "interrupted" in result.reasons and raised is None:
        return 130
    return 0 if math.isfinite(result.fun) and raised is None else 1


def _print_error(error: Exception) -> None:
    """Print one line for a file that cannot be used, and a traceback for an error of the objective."""
    if isinstance(error, StoreError):
        print(f"sublevel: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)


def _check_error_bars(given: argparse.Namespace) -> None:
    """Refuse error bars that cannot be computed, before the run."""
    from sublevel.hessian.frame import check_number_of_variables

    kind, residuals = given.error_bars
    if given.method == "pbil":
        raise CommandError("--error-bars: binary methods have no curvature, got --method pbil.")
    if kind == "least_squares" and residuals <= len(given.x0):
        least = f"the number of variables, {len(given.x0)}"
        raise CommandError(f"--error-bars: the number of residuals must exceed {least}, got {residuals}.")
    try:
        check_number_of_variables(len(given.x0))
    except ValueError as error:
        raise CommandError(f"--error-bars: {error}") from None


def add_error_bars(result: Result, fun: Objective, given: argparse.Namespace, workers: Workers) -> None:
    """Add error bars to the result, with the evaluation settings of the run."""
    from sublevel.hessian.curvature import add_curvature

    kind, residuals = given.error_bars
    options = {name: value for name, value in run_options(fun, given).items() if name in ("timeout", "on_error")}
    file = getattr(given, "file", None) or given.store
    add_curvature(result, fun, file, kind=kind, n_residuals=residuals, workers=workers, **options)


def print_result(result: Result, seconds: float, given: argparse.Namespace, raised: Exception | None) -> None:
    """Save the figure and print the result, also if an exception ended the run; the exception is printed already."""
    figure = given.plot if len(result.history) else None
    if figure is not None:
        write_output(figure, result.plot, force=True)
    if given.json:
        print(json.dumps(result_as_json(result, seconds, raised)))
    elif raised is None or result.nfev:
        print(result_as_text(result, seconds, figure))
        if "interrupted" in result.reasons and (file := getattr(given, "file", None) or given.store) is not None:
            print(
                f"Continue with: sublevel resume {shlex.quote(str(file))} ..., and the function or --command as before."
            )


def make_paths_absolute(given: argparse.Namespace) -> None:
    """Make output paths independent of the working directory, which the objective may change."""
    for name in ("plot", "store"):
        if getattr(given, name, None) is not None:
            setattr(given, name, getattr(given, name).absolute())


@contextlib.contextmanager
def _open_workers(fun: Objective, number: int) -> Generator[Workers]:
    """A number of processes for a function, a thread pool for a program."""
    if not isinstance(fun, Program):
        yield number
        return
    with contextlib.closing(fun):
        if number == 1:
            yield number
            return
        with ThreadPoolExecutor(available_cores() if number == -1 else number) as threads:
            try:
                yield threads
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                fun.close()


def _check_plot(file: Path) -> None:
    """Refuse a figure that cannot be saved, before the run."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        hint = "which is not installed: pip install 'sublevel[plot]'"
        raise CommandError(f"--plot needs {error.name}, {hint}") from error
    kinds = Figure().canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise CommandError(f"--plot: the file must end with one of .{', .'.join(sorted(kinds))}, got {file}.")
    check_output(file, force=True)
