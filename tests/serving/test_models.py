"""Odd files in a folder of models keep only themselves from being served."""

import json
import os
import resource
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.persistence import model_file
from dplan.serving.metrics import Metrics
from dplan.serving.models import Limits, Models
from dplan.tables import fit_table, from_table
from tests.persistence.crafting import Draft

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes pipes and links")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
    path = tmp_path_factory.mktemp("good") / "good.dplan"
    model.save(path)
    return model, path


def sparse(path):
    path.write_bytes(b"\x00")
    os.truncate(path, 3 * 2**30)


ODD = {
    "a pipe": (os.mkfifo, "not a regular file"),
    "a large file": (sparse, "not a dplan model file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "a loop": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "a folder": (Path.mkdir, "directory"),
}


def refreshed(models):
    """What changed; a file that is waited for makes the test fail."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(lambda: list(models.refresh())).result(60)
    finally:
        pool.shutdown(wait=False)


@pytest.mark.parametrize("what", ODD)
def test_an_odd_file_is_named_once_and_the_others_are_served(what, good, tmp_path):
    make, problem = ODD[what]
    make(tmp_path / "a.dplan")
    shutil.copy(good[1], tmp_path / "b.dplan")
    models = Models(tmp_path, Limits(), ThreadPoolExecutor(1), lambda *_: None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    events = refreshed(models)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert [(event.name, event.event) for event in events] == [
        ("a", "model not loaded"),
        ("b", "model loaded"),
    ]
    assert problem in events[0].error
    assert refreshed(models) == []
    assert list(models.current) == ["b"]


def test_a_name_that_is_not_utf_8_is_not_served(good, tmp_path):
    shutil.copy(good[1], os.fsencode(tmp_path) + b"/caf\xe9.dplan")
    shutil.copy(good[1], tmp_path / "b.dplan")
    models = Models(tmp_path, Limits(), ThreadPoolExecutor(1), lambda *_: None)
    events = refreshed(models)
    assert sorted((event.name, event.error) for event in events) == [
        ("b", ""),
        (r"caf\udce9", "the name of the file is not UTF-8"),
    ]
    assert list(models.current) == ["b"]
    json.dumps(list(models.problems.values()), ensure_ascii=False).encode()


def test_a_model_with_infinite_scores_is_not_served_and_the_others_are(good, tmp_path, monkeypatch):
    model, path = good
    for name in ("a", "b", "c"):
        shutil.copy(path, tmp_path / f"{name}.dplan")
    score, calls = type(model.detector)._score, []

    def infinite_once(self, X):
        calls.append(len(X))
        return np.full(len(X), np.inf) if len(calls) == 1 else score(self, X)

    monkeypatch.setattr(type(model.detector), "_score", infinite_once)
    models = Models(tmp_path, Limits(), ThreadPoolExecutor(1), lambda *_: None)
    events = refreshed(models)
    assert [event.event for event in events] == ["model not loaded", "model loaded", "model loaded"]
    assert "inf" in events[0].error
    assert list(models.current) == ["b", "c"]


def test_a_folder_that_cannot_be_read_for_a_moment_keeps_its_models(good, tmp_path, monkeypatch):
    shutil.copy(good[1], tmp_path / "a.dplan")
    models = Models(tmp_path, Limits(), ThreadPoolExecutor(1), lambda *_: None)
    refreshed(models)

    def fail(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(os, "open", fail)
        full.setattr(os, "listdir", fail)
        full.setattr(os, "scandir", fail)
        with pytest.raises(OSError, match="Too many open files"):
            list(models.refresh())
    assert list(models.current) == ["a"]


def test_every_kind_of_event_has_a_count_before_the_first():
    text = Metrics(dict).text().decode()
    for event in ("loaded", "replaced", "removed", "not loaded"):
        assert f'dplan_model_events_total{{event="{event}"}} 0.0' in text


@pytest.mark.parametrize(
    ("name", "value"), [("reading", 7), ("reading", None), ("label", None), ("rows", "many"), ("spin", 1)]
)
def test_a_crafted_model_is_refused_and_the_one_before_is_kept(name, value, good, tmp_path):
    shutil.copy(good[1], tmp_path / "a.dplan")
    models = Models(tmp_path, Limits(), ThreadPoolExecutor(1), lambda *_: None)
    refreshed(models)
    before = models.current["a"]
    tensors, metadata, _ = model_file._unpacked(good[1])
    crafted = Draft(json.loads(metadata["dplan"]), tensors)
    crafted.description["summary"][name] = value
    (tmp_path / "a.dplan").write_bytes(crafted.signed())
    (event,) = refreshed(models)
    assert event.event == "model not loaded"
    assert "the summary cannot be used" in event.error
    assert models.current["a"] is before
