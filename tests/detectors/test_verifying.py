"""With DPLAN_VERIFY=1, every score is computed in other ways, too, and a difference is an error."""

import asyncio
import functools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone

from dplan.cli.main import main
from dplan.detectors import _verifying
from dplan.detectors._verifying import plain_scores
from dplan.serving.app import Service
from dplan.serving.models import Limits
from dplan.tables import TableModel
from tests.detectors.quick import QUICK
from tests.serving.test_promises import asked
from tests.tables.payments import payments

pytestmark = pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")

WITHOUT_TWIN = {"DeepSAD", "DeepSAD, inverse", "REPEN"}  # whose scores are distances


@functools.cache
def fitted(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1, 10, 100, 0.1, 1]
    X[:30, 1] += 60
    return clone(QUICK[name]).fit(X, (np.arange(400) < 15).astype(int)), X


@pytest.fixture
def verifying(monkeypatch):
    """Computes scores twice, and counts how often they are compared."""
    compared, real = [], _verifying._compare
    monkeypatch.setattr(_verifying, "_compare", lambda *given: compared.append(given[-1]) or real(*given))
    monkeypatch.setenv("DPLAN_VERIFY", "1")
    return compared


@pytest.mark.any_processor
@pytest.mark.parametrize("name", QUICK)
def test_scores_are_the_same_computed_in_other_ways(name, verifying):
    detector, X = fitted(name)
    detector.anomaly_score(X)
    assert (plain_scores(detector._terms()) is None) == (name in WITHOUT_TWIN)
    columns = 2 * ["as a column of trees in plain NumPy"] if "Ensemble" in name else []
    twin = [] if name in WITHOUT_TWIN else [*columns, "in plain NumPy"]
    assert verifying == ["among other rows", *twin]


def test_scores_are_computed_once_unless_asked_for(verifying, monkeypatch):
    detector, X = fitted("IForest")
    for value in ("0", ""):
        monkeypatch.setenv("DPLAN_VERIFY", value)
        detector.anomaly_score(X)
    assert verifying == []


@pytest.mark.parametrize("name", ["IForest", "BoostedBaseline", "DPLAN", "LogisticBaseline", "DPLANEnsemble"])
def test_a_score_that_is_slightly_wrong_is_an_error(name, verifying, monkeypatch):
    detector, X = fitted(name)
    score = type(detector)._score
    monkeypatch.setattr(type(detector), "_score", lambda self, rows: score(self, rows) * np.float32(1.001))
    with pytest.raises(RuntimeError, match=r"DPLAN_VERIFY: row [\d,]+ has the score .* in plain NumPy"):
        detector.anomaly_score(X)


def test_a_score_that_depends_on_its_place_is_an_error(verifying, monkeypatch):
    detector, X = fitted("IForest")
    score = type(detector)._score
    monkeypatch.setattr(
        type(detector), "_score", lambda self, rows: score(self, rows) + 1e-15 * np.arange(len(rows))
    )
    with pytest.raises(RuntimeError, match=r"row 1 has the score .* among other rows"):
        detector.anomaly_score(X)


def test_the_commands_and_the_service_hold_what_is_verified(verifying, tmp_path):
    payments(500).write_csv(tmp_path / "train.csv")
    payments(60, seed=1).write_csv(tmp_path / "new.csv")
    model = tmp_path / "m.dplan"

    def run(*arguments):
        before = len(verifying)
        done = CliRunner().invoke(main, list(map(str, arguments)))
        assert done.exit_code == 0, done.output
        assert len(verifying) > before or arguments[0] in ("fit", "update")  # which learn

    quick = [
        f"--set={name}"
        for name in ("n_agents=1", "n_steps=300", "warmup_steps=100", "n_rounds=5", "n_trees=10")
    ]
    labels = ("--label", "verdict", "--anomaly", "fraud")
    run("fit", tmp_path / "train.csv", *labels, "--id", "payment", "--no-estimate", *quick, "-o", model)
    run("score", tmp_path / "new.csv", "-m", model, "--budget", 5, "--explain", "-o", tmp_path / "scored.csv")
    run("score", tmp_path / "new.csv", "-m", model, "--review", tmp_path / "queue.csv")
    run("report", model, tmp_path / "new.csv", "-o", tmp_path / "report.html")
    run("update", model, tmp_path / "train.csv", *labels, "--no-estimate")
    before = len(verifying)
    row = dict.fromkeys(TableModel.load(model).columns) | {"amount": 900.0, "country": "XX"}
    status, _, found = asyncio.run(asked(Service(model, Limits()).app, json.dumps([row]).encode()))
    assert status == 200, found
    assert len(verifying) > before
