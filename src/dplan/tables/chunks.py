"""Read tables of any size in chunks, each of which can be read on its own, in another thread.

Values of a text file stay strings here. Their type comes from the model, or from all chunks together
(`dplan.tables.reading.read_table`), never from a single chunk, so it does not depend on where chunks begin and end.
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from dplan.exceptions import CellError, shown
from dplan.tables.frames import check_not_forked
from dplan.tables.separated import check_names, header_of, line_of_row, parse, whole_rows

__all__ = ["CHUNK_ROWS", "MISSING", "Chunk", "ReadOptions", "chunks", "kind_of_file", "n_chunks", "tidy"]

CHUNK_ROWS = 100_000

# Text that means a missing value.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?")

_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_BLOCK = 1 << 24  # bytes read at a time
_MAX_BLANK = 1 << 26  # bytes of consecutive empty lines


@dataclass(frozen=True)
class ReadOptions:
    """How a text file is read. A model stores the options of its training table.

    Attributes
    ----------
    encoding : str
        Text encoding of a CSV, TSV or JSON lines file.
    missing : tuple of str
        Text that means a missing value in CSV and TSV; surrounding spaces are ignored.
    """

    encoding: str = "utf-8"
    missing: tuple[str, ...] = MISSING


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table; calling it reads them.

    Attributes
    ----------
    read : callable
        Returns the rows as a frame.
    place : callable
        Returns the position of a row, counted from 0: ``"t.csv, line 7"`` or ``"t.parquet, row 7"``.
    """

    read: Callable[[], pl.DataFrame]
    place: Callable[[int], str] = lambda row: f"row {row + 1}"

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


def kind_of_file(path: Path) -> str:
    """Return "csv", "jsonl" or "parquet", from the name of a file.

    Examples
    --------
    >>> kind_of_file(Path("a.csv.gz")), kind_of_file(Path("b.parquet"))
    ('csv', 'parquet')
    """
    name = path.name.lower()
    kind = _KINDS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (kind == "parquet" and name.endswith(".gz")):
        raise ValueError(
            f"{path.name}: unsupported file type; use .csv, .tsv, .txt or .jsonl (each also with .gz) or .parquet"
        )
    return kind


def chunks(
    source: Path | BinaryIO,
    kind: str,
    rows: int | None = CHUNK_ROWS,
    options: ReadOptions = ReadOptions(),  # noqa: B008  # immutable
    *,
    raw: bool = False,
) -> Iterator[Chunk]:
    r"""Yield the chunks of a table; each reads its rows when it is called.

    Parameters
    ----------
    source : path or binary file
        The table; Parquet only from a path.
    kind : {"csv", "jsonl", "parquet"}
        Its format.
    rows : int or None
        Rows per chunk; the last chunk and chunks with very long rows may have fewer. None for one chunk.
    options : ReadOptions
        How a text file is read.
    raw : bool, default=False
        Keep the spaces around the values of a CSV or TSV, and missing values surrounded by spaces.

    Examples
    --------
    >>> import io
    >>> table = io.BytesIO(b"a,b\n1,x\n2,y\n3,z\n")
    >>> [chunk()["a"].to_list() for chunk in chunks(table, "csv", rows=2)]
    [['1', '2'], ['3']]
    """
    check_not_forked()
    if kind == "parquet":
        yield from _parquet_chunks(cast(Path, source), rows)
        return
    name = source.name if isinstance(source, Path) else "the input"
    blocks = _text_blocks(source, name, options.encoding)
    if kind == "jsonl":
        for line, text in whole_rows(blocks, rows, name, header=False):
            yield _json_chunk(name, line, text)
        return
    separators = "\t" if name.lower().removesuffix(".gz").endswith(".tsv") else ",;\t|"
    pieces = whole_rows(blocks, rows, name, header=True)
    names, separator = header_of(name, next(pieces)[1], separators)
    for line, text in pieces:
        yield _csv_chunk(name, names, separator, line, text, options.missing, raw)


def n_chunks(source: Path | BinaryIO, kind: str, rows: int) -> int | None:
    """Return the number of chunks if it is known in advance."""
    return max(1, -(-_height(cast(Path, source)) // rows)) if kind == "parquet" else None


def tidy(texts: pl.Expr, missing: Sequence[str]) -> pl.Expr:
    """Strip strings, and replace those that mean a missing value by null."""
    texts = texts.str.strip_chars()
    return pl.when(~texts.is_in(missing)).then(texts)


def _csv_chunk(
    name: str, names: list[str], separator: str, line: int, text: bytes, missing: tuple[str, ...], raw: bool
) -> Chunk:
    def read() -> pl.DataFrame:
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
            raise ValueError(
                bad or f"{name} cannot be read as JSON lines: {str(error).splitlines()[0]}"
            ) from error
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


def _parquet_chunks(path: Path, rows: int | None) -> Iterator[Chunk]:
    height = _height(path)
    scan = pl.scan_parquet(path, glob=False)  # brackets and stars in a name are part of it
    check_names(path.name, scan.collect_schema().names())

    def chunk(start: int) -> Chunk:
        return Chunk(
            lambda: _collected(path, scan.slice(start, rows)),
            lambda row: f"{path.name}, row {start + row + 1}",
        )

    yield from map(chunk, range(0, max(height, 1), rows or max(height, 1)))


def _height(path: Path) -> int:
    return int(_collected(path, pl.scan_parquet(path, glob=False).select(pl.len())).item())


def _collected(path: Path, scan: pl.LazyFrame) -> pl.DataFrame:
    try:
        return scan.collect()
    except _POLARS_ERRORS as error:
        raise ValueError(f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _text_blocks(source: Path | BinaryIO, name: str, encoding: str) -> Iterator[bytes]:
    """Yield a text file as blocks of UTF-8, without a byte order mark and trailing line breaks."""
    try:
        b"".decode(encoding)  # rejects codecs that are not text encodings, such as zlib
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise ValueError(f"unknown encoding {encoding!r}; try utf-8, utf-16 or cp1252") from None
    lines, size, held, empty = 0, 0, b"", True
    for block in _blocks(source, name):
        if (
            size == 0
            and "utf8" in encoding.lower().replace("-", "")
            and block[:2] in (b"\xff\xfe", b"\xfe\xff")
        ):
            raise ValueError(
                f"{name} is encoded in UTF-16; pass its encoding (--encoding utf-16), or save it as UTF-8"
            )
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            byte = size + len(block) - len(error.object) + error.start + 1
            raise ValueError(
                f"{name}, line {line}, byte {byte:,} of the file: 0x{error.object[error.start]:02x} is not valid "
                f"{encoding}; save the file as UTF-8, or pass its encoding (--encoding), such as cp1252"
            ) from error
        if "\0" in text:
            line = lines + text.count("\n", 0, text.index("\0")) + 1
            raise ValueError(
                f"{name}, line {line}: null byte, so this is not a text file; check the file name"
            )
        data = held + (text if size else text.removeprefix("\ufeff")).encode()
        lines, size = lines + text.count("\n"), size + len(block)
        body = data.rstrip(b"\r\n")
        held = data[len(body) :]
        empty = empty and not body.strip()
        if len(held) > _MAX_BLANK:
            raise ValueError(
                f"{name} contains more than {_MAX_BLANK >> 20} MB of empty lines up to line {lines}"
            )
        if body:
            yield body
    if empty:
        raise ValueError(f"{name} is empty; expected a header line and rows")


def _blocks(source: Path | BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed; the last block is empty."""
    opened: BinaryIO = source if not isinstance(source, Path) else source.open("rb")
    try:
        file = opened
        if isinstance(source, Path) and source.name.lower().endswith(".gz"):
            file = cast(BinaryIO, gzip.GzipFile(fileobj=opened))
        while block := file.read(_BLOCK):
            yield block
        yield b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} is a damaged gzip file: {error}") from error
    finally:
        if isinstance(source, Path):
            opened.close()
