"""Inspect a table before anything is trained: how each column is understood, and everything that would stop a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl

from dplan.columns import type_of
from dplan.columns.column import Column
from dplan.columns.deciding import understand_frame
from dplan.columns.formatting import format_share
from dplan.columns.frames import as_frame, check_values, is_frame
from dplan.columns.given import as_given
from dplan.columns.records import Training
from dplan.exceptions import CellError
from dplan.tables.chunks import MISSING
from dplan.tables.decoding import AUTO
from dplan.tables.input import Input
from dplan.tables.label_columns import labels_of, names_of
from dplan.tables.layout import Layout
from dplan.tables.reading import as_text
from dplan.tables.remarks import remark_on
from dplan.tables.words import Words, described, listed
from dplan.text import shown

__all__ = ["Inspection", "inspect"]


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """How a table is understood, from `inspect`; printing it, or a notebook, shows all of it.

    Attributes
    ----------
    name : str
        The name of the table.
    table : polars.DataFrame
        Its values, as they are read.
    columns : polars.DataFrame
        One row per column: its name, what it is understood as, its values in short, the share of missing values, why,
        and whether that leaves no doubt.
    labels : str
        How many rows have which label, if a label column was given.
    problems : tuple of str
        What would stop a fit, each with what to do about it.
    notes : tuple of str
        What was found out about the file, such as where its header is.

    Examples
    --------
    >>> found = inspect(pl.DataFrame({"paid": ["12,50 €", "3 €"], "day": ["1.2.24", "13.2.24"]}))
    >>> found.lines()
    ['the table: 2 rows, 2 columns.']
    """

    name: str
    table: pl.DataFrame
    columns: pl.DataFrame
    labels: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def doubtful(self) -> list[str]:
        """The columns whose values leave doubt."""
        return self.columns.filter(~pl.col("sure"))["column"].to_list()

    def lines(self) -> list[str]:
        """Return the lines below the table of columns."""
        found = [f"{self.name}: {self.table.height:,} rows, {self.table.width:,} columns."]
        if self.labels:
            found.append(f"Labels: {self.labels}.")
        if self.doubtful:
            found.append(
                f"Please check: {', '.join(self.doubtful)}. Overrule with --column NAME=KIND[,OPTION]."
            )
        if self.problems:
            found += ["These would stop a fit:", *(f"- {problem}" for problem in self.problems)]
        return found

    def __str__(self) -> str:
        """Return all of it as text."""
        with _all_shown():
            return "\n".join([*self.notes, str(self.columns), *self.lines()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return all of it for a notebook."""
        with _all_shown():
            table = self.columns._repr_html_()
        notes, lines = (
            "".join(f"<div>{escape(line)}</div>" for line in part) for part in (self.notes, self.lines())
        )
        return notes + table + lines


def _all_shown() -> pl.Config:
    return pl.Config(
        tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=200, tbl_width_chars=180,
        tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
    )  # fmt: skip


def inspect(
    table: Input | str | Path | BinaryIO | pl.DataFrame | Any,
    *,
    label: str | Sequence[str] | None = None,
    anomaly: Sequence[object] | None = None,
    normal: Sequence[object] | None = None,
    unlabelled: Sequence[object] | None = None,
    words: Words | None = None,
    id: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    text: Sequence[str] = (),
    columns: Mapping[str, str | Mapping[str, Any]] | None = None,
    encoding: str = AUTO,
    kind: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
    layout: Layout = Layout(),  # noqa: B008  # immutable
) -> Inspection:
    """Return how each column of a table is understood, and why, before anything is trained.

    Cells that cannot be used do not stop it: all problems are listed at once.

    Parameters
    ----------
    table : path, Input, binary file or frame
        The table.
    label, anomaly, normal, unlabelled, words, id, drop, missing, text, columns
        As in `from_table`; the label may be left out.
    encoding, kind, query, sheet, layout
        How a file is read, as in `read_table`.

    Returns
    -------
    Inspection
        What was found.

    Examples
    --------
    >>> found = inspect(pl.DataFrame({"paid": ["12,50 €", "3 €", "free"], "day": ["1.2.24", "", "13.2.24"]}))
    >>> found.columns["understood as"].to_list()
    ['number with decimal comma, in €', 'date, day first']
    >>> len(found.problems)
    1
    """
    ids, dropped, several = names_of(id), names_of(drop), names_of(label or ())
    given, notes, errors = {**as_text(text), **as_given(columns)}, list[str](), list[CellError]()
    aside = {*ids, *dropped, *several}
    if not isinstance(table, Input) and not is_frame(table):
        table = Input(cast(Any, table), kind or "", encoding, tuple(missing), sheet, query, layout=layout)
        table = replace(table, note=notes.append)
    if isinstance(table, Input):
        table = table.readable_twice()
        name = table.name
        frame, meanings = table.read(given, aside=aside, problems=errors)
    else:
        name = "the table"
        frame, meanings = understand_frame(as_frame(table), given, missing, aside=aside, problems=errors)
    problems = [
        f"{name} has no column {shown(one)}; its columns are {listed(frame.columns)}"
        for one in dict.fromkeys([*aside, *given])
        if one not in frame.columns
    ]
    for series in frame.drop([column for column in aside if column in frame.columns]):
        try:
            type_of(series)
            check_values(series)
        except TypeError as error:
            problems.append(str(error))
        except CellError as error:
            errors.append(error)
    labels = ""
    if several and set(several) <= set(frame.columns):
        try:
            found, _ = labels_of(name, frame, several, words or Words.of(anomaly, normal, unlabelled))
            counts = {one: int((found.y == k).sum()) for k, one in enumerate(found.classes)}
            labels = described(counts, int((found.y < 0).sum()))
        except CellError as error:
            errors.append(error)
        except ValueError as error:
            problems.append(str(error))
    places = table.places({one.row for one in errors}) if isinstance(table, Input) else {}
    order = {name: place for place, name in enumerate(frame.columns)}
    for bad in sorted(errors, key=lambda one: order[one.column]):
        more = len(bad.rows) - 1
        others = f"; the same goes for {more:,} other cell{'s' * (more > 1)} of the column" if more else ""
        problems.append(f"{bad.at(places.get(bad.row, ''))}{others}")
    rows = [_described(series, meanings) for series in frame if series.name not in aside]
    return Inspection(
        name,
        frame,
        pl.DataFrame(rows, _SCHEMA, orient="row"),
        labels,
        tuple(problems),
        tuple(dict.fromkeys(notes)),
    )


_SCHEMA = {
    "column": pl.String,
    "understood as": pl.String,
    "values": pl.String,
    "missing": pl.String,
    "why": pl.String,
    "sure": pl.Boolean,
}


def _described(series: pl.Series, meanings: Mapping[str, Column]) -> tuple[Any, ...]:
    try:
        usual = type_of(series)
    except TypeError:
        return series.name, "unsupported type", "", "", f"type {series.dtype}", False
    column = meanings.get(series.name) or usual(decided=False)
    if column.has_levels and not (learned := column.learn(series, Training(series.to_frame(), []))).is_used:
        column = learned  # too many different texts for levels, or none
    shown_as = column if column.is_used else usual()
    remark = remark_on(series, getattr(column, "unit", ""), used=column.is_used)
    return (
        series.name,
        column.understood(),
        shown_as.spread(series) if series.null_count() < len(series) else "",
        format_share(series.null_count() / max(1, len(series))),
        "; ".join(filter(None, (column.why or f"type {series.dtype}", remark))),
        column.sure and not remark,
    )
