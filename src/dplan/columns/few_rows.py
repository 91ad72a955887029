"""Prepare a few rows quickly: all number columns at once, where `TablePreparer` takes one column after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats
from dplan.columns.column import LIMIT, Column
from dplan.columns.conversion import check_values
from dplan.columns.preparer import TablePreparer

__all__ = ["FewRows"]


class FewRows:
    """Prepares rows whose numbers are in one array, with the same result as `TablePreparer.transform`, bit for bit.

    Parameters
    ----------
    preparation : TablePreparer
        A fitted preparer.

    Attributes
    ----------
    numbers : list of str
        Columns of which only the number matters.
    texts : list of str
        Columns whose text is read. Columns that are dropped are in neither list.

    Examples
    --------
    >>> table = pl.DataFrame({"bytes": [0, 50, None, 100], "proto": ["tcp", "udp", "tcp", "tcp"]})
    >>> prepare = FewRows(TablePreparer().fit(table))
    >>> prepare.numbers, prepare.texts
    (['bytes'], ['proto'])
    >>> prepare(np.array([[50.0], [np.nan]]), {"proto": ["udp", None]}).tolist()
    [[0.5, 0.0, 1.0], [0.5, 0.75, 0.25]]
    """

    def __init__(self, preparation: TablePreparer) -> None:
        columns = preparation.columns_
        numbers = [column for column in columns if _is_number(column)]
        others = [column for column in columns if not _is_number(column) and column.kind != "dropped"]
        self.numbers, self.texts = [column.name for column in numbers], [column.name for column in others]
        self._scaling = np.array([column.scaling() for column in numbers]).reshape(-1, 3).T.copy()
        self._fill = np.array([column.fill[0] for column in numbers])
        self._are_numbers = np.repeat(
            [_is_number(column) for column in columns], [column.width for column in columns]
        )
        state = {**preparation.to_state(), "named": True, "columns": [asdict(column) for column in others]}
        self._others = TablePreparer.from_state(state) if others else None

    def __call__(self, numbers: NDArray[np.float64], texts: Mapping[str, Sequence[str | None]]) -> Floats:
        """Return the features of rows.

        Parameters
        ----------
        numbers : ndarray of shape (n_rows, n_numbers)
            Values of the columns in `numbers`, NaN if missing.
        texts : dict
            Values of the columns in `texts`, None if missing.

        Returns
        -------
        ndarray of float32
            The features.
        """
        scaled = self._scaled(numbers)
        if self._others is None:
            return scaled
        features = np.empty((len(numbers), len(self._are_numbers)), dtype=np.float32)
        features[:, self._are_numbers] = scaled
        table = pl.DataFrame([pl.Series(name, texts[name], dtype=pl.String) for name in self.texts])
        features[:, ~self._are_numbers] = self._others.transform(table)
        return features

    def _scaled(self, numbers: NDArray[np.float64]) -> Floats:
        scaled = np.empty(numbers.shape, dtype=np.float32)
        if not _scale(numbers, self._scaling, self._fill, scaled):
            for name, values in zip(self.numbers, numbers.T, strict=True):
                check_values(pl.Series(name, values))
        return scaled


@compiled_exactly
def _scale(
    numbers: NDArray[np.float64], scaling: NDArray[np.float64], fill: NDArray[np.float64], out: Floats
) -> bool:
    """Scale with the same steps as `columns.scale`; return whether no value was infinite.

    One kernel, because between NumPy's steps this thread would wait for others that are reading requests.
    """
    n_wrong = 0
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            value = numbers[row, column]
            n_wrong += abs(value) == np.inf
            scaled = (value * scaling[0, column] - scaling[1, column]) / scaling[2, column]
            scaled = min(max(scaled, -LIMIT), LIMIT)
            out[row, column] = fill[column] if np.isnan(value) else scaled
    return n_wrong == 0


def _is_number(column: Column) -> bool:
    filled = column.meaning is not None and column.meaning.kind == "filled"  # any text counts, not its number
    return column.kind in ("number", "flag") and not filled
