"""How new rows differ from training: missing values, unseen levels, values outside the range, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dplan.columns.column import Bins, Column
from dplan.columns.layout import slices_of
from dplan.columns.records import Features

__all__ = ["Drift", "Reference", "TransformReport"]

# Levels are kept because they were frequent in training, so that later rows have others more often.
_CHOSEN = 0.3
_NOTED_SHARE = 0.01  # of the rows: less is expected, as anomalies are rare
_QUANTILES = np.linspace(0, 1, 21)
_ROWS = 2_000  # per chunk, which is enough to see drift
_FEWEST_ROWS = 50
_STRONG = 0.25
# Divided by √n: exceeded in one of a hundred samples of the same distribution (Kolmogorov–Smirnov).
_CRITICAL = 1.63


@dataclass(frozen=True)
class TransformReport:
    """Missing values and unseen levels found by a transform. Reports of several tables can be added.

    Attributes
    ----------
    rows : int
        Transformed rows.
    missing : dict
        Column → number of missing values, which are replaced by the mean of the training rows.
    unseen : dict
        Column → number of values with a level unseen in training, which are encoded as zeros.
    retyped : dict
        Column that was text in the training rows → its kind now.
    outside : dict
        Column → number of values that are further outside the range of the training rows than that range is wide.
    limits : dict
        Column of which only the most frequent levels are kept → their number, and the share of training values that
        have another one; these count as unseen, too.

    Examples
    --------
    >>> report = TransformReport(2, {"a": 2}, {"b": 1}) + TransformReport(1, {"a": 1}, {})
    >>> report.useless()
    {'a': 'all values are missing'}
    """

    rows: int
    missing: dict[str, int]
    unseen: dict[str, int]
    retyped: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, float]] = field(default_factory=dict, repr=False)

    def __add__(self, other: TransformReport) -> TransformReport:
        missing, unseen, outside = (
            {name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}}
            for one, two in (
                (self.missing, other.missing),
                (self.unseen, other.unseen),
                (self.outside, other.outside),
            )
        )
        retyped = {**self.retyped, **other.retyped}
        limits = {**self.limits, **other.limits}
        return TransformReport(self.rows + other.rows, missing, unseen, retyped, outside, limits)

    def useless(self) -> dict[str, str]:
        """Return the columns without information about these rows, with the reasons."""
        found = {}
        for name in {**self.missing, **self.unseen, **self.retyped}:
            n_missing, n_unseen = self.missing.get(name, 0), self.unseen.get(name, 0)
            if name in self.retyped:
                found[name] = f"was text in training, is a {self.retyped[name]} column now"
            elif n_missing == self.rows:
                found[name] = "all values are missing"
            elif n_missing + n_unseen == self.rows:
                found[name] = "no value occurred in training"
                if name in self.limits:
                    found[name] = (
                        f"no value is among the {self.limits[name][0]:,} most frequent ones of training"
                    )
        return found

    def differences(self) -> dict[str, str]:
        """Return the columns that differ clearly from the training rows, with the reasons.

        Examples
        --------
        >>> TransformReport(200, {}, {"b": 50}, outside={"a": 4}).differences()
        {'b': '25 % of values did not occur in training', 'a': '2 % of values far outside the training range'}
        """
        found = self.useless()
        for counts, what in (
            (self.unseen, "of values did not occur in training"),
            (self.outside, "of values far outside the training range"),
        ):
            for name, n in counts.items():
                if name in found or n < _NOTED_SHARE * self.rows:
                    continue
                if counts is self.unseen and name in self.limits:
                    kept, usual = self.limits[name]
                    new = n / self.rows - usual
                    if new < _NOTED_SHARE + _CHOSEN * usual:
                        continue
                    found[name] = f"about {100 * new:.0f} % {what}, beyond its {kept:,} most frequent ones"
                else:
                    found[name] = f"{100 * n / self.rows:.0f} % {what}"
        return found


class Reference:
    """The background rows of a model by column, counted in bins, to compare other rows with.

    Parameters
    ----------
    columns : sequence of Column
        The columns of the model.
    background : ndarray
        Their features of background rows.
    """

    def __init__(self, columns: Sequence[Column], background: Features) -> None:
        quantiles: NDArray[np.float64] = np.quantile(background, _QUANTILES, axis=0).astype(np.float64)
        self._columns: list[tuple[Column, slice, Bins]] = [
            (column, own, column.bins(quantiles[:, own]))
            for column, own in zip(columns, slices_of(columns), strict=True)
        ]
        self._background = self._counts(background)

    def drift_of(self, prepared: Features) -> Drift:
        """Count prepared rows, or a sample of many."""
        some = prepared[:: max(1, len(prepared) // _ROWS)]
        return Drift(len(some), self._counts(some))

    def distances(self, drift: Drift) -> dict[str, float]:
        """Return how much each column drifts: 0 means the same distribution as in training, 1 no overlap."""
        found = {}
        for column, _, _ in self._columns:
            pairs = zip(self._background[column.name], drift.counts[column.name], strict=True)
            shares = [np.array(a) / max(sum(a), 1) - np.array(b) / max(sum(b), 1) for a, b in pairs]
            found[column.name] = max(map(column.distance, shares), default=0.0)
        return found

    def strong(self, drift: Drift) -> dict[str, float]:
        """Return the columns that drift strongly, and how much."""
        if drift.rows < _FEWEST_ROWS:
            return {}
        least = _STRONG + _CRITICAL / np.sqrt(drift.rows)
        return {name: round(found, 2) for name, found in self.distances(drift).items() if found > least}

    def _counts(self, rows: Features) -> dict[str, list[list[int]]]:
        return {column.name: column.counts(rows[:, own], bins) for column, own, bins in self._columns}


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
    >>> from dplan.columns.preparer import TablePreparer
    >>> table = pl.DataFrame({"amount": range(200)})
    >>> preparer = TablePreparer().fit(table)
    >>> reference = Reference(preparer.columns_, preparer.transform(table))
    >>> later = preparer.transform(table.with_columns(pl.col("amount") + 150))
    >>> reference.strong(reference.drift_of(preparer.transform(table))), reference.strong(reference.drift_of(later))
    ({}, {'amount': 0.75})
    """

    rows: int = 0
    counts: dict[str, list[list[int]]] = field(default_factory=dict)

    def __add__(self, other: Drift) -> Drift:
        if not self.rows or not other.rows:
            return self if self.rows else other
        counts = {
            name: [np.add(a, b).tolist() for a, b in zip(own, other.counts[name], strict=True)]
            for name, own in self.counts.items()
        }
        return Drift(self.rows + other.rows, counts)
