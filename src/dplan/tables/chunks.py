"""Tables of any size in chunks: each chunk can be read on its own, in another thread, or be skipped.

Cells of a CSV stay texts here. Their kind comes from the model and never from the cells of one chunk, so what a chunk
gives does not depend on where it begins and ends.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from dplan.tables.reading import MISSING, _check_header, _check_widths

__all__ = ["CHUNK_ROWS", "Chunk", "chunks", "kind_of_file", "n_chunks"]

CHUNK_ROWS = 100_000

Chunk = Callable[[], pl.DataFrame]

_KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def kind_of_file(path: Path) -> str:
    """Tell "csv", "jsonl" and "parquet" by the file's name.

    Examples
    --------
    >>> kind_of_file(Path("a.csv.gz")), kind_of_file(Path("b.parquet"))
    ('csv', 'parquet')
    """
    name = path.name.lower()
    kind = _KINDS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (kind == "parquet" and name.endswith(".gz")):
        raise ValueError(
            f"{path.name} is of no kind that can be read: name it .csv, .tsv, .jsonl (each also with .gz) or .parquet"
        )
    return kind


def chunks(source: Path | BinaryIO, kind: str, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
    r"""Give a table as functions that each read one chunk of rows.

    Parameters
    ----------
    source : path or binary file
        The table; Parquet only from a path.
    kind : {"csv", "jsonl", "parquet"}
        How it is written.
    rows : int
        Rows of a chunk; the last one may have fewer.

    Examples
    --------
    >>> import io
    >>> table = io.BytesIO(b"a,b\n1,x\n2,y\n3,z\n")
    >>> [chunk()["a"].to_list() for chunk in chunks(table, "csv", rows=2)]
    [['1', '2'], ['3']]
    """
    if kind == "parquet":
        yield from _parquet_chunks(cast(Path, source), rows)
        return
    name = source.name if isinstance(source, Path) else "the input"
    with _opened(source) as file:
        try:
            yield from (_csv_chunks if kind == "csv" else _json_chunks)(file, name, rows)
        except (EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{name} is a damaged gzip file: {error}") from error


def n_chunks(source: Path | BinaryIO, kind: str, rows: int) -> int | None:
    """Return the number of chunks if it is known beforehand."""
    if kind != "parquet":
        return None
    return max(1, -(-_height(cast(Path, source)) // rows))


def _height(path: Path) -> int:
    try:
        return int(pl.scan_parquet(path).select(pl.len()).collect().item())
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _parquet_chunks(path: Path, rows: int) -> Iterator[Chunk]:
    scan = pl.scan_parquet(path, glob=False)
    for start in range(0, max(_height(path), 1), rows):
        yield lambda start=start: scan.slice(start, rows).collect()  # type: ignore[misc]


def _opened(source: Path | BinaryIO) -> BinaryIO:
    if not isinstance(source, Path):
        return source
    if source.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(source))
    return source.open("rb")


def _csv_chunks(file: BinaryIO, name: str, rows: int) -> Iterator[Chunk]:
    header = file.readline().removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
    if not header.strip():
        raise ValueError(f"{name} is empty: a header line and rows are needed")
    first_line = _decoded(name, header)
    separator = max(",;\t|", key=first_line.count)
    columns = next(csv.reader([first_line], delimiter=separator))
    _check_header(name, columns)
    line = 2
    while lines := list(islice(file, rows)):
        # A line break inside quotes does not end a row.
        while sum(text.count(b'"') for text in lines) % 2 and (more := file.readline()):
            lines.append(more)
        text = b"".join(lines).rstrip(b"\r\n")
        yield lambda text=text, line=line: _parse_csv(name, header, text, separator, len(columns), line)  # type: ignore[misc]
        line += len(lines)


def _parse_csv(name: str, header: bytes, text: bytes, separator: str, width: int, line: int) -> pl.DataFrame:
    where = name if line == 2 else f"{name} from line {line - 1} on"
    data = header + b"\n" + text
    _check_widths(where, _decoded(where, data), separator, width)
    try:
        table = pl.read_csv(data, separator=separator, infer_schema=False, null_values=list(MISSING))
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{where} cannot be read: {str(error).splitlines()[0]}") from error
    stripped = table.with_columns(pl.all().str.strip_chars())
    return stripped.with_columns(pl.when(~pl.all().is_in(MISSING)).then(pl.all()))


def _json_chunks(file: BinaryIO, name: str, rows: int) -> Iterator[Chunk]:
    line = 1
    while lines := list(islice(file, rows)):
        yield lambda lines=lines, line=line: _parse_json(name, lines, line)  # type: ignore[misc]
        line += len(lines)


def _parse_json(name: str, lines: list[bytes], line: int) -> pl.DataFrame:
    try:
        return pl.read_ndjson(b"".join(lines), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{name}, lines {line} to {line + len(lines) - 1}, cannot be read as JSON lines: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from error
