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

from dplan._kernels.compile import compiled, compiled_exactly, compiled_into_fast_caller
from dplan._kernels.perceptron import Sizes, embed
from dplan._kernels.views import matrix
from dplan.arrays import Float32s

_BLOCK_ROWS = 256  # that are scored together
_FEW_NODES = 15  # of the first four levels
_NO_NETWORK, _NO_LAYERS = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int64)
_EULER_GAMMA = 0.5772156649015329


class Forest(NamedTuple):
    """Flat arrays of all trees."""

    features: NDArray[np.int32]  # (trees, inner nodes): the column that a node tests
    thresholds: Float32s  # (trees, inner nodes): up to this value a row goes left
    path_lengths: Float32s  # (trees, leaves): expected depth of a row that ends here
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


def grow(forest: Forest, tree: int, sample: Float32s, rng: np.random.Generator) -> None:
    """Split the sample at random units and values until every row is isolated or the depth limit is reached."""
    one = slice(tree, tree + 1)
    arrays = forest.features[one], forest.thresholds[one], forest.path_lengths[one]
    _grow_some(*arrays, sample, len(sample), 0, _NO_NETWORK, _NO_LAYERS, rng)


def grow_on_stretches(
    forest: Forest, rows: Float32s, n_places: int, theta: Float32s, sizes: Sizes, rng: np.random.Generator
) -> None:
    """Grow each tree on the embedding of consecutive rows, which begin at one of the first `n_places`.

    If the rows are in random order, that is a random sample without replacement. With no hidden layers in `sizes`,
    trees are grown on the rows themselves.
    """
    arrays = forest.features, forest.thresholds, forest.path_lengths
    _grow_some(*arrays, rows, forest.tree_size, n_places, theta, sizes, rng)


@compiled
def _grow_some(
    features: NDArray[np.int32],
    thresholds: Float32s,
    path_lengths: Float32s,
    rows: Float32s,
    tree_size: int,
    n_places: int,
    theta: Float32s,
    sizes: Sizes,
    rng: np.random.Generator,
) -> None:
    # All trees in one call: preparing a generator for compiled code takes as long as growing a tree.
    for tree in range(len(features)):
        place = int(rng.random() * n_places) if n_places > 0 else 0
        sample = embed(theta, sizes, rows[place : place + tree_size])
        _grow(features[tree], thresholds[tree], path_lengths[tree], sample, rng)


@compiled_into_fast_caller
def _grow(
    features: NDArray[np.int32],
    thresholds: Float32s,
    path_lengths: Float32s,
    sample: Float32s,
    rng: np.random.Generator,
) -> None:
    n_rows, n_units = sample.shape
    n_inner = len(features)
    order, units = np.empty(n_rows, dtype=np.int64), np.empty(n_units, dtype=np.int64)
    for i in range(n_rows):  # rows of a node are contiguous
        order[i] = i
    for unit in range(n_units):
        units[unit] = unit
    n_nodes = 2 * n_inner + 1
    begin, end = np.empty(n_nodes, dtype=np.int64), np.empty(n_nodes, dtype=np.int64)
    depth = np.empty(n_nodes, dtype=np.int64)  # for nodes below the end of a branch, that of the end
    begin[0], end[0], depth[0] = 0, n_rows, 0

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
            begin[right], end[right], depth[right] = end[node], end[node], 0
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
def isolation_scores(forest: Forest, embedded: Float32s) -> Float32s:
    """Return iForest's score 2^(-E[h] / c(ψ)) of each embedded row, in (0, 1]; higher is easier to isolate."""
    n_rows, n_units = embedded.shape
    n_trees, n_inner = forest.features.shape
    normaliser = n_trees * max(average_path_length(forest.tree_size), 1.0)
    scores = np.empty(n_rows, dtype=np.float32)
    nodes, totals = np.empty(_BLOCK_ROWS, dtype=np.int32), np.empty(_BLOCK_ROWS, dtype=np.float32)
    cells = np.empty(n_units * _BLOCK_ROWS, dtype=np.float32)  # of some rows, column by column
    # Some rows are walked down a tree before the next tree, so that both stay in the processor's nearest cache.
    for start in range(0, n_rows, _BLOCK_ROWS):
        n_block = min(_BLOCK_ROWS, n_rows - start)
        for row in range(n_block):
            for unit in range(n_units):
                cells[unit * _BLOCK_ROWS + row] = embedded[start + row, unit]
        totals[:] = 0
        for tree in range(n_trees):
            features, thresholds = forest.features[tree], forest.thresholds[tree]
            path_lengths = forest.path_lengths[tree]
            # A processor compares many cells of a column at once, so near the root, where nodes are few, all rows are
            # compared with every node.
            nodes[:] = 0
            for top in range(min(n_inner, _FEW_NODES)):
                threshold, here, left = thresholds[top], np.int32(top), np.int32(2 * top + 1)
                column = matrix(cells, features[top] * _BLOCK_ROWS, 1, _BLOCK_ROWS)[0]
                for row in range(_BLOCK_ROWS):
                    below = np.int32(left + np.int32(column[row] > threshold))
                    nodes[row] = below if nodes[row] == here else nodes[row]
            # Then all rows are walked down one level before any is walked to the next, so that a processor walks many
            # of them at once; unsigned numbers, because a test for negative ones would keep it from doing so.
            leftmost = min(n_inner, _FEW_NODES)
            while leftmost < n_inner:
                leftmost = 2 * leftmost + 1
                for row in range(n_block):
                    node = np.uint32(nodes[row])
                    cell = np.uint32(features[node]) * np.uint32(_BLOCK_ROWS) + np.uint32(row)
                    nodes[row] = np.int32(2 * node + 1 + np.uint32(cells[cell] > thresholds[node]))
            for row in range(n_block):
                totals[row] += path_lengths[np.uint32(nodes[row] - n_inner)]
        for row in range(n_block):
            scores[start + row] = 2 ** (-totals[row] / normaliser)
    return scores


@compiled_exactly
def isolation_score(forest: Forest, values: Float32s, nodes: NDArray[np.int32]) -> np.float32:
    """Return the score of one embedded row: the same as `isolation_scores`, but trees are walked side by side.

    `nodes` is memory for as many numbers as there are trees.
    """
    n_trees, n_inner = forest.features.shape
    n_leaves = n_inner + 1
    features = matrix(forest.features, 0, 1, n_trees * n_inner)
    thresholds = matrix(forest.thresholds, 0, 1, n_trees * n_inner)
    path_lengths = matrix(forest.path_lengths, 0, 1, n_trees * n_leaves)
    nodes[:] = 0
    leftmost = 0
    while leftmost < n_inner:
        leftmost = 2 * leftmost + 1
        for tree in range(n_trees):
            node = np.uint32(nodes[tree])
            place = np.uint32(tree) * np.uint32(n_inner) + node
            right = values[np.uint32(features[0, place])] > thresholds[0, place]
            nodes[tree] = np.int32(2 * node + 1 + np.uint32(right))
    total = np.float32(0)
    for tree in range(n_trees):
        total += path_lengths[0, np.uint32(tree) * np.uint32(n_leaves) + np.uint32(nodes[tree] - n_inner)]
    return np.float32(2 ** (-total / (n_trees * max(average_path_length(forest.tree_size), 1.0))))


@compiled
def average_path_length(n_rows: int) -> float:
    """Return c(n), the mean depth of an unsuccessful search in a binary search tree of n rows (iForest's Eq. 1)."""
    if n_rows <= 1:
        return 0.0
    if n_rows == 2:
        return 1.0
    return 2.0 * (math.log(n_rows - 1.0) + _EULER_GAMMA) - 2.0 * (n_rows - 1.0) / n_rows
