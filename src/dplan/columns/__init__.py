"""Columns: what each one means, what is learned from it, and how its cells become features.

Each type of column is one class that owns all of this, and one line in `TYPES`. `deciding` finds the type of columns
that come as text, `given` is for people who know better, and `preparer` turns a table into features.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dplan.columns.column import Column
from dplan.columns.dates import Date, Time
from dplan.columns.durations import Duration
from dplan.columns.flags import Filled, Flag
from dplan.columns.frames import tidied
from dplan.columns.frequencies import Frequency
from dplan.columns.numbers import Number
from dplan.columns.records import Hints
from dplan.columns.texts import Category, Part
from dplan.columns.unused import Unused
from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["TYPES", "from_json", "propose", "read", "type_named", "type_of", "values_of", "words"]

# In the order in which they are proposed; a category is proposed for any text.
TYPES: list[type[Column]] = [
    Flag,
    Number,
    Date,
    Time,
    Duration,
    Part,
    Category,
    Frequency,
    Filled,
    Unused,
]


def type_of(series: pl.Series) -> type[Column]:
    """Return the type of a column of which nothing is known but its data type.

    Examples
    --------
    >>> [type_of(pl.Series(values)).kind for values in ([True], [1.5], ["a"])]
    ['flag', 'number', 'text']
    """
    for found in TYPES:
        if found.holds(series.dtype):
            return found
    raise TypeError(
        f"column {series.name!r} has the unsupported type {series.dtype}; "
        "drop it or convert it to numbers, text, booleans or dates"
    )


def type_named(word: str) -> type[Column]:
    """Return the type that people call by a word."""
    for found in TYPES:
        if word in found.words:
            return found
    raise ValueError(f"unknown kind {shown(word)}; choose from {', '.join(words())}")


def words() -> list[str]:
    """Return the words by which people ask for types."""
    return [word for found in TYPES for word in found.words]


def propose(values: Sequence[str], hints: Hints) -> Column:
    """Return how some distinct values, without missing ones, are read.

    Examples
    --------
    >>> propose(["12,50 €", "1.200,00 €"], Hints()).described()
    'a number with decimal comma, in €'
    """
    proposals = (found.propose(values, hints) for found in TYPES)
    return next(proposal for proposal in proposals if proposal is not None)


def read(column: Column, series: pl.Series, missing: Sequence[str] = ()) -> pl.Series:
    """Return the values of a column of new rows, or raise an error if they are not of its type.

    Where text cannot be read, it may be one of those that mean a missing value.
    """
    if not column.accepts(series.dtype):
        raise ValueError(
            f"column {column.name!r} is a {type_of(series).kind} column, but was a {column.kind} column in training"
        )
    try:
        return column.read(series)
    except CellError:
        if not missing or series.dtype != pl.String:
            raise
        return column.read(tidied(series, missing))


def values_of(column: Column, series: pl.Series, missing: Sequence[str] = ()) -> pl.Series:
    """Return the values of a column of new rows as people know them, read as in training."""
    return column.settled(read(column, series, missing), (), distinct=False)[1].alias(series.name)


def from_json(entry: Mapping[str, Any]) -> Column:
    """Rebuild a column from `Column.to_json` and JSON; raise a ValueError for anything else.

    Examples
    --------
    >>> column = Number(name="bytes", maximum=9.0, fill=(0.5,))
    >>> from_json(column.to_json()) == column
    True
    """
    try:
        kind, meaning = entry["kind"], entry["meaning"]
        for found in TYPES:
            if found.kind == kind and found.stores(meaning):
                return found.from_json(entry)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a column: {error}") from error
    what = "a column" if meaning is None else "the meaning of a column"
    raise ValueError(f"not {what}: {str(entry)[:200]}")
