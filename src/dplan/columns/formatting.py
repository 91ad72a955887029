"""Values and shares as text."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl

from dplan.text import shortened

__all__ = [
    "LONGEST_VALUE",
    "MAX_LENGTH",
    "cell",
    "format_date",
    "format_number",
    "format_range",
    "format_share",
    "format_value",
]

MAX_LENGTH = 40  # characters of a text that is one of several, such as the typical values
LONGEST_VALUE = 300  # characters of the value that a reason is about


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


def format_value(found: Any, most: int = MAX_LENGTH) -> str:
    """Format a value as a table has it, to be found there again; text of at most so many characters.

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
    return repr(shortened(found, most)) if isinstance(found, str) else str(found)


def format_range(series: pl.Series) -> str:
    """Format the ends of a column, or how many are 1 if its numbers are 0 and 1 alone.

    Numbers stay numbers: 0 and 1 are the features of a flag as they are, and a count may be 2 tomorrow.

    Examples
    --------
    >>> format_range(pl.Series([2, 9, None])), format_range(pl.Series([0.0, 1.0, None, 0.0, 0.0]))
    ('2 to 9', '0 or 1, as no and yes; 25 % yes')
    """
    present = series.drop_nulls()
    low, high = present.min(), present.max()
    if series.dtype.is_numeric() and (low, high) == (0, 1) and ((present == 0) | (present == 1)).all():
        return f"0 or 1, as no and yes; {format_share(int(present.sum()) / len(present))} yes"
    return f"{format_value(low)} to {format_value(high)}"


def cell(frame: pl.DataFrame, name: str, row: int) -> Any:
    """Return one value of a table; a 32-bit float as the shortest number that is equal to it."""
    series = frame[name]
    found = series[row]
    return float(str(np.float32(found))) if series.dtype == pl.Float32 and found is not None else found


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
