"""Prepare one column of a table: its kind, what is learned from it, and how it becomes features.

The type of a column decides its kind: number, flag (boolean), date (also times and durations) or text. The first
three become one feature scaled to [0, 1] on the training rows; a text column becomes one feature per level (one-hot).
"""

import sys
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError, shown
from dplan.tables.dates import parse_dates

__all__ = [
    "LIMIT",
    "Column",
    "Kind",
    "check_values",
    "encode",
    "fit_column",
    "kind_of",
    "scale",
]

Kind = Literal["number", "flag", "date", "text", "dropped"]

# New rows are not clipped to [0, 1], but values far beyond the training range would become infinite in float32.
LIMIT = 1e9

_SMALL_INTEGERS = (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
_PLAIN_NUMBERS = (*_SMALL_INTEGERS, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64)

_DAYS = (-719_162, 2_932_896)  # the first day of year 1 and the last day of year 9999, counted from 1970
_PER_DAY = {"days": 1, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_BLOCK = 1 << 14  # rows scaled at a time, to stay in the processor's cache


@dataclass(frozen=True)
class Column:
    """What was learned from one column of the training rows.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "flag", "date", "text", "dropped"}
        Its kind.
    minimum, maximum : float
        The range over the training rows (dates in microseconds); 0 for text.
    fill : tuple of float
        The values used for a missing value, one per feature: the mean of the training rows after scaling or, for text,
        the fraction of each level.
    levels : tuple of str
        The levels of a text column.
    reason : str
        Why the column is dropped; empty otherwise.
    """

    name: str
    kind: Kind
    minimum: float = 0.0
    maximum: float = 0.0
    fill: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Column":
        """Rebuild a column from `dataclasses.asdict` and JSON; raise a ValueError for anything else.

        Examples
        --------
        >>> from dataclasses import asdict
        >>> column = Column("state", "text", fill=(0.5, 0.5), levels=("CON", "FIN"))
        >>> Column.from_dict(asdict(column)) == column
        True
        """
        try:
            column = cls(**{**entry, "fill": tuple(entry["fill"]), "levels": tuple(entry["levels"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a column: {error}") from error
        widths = {"text": len(column.levels) or -1, "dropped": 0}
        texts = (column.name, column.kind, column.reason, *column.levels)
        numbers = (column.minimum, column.maximum, *column.fill)
        if (
            not all(isinstance(text, str) for text in texts)
            or not all(
                type(number) in (int, float) and abs(number) <= sys.float_info.max for number in numbers
            )
            or column.kind not in get_args(Kind)
            or column.minimum > column.maximum
            or column.width != widths.get(column.kind, 1)
            or not all(0 <= number <= 1 for number in column.fill)
            or len(set(column.levels)) != len(column.levels)
            or (column.levels and column.kind != "text")
        ):
            raise ValueError(f"not a column: {str(entry)[:200]}")
        return column

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.fill)

    def output_names(self) -> list[str]:
        """Return the names of the features.

        Examples
        --------
        >>> Column("state", "text", fill=(0.5, 0.5), levels=("CON", "FIN")).output_names()
        ['state=CON', 'state=FIN']
        """
        if self.kind == "text":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name] * self.width

    def scaling(self) -> tuple[float, float, float]:
        """Return (factor, shift, span): ``(x * factor - shift) / span`` is in [0, 1] for training rows."""
        # Near the largest float the span overflows; half of it does not, and halving is exact.
        factor = 1.0 if np.isfinite(self.maximum - self.minimum) else 0.5
        span = self.maximum * factor - self.minimum * factor
        return factor, self.minimum * factor, span if span > 0 else 1.0


def kind_of(series: pl.Series) -> Kind:
    """Return the kind of a column, from its type.

    Examples
    --------
    >>> kind_of(pl.Series([True])), kind_of(pl.Series([1.5])), kind_of(pl.Series(["a"]))
    ('flag', 'number', 'text')
    """
    dtype = series.dtype
    if dtype == pl.Boolean:
        return "flag"
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "date"
    if dtype == pl.Null:
        return "dropped"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    raise TypeError(
        f"column {series.name!r} has the unsupported type {dtype}; "
        "drop it or convert it to numbers, text, booleans or dates"
    )


def fit_column(series: pl.Series, max_levels: int) -> Column:
    """Learn range, mean and levels from one column of the training rows.

    Examples
    --------
    >>> fit_column(pl.Series("age", [20, 40, None, 60]), max_levels=10)
    Column(name='age', kind='number', minimum=20.0, maximum=60.0, fill=(0.5,), levels=(), reason='')
    >>> fit_column(pl.Series("colour", ["red", "blue", "red", None]), max_levels=10).fill
    (0.3333333333333333, 0.6666666666666666)
    """
    kind = kind_of(series)
    if kind == "text":
        return _fit_text(series, max_levels)
    check_values(series)
    numbers = _numbers(series)
    if numbers.dtype.is_float() and numbers.is_nan().any():
        numbers = numbers.fill_nan(None)
    if numbers.null_count() == len(numbers):
        return Column(series.name, "dropped", reason="no value at all")
    column = Column(series.name, kind, float(numbers.min()), float(numbers.max()))  # type: ignore[arg-type]
    factor, shift, span = column.scaling()
    if numbers.dtype in _SMALL_INTEGERS:  # adding integers is exact, and faster
        mean = int(numbers.sum()) / (len(numbers) - numbers.null_count())
    else:
        mean = float(numbers.mean())  # type: ignore[arg-type]
    if np.isfinite(mean):
        fill = (mean * factor - shift) / span
    else:  # the sum overflowed; scale first
        fill = float(np.mean((numbers.drop_nulls().to_numpy() * factor - shift) / span))
    return Column(series.name, kind, column.minimum, column.maximum, (min(max(fill, 0.0), 1.0),))


def scale(column: Column, series: pl.Series, out: NDArray[np.float32]) -> int:
    """Write a scaled number, flag or date column to `out`; return the number of missing values."""
    series = _as_fitted(column, series)
    if series.dtype.is_temporal():
        check_values(series)
    numbers = _numbers(series)
    values: NDArray[Any] = numbers.to_numpy()  # integers with missing values become floats with NaN
    factor, shift, span = column.scaling()
    if (
        numbers.dtype in _SMALL_INTEGERS
        and numbers.null_count() == 0
        and all(abs(end) < 2**22 and end == int(end) for end in (column.minimum, column.maximum))
    ):
        # Differences of such integers are exact in float32, so the division rounds as in float64.
        out[:] = values
        if (shift, span) != (0.0, 1.0):
            out -= shift
            out /= span
        return 0
    n_missing = 0
    for start in range(0, len(out), _BLOCK):
        block = values[start : start + _BLOCK].astype(np.float64)
        missing = np.isnan(block)
        if np.isinf(block).any():
            check_values(series.cast(pl.Float64))
        with np.errstate(over="ignore"):
            block *= factor
            block -= shift
            block /= span
        np.clip(block, -LIMIT, LIMIT, out=block)
        block[missing] = column.fill[0]
        n_missing += int(missing.sum())
        out[start : start + _BLOCK] = block
    return n_missing


def encode(column: Column, series: pl.Series, out: NDArray[np.float32]) -> tuple[int, int]:
    """Write a one-hot encoded text column to `out`; return the numbers of missing and of unseen values."""
    texts = series.cast(pl.String)
    codes = texts.cast(pl.Enum(column.levels), strict=False).to_physical()
    known = codes.is_not_null().to_numpy()
    out[:] = 0.0
    out[codes.drop_nulls().to_numpy(), np.flatnonzero(known)] = 1.0
    n_missing = texts.null_count()
    if n_missing:
        out[:, texts.is_null().to_numpy()] = np.array(column.fill, dtype=np.float32)[:, None]
    return n_missing, len(texts) - int(known.sum()) - n_missing


def _numbers(series: pl.Series) -> pl.Series:
    """Convert a flag, date or number column to floats or integers of at most 64 bits."""
    dtype = series.dtype
    if dtype == pl.Boolean:
        return series.cast(pl.UInt8)
    if dtype in (pl.Date, pl.Datetime):
        return series.cast(pl.Datetime("us")).cast(pl.Int64)
    if dtype == pl.Duration:
        return series.cast(pl.Duration("us")).cast(pl.Int64)
    if dtype == pl.Time:
        return series.cast(pl.Int64) // 1_000
    if dtype in _PLAIN_NUMBERS:
        return series
    return series.cast(pl.Float64)  # decimals, 128-bit integers, only missing values


def _fit_text(series: pl.Series, max_levels: int) -> Column:
    texts = series.drop_nulls()
    if texts.is_empty():
        return Column(series.name, "dropped", reason="no value at all")
    if isinstance(series.dtype, pl.Enum):  # all declared levels count, even if no row has them
        levels = series.dtype.categories.to_list()
        counts = np.bincount(texts.to_physical().to_numpy(), minlength=len(levels))
    else:
        found = pl.DataFrame({"level": texts.cast(pl.String)}).group_by("level").len()
        if found.height > max_levels and found.height > len(texts) / 2:
            return Column(series.name, "dropped", reason=f"{found.height:,} different values, like an id")
        found = found.sort("len", "level", descending=[True, False]).head(max_levels).sort("level")
        levels, counts = found["level"].to_list(), found["len"].to_numpy()
    shares: NDArray[np.float64] = counts / len(texts)
    return Column(series.name, "text", fill=tuple(shares.tolist()), levels=tuple(levels))


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


def _as_fitted(column: Column, series: pl.Series) -> pl.Series:
    """Convert a column to its kind in the training rows, or raise an error if that is not possible."""
    kind = kind_of(series)
    if kind in ("dropped", column.kind) or {kind, column.kind} == {"number", "flag"}:
        return series
    if kind != "text":
        raise ValueError(
            f"column {column.name!r} is a {kind} column, but was a {column.kind} column in training"
        )
    texts = series.cast(pl.String).str.strip_chars()
    if column.kind == "date":
        values = parse_dates(texts)
    else:
        words = (
            texts.str.to_lowercase().replace({"false": "0", "true": "1"}) if column.kind == "flag" else texts
        )
        values = words.cast(pl.Float64, strict=False)
    bad = values.is_null() & texts.is_not_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise CellError(
            column.name,
            row,
            f"{shown(series[row])} is not a {column.kind}, but the column was a {column.kind} column in training; "
            "fix it, or leave it empty",
            rows=tuple(bad.arg_true()),
        )
    return values
