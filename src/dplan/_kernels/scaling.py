"""Scaling to float32, by minimum and maximum or by rank, and scoring in blocks, with constant memory."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import threads
from dplan._kernels.compile import compiled_exactly
from dplan.arrays import Float32s

# Limit of steps, and roughly of bytes, per block of rows: Ctrl-C is only handled between blocks.
_MOST_STEPS = 2**28

# Far beyond any scaled training value; keeps float32 sums finite.
_LIMIT = 1e12

# Ranks are counted among so many quantiles of a column, a power of two, so that they are exact. For these quantiles, so
# many rows are enough.
_N_QUANTILES, _QUANTILE_ROWS = 32, 10_000

# Share of the rank in a scaled value, by the name of the scaling.
RANK_SHARES = {"minmax": 0.0, "rank": 1.0, "both": 0.5}


class Scaling(NamedTuple):
    """How rows are scaled: by minimum and maximum, by rank, or by a weighted mean of the two."""

    low: NDArray[np.float64]  # half the minimum of each column,
    inverse: NDArray[
        np.float64
    ]  # and the inverse of half its range: halves, because the range itself can overflow
    quantiles: Float32s | None = None  # (quantiles, columns), of rows scaled by minimum and maximum
    rank_share: float = 0.0


def column_scale(X: NDArray[np.floating]) -> Scaling:
    """Return the scaling by minimum and maximum.

    A constant column carries no information: its inverse is 0, so it becomes 0 in every row.

    Examples
    --------
    >>> column_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))[:2]
    (array([0.5, 2.5]), array([1., 0.]))
    """
    lowest, highest = _extremes(X)
    low = 0.5 * lowest.astype(np.float64)
    half_range = 0.5 * highest.astype(np.float64) - low
    inverse = np.zeros_like(half_range)
    np.divide(1.0, half_range, out=inverse, where=half_range > 1e-300)
    return Scaling(low, inverse)


def rank_scale(X: NDArray[np.floating], rank_share: float, rng: np.random.Generator) -> Scaling:
    """Return a scaling that mixes ranks with minimum and maximum.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])  # a long tail
    >>> both = rank_scale(X, 0.5, np.random.default_rng(0))
    >>> arrange(X, None, column_scale(X)).ravel().round(2), arrange(X, None, both).ravel().round(2)
    (array([0., 0., 0., 0., 1.], dtype=float32), array([0.05, 0.15, 0.25, 0.35, 0.95], dtype=float32))
    """
    scaling = column_scale(X)
    some = rng.choice(len(X), _QUANTILE_ROWS, replace=False) if len(X) > _QUANTILE_ROWS else None
    return Scaling(*scaling[:2], column_quantiles(arrange(X, some, scaling)), rank_share)


def column_quantiles(rows: Float32s) -> Float32s:
    """Return the values of each column that `with_ranks` compares with, with shape (quantiles, columns).

    Examples
    --------
    >>> column_quantiles(np.arange(64, dtype=np.float32)[:, None])[:3, 0]
    array([1., 3., 5.], dtype=float32)
    """
    places = (2 * np.arange(_N_QUANTILES) + 1) * len(rows) // (2 * _N_QUANTILES)
    return np.sort(rows, axis=0)[places]


def with_ranks(quantiles: Float32s, rows: Float32s, value_weight: float, rank_weight: float) -> Float32s:
    """Return a weighted sum of each value and its rank, from 0 to 1, in its column.

    A few extreme values leave the others of a scaled column close together. Ranks spread them out.

    Examples
    --------
    >>> quantiles = np.array([[0.125], [0.125], [0.25], [1.0]], dtype=np.float32)
    >>> with_ranks(quantiles, np.array([[0.0], [0.125], [0.25], [9.0]], dtype=np.float32), 0, 1)[:, 0]
    array([0.   , 0.25 , 0.625, 1.   ], dtype=float32)
    """
    mixed = np.zeros(rows.shape, dtype=np.float32)
    weight, step = np.float32(value_weight), np.float32(rank_step(quantiles, rank_weight))
    _with_ranks(quantiles, np.ascontiguousarray(rows), weight, step, mixed)
    return mixed


def rank_step(quantiles: Float32s, rank_weight: float) -> float:
    """Return what each quantile below a value adds to it, and again each that is not above it."""
    return rank_weight / (2 * max(len(quantiles), 1))


@compiled_exactly
def _with_ranks(
    quantiles: Float32s, rows: Float32s, weight: np.float32, step: np.float32, mixed: Float32s
) -> None:
    n_rows, n_columns = rows.shape
    for i in range(n_rows):
        for k in range(len(quantiles)):
            for column in range(n_columns):
                value, quantile = rows[i, column], quantiles[k, column]
                mixed[i, column] += np.float32(quantile < value) + np.float32(quantile <= value)  # exact
        for column in range(n_columns):
            mixed[i, column] = weight * rows[i, column] + step * mixed[i, column]


def _extremes(X: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the lowest and the highest value of each column, in one pass through memory."""
    n_rows, n_columns = X.shape
    # Several rows side by side make a long one: NumPy is many times slower at comparing short rows.
    n_together = min(max(2048 // n_columns, 1), n_rows)
    n_whole = n_rows - n_rows % n_together
    lowest, highest = np.tile(X[0], n_together), np.tile(X[0], n_together)
    step = n_together * max(65_536 // (n_together * n_columns), 1)
    for start in range(0, n_whole, step):
        chunk = np.ascontiguousarray(X[start : min(start + step, n_whole)]).reshape(-1, len(lowest))
        np.minimum(lowest, chunk.min(axis=0), out=lowest)
        np.maximum(highest, chunk.max(axis=0), out=highest)
    rest = X[n_whole:]
    return (
        np.concatenate([lowest.reshape(n_together, n_columns), rest]).min(axis=0),
        np.concatenate([highest.reshape(n_together, n_columns), rest]).max(axis=0),
    )


def no_scale(n_columns: int) -> Scaling:
    """Return a scaling that leaves values unchanged."""
    return Scaling(np.zeros(n_columns), np.full(n_columns, 2.0))


def _scaled_into(X: NDArray[np.floating], scaling: Scaling, out: Float32s) -> bool:
    """Scale the rows of X into the first rows of `out`; return whether all values of X were finite."""
    low, inverse, quantiles, share = scaling
    is_finite: bool = scale_rows(X, low, inverse, out)
    if quantiles is not None:
        own = out[: len(X)]
        own[:] = with_ranks(quantiles, own, 1 - share, share)
    return is_finite


@compiled_exactly
def scale_rows(
    X: NDArray[np.floating], low: NDArray[np.float64], inverse: NDArray[np.float64], out: Float32s
) -> bool:
    """Scale the rows of X into the first rows of `out`; return whether all values of X were finite."""
    n_wrong = 0
    for row in range(X.shape[0]):
        for column in range(X.shape[1]):
            value = np.float64(X[row, column])
            n_wrong += not (abs(value) < np.inf)
            scaled = (0.5 * value - low[column]) * inverse[column]
            out[row, column] = min(max(scaled, -_LIMIT), _LIMIT)
    return n_wrong == 0


def arrange(X: NDArray[np.floating], order: NDArray[np.int64] | None, scaling: Scaling) -> Float32s:
    """Return the rows of X, scaled, as one contiguous float32 array: the only copy made for training.

    If `order` is given, return the rows with these indices.
    """
    arranged = np.empty((len(X) if order is None else len(order), X.shape[1]), dtype=np.float32)
    for start, chunk in _pieces(X, order, 1024):
        _scaled_into(chunk, scaling, arranged[start : start + len(chunk)])
    return arranged


def _pieces(
    X: NDArray[np.floating], rows: NDArray[np.int64] | None, size: int
) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield the rows of X, or those with the given indices, some at a time, with the number of rows before them."""
    if rows is None:
        for start in range(0, len(X), size):
            yield start, np.ascontiguousarray(X[start : start + size])
        return
    # One array for all pieces: allocating a new one each time takes as long as copying the rows.
    gathered = np.empty((min(size, len(rows)), X.shape[1]), dtype=X.dtype)
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        # With "raise", NumPy would use a buffer; all indices are valid.
        yield start, np.take(X, some, axis=0, out=gathered[: len(some)], mode="clip")


def block_rows(n_columns: int, row_steps: int = 1) -> int:
    """Return the number of rows to score at once: what fits into the processor's cache, fewer for large models.

    Examples
    --------
    >>> block_rows(21), block_rows(196), block_rows(5_000), block_rows(21, row_steps=10_000_000)
    (1024, 512, 64, 16)
    """
    fitting = max(1, min(max(131_072 // n_columns, 64), 1024, _MOST_STEPS // row_steps))
    return int(2 ** np.floor(np.log2(fitting)))


def score_in_blocks(
    X: NDArray[np.floating],
    scaling: Scaling,
    score: Callable[[Float32s], NDArray[np.floating]],
    rows: NDArray[np.int64] | None = None,
    row_steps: int = 1,
) -> NDArray[np.float64]:
    """Scale and score the rows of X, or those with the given indices, block by block; see `block_rows`."""
    scores = np.empty(len(X) if rows is None else len(rows), dtype=np.float64)
    size = min(block_rows(X.shape[1], row_steps), len(scores))
    block = np.empty((size, X.shape[1]), dtype=np.float32)
    for start, chunk in _pieces(X, rows, max(size, 1)):
        threads.check_stopped()
        if not _scaled_into(chunk, scaling, block):
            from sklearn.utils import assert_all_finite

            assert_all_finite(X, input_name="X")  # raises with a description of the value
        scores[start : start + len(chunk)] = score(block[: len(chunk)])
    return scores
