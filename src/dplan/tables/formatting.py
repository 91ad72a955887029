"""Values and reasons in words."""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dplan.tables.columns import Column

if TYPE_CHECKING:
    from dplan._kernels.perceptron import Floats

__all__ = ["day", "number", "reason", "typical", "value"]

_LONGEST = 40  # characters of a text that are shown


def number(x: float) -> str:
    """Write a number for people: four figures, thousands apart.

    Examples
    --------
    >>> number(1420.0003), number(0.012345), number(3.0), number(-12345678.9)
    ('1,420', '0.01235', '3', '-12,345,679')
    """
    if x == 0:
        return "0"  # and not -0
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e15 else f"{x:.4g}"


def value(found: Any) -> str:
    """Write a cell of a table.

    Examples
    --------
    >>> value(1420), value("FIN"), value(None), value(True)
    ('1,420', "'FIN'", 'missing', 'true')
    """
    if found is None or (isinstance(found, float) and np.isnan(found)):
        return "missing"
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, float):
        return number(found)
    if isinstance(found, str):
        return repr(found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…")
    return str(found)


def typical(column: Column, usual: Floats) -> str:
    """Say what is usual in a column: the middle 90 % of numbers, the most frequent levels of a text.

    Examples
    --------
    >>> bytes_ = Column("bytes", "number", 0.0, 10_000.0, (0.5,))
    >>> typical(bytes_, np.linspace(0, 1, 101, dtype=np.float32))
    '500–9,500'
    >>> typical(Column("state", "text", fill=(0.7, 0.2, 0.1), levels=("CON", "FIN", "INT")), np.empty(0))
    "'CON' (70 %), 'FIN' (20 %)"
    """
    if column.kind == "text":
        frequent = sorted(zip(column.fill, column.levels, strict=True), reverse=True)
        shown: list[str] = []
        covered = 0.0
        for share, level in frequent[:3]:
            if covered < 0.85:
                shown.append(f"{value(level)} ({share:.0%})".replace("%", " %"))
                covered += share
        return ", ".join(shown)
    if column.kind == "flag":
        share = column.fill[0]
        return f"{'true' if share >= 0.5 else 'false'} ({max(share, 1 - share):.0%})".replace("%", " %")
    factor, shift, span = column.scaling()
    low, high = (
        (float(end) * span + shift) / factor for end in np.quantile(usual.astype(np.float64), [0.05, 0.95])
    )
    if column.kind == "date":
        return f"{day(low)} to {day(high)}"
    return number(low) if number(low) == number(high) else f"{number(low)}–{number(high)}"


def reason(column: Column, found: Any, usual: Floats) -> str:
    """Say what a row has in a column, and what is usual there.

    Examples
    --------
    >>> reason(Column("paid", "flag", 0.0, 1.0, (0.1,)), True, np.zeros(3, dtype=np.float32))
    '`paid` = true; typical false (90 %)'

    What a CSV holds are texts, whatever they stand for:

    >>> reason(Column("items", "number", 0.0, 10.0, (0.5,)), "7", np.ones(3, dtype=np.float32))
    '`items` = 7; typical 10'
    """
    if isinstance(found, str) and column.kind == "number":
        with suppress(ValueError):
            found = float(found)
    name = column.name if len(column.name) <= _LONGEST else column.name[: _LONGEST - 1] + "…"
    shown = found if isinstance(found, str) and column.kind != "text" else value(found)
    return f"`{name}` = {shown}; typical {typical(column, usual)}"


def day(microseconds: float) -> str:
    """Write a date, given as microseconds since 1970.

    Examples
    --------
    >>> day(86_400_000_000)
    '1970-01-02'
    """
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return number(microseconds)
    return moment.date().isoformat()
