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
    if KNOWN_TREES:
        from sklearn.tree._criterion import Gini
        from sklearn.tree._splitter import RandomSplitter
        from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

        n_classes = np.array([2], dtype=np.intp)
        splitter = RandomSplitter(Gini(1, n_classes), max_features, _LEAF_ROWS, 0.0, random_state, None)
        grower = DepthFirstTreeBuilder(splitter, 2 * _LEAF_ROWS, _LEAF_ROWS, 0.0, np.iinfo(np.int32).max, 0.0)
        nodes = Tree(rows.shape[1], n_classes, 1)
        grower.build(nodes, rows, known.astype(np.float64).reshape(-1, 1), weights, None)
    else:
        model = ExtraTreeClassifier(
            max_features=max_features, min_samples_leaf=_LEAF_ROWS, random_state=random_state
        )
        nodes = model.fit(rows, known, weights).tree_
    return converted(nodes)


def converted(nodes: Any) -> Trees:
    """Convert scikit-learn's tree; leaf values are shares of the last class."""
    left, right = nodes.children_left, nodes.children_right
    return one_tree(left, right, left < 0, nodes.feature, nodes.threshold, nodes.value[:, 0, -1])
