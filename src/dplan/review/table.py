"""The table under review: its rows in chunks, their ids and digests, and whether the file has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dplan.columns.frames import as_frame
from dplan.review.log import Key
from dplan.tables.chunks import CHUNK_ROWS, Chunk
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["TableFile", "as_file", "keys_of", "row_ids", "rows_with_ids"]


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


def row_ids(table: pl.DataFrame, ids: Sequence[str], numbers: Iterable[int]) -> list[tuple[str, ...]]:
    """Return the text of each row's ids or, without id columns, its number, counted from 1.

    Examples
    --------
    >>> row_ids(pl.DataFrame({"a": [7, None]}), ["a"], [0, 1])
    [('7',), ('',)]
    >>> row_ids(pl.DataFrame({"a": [7, 8]}), [], [10, 11])
    [('11',), ('12',)]
    """
    if not ids:
        return [(str(number + 1),) for number in numbers]
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
    return [i for i, found in zip(near, row_ids(table[near], ids, near), strict=True) if found in wanted]


def keys_of(
    table: pl.DataFrame, ids: Sequence[str], columns: Sequence[str], numbers: Sequence[int]
) -> list[Key]:
    """Return the keys of some rows: their ids, and a digest of these columns."""
    names = sorted(columns)
    rows, values = row_ids(table, ids, numbers), table.select(names).rows()
    return [Key(row, _digest(names, found)) for row, found in zip(rows, values, strict=True)]


def _digest(names: Sequence[str], values: Sequence[Any]) -> str:
    text = json.dumps([list(names), list(values)], default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
