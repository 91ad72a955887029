"""Calls that people know from scikit-learn do what they do there."""

import io
import logging
import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dplan
from dplan import DPLAN, DevNet, DPLANEnsemble, LogisticBaseline, metrics
from tests.detectors.quick import QUICK


def small_task(n_rows=400):
    X = np.random.default_rng(0).normal(size=(n_rows, 4))
    X[:30, 1] += 5
    return X, (np.arange(n_rows) < 30).astype(int)


@pytest.mark.parametrize("name", QUICK)
def test_fit_predict_learns_from_the_labels(name):
    X, y = small_task()
    together = clone(QUICK[name]).fit_predict(X, y)
    np.testing.assert_array_equal(together, clone(QUICK[name]).fit(X, y).predict(X))


def test_n_jobs_means_the_same_as_in_scikit_learn(monkeypatch):
    from dplan.detectors.ensemble import ensemble, training

    asked = []

    class Pool(ensemble.ThreadPoolExecutor):
        def __init__(self, n_threads):
            asked.append(n_threads)
            super().__init__(n_threads)

    for module in (ensemble, training):
        monkeypatch.setattr(module, "ThreadPoolExecutor", Pool)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "3")  # which joblib takes for the number of cores
    X, y = small_task()
    scores = []
    for n_jobs, expected in ((None, 1), (1, 1), (2, 2), (-1, min(3, os.cpu_count()))):
        asked.clear()
        scores.append(clone(QUICK["DPLANEnsemble"]).set_params(n_jobs=n_jobs).fit(X, y).anomaly_score(X))
        assert set(asked) == {expected}
    for found in scores[1:]:
        np.testing.assert_array_equal(found, scores[0])
    for wrong in (0, 1.5, "all", True):
        with pytest.raises(ValueError, match="n_jobs must be None, a number of threads, or -1"):
            clone(QUICK["DPLANEnsemble"]).set_params(n_jobs=wrong).fit(X, y)


@pytest.fixture
def logger():
    """Return our logger as a fresh process has it, without the handlers of pytest; all is undone afterwards."""
    logger = logging.getLogger("dplan")
    logger.propagate = False
    yield logger
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


@pytest.mark.filterwarnings("ignore::dplan.exceptions.ManyAnomaliesWarning")
@pytest.mark.parametrize("level", [None, logging.INFO, logging.WARNING])
def test_verbose_prints_each_round_once_with_any_logging_setup(level, logger, capsys):
    stream = io.StringIO()
    if level is not None:
        logger.addHandler(logging.StreamHandler(stream))
        logger.setLevel(level)
    X, y = small_task(50)
    few = {"n_epochs": 3, "epoch_batches": 2, "random_state": 0}
    DevNet(**few, verbose=1).fit(X, y)
    lines = (capsys.readouterr().out + stream.getvalue()).splitlines()
    assert [line.split(", ")[0].rsplit(" ", 1)[0] for line in lines] == [
        f"DevNet: epoch {epoch}: loss" for epoch in (1, 2, 3)
    ]
    assert bool(stream.getvalue()) == (level == logging.INFO)
    DevNet(**few).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", [DPLAN, DPLANEnsemble])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden_units": 7}, "cannot continue with hidden_units=7"),
        ({"contamination": 5}, r"contamination must be a number in \(0, 0.5\], got 5"),
        ({"n_steps": 0}, "n_steps must be an integer >= 1"),
        ({"callback": 3}, "callback must be None or a function"),
    ],
)
def test_partial_fit_checks_parameters_before_anything_changes(kind, changed, message):
    X, y = small_task()
    detector = clone(QUICK[kind.__name__]).fit(X, y)
    before, offset, n_rounds = detector.anomaly_score(X), detector.offset_, len(detector.history_["seconds"])
    with pytest.raises(ValueError, match=message):
        detector.set_params(**changed).partial_fit(X, y)
    np.testing.assert_array_equal(detector.anomaly_score(X), before)
    assert (detector.offset_, len(detector.history_["seconds"])) == (offset, n_rounds)


@pytest.mark.parametrize("scorer", [metrics.average_precision, metrics.roc_auc])
def test_scorers_rate_a_good_detector_near_1(scorer):
    X, y = small_task()
    y[5:15] = 2  # classes of anomalies are anomalies all the same
    found = cross_val_score(LogisticBaseline(), X, np.minimum(y, 1), scoring=scorer, cv=StratifiedKFold(3))
    assert found.min() > 0.9
    fitted = LogisticBaseline().fit(X, y)
    plain = scorer(fitted, X, y)
    checked = np.where((y == 0) & (np.arange(len(y)) % 2 == 0), -1, y)
    assert scorer(fitted, X, checked) == plain
    assert scorer(make_pipeline(StandardScaler(), LogisticBaseline()).fit(X, y), X, y) > 0.9


def test_roc_auc_is_scikit_learns_with_the_opposite_sign():
    X, y = small_task()
    detector = DevNet(n_epochs=2, random_state=0).fit(X, y)
    assert metrics.roc_auc(detector, X, y) == pytest.approx(roc_auc_score(y, detector.anomaly_score(X)))
    assert metrics.roc_auc(detector, X, y) == pytest.approx(1 - roc_auc_score(y, detector.score_samples(X)))


def test_a_fold_without_anomalies_raises():
    X, y = small_task()
    folds = [(np.arange(300), np.arange(300, 400))]
    with pytest.raises(ValueError, match=r"0 of 100 rows are labelled as anomalies.*StratifiedKFold"):
        cross_val_score(LogisticBaseline(), X, y, scoring=metrics.roc_auc, cv=folds, error_score="raise")


def test_a_grid_search_finds_the_better_setting():
    X, y = small_task()
    search = GridSearchCV(
        DevNet(random_state=0, epoch_batches=20),
        {"n_epochs": [1, 10], "learning_rate": [1e-6, 1e-3]},
        scoring=metrics.average_precision,
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    ).fit(X, y)
    assert search.best_params_["learning_rate"] == 1e-3
    assert search.best_score_ > 0.9


@pytest.mark.filterwarnings("ignore::dplan.exceptions.ManyAnomaliesWarning")
@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, lambda columns: np.array([*columns.values()]).T]
)
@pytest.mark.parametrize("method", ["fit", "anomaly_score"])
def test_text_columns_raise_with_advice(make, method):
    X, y = small_task(50)
    detector = LogisticBaseline().fit(make({"amount": X[:, 0], "country": X[:, 1]}), y)
    table = make({"amount": X[:, 0], "country": ["de", "fr"] * 25})
    with pytest.raises(ValueError, match=r"(?s)'(de|fr)'.*contains text.*TableDetector.*TablePreparer"):
        detector.fit(table, y) if method == "fit" else detector.anomaly_score(table)


def test_every_named_error_is_a_dplan_error():
    from dplan import exceptions

    errors = [
        kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    for kind in errors:
        if not issubclass(kind, Warning):
            assert issubclass(kind, dplan.DplanError)
            assert kind.__name__ in exceptions.__doc__
    assert issubclass(dplan.ModelFileError, ValueError)
    assert issubclass(exceptions.DownloadError, OSError)
