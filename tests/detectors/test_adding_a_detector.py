"""A detector that the package has never seen is one file and one registry line: the page that says so is run here."""

import importlib

import numpy as np
import polars as pl
import pytest
from sklearn.utils.estimator_checks import check_estimator

import dplan
from dplan import ModelFileError
from dplan.detectors import _registry, _saving
from dplan.tables import TableModel
from tests.detectors.quick import NO_COPIES
from tests.test_docs import ROOT, blocks

FILE, *STEPS = blocks(ROOT / "docs" / "adding-a-detector.md")


@pytest.fixture(scope="module")
def mean_distance(tmp_path_factory):
    """Return the module that the page shows, imported from a file of its own."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "mean_distance.py").write_text(FILE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(_registry, "_ENTRIES", list(_registry._ENTRIES))
        yield importlib.import_module("mean_distance")


@pytest.fixture(scope="module")
def outcome(mean_distance, tmp_path_factory):
    """Do what the page says; return the folder that it was done in and what was printed."""
    folder, names = tmp_path_factory.mktemp("tried"), dict(vars(mean_distance))
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("click.echo", lambda text="", **_: printed.append(str(text)))
        for step in STEPS:
            exec(step, names)  # the code of our own page
    return folder, "\n".join(printed)


def test_it_is_fitted_saved_loaded_and_explained_from_the_command_line(outcome):
    folder, _ = outcome
    model = TableModel.load(folder / "fraud.dplan")
    assert type(model.detector).__name__ == "MeanDistance"
    assert model.detector.get_params()["robust"] is True
    scored = pl.read_csv(folder / "scored.csv")
    assert scored.height == 1000
    np.testing.assert_allclose(scored["score"], model.score(pl.read_csv(folder / "payments.csv")), rtol=1e-5)
    assert scored["reasons"].str.contains("amount").sum() >= 10


def test_it_is_inspected_reported_and_benchmarked(outcome):
    folder, printed = outcome
    assert "fraud.dplan: MeanDistance, format 1" in printed
    assert "Settings that differ from the defaults: random_state=0, robust=True" in printed
    assert "MeanDistance" in (folder / "report.html").read_text(encoding="utf-8")
    assert "MeanDistance" in (folder / "results" / "report.md").read_text(encoding="utf-8")


def test_it_is_exported(outcome):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, _ = outcome
    table = pl.read_csv(folder / "payments.csv")
    session = onnxruntime.InferenceSession(folder / "fraud.onnx")
    inputs = {"numbers": table.select("amount", "items").to_numpy()}
    np.testing.assert_allclose(
        session.run(None, inputs)[0], TableModel.load(folder / "fraud.dplan").score(table), atol=1e-5
    )


def test_its_files_are_checked(mean_distance, outcome, tmp_path):
    detector = mean_distance.MeanDistance().fit(np.random.default_rng(0).normal(size=(50, 3)))
    for wrong in (detector.mean_[:2], detector.mean_.astype(np.float64), np.full(3, np.nan, np.float32)):
        detector.mean_ = wrong
        _saving.save(tmp_path / "m.dplan", detector)
        with pytest.raises(ModelFileError, match="mean_"):
            dplan.load(tmp_path / "m.dplan")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::dplan.NoLabelsWarning")
def test_it_keeps_the_conventions_of_scikit_learn(mean_distance):
    check_estimator(mean_distance.MeanDistance(), expected_failed_checks=NO_COPIES)


def test_a_name_is_taken_once(mean_distance, outcome):
    with pytest.raises(ValueError, match="'MeanDistance' already"):
        _registry.register(_registry.entry_of("MeanDistance"))
