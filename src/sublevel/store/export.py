"""Export of evaluations as CSV, Parquet or NPZ."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.evaluation.this_process import can_start_threads
from sublevel.run.initial import Start
from sublevel.store.errors import StoreError
from sublevel.store.output import write_output
from sublevel.store.reader import Evaluations
from sublevel.store.settings import Settings
from sublevel.store.spaces import VariableColumns, variable_columns

KEYS: Sequence[str] = ("run", "iteration", "index", "value")
"""Names of the columns before those of the variables."""
ROW_GROUP = 2**26
"""Least bytes of points in a row group of a Parquet file."""
READ_AHEAD = 8
"""Parts of the points that are read while others are written."""
MOST_COLUMNS = 1000
"""Most variables that have a column each in a Parquet file; more are one column of lists."""
MOST_CSV_COLUMNS = 16_384
"""Most columns that spreadsheet programs open; a CSV file with more has the variables only if they are asked for."""
CSV_NUMBERS = 2**15
"""Numbers of points in the lines of CSV that are made at a time, at least one line."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a formula in spreadsheet programs."""


def export(evaluations: Evaluations, file: Path, variables: VariableColumns, force: bool = True) -> None:
    """Write one row per evaluation: run, iteration, index, value and the variables, unless they have no names.

    With `force` an existing file is overwritten, but never a stored run. Symbolic links are not followed.
    """
    write = WRITERS.get(file.suffix.lower())
    if write is None:
        raise ValueError(f"`file` must end with {' or '.join(WRITERS)}, got {str(file)!r}.")
    write_output(file, lambda unfinished: write(evaluations, unfinished, variables), force)


def is_too_wide(evaluations: Evaluations, file: Path) -> bool:
    """Whether the file is CSV and would have more columns than spreadsheet programs open."""
    columns = len(KEYS) + evaluations.constraints.shape[1] + evaluations.dimension
    return file.suffix.lower() == ".csv" and columns > MOST_CSV_COLUMNS


def omission(evaluations: Evaluations, file: Path) -> str:
    """What is said about a CSV file that has no variables."""
    return (
        f"{file} does not have the {evaluations.dimension} variables, because spreadsheet programs open at most "
        f"{MOST_CSV_COLUMNS} columns and the text is slow to write. A .npz or .parquet file has them"
    )


NO_VARIABLES = VariableColumns((), (), {})
"""The columns of a table without variables."""


def plain_cell(text: str) -> str:
    """A text for a table cell, with an apostrophe in front if a spreadsheet program would read it as a formula.

    >>> plain_cell("=1+2"), plain_cell("rate")
    ("'=1+2", 'rate')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def table_columns(evaluations: Evaluations, settings: Settings, start: Start) -> VariableColumns:
    """The columns of the variables: the parameters of a space as the objective gets them, integers as integers."""
    names = column_names(evaluations, settings.names)[len(KEYS) + evaluations.constraints.shape[1] :]
    discrete = np.zeros(len(names), dtype=np.bool_) if start.space is None else start.space.discrete
    return variable_columns(names, start.parameters, discrete, (points for _, points in evaluations.parts()))


def column_names(evaluations: Evaluations, names: Sequence[str] | None) -> list[str]:
    """Names of the columns. An underscore is appended to the name of a variable that is already taken."""
    columns = dict.fromkeys([*KEYS, *evaluations.constraint_names])
    for name in (f"x{i}" for i in range(evaluations.dimension)) if names is None else names:
        while name in columns:
            name += "_"
        columns[name] = None
    return list(columns)


def write_csv(evaluations: Evaluations, file: Path, variables: VariableColumns) -> None:
    """Write CSV. Numbers have the shortest form that gives the same float."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        stream.writelines(csv_parts(evaluations, variables))


def csv_parts(evaluations: Evaluations, variables: VariableColumns) -> Iterator[str]:
    """The text of a CSV file in parts of many lines."""
    yield _csv([map(plain_cell, [*KEYS, *evaluations.constraint_names, *variables.names])])
    if not variables.names:
        columns = [column.tolist() for column in _keys(evaluations)]
        yield "".join([",".join(map(repr, row)) + "\r\n" for row in zip(*columns, strict=True)])
        return
    for rows, points in evaluations.parts():
        keys = [column[rows].tolist() for column in _keys(evaluations)]
        step = max(CSV_NUMBERS // max(evaluations.dimension, 1), 1)
        for begin in range(0, len(points), step):
            part = points[begin : begin + step]
            some = [key[begin : begin + step] for key in keys]
            if variables.is_plain:
                lines = zip(*some, part.tolist(), strict=True)
                yield "".join([",".join(map(repr, [*row, *point])) + "\r\n" for *row, point in lines])
            else:
                columns = [*some, *(column.tolist() for column in variables.decode(part))]
                yield _csv([_cell(value) for value in row] for row in zip(*columns, strict=True))


def _csv(rows: Iterable[Iterable[str]]) -> str:
    """Lines of CSV."""
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def _cell(value: object) -> str:
    """A value as the text of a cell."""
    return plain_cell(value) if isinstance(value, str) else repr(value)


def _keys(evaluations: Evaluations) -> tuple[NDArray[np.int64 | np.float64], ...]:
    """The columns before the variables (n,)."""
    columns = evaluations.run, evaluations.iteration, evaluations.place, evaluations.values
    return *columns, *evaluations.constraints.T


def write_parquet(evaluations: Evaluations, file: Path, variables: VariableColumns) -> None:
    """Write Parquet with pyarrow. More than `MOST_COLUMNS` real variables are one column ``x`` of lists of equal
    length.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise StoreError(
            "Parquet needs pyarrow, which is not installed: pip install 'sublevel[parquet]'. CSV needs no further "
            "package."
        ) from error
    arrow, d = cast(Any, pyarrow), evaluations.dimension
    is_wide = d > MOST_COLUMNS and variables.is_plain
    kinds = [arrow.int64()] * 3 + [arrow.float64()] * (1 + evaluations.constraints.shape[1])
    if is_wide:  # without nulls, which would be looked for
        kinds.append(arrow.list_(arrow.field("element", arrow.float64(), nullable=False), d))
    else:
        kinds += [arrow.string() if dtype.kind == "U" else arrow.from_numpy_dtype(dtype) for dtype in variables.dtypes]
    names = [*KEYS, *evaluations.constraint_names, *(["x"] if is_wide else variables.names)]
    schema = arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in zip(names, kinds, strict=True)])
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False} if is_wide else {}
    with cast(Any, parquet).ParquetWriter(file, schema, **options) as writer:
        for rows, points in _read_ahead(evaluations) if is_wide else _groups(evaluations):
            columns = [_arrow_array(arrow, column[rows]) for column in _keys(evaluations)]
            if is_wide:
                numbers = _arrow_array(arrow, points.ravel())
                columns.append(arrow.FixedSizeListArray.from_arrays(numbers, type=kinds[-1]))
            else:
                columns += [_arrow_array(arrow, column) for column in variables.decode(points)]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _arrow_array(arrow: Any, column: NDArray[Any]) -> Any:
    """A column (n,) for pyarrow. Its function `array` would import pandas, which takes longer than most exports."""
    if column.dtype.kind not in "fi":
        return arrow.array(column)
    buffer = arrow.py_buffer(np.ascontiguousarray(column))
    return arrow.Array.from_buffers(arrow.from_numpy_dtype(column.dtype), len(column), [None, buffer])


def _read_ahead(evaluations: Evaluations) -> Iterator[tuple[slice, Array]]:
    """Rows and their points (m, d), read in a thread while those before are written, if threads can be started."""
    if not can_start_threads():
        yield from evaluations.parts()
        return
    parts, following = evaluations.parts(), deque[Future[tuple[slice, Array] | None]]()
    with ThreadPoolExecutor(1) as thread:
        try:
            following.extend(thread.submit(next, parts, None) for _ in range(READ_AHEAD))
            while (part := following.popleft().result()) is not None:
                following.append(thread.submit(next, parts, None))
                yield part
        finally:
            for waiting in following:
                waiting.cancel()
            thread.submit(parts.close).result()  # where the file was opened


def _groups(evaluations: Evaluations) -> Iterator[tuple[slice, Array]]:
    """Rows and their points (m, d), in parts that are large enough for the headers of a row group."""
    parts, begin, end = list[Array](), 0, 0
    for rows, points in _read_ahead(evaluations):
        parts.append(points)
        end = rows.stop
        if 8 * (end - begin) * evaluations.dimension >= ROW_GROUP:
            yield slice(begin, end), np.concatenate(parts)
            parts, begin = [], end
    if parts or not end:
        yield slice(begin, end), np.concatenate([np.empty((0, evaluations.dimension)), *parts])


def write_npz(evaluations: Evaluations, file: Path, variables: VariableColumns) -> None:
    """Write arrays for `numpy.load`: run, iteration, index, value, constraints (n, k) if there are any, points x
    (n, d), names of the variables and, if some are discrete, a structured array ``params`` (n,) of their values by
    name.
    """
    n, d = evaluations.values.size, evaluations.dimension
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        columns = dict(zip(KEYS, _keys(evaluations), strict=False))
        if evaluations.constraints.size:
            columns["constraints"] = evaluations.constraints
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w") as stream:
                np.save(stream, column)
        with archive.open("names.npy", "w") as stream:
            np.save(stream, np.array(variables.names))
        with archive.open("x.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (n, d)})
            for _, points in _read_ahead(evaluations):
                stream.write(np.ascontiguousarray(points).data.cast("B") if points.size else b"")
        if not variables.is_plain:
            with archive.open("params.npy", "w", force_zip64=True) as stream:
                _write_params(stream, evaluations, variables)


def _write_params(stream: IO[bytes], evaluations: Evaluations, variables: VariableColumns) -> None:
    """Write the values of the variables as a structured array (n,)."""
    kind = np.dtype(list(zip(variables.names, variables.dtypes, strict=True)))
    header = {"descr": kind.descr, "fortran_order": False, "shape": (evaluations.values.size,)}
    np.lib.format.write_array_header_2_0(stream, header)
    for _, points in evaluations.parts():
        table = np.empty(len(points), dtype=kind)
        for name, column in zip(variables.names, variables.decode(points), strict=True):
            table[name] = column
        stream.write(table.tobytes())


WRITERS: dict[str, Callable[[Evaluations, Path, VariableColumns], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_npz,
}
