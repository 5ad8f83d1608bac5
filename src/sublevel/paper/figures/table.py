"""The statements as a table for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from sublevel.paper.figures.statements import Statement

FIGURE, PAPER, MEASURED = 5, 48, 58
"""Widths of the columns."""


def verdict_line(rows: Sequence[Statement]) -> str:
    """The whole result in a sentence."""
    found = sum(row.found for row in rows)
    if not rows:
        return "No statement of the paper is about what was run."
    if found == len(rows):
        return f"All {found} statements of the paper were found."
    return f"{found} of {len(rows)} statements of the paper were found, {len(rows) - found} not."


def table(rows: Sequence[Statement]) -> str:
    """One block of lines for each statement."""
    lines = [_line("fig.", "statement in the paper", "measured here", "verdict"), "-" * (FIGURE + PAPER + MEASURED + 9)]
    for row in rows:
        cells = (
            [str(row.figure)],
            textwrap.wrap(row.paper, PAPER - 2),
            textwrap.wrap(row.measured, MEASURED - 2),
            [row.verdict],
        )
        lines.extend(_line(*texts) for texts in zip_longest(*cells, fillvalue=""))
    return "\n".join(lines)


def _line(figure: str, paper: str, measured: str, verdict: str) -> str:
    return f"{figure:<{FIGURE}}{paper:<{PAPER}}{measured:<{MEASURED}}{verdict}".rstrip()
