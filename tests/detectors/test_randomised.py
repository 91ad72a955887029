import numpy as np
import pytest
import sklearn
from packaging.version import Version
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import ExtraTreeClassifier

from dplan._kernels.trees import join_trees
from dplan.detectors.baselines import boosted_tree
from dplan.detectors.ensemble import learners
from dplan.detectors.ensemble.learners import KNOWN_TREES, boosted_trees, converted, randomised_tree


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
    monkeypatch.setattr(learners, "KNOWN_TREES", False)
    assert_equal_trees(usual, randomised_tree(*arguments, np.random.RandomState(0)))


def test_this_scikit_learn_is_known():
    # If this fails: check that the test above passes with the new version, and raise the limit.
    assert KNOWN_TREES or Version(sklearn.__version__) >= Version("1.11")


def test_boosted_trees_are_those_of_scikit_learn_and_weights_do_not_move_their_bins():
    rows, known, weights = rows_and_labels(600, 30, 0)
    seed = int(np.random.default_rng(0).integers(2**31))
    options = {"max_iter": 5, "l2_regularization": 1.0, "max_features": 0.3, "early_stopping": False}
    theirs = HistGradientBoostingClassifier(**options, random_state=seed).fit(rows, known)
    grown = boosted_trees(rows, known, None, 5, 31, np.random.default_rng(0))
    assert_equal_trees(grown, join_trees([boosted_tree(tree.nodes) for (tree,) in theirs._predictors]))
    # Where columns may be cut: at quantiles that ignore weights. The first and the last column have few values.
    shares = np.linspace(0, 100, 256)[1:-1]
    cuts = np.percentile(rows.astype(np.float64), shares, axis=0, method="averaged_inverted_cdf")
    for own in (None, weights):
        trees = boosted_trees(rows, known, own, 5, 31, np.random.default_rng(0))
        is_inner = trees.children[:, 0] != np.arange(len(trees.values))
        is_inner &= (trees.features > 0) & (trees.features < 29)
        features, thresholds = trees.features[is_inner], trees.thresholds[is_inner]
        assert len(thresholds) > 10
        assert (np.abs(cuts[:, features] - thresholds).min(axis=0) < 1e-5).all()
