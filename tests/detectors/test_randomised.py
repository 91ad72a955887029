import numpy as np
import pytest
import sklearn
from packaging.version import Version
from sklearn.tree import ExtraTreeClassifier

from dplan.detectors import _randomised
from dplan.detectors._randomised import KNOWN_TREES, converted, randomised_tree


def rows_and_labels(n_rows, n_columns, seed):
    """Return rows with ties and a constant column, labels and uneven weights."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    rows[:, 0] = rng.integers(3, size=n_rows)
    rows[:, -1] = 7
    known = np.arange(n_rows) < n_rows // 6 + 1
    rows[known] += 0.5
    return rows, known, rng.uniform(0.1, 9, n_rows)


def assert_equal_trees(ours, theirs):
    for name, own, their in zip(ours._fields, ours, theirs, strict=True):
        np.testing.assert_array_equal(own, their, err_msg=name)


@pytest.mark.parametrize("max_features", ["sqrt", 0.3])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(2, 1), (30, 2), (390, 52), (390, 300)])
def test_trees_are_those_of_scikit_learn(n_rows, n_columns, max_features):
    random_state = np.random.RandomState()
    for seed in range(5):
        rows, known, weights = rows_and_labels(n_rows, n_columns, seed)
        theirs = ExtraTreeClassifier(max_features=max_features, min_samples_leaf=2, random_state=seed)
        theirs.fit(rows, known, weights)
        random_state.seed(seed)
        ours = randomised_tree(rows, known, weights, theirs.max_features_, random_state)
        assert_equal_trees(ours, converted(theirs.tree_))


def test_an_unknown_scikit_learn_grows_them_with_its_public_class(monkeypatch):
    arguments = *rows_and_labels(200, 10, 0), 3
    usual = randomised_tree(*arguments, np.random.RandomState(0))
    monkeypatch.setattr(_randomised, "KNOWN_TREES", False)
    assert_equal_trees(usual, randomised_tree(*arguments, np.random.RandomState(0)))


def test_this_scikit_learn_is_known():
    # If this fails: check that the test above passes with the new version, and raise the limit.
    assert KNOWN_TREES or Version(sklearn.__version__) >= Version("1.11")
