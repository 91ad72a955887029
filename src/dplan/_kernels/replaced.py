"""Effect of replacing a feature on a network's output and on nearest-neighbour distances.

Changes have the shape (2, rows, features) and are means over background rows: first of the scores of the background
rows with only this feature taken from the row, then of the row's score with only this feature taken from the
background. Neither the whole network nor whole distances are computed again for each replaced row.
"""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats, Sizes

Indices = NDArray[np.int64]
Changes = NDArray[np.float64]

_ROWS_AT_ONCE = 1_000
_MOST_DISTANCES = 2**24  # limits memory: every row has a distance to every neighbour


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


def neighbour_changes(
    neighbours: Floats, rows: Floats, background: Floats, feature_of: Indices, n_features: int
) -> Changes:
    """Return the changes of the mean distance to the nearest row of each sample (samples, rows, columns).

    A squared distance is a sum over columns, so replacing a feature replaces some of its terms. This is done for all
    background rows at once, neighbour by neighbour.
    """
    changes = np.empty((2, len(rows), n_features))
    at_once = max(1, min(_ROWS_AT_ONCE, _MOST_DISTANCES // (neighbours.shape[0] * neighbours.shape[1])))
    for start in range(0, len(rows), at_once):
        some = slice(start, start + at_once)
        changes[:, some] = _neighbour_changes(neighbours, rows[some], background, feature_of, n_features)
    return changes


@compiled_exactly
def _neighbour_changes(
    neighbours: Floats, rows: Floats, background: Floats, feature_of: Indices, n_features: int
) -> Changes:
    n_samples, n_each, n_columns = neighbours.shape
    every = neighbours.reshape(n_samples * n_each, n_columns)
    columns = np.arange(n_columns)
    of_background, of_rows = _squares(every, background, columns), _squares(rows, every, columns)
    nothing = np.zeros((len(every), 1), dtype=np.float32)
    before = np.zeros((2, len(rows)))
    nothing_range = _range(nothing)
    before[0] = _mean_nearest(of_background, _range(of_background), nothing[:, 0], n_samples)
    for i in range(len(rows)):
        before[1, i] = _mean_nearest(nothing, nothing_range, of_rows[i], n_samples)
    changes = np.empty((2, len(rows), n_features))
    for feature in range(n_features):
        replaced = columns[feature_of == feature]
        background_own, row_own = _squares(every, background, replaced), _squares(rows, every, replaced)
        background_others = of_background - background_own
        own_range, others_range = _range(background_own), _range(background_others)
        for i in range(len(rows)):
            first_in = _mean_nearest(background_others, others_range, row_own[i], n_samples)
            last_out = _mean_nearest(background_own, own_range, of_rows[i] - row_own[i], n_samples)
            changes[0, i, feature] = first_in - before[0, i]
            changes[1, i, feature] = last_out - before[1, i]
    return changes


@compiled_exactly
def _squares(first: Floats, second: Floats, columns: Indices) -> Floats:
    """Return squared distances in some columns."""
    squares = np.zeros((len(first), len(second)), dtype=np.float32)
    for column in columns:
        values = second[:, column].copy()
        for i in range(len(first)):
            value = first[i, column]
            for j in range(len(second)):
                gap = value - values[j]
                squares[i, j] += gap * gap
    return squares


@compiled_exactly
def _range(of_background: Floats) -> Floats:
    """Return the smallest and the largest squared distance of each neighbour, as (2, neighbours)."""
    found = np.empty((2, len(of_background)), dtype=np.float32)
    for j in range(len(of_background)):
        found[0, j], found[1, j] = of_background[j].min(), of_background[j].max()
    return found


@compiled_exactly
def _mean_nearest(of_background: Floats, background_range: Floats, of_row: Floats, n_samples: int) -> float:
    """Return the mean distance of background rows to their nearest neighbours, averaged over samples as well.

    A squared distance is the sum of `of_background` (neighbours, background rows) and `of_row` (neighbours).
    """
    n_each, n_background = len(of_background) // n_samples, of_background.shape[1]
    lowest = np.empty(n_background, dtype=np.float32)
    total = np.float64(0)
    for sample in range(n_samples):
        start, end = sample * n_each, (sample + 1) * n_each
        # A neighbour whose smallest distance exceeds another's largest distance can be skipped.
        bound = (background_range[1, start:end] + of_row[start:end]).min()
        lowest[:] = bound
        for j in range(start, end):
            added = of_row[j]
            if background_range[0, j] + added <= bound:
                for b in range(n_background):
                    square = of_background[j, b] + added
                    lowest[b] = (
                        square if square < lowest[b] else lowest[b]
                    )  # min would propagate NaN and is slower
        for b in range(n_background):
            total += np.sqrt(max(lowest[b], np.float32(0)))
    return float(total / (n_samples * n_background))
