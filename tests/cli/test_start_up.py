"""Commands that score do not import what they do not need, which would take longer than their work."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from dplan.detectors._registry import list_detectors
from tests.detectors.quick import QUICK
from tests.serving.process import Running, until

UNNEEDED = ("sklearn", "scipy.stats", "pandas", "rich.progress")  # bars are for terminals


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).round(3)
    x[:8] += 4
    table = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(pl.Series("fraud", [1] * 8 + [0] * 192))
    table.write_csv(folder / "table.csv")
    command = [
        sys.executable,
        "-m",
        "dplan",
        "fit",
        str(folder / "table.csv"),
        "--label",
        "fraud",
        "--no-estimate",
    ]
    command += ["--set", "n_steps=300", "--set", "warmup_steps=100", "-o", str(folder / "m.dplan")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def imported(lines):
    """Return the modules that Python says it imported, with PYTHONPROFILEIMPORTTIME."""
    return {line.rpartition("|")[2].strip() for line in lines.splitlines() if line.startswith("import time:")}


def check(lines):
    found = imported(lines)
    assert "dplan.detectors._base" in found  # the lines are what this test takes them for
    assert not [name for name in found if name in UNNEEDED or name.startswith("sklearn.")]


PROFILED = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "PYTHONUNBUFFERED": "1"}


@pytest.mark.parametrize(
    "command",
    [
        "score table.csv -m m.dplan -o s.csv --overwrite",
        "score table.csv -m m.dplan -o s.csv --budget 5 --explain --overwrite",
        "score table.csv -m m.dplan --review q.csv --overwrite",
        "report m.dplan table.csv -o r.html --overwrite",
        "score - -m m.dplan -o - --follow",
    ],
)
def test_scoring_imports_no_scikit_learn(folder, command):
    run = subprocess.run(
        [sys.executable, "-m", "dplan", *command.split()],
        cwd=folder, env=PROFILED, capture_output=True, text=True, input=(folder / "table.csv").read_text(), check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-500:]
    check(run.stderr)


SCORE_ALL = """
import sys
import numpy as np
from dplan.detectors import _saving
from dplan.explain.explanation import effects

rows = np.random.default_rng(0).random((30, 3), dtype=np.float32)
for path in sys.argv[1:]:
    detector = _saving.load(path).detector
    detector.anomaly_score(rows)
    effects(detector, rows[:2], rows)
print(*sys.modules)
"""


def test_no_detector_imports_scikit_learn_to_score_and_explain(tmp_path):
    X, y = np.random.default_rng(0).random((100, 3)), np.arange(100) < 10
    paths = [tmp_path / f"{entry.name}.dplan" for entry in list_detectors()]
    for path in paths:
        clone(QUICK[path.stem]).fit(X, y).save(path)
    command = [sys.executable, "-c", SCORE_ALL, *map(str, paths)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "dplan.detectors.baselines" in loaded
    assert not {*UNNEEDED} & {*loaded}


def test_inspecting_imports_no_scikit_learn(folder):
    command = [sys.executable, "-m", "dplan", "inspect", "m.dplan"]
    run = subprocess.run(command, cwd=folder, env=PROFILED, capture_output=True, text=True, check=True)
    assert not imported(run.stderr) & {*UNNEEDED, "numba"}


def test_the_service_imports_no_scikit_learn(folder):
    with Running(folder, folder / "m.dplan", environment=PROFILED) as server:
        status, content, _ = server.ask("/score", {"rows": [{"a": 1, "b": 2, "c": 3}], "explain": True})
    assert status == 200, content
    check(server.log_text)


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_the_process_of_a_review_imports_no_scikit_learn(folder, tmp_path):
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "dplan",
        "review",
        "m.dplan",
        "table.csv",
        "--no-browser",
    ]
    command += ["--log", str(tmp_path / "log"), "--model-out", str(tmp_path / "new.dplan")]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(url).read()
        state = url.partition("/?")[0] + "/api/state"
        until(lambda: json.loads(opener.open(state).read())["opened"])
        process.send_signal(signal.SIGINT)
        process.wait(60)
    found = imported((tmp_path / "errors").read_text())
    assert "dplan.review.server" in found
    assert not found & set(UNNEEDED)


@pytest.mark.parametrize("name", ["table.csv", "table.duckdb", "table.parquet"])
def test_a_command_ends_without_a_word_of_its_libraries(folder, tmp_path, name):
    table = tmp_path / name
    if name.endswith("duckdb"):
        duckdb = pytest.importorskip("duckdb", reason="the extra [duckdb] is not installed")
        with duckdb.connect(str(table)) as connection:
            connection.execute(f"CREATE TABLE t AS FROM '{folder / 'table.csv'}'")
    elif name.endswith("csv"):
        table = folder / name
    else:
        pl.read_csv(folder / "table.csv").write_parquet(table)
    command = [sys.executable, "-m", "dplan", "score", str(table), "-m", str(folder / "m.dplan")]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "s.csv"), "--quiet"], check=True, capture_output=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
