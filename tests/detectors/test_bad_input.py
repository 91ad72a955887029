"""Bad input, over every detector: a named error or a finite result, nothing else."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dplan import NoLabelsWarning
from tests.detectors.quick import QUICK

pytestmark = pytest.mark.parametrize("detector", QUICK.values(), ids=QUICK.keys())


def table(n_rows=400, n_columns=4, n_labelled=10, seed=0):
    X = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    y = np.zeros(n_rows, dtype=int)
    y[:n_labelled] = 1
    return X, y


def assert_finite_result(detector, X, y):
    """Also with some of the unlabelled rows checked."""
    y = np.asarray(y)
    checked = y.copy()
    checked[np.flatnonzero(y == 0)[1::3]] = -1
    for labels in (y, checked) if (checked != y).any() else (y,):
        fitted = clone(detector).fit(X, labels)
        assert np.isfinite(fitted.anomaly_score(X)).all()
        assert set(fitted.predict(X)) <= {-1, 1}


def assert_named_or_finite(job, name):
    with contextlib.suppress(ValueError):
        assert np.isfinite(job()).all()
        return
    with pytest.raises(ValueError, match=name):
        job()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_rejected(detector, value):
    X, y = table()
    fitted = clone(detector).fit(X, y)
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(detector).fit(X, y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted.anomaly_score(X)


@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308])
def test_huge_values_give_finite_scores(detector, value):
    X, y = table()
    fitted = clone(detector).fit(X, y)
    X[3, 2], X[4, 2] = value, -value
    assert np.isfinite(fitted.anomaly_score(X)).all()
    assert_finite_result(detector, X, y)


def test_tiny_ranges_give_finite_scores(detector):
    X, y = table()
    X[:, 1] = np.linspace(0, 5e-324, 400)
    X[:, 2] *= 1e-200
    assert_finite_result(detector, X, y)


def test_huge_values_without_scaling_are_named_or_finite(detector):
    X, y = table()
    X[::3] *= 1e30
    unscaled = clone(detector).set_params(scale=False)
    assert_named_or_finite(lambda: unscaled.fit(X, y).anomaly_score(X), "scale=True")


def test_constant_columns(detector):
    X, y = table()
    X[:, 1], X[:, 3] = 7.0, 0.0
    assert_finite_result(detector, X, y)
    assert_finite_result(detector, np.ones_like(X), y)


def test_duplicate_rows(detector):
    X, y = table(100)
    assert_finite_result(detector, np.repeat(X, 5, axis=0), np.repeat(y, 5))


def test_one_labelled_anomaly(detector):
    assert_finite_result(detector, *table(n_labelled=1))


@pytest.mark.filterwarnings("ignore::dplan.exceptions.ManyAnomaliesWarning")
def test_one_unlabelled_row(detector):
    assert_finite_result(detector, *table(40, n_labelled=39))


@pytest.mark.parametrize("n_rows", [900, 200, 20, 3])
def test_fewer_unlabelled_rows_than_the_subsample_or_a_tree(detector, n_rows):
    assert_finite_result(detector, *table(n_rows, n_labelled=2))


def test_without_labels_the_ranking_is_unsupervised(detector):
    X, _ = table()
    fitted = clone(detector)
    if detector.uses_labels:
        with pytest.warns(NoLabelsWarning, match="k >= 1"):
            fitted.fit(X)
        with pytest.warns(NoLabelsWarning, match="k >= 1"):
            clone(detector).fit(X, np.zeros(400))
    else:
        fitted.fit(X)
    assert np.isfinite(fitted.anomaly_score(X)).all()


def test_all_rows_labelled(detector):
    X, _ = table()
    fitted = clone(detector)
    with pytest.warns(NoLabelsWarning, match="all 400 rows"):
        fitted.fit(X, np.ones(400))
    assert np.isfinite(fitted.anomaly_score(X)).all()


@pytest.mark.parametrize("n_columns", [1, 5_000])
def test_one_column_and_very_many(detector, n_columns):
    assert_finite_result(detector, *table(120, n_columns))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([0, -2, 1, 0], "row 1 is -2"),
        ([0, 0.5, 1, 0], "row 1 is 0.5"),
        ([0, np.nan, 1, 0], "row 1 is nan"),
        (["0", "a", "b", "0"], "row 0 is '0'"),
        ([0, None, 1, 0], "row 0 is '0'"),
    ],
)
def test_wrong_label_values_are_named(detector, labels, found):
    X, _ = table(4)
    with pytest.raises(ValueError, match=f"k >= 1 for labelled anomalies.*{found}"):
        clone(detector).fit(X, labels)


@pytest.mark.parametrize(
    "labels",
    [
        [False, True, True, False],
        [0.0, 3.0, 1.0, 0.0],
        np.array([0, 2, 1, 0], object),
        [0, -1, 1, 0],
        [-1.0, -1.0, 1.0, 0.0],
        [-1, 1, 1, -1],  # no row is unlabelled
    ],
)
def test_labels_may_be_any_integers_from_minus_1(detector, labels):
    X, _ = table(4)
    assert_finite_result(detector, X, labels)


@pytest.mark.parametrize(
    "labels", [[-1, -1, 0, 0], [-1, 0, -1, -1], [-1, -1, -1, -1]], ids=["two", "one", "none"]
)
def test_checked_rows_without_any_anomaly(detector, labels):
    X, _ = table(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_finite_result(detector, X, labels)
    assert {entry.category for entry in caught} <= ({NoLabelsWarning} if detector.uses_labels else set())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"X has 4 rows and sample_weight has shape \(3,\)"),
        (np.ones((4, 1)), r"sample_weight has shape \(4, 1\)"),
        ([1, -1, 1, 1], "must be finite and >= 0, but row 1 is -1.0"),
        ([1, 1, np.nan, 1], "must be finite and >= 0, but row 2 is nan"),
        ([1, np.inf, 1, 1], "must be finite and >= 0, but row 1 is inf"),
        (np.zeros(4), "all weights are zero"),
        (["high"] * 4, "sample_weight must be numbers"),
        ([None] * 4, "sample_weight must be numbers|but row 0 is nan"),
    ],
)
def test_wrong_weights_are_named(detector, weights, message):
    X, _ = table(4)
    with pytest.raises(ValueError, match=message):
        clone(detector).fit(X, [0, 1, -1, 0], sample_weight=weights)


def test_lengths_must_match(detector):
    X, y = table()
    with pytest.raises(ValueError, match="X has 400 rows and y has 399"):
        clone(detector).fit(X, y[:-1])


@pytest.mark.parametrize("X", [np.empty((0, 3)), np.empty((5, 0)), np.ones(5), np.ones((2, 3, 4))])
def test_arrays_of_wrong_shape_are_rejected(detector, X):
    with pytest.raises(ValueError, match=r"minimum of|Expected 2D|dim 3"):
        clone(detector).fit(X)


def test_strings_are_rejected(detector):
    X = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    with pytest.raises(ValueError, match="could not convert"):
        clone(detector).fit(X, [0, 1, 0])


def test_sparse_tables_are_rejected(detector):
    X, y = table()
    with pytest.raises(TypeError, match="dense data is required"):
        clone(detector).fit(sparse.csr_matrix(X), y)


def test_scoring_before_fitting(detector):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(detector).anomaly_score(table()[0])


def test_scoring_a_table_with_other_columns(detector):
    X, y = table()
    fitted = clone(detector).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        fitted.anomaly_score(X[:, :3])


def test_scoring_a_frame_with_other_names(detector):
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    fitted = clone(detector).fit(frame, y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.anomaly_score(frame.rename(columns={"b": "beta"}))
    with pytest.raises(ValueError, match="same order"):
        fitted.anomaly_score(frame[["b", "a", "c", "d"]])


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("contamination", 0),
        ("contamination", 0.6),
        ("contamination", "auto"),
        ("scale", "yes"),
        ("random_state", -1),
        ("random_state", "seed"),
        ("callback", 3),
    ],
)
def test_shared_parameters_are_checked(detector, parameter, value):
    X, y = table()
    with pytest.raises(ValueError, match=f"{parameter} must be"):
        clone(detector).set_params(**{parameter: value}).fit(X, y)
