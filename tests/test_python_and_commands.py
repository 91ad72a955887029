"""What a command writes, its function in Python writes too, byte for byte, given the names of files as texts."""

import html
import io
import re

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.rules.file import RuleFile
from dplan.rules.sql import script
from dplan.scoring import Scorer, follow, queue_file, score_file
from dplan.tables import Input, export_onnx, fit_table, from_table, read_queue, update_model
from tests.kinds.alarms import alarms, alarms_model
from tests.tables.payments import payments, payments_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    payments_model().save(folder / "m.dplan")
    payments(300, seed=4).write_csv(folder / "t.csv", separator=";")
    return folder


def run(*arguments, stdin=None):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


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


def test_fit(folder, tmp_path):
    command, python = both(tmp_path, "dplan")
    about = ["--label", "verdict", "--anomaly", "fraud", "--id", "payment"]
    run("fit", folder / "t.csv", *about, "--detector", "LogisticBaseline", "-o", command)
    own = from_table(str(folder / "t.csv"), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, dplan.LogisticBaseline(random_state=0)).save(python)
    models = [dplan.load(path) for path in (command, python)]
    scores = [model.score(folder / "t.csv") for model in models]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert len({model.threshold for model in models}) == 1
    assert models[0].summary.estimate == models[1].summary.estimate
    assert models[0].summary.labels == models[1].summary.labels


def test_follow(folder):
    text = (folder / "t.csv").read_bytes()
    written = run("score", "-", "-m", folder / "m.dplan", "-o", "-", "--follow", "--explain", stdin=text)
    out = io.BytesIO()
    model = dplan.load(str(folder / "m.dplan"))
    found = follow(Scorer(model), Input(io.BytesIO(text), separator=";"), out, explain=True)
    assert written.encode() == out.getvalue()
    assert found.rows == 300


def test_rules(tmp_path):
    rules, file = tmp_path / "kinds.json", tmp_path / "alarms.csv"
    alarms().write_csv(file)
    found = dplan.kinds(alarms_model(), file, rules, budget=90, n_kinds=3).rules
    assert found == RuleFile.load(rules)
    table = pl.read_csv(file, try_parse_dates=True)
    checked = run("rules", "check", rules, file)
    for name, rule in found.rules:
        assert f"{name}: {rule}: {table.filter(rule.expression()).height} of 3,000 rows" in checked
    assert checked.count(" of 3,000 rows") == 3
    for dialect in ("postgresql", "sqlite", "duckdb"):
        printed = run("rules", "sql", rules, "--dialect", dialect, "--table", "payments")
        assert printed == script(found.rules, dialect, "payments", found.meanings)


def test_inspect(folder):
    printed, found = run("inspect", folder / "t.csv"), dplan.inspect(str(folder / "t.csv"))
    for name, understood, *_ in found.columns.rows():
        assert re.search(rf"(?m)^{name} +{re.escape(understood)} ", printed)


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
