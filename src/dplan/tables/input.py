"""A table on its way in: where it comes from and how it is read, as one record for every command, Python and worker.

Nothing is guessed: rows are never truncated or padded, and names are never changed.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.deciding import AS_TEXT, Given, understand
from dplan.columns.frames import check_not_forked
from dplan.exceptions import CellError
from dplan.persistence.atomic import file_state
from dplan.persistence.claim import check_inputs
from dplan.tables.chunks import (
    CHUNK_ROWS,
    MISSING,
    Chunk,
    batches,
    concatenated,
    csv_chunks,
    frame_chunks,
    json_chunks,
    scanned_chunks,
    sheet_frames,
)
from dplan.tables.decoding import AUTO, TextFile, uncompressed_name
from dplan.tables.queries import query_frames
from dplan.tables.sources import common_format, files_of
from dplan.tables.summary import Trained

__all__ = ["Input", "as_text", "read_table"]

_TYPED = ("parquet", "arrow", "duckdb")  # formats that have the types of their columns


@dataclass(frozen=True)
class Input:
    r"""A table: a file, the files of a folder or glob pattern, or a stream, and how it is read.

    Attributes
    ----------
    source : path, binary file or sequence of paths
        A file, a folder, a glob pattern, several files, or a stream with CSV or JSON lines.
    format : {"csv", "jsonl", "parquet", "arrow", "excel", "sqlite", "duckdb"}
        By default from the file name, and CSV for a stream.
    encoding : str
        Text encoding of a CSV, TSV or JSON lines file; "auto" to detect it.
    missing : tuple of str
        Text that means a missing value in CSV, TSV, Excel and SQLite; surrounding spaces are ignored.
    sheet : str, optional
        Sheet of an Excel file; None for the first one.
    sql : str, optional
        Query whose result is the table, for a database.
    separator : str, optional
        Separator of a CSV file; None to detect it in the header.

    Examples
    --------
    >>> table = Input(io.BytesIO(b"a,b\n1,x\n2,y\n3,z\n"))
    >>> [chunk()["a"].to_list() for chunk in table.chunks(2)]
    [['1', '2'], ['3']]
    """

    source: str | Path | BinaryIO | Sequence[str | Path]
    format: str = ""
    encoding: str = AUTO
    missing: tuple[str, ...] = MISSING
    sheet: str | None = None
    sql: str | None = None
    separator: str | None = None
    _files: tuple[Path, ...] = field(default=(), init=False, repr=False, compare=False)
    _states: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        files = () if self.is_stream else files_of(cast(Any, self.source))
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_states", tuple(map(file_state, files)))
        object.__setattr__(self, "missing", tuple(self.missing))
        if not self.format:
            object.__setattr__(self, "format", common_format(self.name, files) if files else "csv")

    @property
    def is_stream(self) -> bool:
        """Whether the table is no file, so that it can be read only once."""
        return not isinstance(self.source, str | Path | Sequence)

    @property
    def is_typed(self) -> bool:
        """Whether the format has the types of its columns, so that they need not be decided."""
        return self.format in _TYPED

    @property
    def name(self) -> str:
        """The name of the table, for messages."""
        if len(self._files) > 1:
            folder = self._files[0].parent
            return f"{folder.name or folder} ({len(self._files)} files)"
        return self._files[0].name if self._files else "the input"

    @property
    def is_single(self) -> bool:
        """Whether the table is one file or a stream, not a folder, a pattern or several files."""
        return self.is_stream or (isinstance(self.source, str | Path) and self._files == (Path(self.source),))

    def files(self) -> list[Path]:
        """Return the files of the table, in the order of their names; none for a stream."""
        return list(self._files)

    def each(self) -> list[Input]:
        """Return the files as tables of their own; a stream as it is."""
        return [replace(self, source=file) for file in self._files] or [self]

    def like(self, model: Trained | None) -> Input:
        """Return the table as it is read for a model: like its training table, unless an encoding is given."""
        trained = None if model is None else model.summary.reading
        if trained is None:
            return self
        encoding = trained["encoding"] if self.encoding == AUTO else self.encoding
        return replace(self, encoding=encoding, missing=tuple(trained["missing"]))

    def readable_twice(self) -> Input:
        """Return the table so that `rewind` works; a stream that cannot is read into memory."""
        if not self.is_stream or cast(BinaryIO, self.source).seekable():
            return self
        return replace(self, source=io.BytesIO(cast(BinaryIO, self.source).read()))

    def rewind(self) -> None:
        """Prepare the table to be read again."""
        if self.is_stream:
            cast(BinaryIO, self.source).seek(0)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values, from which another process makes the same: ``Input(**values)``."""
        if self.is_stream:
            raise ValueError("a stream cannot be passed to another process")
        given = self.source
        source = str(given) if isinstance(given, str | Path) else [*map(str, self._files)]
        return {
            "source": source,
            "format": self.format,
            "encoding": self.encoding,
            "missing": list(self.missing),
            "sheet": self.sheet,
            "sql": self.sql,
            "separator": self.separator,
        }

    def check_output(self, output: Path) -> None:
        """Raise an error if an output is in the folder or matches the pattern, or the next run would read it."""
        if self.is_single or not isinstance(self.source, str | Path):
            return
        if Path(self.source).is_dir():
            check_inputs(output, [self.source])
        elif fnmatch(str(output.absolute()), str(Path(self.source).absolute())):
            raise ValueError(
                f"{output} matches the input pattern {self.source}, so the next run would read it; "
                "choose another output"
            )

    def check_unchanged(
        self, advice: str = "while it was being read; nothing was written, run the command again"
    ) -> None:
        """Raise an error if a file is not the one that was opened: old and new content must not be mixed."""
        for path, state in zip(self._files, self._states, strict=True):
            now = file_state(path)
            if now != state:
                what = "has been deleted" if now is None else "has changed"
                raise ValueError(f"{path.name} {what} {advice}")

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise an error if a file changes before the block ends."""
        try:
            yield
        except (Exception, pl.exceptions.PanicException):
            self.check_unchanged()  # a change explains most errors better
            raise
        self.check_unchanged()

    def chunks(
        self, rows: int | None = CHUNK_ROWS, *, raw: bool = False, in_turn: bool = False
    ) -> Iterator[Chunk]:
        """Yield the chunks of the table, at least one; each reads its rows when it is called.

        Parameters
        ----------
        rows : int or None
            Rows per chunk; the last chunk and chunks with very long rows may have fewer. None for one chunk.
        raw : bool, default=False
            Keep the spaces around the values of a text column, and missing values surrounded by spaces.
        in_turn : bool, default=False
            Read each chunk of a Parquet or Arrow file as it is yielded. This takes one pass over the file, whereas
            chunks that are read on their own may decompress the same row group several times.
        """
        check_not_forked()
        if len(self._files) < 2:
            found = self._files[0] if self._files else cast(BinaryIO, self.source)
            yield from self._chunks_of(found, rows, raw, in_turn)
            return
        for i, path in enumerate(self._files):
            for chunk in self._chunks_of(path, rows, raw, in_turn):
                share = None if chunk.share is None else (i + chunk.share) / len(self._files)
                yield replace(chunk, share=share)

    def _chunks_of(
        self, source: Path | BinaryIO, rows: int | None, raw: bool, in_turn: bool
    ) -> Iterator[Chunk]:
        if self.format in ("csv", "jsonl"):
            name = source.name if isinstance(source, Path) else "the input"
            file = TextFile(source, name, self.encoding)
            if self.format == "jsonl":
                yield from json_chunks(file, rows)
            else:
                usual = "\t" if uncompressed_name(name).endswith(".tsv") else ",;\t|"
                yield from csv_chunks(file, rows, self.separator or usual, self.missing, raw=raw)
            return
        path = cast(Path, source)
        if self.format in ("parquet", "arrow"):
            if not in_turn:
                yield from scanned_chunks(path, self.format, rows)
                return
            frames = batches(path, self.format, rows)
        elif self.format == "excel":
            frames = sheet_frames(path, self.sheet, rows)
        else:
            frames = query_frames(path, self.format, self.sql, rows or CHUNK_ROWS)
        yield from frame_chunks(path.name, frames, self.missing, raw=raw)

    def read(
        self, columns: Given | None = None, *, aside: Collection[str] = ()
    ) -> tuple[pl.DataFrame, dict[str, Column]]:
        """Read all rows, and also return what the columns mean; `columns` overrules what is found.

        Text in columns that are `aside`, such as ids, stays as it is.
        """
        table = self.readable_twice()
        with table.located():
            frames = [chunk() for chunk in table.chunks(CHUNK_ROWS, raw=True)]
            if not any(frame.height for frame in frames):
                raise ValueError(f"{self.name} has no rows")
            series = concatenated(frames, self.format).get_columns()
            del frames  # so that text is freed as soon as it is converted
            return self.decided(series, columns or {}, aside)

    def decided(
        self, columns: list[pl.Series], given: Given, aside: Collection[str] = ()
    ) -> tuple[pl.DataFrame, dict[str, Column]]:
        """Decide what columns of the table mean, and read them; `columns` is emptied."""
        # In JSON, quotes distinguish text from numbers.
        missing = None if self.is_typed or self.format == "jsonl" else self.missing
        return understand(columns, given, missing, aside=aside, typed=self.is_typed)

    @contextmanager
    def located(self, positions: NDArray[np.int64] | None = None) -> Iterator[None]:
        """Add the line of the file to errors about a cell, by reading the table again.

        If only some rows of the table were read, `positions` has the position of each of them.
        """
        try:
            yield
        except CellError as error:
            self.rewind()
            row = error.row if positions is None else int(positions[error.row])
            for chunk in self.chunks(raw=True):
                height = chunk().height
                if row < height:
                    raise error.at(chunk.place(row)) from None
                row -= height
            raise


def read_table(
    source: str | Path | BinaryIO | Sequence[Path],
    *,
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    encoding: str = AUTO,
    kind: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
) -> pl.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    source : path, binary file or sequence of paths
        A ``.csv``, ``.tsv``, ``.txt``, ``.jsonl`` or ``.ndjson`` file, each also with ``.gz`` or ``.zst``; a
        ``.parquet``, ``.arrow``, ``.feather`` or ``.xlsx`` file; a SQLite or DuckDB file; or a folder or glob pattern
        of such files. A CSV may be separated by commas, semicolons, tabs or pipes.
    missing : sequence of str
        Text that means a missing value, in CSV, TSV, Excel and SQLite.
    text : collection of str
        Columns to read as text even if they contain numbers.
    encoding : str, default="auto"
        Text encoding of a CSV, TSV or JSON lines file. By default, UTF-8, UTF-16 and cp1252 are detected.
    kind : str, optional
        Format of the table ("csv", "jsonl", "parquet", "arrow", "excel", "sqlite" or "duckdb"); None to use the file
        name.
    query : str, optional
        SQL query, for a database.
    sheet : str, optional
        Sheet of an Excel file; by default the first one.

    Returns
    -------
    polars.DataFrame
        Columns are numbers, booleans, dates, times or text.

    Examples
    --------
    >>> import tempfile
    >>> lines = ["amount;paid;day", "10.5;true;2024-01-31", "7;NA;2024-02-01"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "payments.csv"
    ...     _ = path.write_text(chr(10).join(lines))
    ...     read_table(path).schema
    Schema([('amount', Float64), ('paid', Boolean), ('day', Date)])
    """
    table = Input(source, kind or "", encoding, tuple(missing), sheet, query)
    return table.read(as_text(text))[0]


def as_text(columns: Collection[str]) -> Given:
    """Return that text in these columns stays text, in the form in which meanings are given too."""
    return dict.fromkeys(columns, AS_TEXT)
