"""Effect of replacing a feature on nearest-neighbour distances, as defined in `dplan._kernels.replaced_network`.

A squared distance is a sum over columns, so replacing a feature replaces some of its terms. This is done for all
background rows at once, neighbour by neighbour.
"""

import numpy as np

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats
from dplan._kernels.replaced_network import Changes, Indices

_ROWS_AT_ONCE = 1_000
_MOST_DISTANCES = 2**24  # limits memory: every row has a distance to every neighbour


def neighbour_changes(
    neighbours: Floats, rows: Floats, background: Floats, feature_of: Indices, n_features: int
) -> Changes:
    """Return the changes of the mean distance to the nearest row of each sample (samples, rows, columns)."""
    changes = np.empty((2, len(rows), n_features))
    at_once = max(1, min(_ROWS_AT_ONCE, _MOST_DISTANCES // (neighbours.shape[0] * neighbours.shape[1])))
    for start in range(0, len(rows), at_once):
        some = slice(start, start + at_once)
        changes[:, some] = _changes(neighbours, rows[some], background, feature_of, n_features)
    return changes


@compiled_exactly
def _changes(
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
