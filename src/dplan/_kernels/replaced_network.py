"""Effect of replacing a feature on a network's output, without evaluating the whole network for each replaced row.

Changes have the shape (2, rows, features) and are means over background rows: first of the scores of the background
rows with only this feature taken from the row, then of the row's score with only this feature taken from the
background.
"""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats, Sizes

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


@compiled_exactly
def network_changes(
    theta: Floats, sizes: Sizes, rows: Floats, background: Floats, feature_of: Indices, n_features: int
) -> Changes:
    """Propagate the replaced feature through the first layer of a network with one output, as a difference.

    The contribution of a feature to the first layer is computed once per row, so that replacing it costs one addition
    per unit instead of a product over all columns. Activations are stored unit by unit, so that each instruction
    handles many background rows.
    """
    n_background, n_units = len(background), sizes[1]
    first = perceptron.kernel(theta, sizes, 0)
    rest, rest_sizes = theta[(sizes[0] + 1) * n_units :], sizes[1:]
    of_background = np.empty((n_features, n_units, n_background), dtype=np.float32)
    for b in range(n_background):
        of_background[:, :, b] = _by_feature(first, background[b], feature_of, n_features)
    lower = theta[: (sizes[0] + 1) * n_units]
    background_sums = np.ascontiguousarray(product.propagate(lower, sizes[:2], background, 0).T)
    row_sums = product.propagate(lower, sizes[:2], rows, 0)
    changes = np.empty((2, len(rows), n_features))
    hidden = np.empty((n_units, 2 * n_background), dtype=np.float32)
    for i in range(len(rows)):
        hidden[:, :n_background] = np.maximum(background_sums, np.float32(0))
        for unit in range(n_units):
            hidden[unit, n_background:] = max(row_sums[i, unit], np.float32(0))
        before = _outputs(rest, rest_sizes, hidden)
        of_row = _by_feature(first, rows[i], feature_of, n_features)
        for feature in range(n_features):
            for unit in range(n_units):
                own, row_sum = of_row[feature, unit], row_sums[i, unit]
                for b in range(n_background):
                    change = own - of_background[feature, unit, b]
                    hidden[unit, b] = max(background_sums[unit, b] + change, np.float32(0))
                    hidden[unit, n_background + b] = max(row_sum - change, np.float32(0))
            after = _outputs(rest, rest_sizes, hidden)
            for which in range(2):
                total = 0.0
                for b in range(which * n_background, (which + 1) * n_background):
                    total += np.float64(after[b]) - np.float64(before[b])
                changes[which, i, feature] = total / n_background
    return changes


@compiled_exactly
def _outputs(theta: Floats, sizes: Sizes, hidden: Floats) -> Floats:
    """Return the one output of the layers above the first, given its activations (units, rows)."""
    if len(sizes) > 2:
        values = product.propagate(theta, sizes, np.ascontiguousarray(hidden.T), len(sizes) - 2)
        return values[:, 0].copy()
    sums = np.full(hidden.shape[1], theta[-1])
    for unit in range(len(hidden)):
        for row in range(len(sums)):
            sums[row] += hidden[unit, row] * theta[unit]
    return sums


@compiled_exactly
def _by_feature(first: Floats, row: Floats, feature_of: Indices, n_features: int) -> Floats:
    """Return the contribution of each feature of a row to the units of the first layer."""
    added = np.zeros((n_features, first.shape[1]), dtype=np.float32)
    for column in range(len(row)):
        if row[column] != 0:
            for unit in range(first.shape[1]):
                added[feature_of[column], unit] += row[column] * first[column, unit]
    return added
