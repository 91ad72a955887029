"""Drift: how much the distribution of each column of a scored table differs from the training rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.tables.model import TableModel

__all__ = ["Drift"]

_QUANTILES = np.linspace(0, 1, 21)
_ROWS = 2_000  # per chunk, which is enough
_FEWEST_ROWS = 50
_STRONG = 0.25
_CRITICAL = (
    1.63  # divided by √n: exceeded in one of a hundred samples of the same distribution (Kolmogorov–Smirnov)
)


@dataclass(frozen=True)
class Drift:
    """Counts of values by column and bin, from a sample of rows. Those of several chunks can be added.

    Attributes
    ----------
    rows : int
        Counted rows.
    counts : dict
        Column → for each of its features, or for the levels of a text column together, the number of rows in each bin.

    Examples
    --------
    >>> import polars as pl
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": range(200), "fraud": [0] * 190 + [1] * 10})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> Drift.of(model, model.prepare(table)).strong(model)
    {}
    >>> list(Drift.of(model, model.prepare(table.with_columns(pl.col("amount") + 150))).strong(model))
    ['amount']
    """

    rows: int = 0
    counts: dict[str, list[list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: TableModel, prepared: Floats) -> Drift:
        """Count the values of prepared rows."""
        some = prepared[:: max(1, len(prepared) // _ROWS)]
        return cls(len(some), {name: _counts(own, *bins) for name, own, bins in _columns(model, some)})

    def __add__(self, other: Drift) -> Drift:
        if not self.rows or not other.rows:
            return self if self.rows else other
        counts = {
            name: [np.add(a, b).tolist() for a, b in zip(own, other.counts[name], strict=True)]
            for name, own in self.counts.items()
        }
        return Drift(self.rows + other.rows, counts)

    def strong(self, model: TableModel) -> dict[str, float]:
        """Return the columns that drift strongly: a distance of 0 means the same distribution, 1 no overlap."""
        if self.rows < _FEWEST_ROWS:
            return {}
        found = {}
        for name, background, (edges, is_text) in _columns(model, model.background):
            pairs = zip(_counts(background, edges, is_text), self.counts[name], strict=True)
            distance = max(_distance(np.array(a), np.array(b), is_text) for a, b in pairs)
            if distance > _STRONG + _CRITICAL / np.sqrt(self.rows):
                found[name] = round(distance, 2)
        return found


def _columns(
    model: TableModel, rows: Floats
) -> list[tuple[str, Floats, tuple[list[NDArray[np.float64]], bool]]]:
    """Return each column's name, its features of some rows, the edges of its bins, and whether it is text."""
    return [(name, rows[:, features], bins) for name, features, bins in _bins(model)]


@lru_cache(maxsize=4)
def _bins(model: TableModel) -> list[tuple[str, slice, tuple[list[NDArray[np.float64]], bool]]]:
    quantiles = np.quantile(model.background, _QUANTILES, axis=0)
    found, start = [], 0
    for column in model.preparation.columns_:
        features = slice(start, start + column.width)
        is_text = column.kind == "text"
        edges = [] if is_text else [np.unique(own) for own in quantiles[:, features].T]
        found.append((column.name, features, (edges, is_text)))
        start += column.width
    return found


def _counts(rows: Floats, edges: list[NDArray[np.float64]], is_text: bool) -> list[list[int]]:
    if is_text:  # one level per feature; the rest was unseen in training
        levels = rows.sum(axis=0).round()
        return [[*levels.astype(int).tolist(), max(0, len(rows) - int(levels.sum()))]]
    return [
        np.bincount(np.searchsorted(own, rows[:, i], "left"), minlength=len(own) + 1).tolist()
        for i, own in enumerate(edges)
    ]


def _distance(one: NDArray[np.int64], other: NDArray[np.int64], is_text: bool) -> float:
    """Return the Kolmogorov–Smirnov distance of binned values, or the total variation distance of levels."""
    shares = one / max(one.sum(), 1) - other / max(other.sum(), 1)
    return float(np.abs(shares).sum() / 2 if is_text else np.abs(np.cumsum(shares)).max())
