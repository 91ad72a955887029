"""What a command writes, its function in Python writes too, byte for byte, given the names of files as texts."""

import html
import re

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.scoring import queue_file, score_file
from dplan.tables import export_onnx, from_table, read_queue, update_model
from tests.tables.payments import payments, payments_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    payments_model().save(folder / "m.dplan")
    payments(300, seed=4).write_csv(folder / "t.csv", separator=";")
    return folder


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output


def both(folder, suffix):
    return folder / f"command.{suffix}", f"{folder}/python.{suffix}"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_score(folder, tmp_path, suffix):
    command, python = both(tmp_path, suffix)
    run(
        "score",
        folder / "t.csv",
        "-m",
        folder / "m.dplan",
        "-o",
        command,
        "--budget",
        9,
        "--explain",
        "--keep",
        "day",
    )
    found = score_file(
        str(folder / "m.dplan"), str(folder / "t.csv"), python, budget=9, explain=True, keep=["day"]
    )
    assert command.read_bytes() == (tmp_path / f"python.{suffix}").read_bytes()
    assert (found.rows, found.alerts) == (300, 9)
    with pytest.raises(FileExistsError):
        score_file(str(folder / "m.dplan"), str(folder / "t.csv"), python)


def test_a_frame_is_not_scored_into_a_file(folder, tmp_path):
    with pytest.raises(TypeError, match=r"got DataFrame; frames are scored by model\.score\(frame\)"):
        score_file(folder / "m.dplan", pl.read_csv(folder / "t.csv", separator=";"), tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_report(folder, tmp_path):
    command, python = both(tmp_path, "html")
    run("report", folder / "m.dplan", folder / "t.csv", "-o", command, "--budget", 9, "--label", "verdict")
    text = dplan.report(str(folder / "m.dplan"), str(folder / "t.csv"), python, budget=9, label="verdict")
    assert command.read_text("utf-8") == text == (tmp_path / "python.html").read_text("utf-8")
    assert len(repr(text)) < 50
    shown = text._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert html.unescape(shown.split('"')[1]) == text
    frame = dplan.tables.read_table(folder / "t.csv")
    assert "the table" in dplan.report(dplan.load(folder / "m.dplan"), frame.to_pandas(), budget=9)


@pytest.mark.parametrize("suffix", ["html", "json", "sql"])
def test_kinds(folder, tmp_path, suffix):
    command, python = both(tmp_path, suffix)
    run("kinds", folder / "m.dplan", folder / "t.csv", "-o", command, "--budget", 40, "--kinds", 3)
    found = dplan.kinds(str(folder / "m.dplan"), str(folder / "t.csv"), python, budget=40, n_kinds=3)
    assert command.read_bytes() == (tmp_path / f"python.{suffix}").read_bytes()
    assert len(found.rules.kinds) == 3
    frame = dplan.tables.read_table(folder / "t.csv")
    again = dplan.kinds(dplan.load(folder / "m.dplan"), frame, budget=40, n_kinds=3)
    assert again.rules.rules == found.rules.rules


def test_queue_and_update(folder, tmp_path):
    command, python = both(tmp_path, "csv")
    run("score", folder / "t.csv", "-m", folder / "m.dplan", "--review", command, "--review-rows", 8)
    queue_file(str(folder / "m.dplan"), str(folder / "t.csv"), python, rows=8)
    text = command.read_text("utf-8")
    assert text == (tmp_path / "python.csv").read_text("utf-8")
    command.write_text(re.sub(r"(?m)^(?=;[0-9])", "fraud", text), "utf-8")
    old = dplan.load(str(folder / "m.dplan"))
    judged = read_queue(old, str(command))
    assert judged.y.tolist() == [1] * 8
    assert update_model(old, judged).summary.labels["fraud"] == old.summary.labels["fraud"] + 8


def test_export(folder, tmp_path):
    command, python = both(tmp_path, "onnx")
    run("export", folder / "m.dplan", "--onnx", command)
    export_onnx(dplan.load(str(folder / "m.dplan")), python)
    assert command.read_bytes() == (tmp_path / "python.onnx").read_bytes()


def test_a_frame_that_is_no_model_is_named(folder):
    with pytest.raises(TypeError, match="expected a model of a table, its file or a fitted TableDetector"):
        score_file(pl.DataFrame(), str(folder / "t.csv"), "never.csv")
    own = from_table(str(folder / "t.csv"), label="verdict", anomaly=["fraud"], id="payment")
    assert own.classes == ("unlabelled", "fraud")
