"""Rows on their way in and, with their scores, on their way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s, highest_first
from dplan.columns.differences import TransformReport

__all__ = ["Batch", "Best", "Scored", "together"]


def _row(row: int) -> str:
    return f"row {row + 1}"


class Batch(NamedTuple):
    """Rows on their way in: a chunk, a frame or a partition.

    Attributes
    ----------
    table : polars.DataFrame
        The rows.
    place : callable
        Returns what to call a row in an error, by its position here.
    first : int
        The number of rows of the whole table that come before.

    Examples
    --------
    >>> Batch(pl.DataFrame({"amount": [10, 920]})).place(1)
    'row 2'
    """

    table: pl.DataFrame
    place: Callable[[int], str] = _row
    first: int = 0


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored rows on their way out; rows that were left out are gone from all fields alike.

    Attributes
    ----------
    rows : ndarray of int
        Their positions in the whole table, from 0.
    table : polars.DataFrame or None
        Their values; None if they came as `Cells`.
    prepared : ndarray of float32
        Their features.
    score, percentile : ndarray of float64
        Their scores, and the percentages of unlabelled training rows with a lower score.
    differences : TransformReport
        How they differ from the training rows.
    bad : polars.DataFrame
        Rows with cells that could not be used, if there are any, as from `dplan.tables.bad_cells.without_bad_cells`.
    novelty_score, novelty : ndarray of float64 or None
        How novel they are to the explorers, in the unit of these and as a percentile; None unless asked for.
    kind : ndarray of int or None
        The kinds whose rules they meet, counted from 0, or -1; None without kinds.
    suspicion : ndarray of float64 or None
        How much it is worth to ask a person about them; None unless asked for.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.scoring import Scorer
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> scored = Scorer(model).score(Batch(pl.DataFrame({"amount": [10, 920, 11]})))
    >>> scored.highest(1).rows.tolist(), len(scored[scored.percentile < 99])
    ([1], 2)
    """

    rows: NDArray[np.int64]
    table: pl.DataFrame | None
    prepared: Float32s
    score: NDArray[np.float64]
    percentile: NDArray[np.float64]
    differences: TransformReport
    bad: pl.DataFrame
    novelty_score: NDArray[np.float64] | None = None
    novelty: NDArray[np.float64] | None = None
    kind: NDArray[np.int64] | None = None
    suspicion: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Scored:
        """Return some of the rows."""
        table = None if self.table is None else self.table[np.arange(len(self))[which]]
        return replace(self, table=table, **{name: values[which] for name, values in self._arrays().items()})

    def _arrays(self) -> dict[str, Any]:
        """Return the fields that have a value for each row."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: values for name, values in found.items() if isinstance(values, np.ndarray)}

    def highest(self, n: int) -> Scored:
        """Return the rows with the n highest scores, the highest first, ties in row order."""
        return self[highest_first(self.score)[:n]]


class Best:
    """The rows with the highest keys of many batches, the highest first, ties in row order.

    With the scores as keys, these are the most anomalous rows; with random keys, they are a sample.

    Parameters
    ----------
    n : int
        The number of rows.

    Attributes
    ----------
    scored : Scored or None
        The rows so far; None before the first batch.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.scoring import Scorer
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> scorer, best = Scorer(model), Best(2)
    >>> for first, chunk in enumerate([[10, 920], [880, 11]]):
    ...     scored = scorer.score(Batch(pl.DataFrame({"amount": chunk}), first=2 * first))
    ...     best.add(scored, scored.score)
    >>> best.scored.rows.tolist()
    [1, 2]
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.scored: Scored | None = None
        self._keys = np.empty(0)

    def add(self, scored: Scored, keys: NDArray[np.float64]) -> None:
        """Add the rows of a batch, with a key for each."""
        some = highest_first(keys)[: self.n]  # only what may stay is copied
        new, keys = scored[some], keys[some]
        if self.scored is not None:
            new, keys = together([self.scored, new]), np.concatenate([self._keys, keys])
            order = highest_first(keys)[: self.n]
            new, keys = new[order], keys[order]
        self.scored, self._keys = new, keys


def together(parts: Sequence[Scored]) -> Scored:
    """Return the rows of several batches as one; how they differ from the training rows is that of the first."""
    # Relaxed, because files of JSON lines may have columns that others lack, and integers where others have floats.
    tables = [part.table for part in parts if part.table is not None]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0]._arrays()
    }
    return replace(parts[0], table=pl.concat(tables, how="diagonal_relaxed") if tables else None, **arrays)
