"""What commands share."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from sublevel.store.configuration import Settings

Subparsers = Any
"""What argparse adds commands to; it has no public name."""


class Unable(Exception):
    """The command cannot be run as given; the text says why and what to do."""


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
    argv, function, path = command.get("command"), command.get("function"), command.get("path")
    if isinstance(argv, list):
        words: list[str] = ["--command", *map(str, argv)]  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(function, str):
        words = [function, *(["--path", path] if isinstance(path, str) else [])]
    else:
        return printable(f"{settings.objective} from Python")
    return printable(shlex.join(words))


def printable(text: str) -> str:
    """Text without control characters, which could do something to a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)[:500]
