"""``dplan review`` as a command, and from Python."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan import TableDetector
from dplan.cli.main import main
from dplan.review.folder import ReviewFiles
from dplan.review.log import Standing, read_log
from experiments.data.sources import load_review
from experiments.discovery import review as discovery
from experiments.suites import Plan, cells_of
from tests.review.serving import Client, served


def run(*arguments, code=0):
    found = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found.output


def test_a_simulated_review_finds_more_than_no_feedback(folder, tmp_path):
    log, labels = tmp_path / "v.jsonl", tmp_path / "labels.parquet"
    text = run(
        "review", folder / "fraud.dplan", folder / "june.csv", "--simulate", "truth", "--verdicts", 30,
        "--log", log, "--labels-out", labels, "--model-out", tmp_path / "new.dplan",
    )  # fmt: skip
    found, without = map(
        int, re.search(r"30 verdicts: (\d+) anomal(?:y|ies) found; without feedback (\d+)", text).groups()
    )
    assert found >= without >= 20
    table = pl.read_parquet(labels)
    assert (table["verdict"] == "fraud").sum() == found
    assert dplan.load(tmp_path / "new.dplan").summary.labels["fraud"] > 30
    again = run(
        "review", folder / "fraud.dplan", folder / "june.csv", "--simulate", "truth", "--verdicts", 33, "--log", log,
        "--model-out", tmp_path / "new.dplan",
    )  # fmt: skip
    assert "33 verdicts" in again
    assert len(Standing(read_log(log)).current) == 33


def test_a_simulation_leaves_the_review_of_a_person_alone(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, table = (Path(shutil.copy(folder / name, tmp_path)) for name in ("fraud.dplan", "june.csv"))
    files = ReviewFiles.of(table, model)
    shutil.copy(model, files.model)  # what the person's review has learned
    simulation = ("--simulate", "truth", "--verdicts", 2, "--every", 1)
    with served(
        tmp_path, tmp_path, log=files.log, model_out=files.model, refit_every=0, continues=True
    ) as page:
        client = Client(page)
        assert client.judge(client.get("/api/queue")["rows"][0], "normal")[0] == 200
        client.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    new = {"fraud-simulated.verdicts.jsonl", "fraud-simulated.dplan"}
    for named in ((model, table), ()):  # also if it takes the table of the review in this folder
        text = run("review", *named, *simulation)
        assert "fraud-simulated.verdicts.jsonl and fraud-simulated.dplan" in text
        after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert {name: content for name, content in after.items() if name not in new} == before
        assert new < set(after)
    refused = run("review", model, table, *simulation, "--log", files.log, code=1)
    assert "has verdicts of a person" in refused
    assert files.log.read_bytes() == before[files.log.name]


@pytest.mark.soak
def test_a_cold_start_finds_as_many_as_the_benchmark(tmp_path):
    cell = next(iter(cells_of(Plan(("discovery",), quick=True, runs=1))))
    X, anomalous = load_review(cell.scenario, cell.seed, None)
    expected = discovery.review("DPLANEnsemble", (X, anomalous), 10, cell.seed, n_verdicts=100)["found"][
        "100"
    ]
    frame = pl.DataFrame({f"x{j}": column for j, column in enumerate(X.T)})
    frame.with_columns(truth=pl.Series(anomalous).cast(pl.Int64)).write_parquet(tmp_path / "table.parquet")
    text = run("review", tmp_path / "table.parquet", "--simulate", "truth", "--seed", cell.seed)
    found, without = re.search(
        r"100 verdicts: (\d+) anomal(?:y|ies) found; without feedback (\d+)", text
    ).groups()
    print(f"\n100 verdicts: {found} found; benchmark {expected}, without feedback {without}")  # noqa: T201
    assert int(found) >= expected > int(without)


def test_wrong_usage_is_said(folder, tmp_path):
    assert "no column 'truht'" in run("review", folder / "june.csv", "--simulate", "truht", code=1)
    assert "--drop is for a review without MODEL" in run(
        "review", folder / "fraud.dplan", folder / "june.csv", "--drop", "items", code=2
    )
    assert "no column 'nope'" in run(
        "review", folder / "june.csv", "--id", "nope", "--simulate", "truth", "--log", tmp_path / "l", code=1
    )
    assert "expected [MODEL] TABLE" in run("review", *[folder / "june.csv"] * 3, code=2)


EARLY = """
import sys
from dplan.cli.main import main
from dplan.review import worker

def started():
    print(sorted({"numpy", "polars", "sklearn"} & set(sys.modules)))
    raise SystemExit

worker.Worker = started
main(sys.argv[1:])
"""


def test_the_process_that_opens_the_table_starts_before_anything_slow_is_imported(folder):
    command = [sys.executable, "-c", EARLY, "review", str(folder / "fraud.dplan"), str(folder / "june.csv")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_the_command_serves_saves_and_ends(folder, tmp_path):
    log = tmp_path / "v.jsonl"
    command = [
        sys.executable, "-m", "dplan", "review", str(folder / "fraud.dplan"), str(folder / "june.csv"), "--no-browser",
        "--log", str(log), "--model-out", str(tmp_path / "m.dplan"), "--labels-out", str(tmp_path / "labels.csv"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    url = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())[0]

    class Page:
        pass

    page = Page()
    page.url = url
    client = Client(page)
    while not client.get("/api/state")["opened"]:
        time.sleep(0.1)
    entry = client.get("/api/queue")["rows"][0]
    assert client.judge(entry, "anomaly")[0] == 200
    client.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err  # the documented end
    assert "Traceback" not in err
    assert "3,000 rows" in out
    assert f"Labels: {tmp_path / 'labels.csv'}" in out
    marked = pl.read_csv(tmp_path / "labels.csv").filter(pl.col("verdict").is_not_null())
    assert marked["payment"].to_list() == [entry["id"]]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"v.jsonl", "v.review.json", "m.dplan", "labels.csv"}


def test_from_a_notebook(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    frame = pd.read_csv(folder / "june.csv").drop(columns="truth")
    detector = TableDetector(dplan.LogisticBaseline()).fit(
        frame.drop(columns="payment"), (frame.index % 100 == 0).astype(int)
    )
    with dplan.review(detector, frame, id="payment", browser=False, labels="labels.csv") as page:
        assert "Open the review page" in page._repr_html_()
        page.wait_until_opened()
        client = Client(page)
        entry = client.get("/api/queue")["rows"][0]
        assert client.judge(entry, "normal")[0] == 200
        client.close()
        assert page.labels() == {entry["id"]: "normal"}
        written = page.write_results()
    assert {path.name for path in tmp_path.iterdir()} == {
        "review.verdicts.jsonl",
        "labels.csv",
    }
    assert written == ["verdicts: review.verdicts.jsonl", "labels: labels.csv"]
    with pytest.raises(TypeError, match="model must be a TableModel"):
        dplan.review(7, frame)
    assert json.loads((tmp_path / "review.verdicts.jsonl").read_text().splitlines()[1])["verdict"] == "normal"


def test_verdicts_about_rows_with_the_same_id_are_all_returned(tmp_path):
    table = pl.DataFrame({"account": ["a", "b", "a", "c"] * 5, "amount": [*range(19), 900]})
    with dplan.review(None, table, id="account", browser=False, log=tmp_path / "v.jsonl") as page:
        page.wait_until_opened()
        client = Client(page)
        for entry in [one for one in client.get("/api/queue")["rows"] if one["id"] == "a"][:3]:
            assert client.judge(entry, "normal")[0] == 200
        client.close()
        assert page.labels() == {"a": "normal", "a (2)": "normal", "a (3)": "normal"}
