"""scikit-learn's extremely randomised trees, without checks of the rows, which take longer than growing a small tree.

Trees are the same to the last bit. Importing this module imports much of scikit-learn, so it is imported where trees
are trained.
"""

from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from packaging.version import Version
from sklearn.tree import ExtraTreeClassifier

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, one_tree

_LEAF_ROWS = 2

# What grows the trees is private. In versions that nobody has looked at, the public class does, with its checks.
KNOWN_TREES = Version("1.7") <= Version(sklearn.__version__) < Version("1.10")


def randomised_tree(
    rows: Floats,
    known: NDArray[np.bool_],
    weights: NDArray[np.float64],
    max_features: int,
    random_state: np.random.RandomState,
) -> Trees:
    """Return a tree that tells known rows from others; leaf values are shares of known rows.

    Parameters
    ----------
    rows : ndarray of float32, contiguous
        Finite rows.
    known : ndarray of bool
        Which rows are known anomalies.
    weights : ndarray of float64
        Weights of the rows.
    max_features : int
        Columns that a split may choose from.
    random_state : RandomState
        Source of random numbers.
    """
    nodes = _grown(rows, known, weights, max_features, random_state)
    left, right = nodes.children_left, nodes.children_right
    return one_tree(left, right, left < 0, nodes.feature, nodes.threshold, nodes.value[:, 0, -1])


def _grown(
    rows: Floats,
    known: NDArray[np.bool_],
    weights: NDArray[np.float64],
    max_features: int,
    random_state: np.random.RandomState,
) -> Any:
    """Return scikit-learn's tree."""
    if not KNOWN_TREES:
        model = ExtraTreeClassifier(
            max_features=max_features, min_samples_leaf=_LEAF_ROWS, random_state=random_state
        )
        return model.fit(rows, known, weights).tree_
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import RandomSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    n_classes = np.array([2], dtype=np.intp)
    splitter = RandomSplitter(Gini(1, n_classes), max_features, _LEAF_ROWS, 0.0, random_state, None)
    tree = Tree(rows.shape[1], n_classes, 1)
    grower = DepthFirstTreeBuilder(splitter, 2 * _LEAF_ROWS, _LEAF_ROWS, 0.0, np.iinfo(np.int32).max, 0.0)
    grower.build(tree, rows, known.astype(np.float64).reshape(-1, 1), weights, None)
    return tree
