from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import average_precision_score, roc_auc_score

from dplan import IForest, LogisticBaseline
from dplan.benchmark.compare import as_table, averages, compare, ranking_quality


def make_task(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.repeat([0, 1, 2], [900, 60, 40]))
    X = rng.normal(size=(1_000, 4)) + 3 * (kinds == 1)[:, None] + [3, 0, 0, 0] * (kinds == 2)[:, None]
    y = np.where(np.cumsum(kinds == 1) <= 20, kinds == 1, 0)
    return SimpleNamespace(X=X, y=y, X_test=X, known_mask=kinds == 1, unknown_mask=kinds == 2)


@pytest.fixture(scope="module")
def outcomes():
    return compare(make_task, {"forest": IForest(n_estimators=20), "logistic": LogisticBaseline()}, [0, 1, 2])


def test_every_detector_runs_once_per_seed(outcomes):
    assert [(o.detector, o.seed) for o in outcomes] == [
        (d, s) for s in (0, 1, 2) for d in ("forest", "logistic")
    ]


def test_figures_are_those_of_the_fitted_detector(outcomes):
    task, last = make_task(2), outcomes[-1].figures
    scores = LogisticBaseline(random_state=2).fit(task.X, task.y).anomaly_score(task.X_test)
    anomalous, known = task.known_mask | task.unknown_mask, ~task.unknown_mask
    assert last.auc_pr == average_precision_score(anomalous, scores)
    assert last.auc_roc == roc_auc_score(anomalous, scores)
    assert last.auc_roc_known == roc_auc_score(task.known_mask[known], scores[known])
    assert last.fit_seconds > 0
    assert last.score_seconds > 0


def test_what_was_passed_in_is_not_fitted():
    detector = LogisticBaseline()
    compare(make_task, {"logistic": detector}, [0])
    assert not hasattr(detector, "coefficients_")


def test_other_anomalies_do_not_count_against_a_group():
    known, unknown = np.array([True, False, False, False]), np.array([False, True, False, False])
    quality = ranking_quality(np.array([1.0, 3.0, 0.0, 2.0]), known, unknown)
    assert (quality["auc_roc_known"], quality["auc_roc_unknown"], quality["auc_roc"]) == (0.5, 1.0, 0.75)


def test_averages_are_over_the_seeds(outcomes):
    mean, deviation = averages(outcomes)["forest"]
    values = [o.figures.auc_roc for o in outcomes if o.detector == "forest"]
    assert mean.auc_roc == pytest.approx(np.mean(values))
    assert deviation.auc_roc == pytest.approx(np.std(values))


def test_progress_is_told_after_every_fit():
    seen = []
    compare(make_task, {"logistic": LogisticBaseline()}, [5, 6], on_outcome=seen.append)
    assert [o.seed for o in seen] == [5, 6]


def test_the_table_shows_ours_beside_the_published_figures(outcomes):
    text = StringIO()
    Console(file=text, width=200).print(as_table(outcomes, "A comparison", {"forest": (0.123, 0.987)}))
    shown = text.getvalue()
    assert "A comparison" in shown
    forest, logistic = (line for line in shown.splitlines() if "forest" in line or "logistic" in line)
    assert "0.123" in forest
    assert "0.987" in forest
    assert "–" in logistic
    assert f"{averages(outcomes)['logistic'][0].auc_roc:.3f}" in logistic
