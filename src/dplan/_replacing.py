"""What replacing a feature changes in a score: for networks and trees, without scoring the replaced rows whole.

Every function returns changes of shape (2, rows, features), means over the usual rows: first of the scores of usual
rows if the feature alone comes from the row, then of the row's score if the feature alone comes from usual rows.
"""

import numpy as np
from numpy.typing import NDArray

from dplan import perceptron
from dplan._compile import compiled
from dplan.detectors._trees import Trees
from dplan.perceptron import Floats, Sizes

Indices = NDArray[np.int64]
Changes = NDArray[np.float64]


def single_output(theta: Floats, sizes: Sizes, weights: NDArray[np.float64]) -> tuple[Floats, Sizes]:
    """Return a network whose one output is a weighted sum of the outputs of another.

    Examples
    --------
    >>> sizes = perceptron.layer_sizes(3, (2,), 2)
    >>> theta = perceptron.glorot_uniform(sizes, np.random.default_rng(0))
    >>> row = np.ones((1, 3), dtype=np.float32)
    >>> both = perceptron.outputs(theta, sizes, row)
    >>> one = perceptron.outputs(*single_output(theta, sizes, np.array([2.0, -1.0])), row)
    >>> bool(np.allclose(one[:, 0], 2 * both[:, 0] - both[:, 1]))
    True
    """
    kernel, biases = perceptron.unflatten(theta, sizes)[-1]
    summed = np.append(kernel @ weights, biases @ weights).astype(np.float32)
    return np.concatenate([theta[: -kernel.size - biases.size], summed]), np.append(sizes[:-1], 1)


@compiled
def changes_of_network(
    theta: Floats, sizes: Sizes, rows: Floats, usual: Floats, feature_of: Indices, n_features: int
) -> Changes:
    """Carry the replaced feature through the first layer of a network with one output, as a difference.

    What a feature adds to the first layer is computed once per row, so that replacing it costs one addition per unit
    and not a product over all columns.
    """
    n_usual, n_units = len(usual), sizes[1]
    first = perceptron.kernel(theta, sizes, 0)
    rest, rest_sizes = theta[(sizes[0] + 1) * n_units :], sizes[1:]
    of_usual = np.empty((n_features, n_usual, n_units), dtype=np.float32)
    for b in range(n_usual):
        of_usual[:, b] = _by_feature(first, usual[b], feature_of, n_features)
    shift = perceptron.biases(theta, sizes, 0)
    usual_sums = np.dot(usual, first) + shift
    row_sums = np.dot(rows, first) + shift
    changes = np.empty((2, len(rows), n_features))
    hidden = np.empty((2 * n_usual, n_units), dtype=np.float32)
    for i in range(len(rows)):
        for b in range(n_usual):
            for unit in range(n_units):
                hidden[b, unit] = max(usual_sums[b, unit], np.float32(0))
                hidden[n_usual + b, unit] = max(row_sums[i, unit], np.float32(0))
        before = perceptron.outputs(rest, rest_sizes, hidden)
        of_row = _by_feature(first, rows[i], feature_of, n_features)
        for feature in range(n_features):
            for b in range(n_usual):
                for unit in range(n_units):
                    change = of_row[feature, unit] - of_usual[feature, b, unit]
                    hidden[b, unit] = max(usual_sums[b, unit] + change, np.float32(0))
                    hidden[n_usual + b, unit] = max(row_sums[i, unit] - change, np.float32(0))
            after = perceptron.outputs(rest, rest_sizes, hidden)
            for which in range(2):
                total = 0.0
                for b in range(which * n_usual, (which + 1) * n_usual):
                    total += np.float64(after[b, 0]) - np.float64(before[b, 0])
                changes[which, i, feature] = total / n_usual
    return changes


@compiled
def _by_feature(first: Floats, row: Floats, feature_of: Indices, n_features: int) -> Floats:
    """Return what each feature of a row adds to the units of the first layer."""
    added = np.zeros((n_features, first.shape[1]), dtype=np.float32)
    for column in range(len(row)):
        if row[column] != 0:
            for unit in range(first.shape[1]):
                added[feature_of[column], unit] += row[column] * first[column, unit]
    return added


@compiled
def changes_of_trees(
    trees: Trees,
    weights: NDArray[np.float64],
    rows: Floats,
    usual: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Do so for the sum of weighted leaves."""
    changes = np.zeros((2, len(rows), n_features))
    gone = np.empty(n_features, dtype=np.int64)
    for i in range(len(rows)):
        for tree in range(len(trees.roots)):  # a whole tree fits the processor's first cache
            for b in range(len(usual)):
                _replace(trees, tree, weights[tree], usual[b], rows[i], feature_of, changes[0, i], gone)
                _replace(trees, tree, weights[tree], rows[i], usual[b], feature_of, changes[1, i], gone)
    return changes / len(usual)


@compiled
def changes_of_forest(
    forest: Trees,
    usual_path_length: float,
    weight: float,
    rows: Floats,
    usual: Floats,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    """Do so for an isolation forest's score: path lengths add up, and the score is taken of their sum."""
    n_usual, n_trees = len(usual), len(forest.roots)
    rate = -1.0 / (n_trees * usual_path_length)
    usual_lengths = np.zeros(n_usual)
    for b in range(n_usual):
        for tree in range(n_trees):
            usual_lengths[b] += forest.values[_leaf(forest, forest.roots[tree], usual[b])]
    changes = np.zeros((2, len(rows), n_features))
    gone = np.empty(n_features, dtype=np.int64)
    for i in range(len(rows)):
        row_length = 0.0
        longer = np.zeros((2, n_usual, n_features))
        for tree in range(n_trees):
            row_length += forest.values[_leaf(forest, forest.roots[tree], rows[i])]
            for b in range(n_usual):
                _replace(forest, tree, 1.0, usual[b], rows[i], feature_of, longer[0, b], gone)
                _replace(forest, tree, 1.0, rows[i], usual[b], feature_of, longer[1, b], gone)
        for which in range(2):
            for b in range(n_usual):
                length = row_length if which else usual_lengths[b]
                before = 2 ** (rate * length)
                for feature in range(n_features):
                    if longer[which, b, feature] != 0:
                        after = 2 ** (rate * (length + longer[which, b, feature]))
                        changes[which, i, feature] += after - before
    return weight / n_usual * changes


@compiled
def _replace(
    trees: Trees,
    tree: int,
    weight: float,
    own: Floats,
    other: Floats,
    feature_of: Indices,
    changes: NDArray[np.float64],
    gone: Indices,
) -> None:
    """Add to each feature how far a row's leaf changes if that feature alone is another row's.

    Its leaf changes only if, on the row's own path, a node that asks about the feature sends the other row elsewhere;
    at the first such node the path is left for good. `gone` is memory for the features that have left it.
    """
    n_gone, node = 0, trees.roots[tree]
    while trees.children[node, 0] != node:
        column = trees.features[node]
        step = np.int64(own[column] > trees.thresholds[node])
        if step != np.int64(other[column] > trees.thresholds[node]):
            feature, is_new = feature_of[column], True
            for k in range(n_gone):
                is_new &= gone[k] != feature
            if is_new:
                gone[n_gone] = feature
                n_gone += 1
                leaf = _replaced_leaf(trees, trees.children[node, 1 - step], own, other, feature_of, feature)
                changes[feature] += weight * trees.values[leaf]
        node = trees.children[node, step]
    for k in range(n_gone):
        changes[gone[k]] -= weight * trees.values[node]


@compiled
def _leaf(trees: Trees, node: int, row: Floats) -> int:
    """Return where a row ends that has come to a node."""
    while trees.children[node, 0] != node:
        node = trees.children[node, np.int64(row[trees.features[node]] > trees.thresholds[node])]
    return node


@compiled
def _replaced_leaf(
    trees: Trees, node: int, own: Floats, other: Floats, feature_of: Indices, feature: int
) -> int:
    """Do as `_leaf`, with one feature of another row."""
    while trees.children[node, 0] != node:
        column = trees.features[node]
        value = other[column] if feature_of[column] == feature else own[column]
        node = trees.children[node, np.int64(value > trees.thresholds[node])]
    return node
