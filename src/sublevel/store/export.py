"""Evaluations for other programs: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sublevel.store.errors import StoreError
from sublevel.store.output import write_output
from sublevel.store.reader import Evaluations

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins like this is a formula to spreadsheet programs."""


def export(evaluations: Evaluations, file: Path, names: Sequence[str] | None = None, force: bool = True) -> None:
    """Write one row for each evaluation: run, iteration, index, value and the variables by their names, x0, x1 and so on if None.

    An existing file is replaced if `force`, but never a stored run, and no symbolic link is followed.
    """
    write = WRITERS.get(file.suffix.lower())
    if write is None:
        raise ValueError(f"`file` must end with {' or '.join(WRITERS)}, got {str(file)!r}.")
    write_output(file, lambda unfinished: write(evaluations, unfinished, column_names(evaluations, names)), force)


def plain_cell(text: str) -> str:
    """A text for a cell of a table, behind an apostrophe if a spreadsheet program would compute it.

    >>> plain_cell("=1+2"), plain_cell("rate")
    ("'=1+2", 'rate')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def column_names(evaluations: Evaluations, names: Sequence[str] | None) -> list[str]:
    """What the columns are called: keys, value and variables. A variable that is called as a column before it gets a _ behind its name."""
    columns = dict.fromkeys(["run", "iteration", "index", "value"])
    for name in (f"x{i}" for i in range(evaluations.points.shape[1])) if names is None else names:
        while name in columns:
            name += "_"
        columns[name] = None
    return list(columns)


def write_csv(evaluations: Evaluations, file: Path, columns: Sequence[str]) -> None:
    """Numbers in the shortest form that gives the same bits again."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(map(plain_cell, columns))
        keys = [column.tolist() for column in (evaluations.run, evaluations.iteration, evaluations.place, evaluations.values)]
        writer.writerows([*row, *point] for *row, point in zip(*keys, evaluations.points.tolist(), strict=True))


def write_parquet(evaluations: Evaluations, file: Path, names: Sequence[str]) -> None:
    """Columns by name, by pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise StoreError("Parquet needs pyarrow, which is not installed: pip install 'sublevel[parquet]'; .csv needs nothing.") from error
    arrow: Any = pyarrow
    columns = [evaluations.run, evaluations.iteration, evaluations.place, evaluations.values, *evaluations.points.T]
    table = arrow.table([arrow.array(column) for column in columns], names=list(names))
    parquet.write_table(table, file)  # pyright: ignore[reportUnknownMemberType]


WRITERS: dict[str, Callable[[Evaluations, Path, Sequence[str]], None]] = {".csv": write_csv, ".parquet": write_parquet}
