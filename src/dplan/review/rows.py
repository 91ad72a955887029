"""The table under review: its rows in chunks, their ids and digests, and whether the file has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dplan.review.log import Key
from dplan.tables.chunks import CHUNK_ROWS, Chunk
from dplan.tables.input import Input
from dplan.text import shown

__all__ = ["TableFile", "keys_of", "row_ids", "rows_with_ids"]


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


def row_ids(table: pl.DataFrame, ids: Sequence[str], first: int = 0) -> list[tuple[str, ...]]:
    """Return the text of each row's ids or, without id columns, its number, counted from 1.

    Examples
    --------
    >>> row_ids(pl.DataFrame({"a": [7, None]}), ["a"])
    [('7',), ('',)]
    >>> row_ids(pl.DataFrame({"a": [7, 8]}), [], first=10)
    [('11',), ('12',)]
    """
    if not ids:
        return [(str(first + i + 1),) for i in range(table.height)]
    return table.select(pl.col(list(ids)).cast(pl.String).fill_null("")).rows()


def rows_with_ids(
    table: pl.DataFrame, ids: Sequence[str], first: int, wanted: Collection[tuple[str, ...]]
) -> list[int]:
    """Return the positions of the rows whose ids are wanted.

    Examples
    --------
    >>> rows_with_ids(pl.DataFrame({"a": [7, 8]}), ["a"], 0, {("8",)})
    [1]
    """
    if not wanted:
        return []
    if not ids:
        numbers = (int(row[0]) - 1 - first for row in wanted if len(row) == 1 and row[0].isdecimal())
        return sorted(number for number in numbers if 0 <= number < table.height)
    firsts = list({row[0] for row in wanted if len(row) == len(ids)})
    near = table[ids[0]].cast(pl.String).fill_null("").is_in(firsts).arg_true().to_list()
    return [i for i, found in zip(near, row_ids(table[near], ids), strict=True) if found in wanted]


def keys_of(
    table: pl.DataFrame, ids: Sequence[str], columns: Sequence[str], numbers: Sequence[int]
) -> list[Key]:
    """Return the keys of some rows: their ids, and a digest of these columns."""
    rows = row_ids(table, ids) if ids else [(str(number + 1),) for number in numbers]
    names = sorted(columns)
    values = table.select(names).rows()
    return [Key(row, _digest(names, found)) for row, found in zip(rows, values, strict=True)]


def _digest(names: Sequence[str], values: Sequence[Any]) -> str:
    text = json.dumps([list(names), list(values)], default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
