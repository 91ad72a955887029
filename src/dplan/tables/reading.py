"""Read a whole table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl

from dplan.columns.deciding import AS_TEXT, Given
from dplan.tables.chunks import MISSING
from dplan.tables.decoding import AUTO
from dplan.tables.input import Input
from dplan.tables.layout import Layout
from dplan.tables.summary import Reader

__all__ = ["as_text", "read_table"]


def read_table(
    source: str | Path | BinaryIO | Sequence[Path],
    *,
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    encoding: str = AUTO,
    kind: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
    layout: Layout = Layout(),  # noqa: B008  # immutable
    model: Reader | None = None,
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
    layout : Layout, optional
        Where header and rows are in a CSV file or sheet; by default, they are found.
    model : TableModel, optional
        Read the table as that of the model was read, as `TableModel.read` does; `text` cannot be given then.

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
    table = Input(source, kind or "", encoding, tuple(missing), sheet, query, layout=layout)
    if model is None:
        return table.read(as_text(text))[0]
    if text or tuple(missing) != MISSING:
        raise ValueError("text and missing are those of the model; give either them or the model")
    found: pl.DataFrame = model.read(table)
    return found


def as_text(columns: Collection[str]) -> Given:
    """Return that text in these columns stays text, in the form in which meanings are given too."""
    return dict.fromkeys(columns, AS_TEXT)
