"""What commands share."""

from __future__ import annotations

import argparse
from typing import Any

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
