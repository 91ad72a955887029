import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from dplan.detectors._boosting import KNOWN_BINS, BoostedClassifier, _Bins, bin_thresholds

our_bins = pytest.mark.skipif(not KNOWN_BINS, reason="this scikit-learn finds its bins by itself")


def table(n_rows: int, seed: int = 0) -> np.ndarray:
    """Return columns of every kind: spread out, of few values, with many ties, constant, skewed, huge, signed zeros."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.normal(size=n_rows),
            rng.integers(5, size=n_rows),
            np.where(rng.random(n_rows) < 0.7, 0.0, rng.normal(size=n_rows)),
            np.full(n_rows, 3.0),
            rng.lognormal(sigma=8, size=n_rows),
            rng.normal(size=n_rows) * 1e12,
            rng.choice([-0.0, 0.0, 1.0], size=n_rows),
            rng.integers(300, size=n_rows),
            *rng.random((100, n_rows)),
        ],
        axis=1,
    ).astype(np.float32)


@our_bins
@pytest.mark.parametrize("n_rows", [2, 3, 255, 256, 257, 510, 1_376, 5_060])
def test_bins_are_those_of_scikit_learn(n_rows: int) -> None:
    X = table(n_rows).astype(np.float64)
    theirs = _BinMapper().fit(X)
    ours = _Bins().fit(X)
    for column, (own, expected) in enumerate(zip(ours.bin_thresholds_, theirs.bin_thresholds_, strict=True)):
        np.testing.assert_array_equal(own, expected, err_msg=f"column {column}")
    for name in ("n_bins_non_missing_", "is_categorical_", "missing_values_bin_idx_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.transform(X), theirs.transform(X))


@our_bins
def test_a_large_table_is_sampled_as_scikit_learn_does() -> None:
    X = table(1_000).astype(np.float64)
    theirs = _BinMapper(subsample=500, random_state=0).fit(X)
    ours = _Bins(subsample=500, random_state=0).fit(X)
    for own, expected in zip(ours.bin_thresholds_, theirs.bin_thresholds_, strict=True):
        np.testing.assert_array_equal(own, expected)


@our_bins
def test_the_bins_are_found_here() -> None:
    X, y = table(600), np.arange(600) < 40
    model = BoostedClassifier(max_iter=2, early_stopping=False).fit(X, y)
    assert isinstance(model._bin_mapper, _Bins)


@pytest.mark.parametrize("seed", [0, 1])
def test_trees_are_those_of_scikit_learn(seed: int) -> None:
    X, y = table(1_500, seed), np.arange(1_500) < 50
    X[:50] += 0.5
    options = {"max_iter": 10, "max_features": 0.3, "early_stopping": False, "random_state": seed}
    ours, theirs = (kind(**options).fit(X, y) for kind in (BoostedClassifier, HistGradientBoostingClassifier))
    for (own,), (expected,) in zip(ours._predictors, theirs._predictors, strict=True):
        assert own.nodes.tobytes() == expected.nodes.tobytes()


def test_few_values_are_cut_between_all_of_them() -> None:
    (thresholds,) = bin_thresholds(np.array([[2.0], [0.0], [1.0], [2.0]]), 255)
    assert thresholds.tolist() == [0.5, 1.5]
