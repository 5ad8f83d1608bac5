"""What commands share."""

from __future__ import annotations

import argparse
import math
import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from sublevel.engine.arrays import Array
from sublevel.evaluation import failures
from sublevel.run.result import Result
from sublevel.store.settings import Settings

Subparsers = Any
"""What argparse adds commands to; it has no public name."""


NEGATIVE = re.compile(r"-(\d|\.\d|inf|none)", re.IGNORECASE)
"""Values that begin with a minus: -1,2 or -5:5 or -inf."""


PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?,?", re.IGNORECASE)
"""One number, perhaps with a comma after it."""


class Unable(Exception):
    """The command cannot be run as given; the text says why and what to do."""


def sentence(about: str) -> str:
    """What a command does, as a sentence."""
    return f"{about[0].upper()}{about[1:]}."


def add_command(commands: Subparsers, name: str, about: str, epilog: str, more: str = "") -> argparse.ArgumentParser:
    """Add the parser of a command with its help: what it does, more about that, and examples as they stand."""
    return commands.add_parser(
        name,
        help=about,
        description=f"{sentence(about)} {more}".strip(),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def joined(words: Sequence[str]) -> list[str]:
    """The words of a command line with values that begin with a minus joined to their options, as in --x0=-1,2.

    argparse would take them for options. What follows --command is for the program.
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
    """Refuse values of an option that are separated by spaces: argparse would take the second for the function."""
    for option, *values in zip(words, words[1:], words[2:], strict=False):
        if option.startswith("--") and "=" not in option and all(map(PLAIN_NUMBER.fullmatch, values)):
            raise Unable(f"{option}: separate values by commas, without spaces: {option} {','.join(value.rstrip(',') for value in values)}")


def _ends_options(word: str) -> bool:
    """Whether no options of ours follow a word: --, --command, or an abbreviation of it."""
    head = word.partition("=")[0]
    return word == "--" or (len(head) > 2 and "--command".startswith(head))


def deviations(result: Result) -> Array:
    """Standard deviations of the search (d,) in the user's variables, to first order where bounds or logarithms bend the space."""
    searched, space = result.std.copy(), result.history.space
    if space is not None:
        searched[space.free] *= space.slopes(result.mean)
    return searched


def budget(text: str) -> float:
    """A number ≥ 1, which may be written as 1e4 or inf."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 1 or not (value == math.inf or value.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, such as 500 or 1e4, got {text!r}")
    return value


def workers(text: str) -> int:
    """A whole number ≥ 1, or −1 for all cores."""
    if text == "-1":
        return -1
    try:
        return count(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; -1 is one on each core") from None


def count(text: str) -> int:
    """A whole number ≥ 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A whole number ≥ 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def objective_words(settings: Settings) -> str:
    """What was minimised, in words that do no harm on a terminal."""
    command = settings.command
    argv, function, path, pattern = (command.get(key) for key in ("command", "function", "path", "pattern"))
    if isinstance(argv, list):
        found_by = ["--pattern", pattern] if isinstance(pattern, str) else []
        words: list[str] = [*found_by, "--command", *map(str, argv)]  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(function, str):
        words = [function, *(["--path", path] if isinstance(path, str) else [])]
    else:
        return printable(f"{settings.objective} from Python")
    return printable(shlex.join(words))


def printable(text: str) -> str:
    """Text without control characters, which could do something to a terminal."""
    return failures.printable(text, 500)
