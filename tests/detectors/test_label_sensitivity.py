"""Labels matter, and the right way round, on data where an unsupervised forest is near chance."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import dplan

LABEL_USING = {entry.name: entry.create() for entry in dplan.list_detectors() if entry.uses_labels}
LABEL_USING["DeepSAD, inverse"] = dplan.DeepSAD(loss="inverse")
LABEL_USING["BoostedBaseline"].set_params(n_estimators=30)  # enough here, and quicker
over_all = pytest.mark.parametrize("detector", LABEL_USING.values(), ids=LABEL_USING.keys())


def rows(rng, n_normal, n_anomalies):
    """Uniform rows; of anomalies, four columns lie in their upper half, well within the others' range."""
    X = rng.random((n_normal + n_anomalies, 10))
    X[n_normal:, :4] = 0.5 + 0.5 * X[n_normal:, :4]
    return X, np.arange(len(X)) >= n_normal


@pytest.fixture(scope="module")
def task():
    """Return training rows, which of them are labelled anomalies, which anomalies at all; and test rows, with truth."""
    rng = np.random.default_rng(0)
    X, anomalous = rows(rng, 3_000, 120)
    labelled = anomalous & (np.cumsum(anomalous) <= 60)
    return X, labelled, anomalous, *rows(rng, 2_000, 400)


def quality(detector, X, y, X_test, truth):
    return roc_auc_score(truth, clone(detector).set_params(random_state=0).fit(X, y).anomaly_score(X_test))


def test_the_forest_is_near_chance(task):
    X, labelled, _, X_test, truth = task
    assert abs(quality(dplan.IForest(), X, labelled.astype(int), X_test, truth) - 0.5) < 0.1


@over_all
def test_true_labels_beat_permuted_ones(detector, task):
    X, labelled, _, X_test, truth = task
    rng = np.random.default_rng(1)
    true = quality(detector, X, labelled.astype(int), X_test, truth)
    permuted = [quality(detector, X, rng.permutation(labelled).astype(int), X_test, truth) for _ in range(3)]
    assert true > 0.75
    assert true >= np.mean(permuted) + 0.1, (true, permuted)


@pytest.mark.filterwarnings("ignore::dplan.exceptions.ManyAnomaliesWarning")
@over_all
def test_inverted_labels_are_worse_than_chance(detector, task):
    X, _, anomalous, X_test, truth = task
    assert quality(detector, X, (~anomalous).astype(int), X_test, truth) < 0.4


@over_all
def test_verdicts_of_both_kinds_count_the_right_way_round(detector, task):
    X, labelled, anomalous, X_test, truth = task
    checked = ~anomalous & (np.cumsum(~anomalous) <= 60)
    verdicts = labelled.astype(int) - checked
    assert quality(detector, X, verdicts, X_test, truth) > 0.75
    assert quality(detector, X, -verdicts, X_test, truth) < 0.5


@over_all
def test_without_labels_the_ranking_is_still_sensible(detector):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 5))
    outlying = np.arange(2_000) < 40
    X[outlying] = 2 + 2 * X[outlying]
    with pytest.warns(dplan.NoLabelsWarning):
        fitted = clone(detector).set_params(random_state=0).fit(X)
    scores = fitted.anomaly_score(X)
    assert np.isfinite(scores).all()
    assert roc_auc_score(outlying, scores) > 0.7
