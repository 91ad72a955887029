"""Novelty: what the explorers of a detector say alone, as a percentile."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dplan
from dplan.detectors import _saving
from dplan.exceptions import ModelFileError
from dplan.explain import effects
from dplan.persistence import model_file
from dplan.tables import fit_table, from_table
from tests.detectors.quick import QUICK

EXPLORING = ("DPLANEnsemble", "IForest")
GOLDEN = Path(__file__).parents[1] / "persistence" / "golden" / "dplanensemble-format-1.dplan"
pytestmark = pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")


def task(n_rows=1500, seed=0):
    """Return normal rows with known anomalies in front, and labels."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 5))
    X[:20, 0] += 4
    return X, (np.arange(n_rows) < 20).astype(int)


def fitted(name, **parameters):
    return clone(QUICK[name]).set_params(**parameters).fit(*task())


@pytest.mark.parametrize("name", EXPLORING)
def test_novelty_is_a_percentile_that_labels_do_not_change(name):
    detector = fitted(name)
    new = np.random.default_rng(1).normal(size=(2000, 5))
    novelty = detector.novelty(new)
    assert 0 <= novelty.min() <= novelty.max() <= 100
    assert abs((novelty > 90).mean() - 0.1) < 0.04
    strange = np.zeros((1, 5))
    strange[0, 3] = -9  # unlike every known anomaly
    assert detector.novelty(strange)[0] > 99.5


@pytest.mark.parametrize("name", EXPLORING)
@pytest.mark.parametrize("scale", [True, "both"])
def test_novelty_does_not_depend_on_other_rows_and_is_saved(name, scale, tmp_path):
    detector, (X, _) = fitted(name, scale=scale), task(300, seed=1)
    novelty, order = detector.novelty(X), np.random.default_rng(2).permutation(300)
    np.testing.assert_array_equal(detector.novelty(X[order]), novelty[order])
    np.testing.assert_array_equal([detector.novelty(X[i : i + 1])[0] for i in range(20)], novelty[:20])
    detector.save(tmp_path / "m.dplan")
    np.testing.assert_array_equal(dplan.load(tmp_path / "m.dplan").novelty(X), novelty)


def test_the_novelty_of_an_isolation_forest_is_its_percentile():
    detector, (X, _) = fitted("IForest"), task(seed=1)
    np.testing.assert_array_equal(detector.novelty(X), detector.percentile(X))


def test_an_ensemble_asks_its_neighbours_and_the_forest_at_a_cold_start():
    X, y = task()
    warm, cold = fitted("DPLANEnsemble"), clone(QUICK["DPLANEnsemble"]).fit(X, np.zeros_like(y))
    for detector, explorers in ((warm, [0]), (cold, [0, 1])):
        *_, neighbours, forest = detector._member_scores(detector._arrange(X)).T
        expected = np.sum([(neighbours, forest)[i] for i in explorers], axis=0)
        order = np.argsort(detector._novelty_scores(X))
        assert (np.diff(expected[order]) >= -1e-6).all()


@pytest.mark.parametrize("name", [name for name in QUICK if name not in EXPLORING])
def test_a_detector_without_explorers_refuses(name):
    detector, (X, _) = fitted(name), task()
    with pytest.raises(
        ValueError, match="has no explorers, so it cannot tell how novel a row is; use DPLANE"
    ):
        detector.novelty(X)


@pytest.mark.parametrize("name", EXPLORING)
def test_a_detector_that_is_not_fitted_says_so(name):
    with pytest.raises(NotFittedError):
        clone(QUICK[name]).novelty(task()[0])


@pytest.mark.parametrize("name", EXPLORING)
def test_effects_on_novelty_add_up(name):
    detector, (X, _) = fitted(name), task(seed=1)
    found = effects(detector, X[:12], X[100:180], novelty=True)
    np.testing.assert_array_equal(found.scores, detector._novelty_scores(X[:12]))
    np.testing.assert_allclose(found.effects.sum(axis=1), found.scores - found.baseline, atol=1e-5)
    X[0] = 0
    X[0, 3] = -9
    assert effects(detector, X[:1], X[100:180], novelty=True).top(1)[0, 0] == 3


def test_a_detector_of_an_older_file_has_to_be_fitted_again():
    detector = _saving.load(GOLDEN).detector
    with pytest.raises(ValueError, match="did not know novelty; fit the detector again"):
        detector.novelty(np.zeros((2, detector.n_features_in_)))


def test_a_model_of_an_older_file_compares_with_its_background_rows():
    X, y = task()
    table = pl.DataFrame(X, schema=list("abcde")).with_columns(known=y)
    model = fit_table(from_table(table, label="known"), clone(QUICK["DPLANEnsemble"]), estimate=False)
    new = pl.DataFrame(task(seed=1)[0], schema=list("abcde"))
    expected = model.novelty(new)
    model.detector.novelty_quantiles_ = None  # as in a file without them
    older = type(model).load(model.to_bytes())
    assert older.detector.novelty_quantiles_ is None
    found, high = older.novelty(new), expected > 95
    # Others are a little higher: some of the background rows are neighbours themselves.
    assert np.abs(found - expected)[high].max() < 5


def test_quantiles_out_of_order_are_rejected(tmp_path):
    detector = fitted("DPLANEnsemble")
    detector.novelty_quantiles_[3] = 1e9
    detector.save(tmp_path / "m.dplan")
    assert "novelty_quantiles_" in model_file.read(tmp_path / "m.dplan").tensors
    with pytest.raises(ModelFileError, match="novelty_quantiles_ are not sorted"):
        dplan.load(tmp_path / "m.dplan")
