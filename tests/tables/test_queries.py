"""Queries only read the database that they are about, need limited memory, and stop when they are told to."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from dplan.tables import read_table
from dplan.tables.input import Input

COUNT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n{}) "


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a, b)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y")])
    database.close()
    return path


@pytest.fixture
def duck(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "secret.csv").write_text("a,b\n1,secret\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT range AS a FROM range(3)")
        database.execute(f"CREATE VIEW leak AS SELECT * FROM read_csv('{tmp_path}/secret.csv')")
    return tmp_path / "t.duckdb"


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH 'other.db' AS other",
        "CREATE TABLE u (a)",
        "DELETE FROM t",
        "PRAGMA journal_mode = WAL",
        "VACUUM INTO 'copy.db'",
        "SELECT load_extension('x')",
        "SELECT * FROM t; DELETE FROM t",
    ],
)
def test_sqlite_runs_one_select_statement(sql, sqlite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be queried as SQLite: .*(SELECT|one statement|denied)"):
        read_table(sqlite, query=sql)
    assert read_table(sqlite).rows() == [(1, "x"), (2, "y")]
    assert os.listdir(tmp_path) == ["t.db"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM leak",
        "SELECT * FROM '{0}/secret.csv'",
        "SELECT * FROM read_text('{0}/secret.csv')",
        "COPY t TO '{0}/out.csv'",
        "ATTACH '{0}/new.db' AS n",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "SELECT * FROM t) TO '{0}/out.csv' (FORMAT csv); --",
    ],
)
def test_duckdb_reaches_no_other_file(sql, duck, tmp_path):
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(ValueError, match="cannot be queried as DuckDB"):
        read_table(duck, query=sql.format(tmp_path))
    assert sorted(os.listdir(tmp_path)) == before


def test_a_comment_may_end_a_query(duck):
    assert read_table(duck, query="WITH x AS (SELECT a FROM t) SELECT * FROM x -- all of it").height == 3


def test_a_view_that_grows_is_read_in_pieces(tmp_path):
    """An 8 kB file whose view has 100,000 rows of 1,500 values, and one with a text of 900 MB."""
    with sqlite3.connect(tmp_path / "t.db") as database:
        columns = ", ".join(f"x AS c{i}" for i in range(1500))
        database.execute(f"CREATE VIEW v AS {COUNT.format(' WHERE x < 100000')} SELECT {columns} FROM n")
    database.close()
    code = (
        "import resource, sys; from dplan.tables.input import Input\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "chunks = Input(sys.argv[1], sql='SELECT * FROM v').chunks()\n"
        "print(sum(next(chunks)().height for _ in range(2)))\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "t.db"], capture_output=True, check=True)
    n_rows, megabytes = map(int, done.stdout.split())
    assert n_rows > 1000
    assert megabytes < 500
    with pytest.raises(ValueError, match="a value is longer than 1,000,000 bytes; leave its column out"):
        read_table(tmp_path / "t.db", query="SELECT replace(hex(zeroblob(600000)), '0', 'xy') AS a")


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["t.db", "t.duckdb"])
def test_a_query_that_never_ends_can_be_stopped(name, sent, sqlite, tmp_path):
    endless = {
        "t.db": f"{COUNT.format('')} SELECT max(x) FROM n",
        "t.duckdb": "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range * 7 % 3 = b.range % 5",
    }
    if name == "t.duckdb":
        pytest.importorskip("duckdb").connect(str(tmp_path / name)).close()
    start = (
        "import signal as s, sys; s.signal(s.SIGINT, s.default_int_handler)\n"
        "import dplan.tables.queries as q; real = q.in_thread\n"
        "def told(*a): print('asked', flush=True); return real(*a)\n"
        "q.in_thread = told\n"
        "from dplan.cli.main import main; main()"
    )
    command = [sys.executable, "-c", start, "inspect", str(tmp_path / name), "--query", endless[name]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "asked\n"
            time.sleep(0.5)  # until it works; if it does not yet, the signal is heeded all the same
            os.kill(process.pid, sent)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()  # or a query that was not stopped would be waited for
    assert said.splitlines()[-1].startswith("Interrupted" if sent == signal.SIGINT else "Terminated")


def test_a_query_without_rows_is_a_table_without_rows(sqlite):
    (chunk,) = Input(sqlite, sql="SELECT a FROM t WHERE a > 5").chunks()
    assert chunk().shape == (0, 1)
