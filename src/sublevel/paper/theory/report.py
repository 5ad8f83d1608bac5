"""What a check says, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

Bound = float | tuple[float, float]
"""The largest value that is allowed, or an interval."""


@dataclass(frozen=True, slots=True)
class Report:
    """One statement, checked."""

    name: str
    statement: str
    value: float
    bound: Bound
    passed: bool
    sentence: str


def judge(name: str, statement: str, value: float, bound: Bound, sentence: str, *, also: bool = True) -> Report:
    """The report that passes if the value is within its bound and what was `also` to hold does; NaN is within no
    bound.
    """
    low, high = bound if isinstance(bound, tuple) else (float("-inf"), bound)
    return Report(name, statement, float(value), bound, bool(low <= value <= high and also), sentence)


def all_passed(reports: Iterable[Report]) -> bool:
    """True if every statement was found to hold."""
    return all(report.passed for report in reports)


def to_json(reports: Sequence[Report]) -> str:
    """A list of {name, statement, value, bound, passed}; a bound that is an interval is a list of two, NaN and inf are
    null.
    """
    rows = [
        {
            "name": report.name,
            "statement": report.statement,
            "value": _number(report.value),
            "bound": [_number(end) for end in report.bound]
            if isinstance(report.bound, tuple)
            else _number(report.bound),
            "passed": report.passed,
        }
        for report in reports
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)


def render(reports: Sequence[Report]) -> str:
    """A table for the terminal: verdict, name, value, bound and statement; a failed row is followed by its sentence."""
    cells = [("", "check", "value", "bound", "statement")]
    cells += [
        ("ok" if row.passed else "FAIL", row.name, _format_value(row.value), _format_bound(row.bound), row.statement)
        for row in reports
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in cells
    ]
    lines.insert(1, "─" * max(map(len, lines)))
    for position in reversed([index for index, row in enumerate(reports) if not row.passed]):
        lines.insert(position + 3, " " * (widths[0] + 2) + reports[position].sentence)
    return "\n".join([*lines, "", _verdict(reports)])


def _verdict(reports: Sequence[Report]) -> str:
    failed = [row.name for row in reports if not row.passed]
    return f"{len(reports) - len(failed)} of {len(reports)} checks passed" + (
        f"; failed: {', '.join(failed)}." if failed else "."
    )


def _format_bound(bound: Bound) -> str:
    return (
        f"{_format_value(bound[0])} … {_format_value(bound[1])}"
        if isinstance(bound, tuple)
        else f"≤ {_format_value(bound)}"
    )


def _format_value(number: float) -> str:
    """Six digits; next to 1 the distance from it, which is what matters there."""
    gap = number - 1
    return f"1 {'+' if gap > 0 else '−'} {abs(gap):.2g}" if 0 < abs(gap) < 1e-5 else f"{number:.6g}"


def _number(number: float) -> float | None:
    return number if isfinite(number) else None
