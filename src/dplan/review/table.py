"""The table under review: its rows in chunks, by number, by a filter or by what they have in common."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.columns.frames import as_frame
from dplan.tables.chunks import CHUNK_ROWS, Chunk, n_chunks
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["Found", "TableFile", "TableRows", "as_file", "explained", "matching", "repeated_columns"]


_TERM = re.compile(r'\s*("(?:[^"]*)"|[^\s"]\S*)')
_MISSING = "missing"  # what the page shows instead of a missing value
_CONDITION = re.compile(r"^(.+?)(>=|<=|!=|=|>|<|:)(.*)$", re.DOTALL)


def explained(text: str, columns: Sequence[str]) -> list[str]:
    """Return what is odd about a filter: conditions on columns that the table does not have, and on no number.

    Examples
    --------
    >>> explained("amout>=100 fr", ["amount", "country"])
    ["there is no column 'amout', so 'amout>=100' was searched as text; did you mean 'amount'?"]
    >>> explained("amount>=much", ["amount"])
    ["'much' is not a number, so no row matches 'amount>=much'"]
    """
    odd = []
    for term in (found.strip('"') for found in _TERM.findall(text)):
        parts = _CONDITION.match(term)
        if parts is None:
            continue
        name, operator, wanted = (part.strip() for part in parts.groups())
        if _column(columns, name) is None:
            near = difflib.get_close_matches(name.lower(), [column.lower() for column in columns], n=1)
            meant = next(
                (f"; did you mean {shown(c)}?" for c in columns if near and c.lower() == near[0]), ""
            )
            if meant or operator != ":":  # a time such as 10:30 is a word
                odd.append(f"there is no column {shown(name)}, so {shown(term)} was searched as text{meant}")
        elif operator in (">", "<", ">=", "<="):
            try:
                float(wanted)
            except ValueError:
                odd.append(f"{shown(wanted)} is not a number, so no row matches {shown(term)}")
    return odd


def matching(table: pl.DataFrame, text: str) -> pl.Series:
    """Return which rows match a filter: each word must be in some value, and each condition must hold.

    A condition is ``column=value``, ``column!=value``, ``column:part``, ``column=missing`` or a comparison of numbers
    such as ``amount>=100``. Quote a term with spaces: ``"country=New Zealand"``. Upper and lower case are the same.

    Examples
    --------
    >>> table = pl.DataFrame({"amount": ["5", "120"], "country": ["FR", "DE"]})
    >>> matching(table, "amount>=100 de").to_list()
    [False, True]
    >>> matching(table, "country!=de").to_list(), matching(table, "country=missing").to_list()
    ([True, False], [False, False])
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
    if wanted == _MISSING:
        same |= texts == ""
    if operator == "=":
        return same if numbers is None else same | numbers
    return ~same if numbers is None else ~same & numbers


def _column(columns: Sequence[str], name: str) -> str | None:
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)


@dataclass(frozen=True)
class TableFile:
    """A table that is read again whenever the detector has changed, so it must not change itself.

    Attributes
    ----------
    input : Input
        The file, and how it is read.
    ids : tuple of str
        The columns that identify a row; if there are none, rows are identified by their number.
    """

    input: Input
    ids: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file."""
        return self.input.files()[0]

    def likely_rows(self) -> int:
        """Return how many rows there are, or about how many, without reading them; 0 if that is not known."""
        if self.input.format not in ("csv", "jsonl"):
            return n_chunks(self.path, self.input.format, 1) or 0
        if self.path.suffix.lower() in (".gz", ".zst"):
            return 0
        with self.path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 24), b""))
        return lines - (self.input.format == "csv")  # without the header

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, Chunk, pl.DataFrame]]:
        """Yield the number of each chunk's first row, the chunk and its rows."""
        start = 0
        self.check_unchanged()
        for chunk in self.input.chunks(rows or CHUNK_ROWS):
            frame = chunk()
            if start == 0:
                self._check_ids(frame.columns)
            if frame.height:
                yield start, chunk, frame
            start += frame.height
        self.check_unchanged()
        if start == 0:
            raise ValueError(f"{self.path.name} has a header but no rows")

    def check_unchanged(self) -> None:
        """Raise an error if the file is not the one that was opened."""
        self.input.check_unchanged(
            "since it was opened. Verdicts are still saved; start the review again to continue with the new file."
        )

    def _check_ids(self, columns: Sequence[str]) -> None:
        absent = [name for name in self.ids if name not in columns]
        if absent:
            raise ValueError(
                f"{self.path.name} has no column {shown(absent[0])}, which identifies the rows; "
                f"available columns: {', '.join(columns[:20])}"
            )


def as_file(
    table: Any,
    ids: Sequence[str] | None,
    model: TableModel | None,
    folder: Path,
) -> TableFile:
    """Return a table as a file, written to a folder if it is in memory; ids are the model's unless given."""
    chosen = tuple(ids) if ids is not None else None
    if isinstance(table, Input):
        found = table
    elif isinstance(table, str | Path):
        found = Input(table).like(model)
    else:
        as_frame(table).write_parquet(folder / "table.parquet", compression="lz4")
        found = Input(folder / "table.parquet").like(model)
    if not found.is_single:
        raise ValueError(f"{found.name}: a review needs a single file")
    return TableFile(found, _ids(chosen, model, found))


def _ids(chosen: tuple[str, ...] | None, model: TableModel | None, table: Input) -> tuple[str, ...]:
    """Return the columns that identify rows: as given, or those of the model that the table has."""
    if chosen is not None:
        return chosen
    wanted = () if model is None else model.summary.ids
    if not wanted:
        return ()
    _, _, first = next(TableFile(table).chunks(100))
    return wanted if all(name in first.columns for name in wanted) else ()


_KEPT = 2_000  # rows that are remembered
_LISTED = 200  # of the rows that match, with the highest scores
_BESIDE = 20  # rows of the same account before and after a row


class Found(NamedTuple):
    """The rows that match a filter, the highest scores first, and what is odd about the filter."""

    rows: list[int]
    odd: list[str]


class TableRows:
    """Reads rows of a table when somebody asks for them, and remembers them for a while.

    Parameters
    ----------
    table : TableFile
        The table under review.
    """

    def __init__(self, table: TableFile) -> None:
        self._table = table
        self._kept: dict[int, pl.DataFrame] = {}
        self._last: tuple[str, NDArray[np.int64], list[str]] | None = None

    def row(self, number: int) -> pl.DataFrame | None:
        """Return one row; None if the table has no such row."""
        self.fetch([number])
        return self._kept.get(number)

    def fetch(self, numbers: Iterable[int]) -> None:
        """Read rows that somebody will ask for, in one go."""
        missing = sorted(set(numbers) - self._kept.keys())
        for first, _, frame in self._table.chunks() if missing else ():
            own = [number for number in missing if first <= number < first + frame.height]
            self._keep(own, frame[[number - first for number in own]])
            if missing[-1] < first + frame.height:
                break

    def matching(self, text: str, scores: NDArray[np.float64]) -> Found:
        """Return the rows of the whole table that match a filter."""
        if self._last is None or self._last[0] != text:
            found = [np.empty(0, dtype=np.int64)]
            odd: list[str] = []
            for first, _, frame in self._table.chunks():
                odd = odd or explained(text, frame.columns)
                own = first + matching(frame, text).arg_true().to_numpy().astype(np.int64)
                best = own[highest_first(scores[own])][:_LISTED]
                self._keep(best.tolist(), frame[(best - first).tolist()])
                found.append(own)
            self._last = text, np.concatenate(found), odd
        _, rows, odd = self._last
        ordered: list[int] = rows[highest_first(scores[rows])].tolist()
        return Found(ordered, odd)

    def beside(self, number: int, column: str) -> tuple[pl.DataFrame, list[int], int]:
        """Return the rows with the same value in a column, around a row; their numbers; how many there are."""
        own = self.row(number)
        if own is None or column not in own.columns:
            raise ValueError("there is no such row or column")
        (value,) = own[column].cast(pl.String).to_list()
        parts, numbers = [], []
        for first, _, frame in self._table.chunks():
            texts = frame[column].cast(pl.String)
            same = texts.is_null() if value is None else (texts == value).fill_null(False)
            places = same.arg_true().to_list()
            parts.append(frame[places])
            numbers += [first + place for place in places]
        every = pl.concat(parts, how="diagonal_relaxed")
        place = numbers.index(number)
        near = slice(max(0, place - _BESIDE), place + _BESIDE + 1)
        return every[near], numbers[near], len(numbers)

    def _keep(self, numbers: Collection[int], rows: pl.DataFrame) -> None:
        if len(self._kept) + len(numbers) > _KEPT:
            self._kept.clear()
        self._kept |= dict(zip(numbers, _each(rows), strict=True))


def _each(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    return (rows[[place]] for place in range(rows.height))


def repeated_columns(rows: pl.DataFrame) -> Sequence[str]:
    """Return the columns whose values mean something that several rows have in common, such as an account.

    Examples
    --------
    >>> repeated_columns(pl.DataFrame({"id": [1, 2, 3], "account": ["a", "b", "a"], "same": [0, 0, 0]}))
    ['account']
    """
    found = []
    for column in rows:
        if column.dtype.is_float() or column.dtype.is_nested():
            continue
        values = column.n_unique()
        if 1 < values <= 0.9 * rows.height:
            found.append(column.name)
    return found
