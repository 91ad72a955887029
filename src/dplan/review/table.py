"""The table under review: its rows in chunks, the columns that identify them, and whether the file has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dplan.columns.frames import as_frame
from dplan.tables.chunks import CHUNK_ROWS, Chunk
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["TableFile", "as_file"]


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
