"""Evaluations for other programs: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sublevel.store.errors import StoreError
from sublevel.store.reader import Evaluations


def export(evaluations: Evaluations, file: Path) -> None:
    """Write one row for each evaluation: run, iteration, index, value and the variables x0, x1 and so on."""
    if file.suffix.lower() not in WRITERS:
        raise ValueError(f"`file` must end with {' or '.join(WRITERS)}, got {str(file)!r}.")
    WRITERS[file.suffix.lower()](evaluations, file)


def _names(evaluations: Evaluations) -> list[str]:
    return ["run", "iteration", "index", "value", *(f"x{i}" for i in range(evaluations.points.shape[1]))]


def write_csv(evaluations: Evaluations, file: Path) -> None:
    """Numbers in the shortest form that gives the same bits again."""
    with file.open("w", newline="", encoding="ascii") as stream:
        writer = csv.writer(stream)
        writer.writerow(_names(evaluations))
        keys = [column.tolist() for column in (evaluations.run, evaluations.iteration, evaluations.place, evaluations.values)]
        writer.writerows([*row, *point] for *row, point in zip(*keys, evaluations.points.tolist(), strict=True))


def write_parquet(evaluations: Evaluations, file: Path) -> None:
    """Columns by name, by pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise StoreError("Parquet needs pyarrow, which is not installed: pip install 'sublevel[parquet]'; .csv needs nothing.") from error
    arrow: Any = pyarrow
    columns = [evaluations.run, evaluations.iteration, evaluations.place, evaluations.values, *evaluations.points.T]
    table = arrow.table([arrow.array(column) for column in columns], names=_names(evaluations))
    parquet.write_table(table, file)  # pyright: ignore[reportUnknownMemberType]


WRITERS: dict[str, Callable[[Evaluations, Path], None]] = {".csv": write_csv, ".parquet": write_parquet}
