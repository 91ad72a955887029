import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from dplan import BoostedBaseline, LogisticBaseline


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.random((3_000, 5)).astype(np.float32)
    X[:60] += 0.4
    return X, (np.arange(3_000) < 40).astype(int)


def test_logistic_scores_are_those_of_scikit_learn(table):
    X, y = table
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(X, y)
    ours = LogisticBaseline(scale=False).fit(X, y).anomaly_score(X)
    np.testing.assert_allclose(ours, model.decision_function(X), rtol=1e-4, atol=1e-4)


def test_boosted_scores_are_those_of_scikit_learn(table):
    X, y = table
    model = HistGradientBoostingClassifier(max_iter=30, l2_regularization=1.0, early_stopping=False)
    with threadpool_limits(1):
        theirs = model.fit(X, y).decision_function(X)
    ours = BoostedBaseline(n_estimators=30, scale=False).fit(X, y).anomaly_score(X)
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-9)


def test_a_rare_class_does_not_make_boosting_overshoot():
    """Without a penalty on leaves, the ranking of such a table is near chance."""
    rng = np.random.default_rng(0)
    X = rng.random((40_000, 4)).astype(np.float32)
    anomalous = np.arange(40_000) < 800
    X[anomalous, :2] = 0.6 + 0.4 * X[anomalous, :2]
    scores = BoostedBaseline(n_estimators=50).fit(X, (np.arange(40_000) < 20).astype(int)).anomaly_score(X)
    assert roc_auc_score(anomalous[20:], scores[20:]) > 0.85


def test_all_classes_of_anomalies_count_as_one(table):
    X, y = table
    for detector in (LogisticBaseline(), BoostedBaseline(n_estimators=5)):
        one, other = (
            detector.fit(X, labels).anomaly_score(X) for labels in (y, y * (1 + np.arange(3_000) % 2))
        )
        np.testing.assert_array_equal(one, other)
