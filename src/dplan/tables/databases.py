"""PostgreSQL: the result of a query as a table, and scores into a table of the database.

A result is read once, in pieces, into a temporary Parquet file: without ORDER BY, a second query might return the rows
in another order. The transaction is read-only. Addresses may contain a password, so they are shown without it, in
messages of the server too, and nothing stores them.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import polars as pl

from dplan.exceptions import needs
from dplan.tables.queries import in_thread, only_table
from dplan.text import first_line, shown

__all__ = ["Database", "into_table", "is_url", "result_of"]

_SCHEMES = ("postgresql", "postgres")
_SECRETS = ("password", "sslpassword", "passfile", "sslkey")
_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY (current_schemas(false)) "
    "ORDER BY table_name"
)


def is_url(source: object) -> bool:
    """Return whether a source is the address of a database, and not a file.

    Examples
    --------
    >>> is_url("postgresql://db.example/shop"), is_url("payments.csv")
    (True, False)
    """
    return isinstance(source, Database) or (isinstance(source, str) and "://" in source)


@dataclass(frozen=True)
class Database:
    """The address of a database; as text it has no credentials, so that it can be shown.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database#table``; the table only if something is written there.

    Examples
    --------
    >>> str(Database("postgresql://ann:secret@db.example/shop?sslmode=require&password=x#scores"))
    'postgresql://db.example/shop'
    >>> Database("mysql://db.example/shop")
    Traceback (most recent call last):
    ValueError: mysql:// is not supported; use postgresql://, or export the table to a file
    """

    url: str = field(repr=False)
    _results: dict[str | None, Path] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scheme = self.url.partition("://")[0]
        if scheme not in _SCHEMES:
            raise ValueError(
                f"{scheme}:// is not supported; use postgresql://, or export the table to a file"
            )

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __fspath__(self) -> str:
        """Return the address in place of a path, for messages; nothing is stored under it."""
        return str(self)

    @property
    def name(self) -> str:
        """The name of the database, for messages."""
        return unquote(urlsplit(self.url).path.strip("/")) or "the database"

    @property
    def suffix(self) -> str:
        """That of no file."""
        return ""

    @property
    def parent(self) -> Path:
        """Where files beside the table would be."""
        return Path()

    def is_file(self) -> bool:
        """Return that it is no file."""
        return False

    @property
    def table(self) -> tuple[str | None, str]:
        """The schema, if it is given, and the table to write."""
        schema, _, table = unquote(urlsplit(self.url).fragment).rpartition(".")
        if not table:
            raise ValueError(f"{self}: name the table to write, as in {self}#scores")
        return schema or None, table

    def result(self, sql: str | None) -> Path:
        """Return the file with the result of a query, which is asked for once."""
        if sql not in self._results:
            self._results[sql] = result_of(self, sql)
        return self._results[sql]

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect; errors of the server become one line without credentials."""
        try:
            import adbc_driver_postgresql.dbapi as postgresql
        except ModuleNotFoundError as error:
            raise needs("PostgreSQL", "adbc-driver-postgresql", "pyarrow") from error
        address = urlunsplit(urlsplit(self.url)._replace(fragment=""))
        try:
            with postgresql.connect(address) as connection:
                yield connection
        except postgresql.Error as error:
            raise ValueError(f"{self}: {self._problem(error)}") from None  # the error may have the address

    def _problem(self, error: Exception) -> str:
        text = re.sub(r"^\w+: |\[libpq\] |\. SQLSTATE: \w*$", "", first_line(error).strip())
        parts = urlsplit(self.url)
        hidden = [parts.password or "", *(v for k in _SECRETS for v in parse_qs(parts.query).get(k, ()))]
        for secret in filter(None, (self.url, *hidden, *map(unquote, hidden))):
            text = text.replace(secret, "…")
        if "read-only transaction" in text:
            text += "; use a SELECT statement"
        return text


def result_of(database: Database, sql: str | None) -> Path:
    """Read the result of a query into a temporary Parquet file, which is deleted when the process ends.

    Parameters
    ----------
    database : Database
        The database.
    sql : str or None
        The query; None if the database has a single table or view, which is then the result.
    """
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise needs("PostgreSQL", "adbc-driver-postgresql", "pyarrow") from error
    folder = Path(tempfile.mkdtemp(prefix="dplan-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / re.sub(r"[^\w.-]", "_", database.name)  # what messages call it
    with database.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        if sql is None:
            cursor.execute(_TABLES)
            sql = only_table(database.name, [name for (name,) in cursor.fetchall()])
        query = sql.strip().rstrip(";")
        _run(cursor, lambda: cursor.execute(query))
        reader = cursor.fetch_record_batch()
        names = [one.name for one in reader.schema]
        if not names:
            raise ValueError(f"{database}: the query returns no table; use a SELECT statement")
        if len(set(names)) < len(names):
            raise ValueError(f"{database}: the query returns two columns of one name; rename one with AS")
        writer = None
        for table in _tables(reader, cursor):
            frame = _usable(table, database)
            arrow = frame.to_arrow()
            writer = writer or parquet.ParquetWriter(path, arrow.schema)
            writer.write_table(arrow)
        assert writer is not None  # there is one table, maybe without rows
        writer.close()
    return path


def _run(cursor: Any, work: Callable[[], Any]) -> Any:
    return in_thread(work, cursor.adbc_cancel)


def _tables(reader: Any, cursor: Any) -> Iterator[Any]:
    import pyarrow as pa

    empty = True
    while (batch := _run(cursor, lambda: next(reader, None))) is not None:
        empty = False
        yield pa.Table.from_batches([batch])
    if empty:
        yield reader.schema.empty_table()


def _usable(table: Any, database: Database) -> pl.DataFrame:
    """Return the values with types that columns know: the driver has decimals as text, in a type of its own."""
    columns = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        known = getattr(values.type, "type_name", "")
        if getattr(values.type, "extension_name", "") == "arrow.uuid":
            texts = [None if one is None else str(one) for one in values.to_pylist()]
            columns.append(pl.Series(name, texts, pl.String))
            continue
        if hasattr(values.type, "storage_type"):
            values = values.cast(values.type.storage_type)
        try:
            column = pl.Series(name, pl.from_arrow(values))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError):
            column = pl.Series(name, [], pl.Binary)
        if column.dtype in (pl.Binary, pl.Object):
            what = f"the type {known or values.type}"
            raise ValueError(
                f"{database}: column {shown(name)} has {what}; convert it, or leave it out of the query (--query)"
            )
        columns.append(column.cast(pl.Float64, strict=False) if known == "numeric" else column)
    return pl.DataFrame(columns)


@contextmanager
def into_table(target: Database, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a Parquet file to be written, and copy its rows into a table, in one transaction: all of them or none.

    The table must not exist, unless `overwrite` is set: then it is replaced.
    """
    schema, table = target.table
    found = "SELECT count(*) FROM information_schema.tables WHERE table_name = $1 AND table_schema = "
    with target.connected() as connection, connection.cursor() as cursor:
        if schema is None:
            cursor.execute(f"{found} current_schema()", (table,))
        else:
            cursor.execute(f"{found} $2", (table, schema))
        if cursor.fetchone()[0] and not overwrite:
            raise ValueError(f"{target} already has a table {shown(table)}; use --overwrite to replace it")
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with tempfile.TemporaryDirectory(prefix="dplan-") as folder:
        path, plain = Path(folder) / "scores.parquet", Path(folder) / "plain.parquet"
        yield path
        _plain(pl.scan_parquet(path)).sink_parquet(plain)
        with (
            parquet.ParquetFile(plain) as file,
            target.connected() as connection,
            connection.cursor() as cursor,
        ):
            mode = "replace" if overwrite else "create"
            options = {} if schema is None else {"db_schema_name": schema}
            rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            _run(cursor, lambda: cursor.adbc_ingest(table, rows, mode=mode, **options))
            connection.commit()


def _plain(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return values with types that PostgreSQL has."""
    unsigned = pl.selectors.unsigned_integer() | pl.selectors.by_dtype(pl.Int8)
    return rows.with_columns(
        unsigned.cast(pl.Int64),
        pl.selectors.categorical().cast(pl.String),
        pl.selectors.duration().dt.total_microseconds() / 1e6,
    )
