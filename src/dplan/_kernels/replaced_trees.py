"""Effect of replacing a feature on sums of leaves, as defined in `dplan._kernels.replaced`.

A row's leaf changes only if a node on its path that tests the feature sends the other row to the other side. At the
first such node, all background rows that leave the path continue as one set. Where the row decides, the set goes one
way; where the background rows decide, it is split. A set is the bits of a word, so there are up to 64 background rows
at a time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.replaced import Changes, Indices
from dplan._kernels.trees import Trees
from dplan.arrays import Float32s

Set = np.uint64
Sets = NDArray[Set]

_WORD = 64
_NONE, _ONE = Set(0), Set(1)
# This number times a word with one bit has six different bits at the top for each place of that bit.
_DE_BRUIJN, _TOP_SIX = Set(0x03F79D71B4CB0A89), Set(58)
_PLACES = np.zeros(_WORD, dtype=np.int64)
for _place in range(_WORD):
    _PLACES[((int(_DE_BRUIJN) << _place) % 2**_WORD) >> 58] = _place


class Workspace(NamedTuple):
    """Values computed once for all rows, and scratch memory for each row."""

    feature_at: Indices  # (nodes): the feature that a node tests
    above: Indices  # (nodes): the nearest node above that tests the same feature, or the number of nodes
    tree_of: Indices  # (nodes)
    values: NDArray[np.float64]  # (nodes): of a leaf, times the weight of its tree
    right: Sets  # (nodes): the background rows that go right, even if they do not reach the node
    here: Sets  # (nodes): the background rows that reach the node, unless it is a leaf
    leaves: NDArray[np.float64]  # (trees, background rows)
    sides: NDArray[np.uint8]  # (nodes): 1 where the row goes right
    gone: Sets  # (nodes + 1): the background rows that have left a path because of the node's feature
    own_leaves: NDArray[np.float64]  # (background rows): the row's leaf in one tree, for each of them
    moved: NDArray[np.float64]  # (2, features, background rows): the changes of the sums
    waiting: Indices  # the nodes still to visit: no more than background rows,
    waiting_sets: Sets  # and by which of them


def tree_changes(
    trees: Trees,
    weights: NDArray[np.float64],
    rows: Float32s,
    background: Float32s,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of the sum of weighted leaves."""
    changes = np.zeros((2, len(rows), n_features))
    for start in range(0, len(background), _WORD):
        workspace = _new_workspace(trees, weights, background[start : start + _WORD], feature_of, n_features)
        _add_tree_changes(trees, np.ascontiguousarray(rows), len(background), workspace, changes)
    return changes


@compiled_exactly
def _add_tree_changes(
    trees: Trees, rows: Float32s, n_background: int, workspace: Workspace, changes: Changes
) -> None:
    for i in range(len(rows)):
        _move(trees, rows[i], workspace)
        for which in range(2):
            for feature in range(changes.shape[2]):
                total = 0.0
                for b in range(workspace.moved.shape[2]):
                    total += workspace.moved[which, feature, b]
                changes[which, i, feature] += total / n_background


def forest_changes(
    forest: Trees,
    average_path_length: float,
    weight: float,
    rows: Float32s,
    background: Float32s,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of an isolation forest's score, which is a function of the sum of path lengths."""
    n_trees, n_background = len(forest.roots), len(background)
    rate, ones = -1.0 / (n_trees * average_path_length), np.ones(n_trees)
    changes = np.zeros((2, len(rows), n_features))
    for start in range(0, n_background, _WORD):
        workspace = _new_workspace(forest, ones, background[start : start + _WORD], feature_of, n_features)
        lengths = np.zeros((2, workspace.leaves.shape[1]))
        _add_forest_changes(
            forest,
            np.ascontiguousarray(rows),
            rate,
            weight / n_background,
            workspace,
            lengths,
            np.empty_like(lengths),
            changes,
        )
    return changes


@compiled_exactly
def _add_forest_changes(
    forest: Trees,
    rows: Float32s,
    rate: float,
    weight: float,
    workspace: Workspace,
    lengths: NDArray[np.float64],  # (2, background rows): sums of path lengths, zeros at first
    before: NDArray[np.float64],  # the same shape: their scores
    changes: Changes,
) -> None:
    n_background = lengths.shape[1]
    for tree in range(len(workspace.leaves)):
        for b in range(n_background):
            lengths[0, b] += workspace.leaves[tree, b]
    for i in range(len(rows)):
        own = _move(forest, rows[i], workspace)
        for b in range(n_background):
            lengths[1, b] = own
            for which in range(2):
                before[which, b] = 2 ** (rate * lengths[which, b])
        for which in range(2):
            for feature in range(changes.shape[2]):
                for b in range(n_background):
                    change = workspace.moved[which, feature, b]
                    if change != 0:
                        after = 2 ** (rate * (lengths[which, b] + change))
                        changes[which, i, feature] += weight * (after - before[which, b])


def _new_workspace(
    trees: Trees, weights: NDArray[np.float64], background: Float32s, feature_of: Indices, n_features: int
) -> Workspace:
    # Allocated here, because compiling an allocation takes longer than compiling a loop.
    n_trees, n_nodes, n_background = len(trees.roots), len(trees.values), len(background)
    workspace = Workspace(
        feature_of[trees.features],
        np.full(n_nodes, n_nodes),
        np.empty(n_nodes, dtype=np.int64),
        trees.values.copy(),
        np.zeros(n_nodes, dtype=np.uint64),
        np.zeros(n_nodes, dtype=np.uint64),
        np.empty((n_trees, n_background)),
        np.empty(n_nodes, dtype=np.uint8),
        np.zeros(n_nodes + 1, dtype=np.uint64),
        np.empty(n_background),
        np.empty((2, n_features, n_background)),
        np.empty(n_background, dtype=np.int64),
        np.empty(n_background, dtype=np.uint64),
    )
    _follow(trees, weights, np.ascontiguousarray(background), workspace, np.full(n_nodes, n_nodes))
    return workspace


@compiled_exactly
def _follow(
    trees: Trees, weights: NDArray[np.float64], background: Float32s, workspace: Workspace, parents: Indices
) -> None:
    """Send the background rows down all trees; no node has a parent yet."""
    n_trees, n_nodes, n_background = len(trees.roots), len(trees.values), len(background)
    feature_at, here, right = workspace.feature_at, workspace.here, workspace.right
    for tree in range(n_trees):
        workspace.tree_of[trees.roots[tree]] = tree
        here[trees.roots[tree]] = ~_NONE >> Set(_WORD - n_background)
    for node in range(n_nodes):  # children come after their parents
        tree = workspace.tree_of[node]
        workspace.values[node] *= weights[tree]
        if trees.children[node, 0] == node:
            for b in range(n_background):
                if here[node] >> Set(b) & _ONE:
                    workspace.leaves[tree, b] = workspace.values[node]
            here[node] = _NONE
            continue
        column, threshold = trees.features[node], trees.thresholds[node]
        for b in range(n_background):
            right[node] |= Set(background[b, column] > threshold) << Set(b)
        above = parents[node]
        while above < n_nodes and feature_at[above] != feature_at[node]:
            above = parents[above]
        workspace.above[node] = above
        for step in range(2):
            child = trees.children[node, step]
            parents[child], workspace.tree_of[child] = node, tree
            here[child] = here[node] & (right[node] if step else ~right[node])


@compiled_exactly
def _move(trees: Trees, row: Float32s, workspace: Workspace) -> float:
    """Compute the changes of the sums of leaves for one row, and return the row's own sum."""
    children, sides, total = trees.children, workspace.sides, 0.0
    for which in range(2):
        for feature in range(workspace.moved.shape[1]):
            for b in range(workspace.moved.shape[2]):
                workspace.moved[which, feature, b] = 0.0
    for node in range(len(sides)):
        sides[node] = row[trees.features[node]] > trees.thresholds[node]
    for node in range(len(sides)):
        if workspace.here[node] != _NONE:
            leaves = workspace.leaves[workspace.tree_of[node]]
            _leave(children, node, workspace.here[node], np.int64(0), leaves, workspace)
    for root in trees.roots:
        leaf = root
        while children[leaf, 0] != leaf:
            leaf = children[leaf, sides[leaf]]
        for b in range(len(workspace.own_leaves)):
            workspace.own_leaves[b] = workspace.values[leaf]
        total += workspace.values[leaf]
        node = root
        while node != leaf:
            _leave(
                children, np.int64(node), workspace.here[root], np.int64(1), workspace.own_leaves, workspace
            )
            node = children[node, sides[node]]
    return total


@compiled_exactly
def _leave(
    children: NDArray[np.int32],
    node: int | np.int64,
    those: Set,
    which: int | np.int64,
    leaves: NDArray[np.float64],
    workspace: Workspace,
) -> None:
    """Send those background rows that go another way than the row down the other side, and add the changes of leaves.

    With `which` 0 the row decides at nodes that test the same feature, else at all other nodes.
    """
    feature_at, sides, right = workspace.feature_at, workspace.sides, workspace.right
    before = workspace.gone[workspace.above[node]]
    leaving = those & ~before & (~right[node] if sides[node] else right[node])
    workspace.gone[node] = before | leaving
    if leaving == _NONE:
        return
    feature, n_waiting = feature_at[node], 0
    node = children[node, sides[node] if which == 0 else 1 - sides[node]]
    while True:
        while children[node, 0] != node:
            if (feature_at[node] == feature) == (which == 0):
                node = children[node, sides[node]]
                continue
            to_right = leaving & right[node]
            if to_right != _NONE and to_right != leaving:
                workspace.waiting[n_waiting], workspace.waiting_sets[n_waiting] = children[node, 1], to_right
                n_waiting += 1
                leaving ^= to_right
                to_right = _NONE
            node = children[node, 1 if to_right != _NONE else 0]
        value = workspace.values[node]
        while leaving != _NONE:
            rest = leaving & (leaving - _ONE)
            b = _PLACES[((leaving ^ rest) * _DE_BRUIJN) >> _TOP_SIX]
            workspace.moved[which, feature, b] += value - leaves[b]
            leaving = rest
        if n_waiting == 0:
            return
        n_waiting -= 1
        node, leaving = workspace.waiting[n_waiting], workspace.waiting_sets[n_waiting]
