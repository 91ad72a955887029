"""Values and reasons as text."""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dplan.tables.columns import Column
from dplan.tables.date_features import typical_moments

if TYPE_CHECKING:
    from dplan._kernels.perceptron import Floats

__all__ = ["format_date", "format_number", "format_reason", "format_value", "typical_values"]

_MAX_LENGTH = 40  # characters of a name or text value that are shown


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


def format_value(found: Any) -> str:
    """Format a value of a table.

    Examples
    --------
    >>> format_value(1420), format_value("FIN"), format_value(None), format_value(True)
    ('1,420', "'FIN'", 'missing', 'true')
    """
    if found is None or (isinstance(found, float) and np.isnan(found)):
        return "missing"
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, float):
        return format_number(found)
    if isinstance(found, str):
        return repr(_shortened(found))
    return str(found)


def typical_values(column: Column, background: Floats) -> str:
    """Return the typical values of a column: the middle 90 % of numbers, the most frequent levels of a text column.

    Examples
    --------
    >>> bytes_ = Column("bytes", "number", 0.0, 10_000.0, (0.5,))
    >>> typical_values(bytes_, np.linspace(0, 1, 101, dtype=np.float32))
    '500–9,500'
    >>> typical_values(Column("state", "text", fill=(0.7, 0.2, 0.1), levels=("CON", "FIN", "INT")), np.empty(0))
    "'CON' (70 %), 'FIN' (20 %)"
    """
    if column.kind == "text":
        frequent = sorted(zip(column.fill, column.levels, strict=True), reverse=True)
        shown: list[str] = []
        covered = 0.0
        for share, level in frequent[:3]:
            if covered < 0.85:
                shown.append(f"{format_value(level)} ({share:.0%})".replace("%", " %"))
                covered += share
        return ", ".join(shown)
    if column.kind == "flag":
        share = column.fill[0]
        return f"{'true' if share >= 0.5 else 'false'} ({max(share, 1 - share):.0%})".replace("%", " %")
    if column.parts:
        return typical_moments(column, background)
    factor, shift, span = column.scaling()
    low, high = (
        (float(end) * span + shift) / factor
        for end in np.quantile(background.astype(np.float64), [0.05, 0.95])
    )
    if column.kind == "date":
        return f"{format_date(low)} to {format_date(high)}"
    return "–".join(dict.fromkeys([format_number(low), format_number(high)]))


def format_reason(column: Column, found: Any, background: Floats) -> str:
    """Return the value of a row in a column, and the typical values.

    Examples
    --------
    >>> format_reason(Column("paid", "flag", 0.0, 1.0, (0.1,)), True, np.zeros(3, dtype=np.float32))
    '`paid` = true; typical false (90 %)'

    Values read from a CSV file are strings:

    >>> format_reason(Column("items", "number", 0.0, 10.0, (0.5,)), "7", np.ones(3, dtype=np.float32))
    '`items` = 7; typical 10'
    """
    if isinstance(found, str) and column.kind == "number":
        with suppress(ValueError):
            found = float(found)
    shown = found if isinstance(found, str) and column.kind != "text" else format_value(found)
    return f"`{_shortened(column.name)}` = {shown}; typical {typical_values(column, background)}"


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


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
