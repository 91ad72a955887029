"""The label column of a table: one, or several of which each marks one class."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
import polars as pl

from dplan.exceptions import CellError
from dplan.tables.labels import JOINED, Labels, numbered, read, without_words
from dplan.tables.words import Words, listed

__all__ = ["check_there", "columns_of", "combined", "labels_in", "labels_of", "names_of", "with_one_label"]


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns that are given as one name or as several."""
    return (given,) if isinstance(given, str) else tuple(given)


def labels_of(
    name: str, frame: pl.DataFrame, several: Sequence[str], words: Words | None, *, partial: bool = False
) -> tuple[Labels, Words | None]:
    """Return the labels in one or several label columns of a table with this name, and what their words mean."""
    if len(several) > 1 and not partial and words is not None:
        raise ValueError("what values mean can be given for one label column, not for several")
    labels = with_one_label(name, frame, several)[JOINED.join(several)]
    if len(several) > 1 and words is None:
        present = labels.unique().to_list()
        marked = [one for one in several if one in present]
        words = Words(tuple(marked or several), ("normal",) if "normal" in present else None)
    return read(labels, words, partial=partial), words


def with_one_label(name: str, frame: pl.DataFrame, several: Sequence[str]) -> pl.DataFrame:
    """Return the table with one label column, made from several if need be."""
    for column in several:
        check_there(name, column, frame.columns)
    return frame if len(several) == 1 else frame.with_columns(combined(frame, several))


def combined(table: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Return several label columns, one per class, as one: the name of the first that marks a row, or "normal".

    Examples
    --------
    >>> table = pl.DataFrame({"leak": [1, 0, 0], "noise": ["yes", "no", "yes"]})
    >>> combined(table, ["leak", "noise"]).to_list()
    ['leak', None, 'noise']
    """
    found = np.full(table.height, None, dtype=object)
    for name in reversed(names):
        try:
            y, classes = numbered(without_words(table[name]))
        except CellError:
            raise
        except ValueError as error:
            what = str(error).partition(";")[0]
            raise ValueError(
                f"{what}; of several label columns, each must be 0 and 1, or yes and no"
            ) from None
        if len(classes) > 2:
            raise ValueError(f"label column {name!r} has several classes; use it as the only label column")
        found[(y < 0) & (found == None)] = "normal"  # noqa: E711  # of each element
        found[y > 0] = name
    return pl.Series(JOINED.join(names), found.tolist(), dtype=pl.String)


def labels_in(frame: pl.DataFrame, label: str) -> pl.Series | None:
    """Return the labels of a table by the name of a model's label column, which may stand for several columns.

    Examples
    --------
    >>> labels_in(pl.DataFrame({"leak": [1, 0], "noise": [0, 1]}), "leak + noise").to_list()
    ['leak', 'noise']
    >>> labels_in(pl.DataFrame({"leak": [1, 0]}), "noise") is None
    True
    """
    names = columns_of(label, frame.columns)
    if not set(names) <= set(frame.columns):
        return None
    return frame[label] if names == [label] else combined(frame, names)


def columns_of(label: str, columns: Sequence[str]) -> list[str]:
    """Return the columns that the name of a model's label column stands for in a table with these columns."""
    return [label] if label in columns else label.split(JOINED)


def check_there(name: str, column: str, columns: list[str]) -> None:
    """Raise an error that names the nearest column if a table with this name does not have one."""
    if column in columns:
        return
    near = difflib.get_close_matches(column, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"available columns: {listed(columns)}"
    raise ValueError(f"{name} has no column {column!r}; {hint}")
