"""Short texts of arrays and objects, for `repr`, messages and HTML in notebooks."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike

MOST_ROWS = 20
"""Most rows of a table; longer tables show the first and the last rows."""
MOST_NUMBERS = 8
"""Most numbers of an array; longer arrays show the first and the last three."""
LONGEST = 500
"""Most characters of a note."""
BRIEF = reprlib.Repr()
BRIEF.maxother = BRIEF.maxstring = 200
BRIEF.maxlist = BRIEF.maxtuple = 10
CELL = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0"


@dataclass(frozen=True, slots=True)
class Summary:
    """A title, facts by name, a table whose first row is its header, and notes."""

    title: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    table: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

    def text(self) -> str:
        """The summary as lines of text."""
        width = max(map(len, self.facts), default=0)
        lines = [self.title, *(f"  {name.ljust(width)}  {text}" for name, text in self.facts.items())]
        lines += [f"  {line}" for line in aligned(self.table)]
        lines += [f"  note: {note[:LONGEST]}" for note in self.notes]
        return "\n".join(lines)

    def html(self) -> str:
        """The summary as HTML with escaped texts."""
        parts = [f"<p><strong>{escape(self.title)}</strong></p>"]
        if self.facts:
            parts.append(html_table([list(row) for row in self.facts.items()], has_header=False))
        if self.table:
            parts.append(html_table(self.table))
        if self.notes:
            parts.append("<ul>" + "".join(f"<li>{escape(note[:LONGEST])}</li>" for note in self.notes) + "</ul>")
        return f"<div>{''.join(parts)}</div>"


def short_params(params: Mapping[str, object], most: int = MOST_ROWS) -> str:
    """Values by name on one line, of many values the first and the last.

    >>> short_params({"rate": 0.1, "kernel": "rbf"})
    "rate=0.1, kernel='rbf'"
    """
    names = list(params)
    return ", ".join(
        "…" if i is None else f"{names[i]}={short_repr(params[names[i]])}" for i in listed(len(names), most)
    )


def number_text(number: float, format_spec: str) -> str:
    """A number as a text, "unknown" if it is NaN."""
    return "unknown" if np.isnan(number) else format(number, format_spec)


def html_table(rows: Sequence[Sequence[str]], has_header: bool = True) -> str:
    """A table as HTML with escaped cells."""

    def row_of(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="{CELL}">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"

    head = f"<thead>{row_of(rows[0], 'th')}</thead>" if has_header else ""
    return f"<table>{head}<tbody>{''.join(row_of(row, 'td') for row in rows[has_header:])}</tbody></table>"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text in columns."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def listed(count: int, most: int = MOST_ROWS) -> Iterator[int | None]:
    """Indices up to `count`; if there are more than `most`, the first and the last ones with None in between."""
    if count <= most:
        yield from range(count)
        return
    yield from range(most // 2)
    yield None
    yield from range(count - most // 2, count)


def short_repr(given: object) -> str:
    """A `repr` for error messages: one line of limited length."""
    return " ".join(BRIEF.repr(given).split())


def short_array(numbers: ArrayLike) -> str:
    """An array in one line: the first and last numbers of a long array, the shape of a matrix."""
    array = np.asarray(numbers)
    if array.ndim != 1:
        return f"array of shape {array.shape}"
    text = np.array2string(
        array, precision=6, threshold=MOST_NUMBERS, edgeitems=3, separator=", ", max_line_width=10**6
    )
    return text if array.size <= MOST_NUMBERS else f"{text} ({array.size})"


def counted(number: int, noun: str) -> str:
    """1 variable, 2 variables."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
