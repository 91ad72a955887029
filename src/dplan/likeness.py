"""How alike rows are: near duplicates, for a batch and for a group alike, and the nearest rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dplan.arrays import Float32s

__all__ = ["Likeness"]

# Rows are near duplicates if no column differs by more than this share of its typical range or of the value itself.
_RANGE_SHARE, _VALUE_SHARE = 0.1, 0.02
_FARTHEST = 3.0  # typical ranges: one column alone must not decide which rows are nearest
_LEAST_RANGE = 0.01  # of a column that hardly varies


class Likeness:
    """Compares rows in units of each feature's typical range, the middle 90 % of reference rows.

    Parameters
    ----------
    reference : ndarray of float32
        The rows that give the ranges.
    columns : ndarray of int, optional
        The column that each feature belongs to, in ascending order; by default, each feature is a column.

    Examples
    --------
    >>> likeness = Likeness(np.linspace(0, 1, 101, dtype=np.float32)[:, None])
    >>> rows = np.array([[0.5], [0.55], [0.9]], dtype=np.float32)
    >>> likeness.groups(rows).tolist(), likeness.nearest(rows[2], rows[:2], 1).tolist()
    ([0, 0, 2], [1])
    """

    def __init__(self, reference: Float32s, columns: NDArray[np.int64] | None = None) -> None:
        low, high = np.quantile(reference, [0.05, 0.95], axis=0)
        self._range = np.maximum(high - low, _LEAST_RANGE).astype(np.float32)
        groups = np.arange(reference.shape[1]) if columns is None else columns
        self._starts = np.flatnonzero(np.diff(groups, prepend=-1))

    def differences(self, row: Float32s, others: Float32s) -> NDArray[np.float64]:
        """Return the difference between a row and others in each column, in typical ranges."""
        gaps = np.abs(others - row) / self._range
        found: NDArray[np.float64] = np.maximum.reduceat(gaps, self._starts, axis=1).astype(np.float64)
        return found

    def nearest(self, row: Float32s, others: Float32s, n: int) -> NDArray[np.int64]:
        """Return the positions of the n rows most like a row, the nearest first."""
        if len(others) == 0:
            return np.empty(0, dtype=np.int64)
        distances = np.minimum(self.differences(row, others), _FARTHEST).mean(axis=1)
        return np.argsort(distances, kind="stable")[:n]

    def duplicates(self, row: Float32s, others: Float32s) -> NDArray[np.bool_]:
        """Return which of other rows nearly duplicate a row."""
        allowed = np.maximum(_RANGE_SHARE * self._range, _VALUE_SHARE * np.abs(row))
        found: NDArray[np.bool_] = (np.abs(others - row) <= allowed).all(axis=1)
        return found

    def duplicates_in(self, rows: Float32s) -> Callable[[int, Sequence[int]], bool]:
        """Return a function that tells whether one of these rows nearly duplicates one of some others."""
        return lambda row, others: bool(self.duplicates(rows[row], rows[others]).any()) if others else False

    def groups(self, rows: Float32s) -> NDArray[np.int64]:
        """Return, for each row, the first row that it nearly duplicates: itself if there is none before it."""
        leaders: list[int] = []
        found, led = np.arange(len(rows)), np.empty_like(rows)
        for i, row in enumerate(rows):
            alike = self.duplicates(row, led[: len(leaders)])
            if alike.any():
                found[i] = leaders[int(alike.argmax())]
            else:
                led[len(leaders)] = row
                leaders.append(i)
        return found
