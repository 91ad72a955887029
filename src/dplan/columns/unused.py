"""Columns that are not used: ids, free text, columns without values, and those that a person drops."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.records import Counts, Graph, Hints, Training

__all__ = ["MIN_ROWS", "Unused", "counter_of"]

MIN_ROWS = 100  # with fewer rows, distinct values say nothing about ids

_ID_NAME = re.compile(
    r"(?:^|[^a-z])(?:id|uuid|guid|key|nr|no|number|nummer|index|idx|row)$|[a-z]I[dD]$", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Unused(Column):
    """A column that is not used.

    Attributes
    ----------
    what : {"id", "free text", "empty", "dropped"}
        Which values it has; not stored, as `why` says it.
    """

    kind = "dropped"
    is_decided_only = False
    words = ("id", "drop")
    is_used = False
    overrules_types = True
    cells = ""

    what: str = field(default="dropped", compare=False)

    @classmethod
    def without_values(cls, name: str = "") -> Self:
        """Return a column that is not used because it is empty."""
        return cls(name=name, what="empty", why="no value at all", decided=False)

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return dtype == pl.Null

    @classmethod
    def settings(cls, word: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().settings(word, options), "kind": word}

    @classmethod
    def as_given(cls, given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Column:
        return cls(what="id" if given["kind"] == "id" else "dropped").with_settings(given)

    @property
    def type(self) -> str:
        return self.what

    @property
    def reason(self) -> str:
        """Why it is not used."""
        return self.why

    def understood(self) -> str:
        return f"{self.what}, not used" if self.why else self.kind

    def accepts(self, dtype: pl.DataType) -> bool:
        return True

    def takes(self, dtype: pl.DataType) -> bool:
        return True

    def read(self, series: pl.Series) -> pl.Series:
        return series

    def learn(self, series: pl.Series, training: Training) -> Column:
        if not self.why:
            return self.without_values(series.name)
        return Unused(name=series.name, what=self.what, why=self.why, decided=False)

    def write(self, values: Mapping[str, Any], out: NDArray[np.float32]) -> Counts:
        return Counts()

    def schema(self) -> dict[str, Any]:
        return {"description": "ignored by the model"}

    def onnx(self, graph: Graph, cell_of: Callable[[str], str]) -> str:
        return ""

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "reason": self.why, "meaning": None}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        column = super().from_json({**entry, "reason": ""})
        if type(entry["reason"]) is not str:
            raise ValueError(f"not a column: {str(entry)[:200]}")
        return cls(name=column.name, why=entry["reason"], decided=False)

    @classmethod
    def stores(cls, meaning: Mapping[str, Any] | None) -> bool:
        return meaning is None

    def is_valid(self) -> bool:
        return self.width == 0


def counter_of(values: pl.Series) -> str:
    """Return why whole numbers are ids and not quantities; empty if they are quantities, or not whole numbers.

    Examples
    --------
    >>> counter_of(pl.Series(range(7, 207)))
    'counts the rows from 7 to 206'
    >>> counter_of(pl.Series(range(1, 2000, 3)).shuffle(seed=0))
    '667 different whole numbers from 1 to 1999, and quantities would repeat'
    >>> counter_of(pl.Series([*range(500), 900, 950]))  # no sample of a count has such a gap
    ''
    """
    if not values.dtype.is_integer():
        return ""
    present = values.drop_nulls()
    if len(present) < MIN_ROWS:
        return ""
    low, high, n = int(present.min()), int(present.max()), len(present)  # type: ignore[arg-type]
    named = _ID_NAME.search(values.name) is not None
    wide = low >= 10**7 and len(str(low)) == len(str(high)) and high - low > 0.3 * high
    # The chance that n quantities within such a range are all different is about exp(-n² / (2 × range)).
    dense = n * n > 28 * (high - low)  # less than one in a million
    if not (named or wide or dense):
        return ""
    n_distinct = present.n_unique()
    if dense and n_distinct == n and _is_even(present):
        if high - low == n - 1 and (present.is_sorted() or present.is_sorted(descending=True)):
            return f"counts the rows from {low} to {high}"
        return f"{n:,} different whole numbers from {low} to {high}, and quantities would repeat"
    if named and n_distinct >= 0.95 * n:
        return f"{n_distinct:,} different whole numbers, and the name says id"
    if wide and n_distinct >= 0.99 * n:
        return f"{n_distinct:,} different numbers of {len(str(low))} digits"
    return ""


def _is_even(values: pl.Series) -> bool:
    """Return whether no gap between values is larger than those of a sample of a count, but for one in a million."""
    gaps = np.diff(values.sort().to_numpy().astype(np.float64))
    return bool(gaps.max() <= gaps.mean() * (np.log(len(values)) + 14))
