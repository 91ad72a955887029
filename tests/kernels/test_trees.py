"""Sums of leaves, against following every path node by node."""

import numpy as np
import pytest

from dplan._kernels.tree_tops import N_EXITS
from dplan._kernels.trees import Trees, complete_trees, join_trees, one_tree, sum_of_leaves, sums_of_leaves

N_COLUMNS = 5


def grown(n_leaves: int, rng: np.random.Generator, chain: bool = False) -> Trees:
    """Return a random tree: a leaf is split until there are enough, the last one in a chain."""
    left, right = [0], [0]
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(-1 if chain else int(rng.integers(len(leaves))))
        new = len(left)
        left[node], right[node] = (new, new + 1) if rng.random() < 0.5 or not chain else (new + 1, new)
        left += [0, 0]
        right += [0, 0]
        leaves += [new, new + 1]
    is_leaf = np.array(left) == 0
    n_nodes = len(left)
    thresholds = rng.normal(size=n_nodes).round(
        1
    )  # rounded like the rows: some values are equal to a threshold
    thresholds[rng.random(n_nodes) < 0.05] = np.inf
    features = rng.integers(N_COLUMNS, size=n_nodes)
    return one_tree(np.array(left), np.array(right), is_leaf, features, thresholds, rng.normal(size=n_nodes))


def leaf(trees: Trees, root: int, row: np.ndarray) -> float:
    node = root
    while trees.children[node, 0] != node:
        node = trees.children[node, int(row[trees.features[node]] > trees.thresholds[node])]
    return float(trees.values[node])


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(0)
    shapes = [1, 2, 3, N_EXITS - 1, N_EXITS, N_EXITS + 1, 70, 300, 1]
    chains = [N_EXITS, 90]
    return join_trees(
        [grown(n, rng) for n in shapes] + [grown(n, rng, chain=True) for n in chains] + [grown(5, rng)]
    )


@pytest.mark.parametrize("n_rows", [0, 1, 127, 128, 300])
def test_every_row_ends_in_the_leaf_of_its_path(trees, n_rows):
    rng = np.random.default_rng(n_rows)
    rows = rng.normal(size=(n_rows, N_COLUMNS)).round(1).astype(np.float32)
    leaves = np.array([[leaf(trees, root, row) for row in rows] for root in trees.roots])
    sums = np.zeros((3, n_rows))
    for tree, values in enumerate(leaves):  # one after the other, so that the sums are equal to the last bit
        sums[tree // 4] += values
    np.testing.assert_array_equal(sums_of_leaves(trees, rows, 3), sums)
    weights = rng.normal(size=len(leaves))
    weighted = np.zeros(n_rows)
    for values, weight in zip(leaves, weights, strict=True):
        weighted += weight * values
    np.testing.assert_array_equal(sum_of_leaves(trees, rows, weights), weighted)


def test_complete_trees_and_rows_that_are_not_contiguous():
    rng = np.random.default_rng(1)
    features = rng.integers(N_COLUMNS, size=(20, 255), dtype=np.int32)
    thresholds = rng.normal(size=(20, 255)).astype(np.float32)
    forest = complete_trees(features, thresholds, rng.random((20, 256), dtype=np.float32))
    rows = rng.normal(size=(150, 2 * N_COLUMNS)).astype(np.float32)[:, ::2]
    expected = [sum(leaf(forest, root, row) for root in forest.roots) for row in rows]
    np.testing.assert_array_equal(sum_of_leaves(forest, rows), expected)


def test_no_trees():
    rows = np.ones((4, N_COLUMNS), dtype=np.float32)
    assert sum_of_leaves(join_trees([]), rows).tolist() == [0, 0, 0, 0]
    assert sums_of_leaves(join_trees([]), rows, 0).shape == (0, 4)
