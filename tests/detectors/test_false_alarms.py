"""Checked rows and their near duplicates stop alerting, and anomalies beside them do not; nothing is forgotten."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from dplan import DPLANEnsemble

FEW = {"n_agents": 2, "contamination": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def reviewed():
    """Return rows, labels, and which rows are anomalies, and which are odd but harmless.

    Harmless rows lie beside the anomalies: they are the same in three columns and differ in the fourth. There are
    five, each with eleven near duplicates; the five are checked.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 6))
    anomalous, harmless = np.arange(3_000) < 60, (np.arange(3_000) >= 60) & (np.arange(3_000) < 120)
    X[anomalous | harmless, :3] = 4 + 0.3 * X[anomalous | harmless, :3]
    X[anomalous, 3] = 2 + 0.3 * X[anomalous, 3]
    X[harmless, 3] = -2 + 0.3 * X[harmless, 3]
    X[65:120] = np.tile(X[60:65], (11, 1)) + 0.02 * X[65:120]
    known = np.where(np.arange(3_000) < 15, 1, 0)
    return X, known, np.where(harmless & (np.arange(3_000) < 65), -1, known), anomalous, harmless


def test_near_duplicates_of_checked_rows_fall_and_anomalies_beside_them_do_not(reviewed):
    X, known, y, anomalous, harmless = reviewed
    height = []  # of harmless rows, between ordinary rows and anomalies
    for labels in (known, y):
        detector = DPLANEnsemble(**FEW).fit(X, labels)
        scores = detector.anomaly_score(X)
        low, high = np.median(scores[~anomalous & ~harmless]), np.median(scores[anomalous])
        height.append((scores[harmless].mean() - low) / (high - low))
        assert (detector.predict(X[anomalous]) < 0).mean() > 0.95
        assert average_precision_score(anomalous, scores) > 0.95
    assert height[0] > 0.3
    assert height[1] < 0.6 * height[0]


def test_a_few_wrong_verdicts_do_little_harm(reviewed):
    X, _, y, anomalous, _ = reviewed
    wrong = y.copy()
    wrong[[0, 60]] = [-1, 1]  # a tenth of the verdicts
    assert average_precision_score(anomalous, DPLANEnsemble(**FEW).fit(X, wrong).anomaly_score(X)) > 0.9
