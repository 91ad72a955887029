"""Columns that add nothing, and columns that know the answer: found when a table is prepared for training."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.column import Column
from dplan.columns.layout import slices_of
from dplan.columns.unused import MIN_ROWS
from dplan.text import shown

__all__ = ["redundant", "warn_of_leaks"]

_MIN_KNOWN = 5  # with fewer known anomalies, a column may separate them by chance
_NEARLY = 0.95  # of the known anomalies, and of the rows that are like them
_ROWS_PER_LEVEL = 5  # known anomalies, or levels of their own would tell them apart


def redundant(columns: Sequence[Column], X: Float32s) -> dict[str, str]:
    """Return the columns that are constant or the same as another one, with the reasons.

    Examples
    --------
    >>> from dplan.columns.preparer import TablePreparer
    >>> table = pl.DataFrame({"a": range(200), "b": [7] * 200, "c": range(200)})
    >>> preparer = TablePreparer().fit(table)
    >>> redundant(preparer.columns_, preparer.transform(table))
    {'b': 'the same value in all rows', 'c': "the same as 'a'"}
    """
    if len(X) < MIN_ROWS:
        return {}
    needed = {getattr(column, "since", "") for column in columns}
    found: dict[str, str] = {}
    seen: dict[tuple[float, ...], list[tuple[str, slice]]] = {}
    sums = X.sum(axis=0, dtype=np.float64)
    for column, own in zip(columns, slices_of(columns), strict=True):
        if column.name in needed or not column.width:
            continue
        if column.is_constant:
            found[column.name] = "the same value in all rows"
            continue
        others = seen.setdefault(tuple(sums[own].tolist()), [])
        same = next((name for name, other in others if np.array_equal(X[:, own], X[:, other])), None)
        if same is not None:
            found[column.name] = f"the same as {shown(same)}"
        others.append((column.name, own))
    return found


def warn_of_leaks(
    features: pl.DataFrame, columns: Sequence[Column], X: Float32s, y: NDArray[np.int64], stacklevel: int
) -> None:
    """Warn of columns that alone tell the known anomalies from the other rows: they may be the label in disguise."""
    known, others = y > 0, y <= 0
    if known.sum() < _MIN_KNOWN or not others.any():
        return
    for column, own in zip(columns, slices_of(columns), strict=True):
        marked = _marked(X[:, own], known, others, has_levels=column.has_levels)
        filled = features[column.name].is_not_null().to_numpy()
        if not _separates(marked, known, others) and _separates(filled, known, others):
            marked = filled
        if _separates(marked, known, others):
            exact = (marked == known).all()
            warnings.warn(
                f"column {shown(column.name)} "
                + (
                    "marks exactly the labelled rows"
                    if exact
                    else f"alone tells {int((marked & known).sum()):,} of {int(known.sum()):,} labelled rows from the "
                    f"others, of which {int((marked & others).sum()):,} are like them"
                )
                + "; if it is the label, or known only afterwards, leave it out",
                stacklevel=stacklevel + 1,
            )


def _marked(
    own: Float32s, known: NDArray[np.bool_], others: NDArray[np.bool_], *, has_levels: bool
) -> NDArray[np.bool_]:
    """Return the rows that one rule about a column calls anomalies: some of its levels, or one side of a number."""
    nothing = np.zeros(len(own), dtype=np.bool_)
    if has_levels:
        of_known, of_others = (own[known] == 1).sum(axis=0), (own[others] == 1).sum(axis=0)
        # Levels that are nearly always those of known anomalies.
        telling = (of_known > 0) & (of_known >= _NEARLY * (of_known + of_others))
        if not 0 < telling.sum() <= max(1, known.sum() // _ROWS_PER_LEVEL):
            return nothing
        of_these: NDArray[np.bool_] = (own[:, telling] == 1).any(axis=1)
        return of_these
    for feature in own.T:
        # All known anomalies, or nearly all.
        for low, high in np.quantile(feature[known], [[0, 1], [1 - _NEARLY, _NEARLY]], method="nearest"):
            sides: list[NDArray[np.bool_]] = [feature >= low, feature <= high]
            for marked in sides:
                if _separates(marked, known, others):
                    return marked
    return nothing


def _separates(marked: NDArray[np.bool_], known: NDArray[np.bool_], others: NDArray[np.bool_]) -> bool:
    n_known, n_others = int((marked & known).sum()), int((marked & others).sum())
    return n_known >= _NEARLY * known.sum() and n_known >= _NEARLY * (n_known + n_others)
