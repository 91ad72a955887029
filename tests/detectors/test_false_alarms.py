"""Checked rows and their near duplicates stop alerting, and anomalies beside them do not; nothing is forgotten."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from dplan import DPLANEnsemble

# TODO: remove the mark when the agents of the ensemble learn from checked rows.
pytestmark = pytest.mark.xfail(reason="the agents of the ensemble take checked rows for unlabelled ones")

FEW = {"n_agents": 1, "random_state": 0}


@pytest.fixture(scope="module")
def reviewed():
    """Return rows, labels, and which rows are anomalies, and which are odd but harmless.

    Harmless rows lie beside the anomalies: they are the same in three columns and differ in the fourth. Five of sixty
    are checked.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 6))
    anomalous, harmless = np.arange(3_000) < 60, (np.arange(3_000) >= 60) & (np.arange(3_000) < 120)
    X[anomalous | harmless, :3] = 4 + 0.3 * X[anomalous | harmless, :3]
    X[anomalous, 3] = 2 + 0.3 * X[anomalous, 3]
    X[harmless, 3] = -2 + 0.3 * X[harmless, 3]
    known = np.where(np.arange(3_000) < 15, 1, 0)
    return X, known, np.where(harmless & (np.arange(3_000) < 65), -1, known), anomalous, harmless


def test_checked_rows_and_their_near_duplicates_stop_alerting(reviewed):
    X, known, y, anomalous, harmless = reviewed
    before, after = (DPLANEnsemble(**FEW).fit(X, labels) for labels in (known, y))
    assert (before.predict(X[harmless]) < 0).mean() > 0.5
    assert (after.predict(X[harmless]) < 0).mean() <= 0.05
    found_before, found_after = ((fitted.predict(X[anomalous]) < 0).mean() for fitted in (before, after))
    assert found_after >= found_before - 0.05
    assert found_after > 0.9
    normal = ~anomalous
    gain = average_precision_score(anomalous[anomalous | normal], after.anomaly_score(X))
    assert gain > 0.95


def test_a_few_wrong_verdicts_do_little_harm(reviewed):
    X, known, y, anomalous, _ = reviewed
    wrong = y.copy()
    wrong[[0, 60]] = [-1, 1]  # a tenth of the verdicts
    plain, right, flipped = (
        average_precision_score(anomalous, DPLANEnsemble(**FEW).fit(X, labels).anomaly_score(X))
        for labels in (known, y, wrong)
    )
    assert flipped - plain >= 0.9 * (right - plain) - 0.02
