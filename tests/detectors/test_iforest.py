import numpy as np
from sklearn.ensemble import IsolationForest

from dplan import IForest


def as_our_fit_does(rows, seed):
    draws = np.random.default_rng(seed)
    return IsolationForest(n_estimators=100, max_samples=256, random_state=int(draws.integers(2**31))).fit(
        rows
    )


def test_scores_are_those_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(2_000, 6)).astype(np.float32)
    fitted = IForest(random_state=5, scale=False).fit(X)
    np.testing.assert_allclose(fitted.anomaly_score(X), -as_our_fit_does(X, 5).score_samples(X), rtol=1e-6)


def test_it_is_fitted_on_the_unlabelled_rows():
    X = np.random.default_rng(0).normal(size=(1_000, 6)).astype(np.float32)
    y = np.zeros(1_000, dtype=int)
    y[:100] = 1
    fitted = IForest(random_state=5, scale=False).fit(X, y)
    expected = -as_our_fit_does(X[100:], 5).score_samples(X)
    np.testing.assert_allclose(fitted.anomaly_score(X), expected, rtol=1e-6)


def test_labels_are_ignored():
    X = np.random.default_rng(0).normal(size=(500, 4))
    y = np.zeros(500, dtype=int)
    y[:20] = 1
    one, other = (IForest(random_state=0).fit(X, labels).anomaly_score(X) for labels in (y, 2 * y))
    np.testing.assert_array_equal(one, other)
