"""A table on its way in: where it comes from and how it is read, as one record for every command, Python and worker.

Nothing is guessed: rows are never truncated or padded, and names are never changed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.deciding import Given, understand
from dplan.columns.frames import check_not_forked
from dplan.exceptions import CellError
from dplan.persistence.atomic import file_state
from dplan.tables.chunks import (
    CHUNK_ROWS,
    MISSING,
    Chunk,
    batches,
    concatenated,
    frame_chunks,
    json_chunks,
    scanned_chunks,
    with_decimal_commas,
)
from dplan.tables.csv_chunks import csv_chunks
from dplan.tables.databases import Database, is_url
from dplan.tables.decoding import AUTO, TextFile, uncompressed_name
from dplan.tables.layout import Layout
from dplan.tables.queries import query_frames
from dplan.tables.sources import check_not_among, common_format, files_of
from dplan.tables.summary import Trained
from dplan.tables.workbooks import sheet_chunks

__all__ = ["Input"]

_TYPED = ("parquet", "arrow", "duckdb")  # formats that have the types of their columns


@dataclass(frozen=True)
class Input:
    r"""A table: a file, the files of a folder or glob pattern, or a stream, and how it is read.

    Attributes
    ----------
    source : path, binary file or sequence of paths
        A file, a folder, a glob pattern, several files, a stream with CSV or JSON lines, or the address of a PostgreSQL
        database (``postgresql://…``), of which the result of the query is read at once.
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
    layout : Layout
        Where the header and the rows of a CSV file or sheet are, if that is not to be found.
    numbers : tuple of str
        Columns that had a type in training, so that nothing is known about their text: in a CSV file, they are read
        with the decimal sign of that file.
    note : callable, optional
        Called with each thing that was found out about the layout, in words; possibly again when the table is read
        again.

    Examples
    --------
    >>> table = Input(io.BytesIO(b"a,b\n1,x\n2,y\n3,z\n"))
    >>> [chunk()["a"].to_list() for chunk in table.chunks(2)]
    [['1', '2'], ['3']]
    >>> table.rewind()  # only a table that is no stream can always be read again
    >>> table.read()[0].rows()
    [(1, 'x'), (2, 'y'), (3, 'z')]
    >>> table.places([1]), table.readable_twice() is table, table.like(None) is table
    ({1: 'the input, line 3'}, True, True)
    >>> table.decided([pl.Series("a", ["1,50 €", "3 €"])], {})[0]["a"].to_list()
    [1.5, 3.0]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open(f"{folder}/a.csv", "xb") as file:
    ...     files = Input(f"{folder}/*.csv")
    ...     files.check_output(Path(folder, "scored.parquet"))  # raises an error for scored.csv
    ...     with files.unchanged(), files.located():  # errors name the file that changed, or the line
    ...         files.check_unchanged()
    ...     len(files.files()), len(files.each()), files.to_json()["format"]
    (1, 1, 'csv')
    """

    source: str | Path | Database | BinaryIO | Sequence[str | Path]
    format: str = ""
    encoding: str = AUTO
    missing: tuple[str, ...] = MISSING
    sheet: str | None = None
    sql: str | None = None
    separator: str | None = None
    layout: Layout = Layout()  # noqa: RUF009  # immutable
    numbers: tuple[str, ...] = ()
    note: Callable[[str], object] | None = field(default=None, repr=False, compare=False)
    _files: tuple[Path, ...] = field(default=(), init=False, repr=False, compare=False)
    _states: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if is_url(self.source):  # from now on, the table is the result
            database = self.source if isinstance(self.source, Database) else Database(cast(str, self.source))
            object.__setattr__(self, "source", database.result(self.sql))
            object.__setattr__(self, "format", "parquet")
            object.__setattr__(self, "sql", None)
        files = () if self.is_stream else files_of(cast(Any, self.source))
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_states", tuple(map(file_state, files)))
        object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "numbers", tuple(self.numbers))
        if isinstance(self.layout, dict):  # from another process
            object.__setattr__(self, "layout", Layout(**self.layout))
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
        """Return the table as it is read for a model: like its training table, unless something else is given."""
        if model is None:
            return self
        trained, numbers = model.summary.reading, model.typed_numbers
        if trained is None:
            return replace(self, numbers=numbers)
        encoding = trained["encoding"] if self.encoding == AUTO else self.encoding
        layout, sheet = self.layout.completed(Layout(**(trained.get("layout") or {}))), self.sheet
        if sheet is None and self.format == "excel":
            sheet = trained.get("sheet")
        missing = tuple(trained["missing"])
        return replace(self, encoding=encoding, missing=missing, layout=layout, sheet=sheet, numbers=numbers)

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
            "layout": self.layout.to_json(),
            "numbers": list(self.numbers),
        }

    def check_output(self, output: Path) -> None:
        """Raise an error if an output is in the folder or matches the pattern, or the next run would read it."""
        if not self.is_single and isinstance(self.source, str | Path):
            check_not_among(self.source, output)

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
        name = source.name if isinstance(source, Path) else "the input"

        def note(text: str) -> None:
            if self.note is not None:
                self.note(f"{name}: {text}")

        if self.format in ("csv", "jsonl"):
            file = TextFile(source, name, self.encoding)
            if self.format == "jsonl":
                yield from json_chunks(file, rows)
            else:
                usual = "\t" if uncompressed_name(name).endswith(".tsv") else ",;\t|"
                signs = self.separator or usual
                found = csv_chunks(file, rows, signs, self.missing, self.layout, raw=raw, note=note)
                yield from with_decimal_commas(found, self.numbers)
            return
        path = cast(Path, source)
        if self.format in ("parquet", "arrow"):
            if not in_turn:
                yield from scanned_chunks(path, self.format, rows)
                return
            frames = batches(path, self.format, rows)
        elif self.format == "excel":
            yield from sheet_chunks(path, self.sheet, rows, self.missing, self.layout, raw=raw, note=note)
            return
        else:
            frames = query_frames(path, self.format, self.sql, rows or CHUNK_ROWS)
        yield from frame_chunks(path.name, frames, self.missing, raw=raw)

    def read(
        self,
        columns: Given | None = None,
        *,
        aside: Collection[str] = (),
        problems: list[CellError] | None = None,
    ) -> tuple[pl.DataFrame, dict[str, Column]]:
        """Read all rows, and also return what the columns mean; `columns` overrules what is found.

        Text in columns that are `aside`, such as ids, stays as it is. Errors about cells are added to `problems`, if it
        is given, instead of being raised.
        """
        table = self.readable_twice()
        with table.located():
            frames = [chunk() for chunk in table.chunks(CHUNK_ROWS, raw=True)]
            if not any(frame.height for frame in frames):
                raise ValueError(f"{self.name} has no rows")
            series = concatenated(frames, self.format).get_columns()
            del frames  # so that text is freed as soon as it is converted
            return self.decided(series, columns or {}, aside, problems)

    def decided(
        self,
        columns: list[pl.Series],
        given: Given,
        aside: Collection[str] = (),
        problems: list[CellError] | None = None,
    ) -> tuple[pl.DataFrame, dict[str, Column]]:
        """Decide what columns of the table mean, and read them; `columns` is emptied."""
        # In JSON, quotes distinguish text from numbers.
        missing = None if self.format == "jsonl" else self.missing
        return understand(columns, given, missing, aside=aside, problems=problems, typed=self.is_typed)

    @contextmanager
    def located(self, positions: NDArray[np.int64] | None = None) -> Iterator[None]:
        """Add the line of the file to errors about a cell, by reading the table again.

        If only some rows of the table were read, `positions` has the position of each of them.
        """
        try:
            yield
        except CellError as error:
            row = error.row if positions is None else int(positions[error.row])
            place = self.places([row]).get(row)
            if place is None:
                raise
            raise error.at(place) from None

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return where rows are in their files, such as "t.csv, line 7", by reading the table again."""
        self.rewind()
        left, first, found = sorted(rows), 0, dict[int, str]()
        for chunk in self.chunks(raw=True) if left else ():
            end = first + chunk().height
            while left and left[0] < end:
                found[left[0]] = chunk.place(left[0] - first)
                del left[0]
            first = end
            if not left:
                break
        return found
