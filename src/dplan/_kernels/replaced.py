"""Effect of replacing a feature on a network's output and on nearest-neighbour distances.

Changes have the shape (2, rows, features) and are means over background rows: first of the scores of the background
rows with only this feature taken from the row, then of the row's score with only this feature taken from the
background. Neither the whole network nor whole distances are computed again for each replaced row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Sizes
from dplan.arrays import Float32s

Indices = NDArray[np.int64]
Changes = NDArray[np.float64]

_ROWS_AT_ONCE = 1_000
_MOST_DISTANCES = 2**24  # limits memory: every row has a distance to every neighbour


def single_output(theta: Float32s, sizes: Sizes, weights: NDArray[np.float64]) -> tuple[Float32s, Sizes]:
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


def network_changes(
    theta: Float32s, sizes: Sizes, rows: Float32s, background: Float32s, feature_of: Indices, n_features: int
) -> Changes:
    """Propagate the replaced feature through the first layer of a network with one output, as a difference.

    The contribution of a feature to the first layer is computed once per row, so that replacing it costs one addition
    per unit instead of a product over all columns. Activations are stored unit by unit, so that each instruction
    handles many background rows.
    """
    # Arrays are allocated and turned here, because compiling that takes longer than compiling loops.
    n_background, n_units = len(background), int(sizes[1])
    n_lower = (int(sizes[0]) + 1) * n_units
    lower, upper = theta[:n_lower], theta[n_lower:]
    added = np.zeros((n_background + 1, n_features, n_units), dtype=np.float32)
    network = Network(
        lower[:-n_units].reshape(-1, n_units),
        upper,
        sizes[1:],
        np.ascontiguousarray(product.propagate(lower, sizes[:2], _contiguous(background), 0).T),
        np.ascontiguousarray(product.propagate(lower, sizes[:2], _contiguous(rows), 0)),
    )
    for b in range(n_background):
        _add_by_feature(network.first, _contiguous(background)[b], feature_of, added[b])
    hidden = np.empty((n_units, 2 * n_background), dtype=np.float32)
    outputs = np.empty((2, 2 * n_background), dtype=np.float32)
    changes = np.empty((2, len(rows), n_features))
    of_background = np.ascontiguousarray(added[:-1].transpose(1, 2, 0))
    _network_changes(
        network,
        _contiguous(rows),
        feature_of,
        of_background,
        added[-1],
        hidden,
        hidden.T.copy(),
        outputs,
        changes,
    )
    return changes


def _contiguous(rows: Float32s) -> Float32s:
    return np.ascontiguousarray(rows)


class Network(NamedTuple):
    """A network in two parts, and what the first layer makes of rows, before ReLU."""

    first: Float32s  # (inputs, units): the kernel of the first layer
    rest: Float32s  # the weights of the layers above
    rest_sizes: Sizes
    background_sums: Float32s  # (units, background rows)
    row_sums: Float32s  # (rows, units)


@compiled_exactly
def _network_changes(
    network: Network,
    rows: Float32s,
    feature_of: Indices,
    of_background: Float32s,  # (features, units, background rows)
    of_row: Float32s,  # (features, units), scratch memory, as all that follow but the last
    hidden: Float32s,  # (units, twice the background rows)
    turned: Float32s,  # the same, turned
    outputs: Float32s,  # (2, twice the background rows): before and after
    changes: Changes,
) -> None:
    background_sums, row_sums = network.background_sums, network.row_sums
    n_units, n_background = background_sums.shape
    before, after = outputs[0], outputs[1]
    for i in range(len(rows)):
        for unit in range(n_units):
            for b in range(n_background):
                hidden[unit, b] = max(background_sums[unit, b], np.float32(0))
                hidden[unit, n_background + b] = max(row_sums[i, unit], np.float32(0))
        _outputs(network, hidden, turned, before)
        for feature in range(len(of_row)):
            for unit in range(n_units):
                of_row[feature, unit] = 0
        _add_by_feature(network.first, rows[i], feature_of, of_row)
        for feature in range(len(of_row)):
            for unit in range(n_units):
                own, row_sum = of_row[feature, unit], row_sums[i, unit]
                for b in range(n_background):
                    change = own - of_background[feature, unit, b]
                    hidden[unit, b] = max(background_sums[unit, b] + change, np.float32(0))
                    hidden[unit, n_background + b] = max(row_sum - change, np.float32(0))
            _outputs(network, hidden, turned, after)
            for which in range(2):
                total = 0.0
                for b in range(which * n_background, (which + 1) * n_background):
                    total += np.float64(after[b]) - np.float64(before[b])
                changes[which, i, feature] = total / n_background


@compiled_exactly
def _outputs(network: Network, hidden: Float32s, turned: Float32s, out: Float32s) -> None:
    """Write the one output of the layers above the first, given its activations (units, rows), into `out`."""
    theta, sizes = network.rest, network.rest_sizes
    if len(sizes) > 2:
        for unit in range(hidden.shape[0]):
            for row in range(hidden.shape[1]):
                turned[row, unit] = hidden[unit, row]
        values = product.propagate(theta, sizes, turned, len(sizes) - 2)
        for row in range(len(out)):
            out[row] = values[row, 0]
        return
    for row in range(len(out)):
        out[row] = theta[-1]
    for unit in range(len(hidden)):
        for row in range(len(out)):
            out[row] += hidden[unit, row] * theta[unit]


@compiled_exactly
def _add_by_feature(first: Float32s, row: Float32s, feature_of: Indices, added: Float32s) -> None:
    """Add the contribution of each feature of a row to the units of the first layer (features, units)."""
    for column in range(len(row)):
        if row[column] != 0:
            for unit in range(first.shape[1]):
                added[feature_of[column], unit] += row[column] * first[column, unit]


def neighbour_changes(
    neighbours: Float32s, rows: Float32s, background: Float32s, feature_of: Indices, n_features: int
) -> Changes:
    """Return the changes of the mean distance to the nearest row of each sample (samples, rows, columns).

    A squared distance is a sum over columns, so replacing a feature replaces some of its terms. This is done for all
    background rows at once, neighbour by neighbour.
    """
    changes = np.empty((2, len(rows), n_features))
    n_samples, n_each, n_columns = neighbours.shape
    every = neighbours.reshape(n_samples * n_each, n_columns)
    at_once = max(1, min(_ROWS_AT_ONCE, _MOST_DISTANCES // len(every)))
    for start in range(0, len(rows), at_once):
        some = slice(start, start + at_once)
        changes[:, some] = _neighbour_changes(
            every, n_samples, rows[some], background, feature_of, n_features
        )
    return changes


def _neighbour_changes(
    every: Float32s,
    n_samples: int,
    rows: Float32s,
    background: Float32s,
    feature_of: Indices,
    n_features: int,
) -> Changes:
    columns = np.arange(every.shape[1])
    of_background, of_rows = _squares(every, background, columns), _squares(rows, every, columns)
    nothing = np.zeros((len(every), 1), dtype=np.float32)
    lowest = np.empty(len(background), dtype=np.float32)
    before = np.empty((2, len(rows)))
    before[0] = _mean_nearest(of_background, _range(of_background), nothing.ravel(), n_samples, lowest)
    _row_changes(nothing, _range(nothing), of_rows, n_samples, lowest[:1], before[1])
    changes = np.empty((n_features, 2, len(rows)))
    for feature in range(n_features):
        replaced = columns[feature_of == feature]
        background_own, row_own = _squares(every, background, replaced), _squares(rows, every, replaced)
        background_others = of_background - background_own
        first_in, last_out = changes[feature]
        _row_changes(background_others, _range(background_others), row_own, n_samples, lowest, first_in)
        row_others = of_rows - row_own
        _row_changes(background_own, _range(background_own), row_others, n_samples, lowest, last_out)
    return (changes - before).transpose(1, 2, 0)


def _squares(first: Float32s, second: Float32s, columns: Indices) -> Float32s:
    """Return squared distances in some columns."""
    squares = np.zeros((len(first), len(second)), dtype=np.float32)
    _add_squares(_contiguous(first[:, columns]), _contiguous(second[:, columns].T), squares)
    return squares


@compiled_exactly
def _add_squares(first: Float32s, second: Float32s, squares: Float32s) -> None:
    """Add the squared distances of rows (rows, columns) to others, which are turned."""
    for column in range(len(second)):
        for i in range(len(first)):
            value = first[i, column]
            for j in range(second.shape[1]):
                gap = value - second[column, j]
                squares[i, j] += gap * gap


def _range(of_background: Float32s) -> Float32s:
    """Return the smallest and the largest squared distance of each neighbour, as (2, neighbours)."""
    return np.stack([of_background.min(axis=1), of_background.max(axis=1)])


@compiled_exactly
def _row_changes(
    of_background: Float32s,
    background_range: Float32s,
    of_rows: Float32s,
    n_samples: int,
    lowest: Float32s,
    out: NDArray[np.float64],
) -> None:
    """Write the mean distance for each row, which has its own part in `of_rows`, into `out`."""
    for i in range(len(out)):
        out[i] = _mean_nearest(of_background, background_range, of_rows[i], n_samples, lowest)


@compiled_exactly
def _mean_nearest(
    of_background: Float32s, background_range: Float32s, of_row: Float32s, n_samples: int, lowest: Float32s
) -> float:
    """Return the mean distance of background rows to their nearest neighbours, averaged over samples as well.

    A squared distance is the sum of `of_background` (neighbours, background rows) and `of_row` (neighbours).
    """
    n_each, n_background = len(of_background) // n_samples, of_background.shape[1]
    total = np.float64(0)
    for sample in range(n_samples):
        start, end = sample * n_each, (sample + 1) * n_each
        # A neighbour whose smallest distance exceeds another's largest distance can be skipped.
        bound = background_range[1, start] + of_row[start]
        for j in range(start + 1, end):
            bound = min(bound, background_range[1, j] + of_row[j])
        for b in range(n_background):
            lowest[b] = bound
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
