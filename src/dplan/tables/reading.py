"""Read a whole table: all its chunks, with the type of each column decided once, over all rows.

Nothing is guessed: rows are never truncated or padded, and names are never changed.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.deciding import Given, understand
from dplan.columns.meaning import Meaning
from dplan.exceptions import CellError
from dplan.persistence.atomic import file_state
from dplan.tables.chunks import CHUNK_ROWS, MISSING, ReadOptions, chunks
from dplan.tables.decoding import AUTO
from dplan.tables.sources import files_of, kind_of_file
from dplan.text import shown

__all__ = [
    "Source",
    "as_text",
    "concatenated",
    "decided",
    "is_typed",
    "kind_of_source",
    "located",
    "name_of",
    "read_table",
    "read_understood",
    "rewind",
    "source_of",
    "unchanged",
]

Source = Path | BinaryIO | Sequence[Path]


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
    options = ReadOptions(encoding, tuple(missing), query, sheet)
    return read_understood(source, kind, options, as_text(text))[0]


def read_understood(
    source: str | Path | BinaryIO | Sequence[Path],
    kind: str | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008  # immutable
    columns: Given | None = None,
) -> tuple[pl.DataFrame, dict[str, Meaning]]:
    """Read a table like `read_table`, and also return what its columns mean; `columns` overrules what is found."""
    found = source_of(source)
    kind = kind or kind_of_source(found)
    with located(found, kind, options):
        frames = [chunk() for chunk in chunks(found, kind, CHUNK_ROWS, options, raw=True)]
        if not any(frame.height for frame in frames):
            raise ValueError(f"{name_of(found)} has no rows")
        series = concatenated(frames, kind).get_columns()
        del frames  # so that text is freed as soon as it is converted
        return decided(series, kind, columns or {}, options.missing)


def as_text(columns: Collection[str]) -> dict[str, dict[str, str]]:
    """Return that columns are text, in the form in which other meanings are given too."""
    return {name: {"kind": "category"} for name in columns}


def source_of(table: str | Path | BinaryIO | Sequence[Path]) -> Source:
    """Return the files of a folder or pattern, an existing file, or a binary file that can be read twice."""
    if isinstance(table, str | Path):
        files = files_of(table)
        if files is None and not Path(table).is_file():
            raise FileNotFoundError(f"file not found: {table}")
        return files or Path(table)
    if isinstance(table, Sequence) or table.seekable():
        return table
    return io.BytesIO(table.read())


def name_of(source: Source) -> str:
    """Return the name of a table, for messages."""
    if isinstance(source, Sequence):
        return f"{source[0].parent.name or source[0].parent} ({len(source)} files)"
    return source.name if isinstance(source, Path) else "the input"


def kind_of_source(source: Source) -> str:
    """Return the format of a table; files that are read together have the same."""
    if isinstance(source, Sequence):
        kinds = {kind_of_file(path) for path in source}
        if len(kinds) > 1:
            raise ValueError(f"{name_of(source)} have several formats: {', '.join(sorted(kinds))}")
        return kinds.pop()
    return kind_of_file(source) if isinstance(source, Path) else "csv"


def is_typed(kind: str) -> bool:
    """Return whether a format has the types of its columns, so that they need not be decided."""
    return kind in ("parquet", "arrow", "duckdb")


def concatenated(frames: Sequence[pl.DataFrame], kind: str) -> pl.DataFrame:
    """Return the rows of the chunks of a table, which must have the same columns and types that can be combined."""
    first = frames[0]
    for frame in frames[1:]:
        differing = [] if kind == "jsonl" else sorted(set(frame.columns) ^ set(first.columns))
        if differing:
            listed = ", ".join(map(shown, differing[:10]))
            raise ValueError(f"the files of the table have different columns: {listed}")
        if kind != "sqlite":  # where any column may have any value
            _check_types(first, frame)
    return pl.concat(frames, how="diagonal_relaxed", rechunk=False)


def _check_types(first: pl.DataFrame, frame: pl.DataFrame) -> None:
    for series in frame:
        types = {series.dtype, first.schema.get(series.name, pl.Null())} - {pl.Null()}
        if len(types) > 1 and pl.String() in types:
            raise ValueError(
                f"column {shown(series.name)} is text in one part of the table and {max(types, key=str)} in another; "
                "use one type for the whole column"
            )


def decided(
    columns: list[pl.Series], kind: str, given: Given, missing: Sequence[str]
) -> tuple[pl.DataFrame, dict[str, Meaning]]:
    """Decide what the columns of a table of some format mean, and read them; `columns` is emptied."""
    typed = is_typed(kind)
    # In JSON, quotes distinguish text from numbers.
    return understand(columns, given, None if typed or kind == "jsonl" else missing, typed=typed)


@contextmanager
def located(
    source: Source, kind: str, options: ReadOptions, positions: NDArray[np.int64] | None = None
) -> Iterator[None]:
    """Add the line of the file to errors about a cell of a table, by reading the file again.

    If only some rows of the table were read, `positions` has the position of each of them.
    """
    try:
        yield
    except CellError as error:
        rewind(source)
        row = error.row if positions is None else int(positions[error.row])
        for chunk in chunks(source, kind, CHUNK_ROWS, options, raw=True):
            height = chunk().height
            if row < height:
                raise error.at(chunk.place(row)) from None
            row -= height
        raise


def rewind(source: Source) -> None:
    """Prepare a table to be read again; `source_of` ensures that this works."""
    if not isinstance(source, Path | Sequence):
        source.seek(0)


@contextmanager
def unchanged(paths: list[Path]) -> Iterator[None]:
    """Raise an error if files change during the block: parts of old and new content must not be mixed."""
    before = [file_state(path) for path in paths]

    def check() -> None:
        for path, state in zip(paths, before, strict=True):
            if file_state(path) != state:
                raise ValueError(
                    f"{path} was changed while it was being read; nothing was written, run the command again"
                )

    try:
        yield
    except (Exception, pl.exceptions.PanicException):
        check()  # a change explains most errors better
        raise
    check()
