"""Durations as text: one feature, the number of seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dplan.columns.column import Column
from dplan.columns.moments import is_duration, read_durations
from dplan.columns.numbers import Measured, Number
from dplan.columns.records import Hints
from dplan.text import shown

__all__ = ["Duration"]


@dataclass(frozen=True, kw_only=True)
class Duration(Measured):
    """A duration as text, such as ``1h 30min``, read in seconds."""

    kind = "number"
    words = ("duration",)
    is_as_stored = False
    datatype = "FP64"

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        if not all(map(is_duration, values)):
            return None
        return cls(why=f"{' and '.join(map(shown, values[:2]))} are durations, read in seconds")

    def described(self) -> str:
        return "a duration"

    def takes(self, dtype: pl.DataType) -> bool:
        return Number.holds(dtype)  # of seconds

    def parse(self, texts: pl.Series) -> pl.Series:
        return read_durations(texts)
