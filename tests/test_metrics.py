"""Our areas and curves against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from dplan.metrics import RankedScores


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
