"""Reading anyone's table from CSV, TSV, JSON lines or Parquet, with errors that name the line and what to do.

A table that is read is right: no row was shortened or filled up, no name was changed, no text was guessed at.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from dplan.tables.columns import parse_dates

__all__ = ["MISSING", "read_table"]

# Texts that stand for a missing value.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?")

_SEPARATORS = {".csv": ",;\t|", ".tsv": "\t", ".txt": ",;\t|"}
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PARQUET = (".parquet", ".pq")


def read_table(
    path: str | Path,
    *,
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    encoding: str = "utf-8",
) -> pl.DataFrame:
    """Read a table.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv``, ``.jsonl``, ``.ndjson`` or ``.parquet`` file; all but Parquet also with
        ``.gz``. A CSV may be separated by commas, semicolons, tabs or bars.
    missing : sequence of str
        Texts that stand for a missing value, in CSV and TSV.
    text : collection of str
        Columns to keep as text even if they hold numbers.
    encoding : str, default="utf-8"
        How the characters of a CSV, TSV or JSON lines file are written.

    Returns
    -------
    polars.DataFrame
        With numbers, booleans, dates and texts told apart.

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
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    gzipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if gzipped else suffixes)[-1:]
    suffix = kind[0] if kind else ""
    if suffix in _PARQUET and not gzipped:
        return _read_parquet(path)
    if suffix not in _SEPARATORS and suffix not in _JSON_LINES:
        raise ValueError(
            f"{path.name} is of no kind that can be read: "
            "name it .csv, .tsv, .jsonl (each also with .gz) or .parquet"
        )
    data = _decoded(path, gzipped, encoding)
    if suffix in _JSON_LINES:
        return _read_json_lines(path.name, data, text)
    return _read_separated(path.name, data, _SEPARATORS[suffix], missing, text)


def _decoded(path: Path, gzipped: bool, encoding: str) -> str:
    data = path.read_bytes()
    if gzipped:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path.name} is a damaged gzip file: {error}") from error
    if encoding.lower() in ("utf-8", "utf8") and data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(
            f"{path.name} is written in UTF-16, not UTF-8: pass encoding='utf-16', or save it as UTF-8"
        )
    try:
        decoded = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = error.start - data.rfind(b"\n", 0, error.start)
        raise ValueError(
            f"{path.name}, line {line}, byte {byte}: 0x{data[error.start]:02x} is not {encoding}; save the "
            "file as UTF-8, or pass the encoding that it has, such as encoding='cp1252'"
        ) from error
    except LookupError as error:
        raise ValueError(f"no encoding is called {encoding!r}") from error
    if "\0" in decoded:
        raise ValueError(f"{path.name} holds zero bytes, so it is no text: is it named rightly?")
    decoded = decoded.removeprefix("\ufeff").rstrip("\r\n")
    if not decoded.strip():
        raise ValueError(f"{path.name} is empty: a header line and rows are needed")
    return decoded


def _read_parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _read_separated(
    name: str, data: str, separators: str, missing: Sequence[str], text: Collection[str]
) -> pl.DataFrame:
    first_line = data.split("\n", 1)[0]
    separator = max(separators, key=first_line.count)
    header = next(csv.reader([first_line], delimiter=separator))
    _check_header(name, header)
    _check_widths(name, data, separator, len(header))
    try:
        table = pl.read_csv(
            data.encode(),
            separator=separator,
            infer_schema_length=None,
            try_parse_dates=True,
            null_values=list(missing),
            schema_overrides=dict.fromkeys(set(text) & set(header), pl.String),
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{name} cannot be read: {str(error).splitlines()[0]}") from error
    if table.height == 0:
        raise ValueError(f"{name} has a header but no rows")
    return table.with_columns(
        _number_or_text(name, series.str.strip_chars(), missing)
        for series in table
        if series.dtype == pl.String and series.name not in text
    )


def _read_json_lines(name: str, data: str, text: Collection[str]) -> pl.DataFrame:
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("{"):
            raise ValueError(f"{name}, line {number}: a JSON object in braces is needed, found {line[:40]!r}")
    try:
        table = pl.read_ndjson(io.BytesIO(data.encode()), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise ValueError(_bad_json_line(name, data) or f"{name}: {str(error).splitlines()[0]}") from error
    return table.with_columns(
        _date_or_text(name, series)
        for series in table
        if series.dtype == pl.String and series.name not in text
    )


def _bad_json_line(name: str, data: str) -> str:
    kinds: dict[str, type] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            return f"{name}, line {number}: no JSON ({error})"
        for key, value in record.items():
            kind = float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
            if value is not None and kinds.setdefault(key, kind) is not kind:
                return (
                    f"{name}, line {number}: column {key!r} holds {value!r} here and another type before; "
                    "give all values one type"
                )
    return ""


def _number_or_text(name: str, series: pl.Series, missing: Sequence[str]) -> pl.Series:
    """Read a text column as numbers if all of it is, leave it if hardly any is, and refuse what is mixed."""
    if missing:
        series = series.set(series.is_in(list(missing)), None)
    numbers = series.cast(pl.Float64, strict=False)
    n_values, n_numbers = len(series) - series.null_count(), len(numbers) - numbers.null_count()
    if n_numbers <= n_values / 2:
        return series
    if n_numbers == n_values:
        return numbers
    row = int(np.flatnonzero((numbers.is_null() & series.is_not_null()).to_numpy())[0])
    raise ValueError(
        f"{name}, column {series.name!r}, row {row + 1} (the header not counted): {series[row]!r} "
        f"is no number, while {n_numbers:,} of {n_values:,} values are; correct it, "
        f"name it as missing (missing=), or keep the column as text (text={[series.name]!r})"
    )


def _date_or_text(name: str, series: pl.Series) -> pl.Series:
    """Read a text column of JSON lines as dates if all of it is; JSON itself knows no dates."""
    dates = parse_dates(series)
    if dates.null_count() == series.null_count() < len(series):
        return dates if series.str.contains(":", literal=True).any() else dates.cast(pl.Date)
    _number_or_text(name, series, ())  # what mixes numbers and texts is refused
    return series


def _check_header(name: str, header: list[str]) -> None:
    for position, column in enumerate(header):
        if not column.strip():
            raise ValueError(f"{name}: column {position + 1} has no name in the header; give it one")
        if column in header[:position]:
            places = f"{header.index(column) + 1} and {position + 1}"
            raise ValueError(f"{name}: the header names {column!r} twice (columns {places}); rename one")
    if all(_is_number(column) for column in header):
        raise ValueError(
            f"{name}: the first line holds only numbers ({', '.join(header[:3])}, …), so it is no header; "
            "put a line with the columns' names before it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_widths(name: str, data: str, separator: str, width: int) -> None:
    """Refuse rows with more or fewer values than the header has; polars would fill up the short ones."""
    for line, found in _widths(name, data, separator):
        if found != width and not (width == 1 and found == 0):
            what = "is empty" if found == 0 else f"has {found} values"
            raise ValueError(
                f"{name}, line {line} {what}, the header has {width}: add or remove values; "
                f"a {separator!r} inside a value needs quotes around the value"
            )


def _widths(name: str, data: str, separator: str) -> Iterator[tuple[int, int]]:
    """Give the line and the number of values of rows that may be wrong."""
    if '"' not in data:  # then lines are rows, and counting bytes is a hundred times as fast
        raw = np.frombuffer(data.encode() + b"\n", dtype=np.uint8)
        ends = np.flatnonzero(raw == ord("\n"))
        separators_before = np.searchsorted(np.flatnonzero(raw == ord(separator)), ends)
        widths = np.diff(separators_before, prepend=0) + 1
        blank = np.diff(ends, prepend=-1) == 1
        blank |= (np.diff(ends, prepend=-1) == 2) & (raw[ends - 1] == ord("\r"))
        widths[blank] = 0
        for row in np.flatnonzero(widths != widths[0])[:1].tolist():
            yield row + 1, int(widths[row])
        return
    reader = csv.reader(io.StringIO(data, newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        for values in reader:
            yield line, len(values)
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{name}, line {line}: {error}; close every quote and double those inside values"
        ) from error
