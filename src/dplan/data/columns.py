"""One column of a table at a time: what kind it is, what is learned from it, how it becomes numbers.

A column is told by its type: numbers, flags (booleans), dates (also times and durations) and texts. The first three
become one column scaled to [0, 1] on the training rows; a text becomes one column per level (one-hot).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["LIMIT", "Column", "fit_column", "numbers_of"]

Kind = Literal["number", "flag", "date", "text", "dropped"]

# New rows are not clipped to [0, 1], but a value a billion spans away from the training rows says no more than one
# at a billion, and beyond float32 it would become infinite.
LIMIT = 1e9


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
        What stands for a missing value, one number per output column: the mean of the training rows after scaling,
        for a text the share of each level.
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

    @property
    def width(self) -> int:
        """Output columns."""
        return len(self.fill)

    def output_names(self) -> list[str]:
        """Names of the output columns.

        Examples
        --------
        >>> Column("state", "text", fill=(0.5, 0.5), levels=("CON", "FIN")).output_names()
        ['state=CON', 'state=FIN']
        """
        if self.kind == "text":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name] * self.width

    def scaling(self) -> tuple[float, float, float]:
        """Give (factor, shift, span) such that ``(x * factor - shift) / span`` lies in [0, 1] for training rows."""
        # Near the largest float the span itself overflows; half of everything does not, and halving is exact.
        factor = 1.0 if np.isfinite(self.maximum - self.minimum) else 0.5
        span = self.maximum * factor - self.minimum * factor
        return factor, self.minimum * factor, span if span > 0 else 1.0


def numbers_of(series: pl.Series) -> pl.Series:
    """Turn a flag, a date or a number into plain numbers; missing values become null."""
    dtype = series.dtype
    if dtype == pl.Boolean:
        return series.cast(pl.UInt8)
    if dtype in (pl.Date, pl.Datetime):
        return series.cast(pl.Datetime("us")).cast(pl.Int64)
    if dtype == pl.Duration:
        return series.cast(pl.Duration("us")).cast(pl.Int64)
    if dtype == pl.Time:
        return series.cast(pl.Int64) // 1_000
    if dtype in (pl.Float32, pl.Float64):
        return series.fill_nan(None)
    if dtype == pl.Null or not dtype.is_integer():
        return series.cast(pl.Float64)
    return series


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
    if kind == "dropped":
        return Column(series.name, "dropped", reason="no value at all")
    numbers = numbers_of(series)
    if numbers.null_count() == len(numbers):
        return Column(series.name, "dropped", reason="no value at all")
    minimum, maximum = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    if not (np.isfinite(minimum) and np.isfinite(maximum)):
        raise ValueError(infinite_value(numbers))
    column = Column(series.name, kind, minimum, maximum)
    factor, shift, span = column.scaling()
    mean = float(numbers.mean())  # type: ignore[arg-type]
    if np.isfinite(mean):
        fill = (mean * factor - shift) / span
    else:  # the sum overflowed: scale first
        fill = float(np.mean((numbers.drop_nulls().to_numpy().astype(np.float64) * factor - shift) / span))
    return Column(series.name, kind, minimum, maximum, (min(max(fill, 0.0), 1.0),))


def infinite_value(numbers: pl.Series) -> str:
    """Say where the first infinite value of a column stands and what to do about it."""
    row = int(np.flatnonzero(numbers.is_infinite().fill_null(False).to_numpy())[0])
    return (
        f"column {numbers.name!r}, row {row} (counted from 0): {numbers[row]} is not finite; "
        "put a number there, or leave it empty for the column's mean"
    )


def _fit_text(series: pl.Series, max_levels: int) -> Column:
    texts = series.drop_nulls()
    if texts.is_empty():
        return Column(series.name, "dropped", reason="no value at all")
    if isinstance(
        series.dtype, pl.Enum
    ):  # the levels are declared, so all of them count, also those without a row
        levels = series.dtype.categories.to_list()
        counts = np.bincount(texts.to_physical().to_numpy(), minlength=len(levels))
    else:
        found = (
            texts.cast(pl.String)
            .value_counts(sort=False)
            .sort(pl.nth(1), pl.nth(0), descending=[True, False])
        )
        if len(found) > max_levels and len(found) > len(texts) / 2:
            return Column(series.name, "dropped", reason=f"{len(found):,} different texts, as an id has")
        found = found.head(max_levels).sort(pl.nth(0))
        levels, counts = found.to_series(0).to_list(), found.to_series(1).to_numpy()
    shares: NDArray[np.float64] = counts / len(texts)
    return Column(series.name, "text", fill=tuple(shares.tolist()), levels=tuple(levels))
