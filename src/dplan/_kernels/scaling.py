"""Min–max scaling to float32, and scoring in blocks, with constant memory."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

from dplan._kernels import threads
from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats

# Limit of steps, and roughly of bytes, per block of rows: Ctrl-C is only handled between blocks.
_MOST_STEPS = 2**28

# Far beyond any scaled training value; keeps float32 sums finite.
_LIMIT = 1e12


def column_scale(X: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what `scale_rows` needs per column: half the minimum, and the inverse of half the range.

    Halves, because the range itself can overflow. A constant column carries no information: its inverse is 0, so it
    becomes 0 in every row.

    Examples
    --------
    >>> column_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([0.5, 2.5]), array([1., 0.]))
    """
    lowest, highest = _extremes(X)
    low = 0.5 * lowest.astype(np.float64)
    half_range = 0.5 * highest.astype(np.float64) - low
    inverse = np.zeros_like(half_range)
    np.divide(1.0, half_range, out=inverse, where=half_range > 1e-300)
    return low, inverse


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


def no_scale(n_columns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a scale with which `scale_rows` leaves values unchanged."""
    return np.zeros(n_columns), np.full(n_columns, 2.0)


@compiled_exactly
def scale_rows(
    X: NDArray[np.floating], low: NDArray[np.float64], inverse: NDArray[np.float64], out: Floats
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


def arrange(
    X: NDArray[np.floating],
    order: NDArray[np.int64] | None,
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
) -> Floats:
    """Return the rows of X, scaled, as one contiguous float32 array: the only copy made for training.

    If `order` is given, return the rows with these indices.
    """
    arranged = np.empty((len(X) if order is None else len(order), X.shape[1]), dtype=np.float32)
    for start, chunk in _pieces(X, order, 1024):
        scale_rows(chunk, low, inverse, arranged[start : start + len(chunk)])
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
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
    score: Callable[[Floats], NDArray[np.floating]],
    rows: NDArray[np.int64] | None = None,
    row_steps: int = 1,
) -> NDArray[np.float64]:
    """Scale and score the rows of X, or those with the given indices, block by block; see `block_rows`."""
    scores = np.empty(len(X) if rows is None else len(rows), dtype=np.float64)
    size = min(block_rows(X.shape[1], row_steps), len(scores))
    block = np.empty((size, X.shape[1]), dtype=np.float32)
    for start, chunk in _pieces(X, rows, max(size, 1)):
        threads.check_stopped()
        if not scale_rows(chunk, low, inverse, block):
            assert_all_finite(X, input_name="X")  # raises with a description of the value
        scores[start : start + len(chunk)] = score(block[: len(chunk)])
    return scores
