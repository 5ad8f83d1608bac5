"""`sublevel resume`, `runs`, `show`, `watch`, `report` and `export`: stored runs from the command line.

What a file says was minimised is shown and never run: to go on, it has to be named again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sublevel.cli.common import Subparsers, Unable, add_command, objective_words, printable
from sublevel.cli.minimize import FUNCTION_HELP, add_ways, as_json, finite, run_and_print, ways
from sublevel.cli.objective import objective, objective_label
from sublevel.cli.streams import is_lost
from sublevel.engine.arrays import Array
from sublevel.run.progress import duration
from sublevel.run.result import Result
from sublevel.run.termination import message
from sublevel.store.errors import StoreError
from sublevel.store.export import export
from sublevel.store.file import File
from sublevel.store.load import StoredRun, load
from sublevel.store.lock import is_driven
from sublevel.store.output import check_output, is_stored_run, write_output
from sublevel.store.reader import Reading, ending, fingerprint
from sublevel.store.resume import resume
from sublevel.store.settings import Settings

MOST_NUMBERS = 1000
"""Variables up to which `show` prints all of a point."""
EVERY = 0.5
"""Seconds between two looks at a run that is watched."""


def add_resume(commands: Subparsers) -> None:
    """`sublevel resume`."""
    about = "continue a stored run; the function or program must be named again"
    example = """examples:
  sublevel resume run.db mymodule.py:cost
  sublevel resume run.db --maxfevals 2000 --workers 4 --command ./simulate --fast

A larger budget continues a run that ended at its budget. `sublevel show run.db` says how the run was started.
"""
    parser = add_command(commands, "resume", about, example, "The result is that of a run that was never interrupted.")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=FUNCTION_HELP)
    parser.add_argument(
        "--no-check", action="store_true", help="do not evaluate a stored point again to see whether the objective is the same"
    )
    add_ways(parser)
    parser.set_defaults(run=run_resume)


def run_resume(given: argparse.Namespace) -> int:
    """Continue, and print what was found."""
    if given.function is None and given.command is None:
        raise Unable(_what_to_name(given.file))
    given.file = given.file.absolute()
    with reading_of(given.file) as reading:
        d, names = reading.problem.x0.size, reading.settings.names
    return run_and_print(objective(given, d, names), given, _resumed)


def _what_to_name(path: Path) -> str:
    """What the file says was minimised, as it would be typed. It is for the user to say so: a file must not choose what is run."""
    with reading_of(path) as reading:
        words = objective_words(reading.settings)
    return f"name what is minimised: sublevel resume {shlex.quote(str(path))} ... The run was started with: {words}"


def _resumed(fun: Callable[..., Any], given: argparse.Namespace, workers: Any) -> Result:
    with reading_of(given.file) as reading:
        before = reading.settings.command
    if before and before != objective_label(given):
        print(f"note: the run was started with {objective_words(reading.settings)}", file=sys.stderr)
    return resume(given.file, fun, workers=workers, check=not given.no_check, **ways(fun, given))


@contextlib.contextmanager
def reading_of(path: Path) -> Generator[Reading]:
    """A file, open for reading."""
    file = File(path)
    try:
        yield Reading.of(file)
    finally:
        file.close()


class Look(NamedTuple):
    """Where a run is."""

    settings: Settings
    variables: int
    nfev: int
    nit: int
    restarts: int
    best: float
    deviation: float
    reasons: dict[str, float]
    seconds: float  # from its beginning to its last generation
    driven: bool

    @property
    def state(self) -> str:
        """In a word or two."""
        return "running" if self.driven else next(iter(self.reasons), "killed")


def look_at(path: Path) -> Look:
    """Where a run is now. Cheap: no point is read."""
    driven = _is_driven(path)
    with reading_of(path) as reading:
        (numbers, run), loose = reading.last_generation()
        best, last = numbers[1], numbers[5] if reading.file.last("generations")[0] else reading.settings.began
        return Look(
            settings=reading.settings,
            variables=reading.problem.x0.size,
            nfev=int(numbers[0]) + loose,
            nit=reading.file.last("generations")[1],
            restarts=run,
            best=float(best),
            deviation=float(numbers[3]),
            reasons=ending(reading.file),
            seconds=max(float(last) - reading.settings.began, 0.0),
            driven=driven,
        )


def _is_driven(path: Path) -> bool:
    """Whether a process drives the run now; an error if it is none."""
    File(path).close()
    return is_driven(path)


def line_about(look: Look) -> str:
    """A run in one line."""
    restarts = f", restart {look.restarts}" if look.restarts else ""
    width = f", std {look.deviation:.2g}" if np.isfinite(look.deviation) else ""
    return f"{look.nfev} evaluations, best {look.best:.8g}{width}{restarts}, {duration(look.seconds)}, {look.state}"


def add_runs(commands: Subparsers) -> None:
    """`sublevel runs`."""
    parser = add_command(commands, "runs", "list the stored runs of a directory", "example:\n  sublevel runs results/")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: the working directory")
    parser.set_defaults(run=run_runs)


def run_runs(given: argparse.Namespace) -> int:
    """A line for each stored run; 1 if one cannot be read."""
    if not given.directory.is_dir():
        raise Unable(f"there is no directory {given.directory}.")
    status, paths = 0, [path for path in sorted(given.directory.iterdir()) if is_stored_run(path)]
    for path in paths:
        try:
            look = look_at(path)
            text = f"{printable(str(look.settings.method or 'own method'))}, {look.variables} variables, {line_about(look)}"
        except StoreError as error:
            status, text = 1, str(error)
        print(f"{printable(path.name)}: {text}")
    if not paths:
        print(f"no stored runs in {given.directory}. `sublevel minimize --store FILE` or `minimize(..., store=FILE)` makes one.")
    return status


def add_show(commands: Subparsers) -> None:
    """`sublevel show`."""
    about = "show the settings, the state and the result of a stored run"
    parser = add_command(commands, "show", about, "examples:\n  sublevel show run.db\n  sublevel show run.db --json")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("--json", action="store_true", help="print JSON; numbers that are not finite are null")
    parser.set_defaults(run=run_show)


def run_show(given: argparse.Namespace) -> int:
    """The run in some lines."""
    driven = _is_driven(given.file)
    run = load(given.file)
    print(json.dumps(facts_about(run, driven)) if given.json else "\n".join(lines_about(run, driven)))
    return 0


def facts_about(run: StoredRun, driven: bool) -> dict[str, Any]:
    """A stored run for programs: the result as `minimize --json` prints it, and what was asked for."""
    settings, look = run.settings, look_at(run.path)
    facts = as_json(run.result, look.seconds, None)
    facts |= {
        "file": str(run.path),
        "version": settings.version,
        "objective": objective_words(settings),
        "method": settings.method,
        "popsize": settings.popsize,
        "variables": run.result.x.size,
        "state": "running" if driven else next(iter(run.result.reasons), "killed"),
        "sha256": fingerprint(run.path),
    }
    return finite(facts)


def lines_about(run: StoredRun, driven: bool) -> Iterator[str]:
    """A stored run in lines."""
    settings, result = run.settings, run.result
    yield f"file     {printable(str(run.path))}, by sublevel {printable(settings.version)}"
    yield f"asked    {objective_words(settings)}"
    yield f"method   {printable(settings.method or settings.parts)}, {settings.popsize} points of {run.result.x.size} variables at a time"
    yield f"state    {'running' if driven else message(result.reasons) if result.reasons else 'killed; `sublevel resume` goes on'}"
    yield f"spent    {result.nfev} evaluations in {result.nit} generations, {result.restarts} restarts"
    yield f"fun      {result.fun!r}"
    if settings.names is not None:
        yield f"names    {printable(','.join(settings.names))}"
    yield f"x        {_numbers(result.x)}"
    yield f"failed   {int(np.count_nonzero(np.isnan(run.values)))} evaluations"
    yield f"sha256   {fingerprint(run.path)}"
    yield from (f"note     {finding}" for finding in result.diagnosis)


def _numbers(x: Array) -> str:
    """The numbers of a point (d,); the first few of very many."""
    if x.size <= MOST_NUMBERS:
        return ",".join(map(repr, x.tolist()))
    return f"{','.join(map(repr, x[:10].tolist()))},… and {x.size - 10} more, which `sublevel show --json` prints"


def add_watch(commands: Subparsers) -> None:
    """`sublevel watch`."""
    about = "watch a stored run while another process continues it"
    parser = add_command(commands, "watch", about, "example:\n  sublevel watch run.db", "Ctrl-C ends the watching and not the run.")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.set_defaults(run=run_watch)


def run_watch(given: argparse.Namespace) -> int:
    """A line that changes on a terminal, elsewhere a line whenever something happened, until the run is no longer driven."""
    live, before = sys.stdout.isatty(), ""
    try:
        while True:
            look = look_at(given.file)
            text = line_about(look)
            if live:
                print("\r" + text[: shutil.get_terminal_size().columns - 1].ljust(len(before)), end="", flush=True)
            elif text != before:
                print(text, flush=True)
            before = text
            if not look.driven or is_lost(sys.stdout):
                break
            time.sleep(EVERY)
    except KeyboardInterrupt:
        pass
    if live:
        print()
    return 0


def add_report(commands: Subparsers) -> None:
    """`sublevel report`."""
    about = "write a report about a stored run, as one HTML file"
    parser = add_command(commands, "report", about, "example:\n  sublevel report run.db --out run.html")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("--out", type=Path, metavar="PAGE", help="the file to write (default: beside the run, with the suffix .html)")
    parser.add_argument("--force", action="store_true", help="replace an existing file; a stored run is never replaced")
    parser.set_defaults(run=run_report)


def run_report(given: argparse.Namespace) -> int:
    """Write the page."""
    from sublevel.cli.report_page import page

    out = given.out or given.file.with_suffix(".html")
    check_output(out, given.force)
    try:
        text = page(load(given.file))
    except ModuleNotFoundError as error:
        raise Unable(f"the pictures need {error.name}, which is not installed: pip install 'sublevel[plot]'") from error
    write_output(out, lambda file: file.write_text(text, encoding="utf-8"), given.force)
    print(f"report: {out.resolve()}")
    return 0


def add_export(commands: Subparsers) -> None:
    """`sublevel export`."""
    about = "write all evaluations of a stored run as .csv, .parquet or .npz"
    parser = add_command(commands, "export", about, "example:\n  sublevel export run.db run.csv")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("out", type=Path, metavar="OUT", help="the file to write, which ends with .csv, .parquet or .npz")
    parser.add_argument("--force", action="store_true", help="replace an existing file; a stored run is never replaced")
    parser.set_defaults(run=run_export)


def run_export(given: argparse.Namespace) -> int:
    """Write the table."""
    check_output(given.out, given.force)
    try:
        run = load(given.file)
        export(run.evaluations, given.out, run.settings.names, given.force)
    except ValueError as error:
        raise Unable(str(error)) from error
    print(f"export: {given.out.resolve()}")
    return 0
