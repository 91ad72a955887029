"""What the text of a column means: decided once, stored in the model, and applied to every later table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import polars as pl

from dplan.columns.moments import ORDERS, read_dates, read_durations, read_times
from dplan.columns.numbers import Convention, conventions, read_numbers
from dplan.columns.texts import PARTS, read_flags, read_part
from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["Meaning", "MeaningKind"]

MeaningKind = Literal[
    "number", "date", "time", "duration", "flag", "category", "filled", "id", "free text", "empty", "dropped"
]

_UNUSED = ("id", "free text", "empty", "dropped")


@dataclass(frozen=True)
class Meaning:
    """How the text of a column is read.

    Attributes
    ----------
    kind : str
        ``"number"``, ``"date"``, ``"time"``, ``"duration"``, ``"flag"`` (yes or no), ``"category"``, ``"filled"``
        (whether there is a value), or a kind that is not used: ``"id"``, ``"free text"``, ``"empty"``, ``"dropped"``.
    decimal, thousands, unit : str
        How numbers are written.
    order : str
        Order of a date: ``"ymd"``, ``"dmy"`` or ``"mdy"``.
    part : str
        The part of structured text that is used, such as ``"domain"``; empty for all of it.
    calendar : bool
        Whether the position of a date in the calendar is a feature.
    since : str
        Another date column; the time since then is a feature.
    why : str
        What decided it.
    sure : bool
        Whether the column left no doubt.

    Examples
    --------
    >>> Meaning("number", decimal=",", thousands=".", unit="€").read(pl.Series(["1.234,50 €", None])).to_list()
    [1234.5, None]
    """

    kind: MeaningKind
    decimal: str = "."
    thousands: str = ","
    unit: str = ""
    order: str = "ymd"
    part: str = ""
    calendar: bool = False
    since: str = ""
    why: str = ""
    sure: bool = True

    @classmethod
    def from_dict(cls, entry: Any) -> Meaning:
        """Rebuild a meaning from `dataclasses.asdict` and JSON; raise a ValueError for anything else."""
        try:
            found = cls(**entry)
        except TypeError as error:
            raise ValueError(f"not the meaning of a column: {error}") from error
        flags = (found.calendar, found.sure)
        texts = [value for name, value in asdict(found).items() if name not in ("calendar", "sure")]
        if (
            not all(isinstance(text, str) for text in texts)
            or not all(isinstance(flag, bool) for flag in flags)
            or found.kind not in get_args(MeaningKind)
            or found.convention not in conventions()
            or found.order not in ORDERS
            or found.part not in ("", *PARTS)
        ):
            raise ValueError(f"not the meaning of a column: {str(entry)[:200]}")
        return found

    @property
    def convention(self) -> Convention:
        """The separators of a number."""
        return Convention(self.decimal, self.thousands)

    @property
    def is_used(self) -> bool:
        """Whether the column becomes features."""
        return self.kind not in _UNUSED

    def read(self, texts: pl.Series) -> pl.Series:
        """Convert text to values; text that does not have this meaning becomes null."""
        if self.kind == "filled":
            return texts if texts.dtype == pl.Boolean else texts.is_not_null()
        if self.kind == "number":
            return read_numbers(texts, self.convention, self.unit)
        if self.kind == "date":
            return read_dates(texts, self.order)
        if self.part:
            return read_part(texts, self.part)
        readers = {"time": read_times, "duration": read_durations, "flag": read_flags}
        return readers[self.kind](texts) if self.kind in readers else texts.str.strip_chars()

    def read_all(self, texts: pl.Series) -> pl.Series:
        """Like `read`, but raise a CellError for the first text that does not have this meaning."""
        return all_read(texts, self.read(texts), self.described(), self.kind)

    def described(self) -> str:
        """Return the meaning in words.

        Examples
        --------
        >>> Meaning("number", decimal=",", thousands=".", unit="€").described()
        'a number with decimal comma, in €'
        >>> Meaning("date", order="mdy").described()
        'a date, month first'
        """
        if self.kind == "number":
            words = "a number" + " with decimal comma" * (self.decimal == ",")
            return words + (f", in {self.unit}" if self.unit not in ("", "*") else "")
        if self.kind == "date":
            return f"a date, {ORDERS[self.order].replace('-', ' ')}"
        names = {"time": "a time of day", "duration": "a duration", "flag": "yes or no"}
        return names.get(self.kind, self.part or self.kind)


def all_read(texts: pl.Series, values: pl.Series, described: str, kind: str) -> pl.Series:
    """Return what was read from texts, or raise a CellError for the first text that could not be."""
    bad = values.is_null() & texts.is_not_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise CellError(
            texts.name,
            row,
            f"{shown(texts[row])} is not {described}, but the column was a {kind} column in training; "
            "fix it, or leave it empty",
            rows=tuple(bad.arg_true()),
        )
    return values
