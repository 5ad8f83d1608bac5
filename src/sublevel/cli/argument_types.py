"""Types of command-line arguments: functions from the text of an argument to its value."""

from __future__ import annotations

import argparse
import math


def budget(text: str) -> float:
    """A whole number ≥ 1, which may be written as 1e4, or inf."""
    value = _number(text)
    if not value >= 1 or not (value == math.inf or value.is_integer()):
        raise _expected("a whole number of at least 1, such as 500 or 1e4", text)
    return value


def workers(text: str) -> int:
    """A whole number ≥ 1, or -1 for all cores."""
    return -1 if text == "-1" else count(text, alternative=", or -1 for one per core")


def seed(text: str) -> int:
    """A whole number ≥ 0."""
    return count(text, least=0)


def count(text: str, least: int = 1, alternative: str = "") -> int:
    """A whole number of at least `least`."""
    if not text.isdecimal() or int(text) < least:
        raise _expected(f"a whole number of at least {least}{alternative}", text)
    return int(text)


def numbers(text: str) -> list[float]:
    """Finite numbers from "1,2,3"."""
    values = [_number(word) for word in text.split(",")]
    if not all(map(math.isfinite, values)):
        raise _expected("numbers separated by commas", text)
    return values


def matrix(text: str) -> list[list[float]]:
    """Rows of finite numbers from "1,0.5;0.5,2"."""
    rows = [[_number(word) for word in row.split(",")] for row in text.split(";")]
    if len({len(row) for row in rows}) > 1 or not all(math.isfinite(value) for row in rows for value in row):
        raise _expected('rows of equal length, separated by semicolons, such as "1,0.5;0.5,2"', text)
    return rows


def bounds(text: str) -> list[tuple[float | None, float | None]]:
    """Bounds from "-1:2,0:none"."""
    try:
        pairs = [pair.split(":") for pair in text.lower().split(",")]
        ends = [[None if end in ("", "none") else float(end) for end in pair] for pair in pairs]
    except ValueError:
        ends = []
    if not ends or any(len(pair) != 2 for pair in ends):
        raise _expected('low:high for each variable, such as "-1:2,0:none"', text)
    return [(low, high) for low, high in ends]


def some_variables(text: str) -> list[str] | None:
    """Indices or names of variables from "0,2" or "rate,depth"; None for "all"."""
    if text == "all":
        return None
    if not all(text.split(",")):
        raise _expected("zero-based indices or names of variables, such as 0,2, or all", text)
    return text.split(",")


def kinds(text: str) -> list[int]:
    """Which variables are integers, from "0,1,0"; one number applies to all."""
    if not all(word in ("0", "1") for word in text.split(",")):
        raise _expected("0 (real) or 1 (integer) for each variable, such as 0,1,0", text)
    return [int(word) for word in text.split(",")]


def error_kind(text: str) -> tuple[str, int | None]:
    """The kind of objective and its number of residuals, from "nll" or from a number of residuals."""
    if text == "nll":
        return "nll", None
    if not text.isdecimal() or int(text) == 0:
        raise _expected("nll (the value is a negative log-likelihood) or the number of squared residuals", text)
    return "least_squares", int(text)


def restarts(text: str) -> str | int:
    """The name of a restart strategy, or a number of restarts."""
    return int(text) if text.isdecimal() else text


def variable_names(text: str) -> list[str]:
    """Names from "rate,depth"."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise _expected("names separated by commas, such as rate,depth", text)
    return names


def tolerance(text: str) -> float:
    """A finite number ≥ 0."""
    if not 0 <= (value := _number(text)) < math.inf:
        raise _expected("a number of at least 0", text)
    return value


def seconds(text: str) -> float:
    """A finite number > 0."""
    if not 0 < (value := _number(text)) < math.inf:
        raise _expected("a positive number of seconds", text)
    return value


def _expected(what: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {what}, got {text!r}")


def _number(text: str) -> float:
    """A float; NaN if the text is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
