"""Starting, stopping, and models that are replaced while they are served."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from dplan import DPLAN
from dplan.serving import server
from dplan.tables import fit_table, from_table
from tests.serving.load import under_load
from tests.serving.process import Running, until
from tests.tables.payments import payments

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")


@pytest.fixture(scope="module")
def two_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    own = from_table(payments(2000), label="verdict", anomaly=["fraud"], id="payment")
    for name, n_steps in (("one", 200), ("two", 300)):
        detector = DPLAN(n_steps=n_steps, warmup_steps=100, n_trees=5, random_state=0)
        fit_table(own, detector, estimate=False).save(folder / f"{name}.dplan")
    return folder / "one.dplan", folder / "two.dplan"


def test_a_folder_of_models_is_served_as_its_files_change(two_models, tmp_path, rows):
    one, two = two_models
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(one, folder / "a.dplan")
    shutil.copy(two, folder / "b.dplan")
    with Running(tmp_path, folder) as running:

        def scores(name):
            status, found, _ = running.ask(f"/models/{name}/score", rows[:5])
            return found["score"] if status == 200 else status

        def names():
            return [model["name"] for model in running.ask("/models")[1]["models"]]

        first, second = scores("a"), scores("b")
        assert first != second
        status, found, _ = running.ask("/score", rows[:5])
        assert (status, "several models" in found["error"]) == (404, True)
        (folder / "a.dplan").write_bytes(b"damaged")
        until(lambda: "model not loaded" in running.log_text)
        assert scores("a") == first
        shutil.copy(two, tmp_path / "new")
        os.replace(tmp_path / "new", folder / "a.dplan")
        until(lambda: scores("a") == second)
        shutil.copy(one, folder / "c.dplan")
        until(lambda: "c" in names())
        assert scores("c") == first
        (folder / "b.dplan").unlink()
        until(lambda: "b" not in names())
        assert scores("b") == 404
    events = [entry["event"] for entry in running.log if entry["event"] != "request"]
    assert events == [
        "model loaded", "model loaded", "model not loaded", "model replaced", "model loaded", "model removed",
        "stopped",
    ]  # fmt: skip


@pytest.mark.parametrize("seconds", [6, pytest.param(300, marks=pytest.mark.soak)])
def test_five_minutes_of_faults(seconds, two_models, tmp_path, rows):
    """Models are replaced, clients stall, leave or send nonsense; at the end comes SIGTERM, under load."""
    found = under_load(two_models, tmp_path, rows, seconds)
    print(f"\n{seconds} s under load: {found}")  # noqa: T201
    assert found["scored"] > 0
    assert found["replaced"] > 0
    assert found["wrong scores"] == found["5xx"] == found["cut off"] == 0
    assert found["malformed refused"] > 0
    assert found["exit code"] == 0
    assert found["answered by the log"] == found["scored"]
    assert found["models seen"] == 2
    assert found["megabytes grown"] < 50


def test_a_second_server_on_one_port_is_an_error_in_one_line(serving, model_path):
    command = [sys.executable, "-m", "dplan", "serve", str(model_path), "--port", str(serving.port)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(f"Error: cannot listen on 127.0.0.1:{serving.port}")


@pytest.mark.parametrize("content", [None, b"not a model"])
def test_without_a_model_it_does_not_start(content, tmp_path):
    if content is not None:
        (tmp_path / "m.dplan").write_bytes(content)
    command = [sys.executable, "-m", "dplan", "serve", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("Error: ")
    assert ("contains no .dplan file" if content is None else "m.dplan") in run.stderr.splitlines()[-1]


def test_some_files_are_left_for_models():
    code = (
        "import resource\n"
        "from dplan.serving.server import _connections\n"
        "for files in (4000, 2064, 500, 65, 60):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))\n"
        "    print(_connections())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2000", "2000", "436", "1", "1"], done.stderr


@pytest.mark.parametrize(("quiet", "level"), [(False, logging.INFO), (True, logging.WARNING)])
def test_the_log_is_json_and_says_less_if_asked_to(quiet, level, capsys):
    names = ("dplan.serving", "uvicorn")
    before = {
        name: (log.handlers, log.propagate, log.level) for name in names for log in [logging.getLogger(name)]
    }
    try:
        server._log_to_stderr(quiet)
        own, theirs = map(logging.getLogger, names)
        assert (own.level, theirs.level) == (level, logging.WARNING)
        assert not own.propagate
        assert not theirs.propagate
        own.info("model loaded", extra={"fields": {"model": "m"}})
        own.warning("model not loaded")
        theirs.info("started")
        theirs.warning("odd")
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    finally:
        for name, (handlers, propagate, own_level) in before.items():
            log = logging.getLogger(name)
            log.handlers, log.propagate = handlers, propagate
            log.setLevel(own_level)
    said = [(line["level"], line["event"], line.get("model")) for line in lines]
    expected = [
        ("info", "model loaded", "m"),
        ("warning", "model not loaded", None),
        ("warning", "odd", None),
    ]
    assert said == expected[quiet:]
    for line in lines:
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        assert re.search(r"\.\d{3}\+00:00$", line["time"])
