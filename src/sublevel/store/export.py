"""Evaluations for other programs: CSV, Parquet and NumPy's .npz."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.store.errors import StoreError
from sublevel.store.output import write_output
from sublevel.store.reader import Evaluations

ROW_GROUP = 2**27
"""Bytes of points in a row group of a Parquet file, at least."""
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
    for name in (f"x{i}" for i in range(evaluations.dimension)) if names is None else names:
        while name in columns:
            name += "_"
        columns[name] = None
    return list(columns)


def write_csv(evaluations: Evaluations, file: Path, columns: Sequence[str]) -> None:
    """Numbers in the shortest form that gives the same bits again."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(map(plain_cell, columns))
        for rows, points in evaluations.parts():
            keys = [column[rows].tolist() for column in _keys(evaluations)]
            writer.writerows([*row, *point.tolist()] for *row, point in zip(*keys, points, strict=True))


def _keys(evaluations: Evaluations) -> tuple[NDArray[Any], ...]:
    """The columns before the variables (n,)."""
    return evaluations.run, evaluations.iteration, evaluations.place, evaluations.values


def write_parquet(evaluations: Evaluations, file: Path, names: Sequence[str]) -> None:
    """Columns by name, by pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise StoreError("Parquet needs pyarrow, which is not installed: pip install 'sublevel[parquet]'; .csv needs nothing.") from error
    arrow: Any = pyarrow
    kinds = [arrow.int64()] * 3 + [arrow.float64()] * (1 + evaluations.dimension)
    schema = arrow.schema(list(zip(names, kinds, strict=True)))
    with cast(Any, parquet).ParquetWriter(file, schema) as writer:
        for rows, points in _groups(evaluations):
            columns = [*(column[rows] for column in _keys(evaluations)), *points.T]
            writer.write_table(arrow.table([arrow.array(column) for column in columns], schema=schema))


def _groups(evaluations: Evaluations) -> Iterator[tuple[slice, Array]]:
    """Rows and their points (m, d), as many at a time as suit a row group, of which each column has a header of its own."""
    parts, begin, end = list[Array](), 0, 0
    for rows, points in evaluations.parts():
        parts.append(points)
        end = rows.stop
        if 8 * (end - begin) * evaluations.dimension >= ROW_GROUP:
            yield slice(begin, end), np.concatenate(parts)
            parts, begin = [], end
    if parts or not end:
        yield slice(begin, end), np.concatenate([np.empty((0, evaluations.dimension)), *parts])


def write_npz(evaluations: Evaluations, file: Path, names: Sequence[str]) -> None:
    """Arrays for `numpy.load`: run, iteration, index, value, the points x (n, d), and the names of their variables."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, column in zip(("run", "iteration", "index", "value"), _keys(evaluations), strict=True):
            with archive.open(f"{name}.npy", "w") as stream:
                np.save(stream, column)
        with archive.open("names.npy", "w") as stream:
            np.save(stream, np.array(names[4:]))
        with archive.open("x.npy", "w", force_zip64=True) as stream:
            shape = (evaluations.values.size, evaluations.dimension)
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
            for _, points in evaluations.parts():
                stream.write(points.tobytes())


WRITERS: dict[str, Callable[[Evaluations, Path, Sequence[str]], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_npz,
}
