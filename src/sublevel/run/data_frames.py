"""Tables for users: a pandas DataFrame if pandas is installed, a structured array of NumPy's otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array


def data_frame(
    columns: Mapping[str, NDArray[np.generic]], block: Array | None = None, names: Sequence[str] = ()
) -> Any:
    """A table of columns (n,) by name, and of the columns of a block (n, d), which have names of their own.

    Returns
    -------
    pandas.DataFrame or structured numpy.ndarray
    """
    try:
        import pandas as installed  # pyright: ignore
    except ModuleNotFoundError:
        return structured(columns, block, names)
    pandas: Any = installed
    table = pandas.DataFrame(dict(columns))
    if block is None:
        return table
    return pandas.concat([table, pandas.DataFrame(block, columns=list(names), copy=True)], axis=1)


def structured(
    columns: Mapping[str, NDArray[np.generic]], block: Array | None, names: Sequence[str]
) -> NDArray[np.void]:
    """The table as an array of NumPy's with named fields."""
    parts = {name: np.asarray(column) for name, column in columns.items()}
    if block is not None:
        parts |= dict(zip(names, block.T, strict=True))
    rows = len(next(iter(parts.values())))
    table = np.empty(rows, dtype=[(name, part.dtype) for name, part in parts.items()])
    for name, part in parts.items():
        table[name] = part
    return table
