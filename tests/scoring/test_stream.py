"""Streams: every row is written before the next one is sent, bad rows are skipped, scores are those of files."""

import io
import json
import subprocess
import sys

import polars as pl
import pytest

from dplan.scoring import AlertPolicy, Scorer, follow
from dplan.tables.input import Input
from dplan.tables.writing import Output
from tests.scoring.files import Options, score_table
from tests.tables.payments import payments


@pytest.fixture(scope="module")
def new():
    return payments(300, seed=4).drop("verdict")


@pytest.fixture(scope="module")
def scored(model_path, new, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    new.write_csv(folder / "new.csv")
    score_table(
        model_path, Input(folder / "new.csv"), folder / "out.csv", Options(explain=True), output_format="csv"
    )
    return (folder / "out.csv").read_text(encoding="utf-8-sig")


def followed(model, content, format="csv", encoding="auto", keep=(), threshold=None, **options):
    out, skipped = io.BytesIO(), []
    scorer = Scorer(model, keep=keep, alerts=AlertPolicy(threshold))
    arriving = Input(io.BufferedReader(io.BytesIO(content)), format, encoding).like(model)
    written = Output(None, options.pop("output_format", "csv"))
    found = follow(scorer, arriving, out, written, **{"skip": skipped.append, **options})
    return found, out.getvalue().decode(), skipped


def test_a_stream_gives_the_output_of_a_file(model, new, scored):
    found, text, skipped = followed(model, new.write_csv().encode(), explain=True)
    assert text == scored
    assert (found.rows, skipped) == (300, [])
    assert found.alerts == text.count(",true,")


def test_json_lines(model, new, scored):
    lines = new.with_columns(pl.col("day").cast(pl.String)).write_ndjson()
    found, text, _ = followed(model, lines.encode(), format="jsonl", output_format="jsonl", keep=["country"])
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["score"] for row in rows] == pl.read_csv(io.StringIO(scored))["score"].to_list()
    assert list(rows[0]) == ["row", "payment", "country", "score", "percentile", "alert"]
    assert found.rows == 300


@pytest.mark.skipif(sys.platform == "win32", reason="reads from a pipe as it fills")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_each_row_is_written_before_the_next_is_sent(form, model_path, new, model):
    command = [sys.executable, "-m", "dplan", "score", "-", "-m", str(model_path), "-o", "-", "--follow"]
    process = subprocess.Popen(
        [*command, "--format", form], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    rows = new[:20].with_columns(pl.col("day").cast(pl.String))
    lines = (rows.write_csv() if form == "csv" else rows.write_ndjson()).encode().splitlines(keepends=True)
    if form == "csv":
        process.stdin.write(lines.pop(0))
    for number, line in enumerate(lines):
        process.stdin.write(line)
        process.stdin.flush()
        if form == "csv" and number == 0:
            assert process.stdout.readline() == b"row,payment,score,percentile,alert\n"
        found = process.stdout.readline()
        score = float(found.split(b",")[2]) if form == "csv" else json.loads(found)["score"]
        assert score == pytest.approx(model.score(new[number : number + 1])[0], rel=1e-5)
    _, messages = process.communicate()
    assert process.returncode == 0
    assert messages.decode().startswith("Scored 20 rows; ")


def test_bad_rows_are_skipped_and_named(model, model_path, new):
    lines = new[:6].write_csv().splitlines()
    lines[2] = lines[2].replace(",2024-", ",sometime 2024-")
    lines[4] += ",too,many"
    lines[5] = '"' + lines[5]
    found, text, skipped = followed(model, "\n".join([*lines[:3], "", *lines[3:]]).encode())
    assert [message.split(":")[0] for message in skipped] == ["line 3", "line 6", "line 7"]
    assert "'day'" in skipped[0]
    assert "expected 6" in skipped[1]
    kept = [line.split(",")[:2] for line in text.splitlines()[1:]]
    assert kept == [[number, new["payment"][row]] for number, row in (("1", 0), ("4", 2), ("7", 5))]
    assert (found.rows, found.skipped) == (3, 3)
    run = subprocess.run(
        [sys.executable, "-m", "dplan", "score", "-", "-m", str(model_path), "-o", "-", "--follow"],
        input="\n".join(lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert run.stderr.splitlines()[0].startswith("Skipped line 3: ")


def test_rows_of_different_types_are_read_one_by_one(model, new):
    rows = new[:4].with_columns(pl.col("day").cast(pl.String)).to_dicts()
    rows[1]["items"] = str(rows[1]["items"])
    content = "\n".join(map(json.dumps, rows)).encode()
    _, text, skipped = followed(model, content, format="jsonl", output_format="jsonl")
    found = [json.loads(line)["score"] for line in text.splitlines()]
    assert found == pytest.approx(model.score(new[:4]).tolist(), rel=1e-5)
    assert skipped == []


def test_wrong_columns_end_the_stream(model, new):
    with pytest.raises(ValueError, match="missing columns 'amount'"):
        followed(model, new.drop("amount").write_csv().encode())
    with pytest.raises(ValueError, match="cannot keep column 'colour'"):
        followed(model, new.write_csv().encode(), keep=["colour"])
    with pytest.raises(ValueError, match="line by line in utf-16"):
        followed(model, new.write_csv().encode("utf-16"), encoding="utf-16")


def test_formulas_are_neutralised(model, new):
    row = new[:1].with_columns(payment=pl.lit("=1+2"))
    assert followed(model, row.write_csv().encode())[1].splitlines()[1].startswith("1,'=1+2,")


def test_options_that_need_all_rows_are_refused(model_path):
    command = [sys.executable, "-m", "dplan", "score", "-", "-m", str(model_path), "-o", "-", "--follow"]
    run = subprocess.run([*command, "--top", "3"], input="", capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "--follow" in run.stderr
