"""Distance to the nearest neighbours among unlabelled rows."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats
from dplan._kernels.product import LANES, NO_FLOOR, NO_SHIFT, has_wide_registers, tile

# Distances are averaged over several small samples. In such a sample, a hidden anomaly rarely meets another anomaly of
# its class (LeSiNN: Pang, Ting, Albrecht, 2015).
N_SAMPLES, SAMPLE_ROWS = 4, 256

# Ranks among so many quantiles are added to columns scaled to [0, 1], with this weight. Steps are powers of two, so
# they are exact.
_N_QUANTILES, _RANK_WEIGHT = 32, 0.5

_TOGETHER = 8 if has_wide_registers() else 4  # neighbours whose distances are summed at the same time
_many, _one = tile(_TOGETHER, nearest=True), tile(1, nearest=True)


def sample_sizes(n_unlabelled: int) -> tuple[int, int]:
    """Return the number of samples and rows per sample: at most a quarter of all rows in total, at least one.

    Examples
    --------
    >>> sample_sizes(100_000), sample_sizes(400), sample_sizes(9), sample_sizes(2)
    ((4, 256), (4, 25), (2, 1), (1, 1))
    """
    n_rows = max(n_unlabelled // 4, 1)
    n_samples = min(N_SAMPLES, n_rows)
    return n_samples, min(SAMPLE_ROWS, n_rows // n_samples)


def column_quantiles(rows: Floats) -> Floats:
    """Return the values of each column that `spread_out` compares with, with shape (quantiles, columns).

    Examples
    --------
    >>> column_quantiles(np.arange(64, dtype=np.float32)[:, None])[:3, 0]
    array([1., 3., 5.], dtype=float32)
    """
    places = (2 * np.arange(_N_QUANTILES) + 1) * len(rows) // (2 * _N_QUANTILES)
    return np.sort(rows, axis=0)[places]


def spread_out(quantiles: Floats, rows: Floats) -> Floats:
    """Return rows with its rank added to each value.

    A few extreme values leave the others of a scaled column close together. Ranks spread them out.

    Examples
    --------
    >>> quantiles = np.array([[0.125], [0.125], [0.25], [1.0]], dtype=np.float32)
    >>> spread_out(quantiles, np.array([[0.0], [0.125], [0.25], [9.0]], dtype=np.float32))[:, 0]
    array([0.    , 0.25  , 0.5625, 9.5   ], dtype=float32)
    """
    spread = np.zeros(rows.shape, dtype=np.float32)
    _spread_out(quantiles, np.ascontiguousarray(rows), np.float32(rank_step(quantiles)), spread)
    return spread


def rank_step(quantiles: Floats) -> float:
    """Return what each quantile below a value adds to it, and again each that is not above it."""
    return _RANK_WEIGHT / (2 * len(quantiles))


@compiled_exactly
def _spread_out(quantiles: Floats, rows: Floats, step: np.float32, spread: Floats) -> None:
    n_rows, n_columns = rows.shape
    for i in range(n_rows):
        for k in range(len(quantiles)):
            for column in range(n_columns):
                value, quantile = rows[i, column], quantiles[k, column]
                spread[i, column] += np.float32(quantile < value) + np.float32(quantile <= value)  # exact
        for column in range(n_columns):
            spread[i, column] = rows[i, column] + step * spread[i, column]


def mean_nearest_distance(neighbours: Floats, rows: Floats) -> NDArray[np.float64]:
    """Return the distance of each row to the nearest row of a sample, averaged over samples (samples, rows, columns).

    Every distance is a sum of squared differences, because a difference of products loses small distances between large
    rows.

    Examples
    --------
    >>> samples = np.array([[[0.0], [5.0]], [[1.0], [9.0]]], dtype=np.float32)
    >>> mean_nearest_distance(samples, np.array([[5.0], [0.0]], dtype=np.float32))
    array([2. , 0.5])
    """
    n_columns = neighbours.shape[2]
    # Allocated here, because compiling an allocation takes longer than compiling a loop.
    turned = np.zeros((n_columns, LANES), dtype=np.float32)
    nearest, sums, distances = np.empty(LANES, dtype=np.float32), np.empty(LANES), np.empty(len(rows))
    _mean_nearest_distance(
        np.ascontiguousarray(neighbours), np.ascontiguousarray(rows), turned, nearest, sums, distances
    )
    return distances


@compiled_exactly
def _mean_nearest_distance(
    neighbours: Floats,
    rows: Floats,
    turned: Floats,  # (columns, lanes): one row per lane; the last lanes may be unused
    nearest: Floats,  # (lanes)
    sums: NDArray[np.float64],  # (lanes)
    distances: NDArray[np.float64],  # (rows), the result
) -> None:
    n_samples, n_each, n_columns = neighbours.shape
    shift, right, out = NO_SHIFT.ctypes.data, turned.ctypes.data, nearest.ctypes.data
    for start in range(0, len(rows), LANES):
        n_lanes = min(LANES, len(rows) - start)
        for column in range(n_columns):
            for lane in range(n_lanes):
                turned[column, lane] = rows[start + lane, column]
        sums[:] = 0
        for sample in range(n_samples):
            nearest[:] = np.inf
            j = 0
            while j < n_each:
                left, many = neighbours[sample, j].ctypes.data, j + _TOGETHER <= n_each
                if many:
                    _many(left, n_columns, right, n_columns, shift, NO_FLOOR, out, LANES)
                else:
                    _one(left, n_columns, right, n_columns, shift, NO_FLOOR, out, LANES)
                j += _TOGETHER if many else 1
            for lane in range(LANES):
                sums[lane] += np.sqrt(np.float64(nearest[lane]))
        for lane in range(n_lanes):
            distances[start + lane] = sums[lane] / n_samples
