"""Conditions that a rule may have: bounds, sets of values, flags and missing values, as masks of rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float64s
from dplan.rules.rule import Condition, Value

__all__ = ["Bounds", "Candidate", "Listed", "Measured", "candidates", "measured"]

Mask = NDArray[np.bool_]

_N_CUTS, _MOST_LEVELS = 12, 4
_EXACT = 2**53  # up to here, all integers are floats
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Measured:
    """The values of a column as numbers: days for dates, microseconds for moments; NaN where they are missing."""

    name: str
    type: str
    numbers: Float64s

    def value(self, number: float) -> Value:
        """Return a number as a value of the column."""
        if self.type == "date":
            return _EPOCH + datetime.timedelta(days=int(number))
        if self.type == "timestamp":
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(number))
        return int(number) if self.type == "integer" else float(number)


@dataclass(frozen=True)
class Bounds:
    """A lower or an upper bound of a column's values."""

    of: Measured
    bound: float
    upper: bool

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.of.name

    def mask(self) -> Mask:
        """Return which rows are within the bound; a missing value is not."""
        found: Mask = self.of.numbers <= self.bound if self.upper else self.of.numbers >= self.bound
        return found


@dataclass(frozen=True)
class Listed:
    """A finished condition, and which rows meet it."""

    condition: Condition
    met: Mask

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.condition.column

    def mask(self) -> Mask:
        """Return which rows meet it."""
        return self.met


Candidate = Bounds | Listed


def measured(values: pl.Series, kind: str) -> Measured | None:
    """Return a column as numbers; None if it has none, or numbers that floats do not hold."""
    if kind in ("text", "flag"):
        return None
    if kind == "timestamp":
        values = values.cast(pl.Datetime("us"))
    if kind in ("date", "timestamp"):
        values = values.to_physical()
    if kind in ("integer", "timestamp"):
        low, high = values.min(), values.max()
        if low is not None and max(-low, high) > _EXACT:  # type: ignore[operator, type-var]
            return None
    return Measured(values.name, kind, values.cast(pl.Float64).fill_null(np.nan).to_numpy())


def candidates(values: pl.Series, type: str, kind: Mask, ordinary: Mask) -> Iterator[Candidate]:
    """Yield the conditions on a column that may describe a kind.

    Parameters
    ----------
    values : Series
        The values of some rows.
    type : str
        Their type, as rules have it.
    kind, ordinary : ndarray of bool
        Which of them are alerts of the kind, and which are not alerts.

    Examples
    --------
    >>> values = pl.Series("area", ["C", "C", "D", "A", "A", None])
    >>> kind = np.array([True, True, True, False, False, False])
    >>> [str(found.condition) for found in candidates(values, "text", kind, ~kind)][:2]
    ["`area` = 'C'", "`area` = 'C' or 'D'"]
    """
    numbers = measured(values, type)
    if numbers is not None:
        own = numbers.numbers
        present = own[np.isfinite(own)]
        if type == "integer" and len(distinct := np.unique(present)) <= 2:
            for value in distinct.tolist():
                yield Listed(Condition(values.name, type, values=(int(value),)), own == value)
        else:
            for cut in _cuts(own, kind, ordinary):
                yield Bounds(numbers, cut, upper=False)
                yield Bounds(numbers, cut, upper=True)
    elif type == "flag":
        for flag in (True, False):
            met = (values == flag).fill_null(False).to_numpy()
            yield Listed(Condition(values.name, type, values=(flag,)), met)
    elif type == "text":
        yield from _sets(values, kind, ordinary)
    missing = (values.is_null() if numbers is None else pl.Series(np.isnan(numbers.numbers))).to_numpy()
    if missing.any() and not missing.all():
        yield Listed(Condition(values.name, type, missing=True), missing)
        yield Listed(Condition(values.name, type, missing=False), ~missing)


def _cuts(numbers: Float64s, kind: Mask, ordinary: Mask) -> list[float]:
    """Return values at which to cut: quantiles of the kind, its ends included, and of the ordinary rows."""
    found: list[float] = []
    for rows, shares in (
        (kind, np.linspace(0, 1, _N_CUTS)),
        (ordinary, np.linspace(0, 1, _N_CUTS + 2)[1:-1]),
    ):
        own = numbers[rows]
        own = own[np.isfinite(own)]
        if len(own):
            found += np.quantile(own, shares, method="nearest").tolist()
    return sorted(set(found))


def _sets(values: pl.Series, kind: Mask, ordinary: Mask) -> Iterator[Listed]:
    """Yield the one to four levels that are most frequent in the kind, compared with ordinary rows."""
    texts = values.cast(pl.String)
    shares: dict[Any, float] = {}
    for rows, sign in ((kind, 1.0), (ordinary, -1.0)):
        own = texts.filter(pl.Series(rows)).drop_nulls()
        for level, n in zip(*own.value_counts(sort=True, name="n").get_columns(), strict=True):
            shares[level] = shares.get(level, 0.0) + sign * n / max(1, int(rows.sum()))
    levels = sorted(
        (level for level in shares if shares[level] > 0), key=lambda level: (-shares[level], level)
    )
    levels = [level for level in levels if "\0" not in level]
    for n in range(1, min(_MOST_LEVELS, len(levels)) + 1):
        met = texts.is_in(levels[:n]).fill_null(False).to_numpy()
        yield Listed(Condition(values.name, "text", values=tuple(levels[:n])), met)
