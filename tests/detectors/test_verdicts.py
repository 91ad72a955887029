"""Rows that were checked and are normal, and the confidence in verdicts, over every detector."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import dplan
from dplan import DPLAN, DUA, REPEN
from dplan.detectors._rows import balanced_weights, checked_share, normal_rows, repeated
from dplan.detectors.repen import outlier_candidates
from dplan.explain import effects
from tests.detectors.quick import QUICK
from tests.detectors.test_label_sensitivity import LABEL_USING, rows

every = pytest.mark.parametrize("name", QUICK)
TRAINED = {name: clone(detector) for name, detector in LABEL_USING.items()}
TRAINED["DPLANEnsemble"].set_params(n_agents=1)  # enough here, and quicker
label_using = pytest.mark.parametrize("name", TRAINED)


@pytest.fixture(scope="module")
def task():
    """Return rows, labels of all three kinds, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) * [1, 10, 0.1, 1, 100, 1]
    X[:60] += 3
    y = np.repeat([1, 2, -1, 0], [20, 10, 30, 540])
    return X, y, rng.uniform(0.2, 2, size=600)


@every
def test_the_same_seed_gives_the_same_bytes(name, task):
    X, y, weights = task
    first, second = (clone(QUICK[name]).fit(X, y, sample_weight=weights) for _ in range(2))
    assert first.anomaly_score(X).tobytes() == second.anomaly_score(X).tobytes()
    assert first.offset_ == second.offset_


@every
def test_weights_count_only_relative_to_each_other_and_for_verdicts(name, task):
    X, y, weights = task
    plain = clone(QUICK[name]).fit(X, y).anomaly_score(X)
    equal = np.where(y == 0, weights, 3.0)
    np.testing.assert_array_equal(clone(QUICK[name]).fit(X, y, equal).anomaly_score(X), plain)


@every
def test_a_verdict_of_weight_0_is_none(name, task):
    X, y, _ = task
    some = np.where(np.arange(600) % 3 == 0, y, 0)
    expected = clone(QUICK[name]).fit(X, some).anomaly_score(X)
    weights = (np.arange(600) % 3 == 0).astype(float)
    np.testing.assert_array_equal(clone(QUICK[name]).fit(X, y, weights).anomaly_score(X), expected)


@every
def test_checked_rows_count_as_normal_in_threshold_and_percentile(name, task):
    X, y, _ = task
    fitted = clone(QUICK[name]).set_params(contamination=0.1).fit(X, y)
    scores = fitted.anomaly_score(X)
    normal = np.sort(scores[y <= 0])
    if name != "DPLANEnsemble":  # which leaves out its neighbours
        assert -fitted.offset_ == pytest.approx(np.quantile(normal, 0.9))
        lower = 100 * np.searchsorted(normal, scores) / len(normal)
        np.testing.assert_allclose(fitted.percentile(X), lower, atol=0.4)


@every
def test_models_with_verdicts_are_saved_explained_and_exported(name, task, tmp_path):
    X, y, weights = task
    fitted = clone(QUICK[name]).fit(X, y, weights)
    fitted.save(tmp_path / "m.dplan")
    np.testing.assert_array_equal(dplan.load(tmp_path / "m.dplan").anomaly_score(X), fitted.anomaly_score(X))
    found = effects(fitted, X[:5], X[100:120])
    np.testing.assert_allclose(found.baseline + found.effects.sum(axis=1), found.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["DPLAN", "DPLANEnsemble"])
def test_training_continues_with_verdicts(name, task):
    X, y, weights = task
    first, second = (clone(QUICK[name]).fit(X, np.maximum(y, 0)) for _ in range(2))
    before = first.anomaly_score(X)
    first.partial_fit(X, y, sample_weight=weights)
    second.partial_fit(X, y, sample_weight=weights)
    assert first.anomaly_score(X).tobytes() == second.anomaly_score(X).tobytes()
    assert (first.anomaly_score(X) != before).any()


@label_using
def test_checked_rows_and_their_like_fall_and_anomalies_do_not(name):
    """Two kinds of odd rows look alike to a detector without verdicts; then one kind is checked, and is normal."""
    rng = np.random.default_rng(0)
    X, anomalous = rows(rng, 3_000, 120)
    harmless = np.arange(len(X)) < 200
    X[harmless, :3] = 0.5 + 0.5 * X[harmless, :3]  # half of what makes an anomaly, and
    X[harmless, 3] *= 0.5  # the opposite of the other half
    y = np.where(anomalous & (np.cumsum(anomalous) <= 40), 1, 0)
    detector = clone(TRAINED[name]).set_params(random_state=0)
    others = ~anomalous & ~harmless
    unchecked, known = harmless & (np.arange(len(X)) >= 40), anomalous & (y == 0)

    def positions(labels):
        scores = clone(detector).fit(X, labels).anomaly_score(X)
        return [roc_auc_score(group[group | others], scores[group | others]) for group in (unchecked, known)]

    harmless_before, anomalous_before = positions(y)
    harmless_after, anomalous_after = positions(np.where(harmless & ~unchecked, -1, y))
    assert harmless_after < harmless_before - 0.05
    assert (
        anomalous_after > anomalous_before - 0.08
    )  # they share half of their columns with the harmless ones
    assert anomalous_after - harmless_after > anomalous_before - harmless_before


@label_using
def test_confident_verdicts_count_more(name):
    """Half of the checked rows are wrong, and only their weights tell."""
    rng = np.random.default_rng(0)
    X, anomalous = rows(rng, 3_000, 160)
    X_test, truth = rows(rng, 1_000, 300)
    number = np.cumsum(anomalous)
    y = np.where(anomalous & (number <= 30), 1, 0)
    y[anomalous & (number > 30) & (number <= 90)] = -1  # wrong
    y[:60] = -1
    detector = clone(TRAINED[name]).set_params(random_state=0)

    def quality(wrong, right):
        weights = np.where(anomalous & (y < 0), wrong, np.where(y < 0, right, 1.0))
        return roc_auc_score(truth, clone(detector).fit(X, y, weights).anomaly_score(X_test))

    assert quality(0.05, 1.0) > quality(1.0, 0.05)


def test_repen_and_dua_never_suspect_checked_rows():
    scores = np.array([*np.linspace(0.8, 1.2, 20), 9.0, 8.9])
    assert np.flatnonzero(outlier_candidates(scores)).tolist() == [20, 21]
    assert np.flatnonzero(outlier_candidates(scores, np.arange(22) == 20)).tolist() == [21]
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[:8] += 9
    y = np.repeat([-1, 1, 0], [6, 2, 392])
    found = DUA(pseudo_share=0.02, n_epochs=2, random_state=0).fit(X, y).pseudo_anomalies_
    assert len(found) == 8
    assert found.min() >= 8
    assert np.isfinite(REPEN(n_epochs=2, random_state=0).fit(X, y).anomaly_score(X)).all()


def test_checked_rows_switch_the_extension_of_dplan_on_and_it_earns_less():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:40] += 5
    y = np.repeat([1, 0], [20, 480])
    few = {"n_steps": 3000, "warmup_steps": 500, "episode_steps": 500, "n_trees": 20, "random_state": 0}
    plain = DPLAN(**few).fit(X, y)
    checked = DPLAN(**few).fit(X, np.where((np.arange(500) >= 20) & (np.arange(500) < 40), -1, y))
    assert checked.anomaly_score(X[20:40]).mean() < plain.anomaly_score(X[20:40]).mean()
    shares = np.mean(checked.history_["labelled_rows"]), np.mean(plain.history_["labelled_rows"])
    np.testing.assert_allclose(shares, 0.5, atol=0.03)  # checked rows take the place of unlabelled ones


def test_what_verdicts_count_for():
    assert checked_share(np.ones(3), np.ones(0)) == 0
    assert checked_share(np.ones(0), np.ones(3)) == 0.5
    assert checked_share(np.full(10, 2.0), np.ones(5)) == 0.25
    drawn = normal_rows(np.arange(900), np.arange(900, 910), np.repeat([1.0, 3.0], 5), share=0.25)
    assert (drawn >= 900).sum() == 300
    np.testing.assert_array_equal(np.bincount(drawn)[900:], np.repeat([15, 45], 5))
    np.testing.assert_array_equal(
        np.bincount(repeated(np.arange(3), np.array([0.001, 1.0, 2.0]))), [1, 10, 20]
    )
    weights = balanced_weights(100, np.arange(4), np.arange(4, 6), np.ones(4), np.array([1.0, 3.0]))
    assert weights.sum() == pytest.approx(100)
    assert weights[:4].sum() == pytest.approx(50)
    assert weights[4:6].tolist() == pytest.approx([6.25, 18.75])
