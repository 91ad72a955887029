"""Polars frames and their columns: made from frames of other libraries, turned into plain numbers, and checked.

A frame is not touched in a process in which polars would hang.
"""

from __future__ import annotations

import numbers
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from dplan.exceptions import CellError
from dplan.text import shown

__all__ = [
    "SMALL_INTEGERS",
    "as_frame",
    "as_numbers",
    "attempted",
    "check_cells",
    "check_not_forked",
    "check_same_columns",
    "check_values",
    "for_each_column",
    "in_library_of",
    "is_frame",
    "tidied",
]

One = TypeVar("One")
Result = TypeVar("Result")

SMALL_INTEGERS = (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
_PLAIN_NUMBERS = (*SMALL_INTEGERS, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64)

_DAYS = (-719_162, 2_932_896)  # the first day of year 1 and the last day of year 9999, counted from 1970
_PER_DAY = {"days": 1, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def is_frame(table: Any) -> bool:
    """Return whether this is a polars or pandas frame or an Arrow table.

    Examples
    --------
    >>> is_frame(pl.DataFrame()), is_frame([[1.0]])
    (True, False)
    """
    if isinstance(table, pl.LazyFrame):  # which warns if its columns are looked up
        return True
    return hasattr(table, "__arrow_c_stream__") or (hasattr(table, "columns") and hasattr(table, "dtypes"))


def as_frame(table: Any) -> pl.DataFrame:
    """Convert a frame to a polars frame with string column names.

    Examples
    --------
    >>> import pandas as pd
    >>> as_frame(pd.DataFrame({"a": [1.5, None]})).rows()
    [(1.5,), (None,)]
    """
    if isinstance(table, pl.DataFrame | pl.LazyFrame):
        return table.lazy().collect()
    is_series = isinstance(table, pl.Series) or getattr(table, "ndim", 2) == 1
    if is_series or not is_frame(table):
        one_row = "; one row of a pandas frame is frame.iloc[[place]]" * is_series
        raise TypeError(
            f"expected a polars or pandas frame or an Arrow table, got {type(table).__name__}{one_row}"
        )
    pandas = hasattr(table, "iloc")
    schema = None if pandas else getattr(table, "schema", None)  # a DuckDB relation has none
    names = [str(name) for name in (table.columns if schema is None else schema.names)]
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(f"duplicate column {shown(twice)}; rename one of them")
    if not pandas:
        found = pl.from_arrow(table)
        return found.struct.unnest() if isinstance(found, pl.Series) else found
    columns = (table.iloc[:, position] for position in range(len(names)))
    return pl.DataFrame([_from_pandas(name, column) for name, column in zip(names, columns, strict=True)])


def in_library_of(given: Any, frame: pl.DataFrame) -> Any:
    """Return a frame of the library that a table came in: pandas, Arrow, or polars for everything else.

    Examples
    --------
    >>> import pandas as pd
    >>> type(in_library_of(pd.DataFrame({"a": [1]}), pl.DataFrame({"b": [2]}))).__module__.split(".")[0]
    'pandas'
    """
    if not is_frame(given) or isinstance(given, pl.DataFrame | pl.LazyFrame):
        return frame
    return frame.to_pandas() if hasattr(given, "iloc") else frame.to_arrow()


def _from_pandas(name: str, series: Any) -> pl.Series:
    """Convert a pandas column; raise an error with the first differing row if it mixes types.

    Numbers between texts, which pandas leaves there if it reads a file in parts, are text as in the file.
    """
    if series.dtype == object:
        gaps = series.isna().to_numpy()
        present = [(row, value) for row, value in enumerate(series) if not gaps[row]]
        types = {type(value) for _, value in present}
        if str in types and bool not in types and all(issubclass(one, str | numbers.Real) for one in types):
            texts: list[str | None] = [None] * len(series)
            for row, value in present:
                texts[row] = str(value)
            found = pl.Series(name, texts, dtype=pl.String)
            plain = found.cast(pl.Float64, strict=False)
            return plain if plain.null_count() == found.null_count() else found
        for row, value in present:
            if type(value) is not type(present[0][1]):
                raise CellError(
                    name,
                    row,
                    f"{shown(value)} has a different type from {shown(present[0][1])} in row {present[0][0] + 1}; "
                    "use one type for the whole column",
                )
    dense = series.sparse.to_dense() if hasattr(series, "sparse") else series
    try:
        return pl.Series(name, pl.from_pandas(dense))
    except (TypeError, NotImplementedError) as error:
        raise TypeError(
            f"column {shown(name)} has the unsupported type {series.dtype}; drop it or convert it to numbers, text, "
            "booleans or dates"
        ) from error


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


def as_numbers(series: pl.Series) -> pl.Series:
    """Convert a flag, date or number column to floats or integers of at most 64 bits."""
    dtype = series.dtype
    if dtype == pl.Boolean:
        return series.cast(pl.UInt8)
    if dtype in (pl.Date, pl.Datetime):
        return series.cast(pl.Datetime("us")).cast(pl.Int64)
    if dtype == pl.Duration:
        return series.dt.total_microseconds() / 1e6
    if dtype == pl.Time:
        return series.cast(pl.Int64) // 1_000
    if dtype in _PLAIN_NUMBERS:
        return series
    return series.cast(pl.Float64)  # decimals, 128-bit integers, only missing values


def check_values(series: pl.Series) -> None:
    """Raise an error if a number is infinite or a date is outside the years 1 to 9999."""
    if series.dtype.is_float() and series.is_infinite().any():
        problem = "{} is not finite; replace it with a number, or leave it empty"
        check_cells(series, series.is_infinite(), problem)
    if series.dtype in (pl.Date, pl.Datetime, pl.Duration):
        per_day = _PER_DAY[getattr(series.dtype, "time_unit", "days")]
        moments = _DAYS[0] * per_day, (_DAYS[1] + 1) * per_day - 1
        first, last = (min(max(moment, -(2**63)), 2**63 - 1) for moment in moments)
        problem = "date outside the years 1 to 9999; fix it, or leave it empty"
        check_cells(series, ~series.to_physical().is_between(first, last), problem)


def check_cells(series: pl.Series, bad: pl.Series, problem: str) -> None:
    """Raise an error about the first cell that is marked as bad; ``{}`` in the problem is its value."""
    if bad.any():
        row = int(bad.arg_max() or 0)
        if "{}" in problem:  # only then: Python has no date for some values
            problem = problem.replace("{}", shown(series[row]), 1)
        raise CellError(series.name, row, problem, rows=tuple(bad.arg_true()))


def tidied(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    """Strip text, and replace what means a missing value by null, as `dplan.tables.chunks.tidy` does, but quicker."""
    texts = texts.str.strip_chars()
    if not missing:
        return texts
    short = (texts.str.len_bytes() <= max(len(word.encode()) for word in missing)).arg_true()
    found = short.filter(texts.gather(short).is_in(list(missing)))
    if found.is_empty():
        return texts
    gone = pl.Series([False]).new_from_index(0, len(texts)).scatter(found, True)
    return pl.select(pl.when(~gone).then(texts)).to_series().alias(texts.name)


def for_each_column(
    step: Callable[[One], Result], columns: Iterable[One], mapped: Callable[..., Iterable[Any]] = map
) -> list[Result]:
    """Return what a step returns for each column; of the cells that it cannot use, the one in the first row is named.

    Parameters
    ----------
    step : callable
        Takes a column; it may raise a `CellError`.
    columns : iterable
        The columns.
    mapped : callable
        Calls the step, like `map`.

    Examples
    --------
    >>> for_each_column(check_values, [pl.Series("a", [1.0, float("inf")]), pl.Series("b", [float("inf"), 0.0])])
    Traceback (most recent call last):
    dplan.exceptions.CellError: row 1, column 'b': inf is not finite; replace it with a number, or leave it empty
    """
    results = attempted(step, columns, mapped)
    if errors := [result for result in results if isinstance(result, CellError)]:
        raise min(errors, key=lambda error: error.row)
    return results  # type: ignore[return-value]


def attempted(
    step: Callable[[One], Result], columns: Iterable[One], mapped: Callable[..., Iterable[Any]] = map
) -> list[Result | CellError]:
    """Return what a step returns for each column, or the error about a cell that it raises."""

    def attempt(column: One) -> Result | CellError:
        try:
            return step(column)
        except CellError as error:
            return error

    return list(mapped(attempt, columns))


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
