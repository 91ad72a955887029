"""Rows of a SQL query on a SQLite or DuckDB file, which is opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from dplan.text import first_line, shown

__all__ = ["query_frames"]


def query_frames(path: Path, format: str, sql: str | None, rows: int) -> Iterator[pl.DataFrame]:
    """Yield the result of a query as frames of at most `rows` rows, at least one frame.

    Parameters
    ----------
    path : path
        The database.
    format : {"sqlite", "duckdb"}
        Its format.
    sql : str or None
        The query; None if the database has a single table or view, which is then the result.
    rows : int
        Rows per frame.
    """
    yield from (_sqlite_frames if format == "sqlite" else _duckdb_frames)(path, sql, rows)


def _only_table(path: Path, names: list[str]) -> str:
    if len(names) == 1:
        return 'SELECT * FROM "' + names[0].replace('"', '""') + '"'
    listed = ", ".join(map(shown, names[:10])) or "none"
    raise ValueError(f"{path.name} is a database; pass a query (--query 'SELECT …'). Its tables: {listed}")


def _sqlite_frames(path: Path, sql: str | None, rows: int) -> Iterator[pl.DataFrame]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            if sql is None:
                tables = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
                sql = _only_table(path, [name for (name,) in database.execute(tables)])
            found = database.execute(sql)
            if found.description is None:
                raise ValueError(f"{path.name}: the query returns no table; use a SELECT statement")
            names = [column[0] for column in found.description]
            first = True
            while (records := found.fetchmany(rows)) or first:
                first = False
                columns = list(zip(*records, strict=True)) or [()] * len(names)
                yield pl.DataFrame([_column(path, n, c) for n, c in zip(names, columns, strict=True)])
    except sqlite3.Error as error:
        raise ValueError(f"{path.name} cannot be queried as SQLite: {error}") from error


def _column(path: Path, name: str, values: tuple[Any, ...]) -> pl.Series:
    """Return a column; as SQLite does not enforce types, it is text unless all values are numbers."""
    types = {type(value) for value in values} - {type(None)}
    if bytes in types:
        raise ValueError(
            f"{path.name}: column {shown(name)} has binary values; leave it out of the query (--query)"
        )
    if types and types <= {int, float}:
        return pl.Series(name, values, pl.Float64 if float in types else pl.Int64, strict=False)
    return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)


def _duckdb_frames(path: Path, sql: str | None, rows: int) -> Iterator[pl.DataFrame]:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ImportError("DuckDB files need duckdb; run  pip install 'dplan-ad[duckdb]'") from error
    # DuckDB streams the result to a file: it may be larger than memory.
    with TemporaryDirectory(prefix="dplan-") as folder:
        result = Path(folder) / "result.parquet"
        try:
            with duckdb.connect(str(path), read_only=True) as database:
                if sql is None:
                    tables = "SELECT table_name FROM information_schema.tables"
                    sql = _only_table(path, [name for (name,) in database.execute(tables).fetchall()])
                target = str(result).replace("'", "''")
                database.execute(f"COPY ({sql.strip().rstrip(';')}) TO '{target}' (FORMAT parquet)")
        except duckdb.Error as error:
            message = first_line(error)
            raise ValueError(f"{path.name} cannot be queried as DuckDB: {message}") from error
        scan = pl.scan_parquet(result, glob=False)
        height = scan.select(pl.len()).collect().item()
        for start in range(0, max(height, 1), rows):
            yield scan.slice(start, rows).collect()
