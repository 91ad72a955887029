"""Labels out of logs: counts, tables for dplan fit and update, and one log out of several."""

import json
import shutil
from functools import partial

import polars as pl
import pytest
from click.testing import CliRunner

from dplan.cli.main import main
from dplan.exceptions import VerdictLogError
from dplan.review.export import count_lines, export_labels, merge_logs
from dplan.review.folder import ReviewFiles
from dplan.review.log import Standing, VerdictLog, read_log
from dplan.review.table import TableFile
from dplan.tables.input import Input
from tests.review.test_log import undo, verdict


def run(*arguments, code=0):
    found = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def log(open_session, fraud, tmp_path):
    """A log with 12 verdicts, one of them replaced, one undone and one unsure."""
    session = open_session()
    for row in session.queue()[:12]:
        session.judge([row], "anomaly" if fraud[row] else "normal", window="w")
    row = session.queue()[0]
    (first,) = session.judge([row], "normal", window="w")
    session.judge([row], "anomaly", "theft", replaces=first["n"], window="w")
    session.judge([session.queue()[0]], "unsure", window="w")
    session.judge([session.queue()[0]], "normal", window="w")
    session.undo("w")
    session.log.close()
    return tmp_path / "verdicts.jsonl"


def test_replay_prints_what_a_log_adds_up_to(log):
    found = count_lines(read_log(log))
    assert (found.given, found.changed, found.undone) == (16, 1, 1)
    assert found.labels["theft"] == 1
    assert found.labels["unsure"] == 1
    assert sum(found.labels.values()) == 14
    text = run("labels", "replay", log)
    assert "14 rows with a verdict; 16 verdicts given, 1 replaced, 1 undone." in text
    assert "1 theft" in text
    assert "me (14)" in text


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_exported_labels_can_be_fitted_and_are_the_verdicts(log, folder, tmp_path, suffix):
    output = tmp_path / f"labels{suffix}"
    text = run("labels", "export", log, folder / "june.csv", "-o", output)
    assert "3,000 rows, 13 with a verdict" in text  # not the one that the reviewer was unsure about
    read_json = partial(pl.read_ndjson, infer_schema_length=None)
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": read_json}
    table = read[suffix](output)
    expected = {
        key.ids[0]: record["class"] or record["verdict"]
        for key, record in Standing(read_log(log)).current.items()
        if record["verdict"] != "unsure"
    }
    marked = table.filter(pl.col("verdict").is_not_null())
    assert dict(marked.select("payment", "verdict").rows()) == expected
    model = tmp_path / "again.dplan"
    text = run(
        "fit", output, "--label", "verdict", "--anomaly", "anomaly", "--anomaly", "theft", "--id", "payment",
        "--drop", "truth", "--detector", "LogisticBaseline", "--no-estimate", "-o", model,
    )  # fmt: skip
    assert "1 theft" in text
    only = run("labels", "export", log, folder / "june.csv", "-o", tmp_path / "few.csv", "--only-reviewed")
    assert "13 rows, 13 with a verdict" in only


def test_exported_labels_update_a_model(log, folder, model_path, tmp_path):
    output = tmp_path / "labels.csv"
    run("labels", "export", log, folder / "june.csv", "-o", output)
    text = run(
        "update", model_path, output, "--label", "verdict", "--anomaly", "anomaly", "--anomaly", "theft",
        "-o", tmp_path / "updated.dplan",
    )  # fmt: skip
    assert "1 theft" in text


def test_export_warns_of_rows_that_changed(log, folder, tmp_path):
    table = pl.read_csv(folder / "june.csv").with_columns(items=pl.lit(77))
    table.write_csv(tmp_path / "other.csv")
    records = read_log(log)
    done = export_labels(
        records, TableFile(Input(tmp_path / "other.csv"), ("payment",)), tmp_path / "out.csv"
    )
    assert (done.labelled, done.unmatched) == (0, 14)
    text = run("labels", "export", log, tmp_path / "other.csv", "--overwrite", "-o", tmp_path / "out.csv")
    assert "14 verdicts are about rows that are not in other.csv or have changed" in text
    run("labels", "export", log, tmp_path / "other.csv", "-o", tmp_path / "other.csv", code=1)


def test_a_column_called_verdict_is_kept(folder, tmp_path):
    table = pl.DataFrame({"verdict": ["x", "y"], "amount": [1, 2]})
    table.write_csv(tmp_path / "t.csv")
    done = export_labels([], TableFile(Input(tmp_path / "t.csv")), tmp_path / "out.csv")
    assert done.rows == 2
    assert pl.read_csv(tmp_path / "out.csv").columns == ["verdict", "amount", "dplan_verdict"]


def test_merging_keeps_every_line_and_names_contradictions(tmp_path):
    for name, who, decisions in (("anna", "Anna", "nna"), ("ben", "Ben", "nau")):
        with VerdictLog(tmp_path / f"{name}.jsonl") as log:
            for row, decision in zip("abc", decisions, strict=True):
                word = {"n": "normal", "a": "anomaly", "u": "unsure"}[decision]
                log.append({**verdict(row, word), "who": who})
            log.append({**verdict(f"own-{name}", "anomaly"), "who": who})
            log.append(undo(4))
    output = tmp_path / "both.jsonl"
    text = run("labels", "merge", tmp_path / "anna.jsonl", tmp_path / "ben.jsonl", "-o", output)
    assert "2 contradictions" in text
    assert "Contradiction: b is normal (Anna) and anomaly (Ben)." in text
    records = read_log(output)
    assert len(records) == 10
    current = {key.ids[0]: record["verdict"] for key, record in Standing(records).current.items()}
    assert current == {"a": "normal", "b": "anomaly", "c": "unsure"}
    with pytest.raises(VerdictLogError, match="already exists"):
        merge_logs([records], output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anna.jsonl", "ben.jsonl", "both.jsonl"]


def test_logs_with_other_ids_are_not_merged(tmp_path):
    logs = []
    for ids in (["a"], []):
        line = {
            "kind": "session",
            "version": 1,
            "table": "t",
            "model": "m",
            "ids": ids,
            "columns": ids,
            "n": 1,
            "time": "",
        }
        logs.append([line])
    with pytest.raises(VerdictLogError, match="identify rows in different ways"):
        merge_logs(logs, tmp_path / "out.jsonl")


def test_hostile_ids_are_printed_safely(tmp_path):
    for name, decision in (("one", "normal"), ("two", "anomaly")):
        with VerdictLog(tmp_path / f"{name}.jsonl") as log:
            log.append({**verdict("\x1b[2Jrow", decision), "who": "\x1b]0;x\x07"})
    text = run(
        "labels", "merge", tmp_path / "one.jsonl", tmp_path / "two.jsonl", "-o", tmp_path / "out.jsonl"
    )
    assert "\x1b" not in text
    assert "\\x1b[2Jrow" in text
    assert "\x1b" not in run("labels", "replay", tmp_path / "out.jsonl")
    (tmp_path / "bad.jsonl").write_text(json.dumps({"kind": "other"}) + "\n")
    assert "line 1 is not a line of a verdict log" in run("labels", "replay", tmp_path / "bad.jsonl", code=1)


def test_exported_labels_do_not_replace_the_log(log, folder):
    before = log.read_bytes()
    text = run("labels", "export", log, folder / "june.csv", "-o", log, code=1)
    assert "is also an input and would be overwritten" in text
    assert log.read_bytes() == before


@pytest.mark.parametrize("option", ["--log", "--model-out", "--labels-out"])
@pytest.mark.parametrize("given", ["table", "model", "link"])
@pytest.mark.parametrize("simulated", [True, False])
def test_a_review_does_not_replace_its_table_or_model(folder, tmp_path, option, given, simulated):
    table, model = tmp_path / "june.csv", tmp_path / "fraud.dplan"
    shutil.copy(folder / "june.csv", table)
    shutil.copy(folder / "fraud.dplan", model)
    (tmp_path / "link").hardlink_to(table)
    before = table.read_bytes(), model.read_bytes()
    target = {"table": table, "model": model, "link": tmp_path / "link"}[given]
    how = ["--simulate", "truth", "--verdicts", 2] if simulated else ["--no-browser"]
    text = run("review", model, table, "--every", 1, *how, option, target, code=1)
    assert "is also an input and would be overwritten" in text
    assert (table.read_bytes(), model.read_bytes()) == before


def test_a_review_replaces_only_models_and_labels(folder, tmp_path):
    model, mine = folder / "fraud.dplan", tmp_path / "mine.csv"
    mine.write_text("payment,amount\np1,3\n")
    files = partial(ReviewFiles.of, folder / "june.csv", model, log=tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match=r"mine\.csv.* choose another name for the updated model"):
        files(model_out=mine)
    with pytest.raises(ValueError, match=r"mine\.csv exists .* so no review has written it"):
        files(labels_out=mine)
    with pytest.raises(ValueError, match=r"cannot write labels to .*: check the folder"):
        files(labels_out=tmp_path / "no" / "labels.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"cannot write labels to .*: check the folder"):
        files(labels_out=tmp_path / "folder.csv")
    assert mine.read_text() == "payment,amount\np1,3\n"
    shutil.copy(model, tmp_path / "updated.dplan")
    mine.write_text("payment,verdict\np1,fraud\n")
    assert files(model_out=tmp_path / "updated.dplan", labels_out=mine).labels == mine


def test_outputs_of_a_review_are_different_files(tmp_path):
    one = tmp_path / "one"
    with pytest.raises(ValueError, match="cannot be two outputs"):
        ReviewFiles.of(tmp_path / "t.csv", None, log=one, model_out=one)
    one.touch()
    (tmp_path / "other").hardlink_to(one)
    with pytest.raises(ValueError, match="cannot be two outputs"):
        ReviewFiles.of(tmp_path / "t.csv", None, log=one, labels_out=tmp_path / "other")


def test_merging_keeps_the_order_of_each_log_when_a_clock_was_set_back(tmp_path):
    def line(record, n, time):
        return {**record, "n": n, "time": f"2026-01-01T{time}:00.000+00:00"}

    anna = [
        line(verdict("a", "anomaly"), 1, "10:00"),
        line(undo(1), 2, "09:00"),
        line(verdict("b"), 3, "09:01"),
    ]
    ben = [line(verdict("a", "normal"), 1, "09:30"), line(verdict("b", "anomaly"), 2, "10:01")]
    merge_logs([anna, ben], tmp_path / "both.jsonl")
    merged = read_log(tmp_path / "both.jsonl")
    assert [(r["kind"], r.get("verdict")) for r in merged] == [
        ("verdict", "normal"), ("verdict", "anomaly"), ("undo", None), ("verdict", "normal"), ("verdict", "anomaly"),
    ]  # fmt: skip
    current = Standing(merged).current.values()
    assert [(r["row"], r["verdict"]) for r in current] == [(["a"], "normal"), (["b"], "anomaly")]
