"""Helpers that several commands use."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sublevel.evaluation import failures

if TYPE_CHECKING:
    from sublevel.store.settings import Settings

NEGATIVE = re.compile(r"-(\d|\.\d|inf|none)", re.IGNORECASE)
"""Values that begin with a minus sign: -1,2 or -5:5 or -inf."""
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?,?", re.IGNORECASE)
"""One number, possibly followed by a comma."""


class CommandError(Exception):
    """The command cannot continue. The message says why and what to do; `status` is the exit status."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class Argument(NamedTuple):
    """An option or a positional argument of a command."""

    name: str
    help: str
    settings: dict[str, Any]  # further arguments of `ArgumentParser.add_argument`

    @property
    def is_option(self) -> bool:
        """Whether the argument is named on the command line."""
        return self.name.startswith("--")

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the name of the option."""
        return "action" not in self.settings

    @property
    def choices(self) -> Sequence[str]:
        """The possible values, if there are only a few."""
        return self.settings.get("choices", ())


def argument(
    name: str, help: str, type: Callable[[str], object] = str, metavar: str | None = None, **settings: Any
) -> Argument:
    """An argument with settings as for `ArgumentParser.add_argument`."""
    value = {} if "action" in settings else {"type": type, "metavar": metavar}
    return Argument(name, help, value | settings)


FILE = argument("file", "file of a stored run", Path, "FILE")
FORCE = argument("--force", "overwrite an existing file (stored runs are never overwritten)", action="store_true")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `sublevel`."""

    name: str
    summary: str  # a phrase
    run: Callable[[argparse.Namespace], int]  # returns the exit status
    arguments: Sequence[Argument]
    examples: str  # printed verbatim
    details: str = ""  # further sentences

    def add_to(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
        """Add the parser of the command."""
        description = f"{self.summary[0].upper()}{self.summary[1:]}. {self.details}".strip()
        parser = commands.add_parser(self.name, help=self.summary, description=description, epilog=self.examples)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        for name, text, settings in self.arguments:
            parser.add_argument(name, help=text, **settings)
        parser.set_defaults(run=self.run)


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
    keys = ("command", "function", "path", "pattern")
    argv, function, path, pattern = (settings.command.get(key) for key in keys)
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
        message = f"interrupted. Finished parts are saved in {out}; the same command continues."
        raise CommandError(message, status=130) from None
    except ModuleNotFoundError as error:
        hint = "which is not installed: pip install 'sublevel[plot,progress]'"
        raise CommandError(f"figures need {error.name}, {hint}") from error
    except WorkerLost as error:
        raise CommandError(f"{error}. Finished parts are saved; the same command continues.") from error
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error}. Choose another directory with --out.") from error
