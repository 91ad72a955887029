"""Plain numbers from columns of any type, and checks of them."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import polars as pl

from dplan.exceptions import CellError

__all__ = ["SMALL_INTEGERS", "as_numbers", "attempted", "check_values", "for_each_column"]

One = TypeVar("One")
Result = TypeVar("Result")

SMALL_INTEGERS = (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
_PLAIN_NUMBERS = (*SMALL_INTEGERS, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64)

_DAYS = (-719_162, 2_932_896)  # the first day of year 1 and the last day of year 9999, counted from 1970
_PER_DAY = {"days": 1, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


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
        row = int(series.is_infinite().arg_max() or 0)
        raise CellError(
            series.name,
            row,
            f"{series[row]} is not finite; replace it with a number, or leave it empty",
            rows=tuple(series.is_infinite().arg_true()),
        )
    if series.dtype in (pl.Date, pl.Datetime, pl.Duration):
        per_day = _PER_DAY[getattr(series.dtype, "time_unit", "days")]
        first, last = (min(max(day * per_day, -(2**63)), 2**63 - 1) for day in _DAYS)
        outside = ~series.to_physical().is_between(first, last)
        if outside.any():
            row = int(outside.arg_max() or 0)
            problem = "date outside the years 1 to 9999; fix it, or leave it empty"
            raise CellError(series.name, row, problem, rows=tuple(outside.arg_true()))


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
