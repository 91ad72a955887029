import numpy as np
import pytest

from dplan import DUA, NoLabelsWarning
from dplan.detectors._rows import Labelling, raw_isolation_scores
from dplan.detectors.dua import PAPER_SHARES


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_030, 4)).astype(np.float32)
    X[:30] += 2
    X[30:60] *= 5
    return X, (np.arange(6_030) < 30).astype(int)


def parts(table, **parameters):
    detector = DUA(random_state=0, n_epochs=1, **parameters).fit(*table)
    return detector, *detector._parts(table[0], Labelling(table[1]), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("share", "expected"), list(zip(PAPER_SHARES, (1, 3, 6, 30, 60, 120, 240), strict=True))
)
def test_a_share_of_the_unlabelled_rows_become_pseudo_anomalies(table, share, expected):
    assert len(parts(table, pseudo_share=share)[0].pseudo_anomalies_) == expected


def test_the_default_share_is_the_papers():
    assert DUA().pseudo_share == 0.0005
    assert PAPER_SHARES == (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.04)


def test_at_least_one_row_becomes_a_pseudo_anomaly(table):
    X, y = table
    assert len(parts((X[:100], y[:100]))[0].pseudo_anomalies_) == 1


def test_pseudo_anomalies_leave_the_unlabelled_rows_and_join_the_labelled(table):
    detector, _, anomalies, unlabelled = parts(table, pseudo_share=0.01)
    pseudo = set(detector.pseudo_anomalies_.tolist())
    assert set(anomalies.tolist()) == set(range(30)) | pseudo
    assert not pseudo & set(unlabelled.tolist())
    assert not pseudo & set(range(30))
    assert len(anomalies) + len(unlabelled) == 6_030


def test_pseudo_anomalies_are_those_that_a_forest_isolates_first(table):
    X, y = table
    detector, rows, _, _ = parts(table, pseudo_share=0.005)
    scores = raw_isolation_scores(rows, np.flatnonzero(y == 0), np.random.default_rng(1))
    ranks = (-scores).argsort().argsort()
    assert np.median(ranks[detector.pseudo_anomalies_ - 30]) < 30
    assert (np.abs(X[detector.pseudo_anomalies_]).max(axis=1) > 2).all()


def test_without_labels_one_row_in_a_hundred_becomes_a_pseudo_anomaly(table):
    with pytest.warns(NoLabelsWarning):
        fitted = DUA(random_state=0, n_epochs=1).fit(table[0])
    assert len(fitted.pseudo_anomalies_) == 60
