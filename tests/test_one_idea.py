"""An idea has one meaning in every command: words of labels, options for reading, rows, and what is skipped.

Each test uses the commands alone, as a user would.
"""

import json
import os
import re
import signal
import subprocess
import sys

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan import DPLAN, LogisticBaseline
from dplan.cli.main import main
from dplan.tables import fit_table, from_table, read_table
from tests.review.serving import Client
from tests.tables.payments import payments

QUICK = {"n_steps": 300, "warmup_steps": 100, "random_state": 0}


def run(*arguments, code=0, text=None):
    found = CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture(scope="module")
def fraud(tmp_path_factory):
    """A model that knows fraud, and no word for normal rows."""
    path = tmp_path_factory.mktemp("model") / "fraud.dplan"
    own = from_table(payments(1000), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, DPLAN(**QUICK), estimate=False).save(path)
    return path


def new_payments(n_rows=200):
    return payments(n_rows, seed=1).with_columns(payment=pl.col("payment").str.replace("p", "j"))


# --- Verdicts ---


@pytest.fixture(scope="module")
def exported(fraud, tmp_path_factory):
    """What `dplan labels export` writes after a review with 35 verdicts: normal, and a class that is new."""
    folder = tmp_path_factory.mktemp("exported")
    row = pl.int_range(pl.len())
    theft = pl.when(row % 50 == 0).then(pl.lit("theft")).otherwise(pl.lit("normal"))
    table, log, labels = folder / "june.csv", folder / "v.jsonl", folder / "labels.csv"
    new_payments().drop("verdict").with_columns(truth=theft).write_csv(table)
    run("review", fraud, table, "--simulate", "truth", "--verdicts", 35, "--every", 100, "--log", log,
        "--model-out", folder / "m.dplan")  # fmt: skip
    run("labels", "export", log, table, "-o", labels)
    counts = dict(pl.read_csv(labels)["verdict"].drop_nulls().value_counts().iter_rows())
    assert set(counts) == {"normal", "theft"}
    assert sum(counts.values()) == 35
    return labels, counts


def test_update_learns_the_normal_rows_of_labels_export(fraud, exported, tmp_path):
    labels, counts = exported
    known = tmp_path / "known.csv"
    pl.read_csv(labels).with_columns(pl.col("verdict").replace("theft", "fraud")).write_csv(known)
    run("update", fraud, known, "--label", "verdict", "-o", tmp_path / "new.dplan", "--no-estimate")
    before, after = dplan.load(fraud).summary, dplan.load(tmp_path / "new.dplan").summary
    assert after.checked_normal == counts["normal"]
    assert after.labels["fraud"] == before.labels["fraud"] + counts["theft"]


def test_update_refuses_a_word_that_nobody_knows_and_learns_it_when_told(fraud, exported, tmp_path):
    labels, counts = exported
    new = tmp_path / "new.dplan"
    assert "theft" in run("update", fraud, labels, "--label", "verdict", "-o", new, code=1)
    assert not new.exists()
    run("update", fraud, labels, "--label", "verdict", "--anomaly", "theft", "-o", new, "--no-estimate")
    summary = dplan.load(new).summary
    assert (summary.labels["theft"], summary.checked_normal) == (counts["theft"], counts["normal"])


def test_the_report_does_not_count_normal_as_an_anomaly(exported, tmp_path):
    labels, counts = exported
    path, known = tmp_path / "m.dplan", tmp_path / "known.csv"
    own = payments(1000).rename({"verdict": "class"})
    fit_table(from_table(own, "class", anomaly=["fraud"], id="payment"), LogisticBaseline()).save(path)
    pl.read_csv(labels).with_columns(pl.col("verdict").replace("theft", "fraud")).write_csv(known)
    run("report", path, known, "--label", "verdict", "-o", tmp_path / "r.html", "--top", 100)
    assert marked_rows(tmp_path / "r.html") == counts["theft"]


def marked_rows(page):
    return len(re.findall(r'data-labelled="1"', page.read_text("utf-8")))


# --- Reading ---


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A workbook whose first sheet is not the one to review."""
    import xlsxwriter

    path = tmp_path_factory.mktemp("book") / "book.xlsx"
    old = payments(60).drop("verdict")
    new = new_payments(60).drop("verdict").with_columns(
        truth=pl.when(pl.int_range(pl.len()) % 50 == 0).then(pl.lit("fraud")).otherwise(pl.lit("normal"))
    )  # fmt: skip
    with xlsxwriter.Workbook(path) as workbook:
        old.with_columns(truth=pl.lit("normal")).write_excel(workbook, "old")
        new.write_excel(workbook, "new")
    return path


def test_a_simulated_review_reads_the_sheet_that_was_asked_for(book, tmp_path):
    run("review", book, "--sheet", "new", "--id", "payment", "--simulate", "truth", "--verdicts", 3,
        "--log", tmp_path / "v.jsonl", "--model-out", tmp_path / "m.dplan")  # fmt: skip
    lines = map(json.loads, (tmp_path / "v.jsonl").read_text().splitlines())
    rows = [line["row"][0] for line in lines if line["kind"] == "verdict"]
    assert len(rows) == 3
    assert all(row.startswith("j") for row in rows)


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_the_review_page_shows_the_sheet_that_was_asked_for(book, tmp_path):
    command = [
        sys.executable, "-m", "dplan", "review", str(book), "--sheet", "new", "--id", "payment", "--no-browser",
        "--log", str(tmp_path / "v.jsonl"), "--model-out", str(tmp_path / "m.dplan"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:

        class Page:
            url = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())[0]

        for line in process.stdout:
            if line.startswith("Opened"):
                break
        client = Client(Page)
        entries = client.get("/api/queue")["rows"]
        client.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert entries
    assert all(entry["id"].startswith("j") for entry in entries)


@pytest.mark.parametrize("afternoon", ["PM", "p.m."])
def test_how_the_afternoon_is_written_does_not_change_numbers(afternoon, tmp_path):
    days = [f"{day}/01/2024 3:05 {afternoon}" for day in range(1, 29)]
    amounts = [f'"{n},{100 + 7 * n}"' for n in range(1, 29)]
    lines = ["booked,amount", *(",".join(pair) for pair in zip(days, amounts, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    found = read_table(tmp_path / "t.csv")
    assert found["booked"].dtype == pl.Datetime
    assert found["amount"].to_list() == [n * 1000 + 100 + 7 * n for n in range(1, 29)]


def test_the_report_reads_json_lines_of_which_one_file_has_an_extra_column(fraud, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    table = new_payments().drop("verdict").with_columns(pl.col("day").cast(pl.String))
    table[:100].write_ndjson(folder / "a.jsonl")
    table[100:].with_columns(extra=pl.lit(1)).write_ndjson(folder / "b.jsonl")
    run("score", folder, "-m", fraud, "-o", tmp_path / "scored.csv")
    run("report", fraud, folder, "-o", tmp_path / "r.html")
    assert "200" in (tmp_path / "r.html").read_text("utf-8")


# --- Cells that cannot be used, and rows that are left out ---


@pytest.fixture
def bad(tmp_path):
    """Payments of which the first two cannot be used, some with a verdict."""
    path = tmp_path / "bad.csv"
    row = pl.int_range(pl.len())
    amount = pl.when(row < 2).then(pl.lit("much")).otherwise(pl.col("amount").cast(pl.String))
    new_payments(151).with_columns(
        amount=amount, verdict=pl.when(row % 50 == 0).then(pl.lit("fraud")).otherwise(pl.lit(""))
    ).write_csv(path)
    return path


def test_the_report_marks_the_known_rows_whatever_is_skipped(fraud, bad, tmp_path):
    options = ("--label", "verdict", "--anomaly", "fraud", "--top", 150, "--on-error", "skip")
    run("report", fraud, bad, "-o", tmp_path / "r.html", *options)
    rows = re.findall(r"<tr[^>]*data-score.*?</tr>", (tmp_path / "r.html").read_text("utf-8"), re.DOTALL)
    assert len(rows) == 149
    marked = [re.search(r"j\d{5}", row)[0] for row in rows if 'data-labelled="1"' in row]
    assert sorted(marked) == ["j00050", "j00100", "j00150"]


@pytest.mark.parametrize("on_error", ["skip", "null"])
def test_a_review_queue_skips_what_score_skips(on_error, fraud, bad, tmp_path):
    queue = tmp_path / "queue.csv"
    run("score", bad, "-m", fraud, "--review", queue, "--review-rows", 151, "--on-error", on_error)
    found = set(read_table(queue)["payment"])
    assert len(found) == (149 if on_error == "skip" else 151)


def test_a_review_queue_leaves_out_labelled_rows_if_asked_to(fraud, tmp_path):
    table, queue = tmp_path / "new.csv", tmp_path / "queue.csv"
    new_payments(120).write_csv(table)
    run("score", table, "-m", fraud, "--review", queue, "--review-rows", 120, "--skip-labelled")
    assert set(read_table(queue)["payment"]).isdisjoint({"j00000", "j00100"})


@pytest.mark.parametrize("option", ["--skip-labelled", "--separator=;"])
def test_a_stream_keeps_an_option_or_refuses_it(option, fraud):
    rows = new_payments(120).write_csv()
    found = CliRunner().invoke(
        main, ["score", "-", "-m", str(fraud), "-o", "-", "--follow", option], input=rows
    )
    if found.exit_code == 2:  # refused
        assert option.partition("=")[0] in found.output
        return
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    if option == "--skip-labelled":
        assert len(lines) == 1 + 118
    else:
        assert lines[0].count(";") >= 4


def test_standard_input_gives_a_queue_and_scores_at_once(fraud, tmp_path):
    table, queue, out = new_payments(120), tmp_path / "queue.csv", tmp_path / "out.csv"
    run("score", "-", "-m", fraud, "--review", queue, "--review-rows", 5, "-o", out, text=table.write_csv())
    assert read_table(queue).height == 5
    assert read_table(out).height == 120


def test_an_errors_file_whose_cells_were_fixed_is_a_table(fraud, bad, tmp_path):
    run("score", bad, "-m", fraud, "-o", tmp_path / "out.csv", "--on-error", "skip")
    (errors,) = [path for path in tmp_path.glob("out*") if path.name != "out.csv"]
    fixed = pl.read_csv(errors, infer_schema=False).with_columns(
        amount=pl.lit("12.5"), verdict=pl.lit("fraud")
    )
    assert fixed.height == 2
    fixed.write_csv(errors)
    text = run("update", fraud, errors, "-o", tmp_path / "new.dplan", "--no-estimate")
    assert "2 rows: 2 fraud" in text


# --- Reasons ---


def test_a_level_with_a_bar_is_one_reason(tmp_path):
    level, row = "gift | card", pl.int_range(pl.len())
    table = payments(600).with_columns(
        country=pl.when(row % 50 == 0).then(pl.lit(level)).otherwise("country")
    )
    table.write_csv(tmp_path / "t.csv")
    run("fit", tmp_path / "t.csv", "--label", "verdict", "--anomaly", "fraud", "--id", "payment", "--no-estimate",
        "--detector", "LogisticBaseline", "-o", tmp_path / "m.dplan")  # fmt: skip
    run("report", tmp_path / "m.dplan", tmp_path / "t.csv", "-o", tmp_path / "r.html", "--top", 5)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert re.search(r"gift \| card", page)
    assert not re.search(r"gift(&#39;|')?\s*<br>", page)
    details = run("score", tmp_path / "t.csv", "-m", tmp_path / "m.dplan", "-o", "-", "--top", 3, "--explain")
    assert level in details
