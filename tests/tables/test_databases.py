"""Tables from PostgreSQL and scores back into it, with a server of the test's own; credentials appear nowhere."""

import os

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.scoring import score_file
from dplan.tables import Input, from_table, read_table
from dplan.tables.databases import Database
from tests.postgres import needs_postgres, postgres

pytest.importorskip("adbc_driver_postgresql")
pytestmark = needs_postgres

SECRET = "s3cr3t-w0rd"
FEW = [
    f"--set={name}"
    for name in ("n_agents=1", "n_steps=2000", "warmup_steps=500", "n_rounds=20", "n_trees=20")
]
KINDS = """{"format": "dplan-rules", "version": 1, "columns": {"amount": "float"},
 "kinds": [{"name": "large", "rule": {"all": [{"column": "amount", "at_least": 5}]}}]}"""
SQL = "SELECT id, amount, day, town, checked FROM payments WHERE amount > 0 ORDER BY id;"


@pytest.fixture(scope="module")
def server():
    """Return the address of a database with payments, and a function that runs a script there."""
    with postgres() as (psql, address):
        psql(
            "CREATE TABLE payments AS SELECT i AS id, (20 + i % 37)::numeric(10, 2) / 4 AS amount, "
            "date '2024-01-01' + i % 90 AS day, (ARRAY['Ulm', 'Köln', NULL])[i % 3 + 1] AS town, "
            "CASE WHEN i % 100 = 0 THEN 'fraud' WHEN i % 50 = 1 THEN 'ok' END AS checked, gen_random_uuid() AS key "
            "FROM generate_series(1, 3000) i;"
            "UPDATE payments SET amount = amount + 400 WHERE (checked = 'fraud' AND id % 300 > 0) OR id % 77 = 0;"
        )
        yield address.replace("tester@", f"tester:{SECRET}@"), psql


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert SECRET not in done.output
    return done


def ran(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_result_is_a_table_with_types(server):
    found = read_table(server[0], query=SQL)
    assert dict(found.schema) == {
        "id": pl.Int32, "amount": pl.Float64, "day": pl.Date, "town": pl.String, "checked": pl.String,
    }  # fmt: skip
    assert found.height == 3000
    assert read_table(server[0])["key"].str.len_chars().unique().to_list() == [
        36
    ]  # its only table; ids are text
    table = Input(server[0], sql=SQL)
    assert [chunk().height for chunk in table.chunks(2000)] == [2000, 1000]
    assert SECRET not in repr(table) + str(table.to_json()) + table.name + repr(Database(server[0]))


def test_every_command_takes_it_and_writes_back(server, tmp_path):
    url, psql = server
    model = tmp_path / "m.dplan"
    table = [url, "--query", SQL]
    assert "postgres: 3,000 rows, 5 columns." in ran("inspect", *table)
    options = ["--label", "checked", "--anomaly", "fraud", "--normal", "ok", "--id", "id", "--no-estimate"]
    ran("fit", *table, *options, "-o", model, *FEW)
    for name in ("scored.csv", "scored.parquet"):
        ran("score", *table, "-m", model, "-o", tmp_path / name, "--budget", 30, "--explain")
    target = f"{url}#scores"
    said = ran("score", *table, "-m", model, "-o", target, "--budget", 30, "--explain", "--order", "file")
    assert "wrote postgresql:///postgres" in said
    assert psql("SELECT count(*), sum(alert::int) FROM scores").strip() == "3000|30"
    found = read_table(url, query="SELECT id, score FROM scores ORDER BY id")
    assert (
        found["score"].to_list() == pl.read_parquet(tmp_path / "scored.parquet").sort("id")["score"].to_list()
    )
    done = run("score", *table, "-m", model, "-o", target)
    assert done.exit_code == 1
    assert "postgresql:///postgres already has a table 'scores'; use --overwrite to replace it" in done.output
    ran("score", *table, "-m", model, "-o", f"{url}#public.scores", "--overwrite", "--top", 5)
    assert psql("SELECT count(*) FROM scores").strip() == "5"
    ran("report", model, *table, "-o", tmp_path / "r.html")
    ran("score", *table, "-m", model, "--review", tmp_path / "q.csv")
    ran("update", model, *table, "-o", tmp_path / "n.dplan", "--no-estimate")
    ran("review", model, *table, "--simulate", "checked", "--anomaly", "fraud", "--verdicts", 10)
    for file in tmp_path.rglob("*"):
        assert SECRET.encode() not in (file.read_bytes() if file.is_file() else b""), file
        assert SECRET not in str(file)


def test_python_takes_it_too(server, tmp_path):
    url, psql = server
    own = from_table(url, "checked", anomaly=["fraud"], normal=["ok"], id="id", query=SQL)
    model = dplan.tables.fit_table(own, dplan.LogisticBaseline(random_state=0), estimate=False)
    outcome = score_file(model, Input(url, sql=SQL), f"{url}#python_scores", budget=7)
    assert outcome.alerts == 7
    assert psql("SELECT sum(alert::int) FROM python_scores").strip() == "7"
    with pytest.raises(ValueError, match="already has a table 'python_scores'"):
        score_file(model, Input(url, sql=SQL), f"{url}#python_scores")
    with pytest.raises(ValueError, match="name the table to write, as in postgresql:///postgres#scores"):
        score_file(model, Input(url, sql=SQL), url)
    assert SECRET not in repr(dplan.inspect(url, query=SQL))
    (tmp_path / "k.json").write_text(KINDS)
    score_file(model, Input(url, sql=SQL), f"{url}#with_kinds", kinds=tmp_path / "k.json")
    assert psql("SELECT DISTINCT kind FROM with_kinds WHERE alert").strip() == "large"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM payments", "cannot execute DELETE in a read-only transaction; use a SELECT statement"),
        ("WITH x AS (DELETE FROM payments RETURNING 1) SELECT * FROM x", "read-only transaction"),
        ("SELECT 1; DELETE FROM payments", "cannot insert multiple commands"),
        ("SET transaction_read_only = off", "the query returns no table"),
        ("CREATE TABLE u AS SELECT 1", "read-only transaction"),
        ("SELECT * FROM nowhere", 'relation "nowhere" does not exist'),
        ("SELECT 'x'::bytea AS b", "column 'b' has the type binary; convert it, or leave it out"),
        ("SELECT interval '1 day' AS i", "column 'i' has the type month_day_nano_interval"),
        ("SELECT 1 AS a, 2 AS a", "the query returns two columns of one name; rename one with AS"),
    ],
)
def test_a_query_only_reads_and_says_what_is_wrong(server, sql, message):
    with pytest.raises(ValueError, match=r"^postgresql:///postgres: ") as caught:
        read_table(server[0], query=sql)
    assert message in str(caught.value)
    assert server[1]("SELECT count(*) FROM payments").strip() == "3000"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://tester:{0}@localhost:1/shop", "Connection refused"),
        ("postgresql://tester:{0}%zz@localhost:1/shop", "invalid percent-encoded token"),
        ("postgresql://localhost:1/shop?password={0}&nonsense={0}", "invalid URI query parameter"),
        ("mysql://ann:{0}@localhost/shop", "mysql:// is not supported; use postgresql://"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "fit", "score", "report", "update", "review"])
def test_what_goes_wrong_is_said_without_credentials(address, message, command, tmp_path):
    (tmp_path / "m.dplan").write_bytes(b"")
    before = sorted(os.listdir(tmp_path))
    address, model = address.format(SECRET), tmp_path / "m.dplan"
    arguments = {
        "inspect": ["inspect", address],
        "fit": ["fit", address, "--label", "x", "-o", tmp_path / "n.dplan"],
        "score": ["score", "t.csv", "-m", model, "-o", address],
        "report": ["report", model, address, "-o", tmp_path / "r.html"],
        "update": ["update", model, address],
        "review": ["review", address, "--log", tmp_path / "l.jsonl", "--model-out", tmp_path / "o.dplan"],
    }
    done = run(*arguments[command])
    assert done.exit_code != 0
    if command in ("inspect", "fit"):
        assert message in " ".join(done.output.split())
    assert sorted(os.listdir(tmp_path)) == before


def test_options_that_cannot_be_kept_are_refused(server, tmp_path):
    url, _ = server
    done = run("review", url)
    assert "a review of a database without MODEL needs --log and --model-out" in done.output
    own = from_table(url, "checked", anomaly=["fraud"], normal=["ok"], id="id", query=SQL)
    dplan.tables.fit_table(own, dplan.LogisticBaseline(), estimate=False).save(tmp_path / "m.dplan")
    done = run(
        "score", url, "--query", SQL, "-m", tmp_path / "m.dplan", "-o", f"{url}#x", "--on-error", "skip"
    )
    assert "a database has no such place" in " ".join(done.output.split())
    done = run("score", url, "-m", f"postgresql://ann:{SECRET}@host/db", "-o", "x.csv")
    assert "expected a file, not an address" in done.output
