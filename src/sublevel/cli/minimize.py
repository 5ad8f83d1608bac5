"""`sublevel minimize`: a Python function or an external program from the command line."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import time
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sublevel.cli.common import Subparsers, Unable, add_command, budget, count, deviations, seed, workers
from sublevel.cli.objective import objective, objective_label, pattern
from sublevel.cli.program import Program
from sublevel.evaluation.failures import ATTEMPTS, annotate_exception
from sublevel.evaluation.processes import available_cores
from sublevel.hessian.curvature import curvature
from sublevel.hessian.frame import check_number_of_variables
from sublevel.hessian.result import Curvature
from sublevel.run.minimize import minimize
from sublevel.run.result import Result
from sublevel.store.output import check_output, write_output
from sublevel.store.settings import Target
from sublevel.validation import as_names

EXAMPLES = """examples:
  sublevel minimize mymodule.py:cost --x0 0,0,0 --sigma0 0.5
  sublevel minimize mymodule:cost --x0 1,2 --sigma0 0.3 --bounds "-1:2,0:none" --restarts bipop --plot run.png
  sublevel minimize --x0 1,2 --sigma0 0.3 --maxfevals 500 --timeout 60 --workers 4 --store run.db --command ./simulate --fast
  sublevel minimize --x0 1,2 --sigma0 0.3 --names rate,depth --pattern last --command ./simulate --rate={rate} {depth}
  sublevel minimize --x0 1,2 --sigma0 0.3 --pattern "cost = (.*)" --command ./simulate {}
  sublevel minimize fit.py:chi2 --x0 1,2 --sigma0 0.3 --names rate,depth --error-bars 31

The function is that of a file, of an installed module or of a module in the working directory. A program gets the point as a JSON list
on its stdin; in its arguments {0}, {x0} or {NAME} with --names is the value of a variable, {} alone stands for all values in order, and
{{0}} is the text {0}.
Its output must be one number; with --pattern the value is the last match of a regular expression, or its group if it has one, and
"--pattern last" takes the last number of the output. Another exit status than 0, a timeout, or output without a value is a failed
evaluation. Exit status: 0 a value was found, 1 none was or the function raised, 2 wrong usage, 130 interrupted. What was found before
an error or Ctrl-C is printed.
"""
FUNCTION_HELP = "module:function or file.py:function, called with an array of the variables"


def add_minimize(commands: Subparsers) -> None:
    """`sublevel minimize`."""
    parser = add_command(commands, "minimize", "minimise a Python function or an external program", EXAMPLES)
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=FUNCTION_HELP)
    parser.add_argument("--x0", type=numbers, metavar="1,2,3", help="where to start (required)")
    parser.add_argument(
        "--sigma0", type=numbers, metavar="S", help="standard deviation at the start, one number or one per variable (required)"
    )
    parser.add_argument("--bounds", type=pairs, metavar="LO:HI,...", help="one pair for all variables or one for each; none is open")
    parser.add_argument(
        "--log-scaled", type=indices, metavar="0,2|all", default=[], help="variables to search by their logarithm, counted from 0"
    )
    parser.add_argument("--method", default="cma", metavar="NAME", help="cma, sep-cma, lra-cma, xnes, ngd, ... (default: cma)")
    parser.add_argument("--popsize", type=count, metavar="N", help="points per generation")
    parser.add_argument("--restarts", type=restarts, metavar="ipop|bipop|N", help="start again when a run ends before the budget does")
    parser.add_argument("--seed", type=seed, metavar="S", help="same seed, same run")
    parser.add_argument("--names", type=variable_names, metavar="NAME,...", help="what to call the variables, also in --command: {NAME}")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep every evaluation in a new file; `sublevel resume` continues it")
    add_ways(parser)
    parser.set_defaults(run=run_minimize)


def add_ways(parser: argparse.ArgumentParser) -> None:
    """How to evaluate, when to stop, and what to show: for a new run and for one that is continued."""
    parser.add_argument("--maxfevals", type=budget, metavar="N", help="maximum number of evaluations")
    parser.add_argument("--maxiter", type=budget, metavar="N", help="maximum number of generations")
    parser.add_argument("--maxtime", type=seconds, metavar="SECONDS", help="no evaluation is started after this time")
    parser.add_argument("--ftarget", type=float, metavar="F", help="stop at a value this low")
    parser.add_argument("--tolfun", type=tolerance, metavar="T", help="stop when recent values differ by no more than this (default: 0)")
    parser.add_argument("--tolx", type=tolerance, metavar="T", help="stop when no standard deviation is above this (default: 0)")
    parser.add_argument(
        "--no-noise-floor", dest="noise_floor", action="store_false", default=None, help="do not stop at the noise of the objective"
    )
    parser.add_argument("--workers", type=workers, default=1, metavar="N", help="evaluations at the same time; -1: one on each core")
    parser.add_argument(
        "--error-bars",
        type=error_kind,
        metavar="nll|N",
        help="error bars and correlations by further evaluations: nll if the value is a negative log-likelihood, N if it is a sum of N "
        "squared residuals",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a figure of the run; an older figure is replaced")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--path", type=Path, metavar="DIR", help="import the module from this directory")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="time limit of an evaluation, which fails after it")
    parser.add_argument(
        "--on-error",
        choices=[*ATTEMPTS],
        help="what an error does: raise ends the run, nan gives the point the value NaN, retry evaluates once more first "
        "(default: raise for functions, nan for programs)",
    )
    parser.add_argument(
        "--pattern", type=pattern, metavar="REGEX|last", help="where the value is in the output of the program (default: it is the output)"
    )
    parser.add_argument(
        "--command", nargs=argparse.REMAINDER, metavar="PROG ARG", help="a program and its arguments; must be the last option"
    )


def run_minimize(given: argparse.Namespace) -> int:
    """Minimise, and print what was found."""
    missing = [name for name in ("--x0", "--sigma0") if getattr(given, name[2:]) is None]
    if missing:
        hint = " All that follows --command belongs to the program: put --command last." if given.command else ""
        raise Unable(f"{' and '.join(missing)} must be given: where to start, and the standard deviation there.{hint}")
    try:
        names = None if given.names is None else as_names(given.names, len(given.x0))
    except ValueError as error:
        raise Unable(str(error)) from None
    return run_and_print(objective(given, len(given.x0), names), given, _minimized)


def run_and_print(fun: Callable[..., Any], given: argparse.Namespace, run: Callable[..., Result]) -> int:
    """Run, and print what was found. Programs are called by threads, functions by processes."""
    make_absolute(given)
    if given.error_bars is not None and getattr(given, "x0", None) is not None:
        _check_error_bars(given)
    if given.plot is not None:
        _check_plot(given.plot)
        if given.plot == getattr(given, "store", None):
            raise Unable(f"--plot and --store must be different files, got {given.plot} for both.")
    began = time.monotonic()
    raised: Exception | None = None
    try:
        with _workers(fun, given.workers) as helpers:
            result = run(fun, given, helpers)
            if given.error_bars is not None:
                add_error_bars(result, fun, given, helpers)
    except Exception as error:
        so_far: Result | None = vars(error).get("sublevel_result")
        if so_far is None:  # never began
            raise Unable(str(error)) from error
        traceback.print_exception(error)
        raised, result = error, so_far
    show(result, time.monotonic() - began, given, raised)
    if "interrupted" in result.reasons and raised is None:
        return 130
    return 0 if math.isfinite(result.fun) and raised is None else 1


def _check_error_bars(given: argparse.Namespace) -> None:
    """Error bars can be computed: better to know before the run than after."""
    kind, residuals = given.error_bars
    if given.method == "pbil":
        raise Unable("--error-bars: binary methods have no curvature, got --method pbil.")
    if kind == "least_squares" and residuals <= len(given.x0):
        raise Unable(f"--error-bars: the number of residuals must exceed the number of variables, {len(given.x0)}, got {residuals}.")
    try:
        check_number_of_variables(len(given.x0))
    except ValueError as error:
        raise Unable(f"--error-bars: {error}") from None


def add_error_bars(result: Result, fun: Callable[..., Any], given: argparse.Namespace, helpers: Any) -> None:
    """Add `curvature` to the result, unless there is no minimum to look at or Ctrl-C ends the look."""
    if "interrupted" in result.reasons or not math.isfinite(result.fun):
        return
    kind, residuals = given.error_bars
    how = {name: value for name, value in ways(fun, given).items() if name in ("timeout", "on_error")}
    try:
        found = curvature(fun, result, kind=kind, n_residuals=residuals, workers=helpers, **how)
    except KeyboardInterrupt:
        return
    except Exception as error:
        annotate_exception(error, sublevel_result=result)
        raise
    result.update(curvature=found, hess_inv=found.hess_inv, nfev=result.nfev + found.nfev)


def show(result: Result, took: float, given: argparse.Namespace, raised: Exception | None) -> None:
    """Draw and print what was found, also if an exception ended the run; that one is printed already."""
    drawn = given.plot if len(result.history) else None
    if drawn is not None:
        write_output(drawn, result.plot, force=True)
    if given.json:
        print(json.dumps(as_json(result, took, raised)))
    elif raised is None or result.nfev:
        print(as_text(result, took, drawn))


def make_absolute(given: argparse.Namespace) -> None:
    """Make the paths of files that are written later independent of the working directory, which an objective may change."""
    for name in ("plot", "store"):
        if getattr(given, name, None) is not None:
            setattr(given, name, getattr(given, name).absolute())


@contextlib.contextmanager
def _workers(fun: Callable[..., Any], number: int) -> Generator[int | ThreadPoolExecutor]:
    """A number of processes for a function, threads for a program."""
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


def _minimized(fun: Callable[..., Any], given: argparse.Namespace, workers: Any) -> Result:
    """The run from its start."""
    x0 = given.x0
    settings: dict[str, Any] = {
        "method": given.method,
        "popsize": given.popsize,
        "bounds": given.bounds * len(x0) if given.bounds is not None and len(given.bounds) == 1 else given.bounds,
        "names": given.names,
        "restarts": given.restarts,
        "log_scaled": _log_scaled(given.log_scaled, len(x0)),
        "rng": given.seed,
        "store": None if given.store is None else Target(given.store, objective_label(given)),
    }
    sigma0 = given.sigma0[0] if len(given.sigma0) == 1 else given.sigma0
    if given.method == "pbil":
        sigma0 = None
    return minimize(fun, x0, sigma0, workers=workers, **settings, **ways(fun, given))


def ways(fun: Callable[..., Any], given: argparse.Namespace) -> dict[str, Any]:
    """What `add_ways` was given, for `minimize` or `resume`. A program sees to its timeout itself."""
    is_program = isinstance(fun, Program)
    how: dict[str, Any] = {name: getattr(given, name) for name in ("maxfevals", "maxiter", "maxtime", "ftarget", "tolfun", "tolx")}
    how["progress"] = sys.stderr is not None and sys.stderr.isatty()
    if given.noise_floor is not None:
        how["noise_floor"] = given.noise_floor
    if not is_program:
        how["timeout"] = given.timeout
    if is_program or given.on_error is not None:
        how["on_error"] = given.on_error or "nan"
    return how


def _log_scaled(chosen: list[int] | None, variables: int) -> list[bool]:
    """Which variables (d,) are log-scaled, of numbers of them; None is all."""
    if chosen is None:
        return [True] * variables
    if chosen and max(chosen) >= variables:
        raise Unable(f"--log-scaled: there is no variable {max(chosen)}; the {variables} of --x0 are counted from 0.")
    return [i in chosen for i in range(variables)]


def _check_plot(file: Path) -> None:
    """The picture can be written: better to know before the run than after."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise Unable(f"--plot needs {error.name}, which is not installed: pip install 'sublevel[plot]'") from error
    kinds = Figure().canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise Unable(f"--plot must name a picture: one of .{', .'.join(sorted(kinds))}, got {file}.")
    check_output(file, force=True)


def as_text(result: Result, took: float, plot: Path | None) -> str:
    """The result for people; `x` can be given back as --x0."""
    restarted = f", {result.restarts} restarts" if result.restarts else ""
    lines = [
        result.message,
        f"fun    {result.fun!r}",
        f"x      {','.join(map(repr, result.x.tolist()))}",
        f"std    {','.join(f'{deviation:.3g}' for deviation in deviations(result))}",
        f"spent  {result.nfev} evaluations in {result.nit} generations{restarted}, {took:.1f} s",
    ]
    if result.history.given_names is not None:
        lines.insert(2, f"names  {','.join(result.history.given_names)}")
    lines += [f"note   {finding}" for finding in result.diagnosis]
    lines += [f"plot   {plot}"] if plot else []
    return "\n".join(lines if result.curvature is None else [*lines, "", result.curvature.summary()])


def as_json(result: Result, took: float, raised: Exception | None) -> dict[str, Any]:
    """The result for programs; what is not finite is null."""
    facts = {name: result[name] for name in ("fun", "nfev", "nit", "restarts", "success", "status", "message", "reasons")}
    facts["x"], facts["mean"] = result.x.tolist(), result.mean.tolist()
    facts["deviations"] = deviations(result).tolist()
    facts["names"] = [result.history.name(i) for i in range(len(facts["x"]))]
    facts["seconds"] = round(took, 3)
    facts["diagnosis"] = [{"name": f.name, "sentence": f.sentence, "numbers": f.numbers} for f in result.diagnosis]
    facts["failures"] = dict(result.failures.counts)
    facts["error_bars"] = None if result.curvature is None else _error_bars(result.curvature)
    facts["error"] = None if raised is None else "".join(traceback.format_exception_only(raised)).strip()
    return finite(facts)


def _error_bars(found: Curvature) -> dict[str, Any]:
    """What `--error-bars` adds to the JSON."""
    arrays = {"x": found.x, "stderr": found.stderr, "intervals": found.intervals(0.95), "covariance": found.covariance}
    problems = [{"name": f.name, "sentence": f.sentence, "numbers": f.numbers} for f in found.problems]
    return {name: array.tolist() for name, array in arrays.items()} | {"level": 0.95, "nfev": found.nfev, "problems": problems}


def finite(value: Any) -> Any:
    """The value with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [finite(part) for part in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def numbers(text: str) -> list[float]:
    """Finite numbers from "1,2,3"."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise argparse.ArgumentTypeError(f"expected numbers separated by commas, got {text!r}")
    return values


def pairs(text: str) -> list[tuple[float | None, float | None]]:
    """Bounds from "-1:2,0:none"."""
    try:
        ends = [tuple(None if end.lower() in ("", "none") else float(end) for end in pair.split(":")) for pair in text.split(",")]
    except ValueError:
        ends = []
    if not ends or any(len(pair) != 2 for pair in ends):
        raise argparse.ArgumentTypeError(f'expected low:high for each variable, such as "-1:2,0:none", got {text!r}')
    return [(low, high) for low, high in ends]


def indices(text: str) -> list[int] | None:
    """Variables from "0,2"; None for "all"."""
    if text == "all":
        return None
    if not all(word.isdecimal() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected numbers of variables, counted from 0, such as 0,2, or all, got {text!r}")
    return [int(word) for word in text.split(",")]


def error_kind(text: str) -> tuple[str, int | None]:
    """What the value is, and of how many residuals: from "nll", or from a number of residuals."""
    if text == "nll":
        return "nll", None
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"expected nll (the value is a negative log-likelihood) or the number of squared residuals in the sum, got {text!r}"
        )
    return "least_squares", int(text)


def restarts(text: str) -> str | int:
    """A strategy by name, or a number of restarts."""
    return int(text) if text.isdecimal() else text


def variable_names(text: str) -> list[str]:
    """Names from "rate,depth"."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected names separated by commas, such as rate,depth, got {text!r}")
    return names


def tolerance(text: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


def seconds(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text!r}")
    return value
