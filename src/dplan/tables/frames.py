"""Frames of other libraries as polars frames."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from dplan.exceptions import CellError, shown

__all__ = ["as_frame", "is_frame"]


def is_frame(table: Any) -> bool:
    """Tell whether this is a polars or pandas frame or an Arrow table.

    Examples
    --------
    >>> is_frame(pl.DataFrame()), is_frame([[1.0]])
    (True, False)
    """
    return hasattr(table, "__arrow_c_stream__") or (hasattr(table, "columns") and hasattr(table, "dtypes"))


def as_frame(table: Any) -> pl.DataFrame:
    """Return a frame as a polars frame, its names as texts.

    Examples
    --------
    >>> import pandas as pd
    >>> as_frame(pd.DataFrame({"a": [1.5, None]})).rows()
    [(1.5,), (None,)]
    """
    if isinstance(table, pl.DataFrame):
        return table
    if not is_frame(table):
        raise TypeError(f"a polars or pandas frame or an Arrow table is needed, not {type(table).__name__}")
    pandas = hasattr(table, "iloc")
    names = [str(name) for name in (table.columns if pandas else table.schema.names)]
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(f"the table has two columns {shown(twice)}; rename one of them")
    if not pandas:
        return pl.DataFrame(pl.from_arrow(table))
    columns = (table.iloc[:, position] for position in range(len(names)))
    return pl.DataFrame([_from_pandas(name, column) for name, column in zip(names, columns, strict=True)])


def _from_pandas(name: str, series: Any) -> pl.Series:
    """Convert a pandas column; one that mixes types is refused with the row of the first odd value."""
    if series.dtype == object:
        present = [(row, value) for row, value in enumerate(series) if value is not None and value == value]
        for row, value in present:
            if type(value) is not type(present[0][1]):
                raise CellError(
                    name,
                    row,
                    f"{shown(value)} is of another type than {shown(present[0][1])} in row {present[0][0] + 1}; "
                    "give all values one type",
                )
    return pl.Series(name, pl.from_pandas(series))
