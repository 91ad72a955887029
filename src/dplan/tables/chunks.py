"""Read tables of any size in chunks, each of which can be read on its own, in another thread.

Values of a text file stay strings here. Their type comes from the model, or from all chunks together
(`dplan.tables.reading.read_table`), never from a single chunk, so it does not depend on where chunks begin and end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from dplan.columns.frames import check_not_forked
from dplan.exceptions import CellError
from dplan.tables.decoding import AUTO, TextFile, uncompressed_name
from dplan.tables.queries import query_frames
from dplan.tables.separated import check_names, decimal_of, header_of, line_of_row, parse, whole_rows
from dplan.tables.sources import kind_of_file
from dplan.text import first_line, shown

__all__ = [
    "CHUNK_ROWS",
    "MISSING",
    "Chunk",
    "Conventions",
    "ReadOptions",
    "chunks",
    "n_chunks",
    "tidy",
]

CHUNK_ROWS = 100_000

# Text that means a missing value.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?")

_POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read. A model stores the encoding and the missing values of its training table.

    Attributes
    ----------
    encoding : str
        Text encoding of a CSV, TSV or JSON lines file; "auto" to detect it.
    missing : tuple of str
        Text that means a missing value in CSV, TSV, Excel and SQLite; surrounding spaces are ignored.
    query : str, optional
        SQL query whose result is the table, for a database.
    sheet : str, optional
        Sheet of an Excel file; None for the first one.
    """

    encoding: str = AUTO
    missing: tuple[str, ...] = MISSING
    query: str | None = None
    sheet: str | None = None


@dataclass(frozen=True)
class Conventions:
    """How a CSV or TSV file is written: its separator, its decimal sign, and whether it needs a byte order mark."""

    separator: str = ","
    decimal: str = "."
    mark: bool = False


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table; calling it reads them.

    Attributes
    ----------
    read : callable
        Returns the rows as a frame.
    place : callable
        Returns the position of a row, counted from 0: ``"t.csv, line 7"`` or ``"t.parquet, row 7"``.
    share : float, optional
        The fraction of its file up to the end of the chunk, if it is known.
    conventions : Conventions, optional
        How the file is written, if it is a CSV or TSV.
    """

    read: Callable[[], pl.DataFrame]
    place: Callable[[int], str] = lambda row: f"row {row + 1}"
    share: float | None = None
    conventions: Conventions | None = None

    def __call__(self) -> pl.DataFrame:
        """Read the rows."""
        return self.read()

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add the position in the file to errors about a cell."""
        try:
            yield
        except CellError as error:
            raise error.at(self.place(error.row)) from None


def chunks(
    source: Path | BinaryIO | Sequence[Path],
    kind: str | None = None,
    rows: int | None = CHUNK_ROWS,
    options: ReadOptions = ReadOptions(),  # noqa: B008  # immutable
    *,
    raw: bool = False,
    in_turn: bool = False,
) -> Iterator[Chunk]:
    r"""Yield the chunks of a table, at least one; each reads its rows when it is called.

    Parameters
    ----------
    source : path, binary file or sequence of paths
        The table, or its files in order; only CSV and JSON lines from a binary file.
    kind : str, optional
        Its format, as from `dplan.tables.sources.kind_of_file`; None to use the file name.
    rows : int or None
        Rows per chunk; the last chunk and chunks with very long rows may have fewer. None for one chunk.
    options : ReadOptions
        How a file is read.
    raw : bool, default=False
        Keep the spaces around the values of a text column, and missing values surrounded by spaces.
    in_turn : bool, default=False
        Read each chunk of a Parquet or Arrow file as it is yielded. This takes one pass over the file, whereas chunks
        that are read on their own may decompress the same row group several times.

    Examples
    --------
    >>> import io
    >>> table = io.BytesIO(b"a,b\n1,x\n2,y\n3,z\n")
    >>> [chunk()["a"].to_list() for chunk in chunks(table, "csv", rows=2)]
    [['1', '2'], ['3']]
    """
    check_not_forked()
    if isinstance(source, Sequence):
        for i, path in enumerate(source):
            for chunk in chunks(path, None, rows, options, raw=raw, in_turn=in_turn):
                share = None if chunk.share is None else (i + chunk.share) / len(source)
                yield replace(chunk, share=share)
        return
    kind = kind or kind_of_file(cast(Path, source))
    if kind in _SCANS and not in_turn:
        yield from _scanned_chunks(cast(Path, source), kind, rows)
    elif kind in ("csv", "jsonl"):
        yield from _text_chunks(source, kind, rows, options, raw)
    else:
        yield from _typed_chunks(cast(Path, source), kind, rows, options, raw)


def n_chunks(source: Path | BinaryIO, kind: str | None, rows: int) -> int | None:
    """Return the number of chunks if it is known in advance."""
    kind = kind or kind_of_file(cast(Path, source))
    return max(1, -(-_height(cast(Path, source), kind) // rows)) if kind in _SCANS else None


def tidy(texts: pl.Expr, missing: Sequence[str]) -> pl.Expr:
    """Strip strings, and replace those that mean a missing value by null."""
    texts = texts.str.strip_chars()
    return pl.when(~texts.is_in(missing)).then(texts)


def _text_chunks(
    source: Path | BinaryIO, kind: str, rows: int | None, options: ReadOptions, raw: bool
) -> Iterator[Chunk]:
    name = source.name if isinstance(source, Path) else "the input"
    file = TextFile(source, name, options.encoding)
    if kind == "jsonl":
        for line, text in whole_rows(file.blocks(may_be_empty=True), rows, name, header=False):
            yield replace(_json_chunk(name, line, text), share=file.share())
        return
    pieces = whole_rows(file.blocks(), rows, name, header=True)
    separators = "\t" if uncompressed_name(name).endswith(".tsv") else ",;\t|"
    names, separator = header_of(name, next(pieces)[1], separators)
    conventions = None
    first = next(pieces, (2, b""))  # a header without rows is a table without rows
    for line, text in chain([first], pieces):
        chunk = _csv_chunk(name, names, separator, line, text, options.missing, raw)
        if conventions is None:
            marked = file.has_mark or file.encoding != "utf-8"
            conventions = Conventions(separator, decimal_of(text, separator), marked)
        yield replace(chunk, share=file.share(), conventions=conventions)


def _csv_chunk(
    name: str, names: list[str], separator: str, line: int, text: bytes, missing: tuple[str, ...], raw: bool
) -> Chunk:
    def read() -> pl.DataFrame:
        if not text:
            return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        table = parse(name, names, separator, line, text, missing)
        return table if raw else table.select(tidy(pl.all(), missing))

    return Chunk(read, lambda row: f"{name}, line {line + line_of_row(text, row)}")


def _json_chunk(name: str, line: int, text: bytes) -> Chunk:
    def read() -> pl.DataFrame:
        _check_braces(name, line, text)
        try:
            table = pl.read_ndjson(text, infer_schema_length=None)
        except _POLARS_ERRORS as error:
            bad = _bad_json_line(name, line, text)
            raise ValueError(bad or f"{name} cannot be read as JSON lines: {first_line(error)}") from error
        check_names(name, table.columns)
        return table

    def place(row: int) -> str:
        filled = [number for number, row in enumerate(text.split(b"\n"), start=line) if row.strip()]
        return f"{name}, line {filled[row]}"

    return Chunk(read, place)


def _check_braces(name: str, line: int, text: bytes) -> None:
    for number, row in enumerate(text.split(b"\n"), start=line):
        if row.strip() and not row.lstrip().startswith(b"{"):
            found = shown(row[:240].decode(errors="replace"))
            raise ValueError(f"{name}, line {number}: expected a JSON object, got {found}")


def _bad_json_line(name: str, line: int, text: bytes) -> str:
    kinds: dict[str, type] = {}
    for number, row in enumerate(text.split(b"\n"), start=line):
        if not row.strip():
            continue
        try:
            record = json.loads(row)
        except (ValueError, RecursionError) as error:
            return f"{name}, line {number}: not valid JSON ({error})"
        for key, value in record.items():
            kind = float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
            if value is not None and kinds.setdefault(key, kind) is not kind:
                return (
                    f"{name}, line {number}: column {shown(key)} is {shown(value)} here but has a different type in "
                    "earlier lines; use one type for the whole column"
                )
    return ""


def _scanned_chunks(path: Path, kind: str, rows: int | None) -> Iterator[Chunk]:
    height = _height(path, kind)
    scan = _SCANS[kind](path)
    check_names(path.name, scan.collect_schema().names())
    step = rows or max(height, 1)

    def chunk(start: int) -> Chunk:
        return Chunk(
            lambda: _collected(path, kind, scan.slice(start, rows)),
            lambda row: f"{path.name}, row {start + row + 1}",
            min(1.0, (start + step) / max(height, 1)),
        )

    yield from map(chunk, range(0, max(height, 1), step))


# Brackets and stars in a file name are part of it.
_SCANS: dict[str, Callable[[Path], pl.LazyFrame]] = {
    "parquet": lambda path: pl.scan_parquet(path, glob=False),
    "arrow": lambda path: pl.scan_ipc(path, glob=False),
}


def _height(path: Path, kind: str) -> int:
    return int(_collected(path, kind, _SCANS[kind](path).select(pl.len())).item())


def _collected(path: Path, kind: str, scan: pl.LazyFrame) -> pl.DataFrame:
    with _readable(path, kind):
        return scan.collect()


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except _POLARS_ERRORS as error:
        raise ValueError(f"{path.name} cannot be read as {kind.capitalize()}: {first_line(error)}") from error


def _typed_chunks(
    path: Path, kind: str, rows: int | None, options: ReadOptions, raw: bool
) -> Iterator[Chunk]:
    """Yield the chunks of a typed file or a query, which are read here."""
    frames: Iterator[pl.DataFrame]
    if kind in _SCANS:
        frames = _batches(path, kind, rows)
    elif kind == "excel":
        sheet = _sheet(path, options.sheet)
        frames = sheet.iter_slices(rows or max(sheet.height, 1)) if sheet.height else iter([sheet])
    else:
        frames = query_frames(path, kind, options.query, rows or CHUNK_ROWS)
    start = 0
    for frame in frames:
        check_names(path.name, frame.columns)
        if not raw:
            frame = frame.with_columns(tidy(pl.col(pl.String), options.missing).name.keep())
        yield Chunk(partial(_same, frame), partial(_row_of, path.name, start))
        start += frame.height


def _batches(path: Path, kind: str, rows: int | None) -> Iterator[pl.DataFrame]:
    scan = _SCANS[kind](path)
    empty = _collected(path, kind, scan.head(0))
    with _readable(path, kind):
        batches = iter(scan.collect_batches(chunk_size=rows, maintain_order=True))
        yield next(batches, empty)
        yield from batches


def _same(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def _row_of(name: str, start: int, row: int) -> str:
    return f"{name}, row {start + row + 1}"


def _sheet(path: Path, sheet: str | None) -> pl.DataFrame:
    try:
        import fastexcel  # noqa: F401  # polars reads Excel files with it
    except ModuleNotFoundError as error:
        raise ImportError("Excel files need fastexcel; run  pip install 'dplan-ad[excel]'") from error
    try:
        return pl.read_excel(path, sheet_name=sheet, infer_schema_length=None, raise_if_empty=False)
    except Exception as error:  # fastexcel has its own errors
        raise ValueError(f"{path.name} cannot be read as Excel: {first_line(error)}") from error
