"""What replacing a feature changes in sums of leaves; changes are those of `dplan.explain.network`.

A row's leaf changes only if, on the row's own path, a node that asks about the feature sends the other row elsewhere;
at the first such node the path is left for good. From there, all usual rows that left it go down together, as a set:
where the row decides, the set goes one way, and where its own rows decide, it is parted. Sets are bits of 64-bit words.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees
from dplan.explain.network import Changes, Indices

Sets = NDArray[np.uint64]

_ONE = np.uint64(1)
# Multiplied by a word with one bit, this number shows six other bits at the top for each place of that bit.
_DE_BRUIJN, _TOP_SIX = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_PLACES = np.zeros(64, dtype=np.int64)
for _place in range(64):
    _PLACES[((int(_DE_BRUIJN) << _place) % 2**64) >> 58] = _place


class Walked(NamedTuple):
    """Where usual rows go in trees; arrays are per node unless they say otherwise."""

    here: Sets  # (nodes, words): the rows whose path comes here
    right: Sets  # (nodes, words): the rows that would go right from here
    earlier: Indices  # the nearest node above that asks about the same feature, or -1
    side: Indices  # on which side of that one this node lies
    parting: Indices  # (their number): the nodes where usual rows can part, tree by tree, from the root down
    first: Indices  # (trees + 1): where each tree's begin
    leaves: NDArray[np.float64]  # (trees, usual rows): the value of each row's leaf


class Memory(NamedTuple):
    """What is written to while walking."""

    steps: Indices  # (nodes): where the row goes
    gone: NDArray[
        np.bool_
    ]  # (nodes): whether usual rows that come here have left their path by this node's feature
    following: (
        Sets  # (nodes, words): the usual rows that go with the row wherever this node's feature is asked
    )
    before: NDArray[np.float64]  # (2, usual rows): the leaves of usual rows, and the row's leaf
    nodes: Indices  # (levels): still to visit,
    sets: Sets  # (levels, words): and by whom


@compiled_exactly
def changes_of_trees(
    trees: Trees,
    weights: NDArray[np.float64],
    rows: Floats,
    usual: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of the sum of weighted leaves."""
    walked, memory = _walk(trees, usual, feature_of)
    changes = np.empty((2, len(rows), n_features))
    for i in range(len(rows)):
        moved = np.zeros((2, n_features, len(usual)))
        for tree in range(len(trees.roots)):
            _move(trees, walked, memory, tree, weights[tree], rows[i], feature_of, moved)
        for which in range(2):
            for feature in range(n_features):
                changes[which, i, feature] = moved[which, feature].sum() / len(usual)
    return changes


@compiled_exactly
def changes_of_forest(
    forest: Trees,
    usual_path_length: float,
    weight: float,
    rows: Floats,
    usual: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Return the changes of an isolation forest's score: path lengths add up, and the score is taken of their sum."""
    n_trees, n_usual = len(forest.roots), len(usual)
    walked, memory = _walk(forest, usual, feature_of)
    rate = -1.0 / (n_trees * usual_path_length)
    lengths, scores = np.empty((2, n_usual)), np.empty((2, n_usual))
    lengths[0] = walked.leaves.sum(axis=0)
    changes = np.zeros((2, len(rows), n_features))
    for i in range(len(rows)):
        moved = np.zeros((2, n_features, n_usual))
        lengths[1] = 0.0
        for tree in range(n_trees):
            lengths[1] += _move(forest, walked, memory, tree, 1.0, rows[i], feature_of, moved)
        scores[:] = 2 ** (rate * lengths)
        for which in range(2):
            for feature in range(n_features):
                for b in range(n_usual):
                    change = moved[which, feature, b]
                    if change != 0:
                        after = 2 ** (rate * (lengths[which, b] + change))
                        changes[which, i, feature] += weight / n_usual * (after - scores[which, b])
    return changes


@compiled_exactly
def _walk(trees: Trees, usual: Floats, feature_of: Indices) -> tuple[Walked, Memory]:
    """Send the usual rows down every tree, once for all rows that are to be explained."""
    n_nodes, n_usual, n_trees = len(trees.values), len(usual), len(trees.roots)
    n_words = (n_usual + 63) // 64
    here = np.zeros((n_nodes, n_words), dtype=np.uint64)
    right = np.zeros((n_nodes, n_words), dtype=np.uint64)
    depths, parents = np.zeros(n_nodes, dtype=np.int64), np.full(n_nodes, -1)
    earlier, side = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.int64)
    parting, first, n_parting = np.empty(n_nodes, np.int64), np.zeros(n_trees + 1, np.int64), 0
    leaves = np.empty((n_trees, n_usual))
    waiting = np.empty(n_nodes, dtype=np.int64)
    for tree in range(n_trees):
        first[tree] = n_parting
        n_waiting, waiting[0] = 1, trees.roots[tree]
        for b in range(n_usual):
            here[trees.roots[tree], b // 64] |= _ONE << np.uint64(b % 64)
        while n_waiting > 0:
            n_waiting -= 1
            node = waiting[n_waiting]
            if trees.children[node, 0] == node:
                for b in range(n_usual):
                    if (here[node, b // 64] >> np.uint64(b % 64)) & _ONE:
                        leaves[tree, b] = trees.values[node]
                continue
            column, threshold = trees.features[node], trees.thresholds[node]
            for b in range(n_usual):
                if usual[b, column] > threshold:
                    right[node, b // 64] |= _ONE << np.uint64(b % 64)
            if not np.isinf(threshold):  # else it sends all to one side, as nodes that pad a tree do
                if here[node].any():
                    parting[n_parting] = node
                    n_parting += 1
                below, above = node, parents[node]
                while above >= 0 and (
                    np.isinf(trees.thresholds[above])
                    or feature_of[trees.features[above]] != feature_of[column]
                ):
                    below, above = above, parents[above]
                earlier[node] = above
                side[node] = above >= 0 and trees.children[above, 1] == below
            for step in range(2):
                child = trees.children[node, step]
                parents[child], depths[child] = node, depths[node] + 1
                for word in range(n_words):
                    going = right[node, word] if step else ~right[node, word]
                    here[child, word] = here[node, word] & going
                waiting[n_waiting] = child
                n_waiting += 1
    first[n_trees] = n_parting
    walked = Walked(here, right, earlier, side, parting[:n_parting], first, leaves)
    # The trees' own word about their depth is not asked: what is written to must be large enough for certain.
    n_levels = depths.max() + 2
    memory = Memory(
        np.zeros(n_nodes, dtype=np.int64),
        np.zeros(n_nodes, dtype=np.bool_),
        np.zeros((n_nodes, n_words), dtype=np.uint64),
        np.zeros((2, n_usual)),
        np.zeros(n_levels, dtype=np.int64),
        np.zeros((n_levels, n_words), dtype=np.uint64),
    )
    return walked, memory


@compiled_exactly
def _move(
    trees: Trees,
    walked: Walked,
    memory: Memory,
    tree: int,
    weight: float,
    row: Floats,
    feature_of: Indices,
    moved: NDArray[np.float64],
) -> float:
    """Add how far leaves change by each feature and usual row, both ways; return the value of the row's own leaf."""
    for b in range(memory.before.shape[1]):
        memory.before[0, b] = walked.leaves[tree, b]
    # First in: usual rows that go another way than the row go with it instead, as far as this feature is asked.
    for k in range(walked.first[tree], walked.first[tree + 1]):
        node = walked.parting[k]
        step = np.int64(row[trees.features[node]] > trees.thresholds[node])
        above = walked.earlier[node]
        gone = above >= 0 and (memory.gone[above] or memory.steps[above] != walked.side[node])
        memory.steps[node], memory.gone[node] = step, gone
        if not gone:
            there, elsewhere = trees.children[node, step], trees.children[node, 1 - step]
            some = False
            for word in range(memory.sets.shape[1]):
                memory.sets[0, word] = walked.here[elsewhere, word]
                some |= memory.sets[0, word] != 0
            if some:
                feature = feature_of[trees.features[node]]
                _go_down(trees, walked, memory, there, row, feature_of, feature, 0, weight, moved)
    # Last out: the row goes with usual rows that go another way.
    root = trees.roots[tree]
    node = root
    while trees.children[node, 0] != node:
        node = trees.children[node, np.int64(row[trees.features[node]] > trees.thresholds[node])]
    own = float(trees.values[node])
    for b in range(memory.before.shape[1]):
        memory.before[1, b] = own
    node = root
    while trees.children[node, 0] != node:
        column = trees.features[node]
        step, above = np.int64(row[column] > trees.thresholds[node]), walked.earlier[node]
        some = False
        for word in range(memory.sets.shape[1]):
            together = memory.following[above, word] if above >= 0 else walked.here[root, word]
            going = walked.right[node, word] if step else ~walked.right[node, word]
            memory.following[node, word] = together & going
            memory.sets[0, word] = together & ~going
            some |= memory.sets[0, word] != 0
        if some:
            there, feature = trees.children[node, 1 - step], feature_of[column]
            _go_down(trees, walked, memory, there, row, feature_of, feature, 1, weight, moved)
        node = trees.children[node, step]
    return own


@compiled_exactly
def _go_down(
    trees: Trees,
    walked: Walked,
    memory: Memory,
    node: int,
    row: Floats,
    feature_of: Indices,
    feature: int,
    which: int,
    weight: float,
    moved: NDArray[np.float64],
) -> None:
    """Send the first set in memory down from a node; the row decides about the feature or, last out, about others."""
    nodes, sets = memory.nodes, memory.sets
    top, nodes[0] = 1, node
    while top > 0:
        top -= 1
        node = nodes[top]
        left, right = trees.children[node, 0], trees.children[node, 1]
        column = trees.features[node]
        if left == node:
            for word in range(sets.shape[1]):
                bits = sets[top, word]
                while bits != 0:
                    lowest = bits & (~bits + _ONE)
                    b = 64 * word + _PLACES[(lowest * _DE_BRUIJN) >> _TOP_SIX]
                    moved[which, feature, b] += weight * (trees.values[node] - memory.before[which, b])
                    bits ^= lowest
        elif (feature_of[column] == feature) != which:
            nodes[top] = right if row[column] > trees.thresholds[node] else left
            top += 1
        else:
            some_left, some_right = False, False
            for word in range(sets.shape[1]):
                bits, to_right = sets[top, word], walked.right[node, word]
                sets[top, word], sets[top + 1, word] = bits & ~to_right, bits & to_right
                some_left |= sets[top, word] != 0
                some_right |= sets[top + 1, word] != 0
            if some_left:
                nodes[top] = left
                top += 1
            if some_right:
                if not some_left:
                    for word in range(sets.shape[1]):
                        sets[top, word] = sets[top + 1, word]
                nodes[top] = right
                top += 1
