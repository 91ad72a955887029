"""Fitted trees as plain arrays: read off scikit-learn's, walked here, easy to save."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._compile import compiled
from dplan.perceptron import Floats


class Trees(NamedTuple):
    """The nodes of all trees, one tree after the other."""

    roots: NDArray[np.int64]  # the node that each tree begins with
    children: NDArray[np.int64]  # (nodes, 2): left and right; a leaf's are the leaf itself
    features: NDArray[np.int64]  # the column that a node asks about
    thresholds: NDArray[np.float64]  # up to this value a row goes left
    values: NDArray[np.float64]  # of a leaf


def join_trees(trees: Sequence[Trees]) -> Trees:
    """Put single trees, each with its nodes counted from 0, together.

    Examples
    --------
    >>> stump = Trees(np.array([0]), np.array([[1, 2], [1, 1], [2, 2]]), np.zeros(3, dtype=int), np.full(3, 0.5),
    ...               np.array([0.0, 10.0, 20.0]))
    >>> both = join_trees([stump, stump])
    >>> both.roots, sum_of_leaves(both, np.array([[0.0], [1.0]], dtype=np.float32))
    (array([0, 3]), array([20., 40.]))
    """
    roots = np.cumsum([0, *(len(tree.values) for tree in trees)])[:-1]
    children = [tree.children + root for tree, root in zip(trees, roots, strict=True)]
    return Trees(
        roots.astype(np.int64),
        np.concatenate(children).astype(np.int64),
        np.concatenate([tree.features for tree in trees]).astype(np.int64),
        np.concatenate([tree.thresholds for tree in trees]).astype(np.float64),
        np.concatenate([tree.values for tree in trees]).astype(np.float64),
    )


@compiled
def sum_of_leaves(trees: Trees, rows: Floats) -> NDArray[np.float64]:
    """Return the sum, over all trees, of the values of the leaves that each row ends in."""
    sums = np.zeros(len(rows))
    for root in trees.roots:
        for row in range(len(rows)):
            node = root
            while trees.children[node, 0] != node:
                node = trees.children[node, int(rows[row, trees.features[node]] > trees.thresholds[node])]
            sums[row] += trees.values[node]
    return sums
