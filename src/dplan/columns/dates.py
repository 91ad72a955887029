"""Dates and times of day, as a table has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from dplan.columns.column import Column
from dplan.columns.dated import Dated
from dplan.columns.moments import (
    DAY,
    ORDERS,
    are_compact,
    has_points,
    is_time,
    orders,
    read_any_dates,
    read_dates,
    read_times,
)
from dplan.columns.numerals import is_plain
from dplan.columns.records import Hints
from dplan.text import shown

__all__ = ["Date", "Time"]

_ORDERS = {name: order for order, name in ORDERS.items()}


@dataclass(frozen=True, kw_only=True)
class Date(Dated):
    """A date, with or without a time of day.

    Attributes
    ----------
    order : str
        Order of day, month and year as text: ``"ymd"``, ``"dmy"`` or ``"mdy"``.
    points : bool
        Whether days and months are separated by points; not stored.
    """

    words = ("date",)
    is_decided_only = False
    options = ("since=…", *_ORDERS, "calendar")
    overrules_types = True

    order: str = "ymd"
    points: bool = field(default=False, compare=False)

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        if hints.quoted and all(map(is_plain, values)):
            return None
        if are_compact(values):
            return cls(why=f"{' and '.join(map(shown, values[:2]))} are a year, month and day")
        possible = orders(values)
        return cls._ordered(values, possible, hints) if possible else None

    @classmethod
    def _ordered(cls, values: Sequence[str], possible: list[str], hints: Hints) -> Date:
        example = values[0]
        if len(possible) == 1:
            order = possible[0]
            if order != "ymd":
                example = next((v for v in values if orders([v]) == [order]), example)
            why = f"{ORDERS[order].replace('-', ' ')}, as in {shown(example)}"
            return cls(order=order, why=why, points=has_points(example))
        if re.match(r"\d{1,2}\.", example):
            why = f"day first, as in {shown(example)}: dates with points are"
            return cls(order="dmy", why=why, points=True)
        order = hints.order or "dmy"
        because = "as in other columns" if hints.order else "because nothing in the table decides"
        why = f"ambiguous: {shown(example)} is read {ORDERS[order].replace('-', ' ')}, {because}"
        return cls(order=order, why=why, sure=False)

    @classmethod
    def recognises(cls, text: str) -> bool:
        return bool(orders([text]))

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return dtype.is_temporal() and dtype != pl.Duration

    @classmethod
    def settings(cls, word: str, options: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": cls.words[0]}
        for key, value in options.items():
            if key in _ORDERS and value is True:
                found["order"] = _ORDERS[key]
            elif key == "calendar" and value is True:
                found["calendar"] = True
            elif key == "since" and isinstance(value, str):
                found["since"] = value
            else:
                super().settings(word, {key: value})
        return found

    @classmethod
    def as_given(cls, given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Column:
        dates = [value for value in values if cls.recognises(value)]
        found = cls._ordered(dates, orders(dates) or list(ORDERS)[1:], hints) if dates else cls()
        return found.with_settings(given)

    def votes(self) -> Mapping[str, str]:
        # Where 31.1. is a date, 1,5 is a number.
        comma = {"probable decimal": ","} if self.order == "dmy" and self.points else {}
        return comma | ({"order": self.order} if self.order != "ymd" else {})

    def settled(
        self, values: pl.Series, sample: Sequence[str], *, distinct: bool
    ) -> tuple[Column, pl.Series]:
        whole_days = values.dtype == pl.Datetime and (values.to_physical() % DAY == 0).all()
        return self, values.cast(pl.Date) if whole_days else values

    def described(self) -> str:
        return f"a date, {ORDERS[self.order].replace('-', ' ')}" if self.decided else super().described()

    def described_briefly(self) -> str:
        return "a date"

    def understood(self) -> str:
        return self.described().removeprefix("a ")

    def parse(self, texts: pl.Series) -> pl.Series:
        return read_dates(texts, self.order) if self.decided else read_any_dates(texts)

    def is_valid(self) -> bool:
        return super().is_valid() and self.order in ORDERS


@dataclass(frozen=True, kw_only=True)
class Time(Dated):
    """A time of day as text."""

    words = ("time",)

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        if not all(map(is_time, values)):
            return None
        return cls(why=f"{' and '.join(map(shown, values[:2]))} are times of day")

    def described(self) -> str:
        return "a time of day"

    def understood(self) -> str:
        return "time of day"

    def parse(self, texts: pl.Series) -> pl.Series:
        return read_times(texts)
