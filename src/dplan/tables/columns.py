"""One column of a table at a time: what kind it is, what is learned from it, how it becomes numbers.

A column is told by its type: numbers, flags (booleans), dates (also times and durations) and texts. The first
three become one column scaled to [0, 1] on the training rows; a text becomes one column per level (one-hot).
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
    "parse_dates",
    "scale",
]

Kind = Literal["number", "flag", "date", "text", "dropped"]

# New rows are not clipped to [0, 1]. But a value a billion spans away from the training rows says no more
# than one farther away, and beyond float32 it would become infinite.
LIMIT = 1e9

_SMALL_INTEGERS = (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
_PLAIN_NUMBERS = (*_SMALL_INTEGERS, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64)

_DAYS = (-719_162, 2_932_896)  # the first of the year 1 and the last of the year 9999, counted from 1970
_PER_DAY = {"days": 1, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_BLOCK = 1 << 14  # rows scaled at a time: what stays in the processor's cache


@dataclass(frozen=True)
class Column:
    """What was learned from one column of the training rows.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "flag", "date", "text", "dropped"}
        How it is read.
    minimum, maximum : float
        The range over the training rows (dates in microseconds); 0 for texts.
    fill : tuple of float
        What stands for a missing value, one number per output column: the mean of the training rows after
        scaling, for a text the share of each level.
    levels : tuple of str
        The levels of a text.
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
        """Rebuild a column from `dataclasses.asdict` and JSON; anything else is a ValueError.

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
        """Output columns."""
        return len(self.fill)

    def output_names(self) -> list[str]:
        """Name the output columns.

        Examples
        --------
        >>> Column("state", "text", fill=(0.5, 0.5), levels=("CON", "FIN")).output_names()
        ['state=CON', 'state=FIN']
        """
        if self.kind == "text":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name] * self.width

    def scaling(self) -> tuple[float, float, float]:
        """Give (factor, shift, span): ``(x * factor - shift) / span`` lies in [0, 1] for training rows."""
        # Near the largest float the span itself overflows; half of everything does not, and halving is exact.
        factor = 1.0 if np.isfinite(self.maximum - self.minimum) else 0.5
        span = self.maximum * factor - self.minimum * factor
        return factor, self.minimum * factor, span if span > 0 else 1.0


def kind_of(series: pl.Series) -> Kind:
    """Tell by its type how a column is read.

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
        f"column {series.name!r} holds {dtype}, which is neither numbers, texts, booleans nor dates; "
        "drop it or turn it into one of these"
    )


def fit_column(series: pl.Series, max_levels: int) -> Column:
    """Learn what preparing needs from one column of the training rows.

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
    else:  # the sum overflowed: scale first
        fill = float(np.mean((numbers.drop_nulls().to_numpy() * factor - shift) / span))
    return Column(series.name, kind, column.minimum, column.maximum, (min(max(fill, 0.0), 1.0),))


def scale(column: Column, series: pl.Series, out: NDArray[np.float32]) -> int:
    """Write a number, flag or date into `out`, scaled, and say how many values were missing."""
    series = _as_fitted(column, series)
    if series.dtype.is_temporal():
        check_values(series)
    numbers = _numbers(series)
    values: NDArray[Any] = numbers.to_numpy()  # where integers are missing, floats and NaN
    factor, shift, span = column.scaling()
    if (
        numbers.dtype in _SMALL_INTEGERS
        and numbers.null_count() == 0
        and all(abs(end) < 2**22 and end == int(end) for end in (column.minimum, column.maximum))
    ):
        # Differences of such integers are exact in float32, and then its division rounds as float64's would.
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
    """Write a text into `out`, a row per level, and say how many values were missing and how many unseen."""
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
    """Turn a flag, a date or a number into integers of at most 64 bits or floats."""
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
    return series.cast(pl.Float64)  # decimals, very wide integers, nothing but missing values


def _fit_text(series: pl.Series, max_levels: int) -> Column:
    texts = series.drop_nulls()
    if texts.is_empty():
        return Column(series.name, "dropped", reason="no value at all")
    if isinstance(series.dtype, pl.Enum):  # declared levels all count, also those that no row has
        levels = series.dtype.categories.to_list()
        counts = np.bincount(texts.to_physical().to_numpy(), minlength=len(levels))
    else:
        found = pl.DataFrame({"level": texts.cast(pl.String)}).group_by("level").len()
        if found.height > max_levels and found.height > len(texts) / 2:
            return Column(series.name, "dropped", reason=f"{found.height:,} different texts, as an id has")
        found = found.sort("len", "level", descending=[True, False]).head(max_levels).sort("level")
        levels, counts = found["level"].to_list(), found["len"].to_numpy()
    shares: NDArray[np.float64] = counts / len(texts)
    return Column(series.name, "text", fill=tuple(shares.tolist()), levels=tuple(levels))


def check_values(series: pl.Series) -> None:
    """Raise if a number is infinite or a date lies outside the years 1 to 9999."""
    if series.dtype.is_float() and series.is_infinite().any():
        row = int(series.is_infinite().arg_max() or 0)
        raise CellError(
            series.name,
            row,
            f"{series[row]} is not finite; put a number there, or leave it empty for the column's mean",
        )
    if series.dtype in (pl.Date, pl.Datetime, pl.Duration):
        per_day = _PER_DAY[getattr(series.dtype, "time_unit", "days")]
        first, last = (min(max(day * per_day, -(2**63)), 2**63 - 1) for day in _DAYS)
        outside = ~series.to_physical().is_between(first, last)
        if outside.any():
            row = int(outside.arg_max() or 0)
            raise CellError(
                series.name, row, "a date outside the years 1 to 9999; correct it, or leave it empty"
            )


def _as_fitted(column: Column, series: pl.Series) -> pl.Series:
    """Bring a column into the kind that it had in the training rows, or say why it is of another kind."""
    kind = kind_of(series)
    if kind in ("dropped", column.kind) or {kind, column.kind} == {"number", "flag"}:
        return series
    if kind != "text":
        raise ValueError(
            f"column {column.name!r} was a {column.kind} in the training rows and is a {kind} now"
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
            f"{shown(series[row])} is not a {column.kind}, as the training rows have there; "
            "correct it, or leave it empty",
        )
    return values
