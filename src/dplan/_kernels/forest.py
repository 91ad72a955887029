"""An isolation forest that other compiled functions can grow and traverse.

It is not scikit-learn's, because it runs inside the training loop: it is refitted every episode on a changing embedding
and scores one row at a time. `make bench` shows the ratio.

A tree is a complete binary tree in heap order (the children of node i are 2i + 1 and 2i + 2). A branch that ends
early continues to the left down to the last level, where its path length is stored. So traversal is branch-free and
takes the same number of steps for every row.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled, compiled_exactly
from dplan._kernels.perceptron import Floats

_EULER_GAMMA = 0.5772156649015329


class Forest(NamedTuple):
    """Flat arrays of all trees."""

    features: NDArray[np.int32]  # (trees, inner nodes): the column that a node tests
    thresholds: Floats  # (trees, inner nodes): up to this value a row goes left
    path_lengths: Floats  # (trees, leaves): expected depth of a row that ends here
    tree_size: int  # rows that each tree is grown on


def new_forest(n_trees: int, tree_size: int) -> Forest:
    """Allocate a forest without growing it.

    Examples
    --------
    >>> new_forest(100, 256).path_lengths.shape
    (100, 256)
    """
    depth = max(1, int(np.ceil(np.log2(tree_size))))
    return Forest(
        features=np.zeros((n_trees, 2**depth - 1), dtype=np.int32),
        thresholds=np.full((n_trees, 2**depth - 1), np.inf, dtype=np.float32),
        path_lengths=np.zeros((n_trees, 2**depth), dtype=np.float32),
        tree_size=tree_size,
    )


def grow(forest: Forest, tree: int, sample: Floats, rng: np.random.Generator) -> None:
    """Split the sample at random units and values until every row stands alone or the tree is deep enough."""
    _grow(forest.features[tree], forest.thresholds[tree], forest.path_lengths[tree], sample, rng)


@compiled
def _grow(
    features: NDArray[np.int32],
    thresholds: Floats,
    path_lengths: Floats,
    sample: Floats,
    rng: np.random.Generator,
) -> None:
    n_rows, n_units = sample.shape
    n_inner = len(features)
    order = np.arange(n_rows)  # rows of a node are contiguous
    begin = np.zeros(2 * n_inner + 1, dtype=np.int64)
    end = np.zeros(2 * n_inner + 1, dtype=np.int64)
    depth = np.zeros(2 * n_inner + 1, dtype=np.int64)  # for nodes below the end of a branch, that of the end
    units = np.arange(n_units)
    end[0] = n_rows

    for node in range(n_inner):
        left, right = 2 * node + 1, 2 * node + 2
        low, high, chosen = np.float32(0), np.float32(0), -1
        if end[node] - begin[node] > 1:
            # Try units in random order until one separates the rows.
            for tried in range(n_units):
                pick = tried + int(rng.random() * (n_units - tried))
                units[tried], units[pick] = units[pick], units[tried]
                unit = units[tried]
                low = high = sample[order[begin[node]], unit]
                for i in range(begin[node] + 1, end[node]):
                    value = sample[order[i], unit]
                    low, high = min(low, value), max(high, value)
                if high > low:
                    chosen = unit
                    break
        if chosen < 0:  # the branch ends here; its rows continue to the left
            features[node], thresholds[node] = 0, np.inf
            begin[left], end[left], depth[left] = begin[node], end[node], depth[node]
            begin[right] = end[right] = end[node]
            continue
        threshold = np.float32(low + rng.random() * (high - low))
        if threshold >= high:  # rounding must not leave the right side empty
            threshold = low
        middle = begin[node]
        for i in range(begin[node], end[node]):
            if sample[order[i], chosen] <= threshold:
                order[i], order[middle] = order[middle], order[i]
                middle += 1
        features[node], thresholds[node] = chosen, threshold
        begin[left], end[left], depth[left] = begin[node], middle, depth[node] + 1
        begin[right], end[right], depth[right] = middle, end[node], depth[node] + 1

    for leaf in range(n_inner + 1):
        node = n_inner + leaf
        path_lengths[leaf] = depth[node] + average_path_length(end[node] - begin[node])


@compiled_exactly
def isolation_scores(forest: Forest, embedded: Floats) -> Floats:
    """Return iForest's score 2^(-E[h] / c(ψ)) of each embedded row, in (0, 1]; higher is easier to isolate."""
    n_trees, n_inner = forest.features.shape
    n_leaves = n_inner + 1
    features = forest.features.reshape(n_trees * n_inner)
    thresholds = forest.thresholds.reshape(n_trees * n_inner)
    path_lengths = forest.path_lengths.reshape(n_trees * n_leaves)
    usual = n_trees * max(average_path_length(forest.tree_size), 1.0)
    nodes = np.empty(n_trees, dtype=np.int32)
    scores = np.empty(len(embedded), dtype=np.float32)
    for row in range(len(embedded)):
        values = embedded[row]
        # All trees are walked down one level before any is walked to the next, so that a processor walks many of them
        # at once; unsigned numbers, because a test for negative ones would keep it from doing so.
        nodes[:] = 0
        leftmost = 0
        while leftmost < n_inner:
            leftmost = 2 * leftmost + 1
            for tree in range(n_trees):
                node = np.uint32(nodes[tree])
                place = np.uint32(tree) * np.uint32(n_inner) + node
                right = values[np.uint32(features[place])] > thresholds[place]
                nodes[tree] = np.int32(2 * node + 1 + np.uint32(right))
        total = np.float32(0)
        for tree in range(n_trees):
            total += path_lengths[np.uint32(tree) * np.uint32(n_leaves) + np.uint32(nodes[tree] - n_inner)]
        scores[row] = 2 ** (-total / usual)
    return scores


@compiled
def average_path_length(n_rows: int) -> float:
    """Return c(n), the mean depth of an unsuccessful search in a binary search tree of n rows (iForest's Eq. 1)."""
    if n_rows <= 1:
        return 0.0
    if n_rows == 2:
        return 1.0
    return 2.0 * (math.log(n_rows - 1.0) + _EULER_GAMMA) - 2.0 * (n_rows - 1.0) / n_rows
