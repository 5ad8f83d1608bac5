"""`sublevel resume`, `runs`, `show`, `watch`, `report` and `export`: stored runs from the command line.

What a file says was minimised is shown and never run: to go on, it has to be named again.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sublevel.commands.common import Subparsers, Unable, objective_words, printable, sentence
from sublevel.commands.minimize import add_ways, named, objective, told, ways
from sublevel.progress import duration
from sublevel.result import Result
from sublevel.resume import resume
from sublevel.stop import message
from sublevel.store.configuration import Settings
from sublevel.store.errors import StoreError
from sublevel.store.file import APPLICATION, File
from sublevel.store.lock import is_driven
from sublevel.store.reader import Reading, ending, fingerprint
from sublevel.stored import StoredRun, load

EVERY = 0.5
"""Seconds between two looks at a run that is watched."""
HEADER = 72
"""Bytes of a file after which it is known whose it is."""


def add_resume(commands: Subparsers) -> None:
    """`sublevel resume`."""
    about = "go on with a stored run, whatever stopped it; name what is minimised again"
    parser = commands.add_parser("resume", help=about, description=sentence(about) + " The result is that of a run never stopped.")
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("function", nargs="?", metavar="module:function", help="called with an array of the variables")
    add_ways(parser)
    parser.set_defaults(run=run_resume)


def run_resume(given: argparse.Namespace) -> int:
    """Go on, and say what was found."""
    if given.function is None and given.command is None:
        raise Unable(_what_to_name(given.file))
    return told(objective(given), given, _resumed)


def _what_to_name(path: Path) -> str:
    """What the file says was minimised, as it would be typed. It is for the user to say so: a file must not choose what is run."""
    with reading_of(path) as reading:
        words = objective_words(reading.settings)
    return f"name what is minimised: sublevel resume {shlex.quote(str(path))} ... It was begun with: {words}"


def _resumed(fun: Callable[..., Any], given: argparse.Namespace, workers: Any) -> Result:
    with reading_of(given.file) as reading:
        before = reading.settings.command
    if before and before != named(given):
        print(f"note: the run was begun with {objective_words(reading.settings)}", file=sys.stderr)
    return resume(given.file, fun, workers=workers, **ways(fun, given))


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
    about = "list the stored runs of a directory"
    parser = commands.add_parser("runs", help=about, description=sentence(about))
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="where to look (default: here)")
    parser.set_defaults(run=run_runs)


def run_runs(given: argparse.Namespace) -> int:
    """A line for each stored run; 1 if one cannot be read."""
    if not given.directory.is_dir():
        raise Unable(f"there is no directory {given.directory}.")
    status, paths = 0, [path for path in sorted(given.directory.iterdir()) if is_ours(path)]
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


def is_ours(path: Path) -> bool:
    """Whether a file says that it is a stored run."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEADER) if path.is_file() else b""
    except OSError:
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION.to_bytes(4)


def add_show(commands: Subparsers) -> None:
    """`sublevel show`."""
    about = "show what a stored run was asked, where it is and what it found"
    parser = commands.add_parser("show", help=about, description=sentence(about))
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.set_defaults(run=run_show)


def run_show(given: argparse.Namespace) -> int:
    """The run in some lines."""
    driven = _is_driven(given.file)
    print("\n".join(lines_about(load(given.file), driven)))
    return 0


def lines_about(run: StoredRun, driven: bool) -> Iterator[str]:
    """A stored run in lines."""
    settings, result = run.settings, run.result
    yield f"file     {printable(str(run.path))}, by sublevel {printable(settings.version)}"
    yield f"asked    {objective_words(settings)}"
    yield f"method   {printable(settings.method or settings.parts)}, {settings.popsize} points of {run.points.shape[1]} variables at a time"
    yield f"state    {'running' if driven else message(result.reasons) if result.reasons else 'killed; `sublevel resume` goes on'}"
    yield f"spent    {result.nfev} evaluations in {result.nit} generations, {result.restarts} restarts"
    yield f"fun      {result.fun!r}"
    yield f"x        {','.join(map(repr, result.x.tolist()))}"
    yield f"failed   {int(np.count_nonzero(np.isnan(run.values)))} evaluations"
    yield f"sha256   {fingerprint(run.path)}"
    yield from (f"note     {finding}" for finding in result.diagnosis)


def add_watch(commands: Subparsers) -> None:
    """`sublevel watch`."""
    about = "watch a stored run while another process drives it"
    parser = commands.add_parser("watch", help=about, description=sentence(about) + " It is not disturbed. Ctrl-C ends the watching.")
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
            if not look.driven:
                break
            time.sleep(EVERY)
    except KeyboardInterrupt:
        pass
    if live:
        print()
    return 0


def add_report(commands: Subparsers) -> None:
    """`sublevel report`."""
    about = "write a page about a stored run: one HTML file that needs nothing but itself"
    parser = commands.add_parser("report", help=about, description=sentence(about))
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("--out", type=Path, metavar="PAGE", help="where to write (default: beside the run, ending with .html)")
    parser.set_defaults(run=run_report)


def run_report(given: argparse.Namespace) -> int:
    """Write the page."""
    from sublevel.commands.page import page

    out = given.out or given.file.with_suffix(".html")
    try:
        text = page(load(given.file))
    except ModuleNotFoundError as error:
        raise Unable(f"the pictures need {error.name}, which is not installed: pip install 'sublevel[plot]'") from error
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unable(f"cannot write {out}: {error.strerror}. Choose another place with --out.") from error
    print(f"report: {out.resolve()}")
    return 0


def add_export(commands: Subparsers) -> None:
    """`sublevel export`."""
    about = "write all evaluations of a stored run as .csv or .parquet"
    parser = commands.add_parser("export", help=about, description=sentence(about))
    parser.add_argument("file", type=Path, metavar="FILE", help="the stored run")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new file that ends with .csv or .parquet")
    parser.set_defaults(run=run_export)


def run_export(given: argparse.Namespace) -> int:
    """Write the table."""
    if given.out.exists():
        raise Unable(f"{given.out} exists already. Choose another name.")
    try:
        load(given.file).export(given.out)
    except (ValueError, OSError) as error:
        raise Unable(str(error)) from error
    return 0
