"""Prepare one column of a table: its kind, what is learned from it, and how it becomes features.

The type of a column decides its kind: number (also durations), flag (boolean), date (also times of day) or text. What
the text of a file means is decided before (`dplan.columns`). A number or a flag becomes one feature scaled
to [0, 1] on the training rows, a date becomes cycles (`dplan.columns.cycles`), text one feature per level (one-hot).
"""

import sys
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.conversion import SMALL_INTEGERS, Kind, as_numbers, check_values, kind_of
from dplan.columns.cycles import CYCLES
from dplan.columns.meaning import Meaning, all_read
from dplan.columns.parsing import parse_dates

__all__ = [
    "LIMIT",
    "Column",
    "Kind",
    "as_fitted",
    "encode",
    "fit_column",
    "kind_of",
    "scale",
    "scaling",
]

# New rows are not clipped to [0, 1], but values far beyond the training range would become infinite in float32.
LIMIT = 1e9


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
    parts : tuple of str
        The features of a date: cycles with two features each, ``"calendar"`` (its position between `minimum` and
        `maximum`) and ``"since"``. Empty in older models, where a date is its position in the calendar.
    since, since_range : str, tuple of float
        Another date column, and the range of the time since then, in microseconds.
    meaning : Meaning, optional
        How the text of the column is read; None if it was not text in training.
    """

    name: str
    kind: Kind
    minimum: float = 0.0
    maximum: float = 0.0
    fill: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    reason: str = ""
    parts: tuple[str, ...] = ()
    since: str = ""
    since_range: tuple[float, float] = (0.0, 0.0)
    meaning: Meaning | None = None

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
        lists = ("fill", "levels", "parts", "since_range")
        try:
            fields: dict[str, Any] = {n: tuple(value) if n in lists else value for n, value in entry.items()}
            column = cls(**fields)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a column: {error}") from error
        if column.meaning is not None:
            column = replace(column, meaning=Meaning.from_dict(column.meaning))
        texts = (column.name, column.kind, column.reason, column.since, *column.parts, *column.levels)
        numbers = (column.minimum, column.maximum, *column.since_range, *column.fill)
        if (
            not all(isinstance(text, str) for text in texts)
            or not all(
                type(number) in (int, float) and abs(number) <= sys.float_info.max for number in numbers
            )
            or column.kind not in get_args(Kind)
            or column.minimum > column.maximum
            or len(column.since_range) != 2
            or column.since_range[0] > column.since_range[1]
            or not set(column.parts) <= {*CYCLES, "calendar", "since"}
            or len(set(column.parts)) != len(column.parts)
            or (column.parts and column.kind != "date")
            or ("since" in column.parts) != bool(column.since)
            or column.width != column._expected_width()
            or not all(0 <= number <= 1 for number in column.fill)
            or len(set(column.levels)) != len(column.levels)
            or (column.levels and column.kind != "text")
        ):
            raise ValueError(f"not a column: {str(entry)[:200]}")
        return column

    def _expected_width(self) -> int:
        if self.parts:
            return sum(2 if part in CYCLES else 1 for part in self.parts)
        return {"text": len(self.levels) or -1, "dropped": 0}.get(self.kind, 1)

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
        names = []
        for part in self.parts:
            if part in CYCLES:
                names += [f"{self.name} {part} sin", f"{self.name} {part} cos"]
            else:
                names.append(self.name if part == "calendar" else f"{self.name} since {self.since}")
        return names or [self.name] * self.width

    def scaling(self) -> tuple[float, float, float]:
        """Return (factor, shift, span): ``(x * factor - shift) / span`` is in [0, 1] for training rows."""
        return scaling(self.minimum, self.maximum)


def scaling(minimum: float, maximum: float) -> tuple[float, float, float]:
    """Return (factor, shift, span): ``(x * factor - shift) / span`` is in [0, 1] between minimum and maximum."""
    # Near the largest float the span overflows; half of it does not, and halving is exact.
    factor = 1.0 if np.isfinite(maximum - minimum) else 0.5
    span = maximum * factor - minimum * factor
    return factor, minimum * factor, span if span > 0 else 1.0


def fit_column(series: pl.Series, max_levels: int, meaning: Meaning | None = None) -> Column:
    """Learn range, mean and levels from one column of the training rows, which is not a date.

    Examples
    --------
    >>> fit_column(pl.Series("age", [20, 40, None, 60]), max_levels=10).fill
    (0.5,)
    >>> fit_column(pl.Series("colour", ["red", "blue", "red", None]), max_levels=10).fill
    (0.3333333333333333, 0.6666666666666666)
    """
    if meaning is not None and not meaning.is_used:
        return Column(series.name, "dropped", reason=meaning.why)
    kind = kind_of(series)
    if kind == "text":
        return replace(_fit_text(series, max_levels), meaning=meaning)
    check_values(series)
    numbers = as_numbers(series)
    if numbers.dtype.is_float() and numbers.is_nan().any():
        numbers = numbers.fill_nan(None)
    if numbers.null_count() == len(numbers):
        return Column(series.name, "dropped", reason="no value at all")
    low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    factor, shift, span = scaling(low, high)
    if numbers.dtype in SMALL_INTEGERS:  # adding integers is exact, and faster
        mean = int(numbers.sum()) / (len(numbers) - numbers.null_count())
    else:
        mean = float(numbers.mean())  # type: ignore[arg-type]
    if np.isfinite(mean):
        fill = (mean * factor - shift) / span
    else:  # the sum overflowed; scale first
        fill = float(np.mean((numbers.drop_nulls().to_numpy() * factor - shift) / span))
    return Column(series.name, kind, low, high, (min(max(fill, 0.0), 1.0),), meaning=meaning)


def scale(column: Column, series: pl.Series, out: NDArray[np.float32]) -> int:
    """Write a scaled number, flag or date column to `out`; return the number of missing values."""
    series = as_fitted(column, series)
    if series.dtype.is_temporal():
        check_values(series)
    numbers = as_numbers(series)
    if series.dtype == pl.Duration and column.kind == "date":  # in older models, in microseconds
        numbers = series.cast(pl.Duration("us")).cast(pl.Int64)
    values: NDArray[Any] = numbers.to_numpy()  # integers with missing values become floats with NaN
    factor, shift, span = column.scaling()
    if (
        numbers.dtype in SMALL_INTEGERS
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
    if column.meaning is not None and series.dtype == pl.String:
        texts = column.meaning.read(texts)
    codes = texts.cast(pl.Enum(column.levels), strict=False).to_physical()
    known = codes.is_not_null().to_numpy()
    out[:] = 0.0
    out[codes.drop_nulls().to_numpy(), np.flatnonzero(known)] = 1.0
    n_missing = texts.null_count()
    if n_missing:
        out[:, texts.is_null().to_numpy()] = np.array(column.fill, dtype=np.float32)[:, None]
    return n_missing, len(texts) - int(known.sum()) - n_missing


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


def as_fitted(column: Column, series: pl.Series) -> pl.Series:
    """Convert a column to its kind in the training rows, or raise an error if that is not possible."""
    if column.meaning is not None and (series.dtype == pl.String or column.meaning.kind == "filled"):
        return column.meaning.read_all(series)
    kind = kind_of(series)
    if kind in ("dropped", column.kind) or {kind, column.kind} == {"number", "flag"}:
        return series
    if series.dtype == pl.Duration and column.kind == "date":
        return series
    if kind != "text":
        raise ValueError(
            f"column {column.name!r} is a {kind} column, but was a {column.kind} column in training"
        )
    if column.kind != "date":
        numbers = series.cast(pl.String).cast(pl.Float64, strict=False)
        if (
            numbers.null_count() == series.null_count()
        ):  # plain numbers, as nearly always: a quick way for few rows
            return numbers
    texts = series.cast(pl.String).str.strip_chars()
    if column.kind == "date":
        values = parse_dates(texts)
    else:
        words = (
            texts.str.to_lowercase().replace({"false": "0", "true": "1"}) if column.kind == "flag" else texts
        )
        values = words.cast(pl.Float64, strict=False)
    return all_read(series.cast(pl.String), values, f"a {column.kind}", column.kind)
