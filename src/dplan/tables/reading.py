"""Reading a whole table: all its chunks, with the kind of each column decided once, over all rows.

A table that is read is right: no row was shortened or filled up, no name was changed, no text was guessed at.
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

__all__ = ["located", "read_table"]

_FIRST = 1_000  # rows that are tried before all are


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
        ``.gz``. A CSV may be separated by commas, semicolons, tabs or bars.
    missing : sequence of str
        Texts that stand for a missing value, in CSV and TSV.
    text : collection of str
        Columns to keep as text even if they hold numbers.
    encoding : str, default="utf-8"
        Text encoding of a CSV, TSV or JSON lines file.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format of the table, if its name does not tell.

    Returns
    -------
    polars.DataFrame
        With columns of numbers, booleans, dates, times and texts.

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
            raise FileNotFoundError(f"there is no file {path}")
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
        return _understood(columns, text, options.missing if kind == "csv" else None)


@contextmanager
def located(source: Path | BinaryIO, kind: str, options: ReadOptions) -> Iterator[None]:
    """Let errors about a cell of a whole table say where it stands in the file, which is looked through again."""
    try:
        yield
    except CellError as error:
        if not isinstance(source, Path):
            source.seek(0)  # `from_table` and `read_table` see to it that this can be done
        row = error.row
        for chunk in chunks(source, kind, CHUNK_ROWS, options, raw=True):
            height = chunk().height
            if row < height:
                raise error.at(chunk.place(row)) from None
            row -= height
        raise


def _understood(
    columns: list[pl.Series], text: Collection[str], missing: Sequence[str] | None
) -> pl.DataFrame:
    """Decide what each column of texts holds; `missing` is None if quotes told texts from numbers, as in JSON."""

    def understood(series: pl.Series) -> pl.Series:
        if series.dtype != pl.String or series.null_count() == len(series):
            return series
        return _tidied(series, missing) if series.name in text else _decided(series, missing)

    columns.reverse()
    with ThreadPoolExecutor(
        pl.thread_pool_size()
    ) as pool:  # texts are given up as soon as they are understood
        return pl.DataFrame(list(pool.map(understood, (columns.pop() for _ in range(len(columns))))))


def _decided(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    """Read a column of texts as numbers, flags or dates if all of it is, and refuse what mixes numbers with texts."""
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
    advice = "" if missing is None else "add it to the marks of missing values (--missing), "
    raise CellError(
        texts.name,
        row,
        f"{shown(texts[row])} is not a number, while {n_numbers:,} of {n_values:,} values are; correct it, {advice}"
        "or keep the column as text (--text)",
    )


def _tidied(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    return texts if missing is None else texts.to_frame().select(tidy(pl.all(), missing)).to_series()


def _all_read(read: Callable[[pl.Series], pl.Series], texts: pl.Series) -> pl.Series | None:
    """Return what a function reads from texts if it can read all of them; a few at the beginning mostly tell."""
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
