"""Distance to the nearest neighbours among unlabelled rows."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.product import LANES, NO_FLOOR, NO_SHIFT, has_wide_registers, tile
from dplan._kernels.scaling import with_ranks
from dplan.arrays import Float32s

# Distances are averaged over several small samples, at most a quarter of all rows each. In such a sample, a hidden
# anomaly rarely meets another anomaly of its class (LeSiNN: Pang, Ting, Albrecht, 2015).
N_SAMPLES, SAMPLE_ROWS, _LARGEST_PART = 8, 192, 4

RANK_WEIGHT = 0.5  # of ranks that are added to columns scaled to [0, 1]

_TOGETHER = 8 if has_wide_registers() else 4  # neighbours whose distances are summed at the same time
_many, _one = tile(_TOGETHER, nearest=True), tile(1, nearest=True)


def draw_samples(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw samples of rows, as (samples, rows); if they overlap, all rows are in about as many of them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draw_samples(np.arange(100_000), rng).shape, draw_samples(np.arange(2), rng).shape
    ((8, 192), (8, 1))
    >>> sorted(np.bincount(draw_samples(np.arange(6), rng).ravel()).tolist())
    [1, 1, 1, 1, 2, 2]
    """
    n_each = max(1, min(SAMPLE_ROWS, len(rows) // _LARGEST_PART))
    n_drawn = N_SAMPLES * n_each
    shuffled = [rng.permutation(rows) for _ in range(-(-n_drawn // len(rows)))]
    return np.concatenate(shuffled)[:n_drawn].reshape(N_SAMPLES, n_each)


def samples_with(samples: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return how many samples each row of a table is in.

    Examples
    --------
    >>> samples_with(np.array([[0, 2], [2, 2]]), 4)
    array([1, 0, 2, 0])
    """
    return np.bincount(np.concatenate([np.unique(sample) for sample in samples]), minlength=n_rows)


def without_own(
    distances: NDArray[np.float64], own: NDArray[np.int64], n_samples: int
) -> NDArray[np.float64]:
    """Return mean distances of rows to the samples that they are not in themselves: to their own, it is zero.

    Examples
    --------
    >>> without_own(np.array([3.0, 3.0]), np.array([0, 2]), 8)
    array([3., 4.])
    """
    others: NDArray[np.float64] = distances * n_samples / np.maximum(n_samples - own, 1)
    return others


def spread_out(quantiles: Float32s, rows: Float32s) -> Float32s:
    """Return rows with half its rank added to each value; see `with_ranks`.

    Examples
    --------
    >>> quantiles = np.array([[0.125], [0.125], [0.25], [1.0]], dtype=np.float32)
    >>> spread_out(quantiles, np.array([[0.0], [0.125], [0.25], [9.0]], dtype=np.float32))[:, 0]
    array([0.    , 0.25  , 0.5625, 9.5   ], dtype=float32)
    """
    return with_ranks(quantiles, rows, 1.0, RANK_WEIGHT)


def mean_nearest_distance(neighbours: Float32s, rows: Float32s) -> NDArray[np.float64]:
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
    neighbours: Float32s,
    rows: Float32s,
    turned: Float32s,  # (columns, lanes): one row per lane; the last lanes may be unused
    nearest: Float32s,  # (lanes)
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
