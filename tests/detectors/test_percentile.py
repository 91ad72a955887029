"""Percentiles and the threshold hold for new rows, not only for those in training."""

import numpy as np
import pytest
from sklearn.base import clone

from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table
from tests.detectors.quick import QUICK

FEW = {"n_agents": 1, "n_steps": 1000, "warmup_steps": 500, "n_rounds": 20, "n_trees": 50}
N_SEEDS, N_TRAINING, N_NEW = 12, 2000, 20_000


@pytest.fixture(scope="module")
def on_new_rows():
    """Return the median percentile of new rows and the share of alerts among them, in per cent, for each seed."""
    found = []
    for seed in range(N_SEEDS):
        rng = np.random.default_rng(seed)
        mixing = rng.normal(size=(5, 5))
        X, new = (rng.normal(size=(n, 5)) @ mixing for n in (N_TRAINING, N_NEW))
        X[:20, :2] += 6
        detector = DPLANEnsemble(**FEW, random_state=seed).fit(X, np.arange(N_TRAINING) < 20)
        found.append((np.median(detector.percentile(new)), 100 * (detector.predict(new) < 0).mean()))
    return np.array(found)


def test_new_rows_have_a_median_percentile_of_50(on_new_rows):
    assert abs(on_new_rows[:, 0].mean() - 50) < 1.5


def test_as_many_new_rows_are_alerts_as_the_contamination_says(on_new_rows):
    # The threshold is a quantile of some 1,500 rows: its share has this standard deviation.
    deviation = 100 * np.sqrt(0.02 * 0.98 / (0.75 * N_TRAINING))
    assert abs(on_new_rows[:, 1].mean() - 2) < 3 * deviation / np.sqrt(N_SEEDS)


@pytest.mark.parametrize("name", QUICK)
def test_a_percentile_is_the_percentage_of_unlabelled_rows_with_a_lower_score(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 4)), (np.arange(800) < 20).astype(int)
    detector = clone(QUICK[name]).fit(X, y)
    scores, percentiles = detector.anomaly_score(X), detector.percentile(X)
    others = scores[20:]
    if name == "DPLANEnsemble":  # no row is its own neighbour where percentiles come from
        others = detector._reference_scores(X, np.arange(20, 800))
        assert (others >= scores[20:] - 1e-3).mean() > 0.9
        assert others.mean() > scores[20:].mean()
    lower = np.array([100 * (others < score).mean() for score in scores])
    np.testing.assert_allclose(percentiles, lower, atol=0.4)
    assert percentiles[scores.argmin()] == 0


def test_rows_with_equal_scores_have_equal_percentiles():
    X = np.repeat([[0.0], [1.0], [2.0]], [500, 300, 200], axis=0)
    detector = clone(QUICK["LogisticBaseline"]).fit(X, np.arange(1000) >= 990)
    rising = detector.anomaly_score([[2.0]]) > detector.anomaly_score([[0.0]])
    assert rising
    np.testing.assert_allclose(detector.percentile([[0.0], [1.0], [2.0]]), [0, 50.5, 80.8], atol=0.1)
    np.testing.assert_allclose(detector.percentile([[-1.0], [0.1], [3.0]]), [0, 50.5, 100], atol=0.2)


def test_a_table_model_has_the_percentiles_of_its_detector():
    import polars as pl

    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"a": rng.normal(size=500), "b": rng.normal(size=500), "label": [1] * 10 + [0] * 490}
    )
    model = fit_table(from_table(frame, label="label"), clone(QUICK["DPLANEnsemble"]), estimate=False)
    prepared = model.prepare(frame)
    np.testing.assert_allclose(
        model.percentile(model.score(frame)), model.detector.percentile(prepared), atol=0.006
    )
    assert model.threshold == -model.detector.offset_
