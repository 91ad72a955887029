"""Polars frames: made from frames of other libraries, and the check that polars can run in this process."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["as_frame", "check_not_forked", "check_same_columns", "is_frame"]


def is_frame(table: Any) -> bool:
    """Return whether this is a polars or pandas frame or an Arrow table.

    Examples
    --------
    >>> is_frame(pl.DataFrame()), is_frame([[1.0]])
    (True, False)
    """
    return hasattr(table, "__arrow_c_stream__") or (hasattr(table, "columns") and hasattr(table, "dtypes"))


def as_frame(table: Any) -> pl.DataFrame:
    """Convert a frame to a polars frame with string column names.

    Examples
    --------
    >>> import pandas as pd
    >>> as_frame(pd.DataFrame({"a": [1.5, None]})).rows()
    [(1.5,), (None,)]
    """
    if isinstance(table, pl.DataFrame):
        return table
    if not is_frame(table):
        raise TypeError(f"expected a polars or pandas frame or an Arrow table, got {type(table).__name__}")
    pandas = hasattr(table, "iloc")
    names = [str(name) for name in (table.columns if pandas else table.schema.names)]
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(f"duplicate column {shown(twice)}; rename one of them")
    if not pandas:
        return pl.DataFrame(pl.from_arrow(table))
    columns = (table.iloc[:, position] for position in range(len(names)))
    return pl.DataFrame([_from_pandas(name, column) for name, column in zip(names, columns, strict=True)])


def _from_pandas(name: str, series: Any) -> pl.Series:
    """Convert a pandas column; raise an error with the first differing row if it mixes types."""
    if series.dtype == object:
        present = [(row, value) for row, value in enumerate(series) if value is not None and value == value]
        for row, value in present:
            if type(value) is not type(present[0][1]):
                raise CellError(
                    name,
                    row,
                    f"{shown(value)} has a different type from {shown(present[0][1])} in row {present[0][0] + 1}; "
                    "use one type for the whole column",
                )
    return pl.Series(name, pl.from_pandas(series))


def check_same_columns(expected: list[str], found: list[str]) -> None:
    """Raise an error that lists the differences, in the words of scikit-learn, if columns differ."""
    if expected == found:
        return
    message = "The feature names should match those that were passed during fit.\n"
    unexpected, absent = set(found) - set(expected), set(expected) - set(found)
    for title, order, names in (
        ("Feature names unseen at fit time", found, unexpected),
        ("Feature names seen at fit time, yet now missing", expected, absent),
    ):
        if names:
            listed = [name for name in order if name in names]
            more = [f"- … and {len(listed) - 20:,} more"] if len(listed) > 20 else []
            message += "\n".join([f"{title}:", *(f"- {name}" for name in listed[:20]), *more]) + "\n"
    if not unexpected and not absent:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


# The threads of polars do not survive a fork, but its locks do, so a forked process that uses polars would hang.
_forked_from: int | None = None  # the parent process, if polars had threads there
_threads_at_fork = False


def check_not_forked() -> None:
    """Raise an error in a forked process in which polars would hang."""
    if _forked_from is not None:
        raise RuntimeError(
            f"process {os.getpid()} was forked from process {_forked_from}, which was using polars, and would hang: "
            "start processes with 'spawn' or 'forkserver' (multiprocessing), with joblib, or before reading tables"
        )


def _polars_runs() -> bool:
    """Return whether polars has started its threads or, where /proc does not exist, whether it has been imported."""
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return "polars" in sys.modules
    return any(name.startswith(("polars-0", "async-executor", "tokio-rt")) for name in names)


def _before() -> None:
    global _threads_at_fork
    _threads_at_fork = _polars_runs()


def _in_child() -> None:
    global _forked_from
    if _threads_at_fork:
        _forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
