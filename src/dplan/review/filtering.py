"""The filter of the queue: words, and conditions on columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import polars as pl

__all__ = ["matching"]

_TERM = re.compile(r'\s*("(?:[^"]*)"|[^\s"]\S*)')
_CONDITION = re.compile(r"^(.+?)(>=|<=|!=|=|>|<|:)(.*)$", re.DOTALL)


def matching(table: pl.DataFrame, text: str) -> pl.Series:
    """Return which rows match a filter: each word must be in some value, and each condition must hold.

    A condition is ``column=value``, ``column!=value``, ``column:part`` or a comparison of numbers such as
    ``amount>=100``. Quote a term with spaces: ``"country=New Zealand"``. Upper and lower case are the same.

    Examples
    --------
    >>> table = pl.DataFrame({"amount": ["5", "120"], "country": ["FR", "DE"]})
    >>> matching(table, "amount>=100 de").to_list()
    [False, True]
    >>> matching(table, "country!=de").to_list()
    [True, False]
    """
    texts = table.select(pl.all().cast(pl.String, strict=False).str.to_lowercase().fill_null(""))
    found = pl.Series([True]).new_from_index(0, table.height)
    for term in _TERM.findall(text):
        found = found & _matches(table, texts, term.strip('"'))
    return found


def _matches(table: pl.DataFrame, texts: pl.DataFrame, term: str) -> pl.Series:
    parts = _CONDITION.match(term)
    if parts and (column := _column(table.columns, parts[1].strip())) is not None:
        operator, wanted = parts[2], parts[3].strip().lower()
        if operator == ":":
            return texts[column].str.contains(wanted, literal=True)
        numbers = table[column].cast(pl.Float64, strict=False)
        with suppress(ValueError):
            number = float(wanted)
            held = {
                ">": numbers > number,
                "<": numbers < number,
                ">=": numbers >= number,
                "<=": numbers <= number,
                "=": numbers == number,
                "!=": numbers != number,
            }[operator].fill_null(operator == "!=")
            return held if operator not in ("=", "!=") else _equal(texts[column], wanted, operator, held)
        if operator in ("=", "!="):
            return _equal(texts[column], wanted, operator, None)
        return pl.Series([False]).new_from_index(0, table.height)
    return texts.select(pl.any_horizontal(pl.all().str.contains(term.lower(), literal=True))).to_series()


def _equal(texts: pl.Series, wanted: str, operator: str, numbers: pl.Series | None) -> pl.Series:
    """Compare as text and, where both are numbers, as numbers."""
    same = texts.str.strip_chars() == wanted
    if operator == "=":
        return same if numbers is None else same | numbers
    return ~same if numbers is None else ~same & numbers


def _column(columns: Sequence[str], name: str) -> str | None:
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)
