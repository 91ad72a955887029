"""The chunks of a table in each format; each chunk can be read on its own, in another thread.

Values of a text file stay strings here. Their type comes from the model, or from all chunks together
(`dplan.tables.input.Input.read`), never from a single chunk, so it does not depend on where chunks begin and end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from dplan.columns.numerals import Convention, read_numbers
from dplan.exceptions import CellError
from dplan.tables.csv_syntax import check_names, whole_rows
from dplan.tables.decoding import TextFile
from dplan.text import first_line, shown

__all__ = [
    "CHUNK_ROWS",
    "MISSING",
    "Chunk",
    "Conventions",
    "batches",
    "concatenated",
    "frame_chunks",
    "json_chunks",
    "n_chunks",
    "scanned_chunks",
    "tidy",
    "with_decimal_commas",
]

CHUNK_ROWS = 100_000

# Text that means a missing value.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?", ".", "#N/A", "<NA>")

_POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


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


def tidy(texts: pl.Expr, missing: Sequence[str]) -> pl.Expr:
    """Strip strings, and replace those that mean a missing value by null."""
    texts = texts.str.strip_chars()
    return pl.when(~texts.is_in(missing)).then(texts)


def with_decimal_commas(chunks: Iterable[Chunk], numbers: Sequence[str]) -> Iterator[Chunk]:
    """Yield the chunks of a CSV file; if it has decimal commas, these columns become numbers."""
    for chunk in chunks:
        comma = chunk.conventions is not None and chunk.conventions.decimal == ","
        yield replace(chunk, read=partial(_numbers_read, chunk.read, numbers)) if comma and numbers else chunk


def _numbers_read(read: Callable[[], pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    frame = read()
    texts = [frame[name] for name in names if name in frame.columns and frame[name].dtype == pl.String]
    return frame.with_columns([_with_point(text) for text in texts])


def _with_point(texts: pl.Series) -> pl.Series:
    """Return text with decimal commas as numbers; if some of it is not a number, the rest is text with points."""
    numbers = read_numbers(texts, Convention(",", "."), "")
    if numbers.null_count() == texts.null_count():
        return numbers
    return numbers.cast(pl.String).fill_null(texts)


def json_chunks(file: TextFile, rows: int | None) -> Iterator[Chunk]:
    """Yield the chunks of a JSON lines file."""
    for line, text in whole_rows(file.blocks(may_be_empty=True), rows, file.name, quotes=False):
        yield replace(_json_chunk(file.name, line, text), share=file.share())


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
    types: dict[str, type] = {}
    for number, row in enumerate(text.split(b"\n"), start=line):
        if not row.strip():
            continue
        try:
            record = json.loads(row)
        except (ValueError, RecursionError) as error:
            return f"{name}, line {number}: not valid JSON ({error})"
        for key, value in record.items():
            found = float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
            if value is not None and types.setdefault(key, found) is not found:
                return (
                    f"{name}, line {number}: column {shown(key)} is {shown(value)} here but has a different type in "
                    "earlier lines; use one type for the whole column"
                )
    return ""


# Brackets and stars in a file name are part of it.
_SCANS: dict[str, Callable[[Path], pl.LazyFrame]] = {
    "parquet": lambda path: pl.scan_parquet(path, glob=False),
    "arrow": lambda path: pl.scan_ipc(path, glob=False),
}


def scanned_chunks(path: Path, format: str, rows: int | None) -> Iterator[Chunk]:
    """Yield the chunks of a Parquet or Arrow file; each reads its rows when it is called."""
    height = _height(path, format)
    scan = _SCANS[format](path)
    check_names(path.name, scan.collect_schema().names())
    step = rows or max(height, 1)

    def chunk(start: int) -> Chunk:
        return Chunk(
            lambda: _collected(path, format, scan.slice(start, rows)),
            lambda row: f"{path.name}, row {start + row + 1}",
            min(1.0, (start + step) / max(height, 1)),
        )

    yield from map(chunk, range(0, max(height, 1), step))


def n_chunks(path: Path, format: str, rows: int) -> int | None:
    """Return the number of chunks of a file if it is known in advance."""
    return max(1, -(-_height(path, format) // rows)) if format in _SCANS else None


def _height(path: Path, format: str) -> int:
    return int(_collected(path, format, _SCANS[format](path).select(pl.len())).item())


def _collected(path: Path, format: str, scan: pl.LazyFrame) -> pl.DataFrame:
    with _readable(path, format):
        return scan.collect()


@contextmanager
def _readable(path: Path, format: str) -> Iterator[None]:
    try:
        yield
    except _POLARS_ERRORS as error:
        raise ValueError(
            f"{path.name} cannot be read as {format.capitalize()}: {first_line(error)}"
        ) from error


def frame_chunks(
    name: str, frames: Iterator[pl.DataFrame], missing: tuple[str, ...], *, raw: bool
) -> Iterator[Chunk]:
    """Yield the chunks of a table that is read here, frame by frame."""
    start = 0
    for frame in frames:
        check_names(name, frame.columns)
        if not raw:
            frame = frame.with_columns(tidy(pl.col(pl.String), missing).name.keep())
        yield Chunk(partial(_same, frame), partial(_row_of, name, start))
        start += frame.height


def _same(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def _row_of(name: str, start: int, row: int) -> str:
    return f"{name}, row {start + row + 1}"


def batches(path: Path, format: str, rows: int | None) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet or Arrow file in one pass.

    Chunks that are read on their own may decompress the same row group several times.
    """
    scan = _SCANS[format](path)
    empty = _collected(path, format, scan.head(0))
    with _readable(path, format):
        found = iter(scan.collect_batches(chunk_size=rows, maintain_order=True))
        yield next(found, empty)
        yield from found


def concatenated(frames: Sequence[pl.DataFrame], format: str) -> pl.DataFrame:
    """Return the rows of the chunks of a table, which must have the same columns and types that can be combined."""
    first = frames[0]
    for frame in frames[1:]:
        differing = [] if format == "jsonl" else sorted(set(frame.columns) ^ set(first.columns))
        if differing:
            listed = ", ".join(map(shown, differing[:10]))
            raise ValueError(f"the files of the table have different columns: {listed}")
        if format != "sqlite":  # where any column may have any value
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
