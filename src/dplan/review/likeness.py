"""How alike rows are: near duplicates, and the nearest of some rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.tables.model import TableModel

__all__ = ["Likeness"]

# Rows are near duplicates if no column differs by more than this share of its typical range or of the value itself.
_RANGE_SHARE, _VALUE_SHARE = 0.1, 0.02
_FARTHEST = 3.0  # typical ranges: one column alone must not decide which rows are nearest
_LEAST_RANGE = 0.01  # of a column that hardly varies


class Likeness:
    """Compares prepared rows in units of each feature's typical range, the middle 90 % of the background rows.

    Parameters
    ----------
    model : TableModel
        The model whose background rows give the ranges.
    """

    def __init__(self, model: TableModel) -> None:
        low, high = np.quantile(model.background, [0.05, 0.95], axis=0)
        self._range = np.maximum(high - low, _LEAST_RANGE).astype(np.float32)
        groups = model.preparation.feature_groups()
        self._starts = np.flatnonzero(np.diff(groups, prepend=-1))

    def differences(self, row: Floats, others: Floats) -> NDArray[np.float64]:
        """Return the difference between a row and others in each column, in typical ranges."""
        gaps = np.abs(others - row) / self._range
        found: NDArray[np.float64] = np.maximum.reduceat(gaps, self._starts, axis=1).astype(np.float64)
        return found

    def nearest(self, row: Floats, others: Floats, n: int) -> NDArray[np.int64]:
        """Return the positions of the n rows most like a row, the nearest first."""
        if len(others) == 0:
            return np.empty(0, dtype=np.int64)
        distances = np.minimum(self.differences(row, others), _FARTHEST).mean(axis=1)
        return np.argsort(distances, kind="stable")[:n]

    def groups(self, rows: Floats) -> NDArray[np.int64]:
        """Return, for each row, the first row that it nearly duplicates: itself if there is none before it."""
        leaders: list[int] = []
        found, led = np.arange(len(rows)), np.empty_like(rows)
        for i, row in enumerate(rows):
            allowed = np.maximum(_RANGE_SHARE * self._range, _VALUE_SHARE * np.abs(row))
            alike = (np.abs(led[: len(leaders)] - row) <= allowed).all(axis=1)
            if alike.any():
                found[i] = leaders[int(alike.argmax())]
            else:
                led[len(leaders)] = row
                leaders.append(i)
        return found
