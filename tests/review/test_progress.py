"""Progress: honest estimates, and a fair comparison with no feedback."""

import numpy as np
import pytest

from dplan.likeness import Likeness
from dplan.review.progress import alert_volume, next_rows, without_feedback


@pytest.mark.parametrize("decay", [0.0, 0.004, 0.01])
def test_the_interval_covers_what_comes_next(decay):
    rng = np.random.default_rng(0)
    covered = []
    for start in (0.1, 0.3, 0.6, 0.9):
        for _ in range(60):
            chances = start * np.exp(-decay * np.arange(200))
            truth = rng.random(200) < chances
            for n in (40, 80, 120):
                found = next_rows(truth[:n].tolist())
                covered.append(found.low <= truth[n : n + 50].sum() <= found.high)
    assert np.mean(covered) >= 0.8


def test_the_estimate_says_when_to_stop():
    assert next_rows([True] * 9) is None
    assert next_rows([True] * 30 + [False] * 200).high <= 5
    assert next_rows([True] * 40).expected > 45


def test_without_feedback_counts_known_rows_exactly_and_others_by_rank():
    order = list(range(100))
    truth = {row: row < 20 for row in order}
    assert without_feedback(order, {}, 10) == []
    assert without_feedback(order, truth, 30)[-1] == 20
    seen = {row: truth[row] for row in order if row % 2}
    guessed = without_feedback(order, seen, 100)
    assert guessed[9] == pytest.approx(10)
    assert 18 <= guessed[-1] <= 22
    assert without_feedback(order, {0: False}, 5, truth=truth)[-1] == 5


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
