"""The result of a check, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

Bound = float | tuple[float, float]
"""The largest value that is allowed, or an interval."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check of one statement."""

    name: str
    statement: str
    value: float
    bound: Bound
    passed: bool
    sentence: str


def judge(name: str, statement: str, value: float, bound: Bound, sentence: str, *, also: bool = True) -> Report:
    """The report that passes if the value is within its bound, NaN never is, and if `also` holds."""
    low, high = bound if isinstance(bound, tuple) else (float("-inf"), bound)
    return Report(name, statement, float(value), bound, bool(low <= value <= high and also), sentence)


def all_passed(reports: Iterable[Report]) -> bool:
    """True if every statement was found to hold."""
    return all(report.passed for report in reports)


def to_json(reports: Sequence[Report]) -> str:
    """A list of {name, statement, value, bound, passed}; an interval is a list of two, NaN and inf are null."""

    def finite(number: Bound) -> object:
        return [finite(end) for end in number] if isinstance(number, tuple) else number if isfinite(number) else None

    rows = [
        {"name": row.name, "statement": row.statement, "value": finite(row.value), "bound": finite(row.bound)}
        | {"passed": row.passed}
        for row in reports
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)


def render(reports: Sequence[Report]) -> str:
    """A table for the terminal: verdict, name, value, bound and statement; a failed row is followed by its sentence."""
    cells = [("", "check", "value", "bound", "statement")]
    for row in reports:
        value, bound = _format_value(row.value), _format_bound(row.bound)
        cells.append(("ok" if row.passed else "FAIL", row.name, value, bound, row.statement))
    widths = [*(max(len(row[column]) for row in cells) for column in range(4)), 0]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    lines.insert(1, "─" * max(map(len, lines)))
    for position in reversed([index for index, row in enumerate(reports) if not row.passed]):
        lines.insert(position + 3, " " * (widths[0] + 2) + reports[position].sentence)
    failed = [row.name for row in reports if not row.passed]
    end = f"; failed: {', '.join(failed)}." if failed else "."
    return "\n".join([*lines, "", f"{len(reports) - len(failed)} of {len(reports)} checks passed{end}"])


def _format_bound(bound: Bound) -> str:
    return " … ".join(map(_format_value, bound)) if isinstance(bound, tuple) else f"≤ {_format_value(bound)}"


def _format_value(number: float) -> str:
    """Six digits; next to 1 the distance from it, which is what matters there."""
    gap = number - 1
    return f"1 {'+' if gap > 0 else '−'} {abs(gap):.2g}" if 0 < abs(gap) < 1e-5 else f"{number:.6g}"
