"""Progress: honest estimates."""

import gzip
import json

import numpy as np
import pytest

from dplan.likeness import Likeness
from dplan.review.progress import FEWEST, alert_volume, likely_rate, next_rows
from tests.conftest import PROJECT

RESULTS = PROJECT / "experiments" / "results"


def cells(name):
    """Return the finished simulated reviews of a folder of results."""
    with gzip.open(RESULTS / name / "journal.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [cell for line in lines if (cell := json.loads(line)).get("status") == "done"]


def reviews(method):
    """Return, for each simulated review of the suite discovery, which verdicts found an anomaly."""
    for cell in cells("discovery"):
        if cell["method"] == method and cell["x"] == 10:
            yield np.isin(np.arange(1, cell["verdicts"] + 1), cell["finds"])


def estimate(found, n=50):
    return next_rows(likely_rate(found.tolist()), n)


def places(method, n=50):
    """Yield, wherever the page makes an estimate about n rows, that estimate and how many are anomalies."""
    for found in reviews(method):
        for at in range(FEWEST, len(found) - n + 1, 10):
            yield at, estimate(found[:at], n), found[at : at + n].sum()


@pytest.mark.parametrize("method", ["DPLANEnsemble", "AADForest", "PineForest", "IForest"])
def test_the_interval_covers_what_comes_next_in_simulated_reviews(method):
    covered = [said.low <= truth <= said.high for _, said, truth in places(method)]
    assert len(covered) > 1_000
    assert np.mean(covered) >= 0.85
    first = [said.low <= truth <= said.high for at, said, truth in places(method) if at == FEWEST]
    assert np.mean(first) >= 0.8  # not only on average over a long review


@pytest.mark.parametrize("method", ["DPLANEnsemble", "IForest"])
@pytest.mark.parametrize("n", [10, 25, 100, 200])
def test_the_interval_of_a_threshold_covers_its_alerts_in_simulated_reviews(method, n):
    covered = [said.low <= truth <= said.high for _, said, truth in places(method, n)]
    assert len(covered) > 300
    assert np.mean(covered) >= 0.85


def test_the_interval_of_alerts_covers_those_that_nobody_has_reviewed():
    """On the session of the page: by its scores of the moment, and not in the order in which it asks."""
    said = [one for cell in cells("discovery-thresholds") for one in cell["thresholds"]]
    assert len(said) > 2_000
    assert np.mean([low <= truth <= high for _, _, low, high, truth in said]) >= 0.85


def test_when_the_page_says_to_stop_that_is_right():
    stops = [truth <= 2 for method in ("DPLANEnsemble", "AADForest", "PineForest", "IForest")
             for _, said, truth in places(method) if said.high <= 2]  # fmt: skip
    assert len(stops) > 200
    assert np.mean(stops) >= 0.9


def test_the_estimate_says_when_to_stop():
    assert likely_rate([True] * (FEWEST - 1)) is None
    for n, most in ((100, 3), (150, 2), (200, 1), (2000, 1)):
        assert estimate(np.arange(n + 30) < 30).high <= most
    assert estimate(np.ones(FEWEST, dtype=bool)).expected > 40
    few, many = estimate(np.arange(60) % 3 == 0, 50), estimate(np.arange(60) % 3 == 0, 500)
    assert few.low == many.low
    assert few.high < many.high


def test_the_volume_of_alerts_is_exact():
    scores = np.sort(np.random.default_rng(0).normal(size=1001))
    for threshold, volume in alert_volume(scores):
        assert volume == (scores >= threshold).sum()
    assert alert_volume(np.ones(7)) == [(1.0, 7)] * len(alert_volume(np.ones(7)))


def test_near_duplicates_differ_little_in_every_column(model, table):
    alike = Likeness(model.background, model.preparation.feature_groups())
    rows = model.prepare(table[:200])
    twice = np.concatenate([rows, rows + np.float32(1e-4)])
    groups = alike.groups(twice)
    np.testing.assert_array_equal(groups[200:], groups[:200])
    far = rows[:1].copy()
    far[0, 0] += 1
    assert alike.groups(np.concatenate([rows[:1], far])).tolist() == [0, 1]
    nearest = alike.nearest(rows[5], rows, 3)
    assert nearest[0] == 5
    assert alike.nearest(rows[5], rows[:0], 3).tolist() == []
