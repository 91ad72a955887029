"""How far a row lies from its nearest neighbours among unlabelled rows: an explorer of the raw features."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled
from dplan._kernels.perceptron import Floats

# Neighbours are looked for in several small samples, and the distances averaged: in a sample of this size a hidden
# anomaly seldom finds one of its own kind (LeSiNN: Pang, Ting, Albrecht, 2015).
N_SAMPLES, SAMPLE_ROWS = 4, 256

_LANES = 16
_ROWS_AT_ONCE = 256  # whose products with all neighbours stay in the cache,
_MOST_PRODUCTS = 2**24  # unless there are far more neighbours than we draw


def sample_sizes(n_unlabelled: int) -> tuple[int, int]:
    """Return how many samples there are and how many rows each has: together at most a quarter of all, at least one.

    Examples
    --------
    >>> sample_sizes(100_000), sample_sizes(400), sample_sizes(9), sample_sizes(2)
    ((4, 256), (4, 25), (2, 1), (1, 1))
    """
    n_rows = max(n_unlabelled // 4, 1)
    n_samples = min(N_SAMPLES, n_rows)
    return n_samples, min(SAMPLE_ROWS, n_rows // n_samples)


@compiled
def mean_nearest_distance(neighbours: Floats, rows: Floats) -> NDArray[np.float64]:
    """Return the distance of each row to the nearest row of a sample, averaged over samples (samples, rows, columns).

    Of all neighbours, the one with the largest x·z - z²/2 is the nearest, which one matrix product tells; the distance
    to it is then taken exactly, because the difference of large products would not see small distances.
    """
    n_samples, n_each, n_columns = neighbours.shape
    every = neighbours.reshape(n_samples * n_each, n_columns)
    half_squares = np.empty(len(every), dtype=np.float32)
    for j in range(len(every)):
        total = np.float32(0)
        for column in range(n_columns):
            total += every[j, column] * every[j, column]
        half_squares[j] = total / 2
    distances = np.zeros(len(rows))
    lanes = np.empty(_LANES, dtype=np.float32)
    at_once = max(1, min(_ROWS_AT_ONCE, _MOST_PRODUCTS // len(every)))
    for start in range(0, len(rows), at_once):
        products = np.dot(rows[start : start + at_once], every.T)
        for i in range(len(products)):
            for sample in range(n_samples):
                first, last = sample * n_each, (sample + 1) * n_each
                nearest = first + _highest(products[i, first:last], half_squares[first:last], lanes)
                distances[start + i] += _distance(rows[start + i], every[nearest])
    distances /= n_samples
    return distances


@compiled
def _highest(products: Floats, half_squares: Floats, lanes: Floats) -> int:
    """Return where products less half squares are highest; every sixteenth shares a lane, which is vectorised."""
    lanes[:] = -np.inf
    whole = len(products) - len(products) % _LANES
    for start in range(0, whole, _LANES):
        for lane in range(_LANES):
            value = products[start + lane] - half_squares[start + lane]
            lanes[lane] = value if value > lanes[lane] else lanes[lane]
    best, place = np.float32(-np.inf), 0
    for lane in range(_LANES):
        if lanes[lane] > best:
            best, place = lanes[lane], lane
    while place + _LANES < whole and products[place] - half_squares[place] != best:
        place += _LANES
    for j in range(whole, len(products)):
        if products[j] - half_squares[j] > best:
            best, place = products[j] - half_squares[j], j
    return place


@compiled
def _distance(first: Floats, second: Floats) -> float:
    total = np.float32(0)
    for column in range(len(first)):
        gap = first[column] - second[column]
        total += gap * gap
    return float(np.sqrt(total))
