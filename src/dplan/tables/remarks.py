"""What people should look at before they trust a column, though it can be read: for `dplan.inspect`."""

from __future__ import annotations

import re

import polars as pl

from dplan.columns.formatting import format_value
from dplan.columns.moments import ORDERS, orders
from dplan.text import shown

__all__ = ["remark_on"]

_SAMPLE = 2_000  # different texts
_MOST = 0.9  # share of dates that makes a text column one of dates
_OFTEN = 0.01  # share of rows that makes a number stand out
_MADE_A_DATE = re.compile(r"\d{1,2}-[A-Za-z]{3}|[A-Za-z]{3}-\d{1,2}")
_RANGE = re.compile(r"\d{1,2}-\d{1,2}")
_PAIR = re.compile(r"[-+]?\d+\.\d+\s*[,; ]\s*[-+]?\d+\.\d+")
_CODE_NAME = re.compile(r"(?:^|[^a-z])(?:zip|plz|post_?code|postal|zip_?code)", re.IGNORECASE)


def remark_on(values: pl.Series, unit: str = "", *, used: bool = True) -> str:
    """Return what may be wrong with a column that was read; empty if nothing is.

    Parameters
    ----------
    values : polars.Series
        Its values: numbers or text.
    unit : str
        What follows its numbers.
    used : bool, default=True
        Whether the column is used; otherwise, only what another way of writing would make usable is remarked on.

    Examples
    --------
    >>> remark_on(pl.Series("co", [-200] * 5 + [1, 2] * 20))
    '-200 occurs 5 times, and every other value is at least 1; if it means a missing value, pass --missing=-200'
    >>> remark_on(pl.Series("colour", ["Red", "red", "blue"]))
    "'Red' and 'red' differ in upper and lower case alone, but are different levels"
    >>> remark_on(pl.Series("day", ["2024-01-31", "31/01/2024"]))
    "dates in several formats, such as '2024-01-31' and '31/01/2024'; write all of them in one"
    """
    if values.dtype.is_numeric():
        return _on_numbers(values, unit) if used else ""
    if values.dtype != pl.String:
        return ""
    texts = values.drop_nulls().unique(maintain_order=True).head(_SAMPLE).to_list()
    return _on_form(texts) or (_on_levels(texts) if used else "")


def _on_numbers(values: pl.Series, unit: str) -> str:
    if " " in unit.strip():
        return f"numbers with {shown(unit)}; if they are addresses, pass --text {values.name}"
    if values.dtype.is_integer() and _CODE_NAME.search(values.name):
        return f"the name says that these are codes; if so, pass --text {values.name}"
    present = values.drop_nulls().cast(pl.Float64)
    if present.is_empty():
        return ""
    for number, side in (("min", "at least"), ("max", "at most")):
        end = getattr(present, number)()
        rest = present.filter(present != end)
        if rest.is_empty() or not end.is_integer():
            continue
        n, near = len(present) - len(rest), getattr(rest, number)()
        nines = set(f"{end:.0f}") == {"9"} and end > 99 and end > 3 * near
        if n >= max(3, _OFTEN * len(present)) and (end < 0 <= near if number == "min" else nines):
            option = (
                f"--missing={end:.0f}" if values.dtype.is_integer() else "it with --missing, as it is written"
            )
            return (
                f"{format_value(int(end))} occurs {n:,} times, and every other value is {side} {format_value(near)}; "
                f"if it means a missing value, pass {option}"
            )
    return ""


def _on_form(texts: list[str]) -> str:
    dates = {text: found for text in texts if (found := orders([text]))}
    if len(dates) > _MOST * len(texts):
        left = set(ORDERS)
        for text, possible in dates.items():
            left &= set(possible)
            if not left:
                first = shown(next(iter(dates)))
                return (
                    f"dates in several formats, such as {first} and {shown(text)}; write all of them in one"
                )
    if texts and all(map(_PAIR.fullmatch, texts)):
        return f"two numbers in one cell, such as {shown(texts[0])}; make two columns of them"
    return ""


def _on_levels(texts: list[str]) -> str:
    folded: dict[str, str] = {}
    for text in texts:
        other = folded.setdefault(text.casefold(), text)
        if other != text:
            return f"{shown(other)} and {shown(text)} differ in upper and lower case alone, but are different levels"
    made = next(filter(_MADE_A_DATE.fullmatch, texts), None)
    if made is not None and any(map(_RANGE.fullmatch, texts)):
        return f"{shown(made)} may have been a text such as '6-25' before a spreadsheet made a date of it"
    return ""
