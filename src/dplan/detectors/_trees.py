"""Fitted trees as plain arrays: read off scikit-learn's, walked here, easy to save."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._compile import compiled
from dplan.perceptron import Floats


class Trees(NamedTuple):
    """The nodes of all trees, one tree after the other."""

    roots: NDArray[np.int32]  # the node that each tree begins with
    depths: NDArray[np.int32]  # steps from the root to the lowest leaf
    children: NDArray[np.int32]  # (nodes, 2): left and right; a leaf's are the leaf itself
    features: NDArray[np.int32]  # the column that a node asks about
    thresholds: Floats  # up to this value a row goes left
    values: NDArray[np.float64]  # of a leaf


def one_tree(
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    is_leaf: NDArray[np.bool_],
    features: NDArray[np.integer],
    thresholds: NDArray[np.float64],
    values: NDArray[np.float64],
) -> Trees:
    """Return a single tree whose nodes are numbered from 0, children after their parents."""
    nodes = np.arange(len(is_leaf))
    children = np.where(is_leaf[:, None], nodes[:, None], np.stack([left, right], axis=1))
    # The largest float32 not above the threshold parts float32 rows in the same way.
    rounded = np.where(is_leaf, 0.0, thresholds).astype(np.float32)
    rounded = np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return Trees(
        roots=np.zeros(1, dtype=np.int32),
        depths=np.array([depth_of_nodes(left, right, is_leaf).max()], dtype=np.int32),
        children=children.astype(np.int32),
        features=np.where(is_leaf, 0, features).astype(np.int32),
        thresholds=rounded,
        values=np.where(is_leaf, values, 0.0),
    )


def depth_of_nodes(
    left: NDArray[np.integer], right: NDArray[np.integer], is_leaf: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return how many steps each node is from the root.

    Examples
    --------
    >>> depth_of_nodes(np.array([1, 0, 3, 0, 0]), np.array([2, 0, 4, 0, 0]), np.array([0, 1, 0, 1, 1], bool))
    array([0, 1, 1, 2, 2])
    """
    depths = np.zeros(len(is_leaf), dtype=np.int64)
    for node in np.flatnonzero(~is_leaf):
        depths[left[node]] = depths[right[node]] = depths[node] + 1
    return depths


def join_trees(trees: Sequence[Trees]) -> Trees:
    """Put single trees together.

    Examples
    --------
    >>> stump = one_tree(*np.array([[1, 0, 0], [2, 0, 0]]), np.array([False, True, True]), np.zeros(3, dtype=int),
    ...                  np.full(3, 0.5), np.array([0.0, 10.0, 20.0]))
    >>> both = join_trees([stump, stump])
    >>> both.roots, sum_of_leaves(both, np.array([[0.0], [1.0]], dtype=np.float32))
    (array([0, 3], dtype=int32), array([20., 40.]))
    """
    roots = np.cumsum([0, *(len(tree.values) for tree in trees)])[:-1].astype(np.int32)
    children = [tree.children + root for tree, root in zip(trees, roots, strict=True)]
    rest = [np.concatenate(parts) for parts in zip(*(tree[3:] for tree in trees), strict=True)]
    return Trees(roots, np.concatenate([tree.depths for tree in trees]), np.concatenate(children), *rest)


@compiled
def sum_of_leaves(trees: Trees, rows: Floats) -> NDArray[np.float64]:
    """Return the sum, over all trees, of the values of the leaves that each row ends in."""
    n_rows, n_columns = rows.shape
    cells, children = rows.reshape(n_rows * n_columns), trees.children.reshape(2 * len(trees.children))
    features, thresholds = trees.features, trees.thresholds
    nodes = np.empty(n_rows, dtype=np.int32)
    sums = np.zeros(n_rows)
    for tree in range(len(trees.roots)):
        nodes[:] = trees.roots[tree]
        for _ in range(trees.depths[tree]):
            # As in DPLAN's own forest: level by level, with unsigned numbers, many rows at once.
            for row in range(n_rows):
                node = np.uint32(nodes[row])
                cell = np.uint32(row) * np.uint32(n_columns) + np.uint32(features[node])
                nodes[row] = children[np.uint32(2 * node + np.uint32(cells[cell] > thresholds[node]))]
        for row in range(n_rows):
            sums[row] += trees.values[np.uint32(nodes[row])]
    return sums
