"""Where the features of columns are in a row, and the one kernel that scales numbers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan.columns.column import Column
from dplan.columns.frames import attempted, check_values
from dplan.columns.records import LIMIT, Counts
from dplan.exceptions import CellError

__all__ = ["Layout", "slices_of"]

_BLOCK = 1 << 15  # cells scaled at a time, to stay in the processor's cache
_STRETCHES = 64  # of blocks, of which a thread takes one at a time


def slices_of(columns: Sequence[Column]) -> list[slice]:
    """Return where the features of each column are in a row.

    Examples
    --------
    >>> slices_of([Column(fill=(0.5,)), Column(fill=(0.2, 0.8))])
    [slice(0, 1, None), slice(1, 3, None)]
    """
    ends = accumulate(column.width for column in columns)
    return [slice(end - column.width, end) for column, end in zip(columns, ends, strict=True)]


class Layout:
    """Where the features of columns are, and how numbers are scaled: all those of a row in one kernel."""

    def __init__(self, columns: list[Column]) -> None:
        self._own = slices_of(columns)
        self.columns, self.width = columns, self._own[-1].stop
        scalings = {
            j: scaling for j, column in enumerate(columns) if (scaling := column.scaling()) is not None
        }
        self._scaled = [j for j in scalings if columns[j].width]
        self._scaling = np.array([scalings[j] for j in self._scaled]).reshape(-1, 3).T.copy()
        self._fill = np.array([columns[j].fill[0] for j in self._scaled])
        self._places = np.array([self._own[j].start for j in self._scaled], dtype=np.int64)

    def write(
        self, values: list[Any], out: NDArray[np.float32], pool: ThreadPoolExecutor | None = None
    ) -> list[Counts]:
        """Write the features of rows from the values of each column, or raise the first of their errors.

        Parameters
        ----------
        values : list
            For each column, its values or the error about one of its cells.
        out : ndarray of shape (n_rows, width)
            Where the features are written.
        pool : ThreadPoolExecutor, optional
            Threads for large tables.
        """
        mapped = map if pool is None else pool.map
        counts = [Counts()] * len(self.columns)
        errors = [found for found in values if isinstance(found, CellError)]
        failed = {j for j, found in enumerate(values) if isinstance(found, CellError)}
        numbers = [np.zeros(len(out)) if j in failed else values[j] for j in self._scaled]
        size = max(1, _BLOCK // max(1, len(numbers)))
        stretch = size * (1 + len(out) // (size * _STRETCHES))

        def scale(first: int) -> NDArray[np.int64]:
            found = np.zeros((3, len(numbers)), dtype=np.int64)
            for start in range(first, min(first + stretch, len(out)), size):
                rows = slice(start, min(start + size, len(out)))
                block = np.empty((rows.stop - start, len(numbers)))
                for k, own in enumerate(numbers):
                    block[:, k] = own[rows]
                _scale(block, self._scaling, self._fill, self._places, out[rows], found)
            return found

        if numbers:
            found = np.sum(list(mapped(scale, range(0, len(out), stretch))), axis=0)
            for k, j in enumerate(self._scaled):
                counts[j] = Counts(int(found[0, k]), 0, int(found[1, k]))
                if found[2, k]:  # an infinite number
                    infinite = pl.Series(self.columns[j].name, numbers[k]).cast(pl.Float64)
                    errors += attempted(check_values, [infinite])  # type: ignore[arg-type]
        by_name = {column.name: own for column, own in zip(self.columns, values, strict=True)}
        others = sorted(set(range(len(self.columns))) - set(self._scaled) - failed)

        def write(j: int) -> Counts:
            return self.columns[j].write(by_name, out[:, self._own[j]])

        if errors:
            raise min(errors, key=lambda error: error.row)
        for j, own in zip(others, mapped(write, others), strict=True):
            counts[j] = own
        return counts


@compiled_exactly
def _scale(
    numbers: NDArray[np.float64],
    scaling: NDArray[np.float64],
    fill: NDArray[np.float64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
    counts: NDArray[np.int64],
) -> None:
    """Scale with the steps of `Scaling.apply`; count missing values, those far outside the range, and infinite ones."""
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            value = numbers[row, column]
            if np.isnan(value):
                counts[0, column] += 1
                out[row, places[column]] = fill[column]
                continue
            counts[2, column] += abs(value) == np.inf
            scaled = (value * scaling[0, column] - scaling[1, column]) / scaling[2, column]
            narrow = np.float32(min(max(scaled, -LIMIT), LIMIT))
            counts[1, column] += narrow > 2 or narrow < -1
            out[row, places[column]] = narrow
