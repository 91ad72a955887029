"""Read a whole table: all its chunks, with the type of each column decided once, over all rows.

Nothing is guessed: rows are never truncated or padded, and names are never changed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from dplan.exceptions import CellError, shown
from dplan.tables.chunks import CHUNK_ROWS, MISSING, ReadOptions, chunks, kind_of_file, tidy
from dplan.tables.dates import parse_dates

__all__ = ["located", "read_table", "unchanged"]

_FIRST = 1_000  # rows that are tried before all rows


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
        if kind == "parquet":
            return pl.concat(frames)
        columns = pl.concat(frames, rechunk=False).get_columns()
        del frames
        return _converted(columns, text, options.missing if kind == "csv" else None)


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


def _converted(
    columns: list[pl.Series], text: Collection[str], missing: Sequence[str] | None
) -> pl.DataFrame:
    """Decide the type of each text column; `missing` is None if quotes distinguish text from numbers, as in JSON."""

    def converted(series: pl.Series) -> pl.Series:
        if series.dtype != pl.String or series.null_count() == len(series):
            return series
        return _tidied(series, missing) if series.name in text else _decided(series, missing)

    columns.reverse()
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:  # strings are freed as soon as they are converted
        return pl.DataFrame(list(pool.map(converted, (columns.pop() for _ in range(len(columns))))))


def _decided(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    """Convert a text column to numbers, flags or dates if all values are; raise an error if it is mostly numbers."""
    if missing is not None:
        numbers = _all_read(_numbers, texts)
        if numbers is not None:
            return numbers
        texts = _tidied(texts, missing)
    for read in (_numbers, _flags, _dates) if missing is not None else (_dates,):
        values = _all_read(read, texts)
        if values is not None:
            return values
    numbers = texts.cast(pl.Float64, strict=False)
    n_values, n_numbers = len(texts) - texts.null_count(), len(numbers) - numbers.null_count()
    if n_numbers <= n_values / 2:
        return texts
    row = int((numbers.is_null() & texts.is_not_null()).arg_max() or 0)
    advice = "" if missing is None else "treat it as missing (--missing), "
    raise CellError(
        texts.name,
        row,
        f"{shown(texts[row])} is not a number, but {n_numbers:,} of {n_values:,} values are; fix it, {advice}"
        "or read the column as text (--text)",
    )


def _tidied(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    return texts if missing is None else texts.to_frame().select(tidy(pl.all(), missing)).to_series()


def _all_read(read: Callable[[pl.Series], pl.Series], texts: pl.Series) -> pl.Series | None:
    """Return the converted values if a function can convert all of them; the first rows are tried first."""
    for part in (texts.head(_FIRST), texts):
        values = read(part)
        if values.null_count() != part.null_count():
            return None
    return values


def _numbers(texts: pl.Series) -> pl.Series:
    whole = texts.head(_FIRST).cast(pl.Int64, strict=False)
    if whole.null_count() == texts.head(_FIRST).null_count():
        whole = texts.cast(pl.Int64, strict=False)
        if whole.null_count() == texts.null_count():
            return whole
    return texts.cast(pl.Float64, strict=False)


def _flags(texts: pl.Series) -> pl.Series:
    words = texts.str.to_lowercase()
    return (
        pl.select(pl.when(words.is_in(["true", "false"])).then(words == "true")).to_series().alias(texts.name)
    )


def _dates(texts: pl.Series) -> pl.Series:
    dates = parse_dates(texts)
    if not texts.str.contains("[:T]").any():
        return dates.cast(pl.Date)
    return dates.dt.time() if texts.str.contains(r"^\d{1,2}:").all() else dates
