"""Read a whole table: all its chunks, with the type of each column decided once, over all rows.

Nothing is guessed: rows are never truncated or padded, and names are never changed.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from dplan.exceptions import CellError
from dplan.tables.chunks import CHUNK_ROWS, MISSING, ReadOptions, chunks, kind_of_file
from dplan.tables.understanding.deciding import Given, understand
from dplan.tables.understanding.meaning import Meaning

__all__ = ["located", "read_table", "read_understood", "unchanged"]


def read_table(
    source: str | Path | BinaryIO,
    *,
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    encoding: str = "utf-8",
    kind: str | None = None,
) -> pl.DataFrame:
    """Read a table.

    Parameters
    ----------
    source : path or binary file
        A ``.csv``, ``.tsv``, ``.txt``, ``.jsonl``, ``.ndjson`` or ``.parquet`` file; all but Parquet also with
        ``.gz``. A CSV may be separated by commas, semicolons, tabs or pipes.
    missing : sequence of str
        Text that means a missing value, in CSV and TSV.
    text : collection of str
        Columns to read as text even if they contain numbers.
    encoding : str, default="utf-8"
        Text encoding of a CSV, TSV or JSON lines file.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format of the table; None to use the file name.

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
    return read_understood(source, missing=missing, text=text, encoding=encoding, kind=kind)[0]


def read_understood(
    source: str | Path | BinaryIO,
    *,
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    columns: Given | None = None,
    encoding: str = "utf-8",
    kind: str | None = None,
) -> tuple[pl.DataFrame, dict[str, Meaning]]:
    """Read a table like `read_table`, and also return what its columns mean; `columns` overrules what is found."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f"file not found: {path}")
        source, name, kind = path, path.name, kind or kind_of_file(path)
    else:
        source, name, kind = source, "the input", kind or "csv"
        if not source.seekable():
            source = io.BytesIO(source.read())
    options = ReadOptions(encoding, tuple(missing))
    with located(source, kind, options):
        whole = None if kind == "jsonl" else CHUNK_ROWS
        frames = [chunk() for chunk in chunks(source, kind, whole, options, raw=True)]
        if not frames or frames[0].height == 0:
            raise ValueError(f"{name} has a header but no rows")
        series = pl.concat(frames, rechunk=False).get_columns()
        del frames
        given = {**{name: {"kind": "category"} for name in text}, **(columns or {})}
        missing_text = options.missing if kind == "csv" else None
        return understand(series, given, missing_text, typed=kind == "parquet")


@contextmanager
def located(source: Path | BinaryIO, kind: str, options: ReadOptions) -> Iterator[None]:
    """Add the line of the file to errors about a cell of a whole table, by reading the file again."""
    try:
        yield
    except CellError as error:
        if not isinstance(source, Path):
            source.seek(0)  # `from_table` and `read_table` ensure that this works
        row = error.row
        for chunk in chunks(source, kind, CHUNK_ROWS, options, raw=True):
            height = chunk().height
            if row < height:
                raise error.at(chunk.place(row)) from None
            row -= height
        raise


@contextmanager
def unchanged(paths: list[Path]) -> Iterator[None]:
    """Raise an error if files change during the block: parts of old and new content must not be mixed."""
    before = [_state(path) for path in paths]

    def check() -> None:
        for path, state in zip(paths, before, strict=True):
            if _state(path) != state:
                raise ValueError(
                    f"{path} was changed while it was being read; nothing was written, run the command again"
                )

    try:
        yield
    except (Exception, pl.exceptions.PanicException):
        check()  # a change explains most errors better
        raise
    check()


def _state(path: Path) -> tuple[int, ...] | None:
    # Unlike the modification time, the time of the last status change cannot be set.
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
