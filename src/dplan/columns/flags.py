"""Flags: columns of yes and no, and columns of which only counts whether there is a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.formatting import format_share
from dplan.columns.numbers import Measured
from dplan.columns.records import (
    SAME,
    Condition,
    Features,
    Hints,
    Histogram,
    Training,
    Typical,
)
from dplan.columns.unused import MIN_ROWS
from dplan.text import shown

__all__ = ["Filled", "Flag", "is_flag", "is_yes", "read_flags"]

_YES_WORDS = """
true t yes y ja j oui o vrai si sí vero verdadero sim s verdadeiro tak да ano áno igen kyllä evet wahr on prawda так ναι
"""
_NO_WORDS = """
false f no n nein non faux falso não nao nie нет ne nem ei hayır falsch off fałsz ні όχι nee nej
"""
_YES, _NO = frozenset(_YES_WORDS.split()), frozenset(_NO_WORDS.split())

_NEARLY_EMPTY = 0.01


@dataclass(frozen=True, kw_only=True)
class Flag(Measured):
    """Yes or no, in many languages."""

    kind = "flag"
    words = ("flag",)
    is_decided_only = False
    datatype = "BOOL"

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        if not all(map(is_flag, values)):
            return None
        return cls(why=f"{' and '.join(map(shown, values[:2]))} mean yes or no")

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return dtype == pl.Boolean

    def described(self) -> str:
        return "yes or no" if self.decided else super().described()

    def understood(self) -> str:
        return self.described() if self.decided else self.kind

    def parse(self, texts: pl.Series) -> pl.Series:
        if self.decided:
            return read_flags(texts)
        # A table with types may have had other numbers, so they are read as well.
        words = texts.str.strip_chars().str.to_lowercase().replace({"false": "0", "true": "1"})
        return words.cast(pl.Float64, strict=False)

    def restored(self, own: Features) -> str:
        return {0.0: "false", 1.0: "true"}.get(float(own[0]), "missing")

    def typical(self, background: Features) -> Typical:
        """Return the more frequent of both values.

        Examples
        --------
        >>> Flag(name="paid", maximum=1.0, fill=(0.1,)).typical(np.zeros((3, 1), dtype=np.float32)).text
        'false (90 %)'
        """
        share = self.fill[0]
        text = f"{'true' if share >= 0.5 else 'false'} ({format_share(max(share, 1 - share))})"
        # One in three is not rare.
        return Typical(text, 0.0 if share < 2 / 3 else 1.0, 1.0 if share > 1 / 3 else 0.0)

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        same = (np.abs(rows[:, 0] - own[0]) <= SAME for rows in (background, known))
        return [Condition("=", self.format(found), *same)]

    def is_close(self, own: Features, known: Features, *, within: float) -> NDArray[np.bool_]:
        return Column.is_close(self, own, known, within=within)

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        edges = np.array([0.0, 0.5, 1.0])
        clipped = [np.clip(part[:, 0].astype(np.float64), 0.0, 1.0) for part in parts]
        return Histogram(["false", "true"], None, [np.histogram(x, edges)[0] / len(x) for x in clipped])

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        share, mine = self.fill[0], None if missing else bool(own[0])
        return {
            "bars": [["false", round(1 - share, 4), mine is False], ["true", round(share, 4), mine is True]]
        }

    def spread(self, series: pl.Series) -> str:
        present = series.drop_nulls()
        return f"{format_share(int(present.sum()) / len(present))} yes"

    def schema(self) -> dict[str, Any]:
        return {"type": ["boolean", "null"]}


@dataclass(frozen=True, kw_only=True)
class Filled(Flag):
    """Whether there is a value; which one does not count."""

    words = ("filled",)
    is_decided_only = True
    overrules_types = True
    is_as_stored = False
    cells = "texts"  # a number would be a value, whatever it is

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        return None

    @classmethod
    def propose_few(cls, n_values: int, n_rows: int) -> Column | None:
        if n_rows < 2 * MIN_ROWS or n_values > _NEARLY_EMPTY * n_rows:
            return None
        some = f"nearly empty: {n_values:,} of {n_rows:,} rows have a value"
        return cls(why=f"{some}; only whether there is one is used")

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return False

    def described(self) -> str:
        return self.type

    def accepts(self, dtype: pl.DataType) -> bool:
        return True

    def schema(self) -> dict[str, Any]:
        return {
            "type": ["string", "number", "boolean", "null"],
            "description": "only whether there is a value counts; false is one",
        }

    def takes(self, dtype: pl.DataType) -> bool:
        return True

    def parse(self, texts: pl.Series) -> pl.Series:
        return texts.is_not_null()

    def read(self, series: pl.Series) -> pl.Series:
        return series if series.dtype == pl.Boolean else series.is_not_null()

    def learn(self, series: pl.Series, training: Training) -> Column:
        return super().learn(self.read(series), training)


def is_flag(text: str) -> bool:
    """Return whether a text means yes or no.

    Examples
    --------
    >>> is_flag("Ja"), is_flag("maybe")
    (True, False)
    """
    return is_yes(text) or text.lower() in _NO


def is_yes(text: str) -> bool:
    """Return whether a text means yes.

    Examples
    --------
    >>> is_yes("Ja"), is_yes("no")
    (True, False)
    """
    return text.lower() in _YES


def read_flags(texts: pl.Series) -> pl.Series:
    """Convert words for yes and no to booleans; anything else becomes null.

    Examples
    --------
    >>> read_flags(pl.Series(["Ja", "NEIN", "1", None, "maybe"])).to_list()
    [True, False, True, None, None]
    """
    distinct = texts.unique().drop_nulls()  # few, so that the rows need only one comparison
    words = [text.strip().lower() for text in distinct.to_list()]
    yes = distinct.filter(
        pl.Series([word in _YES or word in ("1", "1.0") for word in words], dtype=pl.Boolean)
    )
    no = distinct.filter(pl.Series([word in _NO or word in ("0", "0.0") for word in words], dtype=pl.Boolean))
    found = texts.is_in(yes.implode())
    if len(yes) + len(no) == len(distinct):
        return found
    return pl.select(pl.when(found | texts.is_in(no.implode())).then(found)).to_series().alias(texts.name)
