"""Helpers that several commands use."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Generator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublevel.evaluation import failures

if TYPE_CHECKING:
    from sublevel.store.settings import Settings

Subparsers = Any
"""The object to which argparse adds commands; it has no public type."""
NEGATIVE = re.compile(r"-(\d|\.\d|inf|none)", re.IGNORECASE)
"""Values that begin with a minus sign: -1,2 or -5:5 or -inf."""
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?,?", re.IGNORECASE)
"""One number, possibly followed by a comma."""


class CommandError(Exception):
    """The command cannot continue. The message says why and what to do; `status` is the exit status."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def add_command(
    commands: Subparsers, name: str, summary: str, epilog: str, details: str = ""
) -> argparse.ArgumentParser:
    """Add the parser of a command. `summary` is a phrase, `details` are further sentences, `epilog` is printed
    verbatim.
    """
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {details}".strip(),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument FILE."""
    parser.add_argument("file", type=Path, metavar="FILE", help="file of a stored run")


def add_force_option(parser: argparse.ArgumentParser) -> None:
    """Add --force, for commands that write a file."""
    parser.add_argument(
        "--force", action="store_true", help="overwrite an existing file (stored runs are never overwritten)"
    )


def join_negative_values(words: Sequence[str]) -> list[str]:
    """Join values that begin with a minus sign to their options, as in --x0=-1,2.

    argparse would read them as options. Words after --command are left alone: they belong to the program.
    """
    own = list(takewhile(lambda word: not _ends_options(word), words))
    _check_commas(own)
    result: list[str] = []
    for word in own:
        if result and result[-1].startswith("--") and "=" not in result[-1] and NEGATIVE.match(word):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return [*result, *words[len(own) :]]


def _check_commas(words: Sequence[str]) -> None:
    """Refuse values that are separated by spaces: argparse would read the second one as the function."""
    for option, *values in zip(words, words[1:], words[2:], strict=False):
        if option.startswith("--") and "=" not in option and all(map(PLAIN_NUMBER.fullmatch, values)):
            values = [value.rstrip(",") for value in values]
            raise CommandError(f"{option}: separate values by commas, without spaces: {option} {','.join(values)}")


def _ends_options(word: str) -> bool:
    """Whether no option of ours can follow: --, --command, or an abbreviation of it."""
    head = word.partition("=")[0]
    return word == "--" or (len(head) > 2 and "--command".startswith(head))


def describe_objective(settings: Settings) -> str:
    """The objective of a stored run as it was named on the command line, safe to print on a terminal."""
    command = settings.command
    argv, function, path, pattern = (command.get(key) for key in ("command", "function", "path", "pattern"))
    if isinstance(argv, list):
        pattern_words = ["--pattern", pattern] if isinstance(pattern, str) else []
        words: list[str] = [*pattern_words, "--command", *map(str, argv)]  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(function, str):
        words = [function, *(["--path", path] if isinstance(path, str) else [])]
    else:
        return printable(f"{settings.objective} from Python")
    return printable(shlex.join(words))


def printable(text: str) -> str:
    """The text without control characters, which could change the state of a terminal."""
    return failures.printable(text, 500)


@contextlib.contextmanager
def resumable_errors(out: Path) -> Generator[None]:
    """Turn errors of a computation that saves its progress in `out` into messages."""
    from sublevel.paper.runner import WorkerLost

    try:
        yield
    except KeyboardInterrupt:
        raise CommandError(
            f"interrupted. Finished parts are saved in {out}; the same command continues.", status=130
        ) from None
    except ModuleNotFoundError as error:
        raise CommandError(
            f"figures need {error.name}, which is not installed: pip install 'sublevel[plot,progress]'"
        ) from error
    except WorkerLost as error:
        raise CommandError(f"{error}. Finished parts are saved; the same command continues.") from error
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error}. Choose another directory with --out.") from error
