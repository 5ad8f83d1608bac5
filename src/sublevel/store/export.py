"""Export of evaluations as CSV, Parquet or NPZ."""

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

ROW_GROUP = 2**26
"""Least bytes of points in a row group of a Parquet file."""
MOST_COLUMNS = 1000
"""Most variables that have a column each in a Parquet file; more are one column of lists."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a formula in spreadsheet programs."""


def export(evaluations: Evaluations, file: Path, names: Sequence[str] | None = None, force: bool = True) -> None:
    """Write one row per evaluation: run, iteration, index, value and the variables, which are named x0, x1, … if
    `names` is None.

    With `force` an existing file is overwritten, but never a stored run. Symbolic links are not followed.
    """
    write = WRITERS.get(file.suffix.lower())
    if write is None:
        raise ValueError(f"`file` must end with {' or '.join(WRITERS)}, got {str(file)!r}.")
    write_output(file, lambda unfinished: write(evaluations, unfinished, column_names(evaluations, names)), force)


def plain_cell(text: str) -> str:
    """A text for a table cell, with an apostrophe in front if a spreadsheet program would read it as a formula.

    >>> plain_cell("=1+2"), plain_cell("rate")
    ("'=1+2", 'rate')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def column_names(evaluations: Evaluations, names: Sequence[str] | None) -> list[str]:
    """Names of the columns. An underscore is appended to the name of a variable that is already taken."""
    columns = dict.fromkeys(["run", "iteration", "index", "value"])
    for name in (f"x{i}" for i in range(evaluations.dimension)) if names is None else names:
        while name in columns:
            name += "_"
        columns[name] = None
    return list(columns)


def write_csv(evaluations: Evaluations, file: Path, columns: Sequence[str]) -> None:
    """Write CSV. Numbers have the shortest form that gives the same float."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerow(map(plain_cell, columns))
        for rows, points in evaluations.parts():
            keys = [column[rows].tolist() for column in _keys(evaluations)]
            for *row, point in zip(*keys, points, strict=True):
                stream.write(",".join(map(repr, row + point.tolist())) + "\r\n")


def _keys(evaluations: Evaluations) -> tuple[NDArray[np.int64 | np.float64], ...]:
    """The columns before the variables (n,)."""
    return evaluations.run, evaluations.iteration, evaluations.place, evaluations.values


def write_parquet(evaluations: Evaluations, file: Path, names: Sequence[str]) -> None:
    """Write Parquet with pyarrow. More than `MOST_COLUMNS` variables are one column ``x`` of lists of equal length."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise StoreError(
            "Parquet needs pyarrow, which is not installed: pip install 'sublevel[parquet]'. CSV needs no further "
            "package."
        ) from error
    arrow, d = cast(Any, pyarrow), evaluations.dimension
    is_wide = d > MOST_COLUMNS
    kinds = [arrow.int64()] * 3 + [arrow.float64()]
    kinds += [arrow.list_(arrow.float64(), d)] if is_wide else [arrow.float64()] * d
    schema = arrow.schema(list(zip([*names[:4], "x"] if is_wide else names, kinds, strict=True)))
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False} if is_wide else {}
    with cast(Any, parquet).ParquetWriter(file, schema, **options) as writer:
        for rows, points in _groups(evaluations):
            columns = [arrow.array(column[rows]) for column in _keys(evaluations)]
            if is_wide:
                columns.append(arrow.FixedSizeListArray.from_arrays(arrow.array(points.ravel()), d))
            else:
                columns += map(arrow.array, points.T)
            writer.write_table(arrow.table(columns, schema=schema))


def _groups(evaluations: Evaluations) -> Iterator[tuple[slice, Array]]:
    """Rows and their points (m, d), in parts that are large enough for the headers of a row group."""
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
    """Write arrays for `numpy.load`: run, iteration, index, value, points x (n, d), and names of the variables."""
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
