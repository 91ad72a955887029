"""Our areas and curves against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from dplan import LogisticBaseline
from dplan.metrics import RankedScores, average_precision, precision_at, roc_auc


def made_up(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 3000))
    truth = rng.random(n) < rng.choice([0.02, 0.3, 0.9])
    truth[:2] = True, False
    scores = rng.normal(size=n) + truth
    return truth, np.round(scores) if seed % 2 else scores  # rounded: with ties


@pytest.mark.parametrize("seed", range(20))
def test_areas_agree_with_scikit_learn(seed):
    truth, scores = made_up(seed)
    auc_pr, auc_roc = RankedScores(scores).areas(truth, ~truth)
    assert auc_pr == pytest.approx(average_precision_score(truth, scores), rel=1e-12)
    assert auc_roc == pytest.approx(roc_auc_score(truth, scores), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_precision_and_recall_agree_with_scikit_learn(seed):
    truth, scores = made_up(seed)
    precision, recall = RankedScores(scores).precision_recall(truth, ~truth)
    theirs = precision_recall_curve(truth, scores)
    np.testing.assert_allclose(precision[::-1], theirs[0][:-1])  # scikit-learn adds an end point
    np.testing.assert_allclose(recall[::-1], theirs[1][:-1])


def test_rows_of_other_groups_do_not_count():
    scores = np.array([1.0, 3.0, 0.0, 2.0])
    first, second = np.array([True, False, False, False]), np.array([False, True, False, False])
    normal = ~(first | second)
    ranked = RankedScores(scores)
    assert [ranked.areas(group, normal)[1] for group in (first, second, first | second)] == [0.5, 1.0, 0.75]


def test_an_empty_group_has_no_area():
    nobody, everybody = np.zeros(3, dtype=bool), np.ones(3, dtype=bool)
    assert RankedScores(np.arange(3.0)).areas(nobody, everybody) is None
    assert RankedScores(np.arange(3.0)).areas(everybody, nobody) is None


def test_precision_at_counts_ties_as_any_order_would_on_average():
    rng = np.random.default_rng(0)
    truth, scores = rng.random(40) < 0.4, rng.integers(0, 6, 40).astype(float)
    for top in (1, 3, 7, 20, 39, 40, 100):
        found = []
        for _ in range(3000):
            order = rng.permutation(40)
            found.append(truth[order][np.argsort(-scores[order], kind="stable")[:top]].mean())
        assert precision_at(top, truth, scores) == pytest.approx(np.mean(found), abs=0.03)
    assert precision_at(2, np.array([True, True, False, False]), np.array([9.0, 1.0, 1.0, 0.0])) == 0.75


def test_estimators_are_scored_by_scikit_learns_areas():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), (np.arange(200) < 20).astype(int)
    X[y > 0] += 1
    fitted = LogisticBaseline(random_state=0).fit(X, y)
    scores = fitted.anomaly_score(X)
    assert average_precision(fitted, X, y) == pytest.approx(average_precision_score(y, scores), rel=1e-12)
    assert roc_auc(fitted, X, y) == pytest.approx(roc_auc_score(y, scores), rel=1e-12)
    assert roc_auc(fitted, X, y) != average_precision(fitted, X, y)
    with pytest.raises(
        ValueError, match="20 of 20 rows are labelled as anomalies; both classes are required"
    ):
        roc_auc(fitted, X[:20], y[:20])
