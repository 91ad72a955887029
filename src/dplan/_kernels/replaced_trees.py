"""Effect of replacing a feature on sums of leaves, as defined in `dplan._kernels.replaced_network`.

A row's leaf changes only if a node on its path that tests the feature sends the other row to the other side. So each
path is traversed once, and left for each feature at the first such node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats
from dplan._kernels.replaced_network import Changes, Indices
from dplan._kernels.trees import Trees

Sides = NDArray[np.uint8]  # 1 where a row goes right; one per node, even if the row does not reach it


class Memory(NamedTuple):
    """Values computed once for all rows, and scratch memory for each row."""

    feature_at: Indices  # (nodes): the feature that a node tests
    background_sides: Sides  # (background rows, nodes)
    background_leaves: Indices  # (trees, background rows)
    sides: Sides  # (nodes): of the row
    left_on: Indices  # (features): the last traversal in which the path was left because of the feature
    sums: NDArray[np.float64]  # (2, background rows): the sums of leaves of background rows, and of the row
    moved: NDArray[np.float64]  # (2, background rows, features): the changes of the sums


@compiled_exactly
def tree_changes(
    trees: Trees,
    weights: NDArray[np.float64],
    rows: Floats,
    background: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of the sum of weighted leaves."""
    memory = _new_memory(trees, background, feature_of, n_features)
    changes = np.empty((2, len(rows), n_features))
    for i in range(len(rows)):
        _move(trees, weights, rows[i], memory)
        for which in range(2):
            changes[which, i] = memory.moved[which].sum(axis=0) / len(background)
    return changes


@compiled_exactly
def forest_changes(
    forest: Trees,
    average_path_length: float,
    weight: float,
    rows: Floats,
    background: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of an isolation forest's score, which is a function of the sum of path lengths."""
    memory = _new_memory(forest, background, feature_of, n_features)
    n_trees, n_background = len(forest.roots), len(background)
    rate, ones = -1.0 / (n_trees * average_path_length), np.ones(n_trees)
    changes = np.zeros((2, len(rows), n_features))
    for i in range(len(rows)):
        _move(forest, ones, rows[i], memory)
        for which in range(2):
            for b in range(n_background):
                length = memory.sums[which, b]
                before = 2 ** (rate * length)
                for feature in range(n_features):
                    change = memory.moved[which, b, feature]
                    if change != 0:
                        after = 2 ** (rate * (length + change))
                        changes[which, i, feature] += weight / n_background * (after - before)
    return changes


@compiled_exactly
def _new_memory(trees: Trees, background: Floats, feature_of: Indices, n_features: int) -> Memory:
    n_trees, n_nodes, n_background = len(trees.roots), len(trees.values), len(background)
    memory = Memory(
        feature_of[trees.features],
        np.empty((n_background, n_nodes), dtype=np.uint8),
        np.empty((n_trees, n_background), dtype=np.int64),
        np.empty(n_nodes, dtype=np.uint8),
        np.full(n_features, -1),
        np.empty((2, n_background)),
        np.empty((2, n_background, n_features)),
    )
    for b in range(n_background):
        sides = memory.background_sides[b]
        _fill_sides(trees, background[b], sides)
        for tree in range(n_trees):
            memory.background_leaves[tree, b] = _leaf(
                trees.children, trees.roots[tree], sides, sides, memory.feature_at, -1
            )
    return memory


@compiled_exactly
def _fill_sides(trees: Trees, row: Floats, sides: Sides) -> None:
    for node in range(len(sides)):
        sides[node] = row[trees.features[node]] > trees.thresholds[node]


@compiled_exactly
def _move(trees: Trees, weights: NDArray[np.float64], row: Floats, memory: Memory) -> None:
    """Compute the sums of leaves and their changes for one row."""
    sides, children, feature_at = memory.sides, trees.children, memory.feature_at
    _fill_sides(trees, row, sides)
    memory.left_on[:], memory.sums[:], memory.moved[:] = -1, 0.0, 0.0
    walk = 0
    for tree in range(len(trees.roots)):
        root = trees.roots[tree]
        own_leaf = weights[tree] * trees.values[_leaf(children, root, sides, sides, feature_at, -1)]
        for b in range(len(memory.background_sides)):
            others, leaf = (
                memory.background_sides[b],
                weights[tree] * trees.values[memory.background_leaves[tree, b]],
            )
            memory.sums[0, b] += leaf
            memory.sums[1, b] += own_leaf
            _leave(trees, root, weights[tree], others, sides, leaf, memory, walk, memory.moved[0, b])
            _leave(trees, root, weights[tree], sides, others, own_leaf, memory, walk + 1, memory.moved[1, b])
            walk += 2


@compiled_exactly
def _leave(
    trees: Trees,
    root: int,
    weight: float,
    own: Sides,
    other: Sides,
    leaf: float,
    memory: Memory,
    walk: int,
    moved: NDArray[np.float64],
) -> None:
    """Add the change of a row's weighted leaf for each feature taken from the other row."""
    children, feature_at, left_on = trees.children, memory.feature_at, memory.left_on
    node = root
    while children[node, 0] != node:
        step = own[node]
        if step != other[node]:
            feature = feature_at[node]
            if left_on[feature] != walk:  # else it left the path at an earlier node
                left_on[feature] = walk
                end = _leaf(children, children[node, 1 - step], own, other, feature_at, feature)
                moved[feature] += weight * trees.values[end] - leaf
        node = children[node, step]


@compiled_exactly
def _leaf(
    children: NDArray[np.int32], node: int, own: Sides, other: Sides, feature_at: Indices, feature: int
) -> int:
    """Return the leaf that a row reaches from a node, with one feature taken from the other row."""
    while children[node, 0] != node:
        node = children[node, other[node] if feature_at[node] == feature else own[node]]
    return int(node)
