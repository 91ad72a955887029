"""Rows of a SQL query on a SQLite or DuckDB file.

A file may come from anybody, and its views run with the query. Therefore only one SELECT statement can be run, which
can neither write nor reach other files, and a result is read in pieces of limited size. Ctrl-C and SIGTERM stop it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import polars as pl

from dplan.exceptions import needs
from dplan.text import first_line, shown

__all__ = ["in_thread", "only_table", "query_frames"]

_LONGEST_VALUE = 1_000_000  # bytes of a text
_FRAME_BYTES = 1 << 26  # a frame ends when it has so many, even if it has few rows
_BETWEEN_SIGNALS = 0.1  # seconds
_SQLITE_MEMORY = 1 << 30  # bytes that SQLite itself may use, such as for sorting

# All that a SELECT statement needs.
_SQLITE_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}

Result = TypeVar("Result")


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
        Rows per frame; frames with very long rows have fewer.
    """
    yield from (_sqlite_frames if format == "sqlite" else _duckdb_frames)(path, sql, rows)


def only_table(name: str, tables: list[str]) -> str:
    """Return a query for the only table of a database; raise an error that lists the tables if there are several."""
    if len(tables) == 1:
        return 'SELECT * FROM "' + tables[0].replace('"', '""') + '"'
    listed = ", ".join(map(shown, tables[:10])) or "none"
    raise ValueError(f"{name} is a database; pass a query (--query 'SELECT …'). Its tables: {listed}")


def in_thread(work: Callable[[], Result], interrupt: Callable[[], object]) -> Result:
    """Do something in a thread, so that signals are heeded meanwhile; they interrupt it."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            while not wait([done], timeout=_BETWEEN_SIGNALS).done:
                pass  # a wait without an end would not hear Ctrl-C: polars' handler resumes it
            return done.result()
        except BaseException:
            interrupt()
            raise


def _sqlite_frames(path: Path, sql: str | None, rows: int) -> Iterator[pl.DataFrame]:
    place = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(place, uri=True, check_same_thread=False)) as database:
            database.execute(f"PRAGMA hard_heap_limit = {_SQLITE_MEMORY}")
            if sql is None:
                tables = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
                sql = only_table(path.name, [name for (name,) in database.execute(tables)])
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            database.set_authorizer(_only_reading)
            found = in_thread(lambda: database.execute(sql), database.interrupt)
            if found.description is None:
                raise ValueError(f"{path.name}: the query returns no table; use a SELECT statement")
            names = [column[0] for column in found.description]
            first = True
            while (records := in_thread(lambda: _some(found, rows), database.interrupt)) or first:
                first = False
                columns = list(zip(*records, strict=True)) or [()] * len(names)
                yield pl.DataFrame([_column(path, n, c) for n, c in zip(names, columns, strict=True)])
    except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
        raise ValueError(f"{path.name} cannot be queried as SQLite: {_sqlite_problem(error)}") from error


def _only_reading(action: int, first: str | None, second: str | None, *_: object) -> int:
    allowed = action in _SQLITE_READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _sqlite_problem(error: Exception) -> str:
    message = str(error)
    if "not authorized" in message or "prohibited" in message:
        return f"{message}; use a SELECT statement, which only reads this file"
    if "too big" in message:
        return f"a value is longer than {_LONGEST_VALUE:,} bytes; leave its column out of the query (--query)"
    if isinstance(error, MemoryError) or "out of memory" in message:
        return f"the query needs more than {_SQLITE_MEMORY >> 30} GB of memory; simplify it"
    return message


def _some(found: sqlite3.Cursor, rows: int) -> list[tuple[Any, ...]]:
    """Return the next rows: so many, or fewer if they are large."""
    records: list[tuple[Any, ...]] = []
    size = 0
    for record in found:
        records.append(record)
        size += 32 * len(record) + sum([len(value) for value in record if value.__class__ is str])
        if len(records) == rows or size > _FRAME_BYTES:
            break
    return records


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
        raise needs("reading DuckDB files", "duckdb") from error
    # DuckDB streams the result to a file: it may be larger than memory.
    with TemporaryDirectory(prefix="dplan-") as folder:
        result = Path(folder) / "result.parquet"
        settings = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "temp_directory": folder,
            "allowed_paths": [str(result)],
            "enable_external_access": False,
        }
        try:
            with duckdb.connect(str(path), read_only=True) as database:
                for name, value in settings.items():
                    database.execute(f"SET {name} = ?", [value])
                database.execute("SET lock_configuration = true")
                if sql is None:
                    tables = "SELECT table_name FROM information_schema.tables"
                    sql = only_table(path.name, [name for (name,) in database.execute(tables).fetchall()])
                kinds = [statement.type.name for statement in duckdb.extract_statements(sql)]
                if kinds != ["SELECT"]:
                    raise ValueError(f"{path.name} cannot be queried as DuckDB: use one SELECT statement")
                target = str(result).replace("'", "''")
                copy = f"COPY ({sql.strip().rstrip(';')}\n) TO '{target}' (FORMAT parquet)"
                in_thread(lambda: database.execute(copy), database.interrupt)
        except duckdb.Error as error:
            message = first_line(error)
            raise ValueError(f"{path.name} cannot be queried as DuckDB: {message}") from error
        scan = pl.scan_parquet(result, glob=False)
        height = scan.select(pl.len()).collect().item()
        for start in range(0, max(height, 1), rows):
            yield scan.slice(start, rows).collect()
