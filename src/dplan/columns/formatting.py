"""Values, shares and typical ranges as text."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.dates import typical_moments
from dplan.text import shortened

if TYPE_CHECKING:
    from dplan._kernels.perceptron import Floats

__all__ = [
    "Typical",
    "cell",
    "format_cell",
    "format_date",
    "format_number",
    "format_share",
    "format_value",
    "in_units",
    "typical_values",
]

_MAX_LENGTH = 40  # characters of a text value that are shown
_DAY = 86_400e6  # microseconds


def format_number(x: float) -> str:
    """Format a number with four significant digits and thousands separators.

    Examples
    --------
    >>> format_number(1420.0003), format_number(0.012345), format_number(3.0), format_number(-12345678.9)
    ('1,420', '0.01235', '3', '-12,345,679')
    """
    if x == 0:
        return "0"  # not -0
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e15 else f"{x:.4g}"


def format_share(share: float) -> str:
    """Format a fraction as a percentage; only nothing is 0 % and only everything is 100 %.

    Examples
    --------
    >>> [format_share(share) for share in (0.0, 0.0004, 0.27, 0.999, 1.0)]
    ['0 %', '<1 %', '27 %', '>99 %', '100 %']
    """
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def format_value(found: Any) -> str:
    """Format a value as a table has it, to be found there again.

    Examples
    --------
    >>> format_value(1420), format_value(1420.5), format_value("FIN"), format_value(None), format_value(True)
    ('1420', '1420.5', "'FIN'", 'missing', 'true')
    """
    if found is None or (isinstance(found, float) and np.isnan(found)):
        return "missing"
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, float):
        return f"{found + 0.0:.12g}"  # not -0
    return repr(shortened(found, _MAX_LENGTH)) if isinstance(found, str) else str(found)


def cell(frame: pl.DataFrame, name: str, row: int) -> Any:
    """Return one value of a table; a 32-bit float as the shortest number that is equal to it."""
    series = frame[name]
    found = series[row]
    return float(str(np.float32(found))) if series.dtype == pl.Float32 and found is not None else found


def format_cell(column: Column, found: Any) -> str:
    """Format a value of a column. Numbers and dates that a file has as text stay as they are.

    Examples
    --------
    >>> format_cell(Column("items", "number", 0.0, 10.0, (0.5,)), " 7.50")
    '7.50'
    """
    if isinstance(found, str) and column.kind != "text":
        return shortened(found.strip(), _MAX_LENGTH)
    return format_value(found)


def in_units(column: Column, prepared: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return prepared numbers or dates in the units of their column.

    Examples
    --------
    >>> in_units(Column("bytes", "number", 100.0, 300.0, (0.5,)), np.array([0.25, 1.0])).tolist()
    [150.0, 300.0]
    """
    factor, shift, span = column.scaling()
    with np.errstate(over="ignore"):
        return (prepared.astype(np.float64) * span + shift) / factor


def format_end(column: Column, prepared: float) -> str:
    """Format an end of a range of prepared numbers or dates, in the units of the column.

    Examples
    --------
    >>> format_end(Column("bytes", "number", 0.0, 54_321.0, (0.5,)), 0.5)
    '27160'
    """
    value = float(in_units(column, np.array(prepared)))
    if column.kind == "date":
        return format_date(value)
    text = format_number(value).replace(",", "")
    return text if column.meaning is None else text.replace(".", column.meaning.decimal)


class Typical(NamedTuple):
    """The typical values of a column.

    Attributes
    ----------
    text : str
        In words.
    low, high : float
        The ends of the range of a prepared number, as they are shown.
    levels : frozenset of int
        The features of typical levels of a text column.
    """

    text: str
    low: float = 0.0
    high: float = 0.0
    levels: frozenset[int] = frozenset()

    @classmethod
    def of(cls, column: Column, background: Floats) -> Typical:
        """Return the middle 90 % of numbers and dates, the most frequent values of text and flags.

        Examples
        --------
        >>> bytes_ = Column("bytes", "number", 0.0, 10_000.0, (0.5,))
        >>> Typical.of(bytes_, np.linspace(0, 1, 101, dtype=np.float32)[:, None]).text
        '500–9500'
        >>> Typical.of(Column("paid", "flag", 0.0, 1.0, (0.1,)), np.zeros((3, 1), dtype=np.float32)).text
        'false (90 %)'
        """
        if column.kind == "text":
            return cls._levels(column)
        if column.kind == "flag":
            share = column.fill[0]
            text = f"{'true' if share >= 0.5 else 'false'} ({format_share(max(share, 1 - share))})"
            # One in three is not rare.
            return cls(text, 0.0 if share < 2 / 3 else 1.0, 1.0 if share > 1 / 3 else 0.0)
        if column.parts:
            return cls(typical_moments(column, background), -np.inf, np.inf)
        # Values of the table, not numbers between them.
        ends = np.quantile(background[:, 0].astype(np.float64), [0.05, 0.95], method="nearest")
        shown = list(dict.fromkeys(format_end(column, float(end)) for end in ends))
        if column.kind == "date":
            return cls(" to ".join(shown), *ends.tolist())
        factor, shift, span = column.scaling()
        decimal = "." if column.meaning is None else column.meaning.decimal
        numbers = [float(text.replace(decimal, ".")) for text in (shown[0], shown[-1])]
        low, high = ((number * factor - shift) / span for number in numbers)
        return cls("–".join(shown), low, high)

    @classmethod
    def _levels(cls, column: Column) -> Typical:
        frequent = sorted(zip(column.fill, column.levels, strict=True), reverse=True)
        shown: list[str] = []
        covered = least = 0.0
        for share, level in frequent[:3]:
            if covered < 0.85:
                shown.append(f"{format_value(level)} ({format_share(share)})")
                covered, least = covered + share, share
        # A level that is half as frequent as one of those is typical too.
        return cls(
            ", ".join(shown), levels=frozenset(np.flatnonzero(np.array(column.fill) >= least / 2).tolist())
        )

    def includes(self, column: Column, features: Floats) -> bool:
        """Return whether the prepared value of a row is typical.

        Examples
        --------
        >>> column = Column("state", "text", fill=(0.7, 0.2, 0.1), levels=("CON", "FIN", "INT"))
        >>> [Typical.of(column, np.empty(0)).includes(column, row) for row in np.eye(3, dtype=np.float32)]
        [True, True, True]
        """
        if column.kind == "text":
            return int(features.argmax()) in self.levels
        slack = _DAY / column.scaling()[2] if column.kind == "date" else 1e-6
        return bool(self.low - slack <= features[0] <= self.high + slack)


def typical_values(column: Column, background: Floats) -> str:
    """Return the typical values of a column in words.

    Examples
    --------
    >>> typical_values(Column("state", "text", fill=(0.7, 0.2, 0.1), levels=("CON", "FIN", "INT")), np.empty(0))
    "'CON' (70 %), 'FIN' (20 %)"
    """
    return Typical.of(column, background).text


def format_date(microseconds: float) -> str:
    """Format a date, given as microseconds since 1970.

    Examples
    --------
    >>> format_date(86_400_000_000)
    '1970-01-02'
    """
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return format_number(microseconds)
    return moment.date().isoformat()
