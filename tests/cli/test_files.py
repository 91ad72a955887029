"""Files as people have them: conventions of the output, rows that can be found again, errors in data, what is said."""

import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import polars as pl
import pytest

from dplan.cli import _terminal
from dplan.tables import TableModel
from tests.cli.test_tables import run
from tests.tables.payments import payments


@pytest.fixture
def german(tmp_path):
    """Write a table as a German spreadsheet does: semicolons, decimal commas and a byte order mark."""
    path = tmp_path / "zahlungen.csv"
    comma = pl.col("amount").cast(pl.String).str.replace(".", ",", literal=True)
    texts = payments().with_columns(pl.col("amount").round().cast(pl.Int64), comma.alias("betrag"))
    path.write_bytes(b"\xef\xbb\xbf" + texts.write_csv(separator=";").encode())
    return path


def score(model_path, table, output, *more, stdin=None):
    done = run("score", table, "-m", model_path, "-o", output, *more, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done


def test_the_output_follows_the_conventions_of_the_input(german, model_path, tmp_path):
    score(model_path, german, tmp_path / "out.csv", "--keep", "betrag")
    text = (tmp_path / "out.csv").read_bytes()
    assert text.startswith(b"\xef\xbb\xbfrow;payment;betrag;score;percentile;alert\n1;p00000;")
    found = pl.read_csv(tmp_path / "out.csv", separator=";", decimal_comma=True)
    assert found["score"].dtype == pl.Float64
    score(model_path, german, tmp_path / "plain.csv", "--separator", "|", "--decimal", ".")
    lines = (tmp_path / "plain.csv").read_text("utf-8-sig").splitlines()
    assert lines[0] == "row|payment|score|percentile|alert"
    assert "," not in lines[1]
    score(model_path, german, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text("utf-8-sig").startswith("row\tpayment\tscore")
    score(model_path, german, tmp_path / "tabs.csv", "--separator", "tab")
    assert (tmp_path / "tabs.csv").read_text("utf-8-sig").startswith("row\tpayment\tscore")


def test_scores_have_six_digits_in_text_and_all_in_parquet(model, model_path, table, tmp_path):
    table.write_parquet(tmp_path / "t.parquet")
    for name in ("out.csv", "out.jsonl", "out.parquet", "out.arrow"):
        score(model_path, tmp_path / "t.parquet", tmp_path / name)
    exact = model.score(table)
    assert pl.read_parquet(tmp_path / "out.parquet")["score"].to_list() == exact.tolist()
    assert pl.read_ipc(tmp_path / "out.arrow")["score"].to_list() == exact.tolist()
    rounded = [float(f"{x:.6g}") for x in exact]
    assert pl.read_csv(tmp_path / "out.csv")["score"].to_list() == pytest.approx(rounded, rel=1e-12)
    assert pl.read_ndjson(tmp_path / "out.jsonl")["score"].to_list() == pytest.approx(rounded, rel=1e-12)
    cells = [line.split(",")[2] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert max(len(cell.strip("-").replace(".", "").lstrip("0")) for cell in cells) <= 6


def test_rows_can_be_found_again(model_path, table, tmp_path):
    table.write_csv(tmp_path / "t.csv")
    score(
        model_path,
        tmp_path / "t.csv",
        tmp_path / "top.csv",
        "--keep",
        "country",
        "--top",
        20,
        "--chunk-rows",
        700,
    )
    top = pl.read_csv(tmp_path / "top.csv")
    assert top.columns[:3] == ["row", "payment", "country"]
    assert table["payment"].gather(top["row"] - 1).to_list() == top["payment"].to_list()


def test_rows_of_several_files_have_the_file_and_the_row_in_it(model_path, table, tmp_path):
    (tmp_path / "parts").mkdir()
    for number in range(3):
        table[1000 * number : 1000 * (number + 1)].write_csv(tmp_path / "parts" / f"{number}.csv")
    score(model_path, tmp_path / "parts", tmp_path / "out.csv")
    found = pl.read_csv(tmp_path / "out.csv")
    assert found.columns[:3] == ["file", "row", "payment"]
    assert found["file"].unique(maintain_order=True).to_list() == ["0.csv", "1.csv", "2.csv"]
    assert found["row"].to_list() == [*range(1, 1001)] * 3
    assert found["payment"].to_list() == table["payment"].to_list()
    score(model_path, f"{tmp_path}/parts/*.csv", tmp_path / "scored")
    names = sorted(path.name for path in (tmp_path / "scored").iterdir())
    assert names == ["0.csv", "1.csv", "2.csv"]
    assert pl.read_csv(tmp_path / "scored" / "2.csv")["row"].to_list() == [*range(1, 1001)]


def test_an_existing_file_is_replaced_only_on_request(model_path, table, tmp_path):
    csv, out = tmp_path / "t.csv", tmp_path / "out"
    table.write_csv(csv)
    out.write_text("mine")
    for command in (
        ["score", csv, "-m", model_path, "-o", tmp_path / "out.csv"],
        ["fit", csv, "--label", "verdict", "--anomaly", "fraud", "--detector", "iforest", "-o", out],
        ["report", model_path, csv, "-o", out],
        ["export", model_path, "--onnx", out],
    ):
        if command[0] == "score":
            (tmp_path / "out.csv").write_text("mine")
        done = run(*command)
        assert done.exit_code == 1
        assert done.stderr.endswith("already exists; choose another output, or replace it (--overwrite)\n")
        assert command[-1].read_text() == "mine"
    score(model_path, csv, tmp_path / "out.csv", "--overwrite")
    assert pl.read_csv(tmp_path / "out.csv").height == 3000


@pytest.mark.parametrize(
    ("name", "content"),
    [("t.csv", b"payment,amount,items,day,new_customer,country\n"), ("t.jsonl", b""), ("t.parquet", None)],
)
def test_a_table_without_rows_gives_none(name, content, model_path, table, tmp_path):
    if content is None:
        table.clear().write_parquet(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    done = score(model_path, tmp_path / name, tmp_path / "out.csv", "--explain", "--top", 5)
    assert "Scored 0 rows" in done.stderr
    assert "Warning" not in done.stderr
    expected = "row,score" if name == "t.jsonl" else "row,payment,score"
    assert (tmp_path / "out.csv").read_text("utf-8-sig") == f"{expected},percentile,alert,reasons\n"


@pytest.fixture
def damaged(table, tmp_path):
    """Write a table with cells that cannot be used in rows 11, 1212 and, twice, 2000."""
    texts = table.with_columns(pl.col("amount", "day").cast(pl.String))
    amount, day = texts["amount"].to_list(), texts["day"].to_list()
    for row in (11, 1212, 2000):
        amount[row - 1] = "many"
    day[2000 - 1] = "soon"
    texts.with_columns(pl.Series("amount", amount), pl.Series("day", day)).write_csv(tmp_path / "bad.csv")
    return tmp_path / "bad.csv"


def test_bad_rows_can_be_skipped(model_path, table, damaged, tmp_path):
    done = score(model_path, damaged, tmp_path / "out.csv", "--on-error", "skip", "--chunk-rows", 700)
    found, errors = pl.read_csv(tmp_path / "out.csv"), pl.read_csv(tmp_path / "out.errors.csv")
    assert found["row"].to_list() == [row for row in range(1, 3001) if row not in (11, 1212, 2000)]
    assert found["payment"].to_list() == table["payment"].gather(found["row"] - 1).to_list()
    assert errors["dplan_row_number"].to_list() == [11, 1212, 2000]
    assert errors["dplan_column"].to_list() == ["amount", "amount", "amount"]  # the first bad cell of a row
    assert errors["payment"].to_list() == ["p00010", "p01211", "p01999"]
    assert errors["dplan_problem"][0].startswith("'many' is not a number")
    assert "Scored 2,997 rows" in done.stderr
    assert f"were skipped with their rows; see {tmp_path / 'out.errors.csv'}: 'amount' (3)." in done.stderr
    more = ["--on-error", "skip", "--skip-labelled", "--chunk-rows", 1]
    (tmp_path / "few.csv").write_text("\n".join(damaged.read_text().splitlines()[:12]))
    score(model_path, tmp_path / "few.csv", tmp_path / "new.csv", *more)
    assert pl.read_csv(tmp_path / "new.csv")["row"].to_list() == [*range(2, 11)]  # the first one is labelled
    assert pl.read_csv(tmp_path / "new.errors.csv")["dplan_row_number"].to_list() == [11]


def test_bad_cells_can_be_missing_values(model_path, table, damaged, tmp_path):
    done = score(model_path, damaged, tmp_path / "out.parquet", "--on-error", "null")
    assert "were treated as missing: 'amount' (3), 'day' (1)." in done.stderr
    blank = pl.int_range(1, pl.len() + 1).is_in([11, 1212, 2000])
    emptied = table.with_columns(
        pl.when(~blank).then("amount").alias("amount"),
        pl.when(pl.int_range(1, pl.len() + 1) != 2000).then("day").alias("day"),
    )
    expected = TableModel.load(model_path).score(emptied)
    assert pl.read_parquet(tmp_path / "out.parquet")["score"].to_list() == expected.tolist()
    assert not (tmp_path / "out.errors.csv").exists()


def test_by_default_a_bad_cell_stops_the_run(model_path, damaged, tmp_path):
    done = run("score", damaged, "-m", model_path, "-o", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "bad.csv, line 12, column 'amount': 'many' is not a number" in done.stderr


def test_fit_can_skip_bad_rows_too(damaged, tmp_path):
    assert "line 12, column 'amount'" in fit_quick(damaged, tmp_path / "m.dplan").stderr
    done = fit_quick(damaged, tmp_path / "m.dplan", "--on-error", "skip")
    assert done.exit_code == 0, done.output
    assert pl.read_csv(tmp_path / "m.errors.csv")["dplan_row_number"].to_list() == [11, 1212, 2000]
    assert "were skipped with their rows" in done.stderr


def test_report_and_update_can_skip_bad_rows_too(model_path, table, damaged, tmp_path):
    assert "line 12, column 'amount'" in run("report", model_path, damaged, "-o", tmp_path / "r.html").stderr
    done = run("report", model_path, damaged, "-o", tmp_path / "r.html", "--on-error", "skip")
    assert done.exit_code == 0, done.output
    assert "2,997 rows" in done.output
    assert pl.read_csv(tmp_path / "r.errors.csv")["dplan_row_number"].to_list() == [11, 1212, 2000]
    new = ["update", model_path, damaged, "-o", tmp_path / "m.dplan", "--no-estimate"]
    assert "line 12, column 'amount'" in run(*new).stderr
    done = run(*new, "--on-error", "null")
    assert done.exit_code == 0, done.output
    assert "were treated as missing: 'amount' (3), 'day' (1)." in done.stderr
    done = run(*new, "--on-error", "skip", "--overwrite")
    assert done.exit_code == 0, done.output
    assert "bad.csv: 2,997 rows" in done.output
    assert pl.read_csv(tmp_path / "m.errors.csv")["dplan_row_number"].to_list() == [11, 1212, 2000]


def test_score_and_report_skip_the_same_rows(model_path, table, tmp_path):
    model = TableModel.load(model_path)
    words = {"anomaly": ["fraud"], "normal": ["fine"]}
    replace(model, summary=replace(model.summary, label_values=words)).save(tmp_path / "m.dplan")
    some = table[:200].with_columns(
        verdict=pl.Series(["Fraud", "FINE", "open", ""] * 50)  # an open case has no verdict
    )
    some.write_csv(tmp_path / "t.csv")
    score(tmp_path / "m.dplan", tmp_path / "t.csv", tmp_path / "out.csv", "--skip-labelled")
    rows = pl.read_csv(tmp_path / "out.csv")["row"]
    assert rows.to_list() == [row for row in range(1, 201) if (row - 1) % 4 > 1]
    done = run(
        "report", tmp_path / "m.dplan", tmp_path / "t.csv", "-o", tmp_path / "r.html", "--skip-labelled"
    )
    assert done.exit_code == 0, done.output
    assert "100 rows that are already labelled were left out." in (tmp_path / "r.html").read_text()


def fit_quick(table, output, *more):
    return run(
        "fit", table, "--label", "verdict", "--anomaly", "fraud", "--id", "payment", "--detector", "iforest",
        "--no-estimate", "-o", output, *more,
    )  # fmt: skip


def test_labelled_rows_can_be_skipped(model_path, table, tmp_path):
    table.write_csv(tmp_path / "t.csv")
    score(model_path, tmp_path / "t.csv", tmp_path / "out.csv", "--skip-labelled", "--top", 50, "--explain")
    found = pl.read_csv(tmp_path / "out.csv")
    labels = table["verdict"].gather(found["row"] - 1)
    assert set(labels) == {""}
    assert (found["reasons"] != "").all()
    table.drop("verdict").write_csv(tmp_path / "new.csv")
    done = run("score", tmp_path / "new.csv", "-m", model_path, "-o", tmp_path / "o.csv", "--skip-labelled")
    assert "cannot look for labels in column 'verdict'" in done.stderr


def test_a_table_that_differs_from_training_is_one_warning(model_path, table, tmp_path):
    odd = table.with_columns(
        pl.when(pl.int_range(pl.len()) % 10 == 0).then(pl.lit("ZZ")).otherwise("country").alias("country"),
        pl.when(pl.int_range(pl.len()) % 25 == 0).then(1e9).otherwise("amount").alias("amount"),
        pl.lit(5).alias("items"),
    )
    odd.write_parquet(tmp_path / "odd.parquet")
    done = score(model_path, tmp_path / "odd.parquet", tmp_path / "out.csv", "--chunk-rows", 700)
    (warning,) = [
        line for line in done.stderr.splitlines() if line.startswith("Warning: columns that differ")
    ]
    assert "'country' (10 % of values did not occur in training)" in warning
    assert "'amount' (4 % of values far outside the training range)" in warning
    assert "'items' (drift 0.8" in warning
    table.write_parquet(tmp_path / "same.parquet")
    assert "Warning" not in score(model_path, tmp_path / "same.parquet", tmp_path / "same.csv").stderr


def test_every_command_reads_a_database(table, model_path, tmp_path):
    path = tmp_path / "t.db"
    texts = table.with_columns(pl.col("day").cast(pl.String), pl.col("new_customer").cast(pl.String))
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE payments ({', '.join(texts.columns)})")
        database.executemany("INSERT INTO payments VALUES (?, ?, ?, ?, ?, ?, ?)", texts.rows())
        database.execute("CREATE TABLE others (x)")
    database.close()
    query = ["--query", "SELECT * FROM payments"]
    assert "pass a query" in run("score", path, "-m", model_path, "-o", tmp_path / "o.csv").stderr
    score(model_path, path, tmp_path / "out.parquet", *query)
    expected = TableModel.load(model_path).score(table)
    assert pl.read_parquet(tmp_path / "out.parquet")["score"].to_list() == expected.tolist()
    done = fit_quick(path, tmp_path / "m.dplan", *query)
    assert done.exit_code == 0, done.output
    for command in (
        ["report", tmp_path / "m.dplan", path, "-o", tmp_path / "r.html"],
        ["update", model_path, path, "--anomaly", "fraud", "-o", tmp_path / "u.dplan"],
    ):
        done = run(*command, *query)
        assert done.exit_code == 0, done.output


def test_update_reads_a_table_with_types(table, model_path, tmp_path):
    table.write_parquet(tmp_path / "t.parquet")
    done = run("update", model_path, tmp_path / "t.parquet", "--anomaly", "fraud", "-o", tmp_path / "u.dplan")
    assert done.exit_code == 0, done.output


def test_folders_are_read_by_every_command(table, model_path, tmp_path):
    (tmp_path / "parts").mkdir()
    for number in range(3):
        table[1000 * number : 1000 * (number + 1)].write_csv(tmp_path / "parts" / f"{number}.csv")
    folder = tmp_path / "parts"
    done = fit_quick(folder, tmp_path / "m.dplan")
    assert done.exit_code == 0, done.output
    assert "3,000 rows" in done.output
    for command in (
        ["report", model_path, folder, "-o", tmp_path / "r.html"],
        ["update", model_path, f"{folder}/*.csv", "--anomaly", "fraud", "-o", tmp_path / "u.dplan"],
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
    done = fit_quick(folder, folder / "m.dplan")
    assert "inside the input folder" in done.stderr


def test_fitting_and_updating_again_gives_the_same_bytes(table, model_path, tmp_path):
    table.write_csv(tmp_path / "t.csv")
    for name in ("one", "two"):
        fitted, updated = tmp_path / f"{name}.dplan", tmp_path / f"{name}-updated.dplan"
        assert fit_quick(tmp_path / "t.csv", fitted).exit_code == 0
        done = run(
            "update", model_path, tmp_path / "t.csv", "--anomaly", "fraud", "-o", updated, "--no-estimate"
        )
        assert done.exit_code == 0, done.output
    for suffix in ("", "-updated"):
        one, two = (tmp_path / f"{name}{suffix}.dplan" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_fit_samples_a_large_table(table, tmp_path):
    table.write_csv(tmp_path / "t.csv")
    done = fit_quick(tmp_path / "t.csv", tmp_path / "m.dplan", "--sample", 1000)
    assert done.exit_code == 0, done.output
    assert "Trained on 1,030 of these rows: all known anomalies and a sample of the others." in done.stdout
    assert "Labels: 30 fraud, 2,970 unlabelled." in done.stdout


def test_each_stage_is_one_line_where_there_is_no_terminal(table, model_path, tmp_path):
    table.write_csv(tmp_path / "t.csv")
    done = fit_quick(tmp_path / "t.csv", tmp_path / "m.dplan")
    assert done.stderr.splitlines() == [f"Reading {tmp_path / 't.csv'}", "Preparing", "Training"]
    quiet = fit_quick(tmp_path / "t.csv", tmp_path / "m.dplan", "--quiet", "--overwrite")
    assert (quiet.exit_code, quiet.output) == (0, "")
    done = score(model_path, tmp_path / "t.csv", tmp_path / "out.csv", "--explain")
    assert done.stderr.splitlines()[:2] == ["Scoring", "Explaining"]
    done = score(model_path, tmp_path / "t.csv", tmp_path / "out.csv", "--explain", "--quiet", "--overwrite")
    assert done.output == ""


def test_percent_and_time_left_are_told(monkeypatch, capsys):
    monkeypatch.setattr(_terminal, "_SECONDS_BETWEEN_LINES", 0)
    with _terminal.progress_bar() as progress:
        progress("Scoring", 0, None)
        time.sleep(0.05)
        progress("Scoring", 1, 4)
        progress("Explaining", 0, 1)
    first, told, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("Scoring", "Explaining")
    assert re.fullmatch(r"Scoring: 25%, about \d+ (s|min) left", told)


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_after_an_interruption_it_is_said_what_is_kept(sent, table, model_path, tmp_path):
    # Chunks must differ, because the score of an equal chunk is reused within a run too.
    many = pl.concat([table] * 4).with_columns(payment=pl.int_range(pl.len()))
    many.write_csv(tmp_path / "t.csv")
    start = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); from dplan.cli.main import main; main()"
    command = [
        "score",
        tmp_path / "t.csv",
        "-m",
        model_path,
        "-o",
        tmp_path / "out.csv",
        "--chunk-rows",
        "50",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", start, *map(str, command)], stderr=subprocess.PIPE, text=True
    ) as process:
        while len(list(tmp_path.glob(".out.csv.parts/part-*"))) < 3:
            time.sleep(0.02)
        os.kill(process.pid, sent)
        said = process.stderr.read()
    n_kept = len(list(tmp_path.glob(".out.csv.parts/part-*")))
    word = "Interrupted" if sent == signal.SIGINT else "Terminated"
    expected = f"{word}. {n_kept:,} scored chunks are kept: run the same command again to reuse them."
    assert said.splitlines()[-1] == expected
    done = run(*command)
    assert done.exit_code == 0
    assert f"({n_kept:,} chunks scored by an earlier run)" in done.stderr


def test_utf_16_from_standard_input(model_path, table):
    text = table.write_csv().encode("utf-16")
    done = run("score", "-", "-m", model_path, "-o", "-", stdin=text)
    assert done.exit_code == 0, done.output
    assert pl.read_csv(io.StringIO(done.stdout)).height == 3000


def test_options_about_rows_go_from_fit_to_score(tmp_path):
    rows = "".join(f"{i % 7}.5,{'ab'[i % 2]},{int(i == 3)}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("all plants\n" + rows + "9.5,a,1\n")
    model, out = tmp_path / "m.dplan", tmp_path / "o.csv"
    options = ["--no-header", "--skip-rows", "1", "--footer-rows", "1"]
    fit = ["fit", tmp_path / "t.csv", "--label", "column_3", "-o", model, "--detector", "LogisticBaseline"]
    done = run(*fit, "--no-estimate", *options)
    assert done.exit_code == 0, done.output
    assert "t.csv: 40 rows" in done.output
    for given, n in ([], 40), (["--footer-rows", "2"], 39), (["--footer-rows", "0"], 41):
        done = run("score", tmp_path / "t.csv", "-m", model, "-o", out, "--overwrite", *given)
        assert f"Scored {n} rows" in done.output
    (tmp_path / "new.csv").write_text("a,b,c\n" + rows)
    done = run("score", tmp_path / "new.csv", "-m", model, "-o", out, "--overwrite", "--header-row", "1")
    assert "missing columns 'column_1'" in " ".join(done.output.split())


@pytest.mark.parametrize("command", [["inspect"], ["fit", "--label", "x", "-o", "m.dplan"]])
def test_a_file_of_another_program_is_not_called_a_broken_model(command, tmp_path):
    (tmp_path / "t.sas7bdat").write_bytes(b"\0" * 99)
    done = run(command[0], tmp_path / "t.sas7bdat", *command[1:])
    assert "unsupported file type; use .csv" in " ".join(done.output.split())
