"""Our areas against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from dplan.benchmark.compare import ranking_quality
from dplan.benchmark.metrics import SortedScores, measure
from dplan.datasets import scenario


@pytest.mark.parametrize("seed", range(20))
def test_areas_agree_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 3000))
    truth = rng.random(n) < rng.choice([0.02, 0.3, 0.9])
    truth[:2] = True, False
    scores = rng.normal(size=n) + truth
    if seed % 2:
        scores = np.round(scores)  # ties
    auc_pr, auc_roc = SortedScores(scores).areas(truth, ~truth)
    assert auc_pr == pytest.approx(average_precision_score(truth, scores), rel=1e-12)
    assert auc_roc == pytest.approx(roc_auc_score(truth, scores), rel=1e-12)


def test_groups_are_judged_against_normal_rows_alone():
    task = scenario("covertype-mini/cottonwood-v1")
    scores = np.random.default_rng(0).normal(size=len(task.y_test)) + task.y_test
    measured = measure(task, scores)
    for name, value in ranking_quality(scores, task.known_mask, task.unknown_mask).items():
        assert measured[name] == pytest.approx(value, rel=1e-12)
    assert measured["classes"]["cottonwood"][0] == measured["auc_pr_known"]
    assert list(measured["classes"]) == ["cottonwood", "douglas-fir"]


def test_an_empty_group_has_no_area():
    nobody, everybody = np.zeros(3, dtype=bool), np.ones(3, dtype=bool)
    assert SortedScores(np.arange(3.0)).areas(nobody, everybody) is None
    assert SortedScores(np.arange(3.0)).areas(everybody, nobody) is None
