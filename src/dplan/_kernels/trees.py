"""Fitted trees as plain arrays: extracted from scikit-learn, traversed here, easy to save."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats


class Trees(NamedTuple):
    """The nodes of all trees, tree by tree."""

    roots: NDArray[np.int32]  # the root node of each tree
    depths: NDArray[np.int32]  # steps from the root to the deepest leaf
    children: NDArray[np.int32]  # (nodes, 2): left and right; a leaf is its own child
    features: NDArray[np.int32]  # the column that a node tests
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
    # The largest float32 not above the threshold splits float32 rows identically.
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


def complete_trees(features: NDArray[np.int32], thresholds: Floats, path_lengths: Floats) -> Trees:
    """Convert the trees of `dplan._kernels.forest`, whose nodes are in heap order; leaf values are path lengths.

    Examples
    --------
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.full((1, 1), 0.5, np.float32),
    ...                        np.array([[1.0, 2.0]], np.float32))
    >>> sum_of_leaves(stump, np.array([[0.0], [1.0]], dtype=np.float32))
    array([1., 2.])
    """
    n_trees, n_inner = features.shape
    n_nodes = 2 * n_inner + 1
    inner, nodes = np.arange(n_inner), np.arange(n_nodes)
    children = np.stack([nodes, nodes], axis=1)
    children[:n_inner] = np.stack([2 * inner + 1, 2 * inner + 2], axis=1)
    roots = n_nodes * np.arange(n_trees)
    no_inner, no_leaf = np.zeros((n_trees, n_inner)), np.zeros((n_trees, n_inner + 1))
    return Trees(
        roots=roots.astype(np.int32),
        depths=np.full(n_trees, int(np.log2(n_inner + 1)), dtype=np.int32),
        children=(roots[:, None, None] + children).reshape(-1, 2).astype(np.int32),
        features=np.concatenate([features, no_leaf], axis=1).ravel().astype(np.int32),
        thresholds=np.concatenate([thresholds, no_leaf], axis=1).ravel().astype(np.float32),
        values=np.concatenate([no_inner, path_lengths], axis=1).ravel(),
    )


def some_trees(trees: Trees, first: int, last: int) -> Trees:
    """Return a slice of the trees; node indices do not change."""
    return trees._replace(roots=trees.roots[first:last], depths=trees.depths[first:last])


def depth_of_nodes(
    left: NDArray[np.integer], right: NDArray[np.integer], is_leaf: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the depth of each node.

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
    """Concatenate trees.

    Examples
    --------
    >>> stump = one_tree(*np.array([[1, 0, 0], [2, 0, 0]]), np.array([False, True, True]), np.zeros(3, dtype=int),
    ...                  np.full(3, 0.5), np.array([0.0, 10.0, 20.0]))
    >>> both = join_trees([stump, stump])
    >>> both.roots, sum_of_leaves(both, np.array([[0.0], [1.0]], dtype=np.float32))
    (array([0, 3], dtype=int32), array([20., 40.]))
    """
    if not trees:
        no_trees, no_nodes = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
        return Trees(
            no_trees, no_trees, no_nodes.reshape(0, 2), no_nodes, np.zeros(0, np.float32), np.zeros(0)
        )
    starts = np.cumsum([0, *(len(tree.values) for tree in trees)])[:-1].astype(np.int32)
    moved = [
        tree._replace(roots=tree.roots + start, children=tree.children + start)
        for tree, start in zip(trees, starts, strict=True)
    ]
    return Trees(*(np.concatenate(parts) for parts in zip(*moved, strict=True)))


@compiled_exactly
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
            # Level by level and with unsigned indices, so that the loop over rows is vectorised.
            for row in range(n_rows):
                node = np.uint32(nodes[row])
                cell = np.uint32(row) * np.uint32(n_columns) + np.uint32(features[node])
                nodes[row] = children[np.uint32(2 * node + np.uint32(cells[cell] > thresholds[node]))]
        for row in range(n_rows):
            sums[row] += trees.values[np.uint32(nodes[row])]
    return sums


def isolation(forest: Trees, average_path_length: float, rows: Floats) -> NDArray[np.float64]:
    """Return the isolation score of each row, in (0, 1], by a forest whose leaf values are path lengths.

    It is 2^(-mean path length / average path length).

    Examples
    --------
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.full((1, 1), 0.5, np.float32),
    ...                        np.array([[1.0, 2.0]], np.float32))
    >>> isolation(stump, 1.0, np.array([[0.0], [1.0]], dtype=np.float32))
    array([0.5 , 0.25])
    """
    return exp2(sum_of_leaves(forest, rows) / (-len(forest.roots) * average_path_length))


def exp2(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 2^x, computed with additions and multiplications only.

    Their results are bit-identical everywhere; those of ``np.exp2`` depend on the C library and the processor.

    Examples
    --------
    >>> exp2(np.array([-2.0, -0.5, 0.0]))
    array([0.25      , 0.70710678, 1.        ])
    """
    exponents = np.maximum(exponents, -1100.0)  # below this, the result is 0
    whole = np.rint(exponents)
    x = (exponents - whole) * np.log(2)
    power = np.ones_like(x)
    for k in range(14, 0, -1):  # Taylor series of e^x; the 15th term does not matter for |x| < 0.35
        power = 1 + x / k * power
    scaled: NDArray[np.float64] = np.ldexp(power, whole.astype(np.int32))
    return scaled
